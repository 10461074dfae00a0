"""No run exceeds the ceiling, and there is none when it cannot be known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.devices.ceiling import (
    Framing,
    Limit,
    Shaper,
    ceiling,
    combined_framing,
    end_limits,
    goodput,
    payload_and_wire,
    transmit_rates,
)
from nictop.model.devices.netdevs import End
from nictop.model.devices.pairs import Pairs, VirtualFunctionPair
from nictop.model.snapshot import Snapshot
from nictop.probe.records import (
    DriverInfo,
    Ethtool,
    Link,
    LinkSettings,
    PcieLink,
    PciFunction,
    Qdisc,
    Settings,
    Sriov,
    VirtualFunction,
)
from tests.model.hosts import HELLO, PLATFORM, inventory, make_link, snapshot_of

COLUMNS = (
    Framing(1500, 4),
    Framing(1500, 6),
    Framing(1500, 4, vlan_tags=1),
    Framing(9000, 4),
    Framing(9000, 6),
    Framing(1500, 4, mss=100),
    Framing(1500, 6, mss=100),
    Framing(1500, 4, "udp"),
    Framing(9000, 4, "udp"),
)
# measured with a shaper that charges the length on the wire: 0.995 to 1.000 of these
TABLE = {
    1: (0.941, 0.928, 0.939, 0.990, 0.988, 0.494, 0.444, 0.957, 0.993),
    10: (9.415, 9.285, 9.390, 9.900, 9.878, 4.944, 4.444, 9.571, 9.927),
    25: (23.537, 23.212, 23.476, 24.751, 24.696, 12.360, 11.111, 23.927, 24.817),
    40: (37.659, 37.139, 37.562, 39.602, 39.513, 19.775, 17.778, 38.283, 39.708),
    100: (94.148, 92.848, 93.904, 99.004, 98.783, 49.438, 44.444, 95.709, 99.270),
}


@pytest.mark.parametrize(("gigabits", "expected"), TABLE.items())
def test_goodput_of_common_link_speeds(gigabits: int, expected: tuple[float, ...]) -> None:
    assert [round(goodput(gigabits * 1e9, framing) / 1e9, 3) for framing in COLUMNS] == list(
        expected
    )


def test_the_sentence_names_the_limit_and_the_framing() -> None:
    found = ceiling([Limit(25e9, "25 GbE"), Limit(10e9, "10 GbE")], Framing(1500, 4))
    assert found.sentence == "9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps"
    assert found.limit == Limit(10e9, "10 GbE")
    assert found.packets is not None and round(found.packets) == round(10e9 / 8 / 1538)
    small = ceiling([Limit(10e9, "10 GbE")], Framing(1500, 4, mss=100))
    assert small.packets is not None and round(small.packets / 1e6, 2) == 7.02
    assert ceiling([Limit(1e9, "1 GbE")], Framing(1500, 6, "udp", vlan_tags=1)).sentence.endswith(
        "1 GbE, MTU 1500, VLAN, IPv6, UDP"
    )


def test_a_datagram_of_one_byte_takes_a_whole_frame() -> None:
    assert payload_and_wire(Framing(1500, 4, "udp", length=1)) == (1, 64 + 20)


def test_a_large_datagram_is_fragmented() -> None:
    # RFC 791: 8008 bytes = 5 fragments of 1480 and one of 608
    assert payload_and_wire(Framing(1500, 4, "udp", length=8000)) == (
        8000,
        5 * 1538 + 608 + 20 + 38,
    )


def test_no_ceiling_without_room_for_payload() -> None:
    found = ceiling([Limit(1e9, "1 GbE")], Framing(48, 4))
    assert (found.goodput, found.sentence) == (None, "none: MTU 48 is too small for payload")


@given(
    st.builds(
        Framing,
        mtu=st.integers(68, 65535),
        ip_version=st.sampled_from((4, 6)),
        protocol=st.sampled_from(("tcp", "udp")),
        timestamps=st.booleans(),
        vlan_tags=st.integers(0, 2),
        mss=st.none() | st.integers(1, 65507),
        length=st.none() | st.integers(1, 65507),
    )
)
def test_payload_never_exceeds_the_wire(framing: Framing) -> None:
    payload, wire = payload_and_wire(framing)
    assert 0 <= payload < wire


# ----------------------------------------------------------------------------------------- two ends


def nic(
    ifindex: int = 4, *, speed: int | None = 10_000, driver: str = "ixgbe", **more: object
) -> Link:
    ethtool = Ethtool(
        DriverInfo(driver, "", "", ""), LinkSettings(speed, "full", True, "fibre", None)
    )
    return make_link(ifindex, f"ens{ifindex}", **{"bus": "pci", "ethtool": ethtool, **more})


def host(
    *links: Link,
    pci: tuple[PciFunction, ...] = (),
    hypervisor: str | None = "kvm",
    stamps: int = 1,
    name: str = "a",
) -> Snapshot:
    taken = replace(
        inventory(links=links, pci=pci),
        platform=replace(PLATFORM, hypervisor=hypervisor),
        settings=Settings({"net.ipv4.tcp_timestamps": stamps}),
    )
    return snapshot_of(HELLO, taken, host=name)


def test_the_speed_of_a_device_limits_its_vlans() -> None:
    vlan = make_link(9, "ens4.7", kind="vlan", lower=4, details={"vlan_id": 7})
    for ifindex in (4, 9):
        limits, why = end_limits(host(nic(), vlan), ifindex)
        assert ([(limit.bits_per_second, limit.words) for limit in limits], why) == (
            [(1e10, "10 GbE")],
            "",
        )


@pytest.mark.parametrize(
    ("link", "why"),
    [
        (nic(speed=None, driver="virtio_net"), "a: ens4 reports no speed (virtio_net)"),
        (nic(driver="vmxnet3"), "a: ens4 reports only a nominal speed (vmxnet3)"),
        (nic(speed=1000, driver="e1000"), "a: ens4 reports only a nominal speed (e1000)"),
        (nic(bus=None, kind="veth"), "a: ens4 is virtual (veth)"),
        (nic(5), "a: interface removed"),
    ],
)
def test_an_unknown_speed_is_not_a_limit(link: Link, why: str) -> None:
    assert end_limits(host(link), 4) == ((), why)
    assert ceiling((), Framing(1500, 4), [why]).sentence == f"none: {why}"
    # over loopback, where both ends are the same link
    assert ceiling((), Framing(1500, 4), [why, why]).sentence == f"none: {why}"


def test_names_are_sanitized() -> None:
    _, why = end_limits(host(replace(nic(speed=None), name="e\x1b[2J")), 4)
    assert "\x1b" not in why and "e\\x1b[2J" in why


def test_emulated_drivers_have_a_speed_on_a_physical_machine() -> None:
    limits, _ = end_limits(host(nic(speed=1000, driver="e1000"), hypervisor=None), 4)
    assert [limit.words for limit in limits] == ["1 GbE"]


def function(address: str, **more: object) -> PciFunction:
    return replace(PciFunction(address, 0x020000, 0x8086, 0x10FB, None, None, None), **more)  # type: ignore[arg-type]


def test_the_pcie_link_can_be_the_limit() -> None:
    slow = function("0000:02:00.0", link=PcieLink(2.5, 2, 8.0, 8))
    machine = host(nic(pci_address="0000:02:00.0"), pci=(slow,), hypervisor=None)
    limits, _ = end_limits(machine, 4)
    assert [limit.words for limit in limits] == ["10 GbE", "PCIe 2.5 GT/s ×2 (of 8 GT/s ×8)"]
    assert limits[1].bits_per_second == pytest.approx(4e9 * 0.9)
    guest = host(nic(pci_address="0000:02:00.0"), pci=(slow,))
    assert [limit.words for limit in end_limits(guest, 4)[0]] == ["10 GbE"]


def test_the_vf_rate_limits_only_the_sender() -> None:
    port = nic(
        2,
        pci_address="0000:02:00.0",
        virtual_functions=(VirtualFunction(1, None, max_tx_rate=500),),
    )
    own = (
        function("0000:02:00.0", sriov=Sriov(2, 2, True, ("0000:02:10.0", "0000:02:10.2"))),
        function("0000:02:10.2", physical_function="0000:02:00.0", virtual_function=1),
    )
    machine = host(port, nic(4, pci_address="0000:02:10.2"), pci=own, hypervisor=None)
    assert transmit_rates([machine], Pairs()) == {End("a", 4): 500}
    pair = VirtualFunctionPair(End("a", 2), 1, End("guest", 7), "")
    rates = transmit_rates([machine], Pairs(virtual_functions=(pair,)))
    assert rates == {End("a", 4): 500, End("guest", 7): 500}
    guest = host(nic(7, driver="ixgbevf"), name="guest")
    sending, _ = end_limits(guest, 7, rates)
    assert min(limit.bits_per_second for limit in sending) == 5e8
    receiving, _ = end_limits(guest, 7, rates, sends=False)
    assert [limit.words for limit in receiving] == ["10 GbE"]


def test_framing_combines_both_ends() -> None:
    jumbo = host(nic(mtu=9000), name="a")
    plain = host(
        make_link(9, "v", kind="vlan", lower=4, details={"vlan_id": 7}), nic(), stamps=0, name="b"
    )
    found = combined_framing((jumbo, 4), (plain, 9), Framing(1500, 6), {})
    assert found == Framing(1500, 6, timestamps=False, vlan_tags=1)
    assert combined_framing((jumbo, 4), (jumbo, 4), Framing(1500, 4), {End("a", 4): 12}) == Framing(
        9000, 4, vlan_tags=1
    )


def test_a_queueing_discipline_limits_only_the_sender() -> None:
    """It counts packets with their Ethernet header: the goodput is closer to its rate than to that
    of a wire."""
    slow = Qdisc("tbf", "1:", rate=100_000_000)
    shaped = host(replace(nic(), traffic_control=(slow,)))
    limits, _ = end_limits(shaped, 4)
    found = ceiling(limits, Framing(1500, 4))
    assert found.goodput == pytest.approx(1e8 * 1448 / 1514)
    assert found.sentence.startswith(
        "95.6 Mb/s: ens4 of a limited to 100 Mb/s by tbf, MTU 1500, IPv4"
    )
    assert [limit.words for limit in end_limits(shaped, 4, sends=False)[0]] == ["10 GbE"]
    wire = replace(slow, kind="htb", overhead=24, smallest=84)
    counted = ceiling(
        end_limits(host(replace(nic(), traffic_control=(wire,))), 4)[0], Framing(1500, 4)
    )
    assert counted.goodput == pytest.approx(goodput(1e8, Framing(1500, 4)))


@pytest.mark.parametrize(
    "qdisc",
    [
        Qdisc("fq", "1:", rate=1000, per_flow=True),
        Qdisc("htb", "1:", rate=1000, limits_all=False),
        Qdisc("tbf", "2:", "1:10", rate=1000),
        Qdisc("netem", "1:", delay=0.02),
    ],
    ids=str,
)
def test_partial_limits_are_not_a_ceiling(qdisc: Qdisc) -> None:
    limits, _ = end_limits(host(replace(nic(), traffic_control=(qdisc,))), 4)
    assert [limit.words for limit in limits] == ["10 GbE"]


@given(st.integers(100, 9000), st.sampled_from(["tcp", "udp"]), st.integers(0, 20000))
def test_a_shaper_without_overhead_counts_less_than_the_wire(
    mtu: int, protocol: str, length: int
) -> None:
    framing = Framing(mtu, 4, protocol, length=length if protocol == "udp" else None)  # type: ignore[arg-type]
    (payload, wire), (same, counted) = (
        payload_and_wire(framing),
        payload_and_wire(framing, Shaper()),
    )
    assert payload == same and counted < wire
