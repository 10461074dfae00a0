"""CPU time of the threads that process packets: /proc/PID/task/TID/stat through kept descriptors.

The inventory names the threads. A thread that started after it has reused the id of an ended one,
and is left out like ended ones. The name in the file may contain spaces and parentheses: the
columns follow its last parenthesis.
"""

from __future__ import annotations

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


class ThreadCounterReader:
    """Reads the threads set by `set_targets`. `files` holds the descriptors; `proc`: root of
    procfs."""

    def __init__(self, files: OpenFileCache, *, proc: str = "/proc") -> None:
        self._files = files
        self._proc = proc
        self._paths: dict[int, str] = {}
        self._started_by = 0

    def set_targets(self, threads: Iterable[tuple[int, int]], started_by: int) -> None:
        """From now on read these (thread id, process id) only; they started no later than
        `started_by`, in USER_HZ ticks since boot."""
        self._paths = {tid: f"{self._proc}/{pid}/task/{tid}/stat" for tid, pid in threads}
        self._started_by = started_by

    def read(self, fail: Fail) -> dict[int, tuple[int, int, int]]:
        """Thread id → `records.THREAD_TIMES` and the CPU it last ran on.

        `fail` is called with each OSError or ValueError and the file; ended threads are left out
        without a call.
        """
        found: dict[int, tuple[int, int, int]] = {}
        gone = []
        for tid, path in self._paths.items():
            try:
                user, system, cpu, started = parse_thread(self._files.read(path))
            except OSError as error:
                if error.errno in VANISHED_ERRNOS:
                    gone.append(tid)
                else:
                    fail(error, path)
            except ValueError as error:
                fail(error, path)
            else:
                if started <= self._started_by:
                    found[tid] = user, system, cpu
                else:
                    gone.append(tid)
        for tid in gone:
            self._files.drop(self._paths.pop(tid))
        return found


def parse_thread(text: bytes) -> tuple[int, int, int, int]:
    """User and system time (USER_HZ ticks), the CPU it last ran on, and its start time (USER_HZ
    ticks since boot).

    Raises ValueError when columns are missing or garbled, or when the line is truncated.
    """
    words = text.rpartition(b")")[2].split()
    if len(words) <= STAT_PROCESSOR or text[-1:] != b"\n":
        raise ValueError(f"not a line of a thread: {text[:80]!r}")
    return (
        parse_count(words[STAT_UTIME]),
        parse_count(words[STAT_STIME]),
        parse_count(words[STAT_PROCESSOR]),
        parse_count(words[STAT_STARTTIME]),
    )
