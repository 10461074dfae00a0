"""Where packets leave that go to the subnet of a link: what the kernel answers to ``ip route get PEER from ADDRESS``.

Asks one RTM_GETROUTE per address of links that share a subnet, or of which a narrower route sends a part elsewhere, and
one more per subnet without a source address. Hosts without either, as most are, are asked nothing. Yields the links
with `Link.subnet_routes`.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from nictop.probe.inventory.links.routes import parse_outgoing_link, route_query
from nictop.probe.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from nictop.probe.kernel.rtnetlink import IFF_UP, RTM_GETROUTE
from nictop.probe.kernel.sysfs import why_unreadable
from nictop.probe.records import Link, SubnetRoute, Unreadable

FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}
MAX_LOOKUPS = 256
"""Per inventory; hosts with more addresses in shared subnets get a note in `Link.unreadable`."""
MIN_ADDRESSES = 4
"""A smaller subnet (/31, /32) has no others in it."""
NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES)
"""What the kernel answers when there is no route, and for routes of the types unreachable and prohibit."""


@dataclass(frozen=True)
class NarrowRoute:
    """An IPv4 route that may be for a part of a link's subnet."""

    first: int
    """Its first address."""
    prefix_length: int
    ifindexes: tuple[int, ...]
    """Of the links that it leaves by."""

    @property
    def last(self) -> int:
        return self.first | (1 << 32 - self.prefix_length) - 1


@dataclass(frozen=True)
class LinkSubnet:
    """A subnet and who is in it; addresses as numbers."""

    family: str
    first: int
    last: int
    members: list[tuple[int, str]] = field(default_factory=list)
    """(ifindex, address)"""


@dataclass(frozen=True)
class Lookup:
    """Routes to ask for: to one peer, from each of some addresses."""

    family: str
    peer: str
    members: list[tuple[int, str]]
    """(ifindex, address)"""
    narrower: str = ""


def with_subnet_routes(links: tuple[Link, ...], narrow: Iterable[NarrowRoute] = ()) -> tuple[Link, ...]:
    """The links, those that share a subnet, or of which one of the routes in `narrow` takes a part, with the routes to
    a peer there. Never raises OSError."""
    wanted = [
        Lookup(subnet.family, peer, subnet.members)
        for subnet in shared_subnets(links)
        if (peer := peer_in(subnet, links)) is not None
    ]
    wanted += narrower_lookups(links, narrow)
    if not wanted:
        return links
    found: dict[int, list[SubnetRoute]] = {}
    failed: dict[int, Unreadable] = {}
    lookups = 0
    try:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            for one in wanted:
                lookups += 1 + len(one.members)
                if lookups > MAX_LOOKUPS:
                    why = Unreadable("failed", f"more than {MAX_LOOKUPS} addresses to look up routes from")
                    failed.update(dict.fromkeys((ifindex for ifindex, _ in one.members), why))
                    continue
                unbound = outgoing_link(netlink, one.family, one.peer, None)
                for ifindex, address in one.members:
                    bound = outgoing_link(netlink, one.family, one.peer, address)
                    if not one.narrower or bound != ifindex:
                        route = SubnetRoute(address, one.peer, bound, unbound, one.narrower)
                        found.setdefault(ifindex, []).append(route)
    except OSError as error:
        why = why_unreadable(error, "routes to subnets of links")
        failed = {ifindex: why for one in wanted for ifindex, _ in one.members}
    return tuple(
        replace(
            link,
            subnet_routes=tuple(found.get(link.ifindex, ())),
            unreadable={**link.unreadable, "subnet_routes": failed[link.ifindex]}
            if link.ifindex in failed
            else link.unreadable,
        )
        if link.ifindex in found or link.ifindex in failed
        else link
        for link in links
    )


