"""Links with addresses, default routes and virtual functions from rtnetlink, and the fields that
only sysfs has.

Sends rtnetlink dumps (links with VF information, addresses, routes of both families), the requests
of `tunnels` and `subnet_routes`, and reads addr_assign_type and dev_port of /sys/class/net/NAME/.
Returns `Link` records without their ethtool part. In a network namespace /sys may belong to another
one: its files are used only if their ifindex is that of the link, and the parent device is looked
up in /sys/bus, which is the same in all namespaces.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Literal

from nictop.probe.inventory.links.bond_messages import with_bond
from nictop.probe.inventory.links.messages import parse_link
from nictop.probe.inventory.links.routes import (
    RTA_TABLE,
    RouteFilter,
    parse_address,
    parse_default_routes,
    parse_destination,
)
from nictop.probe.inventory.links.subnet_routes import NarrowRoute, with_subnet_routes
from nictop.probe.inventory.links.tunnels import with_veth_peers
from nictop.probe.inventory.pci.functions import PCI_ADDRESS
from nictop.probe.kernel.netlink import NETLINK_ROUTE, DumpInterrupted, NetlinkSocket, pack_u32
from nictop.probe.kernel.route_lookup import RTMSG, RTN_UNICAST
from nictop.probe.kernel.rtnetlink import (
    IFADDRMSG,
    IFINFOMSG,
    IFLA_EXT_MASK,
    RTEXT_FILTER_VF,
    RTM_GETADDR,
    RTM_GETLINK,
    RTM_GETROUTE,
)
from nictop.probe.kernel.sysfs import (
    SysfsDirectory,
    parse_integer,
    printable_path,
    read_text,
    unreadable_from_error,
)
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Address, DefaultRoute, Link, Unreadable

ROUTE_TABLES = (254, 253)
"""RT_TABLE_MAIN and RT_TABLE_DEFAULT."""
MAX_NARROW_ROUTES = 1024
"""IPv4 routes that are parsed because they are more specific than a subnet of this host."""

ADDRESS_ASSIGNMENTS: tuple[Literal["permanent", "random", "stolen", "set"], ...] = (
    "permanent",
    "random",
    "stolen",
    "set",
)
"""NET_ADDR_* of addr_assign_type."""
NAMESPACE_DETAIL = "sysfs belongs to another network namespace"


def read_links(sys: str = "/sys") -> tuple[tuple[Link, ...], dict[str, Unreadable]]:
    """Links by ifindex, and the failed sources among "links", "addresses" and "routes". Never
    raises OSError."""
    failed: dict[str, Unreadable] = {}
    try:
        netlink = NetlinkSocket(NETLINK_ROUTE)
    except OSError as error:
        return (), {
            source: unreadable_from_error(error, "netlink")
            for source in ("links", "addresses", "routes")
        }
    with netlink:
        query = IFINFOMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + pack_u32(
            IFLA_EXT_MASK, RTEXT_FILTER_VF
        )
        payloads = dump(netlink, RTM_GETLINK, query, "links", failed)
        parsed = ((parse_link(payload), payload) for payload in payloads)
        found = [with_bond(link, payload) for link, payload in parsed if link is not None]
        found = with_veth_peers(netlink, found)
        addresses = read_addresses(netlink, failed)
        routes, narrow = read_routes(netlink, addresses, failed)
    links = {link.ifindex: link for link in found}
    complete = tuple(
        read_from_sysfs(
            replace(
                links[ifindex],
                addresses=tuple(addresses.get(ifindex, ())),
                default_routes=tuple(
                    sorted(routes.get(ifindex, ()), key=lambda route: (route.family, route.metric))
                ),
            ),
            sys,
        )
        for ifindex in sorted(links)
    )
    return with_subnet_routes(complete, narrow), failed


def dump(
    netlink: NetlinkSocket,
    kind: int,
    query: bytes,
    source: str,
    failed: dict[str, Unreadable],
    *,
    keep: Callable[[bytes, int], bool] | None = None,
) -> Iterable[bytes]:
    """Payloads of a dump; of an interrupted one, those that were received. A failure is recorded
    under `source`."""
    try:
        return [payload for _, payload in netlink.dump(kind, query, keep=keep)]
    except DumpInterrupted as error:
        failed[source] = Unreadable(
            "failed", f"{source}: changed while it was read, may be incomplete"
        )
        return [payload for _, payload in error.replies]
    except OSError as error:
        failed[source] = unreadable_from_error(error, source)
    return []


def read_addresses(
    netlink: NetlinkSocket, failed: dict[str, Unreadable]
) -> dict[int, list[Address]]:
    """ifindex → addresses in the kernel's order, IPv4 first."""
    found: dict[int, list[Address]] = {}
    for payload in dump(
        netlink, RTM_GETADDR, IFADDRMSG.pack(socket.AF_UNSPEC, 0, 0, 0, 0), "addresses", failed
    ):
        parsed = parse_address(payload, time.monotonic())
        if parsed is not None:
            found.setdefault(parsed[0], []).append(parsed[1])
    return found


