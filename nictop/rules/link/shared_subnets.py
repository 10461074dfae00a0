"""Two NICs in one subnet: through which one the kernel sends, and which one answers ARP requests.

Reads nothing; a rule about `Link.subnet_routes`, addresses, and the sysctl values arp_filter, arp_ignore and
arp_announce.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from nictop.model.devices.ipv4_conf import ipv4_conf
from nictop.model.text.ip_addresses import parse_ip_address, parse_network
from nictop.probe.records import Link, SubnetRoute
from nictop.rules.finding import Evidence, Finding, Fix, Skipped
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.fixes.profiles import global_addresses
from nictop.rules.fixes.source_routing import ARP_FILTER, source_routing_fixes
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import is_nic, nics
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import link_finding

FAMILY: Family = "profiles and names"
MAX_SHOWN = 4
"""Addresses and routes of one NIC among the evidence."""
OWN_ADDRESSES_ONLY = (("arp_ignore", 1), ("arp_announce", 2))
"""ip-sysctl.rst: answer only for addresses of the NIC that received the request; always send the best local one."""
DIFFERENT_SUBNETS = Fix("here", "Use different subnets", (), True, note="Needs no policy rules or routing tables.")


@host_rule(
    FAMILY,
    "warning",
    yields_to=("address_on_a_lower_link", "rp_filter_drops_its_subnet"),
    needs=("settings.policy_rules", "settings.sysctl"),
    uses=("addresses", "links.subnet_routes"),
)
def two_links_in_one_subnet(host: HostFacts) -> Outcomes:
    """Two NICs have addresses in the same subnet, and packets from the address of one leave through the other.

    Linux selects the route by destination, whatever the source address, and answers ARP requests for any of its
    addresses on any NIC: packets to one NIC are answered through the other, and a comparison of two NICs measures only
    one. If a subnet contains another one, the narrower is preferred for its range. arp_filter alone does not change the
    outgoing NIC.

    nictop reads the kernel's route from each address to a peer in the subnet (``ip route get PEER from ADDRESS``).

    Warning: the route uses another NIC, or there is none; if arp_announce is 0, the other NIC also sends ARP requests
    with this address, so that hosts store the wrong MAC address. Info: the routes are right, but IPv4 ARP requests for
    the address of the other NIC are answered. Not reported: both are right, NICs without a carrier, and ports of a
    bond, bridge or VRF. Recordings without these routes are judged by the addresses; if they have policy rules, which
    may be source-based routing, the check is skipped.

    Sources: kernel Documentation/networking/ip-sysctl.rst arp_announce, arp_filter, arp_ignore, rp_filter; ip-rule(8);
    esnet/iperf#1099, #263; haos#5003.
    """
    if not any(not route.narrower for link in host.links for route in link.subnet_routes):
        yield from _by_addresses(host)
        return
    wrong: dict[int, list[SubnetRoute]] = {}
    partners: dict[int, Link] = {}
    answering: list[tuple[Link, Link]] = []
    for one, other, family, span in (*_overlaps(host, "ipv4"), *_overlaps(host, "ipv6")):
        routes = [(link, route) for link in (one, other) for route in _routes_within(link, family, *span)]
        misrouted = [(link, route) for link, route in routes if _leaves_elsewhere(host, link, route)]
        for link, route in misrouted:
            partners.setdefault(link.ifindex, one if link is other else other)
            if route not in wrong.setdefault(link.ifindex, []):
                wrong[link.ifindex].append(route)
        if family == "ipv4" and routes and not misrouted:
            answering += [pair for pair in ((one, other), (other, one)) if _answers_for_all(host, pair[0])][:1]
    for ifindex, found in wrong.items():
        yield _other_nic_finding(host, host.snapshot.links[ifindex], partners[ifindex], found)
    for link, other in answering:
        if link.ifindex not in wrong and other.ifindex not in wrong:
            yield _arp_finding(host, link, other)


def _by_addresses(host: HostFacts) -> Outcomes:
    """For recordings without the routes."""
    for one, other, _, _ in _overlaps(host, "ipv4"):
        if host.inventory.settings.policy_rules:
            why = "not recorded: routes from its addresses (policy rules are in use)"
            yield Skipped("", host.name, other.name, why, "not_watched")
        else:
            yield _overlap_finding(host, one, other)


def _overlaps(host: HostFacts, family: str) -> Iterator[tuple[Link, Link, str, tuple[int, int]]]:
    """(link, link, family, first and last address of both subnets) for NICs whose subnets overlap."""
    widest: tuple[int, int, Link] | None = None
    for start, end, link in sorted(_networks(host, family), key=lambda one: (one[0], one[1], one[2].ifindex)):
        if widest is not None and start <= widest[1] and link.ifindex != widest[2].ifindex:
            yield widest[2], link, family, (max(start, widest[0]), min(end, widest[1]))
        if widest is None or end > widest[1]:
            widest = (start, end, link)


def _routes_within(link: Link, family: str, first: int, last: int) -> Iterator[SubnetRoute]:
    for route in link.subnet_routes:
        peer = None if route.narrower else parse_ip_address(route.peer)
        if peer is not None and family == f"ipv{peer.version}" and first <= int(peer) <= last:
            yield route


def _networks(host: HostFacts, family: str) -> Iterator[tuple[int, int, Link]]:
    """(First address, last address, link) of every subnet of a NIC that is up, each once per link."""
    for link in nics(host):
        if link.carrier is not True:
            continue
        own = global_addresses(link, family)
        spans = {span for one in own if (span := subnet(one.address, one.prefix_length)) is not None}
        for first, last in spans:
            yield first, last, link


@lru_cache(maxsize=4096)
def subnet(address: str, prefix_length: int) -> tuple[int, int] | None:
    """First and last address as numbers; None: no subnet with room for another host."""
    network = parse_network(f"{address}/{prefix_length}")
    if network is None or not 0 < prefix_length < network.max_prefixlen - 1:
        return None
    return int(network.network_address), int(network.broadcast_address)


def _leaves_elsewhere(host: HostFacts, link: Link, route: SubnetRoute) -> bool:
    """Through another NIC, or no route; routes through a bridge, a VPN or Wi-Fi are intended."""
    by = host.snapshot.links.get(route.ifindex) if route.ifindex is not None else None
    return route.ifindex is None or (route.ifindex != link.ifindex and by is not None and is_nic(host, by))


def _answers_for_all(host: HostFacts, link: Link) -> bool:
    """It answers ARP requests for addresses of other links: the kernel takes the larger value of "all" and the link."""
    sysctl = host.inventory.settings.sysctl
    names = ("arp_filter", "arp_ignore")
    return not any(sysctl.get(f"net.ipv4.conf.{place}.{name}") for place in ("all", link.name) for name in names)


def _addresses(*links: Link) -> Iterator[Evidence]:
    for link in sorted(links, key=lambda one: one.ifindex):
        own = (*global_addresses(link), *global_addresses(link, "ipv6"))
        written = ", ".join(f"{one.address}/{one.prefix_length}" for one in own[:MAX_SHOWN])
        yield Evidence(f"addresses of {link.name}", written + (" …" if len(own) > MAX_SHOWN else ""), "ip address")


def _other_nic_finding(host: HostFacts, link: Link, partner: Link, routes: list[SubnetRoute]) -> Finding:
    by = host.snapshot.links.get(routes[0].ifindex) if routes[0].ifindex is not None else None
    sources = {route.source for route in routes}
    own = [one for one in link.addresses if one.address in sources]
    shown = [
        Evidence(
            f"route from {route.source} to {route.peer}",
            _link_of(host, route),
            f"ip route get {route.peer} from {route.source}",
        )
        for route in routes[:MAX_SHOWN]
    ]
    return link_finding(
        "warning",
        host,
        link,
        f"its packets leave through {by.name} (same subnet)"
        if by is not None
        else f"no route to its subnet (same subnet as {partner.name})",
        evidence=(*_addresses(link, by or partner), *shown, *_announced(host, link, by)),
        why="Packets to this NIC are answered through the other one, and measurements show the wrong NIC. arp_filter "
        "alone does not change the outgoing NIC.",
        fixes=(*source_routing_fixes(host, link, own), DIFFERENT_SUBNETS),
    )


def _announced(host: HostFacts, link: Link, by: Link | None) -> Iterator[Evidence]:
    """ARP requests of the other NIC have the address of this one as sender: net/ipv4/arp.c arp_solicit."""
    if by is not None and global_addresses(link) and ipv4_conf(by, host.inventory.settings).arp_announce == 0:
        value = f"0: its ARP requests may have the address of {link.name} as sender"
        yield Evidence(f"arp_announce of {by.name}", value, f"sysctl net.ipv4.conf.{{all,{by.name}}}.arp_announce")


def _link_of(host: HostFacts, route: SubnetRoute) -> str:
    by = host.snapshot.links.get(route.ifindex) if route.ifindex is not None else None
    return by.name if by is not None else "none"


def _arp_finding(host: HostFacts, link: Link, other: Link) -> Finding:
    return link_finding(
        "info",
        host,
        link,
        f"answers ARP requests for the address of {other.name}",
        evidence=(
            *_addresses(link, other),
            Evidence("arp_filter, arp_ignore", "0, 0", f"sysctl net.ipv4.conf.{link.name}.arp_filter"),
        ),
        why="Packets leave through the right NIC, but packets to the address of the other NIC may arrive at this one, "
        "if both are in one Ethernet segment.",
        fixes=(*sysctl_fixes(host, ARP_FILTER, 1), _own_addresses_only(host)),
    )


def _own_addresses_only(host: HostFacts) -> Fix:
    """What answers and sends ARP with the addresses of each NIC only, whatever the routes."""
    fixes = [sysctl_fixes(host, f"net.ipv4.conf.all.{name}", value)[0] for name, value in OWN_ADDRESSES_ONLY]
    return Fix(
        "here",
        "Or use each address on its own NIC only (arp_ignore, arp_announce)",
        tuple(line for fix in fixes for line in fix.commands),
        False,
        tuple(line for fix in reversed(fixes) for line in fix.undo),
        "Not on load balancers that have their service address on lo for all NICs.",
    )


def _overlap_finding(host: HostFacts, one: Link, other: Link) -> Finding:
    first, second = sorted((one, other), key=lambda link: link.ifindex)
    spans = [{subnet(each.address, each.prefix_length) for each in global_addresses(link)} for link in (first, second)]
    return link_finding(
        "warning",
        host,
        second,
        f"same subnet as {first.name}: one NIC carries all traffic"
        if spans[0] & spans[1]
        else f"subnet overlaps that of {first.name}",
        evidence=tuple(_addresses(first, second)),
        why="Replies leave through another NIC than the requests arrived on, and measurements show the wrong NIC.",
        fixes=(*source_routing_fixes(host, second, global_addresses(second)), DIFFERENT_SUBNETS),
    )
