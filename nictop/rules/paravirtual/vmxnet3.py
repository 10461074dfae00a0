"""vmxnet3: VMware's NIC, whose driver counts what its rings could not take.

Kernel: drivers/net/vmxnet3/vmxnet3_ethtool.c (names of the counters, of every queue), vmxnet3_drv.c.
"""

from __future__ import annotations

from nictop.model.text import units
from nictop.probe.records import Link
from nictop.rules.cpu.steering import hot_cpu, is_steered, rps_fixes
from nictop.rules.finding import Evidence, Fix, Severity, Skipped
from nictop.rules.fixes.commands import command, joined
from nictop.rules.fixes.persistence import ethtool_fixes
from nictop.rules.host import DriverCounter, HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import is_used, link_finding

MIN_RING_EVENTS_PER_SECOND = 1.0
"""Events per second, mean over the window, below which they are bursts that nobody feels."""
MIN_RING_EVENTS = 1_000
MIN_RING_EVENT_SHARE = 1e-4
"""Of packets since the driver was loaded: what is worth a note when nobody watched it happen."""


@host_rule(
    "vmxnet3",
    "warning",
    uses=("counters.driver", "ethtool.driver", "ethtool.driver_counter_names", "ethtool.driver_counters"),
)
def vmxnet3_receive_ring_runs_dry(host: HostFacts) -> Outcomes:
    """Packets arrive while the guest has no free buffer in the receive ring, and are lost.

    nictop adds up the driver counter "pkts rx OOB" (out of buffers) of all queues. While the link is watched, one per
    second over the window is a warning; else the total since the driver was loaded makes a note, from a thousand and
    one packet in ten thousand on. Known from Broadcom KB 312565 and vmxnet3_ethtool.c; the host sees the same
    with esxcli network port stats get.
    """
    for link in vmxnet3_links(host):
        counter = host.driver_sum(link, ("pkts rx OOB",))
        severity = weight(host, link, counter, "rx_packets")
        if counter is None or severity is None:
            continue
        rings = link.ethtool.rings
        yield link_finding(
            severity,
            host,
            link,
            "loses packets: no buffer was free in the receive ring",
            evidence=(counted(link, counter), *ring_evidence(link, "rx")),
            why="Bursts come faster than the guest empties the ring. A larger ring takes longer bursts; a guest that "
            "is short of CPU needs processors or queues instead.",
            fixes=ethtool_fixes(host, link, ["-G", "rx", str(rings.max_rx)])
            if rings is not None and rings.rx and rings.max_rx and rings.rx < rings.max_rx
            else (Fix("esxi", "give the guest processors", (), note="The ring is as large as it can be."),),
        )
    yield from _not_watched(host)


@host_rule(
    "vmxnet3",
    "warning",
    uses=("counters.driver", "ethtool.driver", "ethtool.driver_counter_names", "ethtool.driver_counters"),
)
def vmxnet3_transmit_ring_is_full(host: HostFacts) -> Outcomes:
    """The guest sends faster than the hypervisor takes packets out of the transmit ring.

    nictop adds up the driver counters "ring full" and "drv dropped tx total" of all queues: one per second over the
    window while the link is watched, else a note from a thousand and one packet in ten thousand on. A full ring stops
    the queue for a moment; only what the driver dropped is lost. From vmxnet3_ethtool.c and vmxnet3_tq_xmit.
    """
    for link in vmxnet3_links(host):
        full = host.driver_sum(link, ("ring full",))
        dropped = host.driver_sum(link, ("drv dropped tx total",))
        severity = weight(host, link, full, "tx_packets") or weight(host, link, dropped, "tx_packets")
        if severity is None:
            continue
        seen = tuple(counted(link, one) for one in (full, dropped) if one is not None)
        rings = link.ethtool.rings
        yield link_finding(
            severity,
            host,
            link,
            "sends faster than its transmit ring is emptied",
            evidence=(*seen, *ring_evidence(link, "tx")),
            why="The hypervisor takes packets later than they come: its uplink or its processors are at their limit, "
            "or the ring is too small for the bursts.",
            fixes=ethtool_fixes(host, link, ["-G", "tx", str(rings.max_tx)])
            if rings is not None and rings.tx and rings.max_tx and rings.tx < rings.max_tx
            else (
                Fix("esxi", "look at the uplink", (command("esxtop"),), note="n: network view, %DRPTX of the port."),
            ),
        )
    yield from _not_watched(host)


