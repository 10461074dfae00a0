"""States that change without an event and are cheap to read: has one of them changed since the last inventory?

sysctls, CPU masks of queues and affinities of interrupts are read (sysfs and procfs tell no change times); of
configuration files and their directories only the change times are looked at. Which files that are, `state_files` draws
from an inventory, in the process that took it; `StateFiles` watches them, while the watching side has findings.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nictop.probe.records import Inventory

    State = object

MOST_FILES = 256
"""Some 2 ms, where a system call takes a microsecond."""
LARGEST_STATE = 4096
"""Bytes of a file that are compared."""
KERNEL = ("/proc/", "/sys/")
DIRECTORIES = (
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
"""Below /etc: a file comes or goes."""


def state_files(inventory: Inventory, sys: str = "/sys", proc: str = "/proc", etc: str = "/etc") -> list[str]:
    """Paths, at most `MOST_FILES`, the more telling first."""
    paths: dict[str, None] = {}
    for path in _paths(inventory, sys, proc, etc):
        paths[path] = None
        if len(paths) == MOST_FILES:
            break
    return list(paths)


def _paths(inventory: Inventory, sys: str, proc: str, etc: str) -> Iterator[str]:
    from nictop.probe.inventory.machine.sysctl import LINK_NAMES, NAMES, directory_of

    for name in NAMES:
        yield os.path.join(proc, "sys", name.replace(".", "/"))
    for link in inventory.links:
        folder = directory_of(link) if link.addresses else None
        if folder is not None:
            for name in LINK_NAMES:
                yield os.path.join(proc, "sys/net/ipv4/conf", folder, name)
    for entry in inventory.configuration:
        yield entry.file
    for directory in DIRECTORIES:
        yield os.path.join(etc, directory)
    for interrupt in inventory.interrupts:
        yield os.path.join(proc, f"irq/{interrupt.number}/smp_affinity_list")
    for link in inventory.links:
        for queue in link.queues if link.device is not None else ():
            mask = "rps_cpus" if queue.direction == "rx" else "xps_cpus"
            yield os.path.join(sys, "class/net", link.name, f"queues/{queue.direction}-{queue.number}", mask)


class StateFiles:
    """What the files held when the newest inventory was begun."""

    def __init__(self) -> None:
        self._known: dict[str, State] = {}
        self._begun: dict[str, State] = {}

    def begin(self) -> None:
        """An inventory is about to be taken: what changes from now on may not be in it."""
        self._begun = _states(self._known)

    def learn(self, paths: Iterable[str]) -> None:
        """It has been taken, and these are the files that matter now."""
        self._known = {path: self._begun[path] if path in self._begun else _state(path) for path in paths}

    def have_changed(self) -> bool:
        """One of them is another one than when the inventory was begun."""
        return any(_state(path) != known for path, known in self._known.items())


def _states(paths: Iterable[str]) -> dict[str, State]:
    return {path: _state(path) for path in paths}


def _state(path: str) -> State:
    """Contents, or change time and size; the error where there are none."""
    try:
        if not path.startswith(KERNEL):
            found = os.stat(path)
            return found.st_mtime_ns, found.st_size, found.st_ino
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return os.read(descriptor, LARGEST_STATE)
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.errno
