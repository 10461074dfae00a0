"""Commands that set, remove or restore a route, in the tool that configures the link.

Pure. Sources: ip-route(8), ip-rule(8), nm-settings-nmcli(5) ipv4.gateway and ipv4.routes, nmcli(1)
device reapply, interfaces(5), systemd.network(5).
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.devices.route_lookup import MAIN_TABLE
from nictop.model.facts.routing import host_address
from nictop.probe.kernel.route_protocols import (
    RTPROT_BOOT,
    RTPROT_DHCP,
    RTPROT_KERNEL,
    RTPROT_RA,
    RTPROT_STATIC,
)
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import IpSettings, Link, PolicyRule, Profile, TableRoute
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command, command
from nictop.rules.fixes.persistence import escaped_pattern, ifupdown_stanza, network_file
from nictop.rules.fixes.profiles import modify
from nictop.rules.host import HostFacts
from nictop.rules.routes.facts import on_link_route, reason_not_to_rewrite

GATEWAY_PLACEHOLDER = "<GATEWAY>"
GATEWAY_NOTE = f"Replace {GATEWAY_PLACEHOLDER} by the address of the router."
DHCP, ROUTER_ADVERTISEMENT, KERNEL = RTPROT_DHCP, RTPROT_RA, RTPROT_KERNEL
PROTOCOL_WORDS = {RTPROT_STATIC: "static"}
UNKNOWN_OPTIONS_NOTE = (
    "Not recorded by this version, and not set again: preferred source (src) and other options of "
    "the route."
)


def ip(family: str) -> tuple[str, ...]:
    return ("ip",) if family == "ipv4" else ("ip", "-6")


def route_words(
    route: TableRoute, link: Link | None, *, gateway: str | None = None
) -> tuple[str, ...]:
    """The route as arguments of ip-route(8), with all that is known of it (`unset_note`: what is
    not); `gateway`: another one than its own."""
    via = gateway or route.gateway or ""
    is_of_ipv6 = route.family == "ipv4" and ":" in via
    is_main = route.table == MAIN_TABLE
    is_boot = route.protocol in (0, RTPROT_BOOT)  # what ip-route(8) sets without the word
    protocol = PROTOCOL_WORDS.get(route.protocol, str(route.protocol))
    is_default = route.destination.endswith("/0")
    words = [] if route.type == "unicast" else [route.type]
    words.append("default" if is_default else host_address(route.destination))
    for name, value in (
        ("from", route.source),
        ("via inet6" if is_of_ipv6 else "via", via),
        ("dev", "" if link is None else link.name),
        ("metric", str(route.metric or "")),
        ("table", "" if is_main else str(route.table)),
        ("proto", "" if is_boot else protocol),
        ("src", route.preferred_source),
    ):
        if value:
            words += [*name.split(), value]
    words += route.options
    if route.onlink and gateway is None:
        words.append("onlink")
    return tuple(words)


def unset_note(host: HostFacts, routes: Sequence[TableRoute]) -> str:
    """What `change_route` does not write of these routes; "": nothing."""
    routing = host.inventory.routing
    if routes and (routing is None or not routing.has_route_options):
        return UNKNOWN_OPTIONS_NOTE
    found = []
    for route in routes:
        names = [*route.unread, *(["lifetime"] if route.expires is not None else ())]
        if names:
            shown = "default" if route.destination.endswith("/0") else route.destination
            found.append(f"The command does not set {', '.join(names)} of the route to {shown}.")
    return " ".join(dict.fromkeys(found))


def change_route(
    change: str, route: TableRoute, link: Link | None, *, gateway: str | None = None
) -> Command:
    """``ip route add …``"""
    return command(*ip(route.family), "route", change, *route_words(route, link, gateway=gateway))


def delete_rule(rule: PolicyRule, change: str = "del") -> Command:
    """``ip rule del …``, or with `change` "add" the same rule again."""
    words = ["not"] if rule.inverted else []
    for name, value in (
        ("from", host_address(rule.source)),
        ("to", host_address(rule.destination)),
    ):
        words += [name, value] if value else []
    if rule.mark is not None:
        mask = "" if rule.mark_mask in (None, 0xFFFFFFFF) else f"/{rule.mark_mask:#x}"
        words += ["fwmark", f"{rule.mark:#x}{mask}"]
    for name, value in (("iif", rule.input_link), ("oif", rule.output_link)):
        words += [name, value] if value else []
    words += ["priority", str(rule.priority)]
    words += ["table", str(rule.table)] if rule.action == "table" else [rule.action]
    return command(*ip(rule.family), "rule", change, *words)


def reapply(link: Link) -> Command:
    return command("nmcli", "device", "reapply", link.name)


def own_profile(host: HostFacts, link: Link) -> Profile | None:
    """The NetworkManager profile that configures the link."""
    return host.own_profile(link)


def modify_routes(host: HostFacts, profile: Profile, sign: str, family: str, route: str) -> Command:
    """Add (`sign` +) or remove (-) a route of a profile: ``198.51.100.0/24 192.0.2.254``."""
    return modify(host, profile, f"{sign}{family}.routes", route)


def ip_settings(profile: Profile, family: str) -> IpSettings:
    return profile.ipv6 if family == "ipv6" else profile.ipv4


def other_gateway_fixes(host: HostFacts, link: Link, route: TableRoute) -> tuple[Fix, ...]:
    """Another gateway for a default route, now and where it is configured."""
    old = route.gateway or ""
    profile = own_profile(host, link)
    settings = ip_settings(profile, route.family) if profile is not None else None
    if profile is not None and settings is not None and settings.gateway == old:
        name = f"{route.family}.gateway"
        change = (modify(host, profile, name, GATEWAY_PLACEHOLDER), reapply(link))
        undo = (modify(host, profile, name, old), reapply(link))
        return (
            Fix("here", "Set another gateway in the profile", change, True, undo, GATEWAY_NOTE),
        )
    source = _announced_by(route, settings)
    if source:
        return (
            Fix(
                "here",
                f"Correct the gateway on {source}",
                (),
                True,
                note="Then renew the lease, or wait.",
            ),
        )
    reason = reason_not_to_rewrite(host, route)
    if reason:
        return (Fix("here", "Correct the gateway where the route is set", (), True, note=reason),)
    now = Fix(
        "here",
        "Set another gateway now" if old else "Set a gateway now",
        (change_route("replace", route, link, gateway=GATEWAY_PLACEHOLDER),),
        False,
        (change_route("replace", _acceptable(host, link, route), link),),
        f"{GATEWAY_NOTE} {unset_note(host, (route,))}".rstrip(),
    )
    return now, *_stored_gateway(host, link, old)


def _acceptable(host: HostFacts, link: Link, route: TableRoute) -> TableRoute:
    """The route as the kernel accepts it again, if its gateway is not on the link any more."""
    is_on_link = route.gateway is None or on_link_route(host, link, route.gateway) is not None
    return route if is_on_link else replace(route, onlink=True)


def _announced_by(route: TableRoute, settings: IpSettings | None) -> str:
    if route.protocol == ROUTER_ADVERTISEMENT:
        return "the router that announces it"
    if route.protocol == DHCP:
        return "the DHCP server"
    if settings is not None and settings.method == "auto" and settings.gateway is None:
        return "the DHCP server"
    return ""


def _stored_gateway(host: HostFacts, link: Link, old: str) -> tuple[Fix, ...]:
    """Where another manager than NetworkManager has the gateway."""
    stanza = ifupdown_stanza(host, link)
    if stanza is not None and old in stanza.gateways:
        change = _gateway_line(stanza.file, old, GATEWAY_PLACEHOLDER)
        undo = _gateway_line(stanza.file, GATEWAY_PLACEHOLDER, old)
        title = f"Change it in {stanza.file}"
        return (Fix("here", title, (change,), True, (undo,), "Read at the next ifup."),)
    files = [entry.file for entry in host.configuration.addressing(link)]
    place = files[0] if files else network_file(host, link)
    if place is None:
        return ()
    return (Fix("here", f"Change it in {place} as well", (), True),)


def _gateway_line(file: str, old: str, new: str) -> Command:
    """Another gateway in a stanza."""
    begin = r"^\([[:space:]]*gateway[[:space:]][[:space:]]*\)"
    change = rf"s/{begin}{escaped_pattern(old)}[[:space:]]*$/\1{new}/"
    return command("sed", "-i", change, file)
