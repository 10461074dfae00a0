"""Relation of the netdevs of a host to the NIC that was chosen for a run: below, above, its PF, its
VFs, its peer.

Reads nothing; takes the links and PCI functions of a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from nictop.model.snapshot import Snapshot
from nictop.model.text.words import IFF_LOOPBACK, IFF_UP
from nictop.probe.records import Link, LinkChange

LINKWATCH_SECONDS = 1.0
"""By which the reports of both ends of a link about one lost carrier may differ
(net/core/link_watch.c: linkwatch_schedule_work)."""
Role = Literal[
    "chosen",
    "below",
    "above",
    "physical function",
    "virtual function",
    "accelerated",
    "peer",
    "loopback",
    "other",
]
"""accelerated: the virtual function of a hv_netvsc link, by which netvsc sends if possible."""


Times = tuple[float, float]
"""Begin and end of a loss of the carrier; the end is infinite: it was not reported."""


def common_times(own: Times, other: Times) -> Times | None:
    """Of one loss that both ends of a link report: that of the first report, and its end that of
    the last. None: they are two losses."""
    if abs(other[0] - own[0]) > LINKWATCH_SECONDS:
        return None
    is_end_one = abs(other[1] - own[1]) <= LINKWATCH_SECONDS
    return min(own[0], other[0]), max(own[1], other[1]) if is_end_one else own[1]


def roles_of(snapshot: Snapshot, chosen: Link) -> dict[int, Role]:
    """ifindex → role; links without a role are left out."""
    links = snapshot.links
    roles: dict[int, Role] = {}
    for link in links.values():
        if link.flags & IFF_LOOPBACK:
            roles[link.ifindex] = "loopback"
    _roles_of_functions(snapshot, chosen, roles)
    peer = chosen.lower if chosen.kind == "veth" and chosen.lower_namespace is None else None
    below, above = _below(links, chosen), _above(links, chosen)
    for link in links.values():
        if link.ifindex in below:
            is_accelerated = chosen.bus == "vmbus" and link.bus == "pci"
            roles[link.ifindex] = "accelerated" if is_accelerated else "below"
        elif link.ifindex in above:
            roles[link.ifindex] = "above"
        elif link.ifindex == peer:
            roles[link.ifindex] = "peer"
    roles[chosen.ifindex] = "chosen"
    return roles


def _roles_of_functions(snapshot: Snapshot, chosen: Link, roles: dict[int, Role]) -> None:
    own = chosen.pci_address
    if own is None:
        return
    physical_of = {function.address: function.physical_function for function in snapshot.pci}
    for link in snapshot.links.values():
        if link.pci_address is None:
            continue
        if physical_of.get(own) == link.pci_address:
            roles[link.ifindex] = "physical function"
        elif physical_of.get(link.pci_address) == own:
            roles[link.ifindex] = "virtual function"


def _below(links: Mapping[int, Link], chosen: Link) -> set[int]:
    """Ports of the chosen link and the links it is based on, down to the devices."""
    found: set[int] = set()
    remaining = [chosen.ifindex]
    while remaining:
        ifindex = remaining.pop()
        link = links.get(ifindex)
        if link is None:
            continue
        lower = {port.ifindex for port in links.values() if port.master == ifindex}
        is_based_here = link.kind != "veth" and link.lower_namespace is None
        if is_based_here and link.lower is not None:
            lower.add(link.lower)
        remaining += lower - found
        found |= lower
    return found - {chosen.ifindex}


def _above(links: Mapping[int, Link], chosen: Link) -> set[int]:
    """Masters of the chosen link, and links based on it or on them."""
    found: set[int] = set()
    remaining = [chosen.ifindex]
    while remaining:
        ifindex = remaining.pop()
        link = links.get(ifindex)
        upper = set()
        if link is not None and link.master is not None:
            upper.add(link.master)
        for other in links.values():
            if other.lower == ifindex and other.kind != "veth":
                upper.add(other.ifindex)
        remaining += upper - found
        found |= upper
    return found - {chosen.ifindex}


def takes_packets(change: LinkChange) -> bool:
    """The link takes packets after the change, as far as rtnetlink reports."""
    return not change.gone and bool(change.flags & IFF_UP) and change.carrier is not False
