"""One end of a run while it goes on: what its generator has said so far, put in order.

Reads nothing; takes the `TrafficLine`s of one child.
"""

from __future__ import annotations

from statistics import median

from nictop.probe.records import TrafficLine, TrafficPath, TrafficSocket, TrafficTools
from nictop.traffic.generators import Output, Side
from nictop.traffic.generators.intervals import Detail, GeneratorOutput, Interval, Problem, Total, total_of
from nictop.traffic.results.result import SocketFigures

CONTROL_BYTES = 65536
"""A connection that moved less beside one that moved much more is iperf3's control connection."""


class RunEnd:
    """A child of a probe: the client or the server of a run. Times are those of its host."""

    def __init__(self, side: Side, host: str, identity: str, omitted: int = 0) -> None:
        self.side, self.host, self.identity = side, host, identity
        self.tools: TrafficTools | None = None
        self.path: TrafficPath | None = None
        """How its host reaches the other end; asked only when no connection was made."""
        self.output: Output | None = None
        self.started: float | None = None
        self.listening = False
        self.ended: float | None = None
        """When its "exit" or "failed" came."""
        self.failed = ""
        """Why the probe did not start it, or ended it."""
        self.problems: list[tuple[float, str]] = []
        self.complaints: list[str] = []
        """Lines of stderr."""
        self.intervals: list[tuple[float, Interval]] = []
        """(when the line came, on its host's clock)"""
        self.anchor: float | None = None
        """When its run began, on its host's clock: no line comes before its interval is over, and the quickest line
        tells it best."""
        self.omitted = omitted
        """Seconds at the beginning that do not count. What the intervals say of it is not sure: iperf3 may end the last
        of them too late, as one that counts."""
        self.totals: list[Total] = []
        self.details: list[Detail] = []
        self.sockets: list[tuple[float, tuple[TrafficSocket, ...]]] = []
        self.threads: list[TrafficLine] = []
        """Readings of the busiest threads of its host."""
        self.pid: int | None = None

    def take(self, line: TrafficLine) -> tuple[Interval, ...]:
        """One line of its child; the intervals that it completes."""
        if line.kind == "started":
            self.started, self.pid = line.time, line.pid
        elif line.kind == "listening":
            self.listening = True
        elif line.kind == "sockets":
            self.sockets.append((line.time, line.sockets))
        elif line.kind == "threads":
            self.threads.append(line)
        elif line.kind == "output" and self.output is not None:
            if line.stream == "stderr":
                self.complaints.append(line.text[:500])
            return self._sort(line.time, self.output.feed(line.text))
        elif line.kind == "failed":
            self.failed = self.failed or line.text or "it failed without a word"
            if self.started is None:
                self.ended = line.time
        elif line.kind == "exit":
            self.ended = line.time
            last = self._sort(line.time, self.output.finish()) if self.output is not None else ()
            if not self.totals and not self.problems:
                self.failed = self.failed or _cut_off(line)
            return last
        return ()

    @property
    def first_problem(self) -> tuple[float, str] | None:
        """(seconds after its start, text)"""
        if not self.problems:
            return None
        time, text = self.problems[0]
        return max(0.0, time - (self.started if self.started is not None else time)), text

    def total(self, *, sends: bool, by_sender: bool) -> Total | None:
        """What its generator told at the end of one direction."""
        return next((one for one in self.totals if (one.sends, one.by_sender) == (sends, by_sender)), None)

    def _sort(self, time: float, said: tuple[GeneratorOutput, ...]) -> tuple[Interval, ...]:
        found = []
        for one in said:
            if isinstance(one, Interval):
                self.intervals.append((time, one))
                self._place(time, one)
                found.append(one)
            elif isinstance(one, Total):
                self.totals.append(one)
            elif isinstance(one, Problem):
                self.problems.append((time, one.text))
            else:
                self.details.append(one)
        return tuple(found)

    def _place(self, time: float, one: Interval) -> None:
        begun = time - one.end - (0.0 if one.omitted else self.omitted)
        self.anchor = begun if self.anchor is None else min(self.anchor, begun)


def _cut_off(line: TrafficLine) -> str:
    """How a child ended that has told neither a result nor a reason; "" when it did so as if all were well."""
    if line.signal is not None:
        return f"it was ended by signal {line.signal}"
    return f"it ended with status {line.status}" if line.status else ""


def socket_figures(end: RunEnd, since: float, until: float) -> SocketFigures | None:
    """Of the data connections of a sender in a time of its host's clock; None: nothing was read of them."""
    inside = [(time, _data(sockets)) for time, sockets in end.sockets if since <= time <= until]
    inside = [(time, sockets) for time, sockets in inside if sockets]
    if not inside:
        return None
    first, last = inside[0][1], inside[-1][1]
    every = [one for _, sockets in inside for one in sockets]
    return SocketFigures(
        end.host,
        rtt=round(median(one.rtt for one in every)),
        snd_mss=min(one.snd_mss for one in every),
        congestion_window=round(median(sum(one.congestion_window for one in sockets) for _, sockets in inside)),
        send_window=_send_window(inside),
        window_limited=_share(first, last, "window_limited"),
        buffer_limited=_share(first, last, "buffer_limited"),
        congestion_control=last[0].congestion_control or None,
    )


def _send_window(inside: list[tuple[float, tuple[TrafficSocket, ...]]]) -> int | None:
    """Of all connections together, median; None: a kernel before Linux 5.4."""
    offered = [[one.send_window for one in sockets] for _, sockets in inside]
    known = [sum(filter(None, windows)) for windows in offered if None not in windows]
    return round(median(known)) if known else None


def socket_retransmits(end: RunEnd, since: float, until: float) -> int | None:
    """Segments that were sent again in that time."""
    inside = [_data(sockets) for time, sockets in end.sockets if since <= time <= until]
    inside = [sockets for sockets in inside if sockets]
    if len(inside) < 2:
        return None
    before = {one.inode: one.retransmits for one in inside[0]}
    return total_of(max(0, one.retransmits - before.get(one.inode, 0)) for one in inside[-1])


def _data(sockets: tuple[TrafficSocket, ...]) -> tuple[TrafficSocket, ...]:
    """Without the connection that controls the run, and without the listening socket."""
    moved = {one.inode: (one.bytes_acked or 0) + (one.bytes_received or 0) for one in sockets}
    most = max(moved.values(), default=0)
    return tuple(one for one in sockets if moved[one.inode] >= min(most, CONTROL_BYTES) and moved[one.inode] > 0)


def _share(first: tuple[TrafficSocket, ...], last: tuple[TrafficSocket, ...], field: str) -> float | None:
    """Of the time with data to send, of all connections together."""
    before = {one.inode: one for one in first}
    limited = busy = 0
    for one in last:
        old = before.get(one.inode)
        now, then = getattr(one, field), getattr(old, field) if old is not None else 0
        if now is None or one.busy_time is None:
            return None
        limited += now - (then or 0)
        busy += one.busy_time - ((old.busy_time or 0) if old is not None else 0)
    return limited / busy if busy > 0 else None
