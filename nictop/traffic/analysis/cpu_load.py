"""Load of each host during a run: its CPUs between two counter records (total, hottest CPU, series), the counters of
its chosen NIC, and the threads and virtual machines that took part.

Reads nothing. /proc/stat counts ticks of 10 ms, so that no window is shorter than `MIN_CPU_WINDOW_SECONDS`. Without
interrupt time accounting the kernel only samples softirq at those ticks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nictop.model.queues.cpu_consumers import cpu_consumers
from nictop.model.rates.cpus import CpuShares, all_cpu_shares
from nictop.model.snapshot import Snapshot
from nictop.model.window import clock_ticks
from nictop.probe.records import CPU_TIMES, LINK_COUNTERS, SOFTNET_COUNTERS, Counters, TrafficLine
from nictop.traffic.analysis.nic_load import (
    CarryingQueue,
    Packets,
    carrying_queue,
    chosen_queues,
    packets_between,
    snapshot_between,
)

MIN_CPU_WINDOW_SECONDS = 0.95
"""Between two records for a share of CPU time."""
MAX_RESULT_MACHINES = 16
MAX_RESULT_THREADS = 8
MAX_RESULT_CPUS = 16
NEARLY_FULL_SHARE = 0.8
"""Of a CPU's time, from which it is listed: a thread that sometimes waits for others leaves the rest."""

_STEAL = CPU_TIMES.index("steal")
_SEND_DROPS, _BACKLOG_DROPS = LINK_COUNTERS.index("tx_dropped"), SOFTNET_COUNTERS.index("dropped")

HostRole = Literal["client", "server", "observer"]


@dataclass(frozen=True)
class Busy:
    """CPUs of a host in one window. Times are in cores: 2.5 is two and a half cores."""

    time: float
    """End of the window, seconds on the axis of the run."""
    user: float
    system: float
    irq: float
    softirq: float
    steal: float
    guest: float
    cores: int
    """Online CPUs that were counted."""
    hottest: int
    """Number of the CPU."""
    hottest_busy: float
    """Share of 1 that it was busy, with steal."""
    hottest_softirq: float
    """Share of 1 in interrupts."""
    split: bool = True
    """False: only user and system are reported (ESXi)."""

    @property
    def total(self) -> float:
        """Busy cores, without steal."""
        return self.user + self.system + self.irq + self.softirq + self.guest

    @property
    def steal_share(self) -> float:
        """Share of 1 of all cores."""
        return self.steal / self.cores if self.cores else 0.0


@dataclass(frozen=True)
class BusyCpu:
    """A CPU that was nearly full. Shares of 1; None: not known in results of older versions."""

    cpu: int
    busy: float
    """With steal."""
    softirq: float
    """irq and softirq."""
    user: float | None = None
    system: float | None = None
    steal: float | None = None


@dataclass(frozen=True)
class ThreadLoad:
    """One thread of a host in the measured seconds."""

    name: str
    pid: int
    share: float
    """Of one core."""
    cpus: tuple[int, ...] = ()
    """CPUs it was seen on, most frequent first; (): a process whose threads were not read one by one."""
    generator: bool = False
    """It belongs to the generator of this host's end of the run."""
    other_end: bool = False
    """It belongs to the generator of the other end, on the same machine."""
    probe: bool = False
    """It belongs to the probe of nictop on this host."""


@dataclass(frozen=True)
class Machine:
    """A virtual machine of a host, or vhost threads of a process, in the measured seconds."""

    name: str
    """Name on the host."""
    cores: float
    """Cores used by its threads, with vhost threads."""
    vhost: float | None
    """Cores used by its vhost threads; None: not known."""
    cpus: tuple[int, ...] = ()
    """CPUs that its busy threads last ran on."""
    ready: float | None = None
    """Share of 1 of the time in which its virtual CPUs got no CPU although they could run, mean of all; None: not
    known. Only ESXi, as the next one."""
    costop: float | None = None
    """Share of 1 of the time in which its virtual CPUs waited for each other."""
    end: str = ""
    """Name of the end of the run that is this virtual machine; "": none."""


