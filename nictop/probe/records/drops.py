"""Dropped packets that the kernel reported while they were monitored (drop monitor, generic netlink
family NET_DM)."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DropFlow:
    """Dropped packets with the same addresses, from their first bytes (NET_DM_ATTR_PAYLOAD)."""

    protocol: str
    """tcp, udp, icmp, icmpv6, arp; of another IP protocol its number; ethertype in hexadecimal
    (``0x88cc``) if it is not IP."""
    source: str
    destination: str
    """Numeric IP addresses; MAC addresses if it is not IP; "": not in the first bytes."""
    port: int | None
    """Destination port."""
    packets: int


@dataclass(frozen=True, slots=True)
class DropGroup:
    """Packets that were dropped for one reason, in one function of the kernel, and received by one
    NIC."""

    reason: str
    """NET_DM_ATTR_REASON, from enum skb_drop_reason (include/net/dropreason-core.h): ``NO_SOCKET``;
    "": not reported by this kernel (before Linux 5.18), or dropped by hardware."""
    place: str
    """NET_DM_ATTR_SYMBOL without its offset: ``tbf_enqueue [sch_tbf]``; hardware:
    NET_DM_ATTR_HW_TRAP_NAME."""
    ifindex: int | None
    """NET_DM_ATTR_PORT_NETDEV_IFINDEX: NIC that received the packets, in the network namespace of
    that NIC; None: they were not received, this host sent them."""
    packets: int
    bytes: int
    """NET_DM_ATTR_ORIG_LEN"""
    mac: str | None = None
    """Destination of received frames, source of sent ones, if it is the same in all; None: it
    differs, or no Ethernet."""
    hardware: bool = False
    """NET_DM_ATTR_ORIGIN: dropped by the device, and passed to the kernel by a devlink trap."""
    trap_group: str = ""
    """NET_DM_ATTR_HW_TRAP_GROUP_NAME"""
    flows: tuple[DropFlow, ...] = ()
    """Those with most packets, in descending order."""


@dataclass(frozen=True, slots=True)
class DropReport:
    """What was dropped while the drop monitor ran."""

    state: Literal[
        "complete", "stopped", "busy", "needs_root", "not_offered", "other_namespace", "failed"
    ]
    """stopped: before its time, at the limit of packets. busy: another program uses the drop
    monitor of this kernel. not_offered: kernel without CONFIG_NET_DROP_MONITOR. other_namespace:
    offered to the initial network namespace only."""
    detail: str = ""
    """failed: the error."""
    seconds: float = 0.0
    """Duration of the monitoring."""
    packets: int = 0
    """All that were received, also those that are in no group."""
    groups: tuple[DropGroup, ...] = ()
    """By packets, in descending order."""
    lost: int = 0
    """Dropped packets that the kernel did not report, because its queue was full
    (NET_DM_ATTR_STATS_DROPPED)."""
    overruns: int = 0
    """How often the receive buffer of the socket was full (ENOBUFS): an unknown number of reports
    was lost."""
    hardware: bool = False
    """Drops of devices were monitored too."""
    namespaces: int = 0
    """Other network namespaces with processes: packets of all namespaces are reported."""
