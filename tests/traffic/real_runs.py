"""Runs between the two real probes of a pair, complete or closed early."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from nictop.traffic.failures import Failure
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import RunEvent, RunFinished, RunTimeouts
from tests.traffic.emitted import Run
from tests.traffic.pair import Pair

LATE_SECONDS = 0.2
"""Traffic may be counted that much later, in the next interval."""


async def complete_run(
    both: Pair, *, limits: RunTimeouts | None = None, plan: RunPlan | None = None, **more: Any
) -> tuple[Result, list[RunEvent]]:
    """A complete run: its result and all its events."""
    run = Run(plan or both.plan(**more), both.hosts, limits=limits)
    events = [event async for event in run.events()]
    assert isinstance(events[-1], RunFinished)
    return events[-1].result, events


async def failed(both: Pair, *, limits: RunTimeouts | None = None, **more: Any) -> Failure:
    """The failure of a run that must fail; no generator is left."""
    result, _ = await complete_run(both, limits=limits, **more)
    assert result.failure is not None, result.goodput
    assert both.generators() == []
    return result.failure


async def after_first_byte(run: Run) -> list[RunEvent]:
    """Events until payload was received; then the iterator is closed."""
    seen: list[RunEvent] = []
    async with aclosing(run.events()) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, IntervalMeasured) and not event.interval.sends:
                break
    return seen


def check_goodput(result: Result, at_most: float) -> None:
    """Payload arrived by the chosen NICs, according to the counters of both hosts, and no more than
    `at_most` bits per second, the rate of the shaper. How close a run comes to that depends on the
    load of the machine: a benchmark compares it with iperf3."""
    assert result.proof is not None and [one.verdict for one in result.proof.hosts] == [
        "proven",
        "proven",
    ]
    assert result.goodput is not None and 0 < result.goodput <= at_most * (
        1.02 + LATE_SECONDS / (result.stopped or 2.0)
    )
