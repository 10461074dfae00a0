"""The queue × CPU picture: interrupts per second, folded to the width that there is.

Reads nothing. CPUs that do not fit become ranges; the hottest always stand alone, and what stood alone before stays so
unless another one has become clearly hotter, so that columns do not jump. Every cell is a sum: those of a row add up to
all of its interrupts, folded or not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nictop.model.queues.cpu_lists import format_cpu_list

CLEARLY_HOTTER = 2.0
"""A CPU that stood alone counts this much more when the hot ones are chosen."""

WIDEST_GAP = 1
"""Ranges are cut where there is room, the one with the most CPUs first; a range of this many cannot be cut."""


@dataclass(frozen=True)
class HeatColumn:
    """One column: a CPU alone, or several in ascending order."""

    cpus: tuple[int, ...]

    @property
    def title(self) -> str:
        """``7``, ``8-31``; from the first to the last where CPU ids are sparse."""
        return str(self.cpus[0]) if len(self.cpus) == 1 else f"{self.cpus[0]}-{self.cpus[-1]}"

    @property
    def list(self) -> str:
        """The exact CPU list: ``8-30,34``."""
        return format_cpu_list(self.cpus)


@dataclass(frozen=True)
class Heat:
    """The picture."""

    columns: tuple[HeatColumn, ...]
    cells: tuple[tuple[float, ...], ...]
    """Per row: interrupts per second in each column."""
    totals: tuple[float, ...]
    """Per column, over all rows."""
    peak: float
    """The highest cell; 0 when nothing happens."""
    hot: frozenset[int]
    """CPUs that stand alone although others had to be folded; empty when all fit."""


def fold(cpus: Sequence[int], rows: Sequence[Mapping[int, float]], width: int, before: Heat | None = None) -> Heat:
    """The picture of `rows` (CPU id → interrupts per second) in at most `width` columns, at least one.

    `cpus`: the CPUs to show, online ones; one that only a row names (it went offline a moment ago) is shown as well.
    `before`: the picture of the tick before.
    """
    sums: dict[int, float] = dict.fromkeys(cpus, 0.0)
    for row in rows:
        for cpu, rate in row.items():
            sums[cpu] = sums.get(cpu, 0.0) + rate
    ordered = sorted(sums)
    width = max(1, width)
    if len(ordered) <= width:
        columns: list[tuple[int, ...]] = [(cpu,) for cpu in ordered]
        hot: frozenset[int] = frozenset()
    else:
        hot = _hot(ordered, sums, width, before.hot if before is not None else frozenset())
        columns = _spread(_cut(ordered, hot), width)
    return _picture(columns, rows, hot)


def _picture(columns: Sequence[tuple[int, ...]], rows: Sequence[Mapping[int, float]], hot: frozenset[int]) -> Heat:
    place = {cpu: index for index, column in enumerate(columns) for cpu in column}
    totals = [0.0] * len(columns)
    cells = []
    peak = 0.0
    for row in rows:
        line = [0.0] * len(columns)
        for cpu, rate in row.items():
            index = place[cpu]
            line[index] += rate
            totals[index] += rate
        peak = max(peak, *line) if line else peak
        cells.append(tuple(line))
    return Heat(tuple(HeatColumn(column) for column in columns), tuple(cells), tuple(totals), peak, hot)


def _hot(ordered: Sequence[int], sums: Mapping[int, float], width: int, alone: frozenset[int]) -> frozenset[int]:
    """As many of the hottest CPUs as can stand alone with ranges between them in `width` columns. What has no
    interrupts is not hot."""
    position = {cpu: index for index, cpu in enumerate(ordered)}
    ranked = sorted(
        (cpu for cpu in ordered if sums[cpu] > 0),
        key=lambda cpu: (-sums[cpu] * (CLEARLY_HOTTER if cpu in alone else 1.0), cpu),
    )
    chosen: set[int] = set()  # positions
    needed = 1
    for cpu in ranked:
        needed += _cost(position[cpu], chosen, len(ordered))
        if needed > width:
            break  # a colder one must not stand alone while a hotter one does not
        chosen.add(position[cpu])
    return frozenset(ordered[index] for index in chosen)


def _cost(index: int, chosen: set[int], count: int) -> int:
    """Columns more when the CPU at this position leaves its range: one for itself, one for each side that remains
    beyond the first."""
    left = index > 0 and index - 1 not in chosen
    right = index + 1 < count and index + 1 not in chosen
    return int(left) + int(right)


def _cut(ordered: Sequence[int], hot: frozenset[int]) -> list[tuple[int, ...]]:
    """Hot CPUs alone, what is between them as ranges."""
    columns: list[tuple[int, ...]] = []
    between: list[int] = []
    for cpu in ordered:
        if cpu not in hot:
            between.append(cpu)
            continue
        if between:
            columns.append(tuple(between))
            between = []
        columns.append((cpu,))
    if between:
        columns.append(tuple(between))
    return columns


def _spread(columns: list[tuple[int, ...]], width: int) -> list[tuple[int, ...]]:
    """Columns that are still free go to the widest ranges, in equal parts."""
    parts = [1] * len(columns)
    free = width - len(columns)
    while free > 0:
        index = max(range(len(columns)), key=lambda one: len(columns[one]) / parts[one])
        if len(columns[index]) / parts[index] <= WIDEST_GAP:
            break
        parts[index] += 1
        free -= 1
    result: list[tuple[int, ...]] = []
    for column, number in zip(columns, parts, strict=True):
        edges = [round(len(column) * part / number) for part in range(number + 1)]
        result += [column[a:b] for a, b in itertools.pairwise(edges) if b > a]
    return result
