"""Log-linear buckets of latencies: bounded memory, bounded relative error, and counts that can be
added.

Pure. A latency in nanoseconds below 2 × `SUB_BUCKETS` has a bucket of its own; from there on every
power of two is divided into `SUB_BUCKETS` buckets of equal width. A bucket is at most 1 /
`SUB_BUCKETS` (0.8 %) of its latencies wide. Longer latencies than the last bucket (69 s) are
counted in it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SUB_BUCKET_BITS = 7
SUB_BUCKETS = 1 << SUB_BUCKET_BITS
MAX_LATENCY_BITS = 36
BUCKETS = (MAX_LATENCY_BITS - SUB_BUCKET_BITS + 1) * SUB_BUCKETS


def bucket_of(latency: int) -> int:
    """Number of the bucket of a latency in nanoseconds, 0 or more."""
    shift = latency.bit_length() - (SUB_BUCKET_BITS + 1)
    if shift <= 0:
        return latency
    return min(BUCKETS - 1, (shift << SUB_BUCKET_BITS) + (latency >> shift))


def bucket_range(bucket: int) -> tuple[int, int]:
    """(lowest latency, first latency above the bucket), in nanoseconds."""
    shift = max(0, (bucket >> SUB_BUCKET_BITS) - 1)
    low = (bucket - (shift << SUB_BUCKET_BITS)) << shift
    return low, low + (1 << shift)


def packed_counts(counts: Sequence[int]) -> list[int]:
    """The buckets that are not empty, each as two numbers: distance from the previous one (of the
    first: from bucket 0), and count."""
    packed: list[int] = []
    last = 0
    for bucket, count in enumerate(counts):
        if count:
            packed += (bucket - last, count)
            last = bucket
    return packed


def unpacked_counts(packed: Iterable[int]) -> dict[int, int]:
    """Bucket → count. Raises ValueError for what `packed_counts` does not make."""
    counts: dict[int, int] = {}
    numbers = iter(packed)
    bucket = 0
    for distance in numbers:
        count = next(numbers, 0)
        bucket += distance
        if not 0 <= bucket < BUCKETS or count <= 0 or bucket in counts or distance < 0:
            raise ValueError("not the counts of buckets")
        counts[bucket] = count
    return counts