def narrower_lookups(links: Iterable[Link], narrow: Iterable[NarrowRoute]) -> Iterator[Lookup]:
    """For each of the routes that is for a part of the subnet of a link and leaves by another one: its first address
    that is not this host's."""
    known = [link for link in links if link.addresses]
    own = {number(one.family, one.address) for link in known for one in link.addresses if one.family == "ipv4"}
    subnets = [
        (link.ifindex, address.address, span)
        for link in known
        if link.flags & IFF_UP and link.carrier and link.master is None
        for address in link.addresses
        if address.family == "ipv4" and address.scope == "global"
        if (span := subnet_span("ipv4", address.address, address.prefix_length)) is not None
    ]
    for route in narrow:
        members = [
            (ifindex, address)
            for ifindex, address, span in subnets
            if span[0] <= route.first and route.last <= span[1] and ifindex not in route.ifindexes
        ]
        peers = range(route.first + (route.last - route.first >= MIN_ADDRESSES - 1), route.last + 1)
        peer = next((one for one in peers if one not in own), None)
        if members and peer is not None:
            first, written = (socket.inet_ntoa(one.to_bytes(4, "big")) for one in (route.first, peer))
            yield Lookup("ipv4", written, members, f"{first}/{route.prefix_length}")


def shared_subnets(links: Iterable[Link]) -> list[LinkSubnet]:
    """Subnets that two links have addresses in. Of a subnet inside another one, those of the outer one are members,
    too: the subnets of two addresses are disjoint or one contains the other."""
    by_span: dict[tuple[str, int, int], LinkSubnet] = {}
    for link in links:
        if not link.flags & IFF_UP or not link.carrier or link.master is not None:
            continue
        for address in link.addresses:
            span = subnet_span(address.family, address.address, address.prefix_length)
            if address.scope == "global" and span is not None:
                subnet = by_span.setdefault((address.family, *span), LinkSubnet(address.family, *span))
                subnet.members.append((link.ifindex, address.address))
    return list(_shared(sorted(by_span.values(), key=lambda one: (one.family, one.first, -one.last))))


def _shared(subnets: Iterable[LinkSubnet]) -> Iterator[LinkSubnet]:
    """`subnets`: each one after those that contain it."""
    outer: list[LinkSubnet] = []
    for subnet in subnets:
        while outer and (outer[-1].family != subnet.family or outer[-1].last < subnet.first):
            outer.pop()
        members = [member for one in (*outer, subnet) for member in one.members]
        if len({ifindex for ifindex, _ in members}) > 1:
            yield replace(subnet, members=members)
        outer.append(subnet)


def subnet_span(family: str, address: str, prefix_length: int) -> tuple[int, int] | None:
    """First and last address of its subnet; None: nobody else can be in it."""
    bits = 8 * len(packed(family, address))
    size = 1 << max(0, bits - prefix_length)
    if prefix_length <= 0 or size < MIN_ADDRESSES:
        return None
    first = int.from_bytes(packed(family, address), "big") & ~(size - 1)
    return first, first + size - 1


def peer_in(subnet: LinkSubnet, links: Iterable[Link]) -> str | None:
    """A gateway in the subnet, else its first address, that no link has itself; None: this host has all of them."""
    known = [link for link in links if link.addresses]
    own = {number(one.family, one.address) for link in known for one in link.addresses if one.family == subnet.family}
    gateways = {route.gateway for link in known for route in link.default_routes if route.gateway is not None}
    written = ":" if subnet.family == "ipv6" else "."
    numbers = sorted(number(subnet.family, one) for one in gateways if written in one)
    inside = (one for one in numbers if subnet.first < one < subnet.last)
    others = range(subnet.first + 1, min(subnet.last, subnet.first + 2 + len(own)))
    free = next((one for one in (*inside, *others) if one not in own), None)
    if free is None:
        return None
    size = 16 if subnet.family == "ipv6" else 4
    return socket.inet_ntop(FAMILIES[subnet.family], free.to_bytes(size, "big"))


def packed(family: str, address: str) -> bytes:
    return socket.inet_pton(FAMILIES[family], address)


def number(family: str, address: str) -> int:
    return int.from_bytes(packed(family, address), "big")


def outgoing_link(netlink: NetlinkSocket, family: str, peer: str, source: str | None) -> int | None:
    """ifindex of the link by which packets to `peer` leave; None: no route."""
    query = route_query(FAMILIES[family], packed(family, peer), packed(family, source) if source else None)
    try:
        replies = netlink.request(RTM_GETROUTE, query)
    except OSError as error:
        if error.errno in NO_ROUTE:
            return None
        raise
    return next((parse_outgoing_link(payload) for _, payload in replies), None)
