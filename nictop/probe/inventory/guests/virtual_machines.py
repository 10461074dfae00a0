"""Processes of virtual machines → `HostedGuest`: which tap, macvtap, function or socket belongs to
which NIC of the guest.

A NIC of the command line finds its link by the descriptor that it names (``fds=33``: what that
descriptor of the process is, see `machine.qemu`), else by the name of the tap, else by the address
that libvirt gives to a tap (that of the guest with ``fe`` in front). Links that the process has
open besides were plugged in later: of these only the link is known, as of all links and functions
of a process whose command line is not believed. Functions of VFIO are those of
the command line, and those whose group the process has open (/dev/vfio/N,
/sys/kernel/iommu_groups/N) if it is the only network function of that group.
"""

from __future__ import annotations

import glob
import os
import re

from nictop.probe.inventory.guests.qemu_command import CommandNic, QemuCommand
from nictop.probe.inventory.guests.values import MONITORS
from nictop.probe.inventory.links.reader import pci_ancestor
from nictop.probe.inventory.machine.qemu import MAX_COMMAND_BYTES, Taps, VirtualMachine, named
from nictop.probe.kernel.monitor_owners import MonitorOwners
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import read_text
from nictop.probe.records import GuestNic, HostedGuest, Link, PciFunction, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Union

    from nictop.probe.inventory.guests.other_monitors import MonitorCommand

    Command = Union[QemuCommand, MonitorCommand]

VFIO_GROUP = pattern(r"(?:/dev)?/vfio/([0-9]{1,10})", re.ASCII)
"""In a mount namespace of its own (libvirt) the path may begin at the mount."""
VDPA_DEVICE = pattern(r"(?:/dev)?/(vhost-vdpa-[0-9]{1,10})", re.ASCII)
LIBVIRT_TAP_PREFIX = "fe:"
MAX_NAME_CHARS = 128
MACVTAP_KINDS = ("macvtap", "ipvtap")


class DevicesHere:
    """Links and network functions of this host, by what finds them."""

    def __init__(self, links: Sequence[Link], functions: Iterable[PciFunction], sys: str) -> None:
        self.links = {link.ifindex: link for link in links}
        self.taps = {link.name: link.ifindex for link in links if link.kind == "tun"}
        self._by_tail: dict[str, list[int]] = {}
        for link in links:
            if link.kind == "tun" and (link.address or "").startswith(LIBVIRT_TAP_PREFIX):
                self._by_tail.setdefault(tail(link.address), []).append(link.ifindex)
        self.functions = {function.address for function in functions}
        self._groups: dict[int, list[str]] = {}
        for function in functions:
            if function.iommu_group is not None:
                self._groups.setdefault(function.iommu_group, []).append(function.address)
        self._sys = sys

    def tap_of_address(self, address: str | None) -> int | None:
        """The only tap to which libvirt has given the address of this NIC of a guest."""
        found = self._by_tail.get(tail(address), ()) if address else ()
        return found[0] if len(found) == 1 else None

    def function_of_group(self, number: int) -> str | None:
        """The network function of an IOMMU group, if it has exactly one."""
        found = self._groups.get(number, ())
        return found[0] if len(found) == 1 else None

    def function_of_vdpa(self, path: str) -> str | None:
        """Function of ``/dev/vhost-vdpa-0``: /sys/bus/vdpa/devices/vdpa0/vhost-vdpa-0."""
        match = VDPA_DEVICE.fullmatch(path)
        if match is None:
            return None
        devices = os.path.join(glob.escape(self._sys), "bus/vdpa/devices/*", match[1])
        for found in glob.glob(devices):
            return pci_ancestor(os.path.realpath(found))
        return None


def tail(address: str | None) -> str:
    """A MAC address without its first octet."""
    return (address or "").partition(":")[2]


def read_virtual_machines(
    machines: Iterable[VirtualMachine],
    processes: Mapping[int, str],
    here: DevicesHere,
    proc: str,
) -> Iterator[HostedGuest]:
    """QEMU processes (`machines`), and other monitors among all processes (pid → comm)."""
    for machine in machines:
        yield guest_of(machine, "qemu", QemuCommand(machine.command), here)
    taps, owners = Taps(here.links.values(), proc), MonitorOwners()
    for pid, comm in processes.items():
        product = MONITORS.get(comm)
        command = read_text(f"{proc}/{pid}/cmdline", MAX_COMMAND_BYTES) if product else ""
        if product and isinstance(command, str) and command:
            from nictop.probe.inventory.guests.other_monitors import MonitorCommand

            told = MonitorCommand(product, command)
            name = told.name or f"pid {pid}"
            machine = named(VirtualMachine(pid, name, command=command), owners, proc)
            if machine.doubt:
                told = MonitorCommand(product, "")
            yield guest_of(taps.of(machine), product, told, here)


