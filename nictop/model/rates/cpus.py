"""Two readings of /proc/stat become the shares of time that each CPU spent on what.

Reads nothing; takes tuples in the order of `CPU_TIMES`, in USER_HZ ticks.
"""

from __future__ import annotations

from dataclasses import dataclass

from nictop.probe.records import CPU_TIMES

TICKS_SLACK = 2
"""Ticks by which the columns of a CPU may exceed the elapsed time, each column being rounded by itself."""


@dataclass(frozen=True, eq=False)
class CpuShares:
    """Where one CPU spent the elapsed time: shares of 1 whose sum is 1."""

    user: float
    """With nice, without guest."""
    system: float
    irq: float
    softirq: float
    steal: float
    """The hypervisor ran somebody else."""
    guest: float
    """With guest_nice: this host ran a virtual machine."""
    idle: float
    iowait: float

    @property
    def busy(self) -> float:
        """All but idle and iowait; steal counts, because that time was not to be had either."""
        return max(0.0, 1.0 - self.idle - self.iowait)


def all_cpu_shares(
    before: dict[int, tuple[int, ...]], after: dict[int, tuple[int, ...]], ticks: float
) -> dict[int, CpuShares]:
    """CPU id → shares, of the CPUs that were online at both readings; `ticks`: USER_HZ ticks that passed between."""
    result = {}
    for cpu, new in after.items():
        old = before.get(cpu)
        shares = _cpu_shares(old, new, ticks) if old is not None else None
        if shares is not None:
            result[cpu] = shares
    return result


def _cpu_shares(old: tuple[int, ...], new: tuple[int, ...], ticks: float) -> CpuShares | None:
    """Shares of one CPU; None when no tick has passed, or more than fit into the elapsed time (the CPU was offline and
    its columns jumped). Columns that an old kernel lacks are 0; those that ran backwards are 0 too (proc(5))."""
    known = min(len(old), len(new), len(CPU_TIMES))
    steps = [max(0, new[index] - old[index]) for index in range(known)] + [0] * (len(CPU_TIMES) - known)
    user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice = steps
    guest = min(guest, user)
    guest_nice = min(guest_nice, nice)
    total = user + nice + system + idle + iowait + irq + softirq + steal
    if total == 0 or total > 1.5 * ticks + TICKS_SLACK * len(CPU_TIMES):
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
    )
