"""Causes of a failed connection that both hosts show; they are searched before possible causes are listed.

Reads nothing; takes the inventories and the route of each host to the other one (`records.TrafficPath`). In this order:
an address that both hosts have, or a third watched host; a link that is down; a route that discards; ends that are
separated by design; ARP that is off; strict reverse path filtering; a MAC address of another host; a gateway or a
neighbour that does not answer; a filter of the client itself. `examined` lists what can be excluded and what remains
possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nictop.model.devices.ipv4_conf import STRICT
from nictop.model.devices.separated_links import separation
from nictop.model.facts.links import KINDS_WITHOUT_ARP
from nictop.model.snapshot import ARPHRD_ETHER
from nictop.model.text.terminal import clean
from nictop.model.text.words import IFF_NOARP
from nictop.probe.records import Link, TrafficPath
from nictop.rules.fixes.commands import command
from nictop.traffic.analysis.assemble import RunLog
from nictop.traffic.generators import Side
from nictop.traffic.path.findings.tested_direction import PROTOCOLS
from nictop.traffic.path.outcomes import outcome_of
from nictop.traffic.plan.plan import Endpoint
from nictop.traffic.run.failures import ExaminedCauses, Failure

DISCARDING_ROUTES = ("unreachable", "prohibit", "blackhole", "throw")
"""Types of routes that drop packets (ip-route(8))."""
UNRESOLVED_STATES = ("incomplete", "failed")
"""States of a neighbour entry without a MAC address (ip-neighbour(8))."""


@dataclass(frozen=True)
class _RunSide:
    """One end, and the route of its host to the other one."""

    here: Endpoint
    there: Endpoint
    link: Link | None
    """The link of `here`."""
    path: TrafficPath | None


def visible_cause(log: RunLog) -> Failure | None:
    """The first cause that both hosts show; None if there is none."""
    client, server = log.plan.client, log.plan.server
    if client.host == server.host:
        return None
    ends = (_run_side(log, "client"), _run_side(log, "server"))
    searches = (
        *(_duplicates, _link_is_down, _discarding_routes, _separated, _arp_off, _strict_filters, _foreign_macs),
        *(_unresolved, _blocked_here),
    )
    return next((found for search in searches for found in search(log, ends)), None)


def examined(log: RunLog) -> ExaminedCauses:
    """What was examined on both hosts and excluded, and what could not be examined."""
    excluded, remaining = [], []
    for end in (_run_side(log, "client"), _run_side(log, "server")):
        host, path = clean(end.here.host), end.path
        if path is None or path.route != "unicast":
            remaining.append(f"the route of {host} to {end.there.address}")
        elif end.here.ifindex not in (None, path.ifindex):
            named = f", not by {clean(end.link.name)}" if end.link is not None else ""
            remaining.append(f"the route of {host} to {end.there.address}: it leaves by {_route_nic(log, end)}{named}")
        else:
            excluded.append(f"route of {host} (by {_route_nic(log, end)})")
        others = [f"{host} {_mac_text(end, *found)}" for found in _owners_of_mac(log, end)]
        remaining += others
        if not others and path is not None and path.neighbour not in ("", "none", *UNRESOLVED_STATES):
            excluded.append(f"neighbour of {host} ({path.neighbour})")
        if log.plan.ip_version == 4:
            if path is None or path.rp_filter is None:
                remaining.append(f"rp_filter on {host}")
            else:
                excluded.append(f"rp_filter of {host} ({path.rp_filter})")
    return ExaminedCauses(tuple(excluded), tuple(remaining), _arrived_at_the_server(log))


def _arrived_at_the_server(log: RunLog) -> int:
    """Packets of TCP to the port of the run that the path test saw there."""
    listener = log.path_test.result.directions[0].listener if log.path_test is not None else None
    if listener is None or listener.port != log.plan.port:
        return 0
    return sum(one.packets for one in listener.arrived or () if one.protocol == "tcp")


def link_down(log: RunLog) -> str:
    """The message that one of the two NICs has no link; "" if both have."""
    for endpoint in (log.plan.client, log.plan.server):
        link = endpoint_link(log, endpoint)
        if link is not None and (link.carrier is False or link.operstate in ("down", "lowerlayerdown")):
            return f"the link of {clean(link.name)} on {clean(endpoint.host)} is down"
    return ""


def endpoint_link(log: RunLog, endpoint: Endpoint) -> Link | None:
    """The NIC that should carry an end."""
    host = log.hosts.get(endpoint.host)
    return host.snapshot.links.get(endpoint.ifindex or 0) if host is not None else None


# -------------------------------------------------------------------------------------------------------- causes


def _duplicates(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    for end in ends:
        one, other = clean(end.here.host), clean(end.there.host)
        for link in _links_with(log, end.here.host, end.there.address):
            yield Failure(
                "duplicate",
                f"{end.there.address} is an address of {one}, on {clean(link.name)}, and of {other}: packets to it do "
                f"not leave {one}; give one of them another address",
            )
    for name in sorted(set(log.hosts) - {end.here.host for end in ends}):
        for end in ends:
            for link in _links_with(log, name, end.there.address):
                yield Failure(
                    "duplicate",
                    f"{clean(name)} also has {end.there.address}, on {clean(link.name)}: it is random which of the two "
                    f"is reached; give {clean(end.there.host)} or {clean(name)} another address",
                )


def _link_is_down(log: RunLog, _: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    down = link_down(log)
    if down:
        yield Failure("stall", down)


def _discarding_routes(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    version = "-6" if log.plan.ip_version == 6 else "-4"
    for end in ends:
        path = end.path
        if path is None or path.route not in ("none", *DISCARDING_ROUTES):
            continue
        host, address = clean(end.here.host), end.there.address
        if path.rule and not path.entry:
            yield Failure(
                "no_route",
                f"a routing rule of {host} refuses packets to {address} ({clean(path.rule)}): nothing is sent there",
                (str(command("ip", version, "rule", "show", "priority", path.rule.partition(":")[0])),),
                end.here.host,
            )
        elif path.route == "none":
            yield Failure("no_route", f"{host} has no route to {address}", (), end.here.host)
        else:
            yield Failure(
                "no_route",
                f"the route of {host} to {address} is of type {path.route}: nothing is sent there{_entry_text(path)}; "
                "delete it, or add a more specific one",
                (str(command("ip", version, "route", "show", "table", "all", "type", path.route)),),
                end.here.host,
            )


def _entry_text(path: TrafficPath) -> str:
    if not path.entry:
        return ""
    return f" ({clean(path.entry)}{f', by rule {clean(path.rule)}' if path.rule else ''})"


def _separated(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    """A macvlan, macvtap or ipvlan of one end above the NIC of the other one."""
    one, other = ends
    hosts = [log.hosts.get(end.here.host) for end in ends]
    if hosts[0] is None or hosts[1] is None or any(end.path is not None and end.path.gateway for end in ends):
        return
    found = separation(hosts[0].snapshot, one.link, hosts[1].snapshot, other.link)
    if found is None:
        return
    upper = f"{clean(found.upper.name)} of {clean(found.upper_host)}, a {clean(found.upper.kind or '')}"
    if found.lower is None:
        sentence = f"{upper} of mode {clean(found.mode)}, reaches no other one of that NIC, by design: mode bridge"
    else:
        below = f"{clean(found.lower.name)} of {clean(found.lower_host)}"
        sentence = (
            f"{below} and {upper} above it, never reach each other, by design; make a second one on the host "
            "(nictop path has the commands)"
        )
    yield Failure("separated", sentence, (), found.upper_host)


def _blocked_here(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    """The path test before the run got EPERM from the kernel of an end: for the protocol of the run, or for any if
    nothing was answered."""
    directions = log.path_test.result.directions if log.path_test is not None else ()
    for direction in directions:
        if direction.test is None:
            continue
        kinds = {one: outcome_of(direction.test, one).kind for one in PROTOCOLS}
        nothing_passes = "answered" not in kinds.values() and "blocked" in kinds.values()
        if kinds[log.plan.protocol] == "blocked" or nothing_passes:
            host = direction.sender.host
            yield Failure(
                "filtered",
                f"{clean(host)} does not let its own packets to {direction.receiver.address} out (EPERM): an output "
                "chain of netfilter, or a BPF program of the cgroup",
                (str(command("nft", "list", "ruleset")),),
                host,
            )


def _arp_off(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    for end in ends if log.plan.ip_version == 4 else ():
        link = end.link
        if (
            link is not None
            and link.flags & IFF_NOARP
            and link.type == ARPHRD_ETHER
            and link.kind not in KINDS_WITHOUT_ARP
        ):
            yield Failure(
                "no_neighbour",
                f"ARP is off on {clean(link.name)} of {clean(end.here.host)}: it sends no ARP requests and no replies",
                (str(command("ip", "link", "set", "dev", link.name, "arp", "on")),),
                end.here.host,
            )


def _strict_filters(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    """Packets come in by the NIC of the run while the route back to their source leaves by another one."""
    for end, other in (ends[::-1], ends):
        path, link = end.path, end.link
        if path is None or link is None or path.rp_filter != STRICT or path.ifindex in (None, end.here.ifindex):
            continue
        if other.path is None or other.path.ifindex != other.here.ifindex:
            continue  # packets need not come in by that NIC
        yield Failure(
            "filtered",
            f"{clean(end.here.host)} drops packets from {end.there.address}: rp_filter is 1 (strict) on "
            f"{clean(link.name)}, and the route back uses {_route_nic(log, end)}; change the route to use "
            f"{clean(link.name)}, or set rp_filter to 2 (loose)",
            (str(command("sysctl", "-w", f"net/ipv4/conf/{link.name}/rp_filter=2")),),
            end.here.host,
        )


def _foreign_macs(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    for end in ends:
        for name, link in _owners_of_mac(log, end):
            if name != end.there.host:
                yield Failure(
                    "duplicate",
                    f"{clean(end.here.host)} {_mac_text(end, name, link)}, not of {clean(end.there.host)}",
                    (str(command("ip", "neighbour", "show", "to", end.there.address)),),
                    end.here.host,
                )


def _unresolved(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    for end in ends:
        path = end.path
        if path is not None and path.neighbour in UNRESOLVED_STATES:
            if path.gateway is not None:
                yield _silent_gateway(end, path.gateway, _route_nic(log, end))
                continue
            wanted = end.there.address
            no_broadcast = f"{clean(end.there.host)} does not receive broadcast frames"
            yield Failure(
                "no_neighbour",
                f"{clean(end.here.host)} gets no MAC address for {wanted} on {_route_nic(log, end)} (neighbour "
                f"{path.neighbour}); possible: "
                + ", ".join(
                    filter(None, ("another VLAN or network", no_broadcast, "a bridge or switch port that drops"))
                ),
                (),
                end.here.host,
            )


def _silent_gateway(end: _RunSide, gateway: str, nic: str) -> Failure:
    state = end.path.neighbour if end.path is not None else ""
    return Failure(
        "no_neighbour",
        f"the gateway {gateway}, by which {clean(end.here.host)} sends to {end.there.address}, does not answer on {nic}"
        f" (neighbour {state}); possible: wrong gateway, router down, another VLAN",
        (str(command("ip", "neighbour", "show", "to", gateway)),),
        end.here.host,
    )


# ---------------------------------------------------------------------------------------------------------- helpers


def _run_side(log: RunLog, side: Side) -> _RunSide:
    here, there = log.plan.client, log.plan.server
    if side == "server":
        here, there = there, here
    return _RunSide(here, there, endpoint_link(log, here), log.ends[side].path)


def _route_nic(log: RunLog, end: _RunSide) -> str:
    """Name of the NIC of the route."""
    ifindex = (end.path.ifindex if end.path is not None else None) or 0
    host = log.hosts.get(end.here.host)
    link = host.snapshot.links.get(ifindex) if host is not None else None
    return clean(link.name) if link is not None else f"ifindex {ifindex}"


def _owners_of_mac(log: RunLog, end: _RunSide) -> Iterator[tuple[str, Link]]:
    """(host, NIC) of each watched NIC whose MAC address is in the neighbour entry, unless it is the address of the
    other end."""
    path, expected = end.path, endpoint_link(log, end.there)
    if path is None or path.gateway is not None or path.neighbour_address is None or expected is None:
        return
    if path.neighbour_address == expected.address:
        return
    for name, host in log.hosts.items():
        for link in host.snapshot.links.values():
            if link.address == path.neighbour_address:
                yield name, link


def _mac_text(end: _RunSide, name: str, link: Link) -> str:
    mac = end.path.neighbour_address if end.path is not None else None
    return f"reaches {end.there.address} at {mac}, which is {clean(link.name)} of {clean(name)}"


def _links_with(log: RunLog, name: str, address: str) -> Iterator[Link]:
    """Links of a host that have the address, not as a link-local one."""
    host = log.hosts.get(name)
    for link in host.snapshot.links.values() if host is not None else ():
        if any(one.address == address and one.scope != "link" for one in link.addresses):
            yield link
