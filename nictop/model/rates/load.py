"""CPU load of packet processing: interrupts, softirqs, softnet and threads per second, from two
counter records.

Reads nothing. Joined by interrupt number, CPU id and thread id, never by position. The kernel's
counters here are 32 bits wide: one that wrapped continues; one that decreased otherwise was reset
and has no rate this time.
"""

from __future__ import annotations

from collections.abc import Mapping

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import VCPU_WAITS, Counters, MachineInterrupt

COUNTER_RANGE = 1 << 32
"""Range of unsigned int, used by kernel_stat, softnet_data and irq_desc
(include/linux/kernel_stat.h)."""

MAX_CPU_SHARE = 1.5
"""CPU shares above this come from two samples that do not belong together."""


@dataclass(frozen=True, eq=False)
class SoftirqRates:
    """Softirqs of one CPU, runs per second. None: reset."""

    net_tx: float | None
    net_rx: float | None


@dataclass(frozen=True, eq=False)
class SoftnetRates:
    """Receive processing of one CPU, per second. None: reset, or this kernel has no such column."""

    processed: float | None
    """Packets."""
    dropped: float | None
    """Packets dropped because the backlog was full."""
    time_squeeze: float | None
    """net_rx_action ended with work left: its budget or time was used up."""
    received_rps: float | None
    """Wake-ups by another CPU's receive packet steering."""
    flow_limit: float | None
    """Packets dropped by the flow limit."""


@dataclass(frozen=True, eq=False)
class ThreadShare:
    """CPU time of one thread, as shares of one CPU."""

    user: float
    system: float
    cpu: int | None
    """CPU on which it ran last; None: not known (ESXi)."""
    ready: float | None = None
    """A virtual CPU could run, but no CPU of the hypervisor was free. Only ESXi, as the next
    one."""
    costop: float | None = None
    """It was stopped until other virtual CPUs of its machine had caught up."""

    @property
    def total(self) -> float:
        return self.user + self.system


@dataclass(frozen=True, eq=False)
class ChannelRates:
    """One vmbus channel, per second. None: reset, or this kernel does not have the counter."""

    interrupts: float | None
    events: float | None
    out_full: float | None
    """The ring to the host was full."""


class MachineInterruptRate(NamedTuple):
    """One line of /proc/interrupts, per second."""

    label: str
    description: str
    total: float
    cpus: dict[int, float]
    """CPU id → per second; only those above 0. -1: the line has one sum for all CPUs."""


def counter_step(old: int, new: int) -> int | None:
    """The step of a 32-bit counter; None when it decreased without a wrap (from the last quarter of
    the range into the first)."""
    if new >= old:
        return new - old
    if new < COUNTER_RANGE // 4 and COUNTER_RANGE - COUNTER_RANGE // 4 <= old < COUNTER_RANGE:
        return COUNTER_RANGE - old + new
    return None


def interrupt_rates(
    before: Counters, after: Counters, elapsed: float
) -> dict[int, dict[int, float]]:
    """IRQ number → CPU id → interrupts per second; CPUs without any are left out. An interrupt
    whose count decreased on any CPU was assigned to another vector (``ethtool -L``, driver reload)
    and is absent this time; so is a CPU that was offline in either sample."""
    result: dict[int, dict[int, float]] = {}
    excluded = _cpus_not_always_online(before, after)
    for irq, new in after.interrupts.items():
        old = before.interrupts.get(irq)
        if old is None:
            continue
        if old == new:  # shortcut for the common case
            result[irq] = {}
            continue
        one = _per_cpu(old, new, excluded, elapsed)
        if one is not None:
            result[irq] = one
    return result


def _cpus_not_always_online(before: Counters, after: Counters) -> frozenset[int]:
    if not before.cpus or not after.cpus:
        return frozenset()
    return frozenset(before.cpus.keys() ^ after.cpus.keys())


def _per_cpu(
    old: Mapping[int, int], new: Mapping[int, int], excluded: frozenset[int], elapsed: float
) -> dict[int, float] | None:
    result: dict[int, float] = {}
    for cpu in old.keys() - new.keys() - excluded:
        if old[cpu]:
            return None  # CPUs without any are left out: this count was reset to 0
    for cpu, count in new.items():
        if cpu in excluded:
            continue
        step = counter_step(old.get(cpu, 0), count)
        if step is None:
            return None
        if step:
            result[cpu] = step / elapsed
    return result


