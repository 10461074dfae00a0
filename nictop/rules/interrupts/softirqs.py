"""Processing of received packets: softirqs, backlog, NAPI budget, and receive rings.

Kernel: net/core/dev.c (net_rx_action, enqueue_to_backlog),
Documentation/admin-guide/sysctl/net.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from nictop.model.queues.counts import receive_queues
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.rates.links import Rates
from nictop.model.text import units
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import ethtool_fixes, sysctl_fixes
from nictop.rules.host import DriverCounter, HostFacts, link_driver, once_per_host
from nictop.rules.hyperv.netvsc import busiest_channel_cpu, synthetic_links
from nictop.rules.interrupts.interrupts import concentration
from nictop.rules.interrupts.steering import hot_cpu, saturation_evidence
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    MIN_WINDOW_PACKETS,
    busy_links,
    current_packet_rate,
    host_finding,
    link_finding,
    newest_link_rates,
    ring_with_room,
    used_links,
)

MIN_EVENTS_PER_SECOND = 10 / 60
"""Per second: more than ten times a minute."""
MIN_LOSS_SHARE = 1e-4
"""Share of received packets."""
DEFAULT_BACKLOG_PACKETS, MAX_BACKLOG_PACKETS = 1_000, 100_000
MAX_CPUS, MAX_LINKS = 8, 3
"""In the evidence of one finding."""
MIN_PROCESSED_PER_SECOND = 1_000.0
"""Packets per second below which the budget does not matter."""
MANY_SQUEEZES_PER_SECOND = 100.0
VIRTUAL_NIC_DRIVERS = ("vmxnet3", "virtio_net", "hv_netvsc")
"""Others have rules of their own, or rings that the hypervisor fills."""
MORE_CPUS = Fix(
    "here", "Distribute the load over more CPUs", (), note="Add queues, or move other work away."
)


@host_rule(
    "warning",
    needs=("counters.interrupts", "counters.links", "interrupts", "queues"),
    uses=("counters.cpus",),
)
def processor_is_saturated_by_softirq(host: HostFacts) -> Outcomes:
    """A CPU spends nearly all its time in interrupts and softirqs, which process packets.

    nictop reads /proc/stat: interrupts and softirqs used 85 % or more of a CPU in each of three
    samples. It does not tell those of packets from those of disks and timers. A CPU that is busy
    because one NIC has one queue, or all its queues on this CPU, is reported for that NIC and not
    here.

    Sources: Irqbalance#38; kernel scaling.rst.
    """
    if not host.saturated_cpus:
        return
    busy = sorted(set(host.saturated_cpus) - explained_cpus(host))
    if not busy:
        return
    links = sorted(used_links(host), key=lambda link: -current_packet_rate(host, link))[:MAX_LINKS]
    evidence: list[Evidence] = []
    for cpu in busy[:MAX_CPUS]:
        evidence += saturation_evidence(host, cpu)
    for link in links:
        rate = current_packet_rate(host, link)
        if rate > 0:
            evidence.append(Evidence(link.name, units.packets_per_second(rate), "RTM_GETSTATS"))
    cpus = format_cpu_list(busy)
    yield host_finding(
        "warning",
        host,
        f"CPU {cpus}",
        "saturated by interrupts and softirqs",
        evidence=tuple(evidence),
        why="A CPU without idle time delays or drops packets. If packets fill it, higher rates "
        "need more CPUs, larger packets (MTU, GRO) or fewer interrupts (coalescing).",
        fixes=(
            Fix("here", "Show what the CPU executes", (command("perf", "top", "-C", cpus),)),
            Fix(
                "here",
                "Reduce the interrupts (coalescing)",
                tuple(command("ethtool", "-c", link.name) for link in links[:1]),
                note="Then ethtool -C LINK adaptive-rx on, or rx-usecs with a higher value than "
                "shown.",
            ),
        ),
    )


def explained_cpus(host: HostFacts) -> frozenset[int]:
    """CPUs that are busy because one link uses only them: reported by the rule about that link."""
    found: set[int | None] = set()
    for link in busy_links(host):
        concentrated = concentration(host, link)
        if concentrated is not None:
            found.add(concentrated.cpu)
        elif receive_queues(link) == 1:
            found.add(hot_cpu(host, link))
    for link in synthetic_links(host):
        busiest = busiest_channel_cpu(host, link)
        if busiest is None:
            continue
        found.add(busiest[0])
        if busiest[0] is None:
            found |= {channel.cpu for channel in link.channels}
    return frozenset(cpu for cpu in found if cpu is not None)


@host_rule("warning", uses=("counters.softnet",))
def backlog_drops_packets(host: HostFacts) -> Outcomes:
    """Packets are dropped because the backlog of a CPU is full.

    nictop reads the second column of /proc/net/softnet_stat: more than ten drops per minute over
    the window. The backlog (net.core.netdev_max_backlog packets per CPU) is used by receive packet
    steering (RPS), veth, tap, lo and drivers without NAPI; hardware queues do not use it.

    Sources: xsos#108; netdata's softnet alarms.
    """
    dropped = softnet_events(host).dropped
    total = sum(dropped.values())
    if not host.last_samples or total <= MIN_EVENTS_PER_SECOND:
        return
    worst = max(dropped, key=lambda cpu: dropped[cpu])
    where = f"{units.per_second(total)}, most on CPU {worst}"
    evidence = [Evidence("dropped", where, "/proc/net/softnet_stat, column 2")]
    setting = "net.core.netdev_max_backlog"
    now = host.inventory.settings.sysctl.get(setting)
    if now is not None:
        evidence.append(Evidence("netdev_max_backlog", str(now), f"sysctl {setting}"))
    larger = min(2 * (now or DEFAULT_BACKLOG_PACKETS), MAX_BACKLOG_PACKETS)
    fixes = sysctl_fixes(host, setting, larger)
    yield host_finding(
        "warning",
        host,
        f"CPU {worst}",
        "backlog full: packets dropped (netdev_max_backlog)",
        evidence=tuple(evidence),
        why="The CPU processes its backlog more slowly than packets are added. A longer backlog "
        "helps against bursts, not against a CPU that is always saturated.",
        fixes=fixes if now is None or now < larger else (),
    )


@host_rule("warning", uses=("counters.softnet",))
def softirq_budget_runs_out(host: HostFacts) -> Outcomes:
    """Receiving was interrupted with packets left in the queues: the NAPI budget or its time was
    exhausted.

    nictop reads the third column of /proc/net/softnet_stat, time_squeeze: more than ten per minute
    while at least 1000 packets per second are processed. It indicates load, not loss, and is never
    added to drops. Info; warning from 100 per second.

    Sources: netdata's softnet alarms; kernel sysctl/net.rst.
    """
    squeezed = softnet_events(host).time_squeeze
    total = sum(squeezed.values())
    if not host.last_samples or total <= MIN_EVENTS_PER_SECOND:
        return
    if (host.mean(_processed_packets) or 0.0) < MIN_PROCESSED_PER_SECOND:
        return
    worst = max(squeezed, key=lambda cpu: squeezed[cpu])
    where = f"{units.per_second(total)}, most on CPU {worst}"
    evidence = [Evidence("time_squeeze", where, "/proc/net/softnet_stat, column 3")]
    settings = host.inventory.settings.sysctl
    budget = settings.get("net.core.netdev_budget")
    time = settings.get("net.core.netdev_budget_usecs")
    if budget is not None:
        text = f"{budget} packets, {time or '?'} µs"
        evidence.append(Evidence("netdev_budget", text, "sysctl net.core"))
    yield host_finding(
        "warning" if total >= MANY_SQUEEZES_PER_SECOND else "info",
        host,
        f"CPU {worst}",
        "NAPI budget exhausted (softnet time_squeeze)",
        evidence=tuple(evidence),
        why="The remaining packets are processed in the next cycle; none is lost. Often it only "
        "means a busy CPU.",
        fixes=tuple(_budget_fixes(host)),
    )


def _budget_fixes(host: HostFacts) -> Iterator[Fix]:
    """Twice the present values; none where one is not known, as the default time depends on the
    kernel's HZ, and kernels before 4.12 have none."""
    for name in ("net.core.netdev_budget", "net.core.netdev_budget_usecs"):
        now = host.inventory.settings.sysctl.get(name)
        if now:
            yield from sysctl_fixes(host, name, 2 * now)


