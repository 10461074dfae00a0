"""Addresses, routes, permanent neighbours and MTU of a link: saved before a change, and restored
where no network manager does it.

Reads and writes by rtnetlink in this process: a restore needs no file, no program and no new
process, so that it works with a full disk and without free process ids. Yields `LinkAddresses`.
Used for links that NetworkManager does not configure itself (external), and when NetworkManager has
stopped and does not come back.
"""

from __future__ import annotations

import errno
import socket
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Any

from nictop.probe.inventory.links.messages import Attributes
from nictop.probe.inventory.links.routes import (
    IFA_CACHEINFO,
    IFA_PROTO,
    RTA_GATEWAY,
    RTA_MULTIPATH,
    RTNEXTHOP,
    internet_address,
    parse_next_hops,
)
from nictop.probe.kernel.if_link import IFLA_MTU
from nictop.probe.kernel.netlink import (
    NETLINK_ROUTE,
    NetlinkError,
    NetlinkSocket,
    iter_attributes,
    pack_attribute,
    pack_u32,
    unsigned,
)
from nictop.probe.kernel.route_lookup import RTA_OIF, RTMSG, RTN_UNICAST
from nictop.probe.kernel.route_protocols import (
    RTPROT_BOOT,
    RTPROT_DHCP,
    RTPROT_KERNEL,
    RTPROT_STATIC,
    route_owner,
)
from nictop.probe.kernel.rtnetlink import (
    IFA_ADDRESS,
    IFA_FLAGS,
    IFA_LOCAL,
    IFADDRMSG,
    IFF_UP,
    IFINFOMSG,
    RTM_DELADDR,
    RTM_DELROUTE,
    RTM_GETADDR,
    RTM_GETNEIGH,
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    RTM_NEWROUTE,
)
from nictop.probe.kernel.sysfs import read_text
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.plan.current_state import read_link
from nictop.probe.plan.undo import FIRST_DAEMON_PROTOCOL

DISABLE_IPV6 = "/proc/sys/net/ipv6/conf/{}/disable_ipv6"
NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
IFA_F_SECONDARY, IFA_F_DADFAILED, IFA_F_TENTATIVE, IFA_F_PERMANENT = 0x01, 0x08, 0x40, 0x80
RT_SCOPE_LINK = 253
RTNH_F_ONLINK = 4
RTA_CACHEINFO, RTA_NH_ID = 12, 30
RTA_CACHEINFO_STRUCT = struct.Struct("=IIiIIIII")
"""struct rta_cacheinfo: clntref, lastuse, expires, error, used, id, ts, tsage."""
PROTOCOL_OFFSET = 5
"""In struct rtmsg."""
RESTORED_AUTOMATIC_ROUTES = (RTPROT_KERNEL, RTPROT_DHCP)
NEXT_HOP_ATTRIBUTES = (RTA_OIF, RTA_GATEWAY, RTA_MULTIPATH, 18, 21, 22)
"""Of a route: also RTA_VIA, RTA_ENCAP_TYPE and RTA_ENCAP."""
NDMSG = struct.Struct("=BxxxiHBB")
"""struct ndmsg: family, ifindex, state, flags, type."""
NUD_PERMANENT = 0x80
NDA_DST, NDA_LLADDR = 1, 2
MAX_RESTORE_ROUNDS = 3
"""With a primary address the kernel removes the secondary ones of its subnet, and routes with its
addresses."""
EXISTS = (errno.EEXIST,)
GONE = (errno.ESRCH, errno.ENOENT, errno.EADDRNOTAVAIL)


