"""vmxnet3: VMware's paravirtual NIC, ring overflows and number of queues.

Kernel: drivers/net/vmxnet3/vmxnet3_ethtool.c (names of the counters, of every queue),
vmxnet3_drv.c.
"""

from __future__ import annotations

import math

from nictop.model.queues.counts import receive_channels
from nictop.model.text import units
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix, Severity, Skipped
from nictop.rules.fixes.commands import command, joined
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import DriverCounter, HostFacts
from nictop.rules.interrupts.steering import hot_cpu, is_steered, rps_fixes, saturation_evidence
from nictop.rules.kernel_messages import link_messages, newest_evidence
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_used, link_finding, online_cpus_evidence, ring_with_room

MIN_RING_EVENTS_PER_SECOND = 1.0
"""Events per second, mean over the window, below which they are bursts without effect."""
MIN_RING_EVENTS = 1_000
MIN_RING_EVENT_SHARE = 1e-4
"""Share of the packets since the driver was loaded from which on totals alone are reported as
info."""


@host_rule(
    "warning",
    uses=(
        "counters.driver",
        "ethtool.driver",
        "ethtool.driver_counter_names",
        "ethtool.driver_counters",
    ),
)
def vmxnet3_receive_ring_runs_dry(host: HostFacts) -> Outcomes:
    """Packets are dropped because the receive ring of the guest has no free buffer.

    nictop adds up the driver counter "pkts rx OOB" (out of buffers) of all queues. While the link
    is watched: warning from one per second over the window. Else: info from a total of 1000 and one
    packet in 10 000 since the driver was loaded. The host shows the same with esxcli network port
    stats get.

    Sources: Broadcom KB 312565, vmxnet3_ethtool.c.
    """
    for link in vmxnet3_links(host):
        counter = host.driver_sum(link, ("pkts rx OOB",))
        severity = ring_event_severity(link, counter, "rx_packets")
        if counter is None or severity is None:
            continue
        yield link_finding(
            severity,
            host,
            link,
            "receive ring full: packets dropped (pkts rx OOB)"
            if counter.rate
            else "the receive ring was full: packets were dropped (pkts rx OOB)",
            evidence=(counter_evidence(link, counter), *ring_evidence(link, "rx")),
            why="Bursts arrive faster than the guest empties the ring. A larger ring absorbs "
            "longer bursts; a guest short of CPU time needs more CPUs or queues instead.",
            fixes=_largest_ring_fixes(host, link, "rx") or (_more_cpus_fix(link),),
        )
    yield from _not_watched(host)


def _more_cpus_fix(link: Link) -> Fix:
    rings = link.ethtool.rings
    is_known = rings is not None and rings.rx and rings.max_rx
    note = "The ring has its maximum size." if is_known else "The size of the ring is not known."
    return Fix("esxi", "Add CPUs to the guest", (), note=note)


UPLINK_FIX = Fix(
    "esxi",
    "Check the uplink",
    (command("esxtop"),),
    note="Key n: network view, %DRPTX of the port.",
)


def _largest_ring_fixes(host: HostFacts, link: Link, direction: str) -> tuple[Fix, ...]:
    """() if the ring has its maximum, or its sizes are not known."""
    ring = ring_with_room(link, direction)
    if ring is None:
        return ()
    return ethtool_fixes(host, link, ["-G", direction, str(ring[1])])


@host_rule(
    "warning",
    uses=(
        "counters.driver",
        "ethtool.driver",
        "ethtool.driver_counter_names",
        "ethtool.driver_counters",
    ),
)
def vmxnet3_transmit_ring_is_full(host: HostFacts) -> Outcomes:
    """The guest sends faster than the hypervisor removes packets from the transmit ring.

    nictop adds up the driver counter "ring full" of all queues. While the link is watched: warning
    from one per second over the window. Else: info from a total of 1000 and one packet in 10 000. A
    full ring stops the queue for a moment, and loses no packet: "drv dropped tx total" counts
    packets that the driver could not send for other reasons.

    Sources: vmxnet3_ethtool.c, vmxnet3_tq_xmit.
    """
    for link in vmxnet3_links(host):
        full = host.driver_sum(link, ("ring full",))
        severity = ring_event_severity(link, full, "tx_packets")
        if full is None or severity is None:
            continue
        yield link_finding(
            severity,
            host,
            link,
            "transmit ring full" if full.rate else "the transmit ring was full",
            evidence=(counter_evidence(link, full), *ring_evidence(link, "tx")),
            why="The hypervisor empties the ring too slowly: its uplink or its CPUs are "
            "saturated, or the ring is too small for the bursts.",
            fixes=_largest_ring_fixes(host, link, "tx") or (UPLINK_FIX,),
        )
    yield from _not_watched(host)


@host_rule(
    "warning",
    uses=(
        "counters.driver",
        "ethtool.driver",
        "ethtool.driver_counter_names",
        "ethtool.driver_counters",
    ),
)
def vmxnet3_finds_no_memory(host: HostFacts) -> Outcomes:
    """The driver could not allocate memory for new receive buffers, and the ring runs empty.

    nictop adds up the driver counter "rx buf alloc fail" of all queues. While the link is watched:
    warning for any increase over the window. Else: info from a total of 1000. The kernel had too
    little free memory for an allocation in an interrupt, which cannot wait.

    Source: vmxnet3_rq_alloc_rx_buf.
    """
    for link in vmxnet3_links(host):
        counter = host.driver_sum(link, ("rx buf alloc fail",))
        if counter is None or not _has_failed_often(counter):
            continue
        yield link_finding(
            "warning" if counter.rate else "info",
            host,
            link,
            "no memory for receive buffers"
            if counter.rate
            else "there was no memory for receive buffers",
            evidence=(counter_evidence(link, counter),),
            why="Without buffers packets are dropped. The guest had too little free memory for "
            "allocations in interrupts.",
            fixes=MEMORY_FIXES,
        )
    yield from _not_watched(host)


