"""Routes and rules of the types unreachable, blackhole and prohibit that catch what this host
needs.

Reads nothing. Many hosts have such routes on purpose (aggregates of BGP, fail2ban, private
networks): only one that catches a gateway, a name server, the default route or a watched host is
reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from nictop.model.devices.links import global_addresses
from nictop.model.devices.route_lookup import (
    REFUSING_TYPES,
    RouteAnswer,
    RoutingTables,
    Span,
    span_of,
)
from nictop.model.facts.routing import route_text, rule_text
from nictop.probe.records import PolicyRule, TableRoute
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.persistence import is_run_by_networkd
from nictop.rules.host import HostFacts
from nictop.rules.profiles.outward import NetworkPlace
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.routes.facts import (
    gateways,
    is_default,
    is_in_vrf,
    is_main,
    is_of_a_daemon,
    own_addresses,
    reason_not_to_rewrite,
    routes,
    tables,
)
from nictop.rules.routes.fixes import change_route, delete_rule, ip, own_profile, unset_note
from nictop.rules.routes.peers import Peer, first_peer_text, is_in_one, of_each_address, peers
from nictop.rules.subjects import host_finding, link_finding, names_text

WIDE_PREFIXES = range(1, 9)
"""Lengths of routes that replace a default route: 0.0.0.0/1 and 128.0.0.0/1 of VPNs, 2000::/3."""
NEEDS = ("routing.routes", "routing.rules")
MAX_PEERS = 4


@host_rule("critical", needs=NEEDS, uses=("routing.name_servers",))
def route_refuses_what_the_host_needs(host: HostFacts) -> Outcomes:
    """A route or rule of the type unreachable, blackhole or prohibit catches the default route, a
    gateway or a name server.

    nictop looks up the addresses in all routing tables as the kernel does, in the order of the
    rules. Critical: all that has no other route is refused, because the refusing default route has
    the lowest metric, or every name server is refused. Warning: packets to a gateway itself, or to
    some of the name servers.

    Not reported: refusing routes to other addresses (aggregates of routing daemons, banned
    addresses, private networks), default routes with a higher metric, which refuse only what the
    others leave (VPN kill switches), rules that depend on user, port or mark, and tables that were
    not read completely.

    Sources: ip-route(8) unreachable, blackhole, prohibit; ip-rule(8); kernel net/core/fib_rules.c
    fib_rules_lookup.
    """
    known = tables(host)
    if known is None or not known.refuses:
        return
    yield from _refused_default(host, known)
    seen: set[str] = set()
    for gateway in gateways(host):
        if gateway.address in seen:
            continue
        seen.add(gateway.address)
        answer = known.lookup(gateway.address)
        if answer is not None and answer.is_refused:
            yield link_finding(
                "warning",
                host,
                gateway.link,
                f"gateway {gateway.address} is refused by {refusal_text(answer)}",
                evidence=(gateway.evidence, refusal_evidence(answer)),
                why="Packets to the gateway itself get an error. When this NIC is configured "
                "again, the kernel refuses a route by this gateway, unless it says onlink.",
                fixes=refusal_fixes(host, answer),
            )
    yield from _refused_name_servers(host, known)


def _refused_default(host: HostFacts, known: RoutingTables) -> Iterator[Finding]:
    """Where a refusing default route of the table main comes before one with a link."""
    for family in ("ipv4", "ipv6"):
        refusing, best = _refusing_and_best(known, family)
        if refusing is None or best is None or not _comes_first(refusing, best, known):
            continue
        if _has_wide_routes(known, family):
            continue
        answer = RouteAnswer((refusing,))
        show = f"{' '.join(ip(family))} route show default"
        yield host_finding(
            "critical",
            host,
            "",
            f"{route_text(refusing)} comes before the default route",
            evidence=(
                refusal_evidence(answer),
                Evidence("default route", route_text(best), show),
            ),
            why=f"Of two routes to the same addresses the one with the lower metric is used, of "
            f"equal ones the first: {family.replace('ip', 'IP')} packets to networks without "
            "another route are refused.",
            fixes=refusal_fixes(host, answer),
            item=family,
        )


def _refusing_and_best(
    known: RoutingTables, family: str
) -> tuple[TableRoute | None, TableRoute | None]:
    """Of the default routes of the table main those with the lowest metric: one that refuses, and
    one with a link; None: there is none."""
    refusing = []
    ways = []
    for route in known.routes:
        if not is_default(route) or route.family != family or not is_main(route):
            continue
        if route.type in REFUSING_TYPES:
            refusing.append(route)
        elif route.type == "unicast" and route.usable:
            ways.append(route)
    lowest_metric = attrgetter("metric")
    return min(refusing, key=lowest_metric, default=None), min(
        ways, key=lowest_metric, default=None
    )


def _comes_first(route: TableRoute, other: TableRoute, known: RoutingTables) -> bool:
    """Of two default routes the one with the lower metric is used, of equal ones the first in the
    table, whose order the kernel's list has."""
    if route.metric != other.metric:
        return route.metric < other.metric
    return known.routes.index(route) < known.routes.index(other)


