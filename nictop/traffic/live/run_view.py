"""View of a run, the same while it runs, at its end and when it was saved: its result so far,
and what it does now.

Reads nothing. `LiveRun` takes the events and the record of a run and gives the current view;
`result_view` gives the view of a result.
"""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nictop.model.devices.ceiling import Ceiling
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.traffic.analysis.nic_incidents import NicIncident
from nictop.traffic.generators.latency import EMPTY, LatencyHistogram
from nictop.traffic.live.flow_so_far import FlowNow
from nictop.traffic.live.host_so_far import LiveHostFigures
from nictop.traffic.live.series import BY_TIME, Timed, TimedT
from nictop.traffic.live.so_far import ResultSoFar
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.log import RunLog, new_groups
from nictop.traffic.results.host_load import HostLoad
from nictop.traffic.results.result import Flow, IntervalPoint, Result, is_sender_state
from nictop.traffic.results.transactions import TransactionFigures, TransactionPoint
from nictop.traffic.run.events import RunBegan, RunEvent, RunFinished, Stage

if TYPE_CHECKING:
    from nictop.traffic.hosts.host import RunHost


SILENT_SECONDS = 3.0
"""Of a running test: what is older was not reported again, and is not said to be of now."""
FIRST_ARRIVAL_SECONDS = 1.0
"""After the first byte of a run: as long as its connections are made, nothing arrives on them."""
FIRST_SECONDS = 10.0
"""On the time axis of a workload of which nothing is known yet."""


