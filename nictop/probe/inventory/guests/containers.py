"""Containers and network namespaces → `HostedGuest`: who is in each namespace that a link of this
one leads to, and which links are in it.

Only namespaces that have an id here (`namespaces`): a process without network, as of a service with
PrivateNetwork=yes, is no guest. A namespace is called after the container in whose cgroup one of
its processes is (`container_names`), else after /run/systemd/machines (LEADER), else after its name
in /run/netns, else after its first process. That of process 1 is the host's own, if nictop runs in
another one.
"""

from __future__ import annotations

import os

from nictop.probe.inventory.configuration.ifupdown import parse_assignments
from nictop.probe.inventory.guests import namespaces
from nictop.probe.inventory.guests.container_names import Cgroup, ContainerNames, parse_cgroup
from nictop.probe.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from nictop.probe.kernel.sysfs import printable_path, read_text, unreadable_from_error
from nictop.probe.records import GuestNic, HostedGuest, Link, PciFunction, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nictop.probe.inventory.collect import InventoryRoots
    from nictop.probe.inventory.configuration.files import Files
    from nictop.probe.records import Address

MAX_CONTAINERS = 512
"""Namespaces that are described; some 200 µs of CPU time each."""
MAX_NAMING_PROCESSES = 8
"""Of one namespace, whose cgroups are read to name it."""
LOOPBACK_TYPE = 772
"""ARPHRD_LOOPBACK"""
LAYERED_KINDS = ("macvlan", "macvtap", "ipvlan", "ipvtap", "vlan")
"""Kinds of links in a namespace that have their lower link in this one."""


def read_containers(
    processes: Mapping[int, str],
    links: Sequence[Link],
    functions: Iterable[PciFunction],
    files: Files,
    roots: InventoryRoots,
) -> tuple[list[HostedGuest], Unreadable | None]:
    """(Containers, why some may be missing). `processes`: pid → comm. Never raises OSError."""
    try:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            return ContainerReader(netlink, links, functions, files, roots).read(processes)
    except OSError as error:
        return [], unreadable_from_error(error, "network namespaces")


