"""The load of one host in a result: its CPUs, the counters of its chosen NIC, and the threads and
virtual machines that took part. Reads nothing."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass

MIN_COST_GIGABITS = 0.1
"""Gb/s of goodput for a CPU cost: below, it would be extrapolated more than tenfold, and what the
host does without the run is most of it (a tenth of a core that other work takes is one core per
Gb/s at this rate)."""
RUN_SHARE = 0.4
"""Of the busy time, by softirq and the generator: the run filled it, or shares it with one other
thread, when a fair scheduler gives each of them half. With less others filled it."""
HostRole = Literal["client", "server", "observer"]
NEARLY_FULL_SHARE = 0.8
"""Of a CPU's time, from which it is listed: a thread that sometimes waits for others leaves the
rest."""


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
    """Packets in this window without a free descriptor (rx_missed_errors), or dropped
    (rx_dropped)."""
    send_dropped: int | None = None
    """Packets in this window that were dropped instead of sent (tx_dropped); None also in a result
    of an older version."""


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
    def share(self) -> float:
        """Share of 1 of all cores that was busy."""
        if not self.cores:
            return 0.0
        return self.total / self.cores

    @property
    def steal_share(self) -> float:
        """Share of 1 of all cores."""
        if not self.cores:
            return 0.0
        return self.steal / self.cores


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
    """CPUs it was seen on, most frequent first; (): a process whose threads were not read one by
    one."""
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
    """Share of 1 of the time in which its virtual CPUs got no CPU although they could run, mean of
    all; None: not known. Only ESXi, as the next one."""
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
    """Packets without a free descriptor in the chosen NIC (rx_missed_errors), or dropped
    (rx_dropped)."""
    cpus: dict[int, float] | None = None
    """CPU → share of 1 that it was busy."""
    packets: tuple[Packets, ...] = ()
    """Of the chosen NIC."""
    carrying: tuple[CarryingQueue, ...] = ()
    machines: tuple[Machine, ...] = ()
    """Virtual machines of the host, busiest first."""
    full: tuple[BusyCpu, ...] = ()
    """CPUs that were busy for at least `NEARLY_FULL_SHARE` of the measured seconds, busiest
    first."""
    threads: tuple[ThreadLoad, ...] | None = None
    """Threads that used most CPU time, highest first; None: not all could be read."""
    send_drops: int | None = None
    """Packets that the chosen NIC dropped instead of sending them (tx_dropped)."""
    backlog_drops: int | None = None
    """Packets dropped because the backlog of a CPU was full (softnet_stat, dropped)."""
    per_transaction: float | None = None
    """Seconds of CPU time of all cores per transaction."""
    steal_unseen: bool = False
    """A virtual machine whose steal is 0 on every CPU since boot: its hypervisor may not report
    steal."""
    machine_of: str = ""
    """Host before this one that is the same machine (boot id), as two network namespaces are: its
    CPUs are these, and count once in a comparison. "": none is, or it is not known."""

    @property
    def known_threads(self) -> tuple[ThreadLoad, ...]:
        """(): also if not all could be read."""
        return self.threads or ()

    @property
    def is_busy_by_others(self) -> bool:
        """Most of its busy time is known to be not by the test: the kernel counts what all
        programs use."""
        if self.busy is None or self.role == "observer":
            return False
        own = [thread for thread in self.known_threads if thread.generator or thread.other_end]
        if not own:  # the traffic of other programs is measured, or no thread was read
            return False
        used = sum(thread.share for thread in own) + self.busy.irq + self.busy.softirq
        return used < RUN_SHARE * self.busy.total

    @property
    def cost_per_transaction(self) -> float | None:
        """`per_transaction`; None: not known, or most of it is not by the test."""
        return None if self.is_busy_by_others else self.per_transaction

    @property
    def cost_per_gigabit(self) -> float | None:
        """`per_gigabit` of a run that carried at least `MIN_COST_GIGABITS`; None: it carried less,
        most of it is not by the test, or it is not known."""
        if self.is_busy_by_others:
            return None
        if self.busy is None or not self.per_gigabit:
            return self.per_gigabit
        gigabits = self.busy.total / self.per_gigabit
        return self.per_gigabit if gigabits >= MIN_COST_GIGABITS else None

    @property
    def busy_cpus(self) -> tuple[BusyCpu, ...]:
        """`full`, or the hottest CPU in a result of an older version."""
        if self.full or self.busy is None or self.busy.hottest_busy < NEARLY_FULL_SHARE:
            return self.full
        return (BusyCpu(self.busy.hottest, self.busy.hottest_busy, self.busy.hottest_softirq),)
