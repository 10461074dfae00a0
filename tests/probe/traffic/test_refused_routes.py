"""The rule or the entry by which the kernel sends nothing to an address."""

from __future__ import annotations

import socket

import pytest

from nictop.probe.kernel.netlink import pack_attribute, pack_text, pack_u32
from nictop.probe.kernel.route_lookup import RTMSG
from nictop.probe.traffic import refused_routes
from nictop.probe.traffic.refused_routes import DiscardingRoute, RuleLine

LOCAL = RuleLine(0, "all", "all", "", 255, False, False)
MAIN = RuleLine(32766, "all", "all", "", 254, False, False)
HERE, THERE = "192.0.2.1", "198.51.100.7"


def rule(
    priority: int, *, to: str = "all", action: str = "", table: int = 0, narrow: bool = False
) -> RuleLine:
    return RuleLine(priority, "all", to, action, table, narrow, False)


@pytest.mark.parametrize(
    ("rules", "routes", "expected"),
    [
        (
            (rule(7, to="198.51.100.0/24", action="prohibit"),),
            (),
            ("7: from all to 198.51.100.0/24 prohibit", ""),
        ),
        ((rule(7, to="203.0.113.0/24", action="prohibit"),), (), ("", "")),
        ((rule(7, action="prohibit", narrow=True),), (), ("", "")),
        (
            (),
            (DiscardingRoute("prohibit", "default", 254, 4),),
            ("", "prohibit default table main proto static"),
        ),
        (
            (rule(7, table=100),),
            (
                DiscardingRoute("prohibit", "198.51.0.0/16", 100, 3),
                DiscardingRoute("prohibit", "198.51.100.0/24", 100, 99),
            ),
            ("7: from all lookup 100", "prohibit 198.51.100.0/24 table 100 proto 99"),
        ),
        ((), (DiscardingRoute("prohibit", "198.51.100.0/24", 100, 3),), ("", "")),
    ],
)
def test_order_of_the_kernel(
    rules: tuple[RuleLine, ...], routes: tuple[DiscardingRoute, ...], expected: tuple[str, str]
) -> None:
    assert (
        refused_routes.refusal((MAIN, *rules, LOCAL), routes, THERE, HERE, "prohibit") == expected
    )


def test_inverted_rule() -> None:
    inverted = RuleLine(5, "all", "198.51.100.0/24", "unreachable", 0, False, True)
    assert refused_routes.unreachable_rule([inverted], THERE, HERE) == ""
    assert refused_routes.unreachable_rule([inverted], "203.0.113.1", HERE) == (
        "5: not from all to 198.51.100.0/24 unreachable"
    )


def test_messages() -> None:
    family = socket.AF_INET
    body = (
        RTMSG.pack(family, 32, 0, 0, 0, 0, 0, 8, 0)
        + pack_attribute(1, socket.inet_aton(THERE))
        + pack_u32(6, 77)
    )
    assert (
        refused_routes.parse_rules([body, b"", body[:-3]], family)[0].text
        == f"77: from all to {THERE}/32 prohibit"
    )
    assert refused_routes.parse_rule(body + pack_text(3, "eth0"), family).narrow  # type: ignore[union-attr]
    assert not refused_routes.parse_rule(body + pack_text(3, "lo"), family).narrow  # type: ignore[union-attr]
    assert refused_routes.parse_rule(body, socket.AF_INET6) is None
    route = RTMSG.pack(family, 24, 0, 0, 254, 4, 0, 8, 0) + pack_attribute(
        1, socket.inet_aton("198.51.100.0")
    )
    assert refused_routes.parse_discarding_routes([route, b"x"], family, "prohibit") == [
        DiscardingRoute("prohibit", "198.51.100.0/24", 254, 4)
    ]
    assert refused_routes.parse_discarding_routes([route], family, "blackhole") == []
    wrong = RTMSG.pack(family, 99, 0, 0, 254, 4, 0, 8, 0) + pack_attribute(
        1, socket.inet_aton("198.51.100.0")
    )
    assert refused_routes.parse_discarding_route(wrong, family, "prohibit") is None


def test_filter_of_a_kernel_that_sends_all() -> None:
    keep = refused_routes.TypeFilter(8)
    bodies = [RTMSG.pack(2, 0, 0, 0, 254, 4, 0, kind, 0) for kind in (1, 8)]
    assert [keep(one, 0) for one in bodies] == [False, True] and not keep(b"\2", 0)
