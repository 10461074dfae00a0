"""Everything that was recorded of a run, and its axis: the common time of all hosts.

Reads nothing: takes the lines of its generators. A run that runs and one in a recording have the
same record. The axis starts with the measured seconds; omitted seconds are before 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.probe.records import Counters, Link, LossCount, TrafficLine, TrafficSocket
from nictop.traffic.failures import Failure
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.path.result import PathReport
from nictop.traffic.plan.plan import MAX_STREAMS, Direction, RunPlan
from nictop.traffic.record.endpoint import RunEnd

if TYPE_CHECKING:
    from nictop.traffic.hosts.host import RunHost


@dataclass(frozen=True)
class IntervalMeasured:
    """An interval that one end reported."""

    host: str
    time: float | None
    """Time of the line, at or after the end of the interval, seconds on the axis of the run; of a
    bulk flow beside requests, the end of the interval. None: the axis is not known yet."""
    interval: Interval
    side: Side
    """The end that reported it: both may be on one host."""
    load: bool = False
    """Of the bulk flow of a loaded run."""


@dataclass(frozen=True)
class SocketSample:
    """The TCP connections of one end at one time."""

    host: str
    time: float | None
    sockets: tuple[TrafficSocket, ...]
    side: Side


Sample = IntervalMeasured | SocketSample


@dataclass(eq=False)
class FlowGroup:
    """The client and the server of one generator."""

    plan: RunPlan
    """What they run."""
    ends: dict[Side, RunEnd]


def new_group(plan: RunPlan, identity: str) -> FlowGroup:
    """`identity`: of both generators, without the letter of the side."""
    server = RunEnd("server", plan.server.host, f"{identity}s", plan.omit)
    client = RunEnd("client", plan.client.host, f"{identity}c", plan.omit)
    return FlowGroup(plan, {"server": server, "client": client})


def new_groups(plan: RunPlan, identity: str) -> tuple[FlowGroup, ...]:
    """Of a run. `identity`: of the run."""
    letters = ("", "l")
    return tuple(
        new_group(part, f"{identity}-{letter}")
        for part, letter in zip(plan.parts, letters, strict=False)
    )


@dataclass(eq=False)
class RunLog:
    """Everything that was recorded of a run so far."""

    plan: RunPlan
    groups: tuple[FlowGroup, ...]
    """As `plan.parts`. The axis is that of the first one, the result that of the last one."""
    hosts: Mapping[str, RunHost]
    wall: float
    """Start, seconds since the epoch."""
    before: Mapping[str, Counters | None] = field(default_factory=dict)
    """Host → last counter record before the first byte."""
    after: Mapping[str, Counters | None] = field(default_factory=dict)
    """Host → first counter record after the last byte."""
    failure: Failure | None = None
    stopped: float | None = None
    """Measured seconds when the user stopped it; None: it was not stopped."""
    path_test: PathReport | None = None
    tested: float | None = None
    """End of the path test, seconds of this machine's CLOCK_MONOTONIC; None: there was none."""
    notes: tuple[str, ...] = ()
    """Remarks for the result."""
    typed: RunPlan | None = None
    """foreign_client: what the user was told to type there; `plan` is what the client does in
    fact."""
    grace: float | None = None
    """Seconds for which its generators are waited for after the planned ones; None: it is not
    running."""
    nics: Mapping[str, Link] = field(default_factory=dict)
    """Host of an end → its chosen NIC before the first byte; without those that are not known."""
    losses: Mapping[str, tuple[LossCount, ...]] = field(default_factory=dict)
    """Host → counters of lost packets that rose during the run."""
    axis: float | None = None
    """Of a part of a run (`of`): `axis_start` of the whole; None: it is by its own generators."""

    @property
    def first(self) -> FlowGroup:
        """Of a loaded run, its requests."""
        return self.groups[0]

    @property
    def last(self) -> FlowGroup:
        """Of a loaded run, its bulk flow. When it is over, the run is."""
        return self.groups[-1]

    @property
    def ends(self) -> dict[Side, RunEnd]:
        """Of the first group."""
        return self.first.ends

    @property
    def all_ends(self) -> Iterator[RunEnd]:
        """Of all groups."""
        for group in self.groups:
            yield from group.ends.values()

    @property
    def seconds(self) -> float:
        """Measured seconds: those of the plan, or as many as its generators have reported, if it
        was ended early or they took longer."""
        if self.plan.is_of_one_host:
            measured = self.ends["client"].measured
            return measured if measured is not None else self.stopped or 0.0
        if self.stopped is not None or self.failure is not None:
            return reported_seconds(self)
        return self._total_seconds

    @property
    def _total_seconds(self) -> float:
        """By the totals of a run that was not ended early."""
        span = float(self.plan.span)
        if self.plan.test == "loaded":  # its totals are of one phase
            return span
        seconds = [total.seconds for end in self.all_ends for total in end.totals]
        longest = max(seconds, default=span)
        is_as_planned = abs(longest - span) <= self.plan.interval
        return span if is_as_planned and self.plan.files is None else longest

    @property
    def running_hosts(self) -> tuple[str, ...]:
        """Watched hosts of generators that were started and have not ended."""
        found: dict[str, None] = {}
        for end in self.all_ends:
            if end.ended is None and end.host in self.hosts:
                found[end.host] = None
        return tuple(found)

    def of(self, group: FlowGroup) -> RunLog:
        """The record of one group alone."""
        if len(self.groups) == 1:
            return self
        # the path test was one of the port of the first group
        path_test = self.path_test if group is self.first else None
        axis = axis_start(self)
        return replace(self, plan=group.plan, groups=(group,), path_test=path_test, axis=axis)

    def group_of(self, identity: str) -> FlowGroup | None:
        """The group with this generator; None: it is of none."""
        for group in self.groups:
            if any(end.identity == identity for end in group.ends.values()):
                return group
        return None

    def add_line(self, line: TrafficLine) -> list[Sample]:
        """Add a line, which may be of something else; what it measured."""
        group = self.group_of(line.id)
        if group is None:
            return []
        end = next(end for end in group.ends.values() if end.identity == line.id)
        intervals = end.add_line(line)
        is_load = group is not self.first
        samples: list[Sample] = []
        for interval in intervals:
            time = interval_time(self, end, interval) if is_load else line_time(self, end, line)
            samples.append(IntervalMeasured(end.host, time, interval, end.side, is_load))
        if intervals and self.plan.foreign_side == "client":
            self._follow_client(end)
        if line.kind == "sockets":
            time = line_time(self, end, line)
            samples.append(SocketSample(end.host, time, line.sockets, end.side))
        return samples

    def _follow_client(self, server: RunEnd) -> None:
        """Direction, protocol and streams are those that the client has chosen."""
        interval = server.intervals[-1][1]
        way = server.ways
        direction: Direction = "bidirectional" if len(way) > 1 else "forward"
        if way == {True}:
            direction = "reverse"
        protocol: Literal["tcp", "udp"] = "tcp" if interval.packets is None else "udp"
        streams = max(1, min(interval.streams, MAX_STREAMS))
        old = (self.plan.direction, self.plan.protocol, self.plan.streams)
        if old == (direction, protocol, streams):
            return
        self.plan = replace(self.plan, direction=direction, protocol=protocol, streams=streams)
        self.first.plan = replace(
            self.first.plan, direction=direction, protocol=protocol, streams=streams
        )


