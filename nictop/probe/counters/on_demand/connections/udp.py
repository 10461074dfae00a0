"""UDP sockets: the kernel counts no bytes per socket, only what waits in its queues and what was
dropped there.

sock_diag with INET_DIAG_SKMEMINFO (linux/sock_diag.h).
"""

from __future__ import annotations

import socket
import struct
from functools import partial
from operator import itemgetter

from nictop.probe.counters.on_demand.connections.dump import BODY_BYTES, FAMILIES, QUEUES, Message
from nictop.probe.counters.on_demand.connections.paths import BOTH, PATH, UNDECIDED
from nictop.probe.kernel import netlink
from nictop.probe.traffic import sock_diag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.probe.counters.on_demand.connections.dump import Fields, SocketDump
    from nictop.probe.counters.on_demand.connections.paths import Paths

MAX_ROWS = 30
"""Sockets in one record."""
INET_DIAG_SKMEMINFO = 7
DROPS = struct.Struct("=32xI")
"""SK_MEMINFO_DROPS, number 8 of the array of __u32."""
STATES = {1: "established", 7: "close"}
STATE_MASK = 1 << 1 | 1 << 7


class UdpReader:
    """Reads the UDP sockets that use, or may use, the links of `paths`."""

    def __init__(self, dump: SocketDump, paths: Paths) -> None:
        self._dump, self._paths = dump, paths
        self._drops: dict[bytes, int] | None = None
        """Cookie → packets dropped until the previous reading; None: there was none."""

    def forget(self) -> None:
        """The next reading is a first one."""
        self._drops = None

    def read(self, result: Fields, now: float) -> list[Fields]:
        """Fields of `records.Connection`: sockets that drop packets, then those with packets
        waiting, those with an address of the links, those with any address; adds their number to
        `result`. Raises OSError."""
        before, self._drops = self._drops, None
        messages: list[Message] = []
        for family in FAMILIES:
            use = partial(_collect, messages, family)
            self._dump.read(family, socket.IPPROTO_UDP, INET_DIAG_SKMEMINFO, STATE_MASK, use)
        self._paths.look_up(
            (one.path for one in messages if self._direction(one) == UNDECIDED), now
        )
        drops: dict[bytes, int] = {}
        found = []
        for message in messages:
            if self._direction(message) & BOTH:
                dropped = None
                lost = parse_drops(message.attributes().get(INET_DIAG_SKMEMINFO, b""))
                if lost is not None:
                    drops[message.cookie] = lost
                    dropped = (
                        max(0, lost - before.get(message.cookie, 0)) if before is not None else None
                    )
                waiting = QUEUES.unpack_from(
                    message.data, message.start + BODY_BYTES - QUEUES.size
                )[0]
                found.append(
                    ((-(dropped or 0), -waiting, is_any_address(message)), message, lost, dropped)
                )
        self._drops = drops
        result["udp"] = len(found)
        found.sort(key=itemgetter(0))
        return [self._row(*one[1:]) for one in found[:MAX_ROWS]]

    def _direction(self, message: Message) -> int:
        if is_any_address(message):
            device = PATH.unpack(message.path[1])[2]
            return BOTH if not device or device in self._paths.links else 0
        return self._paths.direction(*message.path)

    def _row(self, message: Message, lost: int | None, dropped: int | None) -> Fields:
        row = message.fields(message.attributes())
        row["protocol"], row["state"] = "udp", STATES.get(message.data[message.start + 1], "close")
        if not is_any_address(message):
            self._paths.describe(row, message.path)
        if lost is not None:
            row["drops"] = lost
        if dropped is not None:
            row["dropped"] = dropped
        return row


def is_any_address(message: Message) -> bool:
    """Its local address is 0.0.0.0 or ``::``."""
    return not any(message.path[1][:16])


def parse_drops(memory: bytes) -> int | None:
    """SK_MEMINFO_DROPS of INET_DIAG_SKMEMINFO; None: the kernel has none (before Linux 4.7)."""
    return int(DROPS.unpack_from(memory)[0]) if len(memory) >= DROPS.size else None


def _collect(messages: list[Message], family: int, data: bytes, sequence: int) -> bool:
    """Add the messages of one datagram; whether it was the last one. Raises OSError."""
    for kind, flags, number, start, end in netlink.messages(data):
        if number != sequence:
            continue
        if kind in (netlink.NLMSG_ERROR, netlink.NLMSG_DONE):
            netlink.raise_error(data, kind, flags, start, end)
            return True
        if kind == sock_diag.SOCK_DIAG_BY_FAMILY and end - start >= BODY_BYTES:
            messages.append(Message(data, start, end, family))
    return False
