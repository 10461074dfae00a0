"""Which threads use the CPUs of this host while a generator runs: the generator's own and those of
other processes.

Reads /proc/PID/stat of every process, and /proc/PID/task/TID/stat of the few that were busy since
the last reading. Yields the CPU time that the busiest threads used in between. Root is not needed;
with hidepid other users' processes are invisible, which is reported. A reading costs about 10 µs
for each process; it is repeated every second, or less often so that it uses at most `MAX_CPU_SHARE`
of a core.
"""

from __future__ import annotations

import errno
import os
import time

from nictop.probe.counters.threads import STAT_PROCESSOR, STAT_STARTTIME, STAT_STIME, STAT_UTIME
from nictop.probe.kernel.backports import is_ascii
from nictop.probe.kernel.cpu_columns import parse_count
from nictop.probe.kernel.open_files import OpenFileCache
from nictop.probe.kernel.own_process import probe_pids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MIN_READ_SECONDS = 1.0
"""Seconds between two readings: 100 ticks."""
MAX_CPU_SHARE = 0.02
"""Share of a core that the readings may use."""
MAX_PROCESSES = 8192
MAX_OPEN_FILES = 256
"""Files kept open between readings, which halves their cost; others are opened each time."""
MAX_BUSY_PROCESSES, MAX_THREADS_PER_PROCESS = 8, 128
"""Processes whose threads are read, and threads of one process that are read."""
MAX_REPORTED_THREADS = 16
"""Threads in one result."""
MIN_BUSY_SHARE = 0.05
"""Share of a core that a process or thread must have used to be reported."""

STAT_PARENT, STAT_SESSION, STAT_NUM_THREADS = 4 - 3, 6 - 3, 20 - 3
"""Index after the name of ppid, session and num_threads, fields 4, 6 and 20 of proc_pid_stat(5)."""


class Task:
    """One /proc/PID/stat or /proc/PID/task/TID/stat. Times are USER_HZ ticks."""

    def __init__(self, text: bytes) -> None:
        """Raises ValueError when fields are missing or malformed."""
        head, _, tail = text.rpartition(b")")
        words = tail.split()
        if len(words) <= STAT_PROCESSOR:
            raise ValueError(f"not a line of a process: {text[:80]!r}")
        self.name = head.partition(b"(")[2].decode("utf-8", "replace")
        self.parent = parse_count(words[STAT_PARENT])
        self.session = parse_count(words[STAT_SESSION])
        self.user, self.system = parse_count(words[STAT_UTIME]), parse_count(words[STAT_STIME])
        self.threads = parse_count(words[STAT_NUM_THREADS])
        self.started = parse_count(words[STAT_STARTTIME])
        self.processor = parse_count(words[STAT_PROCESSOR])
        self.read_at = time.monotonic()

    @property
    def total(self) -> int:
        """User and system time."""
        return self.user + self.system

    def used_since(self, before: Task | None) -> tuple[int, int]:
        """(user, system) time since an earlier reading of the same task; all of it without one."""
        if before is None or before.started != self.started:
            return self.user, self.system
        return max(0, self.user - before.user), max(0, self.system - before.system)


