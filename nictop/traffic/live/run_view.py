"""View of a run, the same while it runs and when it was stored: series on one axis, ceiling, every host.

Reads nothing. `LiveRun` takes the events of a run and the counters of its hosts and gives the current view;
`result_view` gives the view of a result; `sample_at` gives the values of a view at one time.
"""

from __future__ import annotations

import time as clock
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nictop.model.devices.ceiling import Ceiling
from nictop.model.rates.links import sum_known
from nictop.traffic.analysis.assemble import host_roles, run_ceiling
from nictop.traffic.analysis.cpu_load import MIN_CPU_WINDOW_SECONDS, Busy
from nictop.traffic.analysis.nic_load import CarryingQueue, Packets
from nictop.traffic.analysis.transactions import transaction_point
from nictop.traffic.generators.intervals import TransactionInterval
from nictop.traffic.generators.latency import EMPTY, LatencyHistogram, merged
from nictop.traffic.live.flow_view import (
    BY_TIME,
    FlowView,
    FlowWatch,
    ReceivedInterval,
    SampleBuffer,
    SenderState,
    TimedT,
    carry_payload,
    result_flow_view,
)
from nictop.traffic.live.host_view import HostLoadView, HostWatch, result_host_view
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.results.result import Result
from nictop.traffic.results.transactions import TransactionPoint
from nictop.traffic.run.events import IntervalMeasured, RunEvent, RunFinished, SocketSample, Stage

if TYPE_CHECKING:
    from nictop.traffic.run.host import RunHost

MAX_WINDOW_SECONDS = 2.0
"""Length of windows that do not have `seconds`: at most that much before their end."""
ROUNDING_SECONDS = 1e-9


@dataclass(frozen=True, eq=False)
class RunView:
    """View of one run."""

    plan: RunPlan
    stage: str
    """Sentence about the current stage; "" if the run has ended."""
    seconds: float
    """Current time on the axis of the run: 0 is the start of the measured seconds; -`plan.omit` until the first
    byte."""
    flows: tuple[FlowView, ...]
    """Of the client first."""
    hosts: tuple[HostLoadView, ...]
    """Client, server, observers."""
    ceiling: Ceiling | None = None
    result: Result | None = None
    """Once the run has ended."""
    transactions: tuple[TransactionPoint, ...] = ()
    """Of a test of requests and responses, in order of time; it has no `flows` unless it is loaded."""
    latency: LatencyHistogram = EMPTY
    """Of its transactions in the measured seconds so far; of a loaded run in the current phase."""

    @property
    def start(self) -> float:
        return -float(self.plan.omit)

    @property
    def end(self) -> float:
        """The planned end, or the end of the last interval if that is later."""
        ends = [series[-1].time for series in self.series]
        last = max(ends, default=0.0)
        if self.plan.files is not None and last > 0:  # it ends before
            return last
        return max(float(self.plan.span), last)

    @property
    def loaded_since(self) -> float | None:
        """Time on the axis at which the bulk flow of a loaded run began; None: it has not, or it is another test."""
        if self.plan.test != "loaded":
            return None
        begun = (flow.arrivals[0].time - flow.arrivals[0].seconds for flow in self.flows if flow.arrivals)
        return min(begun, default=None)

    @property
    def series(self) -> tuple[Sequence[ReceivedInterval | TransactionPoint], ...]:
        """What was measured over time, without what is empty: arrivals of each direction, or transactions."""
        return tuple(filter(None, (*(flow.arrivals for flow in self.flows), self.transactions)))


@dataclass(frozen=True)
class FlowSample:
    """One direction at one time. None: not reported."""

    flow: FlowView
    arrival: ReceivedInterval | None
    sending: SenderState | None


@dataclass(frozen=True)
class HostSample:
    """One host at one time. None: not counted."""

    host: HostLoadView
    busy: Busy | None
    packets: Packets | None
    carrying: CarryingQueue | None


