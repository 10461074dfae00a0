"""Public reports whose cause a path test between the hosts shows: it is named, and no firewall or
VLAN is guessed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.probe.records import (
    Feature,
    Link,
    LossCount,
    PathListener,
    PathReplies,
    ReceivedPackets,
)
from nictop.rules.finding import Finding
from nictop.rules.host import HostFacts
from nictop.traffic.path.findings.findings import path_findings
from nictop.traffic.path.findings.tested_direction import PROTOCOLS
from nictop.traffic.path.result import PathDirection, PathResult
from tests.traffic.path.test_findings import FACTS, MAC, healthy

GUESSES = ("firewall", "router, a", "VLAN or bridge", "switch port drops")


def silent(
    sender: str, receiver: str, *, icmp: bool, arrived: bool, losses: tuple[LossCount, ...] = ()
) -> PathDirection:
    """UDP and TCP get no answer; `icmp`: that is answered; `arrived`: packets come in."""
    direction = healthy(sender, receiver)
    assert direction.test is not None
    echo = direction.test.replies[0] if icmp else PathReplies("icmp", "raw", 5)
    replies = (echo, PathReplies("udp", "", 5), PathReplies("tcp", "", 1, error="ETIMEDOUT"))
    seen = tuple(
        ReceivedPackets(one, 2, 5, 84, 64) for one in PROTOCOLS[: 3 if arrived else int(icmp)]
    )
    test = replace(direction.test, replies=replies, sizes=(), macs=(MAC[receiver],) if icmp else ())
    listener = PathListener(40000, ended=True, arrived=seen, losses=losses, rp_filter_drops=0)
    return replace(direction, test=test, listener=listener)


def found(there: PathDirection, back: PathDirection, **links: Link) -> tuple[Finding, ...]:
    """`links`: of a host, instead of its NIC; more than one by `tap`."""
    facts = dict(FACTS)
    for name in ("a", "b"):
        if name in links:
            snapshot = facts[name].snapshot
            more = {7: links["tap"]} if name == "a" and "tap" in links else {}
            facts[name] = HostFacts(replace(snapshot, links={2: links[name], **more}))
    return path_findings(PathResult(1.0, "", 0, (there, back)), facts)


def nic(host: str, **more: object) -> Link:
    return replace(FACTS[host].snapshot.links[2], **more)  # type: ignore[arg-type]


def check_that_nothing_is_guessed(findings: tuple[Finding, ...]) -> None:
    text = " ".join(f"{one.title}" for one in findings)
    assert not [word for word in GUESSES if word in text], text


def test_docker_macvlan_and_its_host() -> None:
    """https://github.com/moby/libnetwork/issues/1915 (2017-08-17): parent eno16780032, neither can
    ping the other."""
    parts = [
        silent("a", "b", icmp=False, arrived=False),
        silent("b", "a", icmp=False, arrived=False),
    ]
    container = nic(
        "b",
        name="eth0",
        kind="macvlan",
        details={"macvlan_mode": "bridge"},
        lower=2,
        lower_namespace=0,
    )
    findings = found(parts[0], parts[1], a=nic("a", name="eno16780032"), b=container)
    assert [(one.rule, one.host, one.title) for one in findings] == [
        ("path_separated", "a", "cannot reach the macvlan eth0 of b above it")
    ]
    first = [str(line) for line in findings[0].fixes[0].commands]
    assert first[0] == "ip link add eno1678003-host link eno16780032 type macvlan mode bridge"
    check_that_nothing_is_guessed(findings)


def test_guest_on_a_macvtap_and_its_host() -> None:
    """Red Hat Enterprise Linux 6, Virtualization Host Configuration and Guest Installation Guide,
    B.9: "Guest can reach outside network, but cannot reach host when using macvtap"; a second
    network is the way out."""
    parts = [
        silent("a", "b", icmp=False, arrived=False),
        silent("b", "a", icmp=False, arrived=False),
    ]
    tap = nic(
        "a",
        ifindex=7,
        name="macvtap0",
        kind="macvtap",
        details={"macvlan_mode": "vepa"},
        lower=2,
        address=MAC["b"],
    )
    (one,) = found(parts[0], parts[1], a=nic("a"), b=nic("b"), tap=tap)
    assert (one.rule, one.host) == ("path_separated", "a")
    assert one.title == "cannot reach the guest b, on macvtap macvtap0 above it"
    assert "second NIC" in one.fixes[-1].title and "mode bridge" in str(one.fixes[0].commands[0])
    check_that_nothing_is_guessed((one,))


@pytest.mark.parametrize("lower", [None, 3])
def test_vxlan_over_vmxnet3(lower: int | None) -> None:
    """https://github.com/projectcalico/calico/issues/4727 and 7040: between nodes only ICMP passes;
    the cure is tx-checksum-ip-generic off. Exit code 0 and "a firewall drops UDP and TCP" before;
    no MTU is lowered."""
    tunnel = {"kind": "vxlan", "name": "vxlan.calico", "lower": lower}
    ethtool = replace(
        nic("a").ethtool, features=(Feature("tx-checksum-ip-generic", True, True, False),)
    )
    parts = [silent("a", "b", icmp=True, arrived=False), silent("b", "a", icmp=True, arrived=False)]
    links = {name: nic(name, ethtool=ethtool, **tunnel) for name in ("a", "b")}
    (one,) = found(parts[0], parts[1], **links)
    assert (one.rule, one.severity) == ("path_only_icmp", "critical")
    assert "is a tunnel: offloads of a NIC below it" in one.why
    assert str(one.fixes[0].commands[0]) == "ethtool -K vxlan.calico tx-checksum-ip-generic off"
    assert "mtu" not in str(one.fixes).lower()
    check_that_nothing_is_guessed((one,))


def test_checksums_that_a_program_does_not_complete() -> None:
    """https://github.com/p4lang/behavioral-model/issues/919 (2020-07-01) and luigirizzo/netmap#175:
    ping works over bmv2 between two veths, TCP and UDP are seen by tcpdump and never reach the
    program."""
    wrong = (
        LossCount("protocol", "Udp InCsumErrors", 5),
        LossCount("protocol", "Tcp InCsumErrors", 2),
    )
    ethtool = replace(
        nic("a").ethtool, features=(Feature("tx-checksum-ip-generic", True, True, False),)
    )
    there = silent("a", "b", icmp=True, arrived=True, losses=wrong)
    (one,) = found(there, healthy("b", "a"), a=nic("a", ethtool=ethtool), b=nic("b"))
    assert (one.rule, one.host, one.severity) == ("path_checksums_wrong", "a", "critical")
    assert str(one.fixes[0].commands[0]).endswith("tx-checksum-ip-generic off")
    check_that_nothing_is_guessed((one,))
