"""Every NIC of every host on one line, in an order that does not move by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message

from nictop.model.columns.column import Column
from nictop.model.columns.overview import COLUMNS, COLUMNS_BY_KEY, make_row_order, order_rows
from nictop.model.devices.overview import NicRow
from nictop.model.text.names import distinct_names
from nictop.probe.light_dataclasses import replace
from nictop.rules import SEVERITIES
from nictop.rules.wording import SEVERITY_LABELS, UNKNOWN_MARK, severity_mark
from nictop.tui.keys import OVERVIEW_KEYS
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.filter_line import no_matches
from nictop.tui.widgets.base.line_widget import TONES, Span, SpanLine
from nictop.tui.widgets.base.sortable_table import SortableTable
from nictop.tui.widgets.base.table_line import (
    HIDDEN_MARK_CELLS,
    cell_spans,
    fit_with_mark,
    header_line,
)

SHRUNK_COLUMNS = ("host", "name")
"""Columns that are no wider than their texts."""


class OverviewTable(SortableTable[NicRow]):
    """Posts `Chosen` when the cursor is on another line, `Opened` on a second click."""

    BINDINGS: ClassVar[list[BindingType]] = OVERVIEW_KEYS
    MARK_CELLS = 2  # of the severity
    STRETCHED_COLUMNS = ("host", "name", "profile", "address", "peer")
    COLUMNS_BY_KEY = COLUMNS_BY_KEY

    class Chosen(Message):
        """The cursor is on another line."""

    class Opened(ChoiceList.Opened):
        """The chosen NIC is to be shown on its host."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._scrolled_columns = 0
        """Columns behind `SHRUNK_COLUMNS` that are left out."""

    def show(self, rows: Sequence[NicRow]) -> None:
        """Draw `rows` in the present order; the cursor stays on its NIC."""
        self._all = rows
        self._rows = order_rows(rows, self.order)
        self.set_keys([f"{row.end.ifindex} {row.end.host}" for row in self._rows])
        self.redraw()

    @property
    def count(self) -> int:
        """Lines below the titles."""
        return max(1, len(self._rows))

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def redraw(self) -> None:
        self._columns = self._layout()
        if self._rows:
            self.show_drawn(len(self._rows), self._row_line, self._header_line(), self.index)
        else:
            self.show_lines([((f" {no_matches(self.key_label)}", "dim"),)], self._header_line())

    def _layout(self) -> tuple[Column[NicRow], ...]:
        """The columns that fit; spare cells widen the texts that would be cut."""
        cells = self.scrollable_content_region.width - self.MARK_CELLS
        fixed = [self._shrunk(column) for column in COLUMNS if column.key in SHRUNK_COLUMNS]
        others = [self._with_mark(column) for column in COLUMNS if column.key not in SHRUNK_COLUMNS]
        columns, self._hidden_columns = fit_with_mark(
            [*fixed, *others[self._scrolled_columns :]], cells
        )
        while self._scrolled_columns and not self._hidden_columns:  # the table has become wider
            wider, hidden = fit_with_mark([*fixed, *others[self._scrolled_columns - 1 :]], cells)
            if hidden:
                break
            columns, self._scrolled_columns = wider, self._scrolled_columns - 1
        return self._stretched(columns, cells)

    def _shrunk(self, column: Column[NicRow]) -> Column[NicRow]:
        """As wide as its texts, or as its title with the mark of the order. Hosts look
        different."""
        if column.key == "host":
            names = distinct_names((row.end.host for row in self._rows), column.width)
            column = replace(column, value=lambda row: names[row.end.host])
        needed = min(column.width, self._needed(column))
        return replace(column, width=max(len(column.title) + 1, needed))

    def _header_line(self) -> SpanLine:
        cells = self.scrollable_content_region.width
        scrolled = self.glyphs.choice_left if self._scrolled_columns else ""
        titles = f"{scrolled:>{self.MARK_CELLS}}{self._headings(self._columns)}"
        return header_line(titles, self._hidden_columns, cells, self.glyphs, scrolls=True)

    def _row_line(self, index: int) -> SpanLine:
        row = self._rows[index]
        return (" ", ""), self._mark(row), *cell_spans(self._columns, row, self.glyphs)

    def _mark(self, row: NicRow) -> Span:
        """That of the worst finding about a NIC; "?" where that may have changed."""
        if row.is_doubtful:
            return UNKNOWN_MARK, "dim"
        for severity in SEVERITIES:
            if severity == row.severity:
                tone = TONES[SEVERITY_LABELS[severity].tone]
                return severity_mark(severity, glyphs=self.glyphs), tone
        return " ", ""

    # ---------------------------------------------------------------------------------------- order

    def sort_by(self, column: str, *, descending: bool) -> None:
        """Sort by the present values of a column; "": by host."""
        self.order = make_row_order(self._all, column, descending=descending)
        self.show(self._all)

    def begins_with_greatest(self, column: Column[NicRow]) -> bool:
        return super().begins_with_greatest(column) or column.key in ("link", "finding")

    def action_scroll_columns(self, step: int) -> None:
        """Leave out one column more (`step` 1) or less (-1) behind host and name."""
        more = self._scrolled_columns if step < 0 else self._hidden_columns
        if more:
            self._scrolled_columns += step
            self.redraw()

    def header_clicked(self, x: int) -> None:
        """A mark of hidden columns shows them."""
        if self._hidden_columns and x >= self.scrollable_content_region.width - HIDDEN_MARK_CELLS:
            self.action_scroll_columns(1)
        elif x < self.MARK_CELLS:
            self.action_scroll_columns(-1)
        else:
            super().header_clicked(x)
