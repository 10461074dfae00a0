"""What a run cost each host: its CPUs between two counter records, as a total, the hottest core, and over time; what
its chosen NIC counted meanwhile, and which threads and virtual machines took part.

Reads nothing. /proc/stat counts ticks of 10 ms: nothing is shown over less than `SHORTEST_WINDOW`. Without interrupt
time accounting the kernel samples softirq at those ticks only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nictop.model.queues.cpu_consumers import spenders
from nictop.model.rates.cpus import CpuShares, all_cpu_shares
from nictop.model.snapshot import Snapshot
from nictop.probe.records import LINK_COUNTERS, SOFTNET_COUNTERS, Counters, TrafficLine
from nictop.traffic.analysis.nic_load import Carrying, Packets, between, carrying, clock_ticks, packets_between

SHORTEST_WINDOW = 0.95
"""Seconds between two records for a share of CPU."""

MOST_MACHINES = 16
MOST_THREADS = 8
NEARLY_FULL = 0.8
"""Share of a CPU's time from which it is listed: a thread that waits for others now and then leaves the rest."""
MOST_CPUS = 16

_SEND_DROPS, _BACKLOG_DROPS = LINK_COUNTERS.index("tx_dropped"), SOFTNET_COUNTERS.index("dropped")

HostRole = Literal["client", "server", "observer"]


@dataclass(frozen=True)
class Busy:
    """CPUs of a host in one window. Shares are of one core: 2.5 is two and a half cores."""

    time: float
    """Seconds on the axis of the run, at the end of the window."""
    user: float
    system: float
    irq: float
    softirq: float
    steal: float
    guest: float
    cores: int
    """Online ones that were counted."""
    hottest: int
    """CPU id."""
    hottest_busy: float
    """Share of 1 that it was busy, steal included."""
    hottest_softirq: float
    """Share of 1 that it spent in interrupts."""

    @property
    def total(self) -> float:
        """Cores that were busy, without those that the hypervisor gave to somebody else."""
        return self.user + self.system + self.irq + self.softirq + self.guest

    @property
    def steal_share(self) -> float:
        """Of all cores: share of 1."""
        return self.steal / self.cores if self.cores else 0.0

    @property
    def softirq_share(self) -> float:
        """Of what was busy: share of 1 in irq and softirq."""
        return (self.irq + self.softirq) / self.total if self.total else 0.0


@dataclass(frozen=True)
class BusyCpu:
    """One CPU that was nearly full: what it did. Shares of 1; None: not known of a result of an older nictop."""

    cpu: int
    busy: float
    """Steal included."""
    softirq: float
    """In interrupts: irq and softirq."""
    user: float | None = None
    system: float | None = None
    steal: float | None = None


@dataclass(frozen=True)
class ThreadLoad:
    """One thread of a host over what counts of the run."""

    name: str
    pid: int
    share: float
    """Of one core."""
    cpus: tuple[int, ...] = ()
    """That it was seen on, the most frequent first; (): a process with several threads, not read one by one."""
    generator: bool = False
    """It belongs to the generator that this host has as an end of the run."""
    other_end: bool = False
    """It belongs to the generator of the other end, which runs on the same machine."""


@dataclass(frozen=True)
class Machine:
    """A virtual machine of a host, or vhost threads of a process, over what counts of the run."""

    name: str
    """As the host calls it."""
    cores: float
    """That its threads used, vhost threads included."""
    vhost: float | None
    """Of these, the vhost threads; None: not known."""
    cpus: tuple[int, ...] = ()
    """CPUs that its busy threads last ran on."""


@dataclass(frozen=True)
class HostLoad:
    """One host of a run. Series are by time, over windows of a second or more of the whole run."""

    host: str
    role: HostRole
    busy: Busy | None
    """Over what counts of the run; None: its CPUs were not counted."""
    series: tuple[Busy, ...] = ()
    per_gigabit: float | None = None
    """Cores for each Gb/s of goodput."""
    ring_drops: int | None = None
    """Packets that the chosen NIC had no descriptor for (rx_missed_errors) or dropped (rx_dropped)."""
    cpus: dict[int, float] | None = None
    """CPU id → share of 1 that it was busy."""
    packets: tuple[Packets, ...] = ()
    """Of the chosen NIC."""
    carrying: tuple[Carrying, ...] = ()
    machines: tuple[Machine, ...] = ()
    """Virtual machines that it ran meanwhile, the busiest first."""
    full: tuple[BusyCpu, ...] = ()
    """CPUs that were busy for `NEARLY_FULL` of what counts of the run, the busiest first."""
    threads: tuple[ThreadLoad, ...] | None = None
    """That used most CPU, the first one most; None: not read, or not all of them could be."""
    send_drops: int | None = None
    """Packets that the chosen NIC dropped instead of sending them (tx_dropped)."""
    backlog_drops: int | None = None
    """Packets that found the backlog of a CPU full (softnet_stat, dropped)."""

    @property
    def busy_cpus(self) -> tuple[BusyCpu, ...]:
        """`full`, or the hottest CPU where a result of an older nictop has nothing else."""
        if self.full or self.busy is None or self.busy.hottest_busy < NEARLY_FULL:
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
) -> HostLoad:
    """`records`: of the whole run in order; `window`: what counts of it, on the axis of the run; `offset`: seconds to
    subtract from their times to get there; `snapshot`: the host at its end; `ifindex`: its chosen NIC; `readings`: of
    its threads; `pids`: processes of the run on this machine, whichever end they are."""
    ticks = clock_ticks(snapshot)
    steps = windows(records)
    counted = (packets_between(before, after, ifindex, after.time - offset) for before, after in steps)
    load = HostLoad(
        host,
        role,
        None,
        series(records, offset, ticks),
        packets=tuple(one for one in counted if one is not None),
        carrying=tuple(
            carrying(between(snapshot, before, after), ifindex, after.time - offset) for before, after in steps
        ),
    )
    inner = [one for one in records if window[0] <= one.time - offset <= window[1]]
    if len(inner) < 2 or inner[-1].time - inner[0].time < SHORTEST_WINDOW:
        return load
    first, last = inner[0], inner[-1]
    shares = all_cpu_shares(first.cpus, last.cpus, (last.time - first.time) * ticks)
    busy = _busy(shares, last.time - offset)
    gigabits = (bits_per_second or 0.0) / 1e9
    seen = packets_between(first, last, ifindex, last.time - offset)
    return replace(
        load,
        busy=busy,
        per_gigabit=busy.total / gigabits if busy is not None and gigabits else None,
        ring_drops=seen.dropped if seen is not None else None,
        cpus={cpu: one.busy for cpu, one in shares.items()},
        machines=_machines(between(snapshot, first, last)),
        full=_full(shares),
        threads=thread_loads(readings, (window[0] + offset, window[1] + offset), ticks, pids),
        send_drops=_send_drops(first, last, ifindex),
        backlog_drops=_backlog_drops(first, last),
    )


