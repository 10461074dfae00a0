"""Network namespaces that have an id here → their processes, and the links and addresses in them.

For the ids see `probe.kernel.namespace_ids`. RTM_GETLINK with IFLA_TARGET_NETNSID (Linux 4.16) and
RTM_GETADDR with IFA_TARGET_NETNSID (Linux 4.20) describe what is in it, to who has CAP_NET_ADMIN
there: so no namespace is entered, and a probe that has given up CAP_SYS_ADMIN reads it. An older
kernel ignores these attributes, and describes this namespace: replies without the id are not used.
"""

from __future__ import annotations

import os
import socket
import struct
import time

from nictop.probe.inventory.links.messages import parse_link
from nictop.probe.inventory.links.routes import parse_address
from nictop.probe.inventory.links.tunnels import IFLA_TARGET_NETNSID
from nictop.probe.kernel.namespace_ids import (
    NETNSA_FD,
    NETNSA_PID,
    RTGENMSG,
    RTM_GETNSID,
    parse_id,
)
from nictop.probe.kernel.netlink import (
    HEADER,
    NETLINK_ROUTE,
    NLM_F_REQUEST,
    NLMSG_ERROR,
    DumpInterrupted,
    NetlinkSocket,
    iter_attributes,
    messages,
    pack_attribute,
    pack_u32,
)
from nictop.probe.kernel.rtnetlink import (
    IFADDRMSG,
    IFINFOMSG,
    IFLA_EXT_MASK,
    RTM_GETADDR,
    RTM_GETLINK,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nictop.probe.records import Address, Link

IFA_TARGET_NETNSID = 10
RTEXT_FILTER_SKIP_STATS = 1 << 3
PIDS_PER_BATCH = 64
"""Requests that are sent together: their replies fit into the receive buffer."""
MAX_ASKED_PROCESSES = 8192
"""Some 15 µs of CPU time each."""
MAX_NAMED_NAMESPACES = 1024
MAX_LINKS_INSIDE = 64
"""Of one namespace."""


def read_ids(netlink: NetlinkSocket) -> set[int]:
    """Ids of the namespaces that have one here. Raises OSError."""
    found = set()
    try:
        replies = netlink.dump(RTM_GETNSID, RTGENMSG)
    except DumpInterrupted as error:
        replies = error.replies
    for kind, payload in replies:
        number = parse_id(kind, payload)
        if number is not None:
            found.add(number)
    return found


def some_have_ids() -> bool:
    """Whether there are such namespaces; True also where that is not known."""
    try:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            return bool(read_ids(netlink))
    except OSError:
        return True  # the reader of containers says why


def id_of_file(netlink: NetlinkSocket, path: str) -> int | None:
    """Id of the namespace of a file in /run/netns; None: it has none, or the file is another one.
    Raises OSError if it may not be opened."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        query = RTGENMSG + pack_u32(NETNSA_FD, descriptor)
        for kind, payload in netlink.request(RTM_GETNSID, query):
            return parse_id(kind, payload)
        return None
    finally:
        os.close(descriptor)


def ids_of_processes(netlink: NetlinkSocket, pids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(Pid, id of its namespace) of those in a namespace with an id. Raises OSError."""
    pids = list(pids)
    for first in range(0, len(pids), PIDS_PER_BATCH):
        yield from _ids_of_batch(netlink, pids[first : first + PIDS_PER_BATCH])


def _ids_of_batch(netlink: NetlinkSocket, pids: list[int]) -> Iterator[tuple[int, int]]:
    """One request for each, which the kernel answers in their order: without NLM_F_ACK with one
    message each, the id or an error. The number of a request is its position."""
    requests = [
        HEADER.pack(HEADER.size + len(RTGENMSG) + 8, RTM_GETNSID, NLM_F_REQUEST, position, 0)
        + RTGENMSG
        + pack_u32(NETNSA_PID, pid)
        for position, pid in enumerate(pids)
    ]
    netlink.socket.send(b"".join(requests))
    waiting = len(pids)
    while waiting > 0:
        data = netlink.receive()
        for kind, _, position, start, end in messages(data):
            waiting -= 1
            number = None if kind == NLMSG_ERROR else parse_id(kind, data[start:end])
            if number is not None and position < len(pids):
                yield pids[position], number


def read_links_inside(netlink: NetlinkSocket, number: int) -> list[Link]:
    """Links of a namespace with their addresses, at most `MAX_LINKS_INSIDE`. Raises OSError: EPERM
    or EACCES without CAP_NET_ADMIN there."""
    target = struct.pack("=i", number)
    query = IFINFOMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    query += pack_attribute(IFLA_TARGET_NETNSID, target)
    query += pack_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
    links = []
    for payload in _dump(netlink, RTM_GETLINK, query):
        attributes = dict(iter_attributes(payload[IFINFOMSG.size :]))
        link = parse_link(payload)
        if link is not None and attributes.get(IFLA_TARGET_NETNSID) == target:
            links.append(link)
    return links[:MAX_LINKS_INSIDE]


def read_addresses_inside(netlink: NetlinkSocket, number: int) -> dict[int, list[Address]]:
    """ifindex in the namespace → addresses. Raises OSError."""
    target = struct.pack("=i", number)
    query = IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    query += pack_attribute(IFA_TARGET_NETNSID, target)
    found: dict[int, list[Address]] = {}
    for payload in _dump(netlink, RTM_GETADDR, query):
        attributes = dict(iter_attributes(payload[IFADDRMSG.size :]))
        parsed = parse_address(payload, time.monotonic())
        if parsed is not None and attributes.get(IFA_TARGET_NETNSID) == target:
            found.setdefault(parsed[0], []).append(parsed[1])
    return found


def _dump(netlink: NetlinkSocket, kind: int, query: bytes) -> list[bytes]:
    """Payloads; those of the last attempt, if each is interrupted by a change."""
    try:
        return [payload for _, payload in netlink.dump(kind, query)]
    except DumpInterrupted as error:
        return [payload for _, payload in error.replies]
