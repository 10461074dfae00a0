"""A list with columns, which its rows can be sorted by: with the keys, or by a click on a title."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic

from textual import events

from nictop.model.columns.column import Column, RowOrder, RowT
from nictop.model.facts import clean, width
from nictop.probe.light_dataclasses import replace
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.table_line import HIDDEN_MARK_CELLS, columns_cells, headings


class SortableTable(ChoiceList, Generic[RowT]):
    """A subclass draws the rows and orders them (`sort_by`)."""

    MARK_CELLS: ClassVar[int] = 1
    """Cells before the columns."""
    STRETCHED_COLUMNS: ClassVar[tuple[str, ...]] = ()
    """Columns that share the cells that are left, as far as their text needs them."""
    COLUMNS_BY_KEY: ClassVar[Mapping[str, Column[Any]]] = {}

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.order = RowOrder()
        self._rows: tuple[RowT, ...] = ()
        self._all: Sequence[RowT] = ()
        self._columns: tuple[Column[RowT], ...] = ()
        self._hidden_columns = 0
        """Without room at the right."""

    @property
    def is_sortable(self) -> bool:
        """There are rows."""
        return bool(self._all)

    @property
    def chosen(self) -> RowT | None:
        index = self.index
        if index is None:
            return None
        return self._rows[index]

    def sort_by(self, column: str, *, descending: bool) -> None:
        """Sort by the present values of a column; "": the usual order."""
        raise NotImplementedError

    def begins_with_greatest(self, column: Column[RowT]) -> bool:
        return column.align == "right"

    # -------------------------------------------------------------------------------------- columns

    def _needed(self, column: Column[RowT]) -> int:
        """Cells of the longest text in a column."""
        texts = {column.raw_text(row) for row in self._rows}  # mostly the same few
        return max((width(clean(text)) for text in texts), default=0)

    def _with_mark(self, column: Column[RowT]) -> Column[RowT]:
        """With room for the mark of the order, if the rows are ordered by it."""
        if column.key != self.order.column:
            return column
        return replace(column, width=max(len(column.title) + 1, column.width))

    def _stretched(self, columns: Sequence[Column[RowT]], cells: int) -> tuple[Column[RowT], ...]:
        """The columns in `cells` cells: spare ones widen the texts that would be cut."""
        room = cells - columns_cells(columns)
        if self._hidden_columns:
            room -= HIDDEN_MARK_CELLS
        result = []
        for column in columns:
            more = 0
            if column.key in self.STRETCHED_COLUMNS and room > 0:
                more = max(0, min(room, self._needed(column) - column.width))
                room -= more
            result.append(replace(column, width=column.width + more))
        return tuple(result)

    def _headings(self, columns: Iterable[Column[RowT]]) -> str:
        """The titles, that of the order with its mark."""
        return headings(map(self._with_marked_title, columns))

    def _with_marked_title(self, column: Column[RowT]) -> Column[RowT]:
        if column.key != self.order.column:
            return column
        mark = self.glyphs.descending if self.order.descending else self.glyphs.ascending
        return replace(column, title=column.title + mark)

    # ---------------------------------------------------------------------------------------- order

    def action_sort(self, step: int) -> None:
        """By the next column in sight, then in the usual order again; numbers begin with the
        greatest."""
        keys = ["", *(column.key for column in self._columns)]
        place = 0
        if self.order.column in keys:
            place = keys.index(self.order.column)
        self.sort_first(keys[(place + step) % len(keys)])

    def action_reverse(self) -> None:
        self.sort_by(self.order.column, descending=not self.order.descending)

    def sort_first(self, key: str) -> None:
        """As the first click on its title: numbers begin with the greatest."""
        column = self.COLUMNS_BY_KEY.get(key)
        self.sort_by(key, descending=column is not None and self.begins_with_greatest(column))

    def on_click(self, event: events.Click) -> None:
        """A title sorts by its column; a second time, the other way round."""
        offset = event.get_content_offset_capture(self)
        if offset.y != 0:
            return  # a line, or the frame
        event.prevent_default()
        self.header_clicked(offset.x)

    def header_clicked(self, x: int) -> None:
        left = self.MARK_CELLS
        for column in self._columns:
            if left <= x <= left + column.width:
                if column.key == self.order.column:
                    self.action_reverse()
                else:
                    self.sort_first(column.key)
                return
            left += column.width + 1