def _has_wide_routes(known: RoutingTables, family: str) -> bool:
    """Routes of a VPN that replace the default route."""
    for route in known.routes:
        if route.family != family or route.type != "unicast":
            continue
        span = span_of(route.destination)
        if span is not None and span.length in WIDE_PREFIXES:
            return True
    return False


def _refused_name_servers(host: HostFacts, known: RoutingTables) -> Iterator[Finding]:
    routing = host.inventory.routing
    servers = routing.name_servers if routing is not None else ()
    asked = [server for server in servers if server not in own_addresses(host)]
    refused = []
    for server in asked:
        answer = known.lookup(server)
        if answer is not None and answer.is_refused:
            refused.append((server, answer))
    if not refused:
        return
    address, answer = refused[0]
    severity: Severity = "warning"
    why = "Names are looked up by the other servers only."
    if len(refused) == len(asked):
        severity = "critical"
        why = "No name server can be asked."
    yield host_finding(
        severity,
        host,
        f"name server {address}",
        f"refused by {refusal_text(answer)}",
        evidence=(
            refusal_evidence(answer),
            Evidence("name servers", ", ".join(asked), "/etc/resolv.conf"),
        ),
        why=why,
        fixes=refusal_fixes(host, answer),
    )


@pair_rule(
    "critical",
    yields_to=("route_refuses_what_the_host_needs",),
    needs=("addresses", *NEEDS),
)
def route_refuses_a_watched_host(hosts: Sequence[HostFacts]) -> Outcomes:
    """A route or rule of the type unreachable, blackhole or prohibit catches a watched host in a
    subnet of this host.

    Programs get "No route to host", "Network is unreachable", "Permission denied" or no answer at
    all, although the other host is on the same network. What that one sends is not answered either:
    replies are looked up in the same tables. Whether it arrives is not said: with rp_filter it is
    dropped, too. A rule with "from" refuses only packets that have the address when their route is
    looked up: TCP and bound sockets, not UDP of a socket without an address.

    nictop looks up the address of the other host in all routing tables as the kernel does, in the
    order of the rules. Not reported: hosts in other subnets, which an administrator may refuse on
    purpose, rules that depend on user, port or mark, and tables that were not read completely.

    Sources: ip-route(8) unreachable, blackhole, prohibit; ip-rule(8); kernel net/core/fib_rules.c
    fib_rules_lookup, net/ipv4/fib_frontend.c __fib_validate_source, include/net/route.h
    ip_route_connect, net/ipv6/ip6_output.c ip6_dst_lookup_tail.
    """
    if len(hosts) < 2:
        return
    for host in hosts:
        known = tables(host)
        if known is None or not known.refuses:
            continue
        refused_spans = _refused_spans(known)

        def may_be_refused(
            _: NetworkPlace, place: NetworkPlace, spans: tuple[Span, ...] = refused_spans
        ) -> bool:
            return is_in_one(place, spans)

        found: dict[tuple[int, RouteAnswer], list[Peer]] = {}
        for peer in peers(host, hosts, may_be_refused):
            answer = known.lookup(peer.other.address.address, peer.own.address.address)
            if answer is None or not answer.is_refused or is_in_vrf(host, peer.own.link):
                continue
            found.setdefault((peer.own.link.ifindex, answer), []).append(peer)
        for (_, answer), refused in found.items():
            yield _refused_peer(host, answer, list(of_each_address(refused)))


