"""Bridges with VLAN filtering: the VLANs of a port, and the port by which a tap or veth reaches such a bridge.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from nictop.probe.records import BridgeVlan, Link

MAX_INNER_BRIDGES = 4
"""Bridges that are passed in a row: Proxmox puts one (fwbr100i0) between a tap and the bridge of its network."""


class AwarePort(NamedTuple):
    """A port of a bridge with VLAN filtering, the VLANs of which are known."""

    port: Link
    bridge: Link
    vlans: Sequence[BridgeVlan]


def bridge_of(link: Link, links: Mapping[int, Link]) -> Link | None:
    """The bridge, or switch of ESXi, of which a link is a port."""
    above = links.get(link.master) if link.master is not None else None
    return above if above is not None and above.kind in ("bridge", "vswitch") else None


def filters_vlans(bridge: Link) -> bool:
    return bridge.details.get("bridge_vlan_filtering") is True


def default_pvid(bridge: Link) -> int | None:
    """PVID of new ports; 0: none."""
    value = bridge.details.get("bridge_default_pvid")
    return value if isinstance(value, int) else None


def outer_port(link: Link, links: Mapping[int, Link]) -> tuple[Link, Link] | None:
    """(port, bridge) by which a link is in a network: the link itself, or the port behind inner bridges without VLAN
    filtering, each of which has only one other port, a veth to the next bridge. None: it is not a port."""
    bridge = bridge_of(link, links)
    for _ in range(MAX_INNER_BRIDGES):
        if bridge is None or filters_vlans(bridge):
            break
        others = [one for one in links.values() if one.master == bridge.ifindex and one.ifindex != link.ifindex]
        peer = veth_peer(others[0], links) if len(others) == 1 else None
        above = bridge_of(peer, links) if peer is not None else None
        if peer is None or above is None:
            break
        link, bridge = peer, above
    return None if bridge is None else (link, bridge)


def aware_port(link: Link, links: Mapping[int, Link]) -> AwarePort | None:
    """The outer port of a link, if its bridge has VLAN filtering."""
    found = outer_port(link, links)
    if found is None or not filters_vlans(found[1]) or found[0].bridge_vlans is None:
        return None
    return AwarePort(*found, found[0].bridge_vlans)


def veth_peer(link: Link, links: Mapping[int, Link]) -> Link | None:
    """The other end of a veth pair in the same network namespace."""
    if link.kind != "veth" or link.lower_namespace is not None or link.lower is None:
        return None
    return links.get(link.lower)


def find_vlan(vlans: Iterable[BridgeVlan], number: int) -> BridgeVlan | None:
    """The range that contains a VLAN."""
    return next((one for one in vlans if one.first <= number <= one.last), None)


def pvid(vlans: Iterable[BridgeVlan]) -> int | None:
    """VLAN of received frames without a tag; None: they are dropped."""
    return next((one.first for one in vlans if one.pvid), None)


def vlans_text(vlans: Sequence[BridgeVlan]) -> str:
    """``PVID 10 · tagged 20, 30-40``"""
    if not vlans:
        return "none"
    own = pvid(vlans)
    parts = ["no PVID" if own is None else f"PVID {own}"]
    for name, members in (
        ("tagged", [one for one in vlans if not one.untagged]),
        ("untagged", [one for one in vlans if one.untagged and not one.pvid]),
    ):
        if members:
            parts.append(f"{name} {', '.join(map(range_text, members))}")
    return " · ".join(parts)


def range_text(vlan: BridgeVlan) -> str:
    """``20`` or ``30-40``"""
    return str(vlan.first) if vlan.first == vlan.last else f"{vlan.first}-{vlan.last}"