def softirq_rates(before: Counters, after: Counters, elapsed: float) -> dict[int, SoftirqRates]:
    """CPU id → softirqs per second, of the CPUs that were online in both samples."""
    return {
        cpu: SoftirqRates(*_columns(before.softirqs[cpu], new, 2, elapsed))
        for cpu, new in after.softirqs.items()
        if cpu in before.softirqs
    }


def softnet_rates(before: Counters, after: Counters, elapsed: float) -> dict[int, SoftnetRates]:
    """CPU id → softnet rates per second, of the CPUs that were online in both samples."""
    return {
        cpu: SoftnetRates(*_columns(before.softnet[cpu], new, 5, elapsed))
        for cpu, new in after.softnet.items()
        if cpu in before.softnet
    }


def _columns(
    old: tuple[int | None, ...], new: tuple[int | None, ...], number: int, elapsed: float
) -> list[float | None]:
    result: list[float | None] = []
    for index in range(number):
        a = old[index] if index < len(old) else None
        b = new[index] if index < len(new) else None
        step = counter_step(a, b) if a is not None and b is not None else None
        result.append(step / elapsed if step is not None else None)
    return result


def thread_shares(
    before: Counters, after: Counters, elapsed: float, clock_ticks: int
) -> dict[int, ThreadShare]:
    """Thread id → shares of one CPU. A thread whose times decreased, or increased by more than the
    elapsed time, is another thread with the same id and is absent. `clock_ticks`: USER_HZ as
    reported by the host; {} when it is not positive."""
    ticks = elapsed * clock_ticks
    result: dict[int, ThreadShare] = {}
    if ticks <= 0:
        return result
    most = MAX_CPU_SHARE * ticks + 4  # each time is rounded separately
    for tid, (user, system, cpu) in after.threads.items():
        old = before.threads.get(tid)
        if old is None:
            continue
        user_step, system_step = user - old[0], system - old[1]
        if user_step < 0 or system_step < 0 or user_step + system_step > most:
            continue
        waits = _waits(before.waits.get(tid), after.waits.get(tid), ticks)
        result[tid] = ThreadShare(
            user_step / ticks, system_step / ticks, cpu if cpu >= 0 else None, *waits
        )
    return result


def _waits(
    old: tuple[int, ...] | None, new: tuple[int, ...] | None, ticks: float
) -> tuple[float, float] | tuple[None, None]:
    """Shares of the elapsed time in the order of `VCPU_WAITS`; (None, None): not reported, or
    reset."""
    if old is None or new is None or min(len(old), len(new)) < len(VCPU_WAITS):
        return None, None
    steps = new[0] - old[0], new[1] - old[1]
    if min(steps) < 0 or sum(steps) > MAX_CPU_SHARE * ticks + 4:
        return None, None
    return steps[0] / ticks, steps[1] / ticks


def channel_rates(
    before: Counters, after: Counters, elapsed: float
) -> dict[int, dict[int, ChannelRates]]:
    """ifindex → vmbus channel id → per second."""
    return {
        ifindex: {
            channel: ChannelRates(*_columns(before.channels[ifindex][channel], new, 3, elapsed))
            for channel, new in channels.items()
            if channel in before.channels[ifindex]
        }
        for ifindex, channels in after.channels.items()
        if ifindex in before.channels
    }


def machine_rates(
    before: Counters, after: Counters, elapsed: float
) -> tuple[MachineInterruptRate, ...]:
    """Every line of /proc/interrupts that both records have with the same label and description, in
    order."""
    if before.machine is None or after.machine is None:
        return ()
    known = {line.label: line for line in before.machine}
    excluded = _cpus_not_always_online(before, after)
    result = []
    for line in after.machine:
        one = _machine_rate(known.get(line.label), line, excluded, elapsed)
        if one is not None:
            result.append(one)
    return tuple(result)


def _machine_rate(
    old: MachineInterrupt | None, new: MachineInterrupt, excluded: frozenset[int], elapsed: float
) -> MachineInterruptRate | None:
    if old is None or old.description != new.description:
        return None
    cpus = {} if old.counts == new.counts else _per_cpu(old.counts, new.counts, excluded, elapsed)
    if cpus is None:
        return None
    return MachineInterruptRate(new.label, new.description, sum(cpus.values()), cpus)
