"""TCP connections with the bytes that each has transferred since the previous reading: sock_diag with INET_DIAG_INFO.

All connections are compared with the previous reading by their cookie, which costs little more than the dump; only the
busiest are parsed. Kernels before 4.19 have a shorter struct tcp_info: what is missing there is unknown.
"""

from __future__ import annotations

import heapq
import socket
import struct
from functools import partial
from operator import itemgetter

from nictop.probe.counters.on_demand.connections.dump import (
    BODY_BYTES,
    COOKIE_OFFSET,
    END_OF_COOKIE,
    FAMILIES,
    PATH_OFFSET,
    Message,
)
from nictop.probe.counters.on_demand.connections.paths import BOTH, LOOKUPS_PER_READING, RX, TX, UNDECIDED
from nictop.probe.kernel import netlink
from nictop.probe.traffic import sock_diag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.probe.counters.on_demand.connections.dump import Fields, SocketDump
    from nictop.probe.counters.on_demand.connections.paths import Paths

    Active = tuple[int, int, int, Message, bytes]
    """Bytes in both directions, sent, received; since the previous reading, or in the first one since the connection
    was made; its message and counters."""

MAX_ROWS = 100
"""Connections in one record."""
MAX_LAYOUTS = 256

COUNTERS_OFFSET, END_OF_COUNTERS = 100, 216
"""In struct tcp_info: tcpi_total_retrans to tcpi_bytes_retrans."""
RETRANSMITS = struct.Struct("=I")
"""tcpi_total_retrans, at the beginning of these counters."""
BYTES_OFFSET, BYTES = 120 - COUNTERS_OFFSET, struct.Struct("=QQ")
"""tcpi_bytes_acked, tcpi_bytes_received."""
TIMES_OFFSET, TIMES = 168 - COUNTERS_OFFSET, struct.Struct("=QQQ")
"""tcpi_busy_time, tcpi_rwnd_limited, tcpi_sndbuf_limited."""
BYTES_END, TIMES_END = BYTES_OFFSET + BYTES.size, TIMES_OFFSET + TIMES.size


class TcpReading:
    """What one reading has found."""

    def __init__(self, before: dict[bytes, bytes] | None) -> None:
        self.before = before
        """Cookie → counters of the previous reading; None: this is the first one."""
        self.counters: dict[bytes, bytes] = {}
        """The same of this one."""
        self.active: list[Active] = []
        """Connections that have transferred something; in the first reading all."""
        self.idle: list[Active] = []
        """As many others on the links as there may be rows."""
        self.undecided: list[Active] = []
        """Those of the others that may be on the links, as many as can be looked up."""
        self.number = self.started = 0
        """Connections on the links; those of them that the previous reading did not have."""


