"""Routes of subnets that two links share: namespaces against ``ip route get``, and which requests
are sent."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.links import subnet_routes
from nictop.probe.inventory.links.reader import read_links
from nictop.probe.inventory.links.routes import RouteFilter, parse_outgoing_link
from nictop.probe.inventory.links.subnet_routes import (
    peer_in,
    shared_subnets,
    subnet_span,
    with_subnet_routes,
)
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Address, DefaultRoute, Link, SubnetRoute
from tests.support.namespaces import Namespace

UP = 0x1


def link(ifindex: int, *addresses: str, gateway: str | None = None, **fields: Any) -> Link:
    own = []
    for interface in addresses:
        address, _, length = interface.partition("/")
        own.append(
            Address("ipv6" if ":" in address else "ipv4", address, int(length), "global", ())
        )
    routes = (DefaultRoute("ipv4", gateway, 0, 254),) if gateway else ()
    made = Link(
        ifindex, f"v{ifindex}", 1, UP, "up", True, 1500, addresses=tuple(own), default_routes=routes
    )
    return replace(made, **fields)


def members(*links: Link) -> list[list[tuple[int, str]]]:
    return [subnet.members for subnet in shared_subnets(links)]


@pytest.fixture
def shared(namespace: Namespace) -> Namespace:
    """Two links in one subnet of each family, joined by a bridge."""
    namespace.run(["sh", "-ec", SET_UP])
    return namespace


SET_UP = """
ip link add name sw type bridge
ip link set dev sw up
for i in 1 2; do
  ip link add name v$i type veth peer name far$i
  ip link set dev far$i master sw up
  ip link set dev v$i up
  ip address add 192.0.2.1$i/24 dev v$i
  ip address add 2001:db8::1$i/64 dev v$i nodad
