"""Every NIC of every guest of one host on one line."""

from __future__ import annotations

from collections.abc import Sequence

from textual.message import Message

from nictop.model.columns.column import Column
from nictop.model.columns.guests import COLUMNS, COLUMNS_BY_KEY, make_row_order, order_rows
from nictop.model.guests.table import GuestRow
from nictop.probe.light_dataclasses import replace
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.base.sortable_table import SortableTable
from nictop.tui.widgets.base.table_line import cell_spans, fit_with_mark, header_line


class GuestTable(SortableTable[GuestRow]):
    """Posts `Chosen` when the cursor is on another line, `Opened` on a second click."""

    STRETCHED_COLUMNS = ("guest", "link", "address", "network")
    COLUMNS_BY_KEY = COLUMNS_BY_KEY

    class Chosen(Message):
        """The cursor is on another line."""

    class Opened(ChoiceList.Opened):
        """The link of the chosen NIC is to be shown."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._empty = ""

    def show(self, rows: Sequence[GuestRow], empty: str) -> None:
        """Draw `rows` in the present order, or the sentence `empty` where there are none."""
        self._all, self._empty = rows, empty
        self._rows = order_rows(rows, self.order)
        self.set_keys([row.key for row in self._rows])
        self.redraw()

    @property
    def count(self) -> int:
        """Lines below the titles."""
        return max(1, len(self._rows))

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def redraw(self) -> None:
        cells = self.scrollable_content_region.width - self.MARK_CELLS
        columns = [self._with_mark(self._shrunk(column)) for column in COLUMNS]
        fitting, self._hidden_columns = fit_with_mark(columns, cells)
        self._columns = self._stretched(fitting, cells)
        titles = f"{'':{self.MARK_CELLS}}{self._headings(self._columns)}"
        width = self.scrollable_content_region.width
        header = header_line(titles, self._hidden_columns, width, self.glyphs)
        if self._rows:
            self.show_drawn(len(self._rows), self._row_line, header, self.index)
        else:
            self.show_lines([((f" {self._empty}", "dim"),)], header)

    def _shrunk(self, column: Column[GuestRow]) -> Column[GuestRow]:
        """No wider than its texts and its title."""
        if column.key == "guest":
            return column
        needed = max(len(column.title), self._needed(column))
        return replace(column, width=min(column.width, needed))

    def _row_line(self, index: int) -> SpanLine:
        return ((" ", ""), *cell_spans(self._columns, self._rows[index], self.glyphs))

    def sort_by(self, column: str, *, descending: bool) -> None:
        """Sort by the present values of a column; "": by guest."""
        self.order = make_row_order(self._all, column, descending=descending)
        self.show(self._all, self._empty)
