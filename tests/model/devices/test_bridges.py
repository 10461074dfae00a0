"""The port of a bridge with VLAN filtering, behind inner bridges or not."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.devices.bridges import aware_port, outer_port
from nictop.probe.records import BridgeVlan, Link

VLANS = (BridgeVlan(10, 10, True, True),)


def link(ifindex: int, name: str, **more: object) -> Link:
    return Link(ifindex, name, 1, 1, "up", True, 1500, **more)  # type: ignore[arg-type]


AWARE = link(2, "vmbr0", kind="bridge", details={"bridge_vlan_filtering": True})
INNER = link(3, "fwbr100i0", kind="bridge", details={"bridge_vlan_filtering": False})
TAP = link(4, "tap100i0", kind="tun", master=3)
LN = link(5, "fwln100i0", kind="veth", master=3, lower=6)
PR = link(6, "fwpr100p0", kind="veth", master=2, lower=5, bridge_vlans=VLANS)


def by_index(*links: Link) -> dict[int, Link]:
    return {one.ifindex: one for one in links}


def test_an_inner_bridge_is_passed() -> None:
    links = by_index(AWARE, INNER, TAP, LN, PR)
    assert outer_port(TAP, links) == (PR, AWARE)
    found = aware_port(TAP, links)
    assert found is not None and (found.port, found.bridge, found.vlans) == (PR, AWARE, VLANS)
    assert aware_port(PR, links) == found


def test_a_bridge_with_further_ports_is_not_passed() -> None:
    links = by_index(AWARE, INNER, TAP, LN, PR, link(7, "tap101i0", kind="tun", master=3))
    assert outer_port(TAP, links) == (TAP, INNER)
    assert aware_port(TAP, links) is None


def test_a_veth_into_another_namespace_is_not_followed() -> None:
    far = replace(LN, lower_namespace=0)
    assert outer_port(TAP, by_index(AWARE, INNER, TAP, far, PR)) == (TAP, INNER)


def test_no_port_or_vlans_that_were_not_read() -> None:
    assert outer_port(replace(TAP, master=None), by_index(AWARE)) is None
    unread = replace(PR, bridge_vlans=None)
    assert aware_port(unread, by_index(AWARE, unread)) is None


def test_bridges_in_a_circle() -> None:
    """No kernel has them."""
    one, other = replace(INNER, ifindex=20), replace(INNER, ifindex=21)
    a, b = (
        link(22, "a", kind="veth", master=20, lower=23),
        link(23, "b", kind="veth", master=21, lower=24),
    )
    c, d = (
        link(24, "c", kind="veth", master=20, lower=25),
        link(25, "d", kind="veth", master=21, lower=22),
    )
    assert outer_port(a, by_index(one, other, a, b, c, d)) is not None
