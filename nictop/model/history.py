"""The last values of every rate of one host, for charts.

Reads nothing; `History.record` takes snapshots, `History.series` returns the newest values of one
series. A time without a value is ``None``: nothing is interpolated. While a host is away
(`Snapshot.state`) or is not read for a long time, and for the first record after that, the values
are None: a mean over the whole absence would not be the rate at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence

from nictop.model.devices.ports import wire_rates
from nictop.model.parts import boot_id
from nictop.model.rates.links import CpuShares, LinkRates
from nictop.model.snapshot import Snapshot, is_outage
from nictop.probe.records import Counters

Key = tuple[str, int]
"""(name of the series, ifindex or CPU id): ``("rx_bits", 4)``, ``("cpu_busy", 0)``."""

LINK_SERIES = ("rx_bits", "tx_bits", "rx_packets", "tx_packets")
"""Fields of `LinkRates` that are stored, per second; of a port with VFs those of the port."""

CPU_SERIES = ("cpu_busy", "cpu_softirq", "cpu_steal")
"""Stored per CPU: shares of 1."""

MAX_ABSENT_RECORDS = 60
"""Records for which the history of an absent link or CPU is stored, so that a driver reload does
not erase it."""

MIN_STEP_SECONDS = 0.1
"""Minimum distance of two times in seconds: records that were received together say nothing about
the interval."""

MAX_GAPS = 100
"""Of which the beginnings and ends are stored: more than there are in the time of a chart."""

USUAL_STEPS = 3
"""Of the last records, whose median is the usual one: another interval is known from the second
record on."""

MAX_HISTORY_VALUES = 450_000
"""Limit for all series together, some 14 MiB: enough for the full history of 60 links and 160 CPUs.
On a larger host the history is half as long, or a quarter, and so on."""

_NO_VALUES = (None,) * max(len(LINK_SERIES), len(CPU_SERIES))


class _Track:
    """The series of one link or one CPU, at most `capacity` values each; `missing`: number of
    records in a row without it. They are lists, because a deque takes 624 bytes for its first
    value, and a host may have thousands of CPUs."""

    __slots__ = ("capacity", "missing", "series")

    def __init__(self, count: int, capacity: int) -> None:
        self.series: tuple[list[float | None], ...] = tuple([] for _ in range(count))
        self.capacity = capacity
        self.missing = 0

    def append(self, values: Sequence[float | None]) -> None:
        for one, value in zip(self.series, values, strict=False):
            one.append(value)
            if len(one) > self.capacity:
                del one[0]

    def shorten(self, capacity: int) -> None:
        self.capacity = capacity
        for one in self.series:
            del one[:-capacity]


class History:
    """At most `capacity` values of each series, newest last, and `memory_share` of
    `MAX_HISTORY_VALUES` in total, of the links and CPUs that were present within the last
    `MAX_ABSENT_RECORDS` records."""

    def __init__(self, capacity: int, memory_share: float = 1.0) -> None:
        if capacity < 1:
            raise ValueError("a history holds at least one value")
        self.capacity = capacity
        self._max_values = memory_share * MAX_HISTORY_VALUES
        self._length = capacity
        """Maximum number of values in a series."""
        self._times: deque[float] = deque(maxlen=capacity)
        self._links: dict[int, _Track] = {}
        self._cpus: dict[int, _Track] = {}
        self._boot_id: str | None = None
        self._newest: Counters | None = None
        self._was_away = False
        """The host was not live at some time since the newest record."""
        self._gaps: deque[tuple[float, float]] = deque(maxlen=MAX_GAPS)
        """Their first and last times."""
        self._steps: deque[float] = deque(maxlen=USUAL_STEPS)
        """Seconds between two of the last records."""

    def record(self, snapshot: Snapshot, interval: float = 0.0) -> None:
        """Append one value to every series if the snapshot has counters that are not recorded yet.
        Links without a rate (just reset, or gone) get None, all of them when the host was away or
        was not read for a long time. A reboot of the host clears the history. `interval`: seconds
        between two readings that were asked for; 0: not known, as of a recording."""
        if snapshot.counters is None or self._is_recorded(snapshot.counters):
            self._was_away = self._was_away or snapshot.state != "live"
            return
        boot = boot_id(snapshot)
        if boot != self._boot_id:
            self.clear()
            self._boot_id = boot
        self._newest = snapshot.counters
        was_away, self._was_away = self._was_away, False
        is_late = self._is_late(snapshot.counters.time, interval)
        if self._times and (was_away or is_late):
            self._append_gap(snapshot.counters.time)
            return
        self._times.append(snapshot.counters.time)
        self._append_rates(snapshot)

    def _is_late(self, time: float, interval: float) -> bool:
        """Much later after the record before than usual."""
        if not self._times:
            return False
        step = time - self._times[-1]
        self._steps.append(step)
        usual = sorted(self._steps)[(len(self._steps) - 1) // 2]
        return is_outage(step, max(interval, usual))

    def _append_rates(self, snapshot: Snapshot) -> None:
        """Append the value of this record to every series."""
        links = wire_rates(snapshot)
        cpus: Mapping[int, CpuShares] = {}
        if snapshot.rates is not None:
            cpus = snapshot.rates.cpus
        self._limit_length(
            len(links.keys() | self._links.keys()), len(cpus.keys() | self._cpus.keys())
        )
        for ifindex, rates in links.items():
            self._append(self._links, ifindex, _link_values(rates))
        for cpu, shares in cpus.items():
            self._append(self._cpus, cpu, _cpu_values(shares))
        _append_missing(self._links, links.keys())
        _append_missing(self._cpus, cpus.keys())

    def _limit_length(self, link_count: int, cpu_count: int) -> None:
        """Halve the length of the series until so many of them do not have too many values."""
        series, length = len(LINK_SERIES) * link_count + len(CPU_SERIES) * cpu_count, self._length
        while series * length > self._max_values and length > 1:
            length = (length + 1) // 2
        if length < self._length:
            self._length = length
            for track in (*self._links.values(), *self._cpus.values()):
                track.shorten(length)

    def series(self, key: Key) -> Sequence[float | None]:
        """Values of one series, newest last, one per recorded time since the link or CPU appeared;
        empty for an unknown key."""
        return tuple(self._values(key))

    def newest(self, key: Key, count: int) -> Sequence[float | None]:
        """The last `count` values of `series`, or all if there are fewer."""
        values = self._values(key)
        return values[max(0, len(values) - count) :]

    def _values(self, key: Key) -> Sequence[float | None]:
        name, number = key
        is_cpu = name in CPU_SERIES
        names, tracks = (CPU_SERIES, self._cpus) if is_cpu else (LINK_SERIES, self._links)
        track = tracks.get(number)
        if track is None or name not in names:
            return ()
        return track.series[names.index(name)]

    def seconds_without_readings(self, seconds: float) -> float:
        """In the last `seconds`: of the gaps that `record` has found."""
        if not self._times:
            return 0.0
        first = self._times[-1] - seconds
        return sum(max(0.0, end - max(begin, first)) for begin, end in self._gaps)

    def times(self) -> Sequence[float]:
        """The recorded times: seconds, CLOCK_MONOTONIC of the host. The last ones belong to every
        series."""
        return tuple(self._times)

    def _append_gap(self, time: float) -> None:
        """Append times without values, up to and including `time`, at the distance of the last two
        times."""
        newest, step = self._times[-1], 1.0
        self._gaps.append((newest, time))
        if len(self._times) > 1:
            step = max(newest - self._times[-2], MIN_STEP_SECONDS)
        missed = min(max(round((time - newest) / step), 1), self.capacity)
        for number in range(missed - 1, -1, -1):
            self._times.append(time - number * step)
            for track in (*self._links.values(), *self._cpus.values()):
                track.append(_NO_VALUES)

    def clear(self) -> None:
        self._times.clear()
        self._links.clear()
        self._cpus.clear()
        self._newest = None
        self._was_away = False
        self._steps.clear()
        self._gaps.clear()
        self._length = self.capacity

    def _is_recorded(self, counters: Counters) -> bool:
        if self._newest is None:
            return False
        return counters is self._newest or counters.time == self._newest.time

    def _append(
        self,
        tracks: dict[int, _Track],
        number: int,
        values: Sequence[float | None],
    ) -> None:
        track = tracks.get(number)
        if track is None:
            track = tracks[number] = _Track(len(values), self._length)
        track.missing = 0
        track.append(values)


def _append_missing(tracks: dict[int, _Track], present: Container[int]) -> None:
    """Append None to every track without a value in this record; remove those without any for
    `MAX_ABSENT_RECORDS` records."""
    gone = []
    for number, track in tracks.items():
        if number in present:
            continue
        track.missing += 1
        track.append(_NO_VALUES)
        if track.missing > MAX_ABSENT_RECORDS:
            gone.append(number)
    for number in gone:
        del tracks[number]


def _link_values(rates: LinkRates) -> tuple[float | None, ...]:
    """In the order of `LINK_SERIES`."""
    return rates.rx_bits, rates.tx_bits, rates.rx_packets, rates.tx_packets


def _cpu_values(shares: CpuShares) -> tuple[float | None, ...]:
    """In the order of `CPU_SERIES`."""
    return shares.busy, shares.softirq, shares.steal
