"""Dumps of sockets: the request with its filter, and one message of the reply
(linux/inet_diag.h)."""

from __future__ import annotations

import socket
import struct

from nictop.probe.kernel import netlink
from nictop.probe.traffic import sock_diag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Fields = dict[str, Any]

TIMEOUT = 2.0
"""Seconds for each datagram."""
FAMILIES = (socket.AF_INET, socket.AF_INET6)

INET_DIAG_BC_S_COND = 7
INET_DIAG_HOSTCOND = struct.Struct("=BBxxi")
"""struct inet_diag_hostcond without its address: family, prefix length, port (-1: any)."""
INET_DIAG_CGROUP_ID = 21
BODY_BYTES = sock_diag.INET_DIAG_MSG.size
IDENTITY = struct.Struct("=BBxx HH 16s16s I Q")
"""Beginning of struct inet_diag_msg: family, state; ports (in network order), source, destination,
device, cookie."""
QUEUES = struct.Struct("=IIII")
"""The last 16 bytes of struct inet_diag_msg: receive queue, send queue, uid, inode."""
PATH_OFFSET, COOKIE_OFFSET, END_OF_COOKIE = 8, 44, 52
"""In struct inet_diag_msg: `paths.PATH`; the cookie."""


class Message:
    """`data[start:end]` is a struct inet_diag_msg with its attributes; at least `BODY_BYTES`
    long."""

    __slots__ = ("data", "end", "family", "start")

    def __init__(self, data: bytes, start: int, end: int, family: int) -> None:
        self.data, self.start, self.end, self.family = data, start, end, family

    @property
    def path(self) -> tuple[int, bytes]:
        """Family, and addresses with device as in `paths.PATH`."""
        return self.family, self.data[self.start + PATH_OFFSET : self.start + COOKIE_OFFSET]

    @property
    def cookie(self) -> bytes:
        return self.data[self.start + COOKIE_OFFSET : self.start + END_OF_COOKIE]

    def attributes(self) -> dict[int, bytes]:
        return dict(netlink.iter_attributes(self.data[self.start + BODY_BYTES : self.end]))

    def fields(self, attributes: dict[int, bytes]) -> Fields:
        """Those of `records.Connection` that TCP and UDP have, and ``group``: id of the control
        group, 0: unknown."""
        _, _, source_port, port, source, destination, device, cookie = IDENTITY.unpack_from(
            self.data, self.start
        )
        queues = QUEUES.unpack_from(self.data, self.start + BODY_BYTES - QUEUES.size)
        fields: Fields = {
            "local": sock_diag.parse_address(self.family, source),
            "local_port": socket.ntohs(source_port),
            "cookie": cookie,
            "receive_queue": queues[0],
            "send_queue": queues[1],
            "uid": queues[2],
            "inode": queues[3],
            "group": netlink.unsigned(attributes.get(INET_DIAG_CGROUP_ID, b"")),
        }
        if port:
            fields["remote"], fields["remote_port"] = (
                sock_diag.parse_address(self.family, destination),
                socket.ntohs(port),
            )
        if device:
            fields["device"] = device
        return fields


class SocketDump:
    """A netlink socket for dumps, opened with the first one."""

    def __init__(self) -> None:
        self._netlink: netlink.NetlinkSocket | None = None

    def read(
        self,
        family: int,
        protocol: int,
        extension: int,
        states: int,
        use: Callable[[bytes, int], bool],
    ) -> None:
        """Request the sockets of one family, without those on loopback addresses; `use` is called
        with each datagram and the sequence number of the request, and returns whether that was the
        last one. Raises OSError."""
        if self._netlink is None:
            self._netlink = netlink.NetlinkSocket(sock_diag.NETLINK_SOCK_DIAG, timeout=TIMEOUT)
        request = sock_diag.INET_DIAG_REQ_V2.pack(family, protocol, 1 << (extension - 1), states)
        request += netlink.pack_attribute(
            sock_diag.INET_DIAG_REQ_BYTECODE, without_loopback(family)
        )
        sequence = self._netlink.send_request(
            sock_diag.SOCK_DIAG_BY_FAMILY, request, netlink.NLM_F_DUMP
        )
        while not use(self._netlink.receive(), sequence):
            pass

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None


def without_loopback(family: int) -> bytes:
    """Program of INET_DIAG_REQ_BYTECODE that rejects local addresses in 127.0.0.0/8, also
    IPv4-mapped ones, and ::1.

    A condition that holds leads to a jump, which rejects: it goes 4 bytes beyond the end. The
    kernel requires that the chain of `yes` ends exactly at the end, so the jump has a `yes` too.
    """
    conditions = [(socket.AF_INET, 8, b"\x7f\0\0\0")]
    if family == socket.AF_INET6:
        conditions.append((socket.AF_INET6, 128, bytes(15) + b"\x01"))
    program = b""
    for kind, bits, address in conditions:
        operand = INET_DIAG_HOSTCOND.pack(kind, bits, -1) + address
        size = sock_diag.INET_DIAG_BC_OP.size + len(operand)
        condition = sock_diag.INET_DIAG_BC_OP.pack(INET_DIAG_BC_S_COND, size, size + 4) + operand
        jump = sock_diag.INET_DIAG_BC_OP.pack(sock_diag.INET_DIAG_BC_JMP, 4, 4 + len(program) + 4)
        program = condition + jump + program
    return program
