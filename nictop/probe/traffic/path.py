"""The way from this host to an address: the kernel's route with a given source, the neighbour on it, and rp_filter.

Reads RTM_GETROUTE (what ``ip route get ADDRESS from SOURCE`` asks), RTM_GETNEIGH (Linux 5.0) and net.ipv4.conf.*;
yields `records.TrafficPath`. Changes nothing: a neighbour is looked up, not resolved.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

from nictop.probe.inventory.links.routes import RTA_OIF, RTMSG, parse_gateway, route_query
from nictop.probe.kernel.netlink import NETLINK_ROUTE, NetlinkSocket, iterate, pack
from nictop.probe.kernel.rtnetlink import RTM_GETNEIGH, RTM_GETROUTE, RTM_NEWNEIGH, RTM_NEWROUTE
from nictop.probe.kernel.sysfs import parse_integer, printable, read_text, why_unreadable
from nictop.probe.records import TrafficPath, Unreadable

PATIENCE = 1.0
"""Seconds for each answer of the kernel."""
NDA_DST, NDA_LLADDR = 1, 2
NDMSG = struct.Struct("=BxxxiHBB")
"""struct ndmsg: family, ifindex, state, flags, type."""
ROUTE_TYPES = {
    1: "unicast", 2: "local", 3: "broadcast", 4: "anycast", 5: "multicast", 6: "blackhole", 7: "unreachable",
    8: "prohibit", 9: "throw",
}  # fmt: skip
"""RTN_*, as ip-route(8) names them."""
REFUSED = {
    errno.ENETUNREACH: "none",
    errno.EHOSTUNREACH: "unreachable",
    errno.EACCES: "prohibit",
    errno.EINVAL: "blackhole",
    errno.EAGAIN: "throw",
}
"""What a lookup of IPv4 fails with (fib_props in net/ipv4/fib_semantics.c) → type of the route that it found."""
NEIGHBOUR_STATES = {
    0x01: "incomplete", 0x02: "reachable", 0x04: "stale", 0x08: "delay", 0x10: "probe", 0x20: "failed", 0x40: "noarp",
    0x80: "permanent",
}  # fmt: skip
"""NUD_*, as ip-neighbour(8) names them."""


def read_path(address: str, source: str, ifindex: int = 0, proc: str = "/proc") -> TrafficPath:
    """`address` and `source`: numeric, `source` with a zone where it has one. `ifindex`: of the NIC that is meant to
    receive, whose rp_filter is read, 0: none. Never raises OSError."""
    unreadable: dict[str, Unreadable] = {}
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    route, out, gateway, state, hardware = "", None, None, "", None
    try:
        zone = _zone(source) or (ifindex if _is_link_local(family, source) else 0)
        with NetlinkSocket(NETLINK_ROUTE, timeout=PATIENCE) as kernel:
            route, out, gateway = _route(kernel, family, address, source, zone)
            if route == "unicast" and out:
                state, hardware = _neighbour(kernel, gateway or address, out, unreadable)
    except OSError as error:
        unreadable["route"] = why_unreadable(error, "RTM_GETROUTE")
    return TrafficPath(
        address=address,
        source=source,
        route=route,
        ifindex=out or None,
        gateway=gateway,
        neighbour=state,
        neighbour_address=hardware,
        rp_filter=_rp_filter(ifindex, proc, unreadable) if family == socket.AF_INET and ifindex else None,
        unreadable=unreadable,
    )


def _route(kernel: NetlinkSocket, family: int, address: str, source: str, zone: int) -> tuple[str, int, str | None]:
    """(type, ifindex or 0, gateway) of the route that a packet to the address takes."""
    try:
        return _look_up(kernel, family, address, source, zone)
    except OSError as error:
        found = REFUSED.get(error.errno or 0)
        if found is None:
            raise
    try:  # a source that is no address of this host is refused in the same way
        is_own = _look_up(kernel, family, source, "", zone)[0] == "local"
    except OSError:
        is_own = False
    return found if is_own else "", 0, None


def _look_up(kernel: NetlinkSocket, family: int, address: str, source: str, zone: int) -> tuple[str, int, str | None]:
    query = route_query(family, _packed(family, address), _packed(family, source) if source else None, zone)
    for kind, payload in kernel.request(RTM_GETROUTE, query):
        if kind == RTM_NEWROUTE and len(payload) >= RTMSG.size:
            attributes = dict(iterate(payload[RTMSG.size :]))
            out = attributes.get(RTA_OIF, b"")
            ifindex = int(struct.unpack("=I", out)[0]) if len(out) == 4 else 0
            return ROUTE_TYPES.get(payload[7], ""), ifindex, parse_gateway(family, attributes)
    return "", 0, None


def _neighbour(
    kernel: NetlinkSocket, address: str, ifindex: int, unreadable: dict[str, Unreadable]
) -> tuple[str, str | None]:
    """(state, MAC address) of the neighbour; ("none", None): nobody has asked for it yet."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    query = NDMSG.pack(family, ifindex, 0, 0, 0) + pack(NDA_DST, _packed(family, address))
    try:
        replies = kernel.request(RTM_GETNEIGH, query)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return "none", None
        unreadable["neighbour"] = why_unreadable(error, "RTM_GETNEIGH")
        return "", None
    for kind, payload in replies:
        if kind == RTM_NEWNEIGH and len(payload) >= NDMSG.size:
            state = NDMSG.unpack_from(payload)[2]
            hardware = dict(iterate(payload[NDMSG.size :])).get(NDA_LLADDR)
            return NEIGHBOUR_STATES.get(state, "none"), hardware.hex(":") if hardware else None
    return "none", None


def _rp_filter(ifindex: int, proc: str, unreadable: dict[str, Unreadable]) -> int | None:
    """What is in force on a NIC: the larger one of its own and that of ``all`` (ip-sysctl.rst)."""
    try:
        name = socket.if_indextoname(ifindex)
    except OSError as error:
        unreadable["rp_filter"] = why_unreadable(error, f"ifindex {ifindex}")
        return None
    values = []
    for one in ("all", name):
        text = read_text(os.path.join(proc, "sys/net/ipv4/conf", one, "rp_filter"))
        number = text if isinstance(text, Unreadable) else parse_integer(text)
        if not isinstance(number, int):
            malformed = Unreadable("malformed", f"rp_filter of {printable(one)}")
            unreadable["rp_filter"] = number if isinstance(number, Unreadable) else malformed
            return None
        values.append(number)
    return max(values)


def _zone(address: str) -> int:
    """ifindex of an IPv6 address's zone; 0: it has none, or no such link is there."""
    name = address.partition("%")[2]
    if name.isdecimal():
        return int(name)
    try:
        return socket.if_nametoindex(name) if name else 0
    except OSError:
        return 0


def _is_link_local(family: int, address: str) -> bool:
    """fe80::/10, of which every link has one."""
    packed = _packed(family, address)
    return family == socket.AF_INET6 and packed[0] == 0xFE and packed[1] & 0xC0 == 0x80


def _packed(family: int, address: str) -> bytes:
    return socket.inet_pton(family, address.partition("%")[0])
