"""Packets, bytes and drops of every queue of one link: generic netlink family `netdev`, qstats-get with queue scope.

Linux 6.10; the only source of per-queue numbers for virtio_net there. A driver without them answers an empty dump.
"""

from __future__ import annotations

import errno
import os

from nictop.probe.kernel import netlink

NETDEV_CMD_QSTATS_GET = 12
NETDEV_A_QSTATS_IFINDEX = 1
NETDEV_A_QSTATS_QUEUE_TYPE = 2
NETDEV_A_QSTATS_QUEUE_ID = 3
NETDEV_A_QSTATS_SCOPE = 4
NETDEV_QSTATS_SCOPE_QUEUE = 1
NETDEV_A_QSTATS_RX_PACKETS = 8
NETDEV_A_QSTATS_RX_BYTES = 9
NETDEV_A_QSTATS_TX_PACKETS = 10
NETDEV_A_QSTATS_TX_BYTES = 11
NETDEV_A_QSTATS_RX_HW_DROPS = 13
NETDEV_A_QSTATS_TX_HW_DROPS = 24

COLUMNS = (
    NETDEV_A_QSTATS_RX_PACKETS,
    NETDEV_A_QSTATS_RX_BYTES,
    NETDEV_A_QSTATS_TX_PACKETS,
    NETDEV_A_QSTATS_TX_BYTES,
    NETDEV_A_QSTATS_RX_HW_DROPS,
    NETDEV_A_QSTATS_TX_HW_DROPS,
)
"""In the order of `records.QUEUE_COUNTERS`."""
NO_COUNTERS = (errno.ENOENT, errno.EOPNOTSUPP)
"""ENOENT: no such family; EOPNOTSUPP: no such call, or a driver without these counters."""
DIRECTIONS = ("rx", "tx")
"""enum netdev_queue_type."""

Queue = tuple[str, int, tuple["int | None", ...]]


class QueueCounterReader:
    """Reads queue counters of any link of the network namespace it was made in."""

    def __init__(self) -> None:
        self._netlink = netlink.NetlinkSocket(netlink.NETLINK_GENERIC)

    def close(self) -> None:
        self._netlink.close()

    def read(self, ifindex: int) -> tuple[Queue, ...]:
        """("rx" or "tx", queue id, numbers in the order of `records.QUEUE_COUNTERS`) per queue.

        Raises OSError: ENOENT (no such family: Linux < 6.8), EOPNOTSUPP (no qstats: < 6.10, or the driver has none),
        ENODEV (the link is gone).
        """
        query = netlink.pack_u32(NETDEV_A_QSTATS_IFINDEX, ifindex)
        query += netlink.pack_u32(NETDEV_A_QSTATS_SCOPE, NETDEV_QSTATS_SCOPE_QUEUE)
        replies = self._netlink.generic("netdev", NETDEV_CMD_QSTATS_GET, query, dump=True)
        queues = tuple(queue for queue in map(parse_queue, replies) if queue is not None)
        if not queues:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return queues

    @staticmethod
    def offers_none(error: Exception) -> tuple[Queue, ...] | None:
        """No queues when the error of `read` says that kernel or driver count none; None: another failure."""
        return () if isinstance(error, OSError) and error.errno in NO_COUNTERS else None


def parse_queue(body: bytes) -> Queue | None:
    """One reply of qstats-get; None when it does not say which queue it is about."""
    fields = dict(netlink.iterate(body))
    number, direction = fields.get(NETDEV_A_QSTATS_QUEUE_ID), fields.get(NETDEV_A_QSTATS_QUEUE_TYPE)
    if not number or not direction or netlink.unsigned(direction) >= len(DIRECTIONS):
        return None
    numbers = tuple(netlink.unsigned(fields[column]) if fields.get(column) else None for column in COLUMNS)
    return DIRECTIONS[netlink.unsigned(direction)], netlink.unsigned(number), numbers
