"""Causes of a failed connection that both hosts show; they are searched before possible causes are
listed.

Reads nothing; takes the inventories and the route of each host to the other one
(`records.TrafficPath`). In this order: an address that both hosts have, or a third watched host; a
link that is down; a route that discards; ends that are separated by design; ARP that is off; strict
reverse path filtering; a MAC address of another host; a gateway or a neighbour that does not
answer; a filter of the client itself. `examined` lists what can be excluded and what remains
possible.
"""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.devices.ipv4_conf import STRICT
from nictop.model.devices.separated_links import separation
from nictop.model.facts.links import KINDS_WITHOUT_ARP
from nictop.model.snapshot import ARPHRD_ETHER
from nictop.model.text.terminal import clean
from nictop.model.text.words import IFF_NOARP
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Address, Link, TrafficPath
from nictop.rules.fixes.commands import command
from nictop.traffic.failures import ExaminedCauses, Failure
from nictop.traffic.generators import Side
from nictop.traffic.hosts.host import link_of
from nictop.traffic.path.findings.tested_direction import PROTOCOLS
from nictop.traffic.path.outcomes import (
    DISCARDING_ROUTES,
    UNCONFIRMED_STATES,
    UNRESOLVED_STATES,
    outcome_of,
)
from nictop.traffic.plan.plan import Endpoint
from nictop.traffic.record.log import RunLog


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
        _duplicates,
        _link_is_down,
        _discarding_routes,
        _separated,
        _arp_off,
        _strict_filters,
        _foreign_macs,
        _unresolved,
        _blocked_here,
    )
    for search in searches:
        for found in search(log, ends):
            return found
    return None


def examined(log: RunLog) -> ExaminedCauses:
    """What was examined on both hosts and excluded, and what could not be examined."""
    excluded: list[str] = []
    remaining: list[str] = []
    for end in (_run_side(log, "client"), _run_side(log, "server")):
        _examine_route(log, end, excluded, remaining)
        _examine_neighbour(log, end, excluded, remaining)
        if log.plan.ip_version == 4:
            _examine_rp_filter(end, excluded, remaining)
    return ExaminedCauses(tuple(excluded), tuple(remaining), _arrived_at_the_server(log))


def _examine_route(log: RunLog, end: _RunSide, excluded: list[str], remaining: list[str]) -> None:
    """It is excluded if it leaves by the NIC of the run."""
    host, path = clean(end.here.host), end.path
    route = f"the route of {host} to {end.there.address}"
    if path is None or path.route != "unicast":
        remaining.append(route)
    elif end.here.ifindex in (None, path.ifindex):
        excluded.append(f"route of {host} (by {_route_nic(log, end)})")
    else:
        leaves = f"it leaves by {_route_nic(log, end)}"
        if end.link is not None:
            leaves += f", not by {clean(end.link.name)}"
        remaining.append(f"{route}: {leaves}")


def _examine_neighbour(
    log: RunLog, end: _RunSide, excluded: list[str], remaining: list[str]
) -> None:
    """It is excluded if its MAC address has answered lately, and is that of no other NIC."""
    host = clean(end.here.host)
    others = [f"{host} {_mac_text(end, *owner)}" for owner in _owners_of_mac(log, end)]
    remaining += others
    if others or end.path is None:
        return
    state = end.path.neighbour
    if state == "permanent":
        remaining.append(f"the neighbour of {host} (static: not confirmed)")
    elif state in UNCONFIRMED_STATES:
        remaining.append(f"the neighbour of {host} ({state}: not confirmed)")
    elif state not in ("", "none", *UNRESOLVED_STATES):
        excluded.append(f"neighbour of {host} ({state})")


def _examine_rp_filter(end: _RunSide, excluded: list[str], remaining: list[str]) -> None:
    host = clean(end.here.host)
    path = end.path
    if path is None or path.rp_filter is None:
        remaining.append(f"rp_filter on {host}")
    elif path.rp_filter == STRICT and path.ifindex not in (None, end.here.ifindex):
        remaining.append(f"rp_filter on {host} ({path.rp_filter})")
    else:
        excluded.append(f"rp_filter of {host} ({path.rp_filter})")


def _arrived_at_the_server(log: RunLog) -> int:
    """Packets of TCP to the port of the run that the path test saw there."""
    if log.path_test is None:
        return 0
    listener = log.path_test.result.directions[0].listener
    if listener is None or listener.port != log.plan.port:
        return 0
    arrived = listener.arrived or ()
    return sum(packets.packets for packets in arrived if packets.protocol == "tcp")


