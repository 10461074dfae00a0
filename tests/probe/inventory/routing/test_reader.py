"""Routing of a namespace against ip(8), large tables, what is left out, arbitrary bytes."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.probe.inventory.links.forwarding import NDMSG
from nictop.probe.inventory.routing import dumps
from nictop.probe.inventory.routing.neighbours import (
    NDA_CACHEINFO_STRUCT,
    NTF_PROXY,
    is_resolved,
    parse_neighbour,
)
from nictop.probe.inventory.routing.policy_rules import parse_policy_rule
from nictop.probe.inventory.routing.resolvers import parse_name_servers, read_name_servers
from nictop.probe.inventory.routing.table_routes import is_kept, parse_table_routes
from nictop.probe.kernel.netlink import pack_attribute, pack_u32
from nictop.probe.kernel.route_lookup import RTA_DST, RTMSG
from nictop.probe.records import Link, Neighbour, PolicyRule, Routing, TableRoute, Unreadable
from nictop.rules.routes.fixes import change_route
from tests.support.namespaces import Namespace
from tests.support.probe import wait_until

READ = """
import json
from nictop.probe.inventory.routing.reader import read_routing
from nictop.probe.light_dataclasses import field_mapping
print(json.dumps(read_routing(), default=field_mapping))
"""
MAC = bytes.fromhex("52540000aa01")


def inside(namespace: Namespace) -> Routing:
    return msgspec.json.decode(namespace.python(READ), type=Routing)


@pytest.fixture
def pair(namespace: Namespace) -> Namespace:
    """A namespace with v0, up, with the address 192.0.2.1/24."""
    namespace.disable_ipv6()
    namespace.try_link("v0", "type", "veth", "peer", "name", "v1")
    for name in ("v0", "v1"):
        namespace.run(["ip", "link", "set", "dev", name, "up"])
    namespace.run(["ip", "address", "add", "192.0.2.1/24", "dev", "v0"])
    return namespace


def test_neighbours_of_a_namespace(pair: Namespace) -> None:
    """Static ones, one that is asked without an answer, and none of those without address
    resolution."""
    pair.run(
        [
            "ip",
            "neigh",
            "add",
            "192.0.2.7",
            "lladdr",
            "52:54:00:00:aa:01",
            "dev",
            "v0",
            "nud",
            "permanent",
        ]
    )
    pair.run(
        [
            "ip",
            "neigh",
            "add",
            "192.0.2.8",
            "lladdr",
            "52:54:00:00:aa:02",
            "dev",
            "v0",
            "nud",
            "stale",
        ]
    )
    pair.run(
        [
            "ip",
            "neigh",
            "add",
            "192.0.2.9",
            "lladdr",
            "52:54:00:00:aa:03",
            "dev",
            "v0",
            "nud",
            "noarp",
        ]
    )
    pair.run(["bash", "-c", "echo > /dev/udp/192.0.2.10/9"])
    ifindex = pair.call(lambda: socket.if_nametoindex("v0"))
    found = {one.address: one for one in inside(pair).neighbours}
    assert set(found) == {"192.0.2.7", "192.0.2.8", "192.0.2.10"}
    assert {one.ifindex for one in found.values()} == {ifindex}
    assert (found["192.0.2.7"].nud_state, found["192.0.2.7"].mac) == (
        "permanent",
        "52:54:00:00:aa:01",
    )
    assert (found["192.0.2.8"].nud_state, found["192.0.2.8"].mac) == ("stale", "52:54:00:00:aa:02")
    asked = found["192.0.2.10"]
    assert (asked.nud_state, asked.mac) in (("incomplete", None), ("failed", None))
    assert asked.since_update is not None and 0 <= asked.since_update < 60
    wait_until(
        lambda: (
            {one.address: one.nud_state for one in inside(pair).neighbours}["192.0.2.10"]
            == "failed"
        )
    )


def test_routes_of_all_tables(pair: Namespace) -> None:
    for line in (
        "default via 192.0.2.254",
        "unreachable 198.51.100.0/24 metric 7",
        "blackhole 198.51.101.0/24 table 77",
        "203.0.113.0/24 via 10.9.9.9 dev v0 onlink",
        "203.0.114.0/24 nexthop via 192.0.2.3 nexthop via 192.0.2.4",
    ):
        pair.run(["ip", "route", "add", *line.split()])
    ifindex = pair.call(lambda: socket.if_nametoindex("v0"))
    routing = inside(pair)
    assert routing.unreadable == {}
    found = {(one.destination, one.gateway): one for one in routing.routes}
    assert set(found) == {
        ("0.0.0.0/0", "192.0.2.254"),
        ("192.0.2.0/24", None),
        ("198.51.100.0/24", None),
        ("198.51.101.0/24", None),
        ("203.0.113.0/24", "10.9.9.9"),
        ("203.0.114.0/24", "192.0.2.3"),
        ("203.0.114.0/24", "192.0.2.4"),
    }
    assert found["192.0.2.0/24", None] == TableRoute(
        *("ipv4", "192.0.2.0/24", "unicast", 254, 2),
        ifindex=ifindex,
        preferred_source="192.0.2.1",
    )
    assert found["198.51.100.0/24", None] == TableRoute(
        "ipv4", "198.51.100.0/24", "unreachable", 254, 3, 7
    )
    assert found["198.51.101.0/24", None].table == 77
    assert (
        found["203.0.113.0/24", "10.9.9.9"].onlink and not found["0.0.0.0/0", "192.0.2.254"].onlink
    )
    pair.run(["ip", "link", "set", "dev", "v1", "down"])
    assert not any(one.usable for one in inside(pair).routes if one.type == "unicast")


def test_ipv6_routes_and_rules(namespace: Namespace) -> None:
    namespace.try_link("v0", "type", "veth", "peer", "name", "v1")
    for name in ("v0", "v1"):
        namespace.run(["ip", "link", "set", "dev", name, "up"])
    namespace.run(["ip", "address", "add", "2001:db8::1/64", "dev", "v0", "nodad"])
    default_route = "default via 2001:db8::ff dev v0 proto ra expires 600"
    namespace.run(["ip", "-6", "route", "add", *default_route.split()])
    namespace.run(["ip", "-6", "route", "add", "prohibit", "2001:db8:9::/48"])
    namespace.run(["ip", "-6", "rule", "add", "to", "2001:db8:7::/48", "iif", "lo", "table", "99"])
    routing = inside(namespace)
    ifindex = namespace.call(lambda: socket.if_nametoindex("v0"))
    found = {one.destination: one for one in routing.routes}
    assert set(found) == {"::/0", "2001:db8::/64", "2001:db8:9::/48"}, (
        "no link-local or multicast routes"
    )
    default = found["::/0"]
    assert (default.gateway, default.protocol, default.ifindex) == ("2001:db8::ff", 9, ifindex)
    assert default.expires is not None and 500 < default.expires <= 600
    assert found["2001:db8:9::/48"].type == "prohibit" and found["2001:db8:9::/48"].ifindex is None
    (own,) = [rule for rule in routing.rules if rule.destination]
    assert own == PolicyRule(
        "ipv6", own.priority, "table", 99, destination="2001:db8:7::/48", input_link="lo"
    )


def test_rules_agree_with_ip_rule(pair: Namespace) -> None:
    for line in (
        "from 192.0.2.1 table 7",
        "not from all fwmark 0xca6c table 51820",
        "table main suppress_prefixlength 0",
        "prohibit to 198.51.100.7 oif v0",
        "from all uidrange 5-6 ipproto tcp table 9",
        "goto 40000",
    ):
        pair.run(["ip", "rule", "add", *line.split()])
    shown = json.loads(pair.run(["ip", "-j", "rule"]))
    found = [rule for rule in inside(pair).rules if rule.family == "ipv4"]
    assert [rule.priority for rule in found] == [one["priority"] for one in shown]
    by_table = {rule.table: rule for rule in found if rule.priority not in (32766,)}
    assert by_table[7].source == "192.0.2.1/32"
    assert by_table[51820].inverted and by_table[51820].mark == 0xCA6C
    assert by_table[254].suppressed_length == 0
    assert set(by_table[9].other_selectors) == {"uidrange", "ipproto"}
    (refusing,) = [rule for rule in found if rule.action == "prohibit"]
    assert (refusing.destination, refusing.output_link) == ("198.51.100.7/32", "v0")
    (jump,) = [rule for rule in found if rule.action == "goto"]
    assert jump.target == 40000


@pytest.mark.parametrize("number", [1000, 10_000])
def test_a_large_table_is_read_in_part(pair: Namespace, number: int) -> None:
    lines = [f"route add 10.{one >> 8}.{one & 255}.0/24 dev v0" for one in range(number)]
    pair.run(["ip", "-batch", "-"], input="\n".join(lines))
    routing = inside(pair)
    if number == 1000:
        assert len(routing.routes) == 1001 and routing.unreadable == {}
    else:
        assert len(routing.routes) == 1024 and routing.unreadable["routes"].reason == "failed"
    assert routing.rules and "rules" not in routing.unreadable


def test_many_neighbours_are_read_in_part(pair: Namespace) -> None:
    pair.run(["ip", "address", "add", "10.0.0.1/16", "dev", "v0"])
    lines = [
        f"neigh add 10.0.{one >> 8}.{one & 255} lladdr 02:00:00:00:00:01 dev v0 nud permanent"
        for one in range(2, 4102)
    ]
    pair.run(["ip", "-batch", "-"], input="\n".join(lines))
    routing = inside(pair)
    assert len(routing.neighbours) == 4096 and routing.unreadable["neighbours"].reason == "failed"


def test_a_dump_ends_after_a_number_of_messages(
    pair: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dumps, "MAX_DUMPED", 1)
    found, why = pair.call(
        lambda: dumps.bounded_dump(26, RTMSG.pack(2, *8 * [0]), lambda data, start: False, 9, "x")
    )
    assert found == [] and why is not None and why.reason == "failed"


def test_a_failed_dump_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(dumps, "NetlinkSocket", refused)
    assert dumps.bounded_dump(30, b"", lambda data, start: True, 9, "x") == (
        [],
        Unreadable("needs_root", "x: EPERM"),
    )


# ----------------------------------------------------------------------------------------- messages


def neighbour(
    state: int = 2, *, flags: int = 0, kind: int = 1, ifindex: int = 3, times: bytes = b""
) -> bytes:
    return (
        NDMSG.pack(socket.AF_INET, ifindex, state, flags, kind)
        + pack_attribute(1, bytes((192, 0, 2, 1)))
        + pack_attribute(2, MAC)
        + (pack_attribute(3, times) if times else b"")
    )


def test_neighbour_messages() -> None:
    times = NDA_CACHEINFO_STRUCT.pack(1, 2, 350, 1)
    assert parse_neighbour(neighbour(times=times)) == Neighbour(
        3, "192.0.2.1", "reachable", "52:54:00:00:aa:01", since_update=3.5
    )
    assert parse_neighbour(neighbour(0x20)) == Neighbour(
        3, "192.0.2.1", "failed", "52:54:00:00:aa:01"
    )
    assert parse_neighbour(neighbour(0x40)) is None
    assert parse_neighbour(neighbour(flags=NTF_PROXY)) is None
    assert parse_neighbour(neighbour(ifindex=0)) is None
    assert parse_neighbour(neighbour(times=b"\1")) is not None
    assert (
        is_resolved(neighbour(), 0)
        and not is_resolved(neighbour(0x40), 0)
        and not is_resolved(neighbour(kind=5), 0)
    )
    assert not is_resolved(neighbour()[:6], 0)


def test_the_default_route_of_old_kernels_is_left_out() -> None:
    header = RTMSG.pack(socket.AF_INET6, 0, 0, 0, 254, 2, 0, 7, 0)
    assert parse_table_routes(header + pack_u32(6, 0xFFFFFFFF)) == []
    assert [one.type for one in parse_table_routes(header + pack_u32(6, 1024))] == ["unreachable"]


def test_routes_with_a_type_of_service_are_left_out() -> None:
    assert (
        parse_table_routes(RTMSG.pack(socket.AF_INET, 0, 0, 8, 254, 3, 0, 1, 0) + pack_u32(4, 3))
        == []
    )


@given(st.binary(max_size=120))
def test_any_bytes_are_records_or_nothing(payload: bytes) -> None:
    for family in (socket.AF_INET, socket.AF_INET6):
        parse_neighbour(NDMSG.pack(family, 3, 2, 0, 1) + payload)
        whole = RTMSG.pack(family, 24, 0, 0, 254, 3, 0, 1, 0) + payload
        assert all(one.destination.count("/") == 1 for one in parse_table_routes(whole))
        rule = parse_policy_rule(whole)
        assert rule is None or rule.action == "table"
    for parse in (parse_neighbour, parse_policy_rule, parse_table_routes):
        parse(payload)
    is_kept(payload, 0)
    is_resolved(payload, 0)


def test_a_destination_that_is_cut_off_is_malformed() -> None:
    header = RTMSG.pack(socket.AF_INET, 24, 0, 0, 254, 3, 0, 1, 0)
    assert parse_table_routes(header + pack_attribute(RTA_DST, b"\1\2")) == []


# -------------------------------------------------------------------------------------- resolv.conf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nameserver 192.0.2.53\nnameserver 2001:db8::53\n", ("192.0.2.53", "2001:db8::53")),
        ("# nameserver 192.0.2.1\nsearch a.b\n nameserver\t192.0.2.2 # x\n", ("192.0.2.2",)),
        ("nameserver fe80::1%eth0\nnameserver x\nnameserver 1.2.3\nnameserver\n", ("fe80::1",)),
        ("nameserver 192.0.2.1\n" * 20, ("192.0.2.1",)),
        ("", ()),
    ],
)
def test_name_servers(text: str, expected: tuple[str, ...]) -> None:
    assert parse_name_servers(text) == expected


def test_the_servers_behind_the_stub(tmp_path: Path) -> None:
    (tmp_path / "systemd/resolve").mkdir(parents=True)
    (tmp_path / "systemd/resolve/resolv.conf").write_text("nameserver 192.0.2.53\n")
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.53\n")
    assert read_name_servers(str(tmp_path), str(tmp_path)) == (("192.0.2.53",), None)
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    assert read_name_servers(str(tmp_path), str(tmp_path)) == (("127.0.0.1",), None)
    (tmp_path / "resolv.conf").unlink()
    assert read_name_servers(str(tmp_path), str(tmp_path)) == ((), None)


@pytest.mark.parametrize(
    "written",
    [
        "198.51.100.0/24 via 192.0.2.7 dev v0 proto static metric 9 src 192.0.2.2 mtu lock 1400",
        "198.51.100.0/24 dev v0 table 77 scope global advmss 1200 initcwnd 20 quickack 1",
        "198.51.100.0/24 via 203.0.113.9 dev v0 onlink",
        "blackhole 198.51.100.0/24 metric 9",
    ],
)
def test_a_route_is_written_as_it_was_set(pair: Namespace, written: str) -> None:
    """What ip(8) shows of it is the same after the command that nictop prints."""
    pair.run(["ip", "address", "add", "192.0.2.2/24", "dev", "v0"])
    pair.run(["ip", "route", "add", *written.split()])
    show = ["ip", "-d", "route", "show", "table", "all", "198.51.100.0/24"]
    shown = pair.run(show)
    (route,) = (one for one in inside(pair).routes if one.destination == "198.51.100.0/24")
    assert route.unread == () and inside(pair).has_route_options
    link = Link(route.ifindex, "v0", 1, 0, "up", True, 1500) if route.ifindex else None
    for verb in ("del", "add"):
        pair.run(list(change_route(verb, route, link).argv))
    assert pair.run(show) == shown


def test_what_has_no_words_is_named(pair: Namespace) -> None:
    words = "198.51.100.0/24 via 192.0.2.7 dev v0 realms 4 rtt 8ms"
    pair.run(["ip", "route", "add", *words.split()])
    (route,) = (one for one in inside(pair).routes if one.destination == "198.51.100.0/24")
    assert route.unread == ("realms", "rtt") and route.options == ()
