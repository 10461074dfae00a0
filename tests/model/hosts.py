"""Hosts made of literal records, for the tests of the model, the report and the command line."""

from __future__ import annotations

from dataclasses import replace

from nictop.model.snapshot import Snapshot, advance
from nictop.probe.records import (
    LINK_COUNTERS,
    Address,
    Channels,
    Counters,
    DefaultRoute,
    DriverInfo,
    Ethtool,
    Feature,
    Hello,
    Inventory,
    Line,
    Link,
    LinkSettings,
    PcieLink,
    PciFunction,
    Platform,
    Rings,
    Rss,
    Sriov,
    Unreadable,
    VirtualFunction,
)

UP = 0x1 | 0x2 | 0x40 | 0x1000 | 0x10000
"""IFF_UP, IFF_BROADCAST, IFF_RUNNING, IFF_MULTICAST, IFF_LOWER_UP."""
DOWN = 0x1002

HELLO = Hello(
    protocol=1,
    version="0.1.0",
    hostname="alma-load-001",
    kernel="6.12.0",
    machine="x86_64",
    python="3.9.18",
    pid=4711,
    euid=1000,
    boot_id="8ad2ee37-2b61-4dc0-9d4a-3ce1d5a9f111",
    clock_ticks=100,
    monotonic=99.0,
    wall=1_790_000_000.0,
    interval=1.0,
)

PLATFORM = Platform(
    hypervisor="vmware",
    system_vendor="VMware, Inc.",
    product_name="VMware20,1",
    distribution="AlmaLinux 9.5",
    distribution_id="almalinux",
    online_cpus="0-3",
    possible_cpus="0-3",
    numa_nodes="0",
    iommu_groups=0,
)


def link_counters(**named: int) -> tuple[int, ...]:
    """`LINK_COUNTERS` with the given values, the others 0."""
    assert named.keys() <= set(LINK_COUNTERS)
    return tuple(named.get(name, 0) for name in LINK_COUNTERS)


def counters(
    time: float, links: dict[int, tuple[int, ...]] | None = None, **more: object
) -> Counters:
    record = Counters(time=time, links=links or {}, cpus={})
    return replace(record, **more)  # type: ignore[arg-type]


def make_link(ifindex: int, name: str, **more: object) -> Link:
    link = Link(
        ifindex=ifindex, name=name, type=1, flags=UP, operstate="up", carrier=True, mtu=1500
    )
    return replace(link, **more)  # type: ignore[arg-type]


def make_pci(address: str, **more: object) -> PciFunction:
    pci = PciFunction(
        address=address,
        class_code=0x020000,
        vendor_id=0x8086,
        device_id=0x10C9,
        subsystem_vendor_id=0x8086,
        subsystem_device_id=0xA03C,
        revision=1,
    )
    return replace(pci, **more)  # type: ignore[arg-type]


LOOPBACK = make_link(1, "lo", type=772, flags=UP | 0x8, operstate="unknown", mtu=65536)

PF_ETHTOOL = Ethtool(
    driver=DriverInfo(
        driver="igb", version="6.12.0", firmware="0.5, 0x80000000", bus_info="0000:02:00.0"
    ),
    settings=LinkSettings(
        speed=1000, duplex="full", autonegotiation=True, port="tp", transceiver="internal"
    ),
    channels=Channels(
        rx=None, tx=None, other=1, combined=2, max_rx=None, max_tx=None, max_other=1, max_combined=2
    ),
    rings=Rings(
        rx=512,
        rx_mini=None,
        rx_jumbo=None,
        tx=512,
        max_rx=4096,
        max_rx_mini=None,
        max_rx_jumbo=None,
        max_tx=4096,
    ),
    coalescing={"rx-usecs": 3, "tx-usecs": 3, "adaptive-rx": 0},
    features=(
        Feature("rx-checksum", True, True, False),
        Feature("tx-checksum-ip-generic", True, True, False),
        Feature("tx-checksum-ipv4", False, False, True),
        Feature("tx-scatter-gather", True, True, False),
        Feature("tx-tcp-segmentation", False, False, False),
        Feature("tx-tcp6-segmentation", False, False, False),
        Feature("tx-generic-segmentation", True, True, False),
        Feature("rx-gro", True, True, False),
        Feature("rx-lro", False, False, True),
        Feature("rx-ntuple-filter", False, True, False),
        Feature("highdma", True, True, True),
    ),
    rss=Rss(indirection=(0, 1) * 64, hash_function="toeplitz", key_length=40),
    driver_counter_names=("rx_packets", "rx_short_length_errors", "tx_timeout_count"),
    driver_counters=(99204, 22, 0),
    unreadable={
        "module": Unreadable("needs_root", "EPERM"),
        "fec": Unreadable("not_offered", "EOPNOTSUPP"),
        "state": Unreadable("missing"),
    },
)

