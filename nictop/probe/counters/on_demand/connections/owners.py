"""Which process has a socket open, and its control group: /proc/PID/fd, /proc/PID/comm,
/proc/PID/cgroup.

Only sockets that are shown are searched for, in slices of `SLICE_SECONDS` per call: first in the
processes of their control group, then in all others. What was found is checked with one readlink()
per call. Root is needed for the processes of other users; the control group of a socket itself
(Linux 5.8, control groups v2) needs no rights.
"""

from __future__ import annotations

import os
import time

from nictop.probe.kernel.other_processes import own_cpu_share, read_places
from nictop.probe.traffic.sock_diag import parse_socket_link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Socket = tuple[int, int]

SLICE_SECONDS = 0.01
"""CPU seconds of one call that are used for the search, those of the helper included."""
DESCRIPTORS_PER_STEP = 64
"""Descriptors that are read between two looks at the clock."""
MAX_FOUND = 65536
"""Sockets of which the descriptor is remembered."""
MAX_CGROUPS = 4096
"""Directories of control groups that are searched."""
CGROUPS_SECONDS = 10.0
"""Between two searches for unknown control groups."""
MAX_TEXT_BYTES = 4096


class SocketOwners:
    """`proc`, `cgroups`: where procfs and control groups v2 are mounted."""

    def __init__(self, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> None:
        self._proc = proc
        unified = cgroups + "/unified"
        self._cgroups = unified if os.path.isdir(unified) else cgroups
        self._descriptors: dict[int, tuple[int, str]] = {}
        """Inode → process, and a link below /proc/PID that led to it: ``fd/3``."""
        self._without: set[int] = set()
        """Inodes that no process has open that may be read."""
        self._search: Iterator[None] | None = None
        self._searched: set[int] = set()
        """Inodes that were searched from the beginning of `_search`."""
        self._groups: dict[int, str] = {}
        """Id of a control group → path below the mount point."""
        self._groups_due = 0.0
        self.denied = False
        """Processes of other users could not be read."""

    def find(
        self, sockets: Iterable[Socket], now: float
    ) -> tuple[dict[int, dict[str, object]], bool]:
        """(inode → "pid", "process" and "cgroup" as in `records.Connection`, as far as known;
        whether the search is complete). `sockets`: (inode, id of the control group or 0); `now`:
        seconds, CLOCK_MONOTONIC. Never raises OSError."""
        wanted = {inode: group for inode, group in sockets if inode}
        self._without &= wanted.keys()
        open_here = self._known_pids(wanted)
        missing = {inode for inode, pid in open_here.items() if not pid} - self._without
        if missing:
            self._find_groups(wanted.values(), now)
            self._continue(missing, wanted)
            open_here.update(self._known_pids(missing))
        processes = {pid: self._read_process(pid) for pid in set(open_here.values()) if pid}
        found: dict[int, dict[str, object]] = {}
        for inode, pid in open_here.items():
            fields = dict(processes[pid], pid=pid) if pid else {}
            if "cgroup" not in fields and wanted[inode] in self._groups:
                fields["cgroup"] = self._groups[wanted[inode]]
            found[inode] = fields
        return found, all(pid or inode in self._without for inode, pid in open_here.items())

    def _known_pids(self, inodes: Iterable[int]) -> dict[int, int]:
        """Inode → the process that has it open; 0: not found, or no longer."""
        found = dict.fromkeys(inodes, 0)
        by_process: dict[int, dict[str, int]] = {}
        for inode in found:
            if inode in self._descriptors:
                pid, place = self._descriptors[inode]
                by_process.setdefault(pid, {})[place] = inode
        for pid, places in by_process.items():
            targets = read_places(pid, list(places), self._proc)
            for place, inode in places.items():
                if parse_socket_link(targets.get(place, "")) == inode:
                    found[inode] = pid
                else:
                    del self._descriptors[inode]  # closed, or the process has ended
        return found

    def _continue(self, missing: set[int], wanted: dict[int, int]) -> None:
        """Search for `SLICE_SECONDS`, or until all that are missing are found."""
        end = time.process_time() + SLICE_SECONDS * own_cpu_share()
        while True:
            if self._search is None:
                self.denied = False
                self._searched = set(missing)
                self._search = self._steps({wanted[inode] for inode in missing})
            for _ in self._search:
                if self._descriptors.keys() >= missing:
                    return
                if time.process_time() >= end:
                    return
            self._search = None
            self._without |= self._searched - self._descriptors.keys()
            missing = missing - self._without - self._descriptors.keys()
            if not missing or time.process_time() >= end:
                return

    def _steps(self, groups: set[int]) -> Iterator[None]:
        """Read the descriptors of all processes, those of these control groups first, in small
        steps."""
        seen = set()
        for pid in self._pids(groups):
            if pid in seen:
                continue
            seen.add(pid)
            folder = f"{self._proc}/{pid}/fd"
            try:
                names = os.listdir(folder)
            except PermissionError:
                self.denied = True
                names = []
            except OSError:
                names = []  # it has ended
            for first in range(0, max(len(names), 1), DESCRIPTORS_PER_STEP):
                places = [f"fd/{name}" for name in names[first : first + DESCRIPTORS_PER_STEP]]
                for place, target in read_places(int(pid), places, self._proc).items():
                    inode = parse_socket_link(target)
                    if inode:
                        self._remember(inode, int(pid), place)
                yield

    def _remember(self, inode: int, pid: int, place: str) -> None:
        if len(self._descriptors) >= MAX_FOUND:
            self._descriptors.clear()
        self._descriptors[inode] = pid, place

    def _pids(self, groups: set[int]) -> Iterator[str]:
        for group in groups:
            path = self._groups.get(group)
            if path and path != "/":
                for pid in _read(f"{self._cgroups}{path}/cgroup.procs").split():
                    if pid.isdigit():
                        yield pid
        try:
            pids = [name for name in os.listdir(self._proc) if name.isdigit()]
        except OSError:
            self.denied = True
            return
        if pids and "1" not in pids:
            self.denied = True  # hidepid
        for pid in pids:
            yield pid

    def _read_process(self, pid: int) -> dict[str, object]:
        name = _read(f"{self._proc}/{pid}/comm").rstrip("\n")
        if not name:
            return {}
        path = parse_cgroup(_read(f"{self._proc}/{pid}/cgroup"))
        return {"process": name, "cgroup": path} if path else {"process": name}

    def _find_groups(self, ids: Iterable[int], now: float) -> None:
        """Find the directories of unknown control groups: their inode number is the id."""
        if now < self._groups_due or all(not one or one in self._groups for one in ids):
            return
        self._groups_due = now + CGROUPS_SECONDS
        found: dict[int, str] = {}
        try:
            found[os.stat(self._cgroups).st_ino] = "/"
        except OSError:
            return
        folders = [""]
        while folders and len(found) < MAX_CGROUPS:
            folder = folders.pop()
            try:
                with os.scandir(self._cgroups + folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            path = f"{folder}/{entry.name}"
                            found[entry.inode()] = path
                            folders.append(path)
            except OSError:
                continue  # removed meanwhile
        self._groups = found


def parse_cgroup(text: str) -> str:
    """Path of the control group of a process from /proc/PID/cgroup (cgroups(7)): v2 (``0::/path``),
    else that of systemd's own hierarchy; "" if there is none."""
    paths = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        paths["" if number == "0" else controllers] = path
    unified = paths.get("", "")
    return unified if unified not in ("", "/") else paths.get("name=systemd", unified)


def _read(path: str) -> str:
    """Text of a small file; "" when it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, MAX_TEXT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
