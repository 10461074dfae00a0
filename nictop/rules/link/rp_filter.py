"""NICs on which rp_filter drops received packets, because the route back uses another NIC.

Reads nothing; a rule about `Link.subnet_routes` and the sysctl value rp_filter.
"""

from __future__ import annotations

from nictop.model.devices.ipv4_conf import LOOSE, RP_FILTER_TEXTS, STRICT, ipv4_conf
from nictop.model.text import units
from nictop.probe.records import Link, SubnetRoute
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.fixes.source_routing import source_routing_fixes
from nictop.rules.host import HostFacts
from nictop.rules.profiles.nics import is_nic, nics
from nictop.rules.registry import Family, Outcomes, host_rule
from nictop.rules.subjects import link_finding

FAMILY: Family = "profiles and names"


@host_rule(
    FAMILY,
    "critical",
    yields_to=("address_on_a_lower_link",),
    needs=("settings.sysctl",),
    uses=("addresses", "links.subnet_routes"),
)
def rp_filter_drops_its_subnet(host: HostFacts) -> Outcomes:
    """A NIC drops IPv4 packets from its own subnet: rp_filter is strict, and the route back uses another NIC.

    rp_filter 1 (strict) requires that the route to the sender uses the link on which the packet was received; 2 (loose)
    accepts any route. The kernel does not answer ARP requests of such senders either. The larger value of
    net.ipv4.conf.all and of the link applies.

    nictop reads the kernel's route from each address to a peer in the subnet, where two links share one, and to the
    destination of a narrower route through another NIC. Critical: the whole subnet is dropped. Part of the subnet:
    warning if the kernel has counted such drops since boot, else info. Not reported: NICs without a carrier, ports of a
    bond, bridge or VRF, links whose policy rules route the answers through the right NIC, and parts of a subnet that
    are routed through a bridge, a VPN or a container's link.

    Sources: kernel Documentation/networking/ip-sysctl.rst rp_filter; RFC 3704; net/ipv4/fib_frontend.c
    fib_validate_source.
    """
    for link in nics(host):
        rp_filter = ipv4_conf(link, host.inventory.settings).rp_filter
        if link.carrier is not True or rp_filter not in (STRICT, LOOSE):
            continue
        dropped = [one for one in link.subnet_routes if ":" not in one.peer and _is_dropped(link, one, rp_filter)]
        whole = [one for one in dropped if not one.narrower]
        parts = [one for one in dropped if one.narrower and _uses_nic(host, one)]
        if whole or parts:
            yield _dropping(host, link, rp_filter, whole or parts)


def _dropping(host: HostFacts, link: Link, rp_filter: int, dropped: list[SubnetRoute]) -> Finding:
    """`dropped`: routes to the whole subnet, or each to a part of it."""
    first, count = dropped[0], host.inventory.settings.reverse_path_drops
    by = host.snapshot.links.get(first.ifindex) if first.ifindex is not None else None
    parts = list(dict.fromkeys(one.narrower for one in dropped))
    senders = "its subnet"
    if first.narrower:
        senders = parts[0] if len(parts) == 1 else f"{parts[0]} and {len(parts) - 1} more"
    evidence = [
        Evidence(
            "rp_filter",
            f"{rp_filter} ({RP_FILTER_TEXTS[rp_filter]})",
            f"sysctl net.ipv4.conf.{{all,{link.name}}}.rp_filter",
        ),
        Evidence(
            f"route back to {first.narrower or first.peer}",
            by.name if by is not None else "none",
            f"ip route get {first.peer} from {first.source}",
        ),
    ]
    if count:
        evidence.append(Evidence("dropped since boot", units.count(count), "/proc/net/netstat IPReversePathFilter"))
    severity: Severity = "critical" if not first.narrower else "warning" if count else "info"
    sources = {one.source for one in dropped}
    return link_finding(
        severity,
        host,
        link,
        f"rp_filter drops packets from {senders} (route back: {by.name})"
        if by is not None
        else f"rp_filter drops packets from {senders} (no route back)",
        evidence=tuple(evidence),
        why="No host in the subnet can reach this host through this NIC, not even with ARP. Nothing is logged."
        if not first.narrower
        else "These hosts cannot reach this host through this NIC, not even with ARP. Nothing is logged.",
        fixes=(
            *source_routing_fixes(host, link, [one for one in link.addresses if one.address in sources]),
            *(_loose_fixes(host, link) if rp_filter == STRICT and by is not None else ()),
        ),
    )


def _is_dropped(link: Link, route: SubnetRoute, rp_filter: int) -> bool:
    return route.ifindex is None or (rp_filter == STRICT and route.ifindex != link.ifindex)


def _uses_nic(host: HostFacts, route: SubnetRoute) -> bool:
    by = host.snapshot.links.get(route.ifindex) if route.ifindex is not None else None
    return route.ifindex is None or (by is not None and is_nic(host, by))


def _loose_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """A dot in the name of a link is a slash for sysctl(8)."""
    return sysctl_fixes(host, f"net.ipv4.conf.{link.name.replace('.', '/')}.rp_filter", LOOSE)
