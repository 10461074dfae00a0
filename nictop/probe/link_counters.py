"""Traffic counters of every link: rtnetlink RTM_GETSTATS (IFLA_STATS_LINK_64), one dump per pass.

Kernels before 4.7 have no RTM_GETSTATS: there the same numbers come with a whole RTM_GETLINK dump (IFLA_STATS64).
The request and the receive buffer are made once; a pass is one send, one or two receives and two unpacks per link.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

from nictop.probe import netlink

RTM_NEWLINK = 16
RTM_GETLINK = 18
RTM_NEWSTATS = 92
RTM_GETSTATS = 94
IFLA_STATS64 = 23
IFLA_STATS_LINK_64 = 1

STATS_MESSAGE = struct.Struct("=BxxxII")
"""struct if_stats_msg: family, ifindex, filter_mask."""
LINK_MESSAGE = struct.Struct("=BxHiII")
"""struct ifinfomsg: family, type, ifindex, flags, change."""
COLUMNS = 25
"""Length of `records.LINK_COUNTERS`; a later kernel may append columns."""
COUNTERS = tuple(struct.Struct(f"={count}Q") for count in range(COLUMNS + 1))
"""struct rtnl_link_stats64 in each length that a kernel may send."""

STATS_HEAD = struct.Struct("=IHHI4x4xIxxxxHH")
"""struct nlmsghdr (length, type, flags, sequence), ifindex of if_stats_msg, first attribute (length, type)."""
FIRST_ATTRIBUTE = netlink.HEADER.size + STATS_MESSAGE.size
USUAL_LENGTH = STATS_HEAD.size + 8 * COLUMNS
"""Bytes of a message as Linux has sent it since 5.19 (with rx_otherhost_dropped)."""
ATTEMPTS = 3

NOT_KNOWN = (errno.EOPNOTSUPP, errno.EINVAL)
"""What a kernel without RTM_GETSTATS answers."""

Links = dict[int, tuple[int, ...]]


class LinkCounterReader:
    """Reads the counters of all links of the network namespace it was made in."""

    def __init__(self) -> None:
        self._netlink: netlink.NetlinkSocket | None = None
        self._sequence = 0
        self._buffer = bytearray(netlink.RECEIVE_BUFFER)
        self._request = bytearray(netlink.HEADER.size + STATS_MESSAGE.size)
        self.kernel_has_stats = True
        """False once the kernel has refused RTM_GETSTATS."""

    def read(self) -> Links:
        """ifindex → counters in the order of `records.LINK_COUNTERS`.

        Raises OSError: the kernel's refusal, or EINTR when links come and go faster than they can be listed.
        """
        for _ in range(ATTEMPTS):
            try:
                links, interrupted = self._read_stats() if self.kernel_has_stats else self._read_links()
            except netlink.NetlinkError as error:
                if not (self.kernel_has_stats and error.errno in NOT_KNOWN):
                    raise
                self.kernel_has_stats = False
                continue
            except OSError as error:
                self.close()  # what is left in the socket belongs to no later pass
                if isinstance(error, BlockingIOError):
                    raise netlink.NetlinkError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error
                raise
            if not interrupted:
                return links
        raise netlink.DumpInterrupted

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None

    def _open(self) -> socket.socket:
        if self._netlink is None:
            self._netlink = netlink.NetlinkSocket(netlink.NETLINK_ROUTE)
        return self._netlink.socket

    def _ask(self, kind: int, body: bytes) -> socket.socket:
        connection = self._open()
        self._sequence += 1
        size = netlink.HEADER.size + len(body)
        flags = netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP
        netlink.HEADER.pack_into(self._request, 0, size, kind, flags, self._sequence, 0)
        self._request[netlink.HEADER.size :] = body
        connection.send(self._request)
        return connection

    def _read_stats(self) -> tuple[Links, bool]:
        connection = self._ask(RTM_GETSTATS, STATS_REQUEST)
        links: Links = {}
        interrupted = False
        while True:
            size = connection.recv_into(self._buffer)
            flags = parse_stats(self._buffer, size, self._sequence, links)
            interrupted = interrupted or bool(flags & netlink.NLM_F_DUMP_INTR)
            if flags & DONE:
                return links, interrupted

    def _read_links(self) -> tuple[Links, bool]:
        connection = self._ask(RTM_GETLINK, LINK_REQUEST)
        links: Links = {}
        interrupted = False
        while True:
            data = connection.recv(netlink.RECEIVE_BUFFER)
            for kind, flags, sequence, start, end in netlink.messages(data):
                if sequence != self._sequence:
                    continue
                interrupted = interrupted or bool(flags & netlink.NLM_F_DUMP_INTR)
                if kind in (netlink.NLMSG_DONE, netlink.NLMSG_ERROR):
                    netlink.raise_error(data, kind, flags, start, end)
                    return links, interrupted
                if kind == RTM_NEWLINK:
                    found = parse_link_statistics(data[start:end])
                    if found is not None:
                        links[found[0]] = found[1]


STATS_REQUEST = STATS_MESSAGE.pack(0, 0, 1 << (IFLA_STATS_LINK_64 - 1))
LINK_REQUEST = LINK_MESSAGE.pack(0, 0, 0, 0, 0)
DONE = 1 << 16
"""Above the 16 flag bits of a netlink message: the dump has ended."""


def parse_stats(buffer: bytearray, size: int, sequence: int, links: Links) -> int:
    """Put every RTM_NEWSTATS of the first `size` bytes of `buffer` that answers `sequence` into `links`.

    Returns the message flags seen, with `DONE` when the dump has ended; raises NetlinkError with the kernel's refusal.
    A message that does not fit ends the walk; one without counters is skipped.
    """
    unpack_head, unpack_counters = STATS_HEAD.unpack_from, COUNTERS[COLUMNS].unpack_from
    seen = offset = 0
    while offset + USUAL_LENGTH <= size:
        length, kind, flags, number, ifindex, attribute_length, attribute = unpack_head(buffer, offset)
        if (
            length != USUAL_LENGTH
            or kind != RTM_NEWSTATS
            or number != sequence
            or attribute != IFLA_STATS_LINK_64
            or attribute_length != USUAL_LENGTH - FIRST_ATTRIBUTE
        ):
            break
        links[ifindex] = unpack_counters(buffer, offset + STATS_HEAD.size)
        seen |= flags
        offset += USUAL_LENGTH
    if offset < size:
        seen |= _parse_unusual_stats(bytes(buffer[offset:size]), sequence, links)
    return seen


def _parse_unusual_stats(data: bytes, sequence: int, links: Links) -> int:
    """The end of the dump, an error, another length of the counters (older and later kernels), or a padding attribute
    ahead of them (machines that must align 64-bit numbers)."""
    seen = 0
    for kind, flags, number, start, end in netlink.messages(data):
        if number != sequence:
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
    if len(body) < LINK_MESSAGE.size:
        return None
    ifindex = LINK_MESSAGE.unpack_from(body)[2]
    value = dict(netlink.iterate(body[LINK_MESSAGE.size :])).get(IFLA_STATS64, b"")
    if ifindex <= 0 or len(value) < 8:
        return None
    return ifindex, COUNTERS[min(len(value) >> 3, COLUMNS)].unpack_from(value)