def guest_of(
    machine: VirtualMachine, product: str, command: Command, here: DevicesHere
) -> HostedGuest:
    """One process, with what its command line says and what it has open."""
    nics: list[GuestNic] = []
    taken: set[int] = set()
    for told in command.nics:
        ifindex = link_of(told, machine, here, taken)
        if ifindex is not None:
            taken.add(ifindex)
        nics.append(nic_of(told, ifindex, here, machine))
    later = [here.links[number] for number in machine.links if number not in taken]
    nics += [later_nic(link, machine) for link in later]
    nics += given_nics(command, machine, here)
    links_missing = machine.unreadable.get("links")
    if machine.doubt and links_missing is None:
        why = f"its command line is not believed ({machine.name})"
        links_missing = Unreadable("failed", why)
    return HostedGuest(
        name=machine.name[:MAX_NAME_CHARS],
        kind="vm",
        product=product,
        state="running",
        id=command.id or getattr(command, "uuid", ""),
        pid=machine.pid,
        vcpus=command.vcpus,
        max_vcpus=getattr(command, "max_vcpus", None),
        nics=tuple(nics),
        source=f"/proc/{machine.pid}/cmdline",
        unreadable={} if links_missing is None else {"nics": links_missing},
    )


def link_of(
    told: CommandNic, machine: VirtualMachine, here: DevicesHere, taken: set[int]
) -> int | None:
    """ifindex of the tap or macvtap of a NIC of the command line."""
    for descriptor in told.descriptors:
        if machine.descriptors.get(descriptor) in machine.links:
            return machine.descriptors[descriptor]
    if told.backend not in ("tap", "bridge") or not machine.is_here:
        return None
    by_name = here.taps.get(told.tap_name)
    found = here.tap_of_address(told.address) if by_name is None else by_name
    is_open = found in machine.links or "links" in machine.unreadable
    return found if is_open and found not in taken else None


def nic_of(
    told: CommandNic, ifindex: int | None, here: DevicesHere, machine: VirtualMachine
) -> GuestNic:
    backend = told.backend
    if ifindex is not None:
        backend = backend_of(here.links[ifindex])
    path = vdpa_path(told, machine)
    return GuestNic(
        name=told.name,
        model=told.model,
        backend=backend,
        address=told.address,
        link=ifindex,
        target=told.tap_name or path,
        pci_address=here.function_of_vdpa(path),
        mtu=told.mtu,
        queues=told.queues,
        vhost=told.vhost,
    )


def vdpa_path(told: CommandNic, machine: VirtualMachine) -> str:
    """The socket or device of a NIC; libvirt passes a vdpa device as ``/dev/fdset/0``: then it is
    the only one that the process has open."""
    if told.backend != "vhost-vdpa" or VDPA_DEVICE.fullmatch(told.path):
        return told.path
    found = {path for path in machine.devices if VDPA_DEVICE.fullmatch(path)}
    return found.pop() if len(found) == 1 else told.path


def backend_of(link: Link) -> str:
    return "macvtap" if link.kind in MACVTAP_KINDS else "tap"


def later_nic(link: Link, machine: VirtualMachine) -> GuestNic:
    """A link that the process has open, and that its command line does not name."""
    opened = [number for number in machine.descriptors.values() if number == link.ifindex]
    return GuestNic(backend=backend_of(link), link=link.ifindex, queues=len(opened) or None)


def given_nics(command: Command, machine: VirtualMachine, here: DevicesHere) -> Iterator[GuestNic]:
    """Network functions that the guest has by VFIO."""
    given = dict.fromkeys(address for _, address in command.functions)
    names = {address: name for name, address in command.functions}
    for path in machine.devices:
        match = VFIO_GROUP.fullmatch(path)
        function = here.function_of_group(int(match[1])) if match is not None else None
        if function is not None:
            given.setdefault(function)
    for address in given:
        if address in here.functions:
            yield GuestNic(
                name=names.get(address, ""), model="vfio-pci", backend="vfio", pci_address=address
            )
