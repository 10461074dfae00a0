"""One row of a table as a line of spans. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from nictop.model.columns.column import Cell, Column, RowT, fit_columns
from nictop.model.facts import fit, width
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import replace
from nictop.tui.widgets.base.line_widget import TONES, Span, SpanLine


def encoded_columns(columns: Sequence[Column[RowT]], glyphs: Glyphs) -> Sequence[Column[RowT]]:
    """The columns with their texts in this character set, in which an arrow may take more cells."""

    def encoded(column: Column[RowT], row: RowT) -> Cell:
        text, tone = column.cell(row)
        return glyphs.encode(text), tone

    if not glyphs.is_ascii:
        return columns
    return [replace(column, value=partial(encoded, column)) for column in columns]


def headings(columns: Iterable[Column[RowT]]) -> str:
    """The titles, each with a blank before it."""
    return "".join(f" {column.heading}" for column in columns)


def columns_cells(columns: Iterable[Column[RowT]]) -> int:
    """With the blank before each."""
    return sum(column.width + 1 for column in columns)


HIDDEN_MARK_CELLS = 5
"""Cells for the number of columns that have no room, as in `` +12▸``."""


def fit_with_mark(
    columns: Sequence[Column[RowT]], room: int
) -> tuple[tuple[Column[RowT], ...], int]:
    """`fit_columns`, with room for the mark of `header_line` if not all fit; and the number of
    those that do not."""
    found = fit_columns(columns, room)
    if len(found) < len(columns):
        found = fit_columns(columns, room - HIDDEN_MARK_CELLS)
    return found, len(columns) - len(found)


def header_line(
    titles: str, hidden: int, cells: int, glyphs: Glyphs, *, scrolls: bool = False
) -> SpanLine:
    """The titles; in the last of `cells` cells how many columns are hidden, if any, with an arrow
    where a key `scrolls` to them."""
    if not hidden:
        return ((titles, ""),)
    mark = f" +{hidden}"
    if scrolls:
        mark += glyphs.cursor
    return (fit(titles, max(0, cells - width(mark))), ""), (mark, "")


def cell_spans(columns: Iterable[Column[RowT]], row: RowT, glyphs: Glyphs = UNICODE) -> list[Span]:
    """The cells of one row, each with a blank before it."""
    spans: list[Span] = []
    for column in columns:
        text, tone = column.cell(row)
        spans.append((" " + column.fit(glyphs.encode(text)), TONES[tone]))
    return spans
