"""Tunnel links and the other ends of veths: attributes as bytes, and those of a real kernel."""

from __future__ import annotations

import json
import socket
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.links.tunnels import (
    IFLA_TARGET_NETNSID,
    KINDS,
    parse_peer,
    parse_tunnel,
)
from nictop.probe.kernel import if_link
from nictop.probe.kernel.netlink import pack_attribute, pack_text, pack_u32
from nictop.probe.kernel.rtnetlink import IFINFOMSG
from nictop.probe.records import Tunnel, VethPeer
from tests.support.namespace_inventory import take_inventory_inside
from tests.support.namespaces import Namespace, why_no_namespaces
from tests.support.networkmanager import PrivateNetworkManager, why_no_networkmanager

HERE, THERE = (socket.inet_pton(socket.AF_INET, address) for address in ("192.0.2.1", "192.0.2.2"))
THERE_IPV6 = socket.inet_pton(socket.AF_INET6, "2001:db8::2")
FLAG = b""


def port(number: int) -> bytes:
    return number.to_bytes(2, "big")


TUNNELS = {
    "vxlan": (
        pack_u32(1, 42)
        + pack_attribute(2, THERE)
        + pack_u32(3, 7)
        + pack_attribute(4, HERE)
        + pack_attribute(15, port(4789))
        + pack_attribute(25, b"\0"),
        Tunnel("192.0.2.1", "192.0.2.2", 4789, 42, 7),
    ),
    "vxlan external": (
        pack_u32(1, 0) + pack_attribute(15, port(8472)) + pack_attribute(25, b"\1"),
        Tunnel(port=8472, number=0, external=True),
    ),
    "geneve": (
        pack_u32(1, 42) + pack_attribute(7, THERE_IPV6) + pack_attribute(5, port(6081)),
        Tunnel(remote="2001:db8::2", port=6081, number=42),
    ),
    "geneve external": (
        pack_attribute(6, FLAG) + pack_attribute(5, port(6081)),
        Tunnel(port=6081, external=True),
    ),
    "gretap": (
        pack_u32(1, 3)
        + pack_attribute(3, port(0x2000))
        + pack_attribute(6, HERE)
        + pack_attribute(7, THERE)
        + pack_attribute(14, (2).to_bytes(2, sys.byteorder)),
        Tunnel("192.0.2.1", "192.0.2.2", lower=3, flags=0x2000, encapsulation=2),
    ),
    "ipip": (pack_attribute(2, HERE) + pack_attribute(3, bytes(4)), Tunnel("192.0.2.1")),
    "gre nopmtudisc": (pack_attribute(10, b"\0"), Tunnel(pmtu_discovery=False)),
    "sit pmtudisc": (pack_attribute(10, b"\1"), Tunnel(pmtu_discovery=True)),
    "wireguard": (b"", None),
    "vlan": (pack_attribute(2, HERE), None),
}


@pytest.mark.parametrize("name", TUNNELS)
def test_settings_of_each_kind(name: str) -> None:
    value, expected = TUNNELS[name]
    assert parse_tunnel(name.split(maxsplit=1)[0], value) == expected


@given(st.sampled_from(sorted(KINDS)), st.binary())
def test_any_bytes_are_a_tunnel(kind: str, value: bytes) -> None:
    found = parse_tunnel(kind, value)
    assert found is not None
    assert found.port is None or 0 < found.port < 65536


def reply(
    *,
    ifindex: int = 9,
    link: int = 4,
    kind: str = "veth",
    namespace: int | None = 0,
    mtu: bytes = b"",
) -> bytes:
    attributes = pack_text(if_link.IFLA_IFNAME, "eth0") + pack_u32(if_link.IFLA_LINK, link)
    attributes += pack_attribute(if_link.IFLA_ADDRESS, bytes.fromhex("0242ac110002"))
    attributes += pack_attribute(if_link.IFLA_MTU, mtu or (1400).to_bytes(4, sys.byteorder))
    attributes += pack_attribute(if_link.IFLA_LINKINFO, pack_text(if_link.IFLA_INFO_KIND, kind))
    if namespace is not None:
        attributes += pack_u32(IFLA_TARGET_NETNSID, namespace)
    return IFINFOMSG.pack(0, 1, ifindex, 0, 0) + attributes


def test_the_other_end() -> None:
    assert parse_peer(reply(), 4, 9, 0) == VethPeer("eth0", 1400, "02:42:ac:11:00:02")


@pytest.mark.parametrize(
    "other",
    [
        reply(namespace=None),  # before Linux 4.16: a link of this namespace with the same number
        reply(namespace=1),
        reply(ifindex=8),
        reply(link=5),
        reply(kind="bridge"),
        reply(mtu=b"\1\2"),
        b"",
    ],
)
def test_another_link_is_not_the_other_end(other: bytes) -> None:
    assert parse_peer(other, 4, 9, 0) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_no_other_end(payload: bytes) -> None:
    assert parse_peer(payload, 4, 9, 0) is None


def test_links_of_a_real_kernel() -> None:
    """A vxlan link, and a veth whose end in a second namespace has another MTU."""
    reason = why_no_namespaces() or why_no_networkmanager()
    if reason is not None:
        pytest.skip(reason)
    first, second = Namespace(), Namespace()
    managers = [PrivateNetworkManager(one) for one in (first, second)]
    try:
        other = managers[1].prefix[1].partition("=")[2]
        managers[0].run(
            ["ip", "link", "add", "v1", "type", "veth", "peer", "name", "far1", "netns", other]
        )
        managers[1].run(["ip", "link", "set", "dev", "far1", "mtu", "9000"])
        managers[0].run(["ip", "address", "add", "192.0.2.1/24", "dev", "v1"])
        words = "id 42 dstport 4789 local 192.0.2.1 remote 192.0.2.2 dev v1"
        managers[0].run(["ip", "link", "add", "vx0", "type", "vxlan", *words.split()])
        links = {link.name: link for link in take_inventory_inside(managers[0]).links}
        (far,) = json.loads(managers[1].run(["ip", "-json", "link", "show", "dev", "far1"]))
        assert links["v1"].veth_peer == VethPeer("far1", 9000, far["address"])
        assert links["vx0"].tunnel == Tunnel(
            "192.0.2.1", "192.0.2.2", 4789, 42, links["v1"].ifindex
        )
        assert links["lo"].tunnel is None
    finally:
        for manager in managers:
            manager.remove()
        for one in (first, second):
            one.remove()
