"""No MTU below what each link must pass is ever printed, and a smaller MTU is printed for all
ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.records import Address, Link, PathSize, VethPeer
from nictop.rules import RULES, diagnose
from nictop.rules.fixes.persistence import MIN_IPV4_MTU, MIN_IPV6_MTU, mtu_fixes
from nictop.traffic.path.findings.findings import path_findings
from nictop.traffic.path.result import PathResult
from tests.rules.test_recorded_hosts import EXPECTED
from tests.support.captured import captured_lines
from tests.support.printed_mtus import MTU, printed_mtus
from tests.support.rule_cases import host_facts, host_facts_after
from tests.traffic.path.test_findings import FACTS, found, healthy

HOST = host_facts({"links": {"ens4": {"bus": "pci"}}})
IPV4 = Address("ipv4", "192.0.2.1", 24, "global", ())
IPV6 = Address("ipv6", "fe80::1", 64, "link", ())


def test_mtus_are_found_in_every_form() -> None:
    texts = (
        "ip link set dev a mtu 99",
        "echo 'ATTR{mtu}=\"99\"' > f",
        "netplan set bridges.a.mtu=99",
        "MTUBytes=99",
    )
    assert [MTU.findall(text) for text in texts] == [["99"]] * len(texts)


@given(
    st.integers(0, 70_000),
    st.sampled_from([(), (IPV4,), (IPV4, IPV6)]),
    st.sampled_from([None, 0, 1500, 9216]),
)
def test_fixes_of_a_link(mtu: int, addresses: tuple[Address, ...], largest: int | None) -> None:
    link = Link(2, "ens4", 1, 1, "up", True, 1500, max_mtu=largest, addresses=addresses)
    fixes = mtu_fixes(HOST, link, mtu)
    smallest = MIN_IPV6_MTU if IPV6 in addresses else MIN_IPV4_MTU
    is_possible = mtu >= smallest and (not largest or mtu <= largest)
    assert bool(fixes) == is_possible
    assert all(one == mtu for one in printed_mtus(fixes))


@given(st.integers(0, 9000), st.integers(28, 9000), st.booleans(), st.sampled_from(["icmp", "udp"]))
def test_fixes_of_a_path_test(limit: int, largest: int, complete: bool, protocol: str) -> None:
    size = PathSize(protocol, limit, largest, complete=complete)  # type: ignore[arg-type]
    for finding in found(healthy("a", "b", sizes=(size,))):
        assert all(one >= MIN_IPV4_MTU for one in printed_mtus(finding.fixes)), finding


def test_a_size_that_no_mtu_has_is_a_filter_or_an_offload() -> None:
    (one,) = found(healthy("a", "b", sizes=(PathSize("udp", 1450, 100),)))
    assert (one.rule, one.severity) == ("path_drops_by_size", "warning")
    assert one.title == "packets above 100 bytes to b are lost, which no MTU explains"
    assert not any(fix.commands for fix in one.fixes)


def test_both_ends_of_a_black_hole_are_printed() -> None:
    """The peer in the same subnet, and the other end of a veth, would send packets that this end
    drops."""
    (one,) = found(healthy("a", "b", sizes=(PathSize("udp", 1500, 1400),)))
    assert [(fix.where, *map(str, fix.commands)) for fix in one.fixes[:2]] == [
        ("here", "ip link set dev enp1s0 mtu 1400"),
        ("peer", "ip link set dev enp1s0 mtu 1400"),
    ]
    fields = {
        "kind": "veth",
        "bus": None,
        "lower_namespace": 0,
        "veth_peer": field_mapping(VethPeer("veth1a", 1500)),
    }
    facts = {**FACTS, "a": host_facts({"name": "a", "links": {"enp1s0": fields}})}
    result = PathResult(
        1.0, "", 0, (healthy("a", "b", sizes=(PathSize("udp", 1500, 1400),)), healthy("b", "a"))
    )
    (one,) = path_findings(result, facts)
    assert ("other end", "ip link set dev veth1a mtu 1400") in [
        (fix.where, *map(str, fix.commands)) for fix in one.fixes
    ]


def test_check_and_path_test_name_the_same_two_ways() -> None:
    """Two NICs of one subnet with MTU 1500 and 1400: which of them is meant is not known."""
    ends = {}
    for name, mtu in (("a", 1500), ("b", 1400)):
        address = {"family": "ipv4", "address": f"192.0.2.1{'ab'.index(name)}", "prefix_length": 24}
        link = {"bus": "pci", "mtu": mtu, "addresses": [{**address, "scope": "global"}]}
        ends[name] = host_facts({"name": name, "links": {"enp1s0": link}})
    size = PathSize("udp", 1500, 1400)
    directions = (healthy("a", "b", sizes=(size,)), healthy("b", "a"))
    (tested,) = path_findings(PathResult(1.0, "", 0, directions), ends)
    checked = diagnose(ends.values(), [RULES["mtu_differs_in_one_subnet"]]).findings
    ways = [
        [(fix.where, str(fix.commands[0])) for fix in finding.fixes if fix.persistent is False]
        for finding in (tested, *checked)
    ]
    assert (
        ways
        == [
            [
                ("here", "ip link set dev enp1s0 mtu 1400"),
                ("peer", "ip link set dev enp1s0 mtu 1500"),
            ]
        ]
        * 2
    )
    titles = [finding.fixes[-1].title for finding in (tested, *checked)]
    assert titles == ["Or set MTU 1500 on enp1s0"] * 2


def test_fixes_of_recorded_hosts() -> None:
    """Those of all rule cases: see test_rule_cases."""
    for name in EXPECTED:
        findings = diagnose([host_facts_after(captured_lines(name), name)]).findings
        fixes = [fix for finding in findings for fix in finding.fixes]
        assert [mtu for mtu in printed_mtus(fixes) if mtu < MIN_IPV4_MTU] == [], name


@pytest.mark.parametrize(
    ("more", "hangs"),
    [
        ({"addresses": [{"family": "ipv4", "address": "192.0.2.1", "prefix_length": 24}]}, False),
        ({"addresses": []}, True),
    ],
)
def test_tcp_hangs_only_where_it_does_not_end_at_the_smaller_mtu(
    more: dict[str, object], hangs: bool
) -> None:
    """Its end announces an MSS that fits; a port of a bridge announces none."""
    peer = field_mapping(VethPeer("eth0", 9000))
    veth = {"kind": "veth", "bus": None, "lower": 4, "lower_namespace": 0, "veth_peer": peer}
    host = host_facts({"base": "kvm-guest", "links": {"v1": {**veth, "mtu": 1500, **more}}})
    (found,) = [
        one for one in diagnose([host]).findings if one.rule == "veth_ends_have_different_mtus"
    ]
    assert ("large transfers hang" in found.why) is hangs
    assert ("MSS" in found.why) is not hangs


@pytest.mark.parametrize(("mtu_of_b", "hangs"), [(1400, False), (1500, True)])
def test_a_black_hole_at_the_other_end_is_none_for_tcp(mtu_of_b: int, hangs: bool) -> None:
    small = host_facts({"name": "b", "links": {"enp1s0": {"mtu": mtu_of_b}}})
    size = PathSize("udp", 1500, 1400)
    result = PathResult(1.0, "", 0, (healthy("a", "b", sizes=(size,)), healthy("b", "a")))
    (one,) = path_findings(result, {**FACTS, "b": small})
    assert ("large transfers hang" in one.why) is hangs
