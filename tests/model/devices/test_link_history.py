"""What happened to the netdevs of a host within an hour: sums, counters that restart, new netdevs,
bounded memory."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.limits import MAX_LINKS
from nictop.model.devices.link_history import (
    HISTORY_SECONDS,
    MAX_HISTORIES,
    MAX_TEXTS,
    MIN_STEP_SECONDS,
    LeftBridge,
    LinkHistory,
    RemovedAddress,
    history_key,
    history_texts,
    increase,
    losses_after_the_first_carrier,
    reset_total,
    with_inventory,
)
from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import (
    Address,
    DriverInfo,
    Ethtool,
    Inventory,
    Line,
    Link,
    LinkChange,
    Unreadable,
)
from tests.model.hosts import HELLO, PLATFORM

OLD = Address("ipv4", "192.0.2.1", 24, "global", ("permanent",))
KEPT = Address("ipv4", "192.0.2.2", 24, "global", ("permanent",))
DEVICE = "0000:02:00.0"
MAX_POINTS = int(HISTORY_SECONDS / MIN_STEP_SECONDS) + 2


def link(
    changes: int | None = 0,
    resets: int | None = 0,
    *,
    ifindex: int = 2,
    device: str | None = DEVICE,
    **fields: Any,
) -> Link:
    """A NIC of e1000e, whose driver counts transmit timeouts as resets."""
    names, values = (
        (None, None) if resets is None else (("rx_packets", "tx_timeout_count"), (7, resets))
    )
    ethtool = Ethtool(
        driver=DriverInfo("e1000e", "", "", ""),
        driver_counter_names=names,
        driver_counters=values,
    )
    return Link(
        ifindex,
        "eth0",
        1,
        3,
        "up",
        True,
        1500,
        device=device,
        carrier_changes=changes,
        ethtool=ethtool,
        **fields,
    )


def inventory(time: float, *links: Link) -> Inventory:
    return Inventory(
        time=time, wall=0.0, took=0.1, reason="event", platform=PLATFORM, pci=(), links=links
    )


def watch(*readings: tuple[float, Link]) -> LinkHistory:
    """The history of the device after these inventories."""
    histories: Mapping[str, LinkHistory] = {}
    for time, one in readings:
        histories = with_inventory(histories, inventory(time, one))
    return histories[DEVICE]


def numbers(history: LinkHistory) -> tuple[int, int, int]:
    return history.new_losses, history.new_resets, history.new_netdevs


def test_nothing_has_happened_at_the_first_inventory() -> None:
    """However often the link was lost before."""
    history = watch((100.0, link(400, 30)))
    assert numbers(history) == (0, 0, 0)
    assert history.watched == 0.0


def test_sums_of_an_hour() -> None:
    history = watch(
        (0.0, link(10, 1)), (600.0, link(14, 1)), (1200.0, link(16, 3)), (1800.0, link(16, 3))
    )
    assert numbers(history) == (3, 2, 0)
    assert history.watched == 1800.0


def test_what_is_older_than_an_hour_is_forgotten() -> None:
    early = [(0.0, link(0)), (60.0, link(100, 50)), (120.0, link(100, 50))]
    assert numbers(watch(*early, (HISTORY_SECONDS, link(102, 51)))) == (51, 51, 0)
    later = [(120.0 + number * 600.0, link(100 + 2 * number, 50)) for number in range(1, 8)]
    history = watch(*early, *later)
    assert numbers(history) == (6, 0, 0)
    assert history.watched <= HISTORY_SECONDS


def test_readings_in_quick_succession_are_all_counted() -> None:
    """Inventories follow each other within a second while a link flaps."""
    history = watch(*((number * 0.5, link(2 * number, number // 10)) for number in range(101)))
    assert numbers(history) == (100, 10, 0)
    assert history.watched == 50.0
    assert len(history.points) <= 3


def test_points_are_bounded() -> None:
    """An inventory each second for three hours."""
    history = watch(*((float(second), link(2 * second)) for second in range(3 * 3600)))
    assert len(history.points) <= MAX_POINTS
    assert HISTORY_SECONDS - 2 * MIN_STEP_SECONDS <= history.watched <= HISTORY_SECONDS
    assert history.new_losses == history.watched


def test_counters_that_restart() -> None:
    """The driver's counters are 0 again after a reset of the NIC."""
    history = watch((0.0, link(10, 40)), (600.0, link(12, 2)), (1200.0, link(14, 5)))
    assert numbers(history) == (2, 5, 0)


