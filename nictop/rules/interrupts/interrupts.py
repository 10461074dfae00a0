"""CPUs that handle the interrupts of a NIC, and the distribution of its queues over the CPUs.

Kernel: Documentation/core-api/irq/irq-affinity.rst, Documentation/networking/scaling.rst.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.queues.counts import receive_queues
from nictop.model.queues.cpu_lists import format_cpu_list, parse_cpu_list
from nictop.model.text import units
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Interrupt, Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.affinity import is_assigned_by_kernel
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.interrupt_managers import (
    Manager,
    affinity_fixes,
    exclusion_fixes,
    interrupt_manager,
    manager_evidence,
)
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.interrupts.steering import hot_cpu, saturation_evidence
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    BUSY_PACKETS_PER_SECOND,
    busiest_cpu,
    busy_links,
    current_packet_rate,
    link_finding,
    newest_link_rates,
    used_links,
)

MIN_INTERRUPTS_PER_SECOND = 500.0
"""Interrupts per second of a NIC below which their CPUs do not matter."""
ONE_CPU_SHARE = 0.8
"""Share of a NIC's interrupts on one CPU."""
MAX_RSS_QUEUES = {"ixgbe": 16, "igb": 8, "igbvf": 2, "ixgbevf": 4, "txgbe": 64}
"""Receive queues that RSS of this driver can address; further queues are for flow director or
VFs."""
MANY_QUEUES = 8
LINE_RATE_SHARE = 0.8
"""Share of the speed from which on the load counts as line rate."""
IDLE_SHARE = 0.05
"""Share of its time that a nearly idle CPU spends on packets."""
ASSIGN_TITLE = "Assign the interrupts of each queue to a CPU"
WHY_ALL_ON_ONE: dict[Manager, str] = {
    "kernel": "and they cannot be moved",
    "google": "Google's script did not distribute them",
}
"""Who assigns the interrupts → end of the title, where irqbalance need not run."""


@dataclass(frozen=True)
class Concentration:
    """Most interrupts of a link are handled by one CPU."""

    cpu: int
    share: float
    per_second: float


def concentration(host: HostFacts, link: Link) -> Concentration | None:
    """The CPU that handles more than `ONE_CPU_SHARE` of the interrupts of a busy link with several
    queues, or None."""
    if receive_queues(link) < 2:
        return None
    rates = host.interrupt_rates(link)
    total = sum(rates.values())
    if total < MIN_INTERRUPTS_PER_SECOND:
        return None
    most = busiest_cpu(rates)
    share = rates[most] / total
    return Concentration(most, share, total) if share > ONE_CPU_SHARE else None


def irq_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """Distribute the interrupts: by who assigns them, or manually, one queue per CPU in turn."""
    cpus = host.cpu_numbers or (0,)
    started = Fix(
        "here",
        "Enable irqbalance",
        (command("systemctl", "enable", "--now", "irqbalance"),),
        persistent=True,
        undo=(command("systemctl", "disable", "--now", "irqbalance"),),
        note="Install the package irqbalance if it is missing.",
    )
    return affinity_fixes(host, link, cpus, ASSIGN_TITLE, without_manager=(started,))


@host_rule(
    "warning",
    yields_to=("nothing_spreads_interrupts",),
    uses=("counters.interrupts", "counters.links", "interrupts", "platform.online_cpus"),
)
def one_processor_takes_all_interrupts(host: HostFacts) -> Outcomes:
    """A busy NIC has several queues, but one CPU handles nearly all of their interrupts.

    nictop adds up the interrupts of the NIC's PCI function per CPU over three samples. Reported:
    more than 80 % on one CPU, at 500 per second or more, while the NIC carries 10 000 packets per
    second or more on at least two receive queues. A single connection uses one queue by design:
    then only the load of that CPU matters.

    The fix depends on who assigns the interrupts. irqbalance that runs and leaves them on one CPU
    is restarted, which makes it examine the NICs again. On Google Compute Engine a script of the
    guest agent assigns them, and irqbalance is off on purpose. Interrupts that the kernel manages
    cannot be moved.

    Sources: Irqbalance#122, #125, #275, #30, #93, compute-image-packages#882.
    """
    if host.online_cpus < 2:
        return
    for link in busy_links(host):
        found = concentration(host, link)
        if found is None:
            continue
        share = f"{units.percentage(found.share)} of {units.per_second(found.per_second)}"
        packets = units.packets_per_second(current_packet_rate(host, link))
        queues = receive_queues(link)
        yield link_finding(
            "warning",
            host,
            link,
            f"{queues} queues, but nearly all interrupts on CPU {found.cpu}",
            evidence=(
                Evidence(f"interrupts on CPU {found.cpu}", share, "/proc/interrupts"),
                Evidence("receive queues", str(queues), f"ethtool -l {link.name}"),
                Evidence("packets", packets, "RTM_GETSTATS"),
                manager_evidence(host, link),
                *saturation_evidence(host, found.cpu),
            ),
            why="The other CPUs do not share the work: once this CPU is full, it limits the "
            "throughput of the NIC.",
            fixes=irq_fixes(host, link),
        )


