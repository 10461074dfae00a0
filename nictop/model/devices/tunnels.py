"""Tunnel links: which link carries their packets, and how many bytes they add.

Reads nothing. Sources: RFC 7348 (VXLAN: outer IPv4 20 or IPv6 40, UDP 8, VXLAN 8, inner Ethernet
14), RFC 8926 (Geneve, without options), RFC 2784 and 2890 (GRE: 4, and 4 for each of checksum, key
and sequence number), kernel drivers/net/wireguard/messages.h and device.c (UDP 8, message header
16, authentication tag 16: 60 with IPv4, 80 with IPv6), net/ipv4/fou_core.c (FOU 8, GUE 12).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nictop.model.devices.links import link_at, ports_of
from nictop.model.text.ip_addresses import address_network, parse_ip_address
from nictop.probe.records import Address, Link, Tunnel

IPV4_BYTES, IPV6_BYTES, UDP_BYTES, ETHERNET_BYTES, GRE_BYTES = 20, 40, 8, 14, 4
WIREGUARD_BYTES = 32
UDP_TUNNELS = ("vxlan", "geneve")
"""Kinds of tunnels whose packets a NIC may segment, and whose checksums it may compute."""
HEADERS = {
    "vxlan": UDP_BYTES + 8 + ETHERNET_BYTES,
    "geneve": UDP_BYTES + 8 + ETHERNET_BYTES,
    "gre": GRE_BYTES,
    "ip6gre": GRE_BYTES,
    "gretap": GRE_BYTES + ETHERNET_BYTES,
    "ip6gretap": GRE_BYTES + ETHERNET_BYTES,
    "ipip": 0,
    "sit": 0,
    "ip6tnl": 0,
    "wireguard": UDP_BYTES + WIREGUARD_BYTES,
}
"""Kind of tunnel → bytes between the outer IP header and the inner IP packet."""
OVER_IPV6 = ("ip6gre", "ip6gretap", "ip6tnl")
GRE_KINDS = ("gre", "ip6gre", "gretap", "ip6gretap")
GRE_OPTIONS = (0x8000, 0x2000, 0x1000)
"""Checksum, key, sequence number: 4 bytes each."""
ENCAPSULATION_BYTES = {0: 0, 1: UDP_BYTES, 2: UDP_BYTES + 4}
MAIN_TABLE = 254


def is_tunnel(link: Link) -> bool:
    return link.kind in HEADERS


def overhead(link: Link) -> int | None:
    """Bytes that the tunnel adds to each packet, at least; None: not a tunnel whose headers are
    known, or a program sets them for each packet."""
    headers = HEADERS.get(link.kind or "")
    tunnel = link.tunnel
    if headers is None:
        return None
    if tunnel is not None and tunnel.external:
        return None
    added = headers + IPV4_BYTES
    if link.kind in OVER_IPV6 or is_over_ipv6(link):
        added = headers + IPV6_BYTES
    if tunnel is None:
        return added
    if link.kind in GRE_KINDS:
        added += 4 * sum(bool(tunnel.flags & option) for option in GRE_OPTIONS)
    return added + ENCAPSULATION_BYTES.get(tunnel.encapsulation, 0)


def is_over_ipv6(link: Link) -> bool:
    """By its addresses; those of WireGuard's peers are not read: False."""
    if link.tunnel is None:
        return False
    address = link.tunnel.remote or link.tunnel.local or ""
    return ":" in address


def underlay(link: Link, links: Mapping[int, Link]) -> Link | None:
    """The link that carries the packets of a tunnel: the one that it is bound to, else that of its
    own address or of the subnet of the other end, else that of the default route. None: not
    known."""
    if link.tunnel is not None:
        carrier = _carrier(link, link.tunnel, links)
        if carrier is not None:
            return carrier
    # a default route by a VPN is for what is in it
    others: dict[int, Link] = {}
    for ifindex, other in links.items():
        if other.kind != "tun" and not is_tunnel(other):
            others[ifindex] = other
    return way_out(others, "ipv6" if is_over_ipv6(link) else "ipv4")


def _carrier(link: Link, tunnel: Tunnel, links: Mapping[int, Link]) -> Link | None:
    """The link that a tunnel is bound to, else the first one with an address that leads there."""
    bound = link_at(tunnel.lower, links)
    if bound is not None:
        return bound
    for owner in links.values():
        if owner is link:
            continue
        if any(_leads_there(address, tunnel) for address in owner.addresses):
            return owner
    return None


def _leads_there(address: Address, tunnel: Tunnel) -> bool:
    """It is the local address of the tunnel, or the other end is in its subnet."""
    if tunnel.local is not None:
        return address.address == tunnel.local
    remote = parse_ip_address(tunnel.remote or "")
    if remote is None or remote.is_multicast:
        return False
    network = address_network(address)
    return network is not None and remote in network


def way_out(links: Mapping[int, Link], family: str) -> Link | None:
    """The link of the default route with the lowest metric in the table main; None: there is
    none."""
    best: Link | None = None
    lowest_metric = 0
    for link in links.values():
        for route in link.default_routes:
            if route.family != family or route.table != MAIN_TABLE:
                continue
            if best is None or route.metric < lowest_metric:
                best, lowest_metric = link, route.metric
    return best


def devices_below(link: Link, links: Mapping[int, Link]) -> Iterator[Link]:
    """NICs by which a link sends: itself, the link below a VLAN, ports of a bond, team or
    bridge."""
    seen: set[int] = set()
    pending = [link]
    while pending:
        current = pending.pop()
        if current.ifindex in seen:
            continue
        seen.add(current.ifindex)
        if current.bus is not None:
            yield current
        is_here = current.lower_namespace is None and current.kind != "veth"
        below = link_at(current.lower, links)
        if below is not None and is_here:
            pending.append(below)
        if current.kind in ("bond", "team", "bridge"):
            pending += ports_of(current, links)