def test_a_counter_that_is_not_read_for_a_while() -> None:
    """What it counted meanwhile is not known to be of this hour."""
    history = watch(
        (0.0, link(10, 40)),
        (600.0, link(None, None)),
        (1200.0, link(30, 60)),
        (1800.0, link(32, 61)),
    )
    assert numbers(history) == (1, 1, 0)
    assert (history.carrier_changes, history.resets) == (32, 61)


def test_a_new_netdev_of_the_same_device() -> None:
    """The driver was bound again, or a VF was made again: counters begin at 0."""
    history = watch(
        (0.0, link(10, 3)),
        (60.0, link(4, 1, ifindex=7)),
        (120.0, link(6, 1, ifindex=7)),
        (180.0, link(2, ifindex=8)),
    )
    assert numbers(history) == (2, 1, 2)
    assert history.ifindex == 8


def test_a_device_that_is_missing_for_a_moment() -> None:
    """Between unbind and bind there is no netdev."""
    histories = with_inventory({}, inventory(0.0, link(10)))
    histories = with_inventory(histories, inventory(10.0))
    assert numbers(histories[DEVICE]) == (0, 0, 0)
    histories = with_inventory(histories, inventory(20.0, link(4, ifindex=7)))
    assert numbers(histories[DEVICE]) == (1, 0, 1)


def test_a_device_that_stays_away_is_forgotten() -> None:
    histories = with_inventory({}, inventory(0.0, link(10)))
    assert DEVICE in with_inventory(histories, inventory(HISTORY_SECONDS))
    assert with_inventory(histories, inventory(HISTORY_SECONDS + 1.0)) == {}
    again = with_inventory(histories, inventory(HISTORY_SECONDS + 1.0, link(50, ifindex=9)))
    assert numbers(again[DEVICE]) == (0, 0, 0)


def test_a_clock_that_goes_back() -> None:
    """The host was booted again: everything begins anew."""
    history = watch(
        (50_000.0, link(10, 3)), (50_060.0, link(90, 9)), (20.0, link(4, 1)), (80.0, link(6, 1))
    )
    assert numbers(history) == (1, 0, 0)
    assert history.watched == 60.0


def test_two_devices_are_counted_separately() -> None:
    other = "0000:03:00.0"
    histories: Mapping[str, LinkHistory] = {}
    for number in range(5):
        one, two = link(2 * number), link(0, number, ifindex=3, device=other)
        histories = with_inventory(histories, inventory(number * 100.0, one, two))
    assert numbers(histories[DEVICE]) == (4, 0, 0)
    assert numbers(histories[other]) == (0, 4, 0)


def test_increase() -> None:
    assert increase(3, 5, is_new=False) == 2
    assert increase(5, 3, is_new=False) == 3
    assert increase(5, 3, is_new=True) == 3
    assert increase(None, 3, is_new=False) == 0
    assert increase(5, None, is_new=True) == 0


def test_resets_that_a_driver_counts() -> None:
    assert reset_total(link(resets=4)) == 4
    assert reset_total(link(resets=None)) is None
    names = Ethtool(driver=None, driver_counter_names=("rx_packets",), driver_counters=(1,))
    assert reset_total(Link(2, "eth0", 1, 3, "up", True, 1500, ethtool=names)) is None
    cut = Ethtool(driver_counter_names=("rx_packets", "tx_timeout_count"), driver_counters=(1,))
    assert reset_total(Link(2, "eth0", 1, 3, "up", True, 1500, ethtool=cut)) is None


def test_a_snapshot_has_the_histories() -> None:
    snapshot = advance(Snapshot.empty("host"), Line(hello=HELLO))
    for number in range(4):
        snapshot = advance(snapshot, Line(inventory=inventory(number * 100.0, link(number * 2))))
    assert numbers(snapshot.histories[DEVICE]) == (3, 0, 0)
    assert snapshot.histories[DEVICE].watched == 300.0


def test_memory_is_bounded() -> None:
    """The largest number of links, with an inventory each minute for two hours; all of them
    flap."""
    histories: Mapping[str, LinkHistory] = {}
    for minute in range(120):
        links = [
            link(minute, ifindex=number, device=f"virtio{number}")
            for number in range(1, MAX_LINKS + 1, 50)
        ]
        histories = with_inventory(histories, inventory(minute * 60.0, *links))
    assert len(histories) == len(range(1, MAX_LINKS + 1, 50))
    points = [point for history in histories.values() for point in history.points]
    assert len(points) <= MAX_POINTS * len(histories)
    assert max(map(sys.getsizeof, points)) < 200


