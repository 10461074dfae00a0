"""Which threads of this host use its CPUs while a generator runs: the generator's own and those of other processes.

Reads /proc/PID/stat of every process, and /proc/PID/task/TID/stat of the few that were busy since the reading before.
Yields what the busiest used in between. Root is not needed; with hidepid an ordinary user sees own processes only,
which is said. A reading costs some 10 µs for each process: it is done once a second, and less often where that would
take more than `MOST_CPU` of a core.
"""

from __future__ import annotations

import errno
import os
import time

from nictop.probe.kernel.cpu_columns import parse_number
from nictop.probe.kernel.open_files import OpenFileCache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INTERVAL = 1.0
"""Seconds between two readings: 100 ticks."""
MOST_CPU = 0.02
"""Share of a core that the readings may take."""
MOST_PROCESSES = 8192
MOST_OPEN = 256
"""Files that stay open between two readings, which halves their cost; the others are opened each time."""
MOST_BUSY, MOST_THREADS = 8, 128
"""Processes whose threads are read, and threads of one that are read."""
MOST_TOLD = 16
"""Threads of one reading."""
LEAST = 0.05
"""Share of a core that a process must have used to be looked at."""

STATE, SESSION, USER, SYSTEM, THREADS, STARTED, PROCESSOR = (number - 3 for number in (3, 6, 14, 15, 20, 22, 39))
"""Columns of proc(5), which counts from one; the third is the first behind the name."""


class Task:
    """One line of /proc/PID/stat or /proc/PID/task/TID/stat. Times are USER_HZ ticks."""

    def __init__(self, text: bytes) -> None:
        """Raises ValueError when columns are missing or garbled."""
        head, _, tail = text.rpartition(b")")
        words = tail.split()
        if len(words) <= PROCESSOR:
            raise ValueError(f"not a line of a process: {text[:80]!r}")
        self.name = head.partition(b"(")[2].decode("utf-8", "replace")
        self.session = parse_number(words[SESSION])
        self.user, self.system = parse_number(words[USER]), parse_number(words[SYSTEM])
        self.threads = parse_number(words[THREADS])
        self.started = parse_number(words[STARTED])
        self.processor = parse_number(words[PROCESSOR])

    @property
    def total(self) -> int:
        return self.user + self.system

    def since(self, before: Task | None) -> tuple[int, int]:
        """User and system time since an earlier line of the same task; all of it when there is none."""
        if before is None or before.started != self.started:
            return self.user, self.system
        return max(0, self.user - before.user), max(0, self.system - before.system)


class BusyThreadReader:
    """`begin` takes the first reading, every `read` what was used since the one before. `session`: id of the
    generator's session; `proc`: where procfs stands."""

    def __init__(self, session: int, proc: str = "/proc") -> None:
        self._session, self._proc = session, proc
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._files = OpenFileCache(MOST_OPEN)
        self._processes: dict[int, Task] = {}
        self._threads: dict[int, dict[int, Task]] = {}
        """Process id → its threads at the last reading."""
        self._moment = self._cost = 0.0

    @property
    def interval(self) -> float:
        """Seconds until the next reading."""
        return max(INTERVAL, self._cost / MOST_CPU)

    def begin(self) -> None:
        """What was used until now is of no interest."""
        self._moment = time.monotonic()
        self._processes = self._read_processes()[0]

    def read(self) -> tuple[float, list[dict[str, Any]], dict[str, str] | None]:
        """Seconds since the reading before, `records.BusyThread`s of the threads that used most, the first one most,
        and why some may be missing. Never raises OSError."""
        spent = time.process_time()
        now = time.monotonic()
        elapsed, self._moment = now - self._moment, now
        processes, trouble = self._read_processes()
        least = LEAST * elapsed * self._ticks
        busy = []
        for pid, task in processes.items():
            used = sum(task.since(self._processes.get(pid)))
            if used >= least:
                busy.append((used, pid))
        busy.sort(reverse=True)
        found = []
        threads: dict[int, dict[int, Task]] = {}
        for _, pid in busy[:MOST_BUSY]:
            found += self._busy(pid, processes[pid], threads)
        found.sort(key=lambda one: -(one["user"] + one["system"]))
        for pid in self._processes.keys() - processes.keys():
            self._files.drop(f"{self._proc}/{pid}/stat")
        self._processes, self._threads = processes, threads
        self._cost = time.process_time() - spent
        return elapsed, [one for one in found if one["user"] + one["system"] >= least][:MOST_TOLD], trouble

    def close(self) -> None:
        """Close what is kept open."""
        self._files.close()

    def _busy(self, pid: int, task: Task, threads: dict[int, dict[int, Task]]) -> list[dict[str, Any]]:
        """The threads of one process, or the process as a whole where they are not known."""
        before = self._processes.get(pid)
        if task.threads == 1:
            return [self._told(pid, pid, task, before, task.processor)]
        if task.threads <= MOST_THREADS:
            threads[pid] = found = self._read_threads(pid)
            known = self._threads.get(pid)
            if known is None and (before is None or before.started != task.started or not before.total):
                known = {}  # it had used nothing
            if known is not None and found:
                return [self._told(tid, pid, one, known.get(tid), one.processor) for tid, one in found.items()]
        return [self._told(pid, pid, task, before, None)]

    def _told(self, tid: int, pid: int, task: Task, before: Task | None, cpu: int | None) -> dict[str, Any]:
        user, system = task.since(before)
        generator = self._session in (pid, task.session)
        return {
            "tid": tid, "pid": pid, "name": task.name, "user": user, "system": system, "cpu": cpu,
            "generator": generator,
        }  # fmt: skip

    def _read_processes(self) -> tuple[dict[int, Task], dict[str, str] | None]:
        """Process id → its line, and why some may be missing."""
        try:
            pids = sorted(int(name) for name in os.listdir(self._proc) if name.isascii() and name.isdigit())
        except OSError as error:
            return {}, {"reason": "failed", "detail": f"{self._proc}: {error.strerror or error}"}
        trouble = None
        if pids and pids[0] != 1:
            trouble = {"reason": "needs_root", "detail": f"{self._proc}: hidepid"}
        if len(pids) > MOST_PROCESSES:
            trouble = {"reason": "failed", "detail": f"{self._proc}: more than {MOST_PROCESSES} processes"}
        found = {}
        for pid in pids[:MOST_PROCESSES]:
            try:
                found[pid] = Task(self._files.read(f"{self._proc}/{pid}/stat"))
            except OSError as error:
                if error.errno in (errno.EPERM, errno.EACCES):
                    trouble = {"reason": "needs_root", "detail": f"{self._proc}: hidepid"}
            except ValueError as error:
                trouble = {"reason": "malformed", "detail": f"{self._proc}/{pid}/stat: {error}"[:200]}
        return found, trouble

    def _read_threads(self, pid: int) -> dict[int, Task]:
        """Thread id → its line; empty when the process has ended."""
        found = {}
        try:
            names = os.listdir(f"{self._proc}/{pid}/task")
        except OSError:
            return {}
        for name in names[:MOST_THREADS]:
            try:
                found[int(name)] = Task(_content(f"{self._proc}/{pid}/task/{name}/stat"))
            except (OSError, ValueError):
                continue
        return found


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
