"""The counter records of a host during a run, in limited memory: of many, every second or fourth is
kept.

Counters only grow, so that rates over a longer time are as exact; what is lost is when exactly
something happened.
"""

from __future__ import annotations

from nictop.probe.light_dataclasses import field_values
from nictop.probe.records import Counters, MachineInterrupt

MAX_COUNTER_VALUES = 1_000_000
"""Numbers in all records together, some 40 MiB: a usual host has 300 in each."""

NESTED_VALUES = 9
"""Of a queue or virtual function."""


class CounterRecords:
    """The first and the newest record, and those between them at equal distances."""

    def __init__(self) -> None:
        self.kept: list[Counters] = []
        """Oldest first."""
        self._values = 0
        self._stride = 1
        """Of so many records one is kept."""
        self._count = 0
        """Records that were added, without the newest one."""
        self._is_newest_extra = False
        """The newest one is kept only until there is another."""

    def add(self, record: Counters) -> None:
        """Add the newest one."""
        if self._is_newest_extra:
            self._values -= _values(self.kept.pop())
        self.kept.append(record)
        self._values += _values(record)
        self._is_newest_extra = self._count % self._stride != 0
        self._count += 1
        while self._values > MAX_COUNTER_VALUES and len(self.kept) > 2:
            self._keep_every_second()

    def _keep_every_second(self) -> None:
        newest = self.kept[-1]
        regular = self.kept[:-1] if self._is_newest_extra else self.kept
        self._stride *= 2
        kept = regular[::2]
        self._is_newest_extra = kept[-1] is not newest
        self.kept = [*kept, newest] if self._is_newest_extra else kept
        self._values = sum(map(_values, self.kept))


def _values(record: Counters) -> int:
    """Numbers in a record, about; never 0."""
    count = 1
    for field in field_values(record):
        if isinstance(field, dict):
            count += sum(map(_row_values, field.values()))
        elif isinstance(field, tuple):
            count += sum(map(_row_values, field))
    return count


def _row_values(row: object) -> int:
    if isinstance(row, MachineInterrupt):
        return len(row.counts)
    if not isinstance(row, (tuple, dict)):
        return 1
    inner = row.values() if isinstance(row, dict) else row
    is_nested = isinstance(next(iter(inner), None), (tuple, dict))
    return NESTED_VALUES * len(row) if is_nested else len(row)
