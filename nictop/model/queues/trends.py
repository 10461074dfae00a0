"""Rates of queues and CPUs over the last minute, divided into the cells of a narrow chart.

Reads nothing. The values are those of a `RatesWindow`, which the rules need anyway: no history is
stored for trends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Literal, TypeVar

from nictop.model.queues.driver_counters import QueuePositions, Side
from nictop.model.queues.map import counter_sources
from nictop.model.queues.plan import PlannedQueue, QueuePlan
from nictop.model.rates.links import Rates, sum_known
from nictop.model.snapshot import is_outage
from nictop.model.window import RATES_WINDOW_SECONDS

Key = TypeVar("Key")
TrendSide = Literal["rx", "tx", "irq"]
QueueKey = tuple[TrendSide, int]
"""Packets of one direction, or interrupts, and the queue number."""


class Trends(Generic[Key]):
    """The values of every key in each part of a window; each part is read once."""

    def __init__(self) -> None:
        self._source: object = None
        self._values: dict[int, tuple[Rates, Mapping[Key, float | None]]] = {}
        """By id of the part; the part is stored, so that its id is unique."""
        self._cells: dict[object, dict[Key, list[float | None]]] = {}
        """Cache for the present parts: a screen is drawn more often than a part is added."""

    def update(
        self,
        parts: Sequence[Rates],
        source: object,
        read: Callable[[Rates], Mapping[Key, float | None]],
    ) -> None:
        """Read the parts that are new. `source`: what `read` depends on; another one reads all
        parts again."""
        if source is not self._source:
            self._source, self._values, self._cells = source, {}, {}
        known = self._values
        self._values = {id(part): known.get(id(part)) or (part, read(part)) for part in parts}
        if self._values.keys() != known.keys():
            self._cells = {}

    def cells(self, keys: Sequence[Key], width: int) -> dict[Key, list[float | None]]:
        """The last minute of each key in `width` cells, newest last: means; None where nothing is
        known."""
        cache_key = (tuple(keys), width)
        found = self._cells.get(cache_key)
        if found is None:
            found = self._cells[cache_key] = {}
            parts = list(self._values.values())
            covered = cells_of_parts([part.elapsed for part, _ in parts], width)
            late = _late_parts([part.elapsed for part, _ in parts])
            covered = [tuple(one for one in cell if one not in late) for cell in covered]
            for key in keys:
                values = [one.get(key) for _, one in parts]
                found[key] = [_mean(values, indexes) for indexes in covered]
        return found

    def peak(self, keys: Sequence[Key]) -> float:
        """The highest value of these keys in any part; 0 if nothing is known."""
        highest = 0.0
        for _, values in self._values.values():
            for key in keys:
                highest = max(highest, values.get(key) or 0.0)
        return highest


def _late_parts(elapsed: Sequence[float]) -> set[int]:
    """Indexes of parts over a time in which nothing was read: their mean is the rate at no time of
    it."""
    usual = sorted(elapsed)[len(elapsed) // 2] if elapsed else 0.0
    return {index for index, seconds in enumerate(elapsed) if is_outage(seconds, usual)}


def _mean(values: Sequence[float | None], indexes: Sequence[int]) -> float | None:
    if len(indexes) == 1:
        return values[indexes[0]]
    chosen = [values[index] for index in indexes]
    known = [value for value in chosen if value is not None]
    if not known:
        return None
    return sum(known) / len(known)


def cells_of_parts(elapsed: Sequence[float], width: int) -> list[tuple[int, ...]]:
    """For each of `width` cells of the last `RATES_WINDOW_SECONDS` the indexes of the parts in it,
    oldest cell first. A part is in the cell of its middle; a longer one is in every cell that it
    covers. `elapsed`: seconds of each part, oldest first."""
    found: list[list[int]] = [[] for _ in range(width)]
    if not width:
        return []
    seconds = RATES_WINDOW_SECONDS / width
    end = 0.0
    for index in range(len(elapsed) - 1, -1, -1):
        begin = end + elapsed[index]
        if elapsed[index] > seconds:
            first = round(end / seconds)
            last = max(first + 1, round(begin / seconds))
        else:
            first = int((end + begin) / 2 / seconds)
            last = first + 1
        for cell in range(first, min(last, width)):
            found[width - 1 - cell].insert(0, index)
        end = begin
    return [tuple(indexes) for indexes in found]


def queue_rates(plan: QueuePlan, ifindex: int, rates: Rates) -> dict[QueueKey, float | None]:
    """Of each queue: packets per second of both directions (bits per second where packets are not
    counted), and interrupts per second."""
    sources = counter_sources(ifindex, rates)
    found: dict[QueueKey, float | None] = {}
    for queue in plan.queues:
        sides: tuple[tuple[Side, QueuePositions], ...] = (
            ("rx", queue.rx_positions),
            ("tx", queue.tx_positions),
        )
        for side, positions in sides:
            packets, bits, _ = sources.side(side, queue.number, positions)
            found[side, queue.number] = bits if packets is None else packets
        found["irq", queue.number] = _interrupts(queue, rates)
    return found


def _interrupts(queue: PlannedQueue, rates: Rates) -> float | None:
    """Per second, of those that serve only this queue; None: not known."""
    known = []
    for interrupt in queue.interrupts:
        cpus = rates.interrupts.get(interrupt.number)
        if cpus is not None and not interrupt.shared:
            known.append(sum(cpus.values()))
    return sum_known(known)


def cpu_busy(rates: Rates) -> dict[int, float | None]:
    """The busy share of each CPU."""
    return {cpu: shares.busy for cpu, shares in rates.cpus.items()}
