"""The events of a run, and its time limits."""

from __future__ import annotations

from dataclasses import dataclass

from nictop.probe.records import TrafficSocket
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.path.result import PathReport
from nictop.traffic.results.result import Result
from nictop.traffic.run.failures import Failure

WAITING_FOR_DATA = "waiting for the first byte"
"""What a run does once both generators are started, until payload is moved."""


PATH_OF_CHECK = ", and the path between them"
"""End of the sentence about the stage "checking" of a run, which tests the path too."""


@dataclass(frozen=True)
class RunTimeouts:
    """Time limits of a run, in seconds."""

    check: float = 25.0
    """For the check of both generators: a guest without hardware acceleration needs several seconds to start a
    program."""
    floor: float = 15.0
    """For the measurement of the generator alone, on each host."""
    path_test: float = 5.0
    """For each stage of the path test: to open its sockets, and to test."""
    listen: float = 5.0
    first_byte: float = 8.0
    """From the start of the client; at least two intervals."""
    stall: float = 5.0
    """Without payload, after the first byte; at least four intervals."""
    grace: float = 10.0
    """In addition to the planned seconds, for the whole run."""
    settle: float = 1.0
    """For the error message of the other end, after one end has reported the loss of the connection."""
    path: float = 3.0
    """For both hosts to look up the route to each other."""
    stop: float = 3.0
    """For both child processes to end."""
    losses: float = 3.0
    """For all hosts to read the counters of lost packets, before and after the run."""
    counters: float = 3.0
    """For a counter record after the run."""
    ports: int = 5
    """Number of ports that are tried, one after the other."""


@dataclass(frozen=True)
class Stage:
    """A new stage of the run."""

    name: str
    """checking, starting, listening, running, loading (loaded runs: the bulk flow is started), ending"""
    sentence: str


@dataclass(frozen=True)
class PathTested:
    """The path test before the run."""

    report: PathReport


@dataclass(frozen=True)
class IntervalMeasured:
    """An interval that one end reported."""

    host: str
    time: float | None
    """Time of the line, at or after the end of the interval, seconds on the axis of the run; of a bulk flow beside
    requests, the end of the interval. None: the axis is not known yet."""
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


@dataclass(frozen=True)
class RunFinished:
    """The last event."""

    result: Result


RunEvent = Stage | PathTested | IntervalMeasured | SocketSample | RunFinished


class RunStopped(Exception):
    """Raised in the stages of a run when the user stops it."""


class RunFailed(Exception):
    """Raised in the stages of a run when it fails."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure
