"""Routes to a part of a NIC's subnet that lead to another NIC.

Reads nothing. A host route by the wrong NIC remains from a test, from a former cabling, or from a VPN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nictop.model.devices.route_lookup import MAIN_TABLE, Span, number_of, span_of, wider
from nictop.model.facts.routing import host_address, route_text
from nictop.model.text.ip_addresses import parse_network
from nictop.probe.records import Link, TableRoute
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import quoted_name
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.profiles.nics import is_nic
from nictop.rules.profiles.outward import NetworkPlace, is_outward
from nictop.rules.registry import Family, Outcomes, host_rule, pair_rule
from nictop.rules.routing.facts import (
    has_answered,
    is_default,
    is_in_subnets,
    is_in_vrf,
    is_of_a_daemon,
    is_recent,
    is_unanswered,
    neighbour,
    neighbour_evidence,
    neighbours,
    reason_not_to_rewrite,
    spans,
    tables,
)
from nictop.rules.routing.fixes import KERNEL, change_route, ip, ip_settings, modify_routes, own_profile, reapply
from nictop.rules.routing.peers import Peer, is_in_one, own_subnets, peers
from nictop.rules.subjects import link_finding

FAMILY: Family = "addresses and routes"
MAX_PEERS = 4
OWN_TABLES = (253, 254, 255)
"""default, main and local."""
EVERYTHING = tuple(span for prefix in ("0.0.0.0/0", "::/0") if (span := span_of(prefix)) is not None)


@dataclass(frozen=True)
class Diverted:
    """A route to a part of the subnet of a NIC by another NIC."""

    place: NetworkPlace
    """The NIC with the subnet."""
    route: TableRoute
    by: Link


@once_per_host
def diverted(host: HostFacts) -> tuple[Diverted, ...]:
    """Routes of the table main; not those of routing daemons, and none by a NIC that has an address there as well."""
    known = tables(host)
    if known is None or not known.is_complete:
        return ()
    main = [one for one in known.routes if one.table == MAIN_TABLE and _is_chosen(one)]
    return tuple(_diverted(host, main)) if main else ()


def _is_chosen(route: TableRoute) -> bool:
    """Somebody added it: not the kernel for an address, nor a routing daemon; a default route is in no subnet."""
    if route.protocol == KERNEL or route.type != "unicast" or is_default(route):
        return False
    return not is_of_a_daemon(route)


def _diverted(host: HostFacts, routes: list[TableRoute]) -> Iterator[Diverted]:
    inside = [(inner, route) for route in routes if (inner := span_of(route.destination)) is not None]
    subnets = {span for link in host.links for span in spans(link)}
    lengths = {(span.family, span.length) for span in subnets}
    for inner, route in inside:
        for family, length in lengths:
            if inner.family != family or inner.length <= length or wider(inner, length) not in subnets:
                continue
            for span, place in own_subnets(host):
                by = _other_nic(host, place, route) if span == wider(inner, length) else None
                if by is not None:
                    yield Diverted(place, route, by)


def _other_nic(host: HostFacts, place: NetworkPlace, route: TableRoute) -> Link | None:
    """The NIC of the route, if it is another one and not in this part of the subnet."""
    by = host.snapshot.links.get(route.ifindex) if route.ifindex is not None else None
    if by is None or by.ifindex == place.link.ifindex or is_in_subnets(by, route.destination.partition("/")[0]):
        return None
    return by if is_nic_or_above(host, by) and is_nic_or_above(host, place.link) else None


def is_nic_or_above(host: HostFacts, link: Link) -> bool:
    """A NIC, or a bond, bridge or VLAN above one; not tunnels, taps and links of containers."""
    return is_nic(host, link) or (link.kind != "veth" and is_outward(host, link))


@host_rule(
    FAMILY,
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

    nictop compares the routes of the table main with the subnets of the NICs. Warning: an address behind it was asked
    for on that NIC in the last five minutes, and did not answer. Info: otherwise, and with a gateway on that NIC.

    Not reported: routes that the kernel added for an address, routes of routing daemons, by tunnels, taps or
    containers, by a NIC that has an address in this subnet as well, by which an address of it has answered, and tables
    that were not read completely.

    Sources: ip-route(8); kernel net/ipv4/fib_trie.c (longest prefix).
    """
    for one in diverted(host):
        if not _has_answered(host, one):
            yield _part_finding(host, one, is_silent=_is_silent(host, one))


