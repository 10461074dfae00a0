"""All metrics that nictop exports to Prometheus: name, type, unit, labels, help text and source.

Names follow the conventions of Prometheus: base units, the unit as the last word. Counters are raw, since boot or
driver load, so that ``rate()`` recognises resets; ``_total`` is appended to their name in the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "info"]


@dataclass(frozen=True)
class Metric:
    """A metric family of OpenMetrics."""

    name: str
    """Without ``_total`` and ``_info``."""
    kind: Kind
    unit: str
    """The last word of the name; "" if it has no unit."""
    labels: tuple[str, ...]
    help: str
    source: str
    """Kernel file, netlink attribute, or part of nictop."""

    @property
    def sample(self) -> str:
        """Name in the sample lines: with ``_total`` or ``_info``."""
        return self.name + {"gauge": "", "counter": "_total", "info": "_info"}[self.kind]


HOST = ("host",)
LINK = (*HOST, "device")
LINK_DIRECTION = (*LINK, "direction")
QUEUE = (*LINK_DIRECTION, "queue")
CPU = (*HOST, "cpu")
VF = (*LINK, "vf", "direction")

METRICS: tuple[Metric, ...] = (
    Metric("nictop_host_up", "gauge", "", HOST, "1: numbers of the host arrive; 0: they do not.", "the connection"),
    Metric(
        "nictop_host",
        "info",
        "",
        (*HOST, "kernel", "hypervisor", "distribution"),
        "What kind of machine the host is.",
        "uname, DMI, os-release",
    ),
    Metric(
        "nictop_host_data_age_seconds",
        "gauge",
        "seconds",
        HOST,
        "Since the newest numbers of the host arrived.",
        "this machine's clock",
    ),
    Metric(
        "nictop_host_inventory_age_seconds",
        "gauge",
        "seconds",
        HOST,
        "Between the inventory and the newest numbers.",
        "the host's clock",
    ),
    Metric(
        "nictop_host_left_out",
        "gauge",
        "",
        (*HOST, "what"),
        "Objects without series, because a host may have only so many, or two would have the same labels.",
        "the limits of nictop metrics",
    ),
    Metric(
        "nictop_host_findings",
        "gauge",
        "",
        (*HOST, "severity"),
        "Findings of this severity (critical, warning, info).",
        "the rules, nictop check",
    ),
    Metric(
        "nictop_host_skipped_rules",
        "gauge",
        "",
        HOST,
        "Skipped checks (rights, no answer).",
        "the rules",
    ),
    Metric(
        "nictop_finding",
        "gauge",
        "",
        (*HOST, "rule", "severity", "subject"),
        "1 while the rule finds something about the subject.",
        "the rules, nictop check --explain RULE",
    ),
    Metric(
        "nictop_link",
        "info",
        "",
        (*LINK, "driver", "bus", "kind", "pci_address", "address"),
        "What the netdev is.",
        "RTM_GETLINK, ETHTOOL_GDRVINFO",
    ),
    Metric("nictop_link_admin_up", "gauge", "", LINK, "1: the link is switched on.", "RTM_GETLINK, IFF_UP"),
    Metric(
        "nictop_link_carrier",
        "gauge",
        "",
        LINK,
        "1: there is a carrier; absent while the link is switched off.",
        "RTM_GETLINK, IFLA_CARRIER",
    ),
    Metric(
        "nictop_link_carrier_changes",
        "counter",
        "",
        LINK,
        "How often the carrier came or went.",
        "RTM_GETLINK, IFLA_CARRIER_CHANGES",
    ),
    Metric("nictop_link_mtu_bytes", "gauge", "bytes", LINK, "Largest packet.", "RTM_GETLINK, IFLA_MTU"),
    Metric(
        "nictop_link_speed_bytes_per_second",
        "gauge",
        "bytes_per_second",
        LINK,
        "Speed of the link, where its driver knows one.",
        "ethtool netlink, LINKMODES",
    ),
    Metric("nictop_link_bytes", "counter", "bytes", LINK_DIRECTION, "Ethernet headers included.", "RTM_GETSTATS"),
    Metric("nictop_link_packets", "counter", "packets", LINK_DIRECTION, "Packets of the link.", "RTM_GETSTATS"),
    Metric("nictop_link_errors", "counter", "", LINK_DIRECTION, "All errors of this direction.", "RTM_GETSTATS"),
    Metric(
        "nictop_link_drops",
        "counter",
        "",
        LINK_DIRECTION,
        "Packets that the kernel did not take or send.",
        "RTM_GETSTATS",
    ),
    Metric(
        "nictop_link_error_causes",
        "counter",
        "",
        (*LINK, "cause"),
        "Errors and losses of links with a device, by the kernel's name of the cause.",
        "RTM_GETSTATS, rtnl_link_stats64",
    ),
    Metric(
        "nictop_queue_packets",
        "counter",
        "packets",
        QUEUE,
        "Packets of one queue, where the driver counts them.",
        "netdev family qstats-get, else ETHTOOL_GSTATS",
    ),
    Metric("nictop_queue_bytes", "counter", "bytes", QUEUE, "Bytes of one queue.", "the same"),
    Metric("nictop_queue_drops", "counter", "", QUEUE, "Packets that one queue lost.", "the same"),
    Metric(
        "nictop_interrupts",
        "counter",
        "",
        (*LINK, "interrupt", "vector", "queue", "cpu"),
        "Interrupts of network devices, by vector and CPU; no queue: it serves several, or none.",
        "/sys/kernel/irq/N/per_cpu_count, else /proc/interrupts",
    ),
    Metric("nictop_softirqs", "counter", "", (*CPU, "softirq"), "Softirqs of the network.", "/proc/softirqs"),
    Metric(
        "nictop_softnet_processed", "counter", "", CPU, "Packets through backlog or NAPI.", "softnet_stat, 1st column"
    ),
    Metric("nictop_softnet_dropped", "counter", "", CPU, "The backlog was full.", "softnet_stat, 2nd column"),
    Metric(
        "nictop_softnet_times_squeezed",
        "counter",
        "",
        CPU,
        "Receiving stopped with packets left: budget or time was used up.",
        "softnet_stat, 3rd column",
    ),
    Metric("nictop_softnet_received_rps", "counter", "", CPU, "Woken up for another CPU.", "softnet_stat, 10th column"),
    Metric("nictop_softnet_flow_limit", "counter", "", CPU, "Dropped by the flow limit.", "softnet_stat, 11th column"),
    Metric(
        "nictop_cpu_seconds",
        "counter",
        "seconds",
        (*CPU, "mode"),
        "Time of the CPU; that of guests is also in user and nice.",
        "/proc/stat",
    ),
    Metric(
        "nictop_cpu_guest_seconds",
        "counter",
        "seconds",
        (*CPU, "mode"),
        "The part of user and nice that was spent in virtual machines.",
        "/proc/stat, guest and guest_nice",
    ),
    Metric("nictop_vf_bytes", "counter", "bytes", VF, "Of a virtual function, as its port counts.", "IFLA_VF_STATS"),
    Metric("nictop_vf_packets", "counter", "packets", VF, "Of a virtual function.", "IFLA_VF_STATS"),
    Metric("nictop_vf_drops", "counter", "", VF, "Packets that the port threw away.", "IFLA_VF_STATS"),
    Metric("nictop_hosts", "gauge", "", (), "Hosts on the command line.", "nictop"),
    Metric("nictop_build", "info", "", ("version",), "Version of nictop.", "nictop"),
    Metric("nictop_scrapes", "counter", "", (), "Answers that were made before this one.", "nictop"),
    Metric("nictop_scrape_cpu_seconds", "counter", "seconds", (), "CPU time that making these answers took.", "nictop"),
    Metric("nictop_diagnoses", "counter", "", (), "How often the rules were asked.", "nictop"),
    Metric("nictop_diagnosis_cpu_seconds", "counter", "seconds", (), "CPU time that the rules took.", "nictop"),
    Metric(
        "nictop_process_cpu_seconds",
        "counter",
        "seconds",
        (),
        "CPU time of nictop itself, without its probes.",
        "/proc/self/stat",
    ),
    Metric("nictop_process_resident_memory_bytes", "gauge", "bytes", (), "Memory of nictop itself.", "/proc/self/stat"),
    Metric("nictop_process_open_fds", "gauge", "", (), "Open file descriptors of nictop.", "/proc/self/fd"),
)
"""In the order in which they are written."""

METRIC_INDEXES: dict[str, int] = {metric.name: index for index, metric in enumerate(METRICS)}
"""Name → position in `METRICS`, by which samples name their metric."""
