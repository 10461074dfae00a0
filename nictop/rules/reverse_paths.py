"""NICs on which rp_filter drops what comes in, because the route back leaves by another one.

Reads nothing; a rule about `Link.subnet_routes` and the sysctl value rp_filter.
"""

from __future__ import annotations

from nictop.model import units
from nictop.model.ipv4_conf import LOOSE, RP_FILTER, STRICT, ipv4_conf
from nictop.probe.records import Link, SubnetRoute
from nictop.rules.finding import Evidence, Fix
from nictop.rules.nics import nics
from nictop.rules.persistence import sysctl_fixes
from nictop.rules.registry import Family, Said, host_rule
from nictop.rules.source_routing import source_routing_fixes
from nictop.rules.subjects import about_link
from nictop.rules.watched import Watched

FAMILY: Family = "profiles and names"


@host_rule(
    FAMILY,
    "critical",
    yields_to=("address_on_a_lower_link",),
    needs=("settings.sysctl",),
    uses=("addresses", "links.subnet_routes"),
)
def rp_filter_drops_its_subnet(host: Watched) -> Said:
    """A NIC drops all IPv4 packets of its own subnet: rp_filter is strict, and the route back leaves by another NIC.

    rp_filter 1 (strict) wants the route to the sender to leave by the link on which the packet came; 2 (loose) wants
    any route. The kernel does not answer ARP requests of such senders, either. Of net.ipv4.conf.all and that of the
    link the larger value counts.

    nictop asks the kernel for the route from each address to a peer in the subnet, where two links share one. Silent
    for NICs without a carrier, ports of a bond, bridge or VRF, and where policy rules send the answers by the right
    NIC.

    Sources: kernel Documentation/networking/ip-sysctl.rst rp_filter; RFC 3704; net/ipv4/fib_frontend.c
    fib_validate_source.
    """
    for link in nics(host):
        rp_filter = ipv4_conf(link, host.inventory.settings).rp_filter
        if link.carrier is not True or rp_filter not in (STRICT, LOOSE):
            continue
        dropping = [one for one in link.subnet_routes if ":" not in one.peer and _is_dropped(link, one, rp_filter)]
        if not dropping:
            continue
        first = dropping[0]
        by = host.snapshot.links.get(first.ifindex) if first.ifindex is not None else None
        sources = {one.source for one in dropping}
        evidence = [
            Evidence(
                "rp_filter",
                f"{rp_filter} ({RP_FILTER[rp_filter]})",
                f"sysctl net.ipv4.conf.{{all,{link.name}}}.rp_filter",
            ),
            Evidence(
                f"route back to {first.peer}",
                by.name if by is not None else "none",
                f"ip route get {first.peer} from {first.source}",
            ),
        ]
        drops = host.inventory.settings.reverse_path_drops
        if drops:
            evidence.append(Evidence("dropped since boot", units.count(drops), "/proc/net/netstat IPReversePathFilter"))
        yield about_link(
            "rp_filter_drops_its_subnet",
            "critical",
            host,
            link,
            f"drops what its subnet sends: the route back leaves by {by.name}"
            if by is not None
            else "drops what its subnet sends: there is no route back",
            evidence=tuple(evidence),
            why="Nobody in the subnet reaches this host by the NIC, not even with ARP, and nothing is logged.",
            fixes=(
                *source_routing_fixes(host, link, [one for one in link.addresses if one.address in sources]),
                *(_loosened(host, link) if rp_filter == STRICT and by is not None else ()),
            ),
        )


def _is_dropped(link: Link, route: SubnetRoute, rp_filter: int) -> bool:
    return route.ifindex is None or (rp_filter == STRICT and route.ifindex != link.ifindex)


def _loosened(host: Watched, link: Link) -> tuple[Fix, ...]:
    """A dot in the name of a link is a slash for sysctl(8)."""
    return sysctl_fixes(host, f"net.ipv4.conf.{link.name.replace('.', '/')}.rp_filter", LOOSE)
