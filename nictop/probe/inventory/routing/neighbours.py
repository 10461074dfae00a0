"""Neighbour tables of IPv4 (ARP) and IPv6 (neighbour discovery): RTM_GETNEIGH (linux/neighbour.h) →
`Neighbour`.

Nothing is sent to a neighbour. Entries without address resolution (multicast, loopback,
point-to-point links) are dropped while the dump is read.
"""

from __future__ import annotations

import socket
import struct

from nictop.probe.inventory.links.forwarding import MAC_BYTES, NDA_LLADDR, NDMSG, NUD_PERMANENT
from nictop.probe.inventory.links.routes import internet_address
from nictop.probe.inventory.routing.dumps import bounded_dump
from nictop.probe.kernel.backports import colon_hex
from nictop.probe.kernel.netlink import iter_attributes
from nictop.probe.kernel.rtnetlink import RTM_GETNEIGH
from nictop.probe.records import Neighbour, Unreadable

MAX_NEIGHBOURS = 4096
"""Of both families together."""
NDA_DST, NDA_CACHEINFO = 1, 3
NDA_CACHEINFO_STRUCT = struct.Struct("=IIII")
"""struct nda_cacheinfo: confirmed, used, updated (ages in USER_HZ), references."""
USER_HZ = 100
"""Of each architecture of Linux that has this probe's Pythons (asm/param.h; alpha and ia64
differ)."""
NTF_PROXY, NTF_ROUTER = 0x08, 0x80
RTN_UNICAST = 1
NUD_STATES = {
    0x01: "incomplete",
    0x02: "reachable",
    0x04: "stale",
    0x08: "delay",
    0x10: "probe",
    0x20: "failed",
    NUD_PERMANENT: "permanent",
}
STATE_OFFSET, TYPE_OFFSET = 8, 11
"""Bytes in struct ndmsg."""
RESOLVED_STATES = frozenset(NUD_STATES)


def read_neighbours() -> tuple[tuple[Neighbour, ...], Unreadable | None]:
    """(Entries, IPv4 first; why some may be missing). Never raises OSError."""
    found: list[Neighbour] = []
    trouble: Unreadable | None = None
    for family in (socket.AF_INET, socket.AF_INET6):
        query = NDMSG.pack(family, 0, 0, 0, 0)
        payloads, why = bounded_dump(
            RTM_GETNEIGH, query, is_resolved, MAX_NEIGHBOURS - len(found), "neighbours"
        )
        found += [entry for entry in map(parse_neighbour, payloads) if entry is not None]
        trouble = trouble or why
    return tuple(found), trouble


def is_resolved(data: bytes, start: int) -> bool:
    """An RTM_NEWNEIGH whose payload begins at `start` is of a unicast address that is resolved."""
    header = data[start : start + NDMSG.size]
    return (
        len(header) == NDMSG.size
        and header[TYPE_OFFSET] <= RTN_UNICAST
        and header[STATE_OFFSET] in RESOLVED_STATES
    )


def parse_neighbour(payload: bytes) -> Neighbour | None:
    """An entry of an RTM_NEWNEIGH; None for other families, states without resolution, and
    malformed messages."""
    if len(payload) < NDMSG.size:
        return None
    family, ifindex, state, flags, _ = NDMSG.unpack_from(payload)
    found = dict(iter_attributes(payload[NDMSG.size :]))
    address = internet_address(family, found.get(NDA_DST, b""))
    if address is None or ifindex <= 0 or state not in NUD_STATES or flags & NTF_PROXY:
        return None
    hardware, times = found.get(NDA_LLADDR, b""), found.get(NDA_CACHEINFO, b"")
    mac = None
    if len(hardware) == MAC_BYTES and any(hardware):
        mac = colon_hex(hardware)
    since_update = None
    if len(times) >= NDA_CACHEINFO_STRUCT.size:
        since_update = NDA_CACHEINFO_STRUCT.unpack_from(times)[2] / USER_HZ
    return Neighbour(
        ifindex=ifindex,
        address=address[1],
        nud_state=NUD_STATES[state],
        mac=mac,
        router=bool(flags & NTF_ROUTER),
        since_update=since_update,
    )
