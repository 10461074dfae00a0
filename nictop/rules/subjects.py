"""Helpers of many rules: whether a link is in use, its rates, and how to create a finding. Reads nothing."""

from __future__ import annotations

import re

from nictop.model.rates.links import LinkRates
from nictop.model.text.words import IFF_UP
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.host import HostFacts, once_per_host

BUSY_PACKETS_PER_SECOND = 10_000.0
"""Below this rate, it does not matter which CPU processes the packets of a NIC."""
MIN_WINDOW_PACKETS = 10_000
"""Packets in the window below which shares of them are not significant."""
PARAVIRTUAL_BUSES = ("virtio", "vmbus", "xen")
"""Buses of links without a cable."""
CLOUD_DRIVERS = ("ena", "gve", "mana")
"""Drivers of devices that only clouds offer."""
MAC_ADDRESS = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")


def is_used(link: Link) -> bool:
    """The link is up and has a device: it is not lo, veth, tap, bridge or an unused port."""
    return bool(link.flags & IFF_UP) and link.bus is not None


@once_per_host
def used_links(host: HostFacts) -> tuple[Link, ...]:
    return tuple(link for link in host.links if is_used(link))


def newest_link_rates(host: HostFacts, link: Link) -> LinkRates | None:
    """The newest rates of a link; None: unknown, or fewer than `MIN_SAMPLES` samples."""
    return host.newest_rates.get(link.ifindex)


def mac_or_placeholder(link: Link) -> str:
    """The MAC address for commands, or the placeholder ``<MAC>``."""
    return link.address if link.address is not None and MAC_ADDRESS.fullmatch(link.address) else "<MAC>"


def packet_rate(rates: LinkRates | None) -> float:
    """Packets per second, both directions."""
    return (rates.rx_packets or 0.0) + (rates.tx_packets or 0.0) if rates is not None else 0.0


def link_finding(
    severity: Severity,
    host: HostFacts,
    link: Link,
    title: str,
    *,
    evidence: tuple[Evidence, ...],
    why: str,
    fixes: tuple[Fix, ...] = (),
) -> Finding:
    """A finding with a link as its subject. Its `rule` is filled in by the registry."""
    return Finding("", severity, host.name, link.name, title, evidence, why, fixes, link.ifindex)


def host_finding(
    severity: Severity,
    host: HostFacts,
    subject: str,
    title: str,
    *,
    evidence: tuple[Evidence, ...],
    why: str,
    fixes: tuple[Fix, ...] = (),
) -> Finding:
    """A finding with another subject. Its `rule` is filled in by the registry."""
    return Finding("", severity, host.name, subject, title, evidence, why, fixes)
