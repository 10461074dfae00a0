"""The events of a run, and its time limits."""

from __future__ import annotations

from collections.abc import Callable

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import StorageActivity
from nictop.traffic.path.result import PathReport
from nictop.traffic.record.log import IntervalMeasured, RunLog, SocketSample
from nictop.traffic.results.result import Result

WAITING_FOR_DATA = "waiting for the first byte"
"""What a run does once both generators are started, until payload is moved."""


FINAL_COUNTERS = "reading final counters"
"""What a run does once its generators have ended."""
COMMAND = "command"
"""Name of the stages whose sentences are what somebody is to type on a host that is not watched."""
PATH_OF_CHECK = ", and the path between them"
"""End of the sentence about the stage "checking" of a run, which tests the path too."""


@dataclass(frozen=True)
class RunTimeouts:
    """Time limits of a run, in seconds, for usual hosts."""

    check: float = 25.0
    """For the check of both generators: a guest without hardware acceleration needs several seconds
    to start a program."""
    floor: float = 15.0
    """For the measurement of the generator alone, on each host."""
    path_test: float = 15.0
    """For each stage of the path test: to open its sockets, and to test. It starts a program, as
    the check does."""
    listen: float = 15.0
    """For the server, another program, to open its port."""
    first_byte: float = 8.0
    """From the start of the client; at least two intervals."""
    stall: float = 5.0
    """Without payload, after the first byte; at least four intervals."""
    grace: float = 10.0
    """In addition to the planned seconds, for the whole run."""
    settle: float = 1.0
    """For the error message of the other end, after one end has reported the loss of the
    connection."""
    path: float = 3.0
    """For both hosts to look up the route to each other."""
    inventory: float = 3.0
    """For inventories that have read what happened on the hosts, after a failure."""
    stop: float = 3.0
    """For both child processes to end."""
    losses: float = 3.0
    """For all hosts to read the counters of lost packets, before and after the run."""
    counters: float = 3.0
    """For a counter record after the run."""
    ports: int = 5
    """Number of ports that are tried, one after the other."""

    def for_slow(self, factor: float) -> RunTimeouts:
        """For hosts that may take so many times as long (`wire.slowness`)."""
        return RunTimeouts(
            check=factor * self.check,
            floor=factor * self.floor,
            path_test=factor * self.path_test,
            listen=factor * self.listen,
            first_byte=factor * self.first_byte,
            stall=factor * self.stall,
            grace=factor * self.grace,
            settle=factor * self.settle,
            path=factor * self.path,
            inventory=factor * self.inventory,
            stop=factor * self.stop,
            losses=factor * self.losses,
            counters=factor * self.counters,
            ports=self.ports,
        )


@dataclass(frozen=True, eq=False)
class RunBegan:
    """The first event."""

    log: RunLog
    """Its record, to which all that follows is added."""


@dataclass(frozen=True)
class Stage:
    """A new stage of the run."""

    name: str
    """checking, starting, listening, command, client (it is waited for), running, loading (the bulk
    flow of loaded runs is started),
    ending"""
    sentence: str


@dataclass(frozen=True)
class PathTested:
    """The path test before the run."""

    report: PathReport


@dataclass(frozen=True)
class NicMeasured:
    """The rates of the chosen NIC of a host whose own traffic is measured, once a second."""

    time: float
    """Seconds since the begin."""
    sent: float | None
    """Bits per second; None: not counted."""
    received: float | None


@dataclass(frozen=True)
class StorageMeasured:
    """What block devices and NFS did in the last second of a workload."""

    time: float
    """Seconds since the begin."""
    activities: tuple[StorageActivity, ...]


@dataclass(frozen=True)
class RunFinished:
    """The last event."""

    result: Result


RunEvent = (
    RunBegan
    | Stage
    | PathTested
    | IntervalMeasured
    | SocketSample
    | NicMeasured
    | StorageMeasured
    | RunFinished
)
Emit = Callable[[RunEvent], object]
"""Called with each event, when it happens."""
