"""One row of a table as a line of spans. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from nictop.model.columns.column import Cell, Column, RowT
from nictop.model.facts import fit
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.tui.widgets.base.line_view import TONES, Span


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


def cell_spans(columns: Iterable[Column[RowT]], row: RowT, glyphs: Glyphs = UNICODE) -> list[Span]:
    """The cells of one row, each with a blank before it."""
    spans: list[Span] = []
    for column in columns:
        text, tone = column.cell(row)
        spans.append((" " + fit(glyphs.encode(text), column.width, column.align), TONES[tone]))
    return spans
