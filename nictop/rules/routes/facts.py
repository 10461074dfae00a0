"""What the rules about routes derive from a host: its tables, neighbours by link, gateways and the
subnets of a link.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.devices.route_lookup import MAIN_TABLE, RoutingTables, Span, number_of, span_of
from nictop.model.facts.routing import route_text
from nictop.model.snapshot import ARPHRD_ETHER, ARPHRD_INFINIBAND
from nictop.model.text.words import IFF_NOARP, IFF_UP
from nictop.model.time_axis import event_time_text
from nictop.probe.kernel.route_protocols import route_owner, routing_daemon
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import DefaultRoute, Link, Neighbour, TableRoute
from nictop.rules.finding import Evidence
from nictop.rules.host import HostFacts, once_per_host

IFF_POINTOPOINT = 0x10
ANSWERING = ("reachable", "delay", "probe")
"""It answered within the last half minute or so (delay and probe: it is being asked again)."""
UNANSWERED_SECONDS = 1.0
"""An incomplete entry that is older has not answered the first request (RETRANS_TIME,
net/ipv4/arp.c: 1 s)."""
RECENT_SECONDS = 300.0
"""A failed entry that is used is asked again at the next packet. An older one has not been used
since."""


@once_per_host
def tables(host: HostFacts) -> RoutingTables | None:
    """None: not recorded."""
    routing = host.inventory.routing
    return RoutingTables(routing) if routing is not None else None


@once_per_host
def neighbours(host: HostFacts) -> dict[int, dict[str, Neighbour]]:
    """ifindex → address → entry."""
    found: dict[int, dict[str, Neighbour]] = {}
    for entry in _entries(host):
        found.setdefault(entry.ifindex, {})[entry.address] = entry
    return found


def _entries(host: HostFacts) -> Sequence[Neighbour]:
    routing = host.inventory.routing
    if routing is None:
        return ()
    return routing.neighbours


def routes(host: HostFacts) -> Sequence[TableRoute]:
    """Of all tables; (): not recorded."""
    known = tables(host)
    if known is None:
        return ()
    return known.routes


@once_per_host
def unanswered(host: HostFacts) -> dict[tuple[int, str], Neighbour]:
    """(ifindex, address) → entry of an address that was asked for and did not answer."""
    found = {}
    for entry in _entries(host):
        if entry.mac is None and is_unanswered(entry):
            found[entry.ifindex, entry.address] = entry
    return found


def neighbour(host: HostFacts, link: Link, address: str) -> Neighbour | None:
    return neighbours(host).get(link.ifindex, {}).get(address)


def is_unanswered(entry: Neighbour | None) -> bool:
    """The address was asked for, and did not answer."""
    if entry is None:
        return False
    if entry.nud_state != "incomplete":
        return entry.nud_state == "failed"
    return entry.since_update is not None and entry.since_update >= UNANSWERED_SECONDS


def is_unanswered_now(entry: Neighbour | None) -> bool:
    """The address was asked for lately, and did not answer."""
    return entry is not None and is_unanswered(entry) and is_recent(entry)


def is_recent(entry: Neighbour) -> bool:
    """It was asked for lately; not known counts as lately."""
    return entry.since_update is None or entry.since_update <= RECENT_SECONDS


def has_answered(entry: Neighbour | None) -> bool:
    """Its MAC address is known, not by a static entry."""
    return entry is not None and entry.mac is not None and entry.nud_state != "permanent"


def answering(host: HostFacts, link: Link, family: str) -> list[Neighbour]:
    """Neighbours of the link that answer."""
    return [entry for entry in entries_of(host, link, family) if entry.nud_state in ANSWERING]


def entries_of(host: HostFacts, link: Link, family: str) -> list[Neighbour]:
    """All neighbours of the link with addresses of the family."""
    separator = ":" if family == "ipv6" else "."
    entries = neighbours(host).get(link.ifindex, {})
    return [entry for address, entry in entries.items() if separator in address]


def last_update_text(host: HostFacts, entry: Neighbour) -> str:
    """``failed (2026-11-21 08:01:40 UTC)``: when the kernel last changed the entry."""
    age = entry.since_update
    if age is None:
        return entry.nud_state
    changed = event_time_text(host.inventory, host.inventory.time - age)
    return f"{entry.nud_state} ({changed})"


def neighbour_evidence(host: HostFacts, link: Link, entry: Neighbour) -> Evidence:
    source = f"ip -s neigh show dev {link.name}"
    return Evidence(f"neighbour {entry.address}", last_update_text(host, entry), source)


def resolves_neighbours(link: Link) -> bool:
    """Up, with a carrier, and of a kind that asks for MAC addresses."""
    if not link.flags & IFF_UP or link.carrier is not True:
        return False
    if link.flags & (IFF_NOARP | IFF_POINTOPOINT):
        return False
    return link.type in (ARPHRD_ETHER, ARPHRD_INFINIBAND)


def is_of_a_daemon(route: TableRoute) -> bool:
    return bool(routing_daemon(route.protocol))


def reason_not_to_rewrite(host: HostFacts, route: TableRoute) -> str:
    """A sentence; "": the route may be replaced or removed."""
    if not route_owner(route.protocol) and has_several_next_hops(host, route):
        return "Several routes or next hops have its destination and metric: one may replace all."
    return owner_reason(route)


def owner_reason(route: TableRoute) -> str:
    """A sentence why only its owner may change the route; "": it has none."""
    owner = route_owner(route.protocol)
    return f"It is set by {owner}: replaced by hand, it would be static." if owner else ""


def has_several_next_hops(host: HostFacts, route: TableRoute) -> bool:
    same = [other for other in routes(host) if route_key(other) == route_key(route)]
    return len(same) > 1


def route_key(route: TableRoute) -> tuple[object, ...]:
    return route.family, route.table, route.destination, route.metric, route.source, route.type


def table_route(host: HostFacts, link: Link, route: DefaultRoute) -> TableRoute | None:
    """The same default route with its protocol; None: not recorded."""
    wanted = (route.family, route.table, route.metric, link.ifindex, route.gateway)
    for other in routes(host):
        key = (other.family, other.table, other.metric, other.ifindex, other.gateway)
        if key == wanted and is_default(other):
            return other
    return None


@dataclass(frozen=True)
class Gateway:
    """A gateway on a link, and the routes that use it."""

    link: Link
    family: str
    address: str
    routes: tuple[TableRoute, ...]

    @property
    def is_default(self) -> bool:
        return any(is_default(route) for route in self.routes)

    @property
    def evidence(self) -> Evidence:
        shown = "; ".join(map(route_text, self.routes[:2]))
        if len(self.routes) > 2:
            shown += " …"
        option = "-6 " if self.family == "ipv6" else ""
        return Evidence("route", shown, f"ip {option}route show table all dev {self.link.name}")


def is_default(route: TableRoute) -> bool:
    return route.destination.endswith("/0")


@once_per_host
def gateways(host: HostFacts) -> tuple[Gateway, ...]:
    """Those of configured routes on links that resolve neighbours; not of routing daemons."""
    found: dict[tuple[int, str], list[TableRoute]] = {}
    for route in routes(host):
        if route.gateway is None or route.type != "unicast" or is_of_a_daemon(route):
            continue
        link = host.link_at(route.ifindex)
        if link is not None and resolves_neighbours(link):
            found.setdefault((link.ifindex, route.gateway), []).append(route)
    result = []
    for (ifindex, address), using in found.items():
        family = using[0].family
        # RFC 8950: an IPv6 gateway of IPv4 routes is not judged
        if ":" in address and family != "ipv6":
            continue
        result.append(Gateway(host.snapshot.links[ifindex], family, address, tuple(using)))
    return tuple(result)


def spans(link: Link) -> Iterator[Span]:
    """Of its global addresses, of more than two addresses."""
    for address in link.addresses:
        if address.scope != "global":
            continue
        span = span_of(f"{address.address}/{address.prefix_length}")
        if span is not None and span.last - span.first > 2:
            yield span


def is_in_subnets(link: Link, address: str) -> bool:
    """The address is in a subnet of the link."""
    number = number_of(address)
    if number is None:
        return False
    return any(is_within(number, span) for span in spans(link))


def on_link_route(host: HostFacts, link: Link, address: str) -> TableRoute | None:
    """The most specific route without a gateway by which the address is on the link."""
    number = number_of(address)
    if number is None:
        return None
    best: tuple[int, TableRoute] | None = None
    for route in routes(host):
        if route.ifindex != link.ifindex or not _is_on_link(route):
            continue
        span = span_of(route.destination)
        if span is None or not is_within(number, span):
            continue
        if best is None or span.length > best[0]:
            best = span.length, route
    return best[1] if best is not None else None


def _is_on_link(route: TableRoute) -> bool:
    return route.gateway is None and route.type == "unicast"


def is_within(number: tuple[str, int], span: Span) -> bool:
    """`number`: family and number of an address."""
    family, address = number
    return span.family == family and address in span


@once_per_host
def own_addresses(host: HostFacts) -> frozenset[str]:
    return frozenset(address.address for link in host.links for address in link.addresses)


def is_in_vrf(host: HostFacts, link: Link) -> bool:
    """Packets of the link are looked up in the table of its VRF."""
    master = host.master_of(link)
    return master is not None and master.kind == "vrf"


def is_main(route: TableRoute) -> bool:
    return route.table == MAIN_TABLE
