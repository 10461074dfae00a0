"""A snapshot has the newest of all records, in whatever order they were received."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from nictop.limits import MAX_LINKS
from nictop.model.snapshot import (
    ARPHRD_VOID,
    MAX_TROUBLES,
    Snapshot,
    advance,
    outdated_text,
    reading_notice,
    since_text,
    with_state,
)
from nictop.probe.records import Clock, Counters, Line, LinkChange, Outdated, Trouble
from tests.model.hosts import (
    HELLO,
    LINKS,
    PF,
    UP,
    counters,
    inventory,
    link_counters,
    make_link,
    snapshot_of,
)


def change(time: float, ifindex: int, name: str = "ens224", **more: object) -> LinkChange:
    record = LinkChange(
        time, ifindex, gone=False, name=name, operstate="up", carrier=True, flags=UP, mtu=1500
    )
    return replace(record, **more)  # type: ignore[arg-type]


def traffic(time: float, ifindex: int, packets: int) -> Counters:
    return counters(time, {ifindex: link_counters(rx_packets=packets, rx_bytes=packets * 100)})


def test_empty_snapshot() -> None:
    empty = Snapshot.empty("host")
    assert (empty.state, empty.message, empty.inventory_pending) == ("connecting", "", True)
    assert (empty.links, empty.pci, empty.rates) == ({}, (), None)
    assert advance(empty, Line()) is empty


def test_counters_before_the_inventory() -> None:
    snapshot = snapshot_of(HELLO, traffic(10.0, 4, 10), traffic(11.0, 4, 30))
    assert snapshot.state == "live"
    assert snapshot.rates is not None
    assert snapshot.rates.links[4].rx_packets == 20
    assert snapshot.before is not None and snapshot.counters is not None
    assert (snapshot.before.time, snapshot.counters.time) == (10.0, 11.0)
    assert snapshot.inventory_pending
    assert snapshot.links == {}


def test_inventory_gives_links_and_functions() -> None:
    snapshot = snapshot_of(HELLO, inventory())
    assert set(snapshot.links) == {link.ifindex for link in LINKS}
    assert snapshot.links[4] is PF
    assert len(snapshot.pci) == 5
    assert not snapshot.inventory_pending


def test_link_change_before_any_inventory() -> None:
    snapshot = snapshot_of(HELLO, change(99.5, 7, "eth7", mtu=9000, carrier=False))
    link = snapshot.links[7]
    assert (link.name, link.mtu, link.carrier, link.type) == ("eth7", 9000, False, ARPHRD_VOID)
    assert snapshot.inventory_pending
    after = advance(snapshot, Line(inventory=inventory(100.0, (make_link(7, "eth7"),))))
    assert after.links[7].type == 1
    assert not after.inventory_pending


def test_link_change_updates_only_its_fields() -> None:
    before = snapshot_of(HELLO, inventory(100.0))
    after = advance(
        before, Line(link_change=change(101.0, 4, "wan", carrier=False, operstate="down", mtu=9000))
    )
    link = after.links[4]
    assert (link.name, link.carrier, link.operstate, link.mtu) == ("wan", False, "down", 9000)
    assert (link.address, link.ethtool) == (PF.address, PF.ethtool)
    assert after.inventory_pending
    assert before.links[4] is PF, "snapshots are immutable"


def test_an_event_brings_the_number_of_carrier_changes() -> None:
    """It stands beside state and MTU, which are said to be newer than the other values."""
    lost = replace(change(101.0, 4, "wan", carrier=False), carrier_changes=9)
    after = advance(snapshot_of(HELLO, inventory(100.0)), Line(link_change=lost))
    assert after.links[4].carrier_changes == 9
    of_old_probe = advance(after, Line(link_change=change(102.0, 4, "wan")))
    assert of_old_probe.links[4].carrier_changes == 9


def test_an_inventory_that_began_before_a_change_does_not_undo_it() -> None:
    changes = (
        change(100.1, 4, "wan"),
        change(100.2, 5, "ens224v0", gone=True),
        change(100.3, 40, "veth9"),
        change(99.0, 3, "old"),
    )
    snapshot = snapshot_of(HELLO, *changes, inventory(100.0))
    assert snapshot.links[4].name == "wan"
    assert 5 not in snapshot.links
    assert snapshot.links[40].name == "veth9"
    assert snapshot.links[3].name == "ens256", "the inventory is newer than this change"
    assert snapshot.inventory_pending
    settled = advance(snapshot, Line(inventory=inventory(101.0)))
    assert settled.links[4].name == "ens224"
    assert not settled.inventory_pending


def test_after_a_link_has_come_or_gone_what_was_read_is_of_before() -> None:
    """The driver of its device was unbound, or bound: the inventory says the contrary."""
    read = snapshot_of(HELLO, inventory(100.0))
    assert outdated_text(advance(read, Line(link_change=change(101.0, 4)))) == ""
    for structure in (change(101.0, 4, gone=True), change(101.0, 99, "ens1")):
        after = advance(read, Line(link_change=structure))
        assert outdated_text(after) == "read before an event (link)"
        assert outdated_text(advance(after, Line(inventory=inventory(102.0)))) == ""


def test_a_removed_link_has_no_counters() -> None:
    """The kernel may give its ifindex to another link, with unrelated counters."""
    snapshot = snapshot_of(
        HELLO,
        inventory(9.0),
        traffic(10.0, 4, 10),
        traffic(11.0, 4, 20),
        change(11.5, 4, gone=True),
    )
    assert 4 not in snapshot.links
    assert snapshot.rates is not None and 4 not in snapshot.rates.links
    reborn = advance(snapshot, Line(link_change=change(11.6, 4, "tap9")))
    assert reborn.links[4].ethtool.driver is None, (
        "facts of the old link are not facts of the new one"
    )
    counted = advance(
        reborn, Line(counters=counters(12.0, {4: link_counters(rx_packets=10_000, rx_bytes=10**6)}))
    )
    assert counted.rates is not None and 4 not in counted.rates.links


def test_probe_restart_preserves_the_state_and_reboot_does_not() -> None:
    first = (HELLO, inventory(9.0), traffic(10.0, 4, 10), traffic(11.0, 4, 20))
    same = snapshot_of(*first, replace(HELLO, pid=5000), traffic(15.0, 4, 60))
    assert same.rates is not None
    assert same.rates.links[4].rx_packets == 10
    assert 4 in same.links
    assert same.inventory_pending
    other = snapshot_of(*first, replace(HELLO, boot_id="another"))
    assert (other.rates, other.counters, other.before, other.inventory, other.links) == (
        None,
        None,
        None,
        None,
        {},
    )
    assert (other.state, other.host) == ("live", "alma-load-001")
    counted = advance(
        other, Line(counters=counters(20.0, {4: link_counters(rx_packets=500, rx_bytes=50_000)}))
    )
    assert counted.rates is None


def test_an_unknown_boot_id_counts_as_a_reboot() -> None:
    anonymous = replace(HELLO, boot_id="")
    snapshot = snapshot_of(anonymous, traffic(10.0, 4, 10), anonymous, traffic(11.0, 4, 20))
    assert snapshot.rates is None


def test_no_rates_without_elapsed_time() -> None:
    snapshot = snapshot_of(HELLO, traffic(10.0, 4, 10), traffic(10.0, 4, 20))
    assert snapshot.rates is None
    assert snapshot.counters is not None


def test_clock_ticks_come_from_the_host() -> None:
    fast = replace(HELLO, clock_ticks=1000)
    readings = (
        counters(1.0, cpus={0: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0)}),
        counters(2.0, cpus={0: (500, 0, 0, 500, 0, 0, 0, 0, 0, 0)}),
    )
    quick, slow = snapshot_of(fast, *readings), snapshot_of(HELLO, *readings)
    assert quick.rates is not None and quick.rates.cpus[0].busy == 0.5
    assert slow.rates is not None and slow.rates.cpus == {}, (
        "1000 ticks do not fit into a second of 100"
    )


def vf_reading(time: float, packets: int | None) -> object:
    return counters(
        time, vfs={} if packets is None else {4: {0: (packets, 0, packets * 100, 0, 0, 0, 0, 0)}}
    )


def test_vf_rates_at_ten_hertz_span_a_second() -> None:
    """The probe reads VF counters once a second; the records between have none, which is not a rate
    of 0."""
    snapshot = snapshot_of(HELLO)
    seen = []
    for tick in range(31):
        packets = tick * 100 if tick % 10 == 0 else None
        snapshot = advance(snapshot, Line(counters=vf_reading(100 + tick / 10, packets)))  # type: ignore[arg-type]
        if tick >= 10:
            assert snapshot.rates is not None
            seen.append(snapshot.rates.vfs[4][0].rx_packets)
    assert seen == [pytest.approx(1000)] * 21


def test_old_vf_rates_are_removed() -> None:
    readings = [
        vf_reading(100.0, 0),
        vf_reading(101.0, 50),
        vf_reading(102.0, None),
        vf_reading(106.0, None),
    ]
    assert snapshot_of(HELLO, *readings[:3]).rates.vfs[4][0].rx_packets == 50  # type: ignore[union-attr]
    assert snapshot_of(HELLO, *readings).rates.vfs == {}  # type: ignore[union-attr]


def test_state_and_trouble() -> None:
    live = snapshot_of(HELLO, inventory(), Trouble(101.0, "inventory: took too long"))
    assert (live.state, live.message) == ("live", "inventory: took too long")
    lost = with_state(live, "lost", "the probe ended; again in 2 s")
    assert (lost.state, lost.message) == ("lost", "the probe ended; again in 2 s")
    assert lost.links is live.links, "facts stay on the screen"
    back = advance(lost, Line(hello=HELLO))
    assert (back.state, back.message) == ("live", "")
    assert [trouble.message for trouble in back.troubles] == ["inventory: took too long"]


def test_an_inventory_clears_the_message_of_a_live_host_only() -> None:
    troubled = snapshot_of(HELLO, Trouble(99.0, "inventory: took too long"))
    assert advance(troubled, Line(inventory=inventory())).message == ""
    lost = with_state(troubled, "lost", "gone")
    assert advance(lost, Line(inventory=inventory())).message == "gone"


def test_a_trouble_of_an_inventory_is_over_when_a_later_one_is_complete() -> None:
    stopped = Trouble(50.0, "the inventory was stopped", "inventory")
    other = Trouble(50.0, "no interrupts and threads")
    whole = replace(inventory(), time=60.0)
    troubled = snapshot_of(HELLO, stopped, other)
    partly = advance(troubled, Line(inventory=replace(whole, pending=("networkmanager",))))
    assert partly.troubles == (stopped, other)
    older = advance(troubled, Line(inventory=replace(whole, time=40.0)))
    assert older.troubles == (stopped, other)
    assert advance(partly, Line(inventory=whole)).troubles == (other,)


def test_troubles_are_bounded() -> None:
    snapshot = snapshot_of(
        HELLO, *(Trouble(float(number), f"trouble {number}") for number in range(100))
    )
    assert len(snapshot.troubles) == MAX_TROUBLES
    assert snapshot.troubles[-1].message == "trouble 99"


def test_the_number_of_links_is_limited() -> None:
    snapshot = snapshot_of(HELLO, *(change(float(number), number) for number in range(MAX_LINKS)))
    assert len(snapshot.links) == len(snapshot.changes) == MAX_LINKS
    more = advance(snapshot, Line(link_change=change(1e4, MAX_LINKS)))
    assert len(more.links) == MAX_LINKS and MAX_LINKS not in more.links and more.inventory_pending
    known = advance(more, Line(link_change=change(1e4, 5, mtu=9000)))
    assert known.links[5].mtu == 9000


def test_a_reading_that_was_stopped_does_not_count_on() -> None:
    """ "being read again for 93 s" was beside "stopped: not complete after 62 s"."""
    event = Outdated(5000.0, "address", due=5001.0)
    stopped = Trouble(5063.0, "the inventory was stopped: not complete after 62 s", "inventory")
    read = snapshot_of(HELLO, inventory(time=4000.0))
    before = advance(read, Line(outdated=event))
    reading = advance(before, Line(counters=traffic(5031.0, 4, 10)))
    assert reading_notice(reading).startswith("being read again for 30 s: ")
    after = advance(reading, Line(trouble=stopped))
    later = advance(after, Line(counters=traffic(5094.0, 4, 10)))
    assert reading_notice(later).startswith("being read once more for 31 s: ")


def test_what_was_to_be_read_later_is_not_announced_of_a_recording() -> None:
    """The demo said "read again in 22 s" nine seconds before its end."""
    read = replace(snapshot_of(HELLO, inventory(time=4000.0)), is_replayed=True)
    told = "values were read before an event (address)"
    for due in (5022.0, None):
        waiting = advance(read, Line(outdated=Outdated(4999.0, "address", due=due)))
        for snapshot in (waiting, advance(waiting, Line(counters=traffic(5000.0, 4, 10)))):
            assert reading_notice(snapshot) == told
            live = reading_notice(replace(snapshot, is_replayed=False))
            assert "read again" in live and live.endswith(told)
    known = read.hello
    assert known is not None
    rebooted = advance(read, Line(hello=replace(known, boot_id="another")))
    assert rebooted.is_replayed


def test_the_round_trip_is_that_of_this_connection_and_the_offset_stays() -> None:
    measured = Clock(5002.0, 3.5, 0.1, round_trip=0.033)
    before = advance(snapshot_of(HELLO, inventory(time=5000.0)), Line(clock=measured))
    known = before.hello
    assert known is not None
    again = advance(before, Line(hello=replace(known, monotonic=5040.0)))
    assert again.clock == replace(measured, round_trip=None)
    assert advance(before, Line(hello=known)).clock == measured, "a recording repeats it"


def test_the_number_of_changes_is_limited() -> None:
    snapshot = snapshot_of(
        HELLO, *(change(float(number), number, gone=True) for number in range(MAX_LINKS + 9))
    )
    assert not snapshot.links and len(snapshot.changes) == MAX_LINKS and 0 not in snapshot.changes


def test_after_another_hello_of_the_same_boot_what_was_read_is_of_before() -> None:
    """What happened while the connection was lost is not known until the host is read again."""
    before = snapshot_of(HELLO, inventory(time=5000.0), traffic(5001.0, 4, 10))
    assert outdated_text(before) == "" == reading_notice(before)
    known = before.hello
    assert known is not None
    again = advance(before, Line(hello=replace(known, monotonic=5040.0)))
    assert outdated_text(again) == "read before the connection was lost"
    assert reading_notice(again).startswith(
        "to be read again: values were read before the connection was lost"
    )
    assert since_text(again) == " since the connection was lost", "the same reason in each view"
    first = advance(again, Line(counters=traffic(5040.2, 4, 10)))
    assert reading_notice(first).startswith("being read again: values were read before"), "not 0 s"
    later = advance(again, Line(counters=traffic(5043.0, 4, 10)))
    assert reading_notice(later) == (
        "being read again for 3 s: values were read before the connection was lost"
    )
    assert outdated_text(advance(later, Line(inventory=inventory(time=5041.0)))) == ""
    assert outdated_text(advance(before, Line(hello=known))) == "", "a recording repeats it"
    other = advance(before, Line(hello=replace(known, monotonic=5040.0, boot_id="another")))
    assert other.inventory is None


def test_an_inventory_consists_of_the_equal_objects_of_the_one_before() -> None:
    """Two are in memory while the older one is drawn, and what was derived of a link stays
    valid."""
    first, again = inventory(1.0), inventory(9.0, copy.deepcopy(LINKS))
    assert again.links == first.links and again.links is not first.links
    snapshot = advance(Snapshot.empty("vm1"), Line(inventory=first))
    snapshot = advance(snapshot, Line(inventory=again))
    assert snapshot.inventory == again
    assert snapshot.inventory is not None and snapshot.inventory.links is first.links
    changed = replace(first.links[0], mtu=9000)
    later = replace(inventory(12.0), links=(changed, *first.links[1:]))
    snapshot = advance(snapshot, Line(inventory=later))
    assert snapshot.inventory == later and snapshot.links[changed.ifindex].mtu == 9000
    for link in first.links[1:]:
        assert snapshot.links[link.ifindex] is link


def test_a_link_that_has_gone_is_not_in_a_later_inventory() -> None:
    first = inventory(1.0)
    snapshot = advance(Snapshot.empty("vm1"), Line(inventory=first))
    later = replace(inventory(9.0), links=first.links[1:])
    assert advance(snapshot, Line(inventory=later)).inventory == later
