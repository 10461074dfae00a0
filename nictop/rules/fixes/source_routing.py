"""Source-based routing, so that packets with a NIC's address as source leave by that NIC: a routing
table and a rule.

Pure. The form depends on what configures the NIC: its NetworkManager profile (effective at once and
persistent), else ip-route(8) and ip-rule(8) now, and a persistent form. Sources: ip-rule(8),
nm-settings-nmcli(5) ipv4.routes and ipv4.routing-rules, systemd.network(5) [RoutingPolicyRule],
interfaces(5), kernel Documentation/networking/ip-sysctl.rst arp_filter ("you must use source based
routing for this to work").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nictop.model.text.ip_addresses import Network, address_network, parse_ip_address
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Address, Link, Profile
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command, Step, command, print_lines
from nictop.rules.fixes.persistence import (
    SAFE_NAME,
    drop_in_folder,
    ifupdown_stanza,
    network_file,
    stanza_fix,
    sysctl_fixes,
)
from nictop.rules.fixes.profiles import modify
from nictop.rules.host import HostFacts
from nictop.rules.routes.facts import tables

ARP_FILTER = "net.ipv4.conf.all.arp_filter"
RT_TABLE_MAIN = 254
FIRST_TABLE = 1000
"""Number of a NIC's table, plus its ifindex: not used by distributions and NetworkManager."""
TABLE_STEP = 1000
MAX_ROUTED_ADDRESSES = 8
"""Addresses of one NIC for which rules are printed."""
SOURCE_ROUTING_TITLE = "Add source-based routing for this NIC"
STATIC_ADDRESS_NOTE = (
    "The rules contain the address, so it must not change (static, or reserved in DHCP)."
)

OTHER_NETWORKS_NOTE = (
    "What is sent from it to networks of other links of this host (containers, VPN) goes to the "
    "gateway, too: add routes to these networks to the table if that is needed."
)


@dataclass(frozen=True)
class NicTable:
    """The routing table of one NIC."""

    number: str
    routes: tuple[Route, ...]
    addresses: tuple[Address, ...]
    """Packets from these are looked up in it."""


@dataclass(frozen=True)
class Route:
    """A route of that table."""

    family: str
    destination: str
    source: str | None
    gateway: str | None


def source_routing_fixes(
    host: HostFacts, link: Link, addresses: Iterable[Address]
) -> tuple[Fix, ...]:
    """Fixes for those addresses of the link whose packets leave by another NIC."""
    own = tuple(address for address in addresses if address_network(address) is not None)[
        :MAX_ROUTED_ADDRESSES
    ]
    table = NicTable(
        str(free_table(host, link)), tuple(dict.fromkeys(_routes(host, link, own))), own
    )
    arp = _arp_fixes(host, own)
    profile = host.own_profile(link)
    if profile is not None:
        return (_in_the_profile(host, link, profile, table, arp),)
    return _now(link, table, arp[:1]), _persistent(host, link, table, arp[1:])


def _note(table: NicTable) -> str:
    if any(route.gateway for route in table.routes):
        return f"{STATIC_ADDRESS_NOTE} {OTHER_NETWORKS_NOTE}"
    return STATIC_ADDRESS_NOTE


def _arp_fixes(host: HostFacts, addresses: Iterable[Address]) -> tuple[Fix, ...]:
    """Only the NIC that has an address answers for it, now and persistently; (): it is so already,
    or there is no IPv4 address."""
    if host.inventory.settings.sysctl.get(ARP_FILTER):
        return ()
    if not any(address.family == "ipv4" for address in addresses):
        return ()
    return sysctl_fixes(host, ARP_FILTER, 1)


def _commands(fixes: Iterable[Fix]) -> Iterator[Step]:
    for fix in fixes:
        yield from fix.commands


def _undo(fixes: Iterable[Fix]) -> Iterator[Step]:
    for fix in fixes:
        yield from fix.undo


def _in_the_profile(
    host: HostFacts, link: Link, profile: Profile, table: NicTable, arp: tuple[Fix, ...]
) -> Fix:
    add = modify(host, profile, *_profile_settings("+", table))
    remove = modify(host, profile, *_profile_settings("-", table))
    commands = (add, _reapply(link), *_commands(arp))
    undo = (remove, _reapply(link), *_undo(arp))
    return Fix("here", SOURCE_ROUTING_TITLE, commands, True, undo, _note(table))


def _now(link: Link, table: NicTable, arp: tuple[Fix, ...]) -> Fix:
    commands = (*_ip_lines(link, table), *_commands(arp))
    undo = (*_ip_undo(link, table), *_undo(arp))
    return Fix("here", SOURCE_ROUTING_TITLE, commands, False, undo, _note(table))


