"""VLANs and settings of bridge ports: bytes of a Linux 6.12, a namespace against ``bridge vlan``,
arbitrary bytes.

The bytes are of a bridge with VLAN filtering and three ports:

    bridge vlan add dev p0 vid 10 pvid untagged; bridge vlan add dev p0 vid 20-30; bridge vlan add
    dev p0 vid 40 bridge vlan del dev p1 vid 1; bridge vlan add dev br0 vid 20 self
    bridge link set dev p2 hairpin on isolated on learning off neigh_suppress on guard on cost 7
"""

from __future__ import annotations

import json
import shutil
import socket

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.links import bridge_vlans
from nictop.probe.inventory.links.bridge_vlans import (
    IFLA_AF_SPEC,
    IFLA_BRIDGE_VLAN_INFO,
    VLAN_INFO,
    parse_bridge_vlans,
    parse_vlan_ranges,
    with_bridge_vlans,
)
from nictop.probe.inventory.links.messages import parse_bridge_port, parse_details
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.kernel.if_link import IFLA_INFO_DATA, IFLA_INFO_SLAVE_DATA, IFLA_INFO_SLAVE_KIND
from nictop.probe.kernel.netlink import iter_attributes, pack_attribute, pack_text
from nictop.probe.kernel.rtnetlink import IFINFOMSG
from nictop.probe.records import BridgePort, BridgeVlan, Link
from tests.support.namespaces import Namespace

# RTM_NEWLINK of a dump with AF_BRIDGE and RTEXT_FILTER_BRVLAN_COMPRESSED
BRIDGE = bytes.fromhex(
    "07000100020000004310010000000000080003006272300008000a000200000008000400dc0500000500100006000"
    "0000a000100"
    "72e230988f76000014001a0008000200060001000800020000001400"
)
P0 = bytes.fromhex(
    "07000100040000004310010000000000070003007030000008000a000200000008000400dc0500000500100006000"
    "0000a000100"
    "72e230988f760000080005000300000050010c8005000100030000000600020020000000080003000200000005000"
    "40000000000"
    "05000500000000000500060000000000050007000000000005001c000000000005000800010000000500090001000"
    "00005001b00"
    "0100000005001e000100000005000a000000000005000c00000000000c000d00800072e230988f760c000e0080007"
    "2e230988f76"
    "06000f000180000006001000000000000600110001800000060012000100000005001300000000000500140000000"
    "00005001d00"
    "0000000006001f0000000000050020000000000005002300000000000500240000000000050021000000000005002"
    "70000000000"
    "050028000000000005002b00000000000c00150000000000000000000c00160075050000000000000c00170000000"
    "00000000000"
    "050019000100000008002500000200000800260000000000080029000100000008002a00000000002c001a0008000"
    "20004000100"
    "0800020006000a0008000200080014000800020010001e000800020000002800"
)
P1 = bytes.fromhex(
    "07000100060000000210000000000000070003007031000008000a000200000008000400dc0500000500100002000"
    "0000a000100"
    "96999f2a8e8c0000080005000500000050010c8005000100000000000600020020000000080003000200000005000"
    "40000000000"
    "05000500000000000500060000000000050007000000000005001c000000000005000800010000000500090001000"
    "00005001b00"
    "0100000005001e000100000005000a000000000005000c00000000000c000d00800072e230988f760c000e0080007"
    "2e230988f76"
    "06000f000280000006001000000000000600110002800000060012000200000005001300000000000500140000000"
    "00005001d00"
    "0000000006001f0000000000050020000000000005002300000000000500240000000000050021000000000005002"
    "70000000000"
    "050028000000000005002b00000000000c00150000000000000000000c00160000000000000000000c00170000000"
    "00000000000"
    "050019000100000008002500000200000800260000000000080029000000000008002a0000000000"
)
P2 = bytes.fromhex(
    "07000100080000000210000000000000070003007032000008000a000200000008000400dc0500000500100002000"
    "0000a000100"
    "aea4328b71500000080005000700000050010c8005000100000000000600020020000000080003000700000005000"
    "40001000000"
    "05000500010000000500060000000000050007000000000005001c000000000005000800000000000500090001000"
    "00005001b00"
    "0100000005001e000100000005000a000000000005000c00000000000c000d00800072e230988f760c000e0080007"
    "2e230988f76"
    "06000f000380000006001000000000000600110003800000060012000300000005001300000000000500140000000"
    "00005001d00"
    "0000000006001f0000000000050020000100000005002300000000000500240000000000050021000100000005002"
    "70000000000"
    "050028000000000005002b00000000000c00150000000000000000000c00160000000000000000000c00170000000"
    "00000000000"
    "050019000100000008002500000200000800260000000000080029000000000008002a00000000000c001a0008000"
    "20006000100"
)