@dataclass(frozen=True)
class HostLoad:
    """One host of a run. Series are in order of time, of the whole run."""

    host: str
    role: HostRole
    busy: Busy | None
    """In the measured seconds; None: its CPUs were not counted."""
    series: tuple[Busy, ...] = ()
    per_gigabit: float | None = None
    """Cores per Gb/s of goodput."""
    ring_drops: int | None = None
    """Packets without a free descriptor in the chosen NIC (rx_missed_errors), or dropped (rx_dropped)."""
    cpus: dict[int, float] | None = None
    """CPU → share of 1 that it was busy."""
    packets: tuple[Packets, ...] = ()
    """Of the chosen NIC."""
    carrying: tuple[CarryingQueue, ...] = ()
    machines: tuple[Machine, ...] = ()
    """Virtual machines of the host, busiest first."""
    full: tuple[BusyCpu, ...] = ()
    """CPUs that were busy for at least `NEARLY_FULL_SHARE` of the measured seconds, busiest first."""
    threads: tuple[ThreadLoad, ...] | None = None
    """Threads that used most CPU time, highest first; None: not all could be read."""
    send_drops: int | None = None
    """Packets that the chosen NIC dropped instead of sending them (tx_dropped)."""
    backlog_drops: int | None = None
    """Packets dropped because the backlog of a CPU was full (softnet_stat, dropped)."""
    per_transaction: float | None = None
    """Seconds of CPU time of all cores per transaction."""
    steal_unseen: bool = False
    """A virtual machine whose steal is 0 on every CPU since boot: its hypervisor may not report steal."""

    @property
    def busy_cpus(self) -> tuple[BusyCpu, ...]:
        """`full`, or the hottest CPU in a result of an older version."""
        if self.full or self.busy is None or self.busy.hottest_busy < NEARLY_FULL_SHARE:
            return self.full
        return (BusyCpu(self.busy.hottest, self.busy.hottest_busy, self.busy.hottest_softirq),)


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
    """The load of one host. `records`: of the whole run in order; `window`: measured seconds on the axis of the run;
    `offset`: to subtract from times of records for the axis; `snapshot`: the host at the end; `ifindex`: its chosen
    NIC; `readings`: of its threads; `pids`: processes of both ends on this machine; `ends`: virtual machine of this
    host → the end of the run that it is."""
    ticks = clock_ticks(snapshot)
    steps = windows(records)
    counted = (packets_between(before, after, ifindex, after.time - offset) for before, after in steps)
    load = HostLoad(
        host,
        role,
        None,
        busy_series(records, offset, ticks),
        packets=tuple(one for one in counted if one is not None),
        carrying=tuple(
            carrying_queue(window_snapshot, chosen_queues(window_snapshot, ifindex), end - offset)
            for window_snapshot, end in ((snapshot_between(snapshot, *step), step[1].time) for step in steps)
        ),
    )
    measured = [one for one in records if window[0] <= one.time - offset <= window[1]]
    if len(measured) < 2 or measured[-1].time - measured[0].time < MIN_CPU_WINDOW_SECONDS:
        return load
    first, last = measured[0], measured[-1]
    shares = all_cpu_shares(first.cpus, last.cpus, (last.time - first.time) * ticks)
    busy = _busy(shares, last.time - offset)
    gigabits = (bits_per_second or 0.0) / 1e9
    nic_counters = packets_between(first, last, ifindex, last.time - offset)
    return replace(
        load,
        busy=busy,
        per_gigabit=busy.total / gigabits if busy is not None and gigabits else None,
        ring_drops=nic_counters.dropped if nic_counters is not None else None,
        cpus={cpu: one.busy for cpu, one in shares.items()},
        machines=_busiest_machines(snapshot_between(snapshot, first, last), ends or {}),
        full=_nearly_full_cpus(shares),
        threads=thread_loads(readings, (window[0] + offset, window[1] + offset), ticks, pids),
        send_drops=_send_drops(first, last, ifindex),
        backlog_drops=_backlog_drops(first, last),
        steal_unseen=_is_steal_unseen(snapshot, last),
    )


def _is_steal_unseen(snapshot: Snapshot, last: Counters) -> bool:
    """A guest shows steal only if its hypervisor reports it: QEMU without KVM does not, ESXi only if stealclock.enable
    is set."""
    if snapshot.inventory is None or snapshot.inventory.platform.hypervisor is None:
        return False
    return not any(times[_STEAL] for times in last.cpus.values() if len(times) > _STEAL)


def _nearly_full_cpus(shares: dict[int, CpuShares]) -> tuple[BusyCpu, ...]:
    found = [
        BusyCpu(cpu, one.busy, one.irq + one.softirq, one.user, one.system, one.steal)
        for cpu, one in shares.items()
        if one.busy >= NEARLY_FULL_SHARE
    ]
    return tuple(sorted(found, key=lambda one: (-one.busy, one.cpu))[:MAX_RESULT_CPUS])