def axis_start(log: RunLog) -> float | None:
    """Start of the axis, in seconds of this machine's CLOCK_MONOTONIC: as the client reports it, or
    else the server."""
    if log.axis is not None:
        return log.axis
    for side in ("client", "server"):
        end = log.ends[side]
        if end.run_start is not None:
            return end.run_start + end.omitted - log.hosts[end.host].offset.seconds
    return None


def line_time(log: RunLog, end: RunEnd, line: TrafficLine) -> float | None:
    """Time of a line of a generator, seconds on the axis; None: that is not known yet."""
    axis = axis_start(log)
    if axis is None:
        return None
    return line.time - log.hosts[end.host].offset.seconds - axis


def interval_time(log: RunLog, end: RunEnd, interval: Interval) -> float | None:
    """End of an interval of a generator, seconds on the axis; None: that is not known yet."""
    axis, run_start = axis_start(log), end.run_start
    if axis is None or run_start is None:
        return None
    return run_start + run_time(end, interval) - log.hosts[end.host].offset.seconds - axis


def reported_seconds(log: RunLog) -> float:
    """End of the last measured interval of a run that was ended early, on the axis; without one,
    when it was stopped."""
    found = []
    for end in log.all_ends:
        for _, interval in end.intervals:
            time = interval_time(log, end, interval)
            if time is not None and not interval.omitted and is_before(time, interval, log.stopped):
                found.append(time)
    return max(found, default=log.stopped or 0.0)


def is_before(time: float, interval: Interval, stopped: float | None) -> bool:
    """Most of an interval that ends at `time` was before the stop: a generator that takes seconds
    to end reports idle ones."""
    return stopped is None or time - interval.seconds / 2 < stopped


def run_time(end: RunEnd, interval: Interval) -> float:
    """End of an interval, seconds since the start of the run of its end."""
    if interval.omitted:
        return interval.end
    return interval.end + end.omitted


def load_window(log: RunLog) -> tuple[float, float] | None:
    """Start and end of the measured seconds of the bulk flow of a loaded run, on the axis; None: it
    did not run, or it is another test."""
    axis, load = axis_start(log), log.last
    client = load.ends["client"]
    if axis is None or load is log.first or client.run_start is None:
        return None
    begin = client.run_start + client.omitted - log.hosts[client.host].offset.seconds - axis
    end = begin + load.plan.time
    if log.stopped is not None or log.failure is not None:
        end = min(end, max(begin, log.seconds))
    return begin, end


def measured_window(log: RunLog) -> tuple[float, float]:
    """On the axis; of a loaded run that of its bulk flow, if it has run."""
    return load_window(log) or (0.0, log.seconds)


def first_record_since(host: RunHost, time: float) -> Counters | None:
    """The first counter record since a time on the clock of the host; None if there is none yet."""
    for record in host.records:
        if record.time >= time:
            return record
    return None


def has_record_since(host: RunHost, time: float) -> bool:
    """That record was received, or will not be."""
    return first_record_since(host, time) is not None or host.snapshot.state != "live"
