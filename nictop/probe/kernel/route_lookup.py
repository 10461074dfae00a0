"""RTM_GETROUTE for one destination, as ``ip route get ADDRESS from SOURCE`` (linux/rtnetlink.h).
Nothing is read."""

from __future__ import annotations

import struct

from nictop.probe.kernel.netlink import pack_attribute, pack_u32

RTMSG = struct.Struct("=BBBBBBBBI")
"""struct rtmsg: family, dst_len, src_len, tos, table, protocol, scope, type, flags."""
RTA_DST, RTA_SRC, RTA_OIF = 1, 2, 4
RTN_UNICAST = 1


def route_request(family: int, peer: bytes, source: bytes | None, ifindex: int = 0) -> bytes:
    """Payload of an RTM_GETROUTE for the route to the address `peer`, from the address `source` or
    from any. `ifindex`: the outgoing link, 0: any."""
    bits = 8 * len(peer)
    header = RTMSG.pack(family, bits, bits if source is not None else 0, 0, 0, 0, 0, 0, 0)
    link = pack_u32(RTA_OIF, ifindex) if ifindex else b""
    return (
        header
        + pack_attribute(RTA_DST, peer)
        + (pack_attribute(RTA_SRC, source) if source is not None else b"")
        + link
    )