@dataclass(frozen=True, eq=False)
class RunView:
    """View of one run."""

    so_far: Result
    """What was measured; once the run has ended, with the figures of `result`."""
    seconds: float
    """Current time on the axis of the run: 0 is the start of the measured seconds; -`plan.omit`
    until the first byte."""
    stage: str = ""
    """Sentence about the current stage; "" if the run has ended."""
    result: Result | None = None
    """Once the run has ended."""
    flows_now: tuple[FlowNow, ...] = ()
    """Of each of `flows`, while it runs; (): a saved result."""
    hosts_now: Mapping[str, LiveHostFigures] = field(default_factory=dict)
    """By name, of a run that was watched."""
    incidents: tuple[NicIncident, ...] = ()
    """What happened to the chosen NICs so far, while it runs; then it is in the result."""
    grace: float | None = None
    """Seconds for which its generators are waited for after the planned ones; None: not known."""
    running_hosts: tuple[str, ...] = ()
    """Whose generators have not ended."""

    @property
    def plan(self) -> RunPlan:
        return self.so_far.plan

    @property
    def flows(self) -> tuple[Flow, ...]:
        """Of the client first."""
        return self.so_far.flows

    @property
    def hosts(self) -> tuple[HostLoad, ...]:
        """Client, server, observers."""
        return self.so_far.hosts

    @property
    def ceiling(self) -> Ceiling | None:
        return self.so_far.ceiling

    @property
    def transactions(self) -> tuple[TransactionPoint, ...]:
        """Of a test of requests and responses, in order of time; it has no `flows` unless it is
        loaded."""
        figures = self.so_far.transactions
        return () if figures is None else figures.points

    @property
    def latency(self) -> LatencyHistogram:
        """Of its transactions in the measured seconds so far; of a loaded run in the current
        phase."""
        figures = self.so_far.transactions
        return EMPTY if figures is None else figures.latency

    def nic_of(self, load: HostLoad) -> str:
        """Name of the chosen NIC, without control characters; "" if none was chosen or it is not
        known."""
        return clean(self.so_far.facts.get(f"{load.role} nic", ""))

    def host_now(self, load: HostLoad) -> LiveHostFigures:
        return self.hosts_now.get(load.host, LiveHostFigures())

    @property
    def start(self) -> float:
        return -float(self.plan.omit)

    @property
    def end(self) -> float:
        """The planned end, or the end of the last interval if that is later."""
        ends = [series[-1].time for series in self.series]
        if self.plan.is_of_one_host and not ends:
            ends = [load.series[-1].time for load in self.hosts if load.series]
        last = max(ends, default=0.0)
        if self.plan.is_open_ended and last > 0:  # it ends before
            return last
        if self.plan.is_of_one_host:
            return FIRST_SECONDS
        return max(float(self.plan.span), last)

    def newest(self, points: Sequence[TimedT]) -> TimedT | None:
        """The last one; None: there is none, or while the run lasts it is too old to be of now."""
        if not points:
            return None
        return points[-1] if self.age_of(points[-1]) is None else None

    def newest_rate(self, points: Sequence[TimedT]) -> TimedT | None:
        """The last interval, whose rate is that of now; None: as for `newest`, or something has
        happened to a NIC since it began, after which the rate may be another."""
        point = self.newest(points)
        return None if point is None or self.was_interrupted(point) else point

    def was_interrupted(self, point: Timed) -> bool:
        """Something has happened to a NIC since the interval of `point` began."""
        begin = point.time - getattr(point, "seconds", 0.0)
        return any(begin < incident.changed_at for incident in self._interruptions)

    @property
    def _interruptions(self) -> Iterator[NicIncident]:
        for incident in self.incidents:
            if incident.meaning != "renamed" and not incident.after:
                yield incident

    @property
    def loss(self) -> NicIncident | None:
        """The last one, if packets have not passed since as far as is known; None: there is
        none."""
        lost = [incident for incident in self._interruptions if incident.loss_text]
        return max(lost, key=lambda incident: incident.changed_at, default=None)

    def is_only_sent(self, number: int) -> bool:
        """Of the direction with this number its points are what was sent, and the receiver, which
        is watched, has yet to report."""
        end = self.plan.foreign_end
        is_foreign = end is not None and self.flows[number].receiver == end.host
        return bool(self.flows_now) and self.flows_now[number].by_sender and not is_foreign

    def arrival_now(self, flow: Flow) -> IntervalPoint | None:
        """The newest interval of a direction; None: as for `newest_rate`, or in the first second
        nothing has arrived yet, which is no rate."""
        point = self.newest_rate(flow.points)
        if point is None or self.result is not None or self.plan.is_of_one_host:
            return point
        is_first = point.time < self.start + FIRST_ARRIVAL_SECONDS
        has_arrived = any(earlier.interval.bytes for earlier in flow.points)
        return None if is_first and not has_arrived else point

    def age_of(self, point: Timed) -> float | None:
        """Seconds since it, if that is so long while the run lasts that it is not of now."""
        if self.result is not None:
            return None
        now = self.seconds
        if not self.plan.is_open_ended:  # its ends still report their totals
            now = min(now, self.end)
        silent = max(SILENT_SECONDS, 2 * getattr(point, "seconds", 0.0))
        age = now - point.time
        return age if age > silent else None

    @property
    def loaded_since(self) -> float | None:
        """Time on the axis at which the bulk flow of a loaded run began; None: it has not, or it is
        another test."""
        if self.plan.test != "loaded":
            return None
        first = [flow.points[0] for flow in self.flows if flow.points]
        return min((point.time - point.seconds for point in first), default=None)

    @property
    def is_measured(self) -> bool:
        """Something was: of one host also its CPUs alone, if no NIC was chosen."""
        if self.series:
            return True
        return self.plan.is_of_one_host and any(load.series for load in self.hosts)

    @property
    def has_figures(self) -> bool:
        """Stopped now, it would have a result (`analysis/stopped.py`): the receiver has reported
        measured seconds, requests were answered, or what one host does has begun."""
        if self.plan.is_of_one_host:
            return self.seconds > self.start
        if self.plan.test == "loaded":
            return any(point.rate for point in self.transactions)
        if self.plan.has_requests:
            return any(point.time > 0 for point in self.transactions)
        flows_now = self.flows_now or [FlowNow()] * len(self.flows)
        for flow, now in zip(self.flows, flows_now, strict=True):
            if not now.by_sockets and any(map(_is_arrival, flow.points)):
                return True
            if self._is_acknowledged(flow):
                return True
        return False

    def _is_acknowledged(self, flow: Flow) -> bool:
        """What a foreign end received is known by its TCP: an interval of the sender's generator,
        and two samples of its connections in that time (`analysis/assemble.py`)."""
        end = self.plan.foreign_end
        if end is None or flow.receiver != end.host or self.plan.protocol != "tcp":
            return False
        if not flow.points or flow.points[-1].time <= 0:
            return False
        until = flow.points[-1].time + self.plan.interval
        return sum(0 < point.time <= until for point in flow.sent_points) > 1

    @property
    def series(self) -> tuple[Sequence[IntervalPoint | TransactionPoint], ...]:
        """What was measured over time, without what is empty: arrivals of each direction, or
        transactions."""
        arrivals = (flow.points for flow in self.flows)
        return tuple(filter(None, (*arrivals, self.transactions)))