def _targets(host: HostFacts, one: Diverted) -> list[str]:
    """Addresses to be asked for on the other NIC."""
    if one.route.gateway is not None:
        return [one.route.gateway]
    span = span_of(one.route.destination)
    found = []
    for address in neighbours(host).get(one.by.ifindex, {}):
        number = number_of(address)
        if span is not None and number is not None and number[0] == span.family and number[1] in span:
            found.append(address)
    return found


def _has_answered(host: HostFacts, one: Diverted) -> bool:
    return any(has_answered(neighbour(host, one.by, address)) for address in _targets(host, one))


def _is_silent(host: HostFacts, one: Diverted) -> bool:
    entries = [neighbour(host, one.by, address) for address in _targets(host, one)]
    return any(is_unanswered(entry) and entry is not None and is_recent(entry) for entry in entries)


def _part_finding(host: HostFacts, one: Diverted, *, is_silent: bool) -> Finding:
    link, route = one.place.link, one.route
    entries = [neighbour(host, one.by, address) for address in _targets(host, one)]
    return link_finding(
        "warning" if is_silent else "info",
        host,
        link,
        f"{host_address(route.destination)} of its subnet is routed by {one.by.name}",
        evidence=(
            Evidence("subnet", one.place.written, f"ip address show dev {link.name}"),
            _route_evidence(one),
            *(neighbour_evidence(one.by, entry) for entry in entries[:2] if entry is not None),
        ),
        why=f"Packets to it leave by {one.by.name}, where nobody answers."
        if is_silent
        else f"Packets to it leave by {one.by.name}, although {link.name} is in its subnet.",
        fixes=_fixes(host, one),
    )


@pair_rule(
    FAMILY,
    "critical",
    yields_to=("two_links_in_one_subnet", "route_refuses_a_watched_host", "link_is_in_the_network_of_another"),
    needs=("addresses", "routing.routes", "routing.rules", "routing.neighbours"),
)
def watched_host_is_routed_by_another_nic(hosts: Sequence[HostFacts]) -> Outcomes:
    """Packets to a watched host in the subnet of a NIC leave by another NIC.

    nictop looks up the address of the other host in all routing tables as the kernel does, in the order of the rules,
    and finds a route by another NIC, which has no address in this subnet. Critical: the other host does not answer
    there. Warning: not known whether it does, or it answers by another NIC of its own, as Linux does for an address of
    any of its NICs. A route to a direct cable may be intended.

    Not reported: routes of routing daemons, and by tunnels, taps or containers, tables that were not read completely,
    and two NICs in one subnet, which have a check of their own.

    Sources: ip-route(8); kernel net/core/fib_rules.c fib_rules_lookup, net/ipv4/fib_trie.c.
    """
    for host in hosts if len(hosts) > 1 else ():
        spans_to_ask = _spans_to_ask(host)
        found: dict[tuple[int, TableRoute], tuple[Diverted, list[Peer]]] = {}
        for peer in peers(host, hosts, lambda _, place, spans=spans_to_ask: is_in_one(place, spans)):  # type: ignore[misc]
            one = _diverted_peer(host, peer)
            if one is not None:
                found.setdefault((one.place.link.ifindex, one.route), (one, []))[1].append(peer)
        for one, routed in found.values():
            yield _routed_finding(host, one, routed)


def _spans_to_ask(host: HostFacts) -> tuple[Span, ...]:
    """Where a look-up may lead to another NIC: the diverted parts, and everything if rules select further tables."""
    known = tables(host)
    if known is None:
        return ()
    if any(one.action == "table" and one.table not in OWN_TABLES for one in known.rules):
        return EVERYTHING
    return tuple({span for one in diverted(host) if (span := span_of(one.route.destination)) is not None})


