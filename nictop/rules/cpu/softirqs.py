"""What the processors do with received packets: softirqs, the backlog, the budget, and rings that overflow.

Kernel: net/core/dev.c (net_rx_action, enqueue_to_backlog), Documentation/admin-guide/sysctl/net.rst.
"""

from __future__ import annotations

from collections.abc import Callable

from nictop.model.queues.counts import receive_queues
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.rates.load import SoftnetRates
from nictop.model.text import units
from nictop.rules.cpu.interrupts import concentration
from nictop.rules.cpu.steering import hot_cpu
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import ethtool_fixes, sysctl_fixes
from nictop.rules.host import MIN_SAMPLES, HostFacts, link_driver
from nictop.rules.paravirtual.hyperv import one_sided, synthetic_links
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    MIN_WINDOW_PACKETS,
    host_finding,
    link_finding,
    newest_link_rates,
    packet_rate,
    used_links,
)

MIN_EVENTS_PER_SECOND = 10 / 60
"""Per second: more than ten times a minute."""
MIN_LOSS_SHARE = 1e-4
"""Share of received packets."""
MAX_BACKLOG_PACKETS = 100_000
RING_COUNTERS = (
    "rx_no_dma_resources",
    "rx_no_buffer_count",
    "rx_out_of_buffer",
    "rx_missed_errors",
    "rx_fifo_errors",
    "port.rx_discards",
    "rx_discards_phy",
    "rx_overruns",
)
"""Names under which drivers count packets that found no free descriptor: ixgbe, igb, mlx5, e1000e, i40e, ena."""
VIRTUAL_NIC_DRIVERS = ("vmxnet3", "virtio_net", "hv_netvsc")
"""Others have rules of their own, or rings that the hypervisor fills."""


@host_rule(
    "interrupts and softirqs",
    "warning",
    needs=("counters.interrupts", "counters.links", "interrupts", "queues"),
    uses=("counters.cpus",),
)
def processor_is_saturated_by_softirq(host: HostFacts) -> Outcomes:
    """A processor spends nearly all its time receiving packets.

    nictop reads /proc/stat: interrupts and softirqs took 85 % or more of a CPU in each of three samples. A CPU that is
    busy because one NIC leaves all its queues to it, or has one queue only, is told with that NIC and not here. Known
    from Irqbalance#38 and scaling.rst.
    """
    busy = {cpu: share for cpu, share in host.saturated_cpus.items() if cpu not in explained_cpus(host)}
    if not busy:
        return
    worst = max(busy, key=lambda cpu: (busy[cpu], -cpu))
    links = sorted(used_links(host), key=lambda link: -packet_rate(newest_link_rates(host, link)))[:3]
    evidence = [
        Evidence(f"CPU {cpu}", f"{units.percentage(busy[cpu])} in interrupts and softirqs", "/proc/stat")
        for cpu in sorted(busy)[:8]
    ]
    for link in links:
        rate = packet_rate(newest_link_rates(host, link))
        if rate > 0:
            evidence.append(Evidence(link.name, units.packets_per_second(rate), "RTM_GETSTATS"))
    several = len(busy) > 1
    yield host_finding(
        "warning",
        host,
        f"CPU {format_cpu_list(busy)}" if several else f"CPU {worst}",
        "are full with receiving packets" if several else "is full with receiving packets",
        evidence=tuple(evidence),
        why="A processor without time left drops packets or makes them wait. More packets need more processors, larger "
        "packets (MTU, GRO) or fewer interrupts (coalescing).",
        fixes=(
            Fix("here", "see what it is busy with", (command("perf", "top", "-C", format_cpu_list(busy)),)),
            Fix(
                "here",
                "fewer, longer interrupts",
                tuple(command("ethtool", "-c", link.name) for link in links[:1]),
                note="Then ethtool -C LINK adaptive-rx on, or rx-usecs with a higher value than it shows.",
            ),
        ),
    )


def explained_cpus(host: HostFacts) -> frozenset[int]:
    """CPUs that are busy because a link leaves its work to them: the rule about that link speaks of them."""
    found: set[int | None] = set()
    for link in used_links(host):
        one = concentration(host, link)
        if one is not None:
            found.add(one.cpu)
        elif receive_queues(link) == 1:
            found.add(hot_cpu(host, link))
    for link in synthetic_links(host):
        side = one_sided(host, link)
        if side is not None:
            found.update([side[0]] if side[0] is not None else [channel.cpu for channel in link.channels])
    return frozenset(cpu for cpu in found if cpu is not None)


@host_rule("interrupts and softirqs", "warning", uses=("counters.softnet",))
def backlog_drops_packets(host: HostFacts) -> Outcomes:
    """Packets are dropped because the backlog of a processor is full.

    nictop reads the second column of /proc/net/softnet_stat: more than ten drops per minute over the window. The
    backlog (net.core.netdev_max_backlog packets per CPU) is used by receive packet steering, veth, tap, lo and drivers
    without NAPI; hardware queues do not go through it. Known from xsos#108 and netdata's softnet alarms.
    """
    dropped = softnet(host, lambda one: one.dropped)
    total = sum(dropped.values())
    if len(host.window) < MIN_SAMPLES or total <= MIN_EVENTS_PER_SECOND:
        return
    worst = max(dropped, key=lambda cpu: dropped[cpu])
    now = host.inventory.settings.sysctl.get("net.core.netdev_max_backlog")
    evidence = [
        Evidence("dropped", f"{units.per_second(total)}, most on CPU {worst}", "/proc/net/softnet_stat, column 2"),
    ]
    if now is not None:
        evidence.append(Evidence("netdev_max_backlog", str(now), "sysctl net.core.netdev_max_backlog"))
    larger = min(2 * (now or 1000), MAX_BACKLOG_PACKETS)
    yield host_finding(
        "warning",
        host,
        f"CPU {worst}",
        "drops packets: its backlog is full",
        evidence=tuple(evidence),
        why="The processor takes packets out of its queue later than others put them in. A longer queue helps against "
        "bursts, not against a processor that is full all the time.",
        fixes=sysctl_fixes(host, "net.core.netdev_max_backlog", larger) if now is None or now < larger else (),
    )


