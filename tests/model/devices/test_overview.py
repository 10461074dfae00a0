"""The overview: every host is visible, old values are marked, and rows do not move under the
cursor."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.columns.column import RowOrder, fit_columns, natural_sort_key
from nictop.model.columns.overview import COLUMNS, COLUMNS_BY_KEY, make_row_order, order_rows
from nictop.model.devices.netdevs import End
from nictop.model.devices.overview import (
    NO_NIC_IFINDEX,
    SEVERITIES_WORST_FIRST,
    HostNow,
    NicRow,
    overview,
)
from nictop.model.facts import width
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import (
    Address,
    Line,
    Link,
    ManagedDevice,
    NetworkManager,
    Outdated,
    Profile,
)
from nictop.rules import SEVERITIES
from tests.model.hosts import (
    HELLO,
    counters,
    inventory,
    link_counters,
    live_host,
    make_link,
    snapshot_of,
)
from tests.support import hostile

LIVE = live_host()


def nic(ifindex: int, name: str, *addresses: str, **more: object) -> Link:
    ips = tuple(Address("ipv4", address, 24, "global", ()) for address in addresses)
    return make_link(ifindex, name, **{"bus": "pci", "addresses": ips, **more})


def host(name: str, *links: Link, rates: dict[int, int] | None = None) -> Snapshot:
    """Live, with one sample of all links and, with `rates` (bytes received per second), a second
    one."""
    first = counters(1.0, {link.ifindex: link_counters() for link in links})
    items: list[object] = [HELLO, first, inventory(links=links, pci=())]
    if rates is not None:
        items.append(
            counters(
                2.0,
                {
                    one: link_counters(rx_bytes=size, rx_packets=size // 100)
                    for one, size in rates.items()
                },
            )
        )
    return snapshot_of(*items, host=name)


def rows_of(*snapshots: Snapshot, age: float | None = None) -> tuple[NicRow, ...]:
    return overview([HostNow(snapshot, age) for snapshot in snapshots])


def names(rows: tuple[NicRow, ...]) -> list[str]:
    return [f"{row.end.host}/{row.link.name if row.link is not None else ''}" for row in rows]


def cells(row: NicRow) -> dict[str, str]:
    return {column.key: column.cell(row)[0] for column in COLUMNS}


# --------------------------------------------------------------------------------------------- rows


def test_one_line_per_nic_of_every_host() -> None:
    rows = rows_of(LIVE, host("b", nic(2, "ens2")))
    assert names(rows) == ["alma-load-001/ens256", "alma-load-001/ens224", "alma-load-001/ens224v0",
                           "alma-load-001/eth0", "b/ens2"]  # fmt: skip


def test_virtual_links_on_request() -> None:
    shown = {
        row.link.name for row in overview([HostNow(LIVE)], virtual=True) if row.link is not None
    }
    assert {"br0", "lo", "veth0", "ens224"} <= shown


def test_a_host_with_virtual_links_alone_has_these_without_loopback() -> None:
    veth, lo = make_link(2, "veth0", kind="veth"), make_link(1, "lo", type=772, flags=0x49)
    assert names(rows_of(host("bare", lo, veth), host("b", nic(3, "ens3"), veth))) == [
        "bare/veth0",
        "b/ens3",
    ]
    (row,) = rows_of(host("bare", lo))
    assert row.end == End("bare", NO_NIC_IFINDEX)


def test_drops_are_the_total_and_the_rate() -> None:
    (row,) = rows_of(host("a", nic(2, "ens2"), rates={2: 100}))
    assert (cells(row)["drops"], cells(row)["drop_rate"]) == ("0", "   0  ")
    assert COLUMNS_BY_KEY["drops"].title == "drops"
    assert COLUMNS_BY_KEY["drop_rate"].title == "drops/s"


def test_a_host_without_nics_has_a_row() -> None:
    rows = rows_of(
        Snapshot.empty("new"), with_state(Snapshot.empty("bad"), "failed", "no key"), host("bare")
    )
    assert [row.end for row in rows] == [
        End("new", NO_NIC_IFINDEX),
        End("bad", NO_NIC_IFINDEX),
        End("bare", NO_NIC_IFINDEX),
    ]
    assert [row.host_state for row in rows] == ["not read yet", "failed", "live"]
    for row in rows:
        assert cells(row)["host"] == row.end.host
        assert {text for key, text in cells(row).items() if key not in ("host", "state")} == {""}


def test_cells() -> None:
    (row,) = (row for row in rows_of(LIVE) if row.end.ifindex == 4)
    assert cells(row) == {
        "host": "alma-load-001", "name": "ens224", "link": "↑ 1G", "driver": "igb", "profile": "–",
        "in": "9.41 G", "out": "21.3 M", "in_packets": " 776 k", "out_packets": "40.0 k",
        "errors": "22.0 "
                                                                                    " ", "drops":
                                                                                    "5",
            "drop_rate": "5.00  ", "master": "",
        "finding": "", "state": "live", "address": "192.0.2.7/24", "peer": "", "mtu": "1500",
        "pci": "0000:02:00.0", "mac": "52:54:00:82:57:01",
    }  # fmt: skip
    assert COLUMNS_BY_KEY["drops"].cell(row)[1] == "warn"


def test_findings_and_peers() -> None:
    guest = host("vm", nic(2, "ens2"))
    ends = {
        End("alma-load-001", 4): (End("vm", 2), End("gone", 9)),
        End("vm", 2): (End("alma-load-001", 4),),
    }
    rows = overview(
        [HostNow(LIVE), HostNow(guest)], severities={End("vm", 2): "critical"}, peers=ends
    )
    by_end = {row.end: row for row in rows}
    assert by_end[End("alma-load-001", 4)].peers == ("vm ens2",)
    assert cells(by_end[End("vm", 2)])["peer"] == "alma-load-001 ens224"
    assert COLUMNS_BY_KEY["finding"].cell(by_end[End("vm", 2)]) == ("critical", "bad")
    many = replace(by_end[End("vm", 2)], peers=("a x", "b y", "c z"))
    assert cells(many)["peer"] == "a x +2"


def test_severities_are_those_of_the_rules() -> None:
    assert SEVERITIES_WORST_FIRST == SEVERITIES


def test_active_profile() -> None:
    manager = NetworkManager("1.46", False, True, {2: ManagedDevice("ens2", 1, 100, 0, True, True,
        "u-1")}, ( Profile("/1", "u-1", "office [/b]", "802-3-ethernet", None, False, False, False,
    False),
    ))  # fmt: skip
    taken = replace(
        inventory(links=(nic(2, "ens2"), nic(3, "ens3")), pci=()), networkmanager=manager
    )
    rows = rows_of(snapshot_of(HELLO, taken, host="a"))
    assert [row.profile[0] for row in rows] == ["office [/b]", ""]


def test_unchanged_values_are_copied() -> None:
    before = rows_of(LIVE)
    ticked = advance(LIVE, Line(counters=counters(102.0, {4: link_counters()})))
    marked = tuple(replace(row, profile=("kept", "normal")) for row in before)
    again = overview([HostNow(ticked)], before=marked)
    assert {row.profile[0] for row in again} == {"kept"}
    taken = advance(ticked, Line(inventory=inventory(103.0)))
    assert {row.profile[0] for row in overview([HostNow(taken)], before=marked)} == {""}


# -------------------------------------------------------------------------------------- stale hosts


@pytest.mark.parametrize("state", ["lost", "connecting", "failed"])
def test_the_last_values_of_an_absent_host_are_marked_as_stale(state: str) -> None:
    (row,) = (
        row
        for row in rows_of(with_state(LIVE, state, "gone"), age=12.0)  # type: ignore[arg-type]
        if row.end.ifindex == 4
    )
    assert row.is_stale and row.age == 12.0
    assert cells(row)["in"].strip() == "–", "nothing flows now, as far as is known"
    assert cells(row)["link"] == "stale"
    assert row.host_state == ("failed" if state == "failed" else "stale 12 s")
    assert {column.cell(row)[1] for column in COLUMNS} == {"dim"}


@pytest.mark.parametrize("age", [0.4, 59.0, 119.9, 120.0, 7199.0, 7200.0, 172_799.0, 3e7])
def test_the_state_of_a_stale_host_is_not_cut(age: float) -> None:
    """``stale 1 min 40 s`` was wider than its column."""
    row, *_ = rows_of(with_state(LIVE, "lost", "gone"), age=age)
    state = next(column for column in COLUMNS if column.key == "state")
    assert len(row.host_state) <= state.width
    number, unit = row.host_state.split()[1:]
    sizes = {"s": 1, "min": 60, "h": 3600, "d": 86400}
    assert 0 <= age - int(number) * sizes[unit] < sizes[unit]


def test_a_stale_link_in_doubt_has_no_second_mark() -> None:
    """``? stale`` was cut to ``? sta…``."""
    changed = advance(LIVE, Line(outdated=Outdated(200.0, "link")))
    for row in rows_of(with_state(changed, "lost", "gone"), age=2.0):
        assert cells(row)["link"] in ("stale", "")


def test_a_host_that_sends_nothing_new_is_not_live() -> None:
    """As its own row says: no data for 8 s."""
    rows = overview([HostNow(LIVE, 8.0, is_overdue=True)])
    assert {row.host_state for row in rows} == {"stale 8 s"}
    assert all(row.rate("rx_bits") is None for row in rows)
    (unread,) = overview([HostNow(with_state(Snapshot.empty("new"), "live", ""), 8.0)])
    assert unread.host_state == "reading"


def test_a_live_host_whose_next_reading_is_late_says_how_old_the_last_one_is() -> None:
    """It was "live" until 5 s after its last reading."""
    rows = overview([HostNow(LIVE, 3.2, late_seconds=3.2)])
    assert {row.host_state for row in rows} == {"read 3 s ago"}
    state = next(column for column in COLUMNS if column.key == "state")
    assert all(len(row.host_state) <= state.width for row in rows)
    assert state.sort_key(rows[0]) != state.sort_key(rows_of(LIVE, age=0.1)[0])


def test_a_live_host_has_no_age() -> None:
    assert all(row.age is None and not row.is_stale for row in rows_of(LIVE, age=5.0))
    (stale,) = rows_of(with_state(host("a", nic(2, "x")), "lost", ""), age=None)
    assert stale.host_state == "stale"


# -------------------------------------------------------------------------------------------- order


def test_rows_can_be_sorted_by_a_column() -> None:
    rows = rows_of(host("b", nic(2, "ens10"), nic(3, "ens9")), host("a", nic(2, "ens1")))
    order = make_row_order(rows, "name")
    assert names(order_rows(rows, order)) == ["a/ens1", "b/ens9", "b/ens10"]
    assert names(order_rows(rows, make_row_order(rows, "name", descending=True))) == [
        "b/ens10",
        "b/ens9",
        "a/ens1",
    ]
    more = rows_of(
        host("b", nic(2, "ens10"), nic(3, "ens9")), host("a", nic(2, "ens1"), nic(5, "ens5"))
    )
    assert names(order_rows(more, order)) == ["a/ens1", "a/ens5", "b/ens9", "b/ens10"]


def test_addresses_are_sorted_as_numbers() -> None:
    rows = rows_of(
        host(
            "a",
            nic(2, "x", "10.0.0.9"),
            nic(3, "y"),
            nic(4, "z", "9.0.0.1"),
            nic(5, "w", "10.0.0.10"),
        )
    )
    assert names(order_rows(rows, make_row_order(rows, "address"))) == ["a/z", "a/x", "a/w", "a/y"]


def test_the_order_does_not_depend_on_rates() -> None:
    links = (nic(2, "x"), nic(3, "y"))
    rows = rows_of(host("a", *links, rates={2: 1000, 3: 9000}))
    order = make_row_order(rows, "in", descending=True)
    assert names(order_rows(rows, order)) == ["a/y", "a/x"]
    later = rows_of(host("a", *links, nic(1, "new"), rates={2: 9000, 3: 1000, 1: 99999}))
    assert names(order_rows(later, order)) == ["a/y", "a/x", "a/new"], "until asked again"
    assert names(order_rows(later, make_row_order(later, "in", descending=True))) == [
        "a/new",
        "a/x",
        "a/y",
    ]
    assert names(order_rows(later[:1], order)) == ["a/new"]


def test_unknown_values_are_last_in_both_directions() -> None:
    rows = rows_of(host("a", nic(2, "x"), nic(3, "y"), rates={3: 1000}))
    for descending in (False, True):
        assert names(order_rows(rows, make_row_order(rows, "in", descending=descending))) == [
            "a/y",
            "a/x",
        ]


def test_sorting_by_severity_and_host_state() -> None:
    links = [nic(number, f"x{number}") for number in (2, 3, 4, 5)]
    severities = {End("a", 2): "info", End("a", 3): "critical", End("a", 5): "warning"}
    rows = overview([HostNow(host("a", *links))], severities=severities)
    assert names(order_rows(rows, make_row_order(rows, "finding", descending=True))) == [
        "a/x3",
        "a/x5",
        "a/x2",
        "a/x4",
    ]
    hosts = [HostNow(host("live", links[0])), HostNow(with_state(host("young", links[0]), "lost",
        ""), 1.0),
             HostNow(with_state(host("old", links[0]), "lost", ""), 9.0),
             HostNow(Snapshot.empty("new")), HostNow(with_state(Snapshot.empty("bad"), "failed",
             ""))]  # fmt: skip
    rows = overview(hosts)
    assert [row.end.host for row in order_rows(rows, make_row_order(rows, "state"))] == [
        "bad",
        "old",
        "young",
        "new",
        "live",
    ]


def test_links_are_sorted_by_state_and_speed() -> None:
    rows = rows_of(LIVE, host("b", nic(2, "off", flags=0), nic(3, "cut", carrier=False)))
    up = order_rows(rows, make_row_order(rows, "link"))
    assert names(up)[:2] == ["b/off", "b/cut"]
    assert names(up)[-1] == "alma-load-001/ens224"


def test_hosts_are_in_the_order_of_the_command_line() -> None:
    rows = rows_of(host("b", nic(2, "x")), host("a", nic(2, "x")))
    assert order_rows(rows, RowOrder()) == rows
    assert order_rows(rows, RowOrder(descending=True)) == rows[::-1]


@given(st.lists(st.text(alphabet="ens0123456789.é²\x00", max_size=8)))
def test_natural_order_is_a_total_order(texts: list[str]) -> None:
    ordered = sorted(texts, key=natural_sort_key)
    shuffled = [*ordered[1::2], *ordered[::2]]
    assert sorted(shuffled, key=natural_sort_key) == ordered


def test_numbers_in_names_are_sorted_as_numbers() -> None:
    assert sorted(("ens10", "ens9", "Ens1", "ens"), key=natural_sort_key) == [
        "ens",
        "Ens1",
        "ens9",
        "ens10",
    ]


HOSTILE = hostile.texts()
ODD_LINKS = st.builds(
    lambda ifindex, name, address, ip, mtu, bus: nic(
        ifindex, name, address=address, mtu=mtu, bus=bus, addresses=(Address("ipv4", ip, 24,
            "global", ()),)
    ),
    st.integers(1, 5), HOSTILE, st.none() | HOSTILE, HOSTILE, st.integers(-1, 2**40),
    st.sampled_from([None, "pci"]),
)  # fmt: skip
ODD_HOSTS = st.builds(
    lambda name, links, state: with_state(host(name, *links), state, ""),
    HOSTILE,
    st.lists(ODD_LINKS, max_size=4),
    st.sampled_from(["live", "lost", "connecting", "failed"]),
)


@given(st.lists(ODD_HOSTS, max_size=4), st.none() | st.floats(0, 1e9))
def test_any_snapshots(snapshots: list[Snapshot], age: float | None) -> None:
    rows = overview([HostNow(snapshot, age) for snapshot in snapshots], virtual=True)
    assert {row.end.host for row in rows} == {snapshot.host for snapshot in snapshots}
    for column in COLUMNS:
        for row in rows:
            text, tone = column.cell(row)
            assert tone in ("normal", "dim", "good", "warn", "bad")
            assert not column.is_rate or width(text) in (0, 6)
        for descending in (False, True):
            stood = order_rows(rows, make_row_order(rows, column.key, descending=descending))
            assert sorted(map(id, stood)) == sorted(map(id, rows))


# ------------------------------------------------------------------------------------------ columns


def test_keys_and_titles_are_unique_and_fit() -> None:
    assert len(COLUMNS_BY_KEY) == len({column.title for column in COLUMNS}) == len(COLUMNS)
    assert all(len(column.title) <= column.width for column in COLUMNS)


@pytest.mark.parametrize("room", [*range(60), 80, 120, 200, 300])
def test_columns_fit_the_width_in_order(room: int) -> None:
    chosen = fit_columns(COLUMNS, room)
    assert sum(column.width + 1 for column in chosen) <= room
    assert list(chosen) == [column for column in COLUMNS if column in chosen]
    assert set(chosen) <= set(fit_columns(COLUMNS, room + 1)), "more room never takes a column away"


def test_columns_at_80_cells() -> None:
    assert {"host", "name", "link", "in", "out", "drops", "drop_rate"} <= {
        column.key for column in fit_columns(COLUMNS, 80)
    }
    assert fit_columns(COLUMNS, 1000) == COLUMNS
