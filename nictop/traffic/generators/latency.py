"""Latencies of transactions as a histogram: merged exactly, with percentiles whose relative error is bounded.

Reads nothing. The buckets are those of the probe (`nictop.probe.traffic.builtin.latency_buckets`): a percentile differs
from that of the raw samples by less than the width of a bucket, 0.8 % of it. A percentile with fewer than
`MIN_SAMPLES_BEYOND` samples above it is not known: the next run would give another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nictop.probe.records import LatencyCounts
from nictop.probe.traffic.builtin.latency_buckets import BUCKETS, bucket_range, unpacked_counts

MIN_SAMPLES_BEYOND = 10
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
"""Name → share of the samples below it."""
NANOSECONDS = 1e9
MAX_COUNT = 10**15
"""Larger counts are not valid."""


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
        """Latencies in seconds, below which these shares of the samples lie, in ascending order; () without samples.
        The samples of a bucket are taken as evenly distributed in it."""
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
        values = self.quantiles(tuple(QUANTILES.values()))
        p50, p90, p99, p999 = (
            value if total * (1 - share) >= MIN_SAMPLES_BEYOND - 1e-6 else None
            for share, value in zip(QUANTILES.values(), values, strict=True)
        )
        lowest, highest = (sum(bucket_range(items[end][0])) / 2 / NANOSECONDS for end in (0, -1))
        return LatencySummary(total, lowest, self.sum / total / NANOSECONDS, p50, p90, p99, p999, highest)

    def _items(self) -> list[tuple[int, int]]:
        """By bucket; a stored file may contain any numbers."""
        return sorted(
            (one, count) for one, count in self.counts.items() if 0 <= one < BUCKETS and 0 < count < MAX_COUNT
        )


EMPTY = LatencyHistogram({}, 0)


def samples_needed(name: str) -> int:
    """Samples from which on a percentile of `QUANTILES` is known."""
    return round(MIN_SAMPLES_BEYOND / (1 - QUANTILES[name]))


def merged(histograms: Iterable[LatencyHistogram]) -> LatencyHistogram:
    """The histogram of all samples."""
    counts: dict[int, int] = {}
    total = 0
    for one in histograms:
        total += one.sum
        for bucket, count in one.counts.items():
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
    if not isinstance(total, int) or not isinstance(buckets, list) or len(buckets) > 2 * BUCKETS:
        return None
    if not 0 <= total < 10**24 or not all(type(one) is int and 0 <= one < MAX_COUNT for one in buckets):
        return None
    return histogram_of(LatencyCounts(total, tuple(buckets)))
