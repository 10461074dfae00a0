"""One direction of a run as it is drawn: what arrived interval by interval, and how the sender's TCP stood meanwhile.

Reads nothing. `FlowWatch` takes what both ends tell while the run goes on, `flow_picture` takes a run that is over.
What the generators tell of arrivals comes first; where they are silent the receiver's sockets (TCP_INFO) say it.
Retransmits, round trip and window come from the sender's sockets, which tell them whatever the generator's version.
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

SHORTEST_STEP = 0.05
"""Seconds between two looks at the sockets: less makes no rate."""


@dataclass(frozen=True)
class Arrival:
    """What arrived in one interval. Times are seconds on the axis of the run."""

    time: float
    """Its end."""
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
    """How the connections of the sender stood in one interval. None: not told."""

    time: float
    """Its end."""
    seconds: float
    retransmits: int | None = None
    """Segments, in this interval."""
    rtt: int | None = None
    """µs, of the slowest connection."""
    congestion_window: int | None = None
    """Bytes, of all connections."""


@dataclass(frozen=True, eq=False)
class FlowView:
    """One direction."""

    sender: str
    receiver: str
    """Hosts."""
    side: Side
    """The end that sends."""
    arrivals: tuple[Arrival, ...] = ()
    """By time; what is omitted ends at 0 or before."""
    sendings: tuple[SenderState, ...] = ()
    """By time."""
    by_sockets: bool = False
    """`arrivals` come from TCP_INFO, because the generator says nothing meanwhile."""
    flow: Flow | None = None
    """Its totals, once the run is over."""
    figures: SocketFigures | None = None
    """The sender's connections over what counts, once the run is over."""

    @property
    def words(self) -> str:
        """``a → b``, clean."""
        return f"{clean(self.sender)} → {clean(self.receiver)}"


class Timed(Protocol):
    """A dataclass that has an end on the axis of the run."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def time(self) -> float: ...


T = TypeVar("T", bound=Timed)
BY_TIME = attrgetter("time")


class SampleBuffer(Generic[T]):
    """A series that grows. `all` is the same object while nothing is added: who draws it sees that nothing is new."""

    def __init__(self) -> None:
        self._items: list[T] = []
        self._all: tuple[T, ...] | None = ()

    def add(self, item: T) -> None:
        insort(self._items, item, key=BY_TIME)
        self._all = None

    def shift(self, seconds: float) -> None:
        """All of them are that much later than was thought."""
        self._items = [replace(item, time=item.time + seconds) for item in self._items]
        self._all = None

    @property
    def all(self) -> tuple[T, ...]:
        """By time."""
        if self._all is None:
            self._all = tuple(self._items)
        return self._all


class FlowWatch:
    """Gathers one direction while it goes on."""

    def __init__(self, sender: str, receiver: str, side: Side) -> None:
        self.sender, self.receiver, self.side = sender, receiver, side
        self._arrived = SampleBuffer[Arrival]()
        self._sent = SampleBuffer[Arrival]()
        self._told = SampleBuffer[SenderState]()
        self.forget_sockets()

    def forget_sockets(self) -> None:
        """Where the axis was thought to begin it does not."""
        self._arrived_by_sockets = SampleBuffer[Arrival]()
        self._seen = SampleBuffer[SenderState]()
        self._taking: _Sockets | None = None
        self._giving: _Sockets | None = None

    def measure(self, time: float, interval: Interval) -> None:
        """An interval of one of its ends that ends at `time`."""
        arrival = _arrival(time, interval)
        if not interval.sends:
            self._arrived.add(arrival)
            return
        self._sent.add(arrival)
        sending = _sending(time, interval)
        if sending is not None:
            self._told.add(sending)

    def look(self, side: Side, time: float, sockets: Sequence[TrafficSocket]) -> None:
        """The connections of one end, at `time`."""
        if side == self.side:
            now = _Sockets(time, _data(sockets, sends=True))
            if self._giving is not None and time - self._giving.time >= SHORTEST_STEP:
                sending = now.sending_since(self._giving)
                if sending is not None:
                    self._seen.add(sending)
            if self._giving is None or time - self._giving.time >= SHORTEST_STEP:
                self._giving = now
        else:
            now = _Sockets(time, _data(sockets, sends=False))
            if self._taking is not None and time - self._taking.time >= SHORTEST_STEP:
                self._arrived_by_sockets.add(now.arrival_since(self._taking))
            if self._taking is None or time - self._taking.time >= SHORTEST_STEP:
                self._taking = now

    def picture(self, over: FlowView | None = None) -> FlowView:
        """As it stands; `over`: the same direction of the result, whose own points are the final ones."""
        told = self._arrived.all or self._sent.all
        arrivals = (over.arrivals if over is not None else ()) or told or self._arrived_by_sockets.all
        sendings = (over.sendings if over is not None else ()) or self._seen.all or self._told.all
        return FlowView(
            self.sender,
            self.receiver,
            self.side,
            arrivals,
            sendings,
            by_sockets=not told and bool(arrivals) and (over is None or not over.arrivals),
            flow=over.flow if over is not None else None,
            figures=over.figures if over is not None else None,
        )


def flow_picture(flow: Flow, side: Side, figures: Iterable[SocketFigures] = ()) -> FlowView:
    """A direction of a run that is over. `figures`: of the senders of the run."""
    return FlowView(
        flow.sender,
        flow.receiver,
        side,
        tuple(sorted((_arrival(point.time, point.interval) for point in flow.points), key=BY_TIME)),
        tuple(sorted(_sendings(flow.sent_points or flow.points), key=BY_TIME)),
        flow=flow,
        figures=next((one for one in figures if one.host == flow.sender), None),
    )


def _arrival(time: float, one: Interval) -> Arrival:
    return Arrival(time, one.seconds, one.bits_per_second, one.packets, one.lost, one.jitter)


def _sendings(points: Iterable[IntervalPoint]) -> Iterable[SenderState]:
    """Of points that the sender told; a receiver knows nothing of it."""
    for point in points:
        one = _sending(point.time, point.interval)
        if one is not None:
            yield one


def _sending(time: float, one: Interval) -> SenderState | None:
    if not one.sends or (one.retransmits, one.rtt, one.congestion_window) == (None, None, None):
        return None
    return SenderState(time, one.seconds, one.retransmits, one.rtt, one.congestion_window)


def with_sockets(
    points: Iterable[IntervalPoint], looks: Iterable[tuple[float, Sequence[TrafficSocket]]], reach: float
) -> tuple[IntervalPoint, ...]:
    """Intervals of a sender with what its generator did not tell of them, from its sockets. `looks`: (when, on the axis
    of the run, the connections), by time; `reach`: seconds that may lie between an interval's end and a look."""
    seen = [_Sockets(time, _data(sockets, sends=True)) for time, sockets in looks]
    times = [one.time for one in seen]
    found = []
    for point in points:
        after = bisect_left(times, point.time)
        near = [
            index for index in (after - 1, after) if 0 <= index < len(seen) and abs(times[index] - point.time) <= reach
        ]
        index = min(near, key=lambda index: abs(times[index] - point.time), default=None)
        found.append(point if index is None else _with_look(point, seen[index], seen[index - 1] if index else None))
    return tuple(found)


