"""CPU time of the threads that move packets: /proc/PID/task/TID/stat through kept descriptors.

The inventory says which threads; one that has begun after it has merely been given the number of one that ended, and is
left out, like those that have ended. The name in the file may hold anything, blanks and brackets included: the columns
begin behind its last bracket.
"""

from __future__ import annotations

from nictop.probe.kernel.cpu_columns import parse_number
from nictop.probe.kernel.open_files import VANISHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nictop.probe.kernel.open_files import OpenFileCache

    Fail = Callable[[Exception, str], None]

USER, SYSTEM, STARTED, PROCESSOR = 14 - 3, 15 - 3, 22 - 3, 39 - 3
"""Columns of proc(5), which counts from one; the third is the first behind the name."""


class ThreadCounterReader:
    """Reads the threads that `learn` names. `files` keeps the descriptors; `proc` is where procfs stands."""

    def __init__(self, files: OpenFileCache, *, proc: str = "/proc") -> None:
        self._files = files
        self._proc = proc
        self._paths: dict[int, str] = {}
        self._born = 0

    def learn(self, threads: Iterable[tuple[int, int]], born: int) -> None:
        """From now on read these (thread id, process id) and no others; they had all begun at `born`, USER_HZ ticks
        since boot."""
        self._paths = {tid: f"{self._proc}/{pid}/task/{tid}/stat" for tid, pid in threads}
        self._born = born

    def read(self, fail: Fail) -> dict[int, tuple[int, int, int]]:
        """Thread id → `records.THREAD_TIMES` and the CPU it last ran on.

        `fail` gets what could not be read, OSError or ValueError, and where; ended threads are merely absent.
        """
        found: dict[int, tuple[int, int, int]] = {}
        gone = []
        for tid, path in self._paths.items():
            try:
                user, system, cpu, started = parse_thread(self._files.read(path))
            except OSError as error:
                if error.errno in VANISHED:
                    gone.append(tid)
                else:
                    fail(error, path)
            except ValueError as error:
                fail(error, path)
            else:
                if started <= self._born:
                    found[tid] = user, system, cpu
                else:
                    gone.append(tid)
        for tid in gone:
            self._files.drop(self._paths.pop(tid))
        return found


def parse_thread(text: bytes) -> tuple[int, int, int, int]:
    """User and system time (USER_HZ ticks), the CPU it last ran on, and when it began (USER_HZ ticks since boot).

    Raises ValueError when columns are missing or garbled, or when the line has no end.
    """
    words = text.rpartition(b")")[2].split()
    if len(words) <= PROCESSOR or text[-1:] != b"\n":
        raise ValueError(f"not a line of a thread: {text[:80]!r}")
    return (
        parse_number(words[USER]),
        parse_number(words[SYSTEM]),
        parse_number(words[PROCESSOR]),
        parse_number(words[STARTED]),
    )
