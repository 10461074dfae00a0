"""A process that is told from a later one with the same process id by when it started.

Reads /proc/PID/stat, field 22 (clock ticks since boot), see proc(5).
"""

from __future__ import annotations

import contextlib
import os

START_TIME_FIELD = 19
"""Index of field 22 among those after the program's name."""


class ProcessIdentity:
    """`start`: "" if it could not be read; such a process is never signalled."""

    def __init__(self, pid: int, start: str) -> None:
        self.pid, self.start = pid, start

    @staticmethod
    def of(pid: int, proc: str = "/proc") -> ProcessIdentity:
        """The process that has this id now."""
        return ProcessIdentity(pid, read_start_time(pid, proc))

    def send_signal(self, number: int) -> bool:
        """Whether the signal was sent; not when the process has ended."""
        if not self.start or read_start_time(self.pid) != self.start:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False


def read_start_time(pid: int, proc: str = "/proc") -> str:
    """Clock ticks since boot; "" when there is no such process."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return (
        fields[START_TIME_FIELD].decode("ascii", "replace")
        if len(fields) > START_TIME_FIELD
        else ""
    )
