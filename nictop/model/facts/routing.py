"""Neighbours of a link; of the host its name servers, routes that refuse packets, and policy rules.

Reads nothing; returns facts of unsanitized text.
"""

from __future__ import annotations

from collections import Counter

from nictop.model.facts.sections import Fact, Section, section
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import absence_reason
from nictop.probe.records import Link, PolicyRule, Routing, TableRoute

MAX_LISTED = 4
UNANSWERED_STATES = ("failed", "incomplete")
KERNEL_RULES = ((0, 255), (32766, 254), (32767, 253))
"""(priority, table) of the rules for the tables local, main and default."""
MAIN_TABLE = 254
TABLE_NAMES = {255: "local", MAIN_TABLE: "main", 253: "default"}


def neighbour_facts(link: Link, snapshot: Snapshot) -> list[Fact]:
    """Numbers by state, and the addresses that did not answer."""
    routing = _routing(snapshot)
    if routing is None:
        return []
    own = [one for one in routing.neighbours if one.ifindex == link.ifindex]
    if not own:
        return []
    counts = Counter(one.nud_state for one in own)
    facts = [Fact("Neighbours", ", ".join(f"{number} {state}" for state, number in sorted(counts.items())))]
    silent = [one.address for one in own if one.nud_state in UNANSWERED_STATES]
    if silent:
        more = f" and {len(silent) - MAX_LISTED} more" if len(silent) > MAX_LISTED else ""
        facts.append(Fact("No answer from", ", ".join(silent[:MAX_LISTED]) + more))
    return facts


def expiry_text(link: Link, snapshot: Snapshot) -> str:
    """``expires in 1790 s``: the IPv6 default route of the link; "": it does not end, or is not known."""
    routing = _routing(snapshot)
    ends = [
        one.expires
        for one in (routing.routes if routing is not None else ())
        if one.destination == "::/0" and one.ifindex == link.ifindex and one.expires is not None
    ]
    return f"expires in {min(ends):.0f} s" if ends else ""


def routing_section(snapshot: Snapshot) -> tuple[Section, ...]:
    """Of the whole host."""
    routing = _routing(snapshot)
    if routing is None:
        return ()
    facts = []
    if routing.name_servers:
        facts.append(Fact("Name servers", ", ".join(routing.name_servers)))
    refusing = [one for one in routing.routes if one.type != "unicast"]
    facts += [Fact("Refusing route", route_text(one)) for one in refusing[:MAX_LISTED]]
    rules = [one for one in routing.rules if not is_kernel_rule(one)]
    facts += [Fact("Policy rule", rule_text(one)) for one in rules[:MAX_LISTED]]
    for name, listed in (("routes", refusing), ("rules", rules)):
        if len(listed) > MAX_LISTED:
            facts.append(Fact(f"Further {name}", str(len(listed) - MAX_LISTED), "dim"))
    facts += [Fact("Not readable", f"{name}: {absence_reason(why, None)}") for name, why in routing.unreadable.items()]
    return section("Routing", facts) if facts else ()


def route_text(route: TableRoute) -> str:
    """``unreachable 192.0.2.0/24``, as ip-route(8) prints it."""
    words = [] if route.type == "unicast" else [route.type]
    words.append("default" if route.destination.endswith("/0") else route.destination)
    if route.gateway is not None:
        words += ["via", route.gateway]
    if route.table != MAIN_TABLE:
        words += ["table", table_name(route.table)]
    if route.metric:
        words += ["metric", str(route.metric)]
    return " ".join(words)


def rule_text(rule: PolicyRule) -> str:
    """``1000: from 192.0.2.7 lookup 1000``, as ip-rule(8) prints it."""
    words = [f"{rule.priority}:", *(["not"] if rule.inverted else []), "from", host_address(rule.source) or "all"]
    if rule.destination:
        words += ["to", host_address(rule.destination)]
    if rule.mark is not None:
        words += ["fwmark", f"{rule.mark:#x}"]
    for name, value in (("iif", rule.input_link), ("oif", rule.output_link)):
        words += [name, value] if value else []
    words += rule.other_selectors
    if rule.action == "table":
        words += ["lookup", table_name(rule.table or 0)]
    else:
        words += [rule.action, *([str(rule.target)] if rule.target is not None else [])]
    return " ".join(words)


def table_name(number: int) -> str:
    return TABLE_NAMES.get(number, str(number))


def host_address(prefix: str) -> str:
    """``192.0.2.7`` of ``192.0.2.7/32``; other prefixes as they are."""
    address, _, length = prefix.partition("/")
    return address if length == ("128" if ":" in address else "32") else prefix


def is_kernel_rule(rule: PolicyRule) -> bool:
    """One of those that each kernel starts with (fib_default_rules_init)."""
    is_for_all = not (rule.source or rule.destination or rule.input_link or rule.output_link or rule.other_selectors)
    is_plain = is_for_all and rule.mark is None and not rule.inverted and rule.suppressed_length is None
    return is_plain and rule.action == "table" and (rule.priority, rule.table) in KERNEL_RULES


def _routing(snapshot: Snapshot) -> Routing | None:
    return snapshot.inventory.routing if snapshot.inventory is not None else None
