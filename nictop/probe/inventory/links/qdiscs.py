"""Queueing disciplines that delay, drop or limit what links send, and filters: `Qdisc`, `TcFilter`
records by ifindex.

One dump of RTM_GETQDISC, RTM_GETTCLASS for links that have htb or hfsc, and RTM_GETTFILTER for
links that have ingress or clsact. Root is not needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nictop.probe.inventory.links.qdisc_messages import (
    CLASSFUL_KINDS,
    TCMSG,
    TrafficClass,
    parse_class,
    parse_filter_hook,
    parse_qdisc,
    with_classes,
)
from nictop.probe.inventory.links.tc_filter_messages import parse_filter
from nictop.probe.kernel.netlink import (
    NETLINK_ROUTE,
    NLM_F_DUMP,
    NLMSG_DONE,
    NLMSG_ERROR,
    DumpInterrupted,
    NetlinkSocket,
    messages,
    raise_error,
)
from nictop.probe.kernel.rtnetlink import RTM_GETQDISC, RTM_GETTCLASS, RTM_GETTFILTER
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link, Qdisc, TcFilter, Unreadable

MAX_QDISCS_PER_LINK = 64
"""A link with mq has one discipline per queue."""
MAX_CLASSES = 4096
"""Of one link; the rest is ignored."""
MAX_FILTERS_PER_LINK = 64
MAX_FILTERED_LINKS = 256
"""Links whose filters are read; a node of Kubernetes has one for each container."""
FILTER_PARENTS = (("ingress", 0xFFFFFFF2), ("egress", 0xFFFFFFF3))
"""TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS or TC_H_MIN_EGRESS); the qdisc ingress takes the first as
its own."""


def with_qdiscs(links: Iterable[Link]) -> tuple[tuple[Link, ...], Unreadable | None]:
    """The links with `Link.traffic_control` and `tc_filters`, and why they could not be read. No
    error without packet scheduling."""
    links = tuple(links)
    try:
        found, hooks = read_qdiscs()
    except OSError as error:
        trouble = unreadable_from_error(error, "qdiscs")
        return links, None if trouble.reason == "not_offered" else trouble
    filters = read_filters(hooks)
    described = []
    for link in links:
        qdiscs = tuple(found.get(link.ifindex, ())[:MAX_QDISCS_PER_LINK])
        of_link = filters.get(link.ifindex, ())
        if qdiscs or of_link:
            described.append(replace(link, traffic_control=qdiscs, tc_filters=of_link))
        else:
            described.append(link)
    return tuple(described), None


def read_filters(hooks: Mapping[int, str]) -> dict[int, tuple[TcFilter, ...]]:
    """ifindex → filters; `hooks`: ifindex → ingress or clsact. Of a link with very many, those that
    were received."""
    found: dict[int, tuple[TcFilter, ...]] = {}
    for ifindex, kind in sorted(hooks.items())[:MAX_FILTERED_LINKS]:
        filters: list[TcFilter] = []
        for hook, parent in FILTER_PARENTS[: 2 if kind == "clsact" else 1]:
            try:
                with NetlinkSocket(NETLINK_ROUTE) as netlink:
                    filters += _bounded_filters(netlink, ifindex, parent, hook)
            except OSError:
                continue
        if filters:
            found[ifindex] = tuple(filters[:MAX_FILTERS_PER_LINK])
    return found


def _bounded_filters(
    netlink: NetlinkSocket, ifindex: int, parent: int, hook: str
) -> list[TcFilter]:
    """The first filters; the rest is left in the socket, which must be closed."""
    found: list[TcFilter] = []
    sequence = netlink.send_request(
        RTM_GETTFILTER, TCMSG.pack(0, ifindex, 0, parent, 0), NLM_F_DUMP
    )
    while True:
        data = netlink.receive()
        for kind, flags, number, start, end in messages(data):
            if number != sequence:
                continue
            if kind in (NLMSG_ERROR, NLMSG_DONE):
                raise_error(data, kind, flags, start, end)
                return found
            parsed = parse_filter(data[start:end], hook)
            if parsed is not None:
                found.append(parsed)
            if len(found) >= MAX_FILTERS_PER_LINK:
                return found


def read_qdiscs() -> tuple[dict[int, list[Qdisc]], dict[int, str]]:
    """(ifindex → disciplines, in the kernel's order; ifindex → ingress or clsact, if it has one).
    Raises OSError."""
    found: dict[int, list[Qdisc]] = {}
    hooks: dict[int, str] = {}
    classes: dict[int, tuple[TrafficClass, ...]] = {}
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        for payload in dumped(netlink, RTM_GETQDISC, 0):
            hook = parse_filter_hook(payload)
            if hook is not None:
                hooks[hook[0]] = hook[1]
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
    return found, hooks


def read_classes(netlink: NetlinkSocket, ifindex: int) -> tuple[TrafficClass, ...]:
    parsed = map(parse_class, dumped(netlink, RTM_GETTCLASS, ifindex)[:MAX_CLASSES])
    return tuple(one for one in parsed if one is not None)


def dumped(netlink: NetlinkSocket, kind: int, ifindex: int) -> list[bytes]:
    """Payloads of a dump; of an interrupted one, those that were received."""
    try:
        return [payload for _, payload in netlink.dump(kind, TCMSG.pack(0, ifindex, 0, 0, 0))]
    except DumpInterrupted as error:
        return [payload for _, payload in error.replies]
