"""The overview of all NICs of all hosts: its columns, and an order of its rows that does not change
by itself.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nictop.model.columns.column import Column, RowOrder, SortKey, Value, order_by, ordered
from nictop.model.columns.devices import (
    MARKED,
    address_rank,
    is_doubtful_of_link,
    link_rank,
    master_text,
    with_doubts,
)
from nictop.model.devices.netdevs import End
from nictop.model.devices.overview import HOST_STATES, SEVERITIES_WORST_FIRST, NicRow
from nictop.model.doubts import doubts_of
from nictop.model.text import units
from nictop.model.text.words import LINK_DOWN, Tone, mtu_of, state_mark, state_text, warn_if
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link


def _of_link(read: Callable[[Link], Value]) -> Callable[[NicRow], Value]:
    """A value of the link; there is none in the row of a host without NICs."""

    def value(row: NicRow) -> Value:
        if row.link is None:
            return ""
        return read(row.link)

    return value


def _of_nic(read: Callable[[NicRow], Value]) -> Callable[[NicRow], Value]:
    """A value of the row; there is none in the row of a host without NICs."""

    def value(row: NicRow) -> Value:
        if row.link is None:
            return ""
        return read(row)

    return value


def _rate(*names: str) -> Callable[[NicRow], Value]:
    return _of_nic(lambda row: row.rate(*names))


def _link_state(row: NicRow) -> Value:
    if row.link is None:
        return ""
    if row.is_stale:
        return "stale"  # how long is in another column, for which a narrow screen has no room
    mark = state_mark(row.link)
    if mark == LINK_DOWN:
        return f"{mark} down"
    doubts = doubts_of(row.snapshot)
    if row.speed is None or (doubts is not None and doubts.concern_speed(row.link)):
        return mark
    return f"{mark} {units.link_speed(row.speed)}"


def _link_rank(row: NicRow) -> SortKey | None:
    if row.link is None:
        return None
    return link_rank(row.link)


def _drops(row: NicRow) -> Value:
    """As a text of at most 7 cells."""
    drops = row.total_drops
    if not drops:
        return drops
    return units.count(drops)


def _drops_rank(row: NicRow) -> SortKey | None:
    drops = row.total_drops
    if drops is None:
        return None
    return (drops,)


def _address(row: NicRow) -> Value:
    return row.addresses[0] if row.addresses else ""


def _address_rank(row: NicRow) -> SortKey | None:
    return address_rank(row.addresses[0]) if row.addresses else None


def _profile(row: NicRow) -> Value:
    return row.profile[0] or None


def _peer(row: NicRow) -> Value:
    """``vm1 ens3``, or ``vm1 ens3 +4`` for a physical function with five guests."""
    if not row.peers:
        return ""
    first, *others = row.peers
    if others:
        return f"{first} +{len(others)}"
    return first


def _master(row: NicRow) -> Value:
    if row.link is None:
        return ""
    return master_text(row.link, row.snapshot)[0]


def _master_tone(row: NicRow, value: Value) -> Tone:
    return warn_if(row.link is not None and not master_text(row.link, row.snapshot)[1])


UNKNOWN_FINDING = "?"


def _severity(row: NicRow) -> Value:
    """``warning``, ``warning?`` where that may have changed."""
    mark = UNKNOWN_FINDING if row.severity and row.is_doubtful else ""
    return f"{row.severity or ''}{mark}"


def _finding_rank(row: NicRow) -> SortKey | None:
    """The most severe has the largest key."""
    if row.severity not in SEVERITIES_WORST_FIRST:
        return None
    return (-SEVERITIES_WORST_FIRST.index(row.severity),)


def _state_rank(row: NicRow) -> SortKey:
    return (
        HOST_STATES.index(row.host_state.partition(" ")[0]),
        -(row.age or row.late_seconds or 0.0),
    )


def _state_tone(row: NicRow, value: Value) -> Tone:
    return "good" if value == "live" else "dim"


def _finding_tone(row: NicRow, value: Value) -> Tone:
    tone: Tone = "dim" if row.is_doubtful else "normal"
    return {"critical": "bad", "warning": "warn"}.get(str(value), tone)  # type: ignore[return-value]


def _bad(row: NicRow, value: Value) -> Tone:
    return warn_if(value)


def _link_tone(row: NicRow, value: Value) -> Tone:
    if row.link is None:
        return "normal"
    return state_text(row.link)[1]


_SCALED = units.SCALED_WIDTH

_COLUMNS: tuple[Column[NicRow], ...] = (
    Column("host", "HOST", "", 14, 1, "left", lambda row: row.end.host,
        source="name of the host (command line or config.toml)"),
    Column("name", "NIC", "", 15, 1, "left", _of_link(lambda link: link.name),
        source="name of the interface (IFLA_IFNAME)"),
    Column("link", "LINK", "", 6, 2, "left", _link_state, _link_tone, True, _link_rank,
        source="state mark, and link speed (IFF_UP, IFLA_CARRIER; ETHTOOL_MSG_LINKMODES_GET)"),
    Column("in", "RX b/s", "b/s", _SCALED, 3, "right", _rate("rx_bits"), is_live=True,
        source="bits received, with Ethernet header, without FCS (IFLA_STATS_LINK_64 rx_bytes); "
        "of a port with VFs: at the port (ETHTOOL_MSG_STATS_GET eth-mac, else its driver's)"),
    Column("out", "TX b/s", "b/s", _SCALED, 3, "right", _rate("tx_bits"), is_live=True,
        source="bits sent, with Ethernet header, without FCS (IFLA_STATS_LINK_64 tx_bytes); of a "
        "port with VFs: at the port (ETHTOOL_MSG_STATS_GET eth-mac, else its driver's)"),
    Column("drops", "drops", "packets", 7, 4, "right", _of_nic(_drops), _bad, True, _drops_rank,
        source="packets dropped since the link was created (IFLA_STATS_LINK_64 rx_dropped + "
               "tx_dropped + "
        "rx_missed_errors)"),
    Column("drop_rate", "drops/s", "1/s", 7, 4, "right", _of_nic(lambda row: row.drops), _bad, True,
        source="packets dropped now (IFLA_STATS_LINK_64 rx_dropped + tx_dropped + "
               "rx_missed_errors)"),
    Column("finding", "WORST FINDING", "", 13, 5, "left", _severity, _finding_tone, True,
        _finding_rank,
        source="severity of the worst finding about it (rules of nictop)"),
    Column("state", "HOST STATE", "", 13, 6, "left", lambda row: row.host_state, _state_tone, True,
        _state_rank,
        source="state of the connection to its host, and age of the values (time of the last "
               "line)"),
    Column("profile", "PROFILE", "", 18, 7, "left", _of_nic(_profile),
        tone=lambda row, value: row.profile[1],
        source="active profile, else the network manager (NetworkManager D-Bus; networkd, "
               "netplan, ifupdown files)"),
    Column("address", "ADDRESS", "", 18, 8, "left", _address, rank=_address_rank,
        source="the most useful address, with prefix length (RTM_GETADDR)", keeps_end=True),
    Column("driver", "DRIVER", "", 10, 9, "left", lambda row: row.driver,
        source="kernel driver, or kind of a virtual interface (ethtool -i; IFLA_INFO_KIND)"),
    Column("peer", "PEER", "", 18, 10, "left", _peer,
        source="interface of another host at the other end (VF and tap pairs by MAC and PCI "
               "address)", keeps_end=True),
    Column("master", "MASTER", "", 18, 11, "left", _master, _master_tone,
        source="bridge, bond, team or VRF of which it is a port, and its state there (IFLA_MASTER; "
        "IFLA_BOND_SLAVE_STATE, IFLA_BOND_SLAVE_AD_AGGREGATOR_ID; TEAM_ATTR_PORT_LINKUP)"),
    Column("errors", "errors/s", "1/s", 8, 12, "right", _rate("rx_errors", "tx_errors"), _bad, True,
        source="errors of both directions (IFLA_STATS_LINK_64 rx_errors + tx_errors)"),
    Column("in_packets", "RX pps", "packets/s", _SCALED, 13, "right", _rate("rx_packets"),
        is_live=True,
        source="packets received (IFLA_STATS_LINK_64 rx_packets)"),
    Column("out_packets", "TX pps", "packets/s", _SCALED, 13, "right", _rate("tx_packets"),
        is_live=True,
        source="packets sent (IFLA_STATS_LINK_64 tx_packets)"),
    Column("mtu", "MTU", "bytes", 5, 14, "right", _of_link(mtu_of),
        source="MTU (IFLA_MTU)"),
    Column("pci", "PCI", "", 12, 15, "left", _of_link(lambda link: link.pci_address or ""),
        source="address of its PCI function (sysfs device link)"),
    Column("mac", "MAC", "", 17, 16, "left", _of_link(lambda link: link.address or ""),
        source="MAC address (IFLA_ADDRESS)"),
)  # fmt: skip
"""``drops``: since the link was created; ``drops/s``: now."""


def _dimmed(column: Column[NicRow]) -> Column[NicRow]:
    """A copy of the column that dims cells of stale rows, and empty, unknown and zero values."""

    def tone(row: NicRow, value: Value) -> Tone:
        if row.is_stale or value in ("", None, 0):
            return "dim"
        return column.tone(row, value)

    return replace(column, tone=tone)


def _is_doubtful(key: str, row: NicRow) -> bool:
    if row.link is None or (key == "link" and row.is_stale):  # that is said instead
        return False
    return is_doubtful_of_link(key, row.link, row.snapshot)


def _with_doubts(column: Column[NicRow]) -> Column[NicRow]:
    return with_doubts(column, _is_doubtful) if column.key in MARKED else column


COLUMNS = tuple(_dimmed(_with_doubts(column)) for column in _COLUMNS)
COLUMNS_BY_KEY = {column.key: column for column in COLUMNS}


# -------------------------------------------------------------------------------------------- order


def make_row_order(rows: Iterable[NicRow], column: str, *, descending: bool = False) -> RowOrder:
    """The order by a column (a key of `COLUMNS`, or "": by host and ifindex) with the current
    values."""
    if not column:
        return RowOrder(descending=descending)
    return order_by(COLUMNS_BY_KEY[column], rows, _end, descending=descending)


def order_rows(rows: Iterable[NicRow], order: RowOrder) -> tuple[NicRow, ...]:
    """`rows` in that order."""
    rows = tuple(rows)
    if order.column:
        return ordered(rows, order, COLUMNS_BY_KEY[order.column], _end)
    if order.descending:
        return rows[::-1]
    return rows


def _end(row: NicRow) -> End:
    return row.end