@host_rule(
    "vmxnet3",
    "warning",
    uses=("counters.driver", "ethtool.driver", "ethtool.driver_counter_names", "ethtool.driver_counters"),
)
def vmxnet3_finds_no_memory(host: HostFacts) -> Outcomes:
    """The driver could not get memory for new receive buffers, so that the ring empties.

    nictop adds up the driver counter "rx buf alloc fail" of all queues: any growth over the window while the link is
    watched, else a note from a thousand on. The kernel was short of free memory at that moment, in an interrupt, where
    it cannot wait. From vmxnet3_rq_alloc_rx_buf.
    """
    for link in vmxnet3_links(host):
        counter = host.driver_sum(link, ("rx buf alloc fail",))
        if counter is None:
            continue
        if not (counter.rate or 0.0) > 0 and not (counter.rate is None and counter.total >= MIN_RING_EVENTS):
            continue
        yield link_finding(
            "warning" if counter.rate else "info",
            host,
            link,
            "found no memory for receive buffers",
            evidence=(counted(link, counter),),
            why="Without buffers packets are lost. The guest's memory is full, or kept too full to serve interrupts.",
            fixes=(
                Fix(
                    "here", "see what uses the memory", (command("free", "-m"), command("cat", "/proc/pressure/memory"))
                ),
                Fix("esxi", "give the guest memory, and see that none is ballooned", (), note="esxtop, m: MCTLSZ."),
            ),
        )
    yield from _not_watched(host)


@host_rule("vmxnet3", "warning", uses=("ethtool.channels", "ethtool.driver", "platform.online_cpus"))
def vmxnet3_has_one_queue(host: HostFacts) -> Outcomes:
    """A vmxnet3 NIC has one receive queue although the guest has several processors.

    nictop reads ethtool -l. The driver takes as many queues as there are CPUs when it is loaded (a power of two, at
    most eight), when MSI-X works and the virtual hardware offers RSS (VMware KB 2020567, Linux 2.6.37 and later). It is
    a note; a warning when the CPU behind the queue was busy with packets in three samples one after another. Silent
    where receive packet steering (rps_cpus) hands the packets to several CPUs.
    """
    for link in vmxnet3_links(host):
        channels = link.ethtool.channels
        if channels is None or host.online_cpus < 2 or (channels.rx or 0) + (channels.combined or 0) != 1:
            continue
        if is_steered(link):
            continue
        hot = hot_cpu(host, link)
        messages = [
            one.text for one in host.inventory.messages or () if ": intr type" in one.text and link.name in one.text
        ]
        evidence = [
            Evidence("receive queues", "1", f"ethtool -l {link.name}"),
            Evidence("online CPUs", str(host.online_cpus), "/sys/devices/system/cpu/online"),
            *(Evidence("kernel", text, "/dev/kmsg") for text in messages[-1:]),
        ]
        if hot is not None:
            share = f"{units.percentage(host.saturated_cpus[hot])} in interrupts and softirqs"
            evidence.append(Evidence(f"CPU {hot}", share, "/proc/stat"))
        reload = joined("&&", command("modprobe", "-r", "vmxnet3"), command("modprobe", "vmxnet3"))
        yield link_finding(
            "info" if hot is None else "warning",
            host,
            link,
            f"has one receive queue for {host.online_cpus} processors",
            evidence=tuple(evidence),
            why="One processor receives every packet. The number of queues is fixed when the driver is loaded.",
            fixes=(
                *rps_fixes(host, link),
                Fix(
                    "here",
                    "load the driver again",
                    (reload,),
                    note="From the console: it cuts all vmxnet3 links. Helps when processors were added while running.",
                ),
                Fix("esxi", "upgrade the virtual hardware", (), note="With the VM off: compatibility of the VM."),
            ),
        )


def vmxnet3_links(host: HostFacts) -> tuple[Link, ...]:
    return tuple(link for link in host.links_where(drivers=("vmxnet3",)) if is_used(link))


def weight(host: HostFacts, link: Link, counter: DriverCounter | None, packets: str) -> Severity | None:
    """How much a counter of lost packets matters; None: not."""
    if counter is None:
        return None
    if counter.rate is not None:
        return "warning" if counter.rate >= MIN_RING_EVENTS_PER_SECOND else None
    total = packets_since_load(link, packets)
    if counter.total < MIN_RING_EVENTS or total is None or counter.total < total * MIN_RING_EVENT_SHARE:
        return None
    return "info"


def packets_since_load(link: Link, name: str) -> int | None:
    """``rx_packets`` or ``tx_packets`` when the inventory was taken."""
    index = 0 if name == "rx_packets" else 1
    return link.counters[index] if link.counters is not None and len(link.counters) > index else None


def counted(link: Link, counter: DriverCounter) -> Evidence:
    """``12 since the driver was loaded, 3.00/s now``"""
    value = f"{units.count(counter.total)} since the driver was loaded"
    if counter.rate is not None:
        value += f", {units.per_second(counter.rate)} now"
    return Evidence(counter.name, value, f"ethtool -S {link.name}")


def ring_evidence(link: Link, direction: str) -> tuple[Evidence, ...]:
    rings = link.ethtool.rings
    if rings is None:
        return ()
    now, most = (rings.rx, rings.max_rx) if direction == "rx" else (rings.tx, rings.max_tx)
    if now is None:
        return ()
    what = "receive ring" if direction == "rx" else "transmit ring"
    return (Evidence(what, f"{now} of {most}" if most else str(now), f"ethtool -g {link.name}"),)


def _not_watched(host: HostFacts) -> Outcomes:
    """Links whose driver counters only have totals: what goes on now nobody knows."""
    counters = host.snapshot.counters
    for link in vmxnet3_links(host):
        if counters is None or link.ifindex not in counters.driver:
            yield Skipped("", host.name, link.name, "not watched: driver counters", "not_watched")
