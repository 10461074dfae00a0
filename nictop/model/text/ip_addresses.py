"""IP addresses and networks in text: what is not valid is None, not an exception."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from nictop.probe.records import Address

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(maxsize=16384)  # called again with every reading of any host
def parse_ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


@lru_cache(maxsize=16384)  # as `parse_ip_address`
def parse_network(text: str) -> Network | None:
    """The network of ``192.0.2.0/24``, or of one of its addresses with prefix length."""
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def address_network(address: Address) -> Network | None:
    """None: it is invalid."""
    return parse_network(f"{address.address}/{address.prefix_length}")
