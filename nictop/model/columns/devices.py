"""The live table of devices: title, unit, width of every column, and where its value comes from.

Reads nothing. `visible_columns(room)` are those that fit: bits per second and total drops, or
everything per packet.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping

from nictop.model.columns.column import Column, RowT, SortKey, Value, fit_columns
from nictop.model.devices.bonds import port_text
from nictop.model.devices.links import reported_speed
from nictop.model.devices.ports import wire_rates
from nictop.model.devices.tree import Row
from nictop.model.doubts import doubts_of
from nictop.model.facts.hardware import ZERO_MAC_ADDRESS, driver_text, pcie_text
from nictop.model.facts.links import link_name
from nictop.model.facts.summary import ranked_addresses
from nictop.model.managers.link_managers import NOT_READ, profile_name
from nictop.model.parts import newest_counters
from nictop.model.rates.links import LinkRates, VfRates, sum_known
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import (
    IFF_UP,
    LINK_DOWN,
    LINK_UP,
    NO_CARRIER,
    Tone,
    address_text,
    dim_if,
    driver_name,
    is_virtual,
    mtu_of,
    state_mark,
    state_text,
    warn_if,
)
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import LINK_COUNTERS, VF_COUNTERS, Link


class DeviceRow(NamedTuple):
    """A row of the device tree, and the snapshot from which it is drawn."""

    row: Row
    snapshot: Snapshot
    wire: Mapping[int, LinkRates] | None = None
    """`wire_rates` of the snapshot, if they are known already."""


MAIN_COLUMNS = ("link", "profile", "rx", "tx", "drops")
"""Shown at 80 columns; a narrower table says how many of them it has no room for."""

PACKET_COLUMNS = ("link", "rx_packets", "tx_packets", "drops_rate", "missed", "errors")
"""Those of the option packets, at 80 columns."""


def visible_columns(room: int, *, packets: bool = False) -> tuple[Column[DeviceRow], ...]:
    """The columns that fit into `room` cells. `packets`: packets and events per second are more
    important than bits per second."""
    return fit_columns(COLUMNS, room, lambda column: _priority(column, packets))


def _priority(column: Column[DeviceRow], packets: bool) -> int:
    if not packets:
        return column.priority
    return PACKET_PRIORITIES.get(column.key, column.priority)


PACKET_PRIORITIES = {
    "rx_packets": 2,
    "tx_packets": 2,
    "drops_rate": 3,
    "errors": 4,
    "missed": 5,
    "profile": 6,
    "rx": 7,
    "tx": 7,
    "drops": 8,
    "driver": 9,
}
"""Key of a column → its priority with the option packets."""


# ------------------------------------------------------------------------------------------- values


def row_rates(
    row: Row, snapshot: Snapshot, wire: Mapping[int, LinkRates] | None = None
) -> LinkRates | VfRates | None:
    """Of the netdev of a row (of a port with VFs: of the port), or of its VF. `wire`: see
    `DeviceRow`."""
    rates = snapshot.rates
    if rates is None:
        return None
    if row.kind == "vf" and row.uplink is not None and row.vf is not None:
        return rates.vfs.get(row.uplink.ifindex, {}).get(row.vf.number)
    if row.link is None:
        return None
    if wire is None:
        wire = wire_rates(snapshot)
    return wire.get(row.link.ifindex)


def _rate(*names: str) -> Callable[[DeviceRow], Value]:
    """Sum of rates of a row; "" for rows without such counters."""
    counted_per_vf = all(name in VfRates.__dataclass_fields__ for name in names)

    def value(shown: DeviceRow) -> Value:
        row, snapshot, wire = shown
        if row.link is None and not (counted_per_vf and _has_vf_counters(row)):
            return ""
        rates = row_rates(row, snapshot, wire)
        total = 0.0
        for name in names:
            one = getattr(rates, name, None)
            if one is None:
                return None
            total += one
        return total

    return value


def _has_vf_counters(row: Row) -> bool:
    return row.vf is not None and row.vf.counters is not None


_stack_drops_rate, _missed_rate = _rate("rx_dropped", "tx_dropped"), _rate("rx_missed")


def _drops_rate(shown: DeviceRow) -> Value:
    """Dropped by the stack and missed by the device, as the ``drop`` columns of /proc/net/dev: ring
    overflows are visible in narrow windows too."""
    dropped, missed = _stack_drops_rate(shown), _missed_rate(shown)
    if isinstance(dropped, float) and isinstance(missed, float):
        return dropped + missed
    return dropped


def _drops(shown: DeviceRow) -> Value:
    """The same since the driver was loaded; a warning while the number grows."""
    total = _total_drops(shown)
    if total is None:
        return units.UNKNOWN, "dim"
    if isinstance(total, str):
        return total, "dim"
    rate = _drops_rate(shown)
    is_growing = isinstance(rate, float) and rate > 0
    tone: Tone = "warn" if is_growing else dim_if(not total)
    if total < 100_000:
        return str(total), tone
    return units.scaled(total).strip(), tone


def _drops_rank(shown: DeviceRow) -> SortKey | None:
    total = _total_drops(shown)
    if not isinstance(total, int):
        return None
    return (total,)


def _total_drops(shown: DeviceRow) -> int | str | None:
    """None: not read yet, or not reported; "": the row has no such counter."""
    row = shown.row
    if row.link is not None:
        numbers, places = newest_counters(row.link, shown.snapshot), LINK_DROPS
    elif _has_vf_counters(row) and row.uplink is not None:
        numbers, places = _newest_vf_counters(row, row.uplink, shown.snapshot), VF_DROPS
    else:
        return ""
    if numbers is None:
        return None
    return sum_known(numbers[place] for place in places if place < len(numbers))


def _newest_vf_counters(row: Row, uplink: Link, snapshot: Snapshot) -> tuple[int, ...] | None:
    if row.vf is None:
        return None
    if snapshot.counters is None:
        return row.vf.counters
    functions = snapshot.counters.vfs.get(uplink.ifindex, {})
    return functions.get(row.vf.number, row.vf.counters)


LINK_DROPS = tuple(
    LINK_COUNTERS.index(name) for name in ("rx_dropped", "tx_dropped", "rx_missed_errors")
)
VF_DROPS = tuple(VF_COUNTERS.index(name) for name in ("rx_dropped", "tx_dropped"))


def _of_link(read: Callable[[Link, Snapshot], Value]) -> Callable[[DeviceRow], Value]:
    """A value of the netdev; there is none in other rows."""

    def value(shown: DeviceRow) -> Value:
        if shown.row.link is None:
            return ""
        return read(shown.row.link, shown.snapshot)

    return value


def _link_state(shown: DeviceRow) -> Value:
    row = shown.row
    if row.kind == "vf" and row.vf is not None:
        return row.vf.link_state or ""
    if row.link is None:
        return ""
    mark = state_mark(row.link)
    if not row.link.flags & IFF_UP:
        return f"{mark} down"
    if mark == NO_CARRIER:  # a speed would be that of before
        return mark
    doubts = doubts_of(shown.snapshot)
    if doubts is not None and doubts.about_states:
        return mark
    speed = reported_speed(row.link)
    if speed is not None and (doubts is None or not doubts.concern_speed(row.link)):
        return f"{mark} {units.link_speed(speed)}"
    if is_virtual(row.link):
        return mark
    why = row.link.ethtool.unreadable.get("settings")
    if why is not None and why.reason == "not_offered":
        return f"{mark} {NOT_SUPPORTED}"
    return f"{mark} {UNKNOWN_SPEED:>2}"


def link_rank(link: Link) -> SortKey:
    """Down, no carrier, up without a speed, up by speed."""
    state = (LINK_DOWN, NO_CARRIER, LINK_UP).index(state_mark(link))
    return state, reported_speed(link) or 0


def _link_rank(shown: DeviceRow) -> SortKey | None:
    if shown.row.link is None:
        return None
    return link_rank(shown.row.link)


def address_rank(address: str) -> SortKey:
    """IPv4 first, then by number; ``192.0.2.7/24``."""
    try:
        known = ipaddress.ip_interface(address)
    except ValueError:
        return (9, 0, address)
    return (known.version, int(known.ip), "")


NOT_SUPPORTED, UNKNOWN_SPEED = "n/a", "?"
"""Of a link that is up, in a cell; the panel says it in words: ``up, speed not read yet``. A dash
would be read as a link that is not up."""


def _link_tone(shown: DeviceRow, value: Value) -> Tone:
    link = shown.row.link
    if link is None or not value:
        return "normal"
    return state_text(link)[1]


def _driver(shown: DeviceRow) -> Value:
    """Driver of a netdev, or of a PCI function without a netdev."""
    row = shown.row
    if row.link is not None:
        return driver_name(row.link, row.pci) or None
    if row.pci is None:
        return ""
    links = shown.snapshot.links.values()
    if any(link.pci_address == row.pci.address for link in links):
        return ""
    return row.pci.driver or driver_text(row.pci)[0]


def _driver_tone(shown: DeviceRow, value: Value) -> Tone:
    row = shown.row
    if not value or row.link is not None or row.pci is None:
        return "normal"
    return driver_text(row.pci)[1]


def _address(shown: DeviceRow) -> Value:
    row = shown.row
    if row.kind == "vf" and row.vf is not None:
        if row.vf.address == ZERO_MAC_ADDRESS:
            return ""
        return row.vf.address or ""
    if row.link is None:
        return ""
    return row.link.address or ""


def _ip(link: Link, snapshot: Snapshot) -> Value:
    return _first_address(link)


def _first_address(link: Link) -> str:
    ranked = ranked_addresses(link)
    if not ranked:
        return ""
    return address_text(ranked[0])


def _ip_rank(shown: DeviceRow) -> SortKey | None:
    if shown.row.link is None:
        return None
    address = _first_address(shown.row.link)
    if not address:
        return None
    return address_rank(address)


def _master(link: Link, snapshot: Snapshot) -> Value:
    return master_text(link, snapshot)[0]


def master_text(link: Link, snapshot: Snapshot) -> tuple[str, bool]:
    """``br0``, ``bond0 active``, ``bond0 agg 1``, and whether its bond or team can use it."""
    if link.master is None:
        return "", True
    name = link_name(link.master, snapshot)
    master = snapshot.links.get(link.master)
    if master is None:
        return name, True
    state, is_usable = port_text(link, master)
    return f"{name} {state}".rstrip(), is_usable


def _master_tone(shown: DeviceRow, value: Value) -> Tone:
    link = shown.row.link
    if link is None or not value:
        return "normal"
    return warn_if(not master_text(link, shown.snapshot)[1])


def _pcie(shown: DeviceRow) -> Value:
    row = shown.row
    if row.kind != "pci" or row.pci is None or row.pci.link is None:
        return ""
    return pcie_text(replace(row.pci.link, max_speed=None, max_width=None))[0]


def _pcie_tone(shown: DeviceRow, value: Value) -> Tone:
    pci = shown.row.pci
    if pci is None or not value:
        return "normal"
    return pcie_text(pci.link)[1]


def _numa(shown: DeviceRow) -> Value:
    row = shown.row
    if row.kind != "pci" or row.pci is None:
        return ""
    if row.pci.numa_node is None:
        return ""
    return row.pci.numa_node


def _rate_tone(shown: DeviceRow, value: Value) -> Tone:
    return dim_if(value is None or value == 0)


def _bad(shown: DeviceRow, value: Value) -> Tone:
    if value:
        return "warn"
    return _rate_tone(shown, value)


_COLUMNS: tuple[Column[DeviceRow], ...] = (
    Column("link", "LINK", "", 6, 1, "left", _link_state, _link_tone, True, _link_rank,
        source="state mark, and link speed (IFF_UP, IFLA_CARRIER; ETHTOOL_MSG_LINKMODES_GET), ? if "
               "that is not known or not read yet, n/a if the driver reports none; of "
               "a VF: its link "
        "state (IFLA_VF_LINK_STATE; auto: that of the port)"),
    Column("profile", "PROFILE", "", 18, 4, "left", _of_link(profile_name),
        source="active profile, else the network manager (NetworkManager D-Bus; networkd, "
               "netplan, ifupdown files)"),
    Column("driver", "DRIVER", "", 10, 5, "left", _driver, _driver_tone,
        source="kernel driver, or kind of a virtual interface (ethtool -i; IFLA_INFO_KIND; driver "
               "of the PCI "
        "function)"),
    Column("rx", "RX b/s", "b/s", units.SCALED_WIDTH, 2, "right", _rate("rx_bits"), _rate_tone,
        True,
        source="bits received, with Ethernet header, without FCS (IFLA_STATS_LINK_64 rx_bytes); "
        "of a port with VFs: at the port (ETHTOOL_MSG_STATS_GET eth-mac, else its driver's)"),
    Column("tx", "TX b/s", "b/s", units.SCALED_WIDTH, 2, "right", _rate("tx_bits"), _rate_tone,
        True,
        source="bits sent, with Ethernet header, without FCS (IFLA_STATS_LINK_64 tx_bytes); of a "
        "port with VFs: at the port (ETHTOOL_MSG_STATS_GET eth-mac, else its driver's)"),
    Column("rx_packets", "RX pps", "packets/s", units.SCALED_WIDTH, 7, "right",
        _rate("rx_packets"), _rate_tone, True,
        source="packets received (IFLA_STATS_LINK_64 rx_packets)"),
    Column("tx_packets", "TX pps", "packets/s", units.SCALED_WIDTH, 7, "right",
        _rate("tx_packets"), _rate_tone, True,
        source="packets sent (IFLA_STATS_LINK_64 tx_packets)"),
    Column("drops", "drops", "packets", 5, 3, "right", _drops, is_live=True, rank=_drops_rank,
        source="packets dropped since the link was created (IFLA_STATS_LINK_64 rx_dropped + "
               "tx_dropped + "
        "rx_missed_errors)"),
    Column("drops_rate", "drops/s", "1/s", 7, 6, "right", _drops_rate, _bad, True,
        source="packets dropped now (IFLA_STATS_LINK_64 rx_dropped + tx_dropped + "
               "rx_missed_errors)"),
    Column("missed", "rx missed/s", "1/s", 11, 9, "right", _rate("rx_missed"), _bad, True,
        source="packets for which the device had no descriptor (IFLA_STATS_LINK_64 "
               "rx_missed_errors)"),
    Column("errors", "errors/s", "1/s", 8, 8, "right", _rate("rx_errors", "tx_errors"), _bad, True,
        source="errors of both directions (IFLA_STATS_LINK_64 rx_errors + tx_errors)"),
    Column("ip", "ADDRESS", "", 18, 10, "left", _of_link(_ip), rank=_ip_rank,
        source="the most useful address, with prefix length (RTM_GETADDR)", keeps_end=True),
    Column("mtu", "MTU", "bytes", 5, 11, "right", _of_link(lambda link, snapshot: mtu_of(link)),
        source="MTU (IFLA_MTU)"),
    Column("master", "MASTER", "", 18, 12, "left", _of_link(_master), _master_tone,
        source="bridge, bond, team or VRF of which it is a port, and its state there (IFLA_MASTER; "
        "IFLA_BOND_SLAVE_STATE, IFLA_BOND_SLAVE_AD_AGGREGATOR_ID; TEAM_ATTR_PORT_LINKUP)"),
    Column("numa", "NUMA", "", 4, 13, "right", _numa,
        source="NUMA node of the PCI function (sysfs numa_node)"),
    Column("pcie", "PCIE", "", 12, 14, "left", _pcie, _pcie_tone,
        source="PCIe link: speed per lane, and lanes (sysfs current_link_speed, "
               "current_link_width)"),
    Column("mac", "MAC", "", 17, 15, "left", _address,
        source="MAC address (IFLA_ADDRESS); of a VF: set by its PF (IFLA_VF_MAC)"),
)  # fmt: skip

MAY_CHANGE_WITH_LINK = ("profile", "ip", "address", "master", "finding")
"""Keys of what may be of before an event about the link itself, here or in the overview. Its driver
stays with it."""
MAY_CHANGE = (*MAY_CHANGE_WITH_LINK, "driver")
"""The same of any other event, or of a PCI function whose netdev came or went. A MAC address, which
hardly ever changes, fills its column."""
TOLD_BY_EVENTS = ("link", "mtu")
"""Also in doubt where no events are received."""
MARKED = (*MAY_CHANGE, *TOLD_BY_EVENTS)
IN_DOUBT = "? "
"""Before a value that an event may have changed which no inventory has read."""


def with_doubts(column: Column[RowT], is_doubtful: Callable[[str, RowT], bool]) -> Column[RowT]:
    """With that mark where `is_doubtful` is true of its key and the row; a number has no room for
    it. Rows do not move because of it."""

    def value(row: RowT) -> Value:
        known = column.value(row)
        text, _ = column.cell(row)
        if text in ("", NOT_READ) or not is_doubtful(column.key, row):
            return known
        has_room = text != units.UNKNOWN and column.align == "left"
        return (IN_DOUBT + text if has_room else NOT_READ), "dim"

    return replace(column, value=value, rank=column.sort_key)


def _is_doubtful(key: str, shown: DeviceRow) -> bool:
    link, pci = shown.row.link, shown.row.pci
    if link is not None:
        return is_doubtful_of_link(key, link, shown.snapshot)
    doubts = doubts_of(shown.snapshot)
    if doubts is None:
        return False
    if shown.row.kind == "vf":  # no event tells of what its PF says of it
        uplink = shown.row.uplink
        return doubts.about_all if uplink is None else doubts.concern_device(uplink)
    if key in TOLD_BY_EVENTS:
        return False
    return doubts.about_all if pci is None else doubts.concern_function(pci)


def is_doubtful_of_link(key: str, link: Link, snapshot: Snapshot) -> bool:
    """One of `MARKED` of a netdev."""
    doubts = doubts_of(snapshot)
    if doubts is None:
        return False
    if key in TOLD_BY_EVENTS:
        return doubts.about_states
    return doubts.about_all or (key in MAY_CHANGE_WITH_LINK and doubts.concern_link(link))


COLUMNS = tuple(
    with_doubts(column, _is_doubtful) if column.key in MARKED else column for column in _COLUMNS
)
COLUMNS_BY_KEY = {column.key: column for column in COLUMNS}
READING_COLUMNS = frozenset(
    ("rx", "tx", "rx_packets", "tx_packets", "drops", "drops_rate", "missed", "errors")
)
"""Keys of those whose cells change with a reading; the cells of the others are the same until the
links, the functions or the inventory are others."""
