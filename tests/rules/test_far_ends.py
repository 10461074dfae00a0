"""The other end of a veth is named as what it is known to be: a watched host, a container, a
network namespace, or not known."""

from __future__ import annotations

from typing import Any

import pytest

from nictop.probe.light_dataclasses import replace
from nictop.probe.records import PathSize
from nictop.rules import HostFacts, diagnose
from nictop.rules.by_device import device_findings
from nictop.rules.far_ends import find_far_ends
from nictop.rules.wording import where_text
from nictop.traffic.path.findings.findings import path_findings
from nictop.traffic.path.result import PathResult
from tests.support.rule_cases import host_facts
from tests.traffic.path.test_findings import healthy

UP_WITHOUT_CARRIER = {"carrier": False, "operstate": "lowerlayerdown"}
ADDRESS = {
    "family": "ipv4",
    "address": "198.18.0.1",
    "prefix_length": 24,
    "scope": "global",
    "flags": ["permanent"],
}


def namespace(name: str, number: int, links: dict[str, Any], **more: Any) -> HostFacts:
    hello = {"hostname": name, "boot_id": "m", "network_namespace": number}
    return host_facts({"name": name, "hello": hello, "links": links, **more})


def veth(number: int, peer: str, at: int, **fields: Any) -> dict[str, Any]:
    """With the MAC address 02:…:`number`; its other end has `at`."""
    told = {"name": peer, "mtu": 1500, "address": f"02:00:00:00:00:{at:02}"}
    address = f"02:00:00:00:00:{number:02}"
    return {
        "kind": "veth",
        "bus": None,
        "device": None,
        "address": address,
        "lower_namespace": 0,
        "veth_peer": told,
        **fields,
    }


def guest(name: str, kind: str) -> list[dict[str, Any]]:
    nic = {"name": "eth0", "backend": "veth", "link": "lab0"}
    known = {"name": name, "kind": kind, "product": "netns", "state": "running", "nics": [nic]}
    return [known]


def test_ends_with_equal_numbers_are_told_apart_by_their_addresses() -> None:
    """In a lab each NIC is lab0, with the same number, and so is its other end."""
    one = namespace("a", 1, {"lab0": veth(1, "lab0", 2)})
    two = namespace("b", 2, {"lab0": veth(2, "lab0", 1)})
    third = namespace("c", 3, {"lab0": veth(3, "lab0", 4)})
    ends = find_far_ends([one, two, third])
    assert {key: far.host.name for key, far in ends.items()} == {("a", 2): "b", ("b", 2): "a"}
    assert find_far_ends([one, third]) == {}


def test_a_namespace_that_is_watched_twice_is_one_other_end() -> None:
    one = namespace("a", 1, {"lab0": veth(1, "lab0", 2)})
    two = namespace("b", 2, {"lab0": veth(2, "lab0", 1)})
    again = namespace("again", 2, {"lab0": veth(2, "lab0", 1)})
    assert find_far_ends([one, two, again])["a", 2].host is two
    elsewhere = namespace("d", 4, {"lab0": veth(2, "lab0", 1)})
    assert ("a", 2) not in find_far_ends([one, two, elsewhere])


@pytest.mark.parametrize(
    ("guests", "is_watched", "expected"),
    [
        ([], False, "in the network namespace at its other end"),
        (guest("b", "namespace"), False, "in namespace b"),
        (guest("web1", "container"), False, "in container web1"),
        (guest("b", "namespace"), True, "on b"),
    ],
    ids=["not known", "namespace", "container", "watched"],
)
def test_a_fix_at_the_other_end_names_what_has_it(
    guests: list[dict[str, Any]], *, is_watched: bool, expected: str
) -> None:
    fields = {**UP_WITHOUT_CARRIER, "addresses": [ADDRESS]}
    platform = {"hypervisor": "kvm"}
    near = namespace(
        "a", 1, {"lab0": veth(1, "lab0", 2, **fields)}, guests=guests, platform=platform
    )
    far = namespace("b", 2, {"lab0": veth(2, "lab0", 1, flags=0, carrier=None)})
    hosts = [near, far] if is_watched else [near]
    (found,) = (one for one in diagnose(hosts).findings if one.rule == "configured_link_is_down")
    assert [where_text(found.host, fix) for fix in found.fixes] == [expected]


def test_the_port_of_a_watched_bridge_is_named_in_a_path_finding() -> None:
    fields = {"lab0": veth(1, "a", 2)}
    one, two = namespace("a", 1, fields), namespace("b", 3, {"lab0": veth(3, "b", 4)})
    ports = {"a": veth(2, "lab0", 1), "b": veth(4, "lab0", 3)}
    switch = namespace("switch", 2, ports)
    directions = (healthy("a", "b", sizes=(PathSize("udp", 1500, 1400),)), healthy("b", "a"))
    result = PathResult(1.0, "", 0, directions)
    places = []
    for hosts in ((one, two), (one, two, switch)):
        (found,) = path_findings(result, {host.name: host for host in hosts})
        (fix,) = (fix for fix in found.fixes if "the other end of the veth" in fix.title)
        places.append(where_text(found.host, fix))
    assert places == ["in the network namespace at its other end", "on switch"]


