"""Hosts that are network namespaces of one machine, with veths to a bridge: in one network only as
far as the host of the bridge shows it."""

from __future__ import annotations

from typing import Any

import pytest

from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import VethPeer
from nictop.rules import diagnose
from nictop.rules.host import HostFacts
from tests.support.rule_cases import host_facts

DUPLICATE = "ip_address_is_on_two_hosts"
ADDRESS = {"family": "ipv4", "address": "198.18.0.1", "prefix_length": 24}
MAC = {"a": "02:00:00:00:00:0a", "b": "02:00:00:00:00:0b"}
ETH0 = 2
"""Its ifindex: lo is the first."""
PORT_A, PORT_B = 4, 5
ACCESS = {"bridge_vlan_filtering": True}
"""Details of a bridge that filters VLANs."""


def container(name: str, port: int, *, vlan: int | None = None) -> HostFacts:
    """`port`: ifindex of the veth's other end. `vlan`: the address is on a VLAN link above it."""
    veth: dict[str, Any] = {
        "kind": "veth",
        "bus": None,
        "address": MAC[name],
        "lower": port,
        "lower_namespace": 0,
    }
    links: dict[str, Any] = {"eth0": veth}
    if vlan is None:
        veth["addresses"] = [ADDRESS]
    else:
        details = {"vlan_id": vlan}
        above = {"kind": "vlan", "address": MAC[name], "lower": ETH0, "details": details}
        links[f"eth0.{vlan}"] = {**above, "addresses": [ADDRESS]}
    return host_facts({"name": name, "links": links})


def switch(
    *,
    mac_of_b: str = MAC["b"],
    bridge_of_b: str = "br0",
    details: dict[str, Any] | None = None,
    vlans: tuple[int, int] = (1, 1),
) -> HostFacts:
    """Two bridges; their ports are `PORT_A` and `PORT_B`. `vlans`: of frames without a tag."""
    bridges = {"br0": 2, "br1": 3}
    bridge = {"kind": "bridge", "bus": None, "details": details or {}}

    def port(name: str, mac: str, above: str, vlan: int) -> dict[str, Any]:
        return {
            "kind": "veth",
            "bus": None,
            "master": bridges[above],
            "lower": ETH0,
            "lower_namespace": 0 if name == "a" else 1,
            "veth_peer": field_mapping(VethPeer("eth0", 1500, mac)),
            "bridge_vlans": [{"first": vlan, "last": vlan, "pvid": True, "untagged": True}],
        }

    ports = {
        "port-a": port("a", MAC["a"], "br0", vlans[0]),
        "port-b": port("b", mac_of_b, bridge_of_b, vlans[1]),
    }
    return host_facts({"name": "switch", "links": {"br0": bridge, "br1": bridge, **ports}})


def has_duplicate(*hosts: HostFacts) -> bool:
    return DUPLICATE in {one.rule for one in diagnose(hosts).findings}


def test_veths_on_one_bridge_are_in_one_network() -> None:
    assert has_duplicate(container("a", PORT_A), container("b", PORT_B), switch())


@pytest.mark.parametrize(
    ("port_of_b", "between"),
    [
        (PORT_B, None),  # nobody knows where the other ends are
        (PORT_B, switch(bridge_of_b="br1")),
        (PORT_B, switch(mac_of_b="02:00:00:00:00:0c")),  # of another link with these numbers
        (9, switch()),
        (PORT_B, switch(details=ACCESS, vlans=(10, 20))),
    ],
)
def test_what_does_not_show_one_network_is_none(port_of_b: int, between: HostFacts | None) -> None:
    hosts = [container("a", PORT_A), container("b", port_of_b)]
    assert not has_duplicate(*hosts, *([] if between is None else [between]))


def test_ports_of_one_vlan_are_in_one_network() -> None:
    bridge = switch(details=ACCESS, vlans=(10, 10))
    assert has_duplicate(container("a", PORT_A), container("b", PORT_B), bridge)


@pytest.mark.parametrize(("other", "expected"), [(7, True), (8, False)])
def test_vlans_above_veths(other: int, expected: bool) -> None:
    hosts = container("a", PORT_A, vlan=7), container("b", PORT_B, vlan=other), switch()
    assert has_duplicate(*hosts) is expected