def link_down(log: RunLog) -> str:
    """The message that one of the two NICs has no link; "" if both have."""
    for endpoint in (log.plan.client, log.plan.server):
        link = endpoint_link(log, endpoint)
        if link is None:
            continue
        if link.carrier is False or link.operstate in ("down", "lowerlayerdown"):
            return f"the link of {clean(link.name)} on {clean(endpoint.host)} is down"
    return ""


def endpoint_link(log: RunLog, endpoint: Endpoint) -> Link | None:
    """The NIC that should carry an end."""
    return link_of(endpoint, log.hosts)


# ------------------------------------------------------------------------------------------- causes


def _duplicates(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    for end in ends:
        one, other = clean(end.here.host), clean(end.there.host)
        for link in _links_with(log, end.here.host, end.there.address):
            yield Failure(
                "duplicate",
                f"{end.there.address} is an address of {one}, on {clean(link.name)}, and of "
                f"{other}: packets to it do "
                f"not leave {one}; give one of them another address",
            )
    for name in sorted(set(log.hosts) - {end.here.host for end in ends}):
        for end in ends:
            for link in _links_with(log, name, end.there.address):
                yield Failure(
                    "duplicate",
                    f"{clean(name)} also has {end.there.address}, on {clean(link.name)}: in one "
                    f"network either of the two may be reached; give {clean(end.there.host)} or "
                    f"{clean(name)} another address",
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
        commands: tuple[str, ...] = ()
        if path.rule and not path.entry:
            sentence = (
                f"a routing rule of {host} refuses packets to {address} ({clean(path.rule)}): "
                f"nothing is sent there"
            )
            priority = path.rule.partition(":")[0]
            commands = (str(command("ip", version, "rule", "show", "priority", priority)),)
        elif path.route == "none":
            sentence = f"{host} has no route to {address}"
        else:
            sentence = (
                f"the route of {host} to {address} is of type {path.route}: nothing is sent "
                f"there{_entry_text(path)}; delete it, or add a more specific one"
            )
            words = ("route", "show", "table", "all", "type", path.route)
            commands = (str(command("ip", version, *words)),)
        yield Failure("no_route", sentence, commands, end.here.host)


def _entry_text(path: TrafficPath) -> str:
    """`` (unreachable default, by rule 32766: from all lookup main)``; "": not known."""
    if not path.entry:
        return ""
    text = clean(path.entry)
    if path.rule:
        text += f", by rule {clean(path.rule)}"
    return f" ({text})"


def _separated(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    """A macvlan, macvtap or ipvlan of one end above the NIC of the other one."""
    one, other = ends
    here, there = log.hosts.get(one.here.host), log.hosts.get(other.here.host)
    if here is None or there is None or any(map(_has_gateway, ends)):
        return
    found = separation(here.snapshot, one.link, there.snapshot, other.link)
    if found is None:
        return
    upper = (
        f"{clean(found.upper.name)} of {clean(found.upper_host)}, a {clean(found.upper.kind or '')}"
    )
    if found.lower is None:
        sentence = (
            f"{upper} of mode {clean(found.mode)}, reaches no other one of that NIC, by "
            f"design: mode bridge"
        )
    else:
        below = f"{clean(found.lower.name)} of {clean(found.lower_host)}"
        sentence = (
            f"{below} and {upper} above it, never reach each other, by design; make a second one "
            f"on the host "
            "(nictop path has the commands)"
        )
    yield Failure("separated", sentence, (), found.upper_host)


def _has_gateway(end: _RunSide) -> bool:
    return end.path is not None and bool(end.path.gateway)


def _blocked_here(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    """The path test before the run got EPERM from the kernel of an end: for the protocol of the
    run, or for any if nothing was answered."""
    if log.path_test is None:
        return
    for direction in log.path_test.result.directions:
        if direction.test is None:
            continue
        kinds = {protocol: outcome_of(direction.test, protocol).kind for protocol in PROTOCOLS}
        is_answered = "answered" in kinds.values()
        is_any_blocked = "blocked" in kinds.values()
        if kinds[log.plan.protocol] == "blocked" or (is_any_blocked and not is_answered):
            host = direction.sender.host
            yield Failure(
                "filtered",
                f"{clean(host)} does not let its own packets to {direction.receiver.address} out "
                f"(EPERM): an output chain of netfilter, a BPF program of the cgroup, or an IPsec "
                f"policy",
                (str(command("nft", "list", "ruleset")),),
                host,
            )


def _arp_off(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    if log.plan.ip_version != 4:
        return
    for end in ends:
        link = end.link
        if link is None or not link.flags & IFF_NOARP:
            continue
        needs_arp = link.type == ARPHRD_ETHER and link.kind not in KINDS_WITHOUT_ARP
        if needs_arp:
            yield Failure(
                "no_neighbour",
                f"ARP is off on {clean(link.name)} of {clean(end.here.host)}: it sends no ARP "
                f"requests and no replies",
                (str(command("ip", "link", "set", "dev", link.name, "arp", "on")),),
                end.here.host,
            )


def _strict_filters(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    """Packets come in by the NIC of the run while the route back to their source leaves by another
    one."""
    for end, other in (ends[::-1], ends):
        path, link = end.path, end.link
        if path is None or link is None or path.rp_filter != STRICT:
            continue
        if path.ifindex in (None, end.here.ifindex):
            continue
        if other.path is None or other.path.ifindex != other.here.ifindex:
            continue  # packets need not come in by that NIC
        yield Failure(
            "filtered",
            f"{clean(end.here.host)} drops packets from {end.there.address}: rp_filter is 1 "
            f"(strict) on "
            f"{clean(link.name)}, and the route back uses {_route_nic(log, end)}; change the "
            f"route to use "
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
                    f"{clean(end.here.host)} {_mac_text(end, name, link)}, not of "
                    f"{clean(end.there.host)}",
                    (str(command("ip", "neighbour", "show", "to", end.there.address)),),
                    end.here.host,
                )


def _unresolved(log: RunLog, ends: tuple[_RunSide, _RunSide]) -> Iterator[Failure]:
    for end in ends:
        path = end.path
        if path is None or path.neighbour not in UNRESOLVED_STATES:
            continue
        if path.gateway is not None:
            yield _silent_gateway(end, path.gateway, _route_nic(log, end))
            continue
        yield Failure(
            "no_neighbour",
            f"{clean(end.here.host)} gets no MAC address for {end.there.address} on "
            f"{_route_nic(log, end)} (neighbour {path.neighbour}); possible: another VLAN or "
            f"network, {clean(end.there.host)} does not receive broadcast frames, a bridge or "
            f"switch port that drops",
            (),
            end.here.host,
        )


def _silent_gateway(end: _RunSide, gateway: str, nic: str) -> Failure:
    state = end.path.neighbour if end.path is not None else ""
    return Failure(
        "no_neighbour",
        f"the gateway {gateway}, by which {clean(end.here.host)} sends to {end.there.address}, "
        f"does not answer on {nic}"
        f" (neighbour {state}); possible: wrong gateway, router down, another VLAN",
        (str(command("ip", "neighbour", "show", "to", gateway)),),
        end.here.host,
    )


# ------------------------------------------------------------------------------------------ helpers


def _run_side(log: RunLog, side: Side) -> _RunSide:
    here, there = log.plan.client, log.plan.server
    if side == "server":
        here, there = there, here
    return _RunSide(here, there, endpoint_link(log, here), log.ends[side].path)


def _route_nic(log: RunLog, end: _RunSide) -> str:
    """Name of the NIC of the route."""
    if end.path is None or end.path.ifindex is None:
        return "ifindex 0"
    link = link_of(replace(end.here, ifindex=end.path.ifindex), log.hosts)
    if link is None:
        return f"ifindex {end.path.ifindex}"
    return clean(link.name)


def _owners_of_mac(log: RunLog, end: _RunSide) -> Iterator[tuple[str, Link]]:
    """(host, NIC) of each watched NIC whose MAC address is in the neighbour entry, unless it is the
    address of the other end."""
    path, expected = end.path, endpoint_link(log, end.there)
    if path is None or expected is None or path.gateway is not None:
        return
    if path.neighbour_address in (None, expected.address):
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
    if name not in log.hosts:
        return
    for link in log.hosts[name].snapshot.links.values():
        scopes = {own.scope for own in link.addresses if _is_in_use(own, address)}
        if scopes - {"link"}:
            yield link


def _is_in_use(own: Address, address: str) -> bool:
    """IPv6 does not use one that another host had before (dadfailed)."""
    return own.address == address and "dadfailed" not in own.flags
