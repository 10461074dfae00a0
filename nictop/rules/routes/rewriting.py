"""Routes that commands of a fix may rewrite, and those that their owner alone changes.

Pure. A route of router advertisements, DHCP, the kernel or a routing daemon that is replaced by
hand becomes a static one: it loses its lifetime and its other next hops, and its owner does not
know it. Sources: ip-route(8), net/ipv4/ fib_frontend.c fib_del_ifaddr(), fib_disable_ip();
net/ipv6/addrconf.c.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.devices.link_history import is_set_ipv6_address
from nictop.model.devices.route_lookup import MAIN_TABLE
from nictop.model.text.ip_addresses import parse_network
from nictop.probe.kernel.route_protocols import route_owner
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Address, Link, TableRoute
from nictop.rules.fixes.commands import Command
from nictop.rules.host import HostFacts
from nictop.rules.routes.facts import has_several_next_hops, reason_not_to_rewrite, tables
from nictop.rules.routes.fixes import change_route
from nictop.rules.subjects import set_address

MAX_ROUTES_AGAIN = 8
"""Routes of one link that a fix adds again."""
UNKNOWN_ROUTES_NOTE = "Static routes of the link are lost: add them again (ip route show, before)."


@dataclass(frozen=True)
class LostRoutes:
    """What follows when a link loses its routes: `commands` that add static ones again, and a note
    about the others."""

    commands: tuple[Command, ...] = ()
    note: str = ""


def routes_lost_with_address(host: HostFacts, link: Link, removed: Address) -> LostRoutes:
    """With its last IPv4 address a link loses its IPv4 routes. IPv6 routes remain when an address
    is removed."""
    if removed.family == "ipv6" or any(remains(address, removed) for address in link.addresses):
        return LostRoutes()
    return lost_routes(host, link, ("ipv4",))


def remains(address: Address, removed: Address) -> bool:
    """Whether an IPv4 address stays on the link: the secondary ones of a subnet go with its primary
    one, unless promote_secondaries is set (net/ipv4/devinet.c __inet_del_ifa)."""
    if address.family != "ipv4" or address == removed:
        return False
    if "secondary" in removed.flags:
        return True
    written = (f"{each.address}/{each.prefix_length}" for each in (address, removed))
    own, other = map(parse_network, written)
    return own != other or "secondary" not in address.flags


def secondaries_of(link: Link, removed: Address) -> list[Address]:
    """IPv4 addresses that go with this one."""
    others = [one for one in link.addresses if one.family == "ipv4" and one != removed]
    if removed.family != "ipv4":
        return []
    return [one for one in others if not remains(one, removed)]


def lost_routes(
    host: HostFacts, link: Link, families: Sequence[str], *, by: Link | None = None
) -> LostRoutes:
    """The static routes of a link in the main table, and what is left to others. `by`: the link
    by which they go afterwards, if that is another one."""
    known = tables(host)
    if known is None or not known.is_complete:
        return LostRoutes(note=UNKNOWN_ROUTES_NOTE)
    lost = [
        route
        for route in known.routes
        if route.family in families and is_static_route_of(route, link)
    ]
    again = [route for route in lost if not reason_not_to_rewrite(host, route)][:MAX_ROUTES_AGAIN]
    left = dict.fromkeys(left_text(host, route) for route in lost if route not in again)
    owned = dict.fromkeys(
        owned_text(route) for route in known.routes if is_owned_default(route, link, families)
    )
    return LostRoutes(
        tuple(change_route("replace", route, by or link) for route in again),
        " ".join((*left, *owned)),
    )


def addresses_again(link: Link) -> tuple[Command, ...]:
    """IPv6 addresses that the kernel removes when the link is set down (net/ipv6/addrconf.c
    addrconf_ifdown), unless keep_addr_on_down is set, and that nothing announces."""
    present = filter(is_set_ipv6_address, link.addresses)
    return tuple(set_address(link, address, "replace") for address in present)


def is_static_route_of(route: TableRoute, link: Link) -> bool:
    if route.ifindex != link.ifindex or route.table != MAIN_TABLE or route.type != "unicast":
        return False
    return not route_owner(route.protocol)


def is_owned_default(route: TableRoute, link: Link, families: Sequence[str]) -> bool:
    if route.ifindex != link.ifindex or route.family not in families:
        return False
    return route.destination.endswith("/0") and bool(route_owner(route.protocol))


def left_text(host: HostFacts, route: TableRoute) -> str:
    why = "with several next hops" if has_several_next_hops(host, route) else "as well"
    return f"Add the route to {shown_destination(route)} again, {why}."


def owned_text(route: TableRoute) -> str:
    return (
        f"The route to {shown_destination(route)} is left to what sets it: "
        f"{route_owner(route.protocol)}."
    )


def shown_destination(route: TableRoute) -> str:
    return "default" if route.destination.endswith("/0") else route.destination
