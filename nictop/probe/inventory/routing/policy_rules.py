"""Rules that select a routing table, IPv4 and IPv6: RTM_GETRULE (linux/fib_rules.h) →
`PolicyRule`."""

from __future__ import annotations

import socket

from nictop.probe.inventory.links.messages import Attributes, number
from nictop.probe.inventory.links.routes import (
    FAMILY_NAMES,
    FRA_PRIORITY,
    FRA_SUPPRESS_PREFIXLEN,
    FRA_TABLE,
)
from nictop.probe.inventory.routing.dumps import bounded_dump
from nictop.probe.inventory.routing.table_routes import prefix
from nictop.probe.kernel.netlink import iter_attributes, text
from nictop.probe.kernel.route_lookup import RTMSG
from nictop.probe.kernel.rtnetlink import RTM_GETRULE
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import PolicyRule, Unreadable

MAX_RULES = 512
"""Of each family."""
ACTIONS = {1: "table", 2: "goto", 3: "nop", 6: "blackhole", 7: "unreachable", 8: "prohibit"}
"""FR_ACT_* → action."""
FRA_DST, FRA_SRC, FRA_IIFNAME, FRA_GOTO, FRA_FWMARK, FRA_FWMASK, FRA_OIFNAME, FRA_FLOW = (
    1,
    2,
    3,
    4,
    10,
    16,
    17,
    11,
)
FRA_PAD, FRA_L3MDEV, FRA_PROTOCOL = 18, 19, 21
OTHER_SELECTORS = {
    12: "tun_id",
    13: "suppress_ifgroup",
    FRA_L3MDEV: "l3mdev",
    20: "uidrange",
    22: "ipproto",
    23: "sport",
    24: "dport",
}
"""FRA_* → name in ip-rule(8)."""
KNOWN = frozenset(
    (
        *(
            FRA_DST,
            FRA_SRC,
            FRA_IIFNAME,
            FRA_GOTO,
            FRA_PRIORITY,
            FRA_FWMARK,
            FRA_FWMASK,
            FRA_OIFNAME,
            FRA_FLOW,
        ),
        *(FRA_SUPPRESS_PREFIXLEN, FRA_TABLE, FRA_PAD, FRA_PROTOCOL),
    )
)
"""Attributes that are in the fields of `PolicyRule`, or select nothing; any further one is a
selector."""
FIB_RULE_INVERT = 2
NOT_SUPPRESSED = 0xFFFFFFFF


def read_policy_rules() -> tuple[tuple[PolicyRule, ...], Unreadable | None]:
    """(Rules, IPv4 first; why some may be missing). Never raises OSError."""
    found: list[PolicyRule] = []
    trouble: Unreadable | None = None
    for family, what in ((socket.AF_INET, "IPv4 rules"), (socket.AF_INET6, "IPv6 rules")):
        query = RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)
        payloads, why = bounded_dump(RTM_GETRULE, query, lambda data, start: True, MAX_RULES, what)
        found += [rule for rule in map(parse_policy_rule, payloads) if rule is not None]
        trouble = trouble or why
    return tuple(found), trouble


def parse_policy_rule(payload: bytes) -> PolicyRule | None:
    """A rule of an RTM_NEWRULE; None for other families and for malformed messages."""
    if len(payload) < RTMSG.size:
        return None
    family, destination_length, source_length, service, table, _, _, action, flags = (
        RTMSG.unpack_from(payload)
    )
    if family not in FAMILY_NAMES or action not in ACTIONS:
        return None
    found = dict(iter_attributes(payload[RTMSG.size :]))
    destination = prefix(family, found.get(FRA_DST, b""), destination_length)
    source = prefix(family, found.get(FRA_SRC, b""), source_length)
    if destination is None or source is None:
        return None
    others = [OTHER_SELECTORS.get(kind, f"FRA {kind}") for kind in sorted(found.keys() - KNOWN)]
    if service:
        others.append("tos")
    rule = PolicyRule(
        family=FAMILY_NAMES[family],
        priority=number(found, FRA_PRIORITY) or 0,
        action=ACTIONS[action],
        source=source if source_length else "",
        destination=destination if destination_length else "",
        inverted=bool(flags & FIB_RULE_INVERT),
        mark=number(found, FRA_FWMARK),
        mark_mask=number(found, FRA_FWMASK),
        input_link=text(found.get(FRA_IIFNAME, b"")),
        output_link=text(found.get(FRA_OIFNAME, b"")),
        suppressed_length=suppressed_length(found),
        other_selectors=tuple(others),
    )
    if rule.action == "table":
        return replace(rule, table=number(found, FRA_TABLE) or table)
    if rule.action == "goto":
        return replace(rule, target=number(found, FRA_GOTO))
    return rule


def suppressed_length(found: Attributes) -> int | None:
    """Routes with a prefix of at most this length are not used; None: all are."""
    length = number(found, FRA_SUPPRESS_PREFIXLEN)
    if length == NOT_SUPPRESSED:
        return None
    return length
