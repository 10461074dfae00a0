"""Two NICs in one subnet: through which one the kernel sends, and which one answers ARP requests.

Reads nothing; a rule about `Link.subnet_routes`, addresses, and the sysctl values arp_filter,
arp_ignore and arp_announce.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from nictop.model.devices.ipv4_conf import ipv4_conf
from nictop.model.devices.links import global_addresses
from nictop.model.text.ip_addresses import parse_ip_address, parse_network
from nictop.model.virtual_chain import is_own_veth
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, SubnetRoute
from nictop.rules.finding import Evidence, Finding, Fix, Skipped
from nictop.rules.fixes.persistence import one_fix, sysctl_fixes
from nictop.rules.fixes.source_routing import ARP_FILTER, source_routing_fixes
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import is_nic, nics
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding, names_text, own_veths

MAX_SHOWN = 4
"""Addresses and routes of one NIC among the evidence."""
ANSWERED_BY_THE_OTHER = (
    "are answered through the other one, and measurements show the wrong NIC. "
    "arp_filter alone does not change the outgoing NIC."
)
OWN_ADDRESSES_ONLY = (("arp_ignore", 1), ("arp_announce", 2))
"""ip-sysctl.rst: answer only for addresses of the NIC that received the request; always send the
best local one."""
DIFFERENT_SUBNETS = Fix(
    "here", "Use different subnets", (), True, note="Needs no policy rules or routing tables."
)


@host_rule(
    "warning",
    yields_to=("address_on_a_lower_link", "rp_filter_drops_its_subnet"),
    needs=("settings.policy_rules", "settings.sysctl"),
    uses=("addresses", "links.subnet_routes"),
)
def two_links_in_one_subnet(host: HostFacts) -> Outcomes:
    """Two NICs, or veths as in containers, have addresses in the same subnet, and packets from the
    address of one leave through the other.

    Linux selects the route by destination, whatever the source address, and answers ARP requests
    for any of its addresses on any NIC: packets to one NIC are answered through the other, and a
    comparison of two NICs measures only one. If a subnet contains another one, the narrower is
    preferred for its range. arp_filter alone does not change the outgoing NIC.

    nictop reads the kernel's route from each address to a peer in the subnet (``ip route get PEER
    from ADDRESS``).

    Warning: the route uses another NIC, or there is none; if arp_announce is 0, the other NIC also
    sends ARP requests with this address, so that hosts store the wrong MAC address. Info: the
    routes are right, but IPv4 ARP requests for the address of the other NIC are answered. Not
    reported: both are right, NICs without a carrier, and ports of a bond, bridge or VRF. Recordings
    without these routes are judged by the addresses; if they have policy rules, which may be
    source-based routing, the check is skipped.

    Sources: kernel Documentation/networking/ip-sysctl.rst arp_announce, arp_filter, arp_ignore,
    rp_filter; ip-rule(8); esnet/iperf#1099, #263; haos#5003.
    """
    if not _has_recorded_routes(host):
        yield from _by_addresses(host)
        return
    wrong: dict[int, list[SubnetRoute]] = {}
    partners: dict[int, Link] = {}
    answering: list[tuple[Link, Link]] = []
    for overlap in (*_overlaps(host, "ipv4"), *_overlaps(host, "ipv6")):
        routes = list(_routes_of_both(overlap))
        misrouted = [
            (link, route) for link, route in routes if _leaves_elsewhere(host, link, route)
        ]
        for link, route in misrouted:
            partners.setdefault(link.ifindex, overlap.other_than(link))
            routes_of_link = wrong.setdefault(link.ifindex, [])
            if route not in routes_of_link:
                routes_of_link.append(route)
        if routes and not misrouted:
            answering += _answering_pair(host, overlap)
    for ifindex, found in wrong.items():
        yield _other_nic_finding(host, host.snapshot.links[ifindex], partners[ifindex], found)
    for link, other in answering:
        if link.ifindex not in wrong and other.ifindex not in wrong:
            yield _arp_finding(host, link, other)


@dataclass(frozen=True)
class _Overlap:
    """Addresses that are in a subnet of two NICs."""

    link: Link
    other: Link
    family: str
    first: int
    last: int

    def other_than(self, link: Link) -> Link:
        return self.link if link is self.other else self.other


def _has_recorded_routes(host: HostFacts) -> bool:
    """Of whole subnets; those of narrower ones were added to the probe later."""
    for link in host.links:
        for route in link.subnet_routes:
            if not route.narrower:
                return True
    return False


def _routes_of_both(overlap: _Overlap) -> Iterator[tuple[Link, SubnetRoute]]:
    for link in (overlap.link, overlap.other):
        for route in _routes_within(link, overlap):
            yield link, route


def _answering_pair(host: HostFacts, overlap: _Overlap) -> list[tuple[Link, Link]]:
    """(NIC, other NIC for whose address it answers ARP requests); [] : none."""
    if overlap.family != "ipv4":
        return []
    if _answers_for_all(host, overlap.link):
        return [(overlap.link, overlap.other)]
    if _answers_for_all(host, overlap.other):
        return [(overlap.other, overlap.link)]
    return []


def _by_addresses(host: HostFacts) -> Outcomes:
    """For recordings without the routes."""
    for overlap in _overlaps(host, "ipv4"):
        if host.inventory.settings.policy_rules:
            why = "not recorded: routes from its addresses (policy rules are in use)"
            yield Skipped("", host.name, overlap.other.name, why, "not_watched")
        else:
            yield _overlap_finding(host, overlap.link, overlap.other)


def _overlaps(host: HostFacts, family: str) -> Iterator[_Overlap]:
    """Of neighbouring subnets, by their first address: each with the widest one before it."""
    widest: tuple[int, int, Link] | None = None
    for start, end, _, link in sorted(_networks(host, family)):
        if widest is None:
            widest = (start, end, link)
            continue
        first, last, other = widest
        if start <= last and link.ifindex != other.ifindex:
            yield _Overlap(other, link, family, max(start, first), min(end, last))
        if end > last:
            widest = (start, end, link)


def _routes_within(link: Link, overlap: _Overlap) -> Iterator[SubnetRoute]:
    for route in link.subnet_routes:
        peer = None if route.narrower else parse_ip_address(route.peer)
        if peer is None or overlap.family != f"ipv{peer.version}":
            continue
        if overlap.first <= int(peer) <= overlap.last:
            yield route


def _networks(host: HostFacts, family: str) -> Iterator[tuple[int, int, int, Link]]:
    """(First address, last address, ifindex, link) of every subnet of a NIC that is up, each once
    per link: no two are the same without the link."""
    for link in (*nics(host), *own_veths(host)):
        if link.carrier is not True:
            continue
        for first, last in _subnets(link, family):
            yield first, last, link.ifindex, link


def _subnets(link: Link, family: str = "ipv4") -> set[tuple[int, int]]:
    """First and last address of each."""
    spans = set()
    for address in global_addresses(link, family):
        span = subnet(address.address, address.prefix_length)
        if span is not None:
            spans.add(span)
    return spans


@lru_cache(maxsize=4096)
def subnet(address: str, prefix_length: int) -> tuple[int, int] | None:
    """First and last address as numbers; None: no subnet with room for another host."""
    network = parse_network(f"{address}/{prefix_length}")
    if network is None or not 0 < prefix_length < network.max_prefixlen - 1:
        return None
    return int(network.network_address), int(network.broadcast_address)


def _leaves_elsewhere(host: HostFacts, link: Link, route: SubnetRoute) -> bool:
    """Through another NIC, or no route; routes through a bridge, a VPN or Wi-Fi are intended."""
    if route.ifindex is None:
        return True
    by = host.link_at(route.ifindex)
    if by is None or by.ifindex == link.ifindex:
        return False
    return is_nic(host, by) or is_own_veth(by, host.snapshot)


def _answers_for_all(host: HostFacts, link: Link) -> bool:
    """It answers ARP requests for addresses of other links: the kernel takes the larger value of
    "all" and the link."""
    sysctl = host.inventory.settings.sysctl
    for place in ("all", link.name):
        for name in ("arp_filter", "arp_ignore"):
            if sysctl.get(f"net.ipv4.conf.{place}.{name}"):
                return False
    return True


def _addresses(*links: Link) -> Iterator[Evidence]:
    for link in sorted(links, key=lambda link: link.ifindex):
        own = (*global_addresses(link, "ipv4"), *global_addresses(link, "ipv6"))
        shown = [f"{address.address}/{address.prefix_length}" for address in own[:MAX_SHOWN]]
        text = ", ".join(shown)
        if len(own) > MAX_SHOWN:
            text += " …"
        yield Evidence(f"addresses of {link.name}", text, "ip address")


def _other_nic_finding(
    host: HostFacts, link: Link, partner: Link, routes: list[SubnetRoute]
) -> Finding:
    by = host.link_at(routes[0].ifindex)
    title = f"no route to its subnet (same subnet as {partner.name})"
    if by is not None:
        title = f"its packets leave through {by.name} (same subnet)"
    sources = {route.source for route in routes}
    own = [address for address in link.addresses if address.address in sources]
    named = _named_sources(link, sources)
    if named:
        title = f"no route from {named} to its subnet (same subnet as {partner.name})"
    if named and by is not None:
        title = f"packets from {named} leave through {by.name} (same subnet)"
    why = "Packets to this NIC cannot be answered from its address, as there is no route back."
    if by is not None:
        what = named or "this NIC"
        why = f"Packets to {what} {ANSWERED_BY_THE_OTHER}"
    return link_finding(
        "warning",
        host,
        link,
        title,
        evidence=(
            *_addresses(link, by or partner),
            *(_route_evidence(host, route) for route in routes[:MAX_SHOWN]),
            *_announced(host, link, by),
        ),
        why=why,
        fixes=(*source_routing_fixes(host, link, own), DIFFERENT_SUBNETS),
    )


def _named_sources(link: Link, sources: set[str]) -> str:
    """``192.0.2.7 and 192.0.2.8``; "": the NIC has no other address, or they are not known."""
    others = [one for one in global_addresses(link) if one.address not in sources]
    known = [one.address for one in global_addresses(link) if one.address in sources]
    return names_text(known, MAX_SHOWN) if others and known else ""


def _route_evidence(host: HostFacts, route: SubnetRoute) -> Evidence:
    by = host.link_at(route.ifindex)
    return Evidence(
        f"route from {route.source} to {route.peer}",
        "none" if by is None else by.name,
        f"ip route get {route.peer} from {route.source}",
    )


def _announced(host: HostFacts, link: Link, by: Link | None) -> Iterator[Evidence]:
    """ARP requests of the other NIC have the address of this one as sender: net/ipv4/arp.c
    arp_solicit."""
    if by is None or not global_addresses(link, "ipv4"):
        return
    if ipv4_conf(by, host.inventory.settings).arp_announce != 0:
        return
    value = f"0: its ARP requests may have the address of {link.name} as sender"
    names = f"net.ipv4.conf.{{all,{by.name}}}.arp_announce"
    yield Evidence(f"arp_announce of {by.name}", value, f"sysctl {names}")


def _arp_finding(host: HostFacts, link: Link, other: Link) -> Finding:
    return link_finding(
        "info",
        host,
        link,
        f"answers ARP requests for the address of {other.name}",
        evidence=(
            *_addresses(link, other),
            Evidence(
                "arp_filter, arp_ignore", "0, 0", f"sysctl net.ipv4.conf.{link.name}.arp_filter"
            ),
        ),
        why="Packets leave through the right NIC, but packets to the address of the other NIC may "
        "arrive at this one, "
        "if both are in one Ethernet segment.",
        fixes=(*sysctl_fixes(host, ARP_FILTER, 1), _own_addresses_only(host)),
    )


def _own_addresses_only(host: HostFacts) -> Fix:
    """What answers and sends ARP with the addresses of each NIC only, whatever the routes."""
    fixes = []
    for name, value in OWN_ADDRESSES_ONLY:
        fixes.append(sysctl_fixes(host, f"net.ipv4.conf.all.{name}", value)[0])
    title = "Or use each address on its own NIC only (arp_ignore, arp_announce)"
    note = "Not on load balancers that have their service address on lo for all NICs."
    return one_fix(title, fixes, note)


def _overlap_finding(host: HostFacts, link: Link, other: Link) -> Finding:
    first, second = sorted((link, other), key=lambda link: link.ifindex)
    title = f"subnet overlaps that of {first.name}"
    if not _subnets(first).isdisjoint(_subnets(second)):
        title = f"same subnet as {first.name}: one NIC sends all packets to it"
    return link_finding(
        "warning",
        host,
        second,
        title,
        evidence=tuple(_addresses(first, second)),
        why="Replies may leave through another NIC than the requests arrived on; then measurements "
        "show the wrong NIC.",
        fixes=(
            *source_routing_fixes(host, second, global_addresses(second, "ipv4")),
            DIFFERENT_SUBNETS,
        ),
    )