def read_routes(
    netlink: NetlinkSocket,
    addresses: Mapping[int, Iterable[Address]],
    failed: dict[str, Unreadable],
) -> tuple[dict[int, list[DefaultRoute]], list[NarrowRoute]]:
    """ifindex → default routes of the tables main and default; and the IPv4 routes of the table
    main that are more specific than the largest subnet of `addresses`.

    The kernel filters by table (before Linux 4.20 it does not, so the table is checked again).
    Other routes are dropped while the dump is read, because a router may have a million of them.
    """
    found: dict[int, list[DefaultRoute]] = {}
    narrow: dict[NarrowRoute, None] = {}
    shortest = shortest_prefix(addresses)
    for family, table in product((socket.AF_INET, socket.AF_INET6), ROUTE_TABLES):
        query = RTMSG.pack(family, 0, 0, 0, 0, 0, 0, RTN_UNICAST, 0) + pack_u32(RTA_TABLE, table)
        keep = RouteFilter(shortest, MAX_NARROW_ROUTES)
        for payload in route_dump(netlink, query, keep, failed):
            for ifindex, route in parse_default_routes(payload):
                known = found.setdefault(ifindex, [])
                if route.table == table and route not in known:
                    known.append(route)
            destination = parse_destination(payload)
            if destination is not None and destination[1]:
                narrow[NarrowRoute(*destination)] = None
    return found, list(narrow)


def shortest_prefix(addresses: Mapping[int, Iterable[Address]]) -> int:
    """Prefix length of the largest IPv4 subnet of this host."""
    shortest = 32
    for own in addresses.values():
        for address in own:
            if address.family == "ipv4" and address.scope == "global":
                shortest = min(shortest, address.prefix_length)
    return shortest


def route_dump(
    netlink: NetlinkSocket, query: bytes, keep: RouteFilter, failed: dict[str, Unreadable]
) -> Iterable[bytes]:
    """Routes of one table; empty for ENOENT (the table does not exist) and EOPNOTSUPP (no such
    address family)."""
    trouble: dict[str, Unreadable] = {}
    payloads = dump(netlink, RTM_GETROUTE, query, "routes", trouble, keep=keep)
    if trouble and trouble["routes"].reason not in ("missing", "not_offered"):
        failed.update(trouble)
    return payloads


def read_from_sysfs(link: Link, sys: str) -> Link:
    """The link with parent device, PCI function, address assignment and port number from sysfs."""
    name = link.name
    if "\ufffd" in name:  # bytes that are not UTF-8: the kernel has the real name
        try:
            name = socket.if_indextoname(link.ifindex)
        except OSError:
            vanished = {"device": Unreadable("vanished", printable_path(name))}
            return replace(link, unreadable={**link.unreadable, **vanished})
    path = os.path.join(sys, "class/net", name)
    ifindex = read_text(os.path.join(path, "ifindex"))
    is_own = isinstance(ifindex, str) and parse_integer(ifindex) == link.ifindex
    bus, device, pci_address = read_parent(link, sys, path if is_own else None)
    link = replace(link, bus=bus, device=device, pci_address=pci_address)
    if not is_own:
        reason = Unreadable("missing", NAMESPACE_DETAIL) if isinstance(ifindex, str) else ifindex
        missing = dict.fromkeys(("address_assignment", "device_port"), reason)
        return replace(link, unreadable={**link.unreadable, **missing})
    folder = SysfsDirectory(path)
    kind = folder.integer("address_assignment", "addr_assign_type")
    assignment = None
    if kind is not None and 0 <= kind < len(ADDRESS_ASSIGNMENTS):
        assignment = ADDRESS_ASSIGNMENTS[kind]
    port = folder.integer("device_port", "dev_port")
    return replace(
        link,
        address_assignment=assignment,
        device_port=port,
        unreadable={**link.unreadable, **folder.unreadable},
    )


def read_parent(
    link: Link, sys: str, path: str | None
) -> tuple[str | None, str | None, str | None]:
    """(bus, device, PCI address) of the parent device: from rtnetlink (Linux 5.14), else from
    sysfs."""
    bus, device, where = link.bus, link.device, None
    if device is not None and bus is not None:
        where = os.path.join(sys, "bus", bus, "devices", device)
    elif path is not None:
        where = os.path.join(path, "device")
        if not os.path.exists(where):
            return bus, device, None
        device = device or printable_path(os.path.basename(os.path.realpath(where)))
        bus = bus or SysfsDirectory(where).link("device", "subsystem")
    if bus == "pci":
        return bus, device, device
    return bus, device, pci_ancestor(os.path.realpath(where)) if where else None


def pci_ancestor(path: str) -> str | None:
    """The last PCI address in a resolved device path: for virtio2, that of its PCI function."""
    for part in reversed(path.split(os.sep)):
        if PCI_ADDRESS.fullmatch(part):
            return part
    return None
