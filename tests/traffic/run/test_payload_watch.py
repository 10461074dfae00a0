"""Until when payload is waited for. Times are seconds since the start of the client."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.traffic.generators.intervals import Interval
from nictop.traffic.run.events import RunTimeouts
from nictop.traffic.run.payload_watch import PayloadWatch
from tests.traffic.plans import PLAN

LIMITS = RunTimeouts(first_byte=8.0, stall=5.0)
DEADLINE = 1000.0


@pytest.mark.parametrize("interval", [0.5, 20.0, 60.0])
def test_the_first_interval_is_waited_for_however_long_it_is(interval: float) -> None:
    watch = PayloadWatch(replace(PLAN, time=300, interval=interval), LIMITS, 0.0)
    assert watch.limit(DEADLINE, 0.0) == max(LIMITS.first_byte, 2 * interval)
    watch.add(Interval(0.0, interval, 1e6, False), interval)
    assert watch.limit(DEADLINE, interval) == interval + max(LIMITS.stall, 4 * interval)


def test_an_end_that_runs_alone_and_the_deadline() -> None:
    watch = PayloadWatch(replace(PLAN, time=10), LIMITS, 0.0)
    watch.add(Interval(0.0, 0.5, 1e6, True), 0.5)
    assert watch.payload_bytes == 0 and watch.limit(DEADLINE, 1.0) == LIMITS.first_byte, (
        "sent is not received"
    )
    watch.add(Interval(0.0, 0.5, 1e6, False), 0.5)
    assert watch.limit(DEADLINE, 10.5) == DEADLINE, (
        "no payload is sent while the totals are exchanged"
    )
    watch.end_alone(11.0)
    watch.end_alone(12.0)
    assert watch.limit(DEADLINE, 12.0) == 16.0 and watch.limit(14.0, 12.0) == 14.0
