"""Detects changes, since the last inventory, of state that causes no event and is cheap to read.

sysctls, CPU masks of queues and affinities of interrupts are read (sysfs and procfs have no
modification times); of configuration files and their directories only modification times are
compared. `state_files` lists the paths for an inventory, in the process that took it; `StateFiles`
compares them while re-checks are requested.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nictop.probe.records import EventSource, Inventory, Link

    State = object

MAX_STATE_FILES = 256
"""About 2 ms, at a microsecond per system call."""
MAX_STATE_BYTES = 4096
"""Bytes of a file that are compared."""
KERNEL_ROOTS = ("/proc/", "/sys/")
CONFIGURATION_DIRECTORIES = (
    "NetworkManager/conf.d",
    "NetworkManager/system-connections",
    "modprobe.d",
    "netplan",
    "network",
    "network/interfaces.d",
    "sysconfig/network",
    "sysconfig/network-scripts",
    "systemd/network",
    "udev/rules.d",
)
"""Below /etc; their modification time changes when files are added or removed."""


def state_files(
    inventory: Inventory, sys: str = "/sys", proc: str = "/proc", etc: str = "/etc"
) -> list[str]:
    """At most `MAX_STATE_FILES` paths, the most relevant first."""
    paths: dict[str, None] = {}
    for path in _paths(inventory, sys, proc, etc):
        paths[path] = None
        if len(paths) == MAX_STATE_FILES:
            break
    return list(paths)


def _paths(inventory: Inventory, sys: str, proc: str, etc: str) -> Iterator[str]:
    from nictop.probe.inventory.machine.sysctl import SYSCTL_NAMES

    for name in SYSCTL_NAMES:
        yield os.path.join(proc, "sys", name.replace(".", "/"))
    for link in inventory.links:
        yield from _sysctl_paths(link, proc)
    for entry in inventory.configuration:
        yield entry.file
    for directory in CONFIGURATION_DIRECTORIES:
        yield os.path.join(etc, directory)
    for interrupt in inventory.interrupts:
        yield os.path.join(proc, f"irq/{interrupt.number}/smp_affinity_list")
    for link in inventory.links:
        yield from _steering_paths(link, sys)


def _sysctl_paths(link: Link, proc: str) -> Iterator[str]:
    """Settings of IPv4 of a link with addresses."""
    from nictop.probe.inventory.machine.sysctl import LINK_SYSCTL_NAMES, directory_of

    if not link.addresses:
        return
    folder = directory_of(link)
    if folder is None:
        return
    for name in LINK_SYSCTL_NAMES:
        yield os.path.join(proc, "sys/net/ipv4/conf", folder, name)


def _steering_paths(link: Link, sys: str) -> Iterator[str]:
    """RPS and XPS of the queues of a device."""
    if link.device is None:
        return
    for queue in link.queues:
        mask = "rps_cpus" if queue.direction == "rx" else "xps_cpus"
        folder = f"queues/{queue.direction}-{queue.number}"
        yield os.path.join(sys, "class/net", link.name, folder, mask)


class StateFiles:
    """The contents of files at the start of the latest inventory."""

    def __init__(self) -> None:
        self._known: dict[str, State] = {}
        self._at_start: dict[str, State] = {}

    def begin(self) -> None:
        """To be called at the start of an inventory: later changes may not be in it."""
        self._at_start = _states(self._known)

    def set_files(self, paths: Iterable[str]) -> None:
        """To be called at the end of that inventory, with its `state_files`."""
        self._known = {}
        for path in paths:
            if path in self._at_start:
                self._known[path] = self._at_start[path]
            else:
                self._known[path] = _state(path)

    def changed(self) -> EventSource:
        """What a file is about that differs from its state at the start of the inventory,
        affinities of interrupts last; "": none does."""
        found: EventSource = ""
        for path, known in self._known.items():
            state = _state(path)
            if state != known:
                found = subject_of(path)
                if found != "interrupt affinity" and _is_removed(path, state):
                    found = "device"
                if found != "interrupt affinity":
                    return found
        return found


def subject_of(path: str) -> EventSource:
    if path.endswith("/smp_affinity_list"):
        return "interrupt affinity"
    if path.endswith(("/rps_cpus", "/xps_cpus")):
        return "packet steering"
    return "sysctl" if path.startswith(KERNEL_ROOTS) else "configuration file"


def _is_removed(path: str, state: State) -> bool:
    """A setting of the kernel, which goes with the link or the queue that it is of."""
    return state in (errno.ENOENT, errno.ENODEV) and path.startswith(KERNEL_ROOTS)


def _states(paths: Iterable[str]) -> dict[str, State]:
    return {path: _state(path) for path in paths}


def _state(path: str) -> State:
    """Contents of a kernel file; modification time, size and inode of another file; the errno if it
    cannot be read."""
    try:
        if not path.startswith(KERNEL_ROOTS):
            found = os.stat(path)
            return found.st_mtime_ns, found.st_size, found.st_ino
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return os.read(descriptor, MAX_STATE_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.errno
