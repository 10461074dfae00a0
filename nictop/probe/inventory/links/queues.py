"""The queues of every link: packet steering to CPUs, the NAPI instance of each queue, and vmbus
channels.

Reads /sys/class/net/NAME/queues/ (XPS and RPS masks), one queue-get and one napi-get dump of the
generic netlink family `netdev` for all links, and /sys/bus/vmbus/devices/GUID/channels/ of
hv_netvsc links. Returns the links with `Queue`, `Napi` and `Channel` records. `Queue.napi` is None
when kernel or driver do not report it. When /sys belongs to another network namespace the masks are
None, with the reason in the link's `unreadable`.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterable, Mapping
from typing import Literal

from nictop.probe.inventory.links.reader import NAMESPACE_DETAIL
from nictop.probe.kernel import netlink
from nictop.probe.kernel.patterns import pattern
from nictop.probe.kernel.sysfs import (
    SysfsDirectory,
    parse_integer,
    read_text,
    unreadable_from_error,
)
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Channel, Link, Napi, Queue, Unreadable

NETDEV_CMD_QUEUE_GET = 10
NETDEV_CMD_NAPI_GET = 11
NETDEV_A_QUEUE_ID, NETDEV_A_QUEUE_IFINDEX, NETDEV_A_QUEUE_TYPE, NETDEV_A_QUEUE_NAPI_ID = 1, 2, 3, 4
NETDEV_A_NAPI_IFINDEX, NETDEV_A_NAPI_ID, NETDEV_A_NAPI_IRQ, NETDEV_A_NAPI_PID = 1, 2, 3, 4
"""linux/netdev.h. Both commands and NETDEV_A_NAPI_PID: since Linux 6.8."""

Direction = Literal["rx", "tx"]
QueueKey = tuple[Direction, int]
QUEUE_DIRECTIONS: tuple[Direction, ...] = ("rx", "tx")
"""By enum netdev_queue_type; also the order of `Link.queues`."""
QUEUE_NAME = pattern(r"(rx|tx)-([0-9]{1,5})", re.ASCII)
CHANNEL_NAME = pattern(r"[0-9]{1,10}", re.ASCII)
CHANNEL_VP_MAPPING = pattern(r"([0-9]{1,10}):([0-9]{1,6})", re.ASCII)
UNSUPPORTED_ERRNOS = (errno.ENOENT, errno.EOPNOTSUPP)
"""ENOENT: no family `netdev` (Linux < 6.3); EOPNOTSUPP: the family without this command (< 6.8)."""


def read_queues(
    links: Iterable[Link], sys: str = "/sys"
) -> tuple[tuple[Link, ...], Unreadable | None]:
    """The links with queues, NAPI instances and channels, and why netlink failed. Never raises
    OSError.

    A kernel without the commands is no failure: then queues come from sysfs only and `napis` is
    empty.
    """
    napi_ids, napis, trouble = read_netdev()
    return tuple(
        read_channels(
            read_masks(replace(link, napis=tuple(napis.get(link.ifindex, ()))), napi_ids, sys), sys
        )
        for link in links
    ), trouble


def read_netdev() -> tuple[
    dict[int, dict[QueueKey, int | None]], dict[int, list[Napi]], Unreadable | None
]:
    """(ifindex → queue → NAPI id, ifindex → NAPI instances by id, why they are missing or
    incomplete)."""
    napi_ids: dict[int, dict[QueueKey, int | None]] = {}
    napis: dict[int, list[Napi]] = {}
    try:
        connection = netlink.NetlinkSocket(netlink.NETLINK_GENERIC)
    except OSError as error:
        return napi_ids, napis, unreadable_from_error(error, "netlink")
    with connection:
        bodies, no_queues = dump(connection, NETDEV_CMD_QUEUE_GET, "queue-get")
        for ifindex, direction, number, napi in filter(None, map(parse_queue, bodies)):
            napi_ids.setdefault(ifindex, {})[direction, number] = napi
        bodies, no_napis = dump(connection, NETDEV_CMD_NAPI_GET, "napi-get")
        for ifindex, instance in filter(None, map(parse_napi, bodies)):
            napis.setdefault(ifindex, []).append(instance)
    for instances in napis.values():  # the kernel lists the most recent first
        instances.sort(key=lambda instance: instance.id)
    return napi_ids, napis, no_queues or no_napis


def dump(
    connection: netlink.NetlinkSocket, command: int, source: str
) -> tuple[list[bytes], Unreadable | None]:
    """Attributes of every reply of the family `netdev`, also of an interrupted dump, and why it
    failed."""
    try:
        return connection.generic("netdev", command, dump=True), None
    except netlink.DumpInterrupted as error:
        bodies = [body[netlink.GENERIC_HEADER.size :] for _, body in error.replies]
        return bodies, Unreadable(
            "failed", f"{source}: changed while it was read, may be incomplete"
        )
    except OSError as error:
        if error.errno in UNSUPPORTED_ERRNOS:
            return [], None
        return [], unreadable_from_error(error, source)


def parse_queue(body: bytes) -> tuple[int, Direction, int, int | None] | None:
    """One reply of queue-get as (ifindex, direction, queue id, NAPI id or None); None without queue
    id or type."""
    fields = dict(netlink.iter_attributes(body))
    ifindex, queue = number(fields, NETDEV_A_QUEUE_IFINDEX), number(fields, NETDEV_A_QUEUE_ID)
    direction = number(fields, NETDEV_A_QUEUE_TYPE)
    if ifindex is None or queue is None:
        return None
    if direction is None or direction >= len(QUEUE_DIRECTIONS):
        return None
    return ifindex, QUEUE_DIRECTIONS[direction], queue, number(fields, NETDEV_A_QUEUE_NAPI_ID)


def number(fields: Mapping[int, bytes], attribute: int) -> int | None:
    """An unsigned number; None: missing, or empty."""
    value = fields.get(attribute)
    if not value:
        return None
    return netlink.unsigned(value)


def parse_napi(body: bytes) -> tuple[int, Napi] | None:
    """One reply of napi-get as (ifindex, record); None without NAPI id."""
    fields = dict(netlink.iter_attributes(body))
    ifindex, identity = number(fields, NETDEV_A_NAPI_IFINDEX), number(fields, NETDEV_A_NAPI_ID)
    if ifindex is None or identity is None:
        return None
    irq, thread = number(fields, NETDEV_A_NAPI_IRQ), number(fields, NETDEV_A_NAPI_PID)
    return ifindex, Napi(id=identity, irq=irq, thread=thread)


def read_masks(link: Link, napi_ids: dict[int, dict[QueueKey, int | None]], sys: str) -> Link:
    """The link with its queues: those in sysfs, with their masks, and those that only netlink
    has."""
    known = napi_ids.get(link.ifindex, {})
    folder, reason = own_folder(link, sys)
    keys: list[QueueKey] = []
    found = []
    if folder is not None:
        keys = queues_in(folder)
        found = [read_queue(folder, *key, known.get(key)) for key in keys]
        reason = folder.unreadable.get("queues")
    found += [Queue(*key, napi) for key, napi in known.items() if key not in keys]
    found.sort(key=lambda queue: (queue.direction, queue.number))
    link = replace(link, queues=tuple(found))
    if reason is None:
        return link
    return replace(link, unreadable={**link.unreadable, "queues": reason})


def queues_in(folder: SysfsDirectory) -> list[QueueKey]:
    """The queues that a link has a directory for."""
    keys: list[QueueKey] = []
    for name in folder.names("queues", "queues"):
        match = QUEUE_NAME.fullmatch(name)
        if match is not None:
            keys.append(("rx" if match[1] == "rx" else "tx", int(match[2])))
    return keys


def own_folder(link: Link, sys: str) -> tuple[SysfsDirectory | None, Unreadable | None]:
    """The link's directory in sysfs, or why there is none: in a network namespace /sys may belong
    to another one."""
    name = link.name
    if "\ufffd" in name:  # bytes that are not UTF-8: the kernel has the real name
        try:
            name = socket.if_indextoname(link.ifindex)
        except OSError as error:
            return None, unreadable_from_error(error, link.name)
    path = os.path.join(sys, "class/net", name)
    content = read_text(os.path.join(path, "ifindex"))
    if isinstance(content, Unreadable):
        return None, content
    if parse_integer(content) != link.ifindex:
        return None, Unreadable("missing", NAMESPACE_DETAIL)
    return SysfsDirectory(path), None


def read_queue(
    folder: SysfsDirectory, direction: Direction, number: int, napi: int | None
) -> Queue:
    """One queue directory. Failures are recorded as "queues" in `folder`; ENOENT, of single-queue
    links, is none."""
    where = f"queues/{direction}-{number}"
    if direction == "rx":
        return Queue(
            direction,
            number,
            napi,
            rps_cpus=folder.text("queues", f"{where}/rps_cpus"),
            rps_flow_count=folder.integer("queues", f"{where}/rps_flow_cnt"),
        )
    return Queue(
        direction,
        number,
        napi,
        xps_cpus=folder.text("queues", f"{where}/xps_cpus"),
        xps_receive_queues=folder.text("queues", f"{where}/xps_rxqs"),
    )


def read_channels(link: Link, sys: str) -> Link:
    """The link with its vmbus channels, by id: from ``channels/``, on older kernels from
    channel_vp_mapping."""
    if link.bus != "vmbus" or link.device is None:
        return link
    folder = SysfsDirectory(os.path.join(sys, "bus/vmbus/devices", link.device))
    names = [name for name in folder.names("channels", "channels") if CHANNEL_NAME.fullmatch(name)]
    channels = [
        Channel(
            int(name),
            folder.integer("channels", f"channels/{name}/cpu"),
            folder.integer("channels", f"channels/{name}/subchannel_id"),
        )
        for name in names
    ]
    if not channels:
        channels = parse_mapping(folder.text("channels", "channel_vp_mapping") or "")
    unreadable = {**link.unreadable, **folder.unreadable}
    return replace(
        link,
        channels=tuple(sorted(channels, key=lambda channel: channel.id)),
        unreadable=unreadable,
    )


def parse_mapping(text: str) -> list[Channel]:
    """channel_vp_mapping: one ``channel:CPU`` per line; other lines are ignored."""
    found = filter(None, map(CHANNEL_VP_MAPPING.fullmatch, text.split()))
    return [Channel(int(match[1]), int(match[2])) for match in found]
