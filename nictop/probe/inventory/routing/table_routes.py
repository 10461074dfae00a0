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
    RTA_GATEWAY,
    RTA_MULTIPATH,
    RTA_PRIORITY,
    RTA_TABLE,
    RTA_VIA,
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
RTA_IIF, RTA_PREFSRC, RTA_METRICS, RTA_FLOW, RTA_CACHEINFO = 3, 7, 8, 11, 12
RTA_PREF, RTA_ENCAP_TYPE, RTA_ENCAP, RTA_EXPIRES, RTA_PAD = 20, 21, 22, 23, 24
RTA_TTL_PROPAGATE, RTA_NH_ID = 26, 30
KNOWN = frozenset(
    (
        *(RTA_DST, RTA_SRC, RTA_IIF, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_PREFSRC, RTA_METRICS),
        *(RTA_MULTIPATH, RTA_CACHEINFO, RTA_TABLE, RTA_VIA, RTA_PREF, RTA_EXPIRES, RTA_PAD),
        RTA_ENCAP_TYPE,  # RTA_ENCAP says it
    )
)
"""Attributes that a record has, or that are no part of the route."""
UNREAD_NAMES = {
    RTA_FLOW: "realms",
    RTA_ENCAP: "encap",
    RTA_TTL_PROPAGATE: "ttl-propagate",
    RTA_NH_ID: "nhid",
}
RTAX_LOCK = 1
METRIC_WORDS = {
    2: "mtu", 3: "window", 6: "ssthresh", 7: "cwnd", 8: "advmss", 9: "reordering", 10: "hoplimit",
    11: "initcwnd", 14: "initrwnd", 15: "quickack", 17: "fastopen_no_cookie",
}  # fmt: skip
"""RTAX_* of a plain number → word of ip-route(8)."""
UNREAD_METRICS = {4: "rtt", 5: "rttvar", 12: "features", 13: "rto_min", 16: "congctl"}
PREFERENCES = {b"\1": "high", b"\3": "low"}
"""ICMPV6_ROUTER_PREF_*; 0 is medium, which is usual."""
RT_SCOPE_UNIVERSE, RT_SCOPE_LINK = 0, 253
SCOPES = {RT_SCOPE_UNIVERSE: "global", 200: "site", RT_SCOPE_LINK: "link", 254: "host"}
"""RT_SCOPE_* → word of ip-route(8)."""
CACHEINFO = struct.Struct("=IIi")
"""Begin of struct rta_cacheinfo: references, last use, expires (USER_HZ)."""
RTNH_F_DEAD, RTNH_F_ONLINK, RTNH_F_LINKDOWN = 1, 4, 16
RTM_F_CLONED = 0x200
OLD_DEFAULT_METRIC = 0xFFFFFFFF
"""Of ``unreachable default dev lo``, which the kernel itself has on IPv6 (ip6_null_entry)."""
RTA_TABLE_BYTES = struct.pack("=H", RTA_TABLE)
TABLE_BYTES = 8
"""Of RTA_TABLE with its header."""
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
    """RTA_DST is the first attribute, or follows RTA_TABLE (rt6_fill_node, net/ipv6/route.c);
    `parse_table_routes` checks again."""
    begin = start + DESTINATION_OFFSET
    if data[begin - 2 : begin] == RTA_TABLE_BYTES:
        begin += TABLE_BYTES
    return data[begin : begin + 2] == LINK_LOCAL


def parse_table_routes(payload: bytes) -> list[TableRoute]:
    """The next hops of an RTM_NEWROUTE; [] for other types and for malformed messages."""
    if len(payload) < RTMSG.size:
        return []
    family, length, source_length, tos, table, protocol, scope, route_type, flags = (
        RTMSG.unpack_from(payload)
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
    preferred = internet_address(family, found.get(RTA_PREFSRC, b""))
    options, unread = route_options(family, found)
    has_next_hop = any(kind in found for kind in (RTA_GATEWAY, RTA_VIA, RTA_MULTIPATH, RTA_NH_ID))
    if family == socket.AF_INET and scope != usual_scope(route_type, has_next_hop=has_next_hop):
        options = ("scope", SCOPES.get(scope, str(scope)), *options)
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
            preferred_source=preferred[1] if preferred is not None else "",
            options=options,
            unread=unread,
        )
        routes.append(route)
    return routes


def usual_scope(route_type: int, *, has_next_hop: bool) -> int:
    """What ip-route(8) sets without the word "scope" for an IPv4 route (iproute2 ip/iproute.c
    iproute_modify)."""
    is_on_link = route_type == RTN_UNICAST and not has_next_hop
    return RT_SCOPE_LINK if is_on_link else RT_SCOPE_UNIVERSE


def route_options(family: int, found: Attributes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`TableRoute.options`, without the scope, and `TableRoute.unread`."""
    words: list[str] = []
    unread = [UNREAD_NAMES.get(kind, f"attribute {kind}") for kind in found if kind not in KNOWN]
    metrics = dict(iter_attributes(found.get(RTA_METRICS, b"")))
    locked = number(metrics, RTAX_LOCK) or 0
    for kind in sorted(metrics):
        if kind in METRIC_WORDS:
            lock = ("lock",) if locked & 1 << kind else ()
            words += [METRIC_WORDS[kind], *lock, str(number(metrics, kind) or 0)]
        elif kind != RTAX_LOCK:
            unread.append(UNREAD_METRICS.get(kind, f"metric {kind}"))
    preference = found.get(RTA_PREF, b"\0")[:1]
    if family == socket.AF_INET6 and preference in PREFERENCES:
        words += ["pref", PREFERENCES[preference]]
    return tuple(words), tuple(unread)


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