def _refused_spans(known: RoutingTables) -> tuple[Span, ...]:
    """What refusing routes and rules are for; a rule for all is for both families."""
    prefixes = [route.destination for route in known.routes if route.type in REFUSING_TYPES]
    for rule in known.rules:
        if rule.action not in REFUSING_TYPES:
            continue
        if rule.destination and not rule.inverted:
            prefixes.append(rule.destination)
        else:
            prefixes += ["0.0.0.0/0", "::/0"]
    return tuple({span for span in map(span_of, prefixes) if span is not None})


def _refused_peer(host: HostFacts, answer: RouteAnswer, refused: list[Peer]) -> Finding:
    evidence = [refusal_evidence(answer)]
    for peer in refused[:MAX_PEERS]:
        source = peer.own.address.address
        shown_by = f"ip route get {peer.other.address.address} from {source}"
        evidence.append(Evidence("refused", f"{peer.named}, from {source}", shown_by))
    return link_finding(
        "critical",
        host,
        refused[0].own.link,
        f"{first_peer_text(refused)} refused: {refusal_text(answer)}",
        evidence=tuple(evidence),
        why=_refused_senders(host, refused),
        fixes=refusal_fixes(host, answer),
    )


def _refused_senders(host: HostFacts, refused: Sequence[Peer]) -> str:
    """Which packets of this host are refused: all, or those from some of its addresses.

    A rule with "from" does not match the first look-up of a socket that has no address yet. IPv4
    looks up again with the address found when a socket is connected, IPv6 only if the first one
    failed (include/net/route.h ip_route_connect, net/ipv6/ip6_output.c ip6_dst_lookup_tail).
    """
    family = refused[0].own.address.family
    if _is_all_refused(host, refused):
        theirs = list(dict.fromkeys(peer.other.address.address for peer in refused))
        them = "it" if len(theirs) == 1 else "them"
        return (
            f"This host cannot send to {names_text(theirs, MAX_PEERS)}, nor answer {them}, "
            "although both are in one subnet."
        )
    sources = dict.fromkeys(peer.own.address.address for peer in refused)
    from_these = f"Refused is what is sent from {' and '.join(sources)}"
    if _is_refused_without_source(host, refused) is not False:
        return f"{from_these}, although both are in one subnet; from others it is not known."
    return f"{from_these}: {SENDERS_WITH_ADDRESS[family]}"


SENDERS_WITH_ADDRESS = {
    "ipv4": "answers of TCP and to ping, TCP connections, and programs that bind or connect their "
    "socket. What a socket without an address sends (UDP with sendto) is not refused.",
    "ipv6": "answers of TCP and to ping, and programs that bind their socket to it. Sockets that "
    "have no address when they connect or send are not refused.",
}
"""Whose packets have a source address when their route is looked up."""


def _is_all_refused(host: HostFacts, refused: Sequence[Peer]) -> bool:
    """From each address of the family, and from none."""
    known = tables(host)
    if known is None or not _is_refused_without_source(host, refused):
        return False
    family = refused[0].own.address.family
    for link in host.links:
        for own in global_addresses(link, family):
            for peer in refused:
                answer = known.lookup(peer.other.address.address, own.address)
                if answer is None or not answer.is_refused:
                    return False
    return True


