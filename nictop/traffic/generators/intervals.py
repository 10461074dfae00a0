"""What a generator reports of a run: intervals and totals, summed over its streams. Values only.

`sends` is relative to the end that wrote the line: the client of a reverse run does not send.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from nictop.model.rates.links import sum_known
from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records import RefusedSender
from nictop.traffic.generators.latency import LatencyHistogram

Number = TypeVar("Number", int, float)

MIN_INTERVAL_SHARE = 0.5
"""Share of the nominal interval. Shorter intervals, at the end of a run, have absurd rates and are
ignored."""
MAX_VERSION_CHARACTERS = 100
MAX_CONGESTION_CHARACTERS = 32
"""Names of congestion controls; the kernel's are shorter (TCP_CA_NAME_MAX)."""
MAX_ERROR_CHARACTERS = 500
MAX_PEER_CHARACTERS = 64


def has_rate(seconds: float, nominal: float) -> bool:
    """An interval of so many seconds is no short rest at the end of a run. `nominal`: seconds
    between two reports."""
    return seconds > MIN_INTERVAL_SHARE * nominal


@dataclass(frozen=True)
class Interval:
    """One interval of one direction, all streams together. Times are seconds since the start of the
    run, or since the end of the omitted seconds, as the generator reports them."""

    start: float
    end: float
    bits_per_second: float
    sends: bool
    streams: int = 1
    omitted: bool = False
    retransmits: int | None = None
    """Segments; None: not reported (by a receiver, and with UDP)."""
    congestion_window: int | None = None
    """Bytes, of all streams."""
    rtt: int | None = None
    """µs, of the slowest stream."""
    packets: int | None = None
    """UDP: datagrams; those of a receiver include the lost ones."""
    lost: int | None = None
    """UDP: datagrams, reported by the receiver."""
    jitter: float | None = None
    """UDP: ms, of the worst stream."""

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def bytes(self) -> float:
        return self.bits_per_second * self.seconds / 8


@dataclass(frozen=True)
class Total:
    """Total of the measured seconds of one direction, reported at the end."""

    sends: bool
    """This end is the sender."""
    by_sender: bool
    """Counted by the sender (into the socket buffer); False: by the receiver."""
    seconds: float
    bits_per_second: float
    bytes: float | None = None
    """None: reported too coarsely."""
    retransmits: int | None = None
    packets: int | None = None
    """As in `Interval`."""
    lost: int | None = None
    jitter: float | None = None


@dataclass(frozen=True, kw_only=True)
class TransactionInterval(Interval):
    """Transactions that ended in one interval; `bits_per_second` are the responses, `lost` those
    without one."""

    latency: LatencyHistogram
    connect: LatencyHistogram | None = None
    """crr: of connecting."""


@dataclass(frozen=True, kw_only=True)
class TransactionTotal(Total):
    """All transactions of the measured seconds."""

    latency: LatencyHistogram
    connect: LatencyHistogram | None = None
    stopped: str = ""
    """Why the generator ended before its time; "": it did not."""


@dataclass(frozen=True)
class ErrorMessage:
    """A line with the reason why the generator failed, unchanged."""

    text: str


@dataclass(frozen=True)
class GeneratorInfo:
    """What the generator reports of itself and its sockets."""

    version: str = ""
    mss: int | None = None
    length: int | None = None
    congestion: str | None = None
    peer: str = ""
    """server: address of the client that it serves; "": not reported."""
    remote_cpu: float | None = None
    """client: cores that the iperf3 of the server used; None: not reported."""


GeneratorOutput = Interval | Total | ErrorMessage | GeneratorInfo | RefusedSender


@dataclass(frozen=True)
class StreamInterval:
    """An interval of one stream."""

    stream: int
    interval: Interval


@dataclass
class StreamSum:
    """Sums the rows of the streams of one direction. Every stream reports every interval once, in
    the same order: the n-th rows of all streams belong together, even if their end times differ by
    rounding."""

    nominal: float
    """Nominal seconds between two reports."""
    streams: frozenset[int] = frozenset()
    """Sockets of the streams; empty: not known."""
    _rows: list[StreamInterval] = field(default_factory=list)
    _last: dict[int, tuple[bool, float]] = field(default_factory=dict)

    def add(self, row: StreamInterval) -> tuple[Interval, ...]:
        """The interval that this row completes, if any, or that it shows to be complete."""
        start, omitted = row.interval.start, row.interval.omitted
        before = self._last.get(row.stream)
        if before is not None and before[0] == omitted and start <= before[1]:
            return ()  # an interrupted iperf3 repeats its last line
        self._last[row.stream] = (omitted, start)
        reported = {known.stream for known in self._rows}
        done: tuple[Interval, ...] = ()
        if row.stream in reported:
            done = self.finish()
            reported = set()
        self._rows.append(row)
        reported.add(row.stream)
        if self.streams and reported >= self.streams:
            done += self.finish()
        return done

    def finish(self) -> tuple[Interval, ...]:
        """The interval of the rows so far."""
        rows, self._rows = self._rows, []
        if not rows:
            return ()
        longest = max(row.interval.seconds for row in rows)
        if longest < MIN_INTERVAL_SHARE * self.nominal:
            return ()
        return (sum_of_streams(row.interval for row in rows),)


def sum_of_streams(intervals: Iterable[Interval]) -> Interval:
    """The sum of several streams in one interval; at least one."""
    rows = list(intervals)
    return Interval(
        start=min(row.start for row in rows),
        end=max(row.end for row in rows),
        bits_per_second=sum(row.bits_per_second for row in rows),
        sends=rows[0].sends,
        streams=sum(row.streams for row in rows),
        omitted=rows[0].omitted,
        retransmits=sum_known(row.retransmits for row in rows),
        congestion_window=sum_known(row.congestion_window for row in rows),
        rtt=max_known(row.rtt for row in rows),
        packets=sum_known(row.packets for row in rows),
        lost=sum_known(row.lost for row in rows),
        jitter=max_known(row.jitter for row in rows),
    )


def max_known(values: Iterable[Number | None]) -> Number | None:
    """The largest of the known values; None if none is known."""
    return max((value for value in values if value is not None), default=None)
