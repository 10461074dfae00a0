"""What a generator says of a run: intervals and totals, summed over its streams. Values only.

Of a direction `sends` is seen from the end that wrote the line: the client of a reverse run does not send.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

STUB = 0.5
"""Share of an interval; what is shorter at the end of a run has an absurd rate and is no interval."""


@dataclass(frozen=True)
class Interval:
    """One interval of one direction, all streams together. Times are seconds since the start of the run, or of what
    counts of it, as the generator gives them."""

    start: float
    end: float
    bits_per_second: float
    sends: bool
    streams: int = 1
    omitted: bool = False
    retransmits: int | None = None
    """Segments; None: not told (by a receiver, and with UDP)."""
    congestion_window: int | None = None
    """Bytes, of all streams."""
    rtt: int | None = None
    """µs, of the slowest stream."""
    packets: int | None = None
    """UDP: datagrams; a receiver's with those that are lost."""
    lost: int | None = None
    """UDP: datagrams, told by the receiver."""
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
    """What counts of one direction, told at the end."""

    sends: bool
    """This end sent."""
    by_sender: bool
    """Counted where it was sent (into the socket buffer); False: where it arrived."""
    seconds: float
    bits_per_second: float
    bytes: float | None = None
    """None: told too coarsely."""
    retransmits: int | None = None
    packets: int | None = None
    """As in `Interval`."""
    lost: int | None = None
    jitter: float | None = None


@dataclass(frozen=True)
class Problem:
    """A line that says why the generator could not go on, as it is."""

    text: str


@dataclass(frozen=True)
class Detail:
    """Something that it said of itself before the run."""

    version: str = ""
    mss: int | None = None
    length: int | None = None
    congestion: str | None = None


GeneratorOutput = Interval | Total | Problem | Detail


@dataclass(frozen=True)
class StreamInterval:
    """An interval of one stream."""

    stream: int
    interval: Interval


@dataclass
class Gathering:
    """The rows of one direction → intervals. Every stream tells every interval once, in the same order: the n-th rows
    of all streams belong together, also when their ends differ by a rounding."""

    nominal: float
    """Seconds between two lines."""
    streams: frozenset[int] = frozenset()
    """Those that are known to be there; empty: not known."""
    _rows: list[StreamInterval] = field(default_factory=list)
    _last: dict[int, tuple[bool, float]] = field(default_factory=dict)

    def take(self, row: StreamInterval) -> tuple[Interval, ...]:
        """The interval that this row completes, if any, or that it shows to be complete."""
        start, omitted = row.interval.start, row.interval.omitted
        before = self._last.get(row.stream)
        if before is not None and before[0] == omitted and start <= before[1]:
            return ()  # an interrupted iperf3 repeats its last line
        self._last[row.stream] = (omitted, start)
        done = self.finish() if any(one.stream == row.stream for one in self._rows) else ()
        self._rows.append(row)
        if self.streams and {one.stream for one in self._rows} >= self.streams:
            done += self.finish()
        return done

    def finish(self) -> tuple[Interval, ...]:
        """The interval whose rows have come so far."""
        rows, self._rows = self._rows, []
        if not rows or max(row.interval.seconds for row in rows) < STUB * self.nominal:
            return ()
        return (summed(row.interval for row in rows),)


def summed(intervals: Iterable[Interval]) -> Interval:
    """Several streams in one interval; at least one."""
    rows = list(intervals)
    return Interval(
        start=min(row.start for row in rows),
        end=max(row.end for row in rows),
        bits_per_second=sum(row.bits_per_second for row in rows),
        sends=rows[0].sends,
        streams=sum(row.streams for row in rows),
        omitted=rows[0].omitted,
        retransmits=total_of(row.retransmits for row in rows),
        congestion_window=total_of(row.congestion_window for row in rows),
        rtt=max((row.rtt for row in rows if row.rtt is not None), default=None),
        packets=total_of(row.packets for row in rows),
        lost=total_of(row.lost for row in rows),
        jitter=max((row.jitter for row in rows if row.jitter is not None), default=None),
    )


def total_of(values: Iterable[int | None]) -> int | None:
    """Their sum; None when nobody knows."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
