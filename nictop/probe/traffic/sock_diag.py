"""TCP sockets of given processes as the kernel sees them: netlink sock_diag, INET_DIAG_INFO.

Reads /proc/PID/fd for the sockets that a process has open, and dumps (SOCK_DIAG_BY_FAMILY, IPv4 and IPv6) the TCP
sockets at one port, filtered by the kernel, so that the cost does not grow with the other connections of the host.
Yields dictionaries in the fields of `records.TrafficSocket` (not the class: the probe itself would need
`dataclasses`). Layouts: linux/inet_diag.h, linux/tcp.h; a field that the kernel is too old for is None.
"""

from __future__ import annotations

import os
import socket
import struct

from nictop.probe.kernel import errno_reasons as reasons
from nictop.probe.kernel import netlink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Fields = dict[str, Any]

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
INET_DIAG_REQ_BYTECODE = 1
INET_DIAG_INFO, INET_DIAG_CONG = 2, 4

REQUEST = struct.Struct("=BBBxI48x")
"""struct inet_diag_req_v2: family, protocol, extensions (bit n - 1 asks for INET_DIAG_n), states; no socket id."""
MESSAGE = struct.Struct("=BBBB 2s2s16s16s 12x 4x4x4x I I")
"""struct inet_diag_msg: family, state, timer, retransmissions; id: source port, destination port (network order),
source, destination; then expires, queues, uid and inode."""
OPERATION = struct.Struct("=BBH")
"""struct inet_diag_bc_op: code, where to go when true, when false (bytes from here)."""
JMP, S_GE, S_LE, D_GE, D_LE = 1, 2, 3, 4, 5

STATES = (
    "",
    "established",
    "syn-sent",
    "syn-recv",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "close",
    "close-wait",
    "last-ack",
    "listen",
    "closing",
)
"""Words of ss by TCP_* number."""
WANTED = sum(1 << STATES.index(word) for word in STATES if word not in ("", "syn-recv", "time-wait", "listen"))
"""Those that can have a process and figures."""

U32, U64 = struct.Struct("=I"), struct.Struct("=Q")
UNLIMITED = (1 << 64) - 1
NEVER_MEASURED = (1 << 32) - 1
SMALL = {"snd_mss": 16, "lost": 32, "rtt": 68, "rttvar": 72, "congestion_window": 80, "retransmits": 100}
"""Field → offset in struct tcp_info of a __u32 that has been there since Linux 2.6."""
SHORTEST = 104
"""Bytes of the struct up to there."""
LARGE = {
    "pacing_rate": 104,
    "bytes_acked": 120,
    "bytes_received": 128,
    "delivery_rate": 160,
    "busy_time": 168,
    "window_limited": 176,
    "buffer_limited": 184,
    "bytes_retransmitted": 208,
}
"""Field → offset of a __u64 that came later."""
MINIMUM_RTT, SEND_WINDOW = 148, 228


class SocketDiagnosis:
    """A kept netlink socket for dumps; opened when first needed. `proc` is where procfs stands."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._netlink: netlink.NetlinkSocket | None = None

    def read(self, pids: Iterable[int], port: int) -> tuple[list[Fields], dict[str, str] | None]:
        """The connections of `pids` with `port` at either end, by inode; and why they could not be read, in the fields
        of `records.Unreadable`. Listening sockets are not among them. Never raises OSError."""
        inodes = {inode for pid in pids for inode in read_inodes(pid, self._proc)}
        if not inodes:
            return [], None
        found: dict[int, Fields] = {}
        try:
            if self._netlink is None:
                self._netlink = netlink.NetlinkSocket(NETLINK_SOCK_DIAG, timeout=1.0)
            for family in (socket.AF_INET, socket.AF_INET6):
                for _, body in self._netlink.dump(SOCK_DIAG_BY_FAMILY, dump_request(family, port)):
                    fields = parse_socket(body)
                    if fields is not None and fields["inode"] in inodes:
                        found[fields["inode"]] = fields
        except OSError as error:
            self.close()
            number = error.errno or 0
            reason = reasons.REASONS.get(number, "failed")
            return [], {"reason": reason, "detail": f"sock_diag: {reasons.name(number)}"}
        return [found[inode] for inode in sorted(found)], None

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None


def read_inodes(pid: int, proc: str = "/proc") -> set[int]:
    """Inodes of the sockets that a process has open; empty when it has gone or is somebody else's."""
    folder = f"{proc}/{pid}/fd"
    inodes = set()
    try:
        for name in os.listdir(folder):
            try:
                target = os.readlink(f"{folder}/{name}")
            except OSError:
                continue  # closed meanwhile
            inode = parse_descriptor(target)
            if inode:
                inodes.add(inode)
    except OSError:
        pass
    return inodes


