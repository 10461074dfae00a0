"""One time axis: every host's clock is mapped onto it by pings, with the correct uncertainty."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.snapshot import Snapshot, advance
from nictop.model.time_axis import (
    LocalClock,
    axis_time,
    clock_of,
    clock_text,
    wall_clock_lead,
)
from nictop.probe.records import Clock, Hello, Line, Pong
from nictop.probe.records.counters import MAX_CLOCK_DRIFT
from nictop.wire.ssh.ping_clock import FILTER_PINGS, PingClock
from tests.model.hosts import HELLO, inventory, snapshot_of

HERE = LocalClock(monotonic=5000.0, wall=1_790_000_000.0, boot_id="here")


def greeted(hello: Hello = HELLO, clock: Clock | None = None) -> Snapshot:
    snapshot = snapshot_of(hello)
    return advance(snapshot, Line(clock=clock)) if clock is not None else snapshot


def test_the_newest_estimate_is_stored_until_a_reboot() -> None:
    first, second = Clock(1.0, 100.0, 0.5), Clock(2.0, 100.1, 0.1)
    snapshot = advance(greeted(clock=first), Line(clock=second))
    assert clock_of(snapshot, HERE) is second
    again = advance(snapshot, Line(hello=HELLO))
    assert clock_of(again, HERE) is second, "the probe was started anew, the clock continues"
    rebooted = advance(snapshot, Line(hello=replace(HELLO, boot_id="another")))
    assert clock_of(rebooted, HERE) is None


def test_this_machine_has_an_exact_clock() -> None:
    clock = clock_of(greeted(replace(HELLO, boot_id="here")), HERE)
    assert clock is not None
    assert axis_time(clock, 1234.5).time == 1234.5
    assert axis_time(clock, 1234.5).uncertainty == 0
    assert clock_of(greeted(), HERE) is None
    assert clock_of(greeted(replace(HELLO, boot_id="")), replace(HERE, boot_id="")) is None, (
        "not known is not equal"
    )


def test_uncertainty_grows_with_age() -> None:
    clock = Clock(time=5000.0, offset=100.0, uncertainty=0.001)
    now, earlier = axis_time(clock, 5100.0), axis_time(clock, 5040.0)
    assert (now.time, now.uncertainty) == (5000.0, 0.001)
    assert earlier.time == 4940.0
    assert earlier.uncertainty == pytest.approx(0.001 + 60 * MAX_CLOCK_DRIFT)


@given(
    st.floats(-1e6, 1e6),
    st.lists(st.tuples(st.floats(0, 0.3), st.floats(0, 0.3)), min_size=1, max_size=40),
    st.floats(-50e-6, 50e-6),
)
def test_the_true_time_is_within_the_uncertainty(
    offset: float, trips: list[tuple[float, float]], drift: float
) -> None:
    """For any durations of both directions of the pings, while two ordinary clocks drift apart; the
    ping that counts may be any of the last `FILTER_PINGS`."""
    pings, now, estimate = PingClock(), 1000.0, None

    def host_time(time: float) -> float:
        return time + offset + drift * (time - 1000.0)

    for there, back in trips:
        sequence = pings.ping(now)
        estimate = pings.pong(Pong(sequence, host_time(now + there)), now + there + back)
        now += 2.0
    assert estimate is not None
    for time in (now - 2.0, now):
        found = axis_time(estimate, host_time(time))
        assert (
            abs(found.time - time)
            <= found.uncertainty + abs(drift) * 2.0 * (FILTER_PINGS + 1) + 1e-6
        )


def test_the_time_of_day_is_compared_where_both_clocks_are_known() -> None:
    """The hello was sent 4 s ago, when the host's time of day was 3.2 s ahead."""
    hello = replace(HELLO, monotonic=96.0, wall=HERE.wall - 4 + 3.2)
    clock = Clock(time=5000.0, offset=100.0 - 5000.0, uncertainty=0.0004)
    lead = wall_clock_lead(greeted(hello, clock), HERE)
    assert lead is not None
    assert lead.time == pytest.approx(3.2)
    assert clock_text(greeted(hello, clock), HERE) == "clock offset +3.20 s ± 800 µs"
    behind = replace(hello, wall=HERE.wall - 4 - 75)
    assert clock_text(greeted(behind, clock), HERE) == "clock offset -1 min 15 s ± 800 µs"
    equal = replace(hello, wall=HERE.wall - 4 + 0.003)
    assert clock_text(greeted(equal, clock), HERE) == "clock offset 0 s ± 10.0 ms"
    equal = replace(hello, wall=HERE.wall - 4)
    assert clock_text(greeted(equal, clock), HERE) == "clock offset 0 s ± 800 µs"


def test_an_inventory_is_newer_than_the_hello() -> None:
    """The time of day was corrected since the probe was started."""
    clock = Clock(time=5000.0, offset=100.0 - 5000.0, uncertainty=0.0004)
    newest = replace(inventory(time=98.0), wall=HERE.wall - 2)
    snapshot = advance(
        greeted(replace(HELLO, monotonic=90.0, wall=1.0), clock), Line(inventory=newest)
    )
    assert clock_text(snapshot, HERE).startswith("clock offset 0 s ±")


def test_clock_text_without_measurement() -> None:
    assert clock_text(Snapshot.empty("a"), HERE) == "clock offset not measured yet"
    assert clock_text(greeted(), HERE) == "clock offset not measured yet"
    local = replace(HELLO, boot_id="here", monotonic=4999.0, wall=HERE.wall - 1)
    assert clock_text(greeted(local), HERE) == "clock offset 0 s (same clock)"


def test_this_machine_has_the_same_time_of_day_after_it_was_set() -> None:
    """Its inventory is of before that, and the screen said that it was an hour behind."""
    local = replace(HELLO, boot_id="here", monotonic=4999.0, wall=HERE.wall - 1)
    for seconds in (3600.0, -3600.0):
        later = replace(HERE, wall=HERE.wall + seconds)
        for clock in (None, Clock(5000.0, 0.0, 0.0)):
            assert clock_text(greeted(local, clock), later) == "clock offset 0 s (same clock)"
