"""The values of a run at one time: in the interval or window that contains it, the newest ones, or
those of the whole run.

Reads nothing; takes a view.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from nictop.model.rates.links import sum_known
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.traffic.analysis.cpu_load import MIN_CPU_WINDOW_SECONDS
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.live.flow_so_far import FlowNow
from nictop.traffic.live.run_view import RunView
from nictop.traffic.live.series import BY_TIME, TimedT
from nictop.traffic.results.host_load import Busy, CarryingQueue, HostLoad, Packets
from nictop.traffic.results.result import Flow, IntervalPoint, SocketFigures, is_sender_state

MAX_WINDOW_SECONDS = 2.0
"""Length of windows that do not have `seconds`: at most that much before their end."""
ROUNDING_SECONDS = 1e-9


@dataclass(frozen=True)
class FlowSample:
    """One direction at one time. None: not reported."""

    flow: Flow
    arrival: Interval | None
    sending: Interval | None
    """With the state of the sender's connections."""
    by_sockets: bool = False
    """`arrival` is of the receiver's sockets."""
    by_sender: bool = False
    """`arrival` is what the sender has sent."""

    @property
    def is_passing(self) -> bool:
        """`arrival` is dropped when the receiver's generator reports."""
        return self.by_sockets or self.by_sender


@dataclass(frozen=True)
class HostSample:
    """One host at one time. None: not counted."""

    host: HostLoad
    busy: Busy | None
    packets: Packets | None
    carrying: CarryingQueue | None
    age: float | None = None
    """Seconds since its newest window, if it has sent nothing for so long that its values are not
    those of now; None: they are."""


@dataclass(frozen=True)
class RunSample:
    """All directions and hosts at one time."""

    time: float
    """Seconds on the axis of the run."""
    flows: tuple[FlowSample, ...]
    hosts: tuple[HostSample, ...]
    is_moment: bool = False
    """Counts are those of one interval; else of all measured seconds so far."""
    is_stopped: bool = False
    """Counts are those of a run that was stopped: of the seconds that its generators had reported
    until then. While it ran, those since were counted, too, by the sockets."""

    @property
    def names_seconds(self) -> bool:
        """A count is shown with the seconds that it is of."""
        return self.is_moment or self.is_stopped


def values_of(view: RunView, time: float | None) -> RunSample:
    """Values at `time`; without one, the results of a finished run or the newest values of an
    active one."""
    if time is None:
        return run_totals(view) or sample_at(view)
    return sample_at(view, time)


def sample_at(view: RunView, time: float | None = None) -> RunSample:
    """The values of all directions and hosts at one time. None: the newest rates, and counts of all
    measured seconds so far, as the result will have them."""
    if time is None:
        return _newest_sample(view)
    flows = [_flow_sample_at(flow, now, time) for flow, now in _flows(view)]
    hosts = [_host_sample_at(host, time) for host in view.hosts]
    return RunSample(time, tuple(flows), tuple(hosts), is_moment=True)


def _flows(view: RunView) -> Iterable[tuple[Flow, FlowNow]]:
    return zip(view.flows, view.flows_now or [FlowNow()] * len(view.flows), strict=True)


def _flow_sample_at(flow: Flow, now: FlowNow, time: float) -> FlowSample:
    arrival, sending = _at(flow.points, time), _at(flow.reports_of_sender, time)
    return FlowSample(
        flow,
        arrival.interval if arrival is not None else None,
        _state(sending),
        now.by_sockets,
        now.by_sender,
    )


def _state(point: IntervalPoint | None) -> Interval | None:
    """None also if the sender did not report its state."""
    if point is None or not is_sender_state(point.interval):
        return None
    return point.interval


def _host_sample_at(host: HostLoad, time: float) -> HostSample:
    busy, packets = _at(host.series, time), _at(host.packets, time)
    return HostSample(host, busy, packets, _at(host.carrying, time))


