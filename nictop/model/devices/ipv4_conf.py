"""Effective IPv4 and ARP settings of one link: the maximum of net.ipv4.conf.all and
net.ipv4.conf.LINK.

Reads nothing. Kernel: Documentation/networking/ip-sysctl.rst.
"""

from __future__ import annotations

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, Settings

STRICT, LOOSE = 1, 2
"""Values of rp_filter: the route back to the sender must use the same link, or any link."""


@dataclass(frozen=True)
class Ipv4Conf:
    """Effective values of a link; None: not known."""

    rp_filter: int | None
    """0 off, 1 strict, 2 loose (RFC 3704)."""
    arp_filter: int | None
    """1: answers ARP only if the route back uses the same link."""
    arp_ignore: int | None
    """0: answers ARP for the addresses of all links; 1: only for its own; 2: and only for requests
    from its own subnet."""
    arp_announce: int | None
    """0: may send ARP requests with the address of another link; 2: with its own."""


def ipv4_conf(link: Link, settings: Settings) -> Ipv4Conf:
    """The effective values of `link`. The probe reads the values of links with an IPv4 address."""

    def larger(name: str) -> int | None:
        own = settings.sysctl.get(f"net.ipv4.conf.{link.name}.{name}")
        every = settings.sysctl.get(f"net.ipv4.conf.all.{name}")
        if own is None or every is None:
            return None
        return max(own, every)

    return Ipv4Conf(
        larger("rp_filter"), larger("arp_filter"), larger("arp_ignore"), larger("arp_announce")
    )


RP_FILTER_TEXTS = {0: "off", STRICT: "strict", LOOSE: "loose"}


def ipv4_conf_text(conf: Ipv4Conf) -> str:
    """``rp_filter 1 (strict), arp_ignore 1``: the known values that are not 0; "" when there are
    none."""
    parts = []
    if conf.rp_filter:
        text = f"rp_filter {conf.rp_filter}"
        if conf.rp_filter in RP_FILTER_TEXTS:
            text += f" ({RP_FILTER_TEXTS[conf.rp_filter]})"
        parts.append(text)
    for name, value in (
        ("arp_filter", conf.arp_filter),
        ("arp_ignore", conf.arp_ignore),
        ("arp_announce", conf.arp_announce),
    ):
        if value:
            parts.append(f"{name} {value}")
    return ", ".join(parts)
