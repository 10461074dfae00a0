"""TCP connections with the bytes that each has transferred since the previous reading: sock_diag
with INET_DIAG_INFO.

All connections are compared with the previous reading by their cookie, which costs little more than
the dump; only the busiest are parsed. Kernels before 4.19 have a shorter struct tcp_info: what is
missing there is unknown.
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
from nictop.probe.counters.on_demand.connections.paths import (
    BOTH,
    LOOKUPS_PER_READING,
    RX,
    TX,
    UNDECIDED,
)
from nictop.probe.kernel import netlink
from nictop.probe.traffic import sock_diag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.probe.counters.on_demand.connections.dump import Fields, SocketDump
    from nictop.probe.counters.on_demand.connections.paths import Paths

    Found = tuple[int, int, int, int, bytes, int, int, int]
    """One connection: bytes in both directions, sent, received, since the previous reading, or in
    the first one since the connection was made; direction as in `paths`; datagram, start and end of
    the message in it, family."""

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
        self.active: list[Found] = []
        """Connections that have transferred something, on the links or not; in the first reading
        since they were made."""
        self.idle: list[Found] = []
        """As many others on the links as there may be rows."""
        self.undecided: list[Found] = []
        """Those of the others that may be on the links, as many as can be looked up."""
        self.number = self.started = self.sent = self.received = 0
        """Connections on the links; those of them that the previous reading did not have; their
        bytes."""

    def count(self, one: Found, direction: int, sign: int) -> None:
        """Count a connection with this direction, or (`sign` -1) do so no longer."""
        if direction & BOTH:
            self.number += sign
            self.sent += sign * one[1] if direction & TX else 0
            self.received += sign * one[2] if direction & RX else 0
            if self.before is not None and message_of(one).cookie not in self.before:
                self.started += sign

    @property
    def has_bytes(self) -> bool:
        """The kernel counts bytes of connections; True also if there are no connections."""
        if not self.counters:
            return True
        return any(len(counters) >= BYTES_END for counters in self.counters.values())


def message_of(one: Found) -> Message:
    return Message(*one[4:])


class TcpReader:
    """Reads the TCP connections that use the links of `paths`."""

    def __init__(self, dump: SocketDump, paths: Paths) -> None:
        self._dump, self._paths = dump, paths
        self._before: TcpReading | None = None
        self._layouts: dict[int, tuple[bytes, int, int, int]] = {}
        """Length of a message → see `_layout`."""

    def forget(self) -> None:
        """The next reading is a first one."""
        self._before = None

    def read(self, result: Fields, now: float) -> list[Fields]:
        """Fields of `records.Connection`, the busiest first; adds numbers and sums to `result`.
        Raises OSError."""
        before = self._before
        self._before = None  # after an error the next reading is a first one
        reading = TcpReading(before.counters if before is not None else None)
        for family in FAMILIES:
            use = partial(self._walk, reading, family)
            self._dump.read(
                family, socket.IPPROTO_TCP, sock_diag.INET_DIAG_INFO, sock_diag.STATE_MASK, use
            )
        rows = self._rows(reading, now)
        result["tcp"] = reading.number
        if before is not None:
            result["ended"] = max(0, before.number + reading.started - reading.number)
            if reading.has_bytes:
                result["sent"], result["received"] = reading.sent, reading.received
        self._before = reading
        found = [self._row(one, reading) for one in rows]
        reading.before = None  # of two readings ago: not needed any more
        reading.active, reading.idle, reading.undecided = [], [], []
        return found

    def _rows(self, reading: TcpReading, now: float) -> list[Found]:
        """Connections on the links, at most `MAX_ROWS`, the busiest first. Numbers of the reading
        are corrected by the routes that are looked up for it."""
        busiest = heapq.nlargest(LOOKUPS_PER_READING, reading.active, key=itemgetter(0))
        looked_up = [(one, message_of(one).path) for one in busiest + reading.undecided]
        self._paths.look_up((path for _, path in looked_up), now)
        here = []
        for one, path in looked_up:
            direction = self._paths.direction(*path)
            if direction != one[3]:
                reading.count(one, one[3], -1)
                reading.count(one, direction, 1)
            if direction & BOTH:
                here.append(one)
        if len(here) < MAX_ROWS and len(reading.active) > len(busiest):
            known = set(map(id, busiest))
            others = [one for one in reading.active if one[3] & BOTH and id(one) not in known]
            here += heapq.nlargest(MAX_ROWS - len(here), others, key=itemgetter(0))
        rows = heapq.nlargest(MAX_ROWS, here, key=itemgetter(0))
        return rows + reading.idle[: MAX_ROWS - len(rows)]

    def _walk(self, reading: TcpReading, family: int, data: bytes, sequence: int) -> bool:
        """Compare the connections in one datagram; whether it was the last one. Raises OSError.

        Everything that is done for each of many thousand connections is here, without calls where
        possible.
        """
        before, counters_now, active = reading.before, reading.counters, reading.active
        directions = self._paths.directions[family]
        unpack_header, unpack_bytes = netlink.HEADER.unpack_from, BYTES.unpack_from
        number = started = all_sent = all_received = 0
        is_last = False
        offset, size = 0, len(data)
        layout_length, info, info_at, first, last = 0, b"", 0, 0, 0
        while offset + 16 <= size:
            length, kind, flags, answers, _ = unpack_header(data, offset)
            start, end = offset + 16, offset + length
            if length < 16 or end > size:
                break
            offset += (length + 3) & ~3
            if answers != sequence:
                continue
            if kind != sock_diag.SOCK_DIAG_BY_FAMILY:
                if kind in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
                    netlink.raise_error(data, kind, flags, start, end)
                    is_last = True
                    break
                continue
            if length < 16 + BODY_BYTES:
                continue
            if length != layout_length or not data.startswith(info, start + info_at):
                layout_length = length
                info, info_at, first, last = self._layout(data, start, end)
            counters = data[start + first : start + last]
            cookie = data[start + COOKIE_OFFSET : start + END_OF_COOKIE]
            counters_now[cookie] = counters
            path = data[start + PATH_OFFSET : start + COOKIE_OFFSET]
            direction = directions.get(path)
            if direction is None:
                direction = self._paths.direction(family, path)
            sent = received = 0
            old = before.get(cookie) if before is not None else None
            if counters != old and last - first >= BYTES_END:
                sent, received = unpack_bytes(counters, BYTES_OFFSET)
                if old is not None and len(old) >= BYTES_END:
                    old_sent, old_received = unpack_bytes(old, BYTES_OFFSET)
                    sent -= old_sent
                    received -= old_received
            if direction & BOTH:
                number += 1
                if old is None:
                    started += 1
                if direction & TX:
                    all_sent += sent
                if direction & RX:
                    all_received += received
            if sent or received:
                active.append(
                    (sent + received, sent, received, direction, data, start, end, family)
                )
            elif direction & BOTH:
                if len(reading.idle) < MAX_ROWS:
                    reading.idle.append((0, 0, 0, direction, data, start, end, family))
            elif direction == UNDECIDED and len(reading.undecided) < LOOKUPS_PER_READING:
                reading.undecided.append((0, 0, 0, direction, data, start, end, family))
        reading.number += number
        reading.started += started if before is not None else 0
        reading.sent += all_sent
        reading.received += all_received
        return is_last

    def _layout(self, data: bytes, start: int, end: int) -> tuple[bytes, int, int, int]:
        """Header of the attribute INET_DIAG_INFO, offsets of that header and of the first and last
        byte of the counters, from `start`; b"": it has none. The same for all messages of this
        length, with few exceptions."""
        known = self._layouts.get(end - start)
        if known is not None and data.startswith(known[0], start + known[1]):
            return known
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
        self._layouts[end - start] = found
        return found

    def _row(self, one: Found, reading: TcpReading) -> Fields:
        _, sent, received = one[:3]
        message, before = message_of(one), reading.before
        counters = reading.counters[message.cookie]
        attributes = message.attributes()
        row = message.fields(attributes)
        state = message.data[message.start + 1]
        row["protocol"] = "tcp"
        row["state"] = (
            sock_diag.TCP_STATES[state] if state < len(sock_diag.TCP_STATES) else f"state {state}"
        )
        self._paths.describe(row, message.path)
        information = sock_diag.parse_tcp_info(attributes.get(sock_diag.INET_DIAG_INFO, b""))
        if information is not None:
            row["send_mss"] = information["snd_mss"]
            for name in (
                "rtt",
                "congestion_window",
                "retransmits",
                "bytes_acked",
                "bytes_received",
                "minimum_rtt",
            ):
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
            row["retransmitted"] = max(
                0, RETRANSMITS.unpack_from(counters)[0] - RETRANSMITS.unpack_from(old)[0]
            )
        if len(counters) >= TIMES_END <= len(old):
            times = zip(
                TIMES.unpack_from(counters, TIMES_OFFSET), TIMES.unpack_from(old, TIMES_OFFSET)
            )
            names = ("busy_time", "window_limited", "buffer_limited")
            row.update((name, max(0, now - then)) for name, (now, then) in zip(names, times))
        return row
