"""What a NetworkManager profile wants and the routing table does not have: its default route, its routes.

Reads nothing. NetworkManager adds the routes of a profile when it is activated; a route that somebody deletes, or that
goes with its link, is not always added again.
"""

from __future__ import annotations

from nictop.model.managers.networkmanager_states import ACTIVATED
from nictop.model.text.ip_addresses import parse_network
from nictop.probe.records import Link, Profile
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.profiles import profile_evidence, quoted_name
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.routing.facts import is_in_vrf, tables
from nictop.rules.routing.fixes import ip, ip_settings, reapply
from nictop.rules.subjects import link_finding

FAMILY: Family = "addresses and routes"
FAMILIES = ("ipv4", "ipv6")
NO_ROUTES = ("disabled", "ignore", "link-local", "shared")
"""Methods of a profile that set no default route."""
MAX_LISTED = 4


@host_rule(
    FAMILY,
    "critical",
    yields_to=(
        "address_is_a_duplicate",
        "gateway_is_outside_its_subnets",
        "ip_address_is_on_two_hosts",
        "profile_failed",
        "router_advertisements_are_ignored",
    ),
    needs=("addresses", "networkmanager", "routes"),
)
def default_route_is_missing(host: HostFacts) -> Outcomes:
    """The active profile of a NIC has a gateway, or DHCP gave one, but there is no default route by the NIC.

    Somebody or something deleted it, or the kernel refused it when the profile was activated.

    nictop compares ipv4.gateway and ipv6.gateway of the active NetworkManager profile, and the option "routers" of its
    DHCP lease, with the default routes of the NIC in the table main. Critical: the host has no default route of this
    address family at all. Warning: it has another one.

    Not reported: profiles with never-default, with a routing table or routing rules of their own, NICs that are still
    being activated, have no address or no carrier, and ports of a VRF.

    Sources: nm-settings-nmcli(5) ipv4.gateway, ipv4.never-default, ipv4.route-table; nmcli(1) device reapply.
    """
    for link, profile in _activated(host):
        for family in FAMILIES:
            gateway = _wanted_gateway(host, link, profile, family)
            if not gateway or any(one.family == family for one in link.default_routes):
                continue
            if not any(one.family == family and one.scope == "global" for one in link.addresses):
                continue
            yield _missing_default(host, link, profile, family, gateway)


@once_per_host
def _activated(host: HostFacts) -> tuple[tuple[Link, Profile], ...]:
    """Links with a carrier on which a profile with routes, or with a lease that has one, is active."""
    manager, found = host.profiles.manager, []
    wanting = {one.uuid: one for one in host.profiles.profiles if _sets_routes(one)}
    for ifindex, device in manager.devices.items() if manager is not None else ():
        is_meant = device.state == ACTIVATED and (device.active_profile in wanting or device.dhcp_routers)
        profile = host.profiles.by_uuid.get(device.active_profile or "") if is_meant else None
        link = host.snapshot.links.get(ifindex)
        if profile is None or link is None or link.carrier is not True or profile.external or profile.volatile:
            continue
        if not is_in_vrf(host, link):
            found.append((link, profile))
    return tuple(found)


def _sets_routes(profile: Profile) -> bool:
    return bool(profile.ipv4.gateway or profile.ipv4.routes or profile.ipv6.gateway or profile.ipv6.routes)


def _wanted_gateway(host: HostFacts, link: Link, profile: Profile, family: str) -> str:
    """The gateway that the profile or its DHCP lease sets; "": none, or not in the table main."""
    settings = ip_settings(profile, family)
    gateway = settings.gateway or ""
    if not gateway and family == "ipv4" and settings.method == "auto":
        device = host.profiles.device(link)
        gateway = device.dhcp_routers[0] if device is not None and device.dhcp_routers else ""
    is_meant = settings.method not in NO_ROUTES and not settings.never_default and not settings.has_routing_rules
    return gateway if is_meant else ""


