"""The outgoing link of packets to the subnet of a link, as in ``ip route get PEER from ADDRESS``.

Sends one RTM_GETROUTE per address of links that share a subnet, or of which a part has a more
specific route by another link, and one more per subnet without a source address. On other hosts,
which are most, no request is sent. Returns the links with `Link.subnet_routes`.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Iterator

from nictop.probe.inventory.links.routes import parse_outgoing_link
from nictop.probe.kernel.netlink import NETLINK_ROUTE, NetlinkSocket
from nictop.probe.kernel.route_lookup import route_request
from nictop.probe.kernel.rtnetlink import IFF_UP, RTM_GETROUTE
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.probe.records import Link, SubnetRoute, Unreadable

FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}
MAX_LOOKUPS = 256
"""Per inventory; for further addresses the reason is in `Link.unreadable`."""
MIN_SUBNET_ADDRESSES = 4
"""Smaller subnets (/31, /32) are ignored: there is no third host in them."""
NO_ROUTE_ERRNOS = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES)
"""Replies without a route, and for routes of the types unreachable and prohibit."""


@dataclass(frozen=True)
class NarrowRoute:
    """An IPv4 route that may be more specific than the subnet of a link."""

    first: int
    """First address, as an integer."""
    prefix_length: int
    ifindexes: tuple[int, ...]
    """Outgoing links."""

    @property
    def last(self) -> int:
        return self.first | (1 << 32 - self.prefix_length) - 1


@dataclass(frozen=True)
class LinkSubnet:
    """A subnet and the addresses of links in it; `first` and `last` as integers."""

    family: str
    first: int
    last: int
    members: list[tuple[int, str]] = field(default_factory=list)
    """(ifindex, address)"""


@dataclass(frozen=True)
class Lookup:
    """Route requests for one peer, from each of some addresses."""

    family: str
    peer: str
    members: list[tuple[int, str]]
    """(ifindex, address)"""
    narrower: str = ""
    """The more specific route, ``198.51.100.64/26``."""

    @property
    def ifindexes(self) -> list[int]:
        return [ifindex for ifindex, _ in self.members]


def with_subnet_routes(
    links: tuple[Link, ...], narrow: Iterable[NarrowRoute] = ()
) -> tuple[Link, ...]:
    """The links; those that share a subnet, or of which a route in `narrow` is for a part, have the
    routes to a peer there. Never raises OSError."""
    wanted = [*shared_lookups(links), *narrower_lookups(links, narrow)]
    if not wanted:
        return links
    found: dict[int, list[SubnetRoute]] = {}
    failed: dict[int, Unreadable] = {}
    lookups = 0
    try:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            for lookup in wanted:
                lookups += 1 + len(lookup.members)
                if lookups > MAX_LOOKUPS:
                    why = f"more than {MAX_LOOKUPS} addresses to look up routes from"
                    failed.update(dict.fromkeys(lookup.ifindexes, Unreadable("failed", why)))
                    continue
                for ifindex, route in looked_up(netlink, lookup):
                    found.setdefault(ifindex, []).append(route)
    except OSError as error:
        trouble = unreadable_from_error(error, "routes to subnets of links")
        failed = {}
        for lookup in wanted:
            failed.update(dict.fromkeys(lookup.ifindexes, trouble))
    return tuple(
        with_routes(link, found.get(link.ifindex), failed.get(link.ifindex)) for link in links
    )


def looked_up(netlink: NetlinkSocket, lookup: Lookup) -> Iterator[tuple[int, SubnetRoute]]:
    """(ifindex, its route to the peer); of a narrower route only where another link is used. Raises
    OSError."""
    unbound = outgoing_link(netlink, lookup.family, lookup.peer, None)
    for ifindex, address in lookup.members:
        bound = outgoing_link(netlink, lookup.family, lookup.peer, address)
        if not lookup.narrower or bound != ifindex:
            yield ifindex, SubnetRoute(address, lookup.peer, bound, unbound, lookup.narrower)


def with_routes(link: Link, routes: list[SubnetRoute] | None, why: Unreadable | None) -> Link:
    """`why`: some could not be read."""
    if routes:
        link = replace(link, subnet_routes=tuple(routes))
    if why is not None:
        link = replace(link, unreadable={**link.unreadable, "subnet_routes": why})
    return link


def shared_lookups(links: tuple[Link, ...]) -> Iterator[Lookup]:
    """One for each subnet in which several links have addresses."""
    for subnet in shared_subnets(links):
        peer = peer_in(subnet, links)
        if peer is not None:
            yield Lookup(subnet.family, peer, subnet.members)


def narrower_lookups(links: Iterable[Link], narrow: Iterable[NarrowRoute]) -> Iterator[Lookup]:
    """For each route that is more specific than the subnet of a link and has another outgoing link:
    its first address that is not an address of this host."""
    links = tuple(links)
    own = own_addresses(links, "ipv4")
    members_of_subnets = [member for member in subnet_members(links) if member[0] == "ipv4"]
    for route in narrow:
        members = [
            (ifindex, address)
            for _, first, last, ifindex, address in members_of_subnets
            if first <= route.first and route.last <= last and ifindex not in route.ifindexes
        ]
        peers = range(
            route.first + (route.last - route.first >= MIN_SUBNET_ADDRESSES - 1), route.last + 1
        )
        peer = next((one for one in peers if one not in own), None)
        if members and peer is not None:
            network, host = (
                socket.inet_ntoa(one.to_bytes(4, "big")) for one in (route.first, peer)
            )
            yield Lookup("ipv4", host, members, f"{network}/{route.prefix_length}")


def subnet_members(links: Iterable[Link]) -> Iterator[tuple[str, int, int, int, str]]:
    """(family, first and last address of the subnet, ifindex, address) of each global address of a
    link that is up, has a carrier and no master."""
    for link in links:
        if link.flags & IFF_UP and link.carrier and link.master is None:
            for address in link.addresses:
                span = subnet_span(address.family, address.address, address.prefix_length)
                if address.scope == "global" and span is not None:
                    yield (address.family, *span, link.ifindex, address.address)


def shared_subnets(links: Iterable[Link]) -> list[LinkSubnet]:
    """Subnets in which two links have addresses. A subnet inside another one also has the members
    of the outer one: two subnets are either disjoint or one contains the other."""
    subnets: dict[tuple[str, int, int], LinkSubnet] = {}
    for family, first, last, ifindex, address in subnet_members(links):
        subnet = subnets.setdefault((family, first, last), LinkSubnet(family, first, last))
        subnet.members.append((ifindex, address))
    return list(
        _shared(sorted(subnets.values(), key=lambda one: (one.family, one.first, -one.last)))
    )


def _shared(subnets: Iterable[LinkSubnet]) -> Iterator[LinkSubnet]:
    """`subnets` in an order in which each one follows those that contain it."""
    outer: list[LinkSubnet] = []
    for subnet in subnets:
        while outer and (outer[-1].family != subnet.family or outer[-1].last < subnet.first):
            outer.pop()
        members = [member for one in (*outer, subnet) for member in one.members]
        if len({ifindex for ifindex, _ in members}) > 1:
            yield replace(subnet, members=members)
        outer.append(subnet)


def subnet_span(family: str, address: str, prefix_length: int) -> tuple[int, int] | None:
    """First and last address of a subnet as integers; None for subnets that are ignored."""
    bits = 8 * len(packed(family, address))
    size = 1 << max(0, bits - prefix_length)
    if prefix_length <= 0 or size < MIN_SUBNET_ADDRESSES:
        return None
    first = int.from_bytes(packed(family, address), "big") & ~(size - 1)
    return first, first + size - 1


def peer_in(subnet: LinkSubnet, links: Iterable[Link]) -> str | None:
    """A gateway in the subnet, else its first address, that is not an address of this host; None:
    there is none."""
    links = tuple(links)
    own = own_addresses(links, subnet.family)
    gateways = set()
    for link in links:
        for route in link.default_routes:
            if link.addresses and route.gateway is not None:
                gateways.add(route.gateway)
    separator = ":" if subnet.family == "ipv6" else "."
    numbers = sorted(number(subnet.family, one) for one in gateways if separator in one)
    inside = (one for one in numbers if subnet.first < one < subnet.last)
    others = range(subnet.first + 1, min(subnet.last, subnet.first + 2 + len(own)))
    free = next((one for one in (*inside, *others) if one not in own), None)
    if free is None:
        return None
    size = 16 if subnet.family == "ipv6" else 4
    return socket.inet_ntop(FAMILIES[subnet.family], free.to_bytes(size, "big"))


def own_addresses(links: Iterable[Link], family: str) -> set[int]:
    """The addresses of this host, as integers."""
    return {
        number(family, one.address)
        for link in links
        for one in link.addresses
        if one.family == family
    }


def packed(family: str, address: str) -> bytes:
    return socket.inet_pton(FAMILIES[family], address)


def number(family: str, address: str) -> int:
    return int.from_bytes(packed(family, address), "big")


def outgoing_link(netlink: NetlinkSocket, family: str, peer: str, source: str | None) -> int | None:
    """ifindex of the outgoing link for packets to `peer`; None: no route."""
    query = route_request(
        FAMILIES[family], packed(family, peer), packed(family, source) if source else None
    )
    try:
        replies = netlink.request(RTM_GETROUTE, query)
    except OSError as error:
        if error.errno in NO_ROUTE_ERRNOS:
            return None
        raise
    return next((parse_outgoing_link(payload) for _, payload in replies), None)
