"""Causes of a connection that was not made which both hosts' inventories show: looked for before anything is supposed.

Reads nothing. In this order: an address that both hosts have, one that a third watched host has too, a link that is
down, ARP that is switched off.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.wording.text import clean
from nictop.probe.records import Link
from nictop.rules.quoting import command
from nictop.traffic.assembly import Heard
from nictop.traffic.failures import Failure
from nictop.traffic.plan import Place

IFF_NOARP = 0x80
ARPHRD_ETHER = 1
WITHOUT_ARP = ("dummy", "vrf", "ipvlan", "ipvtap")
"""Kinds of links that look like Ethernet and never use it."""


def seen_cause(heard: Heard) -> Failure | None:
    """The first that is there; None: nothing that an inventory shows."""
    client, server = heard.plan.client, heard.plan.server
    if client.host == server.host:
        return None
    for one, other in ((client, server), (server, client)):
        for link in _links_with(heard, one.host, other.address):
            return Failure(
                "duplicate",
                f"{clean(one.host)} has {other.address} itself, on {clean(link.name)}, as {clean(other.host)} has: "
                f"what is sent there does not leave {clean(one.host)}; give one of them another address",
            )
    for name in sorted(set(heard.hosts) - {client.host, server.host}):
        for place in (server, client):
            for link in _links_with(heard, name, place.address):
                return Failure(
                    "duplicate",
                    f"{clean(name)} has {place.address}, too, on {clean(link.name)}: who is answered is chance; give "
                    f"{clean(place.host)} or {clean(name)} another address",
                )
    down = link_down(heard)
    if down:
        return Failure("stall", down)
    if heard.plan.ip_version == 4:
        for place in (client, server):
            found = link_of(heard, place)
            if found is not None and found.flags & IFF_NOARP and _uses_arp(found):
                return Failure(
                    "no_neighbour",
                    f"ARP is off on {clean(found.name)} of {clean(place.host)}: it neither asks for MAC addresses nor "
                    "answers",
                    (command("ip", "link", "set", "dev", found.name, "arp", "on"),),
                    place.host,
                )
    return None


def link_down(heard: Heard) -> str:
    """Which of the two NICs has lost its link, in a sentence; "" when neither has."""
    for place in (heard.plan.client, heard.plan.server):
        link = link_of(heard, place)
        if link is not None and (link.carrier is False or link.operstate in ("down", "lowerlayerdown")):
            return f"the link of {clean(link.name)} on {clean(place.host)} is down"
    return ""


def _uses_arp(link: Link) -> bool:
    return link.type == ARPHRD_ETHER and link.kind not in WITHOUT_ARP


def _links_with(heard: Heard, name: str, address: str) -> Iterator[Link]:
    """Links of a host that have an address which is not link-local."""
    host = heard.hosts.get(name)
    for link in host.snapshot.links.values() if host is not None else ():
        if any(one.address == address and one.scope != "link" for one in link.addresses):
            yield link


def link_of(heard: Heard, place: Place) -> Link | None:
    """The NIC that is meant to carry an end."""
    host = heard.hosts.get(place.host)
    return host.snapshot.links.get(place.ifindex or 0) if host is not None else None
