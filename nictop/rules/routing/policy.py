"""Policy rules that select a routing table without routes.

Reads nothing. Kernel net/core/fib_rules.c fib_rules_lookup: a table without a route for the packet is passed over, and
the next rule is used, so that nothing fails, but packets take another way than was meant.
"""

from __future__ import annotations

from nictop.model.devices.route_lookup import RouteAnswer, RoutingTables, number_of, span_of
from nictop.model.facts.routing import is_kernel_rule, rule_text
from nictop.model.text.ip_addresses import parse_network
from nictop.probe.records import Link, PolicyRule
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import quoted_name
from nictop.rules.host import HostFacts
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.routing.facts import tables
from nictop.rules.routing.fixes import delete_rule, ip, ip_settings, own_profile, reapply
from nictop.rules.subjects import link_finding

FAMILY: Family = "addresses and routes"


@host_rule(FAMILY, "warning", needs=("addresses", "routing.routes", "routing.rules"))
def policy_rule_leads_to_an_empty_table(host: HostFacts) -> Outcomes:
    """A policy rule sends packets from an address of this host to a routing table that has no route.

    The kernel passes over an empty table and uses the next rule: the packets leave by the NIC of the main table, with
    the address of the other one, so that switches, firewalls and rp_filter on the way drop them. The kernel removes the
    routes of a table when their NIC goes down, and not every tool adds them again.

    nictop reads the rules (ip rule) and the routes of all tables. Reported: rules with an address of this host as
    source (from), whose table is empty.

    Not reported: rules for all packets or by mark, user or port, whose table VPN programs fill when they connect
    (strongSwan, Tailscale, wg-quick), the rules of the kernel, VRFs, and tables that were not read completely.

    Sources: ip-rule(8); kernel net/core/fib_rules.c fib_rules_lookup, net/ipv4/fib_frontend.c fib_sync_down_dev.
    """
    known, routing = tables(host), host.inventory.routing
    if known is None or routing is None:
        return
    for rule in routing.rules:
        if not _is_for_a_source(rule) or known.has_table(rule.family, rule.table or 0):
            continue
        link = _link_of_source(host, rule)
        if link is not None:
            yield _empty(host, link, rule, known)


def _is_for_a_source(rule: PolicyRule) -> bool:
    has_others = rule.other_selectors or rule.mark is not None or rule.inverted or rule.input_link not in ("", "lo")
    return rule.action == "table" and bool(rule.source) and not has_others and not is_kernel_rule(rule)


def _link_of_source(host: HostFacts, rule: PolicyRule) -> Link | None:
    """The link whose address is in the prefix of the rule."""
    span = span_of(rule.source)
    for link in host.links:
        for one in link.addresses:
            number = number_of(one.address) if one.scope == "global" else None
            if span is not None and number is not None and number[0] == span.family and number[1] in span:
                return link
    return None


def _empty(host: HostFacts, link: Link, rule: PolicyRule, known: RoutingTables) -> Finding:
    own = [one for one in link.addresses if one.family == rule.family and one.scope == "global"]
    answer = known.lookup(_outside(rule.family), own[0].address) if own else None
    source = rule.source.partition("/")[0] if rule.source.endswith(("/32", "/128")) else rule.source
    return link_finding(
        "warning",
        host,
        link,
        f"rule for packets from {source} leads to table {rule.table}, which is empty",
        evidence=(
            Evidence("rule", rule_text(rule), f"{' '.join(ip(rule.family))} rule"),
            Evidence(
                f"routes in table {rule.table}", "none", f"{' '.join(ip(rule.family))} route show table {rule.table}"
            ),
            *_used_instead(host, answer),
        ),
        why="The rule has no effect: these packets take the routes of the next rule, usually the main table, and may "
        "leave by another NIC.",
        fixes=_fixes(host, link, rule),
    )


def _outside(family: str) -> str:
    """An address that only a default route leads to (documentation prefixes: RFC 5737, RFC 3849)."""
    return "192.0.2.255" if family == "ipv4" else "2001:db8:ffff:ffff::1"


def _used_instead(host: HostFacts, answer: RouteAnswer | None) -> tuple[Evidence, ...]:
    by = [host.snapshot.links.get(hop.ifindex or 0) for hop in answer.hops] if answer is not None else []
    names = [link.name for link in by if link is not None]
    return (Evidence("used instead", f"default route by {', '.join(names)}", "ip route get"),) if names else ()


def _fixes(host: HostFacts, link: Link, rule: PolicyRule) -> tuple[Fix, ...]:
    remove = Fix("here", "Or remove the rule", (delete_rule(rule),), False, (delete_rule(rule, "add"),))
    profile = own_profile(host, link)
    if profile is not None and ip_settings(profile, rule.family).has_routing_rules:
        note = f"{quoted_name(profile.id)} has routing rules or a table: NetworkManager adds its routes again."
        return Fix("here", "Let NetworkManager set the routes again", (reapply(link),), True, note=note), remove
    own = [one for one in link.addresses if one.family == rule.family and one.scope == "global"]
    routes = [
        command(*ip(rule.family), "route", "add", *words, "dev", link.name, "table", str(rule.table))
        for words in _table_routes(link, rule)
    ]
    undo = [command(*ip(rule.family), "route", "flush", "table", str(rule.table))]
    note = "Let the tool that sets the address of this NIC add them, too; the kernel removes them when it goes down."
    add = Fix("here", "Add the routes to the table", tuple(routes), False, tuple(undo), note)
    return (add, remove) if own else (remove,)


def _table_routes(link: Link, rule: PolicyRule) -> list[tuple[str, ...]]:
    """The subnets of the link, and its gateway if it has one."""
    found: list[tuple[str, ...]] = []
    for one in link.addresses:
        network = parse_network(f"{one.address}/{one.prefix_length}")
        if one.family == rule.family and one.scope == "global" and network is not None:
            source = ("src", one.address) if rule.family == "ipv4" else ()
            found.append((str(network), *source))
    gateway = next((one.gateway for one in link.default_routes if one.family == rule.family and one.gateway), None)
    return [*found, ("default", "via", gateway)] if gateway else found
