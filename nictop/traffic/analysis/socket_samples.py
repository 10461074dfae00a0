"""The connections of a run at one time (TCP_INFO), and what two of these samples say: bytes that
arrived, retransmits, round-trip time, windows.

Reads nothing. Retransmits, round trip and window come from the sender's sockets, which report them
whatever the version of the generator.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import median

from nictop.probe.light_dataclasses import replace
from nictop.probe.records import TrafficSocket
from nictop.traffic.generators.intervals import Interval, Total
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.results.result import IntervalPoint, SocketFigures

CONTROL_BYTES = 65536
"""If other connections moved more, one that moved less than this is the control connection of
iperf3."""
COOKIE_BYTES = 37
"""That each connection of iperf3 begins with (COOKIE_SIZE): no payload."""


class SocketsAt:
    """The data connections of one end at one time."""

    def __init__(self, time: float, sockets: tuple[TrafficSocket, ...]) -> None:
        self.time = time
        self.by_inode = {socket.inode: socket for socket in sockets}

    @property
    def retransmits(self) -> int:
        """Segments since the connections were made."""
        return sum(socket.retransmits for socket in self.by_inode.values())

    @property
    def most_received(self) -> int:
        """Bytes, of the connection that has received most."""
        return max((_moved(socket, False) for socket in self.by_inode.values()), default=0)

    def arrived_since(self, before: SocketsAt) -> Interval:
        seconds = self.time - before.time
        size = self._moved_since(before, sends=False)
        return Interval(0.0, seconds, 8 * size / seconds, sends=False)

    def sent_since(self, before: SocketsAt | None) -> Interval | None:
        """With the state of the sockets; None if there is no connection with data. `before`: None
        for the first sample."""
        if not self.by_inode:
            return None
        if before is None:
            before = SocketsAt(self.time, ())
        seconds = self.time - before.time
        size = self._moved_since(before, sends=True)
        sockets = self.by_inode.values()
        return Interval(
            0.0,
            seconds,
            8 * size / seconds if seconds > 0 else 0.0,
            sends=True,
            streams=len(sockets),
            retransmits=retransmitted_since(before.by_inode.values(), sockets),
            rtt=max(socket.rtt for socket in sockets),
            congestion_window=sum(socket.congestion_window * socket.snd_mss for socket in sockets),
        )

    def _moved_since(self, before: SocketsAt, *, sends: bool) -> int:
        """Bytes in one direction, of all connections."""
        size = 0
        for inode, socket in self.by_inode.items():
            old = before.by_inode.get(inode)
            old_size = _moved(old, sends) if old is not None else 0
            size += max(0, _moved(socket, sends) - old_size)
        return size


def data_sockets(sockets: Sequence[TrafficSocket], *, sends: bool) -> tuple[TrafficSocket, ...]:
    """Connections that carry payload in this direction: without the control connection, and without
    those of the other direction, which move few bytes in this one."""
    moved = {}
    for socket in sockets:
        size = _moved(socket, sends)
        if size > _moved(socket, not sends):
            moved[socket.inode] = size
    least = min(max(moved.values(), default=0), CONTROL_BYTES)
    return tuple(socket for socket in sockets if moved.get(socket.inode, -1) >= least)


def retransmitted_since(before: Iterable[TrafficSocket], after: Iterable[TrafficSocket]) -> int:
    """Segments, of all connections of the second sample together."""
    known = {socket.inode: socket.retransmits for socket in before}
    return sum(max(0, socket.retransmits - known.get(socket.inode, 0)) for socket in after)


def carry_payload(sockets: Sequence[TrafficSocket], *, has_control: bool) -> bool:
    """Payload was moved. `has_control`: one of the connections is the control connection of iperf3,
    which moves bytes before any payload."""
    moved = sorted(max(_moved(socket, True), _moved(socket, False)) for socket in sockets)
    if not has_control:
        return bool(moved) and moved[-1] > 0
    return len(moved) > 1 and moved[-2] > COOKIE_BYTES


def _moved(socket: TrafficSocket, sends: bool) -> int:
    """Bytes in one direction; 0: not reported."""
    size = socket.bytes_acked if sends else socket.bytes_received
    return size or 0


def moved_bytes(end: RunEnd, *, sends: bool, has_control: bool) -> int:
    """Payload in one direction until the last sample of each connection of an end: received, or
    acknowledged by the other end. `has_control`: as in `carry_payload`."""
    sizes: dict[int, int] = {}
    carries = False
    for _, sockets in end.sockets:
        carries = carries or carry_payload(sockets, has_control=has_control)
        for socket in sockets:
            sizes[socket.inode] = max(sizes.get(socket.inode, 0), _moved(socket, sends))
    return sum(sizes.values()) if carries else 0


def acknowledged_total(end: RunEnd, since: float, until: float, seconds: float) -> Total | None:
    """What the TCP of the other end has acknowledged between two times of the host of a sender, as
    the total of a receiver that measured `seconds`; None: there are fewer than two samples."""
    samples = []
    for time, sockets in end.sockets:
        if since <= time <= until:
            samples.append(SocketsAt(time, data_sockets(sockets, sends=True)))
    samples = [sample for sample in samples if sample.by_inode]
    if len(samples) < 2 or samples[-1].time <= samples[0].time:
        return None
    interval = samples[-1].sent_since(samples[0])
    if interval is None:
        return None
    return Total(
        sends=False, by_sender=False, seconds=seconds, bits_per_second=interval.bits_per_second
    )


def fill_from_sockets(
    points: Iterable[IntervalPoint],
    samples: Iterable[tuple[float, Sequence[TrafficSocket]]],
    reach: float,
) -> tuple[IntervalPoint, ...]:
    """Points of a sender, with values that its generator did not report from its sockets.
    `samples`: (time on the axis of the run, connections), in order of time; `reach`: maximum
    seconds between the end of an interval and a sample."""
    known = [SocketsAt(time, data_sockets(sockets, sends=True)) for time, sockets in samples]
    times = [sample.time for sample in known]
    found = []
    for point in points:
        index = _nearest(times, point.time, reach)
        if index is None:
            found.append(point)
            continue
        before = known[index - 1] if index else None
        found.append(_fill_point(point, known[index], before))
    return tuple(found)


def _nearest(times: Sequence[float], time: float, reach: float) -> int | None:
    """Index of the time that is closest to this one; None: none is within `reach` seconds."""
    after = bisect_left(times, time)
    distances = []
    for index in (after - 1, after):
        if 0 <= index < len(times):
            distances.append((abs(times[index] - time), index))
    distance, index = min(distances, default=(math.inf, 0))
    return index if distance <= reach else None


def _fill_point(point: IntervalPoint, sample: SocketsAt, before: SocketsAt | None) -> IntervalPoint:
    sending, interval = sample.sent_since(before), point.interval
    if sending is None:
        return point
    if interval.retransmits is None:
        interval = replace(interval, retransmits=sending.retransmits)
    if interval.rtt is None:
        interval = replace(interval, rtt=sending.rtt)
    if interval.congestion_window is None:
        interval = replace(interval, congestion_window=sending.congestion_window)
    return replace(point, interval=interval)


def socket_figures(end: RunEnd, since: float, until: float) -> SocketFigures | None:
    """Figures of the data connections of a sender between two times of its host; None if there are
    no samples."""
    samples = _samples_with_payload(end, since, until)
    if not samples:
        return None
    first, last = samples[0], samples[-1]
    all_sockets = list(chain.from_iterable(samples))
    windows = [sum(socket.congestion_window for socket in sockets) for sockets in samples]
    return SocketFigures(
        end.host,
        rtt=round(median(socket.rtt for socket in all_sockets)),
        snd_mss=min(socket.snd_mss for socket in all_sockets),
        congestion_window=round(median(windows)),
        send_window=_send_window(samples),
        window_limited=_limited_share(first, last, "window_limited"),
        buffer_limited=_limited_share(first, last, "buffer_limited"),
        congestion_control=last[0].congestion_control or None,
    )


def _samples_with_payload(
    end: RunEnd, since: float, until: float
) -> list[tuple[TrafficSocket, ...]]:
    """The data connections of an end at each time between two of its host; without samples that
    have none."""
    samples = []
    for time, sockets in end.sockets:
        if since <= time <= until:
            samples.append(_sockets_with_payload(sockets))
    return [sockets for sockets in samples if sockets]


def _send_window(samples: Sequence[Sequence[TrafficSocket]]) -> int | None:
    """Median of the sum over all connections, in bytes; None: the kernel is older than Linux
    5.4."""
    known = []
    for sockets in samples:
        windows = [socket.send_window for socket in sockets if socket.send_window is not None]
        if len(windows) == len(sockets):
            known.append(sum(windows))
    if not known:
        return None
    return round(median(known))


def socket_retransmits(end: RunEnd, since: float, until: float) -> int | None:
    """Segments that were retransmitted between two times of its host; None if there are fewer than
    two samples."""
    samples = _samples_with_payload(end, since, until)
    if len(samples) < 2:
        return None
    return retransmitted_since(samples[0], samples[-1])


def _sockets_with_payload(sockets: tuple[TrafficSocket, ...]) -> tuple[TrafficSocket, ...]:
    """The sockets without the control connection and the listening socket."""
    moved = [_moved(socket, True) + _moved(socket, False) for socket in sockets]
    least = min(max(moved, default=0), CONTROL_BYTES)
    found = []
    for socket, size in zip(sockets, moved, strict=True):
        if size > 0 and size >= least:
            found.append(socket)
    return tuple(found)


def _limited_share(
    first: tuple[TrafficSocket, ...], last: tuple[TrafficSocket, ...], field: str
) -> float | None:
    """Share of the time with data to send, of all connections together; None if the kernel does not
    report it."""
    before = {socket.inode: socket for socket in first}
    limited = busy_time = 0
    for socket in last:
        current = getattr(socket, field)
        if current is None or socket.busy_time is None:
            return None
        limited += current
        busy_time += socket.busy_time
        old = before.get(socket.inode)
        if old is not None:
            limited -= getattr(old, field) or 0
            busy_time -= old.busy_time or 0
    if busy_time <= 0:
        return None
    return limited / busy_time
