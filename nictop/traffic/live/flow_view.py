"""View of one direction of a run: what arrived in each interval, and the state of the sender's TCP.

Reads nothing. `FlowWatch` takes the reports of both ends during the run, `result_flow_view` is the view of a run
that has ended. Arrivals are those that generators report; if they report none, those of the receiver's sockets
(TCP_INFO). Retransmits, round trip and window come from the sender's sockets, which report them whatever the version of
the generator.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from nictop.model.text.terminal import clean
from nictop.probe.records import TrafficSocket
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.results.result import Flow, IntervalPoint, SocketFigures
from nictop.traffic.run.endpoint import CONTROL_BYTES

COOKIE_BYTES = 37
"""That each connection of iperf3 begins with (COOKIE_SIZE): no payload."""
MIN_SOCKET_INTERVAL = 0.05
"""Seconds between two samples of the sockets that make a rate."""


@dataclass(frozen=True)
class ReceivedInterval:
    """What arrived in one interval. Times are seconds on the axis of the run."""

    time: float
    """End of the interval."""
    seconds: float
    bits_per_second: float
    packets: int | None = None
    """UDP: datagrams."""
    lost: int | None = None
    """UDP: datagrams."""
    jitter: float | None = None
    """UDP: ms."""


@dataclass(frozen=True)
class SenderState:
    """State of the sender's connections in one interval. None: not reported."""

    time: float
    """End of the interval."""
    seconds: float
    retransmits: int | None = None
    """Segments in this interval."""
    rtt: int | None = None
    """µs, of the slowest connection."""
    congestion_window: int | None = None
    """Bytes, of all connections."""


@dataclass(frozen=True, eq=False)
class FlowView:
    """View of one direction."""

    sender: str
    receiver: str
    """Names of the hosts."""
    side: Side
    """The sending end."""
    arrivals: tuple[ReceivedInterval, ...] = ()
    """In order of time; omitted intervals end at 0 or before."""
    sender_states: tuple[SenderState, ...] = ()
    """In order of time."""
    flow: Flow | None = None
    """Its totals, once the run has ended."""
    figures: SocketFigures | None = None
    """Figures of the sender's connections in the measured seconds, once the run has ended."""
    by_sockets: bool = False
    """`arrivals` are of the receiver's sockets: they are dropped as soon as a generator reports its own."""
    earlier_retransmits: int = 0
    """Segments before the first of `sender_states`: of connections whose first sample is not a state."""

    @property
    def label(self) -> str:
        """``a → b``, without control characters."""
        return f"{clean(self.sender)} → {clean(self.receiver)}"


