"""Eight VFs fill a port and its netdev counts nearly nothing: what is shown is what the wire
carries, with its source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.columns.devices import COLUMNS, DeviceRow
from nictop.model.devices.overview import HostNow, overview
from nictop.model.devices.ports import (
    NETDEV_ONLY,
    SHARED,
    WITH_FUNCTIONS,
    links_counted_by_ports,
    newest_ports,
    port_rates_of,
    rates_words,
    sharing_functions,
    wire_rates,
)
from nictop.model.devices.tree import device_tree
from nictop.model.facts.facts import link_facts
from nictop.model.history import History
from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import Line, PortCounts, Unreadable
from tests.model.hosts import (
    HELLO,
    PF,
    VF_NETDEV,
    VIRTIO,
    counters,
    inventory,
    link_counters,
    make_pci,
    snapshot_of,
)

GIGABYTE = 1_000_000_000
FULL = PortCounts("igb", (3_000_000, 10, 3 * GIGABYTE, 1000))
"""A second later: 24 Gb/s received."""
IDLE = PortCounts("igb", (0, 0, 0, 0))
VF_COUNTS: dict[int, tuple[int, ...]] = {0: (0,) * 8}


def port(before: PortCounts | None, after: PortCounts | None, **more: object) -> Snapshot:
    """A port whose netdev received 1 kB in the last second, and its VF's netdev 2 GB."""
    first = counters(100.0, {4: link_counters(), 5: link_counters(), 3: link_counters()})
    moved = {
        4: link_counters(rx_bytes=1000, rx_packets=10, rx_dropped=3),
        5: link_counters(rx_bytes=2 * GIGABYTE, rx_packets=2_000_000),
        3: link_counters(tx_bytes=500, tx_packets=5),
    }
    second = counters(101.0, moved, **more)
    if before is not None:
        first = replace(first, ports={4: before}, vfs={4: VF_COUNTS})
    if after is not None:
        second = replace(second, ports={4: after}, vfs={4: VF_COUNTS})
    made = inventory(links=(PF, VF_NETDEV, VIRTIO))
    return snapshot_of(HELLO, made, first, second)


def cell(snapshot: Snapshot, key: str) -> str:
    column = next(column for column in COLUMNS if column.key == key)
    row = next(row for row in device_tree(snapshot) if row.key == "link:4")
    return column.cell(DeviceRow(row, snapshot))[0].strip()


def facts(snapshot: Snapshot) -> dict[str, str]:
    row = next(row for row in device_tree(snapshot) if row.key == "link:4")
    sections = {section.title: section for section in link_facts(row, snapshot)}
    return {fact.label: fact.text for fact in sections["Counters"].facts}


def test_rates_of_a_port_with_vfs_are_those_of_the_port() -> None:
    snapshot = port(IDLE, FULL)
    shown = wire_rates(snapshot)[4]
    assert shown.rx_bits == 24e9
    assert shown.rx_packets == 3_000_000
    assert shown.rx_dropped == 3
    assert snapshot.rates is not None
    assert snapshot.rates.links[4].rx_bits == 8000, "rules use those of the netdev"
    assert cell(snapshot, "rx") == "24.0 G"
    assert rates_words(PF, snapshot) == WITH_FUNCTIONS
    row = next(row for row in overview([HostNow(snapshot)]) if row.end.ifindex == 4)
    assert row.rate("rx_bits") == 24e9


def test_both_are_in_the_details() -> None:
    shown = facts(port(IDLE, FULL))
    assert shown["Port RX"].startswith("24.0 Gb/s · 3.00 Mpps")
    assert shown["Port source"].startswith("driver counters of igb")
    assert shown["RX"].startswith("8.00 kb/s · 10.0 pps")


def test_the_standard_counters_are_named() -> None:
    standard = [PortCounts("eth-mac", one.numbers) for one in (IDLE, FULL)]
    assert facts(port(*standard))["Port source"].startswith("eth-mac;")


def test_without_port_counters_the_reason_is_said() -> None:
    snapshot = port(PortCounts(""), PortCounts(""))
    assert port_rates_of(4, snapshot) is None
    assert wire_rates(snapshot)[4].rx_bits == 8000
    assert rates_words(PF, snapshot) == NETDEV_ONLY
    expected = "not known, because the driver igb gives no port counters"
    assert facts(snapshot)["Port with VFs"] == expected


