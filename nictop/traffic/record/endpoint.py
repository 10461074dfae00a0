"""The state of one end of a run: the output of its generator so far, in order.

Reads nothing; takes the `TrafficLine`s of one child process of a probe.
"""

from __future__ import annotations

from nictop.probe.kernel.exits import exit_text
from nictop.probe.records import (
    RefusedSender,
    StorageActivity,
    TrafficLine,
    TrafficPath,
    TrafficSocket,
    TrafficTools,
    WorkloadReport,
)
from nictop.traffic.generators import OutputParser, Side
from nictop.traffic.generators.intervals import ErrorMessage, GeneratorOutput, Interval, Total
from nictop.traffic.record.strangers import is_stranger

KILLED_BY_OTHERS = (2, 9, 15, 24)
"""SIGINT, SIGKILL, SIGTERM, SIGXCPU"""
EXEC_STATUSES = (126, 127)
"""Of a program that cannot be executed, or whose libraries are missing (execve(2), ld.so(8))."""
MAX_STDERR_CHARACTERS = 500
"""Of one line."""


class RunEnd:
    """A child process of a probe: the client or the server of a run. Times are seconds of
    CLOCK_MONOTONIC of its host."""

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
        """How it died without a result: a signal, a program that cannot be executed, a full disk;
        "": it did not."""
        self.has_crashed = False
        """Another generator may work where this one died: it was not killed."""
        self.failed = ""
        """Why the probe did not start it, or why it ended without a result; "": it did not fail."""
        self.problems: list[tuple[float, str]] = []
        self.stderr_lines: list[str] = []
        """Lines of its standard error."""
        self.intervals: list[tuple[float, Interval]] = []
        """(time of the line, interval)"""
        self.ways: set[bool] = set()
        """Whether it sends and whether it receives, as its intervals say."""
        self.run_start: float | None = None
        """Start of its run: the earliest time that a line and the end of its interval give, as
        lines may be late but never early."""
        self.omitted = omitted
        """Seconds at the beginning that are not measured, as planned: iperf3 may report the last
        omitted interval as a measured one."""
        self.totals: list[Total] = []
        self.sockets: list[tuple[float, tuple[TrafficSocket, ...]]] = []
        self.threads: list[TrafficLine] = []
        """Samples of the busiest threads of its host."""
        self.pid: int | None = None
        self.remote_cpu: float | None = None
        """Cores that the generator of the other end used, as this one was told."""
        self.begin: WorkloadReport | None = None
        """Of a workload: it has begun."""
        self.work: WorkloadReport | None = None
        """Of a workload: its end."""
        self.storage: tuple[StorageActivity, ...] = ()
        """Of a workload: what block devices and NFS did in the last second with requests."""
        self.measured: float | None = None
        """Seconds of a workload, or of a measurement by hand, from its begin to its end."""
        self.is_interval = False
        """What it measured was chosen in a recording, later."""

    def add_line(self, line: TrafficLine) -> tuple[Interval, ...]:
        """Add a line of its child process; return the intervals that it completes."""
        if line.kind == "output":
            return self._add_output(line)
        if line.kind == "exit":
            return self._add_exit(line)
        if line.kind == "started":
            self.started, self.pid = line.time, line.pid
        elif line.kind == "listening":
            self.listening = True
        elif line.kind == "sockets":
            self.sockets.append((line.time, line.sockets))
            self._add_peers(line.sockets)
        elif line.kind == "threads":
            self.threads.append(line)
        elif line.kind == "failed":
            self._add_failure(line)
        elif line.kind == "work" and line.work is not None:
            self._add_work(line.work)
        return ()

    def begin_by_hand(self, time: float) -> None:
        """A measurement without a command begins."""
        self.started = self.run_start = time

    def end_by_hand(self, time: float) -> None:
        self.ended = time
        if self.started is not None:
            self.measured = max(0.0, time - self.started)

    def _add_work(self, report: WorkloadReport) -> None:
        if report.state == "began":
            self.started = self.run_start = report.time
            self.pid, self.begin = report.pid, report
            return
        if report.state == "running":
            self.storage = report.storage
            return
        self.threads.append(
            TrafficLine(
                report.time,
                self.identity,
                "threads",
                threads=report.threads,
                seconds=report.threads_seconds,
                unreadable=report.threads_unreadable,
            )
        )
        self.work, self.ended, self.measured = report, report.time, max(0.0, report.seconds)

    def _add_output(self, line: TrafficLine) -> tuple[Interval, ...]:
        if self.output is None:
            return ()
        if line.stream == "stderr":
            self.stderr_lines.append(line.text[:MAX_STDERR_CHARACTERS])
        return self._add(line.time, self.output.feed(line.text, line.time))

    def _add_failure(self, line: TrafficLine) -> None:
        self.failed = self.failed or line.text or "failed without an error message"
        if self.started is not None:
            return  # its exit follows
        self.ended = line.time
        if self.failed.startswith("cannot start: "):
            self._set_death(self.failed, has_crashed=True)

    def _add_exit(self, line: TrafficLine) -> tuple[Interval, ...]:
        self.ended = line.time
        if self.begin is not None and self.work is None:  # a workload without a report of its end
            self.measured = max(0.0, line.time - self.begin.time)
        last = self._add(line.time, self.output.finish()) if self.output is not None else ()
        has_died = bool(line.text) or line.signal is not None or line.status in EXEC_STATUSES
        if self.totals:
            return last
        if has_died and not self.failed:
            self._set_death(_exit_text(line), has_crashed=line.signal not in KILLED_BY_OTHERS)
        if not self.problems:
            self.failed = self.failed or _exit_text(line)
        return last

    def _add_peers(self, sockets: tuple[TrafficSocket, ...]) -> None:
        """A connection of another host, and none of the client, while iperf3 has reported none: it
        has sent nothing."""
        if not self.client or self.peer:
            return
        remotes = [socket.remote for socket in sockets if socket.state == "established"]
        if remotes and all(is_stranger(remote, self.client) for remote in remotes):
            self.peer = remotes[0]

    def _set_death(self, text: str, *, has_crashed: bool) -> None:
        self.death, self.has_crashed = text, has_crashed and bool(text)

    @property
    def first_problem(self) -> tuple[float, str] | None:
        """(seconds after its start, text) of its first error message"""
        if not self.problems:
            return None
        time, text = self.problems[0]
        if self.started is None:
            return 0.0, text
        return max(0.0, time - self.started), text

    @property
    def stranger(self) -> str:
        """Of a server: the address that it serves although it is not its client's; "": it does
        not."""
        return self.peer if is_stranger(self.peer, self.client) else ""

    def total(self, *, sends: bool, by_sender: bool) -> Total | None:
        """The total of one direction that its generator reported at the end."""
        for total in self.totals:
            if (total.sends, total.by_sender) == (sends, by_sender):
                return total
        return None

    def _add(self, time: float, outputs: tuple[GeneratorOutput, ...]) -> tuple[Interval, ...]:
        intervals = []
        for output in outputs:
            if isinstance(output, Interval | Total) and self.stranger:
                continue  # not of this run
            if isinstance(output, Interval):
                self.intervals.append((time, output))
                self.ways.add(output.sends)
                self._set_start(time, output)
                intervals.append(output)
            elif isinstance(output, Total):
                self.totals.append(output)
            elif isinstance(output, ErrorMessage):
                self.problems.append((time, output.text))
            elif isinstance(output, RefusedSender):
                self.refused.append(output)
            else:
                self.peer = self.peer or output.peer
                if output.remote_cpu is not None:
                    self.remote_cpu = output.remote_cpu
        return tuple(intervals)

    def _set_start(self, time: float, interval: Interval) -> None:
        omitted = 0.0 if interval.omitted else self.omitted
        start = time - interval.end - omitted
        self.run_start = start if self.run_start is None else min(self.run_start, start)


def _exit_text(line: TrafficLine) -> str:
    """How a child process ended that reported neither a result nor an error; "" if it ended
    normally."""
    if line.signal is not None:
        how = exit_text(-line.signal)
    elif line.status:
        how = exit_text(line.status)
    else:
        return ""
    return f"{how}: {line.text}" if line.text else how
