"""Totals of a run that the user stopped or that failed, from its intervals: there are no totals of
the generators, or they include the time in which these waited for data that did not come.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nictop.model.rates.links import sum_known
from nictop.probe.light_dataclasses import replace
from nictop.traffic.failures import Failure
from nictop.traffic.generators.intervals import Interval, Total
from nictop.traffic.record.log import is_before
from nictop.traffic.results.result import Flow, IntervalPoint, is_same_time


def totals_of_intervals(flow: Flow, stopped: float) -> Flow:
    """The direction with totals of the intervals that each end reported; None where it reported no
    measured one. What generators report after a signal is ignored: it depends on the version and
    covers different seconds at each end."""
    received = _total(
        [interval for interval in _measured(flow.points, stopped) if not interval.sends],
        sends=False,
    )
    sent = _total(_measured(flow.sent_points, stopped), sends=True)
    return replace(
        flow,
        sent=sent,
        received=received,
        retransmits=sent.retransmits if sent is not None else None,
    )


def totals_of_planned_seconds(flow: Flow, planned: float) -> Flow:
    """The direction of a run that failed, without rates over a longer time than was to be
    measured: a generator whose peer is gone waits and counts on. None where it reported no
    interval. Retransmits are those of its whole time."""
    received, sent = flow.received, flow.sent
    if _is_longer(received, planned):
        of_receiver = [one for one in _measured(flow.points, planned) if not one.sends]
        received = _total(of_receiver, sends=False)
    if _is_longer(sent, planned):
        sent = _total(_measured(flow.reports_of_sender, planned), sends=True)
    return replace(flow, received=received, sent=sent)


def _is_longer(total: Total | None, planned: float) -> bool:
    if total is None or is_same_time(total.seconds, planned):
        return False
    return total.seconds > planned


def _measured(points: Iterable[IntervalPoint], stopped: float) -> list[Interval]:
    found = []
    for point in points:
        is_measured = point.time > 0 and not point.interval.omitted
        if is_measured and is_before(point.time, point.interval, stopped):
            found.append(point.interval)
    return found


def _total(intervals: Sequence[Interval], *, sends: bool) -> Total | None:
    seconds = sum(interval.seconds for interval in intervals)
    if seconds <= 0:
        return None
    size = sum(interval.bytes for interval in intervals)
    jitters = [interval.jitter for interval in intervals if interval.jitter is not None]
    return Total(
        sends,
        sends,
        seconds,
        8 * size / seconds,
        size,
        sum_known(interval.retransmits for interval in intervals),
        sum_known(interval.packets for interval in intervals),
        sum_known(interval.lost for interval in intervals),
        jitters[-1] if jitters else None,
    )


def no_measured_interval(
    stopped: float | None, flows: Iterable[Flow], *, measured: bool = False
) -> Failure | None:
    """The failure of a run that was stopped before the first measured interval; None for all
    others. `measured`: there are transactions."""
    if stopped is None or measured or any(flow.received is not None for flow in flows):
        return None
    return Failure("interrupted", "stopped before the first measured data")
