"""What a run cost each host: its CPUs between two counter records, as a total, the hottest core, and over time; what
its chosen NIC counted meanwhile, and which virtual machines took part.

Reads nothing. /proc/stat counts ticks of 10 ms: nothing is shown over less than `SHORTEST_WINDOW`. Without interrupt
time accounting the kernel samples softirq at those ticks only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nictop.model.cpu_shares import CpuShares, all_cpu_shares
from nictop.model.snapshot import Snapshot
from nictop.model.spenders import spenders
from nictop.probe.records import Counters
from nictop.traffic.nic_load import Carrying, Packets, between, carrying, clock_ticks, packets_between

SHORTEST_WINDOW = 0.95
"""Seconds between two records for a share of CPU."""

MOST_MACHINES = 16

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
) -> HostLoad:
    """`records`: of the whole run in order; `window`: what counts of it, on the axis of the run; `offset`: seconds to
    subtract from their times to get there; `snapshot`: the host at its end; `ifindex`: its chosen NIC."""
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
    )


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
