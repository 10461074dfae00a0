"""The queue × CPU heatmap: interrupts per second, folded to the available width.

Reads nothing. CPUs that do not fit are combined into ranges; the hottest CPUs always have their own
column, and keep it unless another one is clearly hotter, so that columns do not jump. Every cell is
a sum: the cells of a row add up to all of its interrupts, folded or not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.probe.light_dataclasses import dataclass

KEEP_COLUMN_FACTOR = 2.0
"""Factor for CPUs that had their own column before, when the hot ones are chosen."""

MAX_UNSPLIT_CPUS = 1
"""Ranges are split while there is room, the one with the most CPUs first; a range of this many is
not split."""


@dataclass(frozen=True)
class HeatColumn:
    """One column: a single CPU, or several in ascending order."""

    cpus: tuple[int, ...]

    @property
    def title(self) -> str:
        """``7``, ``8-31``; first and last CPU, even if ids are missing between them."""
        if len(self.cpus) == 1:
            return str(self.cpus[0])
        return f"{self.cpus[0]}-{self.cpus[-1]}"

    @property
    def list(self) -> str:
        """The exact CPU list: ``8-30,34``."""
        return format_cpu_list(self.cpus)


@dataclass(frozen=True)
class Heatmap:
    """The heatmap."""

    columns: tuple[HeatColumn, ...]
    cells: tuple[tuple[float, ...], ...]
    """Per row: interrupts per second in each column."""
    totals: tuple[float, ...]
    """Per column, over all rows."""
    peak: float
    """The highest cell; 0 without interrupts."""
    hot: frozenset[int]
    """CPUs with their own column while others are folded; empty when all fit."""


def fold_heatmap(
    cpus: Sequence[int],
    rows: Sequence[Mapping[int, float]],
    width: int,
    before: Heatmap | None = None,
) -> Heatmap:
    """The heatmap of `rows` (CPU id → interrupts per second) in at most `width` columns, at least
    one.

    `cpus`: the CPUs to show, usually the online ones; a CPU that is only in a row (it just went
    offline) is shown as well. `before`: the previous heatmap.
    """
    sums: dict[int, float] = dict.fromkeys(cpus, 0.0)
    for row in rows:
        for cpu, rate in row.items():
            sums[cpu] = sums.get(cpu, 0.0) + rate
    ordered = sorted(sums)
    width = max(1, width)
    if len(ordered) <= width:
        return _heatmap([(cpu,) for cpu in ordered], rows, frozenset())
    single_before: frozenset[int] = frozenset()
    if before is not None:
        single_before = before.hot
    hot = _hot_cpus(ordered, sums, width, single_before)
    columns = _split_ranges(_split_at_hot_cpus(ordered, hot), width)
    return _heatmap(columns, rows, hot)


def _heatmap(
    columns: Sequence[tuple[int, ...]], rows: Sequence[Mapping[int, float]], hot: frozenset[int]
) -> Heatmap:
    column_index: dict[int, int] = {}
    for index, column in enumerate(columns):
        column_index.update(dict.fromkeys(column, index))
    totals = [0.0] * len(columns)
    cells = []
    peak = 0.0
    for row in rows:
        line = [0.0] * len(columns)
        for cpu, rate in row.items():
            index = column_index[cpu]
            line[index] += rate
            totals[index] += rate
        peak = max(peak, *line) if line else peak
        cells.append(tuple(line))
    return Heatmap(
        tuple(HeatColumn(column) for column in columns), tuple(cells), tuple(totals), peak, hot
    )


def _hot_cpus(
    ordered: Sequence[int], sums: Mapping[int, float], width: int, single_before: frozenset[int]
) -> frozenset[int]:
    """The hottest CPUs, as many as can have their own column with ranges between them in `width`
    columns. CPUs without interrupts are not hot."""

    def heat(cpu: int) -> float:
        if cpu in single_before:
            return sums[cpu] * KEEP_COLUMN_FACTOR
        return sums[cpu]

    position = {cpu: index for index, cpu in enumerate(ordered)}
    ranked = [cpu for cpu in ordered if sums[cpu] > 0]
    ranked.sort(key=lambda cpu: (-heat(cpu), cpu))
    chosen: set[int] = set()  # positions
    needed = 1
    for cpu in ranked:
        needed += _added_columns(position[cpu], chosen, len(ordered))
        if needed > width:
            break  # no colder CPU gets its own column before a hotter one
        chosen.add(position[cpu])
    return frozenset(ordered[index] for index in chosen)


def _added_columns(index: int, chosen: set[int], count: int) -> int:
    """Additional columns when the CPU at this index gets its own column: one for each adjacent CPU
    that remains in a range."""
    left = index > 0 and index - 1 not in chosen
    right = index + 1 < count and index + 1 not in chosen
    return int(left) + int(right)


def _split_at_hot_cpus(ordered: Sequence[int], hot: frozenset[int]) -> list[tuple[int, ...]]:
    """Columns with one hot CPU each, and ranges of the CPUs between them."""
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


def _split_ranges(columns: list[tuple[int, ...]], width: int) -> list[tuple[int, ...]]:
    """Split the widest ranges into equal parts while columns are free."""
    parts = [1] * len(columns)
    free = width - len(columns)
    while free > 0:
        index = max(range(len(columns)), key=lambda one: len(columns[one]) / parts[one])
        if len(columns[index]) / parts[index] <= MAX_UNSPLIT_CPUS:
            break
        parts[index] += 1
        free -= 1
    result: list[tuple[int, ...]] = []
    for column, number in zip(columns, parts, strict=True):
        edges = [round(len(column) * part / number) for part in range(number + 1)]
        result += [column[a:b] for a, b in itertools.pairwise(edges) if b > a]
    return result
