"""The route that a host would use for a packet of its own, computed from its policy rules and routing tables.

Reads nothing. For packets of programs that are not bound to a link and set no mark: net/core/fib_rules.c
fib_rules_lookup, net/ipv4/fib_rules.c fib4_rule_match and fib4_rule_suppress, net/ipv6/fib6_rules.c. What depends on
more (user, port, protocol, VRF) is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from nictop.model.text.ip_addresses import parse_ip_address, parse_network
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
        return {family: [one for one in self.rules if one.family == family] for family in BITS}

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
        has_routes = any(one.type in REFUSING_TYPES for one in self.routes)
        return has_routes or any(one.action in REFUSING_TYPES for one in self.rules)

    def has_table(self, family: str, number: int) -> bool:
        """Whether a route is in it."""
        return any(one.table == number and one.family == family for one in self.routes)

    def lookup(self, destination: str, source: str | None = None) -> RouteAnswer | None:
        """The route to an address, from an address of this host or from any. None: not known, because the tables were
        not read completely, or because it depends on the program."""
        target = number_of(destination)
        if target is None or not self.is_complete:
            return None
        family, address = target
        own = number_of(source) if source is not None else None
        rules = self._rules[family]
        if not rules:  # a kernel without policy routing
            return RouteAnswer(self._best(family, MAIN_TABLE, address) or ())
        skip_below = 0
        for rule in rules:
            if rule.priority < skip_below:
                continue
            is_match = _matches(rule, address, own[1] if own is not None else None)
            if is_match is None:
                return None
            if not is_match:
                continue
            if rule.action in REFUSING_TYPES:
                return RouteAnswer((), rule)
            if rule.action == "goto":
                skip_below = rule.target or 0
            if rule.action != "table" or rule.table == LOCAL_TABLE or rule.table is None:
                continue
            hops = self._best(family, rule.table, address)
            if hops is None:
                return None
            if not hops or hops[0].type == THROW or _is_suppressed(rule, hops[0]):
                continue
            return RouteAnswer(hops, rule)
        return RouteAnswer()

    def _best(self, family: str, number: int, address: int) -> tuple[TableRoute, ...] | None:
        """The routes with the longest prefix and then the lowest metric; (): none. None: not known."""
        table = self._tables.get((family, number), {})
        for length in sorted(table, reverse=True):
            first = address >> (BITS[family] - length) << (BITS[family] - length)
            found = table[length].get(first)
            if not found:
                continue
            metric = min(one.metric for one in found)
            best = tuple(one for one in found if one.metric == metric)
            if any(one.source or not one.usable or _is_without_link(one) for one in best):
                return None
            return best
        return ()


def _is_without_link(route: TableRoute) -> bool:
    """A next hop that the kernel does not describe (nexthop objects)."""
    return route.type == "unicast" and route.ifindex is None


def _is_suppressed(rule: PolicyRule, route: TableRoute) -> bool:
    span = span_of(route.destination)
    limit = rule.suppressed_length
    return limit is not None and span is not None and route.type == "unicast" and span.length <= limit


def _matches(rule: PolicyRule, destination: int, source: int | None) -> bool | None:
    """None: it depends on the program."""
    others = [one for one in rule.other_selectors if one != VRF_SELECTOR]
    if others:
        return None
    conditions = (
        VRF_SELECTOR not in rule.other_selectors,
        rule.input_link in ("", LOOPBACK),
        not rule.output_link,
        rule.mark is None or not rule.mark & (0xFFFFFFFF if rule.mark_mask is None else rule.mark_mask),
        _is_in(rule.source, source),
        _is_in(rule.destination, destination),
    )
    return all(conditions) != rule.inverted


def _is_in(prefix: str, address: int | None) -> bool:
    if not prefix:
        return True
    span = span_of(prefix)
    return span is not None and address is not None and address in span


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
    return (f"ipv{parsed.version}", int(parsed)) if parsed is not None else None


def wider(span: Span, length: int) -> Span:
    """The prefix of this shorter length that contains it."""
    size = 1 << (BITS[span.family] - length)
    first = span.first & ~(size - 1)
    return Span(span.family, first, first + size - 1, length)