def test_unread_port_counters_are_not_missing_ones() -> None:
    """An old recording, and a port that could not be read."""
    assert facts(port(None, None))["Port with VFs"] == "not read yet"
    assert rates_words(PF, port(None, None)) == ()
    failed = port(None, None, unreadable={"ports": Unreadable("failed", "ifindex 4: EIO")})
    assert facts(failed)["Port with VFs"] == "not known: ifindex 4: EIO"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FULL, IDLE),  # a reset
        (PortCounts("eth-mac", IDLE.numbers), FULL),  # another source
        (IDLE, PortCounts("igb", (1, 1, None, 5))),
        (PortCounts("igb", (0, 0)), PortCounts("igb", (1, 1))),
    ],
)
def test_counters_that_cannot_be_compared_give_no_rate(
    before: PortCounts, after: PortCounts
) -> None:
    snapshot = port(before, after)
    assert port_rates_of(4, snapshot) is None
    assert wire_rates(snapshot)[4].rx_bits == 8000


def test_bytes_without_packets_are_rates_too() -> None:
    before, after = PortCounts("x", (None, None, 0, 0)), PortCounts("x", (None, None, 125, 250))
    shown = wire_rates(port(before, after))[4]
    assert (shown.rx_bits, shown.tx_bits, shown.rx_packets) == (1000, 2000, None)


def test_a_port_without_vfs_is_its_netdev() -> None:
    snapshot = port(None, None)
    assert snapshot.rates is not None
    assert wire_rates(snapshot) is snapshot.rates.links
    plain = replace(PF, virtual_functions=())
    assert rates_words(plain, snapshot) == ()


def test_a_sum_over_all_nics_counts_packets_of_vfs_once() -> None:
    assert links_counted_by_ports(port(IDLE, FULL)) == {5}
    assert links_counted_by_ports(port(PortCounts(""), PortCounts(""))) == set()


def test_rates_of_the_port_remain_between_two_readings() -> None:
    """The probe reads them once a second; the counters of links up to ten times."""
    snapshot = port(IDLE, FULL)
    later = counters(101.1, {4: link_counters(rx_bytes=1000)})
    assert wire_rates(advance(snapshot, Line(counters=later)))[4].rx_bits == 24e9
    assert newest_ports(advance(snapshot, Line(counters=later))) == {4: FULL}
    old = advance(snapshot, Line(counters=replace(later, time=110.0)))
    assert port_rates_of(4, old) is None
    assert newest_ports(old) == {}


def test_the_history_is_that_of_the_port() -> None:
    history = History(10)
    history.record(port(IDLE, FULL))
    assert history.series(("rx_bits", 4)) == (24e9,)


# ------------------------------------------------------------------------------- several functions


def partitions(before: PortCounts, after: PortCounts, **changes: object) -> Snapshot:
    """NPAR: another physical function of the same port."""
    snapshot = port(before, after)
    shared, same = replace(PF, port_id="0a"), {"port_id": "0a", **changes}
    other = replace(VIRTIO, bus="pci", pci_address="0000:02:00.2", **same)  # type: ignore[arg-type]
    vf = replace(VF_NETDEV, port_id="0a")
    assert snapshot.inventory is not None
    functions = (*snapshot.pci, make_pci("0000:02:00.2", driver="i40e"))
    made = replace(snapshot.inventory, links=(shared, vf, other), pci=functions)
    first, second = snapshot.before, snapshot.counters
    return snapshot_of(HELLO, made, first, second)


def test_a_port_of_several_physical_functions_is_not_shown_as_that_of_one() -> None:
    snapshot = partitions(IDLE, FULL)
    assert sharing_functions(4, snapshot) == (VIRTIO.name,)
    assert wire_rates(snapshot)[4].rx_bits == 8000
    assert rates_words(snapshot.links[4], snapshot) == SHARED
    assert links_counted_by_ports(snapshot) == set()
    shown = facts(snapshot)
    assert shown["Port of"] == f"ens224 and its VFs, shared with {VIRTIO.name}"
    assert shown["Port RX"].startswith("24.0 Gb/s"), "what the NIC counts is in the details"


def test_vfs_do_not_share_a_port_with_their_physical_function() -> None:
    snapshot = partitions(IDLE, FULL)
    assert VF_NETDEV.name not in sharing_functions(4, snapshot)
    assert sharing_functions(4, partitions(IDLE, FULL, port_id="0b")) == ()
    assert wire_rates(port(IDLE, FULL))[4].rx_bits == 24e9


def test_errors_of_the_wire() -> None:
    none = [replace(one, errors={"fcs": 0, "oversize": 0}) for one in (IDLE, FULL)]
    assert facts(port(*none))["Port errors"] == "none: fcs, oversize"
    some = [replace(IDLE, errors={"oversize": 7}), replace(FULL, errors={"oversize": 9, "x": 1})]
    assert facts(port(*some))["Port errors"] == "oversize 9 · 2.00/s"
    assert "Port errors" not in facts(port(IDLE, FULL))
