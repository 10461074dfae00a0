"""What stands in the lines of the overview, and an order of them that does not move by itself.

Reads nothing. One line in `COLUMNS` is one column; `visible_columns(width)` drops them by priority when room is short.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from nictop.model.columns.devices import fitting
from nictop.model.devices.netdevs import End
from nictop.model.devices.overview import HOST_STATES, WORST_FIRST, NicRow
from nictop.model.text import units
from nictop.model.text.words import Tone, state_mark, state_words
from nictop.probe.records import Link

Value = float | int | str | None
"""A number in the unit of its column; text; None: not known; "": this row has no such thing."""

SortKey = tuple[object, ...]


@dataclass(frozen=True)
class OverviewColumn:
    """One column of the overview."""

    key: str
    title: str
    unit: str
    """Of the number; "" for text."""
    width: int
    """Cells; `fit` cuts what is wider."""
    priority: int
    """1 stays longest."""
    align: Literal["left", "right"]
    precision: int | None
    """Significant digits of a number that gets an SI prefix; None: exact, or text."""
    value: Callable[[NicRow], Value]
    moves: bool = False
    """It changes by itself: the order by it is that of the moment in which it was asked for."""
    rank: Callable[[NicRow], SortKey | None] | None = None
    """What it is sorted by instead of its value; None as a result: last, whatever the direction."""
    tone: Callable[[NicRow, Value], Tone] = lambda row, value: "normal"

    def cell(self, row: NicRow) -> tuple[str, Tone]:
        """Raw text of the cell and its tone; "" where the row has no such thing. All of a stale row is dim."""
        value = self.value(row)
        tone: Tone = "dim" if row.is_stale or value in ("", None, 0) else self.tone(row, value)
        if isinstance(value, str):
            return value, tone
        if self.precision is not None:
            return units.scaled(value), tone
        return units.UNKNOWN if value is None else str(value), tone

    def sort_key(self, row: NicRow) -> SortKey | None:
        """Comparable with that of any other row; None: the row has no such value."""
        if self.rank is not None:
            return self.rank(row)
        value = self.value(row)
        if value is None or value == "":
            return None
        return natural(value) if isinstance(value, str) else (value,)


def natural(text: str) -> SortKey:
    """``ens9`` before ``ens10``, capitals among the others."""
    parts = re.split(r"([0-9]{1,18})", text.casefold())
    return (*((1, int(part), "") if number % 2 else (0, 0, part) for number, part in enumerate(parts)), (0, 0, text))


def visible_columns(width: int) -> tuple[OverviewColumn, ...]:
    """The columns that fit into `width` cells, each with a blank before it, in their fixed order."""
    return fitting(COLUMNS, width, lambda column: column.priority)


def _of_link(read: Callable[[Link], Value]) -> Callable[[NicRow], Value]:
    return lambda row: "" if row.link is None else read(row.link)


def _rate(*names: str) -> Callable[[NicRow], Value]:
    return lambda row: "" if row.link is None else row.rate(*names)


def _link_state(row: NicRow) -> Value:
    if row.link is None:
        return ""
    mark = state_mark(row.link)
    return mark if row.speed is None else f"{mark} {units.link_speed(row.speed)}"


def _link_rank(row: NicRow) -> SortKey | None:
    """Down, no carrier, up without a speed, up by speed."""
    if row.link is None:
        return None
    return ("·▽▲".index(state_mark(row.link)), row.speed or 0)


def _address_rank(row: NicRow) -> SortKey | None:
    if not row.addresses:
        return None
    try:
        address = ipaddress.ip_interface(row.addresses[0])
    except ValueError:
        return (9, 0, row.addresses[0])
    return (address.version, int(address.ip), "")


def _profile(row: NicRow) -> Value:
    return "" if row.link is None else row.profile[0] or None


def _peer(row: NicRow) -> Value:
    """``vm1 ens3``, or ``vm1 ens3 +4`` for a physical function with five guests."""
    if not row.peers:
        return ""
    return row.peers[0] if len(row.peers) == 1 else f"{row.peers[0]} +{len(row.peers) - 1}"


def _finding_rank(row: NicRow) -> SortKey | None:
    """The worst is the greatest."""
    return (-WORST_FIRST.index(row.severity),) if row.severity in WORST_FIRST else None


def _state_rank(row: NicRow) -> SortKey:
    return (HOST_STATES.index(row.host_state.partition(" ")[0]), -(row.age or 0.0))


def _state_tone(row: NicRow, value: Value) -> Tone:
    return "good" if row.snapshot.state == "live" else "dim"


def _finding_tone(row: NicRow, value: Value) -> Tone:
    return {"critical": "bad", "warning": "warn"}.get(str(value), "normal")  # type: ignore[return-value]


def _bad(row: NicRow, value: Value) -> Tone:
    return "warn" if value else "normal"


def _link_tone(row: NicRow, value: Value) -> Tone:
    return state_words(row.link)[1] if row.link is not None else "normal"


_SCALED = units.SCALED_WIDTH

COLUMNS = (
    OverviewColumn("host", "HOST", "", 14, 1, "left", None, lambda row: row.end.host),
    OverviewColumn("name", "NIC", "", 12, 1, "left", None, _of_link(lambda link: link.name)),
    OverviewColumn("link", "LINK", "", 6, 1, "left", None, _link_state, True, _link_rank, _link_tone),
    OverviewColumn("driver", "DRIVER", "", 10, 5, "left", None, lambda row: row.driver),
    OverviewColumn("profile", "PROFILE", "", 18, 6, "left", None, _profile, tone=lambda row, value: row.profile[1]),
    OverviewColumn("in", "IN", "b/s", _SCALED, 2, "right", 3, _rate("rx_bits"), True),
    OverviewColumn("out", "OUT", "b/s", _SCALED, 2, "right", 3, _rate("tx_bits"), True),
    OverviewColumn("in_packets", "PPS IN", "packets/s", _SCALED, 9, "right", 3, _rate("rx_packets"), True),
    OverviewColumn("out_packets", "PPS OUT", "packets/s", 7, 9, "right", 3, _rate("tx_packets"), True),
    OverviewColumn("errors", "ERR/S", "1/s", _SCALED, 8, "right", 3, _rate("rx_errors", "tx_errors"), True, tone=_bad),
    OverviewColumn(
        "drops", "DROP/S", "1/s", _SCALED, 4, "right", 3, lambda row: "" if row.link is None else row.drops, True,
        tone=_bad,
    ),
    OverviewColumn(
        "finding", "FINDING", "", 8, 3, "left", None, lambda row: row.severity or "", True, _finding_rank, _finding_tone
    ),
    OverviewColumn("state", "HOST IS", "", 13, 3, "left", None, lambda row: row.host_state, True, _state_rank,
                   _state_tone),
    OverviewColumn("address", "ADDRESS", "", 18, 7, "left", None,
                   lambda row: row.addresses[0] if row.addresses else "", False, _address_rank),
    OverviewColumn("peer", "PEER", "", 18, 10, "left", None,
                   _peer),
    OverviewColumn("mtu", "MTU", "bytes", 5, 11, "right", None, _of_link(lambda link: link.mtu)),
    OverviewColumn("pci", "PCI", "", 12, 12, "left", None, _of_link(lambda link: link.pci_address or "")),
    OverviewColumn("mac", "MAC", "", 17, 13, "left", None, _of_link(lambda link: link.address or "")),
)  # fmt: skip

BY_KEY = {column.key: column for column in COLUMNS}


# --------------------------------------------------------------------------------------------------------------- order


@dataclass(frozen=True)
class Order:
    """How the rows stand; made by `ordered_by`."""

    column: str = ""
    """Key; "": by host and ifindex."""
    descending: bool = False
    places: tuple[End, ...] = ()
    """The rows as they stood when the order was asked for, for columns that change by themselves."""


def ordered_by(rows: Iterable[NicRow], column: str, *, descending: bool = False) -> Order:
    """The order by a column (a key of `COLUMNS`, or ""), as it is now."""
    if not column or not BY_KEY[column].moves:
        return Order(column, descending)
    now = _sorted(rows, BY_KEY[column], descending)
    return Order(column, descending, tuple(row.end for row in now))


def arranged(rows: Iterable[NicRow], order: Order) -> tuple[NicRow, ...]:
    """`rows` in that order. By a column that changes by itself they stand as they stood when it was asked for, and what
    is new comes last: nothing moves under the cursor."""
    rows = tuple(rows)
    if not order.column:
        return rows[::-1] if order.descending else rows
    if not BY_KEY[order.column].moves:
        return _sorted(rows, BY_KEY[order.column], order.descending)
    places = {end: place for place, end in enumerate(order.places)}
    return tuple(sorted(rows, key=lambda row: places.get(row.end, len(places))))


def _sorted(rows: Iterable[NicRow], column: OverviewColumn, descending: bool) -> tuple[NicRow, ...]:
    """Equal rows keep their order in both directions; those without a value come last in both."""
    known: list[tuple[SortKey, NicRow]] = []
    unknown: list[NicRow] = []
    for row in rows:
        key = column.sort_key(row)
        if key is None:
            unknown.append(row)
        else:
            known.append((key, row))
    known.sort(key=lambda pair: pair[0], reverse=descending)
    return (*(row for _, row in known), *unknown)