def test_devices_that_never_return_are_no_leak() -> None:
    """Containers: another device each minute for a day."""
    histories: Mapping[str, LinkHistory] = {}
    for minute in range(24 * 60):
        histories = with_inventory(
            histories, inventory(minute * 60.0, link(device=f"virtio{minute}"))
        )
    assert len(histories) <= MAX_POINTS


TIME = st.floats(allow_nan=False, allow_infinity=False)
COUNT = st.none() | st.integers(min_value=0, max_value=2**64)


@given(st.lists(st.tuples(TIME, COUNT, COUNT, st.integers(1, 3)), max_size=40))
def test_any_readings_are_a_history(
    readings: list[tuple[float, int | None, int | None, int]],
) -> None:
    """Sums never fall, and points stay in their order."""
    histories: Mapping[str, LinkHistory] = {}
    for time, changes, resets, ifindex in readings:
        histories = with_inventory(
            histories, inventory(time, link(changes, resets, ifindex=ifindex))
        )
        history = histories[DEVICE]
        assert min(numbers(history)) >= 0
        assert 0 <= history.watched <= HISTORY_SECONDS
        assert history.points == tuple(sorted(history.points, key=lambda one: one.time))
        assert len(history.points) <= MAX_POINTS


def set_down(changes: int) -> Link:
    return dataclasses.replace(link(changes), flags=0x1002, operstate="down", carrier=None)


def no_carrier(changes: int) -> Link:
    return dataclasses.replace(link(changes), carrier=False)


def test_setting_a_link_down_and_up_is_no_change_of_the_carrier() -> None:
    history = watch(
        (0, link(2)),
        (10, set_down(3)),
        (20, no_carrier(3)),
        (23, link(4)),
        (30, set_down(5)),
        (40, link(6)),
    )
    assert history.new_losses == 0


def change_of(time: float, one: Link) -> Line:
    return Line(
        link_change=LinkChange(
            time=time,
            ifindex=one.ifindex,
            gone=False,
            name=one.name,
            operstate=one.operstate,
            carrier=one.carrier,
            flags=one.flags,
            mtu=one.mtu,
            carrier_changes=one.carrier_changes,
        )
    )


def snapshot_after(*lines: Line) -> Snapshot:
    snapshot = advance(Snapshot.empty("host"), Line(hello=HELLO))
    for line in lines:
        snapshot = advance(snapshot, line)
    return snapshot


def down_and_up(time: float, changes: int) -> list[Line]:
    """What the kernel reports, of a link with this many changes before."""
    states = (set_down(changes + 1), no_carrier(changes + 1), link(changes + 2))
    return [change_of(time + 0.1 * number, one) for number, one in enumerate(states)]


def test_setting_it_down_and_up_between_two_inventories_is_no_change_of_the_carrier() -> None:
    reported = [line for number in range(3) for line in down_and_up(1.0 + number, 2 + 2 * number)]
    lines = (Line(inventory=inventory(0.0, link(2))), *reported)
    for last in ((), (Line(inventory=inventory(20.0, link(8))),)):
        history = snapshot_after(*lines, *last).histories[DEVICE]
        assert (history.new_losses, history.all_downs) == (0, 3)


def test_what_happened_is_told_where_the_last_state_does_not_show_it() -> None:
    """As of ``check --watch``: a NIC was unbound and bound, another one is gone."""
    other = link(0, ifindex=3, device="virtio1")
    histories = with_inventory({}, inventory(0.0, link(2), other))
    histories = with_inventory(histories, inventory(5.0))
    assert history_texts(histories, (), str) == ("eth0 was gone at 5.0", "eth0 was gone at 5.0")
    again = link(4, ifindex=9)
    histories = with_inventory(histories, inventory(10.0, again))
    told = (
        "eth0 made again once, lost its carrier once",
        "eth0 was gone at 5.0, and another one has its name",
    )
    assert history_texts(histories, [again], str) == told
    quiet = with_inventory({}, inventory(0.0, link(2)))
    assert history_texts(quiet, [link(2)], str) == ()


def test_losses_between_two_inventories_are_counted_where_the_kernel_reports_them() -> None:
    reported = [no_carrier(3), link(4), no_carrier(5), link(6)]
    changes = [change_of(1.0 + number, one) for number, one in enumerate(reported)]
    begin, end = Line(inventory=inventory(0.0, link(2))), Line(inventory=inventory(20.0, link(8)))
    history = snapshot_after(begin, *changes, end).histories[DEVICE]
    assert (history.new_losses, history.all_downs) == (3, 0)