@dataclass(frozen=True)
class RunSample:
    """All directions and hosts at one time."""

    time: float
    """Seconds on the axis of the run."""
    flows: tuple[FlowSample, ...]
    hosts: tuple[HostSample, ...]
    is_moment: bool = False
    """Counts are those of one interval; else of all measured seconds so far."""


def _flow_watches(plan: RunPlan) -> tuple[FlowWatch, ...]:
    return tuple(
        FlowWatch(plan.client.host, plan.server.host, side)
        if side == "client"
        else FlowWatch(plan.server.host, plan.client.host, side)
        for side in plan.sending
    )


class LiveRun:
    """A running run. `hosts`: the participants by name, as in the run."""

    def __init__(self, plan: RunPlan, hosts: Mapping[str, RunHost]) -> None:
        self.plan = plan
        self._hosts = hosts
        self._stage = ""
        self._axis: float | None = None
        """Start of the axis, seconds of this machine's CLOCK_MONOTONIC."""
        self._axis_estimated = True
        """The start of the axis is estimated by the first byte in a socket: no generator has reported an interval."""
        self._flow_watches = _flow_watches(plan)
        self._host_watches = [
            HostWatch(hosts[name], role, endpoint.ifindex if endpoint is not None else None)
            for name, role, endpoint in host_roles(plan, hosts)
            if name in hosts
        ]
        self._transactions = SampleBuffer[TransactionPoint]()
        self._latency = EMPTY
        self._ceiling: Ceiling | None = None
        self._is_loaded = False
        """The bulk flow of a loaded run has begun."""
        self._result: Result | None = None
        self._ended: float | None = None

    def set_plan(self, plan: RunPlan) -> None:
        """Of a recorded run with requests, when its bulk flow is started: its options were not known before."""
        self.plan, self._ceiling, self._flow_watches = plan, None, _flow_watches(plan)

    def process(self, event: RunEvent, now: float | None = None) -> None:
        """Add one event of the run. `now`: seconds of this machine's CLOCK_MONOTONIC when it was received."""
        now = clock.monotonic() if now is None else now
        if isinstance(event, Stage):
            self._stage = event.sentence
        elif isinstance(event, IntervalMeasured):
            self._add_interval(event, now)
        elif isinstance(event, SocketSample):
            self._add_sockets(event, now)
        elif isinstance(event, RunFinished):
            self._result, self._ended = event.result, now
            self.plan = event.result.plan

    @property
    def has_data(self) -> bool:
        """The first byte of payload was moved, as generators or sockets report it."""
        return self._axis is not None

    def view(self, now: float | None = None) -> RunView:
        """The current view."""
        now = clock.monotonic() if now is None else now
        if self._axis is not None:
            for load in self._host_watches:
                load.advance(self._axis, -float(self.plan.omit))
        if self._result is not None:
            return self._final_view(self._result)
        if self._ceiling is None and self.plan.has_bulk:
            self._ceiling = run_ceiling(self.plan, {name: host.snapshot for name, host in self._hosts.items()})
        return RunView(
            self.plan,
            self._stage,
            -float(self.plan.omit) if self._axis is None else now - self._axis,
            tuple(flow.view() for flow in self._flow_watches),
            tuple(load.view() for load in self._host_watches),
            self._ceiling,
            transactions=self._transactions.all,
            latency=self._latency,
        )

    def _final_view(self, result: Result) -> RunView:
        """The view with the final figures, and those that only the live view has."""
        final = result_view(result)
        flows = {flow.side: flow for flow in final.flows}
        hosts = {host.host: host for host in final.hosts}
        return RunView(
            result.plan,
            "",
            final.seconds,
            tuple(flow.view(flows.get(flow.side)) for flow in self._flow_watches),
            tuple(load.view(hosts.get(load.host.name)) for load in self._host_watches),
            final.ceiling,
            result,
            final.transactions or self._transactions.all,
            final.latency if result.transactions is not None else self._latency,
        )

    def _add_interval(self, event: IntervalMeasured, now: float) -> None:
        one = event.interval
        time = one.end - (self.plan.omit if one.omitted else 0.0)
        if event.load:
            if event.time is None:
                return
            time = event.time
            self._latency = self._latency if self._is_loaded else EMPTY
            self._is_loaded = True
        elif event.time is not None:
            self._set_axis(now - event.time, exact=True)
        elif self._axis is None:
            return
        if isinstance(one, TransactionInterval):
            self._transactions.add(transaction_point(time, one))
            self._latency = self._latency if one.omitted else merged((self._latency, one.latency))
            return
        for flow in self._flow_watches:
            if (flow.side == event.side) == one.sends:
                flow.add_interval(time, one)

    def _add_sockets(self, event: SocketSample, now: float) -> None:
        if event.time is not None:
            self._set_axis(now - event.time, exact=True)
        elif self._axis is None and carry_payload(event.sockets, has_control=self.plan.generator == "iperf3"):
            self._set_axis(now + self.plan.omit, exact=False)
        if self._axis is None:
            return
        time = event.time if event.time is not None else now - self._axis
        for flow in self._flow_watches:
            flow.add_sockets(event.side, time, event.sockets)

    def _set_axis(self, axis: float, *, exact: bool) -> None:
        """Set the start of the axis: lines are never early, so that the earliest one gives the best estimate."""
        if exact and self._axis_estimated:
            self._axis, self._axis_estimated = axis, False
            for flow in self._flow_watches:
                flow.discard_sockets()
        elif self._axis is None or (exact and axis < self._axis):
            self._axis = axis


