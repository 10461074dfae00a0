"""Counters of the chosen NIC of a host in one window of a run, and the queue and CPUs that carried it.

Reads nothing; takes two counter records and the snapshot of the host, the same for a running run and a result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nictop.model.queues.cpu_consumers import CpuConsumer, cpu_consumers
from nictop.model.queues.map import QueueMap, queue_map
from nictop.model.rates.links import rates, sum_known
from nictop.model.snapshot import Snapshot
from nictop.model.window import clock_ticks
from nictop.probe.records import LINK_COUNTERS, Counters

_RECEIVED, _SENT = LINK_COUNTERS.index("rx_packets"), LINK_COUNTERS.index("tx_packets")
_DROPPED = tuple(LINK_COUNTERS.index(name) for name in ("rx_missed_errors", "rx_dropped"))


@dataclass(frozen=True)
class Packets:
    """Counters of the chosen NIC in one window. None: reset, or not counted."""

    time: float
    """End of the window, seconds on the axis of the run."""
    seconds: float
    received: float | None = None
    """Packets per second."""
    sent: float | None = None
    dropped: int | None = None
    """Packets in this window without a free descriptor (rx_missed_errors), or dropped (rx_dropped)."""


@dataclass(frozen=True)
class CarryingQueue:
    """Queue and CPUs that carried the packets of one window."""

    time: float
    """End of the window, seconds on the axis of the run."""
    queue: int | None = None
    """The busiest queue of the chosen NIC."""
    share: float | None = None
    """Share of 1 of all its packets."""
    queues: int = 0
    """Number of its queues in use."""
    cpus: tuple[int, ...] = ()
    """CPUs that handled the interrupts of that queue, busiest first."""
    vhost: float | None = None
    """Cores that the vhost threads of the host used; None: it has none."""


@dataclass(frozen=True)
class QueueShare:
    """One queue of the chosen NIC in a window."""

    queue: int
    share: float
    """Share of 1 of all packets, or of all interrupts if packets are not counted per queue."""
    cpus: tuple[int, ...] = ()
    """CPUs that handled its interrupts, busiest first."""


def snapshot_between(snapshot: Snapshot, before: Counters, after: Counters) -> Snapshot:
    """The snapshot with the rates between two records."""
    return replace(snapshot, rates=rates(before, after, clock_ticks(snapshot)))


def packets_between(before: Counters, after: Counters, ifindex: int | None, time: float) -> Packets | None:
    """Counters of a NIC between two records; None: it is in only one of them."""
    old, new = before.links.get(ifindex or 0), after.links.get(ifindex or 0)
    seconds = after.time - before.time
    if old is None or new is None or seconds <= 0:
        return None
    # the larger one of both: some drivers count a missed packet as dropped too
    steps = [new[index] - old[index] for index in _DROPPED if index < min(len(old), len(new))]
    return Packets(
        time,
        seconds,
        _rate(old, new, _RECEIVED, seconds),
        _rate(old, new, _SENT, seconds),
        max((step for step in steps if step >= 0), default=None),
    )


def _rate(old: tuple[int, ...], new: tuple[int, ...], index: int, seconds: float) -> float | None:
    step = new[index] - old[index] if index < min(len(old), len(new)) else -1
    return step / seconds if step >= 0 else None


def chosen_queues(window: Snapshot, ifindex: int | None) -> QueueMap | None:
    """The queues of a NIC; None: there is no such link. `window`: the host in a window (`snapshot_between`)."""
    link = window.links.get(ifindex or 0)
    return queue_map(link, window) if link is not None else None


def carrying_queue(window: Snapshot, queues: QueueMap | None, time: float) -> CarryingQueue:
    """Queue and CPUs of a NIC. `window`: the host in a window that ends at `time`; `queues`: `chosen_queues` in it."""
    vhost = sum_known(map(_vhost_cores, cpu_consumers(window)))
    if queues is None:
        return CarryingQueue(time, vhost=vhost)
    row = (
        next((one for one in queues.rows if one.queue == queues.busiest), None) if queues.busiest is not None else None
    )
    used = sum(one.in_use for one in queues.rows)
    if row is None:
        return CarryingQueue(time, queues=used, vhost=vhost)
    return CarryingQueue(
        time, queues.busiest, queues.busiest_share, used, row.busy_cpus or (row.effective or ()), vhost
    )


def queue_shares(queues: QueueMap | None) -> tuple[QueueShare, ...]:
    """Every queue in use, by number; () if nothing is counted per queue, or all are idle."""
    rows = [one for one in queues.rows if one.in_use and one.queue is not None] if queues is not None else []
    total = sum(one.load or 0.0 for one in rows)
    if not total:
        return ()
    return tuple(QueueShare(one.queue or 0, (one.load or 0.0) / total, one.busy_cpus) for one in rows)


def _vhost_cores(one: CpuConsumer) -> float | None:
    if one.kind == "machine":
        return one.vhost
    return one.total if one.kind == "vhost" else None
