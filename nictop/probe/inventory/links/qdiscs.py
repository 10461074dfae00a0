"""Queueing disciplines that delay, drop or limit what links send: `Qdisc` records by ifindex.

One dump of RTM_GETQDISC, and RTM_GETTCLASS for links that have htb or hfsc. Root is not needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nictop.probe.inventory.links.qdisc_messages import (
    CLASSFUL_KINDS,
    TCMSG,
    TrafficClass,
    parse_class,
    parse_qdisc,
    with_classes,
)
from nictop.probe.kernel.netlink import NETLINK_ROUTE, DumpInterrupted, NetlinkSocket
from nictop.probe.kernel.rtnetlink import RTM_GETQDISC, RTM_GETTCLASS
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.records import Link, Qdisc, Unreadable

MAX_QDISCS_PER_LINK = 64
"""A link with mq has one discipline per queue."""
MAX_CLASSES = 4096
"""Of one link; the rest is ignored."""


def with_qdiscs(links: Iterable[Link]) -> tuple[tuple[Link, ...], Unreadable | None]:
    """The links with `Link.traffic_control`, and why it could not be read. No error without packet scheduling."""
    links = tuple(links)
    try:
        found = read_qdiscs()
    except OSError as error:
        trouble = unreadable_from_error(error, "qdiscs")
        return links, None if trouble.reason == "not_offered" else trouble
    return tuple(
        replace(link, traffic_control=tuple(found[link.ifindex][:MAX_QDISCS_PER_LINK]))
        if link.ifindex in found
        else link
        for link in links
    ), None


def read_qdiscs() -> dict[int, list[Qdisc]]:
    """ifindex → disciplines, in the kernel's order. Raises OSError."""
    found: dict[int, list[Qdisc]] = {}
    classes: dict[int, tuple[TrafficClass, ...]] = {}
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        for payload in dumped(netlink, RTM_GETQDISC, 0):
            parsed = parse_qdisc(payload)
            if parsed is None:
                continue
            ifindex, handle, record = parsed
            if record.kind in CLASSFUL_KINDS:
                if ifindex not in classes:
                    classes[ifindex] = read_classes(netlink, ifindex)
                limiting = with_classes(record, handle, classes[ifindex])
                if limiting is None:
                    continue
                record = limiting
            found.setdefault(ifindex, []).append(record)
    return found


def read_classes(netlink: NetlinkSocket, ifindex: int) -> tuple[TrafficClass, ...]:
    parsed = map(parse_class, dumped(netlink, RTM_GETTCLASS, ifindex)[:MAX_CLASSES])
    return tuple(one for one in parsed if one is not None)


def dumped(netlink: NetlinkSocket, kind: int, ifindex: int) -> list[bytes]:
    """Payloads of a dump; of an interrupted one, those that were received."""
    try:
        return [payload for _, payload in netlink.dump(kind, TCMSG.pack(0, ifindex, 0, 0, 0))]
    except DumpInterrupted as error:
        return [payload for _, payload in error.replies]
