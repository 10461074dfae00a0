"""Routes that commands of a fix may rewrite, and those that their owner alone changes.

Pure. A route of router advertisements, DHCP, the kernel or a routing daemon that is replaced by
hand becomes a static one: it loses its lifetime and its other next hops, and its owner does not
know it. Sources: ip-route(8), net/ipv4/ fib_frontend.c fib_del_ifaddr(), fib_disable_ip();
net/ipv6/addrconf.c.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nictop.model.devices.link_history import is_set_ipv6_address
from nictop.model.devices.route_lookup import MAIN_TABLE
from nictop.model.text.ip_addresses import parse_network
from nictop.probe.kernel.route_protocols import route_owner
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Address, Link, TableRoute
from nictop.rules.fixes.commands import Command
from nictop.rules.host import HostFacts
from nictop.rules.routes.facts import has_several_next_hops, reason_not_to_rewrite, tables
from nictop.rules.routes.fixes import change_route, unset_note
from nictop.rules.subjects import set_address

MAX_ROUTES_AGAIN = 8
"""Routes of one link that a fix adds again."""
DETECTION_NOTE = (
    "IPv6 takes a preferred source (src) once duplicate address detection of it has ended, which "
    "takes a second or two."
)
"""ip6_route_info_create(), net/ipv6/route.c: ipv6_chk_addr() refuses a tentative address."""
UNKNOWN_ROUTES_NOTE = "Static routes of the link are lost: add them again (ip route show, before)."

UNKNOWN_SOURCES_NOTE = (
    "Not known: routes whose preferred source (src) is the address. IPv4 ones are removed with it, "
    "IPv6 ones lose their src."
)


@dataclass(frozen=True)
class LostRoutes:
    """What follows when routes go with a link or an address: `commands` that add static ones again,
    and a note about the others."""

    commands: tuple[Command, ...] = ()
    note: str = ""
    restored: tuple[Command, ...] = ()
    """The same for the undo, when all addresses are there again."""


def routes_lost_with_address(host: HostFacts, link: Link, removed: Address) -> LostRoutes:
    """With its last IPv4 address a link loses its IPv4 routes (fib_disable_ip,
    net/ipv4/fib_frontend.c). With an address go the IPv4 routes of the table main whose preferred
    source it is (fib_sync_down_addr, net/ipv4/fib_semantics.c); IPv6 routes of its link stay
    without the preferred source (rt6_remove_prefsrc, net/ipv6/route.c). Others stay, also those
    whose gateway is in its subnet."""
    known, families = tables(host), (removed.family,)
    is_last = removed.family == "ipv4" and not any(remains(one, removed) for one in link.addresses)
    unknown = _unknown_routes_note(host, is_last=is_last)
    if known is None or unknown:
        return LostRoutes(note=unknown)
    gone = {removed.address, *(one.address for one in secondaries_of(link, removed))}
    static = [route for route in known.routes if not route_owner(route.protocol)]
    lost = [route for route in static if _has_source(route, link, removed.family, gone)]
    owned: list[TableRoute] = []
    if is_last:
        lost = [route for route in static if route in lost or is_route_of(route, link, families)]
        owned = [route for route in known.routes if is_owned_default(route, link, families)]
    found = _rewritten(host, lost, owned)
    if removed.family == "ipv6":
        note = f"{found.note} {DETECTION_NOTE}".lstrip() if found.restored else found.note
        return replace(found, commands=(), note=note)
    after = [
        replace(route, preferred_source="") if route.preferred_source == removed.address else route
        for route in _rewritable(host, lost)
    ]
    return replace(found, commands=_set_again(host, after))


def _unknown_routes_note(host: HostFacts, *, is_last: bool) -> str:
    """What is to be known where the routes are not; "": they are."""
    known, routing = tables(host), host.inventory.routing
    if known is None or not known.is_complete:
        return UNKNOWN_ROUTES_NOTE if is_last else UNKNOWN_SOURCES_NOTE
    has_sources = routing is not None and routing.has_route_options
    return "" if is_last or has_sources else UNKNOWN_SOURCES_NOTE


def _has_source(route: TableRoute, link: Link, family: str, sources: Collection[str]) -> bool:
    """Its preferred source is one of these, and the kernel looks at the route when they go."""
    if route.preferred_source not in sources:
        return False
    if family == "ipv6":
        return is_route_of(route, link, (family,))
    return route.table == MAIN_TABLE


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
    """The static routes of a link in all tables, and what is left to others. `by`: the link by
    which they go afterwards, if that is another one."""
    known = tables(host)
    if known is None or not known.is_complete:
        return LostRoutes(note=UNKNOWN_ROUTES_NOTE)
    lost, owned = [], []
    for route in known.routes:
        if is_owned_default(route, link, families):
            owned.append(route)
        elif is_route_of(route, link, families) and not route_owner(route.protocol):
            lost.append(route)
    return _rewritten(host, lost, owned, by=by)


def _rewritten(
    host: HostFacts, lost: Sequence[TableRoute], owned: Sequence[TableRoute], by: Link | None = None
) -> LostRoutes:
    """`lost`: static routes. `owned`: those that are left to what sets them."""
    again = _rewritable(host, lost)
    notes = [left_text(host, route) for route in lost if route not in again]
    notes += [owned_text(route) for route in owned]
    notes.append(unset_note(host, again))
    return LostRoutes(
        _set_again(host, again, by),
        " ".join(filter(None, dict.fromkeys(notes))),
        _set_again(host, again),
    )


def _rewritable(host: HostFacts, lost: Sequence[TableRoute]) -> list[TableRoute]:
    """Those without a gateway first: other gateways may be reached by them."""
    found = [route for route in lost if not reason_not_to_rewrite(host, route)][:MAX_ROUTES_AGAIN]
    return sorted(found, key=lambda route: route.gateway is not None)


def _set_again(
    host: HostFacts, again: Sequence[TableRoute], by: Link | None = None
) -> tuple[Command, ...]:
    return tuple(
        change_route("replace", route, by or host.link_at(route.ifindex)) for route in again
    )


def addresses_again(link: Link) -> tuple[Command, ...]:
    """IPv6 addresses that the kernel removes when the link is set down (net/ipv6/addrconf.c
    addrconf_ifdown), unless keep_addr_on_down is set, and that nothing announces."""
    present = filter(is_set_ipv6_address, link.addresses)
    return tuple(set_address(link, address, "replace") for address in present)


def is_route_of(route: TableRoute, link: Link, families: Sequence[str]) -> bool:
    is_of_link = route.ifindex == link.ifindex and route.type == "unicast"
    return is_of_link and route.family in families


def is_owned_default(route: TableRoute, link: Link, families: Sequence[str]) -> bool:
    if not is_route_of(route, link, families):
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
