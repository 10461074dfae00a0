"""TCP sockets of given processes with the kernel's statistics: netlink sock_diag, INET_DIAG_INFO.

Reads /proc/PID/fd for the sockets that a process has open, and dumps the TCP sockets with one port
(SOCK_DIAG_BY_FAMILY, IPv4 and IPv6). The kernel filters by port, so other connections of the host
cost nothing. Yields dictionaries with the fields of `records.TrafficSocket`, because the record
class would need `dataclasses`. Layouts: linux/inet_diag.h, linux/tcp.h; fields that an older kernel
does not have are None.
"""

from __future__ import annotations

import os
import socket
import struct

from nictop.probe.kernel import errno_reasons as reasons
from nictop.probe.kernel import netlink
from nictop.probe.kernel.backports import is_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    SocketFields = dict[str, Any]

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
INET_DIAG_REQ_BYTECODE = 1
INET_DIAG_INFO, INET_DIAG_CONG = 2, 4

INET_DIAG_REQ_V2 = struct.Struct("=BBBxI48x")
"""struct inet_diag_req_v2: family, protocol, extensions (bit n - 1 requests INET_DIAG_n), states;
no socket id."""
INET_DIAG_MSG = struct.Struct("=BBBB 2s2s16s16s 12x 4x4x4x I I")
"""struct inet_diag_msg: family, state, timer, retransmissions; id: source port, destination port
(network order), source, destination; then expires, queues, uid and inode."""
INET_DIAG_BC_OP = struct.Struct("=BBH")
"""struct inet_diag_bc_op: code, offsets in bytes from here for yes and for no."""
INET_DIAG_BC_JMP, INET_DIAG_BC_S_GE, INET_DIAG_BC_S_LE, INET_DIAG_BC_D_GE, INET_DIAG_BC_D_LE = (
    1,
    2,
    3,
    4,
    5,
)

TCP_STATES = (
    "", "established", "syn-sent", "syn-recv", "fin-wait-1", "fin-wait-2", "time-wait", "close",
    "close-wait", "last-ack", "listen", "closing",
)  # fmt: skip
"""Names in ss(8), by TCP_* number (net/tcp_states.h)."""
STATE_MASK = sum(
    1 << TCP_STATES.index(name)
    for name in TCP_STATES
    if name not in ("", "syn-recv", "time-wait", "listen")
)
"""States with a process and with statistics."""

U32, U64 = struct.Struct("=I"), struct.Struct("=Q")
NO_PACING_RATE = (1 << 64) - 1
NO_MIN_RTT = (1 << 32) - 1
TCP_INFO_U32 = {
    "snd_mss": 16,
    "lost": 32,
    "rtt": 68,
    "rttvar": 72,
    "congestion_window": 80,
    "retransmits": 100,
}
"""Field → offset in struct tcp_info of a __u32 that exists since Linux 2.6."""
MIN_TCP_INFO_BYTES = 104
"""Bytes of struct tcp_info up to those fields."""
TCP_INFO_U64 = {
    "pacing_rate": 104, "bytes_acked": 120, "bytes_received": 128, "delivery_rate": 160,
    "busy_time": 168, "window_limited": 176, "buffer_limited": 184, "bytes_retransmitted": 208,
}  # fmt: skip
"""Field → offset of a __u64 that was added later."""
TCP_INFO_MIN_RTT, TCP_INFO_SND_WND = 148, 228