def test_an_inventory_from_before_what_was_reported_counts_nothing() -> None:
    """It was begun at 0.5 s, read the link before it was lost, and came after that was reported."""
    lost = [change_of(1.0, no_carrier(3)), change_of(2.0, link(4))]
    begin, late = Line(inventory=inventory(0.0, link(2))), Line(inventory=inventory(0.5, link(2)))
    history = snapshot_after(begin, *lost, late).histories[DEVICE]
    assert numbers(history) == (1, 0, 0)
    end = Line(inventory=inventory(9.0, link(4, 1)))
    assert numbers(snapshot_after(begin, *lost, late, end).histories[DEVICE]) == (1, 1, 0)


def test_losses_between_are_counted() -> None:
    history = watch(
        (0, link(2)),
        (10, set_down(3)),
        (20, link(4)),
        (30, no_carrier(5)),
        (40, link(6)),
        (50, link(8)),
    )
    assert history.new_losses == 2


def test_losses_right_after_setting_it_up_are_counted() -> None:
    history = watch((0, set_down(3)), (10, no_carrier(3)), (20, link(6)))
    assert history.new_losses == 1


def test_a_link_that_is_down_now_has_lost_its_carrier() -> None:
    """Four losses, and three returns until now."""
    history = watch((0, link(2)), (10, no_carrier(3)), (20, link(4)), (30, no_carrier(9)))
    assert history.new_losses == 4


@pytest.mark.parametrize(
    ("changes", "has_carrier", "losses"),
    [
        (0, True, 0),  # nothing counts it
        (1, True, 0),  # off before it was registered, then on
        (2, True, 0),  # off when it was registered, then on
        (10, True, 4),
        (9, True, 4),
        (1, False, 0),  # no cable yet
        (9, False, 4),
        (8, False, 4),  # off before it was registered, on and off four times
    ],
)
def test_the_first_loss_of_a_netdev_is_none(changes: int, has_carrier: bool, losses: int) -> None:
    """igb takes the carrier away when it is bound."""
    assert losses_after_the_first_carrier(changes, has_carrier=has_carrier) == losses


def texts(snapshot: Snapshot) -> tuple[str, ...]:
    return history_texts(snapshot.histories, snapshot.links.values(), str)


def event(ifindex: int, time: float, *, gone: bool = False, **fields: Any) -> Line:
    known = {"carrier": True, "carrier_changes": 0, "operstate": "up", **fields}
    return Line(link_change=LinkChange(time, ifindex, gone, "eth0", flags=3, mtu=1500, **known))


@pytest.mark.parametrize(
    "kind", ["veth", "bridge", "bond", "vlan", "tun", "dummy", "macvlan", "wireguard"]
)
def test_a_netdev_without_a_device_has_a_history(kind: str) -> None:
    """Its carrier is lost and back before the next inventory."""
    one = link(4, None, device=None, kind=kind)
    lost = event(2, 11.0, carrier=False, carrier_changes=5, operstate="lowerlayerdown")
    back = event(2, 11.2, carrier_changes=6)
    snapshot = snapshot_after(Line(inventory=inventory(10.0, one)), lost, back)
    assert texts(snapshot) == ("eth0 lost its carrier once",)
    again = advance(
        snapshot, Line(inventory=inventory(12.0, dataclasses.replace(one, carrier_changes=6)))
    )
    assert texts(again) == ("eth0 lost its carrier once",)


def test_a_nic_that_is_gone_is_told_with_its_time() -> None:
    """That of the event, and no later inventory changes it; it is not told of one that is back."""
    lines = (Line(inventory=inventory(10.0, link(4))), event(2, 11.0, gone=True))
    gone = snapshot_after(*lines, Line(inventory=inventory(15.0)))
    assert texts(gone) == ("eth0 was gone at 11.0",)
    back = snapshot_after(*lines, Line(inventory=inventory(15.0, link(4))))
    assert texts(back) == ()


def test_a_netdev_made_again_under_its_name_is_another_one() -> None:
    """What the first one lost is not what the second one lost."""
    first = link(4, None, device=None, kind="veth")
    second = link(9, None, device=None, kind="veth", ifindex=3)
    gone = event(2, 11.0, gone=True)
    new = snapshot_after(
        Line(inventory=inventory(10.0, first)), gone, Line(inventory=inventory(12.0, second))
    )
    assert texts(new) == ("eth0 was gone at 11.0, and another one has its name",)
    assert new.histories[history_key(second)].new_losses == 0


def test_a_number_that_another_netdev_has_later() -> None:
    first = link(4, None, device=None, kind="veth")
    gone = event(2, 11.0, gone=True)
    again = dataclasses.replace(first, carrier_changes=8)
    snapshot = snapshot_after(
        Line(inventory=inventory(10.0, first)), gone, Line(inventory=inventory(12.0, again))
    )
    assert texts(snapshot) == ("eth0 was gone at 11.0, and another one has its name",)


