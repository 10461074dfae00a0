"""SSH connections to this host, by both their addresses: what must not be cut, whoever's they are.

Reads /proc/net/tcp and tcp6, and asks the kernel for the route back to a client, which may leave by another link than
the one that has the address. The environment alone does not tell: what runs in tmux has that of the connection by which
tmux was started, days ago.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterable

from nictop.probe.inventory.links.messages import number
from nictop.probe.inventory.links.routes import RTA_OIF, RTMSG
from nictop.probe.kernel.netlink import NETLINK_ROUTE, NetlinkSocket, iterate, pack
from nictop.probe.kernel.rtnetlink import RTM_GETROUTE

TABLES = ("tcp", "tcp6")
LARGEST = 8 * 1024 * 1024
"""Bytes of one table: 50 000 connections."""
ESTABLISHED = b"01"
PORT = 22
RTA_DST = 1

Connection = tuple[str, str]
"""Addresses of the client and of this host, IPv4 in its own notation."""


def read_connections(ports: Iterable[int], proc: str = "/proc") -> tuple[Connection, ...]:
    """Those to the local `ports` and to `PORT`, each once; of a table that cannot be read none."""
    wanted = {PORT, *ports}
    found: dict[Connection, None] = {}
    for name in TABLES:
        try:
            with open(f"{proc}/self/net/{name}", "rb") as file:
                found.update(dict.fromkeys(parse_table(file.read(LARGEST), wanted)))
        except OSError:
            continue
    return tuple(found)


def parse_table(table: bytes, ports: set[int]) -> list[Connection]:
    """Established connections to local `ports`; lines that are none are left out. Pure."""
    found = []
    for line in table.splitlines():
        words = line.split()
        if len(words) < 4 or words[3] != ESTABLISHED:
            continue
        here, _, port = words[1].partition(b":")
        try:
            if int(port, 16) in ports:
                found.append((parse_address(words[2].partition(b":")[0]), parse_address(here)))
        except ValueError:
            continue
    return found


def parse_address(text: bytes) -> str:
    """From the kernel's ``%08X`` of 32-bit words in the order of this machine. Raises ValueError."""
    digits = text.decode("ascii", "replace")
    if len(digits) not in (8, 32):
        raise ValueError("neither IPv4 nor IPv6")
    packed = struct.pack(f"={len(digits) // 8}I", *(int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)))
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def read_way_back(client: str) -> int | None:
    """ifindex of the link that packets to an address leave by; None: no route, or no address that tells it."""
    try:
        address = ipaddress.ip_address(client)
        if address.is_link_local:
            return None
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        query = RTMSG.pack(family, address.max_prefixlen, 0, 0, 0, 0, 0, 0, 0) + pack(RTA_DST, address.packed)
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            routes = [payload for _, payload in netlink.request(RTM_GETROUTE, query)]
    except (OSError, ValueError):
        return None
    return number(dict(iterate(routes[0][RTMSG.size :])), RTA_OIF) if routes else None
