"""Counters of the chosen NIC of a host in one window of a run, and the queue and CPUs that carried
it.

Reads nothing; takes two counter records and the snapshot of the host, the same for a running run
and a result.
"""

from __future__ import annotations

from nictop.model.queues.cpu_consumers import CpuConsumer, cpu_consumers
from nictop.model.queues.map import QueueMap, QueueRow, queue_map
from nictop.model.rates.links import rates, sum_known
from nictop.model.snapshot import Snapshot
from nictop.model.window import clock_ticks
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import LINK_COUNTERS, Counters
from nictop.traffic.results.host_load import CarryingQueue, Packets

_RECEIVED, _SENT = LINK_COUNTERS.index("rx_packets"), LINK_COUNTERS.index("tx_packets")
_DROPPED = tuple(LINK_COUNTERS.index(name) for name in ("rx_missed_errors", "rx_dropped"))
_SEND_DROPPED = LINK_COUNTERS.index("tx_dropped")


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


def packets_between(
    before: Counters, after: Counters, ifindex: int | None, time: float
) -> Packets | None:
    """Counters of a NIC between two records; None: it is in only one of them."""
    if ifindex is None:
        return None
    old, new = before.links.get(ifindex), after.links.get(ifindex)
    seconds = after.time - before.time
    if old is None or new is None or seconds <= 0:
        return None
    received, sent = _step(old, new, _RECEIVED), _step(old, new, _SENT)
    dropped = [_step(old, new, index) for index in _DROPPED]
    # the larger one of both: some drivers count a missed packet as dropped too
    most_dropped = max((step for step in dropped if step is not None), default=None)
    return Packets(
        time,
        seconds,
        _rate(received, seconds),
        _rate(sent, seconds),
        most_dropped,
        _step(old, new, _SEND_DROPPED),
    )


def _step(old: tuple[int, ...], new: tuple[int, ...], index: int) -> int | None:
    """None: the kernel does not have this counter, or it was reset."""
    if index >= min(len(old), len(new)) or new[index] < old[index]:
        return None
    return new[index] - old[index]


def _rate(step: int | None, seconds: float) -> float | None:
    if step is None:
        return None
    return step / seconds


def chosen_queues(window: Snapshot, ifindex: int | None) -> QueueMap | None:
    """The queues of a NIC; None: there is no such link. `window`: the host in a window
    (`snapshot_between`)."""
    if ifindex is None or ifindex not in window.links:
        return None
    return queue_map(window.links[ifindex], window)


def carrying_queue(window: Snapshot, queues: QueueMap | None, time: float) -> CarryingQueue:
    """Queue and CPUs of a NIC. `window`: the host in a window that ends at `time`; `queues`:
    `chosen_queues` in it."""
    vhost = sum_known(map(_vhost_cores, cpu_consumers(window)))
    if queues is None:
        return CarryingQueue(time, vhost=vhost)
    used = sum(row.in_use for row in queues.rows)
    busiest = _busiest_row(queues)
    if busiest is None:
        return CarryingQueue(time, queues=used, vhost=vhost)
    cpus = busiest.busy_cpus or busiest.effective or ()
    return CarryingQueue(time, queues.busiest, queues.busiest_share, used, cpus, vhost)


def _busiest_row(queues: QueueMap) -> QueueRow | None:
    """None: not known which queue is the busiest one."""
    if queues.busiest is None:
        return None
    for row in queues.rows:
        if row.queue == queues.busiest:
            return row
    return None


def queue_shares(queues: QueueMap | None) -> tuple[QueueShare, ...]:
    """Every queue in use, by number; () if nothing is counted per queue, or all are idle."""
    if queues is None:
        return ()
    loads = []
    for row in queues.rows:
        if row.in_use and row.queue is not None:
            loads.append((row.queue, row.load or 0.0, row.busy_cpus))
    total = sum(load for _, load, _ in loads)
    if not total:
        return ()
    return tuple(QueueShare(queue, load / total, cpus) for queue, load, cpus in loads)


def _vhost_cores(consumer: CpuConsumer) -> float | None:
    if consumer.kind == "machine":
        return consumer.vhost
    return consumer.total if consumer.kind == "vhost" else None
