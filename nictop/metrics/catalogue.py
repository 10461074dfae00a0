"""All metrics that nictop exports to Prometheus: name, type, unit, labels, help text and source.

Names follow the conventions of Prometheus: base units, the unit as the last word. Counters are raw,
since boot or driver load, so that ``rate()`` recognises resets; ``_total`` is appended to their
name in the text.
"""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass

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
PORT = (*LINK_DIRECTION, "source")

METRICS: tuple[Metric, ...] = (
    Metric("nictop_host_up", "gauge", "", HOST, "1 if the host is reporting, else 0.", "nictop"),
    Metric(
        "nictop_host",
        "info",
        "",
        (*HOST, "kernel", "hypervisor", "distribution"),
        "Host information.",
        "uname, DMI, os-release",
    ),
    Metric(
        "nictop_host_data_age_seconds",
        "gauge",
        "seconds",
        HOST,
        "Seconds since the last report of the host.",
        "clock of the nictop machine",
    ),
    Metric(
        "nictop_host_inventory_age_seconds",
        "gauge",
        "seconds",
        HOST,
        "Age of the inventory, relative to the last report of the host.",
        "clock of the host",
    ),
    Metric(
        "nictop_host_left_out",
        "gauge",
        "",
        (*HOST, "what"),
        "Objects that are not exported: limit per host exceeded, or duplicate labels.",
        "nictop",
    ),
    Metric(
        "nictop_host_findings",
        "gauge",
        "",
        (*HOST, "severity"),
        "Number of findings by severity (critical, warning, info).",
        "checks, see nictop check",
    ),
    Metric(
        "nictop_host_skipped_rules",
        "gauge",
        "",
        HOST,
        "Number of skipped checks (missing rights, no reply).",
        "checks",
    ),
    Metric(
        "nictop_finding",
        "gauge",
        "",
        (*HOST, "rule", "severity", "subject"),
        "1 while the finding is present.",
        "checks, see nictop check --explain RULE",
    ),
    Metric(
        "nictop_link",
        "info",
        "",
        (*LINK, "driver", "bus", "kind", "pci_address", "address"),
        "Interface information.",
        "RTM_GETLINK, ETHTOOL_GDRVINFO",
    ),
    Metric(
        "nictop_link_admin_up",
        "gauge",
        "",
        LINK,
        "1 if the interface is administratively up, else 0.",
        "RTM_GETLINK, IFF_UP",
    ),
    Metric(
        "nictop_link_carrier",
        "gauge",
        "",
        LINK,
        "1 if the interface has carrier, else 0; absent while it is administratively down.",
        "RTM_GETLINK, IFLA_CARRIER",
    ),
    Metric(
        "nictop_link_carrier_changes",
        "counter",
        "",
        LINK,
        "Number of carrier changes.",
        "RTM_GETLINK, IFLA_CARRIER_CHANGES",
    ),
    Metric(
        "nictop_link_mtu_bytes",
        "gauge",
        "bytes",
        LINK,
        "MTU of the interface.",
        "RTM_GETLINK, IFLA_MTU",
    ),
    Metric(
        "nictop_link_speed_bytes_per_second",
        "gauge",
        "bytes_per_second",
        LINK,
        "Link speed, if reported by the driver.",
        "ethtool netlink, LINKMODES",
    ),
    Metric(
        "nictop_link_bytes",
        "counter",
        "bytes",
        LINK_DIRECTION,
        "Bytes received or transmitted, including Ethernet headers.",
        "RTM_GETSTATS",
    ),
    Metric(
        "nictop_link_packets",
        "counter",
        "packets",
        LINK_DIRECTION,
        "Packets received or transmitted.",
        "RTM_GETSTATS",
    ),
    Metric(
        "nictop_link_errors",
        "counter",
        "",
        LINK_DIRECTION,
        "Receive or transmit errors.",
        "RTM_GETSTATS",
    ),
    Metric(
        "nictop_link_drops",
        "counter",
        "",
        LINK_DIRECTION,
        "Packets dropped on receive or transmit.",
        "RTM_GETSTATS",
    ),
    Metric(
        "nictop_link_error_causes",
        "counter",
        "",
        (*LINK, "cause"),
        "Errors and drops by kernel counter name; not exported for virtual interfaces.",
        "RTM_GETSTATS, rtnl_link_stats64",
    ),
    Metric(
        "nictop_queue_packets",
        "counter",
        "packets",
        QUEUE,
        "Packets per queue, if counted by the driver.",
        "netdev family qstats-get, else ETHTOOL_GSTATS",
    ),
    Metric(
        "nictop_queue_bytes",
        "counter",
        "bytes",
        QUEUE,
        "Bytes per queue, if counted by the driver.",
        "netdev family qstats-get, else ETHTOOL_GSTATS",
    ),
    Metric(
        "nictop_queue_drops",
        "counter",
        "",
        QUEUE,
        "Packets dropped per queue, if counted by the driver.",
        "netdev family qstats-get, else ETHTOOL_GSTATS",
    ),
    Metric(
        "nictop_interrupts",
        "counter",
        "",
        (*LINK, "interrupt", "vector", "queue", "cpu"),
        "Interrupts of network devices by vector and CPU; queue is empty if the vector serves "
        "several queues or none.",
        "/sys/kernel/irq/N/per_cpu_count, else /proc/interrupts",
    ),
    Metric(
        "nictop_softirqs",
        "counter",
        "",
        (*CPU, "softirq"),
        "Network softirqs (NET_RX, NET_TX).",
        "/proc/softirqs",
    ),
    Metric(
        "nictop_softnet_processed",
        "counter",
        "",
        CPU,
        "Packets processed (backlog and NAPI).",
        "softnet_stat, 1st column",
    ),
    Metric(
        "nictop_softnet_dropped",
        "counter",
        "",
        CPU,
        "Packets dropped because the backlog was full (netdev_max_backlog).",
        "softnet_stat, 2nd column",
    ),
    Metric(
        "nictop_softnet_times_squeezed",
        "counter",
        "",
        CPU,
        "Times net_rx_action stopped with work remaining (budget or time limit).",
        "softnet_stat, 3rd column",
    ),
    Metric(
        "nictop_softnet_received_rps",
        "counter",
        "",
        CPU,
        "Inter-processor interrupts received for RPS.",
        "softnet_stat, 10th column",
    ),
    Metric(
        "nictop_softnet_flow_limit",
        "counter",
        "",
        CPU,
        "Packets dropped by the flow limit.",
        "softnet_stat, 11th column",
    ),
    Metric(
        "nictop_cpu_seconds",
        "counter",
        "seconds",
        (*CPU, "mode"),
        "CPU time by mode; user and nice include guest time.",
        "/proc/stat",
    ),
    Metric(
        "nictop_cpu_guest_seconds",
        "counter",
        "seconds",
        (*CPU, "mode"),
        "CPU time spent in guests (part of user and nice).",
        "/proc/stat, guest and guest_nice",
    ),
    Metric(
        "nictop_vf_bytes",
        "counter",
        "bytes",
        VF,
        "Bytes of a VF, counted by the PF.",
        "IFLA_VF_STATS",
    ),
    Metric(
        "nictop_vf_packets",
        "counter",
        "packets",
        VF,
        "Packets of a VF, counted by the PF.",
        "IFLA_VF_STATS",
    ),
    Metric(
        "nictop_vf_drops",
        "counter",
        "",
        VF,
        "Dropped packets of a VF, counted by the PF.",
        "IFLA_VF_STATS",
    ),
    Metric(
        "nictop_port_bytes",
        "counter",
        "bytes",
        PORT,
        "Bytes at the port of a NIC with VFs, of all its functions; most NICs include the FCS.",
        "ETHTOOL_MSG_STATS_GET eth-mac, else ETHTOOL_GSTATS of the driver (source)",
    ),
    Metric(
        "nictop_port_packets",
        "counter",
        "packets",
        PORT,
        "Packets at the port of a NIC with VFs, of all its functions.",
        "ETHTOOL_MSG_STATS_GET eth-mac, else ETHTOOL_GSTATS of the driver (source)",
    ),
    Metric(
        "nictop_vf",
        "info",
        "",
        (*LINK, "vf", "pci_address", "mac", "vlan", "trust", "spoofchk", "guest"),
        "Settings of a VF by its PF, and the guest that has it.",
        "IFLA_VFINFO_LIST; guests: see nictop guests",
    ),
    Metric("nictop_hosts", "gauge", "", (), "Number of configured hosts.", "nictop"),
    Metric("nictop_build", "info", "", ("version",), "Build information.", "nictop"),
    Metric("nictop_scrapes", "counter", "", (), "Number of previous scrapes.", "nictop"),
    Metric(
        "nictop_scrape_cpu_seconds",
        "counter",
        "seconds",
        (),
        "CPU time used for scrapes.",
        "nictop",
    ),
    Metric(
        "nictop_diagnoses", "counter", "", (), "Number of diagnoses (runs of all checks).", "nictop"
    ),
    Metric(
        "nictop_diagnosis_cpu_seconds",
        "counter",
        "seconds",
        (),
        "CPU time used for diagnoses.",
        "nictop",
    ),
    Metric(
        "nictop_process_cpu_seconds",
        "counter",
        "seconds",
        (),
        "CPU time of the nictop process, without probes.",
        "/proc/self/stat",
    ),
    Metric(
        "nictop_process_resident_memory_bytes",
        "gauge",
        "bytes",
        (),
        "Resident memory size of the nictop process.",
        "/proc/self/stat",
    ),
    Metric(
        "nictop_process_open_fds",
        "gauge",
        "",
        (),
        "Open file descriptors of the nictop process.",
        "/proc/self/fd",
    ),
)
"""In the order in which they are written."""

METRIC_INDEXES: dict[str, int] = {metric.name: index for index, metric in enumerate(METRICS)}
"""Name → position in `METRICS`, by which samples name their metric."""
