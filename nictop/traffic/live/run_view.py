"""A run as it is drawn, the same whether it goes on or was kept: series on one axis, the ceiling, every host.

Reads nothing. `LiveRun` takes the events of a run and what its hosts count, and gives the picture of now;
`picture_of` gives that of a result; `moment` gives the values at one time of either.
"""

from __future__ import annotations

import time as clock
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nictop.model.devices.ceiling import Ceiling
from nictop.traffic.analysis.assemble import run_ceiling
from nictop.traffic.analysis.cpu_load import SHORTEST_WINDOW, Busy, HostRole
from nictop.traffic.analysis.nic_load import Carrying, Packets
from nictop.traffic.live.flow_view import BY_TIME, Arrival, FlowView, FlowWatch, SenderState, T, flow_picture
from nictop.traffic.live.host_view import HostLoadView, HostWatch, host_picture
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import Event, Finished, IntervalMeasured, Sockets, Stage

if TYPE_CHECKING:
    from nictop.traffic.run.host import RunHost

WINDOW = 2.0
"""Seconds before its end that a window over the counters of a host may reach back at most."""


@dataclass(frozen=True, eq=False)
class RunView:
    """One run."""

    plan: RunPlan
    stage: str
    """What it does now, a sentence; "" when it is over."""
    seconds: float
    """Now, on the axis of the run: 0 is where what counts begins; -`plan.omit` until the first byte."""
    flows: tuple[FlowView, ...]
    """From the client first."""
    hosts: tuple[HostLoadView, ...]
    """Client, server, observers."""
    ceiling: Ceiling | None = None
    result: Result | None = None
    """Once it is over."""

    @property
    def begins(self) -> float:
        return -float(self.plan.omit)

    @property
    def ends(self) -> float:
        """As it was planned, or when the last interval ended."""
        last = max((flow.arrivals[-1].time for flow in self.flows if flow.arrivals), default=0.0)
        return max(float(self.plan.time), last)


@dataclass(frozen=True)
class FlowMoment:
    """One direction at one moment. None: not told."""

    flow: FlowView
    arrival: Arrival | None
    sending: SenderState | None


@dataclass(frozen=True)
class HostMoment:
    """One host at one moment. None: not counted."""

    host: HostLoadView
    busy: Busy | None
    packets: Packets | None
    carrying: Carrying | None


@dataclass(frozen=True)
class RunMoment:
    """What every host did at one time."""

    time: float
    """Seconds on the axis of the run."""
    flows: tuple[FlowMoment, ...]
    hosts: tuple[HostMoment, ...]


class LiveRun:
    """A run that goes on. `hosts`: those that take part, by name, as the run itself has them."""

    def __init__(self, plan: RunPlan, hosts: Mapping[str, RunHost]) -> None:
        self.plan = plan
        self._hosts = hosts
        self._stage = ""
        self._axis: float | None = None
        """Where the axis begins, seconds of this machine's CLOCK_MONOTONIC."""
        self._guessed = True
        """By the first byte that a socket showed: the generators have not told anything yet."""
        self._flows = tuple(
            FlowWatch(plan.client.host, plan.server.host, side)
            if side == "client"
            else FlowWatch(plan.server.host, plan.client.host, side)
            for side in plan.sending
        )
        self._loads = [
            HostWatch(hosts[name], role, place.ifindex if place is not None else None)
            for name, role, place in roles(plan, hosts)
            if name in hosts
        ]
        self._ceiling: Ceiling | None = None
        self._result: Result | None = None
        self._ended: float | None = None

    def take(self, event: Event, now: float | None = None) -> None:
        """One event of the run. `now`: seconds of this machine's CLOCK_MONOTONIC when it came."""
        now = clock.monotonic() if now is None else now
        if isinstance(event, Stage):
            self._stage = event.sentence
        elif isinstance(event, IntervalMeasured):
            self._measured(event, now)
        elif isinstance(event, Sockets):
            self._looked(event, now)
        elif isinstance(event, Finished):
            self._result, self._ended = event.result, now
            self.plan = event.result.plan

    def picture(self, now: float | None = None) -> RunView:
        """As it stands."""
        now = clock.monotonic() if now is None else now
        if self._axis is not None:
            for load in self._loads:
                load.advance(self._axis)
        if self._result is not None:
            return self._over(self._result)
        if self._ceiling is None:
            self._ceiling = run_ceiling(self.plan, {name: host.snapshot for name, host in self._hosts.items()})
        return RunView(
            self.plan,
            self._stage,
            -float(self.plan.omit) if self._axis is None else now - self._axis,
            tuple(flow.picture() for flow in self._flows),
            tuple(load.picture() for load in self._loads),
            self._ceiling,
        )

    def _over(self, result: Result) -> RunView:
        """The final figures, beside what only those saw who watched."""
        final = picture_of(result)
        flows = {flow.side: flow for flow in final.flows}
        hosts = {host.host: host for host in final.hosts}
        return RunView(
            result.plan,
            "",
            final.seconds,
            tuple(flow.picture(flows.get(flow.side)) for flow in self._flows),
            tuple(load.picture(hosts.get(load.host.name)) for load in self._loads),
            final.ceiling,
            result,
        )

    def _measured(self, event: IntervalMeasured, now: float) -> None:
        if event.time is not None:
            self._place(now - event.time, sure=True)
        elif self._axis is None:
            return
        one = event.interval
        time = one.end - (self.plan.omit if one.omitted else 0.0)
        for flow in self._flows:
            if (flow.side == event.side) == one.sends:
                flow.measure(time, one)

    def _looked(self, event: Sockets, now: float) -> None:
        if event.time is not None:
            self._place(now - event.time, sure=True)
        elif self._axis is None and any(one.bytes_acked or one.bytes_received for one in event.sockets):
            self._place(now + self.plan.omit, sure=False)
        if self._axis is None:
            return
        time = event.time if event.time is not None else now - self._axis
        for flow in self._flows:
            flow.look(event.side, time, event.sockets)

    def _place(self, axis: float, *, sure: bool) -> None:
        """No line comes before what it tells: the quickest one shows best where the axis begins."""
        if sure and self._guessed:
            self._axis, self._guessed = axis, False
            for flow in self._flows:
                flow.forget_sockets()
        elif self._axis is None or (sure and axis < self._axis):
            self._axis = axis


