"""Load of each host during a run: its CPUs between two counter records (total, hottest CPU,
series), the counters of its chosen NIC, and the threads and virtual machines that took part.

Reads nothing. /proc/stat counts ticks of 10 ms, so that no window is shorter than
`MIN_CPU_WINDOW_SECONDS`. Without interrupt time accounting the kernel only samples softirq at those
ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from nictop.model.queues.cpu_consumers import CpuConsumer, cpu_consumers
from nictop.model.queues.map import QueueMap
from nictop.model.rates.cpus import CpuShares, all_cpu_shares
from nictop.model.rates.links import sum_known
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.window import clock_ticks
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import (
    CPU_TIMES,
    SOFTNET_COUNTERS,
    BusyThread,
    Counters,
    TrafficLine,
)
from nictop.traffic.analysis.nic_load import (
    carrying_queue,
    chosen_queues,
    packets_between,
    snapshot_between,
)
from nictop.traffic.results.host_load import (
    NEARLY_FULL_SHARE,
    Busy,
    BusyCpu,
    CarryingQueue,
    HostLoad,
    HostRole,
    Machine,
    Packets,
    ThreadLoad,
)

MAX_LISTED_PROCESSES = 3
MIN_CPU_WINDOW_SECONDS = 0.95
"""Between two records for a share of CPU time."""
MAX_RESULT_MACHINES = 16
MAX_RESULT_THREADS = 8
MAX_RESULT_CPUS = 16

_STEAL = CPU_TIMES.index("steal")
_BACKLOG_DROPS = SOFTNET_COUNTERS.index("dropped")


def host_load(
    host: str,
    role: HostRole,
    records: Sequence[Counters],
    window: tuple[float, float],
    *,
    offset: float,
    snapshot: Snapshot,
    bits_per_second: float | None,
    ifindex: int | None = None,
    readings: Sequence[TrafficLine] = (),
    pids: frozenset[int] = frozenset(),
    ends: Mapping[str, str] | None = None,
) -> HostLoad:
    """The load of one host. `records`: of the whole run in order; `window`: measured seconds on the
    axis of the run; `offset`: to subtract from times of records for the axis; `snapshot`: the host
    at the end; `ifindex`: its chosen NIC; `readings`: of its threads; `pids`: processes of both
    ends on this machine; `ends`: virtual machine of this host → the end of the run that it is."""
    ticks = clock_ticks(snapshot)
    packets: list[Packets] = []
    carrying: list[CarryingQueue] = []
    series: list[Busy] = []
    for before, after in windows(records):
        of_window = load_between(snapshot, before, after, ifindex, offset)
        if of_window.busy is not None:
            series.append(of_window.busy)
        if of_window.packets is not None:
            packets.append(of_window.packets)
        carrying.append(of_window.carrying)
    load = HostLoad(
        host,
        role,
        None,
        tuple(series),
        packets=tuple(packets),
        carrying=tuple(carrying),
    )
    measured = [record for record in records if window[0] <= record.time - offset <= window[1]]
    if len(measured) < 2 or measured[-1].time - measured[0].time < MIN_CPU_WINDOW_SECONDS:
        return load
    first, last = measured[0], measured[-1]
    shares = all_cpu_shares(first.cpus, last.cpus, (last.time - first.time) * ticks)
    busy = _busy(shares, last.time - offset)
    nic_counters = packets_between(first, last, ifindex, last.time - offset)
    return replace(
        load,
        busy=busy,
        per_gigabit=_per_gigabit(busy, bits_per_second),
        ring_drops=nic_counters.dropped if nic_counters is not None else None,
        cpus={cpu: share.busy for cpu, share in shares.items()},
        machines=_busiest_machines(snapshot_between(snapshot, first, last), ends or {}),
        full=_nearly_full_cpus(shares),
        threads=thread_loads(readings, (window[0] + offset, window[1] + offset), ticks, pids),
        send_drops=nic_counters.send_dropped if nic_counters is not None else None,
        backlog_drops=_backlog_drops(first, last),
        steal_unseen=_is_steal_unseen(snapshot, last),
    )


def _per_gigabit(busy: Busy | None, bits_per_second: float | None) -> float | None:
    """Cores per Gb/s of goodput."""
    gigabits = (bits_per_second or 0.0) / 1e9
    if busy is None or not gigabits:
        return None
    return busy.total / gigabits


def _is_steal_unseen(snapshot: Snapshot, last: Counters) -> bool:
    """A guest shows steal only if its hypervisor reports it: QEMU without KVM does not, ESXi only
    if stealclock.enable is set."""
    if snapshot.inventory is None or snapshot.inventory.platform.hypervisor is None:
        return False
    return not any(times[_STEAL] for times in last.cpus.values() if len(times) > _STEAL)


def _nearly_full_cpus(shares: dict[int, CpuShares]) -> tuple[BusyCpu, ...]:
    found = []
    for cpu, share in shares.items():
        if share.busy >= NEARLY_FULL_SHARE:
            interrupts = share.irq + share.softirq
            found.append(
                BusyCpu(cpu, share.busy, interrupts, share.user, share.system, share.steal)
            )
    found.sort(key=lambda full: (-full.busy, full.cpu))
    return tuple(found[:MAX_RESULT_CPUS])


def processes_text(
    threads: Iterable[ThreadLoad], name: Callable[[ThreadLoad], str], unit: str = ""
) -> str:
    """``stress (pid 812) 61 %, iperf3 (pid 95) 34 % in 2 threads``: each process once, the busiest
    first, at most `MAX_LISTED_PROCESSES`. `name`: of the process of a thread; `unit`: behind each
    share."""
    processes: dict[str, list[float]] = {}
    for thread in threads:
        processes.setdefault(name(thread), []).append(thread.share)
    busiest = sorted(processes.items(), key=lambda process: -sum(process[1]))
    texts = []
    for process, shares in busiest[:MAX_LISTED_PROCESSES]:
        of_threads = f" in {len(shares)} threads" if len(shares) > 1 else ""
        texts.append(f"{process} {units.percentage(sum(shares))}{unit}{of_threads}")
    return ", ".join(texts)


def thread_loads(
    readings: Sequence[TrafficLine],
    window: tuple[float, float],
    clock_ticks: int,
    pids: frozenset[int] = frozenset(),
) -> tuple[ThreadLoad, ...] | None:
    """The threads that used most CPU time in the readings that are mostly in the window, which is
    in seconds of the host's clock. None: there is no such reading, or one lacks processes."""
    seconds = 0.0
    ticks_by_cpu: dict[int, dict[int | None, int]] = {}
    threads: dict[int, BusyThread] = {}
    corrections: dict[int, float] = {}
    for reading in readings:
        if not reading.seconds:
            continue
        if not _mostly_inside(reading.time - reading.seconds, reading.time, window):
            continue
        if reading.unreadable is not None:
            return None
        seconds += reading.seconds
        for thread in reading.threads:
            ticks = ticks_by_cpu.setdefault(thread.tid, {})
            ticks[thread.cpu] = ticks.get(thread.cpu, 0) + thread.user + thread.system
            threads[thread.tid] = thread
            own = thread.seconds if thread.seconds > 0 else reading.seconds
            corrections[thread.tid] = corrections.get(thread.tid, 0.0) + own - reading.seconds
    if not seconds:
        return None
    found = []
    for tid, ticks in ticks_by_cpu.items():
        share = sum(ticks.values()) / ((seconds + corrections[tid]) * clock_ticks)
        if None not in ticks:  # one thread: what is above a core is rounding to ticks
            share = min(1.0, share)
        found.append(_thread_load(threads[tid], share, ticks, pids))
    found.sort(key=lambda load: (-load.share, load.pid))
    return tuple(found[:MAX_RESULT_THREADS])


