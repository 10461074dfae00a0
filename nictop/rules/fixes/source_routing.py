"""Source-based routing, so that packets with a NIC's address as source leave by that NIC: a routing table and a rule.

Pure. The form depends on what configures the NIC: its NetworkManager profile (effective at once and persistent), else
ip-route(8) and ip-rule(8) now, and a persistent form. Sources: ip-rule(8), nm-settings-nmcli(5) ipv4.routes and
ipv4.routing-rules, systemd.network(5) [RoutingPolicyRule], interfaces(5), kernel
Documentation/networking/ip-sysctl.rst arp_filter ("you must use source based routing for this to work").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nictop.model.text.ip_addresses import Network, parse_ip_address, parse_network
from nictop.probe.records import Address, Link
from nictop.rules.finding import Fix
from nictop.rules.fixes.commands import Command, command, print_lines
from nictop.rules.fixes.persistence import SAFE_NAME, ifupdown_stanza, is_run_by_networkd, stanza_fix, sysctl_fixes
from nictop.rules.fixes.profiles import modify
from nictop.rules.host import HostFacts
from nictop.rules.routing.facts import tables

ARP_FILTER = "net.ipv4.conf.all.arp_filter"
RT_TABLE_MAIN = 254
FIRST_TABLE = 1000
"""Number of a NIC's table, plus its ifindex: not used by distributions and NetworkManager."""
TABLE_STEP = 1000
MAX_ROUTED_ADDRESSES = 8
"""Addresses of one NIC for which rules are printed."""
SOURCE_ROUTING_TITLE = "Add source-based routing for this NIC"
STATIC_ADDRESS_NOTE = "The rules contain the address, so it must not change (static, or reserved in DHCP)."


@dataclass(frozen=True)
class Table:
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


def source_routing_fixes(host: HostFacts, link: Link, addresses: Iterable[Address]) -> tuple[Fix, ...]:
    """Fixes for those addresses of the link whose packets leave by another NIC."""
    own = tuple(one for one in addresses if _network(one) is not None)[:MAX_ROUTED_ADDRESSES]
    table = Table(str(free_table(host, link)), tuple(dict.fromkeys(_routes(host, link, own))), own)
    arp: tuple[Fix, ...] = ()
    if any(one.family == "ipv4" for one in own) and not host.inventory.settings.sysctl.get(ARP_FILTER):
        arp = sysctl_fixes(host, ARP_FILTER, 1)
    profile = host.profiles.active(link)
    if profile is not None and not profile.external:
        add, remove = ((modify(host, profile, *_profile_settings(sign, table)), _reapply(link)) for sign in "+-")
        commands = (*add, *(line for fix in arp for line in fix.commands))
        undo = (*remove, *(line for fix in arp for line in fix.undo))
        return (Fix("here", SOURCE_ROUTING_TITLE, commands, True, undo, STATIC_ADDRESS_NOTE),)
    commands = (*_ip_lines(link, table), *(line for fix in arp[:1] for line in fix.commands))
    undo = (*_ip_undo(link, table), *(line for fix in arp[:1] for line in fix.undo))
    return Fix("here", SOURCE_ROUTING_TITLE, commands, False, undo, STATIC_ADDRESS_NOTE), _persistent(
        host, link, table, arp[1:]
    )


def free_table(host: HostFacts, link: Link) -> int:
    """The number of a table without routes and rules, because the fix replaces routes and its undo removes them."""
    known = tables(host)
    used: set[int | None] = set()
    if known is not None:
        used.update(one.table for one in known.routes)
        used.update(one.table for one in known.rules)
    number = FIRST_TABLE + link.ifindex
    while number in used:
        number += TABLE_STEP
    return number


def _routes(host: HostFacts, link: Link, addresses: Iterable[Address]) -> Iterator[Route]:
    """The subnets of the addresses, and a default route by a gateway that is in one of them."""
    for one in addresses:
        network = _network(one)
        if network is None:
            continue
        yield Route(one.family, str(network), one.address if one.family == "ipv4" else None, None)
        every = "0.0.0.0/0" if one.family == "ipv4" else "::/0"
        for route in (route for known in (link, *host.links) for route in known.default_routes):
            gateway = parse_ip_address(route.gateway or "")
            if route.family == one.family and gateway is not None and gateway in network:
                yield Route(one.family, every, None, route.gateway)
                break