# IFLA_LINKINFO of RTM_NEWLINK with AF_UNSPEC
BRIDGE_INFO = bytes.fromhex(
    "0b0001006272696467650000ac0102000c00100000000000000000000c00110000000000000000000c00120000000"
    "00000000000"
    "0c001300bd7400000000000008000100dc05000008000200c800000008000300d0070000080004003075000008000"
    "50000000000"
    "0600060000800000050007000100000006000900000000000c000b00800072e230988f760c000a00800072e230988"
    "f7606000c00"
    "0000000008000d000000000005000e000000000005000f00000000000a0014000180c200000000000c002e0000000"
    "00007000000"
    "0800300001000000080031000000000006000800810000000600270001000000050029000000000005002d0000000"
    "00005001600"
    "0100000005001700010000000500180000000000050019000000000005002a000000000008001a001000000008001"
    "b0000100000"
    "08001c000200000008001d000200000005002b000200000005002c00010000000c001e0064000000000000000c001"
    "f0090650000"
    "000000000c0020009c630000000000000c002100d4300000000000000c002200e8030000000000000c002300340c0"
    "00000000000"
    "050024000000000005002500000000000500260000000000"
)
P2_INFO = bytes.fromhex(
    "0900010076657468000000000b0004006272696467650000500105000500010000000000060002002000000008000"
    "30007000000"
    "050004000100000005000500010000000500060000000000050007000000000005001c00000000000500080000000"
    "00005000900"
    "0100000005001b000100000005001e000100000005000a000000000005000c00000000000c000d00800072e230988"
    "f760c000e00"
    "800072e230988f7606000f00038000000600100000000000060011000380000006001200030000000500130000000"
    "00005001400"
    "0000000005001d000000000006001f000000000005002000010000000500230000000000050024000000000005002"
    "10001000000"
    "0500270000000000050028000000000005002b00000000000c00150000000000000000000c0016000000000000000"
    "0000c001700"
    "0000000000000000050019000100000008002500000200000800260000000000080029000000000008002a0000000"
    "000"
)


def test_vlans_of_a_bridge_and_its_ports() -> None:
    assert parse_bridge_vlans(BRIDGE) == (2, (BridgeVlan(1, 1, True, True), BridgeVlan(20, 20)))
    assert parse_bridge_vlans(P0) == (
        4,
        (
            BridgeVlan(1, 1, False, True),
            BridgeVlan(10, 10, True, True),
            BridgeVlan(20, 30),
            BridgeVlan(40, 40),
        ),
    )
    assert parse_bridge_vlans(P1) == (6, ()), "no VLANs: no IFLA_AF_SPEC"
    assert parse_bridge_vlans(P2) == (8, (BridgeVlan(1, 1, True, True),))


def test_settings_of_a_port() -> None:
    assert parse_bridge_port(dict(iter_attributes(P2_INFO))) == BridgePort(
        state="disabled",
        cost=7,
        designated_bridge="72:e2:30:98:8f:76",
        hairpin=True,
        guard=True,
        learning=False,
        isolated=True,
        neigh_suppress=True,
    )
    kind = {IFLA_INFO_SLAVE_KIND: b"bridge\0"}
    assert parse_bridge_port(
        {**kind, IFLA_INFO_SLAVE_DATA: pack_attribute(1, b"\3")}
    ) == BridgePort("forwarding")
    assert parse_bridge_port({**kind, IFLA_INFO_SLAVE_DATA: pack_attribute(1, b"\7")}) is None
    assert parse_bridge_port({**kind}) is None
    assert (
        parse_bridge_port(
            {IFLA_INFO_SLAVE_KIND: b"bond\0", IFLA_INFO_SLAVE_DATA: pack_attribute(1, b"\3")}
        )
        is None
    )


def test_settings_of_a_bridge() -> None:
    assert parse_details("bridge", dict(iter_attributes(BRIDGE_INFO))[IFLA_INFO_DATA]) == {
        "bridge_stp": False,
        "bridge_vlan_filtering": True,
        "bridge_default_pvid": 1,
        "bridge_vlan_protocol": "802.1Q",
        "bridge_group_fwd_mask": 0,
        "bridge_nf_call_iptables": False,
        "bridge_nf_call_ip6tables": False,
        "bridge_nf_call_arptables": False,
    }


def vlan_info(*values: tuple[int, int]) -> list[bytes]:
    return [VLAN_INFO.pack(*value) for value in values]


