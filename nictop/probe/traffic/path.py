"""The path from this host to an address: the route from a given source, the neighbour on it, and
rp_filter.

Reads RTM_GETROUTE (as ``ip route get ADDRESS from SOURCE``), RTM_GETNEIGH (since Linux 5.0) and
net.ipv4.conf.*; yields `records.TrafficPath`. Changes nothing: a neighbour is looked up, not
resolved.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

from nictop.probe.inventory.links.forwarding import NDA_LLADDR, NDMSG, NUD_PERMANENT
from nictop.probe.inventory.links.routes import parse_gateway
from nictop.probe.inventory.routing.table_routes import (
    CACHEINFO,
    RTA_CACHEINFO,
    RTM_F_CLONED,
    route_options,
)
from nictop.probe.kernel.backports import colon_hex
from nictop.probe.kernel.netlink import (
    NETLINK_ROUTE,
    NetlinkSocket,
    iter_attributes,
    pack_attribute,
)
from nictop.probe.kernel.route_lookup import RTA_OIF, RTMSG, RTN_UNICAST, route_request
from nictop.probe.kernel.rtnetlink import RTM_GETNEIGH, RTM_GETROUTE, RTM_NEWNEIGH, RTM_NEWROUTE
from nictop.probe.kernel.sysfs import (
    parse_integer,
    printable_path,
    read_text,
    unreadable_from_error,
)
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import TrafficPath, Unreadable

ROUTE_TIMEOUT = 1.0
"""Seconds for each reply of the kernel."""
NDA_DST = 1
RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST, RTN_MULTICAST, RTN_BLACKHOLE = 2, 3, 4, 5, 6
RTN_UNREACHABLE, RTN_PROHIBIT, RTN_THROW = 7, 8, 9
ROUTE_TYPES = {
    RTN_UNICAST: "unicast", RTN_LOCAL: "local", RTN_BROADCAST: "broadcast", RTN_ANYCAST: "anycast",
    RTN_MULTICAST: "multicast", RTN_BLACKHOLE: "blackhole", RTN_UNREACHABLE: "unreachable",
    RTN_PROHIBIT: "prohibit", RTN_THROW: "throw",
}  # fmt: skip
"""Route type → its name in ip-route(8)."""
LOOKUP_ERROR_TYPES = {
    errno.ENETUNREACH: "none",
    errno.EHOSTUNREACH: "unreachable",
    errno.EACCES: "prohibit",
    errno.EINVAL: "blackhole",
    errno.EAGAIN: "throw",
}
"""Error of an IPv4 route lookup (fib_props in net/ipv4/fib_semantics.c) → type of the route that
was found."""
NUD_INCOMPLETE, NUD_REACHABLE, NUD_STALE, NUD_DELAY = 0x01, 0x02, 0x04, 0x08
NUD_PROBE, NUD_FAILED, NUD_NOARP = 0x10, 0x20, 0x40
NEIGHBOUR_STATES = {
    NUD_INCOMPLETE: "incomplete", NUD_REACHABLE: "reachable", NUD_STALE: "stale",
    NUD_DELAY: "delay", NUD_PROBE: "probe", NUD_FAILED: "failed", NUD_NOARP: "noarp",
    NUD_PERMANENT: "permanent",
}  # fmt: skip
"""Neighbour state → its name in ip-neighbour(8)."""


class FoundRoute(NamedTuple):
    """Fields as in `records.TrafficPath`."""

    type: str = ""
    ifindex: int = 0
    gateway: str | None = None
    options: tuple[str, ...] = ()


NO_ROUTE = FoundRoute()


def read_path(address: str, source: str, ifindex: int = 0, proc: str = "/proc") -> TrafficPath:
    """`address` and `source`: numeric, `source` with a zone if it has one. `ifindex`: NIC that
    should receive, for rp_filter; 0: none. Never raises OSError."""
    unreadable: dict[str, Unreadable] = {}
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found, state, mac = NO_ROUTE, "", None
    try:
        zone = _zone(source) or (ifindex if _is_link_local(family, source) else 0)
        with NetlinkSocket(NETLINK_ROUTE, timeout=ROUTE_TIMEOUT) as kernel:
            found = _read_route(kernel, family, address, source, zone)
            if found.type == "unicast" and found.ifindex:
                next_hop = found.gateway or address
                state, mac = _read_neighbour(kernel, next_hop, found.ifindex, unreadable)
    except OSError as error:
        unreadable["route"] = unreadable_from_error(error, "RTM_GETROUTE")
    rule, entry = _refusal(family, address, source, found.type)
    rp_filter = None
    if family == socket.AF_INET and ifindex:
        rp_filter = _read_rp_filter(ifindex, proc, unreadable)
    return TrafficPath(
        address=address,
        source=source,
        route=found.type,
        ifindex=found.ifindex or None,
        gateway=found.gateway,
        rule=rule,
        entry=entry,
        neighbour=state,
        neighbour_address=mac,
        rp_filter=rp_filter,
        unreadable=unreadable,
        options=found.options,
    )


def _refusal(family: int, address: str, source: str, route: str) -> tuple[str, str]:
    """The rule and the entry behind a route that refuses packets; "" if there is none, or if they
    are not found."""
    if route not in ("none", "unreachable", "prohibit", "blackhole"):
        return "", ""
    from nictop.probe.traffic.refused_routes import read_refusal

    try:
        return read_refusal(family, address, source, route)
    except OSError:
        return "", ""


def _read_route(
    kernel: NetlinkSocket, family: int, target: str, source: str, zone: int
) -> FoundRoute:
    """Of the target. Raises OSError."""
    try:
        return _query(kernel, family, target, source, zone)
    except OSError as error:
        route_type = LOOKUP_ERROR_TYPES.get(error.errno or 0)
        if route_type is None:
            raise
    try:  # a source that is not an address of this host causes the same errors
        is_own = _query(kernel, family, source, "", zone).type == "local"
    except OSError:
        is_own = False
    return FoundRoute(route_type) if is_own else NO_ROUTE


def _query(kernel: NetlinkSocket, family: int, address: str, source: str, zone: int) -> FoundRoute:
    query = route_request(
        family, _packed(family, address), _packed(family, source) if source else None, zone
    )
    for message_type, payload in kernel.request(RTM_GETROUTE, query):
        if message_type == RTM_NEWROUTE:
            return parse_found_route(family, payload)
    return NO_ROUTE


def parse_found_route(family: int, payload: bytes) -> FoundRoute:
    """Of an RTM_NEWROUTE that answers a look-up; `NO_ROUTE`: malformed."""
    if len(payload) < RTMSG.size:
        return NO_ROUTE
    _, _, _, _, _, _, _, route_type, flags = RTMSG.unpack_from(payload)
    attributes = dict(iter_attributes(payload[RTMSG.size :]))
    oif = attributes.get(RTA_OIF, b"")
    ifindex = int(struct.unpack("=I", oif)[0]) if len(oif) == 4 else 0
    options, _ = route_options(family, attributes)
    if _is_learned(family, attributes, flags):
        options = _without_mtu(options)
    gateway = parse_gateway(family, attributes)
    return FoundRoute(ROUTE_TYPES.get(route_type, ""), ifindex, gateway, options)


def _is_learned(family: int, attributes: dict[int, bytes], flags: int) -> bool:
    """The MTU is that of an exception of the route (net/ipv4/route.c: rt_fill_info, rt_pmtu with
    its expiry; net/ipv6/route.c: rt6_fill_node, RTF_CACHE)."""
    if family == socket.AF_INET6:
        return bool(flags & RTM_F_CLONED)
    cached = attributes.get(RTA_CACHEINFO, b"")
    return len(cached) >= CACHEINFO.size and CACHEINFO.unpack_from(cached)[2] != 0


def _without_mtu(options: tuple[str, ...]) -> tuple[str, ...]:
    if "mtu" not in options:
        return options
    at = options.index("mtu")
    end = at + (3 if options[at + 1] == "lock" else 2)
    return options[:at] + options[end:]


def _read_neighbour(
    kernel: NetlinkSocket, address: str, ifindex: int, unreadable: dict[str, Unreadable]
) -> tuple[str, str | None]:
    """(state, MAC address) of the neighbour; ("none", None): no entry."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    query = NDMSG.pack(family, ifindex, 0, 0, 0) + pack_attribute(NDA_DST, _packed(family, address))
    try:
        replies = kernel.request(RTM_GETNEIGH, query)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return "none", None
        unreadable["neighbour"] = unreadable_from_error(error, "RTM_GETNEIGH")
        return "", None
    for message_type, payload in replies:
        if message_type == RTM_NEWNEIGH and len(payload) >= NDMSG.size:
            state = NDMSG.unpack_from(payload)[2]
            mac = dict(iter_attributes(payload[NDMSG.size :])).get(NDA_LLADDR)
            return NEIGHBOUR_STATES.get(state, "none"), colon_hex(mac) if mac else None
    return "none", None


