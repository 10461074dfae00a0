"""Hosts that are network namespaces of one machine, with veths to a bridge: in one network only as
far as the host of the bridge shows it."""

from __future__ import annotations

from collections.abc import Sequence
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


def container(
    name: str,
    port: int,
    *,
    vlan: int | None = None,
    address: dict[str, Any] = ADDRESS,
    mac: str = "",
    neighbours: Sequence[tuple[str, str]] = (),
    boot: str = "b",
) -> HostFacts:
    """`port`: ifindex of the veth's other end. `vlan`: the address is on a VLAN link above it.
    `neighbours`: IP and MAC addresses."""
    veth: dict[str, Any] = {
        "kind": "veth",
        "bus": None,
        "address": mac or MAC[name],
        "lower": port,
        "lower_namespace": 0,
    }
    links: dict[str, Any] = {"eth0": veth}
    if vlan is None:
        veth["addresses"] = [address]
    else:
        details = {"vlan_id": vlan}
        above = {"kind": "vlan", "address": MAC[name], "lower": ETH0, "details": details}
        links[f"eth0.{vlan}"] = {**above, "addresses": [ADDRESS]}
    known = [{"ifindex": "eth0", "address": ip, "mac": its} for ip, its in neighbours]
    hello = {"hostname": name, "boot_id": boot, "network_namespace": port}
    routing = {"neighbours": known}
    return host_facts({"name": name, "hello": hello, "links": links, "routing": routing})


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


# -------------------------------------------------------------------- the bridge is not watched

PREFIX = "prefix_length_differs"
OTHER = "02:00:00:00:00:0c"
THIRD = ("198.18.0.3", OTHER)
LONGER = {"family": "ipv4", "address": "198.18.0.2", "prefix_length": 25}


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        ([("fe80::b", MAC["b"])], []),
        ([], [("fe80::a", MAC["a"])]),
        ([THIRD], [THIRD]),
        ([("fe80::1", OTHER)], [("fe80::1", OTHER)]),
    ],
    ids=["a has b", "b has a", "both have a third one", "one router"],
)
def test_neighbour_tables_show_one_network(
    of_a: list[tuple[str, str]], of_b: list[tuple[str, str]]
) -> None:
    one = container("a", PORT_A, neighbours=of_a)
    (found,) = diagnose([one, container("b", PORT_B, neighbours=of_b)]).findings
    assert found.rule == DUPLICATE
    assert found.why.startswith("Neighbour tables show one network: ")
    assert [item.value for item in found.evidence if item.what == "one network"]
    assert not any("arping" in str(step) for fix in found.fixes for step in fix.commands)
    longer = container("b", PORT_B, neighbours=of_b, address=LONGER)
    assert [one.rule for one in diagnose([one, longer]).findings] == [PREFIX]


@pytest.mark.parametrize(
    ("of_a", "of_b"),
    [
        ([THIRD], []),
        ([THIRD], [("198.18.0.3", "02:00:00:00:00:0d")]),
        ([THIRD], [("198.18.0.4", OTHER)]),
        ([("198.18.0.254", "00:00:5e:00:01:07")], [("198.18.0.254", "00:00:5e:00:01:07")]),
        ([("169.254.1.1", "ee:ee:ee:ee:ee:ee")], [("169.254.1.1", "ee:ee:ee:ee:ee:ee")]),
        ([("172.17.0.3", "02:42:ac:11:00:03")], [("172.17.0.3", "02:42:ac:11:00:03")]),
    ],
    ids=["only a", "another MAC address", "another address", "VRRP", "Calico", "Docker"],
)
def test_neighbour_tables_that_show_nothing(
    of_a: list[tuple[str, str]], of_b: list[tuple[str, str]]
) -> None:
    one, other = (
        container(name, port, neighbours=known)
        for name, port, known in (("a", PORT_A, of_a), ("b", PORT_B, of_b))
    )
    assert not has_duplicate(one, other)


