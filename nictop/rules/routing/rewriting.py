"""Routes that commands of a fix may rewrite, and those that their owner alone changes.

Pure. A route of router advertisements, DHCP, the kernel or a routing daemon that is replaced by hand becomes a static
one: it loses its lifetime and its other next hops, and its owner does not know it. Sources: ip-route(8), net/ipv4/
fib_frontend.c fib_del_ifaddr(), fib_disable_ip(); net/ipv6/addrconf.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nictop.model.devices.route_lookup import MAIN_TABLE
from nictop.model.text.ip_addresses import parse_network
from nictop.probe.kernel.route_protocols import route_owner
from nictop.probe.records import Address, Link, TableRoute
from nictop.rules.fixes.commands import Command
from nictop.rules.host import HostFacts
from nictop.rules.routing.facts import has_several_next_hops, reason_not_to_rewrite, tables
from nictop.rules.routing.fixes import change_route

MAX_ROUTES_AGAIN = 8
"""Routes of one link that a fix adds again."""
UNKNOWN_ROUTES_NOTE = "Static routes of the link are lost: add them again (ip route show, before)."


@dataclass(frozen=True)
class LostRoutes:
    """What follows when a link loses its routes: `commands` that add static ones again, and a note about the others."""

    commands: tuple[Command, ...] = ()
    note: str = ""


def routes_lost_with_address(host: HostFacts, link: Link, removed: Address) -> LostRoutes:
    """With its last IPv4 address a link loses its IPv4 routes. IPv6 routes remain when an address is removed."""
    if removed.family == "ipv6" or any(remains(one, removed) for one in link.addresses):
        return LostRoutes()
    return lost_routes(host, link, ("ipv4",))


def remains(address: Address, removed: Address) -> bool:
    """Whether an IPv4 address stays on the link: a secondary one goes with another one of its subnet."""
    if address.family != "ipv4" or address == removed:
        return False
    written = (f"{one.address}/{one.prefix_length}" for one in (address, removed))
    own, other = map(parse_network, written)
    return own != other or "secondary" not in address.flags


def lost_routes(host: HostFacts, link: Link, families: Sequence[str]) -> LostRoutes:
    """The static routes of a link in the main table, and what is left to others."""
    known = tables(host)
    if known is None or not known.is_complete:
        return LostRoutes(note=UNKNOWN_ROUTES_NOTE)
    lost = [one for one in known.routes if one.family in families and is_static_route_of(one, link)]
    again = [one for one in lost if not reason_not_to_rewrite(host, one)][:MAX_ROUTES_AGAIN]
    left = dict.fromkeys(left_text(host, one) for one in lost if one not in again)
    owned = dict.fromkeys(owned_text(one) for one in known.routes if is_owned_default(one, link, families))
    return LostRoutes(tuple(change_route("replace", one, link) for one in again), " ".join((*left, *owned)))


def is_static_route_of(route: TableRoute, link: Link) -> bool:
    is_own = route.ifindex == link.ifindex and route.table == MAIN_TABLE and route.type == "unicast"
    return is_own and not route_owner(route.protocol)


def is_owned_default(route: TableRoute, link: Link, families: Sequence[str]) -> bool:
    is_own = route.ifindex == link.ifindex and route.family in families and route.destination.endswith("/0")
    return is_own and bool(route_owner(route.protocol))


def left_text(host: HostFacts, route: TableRoute) -> str:
    why = "with several next hops" if has_several_next_hops(host, route) else "as well"
    return f"Add the route to {shown_destination(route)} again, {why}."


def owned_text(route: TableRoute) -> str:
    return f"The route to {shown_destination(route)} is left to what sets it: {route_owner(route.protocol)}."


def shown_destination(route: TableRoute) -> str:
    return "default" if route.destination.endswith("/0") else route.destination
