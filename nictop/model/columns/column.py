"""A column of a table, which columns of a table fit, and an order of rows that does not change by
itself.

Reads nothing. Text is raw: `Column.cell` gives it as the host reported it, `Column.text` cleaned
and cut to its width.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Generic, Literal, TypeVar

from nictop.model.text import units
from nictop.model.text.terminal import clean, fit, fit_middle, width
from nictop.model.text.words import Tone
from nictop.probe.light_dataclasses import dataclass, replace

Cell = tuple[str, Tone]
Value = float | int | str | Cell | None
"""A number in the unit of its column; text; text with its tone; None: not known; "": the row has no
such thing."""
SortKey = tuple[object, ...]
RowT = TypeVar("RowT")

REMAINING_WIDTH = 1000
"""Width of a last column that takes the remaining space."""


def _normal(row: object, value: Value) -> Tone:
    return "normal"


def no_value(row: object) -> str:
    """Of a column that is drawn, not written."""
    return ""


@dataclass(frozen=True, eq=False)
class Column(Generic[RowT]):
    """One column of a table whose rows are of type `RowT`."""

    key: str
    title: str
    unit: str
    """Of the number; "" for text."""
    width: int
    """Cells; wider text is cut. In tables with variable widths (`sized_columns`) the largest
    width."""
    priority: int
    """1: the last one to be left out; columns of equal priority are shown together or not at
    all."""
    align: Literal["left", "right"]
    value: Callable[[RowT], Value]
    tone: Callable[[RowT, Value], Tone] = _normal
    """Tone of values that have none."""
    is_live: bool = False
    """Its values change by themselves: rows that are sorted by it keep the order of the time of
    that request."""
    rank: Callable[[RowT], SortKey | None] | None = None
    """Sort key instead of the value; a result of None: last, in both directions."""
    source: str = ""
    """What it is, and in parentheses from where it is read; for the help."""
    keeps_end: bool = False
    """A text that is too wide is cut in its middle: of an address or a path, the end tells it from
    others."""

    @cached_property
    def is_rate(self) -> bool:
        """Its numbers are per second: three significant digits and an SI prefix."""
        return self.unit.endswith("/s")

    @property
    def heading(self) -> str:
        """The title in the width of the column."""
        return fit(self.title, self.width, self.align)

    def cell(self, row: RowT) -> Cell:
        """Raw text and its tone; "" where the row has no such thing."""
        value = self.value(row)
        if isinstance(value, tuple):
            return value
        return self._text_of(value), self.tone(row, value)

    def raw_text(self, row: RowT) -> str:
        """That of `cell`."""
        value = self.value(row)
        return value[0] if isinstance(value, tuple) else self._text_of(value)

    def _text_of(self, value: str | float | None) -> str:
        if isinstance(value, str):
            return value
        if self.is_rate:
            return units.scaled(value)
        if value is None:
            return units.UNKNOWN
        return str(value)

    def text(self, row: RowT) -> str:
        """The text of the cell, cleaned, in the width of the column."""
        return self.fit(self.cell(row)[0])

    def fit(self, text: str) -> str:
        """A text, cleaned, in the width of the column."""
        if self.keeps_end:
            return fit_middle(text, self.width, self.align)
        return fit(text, self.width, self.align)

    def sort_key(self, row: RowT) -> SortKey | None:
        """Comparable with that of any other row; None: the row has no such value."""
        if self.rank is not None:
            return self.rank(row)
        value = self.value(row)
        if isinstance(value, tuple):
            value = value[0]
        if value in (None, "", units.UNKNOWN):
            return None
        if isinstance(value, str):
            return natural_sort_key(value)
        return (value,)


def natural_sort_key(text: str) -> SortKey:
    """Sort key of a name: numbers in it by value (``ens9`` before ``ens10``), case-insensitive."""
    key: list[tuple[int, int, str]] = []
    for index, part in enumerate(re.split(r"([0-9]{1,18})", text.casefold())):
        is_number = index % 2 == 1
        key.append((1, int(part), "") if is_number else (0, 0, part))
    return (*key, (0, 0, text))


def _own_priority(column: Column[RowT]) -> int:
    return column.priority


def fit_columns(
    columns: Sequence[Column[RowT]],
    room: int,
    priority: Callable[[Column[RowT]], int] = _own_priority,
) -> tuple[Column[RowT], ...]:
    """The columns that fit into `room` cells, each with a blank before it, in their own order: by
    priority (1 first), those of equal priority together or not at all."""
    groups: dict[int, list[Column[RowT]]] = {}
    for column in columns:
        groups.setdefault(priority(column), []).append(column)
    chosen: list[Column[RowT]] = []
    for _, group in sorted(groups.items()):
        room -= sum(column.width + 1 for column in group)
        if room < 0:
            break  # a less important one must not take the place of a more important one
        chosen += group
    return tuple(column for column in columns if column in chosen)


def sized_columns(
    columns: Sequence[Column[RowT]], rows: Sequence[RowT], room: int
) -> tuple[Column[RowT], ...]:
    """All columns, each as wide as its texts in `rows` and no wider than its `width`; `room` cells,
    with a blank before each, are given to the first ones first."""
    room -= len(columns)
    found: list[Column[RowT]] = []
    for column in columns:
        texts = [column.title, *(column.cell(row)[0] for row in rows)]
        needed = max(width(clean(text)) for text in texts)
        found.append(replace(column, width=max(0, min(needed, column.width, room))))
        room -= found[-1].width
    return tuple(found)


# -------------------------------------------------------------------------------------------- order


@dataclass(frozen=True)
class RowOrder:
    """Order of the rows of a table; created by `order_by`."""

    column: str = ""
    """Key; "": that of the table itself."""
    descending: bool = False
    places: tuple[object, ...] = ()
    """Keys of the rows as they were ordered at the time of the request, for columns whose values
    change by themselves."""


def order_by(
    column: Column[RowT],
    rows: Iterable[RowT],
    key: Callable[[RowT], object],
    *,
    descending: bool = False,
) -> RowOrder:
    """The order by a column with the current values. `key`: identifies a row."""
    if not column.is_live:
        return RowOrder(column.key, descending)
    return RowOrder(column.key, descending, tuple(map(key, _sorted(rows, column, descending))))


def ordered(
    rows: Iterable[RowT], order: RowOrder, column: Column[RowT], key: Callable[[RowT], object]
) -> tuple[RowT, ...]:
    """`rows` in the order by `column`. If its values change by themselves, the order is that of the
    time of the request, and new rows come last: rows do not move under the cursor."""
    if not column.is_live:
        return _sorted(rows, column, order.descending)
    places = {one: place for place, one in enumerate(order.places)}
    return tuple(sorted(rows, key=lambda row: places.get(key(row), len(places))))


def _sorted(rows: Iterable[RowT], column: Column[RowT], descending: bool) -> tuple[RowT, ...]:
    """Equal rows keep their order in both directions; those without a value come last in both."""
    known: list[tuple[SortKey, RowT]] = []
    unknown: list[RowT] = []
    for row in rows:
        key = column.sort_key(row)
        if key is None:
            unknown.append(row)
        else:
            known.append((key, row))
    known.sort(key=lambda pair: pair[0], reverse=descending)
    return (*(row for _, row in known), *unknown)