@pytest.mark.parametrize(
    ("mac", "expected"), [("02:00:00:00:00:0c", False), ("00:1b:21:00:00:0c", True)]
)
def test_of_two_machines_only_an_address_of_a_manufacturer_counts(mac: str, expected: bool) -> None:
    """The router of QEMU's user network, and that of a copied network, have one MAC address in each
    of these networks."""
    known = [("198.18.0.3", mac)]
    one = container("a", PORT_A, neighbours=known, boot="m1")
    assert has_duplicate(one, container("b", PORT_B, neighbours=known, boot="m2")) is expected


def skipped(*hosts: HostFacts) -> list[tuple[str, str, str]]:
    found = diagnose(hosts).skipped
    return [(one.rule, one.host, one.reason) for one in found if one.rule in (DUPLICATE, PREFIX)]


def test_what_rests_on_an_unwatched_bridge_is_said_not_to_be_checked() -> None:
    one = container("a", PORT_A)
    ((rule, host, reason),) = skipped(one, container("b", PORT_B))
    assert (rule, host) == (DUPLICATE, "a")
    assert reason.startswith("198.18.0.1 is also on b eth0: not known whether both are in one")
    ((rule, host, reason),) = skipped(one, container("b", PORT_B, address=LONGER))
    assert (rule, host) == (PREFIX, "b")
    assert reason.startswith("198.18.0.2/25, but 198.18.0.1/24 on a eth0: not known whether")


def test_each_of_many_containers_with_one_address_is_named_once() -> None:
    hosts = [container("a", PORT_A), container("b", PORT_B)]
    third = container("c", 6, mac="02:00:00:00:00:1c")
    ((_, _, reason),) = skipped(*hosts, third)
    assert reason.startswith("198.18.0.1 is also on b eth0, c eth0: ")


@pytest.mark.parametrize(
    "others",
    [
        (container("b", PORT_B), switch()),
        (container("b", PORT_B), switch(bridge_of_b="br1")),
        (container("b", PORT_B, boot="m2"),),
        (container("b", PORT_B, address={**ADDRESS, "address": "198.18.0.2"}),),
    ],
    ids=["one bridge", "two bridges", "two machines", "two addresses"],
)
def test_nothing_is_left_open_where_the_watched_hosts_tell(others: tuple[HostFacts, ...]) -> None:
    assert skipped(container("a", PORT_A), *others) == []


BRIDGE_HOST = {"hostname": "host", "boot_id": "b", "network_namespace": 1}


def bridge_host(*, nic: bool, mac: str = MAC["a"]) -> HostFacts:
    """The host of a bridge that has the address. `mac`: of the link behind its port."""
    bridge = {"kind": "bridge", "bus": None, "addresses": [ADDRESS]}
    port = {
        "kind": "veth",
        "bus": None,
        "master": 2,
        "lower": ETH0,
        "lower_namespace": 0,
        "veth_peer": field_mapping(VethPeer("eth0", 1500, mac)),
    }
    device = {"bus": "pci", "device": "0000:01:00.0", "master": 2 if nic else None}
    links = {"br0": bridge, "ens1": device, "port-a": port}
    return host_facts({"name": "host", "hello": BRIDGE_HOST, "links": links})


@pytest.mark.parametrize("nic", [True, False])
def test_a_container_on_a_watched_bridge_is_in_its_network(nic: bool) -> None:
    """As a container has the address of its own host; also if no device is on the bridge."""
    assert has_duplicate(container("a", PORT_A), bridge_host(nic=nic))


def test_a_bridge_without_a_device_is_in_no_other_network() -> None:
    """Neither in that of a container that is not on it, nor in that of another machine."""
    assert not has_duplicate(
        container("a", PORT_A), bridge_host(nic=False, mac="02:00:00:00:00:0c")
    )
    links = {"ens1": {"bus": "pci", "device": "0000:01:00.0", "addresses": [ADDRESS]}}
    far = host_facts({"name": "far", "hello": {"hostname": "far", "boot_id": "f"}, "links": links})
    other = {**ADDRESS, "address": "198.18.0.9"}
    assert not has_duplicate(container("a", PORT_A, address=other), bridge_host(nic=False), far)
