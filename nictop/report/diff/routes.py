"""Routes of the tables as facts of a side, each with the link that it is over.

Pure. Not among them: what the kernel adds with an address (protocol 2), default routes of a NIC in
the tables main and default, and routes that refuse packets: these are facts of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from nictop.model.facts.routing import MAIN_TABLE, route_text
from nictop.model.facts.sections import Fact, Section, section
from nictop.model.snapshot import Snapshot
from nictop.probe.kernel.route_protocols import RTPROT_KERNEL
from nictop.probe.records import Link, TableRoute

ROUTES = "Routes"
DEFAULT_TABLE = 253
"""RT_TABLE_DEFAULT (include/uapi/linux/rtnetlink.h)"""


def routes_of_nic(link: Link, snapshot: Snapshot) -> tuple[Section, ...]:
    texts = []
    for route in _compared(snapshot):
        is_default = route.destination.endswith("/0") and route.table in (MAIN_TABLE, DEFAULT_TABLE)
        if route.ifindex == link.ifindex and not is_default:
            texts.append(route_text(route))
    return section(ROUTES, [Fact("Route", text) for text in sorted(texts)])


def routes_of_host(snapshot: Snapshot, nics: Collection[int]) -> tuple[Section, ...]:
    """Those over other links than `nics` (their ifindexes), which have theirs themselves."""
    texts = []
    for route in _compared(snapshot):
        if route.ifindex in nics:
            continue
        link = snapshot.links.get(route.ifindex or 0)
        over = "" if link is None else f" dev {link.name}"
        texts.append(f"{route_text(route)}{over}")
    return section(ROUTES, [Fact("Route", text) for text in sorted(texts)])


def _compared(snapshot: Snapshot) -> Iterator[TableRoute]:
    inventory = snapshot.inventory
    routing = None if inventory is None else inventory.routing
    if routing is None or "routes" in routing.unreadable:
        return
    for route in routing.routes:
        if route.type == "unicast" and route.protocol != RTPROT_KERNEL:
            yield route
