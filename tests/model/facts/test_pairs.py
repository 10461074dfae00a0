"""Relations to other hosts are described from the side of the NIC, with names that are not
sanitized."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.devices.netdevs import Disagreement, End
from nictop.model.devices.pairs import Ambiguity, Pairs, TapPair, VirtualFunctionPair
from nictop.model.devices.subnets import Member, SharedSubnet
from nictop.model.facts.pairs import (
    MAX_NAMED_NETDEVS,
    PairFact,
    netdev_names,
    pair_facts,
    peer_facts,
    tap_peer_names,
)
from tests.model.hosts import live_host

PORT, NIC, TAP, GUEST = End("pve", 2), End("vm1", 3), End("pve", 9), End("vm1", 2)
NAMES = {PORT: "eno1", NIC: "ens224", TAP: "tap100i0", GUEST: "ens18"}
MTU = Disagreement("mtu", (("9000", (PORT,)), ("1500", (NIC,))))
FOUND = Pairs(
    subnets=(
        SharedSubnet(
            "192.0.2.0/24",
            "ipv4",
            (Member(PORT, "192.0.2.1"), Member(NIC, "192.0.2.2"), Member(GUEST, "192.0.2.2")),
            duplicates=("192.0.2.2",),
        ),
    ),
    virtual_functions=(
        VirtualFunctionPair(PORT, 3, NIC, "02:00:00:00:00:03", port_vlan=42, disagreements=(MTU,)),
    ),
    taps=(TapPair(TAP, GUEST, "02:00:00:00:00:02", "forwarding", machine="100", vhost=(77, 78)),),
    ambiguous=(Ambiguity("02:00:00:00:00:09", (NIC, TAP)),),
)


def sentences(end: End) -> list[str]:
    return [fact.text for fact in pair_facts(end, FOUND, NAMES)]


def test_a_virtual_function_and_its_port() -> None:
    assert sentences(NIC)[:2] == [
        "is VF 3 of pve eno1 (MAC 02:00:00:00:00:03), in VLAN 42 of the port",
        "MTU 1500 here, 9000 on pve eno1",
    ]
    assert sentences(PORT)[:2] == [
        "VF 3 is vm1 ens224 (MAC 02:00:00:00:00:03), in VLAN 42 of the port",
        "MTU 9000 here, 1500 on vm1 ens224",
    ]


def test_a_tap_and_its_guest() -> None:
    rest = "(learned on bridge); VM 100; vhost threads 77, 78"
    assert sentences(GUEST)[0] == f"↔ pve tap100i0 {rest}"
    assert sentences(TAP)[0] == f"↔ vm1 ens18 {rest}"


def test_a_tap_with_its_bridge_port() -> None:
    pair = TapPair(
        TAP,
        GUEST,
        "02:00:00:00:00:02",
        "forwarding",
        bridge="vmbr0",
        port="fwpr100p0",
        vlans="PVID 10",
    )
    found = Pairs(taps=(pair,))
    (fact,) = peer_facts(GUEST, found, NAMES)
    assert fact.text == "↔ pve tap100i0 (learned on bridge); port fwpr100p0 of vmbr0: PVID 10"
    assert peer_facts(NIC, found, NAMES) == ()
    assert tap_peer_names(found, NAMES) == {TAP: "vm1 ens18", GUEST: "pve tap100i0"}


def test_a_subnet_and_a_duplicate_address() -> None:
    assert "shares 192.0.2.0/24 with vm1 ens224, vm1 ens18" in sentences(PORT)
    duplicate = "duplicate address or overlapping subnets"
    assert f"192.0.2.2 is also on vm1 ens18: {duplicate}" in sentences(NIC)
    assert f"192.0.2.2 is also on vm1 ens224: {duplicate}" in sentences(GUEST)
    assert not any(duplicate in one for one in sentences(PORT))


def test_an_address_that_every_guest_has_in_its_own_network_is_no_warning() -> None:
    members = tuple(Member(End(host, 2), "10.0.2.15") for host in ("vm1", "vm2"))
    names = {member.end: "ens3" for member in members}
    subnet = SharedSubnet("10.0.2.0/24", "ipv4", members, ("10.0.2.15",), (("10.0.2.15", "nat"),))
    nat = "each guest has its own NAT network (QEMU, VirtualBox)"
    assert pair_facts(members[0].end, Pairs((subnet,)), names) == (
        PairFact(f"10.0.2.15 is also on vm2 ens3: {nat}"),
    )
    third = Member(End("vm3", 2), "10.0.2.16")
    wider = replace(subnet, members=(*members, third))
    found = pair_facts(members[0].end, Pairs((wider,)), {**names, third.end: "ens3"})
    assert found[0] == PairFact("shares 10.0.2.0/24 with vm3 ens3")


def test_disagreements_are_warnings() -> None:
    tones = {fact.text.split()[0]: fact.tone for fact in pair_facts(NIC, FOUND, NAMES)}
    assert tones == {
        "is": "normal",
        "MTU": "warn",
        "shares": "normal",
        "192.0.2.2": "warn",
        "MAC": "warn",
    }


@pytest.mark.parametrize("others", [MAX_NAMED_NETDEVS, MAX_NAMED_NETDEVS + 1, 60])
def test_many_neighbours_are_counted(others: int) -> None:
    members = tuple(
        Member(End(f"h{number}", 2), f"192.0.2.{number}") for number in range(others + 1)
    )
    found = Pairs(subnets=(SharedSubnet("192.0.2.0/24", "ipv4", members),))
    (fact,) = pair_facts(members[0].end, found, {})
    assert fact.text.count("h") - fact.text.count("shares") - fact.text.count("with") == min(
        others, MAX_NAMED_NETDEVS
    )
    assert (f" and {others - MAX_NAMED_NETDEVS} more" in fact.text) == (others > MAX_NAMED_NETDEVS)


def test_a_nic_without_relations() -> None:
    assert pair_facts(End("vm9", 2), FOUND, NAMES) == ()
    host = live_host()
    names = netdev_names([host])
    assert names == {End(host.host, ifindex): link.name for ifindex, link in host.links.items()}
    assert names