def _thread_load(
    thread: BusyThread, share: float, ticks: Mapping[int | None, int], pids: frozenset[int]
) -> ThreadLoad:
    """`ticks`: CPU → how long it ran there; `pids`: processes of both ends on this machine."""
    most_frequent = sorted(ticks.items(), key=lambda item: -item[1])
    return ThreadLoad(
        thread.name,
        thread.pid,
        share,
        tuple(cpu for cpu, _ in most_frequent if cpu is not None),
        thread.generator,
        not thread.generator and thread.pid in pids,
        thread.probe,
    )


def _mostly_inside(start: float, end: float, window: tuple[float, float]) -> bool:
    return min(end, window[1]) - max(start, window[0]) >= (end - start) / 2


def _backlog_drops(first: Counters, last: Counters) -> int | None:
    """Sum of all CPUs; None: the kernel does not report it. The counters have 32 bits."""
    steps = []
    for cpu, new in last.softnet.items():
        old = first.softnet.get(cpu, ())
        if min(len(old), len(new)) > _BACKLOG_DROPS:
            steps.append(max(0, new[_BACKLOG_DROPS] - old[_BACKLOG_DROPS]))
    return sum_known(steps)


def _busiest_machines(window: Snapshot, ends: Mapping[str, str]) -> tuple[Machine, ...]:
    """The ends of the run are always included."""
    found = []
    for consumer in cpu_consumers(window):
        if consumer.kind in ("machine", "vhost") and consumer.total:
            found.append(consumer)
    busiest, others = found[:MAX_RESULT_MACHINES], found[MAX_RESULT_MACHINES:]
    others = [consumer for consumer in others if consumer.name in ends]
    return tuple(_machine(consumer, ends) for consumer in (*busiest, *others))


