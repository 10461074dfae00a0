"""Relations between hosts: found by their addresses, and only by these."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.devices.netdevs import Disagreement, End, netdevs
from nictop.model.devices.pairs import Ambiguity, Pairs, TapPair, VirtualFunctionPair, pairs, peers
from nictop.model.devices.subnets import Member
from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import (
    Address,
    DefaultRoute,
    Ethtool,
    ForwardingEntry,
    Line,
    Link,
    LinkSettings,
    Thread,
    VirtualFunction,
)
from tests.model.hosts import DOWN, HELLO, LOOPBACK, inventory, make_link, snapshot_of
from tests.support.stages import links_only

MAC = "52:54:00:12:34:56"
ADMINISTRATED = "be:f5:e8:56:0a:61"


def host(
    name: str,
    *links: Link,
    forwarding: tuple[ForwardingEntry, ...] = (),
    threads: tuple[Thread, ...] = (),
) -> Snapshot:
    """A machine of its own with these links."""
    taken = replace(
        inventory(links=(LOOPBACK, *links), pci=()), forwarding=forwarding, threads=threads
    )
    return snapshot_of(replace(HELLO, boot_id=f"boot of {name}", hostname=name), taken, host=name)


def nic(ifindex: int, *addresses: str, **more: object) -> Link:
    """A device with IP addresses, ``192.0.2.1/24``."""
    values = {"bus": "pci", "pci_address": f"0000:02:{ifindex:02x}.0", "addresses": ips(*addresses)}
    return make_link(ifindex, f"ens{ifindex}", **{**values, **more})


def fast(speed: int) -> Ethtool:
    return Ethtool(settings=LinkSettings(speed, "full", False, "tp", "internal"))


def ips(
    *addresses: str, scope: str = "global", flags: tuple[str, ...] = ("permanent",)
) -> tuple[Address, ...]:
    parts = (address.split("/") for address in addresses)
    return tuple(
        Address("ipv6" if ":" in address else "ipv4", address, int(length), scope, flags)
        for address, length in parts
    )


def virtual_nic(ifindex: int, address: str = MAC, **more: object) -> Link:
    return make_link(
        ifindex, f"eth{ifindex}", bus="virtio", device="virtio0", address=address, **more
    )


def tap(ifindex: int, address: str = "02:11:22:33:44:55", **more: object) -> Link:
    return make_link(
        ifindex,
        f"tap{ifindex}",
        **{"kind": "tun", "details": {"tun_type": "tap"}, "address": address, **more},
    )


def physical(*functions: VirtualFunction, **more: object) -> Link:
    return nic(4, address="52:54:00:82:57:01", virtual_functions=functions, **more)


def virtual_function(address: str = ADMINISTRATED, **more: object) -> Link:
    return nic(3, address=address, permanent_address=address, **more)


# ------------------------------------------------------------------------------------------ subnets


def test_nothing_is_said_of_a_host_of_which_only_the_links_are_read() -> None:
    """Two guests of QEMU's user network: that each has a network of its own comes with the
    platform."""
    route = (DefaultRoute("ipv4", "10.0.2.2", 100, 254),)
    lease = make_link(2, "ens192", addresses=ips("10.0.2.15/24", flags=()), default_routes=route)
    vm1, vm2 = (
        host("vm1", lease, nic(4, "192.0.2.1/24")),
        host("vm2", lease, nic(4, "192.0.2.2/24")),
    )
    whole = pairs([vm1, vm2])
    assert [dict(one.separate) for one in whole.subnets] == [{"10.0.2.15": "nat"}, {}]
    assert vm1.inventory is not None
    for one, other in (
        (vm1, half_read(vm2)),
        (half_read(vm1), vm2),
        (half_read(vm1), half_read(vm2)),
    ):
        assert pairs([one, other]) == Pairs()


def half_read(whole: Snapshot) -> Snapshot:
    """After the first part of the inventory."""
    assert whole.inventory is not None
    return replace(whole, inventory=links_only(whole.inventory))


def test_hosts_share_a_subnet() -> None:
    found = pairs(
        [
            host("a", nic(2, "192.0.2.1/24", "2001:db8::1/64")),
            host("b", nic(3, "192.0.2.2/24")),
            host("c", nic(9, "2001:db8::c/64", "198.51.100.1/24")),
        ]
    ).subnets
    assert [subnet.network for subnet in found] == ["192.0.2.0/24", "2001:db8::/64"]
    assert found[0].members == (Member(End("a", 2), "192.0.2.1"), Member(End("b", 3), "192.0.2.2"))
    assert [subnet.family for subnet in found] == ["ipv4", "ipv6"]
    assert found[1].hosts == ("a", "c")
    assert not any(subnet.disagreements or subnet.duplicates for subnet in found)


@pytest.mark.parametrize(
    "address",
    [
        "192.0.2.1/32", "2001:db8::1/128", "127.0.0.2/8", "::1/64", "169.254.7.7/16", "fe80::1/64",
        "0.0.0.1/0", "no address/24", "192.0.2.1/99", "192.0.2.1/-1", "192.0.2.1%eth0/24",
        "fd00::1%x/64",
    ],
)  # fmt: skip
def test_prefixes_that_are_not_subnets(address: str) -> None:
    assert pairs([host("a", nic(2, address)), host("b", nic(2, address))]) == Pairs()


@pytest.mark.parametrize(
    ("scope", "flags"), [("link", ()), ("host", ()), ("global", ("tentative", "dadfailed"))]
)
def test_addresses_that_do_not_count(scope: str, flags: tuple[str, ...]) -> None:
    two = [
        host(name, nic(2, addresses=ips(f"192.0.2.{number}/24", scope=scope, flags=flags)))
        for number, name in enumerate("ab", 1)
    ]
    assert pairs(two).subnets == ()


def test_two_nics_of_one_host_share_no_subnet() -> None:
    assert pairs([host("a", nic(2, "192.0.2.1/24"), nic(3, "192.0.2.2/24"))]).subnets == ()


def test_disagreements_of_members() -> None:
    vlan = {"kind": "vlan", "bus": None, "pci_address": None, "lower": 3}
    found = pairs(
        [
            host(
                "a", nic(2, "192.0.2.1/24", ethtool=fast(10000), mtu=9000, details={"vlan_id": 9})
            ),
            host(
                "b", nic(4, "192.0.2.2/24", ethtool=fast(10000), details={"vlan_id": 100}, **vlan)
            ),
            host("c", nic(5, "192.0.2.3/24", ethtool=fast(1000), details={"vlan_id": 200}, **vlan)),
            host(
                "d",
                nic(
                    6,
                    "192.0.2.4/24",
                    kind="bridge",
                    bus=None,
                    pci_address=None,
                    ethtool=fast(40000),
                ),
            ),
        ]
    ).subnets[0]
    assert found.disagreements == (
        Disagreement(
            "mtu", (("1500", (End("b", 4), End("c", 5), End("d", 6))), ("9000", (End("a", 2),)))
        ),
        Disagreement("speed", (("10G", (End("a", 2), End("b", 4))), ("1G", (End("c", 5),)))),
        Disagreement("vlan", (("100", (End("b", 4),)), ("200", (End("c", 5),)))),
    )


def test_a_port_vlan_counts_as_the_vlan_of_the_guest() -> None:
    hypervisor = host("pve", physical(VirtualFunction(0, ADMINISTRATED, vlan=100)))
    guest = host("vm", virtual_function(addresses=ips("192.0.2.1/24")))
    other = host("b", nic(4, "192.0.2.2/24", kind="vlan", bus=None, details={"vlan_id": 200}))
    assert pairs([hypervisor, guest, other]).subnets[0].disagreements == (
        Disagreement("vlan", (("100", (End("vm", 3),)), ("200", (End("b", 4),)))),
    )


def test_a_duplicate_address_is_reported_and_not_compared() -> None:
    found = pairs(
        [
            host("a", nic(2, "192.0.2.1/24", mtu=9000)),
            host("b", nic(2, "192.0.2.1/24")),
            host("c", nic(2, "192.0.2.3/24")),
        ]
    ).subnets[0]
    assert found.duplicates == ("192.0.2.1",)
    assert len(found.members) == 3
    assert found.disagreements == ()


GUEST_ROUTE = (DefaultRoute("ipv4", "10.0.2.2", 100, 254),)


@pytest.mark.parametrize(
    ("more", "platform", "separate"),
    [
        ({}, {}, ()),
        ({"addresses": ips("10.0.2.15/24", flags=())}, {}, ()),
        (
            {"addresses": ips("10.0.2.15/24", flags=()), "default_routes": GUEST_ROUTE},
            {},
            (("10.0.2.15", "nat"),),
        ),
        ({"default_routes": GUEST_ROUTE}, {}, ()),
        ({}, {"environment": "aws"}, (("10.0.2.15", "cloud"),)),
        ({}, {"session_address": "10.0.2.15"}, (("10.0.2.15", "session"),)),
        ({}, {"session_address": "192.0.2.1"}, ()),
    ],
    ids=[
        "static",
        "without-gateway",
        "user-network",
        "static-with-gateway",
        "cloud",
        "session",
        "other-session",
    ],
)
def test_equal_addresses_that_are_known_to_be_in_different_networks(
    more: dict[str, object], platform: dict[str, object], separate: tuple[tuple[str, str], ...]
) -> None:
    def guest(name: str) -> Snapshot:
        known = host(name, nic(2, "10.0.2.15/24", **more))
        assert known.inventory is not None
        changed = replace(known.inventory.platform, hypervisor="kvm", **platform)  # type: ignore[arg-type]
        return advance(known, Line(inventory=replace(known.inventory, platform=changed)))

    (found,) = pairs([guest("a"), guest("b")]).subnets
    assert found.duplicates == ("10.0.2.15",)
    assert found.separate == separate
    (alone,) = pairs([guest("a"), guest("b"), host("c", nic(2, "10.0.2.15/24"))]).subnets
    assert alone.separate == (separate if platform.get("environment") else ()), (
        "c may have the address of a"
    )


def test_equal_addresses_in_vlans_with_different_ids() -> None:
    tagged = [
        nic(2, "192.0.2.1/24", kind="vlan", details={"vlan_id": number}) for number in (10, 20)
    ]
    (found,) = pairs([host("a", tagged[0]), host("b", tagged[1])]).subnets
    assert found.separate == (("192.0.2.1", "vlan"),)


def test_inner_bridges_of_docker_and_libvirt_are_not_shared_subnets() -> None:
    bridge = nic(7, "172.17.0.1/16", kind="bridge", bus=None, pci_address=None)
    assert pairs([host(name, bridge) for name in "abc"]).subnets == ()
    guest = host("vm", nic(2, "172.17.0.9/16"))
    assert pairs([host("a", bridge), guest]).subnets[0].hosts == ("a", "vm")


def test_a_machine_watched_twice_has_its_links_once() -> None:
    one = host("pve", nic(2, "192.0.2.1/24"), physical(VirtualFunction(0, ADMINISTRATED)))
    again = replace(one, host="192.0.2.1")
    assert len(netdevs([one, again])) == 2
    assert pairs([one, again]) == Pairs()


def test_links_without_an_inventory_are_left_out() -> None:
    assert netdevs([host("a", nic(2, type=0xFFFF), nic(3, flags=DOWN))])[0].end == End("a", 3)


# -------------------------------------------------------------------------------- virtual functions


def test_a_virtual_function_is_found_in_the_guest() -> None:
    hypervisor = host(
        "pve", physical(VirtualFunction(0, "00:00:00:00:00:00"), VirtualFunction(3, ADMINISTRATED))
    )
    found = pairs([host("vm", virtual_function()), hypervisor])
    assert found.virtual_functions == (
        VirtualFunctionPair(End("pve", 4), 3, End("vm", 3), ADMINISTRATED),
    )
    assert found.ambiguous == ()
    assert peers(found) == {End("pve", 4): (End("vm", 3),), End("vm", 3): (End("pve", 4),)}


def test_the_zero_mac_address_is_ignored() -> None:
    """Every VF without an assigned address has it."""
    none = "00:00:00:00:00:00"
    hypervisor = host("pve", physical(VirtualFunction(0, none), VirtualFunction(1, None)))
    assert pairs([hypervisor, host("vm", virtual_function(none), virtual_nic(9, none))]) == Pairs()


def test_disagreements_of_virtual_and_physical_function() -> None:
    hypervisor = host(
        "pve", physical(VirtualFunction(3, ADMINISTRATED, vlan=100), mtu=9000, ethtool=fast(25000))
    )
    tagged = make_link(8, "ens3.7", kind="vlan", lower=3, details={"vlan_id": 7})
    also = make_link(9, "ens3.5", kind="vlan", lower=3, details={"vlan_id": 5})
    elsewhere = make_link(10, "x", kind="vlan", lower=3, lower_namespace=1, details={"vlan_id": 6})
    guest = host("vm", virtual_function(ethtool=fast(10000)), tagged, also, elsewhere)
    (found,) = pairs([hypervisor, guest]).virtual_functions
    pf, vf = End("pve", 4), End("vm", 3)
    assert found.port_vlan == 100
    assert found.disagreements == (
        Disagreement("mtu", (("1500", (vf,)), ("9000", (pf,)))),
        Disagreement("speed", (("10G", (vf,)), ("25G", (pf,)))),
        Disagreement("vlan", (("port VLAN 100", (pf,)), ("tags 5, 7", (vf,)))),
    )


def test_only_a_pci_function_can_be_a_virtual_function() -> None:
    """The netvsc link, a VLAN or a bond above a VF have its address too."""
    hypervisor = host("pve", physical(VirtualFunction(0, ADMINISTRATED)))
    above = make_link(7, "eth0", bus="vmbus", address=ADMINISTRATED)
    vlan = make_link(8, "ens3.7", kind="vlan", lower=3, address=ADMINISTRATED)
    assert pairs([hypervisor, host("vm", above, vlan)]).virtual_functions == ()
    (found,) = pairs([hypervisor, host("vm", above, vlan, virtual_function())]).virtual_functions
    assert found.guest == End("vm", 3)


def test_a_virtual_function_used_by_its_own_host_is_not_a_pair() -> None:
    hypervisor = host("pve", physical(VirtualFunction(0, ADMINISTRATED)), virtual_function())
    assert pairs([hypervisor, host("vm", virtual_nic(9, MAC))]) == Pairs()
    assert pairs([hypervisor, host("vm", virtual_function())]).virtual_functions == ()


def test_cloned_guests_are_ambiguous() -> None:
    hypervisor = host("pve", physical(VirtualFunction(0, ADMINISTRATED)))
    found = pairs([hypervisor, host("vm1", virtual_function()), host("vm2", virtual_function())])
    assert found.virtual_functions == ()
    assert found.ambiguous == (
        Ambiguity(ADMINISTRATED, (End("pve", 4), End("vm1", 3), End("vm2", 3))),
    )


def test_two_ports_of_one_function_report_the_same_virtual_functions() -> None:
    first = physical(VirtualFunction(0, ADMINISTRATED))
    second = replace(first, ifindex=5, name="ens4d1", device_port=1)
    (found,) = pairs([host("pve", first, second), host("vm", virtual_function())]).virtual_functions
    assert found.physical == End("pve", 4)


def test_the_ports_of_a_bond_are_known_by_their_own_addresses() -> None:
    """A bond gives the address of its first port to all ports."""
    bond = make_link(20, "bond0", kind="bond", address=ADMINISTRATED)
    first, second = virtual_function(master=20), virtual_function(master=20)
    second = replace(second, ifindex=6, permanent_address="be:f5:e8:56:0a:62")
    hypervisor = host(
        "pve", physical(VirtualFunction(0, ADMINISTRATED), VirtualFunction(1, "be:f5:e8:56:0a:62"))
    )
    found = pairs([hypervisor, host("vm", first, second, bond)])
    assert [(pair.number, pair.guest.ifindex) for pair in found.virtual_functions] == [
        (0, 3),
        (1, 6),
    ]
    assert found.ambiguous == ()


# --------------------------------------------------------------------------------------------- taps


@pytest.mark.parametrize(
    ("link", "matches"),
    [
        (tap(12, "fe:54:00:12:34:56"), True),  # libvirt
        (tap(12, MAC), True),
        (tap(12, MAC, kind="macvtap", details={}), True),
        (tap(12, "fe:54:00:12:34:57"), False),
        (tap(12, "02:54:00:12:34:56"), False),
        (tap(12, MAC, details={"tun_type": "tun"}), False),
        (tap(12, MAC, kind="bridge"), False),
    ],
)
def test_a_tap_by_its_address(link: Link, matches: bool) -> None:
    found = pairs([host("pve", link), host("vm", virtual_nic(3))])
    assert found.taps == (
        (TapPair(End("pve", 12), End("vm", 3), MAC, "address"),) if matches else ()
    )
    assert found.ambiguous == ()


def test_a_tap_by_the_forwarding_table_with_its_machine_and_threads() -> None:
    """Proxmox gives its taps addresses of their own."""
    threads = (
        Thread(1001, 1000, "vhost-1000", "vhost", "web", (12,)),
        Thread(1002, 1000, "CPU 0/KVM", "vcpu", "web", (12,)),
        Thread(2001, 2000, "vhost-2000", "vhost", "other", (13,)),
    )
    hypervisor = host(
        "pve", tap(12, mtu=1400), forwarding=(ForwardingEntry(12, MAC, False, 10),), threads=threads
    )
    assert pairs([hypervisor, host("vm", virtual_nic(3))]).taps == (
        TapPair(
            End("pve", 12),
            End("vm", 3),
            MAC,
            "forwarding",
            "web",
            (1001,),
            (Disagreement("mtu", (("1400", (End("pve", 12),)), ("1500", (End("vm", 3),)))),),
        ),
    )


def test_an_uplink_leads_to_no_guest() -> None:
    uplink = nic(4, master=10)
    inner = make_link(5, "fwln100i0", kind="veth", lower=6, master=10)
    entries = tuple(ForwardingEntry(ifindex, MAC, False, 10) for ifindex in (4, 5))
    hypervisor = host(
        "pve", uplink, inner, tap(12), forwarding=(*entries, ForwardingEntry(12, MAC, True))
    )
    assert pairs([hypervisor, host("vm", virtual_nic(3))]) == Pairs()


def test_a_container_behind_its_veth() -> None:
    outside = make_link(
        5,
        "veth101i0",
        kind="veth",
        lower=2,
        lower_namespace=1,
        master=10,
        address="fe:00:00:00:00:05",
    )
    inside = make_link(2, "eth0", kind="veth", lower=5, lower_namespace=0, address=MAC)
    own = ForwardingEntry(5, "fe:00:00:00:00:05", False, 10, permanent=True)
    hypervisor = host("pve", outside, forwarding=(own, ForwardingEntry(5, MAC, False, 10)))
    container = replace(host("ct", inside), hello=hypervisor.hello)
    assert pairs([hypervisor, container]).taps == (
        TapPair(End("pve", 5), End("ct", 2), MAC, "veth"),
    )


def test_a_tap_by_the_configuration_of_its_machine() -> None:
    """Whatever the bridge drops, and so does not learn."""
    thread = Thread(100, 100, "kvm", "vm", "web", (12,), nics={12: MAC, 99: MAC})
    pair = TapPair(End("pve", 12), End("vm", 3), MAC, "machine", machine="web")
    assert pairs([host("pve", tap(12), threads=(thread,)), host("vm", virtual_nic(3))]).taps == (
        pair,
    )


def test_a_container_whose_frames_the_bridge_drops() -> None:
    """Nothing is learned: the numbers at both ends of the veth identify it, unless another pair has
    the same."""
    bridge = make_link(10, "br0", kind="bridge")
    outside = make_link(
        5,
        "veth101i0",
        kind="veth",
        lower=2,
        lower_namespace=1,
        master=10,
        address="fe:00:00:00:00:05",
    )
    inside = make_link(2, "eth0", kind="veth", lower=5, lower_namespace=0, address=MAC)
    hypervisor = host("pve", bridge, outside)
    container = replace(host("ct", inside), hello=hypervisor.hello)
    pair = TapPair(End("pve", 5), End("ct", 2), MAC, "veth", bridge="br0", port="veth101i0")
    assert pairs([hypervisor, container]).taps == (pair,)
    third = replace(
        host("ct2", replace(inside, address="52:54:00:00:00:77")), hello=hypervisor.hello
    )
    assert pairs([hypervisor, container, third]).taps == ()
    assert pairs([hypervisor, host("elsewhere", inside)]).taps == ()


def test_a_guest_of_a_guest_belongs_to_the_nearest_tap() -> None:
    outer, inner = "52:54:00:00:00:01", "52:54:00:00:00:02"
    ground = host(
        "l0",
        tap(12),
        forwarding=(ForwardingEntry(12, inner, False, 10), ForwardingEntry(12, outer, False, 10)),
    )
    middle = host(
        "l1", virtual_nic(3, outer), tap(7), forwarding=(ForwardingEntry(7, inner, False, 10),)
    )
    found = pairs([ground, middle, host("l2", virtual_nic(3, inner))])
    assert [(pair.tap, pair.guest) for pair in found.taps] == [
        (End("l0", 12), End("l1", 3)),
        (End("l1", 7), End("l2", 3)),
    ]
    assert found.ambiguous == ()


def test_one_address_behind_two_taps_is_ambiguous() -> None:
    hosts = [
        host(name, tap(12), forwarding=(ForwardingEntry(12, MAC, False, 10),))
        for name in ("pve1", "pve2")
    ]
    found = pairs([*hosts, host("vm", virtual_nic(3))])
    assert found.taps == ()
    assert found.ambiguous == (Ambiguity(MAC, (End("pve1", 12), End("pve2", 12), End("vm", 3))),)


def test_the_address_of_a_tap_has_priority_over_the_forwarding_table() -> None:
    stale = host("pve1", tap(12), forwarding=(ForwardingEntry(12, MAC, False, 10),))
    present = host("pve2", tap(12, "fe:54:00:12:34:56"))
    found = pairs([stale, present, host("vm", virtual_nic(3))])
    assert [pair.tap for pair in found.taps] == [End("pve2", 12)]
    assert found.ambiguous == ()


def test_guests_with_one_address_are_ambiguous() -> None:
    hypervisor = host("pve", tap(12, "fe:54:00:12:34:56"))
    found = pairs([hypervisor, host("vm1", virtual_nic(3)), host("vm2", virtual_nic(4))])
    assert found.taps == ()
    assert found.ambiguous == (Ambiguity(MAC, (End("pve", 12), End("vm1", 3), End("vm2", 4))),)


def test_the_paravirtual_nic_of_a_failover_group_is_behind_the_tap() -> None:
    guest = host("vm", virtual_function(MAC), virtual_nic(7))
    (found,) = pairs([host("pve", tap(12, "fe:54:00:12:34:56")), guest]).taps
    assert found.guest == End("vm", 7)


# ---------------------------------------------------------------------------------------- any input

MACS = st.sampled_from(
    [MAC, "fe:54:00:12:34:56", "00:00:00:00:00:00", ADMINISTRATED, "", "x", "fe:"]
)
ADDRESSES = st.builds(
    Address,
    st.just("ipv4"),
    st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::1", "::1", "", "[/x]"])
    | st.text(max_size=5),
    st.sampled_from([24, 32, 64, 0]) | st.integers(-5, 300),
    st.sampled_from(["global", "link"]),
    st.just(()),
)
LINKS = st.builds(
    make_link,
    st.integers(1, 4),
    st.text(max_size=3),
    kind=st.sampled_from([None, "tun", "macvtap", "veth", "vlan", "bridge", "bond"]),
    bus=st.sampled_from([None, "pci", "virtio"]),
    address=st.none() | MACS,
    permanent_address=st.none() | MACS,
    master=st.none() | st.integers(1, 4),
    lower=st.none() | st.integers(1, 4),
    lower_namespace=st.none() | st.just(1),
    details=st.sampled_from([{}, {"vlan_id": 5}, {"vlan_id": "x"}, {"tun_type": "tun"}]),
    addresses=st.lists(ADDRESSES, max_size=2).map(tuple),
    virtual_functions=st.lists(
        st.builds(
            VirtualFunction, st.integers(0, 2), st.none() | MACS, st.none() | st.integers(0, 5)
        ),
        max_size=3,
    ).map(tuple),
    mtu=st.integers(0, 3),
)
ENTRIES = st.builds(ForwardingEntry, st.integers(0, 5), MACS, st.booleans())
WORLDS = st.lists(
    st.tuples(st.lists(LINKS, max_size=5), st.lists(ENTRIES, max_size=4)), max_size=5
).map(
    lambda hosts: [
        host(f"h{number}", *links, forwarding=tuple(entries)) for number, (links,
            entries) in enumerate(hosts)
    ]
)  # fmt: skip


@given(WORLDS)
def test_any_hosts(world: list[Snapshot]) -> None:
    found = pairs(world)
    ends = {End(snapshot.host, ifindex) for snapshot in world for ifindex in snapshot.links}
    for vf in found.virtual_functions:
        assert {vf.physical, vf.guest} <= ends and vf.physical.host != vf.guest.host
    for one in found.taps:
        assert {one.tap, one.guest} <= ends and one.tap.host != one.guest.host
    for subnet in found.subnets:
        assert {member.end for member in subnet.members} <= ends
        assert len(subnet.hosts) > 1
    for ambiguity in found.ambiguous:
        assert len(ambiguity.ends) > 1
    found_disagreements = [one.disagreements for one in found.virtual_functions]
    found_disagreements += [one.disagreements for one in found.taps]
    found_disagreements += [subnet.disagreements for subnet in found.subnets]
    assert all(
        len(disagreement.sides) > 1
        for disagreements in found_disagreements
        for disagreement in disagreements
    )
    assert all(End(*other) in ends for others in peers(found).values() for other in others)


@given(WORLDS, st.randoms())
def test_the_order_of_the_hosts_changes_no_pair(world: list[Snapshot], random: object) -> None:
    shuffled = list(world)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = pairs(world), pairs(shuffled)
    assert set(one.virtual_functions) == set(other.virtual_functions)
    assert {(pair.tap, pair.guest, pair.known_by) for pair in one.taps} == {
        (pair.tap, pair.guest, pair.known_by) for pair in other.taps
    }
    assert [subnet.network for subnet in one.subnets] == [
        subnet.network for subnet in other.subnets
    ]


def test_the_size_of_the_result_is_linear_in_the_hosts() -> None:
    """A large subnet is one value with all its members, not one value per pair."""
    world = [host(f"h{number}", nic(2, f"10.0.{number}.1/8")) for number in range(64)]
    (found,) = pairs(world).subnets
    assert len(found.members) == 64
