"""One direction of a run so far: what arrived in each interval, and the state of the sender's TCP.

Reads nothing; takes both ends as they are in the record of the run. Arrivals are those that
generators report; if they report none, those of the receiver's sockets (TCP_INFO). Retransmits,
round trip and window come from the sender's sockets, which report them whatever the version of the
generator; the result has them once for each interval of the generator, and the retransmits that
the generator counted in all, until its last interval.
"""

from __future__ import annotations

from collections.abc import Mapping

from nictop.probe.light_dataclasses import dataclass
from nictop.traffic.analysis.socket_samples import SocketsAt, carry_payload, data_sockets
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.live.series import Series
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import FlowGroup, run_time
from nictop.traffic.results.result import Flow, IntervalPoint

MIN_SOCKET_INTERVAL = 0.05
"""Seconds between two samples of the sockets that make a rate."""
MESSAGE_BYTES = 1024
"""More than the cookie and the options, a JSON object, that iperf3 sends over its control
connection before any payload (iperf_api.c: send_parameters)."""


@dataclass(frozen=True)
class FlowNow:
    """What a result does not have of one direction."""

    by_sockets: bool = False
    """Its points are of the receiver's sockets: they are dropped as soon as a generator reports its
    own."""
    by_sender: bool = False
    """Its points are what the sender's generator has sent: they are dropped as soon as that of the
    receiver reports what arrived."""
    earlier_retransmits: int = 0
    """Segments before the first of its points at the sender: of connections whose first sample is
    not a point."""


class FlowSoFar:
    """One direction. Each interval and each sample is read once."""

    def __init__(self, group: FlowGroup, side: Side) -> None:
        """`side`: the sending end."""
        sender = group.ends[side]
        receiver = group.ends["server" if side == "client" else "client"]
        self._sender, self._receiver = sender.host, receiver.host
        self._arrived = _ReportedPoints(receiver, sends=False)
        self._sent = _ReportedPoints(sender, sends=True)
        has_control = group.plan.generator == "iperf3"
        self._arrived_by_sockets = _SocketPoints(receiver, sends=False, has_control=has_control)
        self._sent_by_sockets = _SocketPoints(sender, sends=True, has_control=has_control)
        self._has_sockets = group.plan.protocol == "tcp"
        """Of UDP there is only the control connection."""

    def read(self, axes: Mapping[str, float]) -> None:
        """Add what was reported since the last call. `axes`: host → start of the axis on its
        clock."""
        for end, reported, sampled in (
            (self._receiver, self._arrived, self._arrived_by_sockets),
            (self._sender, self._sent, self._sent_by_sockets),
        ):
            if end not in axes:  # it is not watched
                continue
            reported.read(axes[end])
            if self._has_sockets:
                sampled.read(axes[end])

    def flow(self) -> Flow:
        points = self._reported or self._arrived_by_sockets.series.all
        sent_points = self._sent_by_sockets.series.all or self._sent.series.all
        return Flow(self._sender, self._receiver, None, None, points, None, sent_points)

    def now(self) -> FlowNow:
        sampled = self._sent_by_sockets
        return FlowNow(
            by_sender=not self._arrived.series.all and bool(self._sent.series.all),
            by_sockets=not self._reported and bool(self._arrived_by_sockets.series.all),
            earlier_retransmits=sampled.earlier_retransmits if sampled.series.all else 0,
        )

    @property
    def _reported(self) -> tuple[IntervalPoint, ...]:
        return self._arrived.series.all or self._sent.series.all


class _ReportedPoints:
    """The intervals of one direction that the generator of one end reports."""

    def __init__(self, end: RunEnd, *, sends: bool) -> None:
        self._end, self._sends = end, sends
        self._read = 0
        """Number of its intervals that were read."""
        self.series = Series[IntervalPoint]()

    def read(self, axis: float) -> None:
        end = self._end
        if end.run_start is None:
            return
        self.series.place(axis - end.run_start)
        for _, interval in end.intervals[self._read :]:
            if interval.sends == self._sends:
                time = run_time(end, interval) - self.series.origin
                self.series.add(IntervalPoint(time, interval))
        self._read = len(end.intervals)


class _SocketPoints:
    """What two samples of the sockets of one end say of the time between them."""

    def __init__(self, end: RunEnd, *, sends: bool, has_control: bool) -> None:
        self._end, self._sends, self._has_control = end, sends, has_control
        self._read = 0
        """Number of its samples that were read."""
        self._last: SocketsAt | None = None
        """None: none has carried payload."""
        self.earlier_retransmits = 0
        self._has_arrived = False
        """Payload was received."""
        self.series = Series[IntervalPoint]()

    def read(self, axis: float) -> None:
        self.series.place(axis)
        for time, sockets in self._end.sockets[self._read :]:
            if self._last is None and not carry_payload(sockets, has_control=self._has_control):
                continue
            self._add(SocketsAt(time, data_sockets(sockets, sends=self._sends)))
        self._read = len(self._end.sockets)

    def _add(self, sample: SocketsAt) -> None:
        last = self._last
        if last is None:
            self._last, self.earlier_retransmits = sample, sample.retransmits
            return
        if sample.time - last.time < MIN_SOCKET_INTERVAL:
            return
        self._last = sample
        interval = sample.sent_since(last) if self._sends else self._arrived(last, sample)
        if interval is not None:
            self.series.add(IntervalPoint(sample.time - self.series.origin, interval))

    def _arrived(self, last: SocketsAt, sample: SocketsAt) -> Interval | None:
        """None: no payload was received yet, but that of the other direction was sent."""
        least = MESSAGE_BYTES if self._has_control else 0
        self._has_arrived = self._has_arrived or sample.most_received > least
        return sample.arrived_since(last) if self._has_arrived else None
