"""QEMU processes → `VirtualMachine`: the name of each virtual machine, and its open tap and macvtap
links and devices.

Reads /proc/PID/cmdline (the name: ``-name``, else Proxmox ``-id``), fd (``/dev/tapN`` is the
macvtap link with ifindex N) and fdinfo (``iff:`` names the tap link of a descriptor of
/dev/net/tun). Who runs a process that is not believed (`kernel.monitor_owners`) is in its name,
and of its command line nothing but its own name is taken. Processes that end in between are left
out; reading the descriptors of another user's process needs root, which is reported.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from nictop.probe.kernel.monitor_owners import MonitorOwners, is_inside, owner_of, shown
from nictop.probe.kernel.other_processes import read_places
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import printable_path, read_text, unreadable_from_error
from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.probe.records import Link, Unreadable

POSSIBLE_EMULATOR = pattern(r".*(?:qemu|kvm).*|ld-(?:linux|musl).*", re.DOTALL)
"""comm of processes whose command line is read: an emulator may be started by the dynamic loader or
a wrapper."""
EMULATOR = pattern(r"\.?(?:kvm|qemu|qemu-kvm|qemu-dm|qemu-system-.*|qemu:.*)", re.DOTALL)
"""comm or file name of a system emulator, not of tools and agents (qemu-img, qemu-ga).
``qemu:NAME``: set_process_name of libvirt; leading dot: a wrapped program."""
EMULATOR_ARGUMENTS = 8
"""The emulator is among the first arguments when the dynamic loader starts it."""
MAX_COMMAND_BYTES = 256 * 1024
"""The command line of a machine with a hundred disks has about 30 KiB."""
MAC_ADDRESS = pattern(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}", re.ASCII)
DESCRIPTOR = pattern(r"[0-9]{1,10}", re.ASCII)
TUN_DEVICE = "/net/tun"
MACVTAP_DEVICE = pattern(r"/dev/tap([0-9]{1,10})", re.ASCII)
NIC_DEVICE = pattern(r"(?:/dev)?/(?:vfio/[0-9]{1,10}|vhost-vdpa-[0-9]{1,10})", re.ASCII)
"""A group of VFIO, a vdpa device. In a mount namespace of its own (libvirt) the path may begin at
the mount."""
FDINFO_IFF = pattern(r"^iff:\t(.+)$", re.MULTILINE)
MAX_CLAIMED_NAME_CHARS = 64
OTHER_NAMESPACE = "in another network namespace"


@dataclass(frozen=True)
class VirtualMachine:
    """What all threads of one QEMU process have in common."""

    pid: int
    name: str
    links: tuple[int, ...] = ()
    """ifindexes in ascending order."""
    is_here: bool = True
    """The process is in this network namespace, or that is not readable."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """"links": why there are none, or some may be missing."""
    nics: dict[int, str] = field(default_factory=dict)
    """ifindex of a tap → MAC address of the guest's NIC."""
    command: str = ""
    """Its command line, arguments separated by NULs."""
    descriptors: dict[int, int] = field(default_factory=dict)
    """Descriptor → ifindex of the tap or macvtap of this namespace that it is."""
    devices: tuple[str, ...] = ()
    """Paths of its other open devices of NICs (`NIC_DEVICE`), each once."""
    doubt: str = ""
    """``run by user alice``: why its command line is not believed; "": it is."""


def read_running_machines(
    processes: Mapping[int, str], links: Iterable[Link], proc: str = "/proc"
) -> list[VirtualMachine]:
    """The machines among all processes (pid → comm)."""
    candidates = {pid: comm for pid, comm in processes.items() if POSSIBLE_EMULATOR.fullmatch(comm)}
    return read_machines(candidates, links, proc) if candidates else []


