"""The live table: which columns fit, and what stands in each cell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.columns.devices import COLUMNS, DeviceRow, visible_columns
from nictop.model.devices.tree import Row, device_tree
from nictop.model.facts import width
from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import (
    Address,
    Bond,
    BondPort,
    DriverInfo,
    Ethtool,
    Line,
    LinkChange,
    LinkSettings,
    Outdated,
    Team,
    TeamPort,
    Unreadable,
)
from tests.model.hosts import (
    DOWN,
    HELLO,
    counters,
    inventory,
    link_counters,
    live_host,
    make_link,
    make_pci,
    snapshot_of,
)

LACP = Bond("802.3ad", partner="52:54:00:00:00:09")
BY_KEY = {column.key: column for column in COLUMNS}


def row_of(snapshot: Snapshot, key: str) -> Row:
    return next(row for row in device_tree(snapshot) if row.key == key)


def cell(snapshot: Snapshot, row: str, column: str) -> tuple[str, str]:
    return BY_KEY[column].cell(DeviceRow(row_of(snapshot, row), snapshot))


def test_keys_and_titles_are_unique_and_fit() -> None:
    assert len(BY_KEY) == len(COLUMNS)
    assert len({column.title for column in COLUMNS}) == len(COLUMNS)
    assert all(len(column.title) <= column.width for column in COLUMNS)


@pytest.mark.parametrize("packets", [False, True])
@pytest.mark.parametrize("room", [*range(60), 80, 120, 200, 300])
def test_columns_keep_to_the_room_and_to_their_order(room: int, packets: bool) -> None:
    chosen = visible_columns(room, packets=packets)
    assert sum(column.width + 1 for column in chosen) <= room
    assert list(chosen) == [column for column in COLUMNS if column in chosen]
    wider = visible_columns(room + 1, packets=packets)
    assert set(chosen) <= set(wider), "more room never takes a column away"


def test_the_most_important_stay() -> None:
    assert [column.key for column in visible_columns(21)] == ["link", "rx", "tx"]
    assert [column.key for column in visible_columns(21, packets=True)] == [
        "link",
        "rx_packets",
        "tx_packets",
    ]
    assert visible_columns(6) == ()
    assert visible_columns(1000) == COLUMNS


@pytest.mark.parametrize(
    ("row", "column", "text"),
    [
        ("link:4", "link", "↑ 1G"),
        ("link:4", "driver", "igb"),
        ("link:4", "rx", "9.41 G"),
        ("link:4", "tx", "21.3 M"),
        ("link:4", "rx_packets", " 776 k"),
        ("link:4", "errors", "22.0  "),
        ("link:4", "drops_rate", "5.00  "),
        ("link:4", "missed", "   0  "),
        ("link:4", "ip", "192.0.2.7/24"),
        ("link:4", "mtu", "1500"),
        ("link:4", "mac", "52:54:00:82:57:01"),
        ("link:3", "link", "↑  ?"),
        ("link:3", "driver", "virtio_net"),
        ("link:11", "master", "br0"),
        ("link:11", "driver", "veth"),
        ("link:1", "driver", "loopback"),
        ("pci:0000:02:00.0", "driver", ""),
        ("pci:0000:02:00.0", "rx", ""),
        ("pci:0000:02:00.0", "pcie", "2.5 GT/s ×4"),
        ("pci:0000:02:00.0", "numa", "0"),
        ("pci:0000:04:00.0", "driver", "no driver"),
        ("vf:0000:02:00.0:0", "rx", "1.00 M"),
        ("vf:0000:02:00.0:0", "tx", "2.00 M"),
        ("vf:0000:02:00.0:0", "errors", ""),
        ("vf:0000:02:00.0:0", "mac", "be:f5:e8:56:0a:61"),
        ("vf:0000:02:00.0:0", "driver", ""),
        ("vf:0000:02:00.0:1", "driver", "vfio-pci"),
        ("vf:0000:02:00.0:1", "link", "enable"),
        ("vf:0000:02:00.0:1", "mac", ""),
        ("vf:0000:02:00.0:1", "rx", "   –  "),
        ("vf:0000:02:00.0:7", "rx", ""),
        ("host", "rx", ""),
        ("group:virtual", "mtu", ""),
    ],
)
def test_cells(row: str, column: str, text: str) -> None:
    assert cell(live_host(), row, column)[0] == text


@pytest.mark.parametrize(
    ("port", "bond", "text", "tone"),
    [
        (BondPort(True, "up"), Bond("active-backup"), "bond0 active", "normal"),
        (BondPort(False, "up"), Bond("active-backup"), "bond0 backup", "normal"),
        (BondPort(False, "down"), Bond("active-backup"), "bond0 down", "warn"),
        (
            BondPort(True, "up", aggregator=1, actor_state=61, partner_state=61),
            LACP,
            "bond0 agg 1",
            "normal",
        ),
        (
            BondPort(True, "up", aggregator=2, actor_state=69, partner_state=1),
            LACP,
            "bond0 agg 2 unused",
            "warn",
        ),
        (None, Bond("balance-rr"), "bond0", "normal"),
    ],
)
def test_port_of_a_bond(port: BondPort | None, bond: Bond, text: str, tone: str) -> None:
    links = (
        make_link(4, "eth0", bus="usb", device="1", master=5, bond_port=port),
        make_link(5, "bond0", bond=bond),
    )
    shown = cell(snapshot_of(HELLO, inventory(links=links, pci=())), "link:4", "master")
    assert (shown[0].rstrip(), shown[1]) == (text, tone)


def test_port_of_a_team() -> None:
    team = Team(
        "activebackup",
        4,
        (TeamPort(4, True, True), TeamPort(6, True, False), TeamPort(7, False, False)),
    )
    ports = [
        make_link(number, f"eth{number}", bus="usb", device="1", master=5) for number in (4, 6, 7)
    ]
    host = snapshot_of(HELLO, inventory(links=(*ports, make_link(5, "team0", team=team)), pci=()))
    shown = [cell(host, f"link:{number}", "master") for number in (4, 6, 7)]
    assert [text.rstrip() for text, _ in shown] == ["team0 active", "team0 backup", "team0 down"]
    assert [tone for _, tone in shown] == ["normal", "normal", "warn"]


def test_tones() -> None:
    host = live_host()
    assert cell(host, "link:4", "drops")[1] == "warn"
    assert cell(host, "link:4", "rx")[1] == "normal"
    assert cell(host, "link:3", "rx")[1] == "dim"
    assert cell(host, "pci:0000:02:00.0", "pcie")[1] == "warn"
    assert cell(host, "pci:0000:04:00.0", "driver")[1] == "warn"


def test_before_the_first_rates_numbers_are_unknown_not_zero() -> None:
    host = snapshot_of(HELLO, inventory())
    assert cell(host, "link:4", "rx") == ("   –  ", "dim")
    reset = advance(live_host(), Line(counters=counters(102.0, {4: link_counters(rx_bytes=1)})))
    assert cell(reset, "link:4", "drops_rate") == ("   –  ", "dim")


def test_every_cell_of_every_row_is_text_in_its_width() -> None:
    host = live_host()
    odd = advance(
        host, Line(inventory=inventory(links=(replace(make_link(4, "[/x]\x1b"), mtu=2**31),)))
    )
    for snapshot in (Snapshot.empty("nobody"), host, odd):
        for row in device_tree(snapshot):
            for column in COLUMNS:
                text, tone = column.cell(DeviceRow(row, snapshot))
                assert tone in ("normal", "dim", "good", "warn", "bad")
                if column.is_rate and text:
                    assert width(text) == 6


def test_a_ring_that_overflows_shows_among_the_drops() -> None:
    """As in /proc/net/dev: at 80 columns there is no room for a column of missed packets alone."""
    host = advance(live_host(), Line(counters=counters(102.0, {4: link_counters()})))
    host = advance(
        host, Line(counters=counters(103.0, {4: link_counters(rx_missed_errors=7, tx_dropped=1)}))
    )
    assert cell(host, "link:4", "drops_rate") == ("8.00  ", "warn")
    assert cell(host, "link:4", "missed") == ("7.00  ", "warn")


def test_drops_are_a_total_and_a_warning_while_they_grow() -> None:
    host = advance(
        live_host(),
        Line(counters=counters(102.0, {4: link_counters(rx_missed_errors=7, tx_dropped=1)})),
    )
    assert cell(host, "link:4", "drops")[0] == "8"
    same = advance(
        host, Line(counters=counters(103.0, {4: link_counters(rx_missed_errors=7, tx_dropped=1)}))
    )
    assert cell(same, "link:4", "drops") == ("8", "normal")
    more = advance(
        same,
        Line(counters=counters(104.0, {4: link_counters(rx_missed_errors=123_456, tx_dropped=1)})),
    )
    assert cell(more, "link:4", "drops") == ("123 k", "warn")
    assert cell(snapshot_of(HELLO, inventory()), "link:4", "drops") == ("–", "dim")


def test_the_link_column_tells_unknown_from_not_supported_and_down() -> None:
    def shown(**fields: object) -> str:
        link = make_link(4, "x", bus="pci", **fields)
        return cell(snapshot_of(HELLO, inventory(links=(link,))), "link:4", "link")[0]

    assert shown() == "↑  ?"
    assert shown(ethtool=Ethtool(unreadable={"settings": Unreadable("not_offered")})) == "↑ n/a"
    assert shown(flags=DOWN, operstate="down") == "○ down"
    assert shown(carrier=False) == "▽"


def function_and_nics() -> Snapshot:
    """Two NICs, each with an address; the function of the first one is known."""
    address = Address("ipv4", "192.0.2.9", 24, "global", ())
    nics = [
        replace(
            make_link(ifindex, f"ens{ifindex}", pci_address=f"0000:0{ifindex}:00.0"),
            addresses=(address,),
            ethtool=Ethtool(
                driver=DriverInfo("igb", "", "", ""),
                settings=LinkSettings(10_000, "full", False, "tp", None),
            ),
        )
        for ifindex in (2, 3)
    ]
    functions = [make_pci(nic.pci_address or "", driver="igb") for nic in nics]
    read = inventory(links=tuple(nics), pci=tuple(functions), time=1.0)
    return advance(snapshot_of(), Line(inventory=read))


def after(snapshot: Snapshot, **fields: object) -> Snapshot:
    known: dict[str, object] = {
        "time": 5.0,
        "gone": False,
        "operstate": "up",
        "carrier": True,
        "flags": 0x1043,
        "mtu": 1500,
    }
    return advance(snapshot, Line(link_change=LinkChange(**(known | fields))))  # type: ignore[arg-type]


def test_the_driver_of_a_function_whose_netdev_has_gone_may_be_another_one() -> None:
    """It was unbound: its driver was read before."""
    before = function_and_nics()
    assert cell(before, "pci:0000:02:00.0", "driver")[0] == ""
    unbound = after(before, ifindex=2, name="ens2", gone=True, operstate="down", carrier=None)
    assert cell(unbound, "pci:0000:02:00.0", "driver") == ("? igb", "dim")
    assert cell(unbound, "link:3", "driver")[0] == "igb"


def test_what_an_event_may_have_changed_has_a_mark_until_it_is_read() -> None:
    before = function_and_nics()
    lost = after(before, ifindex=2, name="ens2", operstate="down", carrier=False)
    came = after(lost, ifindex=2, name="ens2", operstate="up")
    assert cell(before, "link:2", "ip") == ("192.0.2.9/24", "normal")
    assert cell(came, "link:2", "ip") == ("? 192.0.2.9/24", "dim")
    assert cell(before, "link:2", "link")[0] == "↑ 10G"
    assert cell(came, "link:2", "link")[0] == "↑  ?", "the speed may be another one"
    assert cell(came, "link:2", "driver")[0] == "igb", "it stays with its netdev"
    assert cell(came, "link:3", "ip")[0] == "192.0.2.9/24"
    of_manager = advance(before, Line(outdated=Outdated(5.0, "NetworkManager")))
    for row in ("link:2", "link:3"):
        assert cell(of_manager, row, "ip")[0] == "? 192.0.2.9/24"
        assert cell(of_manager, row, "driver")[0] == "igb"
    of_device = advance(before, Line(outdated=Outdated(5.0, "device")))
    assert cell(of_device, "link:3", "driver")[0] == "? igb"
    assert before.inventory is not None
    read = advance(came, Line(inventory=replace(before.inventory, time=6.0)))
    assert cell(read, "link:2", "ip") == ("192.0.2.9/24", "normal")


def test_what_a_physical_function_says_of_its_vfs_has_a_mark_too() -> None:
    """They may have been removed."""
    before, row = live_host(), "vf:0000:02:00.0:0"
    assert cell(before, row, "link")[0] == "auto"
    of_device = advance(before, Line(outdated=Outdated(1e6, "device")))
    assert cell(of_device, row, "link") == ("? auto", "dim")
    of_another = after(before, time=1e6, ifindex=99, name="eth0")
    assert of_another.unread_event is not None
    assert cell(of_another, row, "link")[0] == "auto"


def test_rows_do_not_move_because_of_the_mark() -> None:
    before = function_and_nics()
    marked = advance(before, Line(outdated=Outdated(5.0, "NetworkManager")))
    for key in ("ip", "driver", "profile", "master"):
        orders = [
            BY_KEY[key].sort_key(DeviceRow(row_of(one, "link:2"), one)) for one in (before, marked)
        ]
        assert orders[0] == orders[1], key