def _diverted_peer(host: HostFacts, peer: Peer) -> Diverted | None:
    """The route to the peer, if it leads to another NIC."""
    known, place = tables(host), peer.own
    if known is None or is_in_vrf(host, place.link) or not is_nic_or_above(host, place.link):
        return None
    answer = known.lookup(peer.other.address.address, place.address.address)
    if answer is None or len(answer.hops) != 1 or answer.is_refused:
        return None
    route = answer.hops[0]
    by = host.snapshot.links.get(route.ifindex) if route.ifindex is not None else None
    is_meant = route.protocol == KERNEL or is_of_a_daemon(route)
    if by is None or by.ifindex == place.link.ifindex or is_meant or not is_nic_or_above(host, by):
        return None
    return None if is_in_subnets(by, peer.other.address.address) else Diverted(place, route, by)


def _routed_finding(host: HostFacts, one: Diverted, routed: list[Peer]) -> Finding:
    link, first = one.place.link, routed[0]
    more = f" and {len(routed) - 1} more" if len(routed) > 1 else ""
    is_silent = _is_silent(host, one)
    entries = [neighbour(host, one.by, address) for address in _targets(host, one)]
    return link_finding(
        "critical" if is_silent else "warning",
        host,
        link,
        f"{first.other.host.name} ({first.other.address.address}){more} is routed by {one.by.name}",
        evidence=(
            *(Evidence("in its subnet", peer.named, f"ip address ({peer.own.written})") for peer in routed[:MAX_PEERS]),
            _route_evidence(one),
            *(neighbour_evidence(one.by, entry) for entry in entries[:2] if entry is not None),
        ),
        why=f"This route is preferred to the subnet of {link.name}: packets to it leave by {one.by.name}, "
        + ("where it does not answer." if is_silent else f"and measurements of {link.name} show the wrong NIC."),
        fixes=_fixes(host, one),
    )


def _route_evidence(one: Diverted) -> Evidence:
    return Evidence("route", f"{route_text(one.route)} dev {one.by.name}", "ip route")


def _fixes(host: HostFacts, one: Diverted) -> tuple[Fix, ...]:
    route, by = one.route, one.by
    if route.table not in OWN_TABLES:
        return (_subnet_in_table(one),)
    profile = own_profile(host, by)
    stored = _stored_route(host, one)
    if profile is not None and stored:
        remove, back = (modify_routes(host, profile, sign, route.family, stored) for sign in "-+")
        title = f"Remove the route from profile {quoted_name(profile.id)}"
        return (Fix("here", title, (remove, reapply(by)), True, (back, reapply(by))),)
    reason = reason_not_to_rewrite(host, route)
    if reason:
        return (Fix("here", "Remove the route where it is set", (), True, note=reason),)
    now = Fix("here", "Remove the route", (change_route("del", route, by),), False, (change_route("add", route, by),))
    places = [entry.file for entry in host.configuration.addressing(by)]
    note = f"Look in {places[0] if places else 'scripts and units that run ip route'}."
    return now, Fix("here", "Remove it where it is stored", (), True, note=note)


def _subnet_in_table(one: Diverted) -> Fix:
    """The table of a policy rule may be right for other destinations: its routes remain."""
    network = parse_network(one.place.written)
    words = (str(network), "dev", one.place.link.name, "table", str(one.route.table))
    add, delete = (command(*ip(one.route.family), "route", change, *words) for change in ("add", "del"))
    note = "Until the NIC is configured again: let the tool that fills this table add it, too."
    return Fix("here", "Add the subnet to the table", (add,), False, (delete,), note)


def _stored_route(host: HostFacts, one: Diverted) -> str:
    """The route as the profile has it; "": it has not."""
    profile = own_profile(host, one.by)
    if profile is None:
        return ""
    for written in ip_settings(profile, one.route.family).routes:
        prefix, _, gateway = written.partition(" via ")
        if prefix == one.route.destination and (gateway or None) == one.route.gateway:
            return written.replace(" via ", " ")
    return ""