def read_machines(
    candidates: dict[int, str], links: Iterable[Link], proc: str = "/proc"
) -> list[VirtualMachine]:
    """The machines among processes (pid → comm). `links`: of this network namespace. Never raises
    OSError."""
    taps, owners = Taps(links, proc), MonitorOwners()
    machines = []
    for pid, comm in candidates.items():
        command = read_text(f"{proc}/{pid}/cmdline", MAX_COMMAND_BYTES)
        if isinstance(command, str) and command and is_emulator(comm, command):
            name = parse_name(command) or f"pid {pid}"
            machine = named(VirtualMachine(pid, name, command=command), owners, proc)
            machine = taps.of(machine)
            machines.append(replace(machine, nics=taps.nics(machine, parse_nics(machine.command))))
    return without_foreign_links(machines)


def named(machine: VirtualMachine, owners: MonitorOwners, proc: str) -> VirtualMachine:
    """The machine as it may be called: of one that is not believed the command line is left out,
    and why is before its name, so that it has that of no other, however much of it is shown."""
    try:
        owner = owner_of(machine.pid, proc)
    except OSError:  # it has ended
        return machine
    program = read_places(machine.pid, ["exe"], proc).get("exe")
    doubt = owners.doubt(owner, program, is_inside=is_inside(machine.pid, proc))
    if not doubt:
        return machine
    name = f"{doubt}: {shown(machine.name, MAX_CLAIMED_NAME_CHARS)}"
    return replace(machine, name=name, command="", doubt=doubt)


def is_emulator(comm: str, command: str) -> bool:
    """Whether a process is a system emulator, by its name or by one of its first arguments
    (separated by NULs)."""
    names = [
        arg.rpartition("/")[2]
        for arg in command.split("\0", EMULATOR_ARGUMENTS)[:EMULATOR_ARGUMENTS]
    ]
    return EMULATOR.fullmatch(comm) is not None or any(map(EMULATOR.fullmatch, names))


def without_foreign_links(machines: list[VirtualMachine]) -> list[VirtualMachine]:
    """The machines without links that belong to another network namespace.

    A descriptor has the name of its link without the namespace, and every container may have a
    ``tap0``. A process of another namespace gets a link of this one only if no other process has
    it.
    """
    users = Counter(ifindex for machine in machines for ifindex in machine.links)
    result = []
    for machine in machines:
        links = tuple(
            ifindex for ifindex in machine.links if machine.is_here or users[ifindex] == 1
        )
        complete = links == machine.links
        unreadable = (
            machine.unreadable if complete else {"links": Unreadable("missing", OTHER_NAMESPACE)}
        )
        nics = {ifindex: address for ifindex, address in machine.nics.items() if ifindex in links}
        result.append(replace(machine, links=links, unreadable=unreadable, nics=nics))
    return result


def parse_name(command: str) -> str | None:
    """Name of the machine from a command line with NULs: ``-name NAME,…`` or ``-name
    guest=NAME,…``, else ``-id N``.

    The last name counts, as for QEMU.
    """
    arguments = command.split("\0")
    name = identifier = None
    for option, value in zip(arguments, arguments[1:]):
        if option in ("-name", "--name"):
            name = guest_name(value) or name
        elif option in ("-id", "--id"):
            identifier = value or identifier
    return name or identifier


def guest_name(value: str) -> str | None:
    """The value of ``guest`` in QEMU's option syntax: the first part may omit its key; ``,,`` is a
    comma."""
    name = None
    for number, part in enumerate(value.replace(",,", "\0").split(",")):
        key, separator, text = part.replace("\0", ",").partition("=")
        if number == 0 and not separator:
            name = key
        elif key == "guest":
            name = text
    return name or None


def parse_nics(command: str) -> dict[str, str]:
    """Name of a tap → MAC address of the guest's NIC, lower case, from a command line with NULs:
    ``-netdev tap,id=net0,ifname=tap100i0`` and ``-device virtio-net-pci,netdev=net0,mac=…``, in
    option syntax or JSON."""
    arguments = command.split("\0")
    taps: dict[str, str] = {}
    addresses: dict[str, str] = {}
    for option, value in zip(arguments, arguments[1:]):
        if option in ("-netdev", "--netdev", "-device", "--device"):
            found = parse_options(value)
            if option.endswith("netdev"):
                taps[found.get("id", "")] = found.get("ifname", "")
            elif "netdev" in found and MAC_ADDRESS.fullmatch(found.get("mac", "").lower()):
                addresses[found["netdev"]] = found["mac"].lower()
    return {taps[name]: address for name, address in addresses.items() if taps.get(name)}


