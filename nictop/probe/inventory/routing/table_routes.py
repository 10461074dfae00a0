"""Routes of all tables, IPv4 and IPv6: RTM_GETROUTE (linux/rtnetlink.h) → `TableRoute`.

Local, broadcast, multicast and link-local routes are dropped while the dump is read, by their
header; a table with many routes ends the dump.
"""

from __future__ import annotations

import socket
import struct
from typing import Optional

from nictop.probe.inventory.links.messages import Attributes, number
from nictop.probe.inventory.links.routes import (
    FAMILY_NAMES,
    RTA_MULTIPATH,
    RTA_PRIORITY,
    RTA_TABLE,
    RTNEXTHOP,
    internet_address,
    parse_gateway,
)
from nictop.probe.inventory.routing.dumps import bounded_dump
from nictop.probe.inventory.routing.neighbours import USER_HZ
from nictop.probe.kernel.netlink import iter_attributes
from nictop.probe.kernel.route_lookup import RTA_DST, RTA_OIF, RTA_SRC, RTMSG, RTN_UNICAST
from nictop.probe.kernel.rtnetlink import RTM_GETROUTE
from nictop.probe.records import TableRoute, Unreadable

MAX_ROUTES = 1024
"""Messages of each family that are parsed."""
MAX_NEXT_HOPS = 2048
"""Records of each family: a multipath route has one for each next hop."""
ROUTE_TYPES = {RTN_UNICAST: "unicast", 6: "blackhole", 7: "unreachable", 8: "prohibit", 9: "throw"}
"""RTN_* → name in ip-route(8)."""
Hop = tuple[Optional[int], Attributes, int]
"""(ifindex, attributes, RTNH_F_*)"""
TYPE_OFFSET = 7
"""Byte in struct rtmsg."""
RTA_CACHEINFO = 12
CACHEINFO = struct.Struct("=IIi")
"""Begin of struct rta_cacheinfo: references, last use, expires (USER_HZ)."""
RTNH_F_DEAD, RTNH_F_ONLINK, RTNH_F_LINKDOWN = 1, 4, 16
RTM_F_CLONED = 0x200
OLD_DEFAULT_METRIC = 0xFFFFFFFF
"""Of ``unreachable default dev lo``, which the kernel itself has on IPv6 (ip6_null_entry)."""
LINK_LOCAL = b"\xfe\x80"
DESTINATION_OFFSET = RTMSG.size + 4
"""Of the first bytes of RTA_DST, if that is the first attribute."""


def read_table_routes() -> tuple[tuple[TableRoute, ...], Unreadable | None]:
    """(Next hops, IPv4 first; why some may be missing). Never raises OSError."""
    found: list[TableRoute] = []
    trouble: Unreadable | None = None
    for family, what in ((socket.AF_INET, "IPv4 routes"), (socket.AF_INET6, "IPv6 routes")):
        query = RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)
        payloads, why = bounded_dump(RTM_GETROUTE, query, is_kept, MAX_ROUTES, what)
        hops = [hop for payload in payloads for hop in parse_table_routes(payload)]
        if len(hops) > MAX_NEXT_HOPS:
            why = why or Unreadable("failed", f"more than {MAX_NEXT_HOPS} next hops of {what}")
        found += hops[:MAX_NEXT_HOPS]
        trouble = trouble or why
    return tuple(found), trouble


def is_kept(data: bytes, start: int) -> bool:
    """An RTM_NEWROUTE whose payload begins at `start` is a unicast route, or one that refuses
    packets."""
    header = data[start : start + RTMSG.size]
    if len(header) < RTMSG.size or header[TYPE_OFFSET] not in ROUTE_TYPES:
        return False
    return header[0] == socket.AF_INET or not _is_link_local(data, start)


def _is_link_local(data: bytes, start: int) -> bool:
    """RTA_DST is the first attribute (rt6_fill_node, net/ipv6/route.c); `parse_table_routes` checks
    again."""
    begin = start + DESTINATION_OFFSET
    return data[begin : begin + 2] == LINK_LOCAL


def parse_table_routes(payload: bytes) -> list[TableRoute]:
    """The next hops of an RTM_NEWROUTE; [] for other types and for malformed messages."""
    if len(payload) < RTMSG.size:
        return []
    family, length, source_length, tos, table, protocol, _, route_type, flags = RTMSG.unpack_from(
        payload
    )
    if family not in FAMILY_NAMES or route_type not in ROUTE_TYPES:
        return []
    if flags & RTM_F_CLONED or tos:
        return []
    found = dict(iter_attributes(payload[RTMSG.size :]))
    destination = prefix(family, found.get(RTA_DST, b""), length)
    source: str | None = ""
    if source_length:
        source = prefix(family, found.get(RTA_SRC, b""), source_length)
    if destination is None or source is None or destination.startswith("fe80:"):
        return []
    metric = number(found, RTA_PRIORITY) or 0
    if ROUTE_TYPES[route_type] == "unreachable" and metric == OLD_DEFAULT_METRIC:
        return []  # the kernel's own: no default route
    routes = []
    for ifindex, gateway, hop_flags in next_hops(family, route_type, found, flags):
        route = TableRoute(
            family=FAMILY_NAMES[family],
            destination=destination,
            type=ROUTE_TYPES[route_type],
            table=number(found, RTA_TABLE) or table,
            protocol=protocol,
            metric=metric,
            ifindex=ifindex,
            gateway=gateway,
            onlink=bool(hop_flags & RTNH_F_ONLINK),
            usable=not hop_flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN),
            source=source,
            expires=expiry(found.get(RTA_CACHEINFO, b"")),
        )
        routes.append(route)
    return routes


def next_hops(
    family: int, route_type: int, found: Attributes, flags: int
) -> list[tuple[int | None, str | None, int]]:
    """(ifindex, gateway, RTNH_F_*); a route that refuses packets has neither link nor gateway."""
    hops: list[Hop] = [(number(found, RTA_OIF), found, flags)]
    if RTA_MULTIPATH in found:
        hops = parse_flagged_hops(found[RTA_MULTIPATH])
    if route_type != RTN_UNICAST:
        return [(None, None, hop_flags) for _, _, hop_flags in hops]
    return [
        (ifindex or None, parse_gateway(family, attributes), hop_flags)
        for ifindex, attributes, hop_flags in hops
    ]


def prefix(family: int, address: bytes, length: int) -> str | None:
    """``192.0.2.0/24``; an address without bytes is that of the default route. None: malformed."""
    size = 4 if family == socket.AF_INET else 16
    if not address and not length:
        address = bytes(size)
    parsed = internet_address(family, address)
    if parsed is None or length > 8 * size:
        return None
    return f"{parsed[1]}/{length}"


def expiry(value: bytes) -> float | None:
    """Seconds; None: it does not expire."""
    if len(value) < CACHEINFO.size:
        return None
    ticks: int = CACHEINFO.unpack_from(value)[2]
    if ticks <= 0:
        return None
    return ticks / USER_HZ


def parse_flagged_hops(value: bytes) -> list[Hop]:
    """Of each struct rtnexthop in RTA_MULTIPATH."""
    hops: list[Hop] = []
    offset = 0
    while offset + RTNEXTHOP.size <= len(value):
        length, flags, _, ifindex = RTNEXTHOP.unpack_from(value, offset)
        if length < RTNEXTHOP.size or offset + length > len(value):
            break
        attributes = dict(iter_attributes(value[offset + RTNEXTHOP.size : offset + length]))
        hops.append((ifindex, attributes, flags))
        offset += (length + 3) & ~3
    return hops