@host_rule(
    "warning",
    needs=("services",),
    uses=("interrupts.allowed_cpus", "interrupts.effective_cpus", "platform.online_cpus"),
)
def nothing_spreads_interrupts(host: HostFacts) -> Outcomes:
    """All interrupts of a NIC with several queues are delivered to the same CPU, and no daemon
    distributes them.

    nictop reads effective_affinity_list of the NIC's interrupts: all name the same single CPU,
    although their affinity allows several, and irqbalance is not running. Info on a quiet NIC,
    warning from 10 000 packets per second. Not reported: interrupts that an administrator has bound
    to one CPU.

    On Google Compute Engine irqbalance is off on purpose: a script of the guest agent assigns the
    interrupts at boot.

    Sources: Irqbalance#38, compute-image-packages#882.
    """
    if host.inventory.services.irqbalance is not None or host.online_cpus < 2:
        return
    for link in used_links(host):
        if not link.carrier or receive_queues(link) < 2:
            continue
        interrupts = host.interrupts_of(link)
        cpu = _only_cpu(interrupts)
        if len(interrupts) < 2 or cpu is None or not all(map(_may_move, interrupts)):
            continue
        rate = current_packet_rate(host, link)
        manager = interrupt_manager(host, link)
        why_all_on_one = WHY_ALL_ON_ONE.get(manager, "irqbalance is not running")
        on_cpu = f"{len(interrupts)}, all on CPU {cpu}"
        yield link_finding(
            "warning" if rate >= BUSY_PACKETS_PER_SECOND else "info",
            host,
            link,
            f"all interrupts on CPU {cpu}, {why_all_on_one}",
            evidence=(
                Evidence("interrupts", on_cpu, "/proc/irq/*/effective_affinity_list"),
                Evidence("irqbalance", "not running", "/proc/*/comm"),
                manager_evidence(host, link),
                Evidence("packets", units.packets_per_second(rate), "RTM_GETSTATS"),
            ),
            why="The NIC has queues for several CPUs, but one CPU serves all of them.",
            fixes=irq_fixes(host, link),
        )


def _only_cpu(interrupts: Sequence[Interrupt]) -> int | None:
    """The CPU to which all of them go; None: to several, or it is not known."""
    effective = {interrupt.effective_cpus for interrupt in interrupts}
    if len(effective) != 1:
        return None
    cpus = parse_cpu_list(next(iter(effective)))
    if cpus is None or len(cpus) != 1:
        return None
    return cpus[0]


def _may_move(interrupt: Interrupt) -> bool:
    """Several CPUs are allowed for it."""
    return len(parse_cpu_list(interrupt.allowed_cpus) or ()) >= 2


@host_rule(
    "info",
    yields_to=("one_processor_takes_all_interrupts", "rss_table_leaves_queues_out"),
    uses=(
        "counters.interrupts",
        "counters.links",
        "ethtool.driver",
        "interrupts.actions",
        "platform.hypervisor",
        "platform.online_cpus",
        "queues",
        "services",
    ),
)
def irqbalance_doubles_up_queues(host: HostFacts) -> Outcomes:
    """In a guest, irqbalance has placed several busy queues of a NIC on one CPU while other CPUs
    have none.

    nictop compares queues and CPUs. Reported: there are enough CPUs for all queues of a NIC that
    carries 10 000 packets per second or more, irqbalance is running, and two queues had their
    interrupts on the same CPU in the last sample. Moving interrupts between vCPUs that are not
    pinned to physical CPUs gains nothing.

    Source: Irqbalance#122 (its author).
    """
    process = host.inventory.services.irqbalance
    if not host.is_guest or process is None:
        return
    for link in busy_links(host):
        if not 1 < receive_queues(link) <= host.online_cpus:
            continue
        if is_assigned_by_kernel(host, link):  # irqbalance cannot have placed them
            continue
        served = _serving_cpus(host, link)
        doubled = sorted({cpu for cpu in served if served.count(cpu) > 1})
        if not doubled:
            continue
        yield link_finding(
            "info",
            host,
            link,
            f"irqbalance placed several queues on CPU {format_cpu_list(doubled)}",
            evidence=(
                Evidence("queues with interrupts", str(len(served)), "/proc/interrupts"),
                Evidence("CPUs that handle them", format_cpu_list(served), "/proc/interrupts"),
                Evidence("irqbalance", f"pid {process}", "/proc/*/comm"),
            ),
            why="Two busy queues share a CPU while another one has none. In a guest irqbalance "
            "cannot determine the capacity of the vCPUs.",
            fixes=_fixes_of_doubled_queues(host, link),
        )


def _serving_cpus(host: HostFacts, link: Link) -> list[int]:
    """The CPU of each queue that has interrupts."""
    found = []
    for row in host.queue_map(link).rows:
        if row.in_use and row.busy_cpus:
            found.append(row.busy_cpus[0])
    return found


