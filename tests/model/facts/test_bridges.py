"""Facts of a bridge and of its ports."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.facts.bridges import MAX_PORT_LINES, bridge_section
from nictop.model.facts.sections import Fact
from nictop.probe.records import BridgePort, BridgeVlan, Link
from tests.model.hosts import HELLO, UP, inventory, snapshot_of

DETAILS: dict[str, int | str | bool] = {
    "bridge_stp": True,
    "bridge_vlan_filtering": True,
    "bridge_default_pvid": 1,
    "bridge_vlan_protocol": "802.1Q",
}
BRIDGE = Link(
    5,
    "br0",
    1,
    UP,
    "up",
    True,
    1500,
    kind="bridge",
    details=DETAILS,
    bridge_vlans=(BridgeVlan(1, 1, True, True),),
)
PORT = Link(
    6,
    "tap0",
    1,
    UP,
    "up",
    True,
    1500,
    kind="tun",
    master=5,
    bridge_port=BridgePort("forwarding", isolated=True),
    bridge_vlans=(BridgeVlan(10, 10, True, True), BridgeVlan(20, 30)),
)


def facts(link: Link, *links: Link) -> list[Fact]:
    sections = bridge_section(link, snapshot_of(HELLO, inventory(links=links)))
    return [fact for one in sections for fact in one.facts]


def texts(link: Link, *links: Link) -> list[tuple[str, str]]:
    return [(fact.label, fact.text) for fact in facts(link, *links)]


def test_a_bridge() -> None:
    assert texts(BRIDGE, BRIDGE, PORT) == [
        ("STP", "on"),
        ("Filtering", "on · 802.1Q · default PVID 1"),
        ("VLANs of host", "PVID 1"),
        ("Port", "tap0: forwarding · PVID 10 · tagged 20-30"),
    ]


def test_a_port() -> None:
    assert texts(PORT, BRIDGE, PORT) == [
        ("Bridge", "br0 · forwarding"),
        ("VLANs", "PVID 10 · tagged 20-30"),
        ("Settings", "learning on · isolated on · hairpin off"),
    ]


def test_a_port_that_is_blocked_or_waits() -> None:
    blocked = replace(PORT, bridge_port=BridgePort("blocking", guard=True, flood=False))
    (first, _, last) = facts(blocked, BRIDGE, blocked)
    assert first == Fact("Bridge", "br0 · blocking", "warn")
    assert last.text == "learning on · isolated off · hairpin off · flood off · BPDU guard on"
    down = replace(blocked, bridge_port=BridgePort("disabled"), carrier=False)
    assert facts(down, BRIDGE, down)[0].tone == "normal"


def test_without_vlan_filtering() -> None:
    off = replace(BRIDGE, details={"bridge_stp": False, "bridge_vlan_filtering": False})
    assert texts(off, off, PORT)[:2] == [("STP", "off"), ("Filtering", "off")]
    assert texts(PORT, off, PORT)[1] == (
        "VLANs",
        "VLAN filtering off: all pass, with and without tags",
    )
    old = replace(BRIDGE, details={"bridge_stp": False})
    assert texts(old, old, PORT)[1] == ("Filtering", "not supported by this kernel")


def test_a_port_without_vlans_or_pvid() -> None:
    for vlans, text in (
        ((), "none"),
        ((BridgeVlan(20, 20), BridgeVlan(5, 5, False, True)), "no PVID · tagged 20 · untagged 5"),
    ):
        port = replace(PORT, bridge_vlans=vlans)
        assert texts(port, BRIDGE, port)[1] == ("VLANs", text)


def test_many_ports_are_counted() -> None:
    ports = [
        replace(PORT, ifindex=10 + number, name=f"tap{number}")
        for number in range(MAX_PORT_LINES + 3)
    ]
    assert texts(BRIDGE, BRIDGE, *ports)[-1] == ("Port", "3 more")


def test_other_links_and_old_recordings_have_no_section() -> None:
    old = replace(PORT, bridge_port=None, bridge_vlans=None)
    assert facts(old, BRIDGE, old) == []
    assert facts(replace(PORT, master=None), BRIDGE) == []
