"""Watched hosts that others route by, and that do not forward.

Reads nothing. The kernel forwards an IPv4 packet if forwarding is on for the link that it came in
by (net/ipv4/route.c ip_route_input_slow: IN_DEV_FORWARD), an IPv6 packet if it is on for all links
or, since Linux 6.17, force_forwarding of that link is (net/ipv6/ip6_output.c ip6_forward; commit
f24987ef6959 "ipv6: add `force_forwarding` sysctl to enable per-interface forwarding").
net.ipv4.ip_forward is conf.all.forwarding: writing it sets that of each link.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.filter_evaluation import (
    Evaluator,
    Frame,
    FrameFamily,
    Refusal,
    chain_text,
)
from nictop.model.devices.route_lookup import number_of, span_of
from nictop.model.facts.routing import route_text
from nictop.model.snapshot import is_same_namespace
from nictop.model.text.ip_addresses import parse_network
from nictop.model.text.words import FAMILY_NAMES
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Address, Link, TableRoute
from nictop.rules.bridges.forward_filters import refusal_text, show_chain
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.host import HostFacts, once_per_diagnosis
from nictop.rules.profiles.outward import may_be_one_network
from nictop.rules.registry import Outcomes, pair_rule
from nictop.rules.routes.facts import (
    Gateway,
    gateways,
    is_within,
    neighbour,
    own_addresses,
    tables,
)
from nictop.rules.routes.peers import places
from nictop.rules.subjects import host_finding, is_up, link_finding, names_text

MAX_SHOWN = 4
NEEDS = ("addresses", "routing.routes", "routing.rules", "routing.neighbours", "settings")
ALL_LINKS = {"ipv4": "net.ipv4.ip_forward", "ipv6": "net.ipv6.conf.all.forwarding"}


class RoutedBy(NamedTuple):
    """A route of a watched host whose gateway is another one."""

    sender: HostFacts
    route: TableRoute
    router: HostFacts
    link: Link
    """Of the router, by which the packets come in."""
    beyond: tuple[tuple[HostFacts, str], ...]
    """(watched host, its address) that the sender reaches by this route."""


class Owner(NamedTuple):
    """An address of a watched host."""

    host: HostFacts
    link: Link
    address: Address


@pair_rule("critical", needs=NEEDS)
def watched_gateway_does_not_forward(hosts: Sequence[HostFacts]) -> Outcomes:
    """A watched host is the gateway of a route of another one, and its kernel does not forward what
    comes in there.

    nictop joins the gateway with the link that has its address: by the MAC address in the neighbour
    table, or, where none is known, if both are in one network. It looks up the route as the kernel
    does, and compares net.ipv4.conf.LINK.forwarding, or for IPv6 net.ipv6.conf.all.forwarding and
    force_forwarding of the link. Critical: another watched host is behind it. Warning: not known
    who is.

    Not reported: routes of routing daemons, routes that are not used, or only one of several next
    hops, routes to addresses of the gateway itself, gateways with an XDP program or filters of tc
    on that link, or with Open vSwitch, which may forward packets themselves, and settings that were
    not read.

    Sources: ip-sysctl.rst ip_forward, forwarding, force_forwarding; kernel net/ipv4/route.c
    ip_route_input_slow, net/ipv6/ip6_output.c ip6_forward.
    """
    if len(hosts) < 2:
        return
    found: dict[tuple[str, str, str], list[RoutedBy]] = {}
    for one in routes_by_watched_hosts(tuple(hosts)):
        family = one.route.family
        if not _is_off(one.router, one.link, family) or _may_forward_otherwise(one):
            continue
        place = "" if _is_off_for_all(one.router, family) else one.link.name
        found.setdefault((one.router.name, family, place), []).append(one)
    for listed in found.values():
        yield _forwarding_finding(listed)


@once_per_diagnosis
def routes_by_watched_hosts(hosts: tuple[HostFacts, ...]) -> tuple[RoutedBy, ...]:
    owners = _owners(hosts)
    found: list[RoutedBy] = []
    for sender in hosts:
        for gateway in gateways(sender):
            for owner in owners.get(gateway.address, ()):
                if _is_next_hop(sender, gateway, owner, hosts):
                    found += _used_routes(sender, gateway, owner.host, owner.link, hosts)
    return tuple(found)


def _owners(hosts: Sequence[HostFacts]) -> dict[str, list[Owner]]:
    """Address → the links of watched hosts that have it."""
    found: dict[str, list[Owner]] = {}
    for host in hosts:
        for link in host.links:
            if not is_up(link) or not link.carrier:
                continue
            for address in link.addresses:
                found.setdefault(address.address, []).append(Owner(host, link, address))
    return found


def _is_next_hop(
    sender: HostFacts, gateway: Gateway, owner: Owner, hosts: Sequence[HostFacts]
) -> bool:
    """The gateway of the sender is this address of the router."""
    router, link, address = owner
    if is_same_namespace(sender.snapshot, router.snapshot):
        return False
    entry = neighbour(sender, gateway.link, gateway.address)
    if entry is not None and entry.mac is not None:
        return entry.mac == link.address
    if address.scope != "global":
        return False
    theirs = [one for one in places(router) if one.address is address]
    for mine in places(sender):
        if mine.link.ifindex == gateway.link.ifindex and mine.address.family == address.family:
            return any(may_be_one_network(mine, place, hosts) for place in theirs)
    return False


def _used_routes(
    sender: HostFacts,
    gateway: Gateway,
    router: HostFacts,
    link: Link,
    hosts: Sequence[HostFacts],
) -> Iterator[RoutedBy]:
    for route in gateway.routes:
        if not _is_used(sender, route, _first_address(route)):
            continue
        own = own_addresses(router)
        if route.destination.partition("/")[0] in own and _is_of_one_address(route):
            continue
        yield RoutedBy(sender, route, router, link, _watched_beyond(sender, route, router, hosts))


def _is_of_one_address(route: TableRoute) -> bool:
    span = span_of(route.destination)
    return span is not None and span.first == span.last


def _first_address(route: TableRoute) -> str:
    """Of its destination, without that of the subnet itself."""
    network = parse_network(route.destination)
    if network is None:
        return ""
    first = network.network_address
    return str(first if network.num_addresses == 1 else first + 1)


def _is_used(sender: HostFacts, route: TableRoute, address: str) -> bool:
    """For packets of the sender to the address."""
    known = tables(sender)
    answer = known.lookup(address) if known is not None and address else None
    return answer is not None and answer.hops == (route,)


def _watched_beyond(
    sender: HostFacts, route: TableRoute, router: HostFacts, hosts: Sequence[HostFacts]
) -> tuple[tuple[HostFacts, str], ...]:
    """Other watched hosts with an address that the sender reaches by this route, and the router by
    another link or gateway."""
    span = span_of(route.destination)
    own = {*own_addresses(router), *own_addresses(sender)}
    found = []
    for host in hosts:
        for place in () if host in (sender, router) else places(host):
            address = place.address.address
            number = number_of(address)
            if span is None or number is None or address in own or not is_within(number, span):
                continue
            if _is_used(sender, route, address) and _leads_on(router, address):
                found.append((host, address))
    return tuple(found)


def _leads_on(router: HostFacts, address: str) -> bool:
    """The router has one route to the address, which refuses nothing."""
    return _way_on(router, address) is not None


def _way_on(router: HostFacts, address: str) -> TableRoute | None:
    known = tables(router)
    answer = known.lookup(address) if known is not None else None
    if answer is None or len(answer.hops) != 1 or answer.is_refused:
        return None
    return answer.hops[0] if answer.hops[0].type == "unicast" else None


def _is_off_for_all(router: HostFacts, family: str) -> bool:
    return router.inventory.settings.sysctl.get(ALL_LINKS[family]) == 0


def _is_off(router: HostFacts, link: Link, family: str) -> bool:
    """False also if it is not known."""
    values = router.inventory.settings.sysctl
    if family == "ipv4":
        return values.get(f"net.ipv4.conf.{link.name}.forwarding") == 0
    is_forced = values.get(f"net.ipv6.conf.{link.name}.force_forwarding", 0) != 0
    return _is_off_for_all(router, family) and not is_forced


def _may_forward_otherwise(one: RoutedBy) -> bool:
    """By something else than the routing of the kernel."""
    if one.router.inventory.services.openvswitch is not None:
        return True
    return one.link.xdp is not None or bool(one.link.tc_filters)


def _forwarding_finding(listed: Sequence[RoutedBy]) -> Finding:
    first = listed[0]
    router, family = first.router, first.route.family
    is_of_link = not _is_off_for_all(router, family)
    name = ALL_LINKS[family]
    if is_of_link:
        name = f"net.ipv4.conf.{first.link.name}.forwarding"
    beyond = list(dict.fromkeys(host.name for one in listed for host, _ in one.beyond))
    senders = list(dict.fromkeys(one.sender.name for one in listed))
    verb = "routes" if len(senders) == 1 else "route"
    what = FAMILY_NAMES[family]
    if is_of_link:
        what = f"the {what} packets that it receives"
    title = f"does not forward {what}, and {names_text(senders, MAX_SHOWN)} {verb} by it"
    evidence = _forwarding_evidence(listed, name)
    why = (
        f"The kernel of {router.name} drops packets that come in for other hosts. It is the "
        "gateway of these routes."
    )
    if beyond:
        pairs = [f"{one.sender.name} to {host.name}" for one in listed for host, _ in one.beyond]
        why += f" Packets lost: {names_text(list(dict.fromkeys(pairs)), MAX_SHOWN)}."
    severity: Severity = "critical" if beyond else "warning"
    fixes = _forward_fixes(router, name, family)
    if is_of_link:
        return link_finding(
            severity,
            router,
            first.link,
            title,
            evidence=evidence,
            why=why,
            fixes=fixes,
            item=family,
        )
    return host_finding(
        severity, router, "", title, evidence=evidence, why=why, fixes=fixes, item=family
    )


def _forwarding_evidence(listed: Sequence[RoutedBy], setting: str) -> tuple[Evidence, ...]:
    """The setting, the routes, and whose packets they are for."""
    evidence = [Evidence(setting, "0", f"sysctl {setting.replace('.', '/')}")]
    for one in listed[:MAX_SHOWN]:
        option = "-6 " if one.route.family == "ipv6" else ""
        shown = f"{route_text(one.route)}, {one.router.name} {one.link.name}"
        evidence.append(Evidence(f"route of {one.sender.name}", shown, f"ip {option}route"))
    beyond = dict.fromkeys(pair for one in listed for pair in one.beyond)
    for host, address in list(beyond)[:MAX_SHOWN]:
        evidence.append(Evidence(f"address of {host.name}", address, "ip address"))
    return tuple(evidence)


def _forward_fixes(router: HostFacts, name: str, family: str) -> tuple[Fix, ...]:
    now, stored = sysctl_fixes(router, name, 1)
    note = "Only if it is to be a router: otherwise correct the routes of the others."
    if family == "ipv6":
        note += " A router ignores router advertisements unless accept_ra of the link is 2."
    return replace(now, title="Forward now", note=note), stored


@pair_rule("warning", needs=NEEDS, uses=("filters",))
def watched_gateway_refuses_to_forward(hosts: Sequence[HostFacts]) -> Outcomes:
    """A watched host is the gateway of another one, and its packet filter refuses every new
    connection to a third watched host, by the policy of a base chain or a rule for everything.

    nictop joins the gateway and looks up the routes as for watched_gateway_does_not_forward, then
    follows a TCP connection from the one to the other through the base chains at the hook forward.

    Not reported: hosts that do not forward at all, rules that name the links, ports or addresses,
    which are there for this, chains with rules that are not understood, and what some rule accepts
    in part.

    Sources: nft(8), iptables(8); kernel net/ipv4/ip_forward.c, NF_INET_FORWARD.
    """
    if len(hosts) < 2:
        return
    seen: set[tuple[str, str, int, str]] = set()
    for one in routes_by_watched_hosts(tuple(hosts)):
        for host, address in one.beyond:
            refusal = _refusal(one, address)
            key = one.router.name, one.sender.name, one.link.ifindex, host.name
            if refusal is None or key in seen:
                continue
            seen.add(key)
            yield _refused_finding(one, host, address, refusal)


def _refusal(one: RoutedBy, address: str) -> Refusal | None:
    """Of packets to the address; None: they pass, some of them may, or it is not known."""
    way = _way_on(one.router, address)
    outward = one.router.link_at(way.ifindex) if way is not None else None
    family: FrameFamily = "ipv6" if one.route.family == "ipv6" else "ipv4"
    filters = one.router.inventory.filters
    if outward is None or _is_off(one.router, one.link, family):
        return None
    frame = Frame(
        family,
        one.link.name,
        frozenset({one.link.name}),
        frozenset({outward.name}),
        is_routed_to=outward.name,
    )
    evaluator = Evaluator(filters.chains)
    chains = [
        chain
        for chain in evaluator.chains_for(family, frozenset({one.link.name}))
        if chain.family != "bridge"
    ]
    refusal = evaluator.verdict(chains, frame).refusal
    return None if refusal is None or refusal.is_meant else refusal


def _refused_finding(one: RoutedBy, host: HostFacts, address: str, refusal: Refusal) -> Finding:
    router, sender, text = one.router, one.sender.name, refusal_text(refusal)
    show = show_chain(refusal.at)
    fix = Fix(
        "here",
        "Show the chain, then accept what is to pass",
        (show,),
        note="Only if it is to pass: a firewall refuses on purpose. Change it also where it is "
        "configured: /etc/nftables.conf, /etc/iptables, a firewall.",
    )
    return link_finding(
        "warning",
        router,
        one.link,
        f"connections from {sender} to {host.name} are refused by {chain_text(refusal.chain)} "
        f"({text})",
        evidence=(
            Evidence("refused by", f"{chain_text(refusal.at)}: {text}", str(show)),
            Evidence(f"route of {sender}", route_text(one.route), "ip route"),
            Evidence(f"address of {host.name}", address, "ip address"),
        ),
        why=f"{router.name} is the gateway of {sender} to {host.name}, and its packet filter "
        "accepts no new TCP connection at the hook forward.",
        fixes=(fix,),
        item=f"{sender} {host.name} {one.route.family}",
    )
