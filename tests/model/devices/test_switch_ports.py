"""Bridges of Open vSwitch: of a tap, behind inner bridges, of a vhost-user socket; in the guests,
the layers and the details of a link; what is not known is not said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.devices.pairs import pairs
from nictop.model.devices.switch_ports import switch_vlans
from nictop.model.devices.tree import device_tree
from nictop.model.facts.facts import link_facts
from nictop.model.guests.table import GuestRow, guest_rows, nic_facts
from nictop.model.snapshot import Snapshot
from nictop.model.virtual_chain import chain_kind, virtual_steps
from nictop.probe.records import (
    GuestNic,
    HostedGuest,
    Sriov,
    SwitchPort,
    Unreadable,
    VirtualFunction,
)
from nictop.report.facts.guests import host_guests
from tests.model.hosts import HELLO, inventory, make_link, make_pci, snapshot_of

DATAPATH, BRIDGE, TAP, INNER, OUTER, QVB, QVO, OTHER, INNER2, TAP2 = range(2, 12)
LINKS = (
    make_link(DATAPATH, "ovs-system", kind="openvswitch"),
    make_link(BRIDGE, "vmbr0", kind="openvswitch"),
    make_link(TAP, "tap101i0", kind="tun", master=DATAPATH),
    # Proxmox's firewall: tap, Linux bridge, port that Open vSwitch has made
    make_link(INNER, "fwbr102i0", kind="bridge"),
    make_link(TAP2, "tap102i0", kind="tun", master=INNER),
    make_link(OUTER, "fwln102o0", kind="openvswitch", master=INNER),
    # OpenStack's hybrid plug: tap, Linux bridge, veth
    make_link(INNER2, "qbr1", kind="bridge"),
    make_link(OTHER, "tap1", kind="tun", master=INNER2),
    make_link(QVB, "qvb1", kind="veth", lower=QVO, master=INNER2),
    make_link(QVO, "qvo1", kind="veth", lower=QVB, master=DATAPATH),
)
PORTS = (
    SwitchPort("fwln102o0", "vmbr0", 40),
    SwitchPort("qvo1", "br-int", None, "7, 9-11"),
    SwitchPort("tap101i0", "vmbr0", 30),
    SwitchPort("vhu1", "br-dpdk", 5, path="/var/run/openvswitch/vhu1"),
    SwitchPort("vmbr0", "vmbr0"),
)


def guest(name: str, *nics: GuestNic) -> HostedGuest:
    return HostedGuest(name, "vm", "qemu", "running", pid=50, nics=nics)


GUESTS = (
    guest("web1", GuestNic("net0", "virtio-net-pci", "tap", link=TAP)),
    guest("web2", GuestNic("net0", "virtio-net-pci", "tap", link=TAP2)),
    guest("web3", GuestNic("net0", "virtio-net-pci", "tap", link=OTHER)),
    guest(
        "web4",
        GuestNic("net0", "virtio-net-pci", "vhost-user", target="/run/openvswitch/vhu1"),
    ),
)


def host(
    ports: tuple[SwitchPort, ...] = PORTS, unreadable: dict[str, Unreadable] | None = None
) -> Snapshot:
    made = inventory(links=LINKS)
    made = replace(made, guests=GUESTS, switch_ports=ports, unreadable=unreadable or {})
    return snapshot_of(HELLO, made, host="pve")


def row(name: str, snapshot: Snapshot) -> GuestRow:
    return next(one for one in guest_rows(snapshot) if one.guest.name == name)


@pytest.mark.parametrize(
    ("name", "network", "vlans", "port"),
    [
        ("web1", "vmbr0", "30", "tap101i0"),
        ("web2", "vmbr0", "40", "fwln102o0"),
        ("web3", "br-int", "tagged 7, 9-11", "qvo1"),
        ("web4", "br-dpdk", "5", "vhu1"),
    ],
)
def test_bridge_and_vlan_of_a_guest(name: str, network: str, vlans: str, port: str) -> None:
    found = row(name, host())
    assert (found.network, found.vlans) == (network, vlans)
    assert f"port {port} of {network} (Open vSwitch), " in nic_facts(found)
    told = {one.name: one.nics[0] for one in host_guests(host()).guests}[name]
    assert (told.network, told.vlans, told.port) == (network, vlans, port)
    assert told.network_missing is None


@pytest.mark.parametrize("name", ["web1", "web2", "web3"])
def test_a_bridge_that_could_not_be_read_is_not_named(name: str) -> None:
    why = Unreadable("needs_root", "the database of Open vSwitch: EACCES")
    found = row(name, host((), {"switch_ports": why}))
    assert (found.network, found.vlans) == ("", "")
    reason = "needs root: the database of Open vSwitch: EACCES"
    assert f"bridge not known: {reason}" in nic_facts(found)
    told = {one.name: one.nics[0] for one in host_guests(found.snapshot).guests}[name]
    assert (told.network, told.port, told.network_missing) == (None, None, reason)


def test_a_port_that_the_database_does_not_have() -> None:
    found = row("web1", host(()))
    assert found.why_no_network == "the database of Open vSwitch does not have the port"


def port_step(number: int, snapshot: Snapshot) -> tuple[str, str]:
    one = snapshot.links[number]
    kind = chain_kind(one)
    assert kind is not None
    return virtual_steps(one, kind, snapshot)["port"]


def test_layers() -> None:
    assert port_step(TAP, host()) == ("passed", "OVS bridge vmbr0, VLAN 30")
    assert port_step(QVO, host()) == ("passed", "OVS bridge br-int, tagged 7, 9-11")
    unread = host((), {"switch_ports": Unreadable("failed", "x")})
    assert port_step(TAP, unread) == ("unknown", "bridge of Open vSwitch not known")


def test_a_tap_of_a_datapath_in_user_space_is_a_port() -> None:
    """It has no master."""
    snapshot = snapshot_of(
        HELLO, replace(inventory(links=(make_link(2, "tap0", kind="tun"),)),
            switch_ports=(SwitchPort("tap0", "br0", 5),))
    )  # fmt: skip
    assert port_step(2, snapshot) == ("passed", "OVS bridge br0, VLAN 5")


def details(number: int, snapshot: Snapshot) -> dict[str, str]:
    found = next(
        row for row in device_tree(snapshot) if row.link is not None and row.link.ifindex == number
    )
    sections = {one.title: one for one in link_facts(found, snapshot)}
    return {fact.label: fact.text for fact in sections["Bridge port"].facts}


def test_details() -> None:
    assert details(TAP, host()) == {"Bridge": "vmbr0 · Open vSwitch", "VLANs": "30"}
    assert details(BRIDGE, host())["VLANs"] == "all, with and without tags"
    assert details(TAP, host(())) == {
        "Bridge": "of Open vSwitch, not known: the database of Open vSwitch does not have the port"
    }


@pytest.mark.parametrize(
    ("port", "text"),
    [
        (SwitchPort("a", "b"), ""),
        (SwitchPort("a", "b", 0), "0"),
        (SwitchPort("a", "b", 5, mode="dot1q-tunnel"), "tunnel 5"),
        (SwitchPort("a", "b", 5, "7", "native-tagged"), "native 5 · tagged 7"),
        (SwitchPort("a", "b", 5, "7", "access"), "5"),
        (SwitchPort("a", "b", None, "7", "trunk"), "tagged 7"),
    ],
)
def test_text_of_vlans(port: SwitchPort, text: str) -> None:
    assert switch_vlans(port) == text


def test_pair_of_a_tap_and_its_guest() -> None:
    own = "52:54:00:00:00:77"
    tap = replace(LINKS[2], address="fe:54:00:00:00:77")
    at = snapshot_of(
        HELLO,
        replace(inventory(links=(LINKS[0], tap)), switch_ports=PORTS),
        host="pve",
    )
    nic = make_link(2, "ens1", bus="virtio", device="virtio0", address=own)
    guest_host = snapshot_of(HELLO, inventory(links=(nic,)), host="vm")
    found = [pair for pair in pairs((at, guest_host)).taps if pair.tap.ifindex == TAP]
    assert [(pair.bridge, pair.port, pair.vlans) for pair in found] == [
        ("vmbr0", "tap101i0", "VLAN 30")
    ]


@pytest.mark.parametrize(
    ("names", "network"), [(("pf0vf3",), "br-int"), (("pf0vf4",), ""), (("pf0vf3",) * 2, "")]
)
def test_a_vf_is_in_the_network_of_its_representor(names: tuple[str, ...], network: str) -> None:
    """In switchdev mode."""
    address = "0000:02:00.5"
    port = make_link(
        40,
        "ens1f0",
        bus="pci",
        device="0000:02:00.0",
        pci_address="0000:02:00.0",
        switch_id="0a",
        physical_port="p0",
        virtual_functions=(VirtualFunction(3, None),),
    )
    stands_for = [
        make_link(50 + number, f"ens1f0r{number}", master=DATAPATH, pci_address="0000:02:00.0",
            switch_id="0a", physical_port=name)
        for number, name in enumerate(names)
    ]  # fmt: skip
    functions = (
        make_pci("0000:02:00.0", sriov=Sriov(8, 4, None, ("a", "b", "c", address))),
        make_pci(address, physical_function="0000:02:00.0", virtual_function=3),
    )
    made = inventory(links=(LINKS[0], port, *stands_for), pci=functions)
    web = guest("web1", GuestNic("net0", "vfio-pci", "vfio", pci_address=address))
    ports = (SwitchPort("ens1f0r0", "br-int", 7), SwitchPort("ens1f0r1", "br-int", 7))
    snapshot = snapshot_of(HELLO, replace(made, guests=(web,), switch_ports=ports), host="pve")
    found = row("web1", snapshot)
    assert found.connection == "VF 3 of ens1f0"
    assert (found.network, found.vlans) == (network, "7" if network else "")