class TcpReader:
    """Reads the TCP connections that use the links of `paths`."""

    def __init__(self, dump: SocketDump, paths: Paths) -> None:
        self._dump, self._paths = dump, paths
        self._before: TcpReading | None = None
        self._layouts: dict[int, tuple[bytes, int, int, int]] = {}
        """Length of a message → header of its attribute INET_DIAG_INFO, offsets of that header and of the first and
        last byte of the counters; b"": it has none."""

    def forget(self) -> None:
        """The next reading is a first one."""
        self._before = None

    def read(self, result: Fields, now: float) -> list[Fields]:
        """Fields of `records.Connection`, the busiest first; adds numbers and sums to `result`. Raises OSError."""
        before = self._before
        self._before = None  # after an error the next reading is a first one
        reading = TcpReading(before.counters if before is not None else None)
        for family in FAMILIES:
            use = partial(self._walk, reading, family)
            self._dump.read(family, socket.IPPROTO_TCP, sock_diag.INET_DIAG_INFO, sock_diag.STATE_MASK, use)
        busiest = heapq.nlargest(LOOKUPS_PER_READING, reading.active, key=itemgetter(0))
        self._paths.look_up((one[3].path for one in busiest + reading.undecided), now)
        sent = received = 0
        carried = []
        for one in reading.active + reading.undecided:
            direction = self._paths.direction(*one[3].path)
            if direction & BOTH:
                carried.append(one)
                sent += one[1] if direction & TX else 0
                received += one[2] if direction & RX else 0
                reading.started += reading.before is not None and one[3].cookie not in reading.before
        reading.number += len(carried)
        result["tcp"] = reading.number
        if before is not None:
            result["ended"] = max(0, before.number + reading.started - reading.number)
            counts_bytes = any(len(counters) >= BYTES_END for counters in reading.counters.values())
            if counts_bytes or not reading.counters:
                result["sent"], result["received"] = sent, received
        rows = heapq.nlargest(MAX_ROWS, carried, key=itemgetter(0))
        rows += reading.idle[: MAX_ROWS - len(rows)]
        self._before = reading
        return [self._row(one, reading.before) for one in rows]

    def _walk(self, reading: TcpReading, family: int, data: bytes, sequence: int) -> bool:
        """Compare the connections in one datagram; whether it was the last one. Raises OSError."""
        before, counters_now, directions = reading.before, reading.counters, self._paths.directions[family]
        layouts, unpack_header, unpack_bytes = self._layouts, netlink.HEADER.unpack_from, BYTES.unpack_from
        offset, size = 0, len(data)
        while offset + 16 <= size:
            length, kind, flags, number, _ = unpack_header(data, offset)
            start, end = offset + 16, offset + length
            if length < 16 or end > size:
                break
            offset += (length + 3) & ~3
            if number != sequence:
                continue
            if kind != sock_diag.SOCK_DIAG_BY_FAMILY:
                if kind in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
                    netlink.raise_error(data, kind, flags, start, end)
                    return True
                continue
            if length < 16 + BODY_BYTES:
                continue
            layout = layouts.get(length)
            if layout is None or not data.startswith(layout[0], start + layout[1]):
                layout = self._layout(data, start, end)
            counters = data[start + layout[2] : start + layout[3]]
            cookie = data[start + COOKIE_OFFSET : start + END_OF_COOKIE]
            counters_now[cookie] = counters
            path = data[start + PATH_OFFSET : start + COOKIE_OFFSET]
            direction = directions.get(path)
            if direction is None:
                direction = self._paths.direction(family, path)
            sent, received, old = 0, 0, None
            if before is not None:
                old = before.get(cookie)
                if len(counters) >= BYTES_END and counters != old:
                    sent, received = unpack_bytes(counters, BYTES_OFFSET)
                    if old is not None and len(old) >= BYTES_END:
                        old_sent, old_received = unpack_bytes(old, BYTES_OFFSET)
                        sent, received = max(0, sent - old_sent), max(0, received - old_received)
            elif len(counters) >= BYTES_END:
                sent, received = unpack_bytes(counters, BYTES_OFFSET)
            if sent or received:
                reading.active.append((sent + received, sent, received, Message(data, start, end, family), counters))
            elif direction & BOTH:
                reading.number += 1
                reading.started += before is not None and old is None
                if len(reading.idle) < MAX_ROWS:
                    reading.idle.append((0, 0, 0, Message(data, start, end, family), counters))
            elif direction == UNDECIDED and len(reading.undecided) < LOOKUPS_PER_READING:
                reading.undecided.append((0, 0, 0, Message(data, start, end, family), counters))
        return False

    def _layout(self, data: bytes, start: int, end: int) -> tuple[bytes, int, int, int]:
        """See `_layouts`."""
        found = (b"", 0, 0, 0)
        offset = start + BODY_BYTES
        while offset + 4 <= end:
            length, kind = netlink.ATTRIBUTE.unpack_from(data, offset)
            if length < 4 or offset + length > end:
                break
            if kind & netlink.NLA_TYPE_MASK == sock_diag.INET_DIAG_INFO:
                first = offset + 4 - start
                last = first + min(length - 4, END_OF_COUNTERS)
                found = (data[offset : offset + 4], offset - start, first + COUNTERS_OFFSET, last)
                break
            offset += (length + 3) & ~3
        if len(self._layouts) >= MAX_LAYOUTS:
            self._layouts.clear()
        self._layouts[end - start + 16] = found
        return found

    def _row(self, one: Active, before: dict[bytes, bytes] | None) -> Fields:
        _, sent, received, message, counters = one
        attributes = message.attributes()
        row = message.fields(attributes)
        state = message.data[message.start + 1]
        row["protocol"] = "tcp"
        row["state"] = sock_diag.TCP_STATES[state] if state < len(sock_diag.TCP_STATES) else f"state {state}"
        self._paths.describe(row, message.path)
        information = sock_diag.parse_tcp_info(attributes.get(sock_diag.INET_DIAG_INFO, b""))
        if information is not None:
            row["send_mss"] = information["snd_mss"]
            for name in ("rtt", "congestion_window", "retransmits", "bytes_acked", "bytes_received", "minimum_rtt"):
                if information[name] is not None:
                    row[name] = information[name]
        if before is None:
            return row
        if len(counters) >= BYTES_END:
            row["sent"], row["received"] = sent, received
        old = before.get(message.cookie)
        if old is None:
            old = bytes(len(counters))  # the connection is new: everything since it was made
        if len(counters) >= RETRANSMITS.size <= len(old):
            row["retransmitted"] = max(0, RETRANSMITS.unpack_from(counters)[0] - RETRANSMITS.unpack_from(old)[0])
        if len(counters) >= TIMES_END <= len(old):
            times = zip(TIMES.unpack_from(counters, TIMES_OFFSET), TIMES.unpack_from(old, TIMES_OFFSET))
            names = ("busy_time", "window_limited", "buffer_limited")
            row.update((name, max(0, now - then)) for name, (now, then) in zip(names, times))
        return row