def _read_rp_filter(ifindex: int, proc: str, unreadable: dict[str, Unreadable]) -> int | None:
    """The effective value: the larger one of the NIC's and that of ``all`` (ip-sysctl.rst)."""
    try:
        name = socket.if_indextoname(ifindex)
    except OSError as error:
        unreadable["rp_filter"] = unreadable_from_error(error, f"ifindex {ifindex}")
        return None
    values = []
    for scope in ("all", name):
        text = read_text(os.path.join(proc, "sys/net/ipv4/conf", scope, "rp_filter"))
        value = text if isinstance(text, Unreadable) else parse_integer(text)
        if not isinstance(value, int):
            malformed = Unreadable("malformed", f"rp_filter of {printable_path(scope)}")
            unreadable["rp_filter"] = value if isinstance(value, Unreadable) else malformed
            return None
        values.append(value)
    return max(values)


def _zone(address: str) -> int:
    """ifindex of an IPv6 address's zone; 0: no zone, or no such link."""
    name = address.partition("%")[2]
    if name.isdecimal():
        return int(name)
    try:
        return socket.if_nametoindex(name) if name else 0
    except OSError:
        return 0


def _is_link_local(family: int, address: str) -> bool:
    """Whether it is in fe80::/10."""
    packed = _packed(family, address)
    return family == socket.AF_INET6 and packed[0] == 0xFE and packed[1] & 0xC0 == 0x80


def _packed(family: int, address: str) -> bytes:
    return socket.inet_pton(family, address.partition("%")[0])