def parse_descriptor(target: str) -> int:
    """``socket:[4711]`` → 4711; 0 for what is no socket."""
    digits = target[8:-1]
    if not target.startswith("socket:[") or not target.endswith("]") or not digits.isascii() or not digits.isdigit():
        return 0
    return int(digits)


def dump_request(family: int, port: int) -> bytes:
    """Payload of SOCK_DIAG_BY_FAMILY: TCP sockets of one family whose source or destination port is `port`.

    The program: S_GE and S_LE, or else D_GE and D_LE; exact comparisons came with Linux 4.16 only. To jump right behind
    the end accepts, 4 bytes further rejects. The kernel lets `no` go only where a chain of `yes` leads, hence JMP.
    """
    operand = OPERATION.pack(0, 0, port)
    program = (
        OPERATION.pack(S_GE, 8, 20) + operand
        + OPERATION.pack(S_LE, 8, 12) + operand
        + OPERATION.pack(JMP, 4, 20)
        + OPERATION.pack(D_GE, 8, 20) + operand
        + OPERATION.pack(D_LE, 8, 12) + operand
    )  # fmt: skip
    extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1)
    request = REQUEST.pack(family, socket.IPPROTO_TCP, extensions, WANTED)
    return request + netlink.pack(INET_DIAG_REQ_BYTECODE, program)


def parse_socket(body: bytes) -> Fields | None:
    """`records.TrafficSocket` of one struct inet_diag_msg with its attributes; None for one without figures."""
    if len(body) < MESSAGE.size:
        return None
    family, state, _, _, source_port, port, source, destination, _, inode = MESSAGE.unpack_from(body)
    attributes = dict(netlink.iterate(body[MESSAGE.size :]))
    figures = parse_information(attributes.get(INET_DIAG_INFO, b""))
    if figures is None or family not in (socket.AF_INET, socket.AF_INET6):
        return None
    return {
        "inode": inode,
        "state": STATES[state] if state < len(STATES) else f"state {state}",
        "local": parse_address(family, source),
        "local_port": int.from_bytes(source_port, "big"),
        "remote": parse_address(family, destination),
        "remote_port": int.from_bytes(port, "big"),
        "congestion_control": netlink.text(attributes.get(INET_DIAG_CONG, b"")),
        **figures,
    }


def parse_address(family: int, packed: bytes) -> str:
    """16 bytes of struct inet_diag_sockid; an IPv4-mapped address becomes the IPv4 one."""
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, packed[:4])
    if packed[:12] == bytes(10) + b"\xff\xff":
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)


def parse_information(data: bytes) -> Fields | None:
    """The figures of struct tcp_info, also from getsockopt(TCP_INFO); None when it is too short to have any."""
    if len(data) < SHORTEST:
        return None
    figures: Fields = {name: U32.unpack_from(data, offset)[0] for name, offset in SMALL.items()}
    for name, offset in LARGE.items():
        figures[name] = U64.unpack_from(data, offset)[0] if len(data) >= offset + 8 else None
    if figures["pacing_rate"] == UNLIMITED:
        figures["pacing_rate"] = None
    measured = U32.unpack_from(data, MINIMUM_RTT)[0] if len(data) >= MINIMUM_RTT + 4 else NEVER_MEASURED
    figures["minimum_rtt"] = None if measured == NEVER_MEASURED else measured
    figures["send_window"] = U32.unpack_from(data, SEND_WINDOW)[0] if len(data) >= SEND_WINDOW + 4 else None
    return figures
