"""Gateways and name servers on a link that do not answer, or that are in none of its subnets.

Reads nothing; rules about neighbour tables and routes (`Inventory.routing`). Nothing is sent: what the host asked
before is in the tables. Kernel net/core/neighbour.c (states), net/ipv4/fib_semantics.c fib_check_nh (a gateway must be
on the link when the route is added, not later).
"""

from __future__ import annotations

from nictop.model.devices.route_lookup import span_of
from nictop.probe.records import Link, Neighbour
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import ifupdown_stanza
from nictop.rules.host import HostFacts
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.routing.facts import (
    Gateway,
    age_text,
    answering,
    duration_text,
    gateways,
    has_answered,
    is_default,
    is_in_subnets,
    is_main,
    is_recent,
    is_unanswered,
    neighbour,
    neighbour_evidence,
    neighbours,
    on_link_route,
    own_addresses,
    resolves_neighbours,
    spans,
    tables,
    unanswered,
)
from nictop.rules.routing.fixes import ip_settings, other_gateway_fixes, own_profile
from nictop.rules.subjects import link_finding

FAMILY: Family = "addresses and routes"
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


@host_rule(FAMILY, "critical", yields_to=LINK_FAULTS, needs=("routing.neighbours", "routing.routes"))
def gateway_does_not_answer(host: HostFacts) -> Outcomes:
    """The gateway of a route does not answer: what is sent by this route goes nowhere.

    nictop reads the neighbour table: the host asked for the MAC address of the gateway (ARP, or neighbour discovery)
    and received no answer, state failed, or incomplete for a second or more. Nothing is sent for this check.

    Critical: the default route in use. Warning: the gateway of another route, or nobody asked for it in the last five
    minutes. Info: of two routers that IPv6 advertisements announced the other one answers, and the kernel prefers it.
    If other hosts on the link answer, the address of the gateway is wrong or the router is off; if none does, look for
    the VLAN, the port group or the cable, too.

    Not reported: gateways that were never asked for, stale entries, which prove nothing, routes of routing daemons,
    other failed entries, and links without a carrier.

    Sources: kernel net/core/neighbour.c; ip-neighbour(8) nud.
    """
    failed = unanswered(host)
    for gateway in gateways(host) if failed else ():
        entry = failed.get((gateway.link.ifindex, gateway.address))
        if entry is None:
            continue
        severity = _severity(host, gateway, entry)
        if severity is not None:
            yield _unanswered(host, gateway, entry, severity)


def _severity(host: HostFacts, gateway: Gateway, entry: Neighbour) -> Severity | None:
    """None: an old failure of a route that is not in use."""
    is_in_use = any(_is_best(host, gateway, route.table) for route in gateway.routes if is_default(route))
    if not is_recent(entry):
        return "warning" if is_in_use else None
    if not is_in_use:
        return "warning"
    if gateway.family == "ipv6" and any(_answers(host, other) for other in _alternatives(host, gateway)):
        return "info"
    return "critical" if any(map(is_main, gateway.routes)) else "warning"


def _is_best(host: HostFacts, gateway: Gateway, table: int) -> bool:
    """No default route of the table has a lower metric."""
    known = tables(host)
    metrics = [
        one.metric
        for one in (known.routes if known is not None else ())
        if is_default(one) and one.family == gateway.family and one.table == table and one.usable
    ]
    own = [one.metric for one in gateway.routes if is_default(one) and one.table == table and one.usable]
    return bool(own) and min(own) <= min(metrics)


def _alternatives(host: HostFacts, gateway: Gateway) -> list[Gateway]:
    """Other gateways of default routes of the family."""
    others = (one for one in gateways(host) if one.family == gateway.family and one.is_default)
    return [one for one in others if one is not gateway]


def _answers(host: HostFacts, gateway: Gateway) -> bool:
    return has_answered(neighbour(host, gateway.link, gateway.address))


def _unanswered(host: HostFacts, gateway: Gateway, entry: Neighbour, severity: Severity) -> Finding:
    link, address = gateway.link, gateway.address
    others = answering(host, link, gateway.family)
    name = f"gateway {address}" if gateway.is_default else f"gateway {address} of {gateway.routes[0].destination}"
    is_outside = _is_outside(gateway)
    return link_finding(
        severity,
        host,
        link,
        f"{name} {_title_end(host, gateway, entry, is_outside=is_outside)}",
        evidence=(
            gateway.evidence,
            neighbour_evidence(link, entry),
            Evidence("others that answer", _listed(others), f"ip neigh show dev {link.name}"),
            *(_subnet_evidence(link) if is_outside else ()),
        ),
        why=_why(gateway, others, is_outside=is_outside),
        fixes=(*_fixes(host, gateway), _ask_again(gateway)),
    )


