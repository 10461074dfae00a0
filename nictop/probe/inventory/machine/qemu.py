"""QEMU processes: the name of each virtual machine, and the tap and macvtap links it has open.

Reads /proc/PID/cmdline (the name: ``-name``, else Proxmox ``-id``), fd (``/dev/tapN`` is the macvtap link with ifindex
N) and fdinfo (``iff:`` names the tap link of a descriptor of /dev/net/tun). Yields `VirtualMachine` records. What has
ended meanwhile is left out; descriptors of another user's process need root, which is said.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import printable, read_text, why_unreadable
from nictop.probe.records import Link, Unreadable

CANDIDATE = pattern(r".*(?:qemu|kvm).*|ld-(?:linux|musl).*", re.DOTALL)
"""comm worth a look at the command line: an emulator may be started through the dynamic loader or a wrapper."""
EMULATOR = pattern(r"\.?(?:kvm|qemu|qemu-kvm|qemu-dm|qemu-system-.*|qemu:.*)", re.DOTALL)
"""comm or file name of a system emulator, not of its tools and agents (qemu-img, qemu-ga); ``qemu:NAME`` is libvirt's
set_process_name, the dot that of a wrapped program."""
FIRST_ARGUMENTS = 8
"""The emulator is among them when the dynamic loader starts it."""
LARGEST_COMMAND = 256 * 1024
"""Bytes. A machine with a hundred disks has a command line of about 30 KiB."""
NUMBER = pattern(r"[0-9]{1,10}", re.ASCII)
TUN = "/net/tun"
MACVTAP = pattern(r"/dev/tap([0-9]{1,10})", re.ASCII)
IFF = pattern(r"^iff:\t(.+)$", re.MULTILINE)
ELSEWHERE = "in another network namespace"


@dataclass(frozen=True)
class VirtualMachine:
    """What all threads of one QEMU process share."""

    pid: int
    name: str
    links: tuple[int, ...] = ()
    """ifindexes in order."""
    is_here: bool = True
    """The process is in this network namespace, as far as one can tell."""
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """"links": why there are none, or may be more."""


def read_machines(candidates: dict[int, str], links: Iterable[Link], proc: str = "/proc") -> list[VirtualMachine]:
    """The machines among processes (pid → comm). `links` are those of this network namespace. Never raises OSError."""
    taps = Taps(links, proc)
    machines = []
    for pid, comm in candidates.items():
        command = read_text(f"{proc}/{pid}/cmdline", LARGEST_COMMAND)
        if isinstance(command, str) and command and is_emulator(comm, command):
            machines.append(taps.of(VirtualMachine(pid, parse_name(command) or f"pid {pid}")))
    return settle(machines)


def is_emulator(comm: str, command: str) -> bool:
    """A system emulator, by its own name or by one of the first arguments (separated by NULs)."""
    names = [argument.rpartition("/")[2] for argument in command.split("\0", FIRST_ARGUMENTS)[:FIRST_ARGUMENTS]]
    return EMULATOR.fullmatch(comm) is not None or any(map(EMULATOR.fullmatch, names))


def settle(machines: list[VirtualMachine]) -> list[VirtualMachine]:
    """Machines without links that are somebody else's.

    A descriptor says the link's name, not its namespace, and every container may have a ``tap0``. A process of another
    namespace has one of our links only when nobody else claims it.
    """
    claims = Counter(ifindex for machine in machines for ifindex in machine.links)
    settled = []
    for machine in machines:
        links = tuple(ifindex for ifindex in machine.links if machine.is_here or claims[ifindex] == 1)
        unreadable = machine.unreadable if links == machine.links else {"links": Unreadable("missing", ELSEWHERE)}
        settled.append(replace(machine, links=links, unreadable=unreadable))
    return settled


def parse_name(command: str) -> str | None:
    """Name of the machine from a command line with NULs: ``-name NAME,…`` or ``-name guest=NAME,…``, else ``-id N``.

    Of two names the last one counts, as it does for QEMU.
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
    """The value of ``guest`` in QEMU's option syntax: the first part may stand without its key, ``,,`` is a comma."""
    name = None
    for number, part in enumerate(value.replace(",,", "\0").split(",")):
        key, separator, text = part.replace("\0", ",").partition("=")
        if number == 0 and not separator:
            name = key
        elif key == "guest":
            name = text
    return name or None


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
            descriptors = [name for name in os.listdir(path) if NUMBER.fullmatch(name)]
        except OSError as error:
            return replace(machine, unreadable={"links": why_unreadable(error, printable(path))})
        found, elsewhere = set(), set()
        for name, ifindex in self._open_links(machine.pid, descriptors):
            if ifindex is None:
                elsewhere.add(name)
            else:
                found.add(ifindex)
        unreadable = {"links": Unreadable("missing", f"{', '.join(sorted(elsewhere))}: {ELSEWHERE}")}
        return replace(
            machine,
            links=tuple(sorted(found)),
            is_here=namespace_of(machine.pid, self._proc) in (None, self._namespace),
            unreadable=unreadable if elsewhere else {},
        )

    def _open_links(self, pid: int, descriptors: list[str]) -> Iterator[tuple[str, int | None]]:
        """(name, ifindex or None when it is none of this namespace's) of each open tap."""
        for number in descriptors:
            target = ""
            with contextlib.suppress(OSError):  # closed meanwhile
                target = printable(os.readlink(f"{self._proc}/{pid}/fd/{number}"))
            match = MACVTAP.fullmatch(target)
            if match:
                ifindex = int(match[1])
                yield f"tap{ifindex}", ifindex if ifindex in self._macvtaps else None
            elif target.endswith(TUN):
                content = read_text(f"{self._proc}/{pid}/fdinfo/{number}")
                name = parse_tap(content) if isinstance(content, str) else None
                if name is not None:
                    yield name, self._taps.get(name)


def namespace_of(process: int | str, proc: str) -> str | None:
    """``net:[4026531833]``; None when it may not be asked."""
    try:
        return os.readlink(f"{proc}/{process}/ns/net")
    except OSError:
        return None


def parse_tap(content: str) -> str | None:
    """Name of the link that a descriptor of /dev/net/tun is attached to: ``iff:`` in fdinfo; None: to none."""
    match = IFF.search(content)
    return match[1] if match else None
