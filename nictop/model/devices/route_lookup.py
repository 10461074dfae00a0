"""The route that a host would use for a packet of its own, computed from its policy rules and
routing tables.

Reads nothing. For packets of programs that are not bound to a link and set no mark:
net/core/fib_rules.c fib_rules_lookup, net/ipv4/fib_rules.c fib4_rule_match and fib4_rule_suppress,
net/ipv6/fib6_rules.c. What depends on more (user, port, protocol, VRF) is not known.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

from nictop.model.text.ip_addresses import parse_ip_address, parse_network
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import PolicyRule, Routing, TableRoute

LOCAL_TABLE, MAIN_TABLE = 255, 254
REFUSING_TYPES = ("unreachable", "blackhole", "prohibit")
THROW = "throw"
BITS = {"ipv4": 32, "ipv6": 128}
VRF_SELECTOR = "l3mdev"
"""Matches sockets that are bound to a VRF only."""
LOOPBACK = "lo"
"""Input link of packets of the host itself."""


@dataclass(frozen=True)
class Span:
    """The addresses of a prefix."""

    family: str
    first: int
    last: int
    length: int

    def __contains__(self, address: int) -> bool:
        return self.first <= address <= self.last


@dataclass(frozen=True)
class RouteAnswer:
    """The result of a lookup."""

    hops: tuple[TableRoute, ...] = ()
    """The next hops that may be used, or the one route that refuses; (): there is no route."""
    rule: PolicyRule | None = None
    """The rule that refuses, or that selected the table."""

    @property
    def is_refused(self) -> bool:
        if self.hops:
            return self.hops[0].type in REFUSING_TYPES
        return self.rule is not None and self.rule.action in REFUSING_TYPES

    @property
    def ifindexes(self) -> frozenset[int | None]:
        """Outgoing links."""
        return frozenset(hop.ifindex for hop in self.hops)


class RoutingTables:
    """The tables of one host, indexed by prefix."""

    def __init__(self, routing: Routing) -> None:
        self.is_complete = not {"routes", "rules"} & set(routing.unreadable)
        self.routes = routing.routes
        self.rules = routing.rules

    @cached_property
    def _rules(self) -> dict[str, list[PolicyRule]]:
        """By family."""
        by_family: dict[str, list[PolicyRule]] = {family: [] for family in BITS}
        for rule in self.rules:
            if rule.family in by_family:
                by_family[rule.family].append(rule)
        return by_family

    @cached_property
    def _tables(self) -> dict[tuple[str, int], dict[int, dict[int, list[TableRoute]]]]:
        """(family, table) → prefix length → first address → routes."""
        found: dict[tuple[str, int], dict[int, dict[int, list[TableRoute]]]] = {}
        for route in self.routes:
            span = span_of(route.destination)
            if span is not None:
                table = found.setdefault((route.family, route.table), {})
                table.setdefault(span.length, {}).setdefault(span.first, []).append(route)
        return found

    @cached_property
    def refuses(self) -> bool:
        """Whether a route or a rule refuses packets."""
        refusing_route = any(route.type in REFUSING_TYPES for route in self.routes)
        return refusing_route or any(rule.action in REFUSING_TYPES for rule in self.rules)

    def has_table(self, family: str, number: int) -> bool:
        """Whether a route is in it."""
        return any(route.table == number and route.family == family for route in self.routes)

    def lookup(self, destination: str, source: str | None = None) -> RouteAnswer | None:
        """The route to an address, from an address of this host or from any. None: not known,
        because the tables were not read completely, or because it depends on the program."""
        target = number_of(destination)
        if target is None or not self.is_complete:
            return None
        family, address = target
        rules = self._rules[family]
        if not rules:  # a kernel without policy routing
            return RouteAnswer(self._best(family, MAIN_TABLE, address) or ())
        own = _number_in_family(source)
        skip_below = 0
        for rule in rules:
            if rule.priority < skip_below:
                continue
            is_match = _matches(rule, address, own)
            if is_match is None:
                return None
            if not is_match:
                continue
            if rule.action in REFUSING_TYPES:
                return RouteAnswer((), rule)
            if rule.action == "goto":
                skip_below = rule.target or 0
            hops = self._hops_by_rule(rule, family, address)
            if hops is None:
                return None
            if hops:
                return RouteAnswer(hops, rule)
        return RouteAnswer()

    def _hops_by_rule(
        self, rule: PolicyRule, family: str, address: int
    ) -> tuple[TableRoute, ...] | None:
        """The next hops in the table of a rule; (): none, so that the next rule counts. None: not
        known."""
        if rule.action != "table" or rule.table is None or rule.table == LOCAL_TABLE:
            return ()
        hops = self._best(family, rule.table, address)
        if not hops:
            return hops
        if hops[0].type == THROW or _is_suppressed(rule, hops[0]):
            return ()
        return hops

    def _best(self, family: str, number: int, address: int) -> tuple[TableRoute, ...] | None:
        """The routes with the longest prefix and then the lowest metric; (): none. None: not
        known."""
        table = self._tables.get((family, number), {})
        for length in sorted(table, reverse=True):
            first = address >> (BITS[family] - length) << (BITS[family] - length)
            found = table[length].get(first)
            if not found:
                continue
            metric = min(route.metric for route in found)
            best = tuple(route for route in found if route.metric == metric)
            if not all(map(_is_certain, best)):
                return None
            return best
        return ()


def _is_certain(route: TableRoute) -> bool:
    """It is for all sources, and the kernel uses it now and says through which link: next hops that
    are nexthop objects are not described."""
    if route.source or not route.usable:
        return False
    return route.type != "unicast" or route.ifindex is not None


def _is_suppressed(rule: PolicyRule, route: TableRoute) -> bool:
    if rule.suppressed_length is None or route.type != "unicast":
        return False
    span = span_of(route.destination)
    return span is not None and span.length <= rule.suppressed_length


def _matches(rule: PolicyRule, destination: int, source: int | None) -> bool | None:
    """None: it depends on the program."""
    if set(rule.other_selectors) - {VRF_SELECTOR}:
        return None
    conditions = (
        VRF_SELECTOR not in rule.other_selectors,
        rule.input_link in ("", LOOPBACK),
        not rule.output_link,
        _matches_without_mark(rule),
        _is_in(rule.source, source),
        _is_in(rule.destination, destination),
    )
    return all(conditions) != rule.inverted


def _matches_without_mark(rule: PolicyRule) -> bool:
    """Packets whose mark is 0."""
    if rule.mark is None:
        return True
    mask = rule.mark_mask
    if mask is None:
        mask = 0xFFFFFFFF
    return not rule.mark & mask


def _is_in(prefix: str, address: int | None) -> bool:
    if not prefix:
        return True
    span = span_of(prefix)
    if span is None or address is None:
        return False
    return address in span


@lru_cache(maxsize=16384)
def span_of(prefix: str) -> Span | None:
    """The addresses of ``192.0.2.0/24``; None: malformed."""
    network = parse_network(prefix)
    if network is None:
        return None
    first, last = int(network.network_address), int(network.broadcast_address)
    return Span(f"ipv{network.version}", first, last, network.prefixlen)


@lru_cache(maxsize=16384)
def number_of(address: str) -> tuple[str, int] | None:
    """(family, number) of an address; None: malformed."""
    parsed = parse_ip_address(address)
    if parsed is None:
        return None
    return f"ipv{parsed.version}", int(parsed)


def _number_in_family(address: str | None) -> int | None:
    """The number of an address; None: there is none, or it is malformed."""
    parsed = number_of(address or "")
    if parsed is None:
        return None
    return parsed[1]


def wider(span: Span, length: int) -> Span:
    """The prefix of this shorter length that contains it."""
    size = 1 << (BITS[span.family] - length)
    first = span.first & ~(size - 1)
    return Span(span.family, first, first + size - 1, length)
