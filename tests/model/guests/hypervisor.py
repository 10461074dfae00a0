"""A hypervisor with guests: a virtual machine with a tap behind the firewall bridge of Proxmox and a
VF, one of libvirt with a macvtap, a container with a veth, and a stopped guest."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.snapshot import Snapshot
from nictop.probe.records import (
    VF_COUNTERS,
    BridgeVlan,
    DhcpLease,
    GuestNic,
    HostedGuest,
    Inventory,
    Neighbour,
    PciFunction,
    Routing,
    Sriov,
    Thread,
    Unreadable,
    VirtualFunction,
)
from tests.model.hosts import (
    HELLO,
    counters,
    inventory,
    link_counters,
    make_link,
    make_pci,
    snapshot_of,
)

PORT, TAP, FIREWALL, PEER, VMBR0, MACVTAP, VETH, OTHER_TAP = range(2, 10)
VF_ADDRESSES = ("0000:02:10.0", "0000:02:10.2")
LINKS = (
    make_link(
        PORT,
        "ens1f0",
        bus="pci",
        device="0000:02:00.0",
        pci_address="0000:02:00.0",
        virtual_functions=(
            VirtualFunction(0, "52:54:00:00:01:01", vlan=7, trust=False, spoof_check=True),
            VirtualFunction(1, "00:00:00:00:00:00"),
        ),
    ),
    make_link(TAP, "tap101i0", kind="tun", master=FIREWALL, mtu=1400),
    make_link(FIREWALL, "fwbr101i0", kind="bridge"),
    make_link(PEER, "fwln101i0", kind="veth", lower=PEER + 100, master=FIREWALL),
    make_link(PEER + 100, "fwpr101p0", kind="veth", lower=PEER, master=VMBR0,
        bridge_vlans=(BridgeVlan(30, 30, pvid=True, untagged=True),)),
    make_link(VMBR0, "vmbr0", kind="bridge", details={"bridge_vlan_filtering": True}),
    make_link(MACVTAP, "macvtap0", kind="macvtap", lower=PORT, address="52:54:00:00:00:02"),
    make_link(VETH, "veth5", kind="veth", lower=2, lower_namespace=3, master=VMBR0),
)  # fmt: skip
PCI: tuple[PciFunction, ...] = (
    make_pci("0000:02:00.0", driver="igb", sriov=Sriov(7, 2, None, VF_ADDRESSES)),
    *(
        make_pci(
            address, driver="vfio-pci", physical_function="0000:02:00.0", virtual_function=number
        )
        for number, address in enumerate(VF_ADDRESSES)
    ),
)
WEB1 = HostedGuest(
    "web1",
    "vm",
    "qemu",
    "running",
    "101",
    50,
    4,
    (
        GuestNic("net0", "virtio-net-pci", "tap", "bc:24:11:00:00:01", TAP, target="tap101i0",
            queues=2, vhost=True),
        GuestNic("hostpci0", "vfio-pci", "vfio", pci_address=VF_ADDRESSES[0]),
    ),
)  # fmt: skip
DB1 = HostedGuest(
    "db1",
    "vm",
    "qemu",
    "running",
    pid=60,
    nics=(GuestNic("net0", "e1000e", "macvtap", "52:54:00:00:00:02", MACVTAP, vhost=False),),
    unreadable={"nics": Unreadable("needs_root", "/proc/60/fd: EACCES")},
)
CT = HostedGuest(
    "ct1",
    "container",
    "lxc",
    "running",
    "105",
    70,
    nics=(
        GuestNic("eth0", None, "veth", "bc:24:11:00:00:05", VETH, mtu=1500,
            addresses=("fe80::1/64", "192.0.2.5/24")),
        GuestNic("mv0", None, "macvlan", "bc:24:11:00:00:06", lower=PORT, mtu=1500),
    ),
    namespace=3,
)  # fmt: skip
OLD = HostedGuest(
    "old",
    "vm",
    "qemu",
    "stopped",
    "102",
    nics=(
        GuestNic("net0", "virtio", "tap", "bc:24:11:00:00:09", target="vmbr1", vlan=9),
        GuestNic("hostpci0", "vfio-pci", "vfio", pci_address=VF_ADDRESSES[1]),
        GuestNic("hostpci1", "vfio-pci", "vfio", pci_address=VF_ADDRESSES[0]),
    ),
)
GUESTS = (CT, DB1, WEB1, OLD)
THREADS = (
    Thread(50, 50, "kvm", "vm", "web1", (TAP,)),
    Thread(51, 50, "CPU 0/KVM", "vcpu", "web1", (TAP,)),
    Thread(52, 50, "vhost-50", "vhost", "web1", (TAP,)),
)
ROUTING = Routing(
    neighbours=(
        Neighbour(VMBR0, "192.0.2.101", "stale", "bc:24:11:00:00:01"),
        Neighbour(VMBR0, "192.0.2.77", "stale", "bc:24:11:00:00:01"),
        Neighbour(VMBR0, "192.0.2.9", "stale", "bc:24:11:00:00:09"),
    )
)
LEASES = (
    DhcpLease("192.0.2.77", "bc:24:11:00:00:01", "libvirt virbr0", "web1"),
    DhcpLease("192.0.2.1", "52:54:00:00:00:02", "dnsmasq", expires=1.0),
)


def hypervisor_inventory(**changes: object) -> Inventory:
    made = inventory(links=LINKS, pci=PCI)
    made = replace(made, guests=GUESTS, leases=LEASES, routing=ROUTING, threads=THREADS)
    return replace(made, **changes)  # type: ignore[arg-type]


def hypervisor(**changes: object) -> Snapshot:
    """With rates: the tap sends 8 kb/s and receives 16 kb/s; the VF receives 24 kb/s."""
    zero = dict.fromkeys((link.ifindex for link in LINKS), link_counters())
    moved = {
        TAP: link_counters(
            tx_bytes=1000, tx_packets=10, rx_bytes=2000, rx_packets=20, tx_dropped=3
        ),
        MACVTAP: link_counters(rx_bytes=1000, tx_bytes=2000),
        VETH: link_counters(tx_bytes=1000, rx_bytes=2000),
    }
    no_vf, vf = (0,) * len(VF_COUNTERS), dict.fromkeys(VF_COUNTERS, 0)
    vf.update(rx_bytes=3000, tx_bytes=4000)
    threads = {51: (0, 0, 0), 52: (0, 0, 0)}
    first = counters(100.0, zero, vfs={PORT: {0: no_vf, 1: no_vf}}, threads=threads)
    busy = {51: (50, 0, 0), 52: (25, 0, 0)}
    second = counters(
        101.0,
        {**zero, **moved},
        vfs={PORT: {0: tuple(vf.values()), 1: no_vf}},
        threads=busy,
    )
    return snapshot_of(HELLO, hypervisor_inventory(**changes), first, second, host="pve")
