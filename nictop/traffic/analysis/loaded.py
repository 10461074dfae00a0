"""Latency under load: the requests of a loaded run by phase, and where their additional latency
arises.

Reads nothing. Only intervals that lie wholly within a phase are counted: idle is before the bulk
flow is started, which the last interval of that phase does when it is received; loaded are its
measured seconds, without those in which its rate rises (`LOAD_RAMP_SECONDS`) and without its end.

The round-trip time of the bulk flow's own connections is measured by the kernel (TCP_INFO): it
contains the queues of the path and the queueing discipline of the sender, but not the time that
processes wait for a CPU. So it tells the two apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from nictop.model.text import units
from nictop.model.text.terminal import clean
from nictop.traffic.analysis.cpu_limits import BUSY_CPU_SHARE
from nictop.traffic.analysis.judgement import loads_of_machines
from nictop.traffic.analysis.qdisc_limits import QDISC_LIMIT
from nictop.traffic.analysis.transactions import transaction_point
from nictop.traffic.generators.intervals import TransactionInterval
from nictop.traffic.generators.latency import merged
from nictop.traffic.plan.plan import LOAD_RAMP_SECONDS
from nictop.traffic.results.host_load import Busy, HostLoad
from nictop.traffic.results.result import Result, SocketFigures
from nictop.traffic.results.transactions import Floor, IdlePhase, TransactionFigures

PHASE_MARGIN_SECONDS = 0.05
"""At both ends of a phase: lines of generators may come that late, so that its bounds are known to
that."""
SMALL_FACTOR = 1.5
"""Loaded latency / idle latency up to which no queue is said to build up."""
QUEUE_SHARE = 0.5
"""Of the additional latency: if the round-trip time of the bulk flow has grown by that much,
packets wait."""

TimedInterval = tuple[float, TransactionInterval]
"""End on the axis of the run, and the interval."""


def loaded_figures(
    intervals: Sequence[TimedInterval],
    begun: float | None,
    window: tuple[float, float] | None,
    floors: Iterable[Floor],
    idle_time: float = 0.0,
) -> TransactionFigures | None:
    """`begun`: start of the bulk flow on the axis, with the seconds in which its rate rises;
    `window`: its measured seconds. None of both: it did not run. `idle_time`: seconds of requests
    after which it is started. None: no request was answered."""
    if not any(interval.latency.count for _, interval in intervals):
        return None
    idle = _idle(intervals, begun, idle_time)
    loaded: list[TransactionInterval] = []
    loaded_since = None
    if window is not None:
        loaded = _within(intervals, window)
        loaded_since = window[0] if loaded else None
    return TransactionFigures(
        _seconds(loaded),
        merged(interval.latency for interval in loaded),
        lost=_lost(loaded),
        points=tuple(transaction_point(time, interval) for time, interval in intervals),
        floors=tuple(floors),
        idle=_idle_phase(idle),
        loaded_since=loaded_since,
    )


def _idle(
    intervals: Sequence[TimedInterval], begun: float | None, idle_time: float
) -> list[TransactionInterval]:
    """Those before the bulk flow, which was started when the first one had been received that ends
    after `idle_time`: of these it is known without their times."""
    known = [one for one in intervals if _began(one[1]) < idle_time - PHASE_MARGIN_SECONDS]
    if begun is None:
        return _within(intervals, (-math.inf, math.inf))
    first = [interval for _, interval in known if not interval.omitted]
    return first + _within(intervals[len(known) :], (-math.inf, begun))


def _began(interval: TransactionInterval) -> float:
    return interval.end - interval.seconds


def _idle_phase(intervals: Sequence[TransactionInterval]) -> IdlePhase | None:
    seconds = _seconds(intervals)
    if not seconds:
        return None
    return IdlePhase(seconds, merged(interval.latency for interval in intervals), _lost(intervals))


def _seconds(intervals: Iterable[TransactionInterval]) -> float:
    return sum(interval.seconds for interval in intervals)


def _lost(intervals: Iterable[TransactionInterval]) -> int:
    return sum(interval.lost or 0 for interval in intervals)


def _within(
    intervals: Iterable[TimedInterval], phase: tuple[float, float]
) -> list[TransactionInterval]:
    begin, end = phase[0] + PHASE_MARGIN_SECONDS, phase[1] - PHASE_MARGIN_SECONDS
    found = []
    for time, interval in intervals:
        is_inside = time - interval.seconds >= begin and time <= end
        if is_inside and not interval.omitted:
            found.append(interval)
    return found


def added_latency(result: Result) -> tuple[float, float] | None:
    """Median latency of the idle and of the loaded phase, in seconds; None: one is not known."""
    figures = result.transactions
    if figures is None or figures.idle is None:
        return None
    idle, loaded = figures.idle.latency.summary().p50, figures.latency.summary().p50
    if not idle or loaded is None:
        return None
    return idle, loaded


def delay_text(result: Result) -> str:
    """Where the additional latency arises, with figures; "" if it is not known, or of a failed
    run."""
    figures, medians = result.transactions, added_latency(result)
    if figures is None or medians is None:
        return ""
    if not result.goodput or result.failure is not None:
        return ""
    idle, loaded = medians
    if loaded <= SMALL_FACTOR * idle:
        return "no queue builds up"
    full = _full_cpu(result)
    slowest = _slowest(result.sockets)
    if slowest is None or slowest.rtt is None:
        return f"cause not determined ({full})" if full else "cause not determined"
    rtt, added = slowest.rtt / 1e6, loaded - idle
    least, most = _grown(rtt, idle, figures.floor)
    if least >= QUEUE_SHARE * added:
        size = _queue_text(result, slowest.host, min(added, least))
        text = f"packets wait in a queue (bufferbloat{size})"
        return f"{text}, or for a CPU ({full})" if full and not _is_held_by_qdisc(result) else text
    shown = full or f"round-trip time of the bulk flow {units.duration(rtt)}"
    if most >= QUEUE_SHARE * added:
        either = "packets wait in a queue, or processes for a CPU"
        return f"cause not determined: {either} ({shown})"
    return f"processes wait for a CPU, not packets in a queue ({shown})"


def _slowest(sockets: Iterable[SocketFigures]) -> SocketFigures | None:
    """The sender with the longest round-trip time; None: none is known."""
    known = [figures for figures in sockets if figures.rtt is not None]
    return max(known, key=lambda figures: figures.rtt or 0, default=None)


def _queue_text(result: Result, sender: str, delay: float) -> str:
    """``, about 542 KiB``: what a flow sends in these seconds; "": its goodput is 0."""
    rates = [flow.goodput_or_zero for flow in result.flows if flow.sender == sender]
    rate = max(rates, default=0.0)
    if not rate:
        return ""
    return f", about {units.bytes_(rate / 8 * delay)}"


def _grown(rtt: float, idle: float, floor: float | None) -> tuple[float, float]:
    """By how much the round-trip time has grown, at least and at most. The idle one is the idle
    latency without that of the generator: anything up to it if that was not measured, or was longer
    over loopback, as on a busy CPU."""
    if floor is None or floor >= idle:
        return rtt - idle, rtt
    grown = rtt - (idle - floor)
    return grown, grown


def _is_held_by_qdisc(result: Result) -> bool:
    """A queueing discipline is what limits the bulk flow: it has the queue."""
    return any(
        limit.verdict == "cause" and limit.limit.startswith(QDISC_LIMIT) for limit in result.limits
    )


def _full_cpu(result: Result) -> str:
    """The first full CPU of an end: softirq and processes wait there, and acknowledgements with
    them; "": none. Also one that was as full in the idle phase: under load more waits for it."""
    for load in loads_of_machines(result):
        if load.role == "observer":
            continue
        for cpu in load.busy_cpus:
            if cpu.busy >= BUSY_CPU_SHARE:
                also = ", also when idle" if _was_full_when_idle(result, load, cpu.cpu) else ""
                busy = units.percentage(cpu.busy)
                return f"CPU {cpu.cpu} on {clean(load.host)} {busy} busy{also}"
    return ""


def _was_full_when_idle(result: Result, load: HostLoad, cpu: int) -> bool:
    """In every reading of the idle phase; False also if there is none."""
    figures = result.transactions
    if figures is None or figures.loaded_since is None:
        return False
    end = figures.loaded_since - LOAD_RAMP_SECONDS
    idle = [busy for busy in load.series if 0 < busy.time <= end]
    return bool(idle) and all(_is_full(busy, cpu) for busy in idle)


def _is_full(busy: Busy, cpu: int) -> bool:
    """It was the hottest one, or all were full."""
    if busy.hottest == cpu:
        return busy.hottest_busy >= BUSY_CPU_SHARE
    return busy.share >= BUSY_CPU_SHARE