class Timed(Protocol):
    """A dataclass with a time on the axis of the run."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def time(self) -> float: ...


TimedT = TypeVar("TimedT", bound=Timed)
BY_TIME = attrgetter("time")


class SampleBuffer(Generic[TimedT]):
    """A growing series. `all` is the same object until an item is added, so that a chart can skip redrawing."""

    def __init__(self) -> None:
        self._items: list[TimedT] = []
        self._all: tuple[TimedT, ...] | None = ()

    def add(self, item: TimedT) -> None:
        insort(self._items, item, key=BY_TIME)
        self._all = None

    def shift(self, seconds: float) -> None:
        """Move all items to later times."""
        self._items = [replace(item, time=item.time + seconds) for item in self._items]
        self._all = None

    @property
    def all(self) -> tuple[TimedT, ...]:
        """All items in order of time."""
        if self._all is None:
            self._all = tuple(self._items)
        return self._all


class FlowWatch:
    """Computes the view of one direction during the run."""

    def __init__(self, sender: str, receiver: str, side: Side) -> None:
        self.sender, self.receiver, self.side = sender, receiver, side
        self._arrived = SampleBuffer[ReceivedInterval]()
        self._sent = SampleBuffer[ReceivedInterval]()
        self._reported = SampleBuffer[SenderState]()
        self.discard_sockets()

    def discard_sockets(self) -> None:
        """Discard the samples of sockets, whose times are on a wrong axis."""
        self._arrived_by_sockets = SampleBuffer[ReceivedInterval]()
        self._from_sockets = SampleBuffer[SenderState]()
        self._last_samples: dict[Side, _SocketSample] = {}
        self._earlier_retransmits = 0

    def add_interval(self, time: float, interval: Interval) -> None:
        """Add an interval of one of the ends, which ended at `time`."""
        arrival = _arrival(time, interval)
        if not interval.sends:
            self._arrived.add(arrival)
            return
        self._sent.add(arrival)
        sending = _sender_state(time, interval)
        if sending is not None:
            self._reported.add(sending)

    def add_sockets(self, side: Side, time: float, sockets: Sequence[TrafficSocket]) -> None:
        """Add the connections of one end at `time`."""
        now = _SocketSample(time, _data_sockets(sockets, sends=side == self.side))
        last = self._last_samples.get(side)
        if last is not None and time - last.time < MIN_SOCKET_INTERVAL:
            return
        self._last_samples[side] = now
        if last is None:
            self._earlier_retransmits = now.retransmits if side == self.side else self._earlier_retransmits
            return
        if side != self.side:
            self._arrived_by_sockets.add(now.arrival_since(last))
        elif (state := now.sender_state_since(last)) is not None:
            self._from_sockets.add(state)

    def view(self, final: FlowView | None = None) -> FlowView:
        """The current view. `final`: view of the same direction in the result, whose points are the final ones."""
        reported = self._arrived.all or self._sent.all
        arrivals = (final.arrivals if final is not None else ()) or reported or self._arrived_by_sockets.all
        sendings = (final.sender_states if final is not None else ()) or self._from_sockets.all or self._reported.all
        return FlowView(
            self.sender,
            self.receiver,
            self.side,
            arrivals,
            sendings,
            flow=final.flow if final is not None else None,
            figures=final.figures if final is not None else None,
            by_sockets=final is None and bool(arrivals) and arrivals is self._arrived_by_sockets.all,
            earlier_retransmits=self._earlier_retransmits if sendings is self._from_sockets.all else 0,
        )


def result_flow_view(flow: Flow, side: Side, figures: Iterable[SocketFigures] = ()) -> FlowView:
    """The view of a direction of a run that has ended. `figures`: of all senders of the run."""
    return FlowView(
        flow.sender,
        flow.receiver,
        side,
        tuple(sorted((_arrival(point.time, point.interval) for point in flow.points), key=BY_TIME)),
        tuple(sorted(_sender_states(flow.sent_points or flow.points), key=BY_TIME)),
        flow=flow,
        figures=next((one for one in figures if one.host == flow.sender), None),
    )


def _arrival(time: float, one: Interval) -> ReceivedInterval:
    return ReceivedInterval(time, one.seconds, one.bits_per_second, one.packets, one.lost, one.jitter)


def _sender_states(points: Iterable[IntervalPoint]) -> Iterable[SenderState]:
    """States at the points that the sender reported; a receiver does not know them."""
    for point in points:
        one = _sender_state(point.time, point.interval)
        if one is not None:
            yield one


def _sender_state(time: float, one: Interval) -> SenderState | None:
    if not one.sends or (one.retransmits, one.rtt, one.congestion_window) == (None, None, None):
        return None
    return SenderState(time, one.seconds, one.retransmits, one.rtt, one.congestion_window)


def fill_from_sockets(
    points: Iterable[IntervalPoint], samples: Iterable[tuple[float, Sequence[TrafficSocket]]], reach: float
) -> tuple[IntervalPoint, ...]:
    """Points of a sender, with values that its generator did not report from its sockets. `samples`: (time on the axis
    of the run, connections), in order of time; `reach`: maximum seconds between the end of an interval and a sample."""
    known = [_SocketSample(time, _data_sockets(sockets, sends=True)) for time, sockets in samples]
    times = [one.time for one in known]
    found = []
    for point in points:
        after = bisect_left(times, point.time)
        near = [
            index for index in (after - 1, after) if 0 <= index < len(known) and abs(times[index] - point.time) <= reach
        ]
        index = min(near, key=lambda index: abs(times[index] - point.time), default=None)
        found.append(point if index is None else _fill_point(point, known[index], known[index - 1] if index else None))
    return tuple(found)


def _fill_point(point: IntervalPoint, sample: _SocketSample, before: _SocketSample | None) -> IntervalPoint:
    sending, one = sample.sender_state_since(before), point.interval
    if sending is None:
        return point
    filled = replace(
        one,
        retransmits=sending.retransmits if one.retransmits is None else one.retransmits,
        rtt=sending.rtt if one.rtt is None else one.rtt,
        congestion_window=sending.congestion_window if one.congestion_window is None else one.congestion_window,
    )
    return replace(point, interval=filled)


def _data_sockets(sockets: Sequence[TrafficSocket], *, sends: bool) -> tuple[TrafficSocket, ...]:
    """Connections that carry payload in this direction: without the control connection, and without those of the other
    direction, which move few bytes in this one."""
    moved = {one.inode: _moved(one, sends) for one in sockets if _moved(one, sends) > _moved(one, not sends)}
    least = min(max(moved.values(), default=0), CONTROL_BYTES)
    return tuple(one for one in sockets if moved.get(one.inode, -1) >= least)


def carry_payload(sockets: Sequence[TrafficSocket], *, has_control: bool) -> bool:
    """Payload was moved. `has_control`: one of the connections is the control connection of iperf3, which moves bytes
    before any payload."""
    moved = sorted(max(one.bytes_acked or 0, one.bytes_received or 0) for one in sockets)
    if not has_control:
        return bool(moved) and moved[-1] > 0
    return len(moved) > 1 and moved[-2] > COOKIE_BYTES


def _moved(one: TrafficSocket, sends: bool) -> int:
    return (one.bytes_acked if sends else one.bytes_received) or 0


class _SocketSample:
    """The data connections of one end at one time."""

    def __init__(self, time: float, sockets: tuple[TrafficSocket, ...]) -> None:
        self.time = time
        self.by_inode = {one.inode: one for one in sockets}

    @property
    def retransmits(self) -> int:
        """Segments since the connections were made."""
        return sum(one.retransmits for one in self.by_inode.values())

    def arrival_since(self, before: _SocketSample) -> ReceivedInterval:
        seconds = self.time - before.time
        size = 0
        for inode, one in self.by_inode.items():
            old = before.by_inode.get(inode)
            size += max(0, _moved(one, False) - (_moved(old, False) if old is not None else 0))
        return ReceivedInterval(self.time, seconds, 8 * size / seconds)

    def sender_state_since(self, before: _SocketSample | None) -> SenderState | None:
        """None if there is no connection with data. `before`: None for the first sample."""
        if not self.by_inode:
            return None
        sockets = self.by_inode.values()
        known = {inode: one.retransmits for inode, one in before.by_inode.items()} if before is not None else {}
        return SenderState(
            self.time,
            self.time - before.time if before is not None else 0.0,
            sum(max(0, one.retransmits - known.get(one.inode, 0)) for one in sockets),
            max(one.rtt for one in sockets),
            sum(one.congestion_window * one.snd_mss for one in sockets),
        )
