"""Watched hosts that are virtual machines of a watched ESXi host."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.devices.guests import Guest, guests
from nictop.model.devices.pairs import pairs
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Inventory
from tests.model.guests.hypervisor import hypervisor
from tests.support.esxi import DB_MAC, VF_MAC, WEB_MAC, esxi_lines
from tests.support.rule_cases import host_facts, host_facts_after


def guest(name: str, address: str) -> Snapshot:
    host = {"base": "vmware-guest", "name": name, "hello": {"boot_id": name}}
    links = {"ens192": {"address": address, "permanent_address": address}}
    return host_facts({**host, "links": links}).snapshot


def esxi() -> Snapshot:
    return host_facts_after(esxi_lines(), "esx1").snapshot


def test_by_a_port_and_by_a_function() -> None:
    found = guests(
        [guest("a", WEB_MAC), guest("b", VF_MAC), guest("c", "00:0c:29:99:99:99"), esxi()]
    )
    assert found == {"a": Guest("esx1", "web1"), "b": Guest("esx1", "db1")}


def test_by_the_owner_of_a_function_of_a_linux_hypervisor() -> None:
    found = guests([guest("a", "52:54:00:00:01:01"), hypervisor()])
    assert found == {"a": Guest("pve", "web1")}
    assert guests([guest("a", "52:54:00:00:01:01"), hypervisor(guests=())]) == {}


def test_two_machines_of_one_host_are_none() -> None:
    both = guest("a", WEB_MAC)
    other = replace(
        next(iter(both.links.values())),
        ifindex=99,
        name="ens193",
        address=DB_MAC,
        permanent_address=None,
    )
    assert guests([replace(both, links={**both.links, 99: other}), esxi()]) == {}


def test_the_port_and_its_switch_are_named() -> None:
    (pair,) = pairs([guest("a", WEB_MAC), esxi()]).taps
    assert (pair.known_by, pair.machine, pair.bridge, pair.port) == (
        "address",
        "web1",
        "vSwitch0",
        "web1.eth0",
    )


def test_an_unknown_mtu_disagrees_with_none() -> None:
    host = esxi()
    links = {
        index: replace(one, mtu=0) if one.kind == "vnic" else one
        for index, one in host.links.items()
    }
    assert isinstance(host.inventory, Inventory)
    (pair,) = pairs([guest("a", WEB_MAC), replace(host, links=links)]).taps
    assert pair.disagreements == ()
