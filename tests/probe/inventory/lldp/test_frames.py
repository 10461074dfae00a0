"""LLDP and CDP frames: every value that is read, what is malformed, and any bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nictop.probe.inventory.lldp.frames import parse_cdp, parse_frame, parse_lldp
from nictop.probe.records import LldpNeighbour
from tests.support.lldp_frames import (
    OUI_802_1,
    aggregation,
    cdp_frame,
    lldp_frame,
    lldpdu,
    management,
    max_frame,
    pvid,
    tlv,
    vlan_name,
)

LLDPD = bytes.fromhex(
    "0180c200000e5ec29001ad0288cc0207045ec29001ad020407035ec29001ad020602000c0a02766d0c0b546573742"
    "0737769"
    "7463680e04009c0080100c0501c000020102000000020010181102fe800000000000005cc290fffe01ad020200000"
    "0020008"
    "027631fe0900120f030100000000fe0900120f0100800000360000"
)
"""A frame that lldpd 1.0.16 sent on a veth."""


def parsed(payload: bytes) -> LldpNeighbour:
    found = parse_frame(lldp_frame(payload), "listened")
    assert found is not None
    return found


def test_a_switch() -> None:
    payload = lldpdu(
        tlv(4, b"host a, rack 7\0"),
        tlv(6, b"Arista Networks EOS 4.30\r\n"),
        management(1, bytes((192, 0, 2, 1))),
        management(2, bytes.fromhex("20010db8000000000000000000000001")),
        pvid(10),
        vlan_name(20),
        vlan_name(10),
        max_frame(9236),
        aggregation(3, 1007),
    )
    assert parsed(payload) == LldpNeighbour(
        "listened",
        chassis="00:11:22:33:44:55",
        port="Ethernet1/7",
        port_description="host a, rack 7",
        system_name="sw1",
        system_description="Arista Networks EOS 4.30",
        management_addresses=("192.0.2.1", "2001:db8::1"),
        capabilities=("bridge", "router"),
        pvid=10,
        vlans=(10, 20),
        max_frame=9236,
        aggregation="enabled",
        aggregation_port=1007,
        ttl=120,
    )


@pytest.mark.parametrize(
    ("status", "text"), [(0, "no"), (1, "capable"), (3, "enabled"), (2, "enabled")]
)
def test_link_aggregation(status: int, text: str) -> None:
    assert parsed(lldpdu(aggregation(status))).aggregation == text
    assert parsed(lldpdu(aggregation(status, 7, OUI_802_1, 7))).aggregation == text


def test_identifiers_that_are_addresses() -> None:
    found = parsed(lldpdu(chassis=b"\5\1" + bytes((192, 0, 2, 9)), port=b"\3\x02\0\0\0\0\1"))
    assert (found.chassis, found.port) == ("192.0.2.9", "02:00:00:00:00:01")
    assert parsed(lldpdu(chassis=b"\5\6abc")).chassis == "06616263"
    assert parsed(lldpdu(chassis=b"\7rack\xff7")).chassis == "rack\N{REPLACEMENT CHARACTER}7"


def test_vlan_numbers_that_mean_none() -> None:
    assert parsed(lldpdu(pvid(0))).pvid is None
    assert parsed(lldpdu(vlan_name(4095), vlan_name(0))).vlans == ()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        lldpdu(ttl=0),
        tlv(2, b"\5a") + tlv(1, b"\4b") + tlv(3, b"\0\1"),
        tlv(1, b"\4") + tlv(2, b"\5a") + tlv(3, b"\0\1"),
        tlv(1, b"\4abcdef") + tlv(2, b"\5a") + tlv(3, b"\1"),
        lldpdu()[:20],
    ],
    ids=["empty", "shutdown", "wrong order", "no chassis", "short TTL", "cut off"],
)
def test_frames_that_are_no_neighbour(payload: bytes) -> None:
    assert parse_frame(lldp_frame(payload), "listened") is None


def test_a_tlv_that_is_cut_off_ends_the_frame() -> None:
    whole = lldpdu(pvid(10), vlan_name(20))
    found = parsed(whole[:-12])
    assert (found.system_name, found.pvid, found.vlans) == ("sw1", 10, ())


def test_a_frame_of_lldpd() -> None:
    assert parse_frame(LLDPD, "listened") == LldpNeighbour(
        "listened",
        chassis="5e:c2:90:01:ad:02",
        port="5e:c2:90:01:ad:02",
        port_description="v1",
        system_name="vm",
        system_description="Test switch",
        management_addresses=("192.0.2.1", "fe80::5cc2:90ff:fe01:ad02"),
        capabilities=("station",),
        aggregation="capable",
        ttl=12,
    )


def test_cdp() -> None:
    address = struct.pack(">I", 1) + b"\1\1\xcc\0\4" + bytes((192, 0, 2, 2))
    frame = cdp_frame(
        (1, b"sw1.example(FOC1)"),
        (3, b"GigabitEthernet1/0/7"),
        (2, address),
        (5, b"Cisco IOS Software"),
        (0x0A, struct.pack(">H", 30)),
        (0x14, b"sw1"),
        (0x16, address),
    )
    assert parse_frame(frame, "listened") == LldpNeighbour(
        "listened",
        "CDP",
        chassis="sw1.example(FOC1)",
        port="GigabitEthernet1/0/7",
        system_name="sw1",
        system_description="Cisco IOS Software",
        management_addresses=("192.0.2.2",),
        pvid=30,
        ttl=180,
    )


def test_cdp_without_a_port_or_at_its_end() -> None:
    assert parse_frame(cdp_frame((1, b"sw1")), "listened") is None
    assert parse_frame(cdp_frame((1, b"sw1"), (3, b"1"), ttl=0), "listened") is None


def test_other_frames() -> None:
    stp = bytes.fromhex("0180c2000000") + bytes(6) + b"\0\x26" + b"\x42\x42\3" + bytes(35)
    assert parse_frame(stp, "listened") is None
    assert parse_frame(bytes(60), "listened") is None


VALUES = st.binary(max_size=24)
TLVS = st.lists(st.tuples(st.sampled_from([0, 1, 3, 4, 5, 6, 7, 8, 9, 127]), VALUES), max_size=12)
ORGANIZATIONS = st.sampled_from(
    [OUI_802_1 + bytes((kind,)) for kind in range(9)] + [b"\x00\x12\x0f\3", b"\x00\x12\x0f\4"]
)


@example([(8, b"\0")], [], b"").via("a management address of length 0")
@given(TLVS, st.lists(st.tuples(ORGANIZATIONS, VALUES), max_size=6), st.binary(max_size=9))
def test_any_tlvs_are_a_neighbour(
    tlvs: list[tuple[int, bytes]], more: list[tuple[bytes, bytes]], rest: bytes
) -> None:
    parts = [tlv(kind, value) for kind, value in tlvs if kind] + [
        tlv(127, oui + value) for oui, value in more
    ]
    found = parse_lldp(lldpdu(*parts)[:-2] + rest, "networkd")
    assert found is not None and found.chassis == "00:11:22:33:44:55"
    assert all(0 < vlan < 4095 for vlan in found.vlans)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_neighbour_or_none(data: bytes) -> None:
    parse_frame(data, "listened")
    parse_lldp(data, "listened")
    parse_cdp(data, "listened")
    parse_lldp(lldpdu()[:-2] + data, "listened")
    parse_frame(cdp_frame((1, b"a"), (3, b"b"), (2, data), (0x16, data)), "listened")
    parse_frame(cdp_frame((1, b"a")) + data, "listened")
