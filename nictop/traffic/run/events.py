"""What a run tells while it goes on, and how long it waits for what."""

from __future__ import annotations

from dataclasses import dataclass

from nictop.probe.records import TrafficSocket
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.results.result import Result
from nictop.traffic.run.failures import Failure


@dataclass(frozen=True)
class RunTimeouts:
    """Seconds after which the run does not wait any longer."""

    check: float = 25.0
    """A guest without acceleration needs several seconds to start a program."""
    listen: float = 5.0
    first_byte: float = 8.0
    """From the client's start."""
    stall: float = 5.0
    """Without payload, once some has come; at least four intervals."""
    grace: float = 10.0
    """On top of the planned seconds, for the whole run."""
    settle: float = 0.3
    """For the other end to say what an end has noticed of it."""
    path: float = 3.0
    """For both hosts to look up the route to each other."""
    stop: float = 3.0
    """For both children to end."""
    counters: float = 3.0
    """For a counter record after the run."""
    ports: int = 5
    """Ports that are tried, one after the other."""


@dataclass(frozen=True)
class Stage:
    """The run has come to another stage."""

    name: str
    """checking, starting, listening, running, ending"""
    sentence: str


@dataclass(frozen=True)
class IntervalMeasured:
    """An interval that one end has told."""

    host: str
    time: float | None
    """Its end, seconds on the axis of the run; None: the axis is not known yet."""
    interval: Interval
    side: Side
    """The end that told it: both may be on one host."""


@dataclass(frozen=True)
class Sockets:
    """The TCP connections of one end."""

    host: str
    time: float | None
    sockets: tuple[TrafficSocket, ...]
    side: Side


@dataclass(frozen=True)
class Finished:
    """The last event."""

    result: Result


Event = Stage | IntervalMeasured | Sockets | Finished


class RunStopped(Exception):
    """Ends the stages of a run that somebody has stopped."""


class RunFailed(Exception):
    """Ends the stages of a run."""

    def __init__(self, why: Failure) -> None:
        super().__init__(why.sentence)
        self.failure = why