def _newest_sample(view: RunView) -> RunSample:
    has_omitted = view.plan.omit > 0
    flows = [_newest_flow_sample(view, flow, now, has_omitted) for flow, now in _flows(view)]
    last = last_window_end(view)
    hosts = [_newest_host_sample(view, host, last) for host in view.hosts]
    return RunSample(view.seconds, tuple(flows), tuple(hosts))


def _newest_flow_sample(view: RunView, flow: Flow, now: FlowNow, has_omitted: bool) -> FlowSample:
    earlier = 0 if has_omitted else now.earlier_retransmits
    arrived, sent = _arrived_so_far(view, flow), _sent_so_far(view, flow, earlier)
    return FlowSample(flow, arrived, sent, now.by_sockets, now.by_sender)


def _newest_host_sample(view: RunView, host: HostLoad, last: float) -> HostSample:
    """Nothing before the first window that lies in the run, and none of those that end after
    `last`: an idle NIC, or what loads the host once the run is over, would be taken for its."""
    busy = newest_until(host.series, last)
    if not view.host_now(host).is_of_run:
        # what one host does has no first byte: half of a window after its begin is of it
        is_half = busy is not None and busy.time >= MIN_CPU_WINDOW_SECONDS / 2
        is_told = is_half and view.plan.is_of_one_host
        return HostSample(host, busy if is_told else None, None, None)
    carrying = newest_until(host.carrying, last)
    age = None if busy is None else view.age_of(busy)
    return HostSample(host, busy, _packets_so_far(view, host, last), carrying, age)


def last_window_end(view: RunView) -> float:
    """Until when a window may end of which half is of the run."""
    return view.end + MIN_CPU_WINDOW_SECONDS / 2


def newest_until(points: Sequence[TimedT], last: float) -> TimedT | None:
    place = bisect_right(points, last, key=BY_TIME)
    return points[place - 1] if place else None


def _arrived_so_far(view: RunView, flow: Flow) -> Interval | None:
    """The newest interval, with the datagrams of all measured ones."""
    point = view.arrival_now(flow)
    if point is None:
        return None
    newest = point.interval
    if newest.lost is None:
        return newest
    measured = [point.interval for point in _measured(flow.points)]
    lost = sum_known(interval.lost for interval in measured)
    packets = sum_known(interval.packets for interval in measured)
    return replace(newest, lost=lost, packets=packets)


def _sent_so_far(view: RunView, flow: Flow, earlier: int) -> Interval | None:
    """The newest state, with the retransmits of all measured intervals, and `earlier` ones."""
    points = flow.reports_of_sender
    newest = None if view.newest(points) is None else _newest_state(points)
    if newest is None:
        return None
    counted = sum_known(
        point.interval.retransmits for point in _measured(points) if _is_of_run(view, point)
    )
    if counted is not None:
        counted += earlier
    return replace(newest, retransmits=counted)


def _is_of_run(view: RunView, point: IntervalPoint) -> bool:
    """Most of it is before the end, until which generators count: sockets are still read while they
    empty their buffers and the ends exchange their totals."""
    return view.plan.is_open_ended or point.time - point.interval.seconds / 2 <= view.end


def _newest_state(points: Sequence[IntervalPoint]) -> Interval | None:
    for point in reversed(points):
        if is_sender_state(point.interval):
            return point.interval
    return None


def _packets_so_far(view: RunView, host: HostLoad, last: float) -> Packets | None:
    """The newest window until `last`, with the drops of all measured ones; without rates if
    something has happened to a NIC since it began."""
    newest = newest_until(host.packets, last)
    if newest is None:
        return None
    if view.was_interrupted(newest):
        newest = replace(newest, received=None, sent=None)
    measured = _measured(host.packets)
    dropped = sum_known(window.dropped for window in measured)
    send_dropped = sum_known(window.send_dropped for window in measured)
    return replace(newest, dropped=dropped, send_dropped=send_dropped)


def _measured(points: Sequence[TimedT]) -> Sequence[TimedT]:
    """Without the omitted ones, which end at 0 or before."""
    return points[bisect_right(points, 0.0, key=BY_TIME) :]


def _at(points: Sequence[TimedT], time: float) -> TimedT | None:
    """The point whose window contains `time`."""
    index = bisect_left(points, time, key=BY_TIME)
    if index == len(points):
        return None
    point = points[index]
    begin = point.time - getattr(point, "seconds", MAX_WINDOW_SECONDS)
    if index:
        begin = max(begin, points[index - 1].time)
    return point if time > begin - ROUNDING_SECONDS else None


def run_totals(view: RunView) -> RunSample | None:
    """The measured seconds of a run that has ended, as values at one time: means of rates, sums of
    counts. None if the run has not ended."""
    if view.result is None:
        return None
    span = view.result.measured_seconds
    figures = {sender.host: sender for sender in reversed(view.result.sockets)}
    flows = [_flow_total(flow, figures.get(flow.sender), span) for flow in view.flows]
    hosts = [_host_total(host, span) for host in view.hosts]
    is_stopped = view.result.stopped is not None
    return RunSample(view.seconds, tuple(flows), tuple(hosts), is_stopped=is_stopped)


def _flow_total(flow: Flow, figures: SocketFigures | None, span: float) -> FlowSample:
    return FlowSample(flow, _arrived_in_all(flow), _sent_in_all(flow, figures, span))


def _arrived_in_all(flow: Flow) -> Interval | None:
    total = flow.received
    if total is None:
        return None
    return Interval(
        0.0,
        total.seconds,
        total.bits_per_second,
        sends=False,
        packets=total.packets,
        lost=total.lost,
        jitter=total.jitter,
    )


def _sent_in_all(flow: Flow, figures: SocketFigures | None, span: float) -> Interval | None:
    if figures is None and flow.retransmits is None:
        return None
    rate, seconds = 0.0, span
    if flow.sent is not None:
        rate, seconds = flow.sent.bits_per_second, flow.sent.seconds
    total = Interval(0.0, seconds, rate, sends=True, retransmits=flow.retransmits)
    if figures is None:
        return total
    return replace(total, rtt=figures.rtt, congestion_window=_bytes_of_window(figures))


def _bytes_of_window(figures: SocketFigures) -> int | None:
    """Of the congestion window, which is counted in segments."""
    if figures.congestion_window is None or figures.snd_mss is None:
        return None
    return figures.congestion_window * figures.snd_mss


def _host_total(host: HostLoad, span: float) -> HostSample:
    last = host.carrying[-1] if host.carrying else None
    return HostSample(host, host.busy, _packets_total(host, span), last)


def _packets_total(host: HostLoad, span: float) -> Packets | None:
    dropped, send_dropped = host.ring_drops, host.send_drops
    counted = _windows_within(host.packets, span)
    seconds = sum(window.seconds for window in counted)
    if seconds:
        received = _weighted_mean([(window.received, window.seconds) for window in counted])
        sent = _weighted_mean([(window.sent, window.seconds) for window in counted])
        return Packets(counted[-1].time, seconds, received, sent, dropped, send_dropped)
    if dropped is None and send_dropped is None:
        return None
    return Packets(span, span, dropped=dropped, send_dropped=send_dropped)


def _windows_within(windows: Sequence[Packets], span: float) -> list[Packets]:
    """Those that lie in the measured seconds; of a run that is too short for one, those of which
    most does."""
    within = [one for one in windows if one.time - one.seconds >= 0 and one.time <= span]
    if within:
        return within
    return [one for one in windows if 0 < one.time - one.seconds / 2 < span]


def _weighted_mean(rates: Sequence[tuple[float | None, float]]) -> float | None:
    """Mean of the windows in which the rate is known, weighted by their length."""
    weighted = total = 0.0
    for rate, seconds in rates:
        if rate is not None:
            weighted += rate * seconds
            total += seconds
    return weighted / total if total else None
