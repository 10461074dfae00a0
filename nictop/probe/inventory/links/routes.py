"""RTM_NEWADDR, RTM_NEWROUTE and RTM_NEWRULE (linux/if_addr.h, linux/rtnetlink.h, linux/fib_rules.h)
→ records. Pure.

Malformed and irrelevant messages give None or nothing, never an exception.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Literal

from nictop.probe.inventory.links.messages import Attributes, number
from nictop.probe.kernel.netlink import iter_attributes, unsigned
from nictop.probe.kernel.route_lookup import RTA_DST, RTA_OIF, RTMSG, RTN_UNICAST
from nictop.probe.kernel.rtnetlink import IFA_ADDRESS, IFA_FLAGS, IFA_LOCAL, IFADDRMSG
from nictop.probe.records import Address, DefaultRoute

IFA_CACHEINFO, IFA_PROTO = 6, 11
IFAPROT_KERNEL_RA = 2
"""Set by the kernel from a router advertisement."""
IFA_CACHEINFO_STRUCT = struct.Struct("=IIII")
"""preferred and valid lifetime in seconds; cstamp, tstamp: set, and changed, in 1/100 s since
boot."""
RTNEXTHOP = struct.Struct("=HBBi")
"""struct rtnexthop: len, flags, hops, ifindex."""

ADDRESS_FLAGS = (
    (0x80, "permanent"),
    (0x40, "tentative"),
    (0x08, "dadfailed"),
    (0x20, "deprecated"),
    (0x04, "optimistic"),
    (0x02, "nodad"),
    (0x10, "homeaddress"),
    (0x100, "mngtmpaddr"),
    (0x200, "noprefixroute"),
    (0x400, "autojoin"),
    (0x800, "stable-privacy"),
)
"""IFA_F_* bit → name in ``ip address``."""
FAMILY_NAMES: Mapping[int, Literal["ipv4", "ipv6"]] = {
    socket.AF_INET: "ipv4",
    socket.AF_INET6: "ipv6",
}
"""AF_* of addresses, routes and rules → name in records."""
ADDRESS_SCOPES = {0: "global", 200: "site", 253: "link", 254: "host", 255: "nowhere"}
"""RT_SCOPE_*"""
RTA_GATEWAY, RTA_PRIORITY, RTA_MULTIPATH, RTA_TABLE, RTA_VIA = 5, 6, 9, 15, 18
RTPROT_KERNEL = 2
FRA_PRIORITY, FRA_SUPPRESS_PREFIXLEN, FRA_TABLE, FRA_PROTOCOL = 6, 14, 15, 21
FR_ACT_TO_TBL = 1
KERNEL_RULES = ((0, 255), (32766, 254), (32767, 253))
"""(priority, table) of the rules for local, main and default that fib_default_rules_init()
creates."""
NON_SELECTING_ATTRIBUTES = {FRA_PRIORITY, FRA_SUPPRESS_PREFIXLEN, FRA_TABLE, FRA_PROTOCOL}
"""Attributes of a rule for all packets; with any other attribute it is for some packets only."""


def parse_address(payload: bytes, now: float = 0.0) -> tuple[int, Address] | None:
    """(ifindex, address) of an RTM_NEWADDR; None for other families and for malformed messages.
    `now`: seconds of CLOCK_MONOTONIC; 0: not known."""
    if len(payload) < IFADDRMSG.size:
        return None
    family, prefix_length, flags, scope, ifindex = IFADDRMSG.unpack_from(payload)
    found = dict(iter_attributes(payload[IFADDRMSG.size :]))
    address = internet_address(family, found.get(IFA_LOCAL) or found.get(IFA_ADDRESS, b""))
    if address is None:
        return None
    version, address_text = address
    flags = number(found, IFA_FLAGS) or flags
    names = [name for bit, name in ADDRESS_FLAGS if flags & bit]
    if flags & 0x01:  # the same bit: IFA_F_TEMPORARY (IPv6) and IFA_F_SECONDARY (IPv4)
        names.append("temporary" if version == "ipv6" else "secondary")
    since = since_announced(found, now)
    scope_name = ADDRESS_SCOPES.get(scope, str(scope))
    created = created_ticks(found) if version == "ipv6" and scope_name == "link" else None
    own = (version, address_text, prefix_length, scope_name, tuple(names))
    return ifindex, Address(*own, since, created)


def created_ticks(found: Attributes) -> int | None:
    """`Address.created`"""
    times = found.get(IFA_CACHEINFO, b"")
    if len(times) < IFA_CACHEINFO_STRUCT.size:
        return None
    created: int = IFA_CACHEINFO_STRUCT.unpack_from(times)[2]
    return created


def since_announced(found: Attributes, now: float) -> float | None:
    """`Address.since_announced`. Each advertisement sets tstamp (addrconf_prefix_rcv_add_addr,
    net/ipv6/addrconf.c)."""
    times = found.get(IFA_CACHEINFO, b"")
    is_announced = found.get(IFA_PROTO, b"")[:1] == bytes((IFAPROT_KERNEL_RA,))
    if not now or not is_announced or len(times) < IFA_CACHEINFO_STRUCT.size:
        return None
    announced: int = IFA_CACHEINFO_STRUCT.unpack_from(times)[3]
    ticks = (int(now * 100) - announced) % 2**32  # the kernel's has 32 bits: 497 days
    if ticks >= 2**31:  # its clock may be some ticks ahead
        return 0.0
    return ticks / 100


def internet_address(family: int, value: bytes) -> tuple[Literal["ipv4", "ipv6"], str] | None:
    """("ipv4" or "ipv6", the address as text); None when the length does not fit the family."""
    if family == socket.AF_INET and len(value) == 4:
        return "ipv4", socket.inet_ntop(socket.AF_INET, value)
    if family == socket.AF_INET6 and len(value) == 16:
        return "ipv6", socket.inet_ntop(socket.AF_INET6, value)
    return None


class RouteFilter:
    """Selects messages of an RTM_GETROUTE dump: default routes, and at most `limit` IPv4 routes
    with a longer prefix than `length`, except those of RTPROT_KERNEL, which the kernel adds for
    addresses."""

    def __init__(self, length: int = 32, limit: int = 0) -> None:
        self._length, self._remaining = length, limit

    def __call__(self, data: bytes, start: int) -> bool:
        """Whether to keep the RTM_NEWROUTE whose payload begins at `start`."""
        header = data[start : start + 6]
        if len(header) < 6 or not self._remaining or header[1] <= self._length:
            return header[1:2] == b"\0"
        if header[0] != socket.AF_INET or header[5] == RTPROT_KERNEL:
            return False
        self._remaining -= 1
        return True


def parse_default_routes(payload: bytes) -> list[tuple[int, DefaultRoute]]:
    """(ifindex, route) for each next hop of an RTM_NEWROUTE of a default route; empty for any other
    route."""
    if len(payload) < RTMSG.size or payload[1] != 0 or payload[7] != RTN_UNICAST:
        return []
    family = payload[0]
    if family not in FAMILY_NAMES:
        return []
    found = dict(iter_attributes(payload[RTMSG.size :]))
    table, metric = number(found, RTA_TABLE) or payload[4], number(found, RTA_PRIORITY) or 0
    hops = [(number(found, RTA_OIF), found), *parse_next_hops(found.get(RTA_MULTIPATH, b""))]
    routes = []
    for ifindex, attributes in hops:
        if ifindex:
            gateway = parse_gateway(family, attributes)
            routes.append((ifindex, DefaultRoute(FAMILY_NAMES[family], gateway, metric, table)))
    return routes


def parse_destination(payload: bytes) -> tuple[int, int, tuple[int, ...]] | None:
    """(first address as an integer, prefix length, ifindexes of its next hops) of an RTM_NEWROUTE;
    None: malformed, or not an IPv4 unicast route."""
    if len(payload) < RTMSG.size or payload[0] != socket.AF_INET or payload[7] != RTN_UNICAST:
        return None
    found = dict(iter_attributes(payload[RTMSG.size :]))
    destination, length = found.get(RTA_DST, b""), payload[1]
    if len(destination) != 4 or length > 32:
        return None
    ifindexes = [number(found, RTA_OIF)]
    ifindexes += [ifindex for ifindex, _ in parse_next_hops(found.get(RTA_MULTIPATH, b""))]
    return int.from_bytes(destination, "big"), length, tuple(filter(None, ifindexes))


def parse_gateway(family: int, attributes: Attributes) -> str | None:
    """RTA_GATEWAY, or RTA_VIA (a gateway of the other address family)."""
    gateway = internet_address(family, attributes.get(RTA_GATEWAY, b""))
    via = attributes.get(RTA_VIA, b"")
    if gateway is None and len(via) > 2:
        gateway = internet_address(unsigned(via[:2]), via[2:])
    if gateway is None:
        return None
    return gateway[1]


def parse_next_hops(value: bytes) -> list[tuple[int | None, Attributes]]:
    """(ifindex, attributes) of each struct rtnexthop in RTA_MULTIPATH."""
    hops: list[tuple[int | None, Attributes]] = []
    offset = 0
    while offset + RTNEXTHOP.size <= len(value):
        length, _, _, ifindex = RTNEXTHOP.unpack_from(value, offset)
        if length < RTNEXTHOP.size or offset + length > len(value):
            break
        hops.append(
            (ifindex, dict(iter_attributes(value[offset + RTNEXTHOP.size : offset + length])))
        )
        offset += (length + 3) & ~3
    return hops


def parse_outgoing_link(payload: bytes) -> int | None:
    """ifindex of the outgoing link of an RTM_NEWROUTE; None: no unicast route (unreachable,
    prohibit, local)."""
    if len(payload) < RTMSG.size or payload[7] != RTN_UNICAST:
        return None
    return number(dict(iter_attributes(payload[RTMSG.size :])), RTA_OIF) or None


def is_policy_rule(payload: bytes) -> bool:
    """Whether an RTM_NEWRULE was added by an administrator or a program, not by the kernel; False:
    malformed."""
    if len(payload) < RTMSG.size:
        return False
    _, destination, source, service, table, _, _, action, flags = RTMSG.unpack_from(payload)
    found = dict(iter_attributes(payload[RTMSG.size :]))
    if destination or source or service or flags:
        return True
    if action != FR_ACT_TO_TBL or not NON_SELECTING_ATTRIBUTES.issuperset(found):
        return True
    if number(found, FRA_SUPPRESS_PREFIXLEN) not in (None, 0xFFFFFFFF):
        return True
    rule = (number(found, FRA_PRIORITY) or 0, number(found, FRA_TABLE) or table)
    return rule not in KERNEL_RULES