@dataclass(frozen=True)
class LinkAddresses:
    """One link. Messages are the payloads of rtnetlink messages in base64, as the kernel accepts
    them again, without what differs at every reading: flags that it computes, and times."""

    name: str
    mtu: int
    addresses: tuple[str, ...]
    """``192.0.2.1/24``, without IPv6 link-local addresses (made by the kernel) and without dynamic
    ones."""
    address_messages: tuple[str, ...]
    """RTM_NEWADDR of these and of the dynamic ones, with labels, scopes, metrics and lifetimes, in
    the order of the kernel."""
    routes: tuple[str, ...]
    """RTM_NEWROUTE of the routes in all tables that use the link, also as one of several next hops,
    without those that have a `route_owner`: they come back without us, and must not become static
    routes."""
    automatic_routes: tuple[str, ...]
    """Those of the kernel and of DHCP, which go with an address. Added again as they were if they
    do not come back; neither compared nor removed nor replaced."""
    neighbours: tuple[str, ...]
    """RTM_NEWNEIGH of the permanent ones."""
    disable_ipv6: str
    """net.ipv6.conf.NAME.disable_ipv6, which NetworkManager sets; while it is 1, IPv6 addresses
    cannot be restored."""
    is_up: bool

    @staticmethod
    def from_json(plain: dict[str, Any]) -> LinkAddresses:
        """From decoded JSON. Raises TypeError and KeyError for any other structure."""
        names = ("addresses", "address_messages", "routes", "automatic_routes", "neighbours")
        return LinkAddresses(**{**plain, **{name: tuple(plain[name]) for name in names}})


def read_link_addresses(name: str) -> LinkAddresses | None:
    """None: no such link. Raises OSError, and ValueError when the kernel's answer is not
    understood."""
    try:
        ifindex = socket.if_nametoindex(name)
    except OSError:
        return None
    link = read_link(name)
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        addresses = list(read_addresses(netlink, ifindex))
        routes = list(read_routes(netlink, ifindex))
        neighbours = sorted(map(encoded, read_neighbours(netlink, ifindex)))
    disabled = read_text(DISABLE_IPV6.format(name))
    return LinkAddresses(
        name,
        link.mtu,
        tuple(sorted(address_text(one) for one in addresses if is_lasting(one))),
        tuple(map(encoded, addresses)),
        tuple(sorted(encoded(one) for one in routes if not route_owner(one[PROTOCOL_OFFSET]))),
        tuple(sorted(encoded(one) for one in routes if route_owner(one[PROTOCOL_OFFSET]))),
        tuple(neighbours),
        disabled if isinstance(disabled, str) else "",
        bool(link.flags & IFF_UP),
    )


def encoded(message: bytes) -> str:
    return b64encode(message).decode()


def read_addresses(netlink: NetlinkSocket, ifindex: int) -> Iterator[bytes]:
    """RTM_NEWADDR payloads of the addresses to restore."""
    for _, payload in netlink.dump(RTM_GETADDR, IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, ifindex)):
        message = restorable_address(payload, ifindex)
        if message is not None:
            yield message


def restorable_address(payload: bytes, ifindex: int) -> bytes | None:
    """An RTM_NEWADDR without flags that the kernel computes; None for one of another link, a
    link-local or a temporary one (RFC 8981), and malformed ones."""
    if len(payload) < IFADDRMSG.size:
        return None
    family, length, flags, scope, index = IFADDRMSG.unpack_from(payload)
    found = dict(iter_attributes(payload[IFADDRMSG.size :]))
    flags = unsigned(found.get(IFA_FLAGS, bytes((flags,))))
    address = internet_address(family, found.get(IFA_LOCAL) or found.get(IFA_ADDRESS, b""))
    is_temporary = family == socket.AF_INET6 and flags & IFA_F_SECONDARY  # the same bit
    if index != ifindex or address is None or scope == RT_SCOPE_LINK or is_temporary:
        return None
    flags &= ~(IFA_F_SECONDARY | IFA_F_DADFAILED | IFA_F_TENTATIVE)
    header = IFADDRMSG.pack(family, length, flags & 0xFF, scope, index)
    left_out = (IFA_FLAGS, IFA_CACHEINFO) if flags & IFA_F_PERMANENT else (IFA_FLAGS,)
    kept = [(kind, value) for kind, value in found.items() if kind not in left_out]
    return (
        header
        + b"".join(pack_attribute(kind, value) for kind, value in kept)
        + pack_u32(IFA_FLAGS, flags)
    )