def _is_arrival(point: IntervalPoint) -> bool:
    """Of measured seconds, by the receiver."""
    return point.time > 0 and not point.interval.omitted and not point.interval.sends


class LiveRun:
    """A running run. `hosts`: the participants by name, as in the run."""

    def __init__(self, plan: RunPlan, hosts: Mapping[str, RunHost]) -> None:
        self._stage = ""
        self.begin(RunLog(plan, new_groups(plan, ""), hosts, 0.0))

    def begin(self, log: RunLog) -> None:
        """Its record: before, nothing is recorded of it."""
        self._so_far = ResultSoFar(log)
        self._over: RunView | None = None
        """The view of its end."""

    def process(self, event: RunEvent) -> None:
        """Add one event of the run."""
        if isinstance(event, RunBegan):
            self.begin(event.log)
        elif isinstance(event, Stage):
            self._stage = event.sentence
        elif isinstance(event, RunFinished):
            self._over = self._final_view(event.result)

    @property
    def has_data(self) -> bool:
        """The first byte of payload was moved, as generators or sockets report it."""
        return self._so_far.axis is not None

    def view(self, now: float | None = None) -> RunView:
        """The current view. `now`: seconds of this machine's CLOCK_MONOTONIC."""
        if self._over is not None:
            return self._over
        now = clock.monotonic() if now is None else now
        axis, result = self._so_far.axis, self._so_far.read()
        return RunView(
            result,
            -float(result.plan.omit) if axis is None else now - axis,
            self._stage,
            None,
            self._so_far.flows_now(),
            self._so_far.hosts_now(),
            self._so_far.incidents(),
            self._so_far.grace,
            self._so_far.running_hosts,
        )

    def _final_view(self, result: Result) -> RunView:
        watched, final = self._so_far.read(), result_view(result)
        shown = _with_series_of(watched, final.so_far)
        return replace(final, so_far=shown, hosts_now=self._so_far.hosts_now())


def _with_series_of(watched: Result, result: Result) -> Result:
    """The result; what it has no series of, because the run failed or was ended, is as it was
    watched."""
    flows = tuple(map(_with_points_of, watched.flows, result.flows))
    loads = {load.host: load for load in watched.hosts}
    hosts = tuple(_with_windows_of(loads.get(load.host), load) for load in result.hosts)
    return replace(
        result,
        flows=flows or watched.flows,
        hosts=hosts or watched.hosts,
        transactions=_with_transactions_of(watched.transactions, result.transactions),
        facts=watched.facts | result.facts,
    )


def _with_points_of(watched: Flow, flow: Flow) -> Flow:
    has_states = any(is_sender_state(point.interval) for point in flow.reports_of_sender)
    return replace(
        flow,
        points=flow.points or watched.points,
        sent_points=flow.reports_of_sender if has_states else watched.sent_points,
    )


def _with_windows_of(watched: HostLoad | None, load: HostLoad) -> HostLoad:
    if watched is None:
        return load
    return replace(
        load,
        series=load.series or watched.series,
        packets=load.packets or watched.packets,
        carrying=load.carrying or watched.carrying,
    )


def _with_transactions_of(
    watched: TransactionFigures | None, figures: TransactionFigures | None
) -> TransactionFigures | None:
    if figures is None or watched is None:
        return figures or watched
    return replace(figures, points=figures.points or watched.points)


def result_view(result: Result) -> RunView:
    """The view of a run that has ended."""
    flows = tuple(map(_in_order, result.flows))
    view = RunView(replace(result, flows=flows), 0.0, result=result)
    seconds = max((series[-1].time for series in view.series), default=0.0)
    if view.is_measured and not view.series:
        seconds = view.end
    return replace(view, seconds=seconds)


def _in_order(flow: Flow) -> Flow:
    """Its points in order of time: a file may have them in any."""
    return replace(flow, points=_sorted(flow.points), sent_points=_sorted(flow.sent_points))


def _sorted(points: Sequence[TimedT]) -> tuple[TimedT, ...]:
    return tuple(sorted(points, key=BY_TIME))
