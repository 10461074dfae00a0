"""Interrupts per second as a matrix: a line for each queue or interrupt, a column for each CPU.

── interrupts/s of ens256: queue × CPU ──────────────
                        all   CPU 0     CPU 1     CPU 2
 queue 0  IRQ 51 52     685    ▃ 240     ·         ▇ 445
 all                    685      240     ·           445

With more CPUs a cell is only the mark, and the number of the hottest CPU is at the end of the line;
CPUs that do not fit are combined into ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nictop.model.facts import fit
from nictop.model.queues.heatmap import HeatColumn, Heatmap, fold_heatmap
from nictop.model.rates.links import sum_known
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_tuples import NamedTuple
from nictop.tui.widgets.base.line_widget import Span, SpanLine, section_line

NUMBER_CELLS = 10
"""Cells per CPU: with the number while all CPUs fit so, else with a mark."""
MARK_CELLS = 4
HOTTEST_CELLS = 17
"""Cells at the end of a line without numbers: ``  CPU 127 5.00 k``."""
MIN_MARKS_AND_TAIL = 8
"""Cells of marks from which on some of them are given to the number of the hottest CPU."""
LEAD_CELLS = units.SCALED_WIDTH + 3
"""Cells besides the name before the first CPU."""
HOT_SHARE = 0.8
"""Share of the highest cell above which a cell is emphasized."""


class MatrixRow(NamedTuple):
    """A line of the matrix."""

    name: str
    total: float | None
    """Per second; None: not known."""
    cpus: Mapping[int, float]
    """CPU id → per second."""


def known_cpus(snapshot: Snapshot) -> list[int]:
    """Ids of the CPUs whose load is known, ascending."""
    if snapshot.rates is None:
        return []
    return sorted(snapshot.rates.cpus)


def cpu_sums(rows: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """CPU id → sum over all rows."""
    sums: dict[int, float] = {}
    for row in rows:
        for cpu, rate in row.items():
            sums[cpu] = sums.get(cpu, 0.0) + rate
    return sums


def number_cells(name_cells: int, cpus: int) -> int:
    """Cells of a matrix with all numbers."""
    return name_cells + LEAD_CELLS + cpus * NUMBER_CELLS


def draw_matrix(
    title: str,
    rows: Sequence[MatrixRow],
    cpus: Sequence[int],
    width: int,
    before: Heatmap | None,
    *,
    name_cells: int,
    glyphs: Glyphs = UNICODE,
) -> tuple[list[SpanLine], Heatmap]:
    """The matrix in `width` cells, and the heat map for the next call, which keeps its columns."""
    lead = name_cells + LEAD_CELLS
    has_numbers = len(cpus) * NUMBER_CELLS <= width - lead
    cells = NUMBER_CELLS if has_numbers else MARK_CELLS
    tail = 0
    if not has_numbers and _has_hottest((width - lead) // MARK_CELLS, len(cpus)):
        tail = HOTTEST_CELLS
    columns = max(1, width - lead - tail) // cells
    heat = fold_heatmap(cpus, [row.cpus for row in rows], columns, before)
    lines: list[SpanLine] = [
        section_line(title, width),
        *_head(heat, lead, cells, tail, has_numbers),
    ]
    for row, values in zip(rows, heat.cells, strict=True):
        spans: list[Span] = [
            (f" {fit(row.name, name_cells)} ", ""),
            (f"{units.scaled(row.total)} ", "title"),
        ]
        spans += [_cell(value, heat.peak, cells, glyphs.heat, has_numbers) for value in values]
        if tail and row.cpus:
            hottest = max(row.cpus, key=lambda cpu: row.cpus[cpu])
            spans.append((f"  CPU {hottest:<3} {units.scaled(row.cpus[hottest])}", "dim"))
        lines.append(tuple(spans))
    if len(rows) > 1:
        lines.append(_sum_line(heat, rows, name_cells, cells, has_numbers))
    return lines, heat


def _has_hottest(marks: int, cpus: int) -> bool:
    """The number of the hottest CPU is at the end of the lines: unless it takes the cells of
    columns without which not each CPU has one."""
    if marks < MIN_MARKS_AND_TAIL:
        return False
    marks_beside_tail = marks - HOTTEST_CELLS // MARK_CELLS
    return not marks_beside_tail <= cpus <= marks


def _head(heat: Heatmap, lead: int, cells: int, tail: int, has_numbers: bool) -> list[SpanLine]:
    """CPU ids over the columns; a range has its first CPU above its last."""
    margin = "all  ".rjust(lead - 1) + " "
    if has_numbers:
        names = "".join(f"  CPU {column.cpus[0]}".ljust(cells) for column in heat.columns)
        return [((margin, "dim"), (names, "dim"))]
    first = "".join(f"{column.cpus[0]:>{cells}}" for column in heat.columns)
    lines: list[SpanLine] = [
        ((margin, "dim"), (first, "title"), ("  hottest" if tail else "", "dim"))
    ]
    last = "".join(_last_of_range(column).rjust(cells) for column in heat.columns)
    if last.strip():
        lines.append(((" " * lead, ""), (last, "dim")))
    return lines


def _last_of_range(column: HeatColumn) -> str:
    """``-7``; empty for a column of one CPU."""
    if len(column.cpus) == 1:
        return ""
    return f"-{column.cpus[-1]}"


def _cell(value: float, peak: float, cells: int, marks: str, has_number: bool) -> Span:
    mark, style, number, mark_cells = marks[0], "dim", "", 1
    if value:
        share = value / peak if peak > 0 else 0.0
        style = "title" if share > HOT_SHARE else "in"
        mark = marks[max(1, round(share * (len(marks) - 1)))]
        mark_cells = cells - 1
    if not has_number:
        return (mark * mark_cells).rjust(cells), style
    if value:
        number = units.quantity(value, "")
    return f"  {mark} {number}".ljust(cells), style


def _sum_line(
    heat: Heatmap, rows: Sequence[MatrixRow], name_cells: int, cells: int, has_numbers: bool
) -> SpanLine:
    spans: list[Span] = [(f" {fit('all', name_cells)} ", "dim")]
    spans.append((f"{units.scaled(sum_known(row.total for row in rows))} ", "title"))
    if has_numbers:
        spans += [(f"    {units.quantity(total, '')}".ljust(cells), "dim") for total in heat.totals]
    return tuple(spans)
