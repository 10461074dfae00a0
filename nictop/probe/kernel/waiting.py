"""A time limit for the answer of a daemon, which a busy host extends: what gets no CPU time cannot
answer.

A limit that is right on an idle host loses answers on a loaded one. Idle CPU time is in /proc/stat
(proc_stat(5)); time that the hypervisor gives to other guests is not idle there.
"""

from __future__ import annotations

import time

MIN_IDLE_SHARE = 0.1
"""Of all CPUs. With less the host is busy: a process may have to wait for its turn."""
IDLE_COLUMN = 4
"""Of the line "cpu": its name, user, nice, system, idle."""
COUNTED_COLUMNS = 9
"""Up to steal; guest time is part of user time."""


class Wait:
    """The end of waiting: `limit` seconds after the latest answer, or later while the host has no
    idle CPU; at most `longest` seconds in all. `proc`: root of procfs."""

    def __init__(self, limit: float, longest: float = 0.0, *, proc: str = "/proc") -> None:
        self.limit = limit
        self._proc = proc
        self._deadline = time.monotonic() + max(limit, longest)
        self.restart()

    def restart(self) -> None:
        """Something was received, or is still being worked on: the limit begins anew."""
        self._end = min(time.monotonic() + self.limit, self._deadline)
        self._times = read_cpu_times(self._proc)

    def remaining(self) -> float:
        """Seconds, more than 0. Raises TimeoutError when there are none."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            self.extend()
            seconds = self._end - time.monotonic()
        return seconds

    def extend(self, *, is_worked_on: bool = False) -> None:
        """Wait `limit` seconds more if the answer is worked on or the host is busy; else raise
        TimeoutError."""
        is_busy = self._is_host_busy()
        if not is_worked_on and not is_busy:
            raise TimeoutError
        if time.monotonic() >= self._deadline:
            raise TimeoutError("no CPU of this host is free" if is_busy else "busy for too long")
        self.restart()

    def _is_host_busy(self) -> bool:
        before, now = self._times, read_cpu_times(self._proc)
        if before is None or now is None:
            return False
        idle, total = now[0] - before[0], now[1] - before[1]
        return total > 0 and idle < MIN_IDLE_SHARE * total


def read_cpu_times(proc: str) -> tuple[int, int] | None:
    """(idle, all) ticks of all CPUs since boot; None: not readable."""
    try:
        with open(f"{proc}/stat", "rb") as file:
            return parse_cpu_times(file.readline())
    except OSError:
        return None


def parse_cpu_times(line: bytes) -> tuple[int, int] | None:
    """`line`: the first one of /proc/stat; None: malformed."""
    words = line.split()[:COUNTED_COLUMNS]
    if (
        len(words) <= IDLE_COLUMN
        or words[0] != b"cpu"
        or not all(word.isdigit() for word in words[1:])
    ):
        return None
    return int(words[IDLE_COLUMN]), sum(map(int, words[1:]))
