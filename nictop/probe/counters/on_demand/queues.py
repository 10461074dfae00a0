"""Packets, bytes and drops of every queue of one link: generic netlink family `netdev`, qstats-get
with queue scope.

Since Linux 6.10; there the only source of per-queue counters for virtio_net. Empty for drivers
without them.
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

QSTATS_ATTRIBUTES = (
    NETDEV_A_QSTATS_RX_PACKETS,
    NETDEV_A_QSTATS_RX_BYTES,
    NETDEV_A_QSTATS_TX_PACKETS,
    NETDEV_A_QSTATS_TX_BYTES,
    NETDEV_A_QSTATS_RX_HW_DROPS,
    NETDEV_A_QSTATS_TX_HW_DROPS,
)
"""In the order of `records.QUEUE_COUNTERS`."""
NO_QSTATS_ERRNOS = (errno.ENOENT, errno.EOPNOTSUPP)
"""ENOENT: no such family; EOPNOTSUPP: no such command, or a driver without these counters."""
QUEUE_TYPES = ("rx", "tx")
"""enum netdev_queue_type."""

Queue = tuple[str, int, tuple["int | None", ...]]


class QueueCounterReader:
    """Reads queue counters of any link in the network namespace in which it was created."""

    def __init__(self) -> None:
        self._netlink = netlink.NetlinkSocket(netlink.NETLINK_GENERIC)

    def close(self) -> None:
        self._netlink.close()

    def read(self, ifindex: int) -> tuple[Queue, ...]:
        """("rx" or "tx", queue id, numbers in the order of `records.QUEUE_COUNTERS`) of each queue.

        Raises OSError: ENOENT (no such family: Linux < 6.8), EOPNOTSUPP (no qstats: < 6.10, or not
        in the driver), ENODEV (the link is gone).
        """
        query = netlink.pack_u32(NETDEV_A_QSTATS_IFINDEX, ifindex)
        query += netlink.pack_u32(NETDEV_A_QSTATS_SCOPE, NETDEV_QSTATS_SCOPE_QUEUE)
        replies = self._netlink.generic("netdev", NETDEV_CMD_QSTATS_GET, query, dump=True)
        queues = tuple(queue for queue in map(parse_queue, replies) if queue is not None)
        if not queues:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return queues

    @staticmethod
    def empty_if_unsupported(error: Exception) -> tuple[Queue, ...] | None:
        """() when an error of `read` means that the kernel or the driver has no queue counters;
        None otherwise."""
        return () if isinstance(error, OSError) and error.errno in NO_QSTATS_ERRNOS else None


def parse_queue(body: bytes) -> Queue | None:
    """One reply of qstats-get; None without queue type or queue id."""
    fields = dict(netlink.iter_attributes(body))
    number, direction = fields.get(NETDEV_A_QSTATS_QUEUE_ID), fields.get(NETDEV_A_QSTATS_QUEUE_TYPE)
    if not number or not direction or netlink.unsigned(direction) >= len(QUEUE_TYPES):
        return None
    numbers = tuple(
        netlink.unsigned(fields[kind]) if fields.get(kind) else None for kind in QSTATS_ATTRIBUTES
    )
    return QUEUE_TYPES[netlink.unsigned(direction)], netlink.unsigned(number), numbers