def _machine(consumer: CpuConsumer, ends: Mapping[str, str]) -> Machine:
    total = consumer.total or 0.0
    vhost, end = consumer.vhost, ends.get(consumer.name, "")
    if consumer.kind == "vhost":
        vhost, end = consumer.total, ""
    return Machine(consumer.name, total, vhost, consumer.cpus, consumer.ready, consumer.costop, end)


class Windows:
    """Cuts counter records, in order, into windows of at least `MIN_CPU_WINDOW_SECONDS`. A window
    ends with the first record that is that much later than the one at its start."""

    def __init__(self) -> None:
        self.opened: Counters | None = None
        """The record at which the next window begins."""

    def close(self, record: Counters) -> Counters | None:
        """The record at which the window began that ends with this one; None: none ends."""
        opened = self.opened
        # the first one, or the host was rebooted
        if opened is None or record.time < opened.time:
            self.opened = record
            return None
        if record.time - opened.time < MIN_CPU_WINDOW_SECONDS:
            return None
        self.opened = record
        return opened


def windows(records: Iterable[Counters]) -> list[tuple[Counters, Counters]]:
    """The records at both ends of each window."""
    cutter = Windows()
    found = []
    for record in records:
        opened = cutter.close(record)
        if opened is not None:
            found.append((opened, record))
    return found


@dataclass(frozen=True)
class WindowLoad:
    """The load of a host in one window."""

    busy: Busy | None
    """None: its CPUs were not counted."""
    packets: Packets | None
    carrying: CarryingQueue
    queues: QueueMap | None
    """Of the chosen NIC."""


def load_between(
    snapshot: Snapshot, before: Counters, after: Counters, ifindex: int | None, offset: float
) -> WindowLoad:
    """`ifindex`: the chosen NIC; `offset`: to subtract from times of records for the axis."""
    end = after.time - offset
    window = snapshot_between(snapshot, before, after)
    queues = chosen_queues(window, ifindex)
    return WindowLoad(
        _busy_between(before, after, end, clock_ticks(snapshot)),
        packets_between(before, after, ifindex, end),
        carrying_queue(window, queues, end),
        queues,
    )


def _busy_between(before: Counters, after: Counters, end: float, ticks: int) -> Busy | None:
    """`end`: of the window, on the axis."""
    shares = all_cpu_shares(before.cpus, after.cpus, (after.time - before.time) * ticks)
    return _busy(shares, end)


def _busy(shares: dict[int, CpuShares], time: float) -> Busy | None:
    if not shares:
        return None
    hottest, hottest_shares = max(shares.items(), key=lambda pair: (pair[1].busy, -pair[0]))
    all_shares = shares.values()
    return Busy(
        time=time,
        user=sum(cpu.user for cpu in all_shares),
        system=sum(cpu.system for cpu in all_shares),
        irq=sum(cpu.irq for cpu in all_shares),
        softirq=sum(cpu.softirq for cpu in all_shares),
        steal=sum(cpu.steal for cpu in all_shares),
        guest=sum(cpu.guest for cpu in all_shares),
        cores=len(shares),
        hottest=hottest,
        hottest_busy=hottest_shares.busy,
        hottest_softirq=hottest_shares.irq + hottest_shares.softirq,
        split=all(cpu.split for cpu in all_shares),
    )
