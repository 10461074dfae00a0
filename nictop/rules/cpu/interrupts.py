"""Where the interrupts of a NIC go, and whether its queues are spread over the processors.

Kernel: Documentation/core-api/irq/irq-affinity.rst, Documentation/networking/scaling.rst.
"""

from __future__ import annotations

from dataclasses import dataclass

from nictop.model.queues.counts import receive_queues
from nictop.model.queues.cpu_lists import format_cpu_list, parse_cpu_list
from nictop.model.text import units
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.affinity import affinity_commands, affinity_undo, interrupt_cpus
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import HostFacts, link_driver
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import BUSY_PACKETS_PER_SECOND, link_finding, newest_link_rates, packet_rate, used_links

MIN_INTERRUPTS_PER_SECOND = 500.0
"""Interrupts per second of a NIC from which on their places mean something."""
ONE_CPU_SHARE = 0.8
"""Share of a NIC's interrupts that one CPU takes."""
MAX_RSS_QUEUES = {"ixgbe": 16, "igb": 8, "igbvf": 2, "ixgbevf": 4, "txgbe": 64}
"""Receive queues that RSS of this driver can address; further queues are for flow director or VFs."""
MANY_QUEUES = 8


@dataclass(frozen=True)
class Concentration:
    """Most interrupts of a link come to one CPU."""

    cpu: int
    share: float
    per_second: float


def concentration(host: HostFacts, link: Link) -> Concentration | None:
    """The CPU that takes more than `ONE_CPU_SHARE` of the interrupts of a busy link of several queues; None: spread."""
    if (
        link.pci_address is None
        or packet_rate(newest_link_rates(host, link)) < BUSY_PACKETS_PER_SECOND
        or receive_queues(link) < 2
    ):
        return None
    rates = host.interrupts_by_cpu(one.number for one in host.interrupts_of_function.get(link.pci_address, ()))
    total = sum(rates.values())
    if total < MIN_INTERRUPTS_PER_SECOND:
        return None
    most = max(rates, key=lambda cpu: (rates[cpu], -cpu))
    share = rates[most] / total
    return Concentration(most, share, total) if share > ONE_CPU_SHARE else None


def irq_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """Spread the interrupts: by irqbalance, or by hand, each queue to a CPU after another."""
    cpus = parse_cpu_list(host.inventory.platform.online_cpus) or (0,)
    places = interrupt_cpus(host, link, cpus)
    by_hand = Fix(
        "here",
        "give the interrupts of each queue a processor by hand",
        affinity_commands(places),
        persistent=False,
        undo=affinity_undo(host, link, places),
        note="Stop irqbalance first, or it moves them again. Interrupts that the kernel manages itself refuse this.",
    )
    known = (by_hand,) if places else ()
    if host.inventory.services.irqbalance is not None:
        return known
    started = Fix(
        "here",
        "let irqbalance spread them",
        (command("systemctl", "enable", "--now", "irqbalance"),),
        persistent=True,
        undo=(command("systemctl", "disable", "--now", "irqbalance"),),
        note="Install the package irqbalance first where it is missing.",
    )
    return started, *known


@host_rule(
    "interrupts and softirqs",
    "warning",
    yields_to=("nothing_spreads_interrupts",),
    uses=("counters.interrupts", "counters.links", "interrupts", "platform.online_cpus"),
)
def one_processor_takes_all_interrupts(host: HostFacts) -> Outcomes:
    """A busy NIC has several queues, and one processor takes nearly all their interrupts.

    nictop adds up the interrupts of the NIC's PCI function per CPU over three samples: more than four fifths come to
    one CPU, at 500 or more per second, while the NIC carries ten thousand packets per second or more on at least two
    receive queues. A single connection stays on one queue by design: then only the load of that CPU matters. Known from
    Irqbalance#122, #125, #30 and #93.
    """
    for link in used_links(host):
        found = concentration(host, link)
        if found is None or host.online_cpus < 2:
            continue
        evidence = [
            Evidence(
                f"interrupts on CPU {found.cpu}",
                f"{units.percentage(found.share)} of {units.per_second(found.per_second)}",
                "/proc/interrupts",
            ),
            Evidence("receive queues", str(receive_queues(link)), f"ethtool -l {link.name}"),
            Evidence("packets", units.packets_per_second(packet_rate(newest_link_rates(host, link))), "RTM_GETSTATS"),
        ]
        if found.cpu in host.saturated_cpus:
            share = f"{units.percentage(host.saturated_cpus[found.cpu])} in interrupts and softirqs"
            evidence.append(Evidence(f"CPU {found.cpu}", share, "/proc/stat"))
        yield link_finding(
            "warning",
            host,
            link,
            f"has {receive_queues(link)} queues, and CPU {found.cpu} serves nearly all",
            evidence=tuple(evidence),
            why="The other processors do not help: what this one cannot do is the ceiling of the NIC.",
            fixes=irq_fixes(host, link),
        )


