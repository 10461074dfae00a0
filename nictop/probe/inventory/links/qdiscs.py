"""Queueing disciplines that delay, lose or limit what links send.

Reads one dump of RTM_GETQDISC, and RTM_GETTCLASS of links that have htb or hfsc. Nothing needs root. Yields `Qdisc`
records by ifindex.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nictop.probe.inventory.links.qdisc_messages import (
    TCMSG,
    WITH_CLASSES,
    TrafficClass,
    parse_class,
    parse_qdisc,
    with_classes,
)
from nictop.probe.kernel.netlink import NETLINK_ROUTE, DumpInterrupted, NetlinkSocket
from nictop.probe.kernel.rtnetlink import RTM_GETQDISC, RTM_GETTCLASS
from nictop.probe.kernel.sysfs import why_unreadable
from nictop.probe.records import Link, Qdisc, Unreadable

MOST_PER_LINK = 64
"""A link with mq has one per queue."""
MOST_CLASSES = 4096
"""Of one link; what has more limits by other means than one number."""


def with_qdiscs(links: Iterable[Link]) -> tuple[tuple[Link, ...], Unreadable | None]:
    """The links with `Link.traffic_control`, and why there is none. A kernel without packet scheduling has none."""
    links = tuple(links)
    try:
        found = read_qdiscs()
    except OSError as error:
        trouble = why_unreadable(error, "qdiscs")
        return links, None if trouble.reason == "not_offered" else trouble
    return tuple(
        replace(link, traffic_control=tuple(found[link.ifindex][:MOST_PER_LINK])) if link.ifindex in found else link
        for link in links
    ), None


def read_qdiscs() -> dict[int, list[Qdisc]]:
    """ifindex → disciplines, in the order of the kernel. Raises OSError."""
    found: dict[int, list[Qdisc]] = {}
    classes: dict[int, tuple[TrafficClass, ...]] = {}
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        for payload in dumped(netlink, RTM_GETQDISC, 0):
            parsed = parse_qdisc(payload)
            if parsed is None:
                continue
            ifindex, handle, record = parsed
            if record.kind in WITH_CLASSES:
                if ifindex not in classes:
                    classes[ifindex] = read_classes(netlink, ifindex)
                limiting = with_classes(record, handle, classes[ifindex])
                if limiting is None:
                    continue
                record = limiting
            found.setdefault(ifindex, []).append(record)
    return found


def read_classes(netlink: NetlinkSocket, ifindex: int) -> tuple[TrafficClass, ...]:
    parsed = map(parse_class, dumped(netlink, RTM_GETTCLASS, ifindex)[:MOST_CLASSES])
    return tuple(one for one in parsed if one is not None)


def dumped(netlink: NetlinkSocket, kind: int, ifindex: int) -> list[bytes]:
    """Payloads; what an interrupted dump brought counts, too."""
    try:
        return [payload for _, payload in netlink.dump(kind, TCMSG.pack(0, ifindex, 0, 0, 0))]
    except DumpInterrupted as error:
        return [payload for _, payload in error.replies]
