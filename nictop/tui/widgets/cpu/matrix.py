"""Interrupts per second as a matrix: a line for each queue or interrupt, a column for each CPU.

── interrupts/s of ens256: queue × CPU ──────────────
                        all   CPU 0     CPU 1     CPU 2
 queue 0  IRQ 51 52     685    ▃ 240     ·         ▇ 445
 all                    685      240     ·           445

With more CPUs a cell is only the mark, and the number of the hottest CPU is at the end of the line; CPUs that do not
fit are combined into ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nictop.model.facts import fit
from nictop.model.queues.heatmap import Heatmap, fold_heatmap
from nictop.model.rates.links import sum_known
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.tui.widgets.base.line_view import Span, SpanLine, section_line

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
    marks = (width - lead) // MARK_CELLS
    tail = HOTTEST_CELLS
    if has_numbers or marks < MIN_MARKS_AND_TAIL or marks - HOTTEST_CELLS // MARK_CELLS <= len(cpus) <= marks:
        tail = 0  # a column for each CPU is better than the number of the hottest
    heat = fold_heatmap(cpus, [row.cpus for row in rows], max(1, width - lead - tail) // cells, before)
    lines: list[SpanLine] = [section_line(title, width), *_head(heat, lead, cells, tail, has_numbers)]
    for row, values in zip(rows, heat.cells, strict=True):
        spans: list[Span] = [(f" {fit(row.name, name_cells)} ", ""), (f"{units.scaled(row.total)} ", "title")]
        spans += [_cell(value, heat.peak, cells, glyphs.heat, has_numbers) for value in values]
        if tail and row.cpus:
            hottest = max(row.cpus, key=lambda cpu: row.cpus[cpu])
            spans.append((f"  CPU {hottest:<3} {units.scaled(row.cpus[hottest])}", "dim"))
        lines.append(tuple(spans))
    if len(rows) > 1:
        lines.append(_sum_line(heat, rows, name_cells, cells, has_numbers))
    return lines, heat


def _head(heat: Heatmap, lead: int, cells: int, tail: int, has_numbers: bool) -> list[SpanLine]:
    """CPU ids over the columns; a range has its first CPU above its last."""
    margin = "all  ".rjust(lead - 1) + " "
    if has_numbers:
        return [((margin, "dim"), ("".join(f"  CPU {column.cpus[0]}".ljust(cells) for column in heat.columns), "dim"))]
    first = "".join(f"{column.cpus[0]:>{cells}}" for column in heat.columns)
    lines: list[SpanLine] = [((margin, "dim"), (first, "title"), ("  hottest" if tail else "", "dim"))]
    if any(len(column.cpus) > 1 for column in heat.columns):
        last = "".join(
            f"-{column.cpus[-1]}".rjust(cells) if len(column.cpus) > 1 else " " * cells for column in heat.columns
        )
        lines.append(((" " * lead, ""), (last, "dim")))
    return lines


def _cell(value: float, peak: float, cells: int, marks: str, has_number: bool) -> Span:
    share = value / peak if peak > 0 else 0.0
    style = "dim" if not value else "title" if share > HOT_SHARE else "in"
    mark = marks[0 if not value else max(1, round(share * (len(marks) - 1)))]
    if has_number:
        return f"  {mark} {units.quantity(value, '') if value else ''}".ljust(cells), style
    return (mark * (1 if not value else cells - 1)).rjust(cells), style


def _sum_line(heat: Heatmap, rows: Sequence[MatrixRow], name_cells: int, cells: int, has_numbers: bool) -> SpanLine:
    spans: list[Span] = [(f" {fit('all', name_cells)} ", "dim")]
    spans.append((f"{units.scaled(sum_known(row.total for row in rows))} ", "title"))
    if has_numbers:
        spans += [(f"    {units.quantity(total, '')}".ljust(cells), "dim") for total in heat.totals]
    return tuple(spans)