class BusyThreadReader:
    """`begin` takes the first reading; each `read` returns what was used since the last one.
    `session`: session id of the generator; `proc`: where procfs is mounted."""

    def __init__(self, session: int, proc: str = "/proc") -> None:
        self._session, self._proc = session, proc
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._files = OpenFileCache(MAX_OPEN_FILES)
        self._processes: dict[int, Task] = {}
        self._threads: dict[int, dict[int, Task]] = {}
        """Process id → its threads at the last reading."""
        self._last_read = self._since = self._read_cost = 0.0
        """Start of the last reading; of the one before it, while one is taken; CPU time of one."""

    @property
    def interval(self) -> float:
        """Seconds until the next reading."""
        return max(MIN_READ_SECONDS, self._read_cost / MAX_CPU_SHARE)

    def begin(self) -> None:
        """Take the first reading."""
        self._last_read = time.monotonic()
        self._processes = self._read_processes()[0]

    def read(self) -> tuple[float, list[dict[str, Any]], dict[str, str] | None]:
        """(seconds since the last reading, fields of the `records.BusyThread`s that used most,
        sorted by CPU time, fields of `records.Unreadable` when some may be missing). Never raises
        OSError."""
        cpu_before = time.process_time()
        now = time.monotonic()
        elapsed, self._since, self._last_read = now - self._last_read, self._last_read, now
        processes, unreadable = self._read_processes()
        min_ticks = MIN_BUSY_SHARE * elapsed * self._ticks
        busy = []
        for pid, task in processes.items():
            used = sum(task.used_since(self._processes.get(pid)))
            if used >= min_ticks:
                busy.append((used, pid))
        busy.sort(reverse=True)
        records = []
        threads: dict[int, dict[int, Task]] = {}
        for _, pid in busy[:MAX_BUSY_PROCESSES]:
            records += self._busy_threads(pid, processes[pid], threads)
        records.sort(key=lambda one: -(one["user"] + one["system"]))
        for pid in self._processes.keys() - processes.keys():
            self._files.drop(f"{self._proc}/{pid}/stat")
        self._processes, self._threads = processes, threads
        self._read_cost = time.process_time() - cpu_before
        busiest = [one for one in records if one["user"] + one["system"] >= min_ticks]
        return elapsed, busiest[:MAX_REPORTED_THREADS], unreadable

    def close(self) -> None:
        """Close the open files."""
        self._files.close()

    def _busy_threads(
        self, pid: int, task: Task, threads: dict[int, dict[int, Task]]
    ) -> list[dict[str, Any]]:
        """The threads of one process, or the process as a whole when its threads are not known."""
        before = self._processes.get(pid)
        if task.threads == 1:
            return [self._record(pid, pid, task, before, task.processor)]
        if task.threads <= MAX_THREADS_PER_PROCESS:
            threads[pid] = tasks = self._read_threads(pid)
            known = self._threads.get(pid)
            if known is None and (
                before is None or before.started != task.started or not before.total
            ):
                known = {}  # its threads had used no CPU before
            if known is not None and tasks:
                return [
                    self._record(tid, pid, one, known.get(tid), one.processor)
                    for tid, one in tasks.items()
                ]
        return [self._record(pid, pid, task, before, None)]

    def _record(
        self, tid: int, pid: int, task: Task, before: Task | None, cpu: int | None
    ) -> dict[str, Any]:
        user, system = task.used_since(before)
        generator = self._session in (pid, task.session)
        is_known = before is not None and before.started == task.started
        since = before.read_at if before is not None and is_known else self._since
        record = {
            "tid": tid, "pid": pid, "name": task.name, "user": user, "system": system, "cpu": cpu,
            "generator": generator, "seconds": round(task.read_at - since, 4),
        }  # fmt: skip
        if not generator and not probe_pids().isdisjoint((pid, task.parent)):
            record["probe"] = True
        return record

    def _read_processes(self) -> tuple[dict[int, Task], dict[str, str] | None]:
        """(process id → `Task`, why some may be missing)."""
        try:
            pids = sorted(
                int(name) for name in os.listdir(self._proc) if is_ascii(name) and name.isdigit()
            )
        except OSError as error:
            return {}, {"reason": "failed", "detail": f"{self._proc}: {error.strerror or error}"}
        unreadable = None
        if pids and pids[0] != 1:
            unreadable = {"reason": "needs_root", "detail": f"{self._proc}: hidepid"}
        if len(pids) > MAX_PROCESSES:
            unreadable = {
                "reason": "failed",
                "detail": f"{self._proc}: more than {MAX_PROCESSES} processes",
            }
        tasks = {}
        for pid in pids[:MAX_PROCESSES]:
            try:
                tasks[pid] = Task(self._files.read(f"{self._proc}/{pid}/stat"))
            except OSError as error:
                if error.errno in (errno.EPERM, errno.EACCES):
                    unreadable = {"reason": "needs_root", "detail": f"{self._proc}: hidepid"}
            except ValueError as error:
                unreadable = {
                    "reason": "malformed",
                    "detail": f"{self._proc}/{pid}/stat: {error}"[:200],
                }
        return tasks, unreadable

    def _read_threads(self, pid: int) -> dict[int, Task]:
        """Thread id → `Task`; empty when the process has ended."""
        tasks = {}
        try:
            names = os.listdir(f"{self._proc}/{pid}/task")
        except OSError:
            return {}
        for name in names[:MAX_THREADS_PER_PROCESS]:
            try:
                tasks[int(name)] = Task(_read_file(f"{self._proc}/{pid}/task/{name}/stat"))
            except (OSError, ValueError):
                continue
        return tasks


def _read_file(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