def _title_end(host: HostFacts, gateway: Gateway, entry: Neighbour, *, is_outside: bool) -> str:
    if is_outside:
        return "is in none of its subnets; no answer"
    if not is_recent(entry) and entry.since_update is not None:
        return f"did not answer when last asked, {duration_text(entry.since_update)} ago"
    if answering(host, gateway.link, gateway.family):
        return "does not answer; other hosts do"
    separator = ":" if gateway.family == "ipv6" else "."
    asked = [one for one in neighbours(host).get(gateway.link.ifindex, {}).values() if separator in one.address]
    if len(asked) > 1 and all(map(is_unanswered, asked)):
        return "does not answer, nor does any other host"
    return "does not answer"


def _why(gateway: Gateway, others: list[Neighbour], *, is_outside: bool) -> str:
    lost = "Nothing leaves the subnet." if gateway.is_default else "Packets to these addresses are lost."
    if is_outside:
        return f"{lost} The address of the gateway, or the address or prefix length of this NIC, is wrong."
    if others:
        return f"{lost} The address of the gateway is wrong, or the router is off or in another VLAN."
    return f"{lost} The gateway is off or has another address, or this NIC is in another network (VLAN, port group)."


def _is_outside(gateway: Gateway) -> bool:
    """In no subnet of the link, although it has one of the family."""
    own = [span for span in spans(gateway.link) if span.family == gateway.family]
    is_link_local = gateway.address.startswith("fe80:")
    return bool(own) and not is_link_local and not is_in_subnets(gateway.link, gateway.address)


def _subnet_evidence(link: Link) -> tuple[Evidence, ...]:
    found = [f"{one.address}/{one.prefix_length}" for one in link.addresses if one.scope == "global"]
    return (Evidence("addresses", ", ".join(found[:MAX_LISTED]), "ip address"),)


def _listed(entries: list[Neighbour]) -> str:
    if not entries:
        return "none"
    more = f" and {len(entries) - MAX_LISTED} more" if len(entries) > MAX_LISTED else ""
    return ", ".join(one.address for one in entries[:MAX_LISTED]) + more


def _fixes(host: HostFacts, gateway: Gateway) -> tuple[Fix, ...]:
    route = next((one for one in gateway.routes if is_default(one)), gateway.routes[0])
    return other_gateway_fixes(host, gateway.link, route)


def _ask_again(gateway: Gateway) -> Fix:
    """Whether it answers now, from the address of the link."""
    ask = (
        command("arping", "-c", "3", "-I", gateway.link.name, gateway.address)
        if gateway.family == "ipv4"
        else command("ping", "-6", "-c", "3", "-I", gateway.link.name, gateway.address)
    )
    return Fix("here", "Or ask it again, when the router is on", (ask,))


# ------------------------------------------------------------------------------------------------- outside the subnets


@host_rule(
    FAMILY,
    "warning",
    yields_to=("gateway_does_not_answer", *LINK_FAULTS),
    needs=("addresses", "routing.neighbours", "routing.routes"),
    uses=("configuration", "networkmanager"),
)
def gateway_is_outside_its_subnets(host: HostFacts) -> Outcomes:
    """The gateway of a default route is in no subnet of its NIC.

    The kernel refuses such a route when it is added ("Nexthop has invalid gateway"). It remains if the address of the
    NIC is changed afterwards, until the NIC is configured again: then there is no default route. NetworkManager adds a
    route to such a gateway itself, and ifupdown always says onlink, so that a typing error is not refused.

    nictop compares the gateway with all routes of the NIC that have no gateway themselves. With a single route to it
    (/32) that NetworkManager added, or onlink by ifupdown: reported for a gateway that is typed into the profile or the
    stanza of a NIC with an address that has a subnet, if the gateway has never answered.

    Not reported: other routes with the flag onlink, addresses without a subnet (/32, as in clouds), point-to-point
    links, link-local gateways of IPv6, and gateways given by DHCP.

    Sources: kernel net/ipv4/fib_semantics.c fib_check_nh; ip-route(8) onlink; NetworkManager
    src/core/nm-l3-config-data.c nm_l3_config_data_add_dependent_onlink_routes; ifupdown inet.defn.
    """
    for gateway in gateways(host):
        if not gateway.is_default or not _is_outside(gateway):
            continue
        entry = neighbour(host, gateway.link, gateway.address)
        answers = has_answered(entry)
        if _is_declared(host, gateway) and (answers or not _is_typed(host, gateway)):
            continue
        yield link_finding(
            "warning",
            host,
            gateway.link,
            f"gateway {gateway.address} is in none of its subnets",
            evidence=(
                gateway.evidence,
                *_subnet_evidence(gateway.link),
                Evidence(
                    "neighbour",
                    age_text(entry) if entry is not None else "no entry",
                    f"ip neigh show dev {gateway.link.name}",
                ),
            ),
            why="It answers now, but the kernel refuses this route when the NIC is configured again."
            if answers
            else "Packets to other subnets are probably lost: the gateway, the address or the prefix length is wrong.",
            fixes=_fixes(host, gateway),
        )


def _is_declared(host: HostFacts, gateway: Gateway) -> bool:
    """Somebody said that the gateway is on the link: by onlink, or by a route to it."""
    is_onlink = any(one.onlink for one in gateway.routes)
    return is_onlink or on_link_route(host, gateway.link, gateway.address) is not None


