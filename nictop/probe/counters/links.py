"""Traffic counters of every link: rtnetlink RTM_GETSTATS (IFLA_STATS_LINK_64), one dump per pass.

Kernels before 4.7 have no RTM_GETSTATS: there the same numbers come with a whole RTM_GETLINK dump (IFLA_STATS64).
The request and the receive buffer are made once, and every request carries the same sequence number: an answer in which
nothing moved is the same bytes again and is recognised as such.
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
COLUMNS = 25
"""Length of `records.LINK_COUNTERS`; a later kernel may append columns."""
COUNTERS = tuple(struct.Struct(f"={count}Q") for count in range(COLUMNS + 1))
"""struct rtnl_link_stats64 in each length that a kernel may send."""

SEQUENCE = 1
"""Of every request. The socket hears nobody but the kernel, and is given up when an answer was not read to its end: so
there is never an answer to an older request in it."""
ATTEMPTS = 3

STATS_REQUEST = STATS_MESSAGE.pack(0, 0, 1 << (IFLA_STATS_LINK_64 - 1))
LINK_REQUEST = IFINFOMSG.pack(0, 0, 0, 0, 0)
DONE = 1 << 16
"""Above the 16 flag bits of a netlink message: the dump has ended."""

NOT_KNOWN = (errno.EOPNOTSUPP, errno.EINVAL)
"""What a kernel without RTM_GETSTATS answers."""

Links = dict[int, tuple[int, ...]]
Datagram = tuple[bytes, Links, int]
"""A datagram, the links in it, and the message flags in it with `DONE`."""


class MessageLayout:
    """How messages of one length are taken apart, a whole datagram in two walks that C makes.

    `length` is 32 and eight for each counter: 25 of them since Linux 5.19 (with rx_otherhost_dropped), 24 before.
    `heads` yields what must be `head`, the ifindex, and what must be `attribute`; `counters` the numbers.
    """

    def __init__(self, length: int) -> None:
        size = length - netlink.HEADER.size - STATS_MESSAGE.size
        columns = (size - netlink.ATTRIBUTE.size) >> 3
        known = min(columns, COLUMNS)
        self.length = length
        self.head = struct.pack("=IHHI", length, RTM_NEWSTATS, netlink.NLM_F_MULTI, SEQUENCE)
        self.attribute = netlink.ATTRIBUTE.pack(size, IFLA_STATS_LINK_64)
        self.heads = struct.Struct(f"=12s8xI4x4s{8 * columns}x").iter_unpack
        self.counters = struct.Struct(f"=32x{known}Q{8 * (columns - known)}x").iter_unpack


LAYOUTS: dict[bytes, MessageLayout] = {}
"""By the first word of a message, its length; `LENGTHS` bounds them."""
LENGTHS = range(netlink.HEADER.size + STATS_MESSAGE.size + netlink.ATTRIBUTE.size + 8, 512, 8)


class LinksIncomplete(netlink.DumpInterrupted):
    """Links came and went faster than they could be listed: some may be missing in `links`."""

    def __init__(self, links: Links) -> None:
        super().__init__()
        self.links = links


class LinkCounterReader:
    """Reads the counters of all links of the network namespace it was made in."""

    def __init__(self) -> None:
        self._netlink: netlink.NetlinkSocket | None = None
        self._buffer = bytearray(netlink.RECEIVE_BUFFER)
        self._last: list[Datagram] = []
        self.kernel_has_stats = True
        """False once the kernel has refused RTM_GETSTATS."""

    def read(self) -> Links:
        """ifindex → counters in the order of `records.LINK_COUNTERS`. Not to be written to: the next pass may yield
        the same object.

        Raises OSError: the kernel's refusal, or `LinksIncomplete`.
        """
        links: Links = {}
        for _ in range(ATTEMPTS):
            try:
                links, flags = self._read_stats() if self.kernel_has_stats else self._read_links()
            except netlink.NetlinkError as error:
                if not (self.kernel_has_stats and error.errno in NOT_KNOWN):
                    self.close()
                    raise
                self.kernel_has_stats = False
                continue
            except OSError as error:
                self.close()  # what is left in the socket belongs to no later pass
                if isinstance(error, BlockingIOError):
                    raise netlink.NetlinkError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error
                raise
            if not flags & netlink.NLM_F_DUMP_INTR:
                return links
        raise LinksIncomplete(links)

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None

    def forget(self) -> None:
        """Take apart the next answer as if every link in it had moved."""
        self._last = [(b"", {}, 0) if links else (data, links, flags) for data, links, flags in self._last]

    def _read_stats(self) -> tuple[Links, int]:
        if self._netlink is None:
            self._netlink = netlink.NetlinkSocket(netlink.NETLINK_ROUTE)
        socket, buffer, last = self._netlink.socket, self._buffer, self._last
        socket.send(STATS_DUMP)
        links: Links | None = None
        flags = position = 0
        while not flags & DONE:
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

    def _read_links(self) -> tuple[Links, int]:
        if self._netlink is None:
            self._netlink = netlink.NetlinkSocket(netlink.NETLINK_ROUTE)
        socket = self._netlink.socket
        socket.send(LINK_DUMP)
        links: Links = {}
        seen = 0
        while True:
            data = socket.recv(netlink.RECEIVE_BUFFER)
            for kind, flags, sequence, start, end in netlink.messages(data):
                if sequence != SEQUENCE:
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
    """A whole message that asks for a dump."""
    flags = netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP
    return netlink.HEADER.pack(netlink.HEADER.size + len(body), kind, flags, SEQUENCE, 0) + body


STATS_DUMP = dump_request(RTM_GETSTATS, STATS_REQUEST)
LINK_DUMP = dump_request(RTM_GETLINK, LINK_REQUEST)


def parse_stats(data: bytes, links: Links) -> int:
    """Put every RTM_NEWSTATS of a datagram that answers `SEQUENCE` into `links`.

    Returns the message flags seen, with `DONE` when the dump has ended; raises NetlinkError with the kernel's refusal.
    A message that does not fit ends the walk; one without counters is skipped.
    """
    layout = LAYOUTS.get(data[:4])
    if layout is None:
        length = int.from_bytes(data[:4], sys.byteorder)
        if length not in LENGTHS or length > len(data):
            return _parse_one_by_one(data, links)
        layout = LAYOUTS[data[:4]] = MessageLayout(length)
    usual = len(data) - len(data) % layout.length
    head, attribute = layout.head, layout.attribute
    whole = data if usual == len(data) else data[:usual]
    for (said, ifindex, kind), numbers in zip(layout.heads(whole), layout.counters(whole)):
        if said != head or kind != attribute:
            return _parse_one_by_one(data, links)
        links[ifindex] = numbers
    if usual == len(data):
        return netlink.NLM_F_MULTI
    return netlink.NLM_F_MULTI | _parse_one_by_one(data[usual:], links)


def _parse_one_by_one(data: bytes, links: Links) -> int:
    """The end of the dump, an error, a dump that a change interrupts, another length of the counters (older and later
    kernels), or a padding attribute ahead of them (machines that must align 64-bit numbers)."""
    seen = 0
    for kind, flags, number, start, end in netlink.messages(data):
        if number != SEQUENCE:
            continue
        seen |= flags
        if kind in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
            netlink.raise_error(data, kind, flags, start, end)
            return seen | DONE
        if kind == RTM_NEWSTATS and end - start >= STATS_MESSAGE.size:
            ifindex = STATS_MESSAGE.unpack_from(data, start)[1]
            attributes = dict(netlink.iterate(data[start + STATS_MESSAGE.size : end]))
            value = attributes.get(IFLA_STATS_LINK_64, b"")
            if len(value) >= 8:
                links[ifindex] = COUNTERS[min(len(value) >> 3, COLUMNS)].unpack_from(value)
    return seen


def parse_link_statistics(body: bytes) -> tuple[int, tuple[int, ...]] | None:
    """ifindex and IFLA_STATS64 of one RTM_NEWLINK message; None when it carries none."""
    if len(body) < IFINFOMSG.size:
        return None
    ifindex = IFINFOMSG.unpack_from(body)[2]
    value = dict(netlink.iterate(body[IFINFOMSG.size :])).get(IFLA_STATS64, b"")
    if ifindex <= 0 or len(value) < 8:
        return None
    return ifindex, COUNTERS[min(len(value) >> 3, COLUMNS)].unpack_from(value)
