"""Shares of CPU time from two samples of /proc/stat.

Reads nothing; takes tuples in the order of `CPU_TIMES`, in USER_HZ ticks.
"""

from __future__ import annotations

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import CPU_TIMES

REPORTED_WITHOUT_SPLIT = ("user", "system", "idle")
"""Shares of `CpuShares` that ESXi reports."""

ROUNDING_TICKS = 2
"""Ticks per column by which a CPU may exceed the elapsed time, because each column is rounded
separately."""


@dataclass(frozen=True, eq=False)
class CpuShares:
    """How one CPU spent the elapsed time: shares of 1 whose sum is 1."""

    user: float
    """Including nice, without guest."""
    system: float
    irq: float
    softirq: float
    steal: float
    """The hypervisor ran other tasks."""
    guest: float
    """Including guest_nice: this host ran a virtual machine."""
    idle: float
    iowait: float
    split: bool = True
    """False: irq, softirq, steal, guest and iowait are not reported (ESXi) and 0."""

    @property
    def busy(self) -> float:
        """All but idle and iowait; steal counts, because that time was not available either."""
        return max(0.0, 1.0 - self.idle - self.iowait)


def all_cpu_shares(
    before: dict[int, tuple[int, ...]], after: dict[int, tuple[int, ...]], ticks: float
) -> dict[int, CpuShares]:
    """CPU id → shares, of the CPUs that were online in both samples; `ticks`: elapsed USER_HZ
    ticks."""
    result = {}
    for cpu, new in after.items():
        old = before.get(cpu)
        shares = _cpu_shares(old, new, ticks) if old is not None else None
        if shares is not None:
            result[cpu] = shares
    return result


def _cpu_shares(old: tuple[int, ...], new: tuple[int, ...], ticks: float) -> CpuShares | None:
    """Shares of one CPU; None when no tick has passed, or more than the elapsed time (the CPU was
    offline and its columns jumped). Columns that an old kernel does not have are 0, and so are
    those that decreased (proc(5))."""
    steps = [now - then for then, now in zip(old, new, strict=False)]
    known = len(steps)
    if known != len(CPU_TIMES):
        steps = (steps + [0] * len(CPU_TIMES))[: len(CPU_TIMES)]
    if min(steps) < 0:
        steps = [max(0, step) for step in steps]
    user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice = steps
    guest = min(guest, user)
    guest_nice = min(guest_nice, nice)
    total = user + nice + system + idle + iowait + irq + softirq + steal
    if total == 0 or total > 1.5 * ticks + ROUNDING_TICKS * len(CPU_TIMES):
        return None
    return CpuShares(
        user=(user - guest + nice - guest_nice) / total,
        system=system / total,
        irq=irq / total,
        softirq=softirq / total,
        steal=steal / total,
        guest=(guest + guest_nice) / total,
        idle=idle / total,
        iowait=iowait / total,
        split=known > CPU_TIMES.index("softirq"),
    )