def roles(plan: RunPlan, hosts: Mapping[str, object]) -> list[tuple[str, HostRole, Endpoint | None]]:
    """Both ends (a host that is both is the client), then the observers: (host, role, its end of the run)."""
    ends: list[tuple[str, HostRole, Endpoint | None]] = [(plan.client.host, "client", plan.client)]
    if plan.server.host != plan.client.host:
        ends.append((plan.server.host, "server", plan.server))
    known = {name for name, _, _ in ends}
    return ends + [(name, "observer", None) for name in hosts if name not in known]


def picture_of(result: Result) -> RunView:
    """Of a run that is over."""
    plan = result.plan
    flows = tuple(
        flow_picture(flow, side, result.sockets) for flow, side in zip(result.flows, plan.sending, strict=False)
    )
    facts = result.facts
    hosts = tuple(host_picture(load, facts.get(f"{load.role} nic", "")) for load in result.hosts)
    over = max((flow.arrivals[-1].time for flow in flows if flow.arrivals), default=0.0)
    return RunView(plan, "", over, flows, hosts, result.ceiling, result)


def moment(picture: RunView, time: float | None = None) -> RunMoment:
    """The values of every host at one time; None: the newest ones."""
    return RunMoment(
        picture.seconds if time is None else time,
        tuple(FlowMoment(flow, _at(flow.arrivals, time), _at(flow.sendings, time)) for flow in picture.flows),
        tuple(
            HostMoment(host, _at(host.series, time), _at(host.packets, time), _at(host.carrying, time))
            for host in picture.hosts
        ),
    )


def _at(points: Sequence[T], time: float | None) -> T | None:
    """The one in whose window `time` is."""
    if time is None:
        return points[-1] if points else None
    index = bisect_left(points, time, key=BY_TIME)
    if index == len(points):
        return None
    point = points[index]
    length = getattr(point, "seconds", WINDOW)
    before = points[index - 1].time if index else point.time - length
    return point if time > max(before, point.time - length) - 1e-9 else None


def whole(picture: RunView) -> RunMoment | None:
    """What counts of a run that is over, in the shape of a moment: means of rates, sums of counts. None: it goes on
    still."""
    if picture.result is None:
        return None
    flows = tuple(FlowMoment(flow, *_whole_flow(flow, picture.plan)) for flow in picture.flows)
    hosts = tuple(
        HostMoment(
            host,
            host.load.busy if host.load is not None else None,
            _whole_packets(host, picture.plan),
            host.carrying[-1] if host.carrying else None,
        )
        for host in picture.hosts
    )
    return RunMoment(picture.seconds, flows, hosts)


def _whole_flow(one: FlowView, plan: RunPlan) -> tuple[Arrival | None, SenderState | None]:
    end, flow, figures = float(plan.time), one.flow, one.figures
    if flow is None:
        return None, None
    total = flow.received
    arrival = (
        Arrival(end, total.seconds, total.bits_per_second, total.packets, total.lost, total.jitter)
        if total is not None
        else None
    )
    if figures is None:
        return arrival, SenderState(end, end, flow.retransmits) if flow.retransmits is not None else None
    window, segment = figures.congestion_window, figures.snd_mss
    held = window * segment if window is not None and segment is not None else None
    return arrival, SenderState(end, end, flow.retransmits, figures.rtt, held)


def _whole_packets(host: HostLoadView, plan: RunPlan) -> Packets | None:
    dropped = host.load.ring_drops if host.load is not None else None
    counted = [one for one in host.packets if 0 < one.time <= plan.time + SHORTEST_WINDOW]
    seconds = sum(one.seconds for one in counted)
    if not seconds:
        return Packets(float(plan.time), float(plan.time), dropped=dropped) if dropped is not None else None
    return Packets(
        counted[-1].time,
        seconds,
        _mean([(one.received, one.seconds) for one in counted]),
        _mean([(one.sent, one.seconds) for one in counted]),
        dropped,
    )


def _mean(rates: Sequence[tuple[float | None, float]]) -> float | None:
    """Over the windows in which it is known."""
    known = [(rate, seconds) for rate, seconds in rates if rate is not None]
    seconds = sum(one for _, one in known)
    return sum(rate * one for rate, one in known) / seconds if seconds else None
