"""Routes to a part of a NIC's subnet that lead to another NIC.

Reads nothing. A host route by the wrong NIC remains from a test, from a former cabling, or from a
VPN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.route_lookup import MAIN_TABLE, Span, number_of, span_of, wider
from nictop.model.facts.routing import host_address, route_text
from nictop.model.text.ip_addresses import parse_network
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, Neighbour, TableRoute
from nictop.rules.far_ends import far_ends
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import quoted_name
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.profiles.nics import is_nic
from nictop.rules.profiles.outward import NetworkPlace, is_outward
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.routes.facts import (
    has_answered,
    is_default,
    is_in_subnets,
    is_in_vrf,
    is_of_a_daemon,
    is_unanswered_now,
    is_within,
    neighbour,
    neighbour_evidence,
    neighbours,
    reason_not_to_rewrite,
    spans,
    tables,
)
from nictop.rules.routes.fixes import (
    KERNEL,
    change_route,
    ip,
    ip_settings,
    modify_routes,
    own_profile,
    reapply,
    unset_note,
)
from nictop.rules.routes.peers import (
    Peer,
    first_peer_text,
    is_in_one,
    of_each_address,
    own_subnets,
    peers,
)
from nictop.rules.subjects import link_finding

MAX_PEERS, MAX_ENTRIES = 4, 2
"""Among the evidence."""
OWN_TABLES = (253, 254, 255)
"""default, main and local."""
EVERYTHING = tuple(
    span for prefix in ("0.0.0.0/0", "::/0") if (span := span_of(prefix)) is not None
)


@dataclass(frozen=True)
class Diverted:
    """A route to a part of the subnet of a NIC by another NIC."""

    place: NetworkPlace
    """The NIC with the subnet."""
    route: TableRoute
    by: Link


@once_per_host
def diverted(host: HostFacts) -> tuple[Diverted, ...]:
    """Routes of the table main; not those of routing daemons, and none by a NIC that has an address
    there as well."""
    known = tables(host)
    if known is None or not known.is_complete:
        return ()
    main = [route for route in known.routes if route.table == MAIN_TABLE and _is_chosen(route)]
    return tuple(_diverted(host, main)) if main else ()


def _is_chosen(route: TableRoute) -> bool:
    """Somebody added it: not the kernel for an address, nor a routing daemon; a default route is in
    no subnet."""
    if route.protocol == KERNEL or route.type != "unicast" or is_default(route):
        return False
    return not is_of_a_daemon(route)


def _diverted(host: HostFacts, routes: list[TableRoute]) -> Iterator[Diverted]:
    subnets = {span for link in host.links for span in spans(link)}
    lengths = {(span.family, span.length) for span in subnets}
    for route in routes:
        inner = span_of(route.destination)
        if inner is None:
            continue
        for family, length in lengths:
            if inner.family != family or inner.length <= length:
                continue
            subnet = wider(inner, length)
            if subnet in subnets:
                yield from _diverted_from(host, subnet, route)


def _diverted_from(host: HostFacts, subnet: Span, route: TableRoute) -> Iterator[Diverted]:
    """By the route to a part of the subnet."""
    for span, place in own_subnets(host):
        by = _other_nic(host, place, route) if span == subnet else None
        if by is not None:
            yield Diverted(place, route, by)


def _other_nic(host: HostFacts, place: NetworkPlace, route: TableRoute) -> Link | None:
    """The NIC of the route, if it is another one and not in this part of the subnet."""
    by = host.link_at(route.ifindex)
    if by is None or by.ifindex == place.link.ifindex:
        return None
    if is_in_subnets(by, route.destination.partition("/")[0]):
        return None
    if not is_nic_or_above(host, by) or not is_nic_or_above(host, place.link):
        return None
    return by


def is_nic_or_above(host: HostFacts, link: Link) -> bool:
    """A NIC, or a bond, bridge or VLAN above one, or a veth of this namespace with a subnet of its
    own; not tunnels, taps and links of containers."""
    if is_nic(host, link):
        return True
    if link.kind == "veth":
        return any(place.link.ifindex == link.ifindex for _, place in own_subnets(host))
    return is_outward(host, link)


@host_rule(
    "warning",
    yields_to=(
        "two_links_in_one_subnet",
        "rp_filter_drops_its_subnet",
        "watched_host_is_routed_by_another_nic",
    ),
    needs=("addresses", "routing.routes", "routing.rules", "routing.neighbours"),
)
def part_of_a_subnet_is_routed_by_another_nic(host: HostFacts) -> Outcomes:
    """A route sends packets to a part of a NIC's subnet to another NIC, which has no address there.

    The narrower route is preferred. It may remain from a test or from a former cabling.

    nictop compares the routes of the table main with the subnets of the NICs. Warning: an address
    behind it was asked for on that NIC in the last five minutes, and did not answer. Info:
    otherwise, and with a gateway on that NIC.

    Not reported: routes that the kernel added for an address, routes of routing daemons, by
    tunnels, taps or veths without a subnet of their own, which lead to containers, by a NIC that
    has an address in this subnet as well, by which an address of it has answered, and tables that
    were not read completely.

    Sources: ip-route(8); kernel net/ipv4/fib_trie.c (longest prefix).
    """
    for part in diverted(host):
        entries = _asked_entries(host, part)
        if not any(map(has_answered, entries)):
            yield _part_finding(host, part, entries)


def _targets(host: HostFacts, part: Diverted) -> list[str]:
    """Addresses to be asked for on the other NIC."""
    if part.route.gateway is not None:
        return [part.route.gateway]
    span = span_of(part.route.destination)
    if span is None:
        return []
    found = []
    for address in neighbours(host).get(part.by.ifindex, {}):
        number = number_of(address)
        if number is not None and is_within(number, span):
            found.append(address)
    return found


def _asked_entries(host: HostFacts, part: Diverted) -> list[Neighbour]:
    """What the neighbour table of the other NIC has of them."""
    entries = [neighbour(host, part.by, address) for address in _targets(host, part)]
    return [entry for entry in entries if entry is not None]


def _part_finding(host: HostFacts, part: Diverted, entries: Sequence[Neighbour]) -> Finding:
    link, route = part.place.link, part.route
    severity: Severity = "info"
    why = f"Packets to it leave by {part.by.name}, although {link.name} is in its subnet."
    if any(map(is_unanswered_now, entries)):
        severity = "warning"
        why = f"Packets to it leave by {part.by.name}, where nobody answers."
    return link_finding(
        severity,
        host,
        link,
        f"{host_address(route.destination)} of its subnet is routed by {part.by.name}",
        evidence=(
            Evidence("subnet", part.place.written, f"ip address show dev {link.name}"),
            _route_evidence(part),
            *_entry_evidence(host, part, entries),
        ),
        why=why,
        fixes=_fixes(host, part),
    )


def _entry_evidence(
    host: HostFacts, part: Diverted, entries: Sequence[Neighbour]
) -> list[Evidence]:
    return [neighbour_evidence(host, part.by, entry) for entry in entries[:MAX_ENTRIES]]


@pair_rule(
    "critical",
    yields_to=(
        "two_links_in_one_subnet",
        "route_refuses_a_watched_host",
        "link_is_in_the_network_of_another",
    ),
    needs=("addresses", "routing.routes", "routing.rules", "routing.neighbours"),
)
def watched_host_is_routed_by_another_nic(hosts: Sequence[HostFacts]) -> Outcomes:
    """Packets to a watched host in the subnet of a NIC leave by another NIC.

    nictop looks up the address of the other host in all routing tables as the kernel does, in the
    order of the rules, and finds a route by another NIC, which has no address in this subnet.
    Critical: the other host does not answer there. Warning: not known whether it does, or it
    answers by another NIC of its own, as Linux does for an address of any of its NICs. A route to a
    direct cable may be intended.

    Not reported: routes of routing daemons, and by tunnels, taps or veths without a subnet of their
    own or with this host at the other end, tables that were
    not read completely, and two NICs in one subnet, which have a check of their own.

    Sources: ip-route(8); kernel net/core/fib_rules.c fib_rules_lookup, net/ipv4/fib_trie.c.
    """
    if len(hosts) < 2:
        return
    for host in hosts:
        spans_to_ask = _spans_to_ask(host)

        def may_be_diverted(
            _: NetworkPlace, place: NetworkPlace, spans: tuple[Span, ...] = spans_to_ask
        ) -> bool:
            return is_in_one(place, spans)

        found: dict[tuple[int, TableRoute], tuple[Diverted, list[Peer]]] = {}
        for peer in peers(host, hosts, may_be_diverted):
            part = _diverted_peer(host, peer, tuple(hosts))
            if part is not None:
                key = part.place.link.ifindex, part.route
                _, routed = found.setdefault(key, (part, []))
                routed.append(peer)
        for part, routed in found.values():
            yield _routed_finding(host, part, list(of_each_address(routed)))


def _spans_to_ask(host: HostFacts) -> tuple[Span, ...]:
    """Where a look-up may lead to another NIC: the diverted parts, and everything if rules select
    further tables."""
    known = tables(host)
    if known is None:
        return ()
    for rule in known.rules:
        if rule.action == "table" and rule.table not in OWN_TABLES:
            return EVERYTHING
    parts = {span_of(part.route.destination) for part in diverted(host)}
    return tuple(span for span in parts if span is not None)


def _diverted_peer(host: HostFacts, peer: Peer, hosts: tuple[HostFacts, ...]) -> Diverted | None:
    """The route to the peer, if it leads to another NIC."""
    known, place, address = tables(host), peer.own, peer.other.address.address
    if known is None or is_in_vrf(host, place.link) or not is_nic_or_above(host, place.link):
        return None
    answer = known.lookup(address, place.address.address)
    if answer is None or len(answer.hops) != 1 or answer.is_refused:
        return None
    route = answer.hops[0]
    if route.protocol == KERNEL or is_of_a_daemon(route):
        return None  # it is meant to be so
    by = host.link_at(route.ifindex)
    if by is None or by.ifindex == place.link.ifindex or is_in_subnets(by, address):
        return None
    far = far_ends(hosts).get((host.name, by.ifindex))
    if far is not None and far.host is peer.other.host:
        return None  # a veth to this very host
    return Diverted(place, route, by) if is_nic_or_above(host, by) else None


def _routed_finding(host: HostFacts, part: Diverted, routed: list[Peer]) -> Finding:
    link, by = part.place.link, part.by
    entries = _asked_entries(host, part)
    severity: Severity = "warning"
    effect = f"and measurements of {link.name} show the wrong NIC."
    if any(map(is_unanswered_now, entries)):
        severity = "critical"
        effect = "where it does not answer."
    verb = "is" if len(routed) == 1 else "are"
    evidence = []
    for peer in routed[:MAX_PEERS]:
        evidence.append(Evidence("in its subnet", peer.named, f"ip address ({peer.own.written})"))
    return link_finding(
        severity,
        host,
        link,
        f"{first_peer_text(routed)} {verb} routed by {by.name}",
        evidence=(*evidence, _route_evidence(part), *_entry_evidence(host, part, entries)),
        why=f"This route is preferred to the subnet of {link.name}: packets to it leave by "
        f"{by.name}, {effect}",
        fixes=_fixes(host, part),
        item=part.route.destination,
    )


def _route_evidence(part: Diverted) -> Evidence:
    return Evidence("route", f"{route_text(part.route)} dev {part.by.name}", "ip route")


def _fixes(host: HostFacts, part: Diverted) -> tuple[Fix, ...]:
    route, by = part.route, part.by
    if route.table not in OWN_TABLES:
        return (_subnet_in_table(part),)
    profile = own_profile(host, by)
    stored = _stored_route(host, part)
    if profile is not None and stored:
        remove = modify_routes(host, profile, "-", route.family, stored)
        back = modify_routes(host, profile, "+", route.family, stored)
        title = f"Remove the route from profile {quoted_name(profile.id)}"
        return (Fix("here", title, (remove, reapply(by)), True, (back, reapply(by))),)
    reason = reason_not_to_rewrite(host, route)
    if reason:
        return (Fix("here", "Remove the route where it is set", (), True, note=reason),)
    delete, add = change_route("del", route, by), change_route("add", route, by)
    now = Fix("here", "Remove the route", (delete,), False, (add,), unset_note(host, (route,)))
    places = [entry.file for entry in host.configuration.addressing(by)]
    note = f"Look in {places[0] if places else 'scripts and units that run ip route'}."
    return now, Fix("here", "Remove it where it is stored", (), True, note=note)


def _subnet_in_table(part: Diverted) -> Fix:
    """The table of a policy rule may be right for other destinations: its routes remain."""
    network = parse_network(part.place.written)
    words = (str(network), "dev", part.place.link.name, "table", str(part.route.table))
    add = command(*ip(part.route.family), "route", "add", *words)
    delete = command(*ip(part.route.family), "route", "del", *words)
    note = "Until the NIC is configured again: let the tool that fills this table add it, too."
    return Fix("here", "Add the subnet to the table", (add,), False, (delete,), note)


def _stored_route(host: HostFacts, part: Diverted) -> str:
    """The route as the profile has it; "": it has not."""
    profile = own_profile(host, part.by)
    if profile is None:
        return ""
    route = part.route
    for written in ip_settings(profile, route.family).routes:
        prefix, _, gateway = written.partition(" via ")
        if prefix == route.destination and (gateway or None) == route.gateway:
            return written.replace(" via ", " ")
    return ""