done
"""


def routes(namespace: Namespace) -> dict[str, tuple[SubnetRoute, ...]]:
    links, failed = namespace.call(read_links)
    assert failed == {} and not any("subnet_routes" in one.unreadable for one in links)
    names = {one.ifindex: one.name for one in links}
    for one in links:
        for route in one.subnet_routes:
            for source, outgoing in ((route.source, route.ifindex), (None, route.unbound)):
                arguments = ["route", "get", route.peer, *(["from", source] if source else [])]
                (ip,) = json.loads(namespace.run(["ip", "-j", *arguments]))
                assert outgoing is not None and ip["dev"] == names[outgoing]
    return {one.name: one.subnet_routes for one in links if one.subnet_routes}


def test_the_first_link_is_used_without_policy_rules(shared: Namespace) -> None:
    found = routes(shared)
    v1, v2 = (shared.call(lambda name=name: socket.if_nametoindex(name)) for name in ("v1", "v2"))  # type: ignore[misc]
    assert found == {
        "v1": (
            SubnetRoute("192.0.2.11", "192.0.2.1", v1, v1),
            SubnetRoute("2001:db8::11", "2001:db8::1", v1, v1),
        ),
        "v2": (
            SubnetRoute("192.0.2.12", "192.0.2.1", v1, v1),
            SubnetRoute("2001:db8::12", "2001:db8::1", v1, v1),
        ),
    }
    shared.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/arp_filter"])
    assert routes(shared) == found
    for family, subnet, address in (
        ("-4", "192.0.2.0/24", "192.0.2.12"),
        ("-6", "2001:db8::/64", "2001:db8::12"),
    ):
        shared.run(["ip", family, "route", "add", subnet, "dev", "v2", "table", "1000"])
        shared.run(["ip", family, "rule", "add", "from", address, "table", "1000"])
    after = routes(shared)
    assert after["v1"] == found["v1"]
    assert [(one.ifindex, one.unbound) for one in after["v2"]] == [(v2, v1), (v2, v1)]


def test_no_route(shared: Namespace) -> None:
    shared.run(["ip", "rule", "add", "from", "192.0.2.12", "prohibit"])
    links, _ = shared.call(read_links)
    (v2,) = [one for one in links if one.name == "v2"]
    assert v2.subnet_routes[0].ifindex is None and v2.subnet_routes[0].unbound is not None
    assert "subnet_routes" not in v2.unreadable


def test_more_specific_routes_by_another_link(shared: Namespace) -> None:
    shared.run(["ip", "address", "del", "192.0.2.12/24", "dev", "v2"])
    shared.run(["ip", "address", "add", "198.51.100.2/24", "dev", "v2"])
    for destination, link_name in (
        ("198.51.100.7/32", "v1"),
        ("198.51.100.64/26", "v1"),
        ("198.51.100.8/32", "v2"),  # by the link of the subnet itself
        ("203.0.113.7/32", "v1"),  # in no subnet of a link
    ):
        shared.run(["ip", "route", "add", destination, "dev", link_name])
    v1 = shared.call(lambda: socket.if_nametoindex("v1"))
    found = [one for one in routes(shared)["v2"] if one.narrower]
    assert found == [
        SubnetRoute("198.51.100.2", "198.51.100.7", v1, v1, "198.51.100.7/32"),
        SubnetRoute("198.51.100.2", "198.51.100.65", v1, v1, "198.51.100.64/26"),
    ]
    assert not [one for one in routes(shared)["v1"] if one.narrower]
    shared.run(["ip", "rule", "add", "from", "198.51.100.2", "table", "1000"])
    shared.run(["ip", "route", "add", "198.51.100.0/24", "dev", "v2", "table", "1000"])
    assert not [one for one in routes(shared)["v2"] if one.narrower]


def test_the_number_of_more_specific_routes_is_limited() -> None:
    def message(family: int, length: int, protocol: int) -> bytes:
        return b"junk" + bytes((family, length, 0, 0, 254, protocol, 0, 1))

    keep = RouteFilter(24, limit=2)
    default, narrower = message(2, 0, 3), message(2, 32, 3)
    assert (
        not keep(message(2, 24, 3), 4)
        and not keep(message(10, 64, 3), 4)
        and not keep(message(2, 32, 2), 4)
    )
    assert keep(narrower, 4) and keep(narrower, 4) and not keep(narrower, 4)
    assert keep(default, 4)


def test_no_request_for_different_subnets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subnet_routes, "NetlinkSocket", None)  # would fail
    links = (
        link(1, "192.0.2.1/24", "192.0.2.2/24"),
        link(2, "198.51.100.1/24"),
        link(3, "2001:db8::1/64"),
    )
    assert with_subnet_routes(links) == links
    assert with_subnet_routes(()) == ()


def test_a_failed_request_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(subnet_routes, "NetlinkSocket", refused)
    one, other = with_subnet_routes((link(1, "192.0.2.1/24"), link(2, "192.0.2.2/24")))
    assert (
        one.subnet_routes == ()
        and one.unreadable["subnet_routes"] == other.unreadable["subnet_routes"]
    )
    assert one.unreadable["subnet_routes"].reason == "needs_root"


def test_the_number_of_requests_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subnet_routes, "MAX_LOOKUPS", 4)
    monkeypatch.setattr(subnet_routes, "outgoing_link", lambda *_: 1)
    shared = [link(n, f"192.0.2.{n}/24") for n in (1, 2)] + [
        link(n, f"198.51.100.{n}/24") for n in (3, 4)
    ]
    found = with_subnet_routes(tuple(shared))
    assert [len(one.subnet_routes) for one in found] == [1, 1, 0, 0]
    assert ["subnet_routes" in one.unreadable for one in found] == [False, False, True, True]


def test_shared_subnets() -> None:
    first, second = (1, "192.0.2.1"), (2, "192.0.2.2")
    assert members(link(1, "192.0.2.1/24"), link(2, "192.0.2.2/24")) == [[first, second]]
    assert members(link(1, "192.0.2.1/24"), link(2, "192.0.2.2/25")) == [[first, second]]
    assert members(link(1, "192.0.2.1/24"), link(2, "192.0.2.2/25"), link(3, "192.0.2.200/25")) == [
        [first, second],
        [first, (3, "192.0.2.200")],
    ]
    for fields in ({"flags": 0}, {"carrier": False}, {"carrier": None}, {"master": 9}):
        assert members(link(1, "192.0.2.1/24"), link(2, "192.0.2.2/24", **fields)) == []
    assert members(link(1, "192.0.2.1/32"), link(2, "192.0.2.1/32")) == []


def test_the_peer_is_a_gateway_or_the_first_other_address() -> None:
    one, other = link(1, "192.0.2.1/24"), link(2, "192.0.2.2/24", gateway="192.0.2.254")
    (subnet,) = shared_subnets((one, other))
    assert peer_in(subnet, (one, other)) == "192.0.2.254"
    assert peer_in(subnet, (one, link(2, "192.0.2.2/24", gateway="198.51.100.1"))) == "192.0.2.3"
    assert peer_in(subnet, (one, link(2, "192.0.2.2/24", gateway="fe80::1"))) == "192.0.2.3"
    one, other = link(1, "192.0.2.1/30"), link(2, "192.0.2.2/30")
    (subnet,) = shared_subnets((one, other))
    assert peer_in(subnet, (one, other)) is None
    one, other = link(1, "2001:db8::1/64"), link(2, "2001:db8::2/64")
    (subnet,) = shared_subnets((one, other))
    assert peer_in(subnet, (one, other)) == "2001:db8::3"


def test_subnet_spans() -> None:
    assert subnet_span("ipv4", "192.0.2.77", 24) == (0xC0000200, 0xC00002FF)
    assert [subnet_span("ipv4", "192.0.2.77", length) for length in (0, 31, 32)] == [
        None,
        None,
        None,
    ]
    assert [subnet_span("ipv6", "2001:db8::1", length) for length in (0, 127, 128)] == [
        None,
        None,
        None,
    ]


@given(st.binary(max_size=64))
def test_any_reply_is_a_link_or_none(data: bytes) -> None:
    found = parse_outgoing_link(data)
    assert found is None or found > 0
