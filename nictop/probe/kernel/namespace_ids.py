"""Ids of network namespaces: by which one of them knows another one.

The kernel gives a namespace an id in another one when a link leads from one to the other, or has
been moved (net/core/net_namespace.c: peernet2id_alloc; dev_change_net_namespace since Linux 4.15).
RTM_GETNSID tells the id of the namespace of a process (NETNSA_PID) or of an open file (NETNSA_FD),
to every user.
"""

from __future__ import annotations

import os
import struct

from nictop.probe.kernel.netlink import NETLINK_ROUTE, NetlinkSocket, iter_attributes, pack_u32

RTM_NEWNSID, RTM_GETNSID = 88, 90
NETNSA_NSID, NETNSA_PID, NETNSA_FD = 1, 2, 3
RTGENMSG = bytes(4)
"""struct rtgenmsg with AF_UNSPEC, padded."""
NAMESPACE_ID = struct.Struct("=i")


def parse_id(kind: int, payload: bytes) -> int | None:
    """Id in an RTM_NEWNSID; None: it has none here (-1), or another message."""
    if kind != RTM_NEWNSID:
        return None
    value = dict(iter_attributes(payload[len(RTGENMSG) :])).get(NETNSA_NSID, b"")
    if len(value) != NAMESPACE_ID.size:
        return None
    number: int = NAMESPACE_ID.unpack(value)[0]
    return number if number >= 0 else None


def own_id() -> int | None:
    """Id that the namespace of this process has in itself; None: it has none, or it is not
    known."""
    query = RTGENMSG + pack_u32(NETNSA_PID, os.getpid())
    try:
        with NetlinkSocket(NETLINK_ROUTE) as netlink:
            replies = netlink.request(RTM_GETNSID, query)
    except OSError:
        return None
    found = (parse_id(kind, payload) for kind, payload in replies)
    return next((number for number in found if number is not None), None)