def _processed_packets(rates: Rates) -> float:
    """Per second, by all CPUs."""
    return sum(softnet.processed or 0.0 for softnet in rates.softnet.values())


@dataclass(frozen=True)
class SoftnetEvents:
    """CPU → per second, mean over the window; CPUs without any are left out."""

    dropped: dict[int, float]
    time_squeeze: dict[int, float]


@once_per_host
def softnet_events(host: HostFacts) -> SoftnetEvents:
    dropped: dict[int, float] = {}
    squeezed: dict[int, float] = {}
    for rates in host.window:
        share = rates.elapsed / host.elapsed
        for cpu, softnet in rates.overloaded_softnet.items():
            if softnet.dropped:
                dropped[cpu] = dropped.get(cpu, 0.0) + softnet.dropped * share
            if softnet.time_squeeze:
                squeezed[cpu] = squeezed.get(cpu, 0.0) + softnet.time_squeeze * share
    return SoftnetEvents(dropped, squeezed)


@host_rule(
    "warning",
    yields_to=("receiving_waits_for_the_pcie_link",),
    uses=("counters.driver", "counters.links", "ethtool.driver", "ethtool.driver_counter_names"),
)
def receive_ring_overflows(host: HostFacts) -> Outcomes:
    """A NIC drops packets because its receive ring has no free descriptor.

    nictop reads rx_missed_errors of the link and, while the link is watched, driver counters
    (rx_no_dma_resources, rx_out_of_buffer, rx_no_buffers_posted, rx_discards and similar): one
    packet in 10 000 or more over the window, with at least 10 000 received. gVNIC counts them only
    with its private flag report-stats. Not reported: vmxnet3, virtio and Hyper-V, which have their
    own rules or rings that the hypervisor fills.

    Sources: netutils-linux, rx-buffers; netdata's fifo alarms; the drivers' ethtool source files.
    """
    for link in used_links(host):
        losses = _ring_losses(host, link)
        if losses is None:
            continue
        lost, received, own = losses
        share = f"{units.per_second(lost)} of {units.packets_per_second(received)}"
        evidence = [Evidence("dropped", share, "RTM_GETSTATS")]
        if own is not None and own.rate:
            source = f"ethtool -S {link.name}"
            evidence.append(Evidence(own.name, units.per_second(own.rate), source))
        rings = link.ethtool.rings
        if rings is not None and rings.rx and rings.max_rx:
            size = f"{rings.rx} of {rings.max_rx}"
            evidence.append(Evidence("receive ring", size, f"ethtool -g {link.name}"))
        yield link_finding(
            "warning",
            host,
            link,
            "receive ring full: packets dropped",
            evidence=tuple(evidence),
            why="The CPU did not empty the ring in time: bursts are longer than the ring, or the "
            "CPU is busy.",
            fixes=_larger_ring(host, link) or (MORE_CPUS,),
        )