def _missing_default(host: HostFacts, link: Link, profile: Profile, family: str, gateway: str) -> Finding:
    others = [one.name for one in host.links if any(route.family == family for route in one.default_routes)]
    name = family.replace("ip", "IP")
    from_lease = ip_settings(profile, family).gateway is None
    route = ("default", "via", gateway, "dev", link.name)
    now, delete = (command(*ip(family), "route", change, *route) for change in ("add", "del"))
    note = "If it is missing again after a reboot, another program deletes it, or the kernel refuses the gateway."
    return link_finding(
        "warning" if others else "critical",
        host,
        link,
        f"no {name} default route, although {quoted_name(profile.id)} has a gateway",
        evidence=(
            *profile_evidence(profile),
            Evidence("gateway", f"{gateway}{' (DHCP)' if from_lease else ''}", f"nmcli device show {link.name}"),
            Evidence("default routes", ", ".join(others) or "none", f"{' '.join(ip(family))} route show default"),
        ),
        why=f"Packets to other networks leave by {others[0]} only."
        if others
        else "No packet leaves the subnets of this host: there is no way to other networks.",
        fixes=(
            Fix("here", "Let NetworkManager set it again", (reapply(link),), True, note=note),
            Fix("here", "Or add it now", (now,), False, (delete,)),
        ),
    )


@host_rule(
    FAMILY,
    "warning",
    yields_to=("default_route_is_missing", "profile_failed"),
    needs=("networkmanager", "routing.routes"),
)
def route_of_the_profile_is_missing(host: HostFacts) -> Outcomes:
    """A route of the active profile is not in the routing tables.

    Packets to it leave by the default route, or not at all. Somebody deleted it, the profile was changed and not
    activated again, or the kernel refused it because its gateway is in no subnet of the NIC.

    nictop compares ipv4.routes and ipv6.routes of active NetworkManager profiles with all routing tables, by
    destination and gateway. Not reported: tables that were not read completely (more than 1024 routes), and NICs that
    are still being activated or have no carrier.

    Sources: nm-settings-nmcli(5) ipv4.routes; nmcli(1) device reapply.
    """
    known = tables(host)
    if known is None:
        return
    with_routes = [(link, profile) for link, profile in _activated(host) if profile.ipv4.routes or profile.ipv6.routes]
    if not with_routes:
        return
    present = {(one.destination, one.gateway) for one in known.routes}
    destinations = {destination for destination, _ in present}
    for link, profile in with_routes:
        missing = []
        for family in FAMILIES:
            for written in ip_settings(profile, family).routes:
                destination, gateway = _parsed(written)
                if not destination:
                    continue
                is_there = (destination, gateway) in present if gateway else destination in destinations
                if not is_there:
                    missing.append(written)
        if missing:
            yield _missing_routes(host, link, profile, missing, destinations)


def _parsed(written: str) -> tuple[str, str | None]:
    """(destination as the kernel prints it, gateway) of ``198.51.100.7/24 via 192.0.2.254``; "": malformed."""
    prefix, _, gateway = written.partition(" via ")
    network = parse_network(prefix)
    if network is None:
        return "", None
    return str(network), gateway or None


def _missing_routes(
    host: HostFacts, link: Link, profile: Profile, missing: list[str], destinations: set[str]
) -> Finding:
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    other_gateway = _parsed(missing[0])[0] in destinations
    state = "has another gateway" if other_gateway else "is not in the routing table"
    return link_finding(
        "warning",
        host,
        link,
        f"route {missing[0].partition(' ')[0]}{more} of {quoted_name(profile.id)} {state}",
        evidence=(
            *profile_evidence(profile),
            Evidence("missing", "; ".join(missing[:MAX_LISTED]), "nmcli con show; ip route show table all"),
        ),
        why="Packets to it leave by another route, or not at all.",
        fixes=(
            Fix(
                "here",
                "Let NetworkManager set it again",
                (reapply(link),),
                True,
                note="If it is missing again, its gateway is in no subnet of the NIC, or another program deletes it.",
            ),
        ),
    )