def _is_typed(host: HostFacts, gateway: Gateway) -> bool:
    """Written into a profile with static addresses, or a stanza of ifupdown, whose tools declare every gateway."""
    stanza = ifupdown_stanza(host, gateway.link)
    profile = own_profile(host, gateway.link)
    if profile is None:
        return stanza is not None and gateway.address in stanza.gateways
    route, settings = on_link_route(host, gateway.link, gateway.address), ip_settings(profile, gateway.family)
    span = span_of(route.destination) if route is not None else None
    is_single = span is not None and span.first == span.last
    return is_single and settings.method == "manual" and settings.gateway == gateway.address


# ---------------------------------------------------------------------------------------------------------- no gateway


@host_rule(FAMILY, "critical", yields_to=LINK_FAULTS, needs=("addresses", "routing.neighbours", "routing.routes"))
def default_route_has_no_gateway(host: HostFacts) -> Outcomes:
    """The default route leads to a NIC without a gateway, and nobody answers there for addresses of other networks.

    The kernel then asks for each address of the world on this link (ARP, or neighbour discovery). Usually somebody
    typed "default dev NIC" without "via GATEWAY".

    nictop reads the default routes in use, and the neighbour table of their links: an address in none of its subnets
    was asked for in the last five minutes and did not answer, and no such address ever has.

    Not reported: point-to-point links and tunnels, and links with a router that answers for all addresses (proxy ARP).

    Sources: ip-route(8); kernel net/ipv4/route.c rt_nexthop, net/ipv4/arp.c arp_constructor.
    """
    known, failed = tables(host), unanswered(host)
    for route in known.routes if known is not None and failed else ():
        link = host.snapshot.links.get(route.ifindex or 0)
        if not is_default(route) or route.gateway is not None or link is None or not resolves_neighbours(link):
            continue
        own = Gateway(link, route.family, "", (route,))
        if not is_main(route) or not _is_best(host, own, route.table):
            continue
        outside = _addresses_outside(host, link, route.family)
        silent = [one for one in outside if is_unanswered(one) and is_recent(one)]
        if silent and not any(map(has_answered, outside)):
            yield link_finding(
                "critical",
                host,
                link,
                "default route without a gateway; other networks do not answer",
                evidence=(own.evidence, *(neighbour_evidence(link, one) for one in silent[:2])),
                why="The host asks for the addresses of other networks on this link, where nobody has them.",
                fixes=other_gateway_fixes(host, link, route),
            )


def _addresses_outside(host: HostFacts, link: Link, family: str) -> list[Neighbour]:
    """Neighbours with addresses in none of its subnets."""
    separator = ":" if family == "ipv6" else "."
    return [
        one
        for address, one in neighbours(host).get(link.ifindex, {}).items()
        if separator in address and not address.startswith("fe80:") and not is_in_subnets(link, address)
    ]


# ------------------------------------------------------------------------------------------------------- name servers


@host_rule(
    FAMILY,
    "warning",
    yields_to=("gateway_does_not_answer", *LINK_FAULTS),
    needs=("addresses", "routing.neighbours", "routing.name_servers"),
)
def name_server_does_not_answer(host: HostFacts) -> Outcomes:
    """A name server in a subnet of this host does not answer ARP or neighbour discovery: look-ups wait for it.

    nictop compares the addresses of resolv.conf (behind the stub of systemd-resolved: those that it asks) with the
    neighbour table: state failed, or incomplete for a second or more, asked for in the last five minutes.

    Not reported: name servers behind a gateway, and those on this host.

    Sources: resolv.conf(5) timeout, attempts; systemd-resolved.service(8).
    """
    routing = host.inventory.routing
    servers = routing.name_servers if routing is not None else ()
    for (ifindex, address), entry in unanswered(host).items():
        link = host.snapshot.links.get(ifindex)
        if address not in servers or link is None or not is_recent(entry) or address in own_addresses(host):
            continue
        if resolves_neighbours(link) and is_in_subnets(link, address):
            yield _silent_server(host, link, entry, [one for one in servers if one != address])


def _silent_server(host: HostFacts, link: Link, entry: Neighbour, others: list[str]) -> Finding:
    return link_finding(
        "warning",
        host,
        link,
        f"name server {entry.address} does not answer",
        evidence=(
            neighbour_evidence(link, entry),
            Evidence("other name servers", ", ".join(others) or "none", "/etc/resolv.conf"),
        ),
        why="Each look-up waits some seconds for it before another server is asked."
        if others
        else "Names cannot be looked up: connections by name fail, logins and sudo are slow.",
        fixes=(
            Fix(
                "here",
                "Use another name server",
                (),
                True,
                note="NetworkManager: ipv4.dns of the profile; netplan: nameservers; networkd: DNS=; otherwise "
                "/etc/resolv.conf. With DHCP: on the DHCP server.",
            ),
        ),
    )
