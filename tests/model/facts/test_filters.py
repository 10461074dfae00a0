"""Facts about packet filters, filters of tc and XDP programs."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.facts.bridges import bridge_section
from nictop.model.facts.filters import MAX_CHAIN_LINES, filter_section
from nictop.model.facts.links import state_section
from nictop.model.facts.sections import Fact
from nictop.probe.records import (
    FilterRule,
    Link,
    PacketChain,
    PacketFilters,
    Settings,
    TcAction,
    TcFilter,
    Unreadable,
)
from tests.model.hosts import HELLO, UP, inventory, snapshot_of

FORWARD = PacketChain(
    "nft", "ip", "filter", "FORWARD", "forward", 0, "drop", 312, rules=(FilterRule("accept"),)
)
CALLED = PacketChain("nft", "ip", "filter", "DOCKER-USER")
INGRESS = PacketChain("nft", "netdev", "n", "i", "ingress", 0, "accept", links=("ens1",))
BRIDGE = Link(
    5, "br0", 1, UP, "up", True, 1500, kind="bridge", details={"bridge_nf_call_ip6tables": True}
)
CALLS = {"net.bridge.bridge-nf-call-iptables": 0, "net.bridge.bridge-nf-call-ip6tables": 0}


def test_base_chains_of_the_host() -> None:
    filters = PacketFilters(
        (FORWARD, CALLED, INGRESS), {"ip6tables": Unreadable("needs_root", "EPERM")}
    )
    (section,) = filter_section(snapshot_of(HELLO, replace(inventory(), filters=filters)))
    assert section.title == "Packet filters"
    assert section.facts[:2] == (
        Fact("At forward", "iptables FORWARD · policy drop · 1 rule · 312 packets by policy"),
        Fact("At ingress", "nft netdev n i · on ens1 · policy accept · 0 rules"),
    )
    assert [one.label for one in section.facts[2:]] == ["Not readable"]
    assert filter_section(snapshot_of(HELLO, inventory())) == ()


def test_very_many_chains() -> None:
    filters = PacketFilters((FORWARD,) * 40)
    (section,) = filter_section(snapshot_of(HELLO, replace(inventory(), filters=filters)))
    assert (
        len(section.facts) == MAX_CHAIN_LINES + 1
        and section.facts[-1].text == f"{40 - MAX_CHAIN_LINES} more"
    )


def test_bridged_frames_and_netfilter() -> None:
    def shown(sysctl: dict[str, int]) -> list[str]:
        taken = replace(inventory(links=(BRIDGE,)), settings=Settings(sysctl))
        sections = bridge_section(BRIDGE, snapshot_of(HELLO, taken))
        return [fact.text for one in sections for fact in one.facts if fact.label == "br_netfilter"]

    assert shown({}) == []
    assert shown(CALLS) == ["IPv6 frames pass the chains at forward"]
    assert shown({**CALLS, "net.bridge.bridge-nf-call-iptables": 1}) == [
        "IPv4 and IPv6 frames pass the chains at forward"
    ]


def test_filters_of_a_link() -> None:
    police = TcAction("police", "drop", 20_000_000, 100_000, packets=900, dropped=17)
    filters = (
        TcFilter("ingress", "u32", "ip", 1, matches_all=True, actions=(police,)),
        TcFilter("ingress", "bpf", "all", 2, name="cil_from_netdev"),
    )
    link = Link(
        6,
        "ens1",
        1,
        UP,
        "up",
        True,
        1500,
        bus="pci",
        tc_filters=filters,
        xdp="driver",
        xdp_program=42,
    )
    (section,) = state_section(link, snapshot_of(HELLO, inventory(links=(link,))))
    shown = {fact.label: fact for fact in section.facts}
    assert shown["tc filter"] == Fact(
        "tc filter", "ingress: police rate 20.0 Mb/s (u32) · dropped 17 in total", "warn"
    )
    assert shown["tc filters"].text == "ingress cil_from_netdev"
    assert shown["XDP program"].text == "driver mode · id 42"