def test_ranges_that_do_not_fit_together() -> None:
    """A begin without an end, an end without a begin, a reversed range, no such VLAN."""
    assert parse_vlan_ranges(vlan_info((8, 5), (0, 9))) == (BridgeVlan(9, 9),)
    assert parse_vlan_ranges(vlan_info((16, 9))) == (BridgeVlan(9, 9),)
    assert parse_vlan_ranges(vlan_info((8, 9), (16, 5), (0, 0), (0, 4095))) == ()
    assert parse_vlan_ranges([b"", b"\1"]) == ()


def test_the_switch_of_a_nic_is_no_bridge() -> None:
    """A NIC with VEB or VEPA replies for itself: BRIDGE_FLAGS_SELF, IFLA_BRIDGE_MODE."""
    own = pack_attribute(0, b"\2\0") + pack_attribute(1, b"\0\0")
    header = IFINFOMSG.pack(socket.AF_BRIDGE, 1, 4, 0, 0)
    assert parse_bridge_vlans(header + pack_attribute(IFLA_AF_SPEC, own)) is None
    assert parse_bridge_vlans(IFINFOMSG.pack(socket.AF_UNSPEC, 1, 4, 0, 0)) is None


@given(st.binary(max_size=120))
def test_any_bytes_are_vlans_or_none(data: bytes) -> None:
    header = IFINFOMSG.pack(socket.AF_BRIDGE, 1, 4, 0, 0)
    info = pack_attribute(IFLA_AF_SPEC, pack_attribute(IFLA_BRIDGE_VLAN_INFO, data))
    for payload in (
        data,
        header + data,
        header + pack_attribute(IFLA_AF_SPEC, data),
        header + info,
    ):
        found = parse_bridge_vlans(payload)
        assert found is None or all(0 < one.first <= one.last <= 4094 for one in found[1])
    slave = pack_text(IFLA_INFO_SLAVE_KIND, "bridge") + pack_attribute(IFLA_INFO_SLAVE_DATA, data)
    port = parse_bridge_port(dict(iter_attributes(slave)))
    assert port is None or isinstance(port.learning, bool)


def test_no_request_without_a_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(*_: object) -> None:
        raise AssertionError("a request was sent")

    monkeypatch.setattr(bridge_vlans, "NetlinkSocket", unexpected)
    link = Link(2, "eth0", 1, 1, "up", True, 1500)
    assert with_bridge_vlans([link]) == ((link,), None)


def test_a_bridge_in_a_namespace_agrees_with_bridge_vlan(namespace: Namespace) -> None:
    if shutil.which("bridge") is None:
        pytest.skip("no bridge command")
    if not namespace.try_link("br0", "type", "bridge", "vlan_filtering", "1"):
        pytest.skip("this kernel has no bridge VLAN filtering")
    for name in ("p0", "p1"):
        namespace.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"far-{name}"])
        namespace.run(["ip", "link", "set", name, "master", "br0"])
    for line in (
        "add dev p0 vid 10 pvid untagged",
        "add dev p0 vid 20-30",
        "del dev p1 vid 1",
        "add dev br0 vid 7 self",
    ):
        namespace.run(["bridge", "vlan", *line.split()])
    links, trouble = namespace.call(lambda: with_bridge_vlans(read_links()[0]))
    assert trouble is None
    expected = {
        one["ifname"]: one["vlans"]
        for one in json.loads(namespace.run(["bridge", "-c", "-j", "vlan"]))
    }
    shown = {
        link.name: [
            {
                "vlan": one.first,
                **({"vlanEnd": one.last} if one.last != one.first else {}),
                **({"flags": flags} if (flags := flags_of(one)) else {}),
            }
            for one in link.bridge_vlans
        ]
        for link in links
        if link.bridge_vlans
    }
    assert shown == expected
    assert next(link for link in links if link.name == "p1").bridge_vlans == ()


def flags_of(vlan: BridgeVlan) -> list[str]:
    return [
        name for name, is_set in (("PVID", vlan.pvid), ("Egress Untagged", vlan.untagged)) if is_set
    ]


def test_a_bridge_without_vlan_filtering(namespace: Namespace) -> None:
    """On this kernel or by its setting: no VLANs, or the default PVID."""
    if not namespace.try_link("br0", "type", "bridge"):
        pytest.skip("this kernel has no link of kind bridge")
    namespace.run(["ip", "link", "add", "p0", "type", "veth", "peer", "name", "far0"])
    namespace.run(["ip", "link", "set", "p0", "master", "br0"])
    links, trouble = namespace.call(lambda: with_bridge_vlans(read_links()[0]))
    assert trouble is None
    port = next(link for link in links if link.name == "p0")
    assert port.bridge_port is not None and port.bridge_port.state == "disabled"
    assert port.bridge_vlans in (None, (BridgeVlan(1, 1, True, True),))
    assert msgspec.convert(msgspec.to_builtins(port), Link) == port