class SocketDiagnosis:
    """A netlink socket for dumps, opened with the first one. `proc`: where procfs is mounted."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._netlink: netlink.NetlinkSocket | None = None

    def read(
        self, pids: Iterable[int], port: int, last: int = 0
    ) -> tuple[list[SocketFields], dict[str, str] | None]:
        """(connections of `pids` with `port`, or one up to `last`, at either end, by inode;
        fields of `records.Unreadable` when they could not be read). Listening sockets are not
        included. Never raises OSError."""
        inodes = {inode for pid in pids for inode in read_socket_inodes(pid, self._proc)}
        if not inodes:
            return [], None
        found: dict[int, SocketFields] = {}
        try:
            if self._netlink is None:
                self._netlink = netlink.NetlinkSocket(NETLINK_SOCK_DIAG, timeout=1.0)
            for family in (socket.AF_INET, socket.AF_INET6):
                for _, body in self._netlink.dump(
                    SOCK_DIAG_BY_FAMILY, dump_request(family, port, last)
                ):
                    fields = parse_socket(body)
                    if fields is not None and fields["inode"] in inodes:
                        found[fields["inode"]] = fields
        except OSError as error:
            self.close()
            error_number = error.errno or 0
            reason = reasons.REASONS.get(error_number, "failed")
            return [], {"reason": reason, "detail": f"sock_diag: {reasons.name(error_number)}"}
        return [found[inode] for inode in sorted(found)], None

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None


def read_socket_inodes(pid: int, proc: str = "/proc") -> set[int]:
    """Inodes of the sockets that a process has open; empty when it has ended or belongs to another
    user."""
    folder = f"{proc}/{pid}/fd"
    inodes = set()
    try:
        for name in os.listdir(folder):
            try:
                target = os.readlink(f"{folder}/{name}")
            except OSError:
                continue  # closed meanwhile
            inode = parse_socket_link(target)
            if inode:
                inodes.add(inode)
    except OSError:
        pass
    return inodes


def parse_socket_link(target: str) -> int:
    """``socket:[4711]`` → 4711; 0 for other descriptors."""
    digits = target[8:-1]
    if (
        not target.startswith("socket:[")
        or not target.endswith("]")
        or not is_ascii(digits)
        or not digits.isdigit()
    ):
        return 0
    return int(digits)


def dump_request(family: int, port: int, last: int = 0) -> bytes:
    """Payload of SOCK_DIAG_BY_FAMILY: TCP sockets of one family whose source or destination port is
    `port`, or one up to `last`.

    The filter is S_GE and S_LE, or D_GE and D_LE; comparison for equality exists since Linux 4.16
    only. A jump to the end of the program accepts, 4 bytes further rejects. The kernel allows `no`
    only to go where a chain of `yes` leads, hence JMP.
    """
    operation = INET_DIAG_BC_OP.pack
    first, end = operation(0, 0, port), operation(0, 0, max(port, last))
    program = (
        operation(INET_DIAG_BC_S_GE, 8, 20) + first
        + operation(INET_DIAG_BC_S_LE, 8, 12) + end
        + operation(INET_DIAG_BC_JMP, 4, 20)
        + operation(INET_DIAG_BC_D_GE, 8, 20) + first
        + operation(INET_DIAG_BC_D_LE, 8, 12) + end
    )  # fmt: skip
    extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1)
    request = INET_DIAG_REQ_V2.pack(family, socket.IPPROTO_TCP, extensions, STATE_MASK)
    return request + netlink.pack_attribute(INET_DIAG_REQ_BYTECODE, program)


def parse_socket(body: bytes) -> SocketFields | None:
    """Fields of `records.TrafficSocket` from a struct inet_diag_msg with attributes; None without
    statistics."""
    if len(body) < INET_DIAG_MSG.size:
        return None
    family, state, _, _, source_port, port, source, destination, _, inode = (
        INET_DIAG_MSG.unpack_from(body)
    )
    attributes = dict(netlink.iter_attributes(body[INET_DIAG_MSG.size :]))
    fields = parse_tcp_info(attributes.get(INET_DIAG_INFO, b""))
    if fields is None or family not in (socket.AF_INET, socket.AF_INET6):
        return None
    return {
        "inode": inode,
        "state": TCP_STATES[state] if state < len(TCP_STATES) else f"state {state}",
        "local": parse_address(family, source),
        "local_port": int.from_bytes(source_port, "big"),
        "remote": parse_address(family, destination),
        "remote_port": int.from_bytes(port, "big"),
        "congestion_control": netlink.text(attributes.get(INET_DIAG_CONG, b"")),
        **fields,
    }


def parse_address(family: int, packed: bytes) -> str:
    """16 bytes of struct inet_diag_sockid; IPv4-mapped addresses become IPv4."""
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, packed[:4])
    if packed[:12] == bytes(10) + b"\xff\xff":
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)


def parse_tcp_info(data: bytes) -> SocketFields | None:
    """Fields from struct tcp_info, also of getsockopt(TCP_INFO); None when it is too short."""
    if len(data) < MIN_TCP_INFO_BYTES:
        return None
    fields: SocketFields = {
        name: U32.unpack_from(data, offset)[0] for name, offset in TCP_INFO_U32.items()
    }
    for name, offset in TCP_INFO_U64.items():
        fields[name] = U64.unpack_from(data, offset)[0] if len(data) >= offset + 8 else None
    if fields["pacing_rate"] == NO_PACING_RATE:
        fields["pacing_rate"] = None
    min_rtt = (
        U32.unpack_from(data, TCP_INFO_MIN_RTT)[0]
        if len(data) >= TCP_INFO_MIN_RTT + 4
        else NO_MIN_RTT
    )
    fields["minimum_rtt"] = None if min_rtt == NO_MIN_RTT else min_rtt
    fields["send_window"] = (
        U32.unpack_from(data, TCP_INFO_SND_WND)[0] if len(data) >= TCP_INFO_SND_WND + 4 else None
    )
    return fields