def _network(address: Address) -> Network | None:
    return parse_network(f"{address.address}/{address.prefix_length}")


def _ip(family: str) -> tuple[str, ...]:
    return ("ip",) if family == "ipv4" else ("ip", "-6")


def _ip_route(change: str, route: Route, link: Link, table: str) -> Command:
    destination = "default" if route.gateway else route.destination
    via = ("via", route.gateway) if route.gateway else ()
    source = ("src", route.source) if route.source else ()
    return command(*_ip(route.family), "route", change, destination, *via, "dev", link.name, *source, "table", table)


def _ip_rule(change: str, address: Address, table: str) -> Command:
    return command(*_ip(address.family), "rule", change, "from", address.address, "table", table)


def _ip_lines(link: Link, table: Table) -> Iterator[Command]:
    for route in table.routes:
        yield _ip_route("replace", route, link, table.number)
    for one in table.addresses:
        yield _ip_rule("add", one, table.number)


def _ip_undo(link: Link, table: Table) -> Iterator[Command]:
    for one in table.addresses:
        yield _ip_rule("del", one, table.number)
    for route in reversed(table.routes):
        yield _ip_route("del", route, link, table.number)


def _reapply(link: Link) -> Command:
    return command("nmcli", "device", "reapply", link.name)


def _profile_settings(sign: str, table: Table) -> Iterator[str]:
    for route in table.routes:
        gateway = f" {route.gateway}" if route.gateway else ""
        source = f" src={route.source}" if route.source else ""
        yield f"{sign}{route.family}.routes"
        yield f"{route.destination}{gateway}{source} table={table.number}"
    for one in table.addresses:
        yield f"{sign}{one.family}.routing-rules"
        yield f"priority {table.number} from {one.address} table {table.number}"


# ----------------------------------------------------------------------------------------------- persistent forms


def _persistent(host: HostFacts, link: Link, table: Table, arp: tuple[Fix, ...]) -> Fix:
    more = tuple(line for fix in arp for line in fix.commands)
    back = tuple(line for fix in arp for line in fix.undo)
    networkd = host.inventory.networkd.get(link.ifindex)
    stanza = ifupdown_stanza(host, link)
    if networkd is not None and networkd.network_file is not None and is_run_by_networkd(host, link):
        folder = f"/etc/systemd/network/{networkd.network_file.rpartition('/')[2]}.d"
        file = f"{folder}/source-routing.conf"
        again = (command("networkctl", "reload"), command("networkctl", "reconfigure", link.name))
        written = print_lines(_networkd_lines(table), file)
        commands = (command("mkdir", "-p", folder), written, *again, *more)
        title = "Store in a drop-in of the .network file"
        return Fix("here", title, commands, True, (command("rm", file), *again, *back), STATIC_ADDRESS_NOTE)
    if stanza is not None and SAFE_NAME.fullmatch(link.name):
        stored = stanza_fix(link, stanza, f"up {' && '.join(map(str, _ip_lines(link, table)))} || true")
        return Fix("here", stored.title, (*stored.commands, *more), True, (*stored.undo, *back), stored.note)
    note = "Let the tool that configures this NIC run the ip commands above after it has set the address."
    return Fix("here", "Make persistent", more, True, back, note)


def _networkd_lines(table: Table) -> Iterator[str]:
    for route in table.routes:
        yield from ("[Route]", f"Destination={route.destination}", f"Table={table.number}")
        if route.gateway:
            yield f"Gateway={route.gateway}"
        elif route.family == "ipv4":
            yield from ("Scope=link", f"PreferredSource={route.source}")
    for one in table.addresses:
        yield from ("[RoutingPolicyRule]", f"From={one.address}", f"Table={table.number}", f"Priority={table.number}")
