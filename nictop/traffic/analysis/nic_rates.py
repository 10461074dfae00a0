"""What one NIC receives or sends over time, by the counters of its host.

Reads nothing; takes the counter records of the host, for a run that runs and for its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nictop.probe.records import LINK_COUNTERS, Counters
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.plan.plan import NETWORK
from nictop.traffic.results.result import Flow, IntervalPoint

MIN_NIC_INTERVAL = 0.4
"""Seconds between two counter records that make a rate: they are counted 0.2 s apart."""
RX_BYTES, TX_BYTES = LINK_COUNTERS.index("rx_bytes"), LINK_COUNTERS.index("tx_bytes")


def nic_points(
    records: Iterable[Counters], ifindex: int | None, origin: float, *, sends: bool
) -> Iterator[IntervalPoint]:
    """Rates between records; `origin`: start of the axis on the clock of the host. A counter that
    was reset has no rate."""
    last: Counters | None = None
    for record in records:
        if ifindex is None or ifindex not in record.links:
            last = None
            continue
        if last is None or record.time < last.time:
            last = record
        elif record.time - last.time >= MIN_NIC_INTERVAL:
            point = _point(last, record, ifindex, origin, sends)
            if point is not None:
                yield point
            last = record


def _point(
    before: Counters, after: Counters, ifindex: int, origin: float, sends: bool
) -> IntervalPoint | None:
    moved = counted(before, after, ifindex, TX_BYTES if sends else RX_BYTES)
    if moved is None:
        return None
    begin, end = before.time - origin, after.time - origin
    return IntervalPoint(end, Interval(begin, end, 8 * moved / (end - begin), sends=False))


def counted(before: Counters, after: Counters, ifindex: int, index: int) -> int | None:
    """Growth of a counter of `LINK_COUNTERS`; None: reset, or not counted."""
    old, new = before.links.get(ifindex, ()), after.links.get(ifindex, ())
    if min(len(old), len(new)) <= index or new[index] < old[index]:
        return None
    return new[index] - old[index]


def nic_flow(host: str, points: Sequence[IntervalPoint], *, sends: bool) -> Flow:
    """What a host sends to the network, or receives from it."""
    sender, receiver = (host, NETWORK) if sends else (NETWORK, host)
    return Flow(sender, receiver, None, None, tuple(points))
