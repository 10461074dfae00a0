"""Counters of lost packets of a network namespace, and of the time in which a cgroup had to wait
for CPUs."""

from __future__ import annotations

from typing import Literal

from nictop.probe.light_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LossCount:
    """One counter of lost packets: its total, or what was added between two readings."""

    source: Literal[
        "protocol", "conntrack", "softnet", "link", "qdisc", "driver", "cgroup", "filter"
    ]
    """protocol: /proc/net/snmp, snmp6 and netstat. conntrack: /proc/net/stat/nf_conntrack. softnet:
    /proc/net/softnet_stat. link: RTM_GETSTATS. qdisc: RTM_GETQDISC. driver: ETHTOOL_GSTATS,
    counters of XDP. cgroup: cpu.stat of the cgroup of the probe and its ancestors; not packets.
    filter: chains of nftables and iptables-legacy."""
    name: str
    """protocol: ``Udp InCsumErrors``. link: as in `LINK_COUNTERS`. qdisc: kind, ``ingress``.
    driver: name of the counter. cgroup: ``nr_throttled``, or ``throttled_usec`` (µs). filter: back
    end, ``nft`` or ``iptables``."""
    count: int
    ifindex: int | None = None
    """link, qdisc, driver: of the link."""
    where: str = ""
    """qdisc: handle, ``ffff:``. cgroup: its path, ``/system.slice/sshd.service``. filter: family,
    table and chain, ``inet filter input``."""
