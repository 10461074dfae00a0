"""The state of one end of a run: the output of its generator so far, in order.

Reads nothing; takes the `TrafficLine`s of one child process of a probe.
"""

from __future__ import annotations

from statistics import median

from nictop.model.rates.links import sum_known
from nictop.probe.kernel.exits import exit_text
from nictop.probe.records import RefusedSender, TrafficLine, TrafficPath, TrafficSocket, TrafficTools
from nictop.traffic.generators import OutputParser, Side
from nictop.traffic.generators.intervals import ErrorMessage, GeneratorOutput, Interval, Total
from nictop.traffic.results.result import SocketFigures
from nictop.traffic.run.strangers import is_stranger

CONTROL_BYTES = 65536
"""If other connections moved more, one that moved less than this is the control connection of iperf3."""
KILLED_BY_OTHERS = (2, 9, 15, 24)
"""SIGINT, SIGKILL, SIGTERM, SIGXCPU"""
EXEC_STATUSES = (126, 127)
"""Of a program that cannot be executed, or whose libraries are missing (execve(2), ld.so(8))."""
MAX_STDERR_CHARACTERS = 500
"""Of one line."""


class RunEnd:
    """A child process of a probe: the client or the server of a run. Times are seconds of CLOCK_MONOTONIC of its
    host."""

    def __init__(self, side: Side, host: str, identity: str, omitted: int = 0) -> None:
        self.side, self.host, self.identity = side, host, identity
        self.client = ""
        """Of a server that serves anybody (iperf3): the address of its client; "": not known."""
        self.peer = ""
        """Of a server: the address that it serves, as reported, or by its connections."""
        self.refused: list[RefusedSender] = []
        """Of a server: who came to it, but is not its client."""
        self.tools: TrafficTools | None = None
        self.path: TrafficPath | None = None
        """The route of its host to the other end; requested only if no connection was made."""
        self.output: OutputParser | None = None
        self.started: float | None = None
        self.listening = False
        self.ended: float | None = None
        """Time of its "exit" or "failed" line."""
        self.death = ""
        """How it died without a result: a signal, a program that cannot be executed, a full disk; "": it did not."""
        self.has_crashed = False
        """Another generator may work where this one died: it was not killed."""
        self.failed = ""
        """Why the probe did not start it, or why it ended without a result; "": it did not fail."""
        self.problems: list[tuple[float, str]] = []
        self.stderr_lines: list[str] = []
        """Lines of its standard error."""
        self.intervals: list[tuple[float, Interval]] = []
        """(time of the line, interval)"""
        self.run_start: float | None = None
        """Start of its run: the earliest time that a line and the end of its interval give, as lines may be late but
        never early."""
        self.omitted = omitted
        """Seconds at the beginning that are not measured, as planned: iperf3 may report the last omitted interval as a
        measured one."""
        self.totals: list[Total] = []
        self.sockets: list[tuple[float, tuple[TrafficSocket, ...]]] = []
        self.threads: list[TrafficLine] = []
        """Samples of the busiest threads of its host."""
        self.pid: int | None = None

    def add_line(self, line: TrafficLine) -> tuple[Interval, ...]:
        """Add a line of its child process; return the intervals that it completes."""
        if line.kind == "started":
            self.started, self.pid = line.time, line.pid
        elif line.kind == "listening":
            self.listening = True
        elif line.kind == "sockets":
            self.sockets.append((line.time, line.sockets))
            self._add_peers(line.sockets)
        elif line.kind == "threads":
            self.threads.append(line)
        elif line.kind == "output" and self.output is not None:
            if line.stream == "stderr":
                self.stderr_lines.append(line.text[:MAX_STDERR_CHARACTERS])
            return self._add(line.time, self.output.feed(line.text))
        elif line.kind == "failed":
            self.failed = self.failed or line.text or "failed without an error message"
            if self.started is None:
                self.ended = line.time
                if self.failed.startswith("cannot start: "):
                    self._set_death(self.failed, has_crashed=True)
        elif line.kind == "exit":
            self.ended = line.time
            last = self._add(line.time, self.output.finish()) if self.output is not None else ()
            has_died = bool(line.text) or line.signal is not None or line.status in EXEC_STATUSES
            if has_died and not self.totals and not self.failed:
                self._set_death(_exit_text(line), has_crashed=line.signal not in KILLED_BY_OTHERS)
            if not self.totals and not self.problems:
                self.failed = self.failed or _exit_text(line)
            return last
        return ()

    def _add_peers(self, sockets: tuple[TrafficSocket, ...]) -> None:
        """A connection of another host, and none of the client, while iperf3 has reported none: it has sent nothing."""
        remotes = [one.remote for one in sockets if one.state == "established"]
        if self.client and not self.peer and remotes and all(is_stranger(one, self.client) for one in remotes):
            self.peer = remotes[0]

    def _set_death(self, text: str, *, has_crashed: bool) -> None:
        self.death, self.has_crashed = text, has_crashed and bool(text)

    @property
    def first_problem(self) -> tuple[float, str] | None:
        """(seconds after its start, text) of its first error message"""
        if not self.problems:
            return None
        time, text = self.problems[0]
        return max(0.0, time - (self.started if self.started is not None else time)), text

    @property
    def stranger(self) -> str:
        """Of a server: the address that it serves although it is not its client's; "": it does not."""
        return self.peer if is_stranger(self.peer, self.client) else ""

    def total(self, *, sends: bool, by_sender: bool) -> Total | None:
        """The total of one direction that its generator reported at the end."""
        return next((one for one in self.totals if (one.sends, one.by_sender) == (sends, by_sender)), None)

    def _add(self, time: float, outputs: tuple[GeneratorOutput, ...]) -> tuple[Interval, ...]:
        found = []
        for one in outputs:
            if isinstance(one, Interval | Total) and self.stranger:
                continue  # not of this run
            if isinstance(one, Interval):
                self.intervals.append((time, one))
                self._set_start(time, one)
                found.append(one)
            elif isinstance(one, Total):
                self.totals.append(one)
            elif isinstance(one, ErrorMessage):
                self.problems.append((time, one.text))
            elif isinstance(one, RefusedSender):
                self.refused.append(one)
            else:
                self.peer = self.peer or one.peer
        return tuple(found)

    def _set_start(self, time: float, one: Interval) -> None:
        start = time - one.end - (0.0 if one.omitted else self.omitted)
        self.run_start = start if self.run_start is None else min(self.run_start, start)