class ContainerReader:
    """One pass over all namespaces with an id."""

    def __init__(
        self,
        netlink: NetlinkSocket,
        links: Sequence[Link],
        functions: Iterable[PciFunction],
        files: Files,
        roots: InventoryRoots,
    ) -> None:
        self._netlink, self._files = netlink, files
        self._proc, self._run = roots.proc, roots.run
        self._links = links
        self._functions = {function.address for function in functions}
        self._names = ContainerNames(files, roots.var)
        self._own: int | None = None
        """Id of this namespace here, if it has one."""
        self._machines: dict[str, str] | None = None
        """Of systemd-machined; None: not read yet."""
        self._trouble: Unreadable | None = None
        self._refused: Unreadable | None = None
        """Why no namespace can be described."""

    def read(self, processes: Mapping[int, str]) -> tuple[list[HostedGuest], Unreadable | None]:
        """Raises OSError."""
        ids = namespaces.read_ids(self._netlink)
        if not ids:
            return [], None
        members = self._members(processes)
        named = self._named(ids)
        numbers = sorted((members.keys() | named.keys()) & ids)
        found = []
        for number in numbers[:MAX_CONTAINERS]:
            pids = members.get(number, [])
            if number != self._own and 1 not in pids:
                found.append(self._guest(number, pids, named.get(number, ""), processes))
        if len(numbers) > MAX_CONTAINERS:
            self._trouble = Unreadable("failed", f"more than {MAX_CONTAINERS} network namespaces")
        return found, self._trouble

    def _members(self, processes: Mapping[int, str]) -> dict[int, list[int]]:
        """Id of a namespace → its first processes by pid."""
        pids = list(processes)
        if len(pids) > namespaces.MAX_ASKED_PROCESSES:
            self._trouble = Unreadable(
                "failed", f"more than {namespaces.MAX_ASKED_PROCESSES} processes"
            )
        found: dict[int, list[int]] = {}
        asked = [os.getpid(), *pids[: namespaces.MAX_ASKED_PROCESSES]]
        for pid, number in namespaces.ids_of_processes(self._netlink, asked):
            if pid == asked[0]:
                self._own = number
            members = found.setdefault(number, [])
            if len(members) < MAX_NAMING_PROCESSES:
                members.append(pid)
        return found

    def _named(self, ids: set[int]) -> dict[int, str]:
        """Id → name in /run/netns (ip-netns(8)); names of CNI and Podman are ids."""
        found: dict[int, str] = {}
        paths = self._files.listed(os.path.join(self._run, "netns"))
        for path in paths[: namespaces.MAX_NAMED_NAMESPACES]:
            try:
                number = namespaces.id_of_file(self._netlink, path)
            except OSError:
                continue  # a file that is no namespace, or of another user
            if number in ids and number is not None:
                found.setdefault(number, printable_path(os.path.basename(path)))
        return found

    def _guest(
        self, number: int, pids: list[int], named: str, processes: Mapping[int, str]
    ) -> HostedGuest:
        leader, cgroup = self._leader(pids)
        unreadable: dict[str, Unreadable] = {}
        nics = self._nics(number, unreadable)
        product, name, id, source = self._identity(leader, cgroup, named, processes)
        return HostedGuest(
            name=name,
            kind="namespace" if product == "netns" else "container",
            product=product,
            state="running",
            id=id,
            pid=leader,
            nics=nics,
            namespace=number,
            source=source,
            unreadable=unreadable,
        )

    def _leader(self, pids: list[int]) -> tuple[int | None, Cgroup | None]:
        """The first process that a cgroup names, else the first one."""
        for pid in pids:
            text = read_text(f"{self._proc}/{pid}/cgroup")
            found = parse_cgroup(text) if isinstance(text, str) else None
            if found is not None:
                return pid, found
        return (pids[0] if pids else None), None

    def _identity(
        self, leader: int | None, cgroup: Cgroup | None, named: str, processes: Mapping[int, str]
    ) -> tuple[str, str, str, str]:
        """(Product, name, id, source)."""
        if cgroup is not None:
            product, name = self._names.name(cgroup)
            return product, name, "" if cgroup.user else cgroup.id, f"/proc/{leader}/cgroup"
        machine = self._machine_of(leader)
        if machine:
            return "nspawn", machine, machine, f"{self._run}/systemd/machines/{machine}"
        if named:
            return "netns", named, "", f"{self._run}/netns/{named}"
        comm = processes.get(leader or 0, "")
        return "netns", f"{comm} (pid {leader})", "", f"/proc/{leader}"

    def _machine_of(self, leader: int | None) -> str:
        """Name of the machine of systemd-machined whose first process this is; "": none."""
        if self._machines is None:
            self._machines = dict(self._read_machines())
        return self._machines.get(str(leader), "")

    def _read_machines(self) -> Iterator[tuple[str, str]]:
        """(Pid of the first process, name) of the containers of systemd-machined."""
        paths = self._files.listed(os.path.join(self._run, "systemd/machines"))
        for path in paths[:MAX_CONTAINERS]:
            told = parse_assignments(self._files.text(path) or "")
            if told.get("CLASS") != "vm":
                yield told.get("LEADER", ""), printable_path(os.path.basename(path))

    def _nics(self, number: int, unreadable: dict[str, Unreadable]) -> tuple[GuestNic, ...]:
        """The links in it; without the right to ask, the veths of this namespace that lead to
        it."""
        veths = {
            link.lower or link.ifindex: link  # none: it has the same number there
            for link in self._links
            if link.kind == "veth" and link.lower_namespace == number
        }
        if self._refused is None:
            try:
                return self._links_inside(number, veths)
            except PermissionError as error:
                self._refused = unreadable_from_error(error, "RTM_GETLINK, IFLA_TARGET_NETNSID")
            except OSError as error:  # it has ended, or a kernel before Linux 4.16
                unreadable["nics"] = unreadable_from_error(error, "RTM_GETLINK")
        if self._refused is not None:
            unreadable["nics"] = self._refused
        return tuple(GuestNic(backend="veth", link=link.ifindex) for link in veths.values())

    def _links_inside(self, number: int, veths: Mapping[int, Link]) -> tuple[GuestNic, ...]:
        """Raises OSError."""
        inside = namespaces.read_links_inside(self._netlink, number)
        if self._own is None:  # the first link that leads here has given it an id
            for _, own in namespaces.ids_of_processes(self._netlink, [os.getpid()]):
                self._own = own
        addresses = namespaces.read_addresses_inside(self._netlink, number)
        return tuple(
            self._nic(link, veths, addresses.get(link.ifindex, []))
            for link in inside
            if link.type != LOOPBACK_TYPE
        )

    def _nic(self, link: Link, veths: Mapping[int, Link], addresses: Iterable[Address]) -> GuestNic:
        peer = veths.get(link.ifindex) if link.kind == "veth" else None
        is_ours = link.device in self._functions and link.bus == "pci"
        leads_here = link.lower_namespace is not None and link.lower_namespace == self._own
        return GuestNic(
            name=link.name,
            backend=link.kind or "physical",
            address=link.address,
            link=peer.ifindex if peer is not None else None,
            lower=link.lower if leads_here and link.kind in LAYERED_KINDS else None,
            pci_address=link.device if is_ours else None,
            mtu=link.mtu,
            addresses=tuple(f"{one.address}/{one.prefix_length}" for one in addresses),
        )