@host_rule(
    "interrupts and softirqs",
    "warning",
    needs=("services",),
    uses=("interrupts.allowed_cpus", "interrupts.effective_cpus", "platform.online_cpus"),
)
def nothing_spreads_interrupts(host: HostFacts) -> Outcomes:
    """Every interrupt of a NIC with several queues really goes to the same processor, and nothing moves them.

    nictop reads effective_affinity_list of the NIC's interrupts: all name the same one CPU, although they may go to
    several, and irqbalance does not run. It is a note on a quiet NIC, a warning from ten thousand packets per second.
    Interrupts that somebody has bound to one CPU are left alone. Known from Irqbalance#38.
    """
    if host.inventory.services.irqbalance is not None or host.online_cpus < 2:
        return
    for link in used_links(host):
        interrupts = host.interrupts_of_function.get(link.pci_address or "", ())
        effective = {one.effective_cpus for one in interrupts}
        if len(interrupts) < 2 or len(effective) != 1 or not link.carrier or receive_queues(link) < 2:
            continue
        cpus = parse_cpu_list(next(iter(effective)))
        if cpus is None or len(cpus) != 1:
            continue
        if any(len(parse_cpu_list(one.allowed_cpus) or ()) < 2 for one in interrupts):
            continue
        rate = packet_rate(newest_link_rates(host, link))
        yield link_finding(
            "warning" if rate >= BUSY_PACKETS_PER_SECOND else "info",
            host,
            link,
            f"has all its interrupts on CPU {cpus[0]}, and irqbalance does not run",
            evidence=(
                Evidence(
                    "interrupts", f"{len(interrupts)}, all on CPU {cpus[0]}", "/proc/irq/*/effective_affinity_list"
                ),
                Evidence("irqbalance", "does not run", "/proc/*/comm"),
                Evidence("packets", units.packets_per_second(rate), "RTM_GETSTATS"),
            ),
            why="The NIC has queues for several processors; as it is, one processor serves them all.",
            fixes=irq_fixes(host, link),
        )


