"""Traffic counters of every link: rtnetlink RTM_GETSTATS (IFLA_STATS_LINK_64), one dump per pass.

Kernels before 4.7 have no RTM_GETSTATS: there the same numbers are taken from a full RTM_GETLINK
dump (IFLA_STATS64). The request and the receive buffer are created once, and every request has the
same sequence number: a datagram in which no counter has changed consists of the same bytes as in
the last pass and is not parsed again.
"""

from __future__ import annotations

import errno
import os
import struct
import sys

from nictop.probe.kernel import netlink
from nictop.probe.kernel.rtnetlink import IFINFOMSG, IFLA_STATS64, RTM_GETLINK, RTM_NEWLINK

RTM_NEWSTATS = 92
RTM_GETSTATS = 94
IFLA_STATS_LINK_64 = 1

STATS_MESSAGE = struct.Struct("=BxxxII")
"""struct if_stats_msg: family, ifindex, filter_mask."""
LINK_COLUMNS = 25
"""Length of `records.LINK_COUNTERS`; a later kernel may append columns."""
LINK_STATS64 = tuple(struct.Struct(f"={count}Q") for count in range(LINK_COLUMNS + 1))
"""struct rtnl_link_stats64, indexed by the number of counters that a kernel version sends."""

DUMP_SEQUENCE = 1
"""Sequence number of every request. The socket receives from the kernel only and is closed when a
reply was not read to its end, so it never contains a reply to an earlier request."""
MAX_DUMP_ATTEMPTS = 3

STATS_REQUEST = STATS_MESSAGE.pack(0, 0, 1 << (IFLA_STATS_LINK_64 - 1))
LINK_REQUEST = IFINFOMSG.pack(0, 0, 0, 0, 0)
DUMP_DONE = 1 << 16
"""Flag above the 16 flag bits of a netlink message: the dump has ended."""

