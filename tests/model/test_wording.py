"""Every fact and every absence has a text, the same on the screen and in the report."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from nictop.model.devices.tree import device_tree
from nictop.model.facts import Fact, hypervisor_text, platform_text, state_mark, state_text
from nictop.model.facts.counters import is_error_counter, queue_names
from nictop.model.facts.ethtool import channel_text, offload_facts, ring_text
from nictop.model.facts.ethtool_settings import (
    coalescing_text,
    eee_text,
    fec_text,
    offload_states,
    pause_text,
    rss_text,
)
from nictop.model.facts.facts import link_facts
from nictop.model.facts.hardware import (
    driver_text,
    lane_texts,
    module_text,
    optical_power,
    pci_name,
    pcie_capacity,
    pcie_text,
    vf_rate_text,
    vf_text,
)
from nictop.model.snapshot import Snapshot, advance
from nictop.model.text.words import (
    absence_reason,
    count_noun,
    cpu_count,
    driver_name,
    value_or_reason,
)
from nictop.probe.records import (
    Channels,
    Eee,
    Ethtool,
    Feature,
    Fec,
    Hello,
    Line,
    Link,
    LinkChange,
    LinkSettings,
    LinkState,
    Module,
    Optics,
    Pause,
    PcieLink,
    Rings,
    Rss,
    Unreadable,
    VirtualFunction,
)
from tests.model.hosts import (
    DOWN,
    HELLO,
    LOOPBACK,
    PF,
    PF_ETHTOOL,
    PLATFORM,
    UP,
    VETH,
    VIRTIO,
    counters,
    inventory,
    link_counters,
    live_host,
    make_link,
    make_pci,
    snapshot_of,
)

# ----------------------------------------------------------------------------------------- absences


@pytest.mark.parametrize(
    ("why", "driver", "text"),
    [
        (Unreadable("not_offered", "EOPNOTSUPP"), "virtio_net", "not supported by virtio_net"),
        (Unreadable("not_offered"), None, "not supported by the driver"),
        (Unreadable("needs_root", "EPERM"), "igb", "needs root"),
        (Unreadable("missing"), "igb", "not available on this host"),
        (Unreadable("malformed", "speed: 'x'"), "igb", "invalid data (speed: 'x')"),
        (Unreadable("vanished", "ENODEV"), "igb", "device removed"),
        (Unreadable("failed", "EIO"), "igb", "not readable (EIO)"),
        (Unreadable("failed"), "igb", "not readable"),
        (None, "igb", "unknown"),
    ],
)
def test_reasons(why: Unreadable | None, driver: str | None, text: str) -> None:
    assert absence_reason(why, driver) == text
    unreadable = {} if why is None else {"rings": why}
    assert value_or_reason(None, unreadable, "rings", driver) == text
    assert value_or_reason("", unreadable, "rings", driver) == text
    assert value_or_reason("512", unreadable, "rings", driver) == "512"


# ----------------------------------------------------------------------------------------- platform


@pytest.mark.parametrize(
    ("hypervisor", "text"),
    [
        ("vmware", "VMware guest"),
        ("kvm", "KVM guest"),
        ("microsoft", "Hyper-V guest"),
        ("xen", "Xen guest"),
        ("acrn", "acrn guest"),
        (None, "bare metal"),
    ],
)
def test_hypervisors(hypervisor: str | None, text: str) -> None:
    assert hypervisor_text(replace(PLATFORM, hypervisor=hypervisor)) == text


def test_unreadable_hypervisor_is_not_bare_metal() -> None:
    hidden = replace(PLATFORM, hypervisor=None, unreadable={"hypervisor": Unreadable("needs_root")})
    assert hypervisor_text(hidden) == "hypervisor needs root"


@pytest.mark.parametrize(
    ("cpus", "number"),
    [
        ("0", 1),
        ("0-3", 4),
        ("0-1,4,8-11\n", 7),
        (None, None),
        ("", None),
        ("x", None),
        ("3-", None),
        ("4-1", None),
        ("9" * 5000, None),
        ("0-" + "9" * 5000, None),
        ("0-999999999", None),
    ],
)
def test_cpu_lists(cpus: str | None, number: int | None) -> None:
    assert cpu_count(cpus) == number


def test_platform_words() -> None:
    assert platform_text(PLATFORM) == "VMware guest · 4 CPUs"
    assert platform_text(replace(PLATFORM, online_cpus="0")) == "VMware guest · 1 CPU"
    assert platform_text(replace(PLATFORM, online_cpus=None)) == "VMware guest"


# --------------------------------------------------------------------------------------- link state


def settings(speed: int | None = 10_000, duplex: str | None = "full") -> Ethtool:
    return Ethtool(settings=LinkSettings(speed, duplex, True, "fibre", "internal"))  # type: ignore[arg-type]


HARDWARE = make_link(2, "ens192", bus="pci", device="0000:02:00.0", pci_address="0000:02:00.0")


@pytest.mark.parametrize(
    ("link", "text", "tone", "mark"),
    [
        (replace(HARDWARE, ethtool=settings()), "up, 10G full", "good", "↑"),
        (replace(HARDWARE, ethtool=settings(100, "half")), "up, 100M half", "warn", "↑"),
        (replace(HARDWARE, ethtool=settings(2500, None)), "up, 2.5G", "good", "↑"),
        (VIRTIO, "up, speed unknown", "good", "↑"),
        (LOOPBACK, "up", "good", "↑"),
        (VETH, "up", "good", "↑"),
        (replace(HARDWARE, flags=DOWN, carrier=None, operstate="down"), "down", "dim", "○"),
        (replace(HARDWARE, flags=DOWN, operstate="notpresent"), "not present", "bad", "○"),
        (replace(HARDWARE, carrier=False, operstate="down"), "no carrier", "warn", "▽"),
        (
            replace(HARDWARE, carrier=False, ethtool=Ethtool(state=LinkState(False, "no cable"))),
            "no carrier, no cable",
            "warn",
            "▽",
        ),
        (replace(VETH, operstate="lowerlayerdown", carrier=False), "lower layer down", "warn", "▽"),
        (replace(HARDWARE, operstate="dormant"), "up, dormant", "warn", "▽"),
    ],
)
def test_state(link: Link, text: str, tone: str, mark: str) -> None:
    assert state_text(link) == (text, tone)
    assert state_mark(link) == mark


def test_driver_name_of_a_link() -> None:
    assert driver_name(PF) == "igb"
    assert driver_name(VETH) == "veth"
    assert driver_name(LOOPBACK) == "loopback"
    assert driver_name(HARDWARE) is None
    assert driver_name(HARDWARE, make_pci("0000:02:00.0", driver="ixgbe")) == "ixgbe"
    virtio = replace(HARDWARE, bus="virtio", device="virtio2")
    assert driver_name(virtio, make_pci("0000:03:00.0", driver="virtio-pci")) is None


# ----------------------------------------------------------------------------------------- hardware


@pytest.mark.parametrize(
    ("link", "text", "tone"),
    [
        (PcieLink(8.0, 4, 16.0, 8), "8 GT/s ×4 (of 16 GT/s ×8)", "warn"),
        (PcieLink(16.0, 8, 16.0, 8), "16 GT/s ×8", "normal"),
        (PcieLink(8.0, 4, 8.0, 8), "8 GT/s ×4 (of 8 GT/s ×8)", "warn"),
        (PcieLink(2.5, 1, None, None), "2.5 GT/s ×1", "normal"),
        (PcieLink(None, 4, 8.0, 4), "speed unknown ×4", "normal"),
        (PcieLink(None, None, 8.0, 4), "unknown", "dim"),
        (None, "none", "dim"),
    ],
)
def test_pcie(link: PcieLink | None, text: str, tone: str) -> None:
    assert pcie_text(link) == (text, tone)


@pytest.mark.parametrize(
    ("speed", "width", "gigabits"),
    [(2.5, 4, 8.0), (5.0, 8, 32.0), (8.0, 4, 31.5077), (16.0, 16, 252.06), (64.0, 1, 64.0)],
)
def test_pcie_capacity(speed: float, width: int, gigabits: float) -> None:
    assert pcie_capacity(PcieLink(speed, width, None, None)) == pytest.approx(gigabits, rel=1e-4)
    assert pcie_capacity(PcieLink(None, width, None, None)) is None


def test_names_of_functions() -> None:
    pci = make_pci("0000:02:00.0")
    assert pci_name(pci) == "8086:10c9"
    assert pci_name(replace(pci, vendor_name="Intel Corporation")) == "Intel Corporation 8086:10c9"
    assert (
        pci_name(replace(pci, vendor_name="Intel Corporation", device_name="82576"))
        == "Intel Corporation 82576"
    )
    assert driver_text(pci) == ("no driver", "warn")
    assert driver_text(replace(pci, driver="igb")) == ("igb", "normal")
    for reserving in ("vfio-pci", "mlx5_vfio_pci", "pds_vfio_pci", "pci-stub", "xen-pciback"):
        assert driver_text(replace(pci, driver=reserving)) == (
            f"{reserving} (VM or user-space driver)",
            "normal",
        )
    assert driver_text(replace(pci, driver_override="vfio-pci")) == (
        "no driver, override vfio-pci",
        "warn",
    )
    assert driver_text(replace(pci, unreadable={"driver": Unreadable("vanished")})) == (
        "device removed",
        "dim",
    )


def test_virtual_functions() -> None:
    vf = VirtualFunction(
        0,
        "52:54:00:00:00:07",
        vlan=100,
        qos=3,
        vlan_protocol="802.1ad",
        spoof_check=True,
        trust=False,
    )
    assert vf_text(vf) == (
        "52:54:00:00:00:07 · VLAN 100 802.1ad priority 3 · spoof check on · trust off · link "
        "state unknown"
    )
    assert vf_text(VirtualFunction(1, "00:00:00:00:00:00", vlan=0, link_state="auto")) == (
        "no MAC set by the PF · no VLAN · spoof check unknown · trust unknown · "
        "link auto: that of the port"
    )
    assert vf_text(VirtualFunction(2, None)).startswith("MAC unknown · VLAN unknown · ")
    assert (
        vf_rate_text(replace(vf, min_tx_rate=100, max_tx_rate=1000))
        == "min 100 Mb/s, max 1000 Mb/s"
    )
    assert vf_rate_text(replace(vf, min_tx_rate=0, max_tx_rate=0)) == "no limit"
    assert vf_rate_text(vf) == "unknown"


def test_module() -> None:
    fibre = Module("SFP", "Intel Corp", "FTLX8571D3BCV-IT", "A1", "LC", "fibre", wavelength=850.0)
    assert module_text(fibre) == "SFP Intel Corp FTLX8571D3BCV-IT · fibre, 850 nm · LC"
    cable = Module("SFP+", "Molex", "74752-1101", "B2", "copper pigtail", "copper", length=1.0)
    assert module_text(cable) == "SFP+ Molex 74752-1101 · copper cable, 1 m · copper pigtail"
    assert module_text(Module("", "", "", "", "", "unknown")) == "unnamed module · medium unknown"
    assert optical_power(0.5821) == "-2.35 dBm (0.58 mW)"
    assert optical_power(0.0) == "no light"
    assert optical_power(None) == "unknown"
    assert lane_texts((Optics(1.0, None, 7.25),)) == (
        "rx 0.00 dBm (1.00 mW) · tx unknown · laser 7.2 mA",
    )


# ------------------------------------------------------------------------------------ ethtool parts


@pytest.mark.parametrize(
    ("table", "queues", "text", "tone"),
    [
        ((0, 1, 2, 3) * 32, 4, "128 entries over 4 queues, even", "normal"),
        ((0, 1, 2) * 42 + (0, 1), 3, "128 entries over 3 queues, even", "normal"),
        ((0,) * 96 + (1,) * 32, 2, "128 entries over 2 queues, uneven", "warn"),
        ((0, 1) * 64, 4, "128 entries over 2 of 4 queues, even", "warn"),
        ((0,) * 128, 1, "128 entries over 1 queue", "normal"),
        ((0, 1), 0, "2 entries over 2 queues, even", "normal"),
        ((), 4, "indirection table not reported by the driver", "dim"),
    ],
)
def test_rss(table: tuple[int, ...], queues: int, text: str, tone: str) -> None:
    assert rss_text(Rss(table, "toeplitz", 40), queues) == (text, tone)


def test_texts_of_settings() -> None:
    assert pause_text(Pause(True, True, False)) == "rx on, tx off, autonegotiation on"
    assert pause_text(Pause(True, True, True, 5, 0)).endswith("· rx 5 frames · tx 0 frames")
    assert fec_text(Fec(("RS", "BASER"), True, "RS")) == "active: RS · configured: auto, RS, BASER"
    assert fec_text(Fec((), False, None)) == "active: none · configured: none"
    assert eee_text(Eee(False, False, None, None)) == "disabled"
    assert eee_text(Eee(True, False, True, 17)) == "enabled, not active, tx LPI after 17 µs"
    assert coalescing_text(
        {
            "tx-usecs": 0,
            "stats-block-usecs": 9,
            "rx-usecs": 50,
            "adaptive-rx": 1,
            "rx-frames-irq": 0,
        }
    ) == ("adaptive-rx on · rx-usecs 50 · tx-usecs 0 · stats-block-usecs 9")
    assert (
        channel_text(Channels(None, None, 1, 2, None, None, 1, 4))
        == "combined 2 of 4 · other 1 of 1"
    )
    assert channel_text(Channels(None, None, None, None, None, None, None, None)) == "none"
    rings = Rings(512, None, 512, 512, 4096, None, 4096, 4096, rx_buffer_length=2048)
    assert (
        ring_text(rings)
        == "rx 512 of 4096 · rx jumbo 512 of 4096 · tx 512 of 4096 · rx buffer 2048 bytes"
    )


def feature(name: str, *, active: bool, wanted: bool | None = None, fixed: bool = False) -> Feature:
    return Feature(name, active, active if wanted is None else wanted, fixed)


OFFLOADS = (
    feature("rx-checksum", active=True),
    feature("tx-tcp-segmentation", active=False),
    feature("tx-tcp6-segmentation", active=False),
    feature("tx-scatter-gather", active=False, fixed=True),
    feature("rx-gro", active=False),
    feature("rx-lro", active=True),
    feature("rx-ntuple-filter", active=False, wanted=True),
    feature("rx-vlan-hw-parse", active=False, fixed=True),
    feature("hw-tc-offload", active=True),
)


def test_offloads_unlike_the_default_of_the_driver_are_first() -> None:
    assert [(state.offload.name, state.text) for state in offload_states(OFFLOADS)] == [
        ("rx-checksumming", "on"),
        ("scatter-gather", "off [fixed]"),
        ("tcp-segmentation-offload", "off"),
        ("generic-receive-offload", "off"),
        ("large-receive-offload", "on"),
        ("rx-vlan-offload", "off [fixed]"),
        ("ntuple-filters", "off [requested on]"),
    ]
    assert [(fact.label, fact.text, fact.tone) for fact in offload_facts(OFFLOADS, "ixgbe")] == [
        ("Unusual", "tcp-segmentation-offload off", "warn"),
        ("Unusual", "generic-receive-offload off", "warn"),
        ("Refused", "ntuple-filters off [requested on]", "warn"),
        ("On", "rx-checksumming, large-receive-offload", "normal"),
        ("Off", "scatter-gather [fixed], rx-vlan-offload [fixed]", "normal"),
        ("Also on", "hw-tc-offload", "dim"),
    ]


@pytest.mark.parametrize("driver", ["veth", "r8169", None])
def test_no_offload_is_unusual_where_the_default_is_not_known(driver: str | None) -> None:
    """A veth has GRO off until it is set (drivers/net/veth.c veth_disable_gro)."""
    assert "Unusual" not in {fact.label for fact in offload_facts(OFFLOADS, driver)}


def test_an_offload_is_on_when_any_of_its_features_is() -> None:
    """As ethtool counts: vmxnet3 has tx-checksum-ip-generic and none of the other four."""
    features = (
        feature("tx-checksum-ipv4", active=False, fixed=True),
        feature("tx-checksum-ip-generic", active=True),
        feature("tx-checksum-sctp", active=False, fixed=True),
    )
    (state,) = offload_states(features)
    assert (state.active, state.fixed) == (True, False)
    assert offload_facts(features, "vmxnet3")[0] == Fact("Unusual", "none", "good")


def test_vmxnet3_counters_belong_to_queues() -> None:
    names = (
        "Tx Queue#",
        "  TSO pkts tx",
        "   drv dropped tx total",
        "Rx Queue#",
        "  pkts rx OOB",
        "tx timeout count",
    )
    assert list(queue_names(names, (2, 5, 6, 3, 7, 1))) == [
        "Tx Queue#",
        "tx queue 2 TSO pkts tx",
        "tx queue 2 drv dropped tx total",
        "Rx Queue#",
        "rx queue 3 pkts rx OOB",
        "tx timeout count",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "rx_no_buffer_count",
        "rx_missed_errors",
        "tx_queue_0_restart",
        "rx_queue_0_csum_err",
        "tx_timeout_count",
        "rx queue 3 pkts rx OOB",
        "tx queue 0 ring full",
        "rx queue 1 rx buf alloc fail",
        "rx0_drops",
        "tx_tx_timeouts",
        "port.rx_oversize",
        "rx_out_of_buffer",
        "rx_discards_phy",
        "bw_in_allowance_exceeded",
        "wd_expired",
    ],
)
def test_error_counters(name: str) -> None:
    assert is_error_counter(name)


@pytest.mark.parametrize(
    "name",
    [
        "rx_packets",
        "tx_queue_0_bytes",
        "tx_deferred_ok",
        "rx_full_csum_ok",
        "rx_csum_offload_good",
        "tx_tcp_seg_good",
        "ucast pkts rx",
        "TSO bytes tx",
        "rx_kicks",
        "interrupts",
        "bytes_transferred",
        "rx_long_byte_count",
        "multicast",
    ],
)
def test_other_counters(name: str) -> None:
    assert not is_error_counter(name)


# -------------------------------------------------------------------------------------------- facts


def lines(snapshot: Snapshot, key: str) -> list[tuple[str, str, str]]:
    """(title of the section, label, text) of every fact of one row."""
    row = next(row for row in device_tree(snapshot) if row.key == key)
    return [
        (part.title, fact.label, fact.text)
        for part in link_facts(row, snapshot)
        for fact in part.facts
    ]


def test_physical_function() -> None:
    found_facts = lines(live_host(), "link:4")
    for expected in (
        ("Summary", "State", "up, 1G full · MTU 1500 · 3 carrier changes"),
        ("Summary", "Errors", "rx_errors 22.0/s · rx_dropped 5.00/s"),
        ("Link", "Speed", "1000 Mb/s · full duplex · autonegotiation on"),
        ("Link", "Port", "twisted pair, internal transceiver"),
        ("Link", "Changes", "3 carrier changes"),
        ("Link", "MTU", "1500 bytes (68 to 9216)"),
        ("Addresses", "Permanent MAC", "same"),
        ("Addresses", "IPv4", "192.0.2.7/24 global"),
        ("Addresses", "Default route", "IPv4 via 192.0.2.1, metric 100"),
        ("Driver", "Driver", "igb 6.12.0"),
        ("Driver", "Firmware", "0.5, 0x80000000"),
        ("Queues", "Rings", "rx 512 of 4096 · tx 512 of 4096"),
        ("Queues", "RSS", "128 entries over 2 queues, even"),
        ("Offloads", "Unusual", "tcp-segmentation-offload off"),
        ("Not available", "n/a", "needs root: module"),
        ("Not available", "n/a", "not supported by igb: FEC"),
        ("Not available", "n/a", "unknown: pause, EEE, private flags"),
        ("Counters", "RX", "9.41 Gb/s · 776 kpps · total 1.10 GiB, 776010 packets"),
        ("Counters", "Errors", "rx_errors 22 · 22.0/s"),
        ("Counters", "Errors", "rx_dropped 5 · 5.00/s"),
        ("Driver counters", "Errors", "rx_short_length_errors 22"),
        ("PCI function", "PCIe", "2.5 GT/s ×4 (of 8 GT/s ×8) · 8.00 Gb/s per direction"),
        ("PCI function", "NUMA node", "0"),
        ("PCI function", "SR-IOV", "2 of 8 VFs · sriov_drivers_autoprobe on"),
    ):
        assert expected in found_facts


def test_virtual_function_rows() -> None:
    found_facts = lines(live_host(), "vf:0000:02:00.0:0")
    assert (
        "Virtual function",
        "RX",
        "1.00 Mb/s · 100 pps · total 122 KiB, 100 packets",
    ) in found_facts
    assert ("PCI function", "IOMMU group", "9") in found_facts
    handed = lines(live_host(), "vf:0000:02:00.0:1")
    assert (
        "Virtual function",
        "Function",
        "reserved for a VM or user-space driver (vfio-pci)",
    ) in handed
    assert ("Virtual function", "TX rate", "max 1000 Mb/s") in handed
    elsewhere = lines(live_host(), "vf:0000:02:00.0:7")
    assert ("Virtual function", "Function", "not on this host's PCI bus") in elsewhere
    assert ("Virtual function", "Counters", "not supported by the driver of ens224") in elsewhere


def test_disabled_arp_and_multicast() -> None:
    def facts_by_label(link: Link) -> dict[str, tuple[str, str]]:
        snapshot = snapshot_of(inventory(1.0, links=(link,)))
        row = next(row for row in device_tree(snapshot) if row.link is link)
        facts = (fact for section in link_facts(row, snapshot) for fact in section.facts)
        return {
            fact.label: (fact.text, fact.tone)
            for fact in facts
            if fact.label in ("ARP", "Multicast")
        }

    multicast, noarp = 0x1000, 0x80
    assert facts_by_label(replace(PF, flags=PF.flags | multicast)) == {}
    assert facts_by_label(replace(PF, flags=PF.flags & ~multicast | noarp)) == {
        "ARP": ("off", "warn"),
        "Multicast": ("off", "warn"),
    }


def test_relations_between_links() -> None:
    host = live_host()
    assert ("Link", "Ports", "veth0") in lines(host, "link:10")
    assert ("Link", "Master", "br0 (bridge)") in lines(host, "link:11")
    assert ("Link", "Peer", "veth1") in lines(host, "link:11")
    assert ("Link", "Lower device", "ens224") in lines(host, "link:13")
    assert ("Link", "Kind", "vlan (vlan_id 100)") in lines(host, "link:13")
    apart = replace(VETH, lower=77, lower_namespace=3, master=99)
    there = snapshot_of(HELLO, inventory(links=(apart,)))
    assert ("Link", "Peer", "ifindex 77 in another network namespace, nsid 3") in lines(
        there, "link:11"
    )
    assert ("Link", "Master", "ifindex 99") in lines(there, "link:11")


def test_host_row_lists_failures() -> None:
    failed = replace(inventory(), unreadable={"udev": Unreadable("missing")})
    found_facts = lines(snapshot_of(HELLO, failed), "host")
    assert ("Host", "Platform", "VMware guest") in found_facts
    assert ("Host", "Not readable", "udev: not available on this host") in found_facts
    assert (
        "Host",
        "Probe",
        "nictop 0.1.0, Python 3.9.18, pid 4711, user 1000 (not root)",
    ) in found_facts
    assert ("Host", "Platform", "inventory pending") in lines(snapshot_of(HELLO), "host")


def test_counters_that_are_not_readable_name_their_interface() -> None:
    """``queues: not supported by the driver`` does not say of which NIC."""
    failed = {"queues": Unreadable("not_offered", "ifindex 11: EOPNOTSUPP Operation not supported")}
    known = snapshot_of(HELLO, inventory(links=(VETH,)), replace(counters(1.0), unreadable=failed))
    ((_, _, text),) = [one for one in lines(known, "host") if one[1] == "Not readable"]
    assert text == "queue counters of veth0: not supported by veth"
    gone = {"queues": Unreadable("vanished", "ifindex 77: ENODEV No such device")}
    known = snapshot_of(HELLO, inventory(), replace(counters(1.0), unreadable=gone))
    assert ("Host", "Not readable", "queue counters of ifindex 77: device removed") in lines(
        known, "host"
    )


def test_a_new_link_has_a_pending_inventory() -> None:
    change = LinkChange(
        200.0, 9, gone=False, name="eth9", operstate="up", carrier=True, flags=UP, mtu=9000
    )
    early = lines(snapshot_of(HELLO, change), "link:9")
    assert ("Link", "Details", "inventory pending (the interfaces are being read)") in early
    found = lines(snapshot_of(HELLO, inventory(), change), "link:9")
    assert ("Link", "Details", "inventory pending (new interface)") in found
    assert ("Link", "MTU", "9000 bytes") in found
    assert not [line for line in found if "absent" in line]


def test_driver_counters_of_another_length_are_not_mixed_up() -> None:
    """After ``ethtool -L`` the names of the inventory and the newest numbers may not match."""
    longer = counters(102.0, {4: link_counters()}, driver={4: (1, 2, 3, 4)})
    found_facts = lines(advance(live_host(), Line(counters=longer)), "link:4")
    assert ("Driver counters", "Errors", "rx_short_length_errors 22") in found_facts
    matching = counters(102.0, {4: link_counters()}, driver={4: (1, 23, 3)})
    found_facts = lines(advance(live_host(), Line(counters=matching)), "link:4")
    assert ("Driver counters", "Errors", "rx_short_length_errors 23") in found_facts
    assert ("Driver counters", "Errors", "tx_timeout_count 3") in found_facts


def test_queue_rates() -> None:
    def queues(packets: int) -> object:
        return {
            4: tuple(
                ("rx", n, (packets * (n + 1), packets * 100, None, None, n, None))
                for n in range(20)
            )
        }

    snapshot = snapshot_of(
        HELLO, inventory(), counters(1.0, queues=queues(0)), counters(2.0, queues=queues(1000))
    )
    found_facts = [line for line in lines(snapshot, "link:4") if line[0] == "Queue rates"]
    assert found_facts[1] == ("Queue rates", "rx 1", "800 kb/s · 2.00 kpps · drops 0/s")
    assert found_facts[-1] == ("Queue rates", "More", "4 queues with less traffic")


def bare(link: Link) -> Link:
    """A link without optional values."""
    known = {field.name: getattr(link, field.name) for field in fields(Link)[:7]}
    return Link(**known)


@pytest.mark.parametrize(
    "snapshot",
    [
        Snapshot.empty("nobody"),
        live_host(),
        snapshot_of(HELLO, inventory()),
        snapshot_of(
            HELLO, inventory(links=tuple(bare(link) for link in live_host().links.values()), pci=())
        ),
        snapshot_of(
            HELLO,
            inventory(
                links=(
                    replace(
                        PF,
                        ethtool=replace(
                            PF_ETHTOOL,
                            module=Module(
                                "SFP",
                                "Intel",
                                "X",
                                "1",
                                "LC",
                                "fibre",
                                lanes=(Optics(0.0, 0.5, 7.0),),
                            ),
                            pause=Pause(True, True, True),
                            fec=Fec(("RS",), False, "RS"),
                            eee=Eee(True, True, True, 17),
                            private_flags={"legacy-rx": False},
                            state=LinkState(True, None, 2),
                        ),
                    ),
                )
            ),
        ),
    ],
    ids=["nothing", "live", "no counters", "bare", "complete"],
)
def test_every_row_has_facts_and_no_fact_is_blank(snapshot: Snapshot) -> None:
    for row in device_tree(snapshot):
        sections = link_facts(row, snapshot)
        assert sections
        for part in sections:
            assert part.title and part.facts
            for fact in part.facts:
                assert 0 < len(fact.label) <= 15
                assert fact.text.strip()
                assert fact.tone in ("normal", "dim", "good", "warn", "bad")


def test_probe_as_root() -> None:
    root: Hello = replace(HELLO, euid=0)
    assert ("Host", "Probe", "nictop 0.1.0, Python 3.9.18, pid 4711, root") in lines(
        snapshot_of(root, inventory()), "host"
    )


def test_singular_and_plural() -> None:
    assert [count_noun(number, "run") for number in (0, 1, 2, 1_230_000)] == [
        "0 runs",
        "1 run",
        "2 runs",
        "1.23 M runs",
    ]
    assert [count_noun(number, "entry", "entries") for number in (1, 3)] == ["1 entry", "3 entries"]