def _fixes_of_doubled_queues(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """Without irqbalance, or without it for this NIC only. On GCE: Google's assignment instead."""
    cpus = host.cpu_numbers or (0,)
    if interrupt_manager(host, link) != "irqbalance":
        return affinity_fixes(host, link, cpus, ASSIGN_TITLE)
    stopped = Fix(
        "here",
        "Stop irqbalance",
        (command("systemctl", "disable", "--now", "irqbalance"),),
        persistent=True,
        undo=(command("systemctl", "enable", "--now", "irqbalance"),),
        note="The interrupts stay where they are until the next boot; many drivers also place them "
        "when the number of queues is changed (ethtool -L).",
    )
    return stopped, *exclusion_fixes(host, link, cpus, ASSIGN_TITLE)


@host_rule("warning", needs=("ethtool.driver",), uses=("ethtool.rss",))
def rss_table_leaves_queues_out(host: HostFacts) -> Outcomes:
    """The RSS indirection table, which distributes received packets over queues, does not contain
    all queues.

    nictop compares the entries of ethtool -x with the receive queues in use. Info, because queues
    may be left out on purpose, for AF_XDP or for pinned flows; warning if the CPU that handles most
    interrupts of the NIC is saturated with them. Not reported: queues beyond the number that RSS of
    the driver can address (ixgbe 16, igb 8), or beyond the length of the table.

    Source: kernel scaling.rst.
    """
    for link in used_links(host):
        rss = link.ethtool.rss
        if rss is None or not rss.indirection:
            continue
        queues = receive_queues(link)
        addressable = MAX_RSS_QUEUES.get(link_driver(link) or "", queues)
        possible = min(queues, addressable, len(rss.indirection))
        used = len(set(rss.indirection))
        if used >= possible:
            continue
        in_table = f"{used} ({format_cpu_list(rss.indirection)})"
        yield link_finding(
            "info" if hot_cpu(host, link) is None else "warning",
            host,
            link,
            f"RSS table contains {used} of {queues} receive queues",
            evidence=(
                Evidence("queues in the table", in_table, f"ethtool -x {link.name}"),
                Evidence("receive queues", str(queues), f"ethtool -l {link.name}"),
            ),
            why="Queues that are not in the table receive no packets by hash, and their CPUs stay "
            "idle.",
            fixes=ethtool_fixes(host, link, ["-X", "equal", str(possible)]),
        )


@host_rule(
    "info",
    uses=(
        "counters.cpus",
        "counters.interrupts",
        "counters.links",
        "ethtool.settings",
        "interrupts",
    ),
)
def more_queues_than_the_load_needs(host: HostFacts) -> Outcomes:
    """A NIC runs near its line rate, and its many queues are almost idle.

    Reported when a NIC with known speed receives 80 % of it or more with eight or more queues, and
    no CPU that handles its interrupts spends more than 5 % of its time on packets. The smallest
    number of queues that do not overflow is the most efficient one (scaling.rst): more queues mean
    more interrupts for the same packets.
    """
    for link in used_links(host):
        speed, received = _speed_and_load(host, link)
        if not speed or received < LINE_RATE_SHARE * speed * 1e6:
            continue
        if receive_queues(link) < MANY_QUEUES:
            continue
        shares = _packet_processing_shares(host, link)
        if len(shares) < MANY_QUEUES or max(shares) > IDLE_SHARE:
            continue
        yield link_finding(
            "info",
            host,
            link,
            f"{receive_queues(link)} queues, all nearly idle at line rate",
            evidence=(
                Evidence("received", units.bits_per_second(received), "RTM_GETSTATS"),
                Evidence("speed", units.link_speed(speed), f"ethtool {link.name}"),
                Evidence("busiest CPU", units.percentage(max(shares)), "/proc/stat"),
            ),
            why="Each queue interrupts a CPU for few packets. Half as many queues need fewer "
            "interrupts.",
            fixes=_fewer_queues_fixes(host, link),
        )


def _speed_and_load(host: HostFacts, link: Link) -> tuple[int, float]:
    """(Mb/s, received bits per second); 0: not known."""
    settings, rates = link.ethtool.settings, newest_link_rates(host, link)
    if settings is None or rates is None:
        return 0, 0.0
    return settings.speed or 0, rates.rx_bits or 0.0


def _packet_processing_shares(host: HostFacts, link: Link) -> list[float]:
    """Share of the time of each CPU with interrupts of the link that packets take now."""
    cpus = host.window[-1].cpus if host.window else {}
    shares = [cpus[cpu] for cpu in host.interrupt_rates(link) if cpu in cpus]
    return [spent.softirq + spent.irq for spent in shares]


def _fewer_queues_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """() if they are not combined channels."""
    channels = link.ethtool.channels
    if channels is None or not channels.combined:
        return ()
    return ethtool_fixes(host, link, ["-L", "combined", str(receive_queues(link) // 2)])
