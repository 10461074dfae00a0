"""The past as it was: gaps are gaps, memory is bounded, and recording costs next to nothing."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from nictop.model.history import LINGER, History
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Counters
from tests.model.hosts import HELLO, counters, link_counters, snapshot_of


def reading(second: int, *ifindexes: int, packets: int | None = None) -> Counters:
    count = second * 10 if packets is None else packets
    numbers = link_counters(rx_bytes=count * 100, rx_packets=count, tx_bytes=count * 200, tx_packets=count)
    return counters(float(second), dict.fromkeys(ifindexes, numbers), cpus={0: (10 * second, 0, 0, 90 * second, 0)})


def played(history: History, *readings: Counters) -> None:
    """Record as the program does: a snapshot per line."""
    known: list[object] = [HELLO]
    for one in readings:
        known.append(one)
        history.record(snapshot_of(*known))


def test_series_newest_last() -> None:
    history = History(3)
    played(history, *(reading(second, 4, packets=second * second) for second in range(1, 7)))
    assert history.series(("rx_packets", 4)) == (7.0, 9.0, 11.0)
    assert history.series(("tx_bits", 4)) == (7 * 1600.0, 9 * 1600.0, 11 * 1600.0)
    assert history.series(("cpu_busy", 0)) == pytest.approx((0.1, 0.1, 0.1))
    assert history.times() == (4.0, 5.0, 6.0)
    assert history.series(("rx_bits", 99)) == ()
    assert history.series(("no such series", 4)) == ()


def test_a_reset_is_a_gap() -> None:
    history = History(10)
    played(history, reading(1, 4), reading(2, 4), reading(3, 4, packets=0), reading(4, 4, packets=5))
    assert history.series(("rx_packets", 4)) == (10.0, None, 5.0)


def test_the_same_counters_count_once() -> None:
    history = History(10)
    snapshot = snapshot_of(HELLO, reading(1, 4), reading(2, 4))
    for state in ("live", "lost", "live"):
        history.record(replace(snapshot, state=state))
    assert history.series(("rx_packets", 4)) == (10.0,)
    assert history.times() == (2.0,)


def test_vanished_links_leave_gaps_and_then_nothing() -> None:
    history = History(1000)
    readings = [reading(1, 4, 5), reading(2, 4, 5), *(reading(second, 4) for second in range(3, LINGER + 4))]
    snapshot = snapshot_of(HELLO)
    previous = None
    for one in readings[:-1]:
        previous, snapshot = one, snapshot_of(HELLO, *([previous] if previous else []), one)
        history.record(snapshot)
    assert history.series(("rx_packets", 5)) == (10.0, *(None,) * LINGER)
    assert previous is not None
    history.record(snapshot_of(HELLO, previous, readings[-1]))
    assert history.series(("rx_packets", 5)) == ()
    assert len(history.series(("rx_packets", 4))) == LINGER + 2


def test_another_boot_begins_an_empty_history() -> None:
    history = History(10)
    played(history, reading(1, 4), reading(2, 4))
    history.record(snapshot_of(replace(HELLO, boot_id="another"), reading(1, 4), reading(2, 4)))
    assert history.series(("rx_packets", 4)) == (10.0,)


def test_a_host_without_counters_is_no_value() -> None:
    history = History(10)
    history.record(Snapshot.empty("host"))
    assert history.times() == ()


def test_capacity_is_checked() -> None:
    with pytest.raises(ValueError, match="at least one"):
        History(0)


def test_two_hundred_links_cost_less_than_a_millisecond() -> None:
    """Best of many: the machine may be busy with something else, the code may not be slow each time."""
    history = History(600)
    links = range(1, 201)
    snapshots = [snapshot_of(HELLO, reading(second, *links), reading(second + 1, *links)) for second in range(1, 40)]
    spent = []
    for snapshot in snapshots:
        start = time.thread_time()
        history.record(snapshot)
        spent.append(time.thread_time() - start)
    assert min(spent) < 0.001
    assert len(history.series(("rx_bits", 200))) == len(snapshots)