def _is_refused_without_source(host: HostFacts, refused: Sequence[Peer]) -> bool | None:
    """What a socket without an address sends to them; None: not known, or not to all of them."""
    known = tables(host)
    if known is None:
        return None
    answers = [known.lookup(peer.other.address.address) for peer in refused]
    outcomes = {None if answer is None else answer.is_refused for answer in answers}
    return outcomes.pop() if len(outcomes) == 1 else None


# ----------------------------------------------------------------------------------- shared wording


def refusal_text(answer: RouteAnswer) -> str:
    """``unreachable 192.0.2.0/24``, ``rule 1000: from all to 192.0.2.7 prohibit``"""
    if answer.hops:
        return route_text(answer.hops[0])
    if answer.rule is None:
        return ""
    return f"rule {rule_text(answer.rule)}"


def refusal_evidence(answer: RouteAnswer) -> Evidence:
    if answer.hops:
        route = answer.hops[0]
        source = f"{' '.join(ip(route.family))} route show table all type {route.type}"
        return Evidence("route", f"{route_text(route)}, {_origin(route)}", source)
    rule: PolicyRule | None = answer.rule
    if rule is None:
        return Evidence("rule", "", "ip rule")
    return Evidence("rule", rule_text(rule), f"{' '.join(ip(rule.family))} rule")


def _origin(route: TableRoute) -> str:
    names = {
        2: "kernel",
        3: "added by ip route",
        4: "static",
        9: "router advertisement",
        16: "DHCP",
    }
    return names.get(route.protocol, f"protocol {route.protocol}")


def refusal_fixes(host: HostFacts, answer: RouteAnswer) -> tuple[Fix, ...]:
    """Remove it now, and where it comes from."""
    if not answer.hops:
        rule = answer.rule
        if rule is None:
            return ()
        now = Fix(
            "here", "Remove the rule", (delete_rule(rule),), False, (delete_rule(rule, "add"),)
        )
        return now, _stored(host, "rule")
    route = answer.hops[0]
    if is_of_a_daemon(route):
        note = "A routing daemon maintains it: removed by hand, it comes back."
        return (Fix("here", "Change the routing daemon's configuration", (), True, note=note),)
    reason = reason_not_to_rewrite(host, route)
    if reason:
        return (Fix("here", "Remove the route where it is set", (), True, note=reason),)
    now = Fix(
        "here",
        "Remove the route",
        (change_route("del", route, None),),
        False,
        (change_route(_adding(host, route), route, None),),
        unset_note(host, (route,)),
    )
    return now, _stored(host, "route")


def _adding(host: HostFacts, route: TableRoute) -> str:
    """The verb that puts it back to where it was: before one of the same metric, which "add"
    refuses."""
    place = route.family, route.table, route.destination, route.metric
    for other in routes(host):
        is_equal = (other.family, other.table, other.destination, other.metric) == place
        if is_equal and other.type != route.type:
            return "prepend"
    return "add"


def _stored(host: HostFacts, what: str) -> Fix:
    """Where such a route or rule may be stored."""
    setting, section = STORED_NAMES[what]
    places = []
    if any(own_profile(host, link) is not None for link in host.links):
        places.append(f"ipv4.{setting} or ipv6.{setting} of the profiles (nmcli)")
    if any(is_run_by_networkd(host, link) for link in host.links):
        places.append(f"[{section}] of .network files")
    if any(entry.owner == "ifupdown" for entry in host.inventory.configuration):
        places.append("up lines in /etc/network/interfaces")
    places.append("scripts and units that run ip")
    note = f"Look in {', '.join(places)}."
    return Fix("here", f"Remove the {what} where it is stored", (), True, note=note)


STORED_NAMES = {"route": ("routes", "Route"), "rule": ("routing-rules", "RoutingPolicyRule")}
"""Route or rule → property of a profile, section of a .network file."""