def _with_look(point: IntervalPoint, look: _Sockets, before: _Sockets | None) -> IntervalPoint:
    sending, one = look.sending_since(before), point.interval
    if sending is None:
        return point
    filled = replace(
        one,
        retransmits=sending.retransmits if one.retransmits is None else one.retransmits,
        rtt=sending.rtt if one.rtt is None else one.rtt,
        congestion_window=sending.congestion_window if one.congestion_window is None else one.congestion_window,
    )
    return replace(point, interval=filled)


def _data(sockets: Sequence[TrafficSocket], *, sends: bool) -> tuple[TrafficSocket, ...]:
    """Connections that carry payload in this direction: not the one that controls the run, nor those of the other
    direction, which move next to nothing this way."""
    moved = {one.inode: _moved(one, sends) for one in sockets if _moved(one, sends) > _moved(one, not sends)}
    least = min(max(moved.values(), default=0), CONTROL_BYTES)
    return tuple(one for one in sockets if moved.get(one.inode, -1) >= least)


def _moved(one: TrafficSocket, sends: bool) -> int:
    return (one.bytes_acked if sends else one.bytes_received) or 0


class _Sockets:
    """The data connections of one end at one moment."""

    def __init__(self, time: float, sockets: tuple[TrafficSocket, ...]) -> None:
        self.time = time
        self.by_inode = {one.inode: one for one in sockets}

    def arrival_since(self, before: _Sockets) -> Arrival:
        seconds = self.time - before.time
        size = 0
        for inode, one in self.by_inode.items():
            old = before.by_inode.get(inode)
            size += max(0, _moved(one, False) - (_moved(old, False) if old is not None else 0))
        return Arrival(self.time, seconds, 8 * size / seconds)

    def sending_since(self, before: _Sockets | None) -> SenderState | None:
        """None while there is no connection with data. `before`: None for the first look."""
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
