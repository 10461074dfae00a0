"""The routing rule, or the entry of a routing table, by which the kernel sends nothing to an
address.

Reads RTM_GETRULE and those routes of type unreachable, prohibit or blackhole that cover the address
(RTM_GETROUTE; the kernel selects the type since Linux 4.20, NETLINK_GET_STRICT_CHK). The answer to
a lookup does not contain them: IPv4 answers with an error (net/ipv4/fib_semantics.c, fib_props).
Order: that of the rules (net/core/fib_rules.c, fib_rules_lookup), and the longest prefix in a
table.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket

from nictop.probe.kernel.netlink import (
    NETLINK_GET_STRICT_CHK,
    NETLINK_ROUTE,
    SOL_NETLINK,
    DumpInterrupted,
    NetlinkSocket,
    iter_attributes,
    text,
    unsigned,
)
from nictop.probe.kernel.route_lookup import RTA_DST, RTMSG
from nictop.probe.kernel.rtnetlink import RTM_GETROUTE, RTM_GETRULE
from nictop.probe.light_tuples import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FRA_DST, FRA_SRC, FRA_IIFNAME, FRA_PRIORITY, FRA_FWMARK, FRA_FWMASK, FRA_TABLE = (
    1,
    2,
    3,
    6,
    10,
    16,
    15,
)
FRA_OIFNAME, FRA_L3MDEV, FRA_UID_RANGE, FRA_IP_PROTO, FRA_SPORT_RANGE, FRA_DPORT_RANGE = (
    17,
    19,
    20,
    22,
    23,
    24,
)
NARROW_ATTRIBUTES = (
    FRA_OIFNAME,
    FRA_L3MDEV,
    FRA_UID_RANGE,
    FRA_IP_PROTO,
    FRA_SPORT_RANGE,
    FRA_DPORT_RANGE,
)
"""Rules with these are for some packets only, which a route lookup without them does not tell."""
FIB_RULE_INVERT = 0x02
FR_ACT_TO_TBL = 1
RULE_ACTIONS = {6: "blackhole", 7: "unreachable", 8: "prohibit"}
"""FR_ACT_*, which are also the numbers of the route types RTN_*."""
RTA_PRIORITY, RTA_TABLE = 6, 15
TABLE_NAMES = {255: "local", 254: "main", 253: "default"}
PROTOCOL_NAMES = {
    2: "kernel",
    3: "boot",
    4: "static",
    12: "bird",
    16: "dhcp",
    186: "bgp",
    187: "isis",
    188: "ospf",
}
"""RTPROT_* (linux/rtnetlink.h): who added a route."""
TIMEOUT = 2.0
MAX_ROUTES = 10_000
TYPE_OFFSET = 7
"""Of rtm_type in struct rtmsg."""


class RuleLine(NamedTuple):
    """One line of ``ip rule show``."""

    priority: int
    source: str
    """``all``, or a prefix."""
    destination: str
    action: str
    """A type of route; "": lookup in `table`."""
    table: int
    narrow: bool
    """It is for some packets only, for other reasons than their addresses."""
    invert: bool

    @property
    def text(self) -> str:
        negation = "not " if self.invert else ""
        to = f" to {self.destination}" if self.destination != "all" else ""
        what = self.action or f"lookup {table_name(self.table)}"
        return f"{self.priority}: {negation}from {self.source}{to} {what}"


class DiscardingRoute(NamedTuple):
    """A route that drops packets."""

    kind: str
    destination: str
    """``default``, or a prefix."""
    table: int
    protocol: int

    @property
    def text(self) -> str:
        protocol = PROTOCOL_NAMES.get(self.protocol, str(self.protocol))
        return f"{self.kind} {self.destination} table {table_name(self.table)} proto {protocol}"


def read_refusal(family: int, address: str, source: str, kind: str) -> tuple[str, str]:
    """(rule, entry) as ip(8) prints them: the rule that refuses itself and "", or "" and the entry
    of a table, with the rule that leads to it if it is not one of the kernel's. ("", ""): not
    found. `kind`: a type of route, or "none". Raises OSError."""
    numbers = [number for number, name in RULE_ACTIONS.items() if name == kind]
    address, source = address.partition("%")[0], source.partition("%")[0]
    with NetlinkSocket(NETLINK_ROUTE, timeout=TIMEOUT) as kernel:
        rules = parse_rules(
            _dumped(kernel, RTM_GETRULE, RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)), family
        )
        if not numbers:
            return unreachable_rule(rules, address, source), ""
        with contextlib.suppress(OSError):
            kernel.socket.setsockopt(SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1)
        query = RTMSG.pack(family, 0, 0, 0, 0, 0, 0, numbers[0], 0)
        kept = TypeFilter(numbers[0])
        routes = parse_discarding_routes(_dumped(kernel, RTM_GETROUTE, query, kept), family, kind)
    return refusal(rules, routes, address, source, kind)


def unreachable_rule(rules: Iterable[RuleLine], address: str, source: str) -> str:
    """The rule behind an answer that says "no route": an unreachable rule gives the same error,
    ENETUNREACH (net/ipv4/fib_rules.c, fib4_rule_action). "": there is none."""
    for rule in sorted(rules):
        if rule.action == "unreachable" and not rule.narrow and matches(rule, address, source):
            return rule.text
    return ""


def refusal(
    rules: Iterable[RuleLine],
    routes: Iterable[DiscardingRoute],
    address: str,
    source: str,
    kind: str,
) -> tuple[str, str]:
    """See `read_refusal`."""
    covering = [one for one in routes if covers(one.destination, address)]
    for rule in sorted(rules):
        if rule.narrow or not matches(rule, address, source):
            continue
        if rule.action:
            return (rule.text, "") if rule.action == kind else ("", "")
        there = [one for one in covering if one.table == rule.table]
        if there:
            entry = max(there, key=lambda one: prefix_length(one.destination))
            return ("" if rule.table in TABLE_NAMES else rule.text), entry.text
    return "", ""


def matches(rule: RuleLine, address: str, source: str) -> bool:
    return (covers(rule.source, source) and covers(rule.destination, address)) != rule.invert


def covers(prefix: str, address: str) -> bool:
    """Whether a prefix (``all``, ``default``, ``192.0.2.0/24``) contains an address."""
    if prefix in ("all", "default"):
        return True
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(prefix, strict=False)
    except ValueError:
        return False


def prefix_length(prefix: str) -> int:
    length = prefix.partition("/")[2]
    return int(length) if length.isdecimal() else 0


def table_name(number: int) -> str:
    return TABLE_NAMES.get(number, str(number))


def parse_rules(payloads: Iterable[bytes], family: int) -> list[RuleLine]:
    """RTM_NEWRULE messages; malformed ones are left out."""
    return [rule for rule in (parse_rule(one, family) for one in payloads) if rule is not None]


def parse_rule(payload: bytes, family: int) -> RuleLine | None:
    """None: malformed, or another family or action."""
    if len(payload) < RTMSG.size:
        return None
    version, to_bits, from_bits, _, table, _, _, action, flags = RTMSG.unpack_from(payload)
    if version != family or action not in (FR_ACT_TO_TBL, *RULE_ACTIONS):
        return None
    found = dict(iter_attributes(payload[RTMSG.size :]))
    destination, source = (
        prefix_text(family, found.get(kind, b""), bits, "all")
        for kind, bits in ((FRA_DST, to_bits), (FRA_SRC, from_bits))
    )
    if destination is None or source is None:
        return None
    mark = unsigned(found.get(FRA_FWMARK, b""))
    incoming = text(found.get(FRA_IIFNAME, b""))
    narrow = (
        bool(mark) or incoming not in ("", "lo") or any(kind in found for kind in NARROW_ATTRIBUTES)
    )
    return RuleLine(
        unsigned(found.get(FRA_PRIORITY, b"")),
        source,
        destination,
        RULE_ACTIONS.get(action, ""),
        unsigned(found.get(FRA_TABLE, b"")) or table,
        narrow,
        bool(flags & FIB_RULE_INVERT),
    )


def parse_discarding_routes(
    payloads: Iterable[bytes], family: int, kind: str
) -> list[DiscardingRoute]:
    """RTM_NEWROUTE messages of that type; others and malformed ones are left out."""
    found = []
    for payload in payloads:
        route = parse_discarding_route(payload, family, kind)
        if route is not None:
            found.append(route)
    return found


def parse_discarding_route(payload: bytes, family: int, kind: str) -> DiscardingRoute | None:
    if len(payload) < RTMSG.size:
        return None
    version, bits, _, _, table, protocol, _, route_type, _ = RTMSG.unpack_from(payload)
    if version != family or RULE_ACTIONS.get(route_type) != kind:
        return None
    found = dict(iter_attributes(payload[RTMSG.size :]))
    destination = prefix_text(family, found.get(RTA_DST, b""), bits, "default")
    if destination is None:
        return None
    return DiscardingRoute(
        kind, destination, unsigned(found.get(RTA_TABLE, b"")) or table, protocol
    )


def prefix_text(family: int, value: bytes, bits: int, whole: str) -> str | None:
    """``192.0.2.0/24``; `whole` for all addresses; None: malformed."""
    if not value and not bits:
        return whole
    size = 16 if family == socket.AF_INET6 else 4
    if len(value) != size or bits > 8 * size:
        return None
    return f"{socket.inet_ntop(family, value)}/{bits}"


class TypeFilter:
    """Selects routes of one type, at most `MAX_ROUTES`, in a dump of a kernel that sends all of
    them."""

    def __init__(self, kind: int) -> None:
        self._kind, self._remaining = bytes([kind]), MAX_ROUTES

    def __call__(self, data: bytes, start: int) -> bool:
        is_wanted = (
            self._remaining > 0
            and data[start + TYPE_OFFSET : start + TYPE_OFFSET + 1] == self._kind
        )
        self._remaining -= is_wanted
        return is_wanted


def _dumped(
    kernel: NetlinkSocket, kind: int, query: bytes, keep: Callable[[bytes, int], bool] | None = None
) -> list[bytes]:
    try:
        replies = kernel.dump(kind, query, keep=keep)
    except DumpInterrupted as error:
        replies = error.replies
    return [payload for _, payload in replies]