def _full(shares: dict[int, CpuShares]) -> tuple[BusyCpu, ...]:
    found = [
        BusyCpu(cpu, one.busy, one.irq + one.softirq, one.user, one.system, one.steal)
        for cpu, one in shares.items()
        if one.busy >= NEARLY_FULL
    ]
    return tuple(sorted(found, key=lambda one: (-one.busy, one.cpu))[:MOST_CPUS])


def thread_loads(
    readings: Sequence[TrafficLine], window: tuple[float, float], clock_ticks: int, pids: frozenset[int] = frozenset()
) -> tuple[ThreadLoad, ...] | None:
    """The threads that used most in the readings that lie in the window for the greater part, both in seconds of the
    host's clock. None: no reading does, or a reading had to leave processes out."""
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
        )
        for tid, cpus in used.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.share, one.pid))[:MOST_THREADS])


def _mostly_inside(start: float, end: float, window: tuple[float, float]) -> bool:
    return min(end, window[1]) - max(start, window[0]) >= (end - start) / 2


def _send_drops(first: Counters, last: Counters, ifindex: int | None) -> int | None:
    old, new = first.links.get(ifindex or 0, ()), last.links.get(ifindex or 0, ())
    if min(len(old), len(new)) <= _SEND_DROPS or new[_SEND_DROPS] < old[_SEND_DROPS]:
        return None
    return new[_SEND_DROPS] - old[_SEND_DROPS]


def _backlog_drops(first: Counters, last: Counters) -> int | None:
    """Of all CPUs; None: this kernel does not say. It counts in 32 bits."""
    known = [
        (first.softnet[cpu][_BACKLOG_DROPS], columns[_BACKLOG_DROPS])
        for cpu, columns in last.softnet.items()
        if cpu in first.softnet and min(len(columns), len(first.softnet[cpu])) > _BACKLOG_DROPS
    ]
    return sum(max(0, new - old) for old, new in known) if known else None


def _machines(window: Snapshot) -> tuple[Machine, ...]:
    found = [one for one in spenders(window) if one.kind in ("machine", "vhost") and one.total]
    return tuple(
        Machine(one.name, one.total or 0.0, one.total if one.kind == "vhost" else one.vhost, one.cpus)
        for one in found[:MOST_MACHINES]
    )


def windows(records: Sequence[Counters]) -> list[tuple[Counters, Counters]]:
    """Pairs of records, each `SHORTEST_WINDOW` or more apart, one beginning where the one before ends."""
    found = []
    opened = records[0] if records else None
    for record in records:
        if opened is not None and record.time < opened.time:  # the host was booted meanwhile
            opened = record
        elif opened is not None and record.time - opened.time >= SHORTEST_WINDOW:
            found.append((opened, record))
            opened = record
    return found


def series(records: Sequence[Counters], offset: float, clock_ticks: int) -> tuple[Busy, ...]:
    """One value for each second or more."""
    found = []
    for before, after in windows(records):
        shares = all_cpu_shares(before.cpus, after.cpus, (after.time - before.time) * clock_ticks)
        busy = _busy(shares, after.time - offset)
        found += [busy] if busy is not None else []
    return tuple(found)


def _busy(shares: dict[int, CpuShares], time: float) -> Busy | None:
    if not shares:
        return None
    hottest, most = max(shares.items(), key=lambda pair: (pair[1].busy, -pair[0]))
    every = shares.values()
    return Busy(
        time=time,
        user=sum(one.user for one in every),
        system=sum(one.system for one in every),
        irq=sum(one.irq for one in every),
        softirq=sum(one.softirq for one in every),
        steal=sum(one.steal for one in every),
        guest=sum(one.guest for one in every),
        cores=len(shares),
        hottest=hottest,
        hottest_busy=most.busy,
        hottest_softirq=most.irq + most.softirq,
    )