@host_rule(
    "interrupts and softirqs",
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
    """Inside a guest irqbalance has put several busy queues of a NIC on one processor while others have none.

    nictop compares queues and CPUs: there are enough CPUs for all queues of a NIC that carries ten thousand packets per
    second or more, irqbalance runs, and two queues got their interrupts on the same CPU in the last sample. Moving
    interrupts between virtual processors that float over real ones gains nothing (Irqbalance#122, its author).
    """
    if not host.is_guest or host.inventory.services.irqbalance is None:
        return
    for link in used_links(host):
        if (
            packet_rate(newest_link_rates(host, link)) < BUSY_PACKETS_PER_SECOND
            or not 1 < receive_queues(link) <= host.online_cpus
        ):
            continue
        served = [row.busy_cpus[0] for row in host.queue_map(link).rows if row.in_use and row.busy_cpus]
        if len(served) < 2 or len(set(served)) == len(served):
            continue
        doubled = sorted({cpu for cpu in served if served.count(cpu) > 1})
        yield link_finding(
            "info",
            host,
            link,
            f"has several queues on CPU {format_cpu_list(doubled)}, put there by irqbalance",
            evidence=(
                Evidence("queues with interrupts", str(len(served)), "/proc/interrupts"),
                Evidence("CPUs that take them", format_cpu_list(served), "/proc/interrupts"),
                Evidence("irqbalance", f"pid {host.inventory.services.irqbalance}", "/proc/*/comm"),
            ),
            why="Two busy queues share a processor while another is free. In a guest irqbalance cannot see what the "
            "virtual processors are worth.",
            fixes=(
                Fix(
                    "here",
                    "stop irqbalance",
                    (command("systemctl", "disable", "--now", "irqbalance"),),
                    persistent=True,
                    undo=(command("systemctl", "enable", "--now", "irqbalance"),),
                    note="The driver places its interrupts at the next boot, or when its queues are set anew: "
                    + str(command("ethtool", "-L", link.name, "combined", str(receive_queues(link)))),
                ),
            ),
        )


@host_rule("interrupts and softirqs", "warning", needs=("ethtool.driver",), uses=("ethtool.rss",))
def rss_table_leaves_queues_out(host: HostFacts) -> Outcomes:
    """The table that spreads received packets over queues does not contain all of them.

    nictop compares the entries of ethtool -x with the receive queues in use. Queues beyond what RSS of the driver can
    address (ixgbe 16, igb 8), or beyond the length of the table, are expected to be left out. A table may leave queues
    out on purpose, for AF_XDP or for pinned flows: then this is to be ignored. From scaling.rst.
    """
    for link in used_links(host):
        rss = link.ethtool.rss
        if rss is None or not rss.indirection:
            continue
        queues = receive_queues(link)
        possible = min(queues, MAX_RSS_QUEUES.get(link_driver(link) or "", queues), len(rss.indirection))
        used = len(set(rss.indirection))
        if used >= possible:
            continue
        yield link_finding(
            "warning",
            host,
            link,
            f"spreads packets over {used} of {queues} receive queues",
            evidence=(
                Evidence(
                    "queues in the table", f"{used} ({format_cpu_list(rss.indirection)})", f"ethtool -x {link.name}"
                ),
                Evidence("receive queues", str(queues), f"ethtool -l {link.name}"),
            ),
            why="The queues that are not in the table never get a packet by hash: their processors stay idle.",
            fixes=ethtool_fixes(host, link, ["-X", "equal", str(possible)]),
        )


@host_rule(
    "interrupts and softirqs",
    "info",
    uses=("counters.cpus", "counters.interrupts", "counters.links", "ethtool.settings", "interrupts"),
)
def more_queues_than_the_load_needs(host: HostFacts) -> Outcomes:
    """A NIC carries nearly all that its link can, and its many queues are almost idle.

    nictop says it when a NIC with known speed receives four fifths of it or more with eight or more queues, and no CPU
    that takes its interrupts spends more than a twentieth of its time on packets. The fewest queues that do not
    overflow are the most efficient ones (scaling.rst): more of them mean more interrupts for the same packets.
    """
    for link in used_links(host):
        settings, rates = link.ethtool.settings, newest_link_rates(host, link)
        if settings is None or not settings.speed or rates is None or link.pci_address is None:
            continue
        if (rates.rx_bits or 0.0) < 0.8e6 * settings.speed or receive_queues(link) < MANY_QUEUES:
            continue
        cpus = host.interrupts_by_cpu(one.number for one in host.interrupts_of_function.get(link.pci_address, ()))
        shares = [host.window[-1].cpus[cpu] for cpu in cpus if cpu in host.window[-1].cpus]
        if len(shares) < MANY_QUEUES or max(one.softirq + one.irq for one in shares) > 0.05:
            continue
        yield link_finding(
            "info",
            host,
            link,
            f"has {receive_queues(link)} queues that are all nearly idle at line rate",
            evidence=(
                Evidence("received", units.bits_per_second(rates.rx_bits), "RTM_GETSTATS"),
                Evidence("speed", units.link_speed(settings.speed), f"ethtool {link.name}"),
                Evidence("busiest CPU", units.percentage(max(one.softirq + one.irq for one in shares)), "/proc/stat"),
            ),
            why="Each queue wakes a processor for few packets. Half as many would do the same with fewer interrupts.",
            fixes=ethtool_fixes(host, link, ["-L", "combined", str(receive_queues(link) // 2)])
            if link.ethtool.channels is not None and link.ethtool.channels.combined
            else (),
        )
