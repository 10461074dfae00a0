"""What drivers count as lost besides full rings: missing memory, packets that no flow rule selects.

Reads nothing; the names are those of `nictop.model.devices.driver_losses`.
"""

from __future__ import annotations

from nictop.model.text import units
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.host import DriverCounter, HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import (
    MIN_WINDOW_PACKETS,
    link_finding,
    links_with_driver_counters,
    mac_or_placeholder,
)

MIN_FAILURES_PER_SECOND = 1.0
MIN_MISSED_SHARE = 0.01
"""Of the received packets."""
SOURCES = (
    "counters.driver",
    "ethtool.driver",
    "ethtool.driver_counter_names",
    "ethtool.driver_counters",
)


@host_rule("warning", uses=SOURCES)
def driver_finds_no_memory(host: HostFacts) -> Outcomes:
    """The driver cannot allocate memory for receive buffers, and its rings run empty.

    nictop reads the counters of failed allocations of the driver while the link is watched (ena
    page_alloc_fail, gve rx_buf_alloc_fail, mlx5 rx_buff_alloc_err, ice and i40e rx_alloc_fail,
    ixgbe alloc_rx_page_failed): one per second or more over the window. The kernel had too little
    free memory for an allocation in an interrupt, which cannot wait.

    Not reported: vmxnet3, which has a rule of its own.

    Sources: the drivers' ethtool source files; kernel admin-guide/sysctl/vm.rst min_free_kbytes.
    """
    for link in links_with_driver_counters(host):
        counter = host.driver_losses(link, "memory")
        if counter is None or (counter.rate or 0.0) < MIN_FAILURES_PER_SECOND:
            continue
        yield link_finding(
            "warning",
            host,
            link,
            "no memory for receive buffers",
            evidence=(_evidence(link, counter),),
            why="Without buffers packets are dropped. Too little memory is free for allocations "
            "in interrupts.",
            fixes=(
                Fix(
                    "here",
                    "Show memory usage",
                    (
                        command("free", "-m"),
                        command("cat", "/proc/pressure/memory", "/proc/sys/vm/min_free_kbytes"),
                    ),
                    note="A larger vm.min_free_kbytes keeps more memory free for interrupts.",
                ),
            ),
        )


@host_rule("info", uses=("counters.links", *SOURCES))
def flow_table_drops_packets(host: HostFacts) -> Outcomes:
    """The NIC drops received packets that no rule of its flow table selects.

    nictop reads rx_steer_missed_packets of mlx5 while the link is watched: 1 % of the received
    packets or more over the window, with at least 10 000 received. Usual cause: frames for other
    MAC addresses or VLANs that a switch floods, which is harmless. Packets for VLANs, multicast
    groups or guests of this host must not be among them.

    Source: kernel Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst.
    """
    for link in links_with_driver_counters(host):
        counter = host.driver_losses(link, "steering")
        if counter is None or not counter.rate:
            continue
        received = host.known_link_rate(link, lambda rates: rates.rx_packets)
        if (
            received * host.elapsed < MIN_WINDOW_PACKETS
            or counter.rate < MIN_MISSED_SHARE * received
        ):
            continue
        others = ("not", "ether", "host", mac_or_placeholder(link), "and", "not", "broadcast")
        yield link_finding(
            "info",
            host,
            link,
            "drops packets that no flow rule selects",
            evidence=(
                _evidence(link, counter),
                Evidence("received", units.packets_per_second(received), "RTM_GETSTATS"),
            ),
            why="The NIC discards frames for addresses and VLANs that are not configured on it.",
            fixes=(
                Fix(
                    "here",
                    "Capture such frames",
                    (command("tcpdump", "-eni", link.name, "-c", "100", *others),),
                    note="While tcpdump runs, the NIC receives all frames.",
                ),
            ),
        )


def _evidence(link: Link, counter: DriverCounter) -> Evidence:
    now = f", {units.per_second(counter.rate)}" if counter.rate else ""
    return Evidence(
        counter.name, f"{units.count(counter.total)} in total{now}", f"ethtool -S {link.name}"
    )
