"""A run that somebody has stopped: what its intervals come to, as there are no end counters.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nictop.traffic.generators.intervals import Interval, Total, total_of
from nictop.traffic.results.result import Flow, IntervalPoint
from nictop.traffic.run.failures import Failure


def until_stopped(flow: Flow) -> Flow:
    """The direction with totals of the intervals that each end has told; None where it has told none that counts. What
    generators say at a signal is left out: each version says something else, of other seconds at each end."""
    received = _total([one for one in _counting(flow.points) if not one.sends], sends=False)
    sent = _total(_counting(flow.sent_points), sends=True)
    return replace(flow, sent=sent, received=received, retransmits=sent.retransmits if sent is not None else None)


def _counting(points: Iterable[IntervalPoint]) -> list[Interval]:
    return [one.interval for one in points if not one.interval.omitted and one.time > 0]


def _total(intervals: Sequence[Interval], *, sends: bool) -> Total | None:
    seconds = sum(one.seconds for one in intervals)
    if seconds <= 0:
        return None
    size = sum(one.bytes for one in intervals)
    jitters = [one.jitter for one in intervals if one.jitter is not None]
    return Total(
        sends,
        sends,
        seconds,
        8 * size / seconds,
        size,
        total_of(one.retransmits for one in intervals),
        total_of(one.packets for one in intervals),
        total_of(one.lost for one in intervals),
        jitters[-1] if jitters else None,
    )


def stopped_too_early(stopped: float | None, flows: Iterable[Flow]) -> Failure | None:
    """Of a run that was stopped before anything that counts had arrived there is nothing to show."""
    if stopped is None or any(flow.received is not None for flow in flows):
        return None
    return Failure("interrupted", "it was stopped before anything that counts had arrived")
