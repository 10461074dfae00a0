"""VLANs of bridges and their ports: `Link.bridge_vlans`.

One dump of RTM_GETLINK with AF_BRIDGE and RTEXT_FILTER_BRVLAN_COMPRESSED (linux/if_bridge.h), in
which the kernel sends ranges of VLANs with equal flags. On a host without a bridge no request is
sent. Root is not needed.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

from nictop.probe.kernel.netlink import (
    NETLINK_ROUTE,
    DumpInterrupted,
    NetlinkSocket,
    iter_attributes,
    pack_u32,
    unsigned,
)
from nictop.probe.kernel.rtnetlink import IFINFOMSG, IFLA_EXT_MASK, RTM_GETLINK
from nictop.probe.kernel.sysfs import unreadable_from_error
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import BridgeVlan, Link, Unreadable

RTEXT_FILTER_BRVLAN_COMPRESSED = 4
IFLA_AF_SPEC = 26
IFLA_BRIDGE_FLAGS, IFLA_BRIDGE_VLAN_INFO = 0, 2
BRIDGE_FLAGS_SELF = 2
"""The message is about the embedded switch of a NIC, not about a port of a bridge."""
VLAN_INFO = struct.Struct("=HH")
"""struct bridge_vlan_info: flags, VLAN ID."""
VLAN_INFO_PVID, VLAN_INFO_UNTAGGED, VLAN_INFO_RANGE_BEGIN, VLAN_INFO_RANGE_END = 2, 4, 8, 16
MAX_VLAN_ID = 4094
MAX_VLANS_PER_LINK = 1024
"""Ranges of one link; the rest is ignored."""


def with_bridge_vlans(links: Iterable[Link]) -> tuple[tuple[Link, ...], Unreadable | None]:
    """The links with `Link.bridge_vlans`, and why some may be missing. Never raises OSError."""
    links = tuple(links)
    bridges = {link.ifindex for link in links if link.kind == "bridge"}
    if not bridges:
        return links, None
    trouble = None
    try:
        found = read_vlans()
    except DumpInterrupted as error:
        found = dict(filter(None, (parse_bridge_vlans(payload) for _, payload in error.replies)))
        trouble = Unreadable(
            "failed", "bridge VLANs: changed while they were read, may be incomplete"
        )
    except OSError as error:
        return links, unreadable_from_error(error, "bridge VLANs")
    filtering = {link.ifindex for link in links if link.details.get("bridge_vlan_filtering")}
    complete = []
    for link in links:
        if link.ifindex in bridges or link.master in bridges:
            is_filtered = link.ifindex in filtering or link.master in filtering
            vlans = known_vlans(found.get(link.ifindex), is_filtered=is_filtered)
            complete.append(replace(link, bridge_vlans=vlans))
        else:
            complete.append(link)
    return tuple(complete), trouble


def known_vlans(
    found: tuple[BridgeVlan, ...] | None, *, is_filtered: bool
) -> tuple[BridgeVlan, ...] | None:
    """With filtering a port without VLANs is known to have none; otherwise the kernel may not
    support them."""
    if not found and not is_filtered:
        return None
    return found


def read_vlans() -> dict[int, tuple[BridgeVlan, ...]]:
    """VLANs of all bridges and their ports by ifindex. Raises OSError, and DumpInterrupted."""
    query = IFINFOMSG.pack(socket.AF_BRIDGE, 0, 0, 0, 0) + pack_u32(
        IFLA_EXT_MASK, RTEXT_FILTER_BRVLAN_COMPRESSED
    )
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        found = (parse_bridge_vlans(payload) for _, payload in netlink.dump(RTM_GETLINK, query))
        return dict(filter(None, found))


def parse_bridge_vlans(payload: bytes) -> tuple[int, tuple[BridgeVlan, ...]] | None:
    """(ifindex, VLANs by ID) of an RTM_NEWLINK of a bridge or of one of its ports, which without
    VLANs has no IFLA_AF_SPEC; None for other messages."""
    if len(payload) < IFINFOMSG.size:
        return None
    family, _, ifindex, _, _ = IFINFOMSG.unpack_from(payload)
    if family != socket.AF_BRIDGE or ifindex <= 0:
        return None
    specific = dict(iter_attributes(payload[IFINFOMSG.size :])).get(IFLA_AF_SPEC, b"")
    attributes = list(iter_attributes(specific))
    if unsigned(dict(attributes).get(IFLA_BRIDGE_FLAGS, b"")) & BRIDGE_FLAGS_SELF:
        return None
    vlans = parse_vlan_ranges(
        [value for kind, value in attributes if kind == IFLA_BRIDGE_VLAN_INFO]
    )
    return ifindex, vlans[:MAX_VLANS_PER_LINK]


def parse_vlan_ranges(values: list[bytes]) -> tuple[BridgeVlan, ...]:
    """struct bridge_vlan_info of each VLAN; a range is two of them: its first and its last VLAN."""
    found = []
    first: int | None = None
    for value in values:
        if len(value) < VLAN_INFO.size:
            continue
        flags, number = VLAN_INFO.unpack_from(value)
        if flags & VLAN_INFO_RANGE_BEGIN:
            first = number
            continue
        start = first if flags & VLAN_INFO_RANGE_END and first is not None else number
        first = None
        if 0 < start <= number <= MAX_VLAN_ID:
            pvid, untagged = bool(flags & VLAN_INFO_PVID), bool(flags & VLAN_INFO_UNTAGGED)
            found.append(BridgeVlan(start, number, pvid, untagged))
    return tuple(found)