def is_lasting(message: bytes) -> bool:
    """Whether an address of `restorable_address` has no lifetime."""
    return IFA_CACHEINFO not in dict(iter_attributes(message[IFADDRMSG.size :]))


def address_text(message: bytes) -> str:
    """``192.0.2.1/24``"""
    family, length, _, _, _ = IFADDRMSG.unpack_from(message)
    found = dict(iter_attributes(message[IFADDRMSG.size :]))
    address = internet_address(family, found.get(IFA_LOCAL) or found.get(IFA_ADDRESS, b""))
    return f"{address[1] if address else ''}/{length}"


def read_routes(netlink: NetlinkSocket, ifindex: int) -> Iterator[bytes]:
    """RTM_NEWROUTE payloads of the routes to restore."""
    for family in (socket.AF_INET, socket.AF_INET6):
        query = RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0) + pack_u32(RTA_OIF, ifindex)
        try:
            dumped = netlink.dump(RTM_GETROUTE, query)
        except NetlinkError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EAFNOSUPPORT, errno.ENOENT):
                # a kernel without this family
                continue
            raise
        for _, payload in dumped:
            message = restorable_route(payload, ifindex)
            if message is not None:
                yield message


def restorable_route(payload: bytes, ifindex: int) -> bytes | None:
    """An RTM_NEWROUTE without flags that the kernel computes; None for one that does not use the
    link, that is not unicast, that only its `route_owner` may add or that ends by itself, and
    malformed ones."""
    if len(payload) < RTMSG.size:
        return None
    *key, protocol, scope, kind, flags = RTMSG.unpack_from(payload)
    found = dict(iter_attributes(payload[RTMSG.size :]))
    is_foreign = protocol not in RESTORED_AUTOMATIC_ROUTES and route_owner(protocol)
    if is_foreign or kind != RTN_UNICAST or expires(found):
        return None
    hops = found.get(RTA_MULTIPATH, b"")
    used = {index for index, _ in parse_next_hops(hops)} | {unsigned(found.get(RTA_OIF, b""))}
    if ifindex not in used:
        return None
    found.pop(RTA_CACHEINFO, None)
    if hops:
        found[RTA_MULTIPATH] = b"".join(restorable_hops(hops))
    header = RTMSG.pack(*key, protocol, scope, kind, flags & RTNH_F_ONLINK)
    return header + b"".join(pack_attribute(*one) for one in sorted(found.items()))


def expires(found: Attributes) -> bool:
    """Whether a route ends by itself: it was announced by a router, whatever its protocol is."""
    times = found.get(RTA_CACHEINFO, b"")
    return (
        len(times) >= RTA_CACHEINFO_STRUCT.size and RTA_CACHEINFO_STRUCT.unpack_from(times)[2] != 0
    )


def restorable_hops(value: bytes) -> Iterator[bytes]:
    """Each struct rtnexthop of RTA_MULTIPATH with its attributes, without flags that the kernel
    computes."""
    offset = 0
    while offset + RTNEXTHOP.size <= len(value):
        length, flags, weight, ifindex = RTNEXTHOP.unpack_from(value, offset)
        if length < RTNEXTHOP.size or offset + length > len(value):
            return
        attributes = value[offset + RTNEXTHOP.size : offset + length]
        yield (
            RTNEXTHOP.pack(length, flags & RTNH_F_ONLINK, weight, ifindex)
            + attributes
            + bytes(-length & 3)
        )
        offset += (length + 3) & ~3


