"""Latency under load: the requests of a loaded run by phase, and where their additional latency arises.

Reads nothing. Only intervals that lie wholly within a phase are counted: idle is before the bulk flow is started,
loaded are its measured seconds, without those in which its rate rises (`LOAD_RAMP_SECONDS`) and without its end.

The round-trip time of the bulk flow's own connections is measured by the kernel (TCP_INFO): it contains the queues of
the path and the queueing discipline of the sender, but not the time that processes wait for a CPU. So it tells the two
apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.traffic.analysis.cpu_limits import BUSY_CPU_SHARE
from nictop.traffic.analysis.transactions import transaction_point
from nictop.traffic.generators.intervals import TransactionInterval
from nictop.traffic.generators.latency import merged
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.result import Result
from nictop.traffic.results.transactions import Floor, IdlePhase, TransactionFigures

PHASE_MARGIN_SECONDS = 0.05
"""At both ends of a phase: lines of generators may come that late, so that its bounds are known to that."""
SMALL_FACTOR = 1.5
"""Loaded latency / idle latency up to which no queue is said to build up."""
QUEUE_SHARE = 0.5
"""Of the additional latency: if the round-trip time of the bulk flow has grown by that much, packets wait."""

TimedInterval = tuple[float, TransactionInterval]
"""End on the axis of the run, and the interval."""


def loaded_figures(
    plan: RunPlan,
    intervals: Sequence[TimedInterval],
    begun: float | None,
    window: tuple[float, float] | None,
    floors: Iterable[Floor],
) -> TransactionFigures | None:
    """`begun`: start of the bulk flow on the axis, with the seconds in which its rate rises; `window`: its measured
    seconds. None of both: it did not run. None: no request was answered."""
    if not any(one.latency.count for _, one in intervals):
        return None
    idle = _within(intervals, (-math.inf, math.inf if begun is None else begun))
    loaded = _within(intervals, window) if window is not None else []
    idle_seconds = sum(one.seconds for one in idle)
    return TransactionFigures(
        sum(one.seconds for one in loaded),
        merged(one.latency for one in loaded),
        lost=sum(one.lost or 0 for one in loaded),
        points=tuple(transaction_point(time, one) for time, one in intervals),
        floors=tuple(floors),
        idle=IdlePhase(idle_seconds, merged(one.latency for one in idle), sum(one.lost or 0 for one in idle))
        if idle_seconds
        else None,
        loaded_since=window[0] if window is not None and loaded else None,
    )


def _within(intervals: Iterable[TimedInterval], phase: tuple[float, float]) -> list[TransactionInterval]:
    begin, end = phase[0] + PHASE_MARGIN_SECONDS, phase[1] - PHASE_MARGIN_SECONDS
    return [one for time, one in intervals if not one.omitted and time - one.seconds >= begin and time <= end]


def added_latency(result: Result) -> tuple[float, float] | None:
    """Median latency of the idle and of the loaded phase, in seconds; None: one is not known."""
    figures = result.transactions
    if figures is None or figures.idle is None:
        return None
    idle, loaded = figures.idle.latency.summary().p50, figures.latency.summary().p50
    return None if not idle or loaded is None else (idle, loaded)


def delay_text(result: Result) -> str:
    """Where the additional latency arises, with figures; "" if it is not known, or of a failed run."""
    figures, medians = result.transactions, added_latency(result)
    if figures is None or medians is None or not result.goodput or result.failure is not None:
        return ""
    idle, loaded = medians
    if loaded <= SMALL_FACTOR * idle:
        return "no queue builds up"
    added = loaded - idle
    full = _full_cpu(result)
    known = [one for one in result.sockets if one.rtt is not None]
    slowest = max(known, key=lambda one: one.rtt or 0, default=None)
    if slowest is None or slowest.rtt is None:
        return f"cause not determined{f' ({full})' if full else ''}"
    rtt = slowest.rtt / 1e6
    least, most = _grown(rtt, idle, figures.floor)
    if least >= QUEUE_SHARE * added:
        rate = max((flow.goodput or 0.0 for flow in result.flows if flow.sender == slowest.host), default=0.0)
        size = f", about {units.bytes_(rate / 8 * min(added, least))}" if rate else ""
        more = f", or for a CPU ({full})" if full else ""
        return f"packets wait in a queue (bufferbloat{size}){more}"
    short = f"round-trip time of the bulk flow {units.duration(rtt)}"
    if most >= QUEUE_SHARE * added:
        return f"cause not determined: packets wait in a queue, or processes for a CPU ({full or short})"
    return f"processes wait for a CPU, not packets in a queue ({full or short})"


def _grown(rtt: float, idle: float, floor: float | None) -> tuple[float, float]:
    """By how much the round-trip time has grown, at least and at most. The idle one is the idle latency without that of
    the generator: anything up to it if that was not measured, or was longer over loopback, as on a busy CPU."""
    if floor is None or floor >= idle:
        return rtt - idle, rtt
    return rtt - (idle - floor), rtt - (idle - floor)


def _full_cpu(result: Result) -> str:
    """The first full CPU of an end: softirq and processes wait there, and acknowledgements with them; "": none."""
    full = (
        f"CPU {one.cpu} on {clean(load.host)} {units.percentage(one.busy)} busy"
        for load in result.hosts
        if load.role != "observer"
        for one in load.busy_cpus
        if one.busy >= BUSY_CPU_SHARE
    )
    return next(full, "")