def result_view(result: Result) -> RunView:
    """The view of a run that has ended."""
    plan = result.plan
    flows = tuple(
        result_flow_view(flow, side, result.sockets) for flow, side in zip(result.flows, plan.sending, strict=False)
    )
    facts = result.facts
    hosts = tuple(result_host_view(load, facts.get(f"{load.role} nic", "")) for load in result.hosts)
    figures = result.transactions
    points, latency = (figures.points, figures.latency) if figures is not None else ((), EMPTY)
    view = RunView(plan, "", 0.0, flows, hosts, result.ceiling, result, points, latency)
    return replace(view, seconds=max((series[-1].time for series in view.series), default=0.0))


def sample_at(view: RunView, time: float | None = None) -> RunSample:
    """The values of all directions and hosts at one time. None: the newest rates, and counts of all measured seconds so
    far, as the result will have them."""
    if time is None:
        return _newest_sample(view)
    return RunSample(
        time,
        tuple(FlowSample(flow, _at(flow.arrivals, time), _at(flow.sender_states, time)) for flow in view.flows),
        tuple(
            HostSample(host, _at(host.series, time), _at(host.packets, time), _at(host.carrying, time))
            for host in view.hosts
        ),
        is_moment=True,
    )


def _newest_sample(view: RunView) -> RunSample:
    return RunSample(
        view.seconds,
        tuple(FlowSample(flow, _arrived_so_far(flow), _sent_so_far(flow, view.plan)) for flow in view.flows),
        tuple(map(_newest_host_sample, view.hosts)),
    )


def _newest_host_sample(host: HostLoadView) -> HostSample:
    """Nothing before the first window that lies in the run: an idle NIC beside its goodput would be taken for its."""
    if not host.is_of_run:
        return HostSample(host, None, None, None)
    return HostSample(host, _last(host.series), _packets_so_far(host), _last(host.carrying))


def _last(points: Sequence[TimedT]) -> TimedT | None:
    return points[-1] if points else None