@pytest.mark.parametrize("is_down", [True, False])
def test_the_other_end_that_is_down_is_set_up_by_a_command(is_down: bool) -> None:
    """On the watched host that has it, as a port of a bridge."""
    flags = {"flags": 0, "carrier": False, "operstate": "down"} if is_down else UP_WITHOUT_CARRIER
    one = namespace("b", 1, {"lab0": veth(1, "pb", 2, addresses=[ADDRESS], **UP_WITHOUT_CARRIER)})
    other = namespace("switch", 2, {"pb": veth(2, "lab0", 1, **flags)})
    (found,) = [
        finding
        for finding in diagnose([one, other]).findings
        if finding.rule == "configured_link_is_down" and finding.host == "b"
    ]
    (fix,) = found.fixes
    assert (fix.where, fix.peer) == ("peer", "switch")
    name = "pb, the other end of the veth pair" if is_down else "the other end of the veth pair"
    assert fix.title == f"Bring up {name}"
    steps = [[str(step) for step in steps] for steps in (fix.commands, fix.undo)]
    wanted = [[f"ip link set dev pb {word}"] for word in ("up", "down")]
    assert steps == (wanted if is_down else [[], []])


def test_the_other_end_in_the_same_namespace_is_named() -> None:
    """It had neither name nor command, where one in another namespace has both."""
    own = {"lower_namespace": None, "veth_peer": None}
    links = {
        "p3": veth(
            1, "q3", 2, **own, ifindex=5, lower=6, addresses=[ADDRESS], **UP_WITHOUT_CARRIER
        ),
        "q3": veth(2, "p3", 1, **own, ifindex=6, lower=5, flags=0, carrier=False, operstate="down"),
    }
    (found,) = [
        finding
        for finding in diagnose([namespace("b", 1, links)]).findings
        if (finding.rule, finding.subject) == ("configured_link_is_down", "p3")
    ]
    (fix,) = found.fixes
    assert (fix.where, fix.title) == ("here", "Bring up q3, the other end of the veth pair")
    assert [str(step) for step in (*fix.commands, *fix.undo)] == [
        "ip link set dev q3 up",
        "ip link set dev q3 down",
    ]


def test_the_other_end_says_what_setting_it_up_does_not_bring_back() -> None:
    """The finding of that end says it; the one of this end gave the same command without it."""
    ipv6 = {**ADDRESS, "family": "ipv6", "address": "2001:db8::2", "prefix_length": 64}
    was_up = {"time": 900, "links": {"pb": veth(2, "lab0", 1, ifindex=2, addresses=[ipv6])}}
    down = {"flags": 0, "carrier": False, "operstate": "down", "addresses": []}
    one = namespace("b", 1, {"lab0": veth(1, "pb", 2, addresses=[ADDRESS], **UP_WITHOUT_CARRIER)})
    other = namespace(
        "switch", 2, {"pb": veth(2, "lab0", 1, ifindex=2, **down)}, time=1000, before=[was_up]
    )
    (fix,) = [
        fix
        for finding in diagnose([one, other]).findings
        if finding.host == "b"
        for fix in finding.fixes
        if fix.where == "peer" and fix.commands
    ]
    assert [str(step) for step in fix.commands] == ["ip link set dev pb up"]
    assert "2001:db8::2/64" in fix.note


def test_an_mtu_that_differs_is_marked_at_both_ends() -> None:
    ends = {
        mtu: veth(own, "lab0", other, mtu=mtu) for own, other, mtu in ((1, 2, 1500), (2, 1, 1400))
    }
    hosts = namespace("a", 1, {"lab0": ends[1500]}), namespace("b", 2, {"lab0": ends[1400]})
    diagnosis = diagnose(hosts)
    for host in hosts:
        nic = next(link for link in host.links if link.name == "lab0")
        rules = {one.rule for one in device_findings(diagnosis, host.name)[nic.ifindex]}
        assert "veth_ends_have_different_mtus" in rules


def test_the_end_of_a_port_of_a_bridge_is_set_until_the_next_reboot() -> None:
    """It said "survives a reboot", and had no command."""
    ports = {
        name: veth(number, "lab0", number + 1, mtu=1500, master=2)
        for name, number in (("b", 3), ("c", 5))
    }
    switch = namespace("switch", 1, {"br0": {"kind": "bridge", "bus": None}, **ports})
    host = namespace("c", 2, {"lab0": veth(6, "c", 5, mtu=9000)})
    hosts = [
        with_numbers(switch, {"b": (3, 21), "c": (4, 2)}),
        with_numbers(host, {"lab0": (2, 4)}),
    ]
    (found,) = [
        one for one in diagnose(hosts).findings if one.rule == "veth_ends_have_different_mtus"
    ]
    (fix,) = found.fixes
    assert (fix.where, fix.peer, fix.persistent) == ("peer", "c", False)
    assert [str(step) for step in fix.commands] == ["ip link set dev lab0 mtu 1500"]
    assert [str(step) for step in fix.undo] == ["ip link set dev lab0 mtu 9000"]


def with_numbers(host: HostFacts, numbers: dict[str, tuple[int, int]]) -> HostFacts:
    """`numbers`: name → ifindex, which the link has, and that of its other end."""
    links = {}
    for link in host.links:
        own, other = numbers.get(link.name, (link.ifindex, None))
        assert own == link.ifindex
        links[own] = replace(link, lower=other)
    return HostFacts(replace(host.snapshot, links=links), host.window)
