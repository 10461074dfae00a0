"""What a run cost each host: its CPUs between two counter records, as a total, the hottest core, and over time.

Reads nothing. /proc/stat counts ticks of 10 ms: nothing is shown over less than `SHORTEST_WINDOW`. Without interrupt
time accounting the kernel samples softirq at those ticks only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nictop.model.cpu_shares import CpuShares, all_cpu_shares
from nictop.probe.records import LINK_COUNTERS, Counters

SHORTEST_WINDOW = 0.95
"""Seconds between two records for a share of CPU."""

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
class HostLoad:
    """One host of a run."""

    host: str
    role: HostRole
    busy: Busy | None
    """Over what counts of the run; None: its CPUs were not counted."""
    series: tuple[Busy, ...] = ()
    """Over windows of a second or more, the whole run."""
    per_gigabit: float | None = None
    """Cores for each Gb/s of goodput."""
    ring_drops: int | None = None
    """Packets that the chosen NIC had no descriptor for (rx_missed_errors) or dropped (rx_dropped)."""
    cpus: dict[int, float] | None = None
    """CPU id → share of 1 that it was busy."""


def host_load(
    host: str,
    role: HostRole,
    records: Sequence[Counters],
    window: tuple[float, float],
    *,
    offset: float,
    clock_ticks: int,
    bits_per_second: float | None,
    ifindex: int | None = None,
) -> HostLoad:
    """`records`: of the whole run in order; `window`: what counts of it, on the axis of the run; `offset`: seconds to
    subtract from their times to get there; `ifindex`: the NIC whose drops count."""
    inner = [one for one in records if window[0] <= one.time - offset <= window[1]]
    if len(inner) < 2 or inner[-1].time - inner[0].time < SHORTEST_WINDOW:
        return HostLoad(host, role, None)
    shares = all_cpu_shares(inner[0].cpus, inner[-1].cpus, (inner[-1].time - inner[0].time) * clock_ticks)
    busy = _busy(shares, inner[-1].time - offset)
    gigabits = (bits_per_second or 0.0) / 1e9
    return HostLoad(
        host,
        role,
        busy,
        series(records, offset, clock_ticks),
        busy.total / gigabits if busy is not None and gigabits else None,
        _drops(inner[0], inner[-1], ifindex),
        {cpu: one.busy for cpu, one in shares.items()},
    )


def series(records: Sequence[Counters], offset: float, clock_ticks: int) -> tuple[Busy, ...]:
    """One value for each second or more."""
    found = []
    before = records[0] if records else None
    for record in records:
        if before is None or record.time - before.time < SHORTEST_WINDOW:
            continue
        shares = all_cpu_shares(before.cpus, record.cpus, (record.time - before.time) * clock_ticks)
        busy = _busy(shares, record.time - offset)
        found += [busy] if busy is not None else []
        before = record
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


_DROPS = tuple(LINK_COUNTERS.index(name) for name in ("rx_missed_errors", "rx_dropped"))


def _drops(before: Counters, after: Counters, ifindex: int | None) -> int | None:
    """The larger one of both: some drivers count a missed packet as dropped too."""
    old, new = before.links.get(ifindex or 0), after.links.get(ifindex or 0)
    if old is None or new is None:
        return None
    steps = [new[index] - old[index] for index in _DROPS if index < min(len(old), len(new))]
    return max((step for step in steps if step >= 0), default=None)
