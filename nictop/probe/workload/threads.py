"""The threads of the host that use most CPU time while a workload runs, summed up."""

from __future__ import annotations

import time

from nictop.probe.traffic.busy_threads import BusyThreadReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_REMEMBERED, MAX_REPORTED = 1024, 16
"""Threads: of more, those that used least are forgotten."""


class WorkloadThreads:
    """Of the time between `begin` and the last `read`. `session`: of the command."""

    def __init__(self, session: int, proc: str = "/proc") -> None:
        self._reader = BusyThreadReader(session, proc)
        self._threads: dict[int, dict[str, Any]] = {}
        self._seconds = 0.0
        self._unreadable: dict[str, str] | None = None
        self.next_read = 0.0

    def begin(self) -> None:
        self._reader.begin()
        self.next_read = time.monotonic() + self._reader.interval

    def read(self) -> None:
        """Add what was used since the last reading."""
        seconds, threads, unreadable = self._reader.read()
        self._seconds += seconds
        self._unreadable = unreadable or self._unreadable
        for record in threads:
            known = self._threads.setdefault(record["tid"], dict(record, user=0, system=0))
            for kind in ("user", "system"):
                known[kind] += record[kind]
            known["cpu"] = record["cpu"]
        if len(self._threads) > MAX_REMEMBERED:
            self._threads = {one["tid"]: one for one in self._busiest(MAX_REMEMBERED // 2)}
        self.next_read = time.monotonic() + self._reader.interval

    def report(self) -> dict[str, Any]:
        """Fields of `records.WorkloadReport`."""
        self._reader.close()
        return {
            "threads": self._busiest(MAX_REPORTED),
            "threads_seconds": self._seconds,
            "threads_unreadable": self._unreadable,
        }

    def _busiest(self, most: int) -> list[dict[str, Any]]:
        ordered = sorted(self._threads.values(), key=lambda one: -(one["user"] + one["system"]))
        return ordered[:most]
