"""Through which links the packets of a socket go: by its bound device, the route to its peer, and
its local address.

A route is looked up (RTM_GETROUTE with the source address) for those sockets that `look_up` is
given, a limited number at a time. Until that is known, and without a route, the link with the local
address counts (RTM_GETADDR). Received packets count for the link that has the local address, unless
that is one without a wire (loopback, dummy): then for the link of the route.
"""

from __future__ import annotations

import errno
import fcntl
import socket
import struct

from nictop.probe.kernel import netlink
from nictop.probe.kernel.route_lookup import RTA_OIF, RTMSG, RTN_UNICAST, route_request
from nictop.probe.kernel.rtnetlink import (
    IFA_ADDRESS,
    IFA_LOCAL,
    IFADDRMSG,
    RTM_GETADDR,
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWROUTE,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

RX, TX = 1, 2
"""Bits of a direction; both: `BOTH`, none of them: 0."""
BOTH = RX | TX
UNDECIDED = 4
"""Instead of these: no link with a wire has the local address, so only the route can tell; it was
not looked up yet."""
DIRECTIONS = {RX: "rx", TX: "tx", BOTH: "both"}
ROUTE_SECONDS = 10.0
"""After which a route is looked up again."""
LOOKUPS_PER_READING = 128
MAX_KNOWN = 65536
"""Paths that are remembered."""
ROUTE_TIMEOUT = 1.0
"""Seconds for a reply of the kernel."""

PATH = struct.Struct("=16s16sI")
"""Part of struct inet_diag_sockid: source and destination (IPv4: the first 4 bytes), device."""
MAPPED_PREFIX = bytes(10) + b"\xff\xff"
"""Of an IPv4-mapped IPv6 address."""
SIOCGIFFLAGS = 0x8913
IFREQ = struct.Struct("=16sH14x")
"""struct ifreq: name, flags."""
IFF_LOOPBACK, IFF_POINTOPOINT, IFF_NOARP = 0x8, 0x10, 0x80


class Paths:
    """`links`: ifindexes."""

    def __init__(self, links: Iterable[int]) -> None:
        self.links = frozenset(links)
        self.directions: dict[int, dict[bytes, int]] = {socket.AF_INET: {}, socket.AF_INET6: {}}
        """Family → path (`PATH`) → what of it goes through the links; only paths that were
        needed."""
        self._routes: dict[tuple[int, bytes], tuple[int, float]] = {}
        """Family and path → ifindex of the link that sends (0: no route), and when it was looked
        up."""
        self._holders: dict[bytes, frozenset[int]] = {}
        """Local address, as in `PATH` → ifindexes of the links with a wire that have it."""
        self._netlink: netlink.NetlinkSocket | None = None

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None

    def read_addresses(self) -> None:
        """Read the local addresses; what was known of paths is dropped when they have changed.
        Raises OSError."""
        holders = self._read_holders()
        ifindexes = set().union(*holders.values())
        wired = {ifindex for ifindex in ifindexes if ifindex in self.links or has_wire(ifindex)}
        now = {address: frozenset(one & wired) for address, one in holders.items()}
        is_full = len(self._routes) > MAX_KNOWN or any(map(_is_full, self.directions.values()))
        if now == self._holders and not is_full:
            return
        self._holders = now
        self._routes.clear()
        for directions in self.directions.values():
            directions.clear()

    def _read_holders(self) -> dict[bytes, set[int]]:
        """Local address, as in `PATH` → ifindexes of the links that have it."""
        holders: dict[bytes, set[int]] = {}
        query = IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        for kind, body in self._kernel().dump(RTM_GETADDR, query):
            found = parse_local_address(body) if kind == RTM_NEWADDR else None
            if found is None:
                continue
            ifindex, forms = found
            for form in forms:
                holders.setdefault(form, set()).add(ifindex)
        return holders

    def direction(self, family: int, path: bytes) -> int:
        """What of the socket goes through the links: `RX`, `TX`, `BOTH`, 0 or `UNDECIDED`."""
        known = self.directions[family].get(path)
        if known is None:
            known = self.directions[family][path] = self._direction(family, path)
        return known

    def output(self, family: int, path: bytes) -> int:
        """ifindex of the link through which the socket sends; 0: not looked up, or no route."""
        return self._routes.get((family, path), (0, 0.0))[0]

    def describe(self, row: dict[str, object], path: tuple[int, bytes]) -> None:
        """Add "direction" and "output" of `records.Connection`."""
        row["direction"] = DIRECTIONS.get(self.direction(*path), "both")
        if self.output(*path):
            row["output"] = self.output(*path)

    def look_up(self, paths: Iterable[tuple[int, bytes]], now: float) -> None:
        """Look up the routes of these (family, path) that are not known or too old: at most
        `LOOKUPS_PER_READING`. `now`: seconds, CLOCK_MONOTONIC. Raises OSError when the kernel does
        not reply."""
        remaining = LOOKUPS_PER_READING
        for family, path in dict.fromkeys(paths):
            known = self._routes.get((family, path))
            if known is not None and now - known[1] < ROUTE_SECONDS:
                continue
            if not remaining:
                return
            remaining -= 1
            self._routes[family, path] = self._read_output(family, path), now
            self.directions[family][path] = self._direction(family, path)

    def _direction(self, family: int, path: bytes) -> int:
        source, destination, device = PATH.unpack(path)
        if destination in self._holders:
            return 0  # it stays in this host
        holders = self._holders.get(source, frozenset())
        output = self.output(family, path)
        if device in self.links:
            return BOTH
        if not output and not holders and (family, path) not in self._routes:
            return UNDECIDED
        if not output:
            return BOTH if holders & self.links else 0
        sends = TX if output in self.links else 0
        if device == output or not holders:
            return BOTH if sends else 0
        return sends | (RX if holders & self.links else 0)

    def _read_output(self, family: int, path: bytes) -> int:
        source, destination, device = PATH.unpack(path)
        if family == socket.AF_INET6 and destination.startswith(MAPPED_PREFIX):
            family, source, destination = socket.AF_INET, source[12:], destination[12:]
        elif family == socket.AF_INET:
            source, destination = source[:4], destination[:4]
        try:
            replies = self._kernel().request(
                RTM_GETROUTE, route_request(family, destination, source, device)
            )
        except netlink.NetlinkError as error:
            if error.errno == errno.ETIMEDOUT:
                self.close()
                raise
            return 0  # no route
        for kind, body in replies:
            if kind == RTM_NEWROUTE and len(body) >= RTMSG.size and body[7] == RTN_UNICAST:
                return netlink.unsigned(
                    dict(netlink.iter_attributes(body[RTMSG.size :])).get(RTA_OIF, b"")
                )
        return 0

    def _kernel(self) -> netlink.NetlinkSocket:
        if self._netlink is None:
            self._netlink = netlink.NetlinkSocket(netlink.NETLINK_ROUTE, timeout=ROUTE_TIMEOUT)
        return self._netlink


def _is_full(directions: dict[bytes, int]) -> bool:
    return len(directions) > MAX_KNOWN


def parse_local_address(body: bytes) -> tuple[int, tuple[bytes, ...]] | None:
    """(ifindex, forms of the address in `PATH`: IPv4 also as IPv4-mapped) of an RTM_NEWADDR; None:
    malformed, or another family."""
    if len(body) < IFADDRMSG.size:
        return None
    family, _, _, _, ifindex = IFADDRMSG.unpack_from(body)
    found = dict(netlink.iter_attributes(body[IFADDRMSG.size :]))
    address = found.get(IFA_LOCAL) or found.get(IFA_ADDRESS, b"")
    if family == socket.AF_INET and len(address) == 4:
        return ifindex, (address + bytes(12), MAPPED_PREFIX + address)
    if family == socket.AF_INET6 and len(address) == 16:
        return ifindex, (address,)
    return None


def has_wire(ifindex: int) -> bool:
    """Whether packets can be received through a link: False for loopback and dummy, which have
    neither ARP nor a peer; True when that cannot be read."""
    try:
        name = socket.if_indextoname(ifindex).encode(errors="surrogateescape")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
            flags = IFREQ.unpack(fcntl.ioctl(control.fileno(), SIOCGIFFLAGS, IFREQ.pack(name, 0)))[
                1
            ]
    except OSError:
        return True
    return not flags & IFF_LOOPBACK and (not flags & IFF_NOARP or bool(flags & IFF_POINTOPOINT))
