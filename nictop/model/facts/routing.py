"""Neighbours of a link; of the host its name servers, routes that refuse packets, and policy rules.

Reads nothing; returns facts of unsanitized text.
"""

from __future__ import annotations

from collections import Counter

from nictop.model.facts.sections import Fact, Section, section
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import absence_reason
from nictop.model.time_axis import event_time_text
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
    own = [neighbour for neighbour in routing.neighbours if neighbour.ifindex == link.ifindex]
    if not own:
        return []
    counts = Counter(neighbour.nud_state for neighbour in own)
    numbers = [f"{number} {state}" for state, number in sorted(counts.items())]
    facts = [Fact("Neighbours", ", ".join(numbers))]
    silent = [neighbour.address for neighbour in own if neighbour.nud_state in UNANSWERED_STATES]
    if silent:
        text = ", ".join(silent[:MAX_LISTED])
        if len(silent) > MAX_LISTED:
            text += f" and {len(silent) - MAX_LISTED} more"
        facts.append(Fact("No answer from", text))
    return facts


def expiry_text(link: Link, snapshot: Snapshot) -> str:
    """``expires 2026-11-21 08:31:30 UTC unless renewed``: the IPv6 default route of the link; "":
    it does not end, or is not known."""
    routing = _routing(snapshot)
    if routing is None:
        return ""
    ends = []
    for route in routing.routes:
        is_default = route.destination == "::/0" and route.ifindex == link.ifindex
        if is_default and route.expires is not None:
            ends.append(route.expires)
    inventory = snapshot.inventory
    if not ends or inventory is None:
        return ""
    end = event_time_text(inventory, inventory.time + min(ends))
    return f"expires {end} unless renewed"


ROUTING = "Routing"


def routing_section(snapshot: Snapshot, max_listed: int | None = MAX_LISTED) -> tuple[Section, ...]:
    """Of the whole host. `max_listed`: routes that refuse packets, and rules; None: all."""
    routing = _routing(snapshot)
    if routing is None:
        return ()
    facts = []
    if routing.name_servers:
        facts.append(Fact("Name servers", ", ".join(routing.name_servers)))
    refusing = [route for route in routing.routes if route.type != "unicast"]
    facts += [Fact("Refusing route", route_text(route)) for route in refusing[:max_listed]]
    rules = [rule for rule in routing.rules if not is_kernel_rule(rule)]
    facts += [Fact("Policy rule", rule_text(rule)) for rule in rules[:max_listed]]
    for name, number in (("routes", len(refusing)), ("rules", len(rules))):
        if max_listed is not None and number > max_listed:
            facts.append(Fact(f"Further {name}", str(number - max_listed), "dim"))
    for name, why in routing.unreadable.items():
        facts.append(Fact("Not readable", f"{name}: {absence_reason(why, None)}"))
    return section(ROUTING, facts)


def route_text(route: TableRoute) -> str:
    """``unreachable 192.0.2.0/24``, as ip-route(8) prints it."""
    words = []
    if route.type != "unicast":
        words.append(route.type)
    words.append("default" if route.destination.endswith("/0") else route.destination)
    if route.source:
        words += ["from", route.source]
    if route.gateway is not None:
        words += ["via", route.gateway]
    if route.table != MAIN_TABLE:
        words += ["table", table_name(route.table)]
    if route.metric:
        words += ["metric", str(route.metric)]
    return " ".join(words)


def rule_text(rule: PolicyRule) -> str:
    """``1000: from 192.0.2.7 lookup 1000``, as ip-rule(8) prints it."""
    words = [f"{rule.priority}:"]
    if rule.inverted:
        words.append("not")
    words += ["from", host_address(rule.source) or "all"]
    if rule.destination:
        words += ["to", host_address(rule.destination)]
    if rule.mark is not None:
        words += ["fwmark", f"{rule.mark:#x}"]
    if rule.input_link:
        words += ["iif", rule.input_link]
    if rule.output_link:
        words += ["oif", rule.output_link]
    words += rule.other_selectors
    if rule.action == "table":
        words += ["lookup", table_name(rule.table or 0)]
    else:
        words.append(rule.action)
        if rule.target is not None:
            words.append(str(rule.target))
    return " ".join(words)


def table_name(number: int) -> str:
    return TABLE_NAMES.get(number, str(number))


def host_address(prefix: str) -> str:
    """``192.0.2.7`` of ``192.0.2.7/32``; other prefixes as they are."""
    address, _, length = prefix.partition("/")
    whole_length = "128" if ":" in address else "32"
    if length == whole_length:
        return address
    return prefix


def is_kernel_rule(rule: PolicyRule) -> bool:
    """One of those that each kernel starts with (fib_default_rules_init)."""
    selectors = (
        rule.source,
        rule.destination,
        rule.input_link,
        rule.output_link,
        rule.other_selectors,
        rule.inverted,
    )
    if any(selectors) or rule.mark is not None or rule.suppressed_length is not None:
        return False
    return rule.action == "table" and (rule.priority, rule.table) in KERNEL_RULES


def _routing(snapshot: Snapshot) -> Routing | None:
    if snapshot.inventory is None:
        return None
    return snapshot.inventory.routing