def read_neighbours(netlink: NetlinkSocket, ifindex: int) -> Iterator[bytes]:
    """RTM_NEWNEIGH payloads of the permanent neighbours."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            dumped = netlink.dump(RTM_GETNEIGH, NDMSG.pack(family, 0, 0, 0, 0))
        except NetlinkError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EAFNOSUPPORT, errno.ENOENT):
                continue
            raise
        for _, payload in dumped:
            if len(payload) < NDMSG.size:
                continue
            _, index, state, flags, kind = NDMSG.unpack_from(payload)
            if index != ifindex or not state & NUD_PERMANENT:
                continue
            found = dict(iter_attributes(payload[NDMSG.size :]))
            kept = [
                pack_attribute(one, found[one]) for one in (NDA_DST, NDA_LLADDR) if one in found
            ]
            yield NDMSG.pack(family, index, NUD_PERMANENT, flags, kind) + b"".join(kept)


def is_link_unchanged(before: LinkAddresses | None) -> bool:
    """Whether a link has the addresses, routes, neighbours and MTU of `before`; True for None.
    Raises OSError and ValueError."""
    if before is None:
        return True
    now = read_link_addresses(before.name)
    return now is not None and not differences(before, now)


def differences(before: LinkAddresses, now: LinkAddresses) -> bool:
    """Whether something is missing or changed, or there is something that the change may have
    added."""
    settings = (now.mtu, now.disable_ipv6) != (before.mtu, before.disable_ipv6) or (
        before.is_up and not now.is_up
    )
    missing = set(before.addresses) - set(now.addresses) or missing_messages(before, now)
    return bool(settings or missing or added_addresses(before, now) or added_routes(before, now))


def missing_addresses(before: LinkAddresses, now: LinkAddresses) -> list[str]:
    """Messages of the addresses that the link had."""
    present = {address_text(b64decode(one)) for one in now.address_messages}
    return [one for one in before.address_messages if address_text(b64decode(one)) not in present]


def missing_messages(before: LinkAddresses, now: LinkAddresses) -> list[tuple[int, str]]:
    """(message type, message) of the routes and neighbours that the link had; routes without a
    gateway come first, because other gateways may be in their subnets."""
    routes = sorted(set(before.routes) - set(now.routes), key=has_gateway)
    neighbours = sorted(set(before.neighbours) - set(now.neighbours))
    return [*((RTM_NEWROUTE, one) for one in routes), *((RTM_NEWNEIGH, one) for one in neighbours)]


def has_gateway(message: str) -> bool:
    found = dict(iter_attributes(b64decode(message)[RTMSG.size :]))
    return any(kind in found for kind in NEXT_HOP_ATTRIBUTES if kind != RTA_OIF)


def added_addresses(before: LinkAddresses, now: LinkAddresses) -> list[str]:
    """Messages of the lasting addresses that the link did not have, without those of programs that
    say so (IFA_PROTO)."""
    added = []
    for one in now.address_messages:
        message = b64decode(one)
        protocol = unsigned(dict(iter_attributes(message[IFADDRMSG.size :])).get(IFA_PROTO, b""))
        is_new = (
            address_text(message) not in before.addresses and one not in before.address_messages
        )
        if is_new and is_lasting(message) and protocol < FIRST_DAEMON_PROTOCOL:
            added.append(one)
    return added


def added_routes(before: LinkAddresses, now: LinkAddresses) -> list[str]:
    """Messages of the routes that the link did not have and that a change may have added
    (ip-route(8), profiles)."""
    added = sorted(set(now.routes) - set(before.routes))
    return [
        one for one in added if b64decode(one)[PROTOCOL_OFFSET] in (0, RTPROT_BOOT, RTPROT_STATIC)
    ]


def restore_link(before: LinkAddresses) -> str:
    """Empty, or a sentence about what could not be restored. What is missing is added before
    anything is removed: a failure leaves at least what the link had."""
    try:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            return restore_by_netlink(netlink, before)
    except (OSError, ValueError) as error:
        return f"addresses of {before.name} not restored: {error}"


def restore_by_netlink(netlink: NetlinkSocket, before: LinkAddresses) -> str:
    """As `restore_link`. Raises OSError and ValueError."""
    problems: list[str] = []
    for _ in range(MAX_RESTORE_ROUNDS):
        now = read_link_addresses(before.name)
        if now is None:
            return f"{before.name} no longer exists"
        if not differences(before, now):
            return ""
        problems = [*restore_settings(netlink, before, now), *restore_entries(netlink, before, now)]
    if is_link_unchanged(before):
        return ""
    reason = f": {'; '.join(dict.fromkeys(problems))}" if problems else ""
    return f"addresses, routes or MTU of {before.name} not restored{reason}"


def restore_settings(
    netlink: NetlinkSocket, before: LinkAddresses, now: LinkAddresses
) -> list[str]:
    """MTU, administrative state and disable_ipv6; returns texts about errors."""
    problems = []
    index = socket.if_nametoindex(before.name)
    if now.mtu != before.mtu:
        mtu = pack_u32(IFLA_MTU, before.mtu)
        problems += attempt(
            netlink, RTM_NEWLINK, IFINFOMSG.pack(socket.AF_UNSPEC, 0, index, 0, 0) + mtu
        )
    if before.is_up and not now.is_up:
        problems += attempt(
            netlink, RTM_NEWLINK, IFINFOMSG.pack(socket.AF_UNSPEC, 0, index, IFF_UP, IFF_UP)
        )
    if before.disable_ipv6 and now.disable_ipv6 != before.disable_ipv6:
        try:
            with open(DISABLE_IPV6.format(before.name), "w") as file:
                file.write(before.disable_ipv6)
        except OSError as error:
            problems.append(f"disable_ipv6: {error.strerror}")
    return problems


def restore_entries(netlink: NetlinkSocket, before: LinkAddresses, now: LinkAddresses) -> list[str]:
    """Addresses, routes and neighbours; returns texts about errors."""
    problems = []
    for message in missing_addresses(before, now):
        problems += attempt(netlink, RTM_NEWADDR, b64decode(message), NLM_F_CREATE, EXISTS)
    for message in sorted(
        set(before.automatic_routes) - set(now.automatic_routes), key=has_gateway
    ):
        problems += attempt(
            netlink, RTM_NEWROUTE, b64decode(message), NLM_F_CREATE | NLM_F_EXCL, EXISTS
        )
    for kind, message in missing_messages(before, now):
        problems += restore_entry(netlink, kind, b64decode(message))
    for message in added_routes(before, now):
        problems += attempt(netlink, RTM_DELROUTE, b64decode(message), 0, GONE)
    for message in added_addresses(before, now):
        problems += attempt(netlink, RTM_DELADDR, b64decode(message), 0, GONE)
    return problems


def restore_entry(netlink: NetlinkSocket, kind: int, message: bytes) -> list[str]:
    """A route or neighbour. Next hops of an IPv6 route are added one by one: the kernel refuses all
    of them when it still has one."""
    if kind != RTM_NEWROUTE:
        return attempt(netlink, kind, message, NLM_F_CREATE, EXISTS)
    found = dict(iter_attributes(message[RTMSG.size :]))
    if RTA_NH_ID in found:
        kept = {key: value for key, value in found.items() if key not in NEXT_HOP_ATTRIBUTES}
        if not attempt(netlink, kind, packed_route(message, kept), NLM_F_CREATE, EXISTS):
            return []
        del found[RTA_NH_ID]  # that object has gone with the link: the same next hops, without it
    if message[0] != socket.AF_INET6 or RTA_MULTIPATH not in found:
        return attempt(netlink, kind, packed_route(message, found), NLM_F_CREATE, EXISTS)
    hops = found.pop(RTA_MULTIPATH)
    problems = []
    for hop in restorable_hops(hops):
        problems += attempt(
            netlink,
            kind,
            packed_route(message, {**found, RTA_MULTIPATH: hop}),
            NLM_F_CREATE,
            EXISTS,
        )
    return problems


def packed_route(message: bytes, attributes: dict[int, bytes]) -> bytes:
    """The route with other attributes."""
    return message[: RTMSG.size] + b"".join(
        pack_attribute(*one) for one in sorted(attributes.items())
    )


def attempt(
    netlink: NetlinkSocket,
    kind: int,
    message: bytes,
    flags: int = 0,
    ignored: Iterable[int | None] = (),
) -> list[str]:
    """Send a request; empty, or the text of an error that is not in `ignored`."""
    try:
        netlink.request(kind, message, flags)
    except NetlinkError as error:
        if error.errno not in ignored:
            return [error.strerror or str(error)]
    return []