def parse_options(value: str) -> dict[str, str]:
    """Keys with texts as values, of QEMU's option syntax (``,,`` is a comma) or a JSON object; {}
    for anything else."""
    if value.startswith("{"):
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            return {}
        return {key: text for key, text in decoded.items() if isinstance(text, str)}
    parts = (
        part.replace("\0", ",").partition("=") for part in value.replace(",,", "\0").split(",")
    )
    return {key: text for key, _, text in parts}


class Taps:
    """Finds tap and macvtap links by the descriptors of a process."""

    def __init__(self, links: Iterable[Link], proc: str) -> None:
        links = tuple(links)
        self._taps = {link.name: link.ifindex for link in links if link.kind == "tun"}
        self._macvtaps = {link.ifindex for link in links if link.kind in ("macvtap", "ipvtap")}
        self._proc = proc
        self._namespace = namespace_of("self", proc)

    def of(self, machine: VirtualMachine) -> VirtualMachine:
        """The machine with its links."""
        path = f"{self._proc}/{machine.pid}/fd"
        try:
            descriptors = [name for name in os.listdir(path) if DESCRIPTOR.fullmatch(name)]
        except OSError as error:
            return replace(
                machine, unreadable={"links": unreadable_from_error(error, printable_path(path))}
            )
        found: dict[int, int] = {}
        devices: dict[str, None] = {}
        foreign = set()
        for descriptor, name, ifindex in self._open_devices(machine.pid, descriptors):
            if ifindex is not None:
                found[descriptor] = ifindex
            elif NIC_DEVICE.fullmatch(name):
                devices[name] = None
            else:
                foreign.add(name)
        unreadable = {
            "links": Unreadable("missing", f"{', '.join(sorted(foreign))}: {OTHER_NAMESPACE}")
        }
        return replace(
            machine,
            links=tuple(sorted(set(found.values()))),
            descriptors=found,
            devices=tuple(devices),
            is_here=namespace_of(machine.pid, self._proc) in (None, self._namespace),
            unreadable=unreadable if foreign else {},
        )

    def nics(self, machine: VirtualMachine, addresses: dict[str, str]) -> dict[int, str]:
        """MAC addresses by the ifindex of taps that the machine has open."""
        found = {
            self._taps[name]: address for name, address in addresses.items() if name in self._taps
        }
        return {ifindex: address for ifindex, address in found.items() if ifindex in machine.links}

    def _open_devices(
        self, pid: int, descriptors: list[str]
    ) -> Iterator[tuple[int, str, int | None]]:
        """(descriptor, name, ifindex or None when it is not in this namespace) of each open tap,
        and (descriptor, path, None) of other devices of NICs."""
        targets = read_places(pid, [f"fd/{number}" for number in descriptors], self._proc)
        for place, path in targets.items():
            target, descriptor = printable_path(path), int(place[len("fd/") :])
            match = MACVTAP_DEVICE.fullmatch(target)
            if match:
                ifindex = int(match[1])
                yield descriptor, f"tap{ifindex}", ifindex if ifindex in self._macvtaps else None
            elif NIC_DEVICE.fullmatch(target):
                yield descriptor, target, None
            elif target.endswith(TUN_DEVICE):
                information = place.replace("fd/", "fdinfo/")
                name = parse_tap(read_places(pid, [information], self._proc).get(information, ""))
                if name is not None:
                    yield descriptor, name, self._taps.get(name)


def namespace_of(process: int | str, proc: str) -> str | None:
    """``net:[4026531833]``; None when it may not be read. `process`: a pid, or "self"."""
    if process != "self":
        return read_places(int(process), ["ns/net"], proc).get("ns/net")
    try:
        return os.readlink(f"{proc}/self/ns/net")
    except OSError:
        return None


def parse_tap(content: str) -> str | None:
    """Name of the link of a descriptor of /dev/net/tun (``iff:`` in fdinfo); None: not attached."""
    match = FDINFO_IFF.search(content)
    return match[1] if match else None
