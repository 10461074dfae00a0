"""Established SSH connections to this host, of all users, with the addresses of both ends.

Reads /proc/net/tcp and tcp6, and looks up the route back to a client (RTM_GETROUTE), which may
leave by another link than the one that has the address. The environment alone is not enough:
processes in tmux have the SSH_CONNECTION of the session in which tmux was started.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterable

from nictop.probe.inventory.links.messages import number
from nictop.probe.kernel.netlink import (
    NETLINK_ROUTE,
    NetlinkSocket,
    iter_attributes,
    pack_attribute,
)
from nictop.probe.kernel.route_lookup import RTA_DST, RTA_OIF, RTMSG
from nictop.probe.kernel.rtnetlink import RTM_GETROUTE

TCP_TABLES = ("tcp", "tcp6")
MAX_TABLE_BYTES = 8 * 1024 * 1024
"""Bytes of one table, enough for 50 000 connections."""
TCP_ESTABLISHED = b"01"
"""The state column for TCP_ESTABLISHED (net/tcp_states.h), hexadecimal."""
HEX_DIGITS = frozenset("0123456789ABCDEFabcdef")
SSH_PORT = 22


SshAddresses = tuple[str, str]
"""(client address, server address); IPv4-mapped addresses become IPv4."""


def read_connections(ports: Iterable[int], proc: str = "/proc") -> tuple[SshAddresses, ...]:
    """Connections to the local `ports` and to `SSH_PORT`, each once; a table that cannot be read
    counts as empty."""
    wanted = {SSH_PORT, *ports}
    found: dict[SshAddresses, None] = {}
    for name in TCP_TABLES:
        try:
            with open(f"{proc}/self/net/{name}", "rb") as file:
                found.update(dict.fromkeys(parse_table(file.read(MAX_TABLE_BYTES), wanted)))
        except OSError:
            continue
    return tuple(found)


def parse_table(table: bytes, ports: set[int]) -> list[SshAddresses]:
    """Established connections to local `ports`; malformed lines are skipped. Pure."""
    found = []
    for line in table.splitlines():
        words = line.split()
        if len(words) < 4 or words[3] != TCP_ESTABLISHED:
            continue
        server, _, port = words[1].partition(b":")
        try:
            if int(port, 16) in ports:
                found.append((parse_address(words[2].partition(b":")[0]), parse_address(server)))
        except ValueError:
            continue
    return found


def parse_address(text: bytes) -> str:
    """From the kernel's ``%08X`` of 32-bit words in host byte order. Raises ValueError."""
    digits = text.decode("ascii", "replace")
    if len(digits) not in (8, 32) or not HEX_DIGITS.issuperset(digits):
        raise ValueError("neither IPv4 nor IPv6")
    packed = struct.pack(
        f"={len(digits) // 8}I", *(int(digits[at : at + 8], 16) for at in range(0, len(digits), 8))
    )
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def read_return_ifindex(client: str) -> int | None:
    """ifindex of the link by which packets to an address leave; None: no route, or an address that
    does not determine it (link-local, malformed)."""
    try:
        address = ipaddress.ip_address(client)
        if address.is_link_local:
            return None
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        query = RTMSG.pack(family, address.max_prefixlen, 0, 0, 0, 0, 0, 0, 0) + pack_attribute(
            RTA_DST, address.packed
        )
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            routes = [payload for _, payload in netlink.request(RTM_GETROUTE, query)]
    except (OSError, ValueError):
        return None
    return number(dict(iter_attributes(routes[0][RTMSG.size :])), RTA_OIF) if routes else None
