"""CPU time of the threads that process packets: /proc/PID/task/TID/stat through kept descriptors.

The inventory names the threads. A thread that started after it has reused the id of an ended one,
and is left out like ended ones. The name in the file may contain spaces and parentheses: the
columns follow its last parenthesis.
"""

from __future__ import annotations

import os

from nictop.probe.kernel.cpu_columns import parse_count
from nictop.probe.kernel.open_files import VANISHED_ERRNOS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nictop.probe.kernel.open_files import OpenFileCache

    Fail = Callable[[Exception, str], None]

STAT_UTIME, STAT_STIME, STAT_STARTTIME, STAT_PROCESSOR = 14 - 3, 15 - 3, 22 - 3, 39 - 3
"""Index after the name of utime, stime, starttime and processor, fields 14, 15, 22 and 39 of
proc_pid_stat(5)."""


class CountedThread:
    """A thread that is read."""

    def __init__(self, directory: str) -> None:
        self.stat, self.schedstat = f"{directory}/stat", f"{directory}/schedstat"
        self.times: tuple[int, int, int, int] | None = None
        """As `parse_thread` returns them; None: not read yet."""
        self.run: int | None = None
        """Time on a CPU in ns by schedstat, read before `times`; None: the thread runs so much that
        its times differ each time, or this is not known yet."""


class ThreadCounterReader:
    """Reads the threads set by `set_targets`. `files` holds the descriptors; `proc`: root of
    procfs.

    Of a thread that has used no tick of CPU time between two readings, schedstat is read first
    (time on a CPU in ns, Documentation/scheduler/sched-stats.rst), which costs a quarter of reading
    its times: they are read again when it has run for half a tick since. So the times are exact to
    a tick, as the kernel gives them, and the CPU is that of a moment before.
    """

    def __init__(self, files: OpenFileCache, *, proc: str = "/proc") -> None:
        self._files = files
        self._proc = proc
        self._threads: dict[int, CountedThread] = {}
        self._started_by = 0
        self._has_schedstat = True

    def set_targets(self, threads: Iterable[tuple[int, int]], started_by: int) -> None:
        """From now on read these (thread id, process id) only; they started no later than
        `started_by`, in USER_HZ ticks since boot."""
        self._threads = {
            tid: CountedThread(f"{self._proc}/{pid}/task/{tid}") for tid, pid in threads
        }
        self._started_by = started_by
        self._files.make_room(2 * len(self._threads))

    def read(self, fail: Fail) -> dict[int, tuple[int, int, int]]:
        """Thread id → `records.THREAD_TIMES` and the CPU it last ran on.

        `fail` is called with each OSError or ValueError and the file; ended threads are left out
        without a call.
        """
        found: dict[int, tuple[int, int, int]] = {}
        gone = []
        for tid, thread in self._threads.items():
            try:
                user, system, cpu, started = self._read_times(thread)
            except OSError as error:
                if error.errno in VANISHED_ERRNOS:
                    gone.append(tid)
                else:
                    fail(error, thread.stat)
            except ValueError as error:
                fail(error, thread.stat)
            else:
                if started <= self._started_by:
                    found[tid] = user, system, cpu
                else:
                    gone.append(tid)
        for tid in gone:
            thread = self._threads.pop(tid)
            self._files.drop(thread.stat)
            self._files.drop(thread.schedstat)
        return found

    def _read_times(self, thread: CountedThread) -> tuple[int, int, int, int]:
        """Raises OSError and ValueError."""
        before, run = thread.times, thread.run
        if before is not None and run is not None:
            now = self._read_run(thread)
            if now is not None and 0 <= now - run < HALF_TICK_NS:
                return before
            thread.run = now  # read before the times: they may be newer, not older
        thread.times = times = parse_thread(self._files.read(thread.stat))
        if times != before:
            thread.run = None
        elif thread.run is None and self._has_schedstat:
            thread.run = NOT_READ
        return times

    def _read_run(self, thread: CountedThread) -> int | None:
        """None: this kernel has no such file. Raises OSError and ValueError."""
        try:
            text = self._files.read(thread.schedstat)
        except FileNotFoundError:
            self._has_schedstat = os.path.exists(f"{self._proc}/self/schedstat")
            return None
        return parse_count(text.partition(b" ")[0])


HALF_TICK_NS = 500_000_000 // os.sysconf("SC_CLK_TCK")
NOT_READ = -HALF_TICK_NS
"""In place of the time of schedstat: it is to be read before the times the next time."""


def parse_thread(text: bytes) -> tuple[int, int, int, int]:
    """User and system time (USER_HZ ticks), the CPU it last ran on, and its start time (USER_HZ
    ticks since boot).

    Raises ValueError when columns are missing or garbled, or when the line is truncated.
    """
    words = text.rpartition(b")")[2].split(None, STAT_PROCESSOR + 1)
    if len(words) <= STAT_PROCESSOR or text[-1:] != b"\n":
        raise ValueError(f"not a line of a thread: {text[:80]!r}")
    return (
        parse_count(words[STAT_UTIME]),
        parse_count(words[STAT_STIME]),
        parse_count(words[STAT_PROCESSOR]),
        parse_count(words[STAT_STARTTIME]),
    )