def _arrived_so_far(flow: FlowView) -> ReceivedInterval | None:
    """The newest interval, with the datagrams of all measured ones."""
    newest = _last(flow.arrivals)
    if newest is None or newest.lost is None:
        return newest
    measured = _measured(flow.arrivals)
    lost, packets = sum_known(one.lost for one in measured), sum_known(one.packets for one in measured)
    return replace(newest, lost=lost, packets=packets)


def _sent_so_far(flow: FlowView, plan: RunPlan) -> SenderState | None:
    """The newest state, with the retransmits of all measured intervals."""
    newest = _last(flow.sender_states)
    if newest is None:
        return None
    counted = sum_known(one.retransmits for one in _measured(flow.sender_states))
    if counted is not None and not plan.omit:
        counted += flow.earlier_retransmits
    return replace(newest, retransmits=counted)


def _packets_so_far(host: HostLoadView) -> Packets | None:
    """The newest window, with the drops of all measured ones."""
    newest = _last(host.packets)
    if newest is None:
        return None
    return replace(newest, dropped=sum_known(one.dropped for one in _measured(host.packets)))


def _measured(points: Sequence[TimedT]) -> Sequence[TimedT]:
    """Without the omitted ones, which end at 0 or before."""
    return [one for one in points if one.time > 0]


def _at(points: Sequence[TimedT], time: float) -> TimedT | None:
    """The point whose window contains `time`."""
    index = bisect_left(points, time, key=BY_TIME)
    if index == len(points):
        return None
    point = points[index]
    length = getattr(point, "seconds", MAX_WINDOW_SECONDS)
    before = points[index - 1].time if index else point.time - length
    return point if time > max(before, point.time - length) - ROUNDING_SECONDS else None


def run_totals(view: RunView) -> RunSample | None:
    """The measured seconds of a run that has ended, as values at one time: means of rates, sums of counts. None if the
    run has not ended."""
    if view.result is None:
        return None
    flows = tuple(FlowSample(flow, *_flow_total(flow, view.plan)) for flow in view.flows)
    hosts = tuple(
        HostSample(
            host,
            host.load.busy if host.load is not None else None,
            _packets_total(host, view.plan),
            host.carrying[-1] if host.carrying else None,
        )
        for host in view.hosts
    )
    return RunSample(view.seconds, flows, hosts)


def _flow_total(one: FlowView, plan: RunPlan) -> tuple[ReceivedInterval | None, SenderState | None]:
    end, flow, figures = float(plan.span), one.flow, one.figures
    if flow is None:
        return None, None
    total = flow.received
    arrival = (
        ReceivedInterval(end, total.seconds, total.bits_per_second, total.packets, total.lost, total.jitter)
        if total is not None
        else None
    )
    if figures is None:
        return arrival, SenderState(end, end, flow.retransmits) if flow.retransmits is not None else None
    window, segment = figures.congestion_window, figures.snd_mss
    held = window * segment if window is not None and segment is not None else None
    return arrival, SenderState(end, end, flow.retransmits, figures.rtt, held)


def _packets_total(host: HostLoadView, plan: RunPlan) -> Packets | None:
    dropped = host.load.ring_drops if host.load is not None else None
    counted = [one for one in host.packets if 0 < one.time <= plan.span + MIN_CPU_WINDOW_SECONDS]
    seconds = sum(one.seconds for one in counted)
    if not seconds:
        return Packets(float(plan.span), float(plan.span), dropped=dropped) if dropped is not None else None
    return Packets(
        counted[-1].time,
        seconds,
        _weighted_mean([(one.received, one.seconds) for one in counted]),
        _weighted_mean([(one.sent, one.seconds) for one in counted]),
        dropped,
    )


def _weighted_mean(rates: Sequence[tuple[float | None, float]]) -> float | None:
    """Mean of the windows in which the rate is known, weighted by their length."""
    known = [(rate, seconds) for rate, seconds in rates if rate is not None]
    seconds = sum(one for _, one in known)
    return sum(rate * one for rate, one in known) / seconds if seconds else None
