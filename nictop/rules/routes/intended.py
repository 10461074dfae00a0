"""What a profile or a configuration file wants and the host does not have: its default route, its
routes, its addresses.

Reads nothing. NetworkManager adds the routes of a profile when it is activated; a route that
somebody deletes, or that goes with its link, is not always added again.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from functools import lru_cache

from nictop.model.devices.links import global_addresses
from nictop.model.managers.configuration import file_and_line
from nictop.model.managers.networkmanager_states import ACTIVATED
from nictop.model.parts import managed_devices
from nictop.model.text.ip_addresses import parse_network
from nictop.probe.records import ConfigurationEntry, IpSettings, Link, ManagedDevice, Profile
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.fixes.persistence import is_run_by_networkd
from nictop.rules.fixes.profiles import profile_evidence, quoted_name
from nictop.rules.host import HostFacts, once_per_host
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.routes.facts import is_in_vrf, tables
from nictop.rules.routes.fixes import ip, ip_settings, own_profile, reapply
from nictop.rules.subjects import (
    global_address_texts,
    has_default_route,
    link_finding,
    names_text,
)

FAMILIES = ("ipv4", "ipv6")
NO_ROUTES = ("disabled", "ignore", "link-local", "shared")
"""Methods of a profile that set no default route."""
MAX_LISTED = 4


@host_rule(
    "critical",
    yields_to=(
        "address_is_a_duplicate",
        "gateway_is_outside_its_subnets",
        "ip_address_is_on_two_hosts",
        "networkd_failed",
        "profile_failed",
        "profile_was_changed_and_not_applied",
        "router_advertisements_are_ignored",
    ),
    needs=("addresses", "networkmanager", "routes"),
    uses=("configuration", "networkd"),
)
def default_route_is_missing(host: HostFacts) -> Outcomes:
    """The configuration of a NIC has a gateway, or DHCP gave one, but there is no default route by
    the NIC.

    Somebody or something deleted it, it went when the link was set down, or the kernel refused it
    when the NIC was configured.

    nictop compares ipv4.gateway and ipv6.gateway of the active NetworkManager profile, the option
    "routers" of its DHCP lease, and the gateways in files of netplan, systemd-networkd and ifupdown
    with the default routes of the NIC.
    Critical: the host has no default route of this address family at all. Warning: it has another
    one.

    Not reported: profiles with never-default, with a routing table or routing rules of their own,
    NICs that are still being activated, have no address or no carrier, and ports of a VRF.

    Sources: nm-settings-nmcli(5) ipv4.gateway, ipv4.never-default, ipv4.route-table; nmcli(1)
    device reapply; netplan(5) routes; systemd.network(5) Gateway=; interfaces(5) gateway;
    systemd/systemd#38894.
    """
    for link, profile in _activated(host):
        for family in FAMILIES:
            gateway = _wanted_gateway(host, link, profile, family)
            if gateway and _lacks_default_route(link, family):
                yield _missing_default(host, link, profile, family, gateway)
    for link, entry, gateway in _gateways_of_files(host):
        family = "ipv6" if ":" in gateway else "ipv4"
        if _lacks_default_route(link, family):
            yield _missing_in_files(host, link, entry, family, gateway)


def _lacks_default_route(link: Link, family: str) -> bool:
    """Although it has an address of the family."""
    if has_default_route(link, family):
        return False
    return bool(global_addresses(link, family))


def _gateways_of_files(host: HostFacts) -> Iterator[tuple[Link, ConfigurationEntry, str]]:
    """Gateways in the file that is in use for a link with a carrier, at most one of each address
    family."""
    if not any(stanza.gateways for stanza in host.configuration.stanzas):
        return
    for link in host.links:
        if link.carrier is not True or is_in_vrf(host, link) or own_profile(host, link) is not None:
            continue
        families: set[bool] = set()
        for entry, gateway in _gateways_in_use(host, link):
            is_ipv6 = ":" in gateway
            if is_ipv6 not in families:
                families.add(is_ipv6)
                yield link, entry, gateway


def _gateways_in_use(host: HostFacts, link: Link) -> Iterator[tuple[ConfigurationEntry, str]]:
    for entry in host.configuration.addressing(link):
        if _is_in_use(host, link, entry):
            for gateway in entry.gateways:
                yield entry, gateway


def _is_in_use(host: HostFacts, link: Link, entry: ConfigurationEntry) -> bool:
    """The stanza configures this link: networkd uses the first .network file that matches, netplan
    writes one."""
    networkd = host.inventory.networkd.get(link.ifindex)
    if networkd is None or not is_run_by_networkd(host, link):
        return entry.owner == "ifupdown" and link.name in entry.names
    if networkd.setup_state != "configured":
        return False
    file = networkd.network_file or ""
    return file == entry.file or (entry.owner == "netplan" and "netplan" in file)


def _missing_in_files(
    host: HostFacts, link: Link, entry: ConfigurationEntry, family: str, gateway: str
) -> Finding:
    others = _links_with_default(host, family)
    fixes = [
        _add_default_fix(
            link,
            family,
            gateway,
            "Add it now",
            f"{entry.file} has it for the next start. If it is missing again, another program "
            "deletes it.",
        )
    ]
    again = _configure_again(entry, link)
    if again is not None:
        note = "Connections may be interrupted."
        fixes.append(Fix("here", "Or configure the NIC again", (again,), None, note=note))
    return link_finding(
        "warning" if others else "critical",
        host,
        link,
        f"no {_name(family)} default route, although {entry.owner} has gateway {gateway}",
        evidence=(
            Evidence("configured in", file_and_line(entry), entry.file),
            _default_routes_evidence(others, family),
        ),
        why=_way_out(others, family),
        fixes=tuple(fixes),
    )


def _configure_again(entry: ConfigurationEntry, link: Link) -> Command | None:
    """None: its owner has no command for it."""
    if entry.owner == "netplan":
        return command("netplan", "apply")
    if entry.owner == "networkd":
        return command("networkctl", "reconfigure", link.name)
    return None


def _add_default_fix(link: Link, family: str, gateway: str, title: str, note: str = "") -> Fix:
    route = ("default", "via", gateway, "dev", link.name)
    add = command(*ip(family), "route", "add", *route)
    delete = command(*ip(family), "route", "del", *route)
    return Fix("here", title, (add,), False, (delete,), note)


def _default_routes_evidence(names: list[str], family: str) -> Evidence:
    source = f"{' '.join(ip(family))} route show default"
    return Evidence("default routes", ", ".join(names) or "none", source)


def _name(family: str) -> str:
    """``IPv4``"""
    return family.replace("ip", "IP")


def _links_with_default(host: HostFacts, family: str) -> list[str]:
    return [link.name for link in host.links if has_default_route(link, family)]


def _way_out(others: list[str], family: str) -> str:
    packets = f"{_name(family)} packets to networks without another route"
    if others:
        return f"{packets} leave by {names_text(others, MAX_LISTED)}."
    return f"{packets} cannot be sent."


@once_per_host
def _activated(host: HostFacts) -> tuple[tuple[Link, Profile], ...]:
    """Links with a carrier on which a profile with routes, or with a lease that has one, is
    active."""
    found = []
    for link, profile, device in _links_with_profiles(host):
        has_routes = device.dhcp_routers or _sets_routes(profile)
        if has_routes and not is_in_vrf(host, link):
            found.append((link, profile))
    return tuple(found)


@once_per_host
def _links_with_profiles(host: HostFacts) -> tuple[tuple[Link, Profile, ManagedDevice], ...]:
    """Links with a carrier on which a stored profile is active. The carrier was there when their
    addresses and routes were read, too: NetworkManager, which is read later, sets these after
    it."""
    read_up = {link.ifindex for link in host.inventory.links if link.carrier is True}
    found = []
    for ifindex, device in managed_devices(host.profiles.manager).items():
        link, profile = host.link_at(ifindex), _activated_profile(host, device)
        if link is None or profile is None or ifindex not in read_up:
            continue
        if link.carrier is True:
            found.append((link, profile, device))
    return tuple(found)


def _activated_profile(host: HostFacts, device: ManagedDevice) -> Profile | None:
    """One that somebody stored; None: the device is not activated by such a profile."""
    profile = host.profiles.by_uuid.get(device.active_profile or "")
    if profile is None or device.state != ACTIVATED:
        return None
    if profile.external or profile.volatile:
        return None
    return profile


def _sets_routes(profile: Profile) -> bool:
    for settings in (profile.ipv4, profile.ipv6):
        if settings.gateway or settings.routes:
            return True
    return False


def _wanted_gateway(host: HostFacts, link: Link, profile: Profile, family: str) -> str:
    """The gateway that the profile or its DHCP lease sets; "": none, or not in the table main."""
    settings = ip_settings(profile, family)
    if settings.method in NO_ROUTES or settings.never_default or settings.has_routing_rules:
        return ""
    if settings.gateway:
        return settings.gateway
    device = host.profiles.device(link)
    if family != "ipv4" or settings.method != "auto" or device is None:
        return ""
    return next(iter(device.dhcp_routers), "")


def _missing_default(
    host: HostFacts, link: Link, profile: Profile, family: str, gateway: str
) -> Finding:
    others = _links_with_default(host, family)
    known = gateway
    if ip_settings(profile, family).gateway is None:
        known = f"{gateway} (DHCP)"
    note = (
        "If it is missing again after a reboot, another program deletes it, or the kernel "
        "refuses the gateway."
    )
    return link_finding(
        "warning" if others else "critical",
        host,
        link,
        f"no {_name(family)} default route, although {quoted_name(profile.id)} has a gateway",
        evidence=(
            *profile_evidence(profile),
            Evidence("gateway", known, f"nmcli device show {link.name}"),
            _default_routes_evidence(others, family),
        ),
        why=_way_out(others, family),
        fixes=(
            Fix("here", "Let NetworkManager set it again", (reapply(link),), None, note=note),
            _add_default_fix(link, family, gateway, "Or add it now"),
        ),
    )


@host_rule(
    "warning",
    yields_to=("default_route_is_missing", "profile_failed", "profile_was_changed_and_not_applied"),
    needs=("networkmanager", "routing.routes"),
)
def route_of_the_profile_is_missing(host: HostFacts) -> Outcomes:
    """A route of the active profile is not in the routing tables.

    Packets to it leave by the default route, or not at all. Somebody deleted it, the profile was
    changed and not activated again, or the kernel refused it because its gateway is in no subnet of
    the NIC.

    nictop compares ipv4.routes and ipv6.routes of active NetworkManager profiles with all routing
    tables, by destination and gateway. Not reported: tables that were not read completely (more
    than 1024 routes), and NICs that are still being activated or have no carrier.

    Sources: nm-settings-nmcli(5) ipv4.routes; nmcli(1) device reapply.
    """
    known = tables(host)
    with_routes = [active for active in _activated(host) if _sets_routes(active[1])]
    if known is None or not with_routes:
        return
    present = {(route.destination, route.gateway) for route in known.routes}
    destinations = {destination for destination, _ in present}
    for link, profile in with_routes:
        missing = []
        for written in (*profile.ipv4.routes, *profile.ipv6.routes):
            destination, gateway = _parsed(written)
            is_present = (destination, gateway) in present
            if gateway is None:
                is_present = destination in destinations
            if destination and not is_present:
                missing.append(written)
        if missing:
            yield _missing_routes(host, link, profile, missing, destinations)


@host_rule(
    "critical",
    yields_to=(
        "profile_was_changed_and_not_applied",
        "address_is_a_duplicate",
        "ip_address_is_on_two_hosts",
    ),
    needs=("networkmanager", "addresses"),
)
def address_of_the_profile_is_missing(host: HostFacts) -> Outcomes:
    """An address of the active profile is not on the NIC.

    Somebody deleted it (ip addr flush), or another program replaced it, as a second DHCP client
    does; IPv6 addresses also go when the link is set down. NetworkManager does not add it again by
    itself. nictop compares ipv4.addresses and
    ipv6.addresses of active NetworkManager profiles (method manual) with the addresses of the link.
    Critical: the NIC has no other address than link-local ones, and no other link has it; else
    warning.

    Not reported: NICs that are still being activated or have no carrier, ports of bridges and
    bonds, and other prefix lengths.

    Sources: nm-settings-nmcli(5) ipv4.addresses; nmcli(1) device reapply.
    """
    for link, profile, _ in _links_with_profiles(host):
        if _is_port(host, link):
            continue
        wanted = (*_manual_addresses(profile.ipv4), *_manual_addresses(profile.ipv6))
        if not wanted:
            continue
        present = {address.address for address in link.addresses}
        missing = [address for address in wanted if _without_prefix(address) not in present]
        if missing:
            yield _missing_addresses(host, link, profile, missing)


def _is_port(host: HostFacts, link: Link) -> bool:
    """Of a bridge or bond, which has the addresses."""
    above = host.master_of(link)
    return above is not None and above.kind != "vrf"


def _manual_addresses(settings: IpSettings) -> Sequence[str]:
    return settings.addresses if settings.method == "manual" else ()


@lru_cache(maxsize=16384)  # called again with every diagnosis of any host
def _without_prefix(address: str) -> str:
    """``2001:DB8:0::5/64`` → ``2001:db8::5``, as the kernel prints it; as it is if it is
    malformed."""
    try:
        return str(ipaddress.ip_interface(address).ip)
    except ValueError:
        return address


def _missing_addresses(
    host: HostFacts, link: Link, profile: Profile, missing: Sequence[str]
) -> Finding:
    shown, present = names_text(missing, 1), global_address_texts(link)
    now = names_text(present, MAX_LISTED) or "none"
    note = "If it is missing again, another program deletes it."
    elsewhere = _link_with(host, missing[0])
    why = "Nothing reaches this host by it, and programs bound to it fail."
    if elsewhere:
        why = f"It is on {elsewhere}: programs that use it on {link.name} fail."
    return link_finding(
        "warning" if present or elsewhere else "critical",
        host,
        link,
        f"address {shown} of {quoted_name(profile.id)} is not on it",
        evidence=(
            *profile_evidence(profile),
            Evidence("missing", "; ".join(missing[:MAX_LISTED]), "nmcli con show"),
            Evidence("addresses", now, f"ip addr show dev {link.name}"),
        ),
        why=why,
        fixes=(Fix("here", "Let NetworkManager set it again", (reapply(link),), None, note=note),),
    )


def _link_with(host: HostFacts, address: str) -> str:
    """Name of the link that has the address; "": none."""
    wanted = _without_prefix(address)
    for link in host.links:
        if any(own.address == wanted for own in link.addresses):
            return link.name
    return ""


def _parsed(written: str) -> tuple[str, str | None]:
    """(destination as the kernel prints it, gateway) of ``198.51.100.7/24 via 192.0.2.254``; "":
    malformed."""
    prefix, _, gateway = written.partition(" via ")
    network = parse_network(prefix)
    if network is None:
        return "", None
    return str(network), gateway or None


def _missing_routes(
    host: HostFacts, link: Link, profile: Profile, missing: list[str], destinations: set[str]
) -> Finding:
    name = missing[0].partition(" ")[0]
    if len(missing) > 1:
        name += f" and {len(missing) - 1} more"
    state = "is not in the routing table"
    if _parsed(missing[0])[0] in destinations:
        state = "has another gateway"
    listed = "; ".join(missing[:MAX_LISTED])
    note = (
        "If it is missing again, its gateway is in no subnet of the NIC, or another program "
        "deletes it."
    )
    return link_finding(
        "warning",
        host,
        link,
        f"route {name} of {quoted_name(profile.id)} {state}",
        evidence=(
            *profile_evidence(profile),
            Evidence("missing", listed, "nmcli con show; ip route show table all"),
        ),
        why="Packets to it leave by another route, or not at all.",
        fixes=(Fix("here", "Let NetworkManager set it again", (reapply(link),), None, note=note),),
    )