def thread_loads(
    readings: Sequence[TrafficLine], window: tuple[float, float], clock_ticks: int, pids: frozenset[int] = frozenset()
) -> tuple[ThreadLoad, ...] | None:
    """The threads that used most CPU time in the readings that are mostly in the window, which is in seconds of the
    host's clock. None: there is no such reading, or one lacks processes."""
    inside = [one for one in readings if one.seconds and _mostly_inside(one.time - one.seconds, one.time, window)]
    seconds = sum(one.seconds or 0.0 for one in inside)
    if not seconds or any(one.unreadable is not None for one in inside):
        return None
    used: dict[int, dict[int | None, int]] = {}
    threads = {}
    for thread in (thread for one in inside for thread in one.threads):
        ticks = thread.user + thread.system
        cpus = used.setdefault(thread.tid, {})
        cpus[thread.cpu] = cpus.get(thread.cpu, 0) + ticks
        threads[thread.tid] = thread
    found = [
        ThreadLoad(
            threads[tid].name,
            threads[tid].pid,
            sum(cpus.values()) / (seconds * clock_ticks),
            tuple(cpu for cpu, _ in sorted(cpus.items(), key=lambda pair: -pair[1]) if cpu is not None),
            threads[tid].generator,
            not threads[tid].generator and threads[tid].pid in pids,
            threads[tid].probe,
        )
        for tid, cpus in used.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.share, one.pid))[:MAX_RESULT_THREADS])


def _mostly_inside(start: float, end: float, window: tuple[float, float]) -> bool:
    return min(end, window[1]) - max(start, window[0]) >= (end - start) / 2


def _send_drops(first: Counters, last: Counters, ifindex: int | None) -> int | None:
    old, new = first.links.get(ifindex or 0, ()), last.links.get(ifindex or 0, ())
    if min(len(old), len(new)) <= _SEND_DROPS or new[_SEND_DROPS] < old[_SEND_DROPS]:
        return None
    return new[_SEND_DROPS] - old[_SEND_DROPS]


def _backlog_drops(first: Counters, last: Counters) -> int | None:
    """Sum of all CPUs; None: the kernel does not report it. The counters have 32 bits."""
    known = [
        (first.softnet[cpu][_BACKLOG_DROPS], columns[_BACKLOG_DROPS])
        for cpu, columns in last.softnet.items()
        if cpu in first.softnet and min(len(columns), len(first.softnet[cpu])) > _BACKLOG_DROPS
    ]
    return sum(max(0, new - old) for old, new in known) if known else None


def _busiest_machines(window: Snapshot, ends: Mapping[str, str]) -> tuple[Machine, ...]:
    """The ends of the run are always included."""
    found = [one for one in cpu_consumers(window) if one.kind in ("machine", "vhost") and one.total]
    listed = [*found[:MAX_RESULT_MACHINES], *(one for one in found[MAX_RESULT_MACHINES:] if one.name in ends)]
    return tuple(
        Machine(
            one.name,
            one.total or 0.0,
            one.total if one.kind == "vhost" else one.vhost,
            one.cpus,
            one.ready,
            one.costop,
            ends.get(one.name, "") if one.kind == "machine" else "",
        )
        for one in listed
    )


def windows(records: Sequence[Counters]) -> list[tuple[Counters, Counters]]:
    """Consecutive pairs of records that are at least `MIN_CPU_WINDOW_SECONDS` apart."""
    found = []
    opened = records[0] if records else None
    for record in records:
        if opened is not None and record.time < opened.time:  # the host was rebooted
            opened = record
        elif opened is not None and record.time - opened.time >= MIN_CPU_WINDOW_SECONDS:
            found.append((opened, record))
            opened = record
    return found


def busy_series(records: Sequence[Counters], offset: float, clock_ticks: int) -> tuple[Busy, ...]:
    """CPU times of each window of a second or more."""
    found = []
    for before, after in windows(records):
        shares = all_cpu_shares(before.cpus, after.cpus, (after.time - before.time) * clock_ticks)
        busy = _busy(shares, after.time - offset)
        found += [busy] if busy is not None else []
    return tuple(found)


def _busy(shares: dict[int, CpuShares], time: float) -> Busy | None:
    if not shares:
        return None
    hottest, hottest_shares = max(shares.items(), key=lambda pair: (pair[1].busy, -pair[0]))
    all_shares = shares.values()
    return Busy(
        time=time,
        user=sum(one.user for one in all_shares),
        system=sum(one.system for one in all_shares),
        irq=sum(one.irq for one in all_shares),
        softirq=sum(one.softirq for one in all_shares),
        steal=sum(one.steal for one in all_shares),
        guest=sum(one.guest for one in all_shares),
        cores=len(shares),
        hottest=hottest,
        hottest_busy=hottest_shares.busy,
        hottest_softirq=hottest_shares.irq + hottest_shares.softirq,
        split=all(one.split for one in all_shares),
    )
