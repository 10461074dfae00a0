"""Policy rules that select a routing table without routes.

Reads nothing. Kernel net/core/fib_rules.c fib_rules_lookup: a table without a route for the packet
is passed over, and the next rule is used, so that nothing fails, but packets take another way than
was meant.
"""

from __future__ import annotations

from nictop.model.devices.links import global_addresses
from nictop.model.devices.route_lookup import RoutingTables, number_of, span_of
from nictop.model.facts.routing import is_kernel_rule, rule_text
from nictop.model.text.ip_addresses import address_network
from nictop.probe.records import Link, PolicyRule
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import quoted_name
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.routes.facts import is_within, tables
from nictop.rules.routes.fixes import delete_rule, ip, ip_settings, own_profile, reapply
from nictop.rules.subjects import link_finding


@host_rule("warning", needs=("addresses", "routing.routes", "routing.rules"))
def policy_rule_leads_to_an_empty_table(host: HostFacts) -> Outcomes:
    """A policy rule sends packets from an address of this host to a routing table that has no
    route.

    The kernel passes over an empty table and uses the next rule: the packets usually leave by the
    NIC of the main table, with the address of the other one, and firewalls, clouds and rp_filter on
    the way may drop them. The kernel removes the routes of a table when their NIC goes down, and
    not every tool adds them again.

    nictop reads the rules (ip rule) and the routes of all tables. Reported: rules with an address
    of this host as source (from), whose table is empty.

    Not reported: rules for all packets or by mark, user or port, whose table VPN programs fill when
    they connect (strongSwan, Tailscale, wg-quick), the rules of the kernel, VRFs, and tables that
    were not read completely.

    Sources: ip-rule(8); kernel net/core/fib_rules.c fib_rules_lookup, net/ipv4/fib_frontend.c
    fib_sync_down_dev.
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
    """It selects a table by the source address alone, and somebody added it."""
    if rule.action != "table" or not rule.source or is_kernel_rule(rule):
        return False
    if rule.other_selectors or rule.mark is not None or rule.inverted:
        return False
    return rule.input_link in ("", "lo")


def _link_of_source(host: HostFacts, rule: PolicyRule) -> Link | None:
    """The link whose address is in the prefix of the rule."""
    span = span_of(rule.source)
    if span is None:
        return None
    for link in host.links:
        for address in link.addresses:
            number = number_of(address.address)
            if number is None or address.scope != "global":
                continue
            if is_within(number, span):
                return link
    return None


def _empty(host: HostFacts, link: Link, rule: PolicyRule, known: RoutingTables) -> Finding:
    source = rule.source
    if source.endswith(("/32", "/128")):
        source = source.partition("/")[0]
    ip_command = " ".join(ip(rule.family))
    show = f"{ip_command} route show table {rule.table}"
    own = _own_address(link, rule)
    return link_finding(
        "warning",
        host,
        link,
        f"rule for packets from {source} leads to table {rule.table}, which is empty",
        evidence=(
            Evidence("rule", rule_text(rule), f"{ip_command} rule"),
            Evidence(f"routes in table {rule.table}", "none", show),
            *_used_instead(host, rule, own, known),
        ),
        why="The rule has no effect: these packets take the routes of the next rule, usually the "
        "main table, and may leave by another NIC.",
        fixes=_fixes(host, link, rule),
    )


def _outside(family: str) -> str:
    """An address that only a default route leads to (documentation prefixes: RFC 5737, RFC
    3849)."""
    return "192.0.2.255" if family == "ipv4" else "2001:db8:ffff:ffff::1"


def _own_address(link: Link, rule: PolicyRule) -> str | None:
    """That of the link for which the rule is."""
    span = span_of(rule.source)
    for own in global_addresses(link, rule.family):
        number = number_of(own.address)
        if span is not None and number is not None and is_within(number, span):
            return own.address
    return None


def _used_instead(
    host: HostFacts, rule: PolicyRule, source: str | None, known: RoutingTables
) -> tuple[Evidence, ...]:
    if source is None:
        return ()
    destination = _outside(rule.family)
    answer = known.lookup(destination, source)
    names = []
    for hop in answer.hops if answer is not None else ():
        link = host.link_at(hop.ifindex)
        if link is not None:
            names.append(link.name)
    if not names:
        return ()
    shown_by = f"ip route get {destination} from {source}"
    return (Evidence("used instead", f"default route by {', '.join(names)}", shown_by),)


def _fixes(host: HostFacts, link: Link, rule: PolicyRule) -> tuple[Fix, ...]:
    remove = Fix(
        "here", "Or remove the rule", (delete_rule(rule),), False, (delete_rule(rule, "add"),)
    )
    profile = own_profile(host, link)
    if profile is not None and ip_settings(profile, rule.family).has_routing_rules:
        title = "Let NetworkManager set the routes again"
        note = (
            f"{quoted_name(profile.id)} has routing rules or a table: NetworkManager adds its "
            f"routes again."
        )
        return Fix("here", title, (reapply(link),), None, note=note), remove
    if not global_addresses(link, rule.family):
        return (remove,)
    return _add_routes_fix(link, rule), remove


def _add_routes_fix(link: Link, rule: PolicyRule) -> Fix:
    route, table = (*ip(rule.family), "route"), ("table", str(rule.table))
    add = []
    for words in _table_routes(link, rule):
        add.append(command(*route, "add", *words, "dev", link.name, *table))
    undo = command(*route, "flush", *table)
    note = (
        "Let the tool that sets the address of this NIC add them, too; the kernel removes them "
        "when it goes down."
    )
    return Fix("here", "Add the routes to the table", tuple(add), False, (undo,), note)


def _table_routes(link: Link, rule: PolicyRule) -> list[tuple[str, ...]]:
    """The subnets of the link, and its gateway if it has one."""
    found: list[tuple[str, ...]] = []
    for address in global_addresses(link, rule.family):
        network = address_network(address)
        if network is not None:
            source = ("src", address.address) if rule.family == "ipv4" else ()
            found.append((str(network), *source))
    for route in link.default_routes:
        if route.family == rule.family and route.gateway:
            return [*found, ("default", "via", route.gateway)]
    return found