NO_GETSTATS_ERRNOS = (errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of a kernel without RTM_GETSTATS."""

LinkCounters = dict[int, tuple[int, ...]]
Datagram = tuple[bytes, LinkCounters, int]
"""A datagram, the counters parsed from it, and the OR of its message flags and `DUMP_DONE`."""


class StatsLayout:
    """Struct formats for RTM_NEWSTATS messages of one length: a datagram is parsed by two
    iter_unpack calls.

    `length` is 32 bytes plus 8 per counter: 25 counters since Linux 5.19 (with
    rx_otherhost_dropped), 24 before. `heads` yields the bytes to compare with `head`, the ifindex,
    the bytes to compare with `attribute`; `counters` yields the numbers.
    """

    def __init__(self, length: int) -> None:
        size = length - netlink.HEADER.size - STATS_MESSAGE.size
        columns = (size - netlink.ATTRIBUTE.size) >> 3
        known = min(columns, LINK_COLUMNS)
        self.length = length
        self.head = struct.pack("=IHHI", length, RTM_NEWSTATS, netlink.NLM_F_MULTI, DUMP_SEQUENCE)
        self.attribute = netlink.ATTRIBUTE.pack(size, IFLA_STATS_LINK_64)
        self.heads = struct.Struct(f"=12s8xI4x4s{8 * columns}x").iter_unpack
        self.counters = struct.Struct(f"=32x{known}Q{8 * (columns - known)}x").iter_unpack


STATS_LAYOUTS: dict[bytes, StatsLayout] = {}
"""By the length field of a message; at most one for each of `STATS_LENGTHS`."""
STATS_LENGTHS = range(netlink.HEADER.size + STATS_MESSAGE.size + netlink.ATTRIBUTE.size + 8, 512, 8)


class LinksIncomplete(netlink.DumpInterrupted):
    """The list of links changed during each attempt to dump it: `links` may lack some."""

    def __init__(self, links: LinkCounters) -> None:
        super().__init__()
        self.links = links


class LinkCounterReader:
    """Reads the counters of all links in the network namespace in which its first `read` is
    called."""

    def __init__(self) -> None:
        self._netlink: netlink.NetlinkSocket | None = None
        self._buffer = bytearray(netlink.RECEIVE_BUFFER_BYTES)
        self._last: list[Datagram] = []
        self.kernel_has_stats = True
        """False after the kernel has refused RTM_GETSTATS."""

    def read(self) -> LinkCounters:
        """ifindex → counters in the order of `records.LINK_COUNTERS`. Must not be modified: the
        next pass may return the same object.

        Raises OSError: the kernel's error, or `LinksIncomplete`.
        """
        links: LinkCounters = {}
        for _ in range(MAX_DUMP_ATTEMPTS):
            try:
                links, flags = self._read_stats() if self.kernel_has_stats else self._read_links()
            except netlink.NetlinkError as error:
                if not (self.kernel_has_stats and error.errno in NO_GETSTATS_ERRNOS):
                    self.close()
                    raise
                self.kernel_has_stats = False
                continue
            except OSError as error:
                self.close()  # the next pass must not read the rest of this reply
                if isinstance(error, BlockingIOError):
                    raise netlink.NetlinkError(
                        errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)
                    ) from error
                raise
            if not flags & netlink.NLM_F_DUMP_INTR:
                return links
        raise LinksIncomplete(links)

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None

    def drop_cache(self) -> None:
        """Drop the parsed datagrams of the last pass, so that the next pass parses every link (for
        benchmarks)."""
        self._last = [
            (b"", {}, 0) if links else (data, links, flags) for data, links, flags in self._last
        ]

    def _read_stats(self) -> tuple[LinkCounters, int]:
        if self._netlink is None:
            self._netlink = netlink.NetlinkSocket(netlink.NETLINK_ROUTE)
        socket, buffer, last = self._netlink.socket, self._buffer, self._last
        socket.send(STATS_DUMP)
        links: LinkCounters | None = None
        flags = position = 0
        while not flags & DUMP_DONE:
            size = socket.recv_into(buffer)
            if position == len(last):
                last.append((b"", {}, 0))
            data, found, seen = last[position]
            if size != len(data) or not buffer.startswith(data):
                found, data = {}, bytes(buffer[:size])
                seen = parse_stats(data, found)
                last[position] = data, found, seen
            flags |= seen
            position += 1
            if found:
                links = found if links is None else {**links, **found}
        del last[position:]
        return links or {}, flags

    def _read_links(self) -> tuple[LinkCounters, int]:
        if self._netlink is None:
            self._netlink = netlink.NetlinkSocket(netlink.NETLINK_ROUTE)
        socket = self._netlink.socket
        socket.send(LINK_DUMP)
        links: LinkCounters = {}
        seen = 0
        while True:
            data = socket.recv(netlink.RECEIVE_BUFFER_BYTES)
            for kind, flags, sequence, start, end in netlink.messages(data):
                if sequence != DUMP_SEQUENCE:
                    continue
                seen |= flags
                if kind in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
                    netlink.raise_error(data, kind, flags, start, end)
                    return links, seen
                if kind == RTM_NEWLINK:
                    found = parse_link_statistics(data[start:end])
                    if found is not None:
                        links[found[0]] = found[1]


def dump_request(kind: int, body: bytes) -> bytes:
    """A netlink message that requests a dump."""
    flags = netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP
    return (
        netlink.HEADER.pack(netlink.HEADER.size + len(body), kind, flags, DUMP_SEQUENCE, 0) + body
    )


STATS_DUMP = dump_request(RTM_GETSTATS, STATS_REQUEST)
LINK_DUMP = dump_request(RTM_GETLINK, LINK_REQUEST)


def parse_stats(data: bytes, links: LinkCounters) -> int:
    """Add the counters of every RTM_NEWSTATS message with `DUMP_SEQUENCE` in a datagram to `links`.

    Returns the OR of the message flags, with `DUMP_DONE` at the end of the dump. Raises
    NetlinkError with the kernel's error. Parsing stops at a malformed message; messages without
    counters are skipped.
    """
    layout = STATS_LAYOUTS.get(data[:4])
    if layout is None:
        length = int.from_bytes(data[:4], sys.byteorder)
        if length not in STATS_LENGTHS or length > len(data):
            return _parse_messages(data, links)
        layout = STATS_LAYOUTS[data[:4]] = StatsLayout(length)
    usual = len(data) - len(data) % layout.length
    head, attribute = layout.head, layout.attribute
    block = data if usual == len(data) else data[:usual]
    for (start, ifindex, kind), numbers in zip(layout.heads(block), layout.counters(block)):
        if start != head or kind != attribute:
            return _parse_messages(data, links)
        links[ifindex] = numbers
    if usual == len(data):
        return netlink.NLM_F_MULTI
    return netlink.NLM_F_MULTI | _parse_messages(data[usual:], links)


def _parse_messages(data: bytes, links: LinkCounters) -> int:
    """As `parse_stats`, for datagrams with different messages: the end of the dump, an error,
    NLM_F_DUMP_INTR, counters of another length, or a padding attribute before them (on machines
    that align 64-bit numbers)."""
    seen = 0
    for kind, flags, number, start, end in netlink.messages(data):
        if number != DUMP_SEQUENCE:
            continue
        seen |= flags
        if kind in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
            netlink.raise_error(data, kind, flags, start, end)
            return seen | DUMP_DONE
        if kind == RTM_NEWSTATS and end - start >= STATS_MESSAGE.size:
            ifindex = STATS_MESSAGE.unpack_from(data, start)[1]
            attributes = dict(netlink.iter_attributes(data[start + STATS_MESSAGE.size : end]))
            value = attributes.get(IFLA_STATS_LINK_64, b"")
            if len(value) >= 8:
                links[ifindex] = LINK_STATS64[min(len(value) >> 3, LINK_COLUMNS)].unpack_from(value)
    return seen


def parse_link_statistics(body: bytes) -> tuple[int, tuple[int, ...]] | None:
    """ifindex and IFLA_STATS64 of one RTM_NEWLINK message; None without that attribute."""
    if len(body) < IFINFOMSG.size:
        return None
    ifindex = IFINFOMSG.unpack_from(body)[2]
    value = dict(netlink.iter_attributes(body[IFINFOMSG.size :])).get(IFLA_STATS64, b"")
    if ifindex <= 0 or len(value) < 8:
        return None
    return ifindex, LINK_STATS64[min(len(value) >> 3, LINK_COLUMNS)].unpack_from(value)
