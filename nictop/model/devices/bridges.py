"""Bridges with VLAN filtering: the VLANs of a port, and the port by which a tap or veth reaches
such a bridge.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nictop.model.devices.links import link_at, ports_of
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import BridgeVlan, Link

MAX_INNER_BRIDGES = 4
"""Bridges that are passed in a row: Proxmox puts one (fwbr100i0) between a tap and the bridge of
its network."""


class AwarePort(NamedTuple):
    """A port of a bridge with VLAN filtering, the VLANs of which are known."""

    port: Link
    bridge: Link
    vlans: Sequence[BridgeVlan]


def bridge_of(link: Link, links: Mapping[int, Link]) -> Link | None:
    """The bridge, or switch of ESXi, of which a link is a port."""
    above = link_at(link.master, links)
    if above is None or above.kind not in ("bridge", "vswitch"):
        return None
    return above


OPERATIONAL = ("up", "unknown")
"""netif_oper_up() of include/linux/netdevice.h."""


def stp_state(port: Link) -> str:
    """Of a bridge port; "": it is none, or the kernel changes the state at this moment, or has done
    so since it was read.

    The kernel disables a port that loses its carrier and enables it again later, after the carrier
    came and when the operational state follows (net/bridge/br_if.c br_port_carrier_check,
    net/core/link_watch.c linkwatch_do_dev).
    """
    if port.bridge_port is None:
        return ""
    if port.carrier and port.operstate not in OPERATIONAL:
        return ""
    return port.bridge_port.state


def filters_vlans(bridge: Link) -> bool:
    return bridge.details.get("bridge_vlan_filtering") is True


def default_pvid(bridge: Link) -> int | None:
    """PVID of new ports; 0: none."""
    value = bridge.details.get("bridge_default_pvid")
    if not isinstance(value, int):
        return None
    return value


def outer_port(link: Link, links: Mapping[int, Link]) -> tuple[Link, Link] | None:
    """(port, bridge) by which a link is in a network: the link itself, or the port behind inner
    bridges without VLAN filtering, each of which has only one other port, a veth to the next
    bridge. None: it is not a port."""
    bridge = bridge_of(link, links)
    for _ in range(MAX_INNER_BRIDGES):
        if bridge is None or filters_vlans(bridge):
            break
        further = _port_behind(bridge, link, links)
        if further is None:
            break
        link, bridge = further
    if bridge is None:
        return None
    return link, bridge


def _port_behind(bridge: Link, port: Link, links: Mapping[int, Link]) -> tuple[Link, Link] | None:
    """(Port, next bridge), if the only other port of a bridge is a veth to it."""
    others = [other for other in ports_of(bridge, links) if other.ifindex != port.ifindex]
    if len(others) != 1:
        return None
    peer = veth_peer(others[0], links)
    if peer is None:
        return None
    above = bridge_of(peer, links)
    if above is None:
        return None
    return peer, above


def aware_port(link: Link, links: Mapping[int, Link]) -> AwarePort | None:
    """The outer port of a link, if its bridge has VLAN filtering."""
    found = outer_port(link, links)
    if found is None:
        return None
    port, bridge = found
    if port.bridge_vlans is None or not filters_vlans(bridge):
        return None
    return AwarePort(port, bridge, port.bridge_vlans)


def veth_peer(link: Link, links: Mapping[int, Link]) -> Link | None:
    """The other end of a veth pair in the same network namespace."""
    if link.kind != "veth" or link.lower_namespace is not None:
        return None
    return link_at(link.lower, links)


def find_vlan(vlans: Iterable[BridgeVlan], number: int) -> BridgeVlan | None:
    """The range that contains a VLAN."""
    for vlan in vlans:
        if vlan.first <= number <= vlan.last:
            return vlan
    return None


def pvid(vlans: Iterable[BridgeVlan]) -> int | None:
    """VLAN of received frames without a tag; None: they are dropped."""
    for vlan in vlans:
        if vlan.pvid:
            return vlan.first
    return None


def vlans_text(vlans: Sequence[BridgeVlan]) -> str:
    """``PVID 10 · tagged 20, 30-40``"""
    if not vlans:
        return "none"
    own = pvid(vlans)
    parts = ["no PVID" if own is None else f"PVID {own}"]
    tagged = [range_text(vlan) for vlan in vlans if not vlan.untagged]
    if tagged:
        parts.append(f"tagged {', '.join(tagged)}")
    untagged = [range_text(vlan) for vlan in vlans if vlan.untagged and not vlan.pvid]
    if untagged:
        parts.append(f"untagged {', '.join(untagged)}")
    return " · ".join(parts)


def range_text(vlan: BridgeVlan) -> str:
    """``20`` or ``30-40``"""
    if vlan.first == vlan.last:
        return str(vlan.first)
    return f"{vlan.first}-{vlan.last}"
