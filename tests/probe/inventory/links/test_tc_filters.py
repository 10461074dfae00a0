"""Filters of tc: real ones of kinds that every kernel has, messages encoded by pyroute2, arbitrary
bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink.rtnl.tcmsg import tcmsg
from pyroute2.netlink.rtnl.tcmsg.act_police import get_parameters as police

from nictop.probe.inventory.links.messages import parse_link
from nictop.probe.inventory.links.qdisc_messages import TCMSG
from nictop.probe.inventory.links.qdiscs import MAX_FILTERS_PER_LINK, read_filters, read_qdiscs
from nictop.probe.inventory.links.tc_filter_messages import parse_filter
from nictop.probe.kernel import if_link
from nictop.probe.kernel import rtnetlink as rt
from nictop.probe.kernel.netlink import pack_attribute, pack_text
from nictop.probe.records import TcAction, TcFilter
from tests.support.namespaces import Namespace

IP = 0x0008
"""ETH_P_IP in network byte order, as a number of a little-endian machine."""
STATISTICS = pack_attribute(1, struct.pack("=QI4x", 900_000, 700)) + pack_attribute(
    3, struct.pack("=5I", 0, 0, 17, 0, 0)
)
MATCH_ALL = struct.pack("=BBBxHHhhI", 1, 0, 1, 0, 0, 0, 0, 0) + bytes(16)
MATCH_ONE = struct.pack("=BBBxHHhhI", 1, 0, 1, 0, 0, 0, 0, 0) + struct.pack(
    "=IIii", 0xFFFFFFFF, 1, 16, 0
)


def message(kind: str, options: bytes, *, priority: int = 7) -> bytes:
    return (
        TCMSG.pack(0, 3, 0, 0xFFFFFFF2, priority << 16 | IP)
        + pack_text(1, kind)
        + pack_attribute(2, options)
    )


def action(kind: str, options: bytes, statistics: bytes = STATISTICS) -> bytes:
    return pack_attribute(
        1, pack_text(1, kind) + pack_attribute(2, options) + pack_attribute(4, statistics)
    )


def test_a_policer() -> None:
    """struct tc_police as tc sends it: 20 Mb/s, 100 KiB burst, drop above it."""
    rate = struct.pack("=BBHhHI", 0, 1, 0, -1, 0, 2_500_000)
    burst = round(102_400 / 2_500_000 / 64e-9)
    parameters = (
        struct.pack("=IiIII", 1, 2, 0, burst, 0) + rate + bytes(12) + struct.pack("=iiI", 1, 1, 0)
    )
    options = pack_attribute(5, MATCH_ALL) + pack_attribute(
        7, action("police", pack_attribute(1, parameters))
    )
    (found,) = [parse_filter(message("u32", options), "ingress")]
    police_action = TcAction("police", "drop", 20_000_000, 102_400, packets=700, dropped=17)
    assert found == TcFilter("ingress", "u32", "ip", 7, matches_all=True, actions=(police_action,))


def test_a_policer_of_an_old_filter() -> None:
    """``tc filter add … police``: the statistics are those of the filter."""
    parameters = struct.pack("=IiIII", 1, 2, 0, round(102_400 * 8 / 20e6 / 64e-9), 2048)
    parameters += struct.pack("=BBHhHI", 0, 1, 0, -1, 0, 2_500_000) + bytes(12 + 12)
    options = pack_attribute(5, MATCH_ALL) + pack_attribute(6, pack_attribute(1, parameters))
    statistics = struct.pack("=QIIIIIII", 70_000, 700, 17, 17, 0, 0, 0, 0)
    (found,) = [parse_filter(message("u32", options) + pack_attribute(3, statistics), "ingress")]
    assert found is not None
    assert found.actions == (
        TcAction("police", "drop", 20_000_000, 102_400, packets=700, dropped=17),
    )


def test_a_policer_encoded_by_pyroute2() -> None:
    made = tcmsg()
    made["index"], made["parent"], made["info"] = 3, 0xFFFFFFF2, 1 << 16 | IP
    wanted = police({"rate": "10mbit", "burst": 10240, "action": "drop"})
    listed = {
        "attrs": [
            ["TCA_ACT_PRIO_1", {"attrs": [["TCA_ACT_KIND", "police"], ["TCA_ACT_OPTIONS", wanted]]}]
        ]
    }
    made["attrs"] = [
        ["TCA_KIND", "matchall"],
        ["TCA_OPTIONS", {"attrs": [["TCA_MATCHALL_ACT", listed]]}],
    ]
    made.encode()
    found = parse_filter(bytes(made.data[16:]), "ingress")
    assert found is not None and found.matches_all
    assert [(one.kind, one.verdict, one.rate) for one in found.actions] == [
        ("police", "drop", 10_000_000)
    ]


def test_other_actions() -> None:
    drop = pack_attribute(2, struct.pack("=IIiii", 1, 0, 2, 1, 1))
    redirect = pack_attribute(2, struct.pack("=IIiiiiI", 1, 0, 4, 1, 1, 1, 9))
    options = pack_attribute(
        3, action("gact", drop) + action("mirred", redirect) + action("newer", b"\1\2")
    )
    found = parse_filter(message("flower", options), "egress")
    assert found is not None and (found.hook, found.matches_all) == ("egress", False)
    assert [(one.kind, one.verdict, one.target) for one in found.actions] == [
        ("gact", "drop", None),
        ("mirred", "stolen", 9),
        ("newer", "", None),
    ]
    one = parse_filter(message("u32", pack_attribute(5, MATCH_ONE)), "ingress")
    assert one is not None and not one.matches_all
    assert parse_filter(message("u32", pack_attribute(2, bytes(4))), "ingress") is None, (
        "a hash table"
    )


@given(
    st.binary(max_size=200),
    st.sampled_from(["u32", "matchall", "bpf", "flower"]),
    st.integers(0, 9),
)
def test_any_bytes_are_a_filter_or_none(options: bytes, kind: str, attribute: int) -> None:
    for payload in (
        options,
        message(kind, options),
        message(kind, pack_attribute(attribute, options)),
    ):
        parse_filter(payload, "ingress")


def test_real_filters(namespace: Namespace) -> None:
    """At ingress and egress; links with another qdisc are not asked; a link with very many is not
    read to the end."""

    def tc(line: str) -> None:
        namespace.run(["tc", *line.split()])

    for name in ("one", "two", "many"):
        namespace.run(
            ["ip", "link", "add", "name", name, "type", "veth", "peer", "name", f"{name}9"]
        )
    tc("qdisc add dev one clsact")
    tc("qdisc add dev two ingress")
    tc("qdisc add dev many clsact")
    redirect = "action mirred egress redirect dev one9"
    tc(f"filter add dev one ingress protocol ip pref 5 u32 match u32 0 0 {redirect}")
    tc(f"filter add dev one egress protocol all pref 6 u32 match ip dst 192.0.2.1/32 {redirect}")
    tc(f"filter add dev two parent ffff: protocol ip pref 7 u32 match u32 0 0 {redirect}")
    many = "".join(
        f"filter add dev many ingress protocol ip pref {number} u32 match u32 {number} 0xffff at "
        f"0\n"
        for number in range(1, 101)
    )
    namespace.run(["tc", "-batch", "-"], input=many)
    hooks = namespace.call(read_qdiscs)[1]
    names = {
        namespace.call(lambda name=name: ifindex(name)): name  # type: ignore[misc]
        for name in ("one", "two", "many")
    }
    assert {names[index]: kind for index, kind in hooks.items()} == {
        "one": "clsact",
        "two": "ingress",
        "many": "clsact",
    }
    found = {
        names[index]: filters
        for index, filters in namespace.call(lambda: read_filters(hooks)).items()
    }
    shown = [
        (one.hook, one.kind, one.protocol, one.priority, one.matches_all) for one in found["one"]
    ]
    assert shown == [("ingress", "u32", "ip", 5, True), ("egress", "u32", "all", 6, False)]
    (acting,) = found["one"][0].actions
    assert (acting.kind, acting.verdict, acting.target) == (
        "mirred",
        "stolen",
        namespace.call(lambda: ifindex("one9")),
    )
    assert [(one.hook, one.priority) for one in found["two"]] == [("ingress", 7)]
    assert len(found["many"]) == MAX_FILTERS_PER_LINK


def ifindex(name: str) -> int:
    import socket

    return socket.if_nametoindex(name)


@pytest.mark.parametrize(
    ("attached", "mode"), [(0, None), (1, "driver"), (2, "generic"), (3, "hardware"), (9, None)]
)
def test_xdp(attached: int, mode: str | None) -> None:
    xdp = pack_attribute(if_link.IFLA_XDP_ATTACHED, bytes([attached])) + pack_attribute(
        if_link.IFLA_XDP_PROG_ID, struct.pack("=I", 42 if attached else 0)
    )
    body = rt.IFINFOMSG.pack(0, 1, 2, 0, 0) + pack_text(if_link.IFLA_IFNAME, "ens1")
    body += pack_attribute(if_link.IFLA_MTU, struct.pack("=I", 1500)) + pack_attribute(
        if_link.IFLA_XDP, xdp
    )
    link = parse_link(body)
    assert link is not None and (link.xdp, link.xdp_program) == (mode, 42 if attached else None)
