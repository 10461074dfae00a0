"""Gateways and name servers on a link that do not answer, or that are in none of its subnets.

Reads nothing; rules about neighbour tables and routes (`Inventory.routing`). Nothing is sent: what
the host asked before is in the tables. Kernel net/core/neighbour.c (states),
net/ipv4/fib_semantics.c fib_check_nh (a gateway must be on the link when the route is added, not
later).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nictop.model.devices.route_lookup import span_of
from nictop.probe.records import Link, Neighbour, TableRoute
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import ifupdown_stanza
from nictop.rules.host import HostFacts
from nictop.rules.registry import Outcomes, host_rule, pair_rule
from nictop.rules.routes.facts import (
    Gateway,
    answering,
    entries_of,
    gateways,
    has_answered,
    is_default,
    is_in_subnets,
    is_main,
    is_recent,
    is_unanswered,
    is_unanswered_now,
    last_update_text,
    neighbour,
    neighbour_evidence,
    on_link_route,
    own_addresses,
    resolves_neighbours,
    routes,
    spans,
    unanswered,
)
from nictop.rules.routes.fixes import ip_settings, other_gateway_fixes, own_profile
from nictop.rules.routes.gateway_owners import MissingOwner, missing_owner
from nictop.rules.subjects import ARPING_NOTE, global_address_texts, link_finding, names_text

LINK_FAULTS = (
    "arp_is_off",
    "address_on_a_lower_link",
    "address_is_used_twice",
    "bridge_port_does_not_forward",
    "guest_is_on_another_bridge",
    "link_is_in_the_network_of_another",
    "spoof_check_has_no_address",
    "vf_address_is_random",
    "vf_has_no_administrative_address",
    "vf_keeps_its_old_address",
    "vf_link_is_disabled",
    "vlan_filtering_is_off",
    "vlan_inside_a_port_vlan",
    "vlan_is_not_on_the_bridge",
    "vlan_is_not_on_the_bridge_port",
    "vlan_is_not_on_the_uplink",
)
"""Rules that name why nothing on the link answers."""
MAX_LISTED = 4


@pair_rule(
    "critical",
    yields_to=LINK_FAULTS,
    needs=("routing.neighbours", "routing.routes"),
    uses=("addresses",),
)
def gateway_does_not_answer(hosts: Sequence[HostFacts]) -> Outcomes:
    """The gateway of a route does not answer: what is sent by this route goes nowhere.

    nictop reads the neighbour table: the host asked for the MAC address of the gateway (ARP, or
    neighbour discovery) and received no answer, state failed, or incomplete for a second or more.
    Nothing is sent for this check.

    Critical: the default route in use. Warning: the gateway of another route, or nobody asked for
    it in the last five minutes, or the gateway of another IPv4 default route with the same metric
    answers, which the kernel uses then. Info: of two routers that IPv6 advertisements announced the
    other one answers, and the kernel prefers it. If other hosts on the link answer,
    the address of the gateway is wrong or the router is off; if none does, look for the VLAN, the
    port group or the cable, too. A watched host that had the address is named: it had it when
    nictop read it before. Where all hosts that are known to be on the link are watched and none has
    the address, that is said, too.

    Not reported: gateways that were never asked for, stale entries, which prove nothing, routes of
    routing daemons, other failed entries, and links without a carrier.

    Sources: kernel net/core/neighbour.c, net/ipv4/fib_semantics.c (fib_select_default),
    net/ipv6/route.c (rt6_score_route); ip-neighbour(8) nud.
    """
    for host in hosts:
        failed = unanswered(host)
        for gateway in gateways(host) if failed else ():
            entry = failed.get((gateway.link.ifindex, gateway.address))
            if entry is None:
                continue
            severity = _severity(host, gateway, entry)
            if severity is not None:
                missing = missing_owner(host, gateway, entry, hosts)
                yield _unanswered(host, gateway, entry, severity, missing)


def _severity(host: HostFacts, gateway: Gateway, entry: Neighbour) -> Severity | None:
    """None: an old failure of a route that is not in use."""
    if not _is_in_use(host, gateway):
        return "warning" if is_recent(entry) else None
    if not is_recent(entry):
        return "warning"
    if _another_answers(host, gateway):
        return "info" if gateway.family == "ipv6" else "warning"
    return "critical" if any(map(is_main, gateway.routes)) else "warning"


def _is_in_use(host: HostFacts, gateway: Gateway) -> bool:
    """A default route by this gateway is the best one of its table."""
    for route in gateway.routes:
        if is_default(route) and _is_best(host, gateway, route.table):
            return True
    return False


def _is_best(host: HostFacts, gateway: Gateway, table: int) -> bool:
    """No default route of the table has a lower metric."""
    own = _default_metrics(gateway.routes, gateway.family, table)
    if not own:
        return False
    return min(own) <= min(_default_metrics(routes(host), gateway.family, table))


def _default_metrics(routes: Iterable[TableRoute], family: str, table: int) -> list[int]:
    """Of the usable default routes of a table."""
    metrics = []
    for route in routes:
        is_of_table = route.family == family and route.table == table
        if is_of_table and is_default(route) and route.usable:
            metrics.append(route.metric)
    return metrics


def _another_answers(host: HostFacts, gateway: Gateway) -> bool:
    """The gateway of another default route answers, which the kernel prefers then: of IPv6 any, of
    IPv4 one with the same metric."""
    for other in gateways(host):
        if other is gateway or other.family != gateway.family or not other.is_default:
            continue
        if gateway.family == "ipv4" and not _has_equal_route(gateway, other):
            continue
        if has_answered(neighbour(host, other.link, other.address)):
            return True
    return False


def _has_equal_route(gateway: Gateway, other: Gateway) -> bool:
    """Both have a default route in one table with the same metric."""
    own, theirs = (
        {(route.table, route.metric) for route in one.routes if is_default(route)}
        for one in (gateway, other)
    )
    return not own.isdisjoint(theirs)


def _unanswered(
    host: HostFacts,
    gateway: Gateway,
    entry: Neighbour,
    severity: Severity,
    missing: MissingOwner | None,
) -> Finding:
    link = gateway.link
    is_outside = _is_outside(gateway)
    others = answering(host, link, gateway.family)
    evidence = [
        gateway.evidence,
        neighbour_evidence(host, link, entry),
        Evidence("others that answer", _listed(others), f"ip neigh show dev {link.name}"),
    ]
    if is_outside:
        evidence.append(_subnet_evidence(link))
    title_end = _title_end(host, gateway, entry, is_outside=is_outside)
    causes = _causes(host, gateway, others)
    fixes: tuple[Fix, ...] = (*_fixes(host, gateway), _ask_again(gateway))
    if missing is not None:
        evidence += missing.evidence
        title_end = f"does not answer: {missing.title_end}"
        causes = missing.why
        fixes = (*missing.fixes(gateway), *fixes)
    return link_finding(
        severity,
        host,
        link,
        f"{_named(gateway)} {title_end}",
        evidence=tuple(evidence),
        why=f"{_lost(host, gateway, entry)} {causes}",
        fixes=fixes,
        item=gateway.address,
    )


def _named(gateway: Gateway) -> str:
    """``gateway 192.0.2.1``, ``gateway 192.0.2.1 of 198.51.100.0/24``"""
    if gateway.is_default:
        return f"gateway {gateway.address}"
    return f"gateway {gateway.address} of {gateway.routes[0].destination}"


def _title_end(host: HostFacts, gateway: Gateway, entry: Neighbour, *, is_outside: bool) -> str:
    if is_outside:
        return "is in none of its subnets; no answer"
    if not is_recent(entry) and entry.since_update is not None:
        return "did not answer when last asked"
    if answering(host, gateway.link, gateway.family):
        return "does not answer; other hosts do"
    asked = entries_of(host, gateway.link, gateway.family)
    if len(asked) > 1 and all(map(is_unanswered, asked)):
        return "does not answer, nor does any other host"
    return "does not answer"


def _lost(host: HostFacts, gateway: Gateway, entry: Neighbour) -> str:
    """What does not arrive."""
    if _is_in_use(host, gateway) and is_recent(entry) and _another_answers(host, gateway):
        return (
            "Packets go by the other default route as long as its gateway answers; some are lost "
            "whenever the kernel asks this one again."
        )
    family = gateway.family.replace("ip", "IP")
    lost = f"{family} packets to networks without another route are lost"
    if not gateway.is_default:
        lost = "packets to these addresses are lost"
    elif not _is_in_use(host, gateway):
        lost = "what is sent by this route is lost"
    if not is_recent(entry):
        return f"If it still does not answer, {lost}."
    return f"{lost[0].upper()}{lost[1:]}."


def _causes(host: HostFacts, gateway: Gateway, others: list[Neighbour]) -> str:
    """`others`: neighbours that answer."""
    if _is_outside(gateway):
        wrong = "the address of the gateway, or the address or prefix length of this NIC, is wrong"
        if _is_declared(host, gateway):
            return f"Possible: {wrong}, or the gateway is off."
        return f"{wrong[0].upper()}{wrong[1:]}."
    if others:
        return (
            "Possible: the address of the gateway is wrong, or the router is off, in another VLAN "
            "or does not answer this host."
        )
    return (
        "Possible: the gateway is off or has another address, or this NIC is in another network "
        "(VLAN, port group)."
    )


def _is_outside(gateway: Gateway) -> bool:
    """In no subnet of the link, although it has one of the family."""
    if gateway.address.startswith("fe80:"):
        return False
    has_subnet = any(span.family == gateway.family for span in spans(gateway.link))
    return has_subnet and not is_in_subnets(gateway.link, gateway.address)


def _subnet_evidence(link: Link) -> Evidence:
    found = global_address_texts(link)
    return Evidence("addresses", ", ".join(found[:MAX_LISTED]), "ip address")


def _listed(entries: list[Neighbour]) -> str:
    return names_text([entry.address for entry in entries], MAX_LISTED) or "none"


def _fixes(host: HostFacts, gateway: Gateway) -> tuple[Fix, ...]:
    route = next(filter(is_default, gateway.routes), gateway.routes[0])
    return other_gateway_fixes(host, gateway.link, route)


def _ask_again(gateway: Gateway) -> Fix:
    """Whether it answers now, from the address of the link."""
    program = ("arping",) if gateway.family == "ipv4" else ("ping", "-6")
    note = ARPING_NOTE if gateway.family == "ipv4" else ""
    ask = command(*program, "-c", "3", "-I", gateway.link.name, gateway.address)
    return Fix("here", "Or ask it again, when the router is on", (ask,), note=note)


# --------------------------------------------------------------------------------------- not there


@pair_rule(
    "warning",
    yields_to=LINK_FAULTS,
    needs=("addresses", "routing.neighbours", "routing.routes"),
)
def gateway_is_on_no_watched_host(hosts: Sequence[HostFacts]) -> Outcomes:
    """No watched host has the address of a gateway, and nobody else is known to be there who could
    have it.

    If nobody answers for it, what is sent by this route is lost. nictop reports it in two cases:
    all hosts on the network of the NIC are watched, at the other end of its veth, or on the ports
    of a watched bridge without an uplink; or the neighbour table still has the MAC address of a
    watched host, which does not have the address now. A watched host that had it is named.

    Not reported: gateways that answer, or that did not when they were asked
    (gateway_does_not_answer), static entries, routes of routing daemons, and networks with tc
    filters or XDP programs, which may answer. An address without an entry, where there may be a
    host that is not watched, is not reported either: that host may have it.

    Sources: kernel net/ipv4/arp.c arp_process; net/core/neighbour.c neigh_fill_info.
    """
    if len(hosts) < 2:
        return
    for host in hosts:
        for gateway in gateways(host):
            entry = neighbour(host, gateway.link, gateway.address)
            if is_unanswered(entry):
                continue
            missing = missing_owner(host, gateway, entry, hosts)
            if missing is not None:
                yield _absent(host, gateway, entry, missing)


def _absent(
    host: HostFacts, gateway: Gateway, entry: Neighbour | None, missing: MissingOwner
) -> Finding:
    evidence = [gateway.evidence]
    if missing.loss is None or entry is None:
        known = "no entry" if entry is None else last_update_text(host, entry)
        evidence.append(Evidence("neighbour", known, f"ip neigh show dev {gateway.link.name}"))
    lost = "what is sent by this route is lost"
    return link_finding(
        "warning",
        host,
        gateway.link,
        f"{_named(gateway)}: {missing.title_end}",
        evidence=(*evidence, *missing.evidence),
        why=f"{missing.why} If nobody answers for it, {lost}.",
        fixes=(*missing.fixes(gateway), *_fixes(host, gateway), _ask_again(gateway)),
        item=gateway.address,
    )


# ------------------------------------------------------------------------------ outside the subnets


@host_rule(
    "warning",
    yields_to=("gateway_does_not_answer", *LINK_FAULTS),
    needs=("addresses", "routing.neighbours", "routing.routes"),
    uses=("configuration", "networkmanager"),
)
def gateway_is_outside_its_subnets(host: HostFacts) -> Outcomes:
    """The gateway of a default route is in no subnet of its NIC.

    The kernel refuses such a route when it is added ("Nexthop has invalid gateway"). It remains if
    the address of the NIC is changed afterwards, until the NIC is configured again: then there is
    no default route. NetworkManager adds a route to such a gateway itself, and ifupdown always says
    onlink, so that a typing error is not refused.

    nictop compares the gateway with all routes of the NIC that have no gateway themselves. With a
    single route to it (/32) that NetworkManager added, or onlink by ifupdown: reported for a
    gateway that is typed into the profile or the stanza of a NIC with an address that has a subnet,
    if the gateway has never answered.

    Not reported: other routes with the flag onlink, addresses without a subnet (/32, as in clouds),
    point-to-point links, link-local gateways of IPv6, and gateways given by DHCP.

    Sources: kernel net/ipv4/fib_semantics.c fib_check_nh; ip-route(8) onlink; NetworkManager
    src/core/nm-l3-config-data.c nm_l3_config_data_add_dependent_onlink_routes; ifupdown inet.defn.
    """
    for gateway in gateways(host):
        if not gateway.is_default or not _is_outside(gateway):
            continue
        entry = neighbour(host, gateway.link, gateway.address)
        answers = has_answered(entry)
        is_a_mistake = _is_typed(host, gateway) and not answers
        if _is_declared(host, gateway) and not is_a_mistake:
            continue
        known = "no entry" if entry is None else last_update_text(host, entry)
        why = (
            "Packets to other subnets are probably lost: the gateway, the address or the prefix "
            "length is wrong."
        )
        if answers:
            why = (
                "It answers now, but the kernel refuses this route when the NIC is configured "
                "again."
            )
        yield link_finding(
            "warning",
            host,
            gateway.link,
            f"gateway {gateway.address} is in none of its subnets",
            evidence=(
                gateway.evidence,
                _subnet_evidence(gateway.link),
                Evidence("neighbour", known, f"ip neigh show dev {gateway.link.name}"),
            ),
            why=why,
            fixes=_fixes(host, gateway),
            item=gateway.address,
        )


def _is_declared(host: HostFacts, gateway: Gateway) -> bool:
    """Somebody said that the gateway is on the link: by onlink, or by a route to it."""
    if any(route.onlink for route in gateway.routes):
        return True
    return on_link_route(host, gateway.link, gateway.address) is not None


def _is_typed(host: HostFacts, gateway: Gateway) -> bool:
    """Written into a profile with static addresses, or a stanza of ifupdown, whose tools declare
    every gateway."""
    profile = own_profile(host, gateway.link)
    if profile is None:
        stanza = ifupdown_stanza(host, gateway.link)
        return stanza is not None and gateway.address in stanza.gateways
    settings = ip_settings(profile, gateway.family)
    if settings.method != "manual" or settings.gateway != gateway.address:
        return False
    route = on_link_route(host, gateway.link, gateway.address)
    span = span_of(route.destination) if route is not None else None
    return span is not None and span.first == span.last


# --------------------------------------------------------------------------------------- no gateway


@host_rule(
    "critical",
    yields_to=LINK_FAULTS,
    needs=("addresses", "routing.neighbours", "routing.routes"),
)
def default_route_has_no_gateway(host: HostFacts) -> Outcomes:
    """The default route leads to a NIC without a gateway, and nobody answers there for addresses of
    other networks.

    The kernel then asks for each address of the world on this link (ARP, or neighbour discovery).
    Usually somebody typed "default dev NIC" without "via GATEWAY".

    nictop reads the default routes in use, and the neighbour table of their links: an address in
    none of its subnets was asked for in the last five minutes and did not answer, and no such
    address ever has.

    Not reported: point-to-point links and tunnels, and links with a router that answers for all
    addresses (proxy ARP).

    Sources: ip-route(8); kernel net/ipv4/route.c rt_nexthop, net/ipv4/arp.c arp_constructor.
    """
    if not unanswered(host):
        return
    for route in routes(host):
        if not is_default(route) or route.gateway is not None or not is_main(route):
            continue
        link = host.link_at(route.ifindex)
        if link is None or not resolves_neighbours(link):
            continue
        own = Gateway(link, route.family, "", (route,))
        if not _is_best(host, own, route.table):
            continue
        outside = _neighbours_outside(host, link, route.family)
        silent = list(filter(is_unanswered_now, outside))
        if silent and not any(map(has_answered, outside)):
            asked = [neighbour_evidence(host, link, entry) for entry in silent[:2]]
            yield link_finding(
                "critical",
                host,
                link,
                "default route without a gateway; other networks do not answer",
                evidence=(own.evidence, *asked),
                why="The host asks for the addresses of other networks on this link, where nobody "
                "answers for them.",
                fixes=other_gateway_fixes(host, link, route),
            )


def _neighbours_outside(host: HostFacts, link: Link, family: str) -> list[Neighbour]:
    """Neighbours with addresses in none of its subnets."""
    found = []
    for entry in entries_of(host, link, family):
        is_link_local = entry.address.startswith("fe80:")
        if not is_link_local and not is_in_subnets(link, entry.address):
            found.append(entry)
    return found


# ------------------------------------------------------------------------------------- name servers


@host_rule(
    "warning",
    yields_to=("gateway_does_not_answer", *LINK_FAULTS),
    needs=("addresses", "routing.neighbours", "routing.name_servers"),
)
def name_server_does_not_answer(host: HostFacts) -> Outcomes:
    """A name server in a subnet of this host does not answer ARP or neighbour discovery: look-ups
    that ask it first wait for it.

    nictop compares the addresses of resolv.conf (behind the stub of systemd-resolved: those that it
    asks) with the neighbour table: state failed, or incomplete for a second or more, asked for in
    the last five minutes.

    Not reported: name servers behind a gateway, and those on this host.

    Sources: resolv.conf(5) timeout, attempts; systemd-resolved.service(8).
    """
    routing = host.inventory.routing
    if routing is None:
        return
    for (ifindex, address), entry in unanswered(host).items():
        if address not in routing.name_servers or address in own_addresses(host):
            continue
        link = host.link_at(ifindex)
        if link is None or not resolves_neighbours(link) or not is_recent(entry):
            continue
        if is_in_subnets(link, address):
            others = [server for server in routing.name_servers if server != address]
            yield _silent_server(host, link, entry, others)


def _silent_server(host: HostFacts, link: Link, entry: Neighbour, others: list[str]) -> Finding:
    why = (
        "Names that only a name server knows cannot be looked up: connections by name fail, logins "
        "and sudo may be slow."
    )
    if others:
        why = "A look-up that asks it first waits some seconds before it asks another server."
    return link_finding(
        "warning",
        host,
        link,
        f"name server {entry.address} does not answer",
        evidence=(
            neighbour_evidence(host, link, entry),
            Evidence("other name servers", ", ".join(others) or "none", "/etc/resolv.conf"),
        ),
        why=why,
        fixes=(OTHER_SERVER_FIX,),
        item=entry.address,
    )


OTHER_SERVER_FIX = Fix(
    "here",
    "Use another name server",
    (),
    True,
    note="NetworkManager: ipv4.dns of the profile; netplan: nameservers; networkd: DNS=; otherwise "
    "/etc/resolv.conf. With DHCP: on the DHCP server.",
)
