"""Latencies of transactions as a histogram: merged exactly, with percentiles whose relative error
is bounded.

Reads nothing. The buckets are those of the probe (`nictop.probe.traffic.builtin.latency_buckets`):
a percentile differs from that of the raw samples by less than the width of a bucket, 0.8 % of it. A
percentile with fewer than `MIN_SAMPLES_BEYOND` samples above it is not known: the next run would
give another one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import LatencyCounts
from nictop.probe.traffic.builtin.latency_buckets import BUCKETS, bucket_range, unpacked_counts

MIN_SAMPLES_BEYOND = 10
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
"""Name → share of the samples below it."""
NANOSECONDS = 1e9
MAX_COUNT = 10**15
"""Larger counts are not valid."""


STEPS_PER_DECADE = (
    (
        10,
        11,
        12,
        13,
        15,
        16,
        18,
        20,
        22,
        24,
        27,
        30,
        33,
        36,
        39,
        43,
        47,
        51,
        56,
        62,
        68,
        75,
        82,
        91,
    ),
    (10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82),
    (10, 15, 20, 30, 50, 70),
    (10, 20, 50),
    (10,),
)
"""Lowest latencies of the bins of a histogram in each decade, the finest first; in tenths (IEC
60063 E24, E12, …)."""
BIN_EDGES = tuple(
    [0, *(step * 10**power for power in range(11) for step in steps)] for steps in STEPS_PER_DECADE
)
"""The same in nanoseconds, beyond the last bucket."""
BODY_SHARE = 0.9
"""Share of the samples that gets the finest bins."""
MAX_COARSER = 3
"""Steps in `BIN_EDGES` by which the other bins may be coarser."""


@dataclass(frozen=True)
class LatencyBin:
    """The samples in one of several ranges of about the same ratio."""

    low: float
    high: float
    """Seconds: the lowest latency, and the first one above."""
    count: int


@dataclass(frozen=True)
class LatencySummary:
    """Figures of a histogram, in seconds. None: no samples, or too few for this percentile."""

    count: int
    minimum: float | None = None
    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
    p999: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class LatencyHistogram:
    """Latencies in buckets."""

    counts: dict[int, int]
    """Bucket → samples."""
    sum: int
    """Nanoseconds, of all samples."""

    @property
    def count(self) -> int:
        """Number of samples."""
        return sum(count for _, count in self._items())

    def quantiles(self, shares: Sequence[float]) -> tuple[float, ...]:
        """Latencies in seconds, below which these shares of the samples lie, in ascending order; ()
        without samples. The samples of a bucket are taken as evenly distributed in it."""
        items = self._items()
        total, found, below = sum(count for _, count in items), [], 0
        wanted = list(shares)
        for bucket, count in items:
            low, high = bucket_range(bucket)
            while wanted and wanted[0] * total <= below + count:
                inside = max(0.0, wanted.pop(0) * total - below) / count
                found.append((low + inside * (high - low)) / NANOSECONDS)
            below += count
        return tuple(found)

    def summary(self) -> LatencySummary:
        items = self._items()
        total = sum(count for _, count in items)
        if not total:
            return LatencySummary(0)
        lowest, highest = _middle(items[0][0]) / NANOSECONDS, _middle(items[-1][0]) / NANOSECONDS
        values = self.quantiles(tuple(QUANTILES.values()))
        known: list[float | None] = []
        for share, value in zip(QUANTILES.values(), values, strict=True):
            has_enough = total * (1 - share) >= MIN_SAMPLES_BEYOND - 1e-6
            known.append(min(max(value, lowest), highest) if has_enough else None)
        p50, p90, p99, p999 = known
        mean = self.sum / total / NANOSECONDS
        return LatencySummary(total, lowest, mean, p50, p90, p99, p999, highest)

    def bins(self, most: int) -> tuple[LatencyBin, ...]:
        """The samples by latency, from the lowest to the highest, in at most `most` log-spaced
        bins: as fine as possible up to `BODY_SHARE` of the samples, and coarser above if they are
        too many. A bucket belongs to the bin of its middle. () without samples."""
        items = [(_middle(bucket), count) for bucket, count in self._items()]
        if not items or most < 1:
            return ()
        (body,) = self.quantiles((BODY_SHARE,))
        edges = [0]
        for number, fine in enumerate(BIN_EDGES):
            for coarse in BIN_EDGES[number : number + MAX_COARSER + 1]:
                at = bisect_right(fine, body * NANOSECONDS)
                edges = [*fine[: at + 1], *coarse[bisect_right(coarse, fine[at]) :]]
                first, last = (bisect_right(edges, items[end][0]) - 1 for end in (0, -1))
                if last - first < most:
                    return _binned(items, edges[first : last + 2])
        return _binned(items, [*edges[first : first + most], edges[last + 1]])

    def _items(self) -> list[tuple[int, int]]:
        """By bucket; a stored file may contain any numbers."""
        items = []
        for bucket, count in self.counts.items():
            if 0 <= bucket < BUCKETS and 0 < count < MAX_COUNT:
                items.append((bucket, count))
        return sorted(items)


EMPTY = LatencyHistogram({}, 0)


def _middle(bucket: int) -> float:
    """Nanoseconds."""
    return sum(bucket_range(bucket)) / 2


def _binned(items: Iterable[tuple[float, int]], edges: Sequence[int]) -> tuple[LatencyBin, ...]:
    """Bins between neighbouring edges. `items`: (nanoseconds, count)."""
    counts = [0] * (len(edges) - 1)
    for latency, count in items:
        counts[bisect_right(edges, latency) - 1] += count
    return tuple(
        LatencyBin(low / NANOSECONDS, high / NANOSECONDS, count)
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    )


def samples_needed(name: str) -> int:
    """Samples from which on a percentile of `QUANTILES` is known."""
    return round(MIN_SAMPLES_BEYOND / (1 - QUANTILES[name]))


def merged(histograms: Iterable[LatencyHistogram]) -> LatencyHistogram:
    """The histogram of all samples."""
    counts: dict[int, int] = {}
    total = 0
    for histogram in histograms:
        total += histogram.sum
        for bucket, count in histogram.counts.items():
            counts[bucket] = counts.get(bucket, 0) + count
    return LatencyHistogram(counts, total)


def histogram_of(record: LatencyCounts) -> LatencyHistogram | None:
    """None: the counts are not valid."""
    try:
        return LatencyHistogram(unpacked_counts(record.buckets), record.sum)
    except ValueError:
        return None


def parse_histogram(value: object) -> LatencyHistogram | None:
    """``{"sum": 123, "buckets": […]}`` as the generator prints it; None if it is not valid."""
    if not isinstance(value, dict):
        return None
    total, buckets = value.get("sum"), value.get("buckets")
    if not isinstance(total, int) or not isinstance(buckets, list):
        return None
    if not 0 <= total < 10**24 or len(buckets) > 2 * BUCKETS:
        return None
    if not all(map(_is_count, buckets)):
        return None
    return histogram_of(LatencyCounts(total, tuple(buckets)))


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < MAX_COUNT