MEMORY_FIXES = (
    Fix(
        "here",
        "Show memory usage",
        (command("free", "-m"), command("cat", "/proc/pressure/memory")),
    ),
    Fix(
        "esxi",
        "Add memory to the guest, check ballooning",
        (),
        note="esxtop, key m: MCTLSZ.",
    ),
)


def _has_failed_often(counter: DriverCounter) -> bool:
    """It rises now; or its total is high, where its rate is not known."""
    if counter.rate is None:
        return counter.total >= MIN_RING_EVENTS
    return counter.rate > 0


@host_rule(
    "warning",
    yields_to=("nic_has_no_msix",),
    uses=("ethtool.channels", "ethtool.driver", "platform.online_cpus"),
)
def vmxnet3_has_one_queue(host: HostFacts) -> Outcomes:
    """A vmxnet3 NIC has one receive queue although the guest has several CPUs.

    nictop reads ethtool -l. When it is loaded, the driver creates as many queues as there are CPUs
    (at most eight, a power of two; 32 and any number from Linux 5.15 with a vmxnet3 of version 6),
    if MSI-X works and the virtual hardware provides RSS (VMware KB 2020567, Linux 2.6.37 and
    later). Info; warning when packet processing saturated the CPU of the
    queue in three consecutive samples. Not reported if receive packet steering (rps_cpus)
    distributes the packets over several CPUs.
    """
    if host.online_cpus < 2:
        return
    for link in vmxnet3_links(host):
        if receive_channels(link.ethtool.channels) != 1 or is_steered(link):
            continue
        hot = hot_cpu(host, link)
        messages = link_messages(host, link, "interrupt_type", within=math.inf)
        yield link_finding(
            "info" if hot is None else "warning",
            host,
            link,
            f"one receive queue for {host.online_cpus} CPUs",
            evidence=(
                Evidence("receive queues", "1", f"ethtool -l {link.name}"),
                online_cpus_evidence(host),
                *newest_evidence(messages),
                *saturation_evidence(host, hot),
            ),
            why="One CPU receives every packet. The number of queues is set when the driver is "
            "loaded.",
            fixes=(*rps_fixes(host, link), RELOAD_FIX, UPGRADE_FIX),
        )


RELOAD_FIX = Fix(
    "here",
    "Reload the driver",
    (joined("&&", command("modprobe", "-r", "vmxnet3"), command("modprobe", "vmxnet3")),),
    note="Use the console: all vmxnet3 links go down. Helps if CPUs were added while the guest was "
    "running.",
)
UPGRADE_FIX = Fix(
    "esxi",
    "Upgrade the virtual hardware",
    (),
    note="With the VM powered off: VM compatibility.",
)


def vmxnet3_links(host: HostFacts) -> tuple[Link, ...]:
    return tuple(filter(is_used, host.links_where(drivers=("vmxnet3",))))


def ring_event_severity(link: Link, counter: DriverCounter | None, packets: str) -> Severity | None:
    """Severity of a ring counter; None: not reported."""
    if counter is None:
        return None
    if counter.rate is not None:
        return "warning" if counter.rate >= MIN_RING_EVENTS_PER_SECOND else None
    total = packets_since_load(link, packets)
    if total is None or counter.total < MIN_RING_EVENTS:
        return None
    return "info" if counter.total >= total * MIN_RING_EVENT_SHARE else None


def packets_since_load(link: Link, name: str) -> int | None:
    """``rx_packets`` or ``tx_packets`` when the inventory was taken."""
    index = 0 if name == "rx_packets" else 1
    totals = link.counters or ()
    return totals[index] if len(totals) > index else None


def counter_evidence(link: Link, counter: DriverCounter) -> Evidence:
    """``12 since the driver was loaded, 3.00/s``"""
    value = f"{units.count(counter.total)} since the driver was loaded"
    if counter.rate is not None:
        value += f", {units.per_second(counter.rate)}"
    return Evidence(counter.name, value, f"ethtool -S {link.name}")


def ring_evidence(link: Link, direction: str) -> tuple[Evidence, ...]:
    rings = link.ethtool.rings
    if rings is None:
        return ()
    what, now, most = "transmit ring", rings.tx, rings.max_tx
    if direction == "rx":
        what, now, most = "receive ring", rings.rx, rings.max_rx
    if now is None:
        return ()
    size = f"{now} of {most}" if most else str(now)
    return (Evidence(what, size, f"ethtool -g {link.name}"),)


def _not_watched(host: HostFacts) -> Outcomes:
    """Links whose driver counters have totals but no rates."""
    counters = host.snapshot.counters
    for link in vmxnet3_links(host):
        if counters is None or link.ifindex not in counters.driver:
            yield Skipped("", host.name, link.name, "driver counters not watched", "not_watched")
