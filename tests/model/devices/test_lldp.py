"""The switch port of a netdev: which neighbour it is, the facts that are shown, and why none is
known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nictop.model.devices.lldp import (
    listening_links,
    neighbours,
    switch_port,
    switch_ports,
    why_no_neighbour,
)
from nictop.model.devices.tree import device_tree
from nictop.model.facts.facts import link_facts
from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import Line, Link, LldpListening, LldpNeighbour, TrafficLine, Unreadable
from nictop.rules import HostFacts
from tests.support.rule_cases import host_facts

BASE = "vlans-and-wireguard"
NIC = "eno1"
SWITCH = {
    "chassis": "00:11:22:33:44:55",
    "system_name": "sw1",
    "port": "Ethernet1/7",
    "capabilities": ["bridge", "router"],
    "ttl": 120,
}


def host(**fields: Any) -> HostFacts:
    return host_facts({"base": BASE, **fields})


def nic(facts: HostFacts, name: str = NIC) -> Link:
    return facts.links_by_name[name]


def shown(facts: HostFacts, title: str, name: str = NIC) -> dict[str, str]:
    """Label → text of each line of a section."""
    row = next(
        one for one in device_tree(facts.snapshot) if one.link is not None and one.link.name == name
    )
    sections = [section for section in link_facts(row, facts.snapshot) if section.title == title]
    return {fact.label: fact.text for section in sections for fact in section.facts}


def reason(facts: HostFacts, name: str = NIC) -> tuple[str, str]:
    found = why_no_neighbour(nic(facts, name), facts.snapshot)
    return found.kind, found.text


def driver(name: str, **flags: bool) -> dict[str, Any]:
    info = {"driver": name, "version": "", "firmware": "", "bus_info": ""}
    return {
        "ethtool": {
            "driver": info,
            "private_flags": {key.replace("_", "-"): on for key, on in flags.items()},
        }
    }


def test_the_facts_of_a_switch_port() -> None:
    whole = {
        **SWITCH,
        "port_description": "host a",
        "pvid": 10,
        "vlans": [10, 20, 21, 22],
        "max_frame": 9236,
        "aggregation": "enabled",
        "aggregation_port": 1007,
        "management_addresses": ["192.0.2.1"],
        "system_description": "Arista Networks EOS\nversion 4.30",
        "age": 12.0,
    }
    assert shown(host(lldp={NIC: [whole]}), "Switch port") == {
        "Switch": "sw1 · 00:11:22:33:44:55",
        "Port": "Ethernet1/7 · host a",
        "VLANs": "PVID 10 · announces 10,20-22",
        "Max frame": "9236 bytes",
        "Aggregation": "enabled (port 1007)",
        "Management": "192.0.2.1",
        "System": "Arista Networks EOS version 4.30",
        "Capabilities": "bridge, router",
        "LLDP": "received by lldpd · valid for 120 s · 12.0 s old when read",
    }


def test_what_is_not_announced_has_no_line() -> None:
    facts = shown(
        host(listened={NIC: {"protocol": "CDP", "chassis": "sw1", "port": "Gi1/0/7"}}),
        "Switch port",
    )
    assert facts == {"Switch": "sw1", "Port": "Gi1/0/7", "CDP": "received by listening"}


def test_one_neighbour_that_several_know() -> None:
    """That with most values is shown."""
    facts = host(
        lldp={NIC: [{**SWITCH, "source": "networkd"}]}, listened={NIC: {**SWITCH, "pvid": 10}}
    )
    (one,) = neighbours(nic(facts), facts.snapshot)
    assert (one.source, one.pvid) == ("listened", 10)
    assert switch_ports(facts.snapshot) == {nic(facts).ifindex: one}


def test_neighbours_that_are_not_one_switch() -> None:
    station = {**SWITCH, "capabilities": ["station"]}
    facts = host(lldp={NIC: [station]})
    assert switch_port(nic(facts), facts.snapshot) is None and neighbours(
        nic(facts), facts.snapshot
    )
    facts = host(lldp={NIC: [SWITCH, {**SWITCH, "chassis": "00:11:22:33:44:66"}]})
    assert switch_port(nic(facts), facts.snapshot) is None
    facts = host(lldp={NIC: [{**SWITCH, "protocol": "CDP"}, SWITCH]})
    found = switch_port(nic(facts), facts.snapshot)
    assert found is not None and found.protocol == "LLDP"


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        ({}, "off", "no service receives LLDP; nictop show --lldp listens"),
        ({"links": {NIC: {"carrier": False}}}, "down", "no link"),
        ({"links": {NIC: driver("iavf")}}, "vf", "VF: LLDP frames reach the PF only"),
        (
            {"links": {NIC: driver("i40e", disable_fw_lldp=False)}},
            "firmware",
            "the firmware keeps LLDP frames (private flag disable-fw-lldp)",
        ),
        (
            {"links": {NIC: driver("i40e", disable_fw_lldp=True)}, "listened": {NIC: None}},
            "silent",
            "",
        ),
        (
            {"links": {NIC: driver("ice", fw_lldp_agent=True)}},
            "firmware",
            "the firmware keeps LLDP frames (private flag fw-lldp-agent)",
        ),
        (
            {"links": {NIC: driver("vmxnet3")}},
            "virtual",
            "virtual switches do not forward LLDP unless configured",
        ),
        (
            {"links": {NIC: driver("vmxnet3")}, "listened": {NIC: None}},
            "virtual",
            "nothing received; virtual switches do not forward LLDP unless configured",
        ),
        ({"listened": {NIC: None}}, "silent", "nothing received by listening"),
        ({"services": {"lldpd": 700}}, "silent", "nothing received by lldpd"),
        (
            {"networkmanager": {"profiles": {"A": {"lldp": 1}}}},
            "silent",
            "nothing received by NetworkManager",
        ),
        (
            {"services": {"networkd": 7}, "networkd": {NIC: {"setup_state": "configured"}}},
            "silent",
            "nothing received by systemd-networkd",
        ),
        ({"unreadable": {"lldp": {"reason": "needs_root", "detail": ""}}}, "rights", "needs root"),
    ],
)
def test_why_none_is_known(fields: dict[str, Any], kind: str, text: str) -> None:
    facts = host(**fields)
    found = reason(facts)
    assert found[0] == kind and text in found[1]
    assert shown(facts, "Link")["Switch port"] == f"not known: {found[1]}"


def test_it_may_not_listen() -> None:
    facts = host()
    ifindex = nic(facts).ifindex
    refused = LldpListening(
        (ifindex,), ended=True, unreadable={str(ifindex): Unreadable("needs_root", "")}
    )
    snapshot = advance(facts.snapshot, Line(traffic=TrafficLine(0.0, "x", "lldp", lldp=refused)))
    found = why_no_neighbour(nic(facts), snapshot)
    assert (found.kind, found.text) == ("rights", "cannot listen: needs root")


def test_only_nics_with_a_link_are_listened_on() -> None:
    facts = host_facts({"base": "bond-networkmanager"})
    names = {facts.snapshot.links[ifindex].name for ifindex in listening_links(facts.snapshot)}
    assert names == {"eno1", "eno2"}
    assert "Switch port" not in shown(facts, "Link", "bond0")
    container = {"kind": "veth", "lower": 9, "lower_namespace": 0}
    facts = host(
        links={"eth0": container, "vethb": {**container, "master": 2}, "eno2": {"carrier": False}}
    )
    names = {facts.snapshot.links[ifindex].name for ifindex in listening_links(facts.snapshot)}
    assert names == {"eno1", "eth0"}


def heard(snapshot: Snapshot, listening: LldpListening) -> Snapshot:
    return advance(snapshot, Line(traffic=TrafficLine(0.0, "x", "lldp", lldp=listening)))


def test_what_was_received_stays() -> None:
    """Until the NIC is gone; another time without a frame does not remove it."""
    facts = host()
    ifindex = nic(facts).ifindex
    one = LldpNeighbour("listened", chassis="a", port="1")
    snapshot = heard(facts.snapshot, LldpListening((ifindex, 999), {ifindex: one}))
    assert snapshot.listened == {ifindex: one}
    snapshot = heard(snapshot, LldpListening((ifindex, 999), ended=True))
    assert snapshot.listened == {ifindex: one}
    without = replace(snapshot, links={})
    assert heard(without, LldpListening((ifindex,), ended=True)).listened == {}


def test_what_is_too_long_is_not_kept() -> None:
    facts = host()
    ifindex = nic(facts).ifindex
    one = LldpNeighbour("listened", chassis="a" * 5000, port="1")
    assert heard(facts.snapshot, LldpListening((ifindex,), {ifindex: one, 999: one})).listened == {}
