"""ICMP errors about the packets of a socket: the error queue of IP_RECVERR and IPV6_RECVERR (ip(7),
ipv6(7)).

`read_errors` reads the queue; `parse_extended_error` decodes a struct sock_extended_err
(linux/errqueue.h) with the address of the sender after it.
"""

from __future__ import annotations

import socket
import struct

from nictop.probe.records import IcmpError

IP_RECVERR, IPV6_RECVERR = 11, 25
SOL_IP, SOL_IPV6 = 0, 41
MSG_ERRQUEUE = 0x2000
SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6 = 2, 3
ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED = 3, 4
ICMPV6_PKT_TOOBIG = 2

EXTENDED_ERROR = struct.Struct("=IBBBxII")
"""struct sock_extended_err: errno, origin, type, code, info, data."""
OFFENDER_OFFSET = EXTENDED_ERROR.size
ANCILLARY_BYTES = 256
MAX_QUEUE_READS = 64
"""Errors read at once."""


def enable_errors(connection: socket.socket) -> None:
    """Let the kernel queue the ICMP errors about packets of a socket. Raises OSError."""
    if connection.family == socket.AF_INET6:
        connection.setsockopt(SOL_IPV6, IPV6_RECVERR, 1)
    else:
        connection.setsockopt(SOL_IP, IP_RECVERR, 1)


def read_errors(connection: socket.socket) -> list[IcmpError]:
    """The queued ICMP errors, oldest first; errors of this host itself (EMSGSIZE) are left out."""
    errors = []
    for _ in range(MAX_QUEUE_READS):
        try:
            _, ancillary, _, _ = connection.recvmsg(
                0, ANCILLARY_BYTES, MSG_ERRQUEUE | socket.MSG_DONTWAIT
            )
        except OSError:
            break
        for level, kind, data in ancillary:
            if (level, kind) in ((SOL_IP, IP_RECVERR), (SOL_IPV6, IPV6_RECVERR)):
                error = parse_extended_error(data)
                if error is not None:
                    errors.append(error)
    return errors


def parse_extended_error(data: bytes) -> IcmpError | None:
    """None: not an ICMP error, or malformed."""
    if len(data) < EXTENDED_ERROR.size + 8:
        return None
    _, origin, kind, code, info, _ = EXTENDED_ERROR.unpack_from(data)
    offender = data[OFFENDER_OFFSET:]
    (family,) = struct.unpack_from("=H", offender)
    if family == socket.AF_INET:
        source = socket.inet_ntop(socket.AF_INET, offender[4:8])
    elif family == socket.AF_INET6 and len(offender) >= 24:
        source = socket.inet_ntop(socket.AF_INET6, offender[8:24])
    else:
        return None
    if origin not in (SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6):
        return None
    error = IcmpError(kind, code, source)
    return IcmpError(kind, code, source, info or None) if is_too_big(error) else error


def is_too_big(error: IcmpError) -> bool:
    """ "fragmentation needed" (RFC 1191) or "packet too big" (RFC 8201)."""
    if ":" in error.source:
        return error.type == ICMPV6_PKT_TOOBIG
    return (error.type, error.code) == (ICMP_DEST_UNREACH, ICMP_FRAG_NEEDED)
