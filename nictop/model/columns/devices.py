"""Every number of the live table: title, unit, width, and where it comes from.

Reads nothing. One line in `COLUMNS` is one column; `visible_columns(width)` drops them by priority when room is short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

from nictop.model.devices.tree import Row
from nictop.model.facts.hardware import NO_ADDRESS, driver_words, pcie_words
from nictop.model.facts.links import link_name
from nictop.model.facts.summary import ranked_addresses
from nictop.model.managers.link_managers import profile_name
from nictop.model.rates.links import LinkRates, VfRates
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import Tone, driver_name, state_mark, state_words
from nictop.probe.records import Link

Value = float | int | str | tuple[str, Tone] | None
"""A number in the unit of its column; text, or text with the tone it is said in; None: not known; "": this row has no
such thing."""


@dataclass(frozen=True)
class Column:
    """One column of the live table."""

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
    value: Callable[[Row, Snapshot], Value]
    tone: Callable[[Row, Value], Tone] = lambda row, value: "normal"

    def cell(self, row: Row, snapshot: Snapshot) -> tuple[str, Tone]:
        """Raw text of the cell and its tone; "" where the row has no such thing."""
        value = self.value(row, snapshot)
        if isinstance(value, tuple):
            return value
        if isinstance(value, str):
            return value, self.tone(row, value) if value else "normal"
        if self.precision is not None:
            return units.scaled(value), "dim" if not value else self.tone(row, value)
        return units.UNKNOWN if value is None else str(value), self.tone(row, value)


class Fits(Protocol):
    """What `fitting` must know of a column."""

    @property
    def width(self) -> int: ...


AnyColumn = TypeVar("AnyColumn", bound=Fits)


def fitting(columns: Sequence[AnyColumn], width: int, priority: Callable[[AnyColumn], int]) -> tuple[AnyColumn, ...]:
    """The columns that fit into `width` cells, each with a blank before it, in their own order: by priority (1 first),
    those of equal priority together or not at all."""
    groups: dict[int, list[AnyColumn]] = {}
    for column in columns:
        groups.setdefault(priority(column), []).append(column)
    chosen: list[AnyColumn] = []
    for _, group in sorted(groups.items()):
        needed = sum(column.width + 1 for column in group)
        if needed > width:
            break  # a less important one must not take the place of a more important one
        width -= needed
        chosen += group
    return tuple(column for column in columns if column in chosen)


def visible_columns(width: int, *, packets: bool = False) -> tuple[Column, ...]:
    """The columns that fit into `width` cells, each with a blank before it, in their fixed order. `packets`: packets
    per second are more important than bits per second."""
    return fitting(COLUMNS, width, lambda column: _priority(column, packets))


_SWAPPED = {"in": "in_packets", "out": "out_packets", "in_packets": "in", "out_packets": "out"}


def _priority(column: Column, packets: bool) -> int:
    if packets and column.key in _SWAPPED:
        return next(other.priority for other in COLUMNS if other.key == _SWAPPED[column.key])
    return column.priority


# ----------------------------------------------------------------------------------------------------------- values


def _rates(row: Row, snapshot: Snapshot) -> LinkRates | VfRates | None:
    rates = snapshot.rates
    if rates is None:
        return None
    if row.kind == "vf" and row.uplink is not None and row.vf is not None:
        return rates.vfs.get(row.uplink.ifindex, {}).get(row.vf.number)
    return rates.links.get(row.link.ifindex) if row.link is not None else None


def _rate(*names: str) -> Callable[[Row, Snapshot], Value]:
    """Sum of rates of a row; "" for rows that nobody counts."""
    counted_per_vf = all(name in VfRates.__dataclass_fields__ for name in names)

    def value(row: Row, snapshot: Snapshot) -> Value:
        if row.link is None and (row.vf is None or row.vf.counters is None or not counted_per_vf):
            return ""
        rates = _rates(row, snapshot)
        total = 0.0
        for name in names:
            one = getattr(rates, name, None)
            if one is None:
                return None
            total += one
        return total

    return value


def _drops(row: Row, snapshot: Snapshot) -> Value:
    """Dropped by the stack and missed by the device, as the ``drop`` columns of /proc/net/dev: a ring that overflows
    shows at every width."""
    dropped = _rate("rx_dropped", "tx_dropped")(row, snapshot)
    missed = _rate("rx_missed")(row, snapshot)
    if not isinstance(dropped, float):
        return dropped
    return dropped + missed if isinstance(missed, float) else dropped


def _of_link(read: Callable[[Link, Snapshot], Value]) -> Callable[[Row, Snapshot], Value]:
    return lambda row, snapshot: "" if row.link is None else read(row.link, snapshot)


def _link_state(row: Row, snapshot: Snapshot) -> Value:
    if row.kind == "vf" and row.vf is not None:
        return row.vf.link_state or ""
    if row.link is None:
        return ""
    settings = row.link.ethtool.settings
    if settings is None or settings.speed is None:
        return state_mark(row.link)
    return f"{state_mark(row.link)} {units.link_speed(settings.speed)}"


def _link_tone(row: Row, value: Value) -> Tone:
    return state_words(row.link)[1] if row.link is not None else "normal"


def _driver(row: Row, snapshot: Snapshot) -> Value:
    """A PCI function names its driver only when no netdev below does."""
    if row.link is not None:
        return driver_name(row.link, row.pci) or None
    if row.pci is None or any(link.pci_address == row.pci.address for link in snapshot.links.values()):
        return ""
    return row.pci.driver or driver_words(row.pci)[0]


def _driver_tone(row: Row, value: Value) -> Tone:
    return driver_words(row.pci)[1] if row.link is None and row.pci is not None else "normal"


def _address(row: Row, snapshot: Snapshot) -> Value:
    if row.kind == "vf" and row.vf is not None:
        return "" if row.vf.address in (None, NO_ADDRESS) else row.vf.address
    return "" if row.link is None else row.link.address or ""


def _ip(link: Link, snapshot: Snapshot) -> Value:
    ranked = ranked_addresses(link)
    return f"{ranked[0].address}/{ranked[0].prefix_length}" if ranked else ""


def _pcie(row: Row, snapshot: Snapshot) -> Value:
    if row.kind != "pci" or row.pci is None or row.pci.link is None:
        return ""
    return pcie_words(replace(row.pci.link, max_speed=None, max_width=None))[0]


def _pcie_tone(row: Row, value: Value) -> Tone:
    return pcie_words(row.pci.link)[1] if row.pci is not None else "normal"


def _numa(row: Row, snapshot: Snapshot) -> Value:
    return "" if row.kind != "pci" or row.pci is None or row.pci.numa_node is None else row.pci.numa_node


def _bad(row: Row, value: Value) -> Tone:
    return "warn" if value else "normal"


COLUMNS = (
    Column("link", "LINK", "", 6, 1, "left", None, _link_state, _link_tone),
    Column("profile", "PROFILE", "", 18, 4, "left", None, _of_link(profile_name)),
    Column("driver", "DRIVER", "", 10, 5, "left", None, _driver, _driver_tone),
    Column("in", "IN", "b/s", units.SCALED_WIDTH, 2, "right", 3, _rate("rx_bits")),
    Column("out", "OUT", "b/s", units.SCALED_WIDTH, 2, "right", 3, _rate("tx_bits")),
    Column("in_packets", "PPS IN", "packets/s", units.SCALED_WIDTH, 7, "right", 3, _rate("rx_packets")),
    Column("out_packets", "PPS OUT", "packets/s", 7, 7, "right", 3, _rate("tx_packets")),
    Column("errors", "ERR/S", "1/s", units.SCALED_WIDTH, 6, "right", 3, _rate("rx_errors", "tx_errors"), _bad),
    Column("drops", "DROP/S", "1/s", units.SCALED_WIDTH, 3, "right", 3, _drops, _bad),
    Column("missed", "MISS/S", "1/s", units.SCALED_WIDTH, 8, "right", 3, _rate("rx_missed"), _bad),
    Column("ip", "ADDRESS", "", 18, 9, "left", None, _of_link(_ip)),
    Column("mtu", "MTU", "bytes", 5, 10, "right", None, _of_link(lambda link, snapshot: link.mtu)),
    Column(
        "master",
        "MASTER",
        "",
        8,
        11,
        "left",
        None,
        _of_link(lambda link, snapshot: "" if link.master is None else link_name(link.master, snapshot)),
    ),
    Column("numa", "NUMA", "", 4, 12, "right", None, _numa),
    Column("pcie", "PCIE", "", 12, 13, "left", None, _pcie, _pcie_tone),
    Column("mac", "MAC", "", 17, 14, "left", None, _address),
)
