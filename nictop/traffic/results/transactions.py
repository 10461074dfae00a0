"""Figures of a test of requests and responses, as stored with its result. Reads nothing; times are
in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import mean

from nictop.probe.light_dataclasses import dataclass
from nictop.traffic.generators.latency import LatencyHistogram, LatencySummary

NEAR_FLOOR = 1.2
"""A median latency up to that factor above the generator's own says little about the network."""


@dataclass(frozen=True)
class TransactionPoint:
    """The transactions that ended in one interval."""

    time: float
    """End of the interval on the axis of the run; of omitted intervals 0 or before."""
    seconds: float
    lost: int
    """Without a response in time."""
    latency: LatencySummary
    connect: LatencySummary | None = None

    @property
    def rate(self) -> float:
        """Transactions per second."""
        if self.seconds <= 0:
            return 0.0
        return self.latency.count / self.seconds


@dataclass(frozen=True)
class Floor:
    """The generator alone: the same test with both ends on one host, over loopback."""

    host: str
    latency: LatencySummary | None
    """None: not measured."""
    connect: LatencySummary | None = None
    rate: float | None = None
    """Transactions per second."""
    problem: str = ""
    """Why it was not measured."""


@dataclass(frozen=True)
class IdlePhase:
    """The part of a loaded run before its bulk flow."""

    seconds: float
    """Of the intervals that lie in it."""
    latency: LatencyHistogram
    lost: int = 0

    @property
    def lost_share(self) -> float:
        """Share of 1 of the requests."""
        return _lost_share(self.latency, self.lost)


def _lost_share(latency: LatencyHistogram, lost: int) -> float:
    sent = latency.count + lost
    return lost / sent if sent else 0.0


def _mean_of_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None


@dataclass(frozen=True)
class TransactionFigures:
    """All measured seconds of a run; of a loaded one, those beside its bulk flow."""

    seconds: float
    latency: LatencyHistogram
    """Of whole transactions; crr: from the start of the connection to its end."""
    connect: LatencyHistogram | None = None
    """crr: of connecting."""
    lost: int = 0
    points: tuple[TransactionPoint, ...] = ()
    floors: tuple[Floor, ...] = ()
    """Of client and server; of one host if it is both."""
    ended_early: str = ""
    """Why there are fewer transactions than planned; "": there are not."""
    idle: IdlePhase | None = None
    """Of a loaded run; None: another test, or no request was answered in it."""
    loaded_since: float | None = None
    """Start of the measured seconds beside the bulk flow, on the axis of the run; None: there are
    none."""
    delay: str = ""
    """Where the additional latency of a loaded run arises; "": not known."""

    @property
    def rate(self) -> float | None:
        """Transactions per second."""
        if self.seconds <= 0:
            return None
        return self.latency.count / self.seconds

    @property
    def lost_share(self) -> float:
        """Share of 1 of the requests."""
        return _lost_share(self.latency, self.lost)

    @property
    def floor(self) -> float | None:
        """Median latency of the generator alone: a run needs one half of it on each host. None: not
        measured."""
        return _mean_of_known(latency.p50 for latency in self._floor_latencies())

    @property
    def floor_mean(self) -> float | None:
        """The same of its mean latency, far above the median where few transactions take long."""
        return _mean_of_known(latency.mean for latency in self._floor_latencies())

    def _floor_latencies(self) -> Iterator[LatencySummary]:
        for floor in self.floors:
            if floor.latency is not None:
                yield floor.latency

    @property
    def limited_by_generator(self) -> bool:
        """The median latency is not far above the generator's own."""
        floor, median = self.floor, self.latency.summary().p50
        if floor is None or median is None:
            return False
        return median <= NEAR_FLOOR * floor
