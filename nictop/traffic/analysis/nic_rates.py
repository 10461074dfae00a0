"""What one NIC receives or sends over time, by the counters of its host.

Reads nothing; takes the counter records of the host, for a run that runs and for its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nictop.model.guests.table import SAME_DIRECTION_KINDS
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import LINK_COUNTERS, VF_COUNTERS, Counters
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.plan.plan import NETWORK, RunPlan
from nictop.traffic.results.result import Flow, IntervalPoint

MIN_NIC_INTERVAL = 0.4
"""Seconds between two counter records that make a rate: they are counted 0.2 s apart."""
RX_BYTES, TX_BYTES = LINK_COUNTERS.index("rx_bytes"), LINK_COUNTERS.index("tx_bytes")

RX_PACKETS, TX_PACKETS = LINK_COUNTERS.index("rx_packets"), LINK_COUNTERS.index("tx_packets")
OTHER_WAY = {
    RX_BYTES: TX_BYTES, TX_BYTES: RX_BYTES, RX_PACKETS: TX_PACKETS, TX_PACKETS: RX_PACKETS,
}  # fmt: skip
VF_INDEX = {
    index: VF_COUNTERS.index(LINK_COUNTERS[index])
    for index in (RX_BYTES, TX_BYTES, RX_PACKETS, TX_PACKETS)
}
"""Index of a counter of a link → that of a VF."""


@dataclass(frozen=True)
class CountedNic:
    """Whose counters are those of a measured NIC."""

    ifindex: int | None
    vf: int | None = None
    """It is this VF of the NIC, as the guest sees it."""
    is_reversed: bool = False
    """What the link sends is what the guest receives."""


def counted_nic(plan: RunPlan, snapshot: Snapshot) -> CountedNic:
    """Of a run on one host."""
    ifindex = plan.client.ifindex
    if not plan.guest:
        return CountedNic(ifindex)
    link = snapshot.links.get(ifindex or 0)
    is_tap = plan.guest_vf is None and link is not None
    return CountedNic(
        ifindex,
        plan.guest_vf,
        is_tap and link is not None and link.kind not in SAME_DIRECTION_KINDS,
    )


def has_counters(record: Counters, nic: CountedNic) -> bool:
    """VFs are read less often than links."""
    if nic.ifindex is None:
        return False
    if nic.vf is None:
        return nic.ifindex in record.links
    return nic.vf in record.vfs.get(nic.ifindex, {})


def nic_points(
    records: Iterable[Counters], nic: CountedNic, origin: float, *, sends: bool
) -> Iterator[IntervalPoint]:
    """Rates between records; `origin`: start of the axis on the clock of the host. A counter that
    was reset has no rate."""
    last: Counters | None = None
    for record in records:
        if not has_counters(record, nic):
            last = last if nic.vf is not None else None
            continue
        if last is None or record.time < last.time:
            last = record
        elif record.time - last.time >= MIN_NIC_INTERVAL:
            point = _point(last, record, nic, origin, sends)
            if point is not None:
                yield point
            last = record


def _point(
    before: Counters, after: Counters, nic: CountedNic, origin: float, sends: bool
) -> IntervalPoint | None:
    moved = counted(before, after, nic, TX_BYTES if sends else RX_BYTES)
    if moved is None:
        return None
    begin, end = before.time - origin, after.time - origin
    return IntervalPoint(end, Interval(begin, end, 8 * moved / (end - begin), sends=False))


def counted(before: Counters, after: Counters, nic: CountedNic, index: int) -> int | None:
    """Growth of a counter of `LINK_COUNTERS`, of bytes or packets; None: reset, or not counted."""
    if nic.ifindex is None:
        return None
    old, new = before.links.get(nic.ifindex, ()), after.links.get(nic.ifindex, ())
    if nic.is_reversed:
        index = OTHER_WAY[index]
    if nic.vf is not None:
        old = before.vfs.get(nic.ifindex, {}).get(nic.vf, ())
        new = after.vfs.get(nic.ifindex, {}).get(nic.vf, ())
        index = VF_INDEX[index]
    if min(len(old), len(new)) <= index or new[index] < old[index]:
        return None
    return new[index] - old[index]


def nic_flow(host: str, points: Sequence[IntervalPoint], *, sends: bool) -> Flow:
    """What a host sends to the network, or receives from it."""
    sender, receiver = (host, NETWORK) if sends else (NETWORK, host)
    return Flow(sender, receiver, None, None, tuple(points))
