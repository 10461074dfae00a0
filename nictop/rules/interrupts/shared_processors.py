"""NICs whose interrupts all go to a CPU that programs fill.

Reads nothing. Kernel kernel/softirq.c: softirqs that do not end soon are left to ksoftirqd, a
thread of normal priority that competes with programs; Documentation/core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

from collections.abc import Mapping

from nictop.model.text import units
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Severity
from nictop.rules.host import HostFacts
from nictop.rules.interrupts.interrupts import irq_fixes
from nictop.rules.interrupts.softirqs import softnet_events
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    BUSY_PACKETS_PER_SECOND,
    busiest_cpu,
    current_packet_rate,
    link_finding,
    used_links,
)

MIN_INTERRUPTS_PER_SECOND = 100.0
ONE_CPU_SHARE = 0.95
"""Of the NIC's interrupts."""
MIN_PROGRAM_SHARE = 0.9
"""Of the time of that CPU, in user and system time and guests, in each of the last samples."""
MIN_IDLE_SHARE = 0.5
"""Of another CPU, in each of the last samples."""
MIN_SQUEEZES_PER_SECOND = 1.0


class SharedCpu(NamedTuple):
    """The CPU of a NIC's interrupts, which programs fill."""

    cpu: int
    programs: float
    """Share of its time."""
    idle: tuple[int, ...]
    """CPUs that have time."""
    interrupts: float
    """Per second, of the NIC."""


@host_rule(
    "warning",
    yields_to=("one_processor_takes_all_interrupts", "nothing_spreads_interrupts"),
    uses=(
        "counters.interrupts",
        "counters.links",
        "counters.cpus",
        "counters.softnet",
        "interrupts",
    ),
)
def interrupts_share_a_full_processor(host: HostFacts) -> Outcomes:
    """The interrupts of a NIC all go to one CPU, and programs use nearly all time of that CPU.

    nictop adds up the interrupts of the NIC's PCI function per CPU over three samples: 95 % or
    more, and 100 per second or more, on a CPU that programs and virtual machines use for 90 % or
    more, while another CPU is idle for half of its time. Packets that the interrupt does not
    process at once wait for ksoftirqd, which competes with these programs. A warning if packets
    were dropped or left over there (softnet); info if the NIC carries 10 000 packets per second.

    Not reported: NICs with fewer packets none of which is lost, CPUs that packet processing itself
    fills, and hosts without an idle CPU.

    Sources: kernel kernel/softirq.c, Documentation/networking/scaling.rst.
    """
    full, idle = _full_and_idle(host)
    if not full or not idle:
        return
    events = softnet_events(host)
    for link in used_links(host):
        found = _shared_cpu(host, link, full, idle)
        if found is None:
            continue
        lost = events.dropped.get(found.cpu, 0.0)
        squeezed = events.time_squeeze.get(found.cpu, 0.0)
        is_harmed = lost > 0 or squeezed >= MIN_SQUEEZES_PER_SECOND
        if is_harmed or current_packet_rate(host, link) >= BUSY_PACKETS_PER_SECOND:
            severity: Severity = "warning" if is_harmed else "info"
            counted = {"dropped": lost, "time_squeeze": squeezed}
            yield _shared_finding(host, link, found, severity, counted)


def _shared_finding(
    host: HostFacts,
    link: Link,
    shared: SharedCpu,
    severity: Severity,
    counted: Mapping[str, float],
) -> Finding:
    """`counted`: column of softnet_stat → per second, on that CPU."""
    programs, interrupts = units.percentage(shared.programs), units.per_second(shared.interrupts)
    evidence = [
        Evidence(f"interrupts on CPU {shared.cpu}", interrupts, "/proc/interrupts"),
        Evidence(f"programs on CPU {shared.cpu}", programs, "/proc/stat"),
        Evidence("idle CPUs", ", ".join(map(str, shared.idle[:8])), "/proc/stat"),
    ]
    for name, rate in counted.items():
        if rate:
            evidence.append(Evidence(name, units.per_second(rate), "/proc/net/softnet_stat"))
    return link_finding(
        severity,
        host,
        link,
        f"all its interrupts are on CPU {shared.cpu}, which programs fill ({programs})",
        evidence=tuple(evidence),
        why="Packets that the interrupt does not process at once wait for ksoftirqd, which "
        "competes with them.",
        fixes=irq_fixes(host, link),
    )


def _full_and_idle(host: HostFacts) -> tuple[dict[int, float], tuple[int, ...]]:
    """(CPU → share of its time that programs use, of those that they fill; CPUs that have time)."""
    recent = [rates.cpus for rates in host.last_samples]
    full: dict[int, float] = {}
    idle: list[int] = []
    for cpu in recent[-1] if recent else ():
        samples = [cpus[cpu] for cpus in recent if cpu in cpus]
        programs = min(shares.user + shares.system + shares.guest for shares in samples)
        if programs >= MIN_PROGRAM_SHARE:
            full[cpu] = programs
        elif min(shares.idle for shares in samples) >= MIN_IDLE_SHARE:
            idle.append(cpu)
    return full, tuple(idle)


def _shared_cpu(
    host: HostFacts, link: Link, full: Mapping[int, float], idle: tuple[int, ...]
) -> SharedCpu | None:
    rates = host.interrupt_rates(link)
    total = sum(rates.values())
    if total < MIN_INTERRUPTS_PER_SECOND:
        return None
    most = busiest_cpu(rates)
    if most not in full or rates[most] < ONE_CPU_SHARE * total:
        return None
    return SharedCpu(most, full[most], idle, total)
