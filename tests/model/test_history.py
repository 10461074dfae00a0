"""History: absent values are gaps, memory is bounded, and recording is cheap."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.history import MAX_ABSENT_RECORDS, History
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import Counters, Line
from tests.model.hosts import HELLO, counters, link_counters, snapshot_of


def reading(second: int, *ifindexes: int, packets: int | None = None) -> Counters:
    count = second * 10 if packets is None else packets
    numbers = link_counters(
        rx_bytes=count * 100, rx_packets=count, tx_bytes=count * 200, tx_packets=count
    )
    return counters(
        float(second),
        dict.fromkeys(ifindexes, numbers),
        cpus={0: (10 * second, 0, 0, 90 * second, 0)},
    )


def record_all(history: History, *readings: Counters) -> None:
    """Record as the program does: one snapshot per line."""
    known: list[object] = [HELLO]
    for one in readings:
        known.append(one)
        history.record(snapshot_of(*known))


def test_series_newest_last() -> None:
    history = History(3)
    record_all(history, *(reading(second, 4, packets=second * second) for second in range(1, 7)))
    assert history.series(("rx_packets", 4)) == (7.0, 9.0, 11.0)
    assert history.series(("tx_bits", 4)) == (7 * 1600.0, 9 * 1600.0, 11 * 1600.0)
    assert history.series(("cpu_busy", 0)) == pytest.approx((0.1, 0.1, 0.1))
    assert history.times() == (4.0, 5.0, 6.0)
    assert history.series(("rx_bits", 99)) == ()
    assert history.series(("no such series", 4)) == ()


def test_a_reset_is_a_gap() -> None:
    history = History(10)
    record_all(
        history, reading(1, 4), reading(2, 4), reading(3, 4, packets=0), reading(4, 4, packets=5)
    )
    assert history.series(("rx_packets", 4)) == (10.0, None, 5.0)


def test_the_same_counters_count_once() -> None:
    history = History(10)
    snapshot = snapshot_of(HELLO, reading(1, 4), reading(2, 4))
    for state in ("live", "lost", "live"):
        history.record(replace(snapshot, state=state))
    assert history.series(("rx_packets", 4)) == (10.0,)
    assert history.times() == (2.0,)


def test_absent_links_have_gaps_and_are_then_removed() -> None:
    history = History(1000)
    readings = [
        reading(1, 4, 5),
        reading(2, 4, 5),
        *(reading(second, 4) for second in range(3, MAX_ABSENT_RECORDS + 4)),
    ]
    snapshot = snapshot_of(HELLO)
    previous = None
    for one in readings[:-1]:
        previous, snapshot = one, snapshot_of(HELLO, *([previous] if previous else []), one)
        history.record(snapshot)
    assert history.series(("rx_packets", 5)) == (10.0, *(None,) * MAX_ABSENT_RECORDS)
    assert previous is not None
    history.record(snapshot_of(HELLO, previous, readings[-1]))
    assert history.series(("rx_packets", 5)) == ()
    assert len(history.series(("rx_packets", 4))) == MAX_ABSENT_RECORDS + 2


def test_another_boot_begins_an_empty_history() -> None:
    history = History(10)
    record_all(history, reading(1, 4), reading(2, 4))
    history.record(snapshot_of(replace(HELLO, boot_id="another"), reading(1, 4), reading(2, 4)))
    assert history.series(("rx_packets", 4)) == (10.0,)


def test_no_values_without_counters() -> None:
    history = History(10)
    history.record(Snapshot.empty("host"))
    assert history.times() == ()


def test_capacity_is_checked() -> None:
    with pytest.raises(ValueError, match="at least one"):
        History(0)


def test_two_hundred_links() -> None:
    """Their cost: `tests.benchmarks history`."""
    history = History(600)
    links = range(1, 201)
    for second in range(1, 4):
        history.record(snapshot_of(HELLO, reading(second, *links), reading(second + 1, *links)))
    assert history.series(("rx_packets", 200)) == (10.0, 10.0, 10.0)


# -------------------------------------------------------------------------------------- absent host


def record_items(history: History, *items: Counters | str) -> None:
    """Record as the program does: counters, and states of the connection between them."""
    snapshot = snapshot_of(HELLO)
    for item in items:
        if isinstance(item, Counters):
            snapshot = advance(snapshot, Line(counters=item))
        elif item == "live":
            snapshot = advance(with_state(snapshot, "live", ""), Line(hello=HELLO))
        else:
            snapshot = with_state(snapshot, item, "gone")  # type: ignore[arg-type]
        history.record(snapshot)


def test_a_reconnect_leaves_a_gap_of_the_length_of_the_absence() -> None:
    """During the absence the host sent ten times as much: neither the gap nor what follows may
    contain a mean of it."""
    history = History(100)
    before = [reading(second, 4) for second in range(1, 5)]
    after = [reading(second, 4, packets=1000 + second * 10) for second in (10, 11, 12)]
    record_items(history, *before, "lost", "connecting", "live", *after)
    assert history.times() == tuple(map(float, range(1, 13)))
    assert history.series(("rx_packets", 4)) == (10.0, 10.0, 10.0, *(None,) * 6, 10.0, 10.0)
    assert history.series(("cpu_busy", 0)) == pytest.approx((0.1, 0.1, 0.1, *(None,) * 6, 0.1, 0.1))


def test_the_gap_keeps_the_step_of_the_readings() -> None:
    history = History(100)
    fast = [replace(reading(second, 4), time=10 + second / 5) for second in range(5)]
    record_items(
        history,
        *fast,
        "lost",
        "live",
        replace(reading(20, 4), time=12.0),
        replace(reading(21, 4), time=12.2),
    )
    assert history.times() == pytest.approx([10 + step / 5 for step in range(12)])
    assert history.series(("rx_packets", 4))[4:] == (*(None,) * 6, pytest.approx(50.0))


def test_a_long_absence_is_limited_by_the_capacity() -> None:
    history = History(10)
    record_items(
        history,
        reading(1, 4),
        reading(2, 4),
        "lost",
        "live",
        reading(10_000_000, 4),
        reading(10_000_001, 4),
    )
    assert len(history.times()) == 10
    assert history.times()[-1] == 10_000_001
    assert history.series(("rx_packets", 4)) == (*(None,) * 9, 10.0)


def test_a_short_absence_is_one_gap() -> None:
    """A probe that was started anew: what it counts first is compared with what another life
    counted."""
    history = History(10)
    record_items(
        history,
        reading(1, 4),
        reading(2, 4),
        "lost",
        "connecting",
        "live",
        reading(3, 4),
        reading(4, 4),
    )
    assert history.series(("rx_packets", 4)) == (10.0, None, 10.0)


def test_an_absence_before_the_first_reading_is_none() -> None:
    history = History(10)
    record_items(history, "connecting", "lost", "live", reading(1, 4), reading(2, 4))
    assert history.times() == (1.0, 2.0)
    assert history.series(("rx_packets", 4)) == (10.0,)


def test_a_reboot_during_the_absence_begins_an_empty_history() -> None:
    history = History(10)
    record_items(history, reading(50, 4), reading(51, 4), "lost")
    rebooted = replace(HELLO, boot_id="another")
    history.record(snapshot_of(rebooted, reading(1, 4)))
    history.record(snapshot_of(rebooted, reading(1, 4), reading(2, 4)))
    assert history.times() == (1.0, 2.0)
    assert history.series(("rx_packets", 4)) == (10.0,)


@given(
    st.lists(
        st.floats(0, 100, allow_nan=False).map(lambda step: ("after", step))
        | st.sampled_from([("lost", 0), ("live", 0)]),
        max_size=30,
    ),
    st.integers(1, 20),
)
def test_times_and_series_have_equal_length_after_any_absence(
    steps: list[tuple[str, float]], capacity: int
) -> None:
    history, time = History(capacity), 1.0
    items: list[Counters | str] = []
    for what, step in steps:
        if what == "after":
            time += step
            items.append(replace(reading(1, 4, packets=int(time * 10)), time=time))
        else:
            items.append(what)
    record_items(history, *items)
    times, series = history.times(), history.series(("rx_packets", 4))
    assert list(times) == sorted(times)
    assert len(series) <= len(times) <= capacity
    assert all(value is None or value >= 0 for value in series)


@pytest.mark.parametrize(("cpus", "expected"), [(4, 32), (100, 16), (300, 4)])
def test_the_history_of_many_series_is_shorter(
    monkeypatch: pytest.MonkeyPatch, cpus: int, expected: int
) -> None:
    """100 CPUs have 300 series: too many for 32 values each, but not for 16."""
    monkeypatch.setattr("nictop.model.history.MAX_HISTORY_VALUES", 6000)
    history = History(32)
    record_all(
        history,
        *(
            counters(float(second), {}, cpus=dict.fromkeys(range(cpus), (second, 0, 0, 0, 0)))
            for second in range(99)
        ),
    )
    for cpu in (0, cpus - 1):
        assert history.series(("cpu_busy", cpu)) == (1.0,) * expected
    assert sum(len(ring) for track in history._cpus.values() for ring in track.series) <= 6000


def test_seconds_without_readings_are_a_gap_although_the_host_was_live() -> None:
    """A guest that was paused, or a probe that got no CPU time: the mean over that time is the rate
    at none of it."""
    history = History(100)
    before = [reading(second, 4) for second in range(1, 5)]
    after = [reading(second, 4, packets=1000 + second * 10) for second in (16, 17, 18)]
    record_items(history, *before, *after)
    assert history.series(("rx_packets", 4)) == (10.0, 10.0, 10.0, *(None,) * 12, 10.0, 10.0)
    assert history.seconds_without_readings(60.0) == 12.0
    assert history.seconds_without_readings(8.0) == 6.0, "what is in sight of it"
    assert history.seconds_without_readings(2.0) == 0.0


@pytest.mark.parametrize("asked", [0.0, 10.0])
def test_another_interval_is_no_gap_for_long(asked: float) -> None:
    """From 1 s to 10 s: at once where it was asked for, else from the second reading on."""
    history, known = History(100), [HELLO]
    for second in (1, 2, 3, 4, 14, 24, 34):
        known.append(reading(second, 4))  # type: ignore[arg-type]
        history.record(snapshot_of(*known), asked if second > 4 else 1.0)
    assert history.seconds_without_readings(60.0) == (0.0 if asked else 10.0)
    assert history.times()[-3:] == (14.0, 24.0, 34.0)
    assert history.series(("rx_packets", 4))[-2:] == (10.0, 10.0)
