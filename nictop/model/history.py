"""The last values of every rate of one host, for charts.

Reads nothing; `History.record` takes snapshots, `History.series` gives the newest values of one number. A moment
without a value is ``None``: nothing is interpolated. While a host is away (`Snapshot.state`) the moments go on without
values, and so does the first one after it: a mean over the whole absence is the value of no moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Sequence

from nictop.model.rates.links import CpuShares, LinkRates
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Counters

Key = tuple[str, int]
"""(name of the series, ifindex or CPU id): ``("rx_bits", 4)``, ``("cpu_busy", 0)``."""

LINK_SERIES = ("rx_bits", "tx_bits", "rx_packets", "tx_packets")
"""Fields of `LinkRates` that are kept, per second."""

CPU_SERIES = ("cpu_busy", "cpu_softirq", "cpu_steal")
"""Kept per CPU, shares of 1."""

LINGER = 60
"""Records for which the past of a vanished link or CPU is kept, so that a driver reload does not erase it."""

SHORTEST_STEP = 0.1
"""Seconds between two records at least: those that came late together say nothing about the interval."""

MOST_VALUES = 450_000
"""Of all series together, some 14 MiB: 60 links and 160 CPUs have their whole past. Of a host with more it is half as
long, or a quarter, and so on."""

_Ring = deque[float | None]
_NOTHING = (None,) * max(len(LINK_SERIES), len(CPU_SERIES))


class _Track:
    """The rings of one link or one CPU, and for how many records it has been missing."""

    __slots__ = ("missing", "rings")

    def __init__(self, names: Sequence[str], capacity: int) -> None:
        self.rings: dict[str, _Ring] = {name: deque(maxlen=capacity) for name in names}
        self.missing = 0

    def append(self, values: Sequence[float | None]) -> None:
        for ring, value in zip(self.rings.values(), values, strict=False):
            ring.append(value)

    def shorten(self, capacity: int) -> None:
        self.rings = {name: deque(ring, maxlen=capacity) for name, ring in self.rings.items()}


class History:
    """At most `capacity` values of each series, newest last, and `MOST_VALUES` of all links and CPUs present within the
    last `LINGER` records."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a history holds at least one value")
        self.capacity = capacity
        self._length = capacity
        """Values that each series has at most."""
        self._times: deque[float] = deque(maxlen=capacity)
        self._links: dict[int, _Track] = {}
        self._cpus: dict[int, _Track] = {}
        self._boot_id: str | None = None
        self._newest: Counters | None = None
        self._away = False
        """The host has not been live since the newest record."""

    def record(self, snapshot: Snapshot) -> None:
        """Append one value to every series, if the snapshot has counters that are not recorded yet. Links without a
        rate (just reset, or gone) get a gap, all of them when the host was away. Another boot of the host begins an
        empty history."""
        if snapshot.counters is None or self._is_recorded(snapshot.counters):
            self._away = self._away or snapshot.state != "live"
            return
        boot_id = snapshot.hello.boot_id if snapshot.hello is not None else None
        if boot_id != self._boot_id:
            self.clear()
            self._boot_id = boot_id
        self._newest = snapshot.counters
        if self._away:
            self._away = False
            if self._times:
                self._pass_over(snapshot.counters.time)
                return
        self._times.append(snapshot.counters.time)
        links = snapshot.rates.links if snapshot.rates is not None else {}
        cpus = snapshot.rates.cpus if snapshot.rates is not None else {}
        for ifindex, rates in links.items():
            self._append(self._links, ifindex, LINK_SERIES, _link_values(rates))
        for cpu, shares in cpus.items():
            self._append(self._cpus, cpu, CPU_SERIES, _cpu_values(shares))
        _age(self._links, links.keys())
        _age(self._cpus, cpus.keys())

    def _make_room(self) -> None:
        """For one more link or CPU, once there are too many of them."""
        series = len(LINK_SERIES) * len(self._links) + len(CPU_SERIES) * len(self._cpus)
        while series * self._length > MOST_VALUES and self._length > 1:
            self._length = (self._length + 1) // 2
            for track in (*self._links.values(), *self._cpus.values()):
                track.shorten(self._length)

    def series(self, key: Key) -> Sequence[float | None]:
        """Values of one series, newest last, one per recorded moment since the link or CPU appeared; empty when there
        is none of that key."""
        name, number = key
        track = (self._cpus if name in CPU_SERIES else self._links).get(number)
        return tuple(track.rings.get(name, ())) if track is not None else ()

    def times(self) -> Sequence[float]:
        """Seconds, CLOCK_MONOTONIC of the host, of the recorded moments; the last ones belong to every series."""
        return tuple(self._times)

    def _pass_over(self, time: float) -> None:
        """Moments without values from the newest one up to and with `time`, as far apart as the last ones were."""
        newest = self._times[-1]
        step = max(newest - self._times[-2] if len(self._times) > 1 else 1.0, SHORTEST_STEP)
        missed = min(max(round((time - newest) / step), 1), self.capacity)
        for number in range(missed - 1, -1, -1):
            self._times.append(time - number * step)
            for track in (*self._links.values(), *self._cpus.values()):
                track.append(_NOTHING)

    def clear(self) -> None:
        self._times.clear()
        self._links.clear()
        self._cpus.clear()
        self._newest = None
        self._away = False
        self._length = self.capacity

    def _is_recorded(self, counters: Counters) -> bool:
        return self._newest is not None and (counters is self._newest or counters.time == self._newest.time)

    def _append(
        self, tracks: dict[int, _Track], number: int, names: Sequence[str], values: Sequence[float | None]
    ) -> None:
        track = tracks.get(number)
        if track is None:
            track = tracks[number] = _Track(names, self._length)
            self._make_room()
        track.missing = 0
        track.append(values)


def _age(tracks: dict[int, _Track], present: Container[int]) -> None:
    """Give a gap to every track that has no value this time; drop those that had none for long."""
    gone = []
    for number, track in tracks.items():
        if number in present:
            continue
        track.missing += 1
        track.append(_NOTHING)
        if track.missing > LINGER:
            gone.append(number)
    for number in gone:
        del tracks[number]


def _link_values(rates: LinkRates) -> tuple[float | None, ...]:
    return rates.rx_bits, rates.tx_bits, rates.rx_packets, rates.tx_packets


def _cpu_values(shares: CpuShares) -> tuple[float | None, ...]:
    return shares.busy, shares.softirq, shares.steal