class RingLosses(NamedTuple):
    lost: float
    """Packets per second."""
    received: float
    """Packets per second."""
    own: DriverCounter | None
    """Of the driver."""


def _ring_losses(host: HostFacts, link: Link) -> RingLosses | None:
    """None: not significant, or not known."""
    rates = newest_link_rates(host, link)
    if rates is None or link_driver(link) in VIRTUAL_NIC_DRIVERS:
        return None
    is_watched = _has_watched_counters(host, link)
    if not rates.rx_missed and not is_watched:
        return None
    received = host.known_link_rate(link, attrgetter("rx_packets"))
    lost = host.known_link_rate(link, attrgetter("rx_missed"))
    own = host.driver_losses(link, "ring") if is_watched else None
    if own is not None:
        # the driver may count the same packets: not their sum
        lost = max(lost, own.rate or 0.0)
    if not lost or received * host.elapsed < MIN_WINDOW_PACKETS:
        return None
    if lost < MIN_LOSS_SHARE * received:
        return None
    return RingLosses(lost, received, own)


def _has_watched_counters(host: HostFacts, link: Link) -> bool:
    """Those of its driver are read every second."""
    counters = host.snapshot.counters
    return counters is not None and link.ifindex in counters.driver


def _larger_ring(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """() if the ring has its maximum, or its sizes are not known."""
    ring = ring_with_room(link, "rx")
    if ring is None:
        return ()
    now, most = ring
    note = (
        "The maximum is not always best: a ring larger than the CPU caches reduces the throughput."
    )
    return ethtool_fixes(host, link, ["-G", "rx", str(min(most, 4 * now))], note=note)