PF = make_link(
    4,
    "ens224",
    address="52:54:00:82:57:01",
    permanent_address="52:54:00:82:57:01",
    carrier_changes=3,
    min_mtu=68,
    max_mtu=9216,
    bus="pci",
    device="0000:02:00.0",
    pci_address="0000:02:00.0",
    qdisc="mq",
    tx_queue_length=1000,
    addresses=(Address("ipv4", "192.0.2.7", 24, "global", ("permanent",)),),
    default_routes=(DefaultRoute("ipv4", "192.0.2.1", 100, 254),),
    virtual_functions=(
        VirtualFunction(0, "be:f5:e8:56:0a:61", vlan=0, spoof_check=True, trust=False,
            link_state="auto",
                        counters=(0,) * 8),
        VirtualFunction(1, "00:00:00:00:00:00", vlan=100, qos=3, spoof_check=False,
            link_state="enable",
                        max_tx_rate=1000, counters=(0,) * 8),
        VirtualFunction(7, "76:71:9a:59:81:68"),
    ),
    ethtool=PF_ETHTOOL,
)  # fmt: skip

VF_NETDEV = make_link(5, "ens224v0", bus="pci", device="0000:02:10.0", pci_address="0000:02:10.0")
VIRTIO = make_link(
    3,
    "ens256",
    bus="virtio",
    device="virtio2",
    pci_address="0000:03:00.0",
    ethtool=Ethtool(
        driver=DriverInfo("virtio_net", "1.0.0", "", "0000:03:00.0"),
        settings=LinkSettings(
            speed=None, duplex=None, autonegotiation=False, port="other", transceiver="internal"
        ),
        unreadable={"pause": Unreadable("not_offered", "EOPNOTSUPP")},
    ),
)
VMBUS = make_link(6, "eth0", bus="vmbus", device="f8b3781a-1e82-4818-a1c3-63d806ec15bb")
BRIDGE = make_link(10, "br0", kind="bridge")
VETH = make_link(11, "veth0", kind="veth", lower=12, master=10)
VETH_PEER = make_link(12, "veth1", kind="veth", lower=11)
VLAN = make_link(13, "ens224.100", kind="vlan", lower=4, details={"vlan_id": 100})

PCI = (
    make_pci(
        "0000:02:00.0",
        vendor_name="Intel Corporation",
        device_name="82576 Gigabit Network Connection",
        driver="igb",
        numa_node=0,
        link=PcieLink(speed=2.5, width=4, max_speed=8.0, max_width=8),
        sriov=Sriov(8, 2, True, ("0000:02:10.0", "0000:02:10.2")),
    ),
    make_pci(
        "0000:02:10.0",
        driver="igbvf",
        physical_function="0000:02:00.0",
        virtual_function=0,
        iommu_group=9,
    ),
    make_pci(
        "0000:02:10.2",
        driver="vfio-pci",
        physical_function="0000:02:00.0",
        virtual_function=1,
        iommu_group=10,
    ),
    make_pci("0000:03:00.0", vendor_id=0x1AF4, device_id=0x1041, driver="virtio-pci"),
    make_pci("0000:04:00.0", vendor_id=0x15AD, device_id=0x07B0),
)

LINKS = (LOOPBACK, VIRTIO, PF, VF_NETDEV, VMBUS, BRIDGE, VETH, VETH_PEER, VLAN)


def inventory(
    time: float = 100.0, links: tuple[Link, ...] = LINKS, pci: tuple[PciFunction, ...] = PCI
) -> Inventory:
    return Inventory(
        time=time,
        wall=1_790_000_001.0,
        took=0.2,
        reason="start",
        platform=PLATFORM,
        pci=pci,
        links=links,
    )


def snapshot_of(*items: object, host: str = "alma-load-001") -> Snapshot:
    """The snapshot after these records, in this order."""
    names = {
        "Hello": "hello",
        "Inventory": "inventory",
        "Counters": "counters",
        "LinkChange": "link_change",
    }
    snapshot = Snapshot.empty(host)
    for item in items:
        snapshot = advance(snapshot, Line(**{names.get(type(item).__name__, "trouble"): item}))  # type: ignore[arg-type]
    return snapshot


def live_host() -> Snapshot:
    """A guest with a physical function, two VFs here and one elsewhere, virtio, vmbus and virtual
    links, under load."""
    first = counters(
        100.0,
        {
            link.ifindex: link_counters(rx_bytes=1000, rx_packets=10, tx_bytes=1000, tx_packets=10)
            for link in LINKS
        },
        cpus={0: (100, 0, 50, 800, 5, 1, 30, 14, 0, 0)},
        vfs={4: {0: (0, 0, 0, 0, 0, 0, 0, 0)}},
    )
    second = counters(
        101.0,
        {
            **{
                link.ifindex: link_counters(
                    rx_bytes=1000, rx_packets=10, tx_bytes=1000, tx_packets=10
                )
                for link in LINKS
            },
            4: link_counters(
                rx_bytes=1_176_251_000,
                rx_packets=776_010,
                tx_bytes=2_663_500,
                tx_packets=40_010,
                rx_dropped=5,
                rx_errors=22,
            ),
        },
        cpus={0: (110, 0, 55, 860, 5, 1, 50, 19, 0, 0)},
        vfs={4: {0: (100, 200, 125_000, 250_000, 0, 0, 0, 0)}},
    )
    return snapshot_of(HELLO, first, inventory(), second)
