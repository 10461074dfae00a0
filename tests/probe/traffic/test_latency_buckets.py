"""Histograms of latencies: percentiles against the sorted raw samples, exact merging, compact
form."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.records import LatencyCounts
from nictop.probe.traffic.builtin.latency_buckets import (
    BUCKETS,
    MAX_LATENCY_BITS,
    SUB_BUCKETS,
    bucket_of,
    bucket_range,
    packed_counts,
    unpacked_counts,
)
from nictop.traffic.generators.latency import (
    LatencyHistogram,
    LatencySummary,
    histogram_of,
    merged,
    parse_histogram,
    samples_needed,
)

LATENCIES = st.integers(0, (1 << MAX_LATENCY_BITS) - 1)
SAMPLES = st.lists(LATENCIES | st.integers(10_000, 400_000), min_size=1, max_size=300)
ERROR = 1 / SUB_BUCKETS
"""Largest relative error of a percentile."""


def histogram(samples: list[int]) -> LatencyHistogram:
    counts: dict[int, int] = {}
    for one in samples:
        counts[bucket_of(one)] = counts.get(bucket_of(one), 0) + 1
    return LatencyHistogram(counts, sum(samples))


@given(LATENCIES)
def test_a_bucket_contains_its_latencies_and_is_narrow(latency: int) -> None:
    low, high = bucket_range(bucket_of(latency))
    assert low <= latency < high and high - low <= max(1, ERROR * low)


def test_buckets_are_contiguous() -> None:
    ranges = [bucket_range(bucket) for bucket in range(BUCKETS)]
    assert ranges[0][0] == 0 and ranges[-1][1] == 1 << MAX_LATENCY_BITS
    assert [high for _, high in ranges[:-1]] == [low for low, _ in ranges[1:]]
    assert bucket_of(1 << 60) == BUCKETS - 1


@given(SAMPLES, st.lists(st.floats(0.001, 0.9999), min_size=1, max_size=5).map(sorted))
def test_percentiles_are_those_of_the_sorted_samples(
    samples: list[int], shares: list[float]
) -> None:
    ordered = sorted(samples)
    found = histogram(samples).quantiles(shares)
    assert len(found) == len(shares)
    for share, value in zip(shares, found, strict=True):
        exact = ordered[max(0, math.ceil(share * len(ordered)) - 1)]
        assert abs(value * 1e9 - exact) <= max(1, ERROR * exact) + 1e-3


@given(SAMPLES)
def test_summary(samples: list[int]) -> None:
    found = histogram(samples).summary()
    assert found.count == len(samples)
    assert found.mean == pytest.approx(sum(samples) / len(samples) / 1e9)
    assert found.minimum is not None and abs(found.minimum * 1e9 - min(samples)) <= max(
        1, ERROR * min(samples)
    )
    assert found.maximum is not None and abs(found.maximum * 1e9 - max(samples)) <= max(
        1, ERROR * max(samples)
    )
    assert (found.p50 is None) == (len(samples) < 20) and (found.p90 is None) == (
        len(samples) < 100
    )
    assert found.p99 is None and found.p999 is None, "too few samples"
    known = [one for one in (found.minimum, found.p50, found.p90, found.maximum) if one is not None]
    assert known == sorted(known)


def test_percentiles_need_samples_beyond_them() -> None:
    assert [samples_needed(name) for name in ("p50", "p90", "p99", "p99.9")] == [
        20,
        100,
        1000,
        10000,
    ]
    assert LatencyHistogram({bucket_of(1000): 999}, 999_000).summary().p99 is None
    assert LatencyHistogram({bucket_of(1000): 1000}, 1_000_000).summary().p99 == pytest.approx(
        1e-6, rel=ERROR
    )
    assert LatencyHistogram({bucket_of(1000): 10_000}, 1).summary().p999 is not None
    assert LatencyHistogram({}, 0).summary() == LatencySummary(0)


@given(st.lists(SAMPLES, min_size=1, max_size=4))
def test_merging_is_exact(parts: list[list[int]]) -> None:
    assert merged(map(histogram, parts)) == histogram([one for part in parts for one in part])


@given(st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(1, 10**6), max_size=50))
def test_compact_form(counts: dict[int, int]) -> None:
    packed = packed_counts([counts.get(bucket, 0) for bucket in range(BUCKETS)])
    assert unpacked_counts(packed) == counts
    assert histogram_of(LatencyCounts(7, tuple(packed))) == LatencyHistogram(counts, 7)
    assert parse_histogram({"sum": 7, "buckets": packed}) == LatencyHistogram(counts, 7)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=6)
    )
)
def test_arbitrary_counts_are_refused_or_valid(value: object) -> None:
    found = parse_histogram({"sum": 1, "buckets": value})
    assert found is None or all(
        0 <= bucket < BUCKETS and count > 0 for bucket, count in found.counts.items()
    )
    assert parse_histogram(value) is None


@given(SAMPLES, st.integers(1, 60))
def test_bins_have_all_samples_in_contiguous_ranges(samples: list[int], most: int) -> None:
    found = histogram(samples)
    bins = found.bins(most)
    assert 1 <= len(bins) <= most and sum(one.count for one in bins) == len(samples)
    assert [one.high for one in bins[:-1]] == [one.low for one in bins[1:]] and all(
        one.low < one.high for one in bins
    )
    for one in bins:
        exact = [
            sample
            for sample in samples
            if one.low * (1 + ERROR) <= sample / 1e9 < one.high * (1 - ERROR)
        ]
        assert one.count >= len(exact)
    assert (
        bins[0].count
        and bins[-1].count
        and LatencyHistogram({}, 0).bins(most) == () == found.bins(0)
    )


def test_bins_are_fine_around_the_median_and_coarse_in_the_tail() -> None:
    body = {bucket_of(latency): 100 for latency in range(40_000, 80_000, 200)}
    bins = LatencyHistogram({**body, bucket_of(30_000_000): 3}, 1).bins(16)
    lows = [round(one.low * 1e6) for one in bins]
    assert lows[:7] == [39, 43, 47, 51, 56, 62, 68] and bins[-1].count == 3 and len(bins) <= 16
    assert bins[-1].low <= 0.03 < bins[-1].high and bins[-1].high / bins[-1].low > 1.9


def test_counts_of_a_stored_file_may_be_any_numbers() -> None:
    odd = LatencyHistogram({-1: 5, 10**18: 5, 300: -3, 400: 10**30, bucket_of(1000): 20}, -5)
    assert odd.count == 20 and odd.summary().p50 == pytest.approx(1e-6, rel=ERROR)