def test_ports_of_one_device_are_not_made_again_by_each_other() -> None:
    """A dual-port function of mlx4, and the representors of a switch, have one parent device."""
    ports = (
        link(0, ifindex=2),
        link(0, ifindex=3, device_port=1),
        link(0, ifindex=4, physical_port="pf0vf0"),
        link(0, ifindex=5, physical_port="pf0vf1"),
    )
    snapshot = snapshot_after(
        *(Line(inventory=inventory(float(time), *ports)) for time in (10, 12, 14))
    )
    assert texts(snapshot) == ()
    assert len(snapshot.histories) == 4


def test_many_interfaces_that_went_are_counted() -> None:
    links = [link(0, None, device=None, ifindex=number) for number in range(2, 42)]
    found = snapshot_after(Line(inventory=inventory(10.0, *links)), Line(inventory=inventory(12.0)))
    assert len(texts(found)) == MAX_TEXTS
    assert texts(found)[-1] == "29 other interfaces changed"


def test_histories_are_bounded() -> None:
    """Containers that come and go by the thousand."""
    histories: dict[str, LinkHistory] = {}
    for number in range(5):
        links = [
            link(0, None, device=None, ifindex=number * MAX_LINKS + place + 1)
            for place in range(MAX_LINKS)
        ]
        histories = with_inventory(histories, inventory(float(number), *links))
    assert len(histories) == MAX_HISTORIES
    assert all(history_key(one) in histories for one in links)


def test_an_address_that_is_removed_is_remembered_until_it_is_back() -> None:
    """As the address of a gateway: what had it is named."""
    first = dataclasses.replace(link(), addresses=(OLD, KEPT))
    without = dataclasses.replace(first, addresses=(KEPT,))
    histories = with_inventory({}, inventory(0.0, first))
    histories = with_inventory(histories, inventory(10.0, without))
    (history,) = histories.values()
    assert history.removed_addresses == (RemovedAddress("192.0.2.1", 24, 10.0),)
    histories = with_inventory(histories, inventory(20.0, without))
    (history,) = histories.values()
    assert [one.time for one in history.removed_addresses] == [10.0]
    (history,) = with_inventory(histories, inventory(30.0, first)).values()
    assert history.removed_addresses == ()


def local(created: int) -> Address:
    return Address("ipv6", "fe80::1", 64, "link", ("permanent",), created=created)


SET_BY_HAND = Address("ipv6", "2001:db8::7", 64, "global", ("permanent",))


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        ((local(900),), (SET_BY_HAND,)),
        ((local(5),), ()),
        ((local(900), SET_BY_HAND), ()),
        ((), ()),
    ],
    ids=["IPv6 came anew", "deleted by hand", "kept", "flushed by hand"],
)
def test_ipv6_that_was_off_between_two_readings_took_the_addresses(
    now: tuple[Address, ...], lost: tuple[Address, ...]
) -> None:
    """disable_ipv6 was set and cleared at once: the kernel adds only its link-local address."""
    first = with_inventory({}, inventory(1.0, link(addresses=(local(5), SET_BY_HAND))))
    (found,) = with_inventory(first, inventory(2.0, link(addresses=now))).values()
    assert found.lost_ipv6_addresses == lost
    assert found.lost_by == ("moment" if lost else "")


def test_a_bridge_that_a_port_has_left_is_remembered_until_it_is_a_port_again() -> None:
    bridge = link(None, None, ifindex=1, device=None, kind="bridge")
    histories = with_inventory({}, inventory(1.0, bridge, link(master=1)))
    assert histories[DEVICE].left_bridge is None
    for time in (2.0, 3.0):
        histories = with_inventory(histories, inventory(time, bridge, link()))
        assert histories[DEVICE].left_bridge == LeftBridge(1, "eth0", 2.0)
    histories = with_inventory(histories, inventory(4.0, bridge, link(master=1)))
    assert histories[DEVICE].left_bridge is None


def test_addresses_that_could_not_be_read_are_not_removed() -> None:
    first = dataclasses.replace(link(), addresses=(OLD,))
    unread = inventory(10.0, dataclasses.replace(first, addresses=()))
    unread = dataclasses.replace(unread, unreadable={"addresses": Unreadable("failed", "")})
    (history,) = with_inventory(with_inventory({}, inventory(0.0, first)), unread).values()
    assert history.removed_addresses == ()