@host_rule("interrupts and softirqs", "warning", uses=("counters.softnet",))
def softirq_budget_runs_out(host: HostFacts) -> Outcomes:
    """Receiving was interrupted with packets left in the queues, because its budget or its time was used up.

    nictop reads the third column of /proc/net/softnet_stat, time_squeeze: more than ten per minute while at least a
    thousand packets per second are processed. It is pressure and not loss, and never added to drops: a note, and a
    warning from a hundred per second. Known from netdata's softnet alarms and the kernel's sysctl/net.rst.
    """
    squeezed = softnet(host, lambda one: one.time_squeeze)
    total = sum(squeezed.values())
    if len(host.window) < MIN_SAMPLES or total <= MIN_EVENTS_PER_SECOND:
        return
    if sum(softnet(host, lambda one: one.processed).values()) < 1000:
        return
    settings = host.inventory.settings.sysctl
    budget, time = settings.get("net.core.netdev_budget"), settings.get("net.core.netdev_budget_usecs")
    worst = max(squeezed, key=lambda cpu: squeezed[cpu])
    evidence = [
        Evidence("time_squeeze", f"{units.per_second(total)}, most on CPU {worst}", "/proc/net/softnet_stat, column 3"),
    ]
    if budget is not None:
        evidence.append(Evidence("netdev_budget", f"{budget} packets, {time or '?'} µs", "sysctl net.core"))
    yield host_finding(
        "warning" if total >= 100 else "info",
        host,
        f"CPU {worst}",
        "stops receiving with work left: the budget is used up",
        evidence=tuple(evidence),
        why="The packets wait for the next round; nothing is lost by that. Often it only says that the CPU is busy.",
        fixes=sysctl_fixes(host, "net.core.netdev_budget", 2 * (budget or 300))
        + sysctl_fixes(host, "net.core.netdev_budget_usecs", 2 * (time or 2000)),
    )


def softnet(host: HostFacts, value: Callable[[SoftnetRates], float | None]) -> dict[int, float]:
    """CPU → per second, mean over the window; CPUs without any are left out."""
    found: dict[int, float] = {}
    seconds = host.elapsed
    if not seconds:
        return found
    for rates in host.window:
        for cpu, one in rates.softnet.items():
            rate = value(one)
            if rate:
                found[cpu] = found.get(cpu, 0.0) + rate * rates.elapsed / seconds
    return found


@host_rule(
    "interrupts and softirqs", "warning", uses=("counters.driver", "counters.links", "ethtool.driver_counter_names")
)
def receive_ring_overflows(host: HostFacts) -> Outcomes:
    """A NIC loses packets because no free descriptor was in its receive ring when they came.

    nictop reads rx_missed_errors of the link and, where it is watched, the driver's own counters (rx_no_dma_resources,
    rx_out_of_buffer, rx_fifo_errors and the like): one packet in ten thousand or more over the window, with at least
    ten thousand received. vmxnet3, virtio and Hyper-V have rules of their own or rings that the host fills. Known from
    netutils-linux' rx-buffers and netdata's fifo alarms.
    """
    counters = host.snapshot.counters
    for link in used_links(host):
        rates = newest_link_rates(host, link)
        watched = counters is not None and link.ifindex in counters.driver
        if rates is None or link_driver(link) in VIRTUAL_NIC_DRIVERS or not (rates.rx_missed or watched):
            continue
        received = host.link_rate(link, lambda one: one.rx_packets) or 0.0
        missed = host.link_rate(link, lambda one: one.rx_missed) or 0.0
        own = host.driver_sum(link, RING_COUNTERS) if watched else None
        lost = max(missed, (own.rate or 0.0) if own is not None else 0.0)
        if received * host.elapsed < MIN_WINDOW_PACKETS or lost < MIN_LOSS_SHARE * received or not lost:
            continue
        rings = link.ethtool.rings
        evidence = [
            Evidence("lost", f"{units.per_second(lost)} of {units.packets_per_second(received)}", "RTM_GETSTATS"),
        ]
        if own is not None and own.rate:
            evidence.append(Evidence(own.name, units.per_second(own.rate), f"ethtool -S {link.name}"))
        fixes: tuple[Fix, ...] = ()
        if rings is not None and rings.rx and rings.max_rx:
            evidence.append(Evidence("receive ring", f"{rings.rx} of {rings.max_rx}", f"ethtool -g {link.name}"))
            if rings.rx < rings.max_rx:
                larger = min(rings.max_rx, 4 * rings.rx)
                note = "Not always the maximum: a ring that does not fit the caches costs more than it saves."
                fixes = ethtool_fixes(host, link, ["-G", "rx", str(larger)], note=note)
        yield link_finding(
            "warning",
            host,
            link,
            "loses packets: its receive ring was full",
            evidence=tuple(evidence),
            why="The processor came too late to empty the ring: bursts are longer than it, or the processor is busy.",
            fixes=fixes or (Fix("here", "give it more processors", (), note="More queues, or other work moved away."),),
        )