def free_table(host: HostFacts, link: Link) -> int:
    """The number of a table without routes and rules, because the fix replaces routes and its undo
    removes them."""
    known = tables(host)
    used: set[int | None] = set()
    if known is not None:
        used.update(route.table for route in known.routes)
        used.update(rule.table for rule in known.rules)
    number = FIRST_TABLE + link.ifindex
    while number in used:
        number += TABLE_STEP
    return number


def _routes(host: HostFacts, link: Link, addresses: Iterable[Address]) -> Iterator[Route]:
    """The subnets of the addresses, and a default route by a gateway that is in one of them."""
    for address in addresses:
        network = address_network(address)
        if network is None:
            continue
        source = address.address if address.family == "ipv4" else None
        yield Route(address.family, str(network), source, None)
        gateway = _gateway_in(network, address.family, host, link)
        if gateway is not None:
            yield Route(address.family, EVERYTHING[address.family], None, gateway)


EVERYTHING = {"ipv4": "0.0.0.0/0", "ipv6": "::/0"}


def _gateway_in(network: Network, family: str, host: HostFacts, link: Link) -> str | None:
    """That of a default route, of this link or else of another one."""
    for known in (link, *host.links):
        for route in known.default_routes:
            gateway = parse_ip_address(route.gateway or "")
            if route.family == family and gateway is not None and gateway in network:
                return route.gateway
    return None


def _ip(family: str) -> tuple[str, ...]:
    return ("ip",) if family == "ipv4" else ("ip", "-6")


def _ip_route(change: str, route: Route, link: Link, table: str) -> Command:
    words = [*_ip(route.family), "route", change]
    if route.gateway:
        words += ["default", "via", route.gateway]
    else:
        words.append(route.destination)
    words += ["dev", link.name]
    if route.source:
        words += ["src", route.source]
    return command(*words, "table", table)


def _ip_rule(change: str, address: Address, table: str) -> Command:
    return command(*_ip(address.family), "rule", change, "from", address.address, "table", table)


def _ip_lines(link: Link, table: NicTable) -> Iterator[Command]:
    for route in table.routes:
        yield _ip_route("replace", route, link, table.number)
    for address in table.addresses:
        yield _ip_rule("add", address, table.number)


def _ip_undo(link: Link, table: NicTable) -> Iterator[Command]:
    for address in table.addresses:
        yield _ip_rule("del", address, table.number)
    for route in reversed(table.routes):
        yield _ip_route("del", route, link, table.number)


def _reapply(link: Link) -> Command:
    return command("nmcli", "device", "reapply", link.name)


def _profile_settings(sign: str, table: NicTable) -> Iterator[str]:
    for route in table.routes:
        text = route.destination
        if route.gateway:
            text += f" {route.gateway}"
        if route.source:
            text += f" src={route.source}"
        yield f"{sign}{route.family}.routes"
        yield f"{text} table={table.number}"
    for address in table.addresses:
        yield f"{sign}{address.family}.routing-rules"
        yield f"priority {table.number} from {address.address} table {table.number}"


# --------------------------------------------------------------------------------- persistent forms


def _persistent(host: HostFacts, link: Link, table: NicTable, arp: tuple[Fix, ...]) -> Fix:
    file = network_file(host, link)
    if file is not None:
        return _in_a_drop_in(link, table, drop_in_folder(file), arp)
    stanza = ifupdown_stanza(host, link)
    more, back = tuple(_commands(arp)), tuple(_undo(arp))
    if stanza is not None and SAFE_NAME.fullmatch(link.name):
        lines = " && ".join(map(str, _ip_lines(link, table)))
        stored = stanza_fix(link, stanza, f"up {lines} || true")
        return replace(stored, commands=stored.commands + more, undo=stored.undo + back)
    note = (
        "Let the tool that configures this NIC run the ip commands above after it has set the "
        "address."
    )
    return Fix("here", "Make persistent", more, True, back, note)


def _in_a_drop_in(link: Link, table: NicTable, folder: str, arp: tuple[Fix, ...]) -> Fix:
    file = f"{folder}/source-routing.conf"
    again = (command("networkctl", "reload"), command("networkctl", "reconfigure", link.name))
    written = print_lines(_networkd_lines(table), file)
    return Fix(
        "here",
        "Store in a drop-in of the .network file",
        (command("mkdir", "-p", folder), written, *again, *_commands(arp)),
        True,
        (command("rm", file), *again, *_undo(arp)),
        _note(table),
    )


def _networkd_lines(table: NicTable) -> Iterator[str]:
    for route in table.routes:
        yield from ("[Route]", f"Destination={route.destination}", f"Table={table.number}")
        if route.gateway:
            yield f"Gateway={route.gateway}"
        elif route.family == "ipv4":
            yield from ("Scope=link", f"PreferredSource={route.source}")
    for address in table.addresses:
        yield from (
            "[RoutingPolicyRule]",
            f"From={address.address}",
            f"Table={table.number}",
            f"Priority={table.number}",
        )
