"""Runs between the two real probes of a pair, carried out to their end or left early."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import Event, Finished, IntervalMeasured, RunTimeouts
from nictop.traffic.run.failures import Failure
from nictop.traffic.run.run import Run
from tests.traffic.pair import Pair

LATE = 0.2
"""Seconds of traffic that may have been read in an interval after the one in which they came."""


async def carried_out(
    both: Pair, *, limits: RunTimeouts | None = None, plan: RunPlan | None = None, **more: Any
) -> tuple[Result, list[Event]]:
    """A whole run: its result, and all that it told."""
    run = Run(plan or both.plan(**more), both.hosts, limits=limits)
    events = [event async for event in run.events()]
    assert isinstance(events[-1], Finished)
    return events[-1].result, events


async def failed(both: Pair, *, limits: RunTimeouts | None = None, **more: Any) -> Failure:
    """Why a run failed that had to; nothing of it is left."""
    result, _ = await carried_out(both, limits=limits, **more)
    assert result.failure is not None, result.goodput
    assert both.generators() == []
    return result.failure


async def after_first_byte(run: Run) -> list[Event]:
    """Events until something has arrived; then the iterator is closed."""
    seen: list[Event] = []
    async with aclosing(run.events()) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, IntervalMeasured) and not event.interval.sends:
                break
    return seen


def check_goodput(result: Result, at_most: float) -> None:
    """Something arrived by the chosen NICs, as the kernel's counters of both say, and no more than `at_most` bits per
    second, which is what the shaper lets through. How near a run comes to that depends on what else the machine does: a
    benchmark compares it with iperf3 alone."""
    assert result.proof is not None and [one.verdict for one in result.proof.hosts] == ["proven", "proven"]
    assert result.goodput is not None and 0 < result.goodput <= at_most * (1.02 + LATE / (result.stopped or 2.0))
