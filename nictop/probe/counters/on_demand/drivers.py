"""Driver counters of one link: ioctl ETHTOOL_GSTATS, about eight microseconds.

The kernel copies as many numbers as the driver has at that time, without checking the size of the
buffer. The count is therefore read right before (ETHTOOL_GSSET_INFO), and the buffer has space for
a driver that gains counters in between. Meaning of the numbers: the string set ETH_SS_STATS, which
the inventory reads.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import socket
import struct

SIOCGIFNAME = 0x8910
SIOCETHTOOL = 0x8946
ETHTOOL_GSTRINGS = 0x1B
ETHTOOL_GSTATS = 0x1D
ETH_GSTRING_LEN = 32
ETHTOOL_GSSET_INFO = 0x37
ETH_SS_STATS = 1

NAME_REQUEST = struct.Struct("@16si20x")
"""struct ifreq of SIOCGIFNAME: name, ifindex."""
ETHTOOL_REQUEST = struct.Struct("@16sP16x")
"""struct ifreq of SIOCETHTOOL: name, address of the ethtool structure."""
SET_INFO = struct.Struct("@IIQI")
"""struct ethtool_sset_info with one count: command, reserved, mask, count."""
STATS_HEAD = struct.Struct("@II")
"""struct ethtool_stats: command, count; the numbers follow."""

STRINGS_HEAD = struct.Struct("@III")
"""struct ethtool_gstrings: command, string set, count; the strings follow."""

SPARE_COUNTERS = 4096
"""Counters that a driver may gain between the two calls; `ethtool -L` from 1 to 128 queues adds
about 2000 to mlx5."""
MAX_DRIVER_COUNTERS = 1 << 20


class DriverCounterReader:
    """Reads driver counters of any link in the network namespace in which it was created."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._info = array.array("B", bytes(SET_INFO.size))
        self._numbers = array.array("Q", bytes(8 * (1 + SPARE_COUNTERS)))

    def close(self) -> None:
        self._socket.close()

    def read(self, ifindex: int) -> tuple[int, ...]:
        """Every counter of the driver, in the driver's order.

        Raises OSError: ENODEV (the link is gone), EOPNOTSUPP (the driver has no counters), EAGAIN
        (their number changed between the two calls), EOVERFLOW (more than `MAX_DRIVER_COUNTERS`).
        """
        name = self.link_name(ifindex)
        expected = self._count(name)
        if expected == 0:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        if expected > MAX_DRIVER_COUNTERS:
            raise OSError(errno.EOVERFLOW, f"{expected} counters")
        numbers = self._numbers
        if len(numbers) < 1 + expected + SPARE_COUNTERS:
            self._numbers = numbers = array.array(
                "Q", bytes(8 * (1 + 2 * expected + SPARE_COUNTERS))
            )
        STATS_HEAD.pack_into(numbers, 0, ETHTOOL_GSTATS, expected)
        self._ethtool(name, numbers)
        if STATS_HEAD.unpack_from(numbers, 0)[1] != expected:
            raise OSError(errno.EAGAIN, "the number of driver counters changed meanwhile")
        return tuple(numbers[1 : 1 + expected])

    def read_names(self, ifindex: int) -> tuple[str, ...]:
        """Names of the counters, in the same order. Raises OSError like `read`; () if there are
        none."""
        name = self.link_name(ifindex)
        expected = self._count(name)
        if expected > MAX_DRIVER_COUNTERS:
            raise OSError(errno.EOVERFLOW, f"{expected} counters")
        size = STRINGS_HEAD.size + (expected + SPARE_COUNTERS) * ETH_GSTRING_LEN
        strings = array.array("B", bytes(size))
        STRINGS_HEAD.pack_into(strings, 0, ETHTOOL_GSTRINGS, ETH_SS_STATS, expected)
        self._ethtool(name, strings)
        data = strings.tobytes()[STRINGS_HEAD.size :]
        texts = [
            data[start : start + ETH_GSTRING_LEN]
            for start in range(0, expected * ETH_GSTRING_LEN, ETH_GSTRING_LEN)
        ]
        return tuple(text.split(b"\0", 1)[0].decode("utf-8", "replace") for text in texts)

    def link_name(self, ifindex: int) -> bytes:
        """The link's current name, NUL-padded. OSError(ENODEV) when there is no such link."""
        reply = fcntl.ioctl(self._socket, SIOCGIFNAME, NAME_REQUEST.pack(b"", ifindex))
        name: bytes = NAME_REQUEST.unpack(reply)[0]
        return name

    def _count(self, name: bytes) -> int:
        SET_INFO.pack_into(self._info, 0, ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_STATS, 0)
        self._ethtool(name, self._info)
        _, _, mask, count = SET_INFO.unpack_from(self._info, 0)
        return int(count) if mask else 0

    def _ethtool(self, name: bytes, structure: array.array[int]) -> None:
        fcntl.ioctl(
            self._socket, SIOCETHTOOL, ETHTOOL_REQUEST.pack(name, structure.buffer_info()[0])
        )
