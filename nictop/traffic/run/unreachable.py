"""Causes of a connection that was not made which both hosts can see: looked for before anything is supposed.

Reads nothing; takes the inventories and what both probes told of the route to each other (`records.TrafficPath`). In
this order: an address that both hosts have, one that a third watched host has too, a link that is down, a route that
discards, ARP that is switched off, strict reverse path filtering, a MAC address of another host, a neighbour
that does not answer. `examined` tells what is left when none of them is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nictop.model.devices.ipv4_conf import STRICT
from nictop.model.facts.links import ARPHRD_ETHER, KINDS_WITHOUT_ARP
from nictop.model.text.terminal import clean
from nictop.model.text.words import IFF_NOARP
from nictop.probe.records import Link, TrafficPath
from nictop.rules.fixes.commands import command
from nictop.traffic.analysis.assemble import RunLog
from nictop.traffic.generators import Side
from nictop.traffic.plan.plan import Endpoint
from nictop.traffic.run.failures import Examined, Failure

DISCARDING = ("unreachable", "prohibit", "blackhole", "throw")
"""Types of routes that no packet leaves by."""
UNRESOLVED = ("incomplete", "failed")
"""States of a neighbour that does not answer."""


@dataclass(frozen=True)
class _End:
    """One end, and what its host says of the way to the other one."""

    here: Endpoint
    there: Endpoint
    link: Link | None
    """Of `here`."""
    path: TrafficPath | None


def seen_cause(heard: RunLog) -> Failure | None:
    """The first that is there; None: nothing of it can be seen."""
    client, server = heard.plan.client, heard.plan.server
    if client.host == server.host:
        return None
    ends = (_end(heard, "client"), _end(heard, "server"))
    looks = (_duplicates, _down, _discarding_routes, _arp_off, _strict_filters, _other_hosts_macs, _unresolved)
    return next((found for look in looks for found in look(heard, ends)), None)


def examined(heard: RunLog) -> Examined:
    """What was looked at on both hosts and is no cause, and what could not be looked at."""
    excluded, left = [], []
    for end in (_end(heard, "client"), _end(heard, "server")):
        host, path = clean(end.here.host), end.path
        if path is None or path.route != "unicast":
            left.append(f"the route of {host} to {end.there.address}")
        elif end.here.ifindex not in (None, path.ifindex):
            named = f", not by {clean(end.link.name)}" if end.link is not None else ""
            left.append(f"the route of {host} to {end.there.address}: it leaves by {_name(heard, end)}{named}")
        else:
            excluded.append(f"route of {host} (by {_name(heard, end)})")
        others = [f"{host} {_reached(end, *found)}" for found in _answering(heard, end)]
        left += others
        if not others and path is not None and path.neighbour not in ("", "none", *UNRESOLVED):
            excluded.append(f"neighbour of {host} ({path.neighbour})")
        if heard.plan.ip_version == 4:
            if path is None or path.rp_filter is None:
                left.append(f"rp_filter on {host}")
            else:
                excluded.append(f"rp_filter of {host} ({path.rp_filter})")
    return Examined(tuple(excluded), tuple(left))


def link_down(heard: RunLog) -> str:
    """Which of the two NICs has lost its link, in a sentence; "" when neither has."""
    for place in (heard.plan.client, heard.plan.server):
        link = link_of(heard, place)
        if link is not None and (link.carrier is False or link.operstate in ("down", "lowerlayerdown")):
            return f"the link of {clean(link.name)} on {clean(place.host)} is down"
    return ""


def link_of(heard: RunLog, place: Endpoint) -> Link | None:
    """The NIC that is meant to carry an end."""
    host = heard.hosts.get(place.host)
    return host.snapshot.links.get(place.ifindex or 0) if host is not None else None


# ------------------------------------------------------------------------------------------------------- the causes


def _duplicates(heard: RunLog, ends: tuple[_End, _End]) -> Iterator[Failure]:
    for end in ends:
        one, other = clean(end.here.host), clean(end.there.host)
        for link in _links_with(heard, end.here.host, end.there.address):
            yield Failure(
                "duplicate",
                f"{one} has {end.there.address} itself, on {clean(link.name)}, as {other} has: what is sent there does "
                f"not leave {one}; give one of them another address",
            )
    for name in sorted(set(heard.hosts) - {end.here.host for end in ends}):
        for end in ends:
            for link in _links_with(heard, name, end.there.address):
                yield Failure(
                    "duplicate",
                    f"{clean(name)} has {end.there.address}, too, on {clean(link.name)}: who is answered is chance; "
                    f"give {clean(end.there.host)} or {clean(name)} another address",
                )


def _down(heard: RunLog, _: tuple[_End, _End]) -> Iterator[Failure]:
    down = link_down(heard)
    if down:
        yield Failure("stall", down)


def _discarding_routes(heard: RunLog, ends: tuple[_End, _End]) -> Iterator[Failure]:
    for end in ends:
        route = end.path.route if end.path is not None else ""
        host, address = clean(end.here.host), end.there.address
        if route == "none":
            yield Failure("no_route", f"{host} has no route to {address}", (), end.here.host)
        elif route in DISCARDING:
            version = "-6" if heard.plan.ip_version == 6 else "-4"
            yield Failure(
                "no_route",
                f"the route of {host} to {address} is of type {route}: nothing is sent there; delete it, or add a more "
                "specific one",
                (str(command("ip", version, "route", "show", "table", "all", "type", route)),),
                end.here.host,
            )


def _arp_off(heard: RunLog, ends: tuple[_End, _End]) -> Iterator[Failure]:
    for end in ends if heard.plan.ip_version == 4 else ():
        link = end.link
        if (
            link is not None
            and link.flags & IFF_NOARP
            and link.type == ARPHRD_ETHER
            and link.kind not in KINDS_WITHOUT_ARP
        ):
            yield Failure(
                "no_neighbour",
                f"ARP is off on {clean(link.name)} of {clean(end.here.host)}: it neither asks for MAC addresses nor "
                "answers",
                (str(command("ip", "link", "set", "dev", link.name, "arp", "on")),),
                end.here.host,
            )


def _strict_filters(heard: RunLog, ends: tuple[_End, _End]) -> Iterator[Failure]:
    """A packet that comes in by the NIC of the run while the route back to its source leaves by another one."""
    for end, other in (ends[::-1], ends):
        path, link = end.path, end.link
        if path is None or link is None or path.rp_filter != STRICT or path.ifindex in (None, end.here.ifindex):
            continue
        if other.path is None or other.path.ifindex != other.here.ifindex:
            continue  # it need not come in there
        yield Failure(
            "filtered",
            f"{clean(end.here.host)} drops what {end.there.address} sends: rp_filter is 1 (strict) on "
            f"{clean(link.name)}, and the route back leaves by {_name(heard, end)}; let it leave by "
            f"{clean(link.name)}, or make the filter loose",
            (str(command("sysctl", "-w", f"net/ipv4/conf/{link.name}/rp_filter=2")),),
            end.here.host,
        )


def _other_hosts_macs(heard: RunLog, ends: tuple[_End, _End]) -> Iterator[Failure]:
    for end in ends:
        for name, link in _answering(heard, end):
            if name != end.there.host:
                yield Failure(
                    "duplicate",
                    f"{clean(end.here.host)} {_reached(end, name, link)}, not of {clean(end.there.host)}",
                    (str(command("ip", "neighbour", "show", "to", end.there.address)),),
                    end.here.host,
                )


def _unresolved(heard: RunLog, ends: tuple[_End, _End]) -> Iterator[Failure]:
    for end in ends:
        path = end.path
        if path is not None and path.neighbour in UNRESOLVED:
            wanted = path.gateway or end.there.address
            deaf = f"{clean(end.there.host)} does not receive broadcast frames" if path.gateway is None else ""
            yield Failure(
                "no_neighbour",
                f"{clean(end.here.host)} gets no MAC address for {wanted} on {_name(heard, end)} (neighbour "
                f"{path.neighbour}); possible: "
                + ", ".join(filter(None, ("another VLAN or network", deaf, "a bridge or switch port that drops"))),
                (),
                end.here.host,
            )


# ---------------------------------------------------------------------------------------------------------- helpers


def _end(heard: RunLog, side: Side) -> _End:
    here, there = heard.plan.client, heard.plan.server
    if side == "server":
        here, there = there, here
    return _End(here, there, link_of(heard, here), heard.ends[side].path)


def _name(heard: RunLog, end: _End) -> str:
    """Of the NIC that the route leaves by."""
    ifindex = (end.path.ifindex if end.path is not None else None) or 0
    host = heard.hosts.get(end.here.host)
    link = host.snapshot.links.get(ifindex) if host is not None else None
    return clean(link.name) if link is not None else f"ifindex {ifindex}"


def _answering(heard: RunLog, end: _End) -> Iterator[tuple[str, Link]]:
    """(host, NIC) of the watched NIC whose MAC address is in the neighbour table, if it is not that of the other end or
    one of its ports."""
    path, expected = end.path, link_of(heard, end.there)
    if path is None or path.gateway is not None or path.neighbour_address is None or expected is None:
        return
    if path.neighbour_address == expected.address:
        return
    for name, host in heard.hosts.items():
        for link in host.snapshot.links.values():
            if link.address == path.neighbour_address:
                yield name, link


def _reached(end: _End, name: str, link: Link) -> str:
    mac = end.path.neighbour_address if end.path is not None else None
    return f"reaches {end.there.address} at {mac}, which is {clean(link.name)} of {clean(name)}"


def _links_with(heard: RunLog, name: str, address: str) -> Iterator[Link]:
    """Links of a host that have an address which is not link-local."""
    host = heard.hosts.get(name)
    for link in host.snapshot.links.values() if host is not None else ():
        if any(one.address == address and one.scope != "link" for one in link.addresses):
            yield link