def _exit_text(line: TrafficLine) -> str:
    """How a child process ended that reported neither a result nor an error; "" if it ended normally."""
    why = f": {line.text}" if line.text else ""
    if line.signal is not None:
        return f"{exit_text(-line.signal)}{why}"
    return f"{exit_text(line.status)}{why}" if line.status else ""


def socket_figures(end: RunEnd, since: float, until: float) -> SocketFigures | None:
    """Figures of the data connections of a sender between two times of its host; None if there are no samples."""
    samples = [(time, _data_sockets(sockets)) for time, sockets in end.sockets if since <= time <= until]
    samples = [(time, sockets) for time, sockets in samples if sockets]
    if not samples:
        return None
    first, last = samples[0][1], samples[-1][1]
    all_sockets = [one for _, sockets in samples for one in sockets]
    return SocketFigures(
        end.host,
        rtt=round(median(one.rtt for one in all_sockets)),
        snd_mss=min(one.snd_mss for one in all_sockets),
        congestion_window=round(median(sum(one.congestion_window for one in sockets) for _, sockets in samples)),
        send_window=_send_window(samples),
        window_limited=_limited_share(first, last, "window_limited"),
        buffer_limited=_limited_share(first, last, "buffer_limited"),
        congestion_control=last[0].congestion_control or None,
    )


def _send_window(samples: list[tuple[float, tuple[TrafficSocket, ...]]]) -> int | None:
    """Median of the sum over all connections, in bytes; None: the kernel is older than Linux 5.4."""
    windows_of_samples = [[one.send_window for one in sockets] for _, sockets in samples]
    known = [sum(filter(None, windows)) for windows in windows_of_samples if None not in windows]
    return round(median(known)) if known else None


def socket_retransmits(end: RunEnd, since: float, until: float) -> int | None:
    """Segments that were retransmitted between two times of its host; None if there are fewer than two samples."""
    samples = [_data_sockets(sockets) for time, sockets in end.sockets if since <= time <= until]
    samples = [sockets for sockets in samples if sockets]
    if len(samples) < 2:
        return None
    before = {one.inode: one.retransmits for one in samples[0]}
    return sum_known(max(0, one.retransmits - before.get(one.inode, 0)) for one in samples[-1])


def _data_sockets(sockets: tuple[TrafficSocket, ...]) -> tuple[TrafficSocket, ...]:
    """The sockets without the control connection and the listening socket."""
    moved = {one.inode: (one.bytes_acked or 0) + (one.bytes_received or 0) for one in sockets}
    max_moved = max(moved.values(), default=0)
    return tuple(one for one in sockets if moved[one.inode] >= min(max_moved, CONTROL_BYTES) and moved[one.inode] > 0)


def _limited_share(first: tuple[TrafficSocket, ...], last: tuple[TrafficSocket, ...], field: str) -> float | None:
    """Share of the time with data to send, of all connections together; None if the kernel does not report it."""
    before = {one.inode: one for one in first}
    limited = busy_time = 0
    for one in last:
        old = before.get(one.inode)
        current, previous = getattr(one, field), getattr(old, field) if old is not None else 0
        if current is None or one.busy_time is None:
            return None
        limited += current - (previous or 0)
        busy_time += one.busy_time - ((old.busy_time or 0) if old is not None else 0)
    return limited / busy_time if busy_time > 0 else None
