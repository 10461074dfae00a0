"""NICs on which rp_filter drops packets from their own subnet, because the route back uses another
NIC.

Reads nothing; a rule about `Link.subnet_routes` and the sysctl value rp_filter.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.devices.ipv4_conf import LOOSE, RP_FILTER_TEXTS, STRICT, ipv4_conf
from nictop.model.text import units
from nictop.probe.records import Link, SubnetRoute
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.fixes.source_routing import source_routing_fixes
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import is_nic, nics
from nictop.rules.registry import Outcomes, host_rule
from nictop.rules.subjects import link_finding

NOT_LOGGED = "The kernel logs it only with log_martians."
WHOLE_SUBNET_REASON = (
    f"No host in the subnet can reach this host through this NIC, not even with ARP. {NOT_LOGGED}"
)
PARTIAL_REASON = (
    f"These hosts cannot reach this host through this NIC, not even with ARP. {NOT_LOGGED}"
)
DROP_COUNTER = "/proc/net/netstat IPReversePathFilter"


@host_rule(
    "critical",
    yields_to=("address_on_a_lower_link", "watched_host_is_routed_by_another_nic"),
    needs=("settings.sysctl",),
    uses=("addresses", "links.subnet_routes"),
)
def rp_filter_drops_its_subnet(host: HostFacts) -> Outcomes:
    """A NIC drops IPv4 packets from its own subnet: rp_filter is strict, and the route back uses
    another NIC.

    rp_filter 1 (strict) requires that the route to the sender uses the link on which the packet was
    received; 2 (loose) accepts any route. The kernel does not answer ARP requests of such senders
    either. The larger value of net.ipv4.conf.all and of the link applies.

    nictop reads the kernel's route from each address to a peer in the subnet, where two links share
    one, and to the destination of a narrower route through another NIC. Critical: the whole subnet
    is dropped. Part of the subnet: warning if the kernel has counted such drops since boot, else
    info. Not reported: NICs without a carrier, ports of a bond, bridge or VRF, links whose policy
    rules route the answers through the right NIC, and parts of a subnet that are routed through a
    bridge, a VPN or a container's link.

    Sources: kernel Documentation/networking/ip-sysctl.rst rp_filter; RFC 3704;
    net/ipv4/fib_frontend.c fib_validate_source.
    """
    for link in nics(host):
        if not link.subnet_routes:
            continue
        rp_filter = ipv4_conf(link, host.inventory.settings).rp_filter
        dropped = dropped_routes(host, link, rp_filter)
        if dropped and rp_filter is not None:
            yield _dropping(host, link, rp_filter, dropped)


def dropped_routes(host: HostFacts, link: Link, rp_filter: int | None) -> list[SubnetRoute]:
    """Routes to its whole subnet by which rp_filter drops; without any, those to parts of it."""
    if link.carrier is not True or rp_filter not in (STRICT, LOOSE):
        return []
    whole = []
    parts = []
    for route in link.subnet_routes:
        is_ipv6 = ":" in route.peer
        if is_ipv6 or not _is_dropped(link, route, rp_filter):
            continue
        if not route.narrower:
            whole.append(route)
        elif _uses_nic(host, route):
            parts.append(route)
    return whole or parts


def _dropping(host: HostFacts, link: Link, rp_filter: int, dropped: list[SubnetRoute]) -> Finding:
    """`dropped`: routes to the whole subnet, or each to a part of it."""
    first = dropped[0]
    count = host.inventory.settings.reverse_path_drops
    severity: Severity = "critical"
    why = WHOLE_SUBNET_REASON
    if first.narrower:
        severity = "warning" if count else "info"
        why = PARTIAL_REASON
    sources = {route.source for route in dropped}
    own = [address for address in link.addresses if address.address in sources]
    fixes = [*source_routing_fixes(host, link, own)]
    place = "no route back"
    way_back = host.link_at(first.ifindex)
    if way_back is not None:
        place = f"route back: {way_back.name}"
        if rp_filter == STRICT:
            fixes += loose_fixes(host, link)
    return link_finding(
        severity,
        host,
        link,
        f"rp_filter drops packets from {_senders_text(dropped)} ({place})",
        evidence=_dropping_evidence(link, rp_filter, first, way_back, count),
        why=why,
        fixes=tuple(fixes),
    )


def _senders_text(dropped: Sequence[SubnetRoute]) -> str:
    parts = list(dict.fromkeys(route.narrower for route in dropped))
    if not parts[0]:
        return "its subnet"
    return parts[0] if len(parts) == 1 else f"{parts[0]} and {len(parts) - 1} more"


def _dropping_evidence(
    link: Link, rp_filter: int, route: SubnetRoute, way_back: Link | None, count: int | None
) -> tuple[Evidence, ...]:
    setting = f"{rp_filter} ({RP_FILTER_TEXTS[rp_filter]})"
    evidence = [
        Evidence("rp_filter", setting, f"sysctl net.ipv4.conf.{{all,{link.name}}}.rp_filter"),
        Evidence(
            f"route back to {route.narrower or route.peer}",
            way_back.name if way_back is not None else "none",
            f"ip route get {route.peer} from {route.source}",
        ),
    ]
    if count:
        evidence.append(Evidence("dropped since boot", units.count(count), DROP_COUNTER))
    return tuple(evidence)


def _is_dropped(link: Link, route: SubnetRoute, rp_filter: int) -> bool:
    if route.ifindex is None:
        return True
    return rp_filter == STRICT and route.ifindex != link.ifindex


def _uses_nic(host: HostFacts, route: SubnetRoute) -> bool:
    """The route back uses a NIC, or there is none."""
    if route.ifindex is None:
        return True
    way_back = host.link_at(route.ifindex)
    return way_back is not None and is_nic(host, way_back)


def loose_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """A dot in the name of a link is a slash for sysctl(8)."""
    old = host.inventory.settings.sysctl.get(f"net.ipv4.conf.{link.name}.rp_filter")
    return sysctl_fixes(
        host, f"net.ipv4.conf.{link.name.replace('.', '/')}.rp_filter", LOOSE, old=old
    )
