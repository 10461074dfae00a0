"""Links, addresses and routes agree with pyroute2, which has its own code for the same messages."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from nictop.probe.inventory.links.reader import read_links
from nictop.probe.records import LINK_COUNTERS, Link
from tests.support.namespaces import Namespace

FRAMES = 50

READ_BY_PYROUTE2 = """
import json
import socket
from pyroute2 import IPRoute

with IPRoute() as route:
    links = [dict(message["attrs"], index=message["index"], flags=message["flags"], type=message["ifi_type"])
             for message in route.get_links()]
    addresses = [dict(message["attrs"], index=message["index"], bits=message["prefixlen"])
                 for message in route.get_addr()]
    routes = [dict(message["attrs"]) for message in route.get_default_routes()]
print(json.dumps([links, addresses, routes], default=lambda value: getattr(value, "value", str(value))))
"""


@pytest.fixture
def network(namespace: Namespace) -> Namespace:
    """A namespace with one link of each kind that every kernel has, addresses and default
    routes."""
    for number in range(3):
        namespace.run(
            ["ip", "link", "add", f"a{number}", "type", "veth", "peer", "name", f"b{number}"]
        )
    namespace.run(["ip", "link", "add", "br0", "type", "bridge"])
    namespace.run(
        ["ip", "link", "set", "a0", "master", "br0", "mtu", "1400", "alias", "to [the] 'rack'"]
    )
    for name in ("br0", "a0", "b0", "a1", "b1"):
        namespace.run(["ip", "link", "set", name, "up"])
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "br0"])
    namespace.run(["ip", "address", "add", "2001:db8::1/64", "dev", "br0", "nodad"])
    namespace.run(["ip", "route", "add", "default", "via", "192.0.2.254", "metric", "7"])
    namespace.call(send_frames)
    return namespace


def send_frames() -> None:
    """Some traffic, so that not all counters are zero."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind(("b0", 0))
        for _ in range(FRAMES):
            sender.send(b"\xff" * 12 + b"\x88\xb5" + bytes(86))


def test_links_addresses_and_routes(network: Namespace) -> None:
    ours, trouble = network.call(read_links)
    assert trouble == {}
    links, addresses, routes = json.loads(network.python(READ_BY_PYROUTE2))
    assert {link.ifindex for link in ours} == {theirs["index"] for theirs in links}
    by_index = {link.ifindex: link for link in ours}
    for theirs in links:
        compare(by_index[theirs["index"]], theirs)
    assert {
        (link.ifindex, one.address, one.prefix_length) for link in ours for one in link.addresses
    } == {(theirs["index"], theirs["IFA_ADDRESS"], theirs["bits"]) for theirs in addresses}
    assert [
        (one.gateway, one.metric, one.table)
        for link in ours
        for one in link.default_routes
        if one.family == "ipv4"
    ] == [(theirs["RTA_GATEWAY"], theirs["RTA_PRIORITY"], theirs["RTA_TABLE"]) for theirs in routes]


def compare(link: Link, theirs: dict[str, Any]) -> None:
    assert (link.name, link.flags, link.type) == (
        theirs["IFLA_IFNAME"],
        theirs["flags"],
        theirs["type"],
    )
    assert link.mtu == theirs["IFLA_MTU"]
    assert link.operstate == theirs["IFLA_OPERSTATE"].lower()
    assert link.address == theirs["IFLA_ADDRESS"]
    assert link.master == theirs.get("IFLA_MASTER")
    assert link.qdisc == theirs["IFLA_QDISC"]
    assert link.alias == theirs.get("IFLA_IFALIAS")
    assert link.carrier_changes == theirs["IFLA_CARRIER_CHANGES"]
    statistics = theirs["IFLA_STATS64"]
    shared = [
        (ours, statistics[name])
        for name, ours in zip(LINK_COUNTERS, link.counters or (), strict=False)
        if name in statistics
    ]
    assert len(shared) >= 20
    assert all(ours <= later for ours, later in shared), (
        "read before pyroute2, and counters only increase"
    )
    assert (
        link.name != "b0"
        or dict(zip(LINK_COUNTERS, link.counters or (), strict=False))["tx_packets"] >= FRAMES
    )
