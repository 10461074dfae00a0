"""Every NIC of every host on one line, in an order that does not move by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from nictop.model.columns.column import Column, RowOrder
from nictop.model.columns.overview import COLUMNS, COLUMNS_BY_KEY, make_row_order, order_rows
from nictop.model.devices.overview import NicRow
from nictop.model.facts import clean, width
from nictop.rules import SEVERITIES
from nictop.rules.wording import SEVERITY_LABELS, severity_mark
from nictop.tui.keys import OVERVIEW_KEYS
from nictop.tui.widgets.base.filter_line import NO_MATCHES
from nictop.tui.widgets.base.line_view import TONES, SpanLine
from nictop.tui.widgets.base.list_view import ChoiceView
from nictop.tui.widgets.base.table_line import HIDDEN_MARK_CELLS, cell_spans, fit_with_mark, header_line, headings

SHRUNK_COLUMNS = ("host", "name")
"""Columns that are no wider than their texts."""
STRETCHED_COLUMNS = ("host", "name", "profile", "address", "peer")
"""Columns that share the cells that are left, as far as their text needs them."""
MARK_CELLS = 2
"""Cells of the severity mark before the columns."""


class OverviewTable(ChoiceView):
    """Posts `Chosen` when the cursor is on another line, `Opened` on a second click."""

    BINDINGS: ClassVar[list[BindingType]] = OVERVIEW_KEYS

    class Chosen(Message):
        """The cursor is on another line."""

    class Opened(ChoiceView.Opened):
        """The chosen NIC is to be shown on its host."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.order = RowOrder()
        self._rows: tuple[NicRow, ...] = ()
        self._all: Sequence[NicRow] = ()
        self._columns: tuple[Column[NicRow], ...] = ()
        self._hidden_columns = 0
        """Without room at the right."""
        self._scrolled_columns = 0
        """Columns behind `SHRUNK_COLUMNS` that are left out."""

    @property
    def chosen(self) -> NicRow | None:
        index = self.index
        return None if index is None else self._rows[index]

    def show(self, rows: Sequence[NicRow]) -> None:
        """Draw `rows` in the present order; the cursor stays on its NIC."""
        self._all = rows
        self._rows = order_rows(rows, self.order)
        self.set_keys([f"{row.end.ifindex} {row.end.host}" for row in self._rows])
        self.redraw()

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def redraw(self) -> None:
        self._columns = self._layout()
        if self._rows:
            self.show_drawn(len(self._rows), self._row_line, self._header_line(), self.index)
        else:
            self.show_lines([((NO_MATCHES, "dim"),)], self._header_line())

    def _layout(self) -> tuple[Column[NicRow], ...]:
        """The columns that fit; spare cells widen the texts that would be cut."""
        cells = self.scrollable_content_region.width - MARK_CELLS
        fixed = [self._shrunk(column) for column in COLUMNS if column.key in SHRUNK_COLUMNS]
        others = [self._with_mark(column) for column in COLUMNS if column.key not in SHRUNK_COLUMNS]
        columns, self._hidden_columns = fit_with_mark([*fixed, *others[self._scrolled_columns :]], cells)
        while self._scrolled_columns and not self._hidden_columns:  # the table has become wider
            wider, hidden = fit_with_mark([*fixed, *others[self._scrolled_columns - 1 :]], cells)
            if hidden:
                break
            columns, self._scrolled_columns = wider, self._scrolled_columns - 1
        room = cells - sum(column.width + 1 for column in columns) - (HIDDEN_MARK_CELLS if self._hidden_columns else 0)
        result = []
        for column in columns:
            wanted = column.width
            if column.key in STRETCHED_COLUMNS and room > 0:
                wanted += max(0, min(room, self._needed(column) - column.width))
                room -= wanted - column.width
            result.append(column if wanted == column.width else replace(column, width=wanted))
        return tuple(result)

    def _shrunk(self, column: Column[NicRow]) -> Column[NicRow]:
        """As wide as its texts, or as its title with the mark of the order."""
        return replace(column, width=max(len(column.title) + 1, min(column.width, self._needed(column))))

    def _with_mark(self, column: Column[NicRow]) -> Column[NicRow]:
        """With room for the mark of the order, if the rows are ordered by it."""
        if column.key != self.order.column:
            return column
        return replace(column, width=max(len(column.title) + 1, column.width))

    def _needed(self, column: Column[NicRow]) -> int:
        """Cells of the longest text in a column."""
        return max((width(clean(column.cell(row)[0])) for row in self._rows), default=0)

    def _header_line(self) -> SpanLine:
        mark = self.glyphs.descending if self.order.descending else self.glyphs.ascending
        titled = (
            replace(column, title=column.title + mark) if column.key == self.order.column else column
            for column in self._columns
        )
        cells = self.scrollable_content_region.width
        scrolled = self.glyphs.choice_left if self._scrolled_columns else ""
        return header_line(f"{scrolled:>{MARK_CELLS}}{headings(titled)}", self._hidden_columns, cells, self.glyphs)

    def _row_line(self, index: int) -> SpanLine:
        row = self._rows[index]
        severity = next((one for one in SEVERITIES if one == row.severity), None)
        if severity is None:
            mark = " ", ""
        else:
            mark = severity_mark(severity, glyphs=self.glyphs), TONES[SEVERITY_LABELS[severity].tone]
        return (" ", ""), mark, *cell_spans(self._columns, row, self.glyphs)

    # --------------------------------------------------------------------------------------------------- order

    def sort_by(self, column: str, *, descending: bool) -> None:
        """Sort by the present values of a column; "": by host."""
        self.order = make_row_order(self._all, column, descending=descending)
        self.show(self._all)

    def action_sort(self, step: int) -> None:
        """The next column in sight, then by host again; numbers and severities begin with the greatest."""
        keys = ["", *(column.key for column in self._columns)]
        place = keys.index(self.order.column) if self.order.column in keys else 0
        self._sort_first(keys[(place + step) % len(keys)])

    def action_reverse(self) -> None:
        self.sort_by(self.order.column, descending=not self.order.descending)

    def _sort_first(self, key: str) -> None:
        column = COLUMNS_BY_KEY.get(key)
        self.sort_by(key, descending=column is not None and (column.align == "right" or key in ("link", "finding")))

    def action_scroll_columns(self, step: int) -> None:
        """Leave out one column more (`step` 1) or less (-1) behind host and name."""
        if self._scrolled_columns if step < 0 else self._hidden_columns:
            self._scrolled_columns += step
            self.redraw()

    def on_click(self, event: events.Click) -> None:
        """A title sorts by its column; a second time, the other way round. A mark of hidden columns shows them."""
        offset = event.get_content_offset_capture(self)
        if offset.y != 0:
            return  # a line, or the frame
        event.prevent_default()
        if self._hidden_columns and offset.x >= self.scrollable_content_region.width - HIDDEN_MARK_CELLS:
            self.action_scroll_columns(1)
            return
        left = MARK_CELLS
        if offset.x < left:
            self.action_scroll_columns(-1)
            return
        for column in self._columns:
            if left <= offset.x <= left + column.width:
                if column.key == self.order.column:
                    self.action_reverse()
                else:
                    self._sort_first(column.key)
                return
            left += column.width + 1
