"""What is wrong with a path between two watched hosts: findings with evidence and the commands that fix it.

Pure: the result of a path test and the facts of both hosts in, findings out, worst first, one for each cause. Their
names begin with ``path_``; they are made by a test, so they are no rules of ``nictop check``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from nictop.model.devices.ipv4_conf import LOOSE, RP_FILTER_TEXTS, STRICT, ipv4_conf
from nictop.model.text.words import count_noun
from nictop.probe.records import Firewalls, IcmpError, Link, PathReplies, PathSize, PathTest, ReceivedPackets
from nictop.rules.finding import SEVERITIES, Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import command, stored_line
from nictop.rules.fixes.persistence import mtu_fixes, sysctl_fixes
from nictop.rules.fixes.source_routing import source_routing_fixes
from nictop.rules.host import HostFacts
from nictop.traffic.path.outcomes import Outcome, outcome_of
from nictop.traffic.path.result import PathDirection, PathEnd, PathResult
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.run.failures import opening_commands
from nictop.traffic.run.unreachable import DISCARDING_ROUTES, UNRESOLVED_STATES

MIN_LOST = 2
"""Unanswered packets of one measurement that are reported as loss."""
MIN_IPV6_MTU = 1280
"""RFC 8200: a link with a smaller MTU has no IPv6."""
PROTOCOL_NAMES = {"icmp": "ICMP echo", "udp": "UDP", "tcp": "TCP"}
ANSWERS = {
    "silent": "no answer",
    "refused": "refused",
    "prohibited": "prohibited",
    "unreachable": "unreachable",
    "expired": "TTL exceeded",
    "no_neighbour": "no MAC address",
    "blocked": "blocked by its own firewall",
    "no_route": "no route",
    "failed": "not sent",
}
"""`OutcomeKind` → what is shown."""
FIREWALL_KINDS = ("silent", "refused", "prohibited", "blocked")


@dataclass(frozen=True, eq=False)
class _Way:
    """One direction with everything that is known about it."""

    result: PathResult
    direction: PathDirection
    back: PathDirection
    test: PathTest
    host: HostFacts
    """The sender."""
    peer: HostFacts
    """The receiver."""
    firewalls: Firewalls | None
    """Of the receiver."""

    @property
    def sender(self) -> PathEnd:
        return self.direction.sender

    @property
    def receiver(self) -> PathEnd:
        return self.direction.receiver

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """Protocol → what came back, of those that were tested."""
        found = {name: outcome_of(self.test, name) for name in ("icmp", "udp", "tcp")}
        return {name: outcome for name, outcome in found.items() if outcome.kind != "not_tested"}

    @property
    def is_answered(self) -> bool:
        return any(outcome.kind == "answered" for outcome in self.outcomes.values())

    @property
    def link(self) -> Link | None:
        """By which the sender's route leaves; else the NIC of its address."""
        ifindex = self.test.path.ifindex if self.test.path is not None else None
        return self.host.snapshot.links.get(ifindex or self.sender.ifindex or 0)

    @property
    def gateway(self) -> str | None:
        return self.test.path.gateway if self.test.path is not None else None

    @property
    def arrived(self) -> tuple[ReceivedPackets, ...] | None:
        """What came in at the receiver; None: unknown."""
        listener = self.direction.listener
        if listener is None or not listener.ended:
            return None
        return listener.arrived if listener.arrived is not None else (listener.delivered or None)

    @property
    def route_back(self) -> int | None:
        """ifindex by which the receiver's route to the sender leaves; None: unknown, or no route."""
        path = self.back.test.path if self.back.test is not None else None
        return path.ifindex if path is not None else None


def path_findings(
    result: PathResult, facts: Mapping[str, HostFacts], firewalls: Mapping[str, Firewalls] | None = None
) -> tuple[Finding, ...]:
    """`facts` and `firewalls`: by host; both ends must be in `facts`."""
    found: dict[tuple[str, str, str, str], Finding] = {}
    first, second = result.directions
    for direction, back in ((first, second), (second, first)):
        if direction.test is None:
            continue
        sender, receiver = facts[direction.sender.host], facts[direction.receiver.host]
        known = (firewalls or {}).get(direction.receiver.host)
        way = _Way(result, direction, back, direction.test, sender, receiver, known)
        for finding in _findings(way):
            found.setdefault((finding.rule, finding.host, finding.subject, finding.title), finding)
    order = sorted(found.values(), key=lambda one: SEVERITIES.index(one.severity))
    return _without_consequences(tuple(order))


def _without_consequences(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """What rp_filter drops looks like loss or a firewall, too; the cause is enough."""
    consequences = ("path_no_answer", "path_lost", "path_no_neighbour", "path_asymmetric", "path_firewall")
    if any(one.rule == "path_rp_filter" for one in findings):
        return tuple(one for one in findings if one.rule not in consequences)
    if any(one.rule in ("path_no_route", "path_no_neighbour") for one in findings):
        return tuple(one for one in findings if one.rule not in ("path_no_answer", "path_lost"))
    return findings


def _findings(way: _Way) -> Iterator[Finding]:
    yield from _neighbours(way)
    yield from _rp_filter(way)
    if way.is_answered:
        yield from _sizes(way)
        yield from _loss(way)
        yield from _firewall(way)
        yield from _asymmetric(way)
    else:
        yield from _not_answered(way)


# ------------------------------------------------------------------------------------------------------- neighbours


def _neighbours(way: _Way) -> Iterator[Finding]:
    """More than one MAC address, or that of another NIC, answers for the address."""
    test, link = way.test, way.link
    path = test.path
    if link is None or path is None:
        return
    macs = test.macs if test.macs is not None else (path.neighbour_address,) if path.neighbour_address else ()
    owners = {mac: _owners(way, mac) for mac in macs if mac is not None}
    evidence = tuple(
        Evidence(
            f"{test.resolved or way.receiver.address} answered by",
            f"{mac} ({', '.join(f'{host} {name}' for host, name in found) or 'not a watched NIC'})",
            "ARP" if ":" not in way.receiver.address else "neighbour discovery",
        )
        for mac, found in owners.items()
    )
    is_peers = {mac: any(host == way.receiver.host for host, _ in found) for mac, found in owners.items()}
    address = test.resolved or way.receiver.address
    if len(owners) > 1 and not (way.gateway is None and all(is_peers.values())):
        yield _finding(
            "path_duplicate_address",
            "critical",
            way.host,
            link,
            f"duplicate address {address}: {len(owners)} MAC addresses answer",
            evidence=evidence,
            why="Which host receives the packets is chance, and changes when the neighbour entry expires. Connections "
            "hang or are reset.",
            fixes=(
                Fix(
                    "peer",
                    "Give one of them another address",
                    (),
                    note="Find the other host: the port of its MAC address is in the forwarding table of the bridge "
                    "or switch (bridge fdb show).",
                ),
                Fix(
                    "here",
                    "Show who is used now, and ask again afterwards",
                    (
                        command("ip", "neighbour", "show", "to", address),
                        command("ip", "neighbour", "flush", "to", address, "dev", link.name),
                    ),
                    persistent=None,
                ),
            ),
        )
    elif not way.receiver.mac or way.gateway is not None or path.ifindex != way.sender.ifindex:
        return
    elif owners and all(is_peers.values()) and tuple(owners) != (way.receiver.mac,):
        yield _finding(
            "path_arp_flux",
            "warning",
            way.peer,
            way.peer.snapshot.links.get(way.receiver.ifindex or 0),
            f"ARP flux: {way.receiver.address} is answered by other NICs of this host",
            evidence=evidence,
            why="Packets for this address come in by a NIC that does not have it: the wrong NIC carries the traffic, "
            "and rp_filter may drop it.",
            fixes=(
                *sysctl_fixes(way.peer, "net.ipv4.conf.all.arp_ignore", 1),
                *sysctl_fixes(way.peer, "net.ipv4.conf.all.arp_announce", 2),
            )
            if ":" not in way.receiver.address
            else (),
        )
    elif any(found and not is_peers[mac] for mac, found in owners.items()):
        yield _finding(
            "path_duplicate_address",
            "critical",
            way.host,
            link,
            f"{address} of {way.receiver.host} is answered by another host",
            evidence=evidence,
            why=f"Packets for {way.receiver.host} go to another host: both have the address, or the other one answers "
            "for it (proxy ARP).",
            fixes=(Fix("peer", "Give one of them another address, or turn proxy_arp off", ()),),
        )


def _owners(way: _Way, mac: str) -> list[tuple[str, str]]:
    """(host, NIC) of both ends with this MAC address."""
    ends = {way.host.name: way.host, way.peer.name: way.peer}
    return [(name, link.name) for name, host in ends.items() for link in host.links if link.address == mac]


# -------------------------------------------------------------------------------------------------------- rp_filter


def _rp_filter(way: _Way) -> Iterator[Finding]:
    """The receiver drops what comes in, because its route back uses another NIC."""
    listener = way.direction.listener
    dropped = (listener.rp_filter_drops or 0) if listener is not None else 0
    if ":" in way.receiver.address:
        return
    incoming = _incoming(way)
    ifindex = incoming[0] if incoming else way.receiver.ifindex
    link = way.peer.snapshot.links.get(ifindex or 0)
    if link is None:
        return
    rp_filter = ipv4_conf(link, way.peer.inventory.settings).rp_filter
    path = way.back.test.path if way.back.test is not None else None
    has_route = path is not None and path.route == "unicast"
    would_drop = (rp_filter == STRICT and has_route and path is not None and path.ifindex != link.ifindex) or (
        rp_filter == LOOSE and path is not None and path.route == "none"
    )
    if not dropped and not (would_drop and not way.is_answered):
        return
    if not would_drop and way.is_answered:
        return  # something else is dropped meanwhile
    by = way.peer.snapshot.links.get(path.ifindex or 0) if path is not None else None
    route_text = f"by {by.name}" if by is not None else path.route if path is not None else "unknown"
    evidence = [
        Evidence(
            "rp_filter",
            f"{rp_filter} ({RP_FILTER_TEXTS.get(rp_filter, 'unknown')})" if rp_filter is not None else "unknown",
            f"sysctl net.ipv4.conf.{{all,{link.name}}}.rp_filter",
        ),
        Evidence(
            f"route back to {way.sender.address}",
            route_text,
            f"ip route get {way.sender.address} from {way.receiver.address}",
        ),
    ]
    if dropped:
        evidence.append(Evidence("dropped during the test", str(dropped), "/proc/net/netstat IPReversePathFilter"))
    addresses = [one for one in link.addresses if one.address == way.receiver.address]
    yield _finding(
        "path_rp_filter",
        "critical",
        way.peer,
        link,
        f"rp_filter drops packets from {way.sender.address} ({way.sender.host}): the route back leaves {route_text}",
        evidence=tuple(evidence),
        why="The path is asymmetric: packets come in by this NIC, and the answers would leave by another one. With "
        "rp_filter 1 (strict) the kernel drops them, and answers no ARP request of this sender. Nothing is logged.",
        fixes=(
            *(_loose_fixes(way.peer, link) if rp_filter == STRICT else ()),
            *(source_routing_fixes(way.peer, link, addresses) if addresses else ()),
        ),
    )


def _loose_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """A dot in the name of a link is a slash for sysctl(8)."""
    return sysctl_fixes(host, f"net.ipv4.conf.{link.name.replace('.', '/')}.rp_filter", LOOSE)


def _incoming(way: _Way) -> tuple[int, ...]:
    """ifindexes by which the receiver received packets of the test, most packets first."""
    counts: dict[int, int] = {}
    for one in way.arrived or ():
        counts[one.ifindex] = counts.get(one.ifindex, 0) + one.packets
    return tuple(sorted(counts, key=lambda ifindex: -counts[ifindex]))


def _asymmetric(way: _Way) -> Iterator[Finding]:
    incoming, back = _incoming(way), way.route_back
    link = way.peer.snapshot.links.get(incoming[0]) if incoming else None
    by = way.peer.snapshot.links.get(back or 0)
    if link is None or by is None or by.ifindex in (link.ifindex, way.receiver.ifindex):
        return  # by the NIC of its address: the other end sends by another NIC
    addresses = [one for one in link.addresses if one.address == way.receiver.address]
    yield _finding(
        "path_asymmetric",
        "info",
        way.peer,
        link,
        f"asymmetric path: packets of {way.sender.host} come in by {link.name}, the route back leaves by {by.name}",
        evidence=(
            Evidence("packets come in by", link.name, "IP_PKTINFO"),
            Evidence(
                f"route back to {way.sender.address}",
                f"by {by.name}",
                f"ip route get {way.sender.address} from {way.receiver.address}",
            ),
        ),
        why="Both NICs carry a part of the traffic; a firewall that tracks connections, or rp_filter 1 (strict), drops "
        "it.",
        fixes=source_routing_fixes(way.peer, link, addresses) if addresses else (),
    )


# ------------------------------------------------------------------------------------------------------------ sizes


def _sizes(way: _Way) -> Iterator[Finding]:
    size, link = best_size(way.test), way.link
    if size is None or link is None or size.largest is None or size.largest >= size.limit or not size.complete:
        return
    to = way.receiver.host
    if size.too_big is not None and size.too_big.mtu == size.largest:
        yield _finding(
            "path_mtu_smaller",
            "info",
            way.host,
            link,
            f"path MTU to {to} is {size.largest} (MTU of this NIC: {size.limit})",
            evidence=(_size_evidence(way, size), _too_big_evidence(size.too_big)),
            why="Path MTU discovery works: the kernel learns the size and uses it. The first packets of each "
            "connection are lost, and a tunnel or UDP program that sets DF must know the size.",
        )
        return
    peer_link = way.peer.snapshot.links.get(way.receiver.ifindex or 0) if way.gateway is None else None
    mtu = size.largest
    if peer_link is not None and peer_link.mtu < size.limit:
        mtu = min(mtu, peer_link.mtu)  # some drivers receive a few bytes more than their MTU
    back = best_size(way.back.test) if way.back.test is not None else None
    if back is not None and back.complete and back.largest is not None:
        mtu = min(mtu, back.largest)
    received = Evidence('ICMP "fragmentation needed"', "none received", "IP_RECVERR")
    if size.too_big is not None:
        received = _too_big_evidence(size.too_big)
    evidence = [_size_evidence(way, size), received]
    if way.gateway is not None:
        evidence.append(Evidence("gateway", way.gateway, f"ip route get {way.receiver.address}"))
    elif peer_link is not None:
        evidence.append(Evidence(f"MTU of {to} {peer_link.name}", str(peer_link.mtu), "ip link show"))
    where = (
        'A router on the path does not send ICMP "fragmentation needed", or a firewall drops it'
        if way.gateway is not None
        else f"The other NIC has MTU {peer_link.mtu}, and no router is between that could report it"
        if peer_link is not None and peer_link.mtu < size.limit
        else f"{to} is in the same subnet, so no router can report the size: a bridge, switch port or tunnel has a "
        "smaller MTU"
    )
    yield _finding(
        "path_mtu_black_hole",
        "warning",
        way.host,
        link,
        f"MTU black hole to {to}: packets above {size.largest} bytes vanish (MTU of this NIC: {size.limit})",
        evidence=tuple(evidence),
        why=f"{where}. Small packets pass: ping and SSH work, large transfers hang.",
        fixes=_mtu_fixes(way, link, mtu),
    )


def best_size(test: PathTest) -> PathSize | None:
    """The search with the most reliable answer: that over UDP, whose answers are small."""
    return next((one for one in reversed(test.sizes) if one.largest is not None), None)


def _size_evidence(way: _Way, size: PathSize) -> Evidence:
    return Evidence(
        f"largest packet to {way.receiver.host}",
        f"{size.largest} of {size.limit} bytes",
        f"{PROTOCOL_NAMES[size.protocol]} with DF",
    )


def _too_big_evidence(error: IcmpError) -> Evidence:
    mtu = f", MTU {error.mtu}" if error.mtu is not None else ""
    return Evidence('ICMP "fragmentation needed"', f"from {error.source}{mtu}", "IP_RECVERR")


def _mtu_fixes(way: _Way, link: Link, mtu: int) -> tuple[Fix, ...]:
    note = (
        "Routers and firewalls on the path must let ICMP type 3 code 4 (IPv6: ICMPv6 type 2) pass, and the link with "
        "the smaller MTU may be raised: then no host needs another MTU."
        if way.gateway is not None
        else "Or raise the MTU of the bridge, switch port, tunnel or NIC that has the smaller one."
    )
    if mtu < max(link.min_mtu or 0, MIN_IPV6_MTU if ":" in way.receiver.address else 0):
        return (Fix("here", "Raise the MTU on the path", (), note=note),)
    now, *stored = mtu_fixes(way.host, link, mtu)
    return (replace(now, title=f"Set MTU {mtu} on {link.name}", note=note), *stored)


# ------------------------------------------------------------------------------------------------------------- loss


def _loss(way: _Way) -> Iterator[Finding]:
    link = way.link
    for replies in way.test.replies:
        lost = replies.sent - len(replies.rtts)
        if link is None or not replies.rtts or lost < MIN_LOST:
            continue
        name = PROTOCOL_NAMES[replies.protocol]
        yield _finding(
            "path_loss",
            "warning",
            way.host,
            link,
            f"packet loss to {way.receiver.host} or back: {lost} of {replies.sent} {name} packets unanswered",
            evidence=(_replies_evidence(replies),),
            why="TCP slows down with every lost packet. A queue that overflows, a bad cable or a rate limit for ICMP "
            "on the path can be the cause.",
        )
        return


def _replies_evidence(replies: PathReplies) -> Evidence:
    name = PROTOCOL_NAMES[replies.protocol]
    return Evidence(f"{name} answered", f"{len(replies.rtts)} of {replies.sent}", "path test")


# --------------------------------------------------------------------------------------------------------- firewall


def _firewall(way: _Way) -> Iterator[Finding]:
    """Protocols that are not answered although another one is."""
    blocked = {name: one for name, one in way.outcomes.items() if one.kind in FIREWALL_KINDS}
    listener = way.direction.listener
    if "udp" in blocked and listener is not None and listener.delivered:
        yield from _lost_answers(way, [name for name in ("udp", "tcp") if name in blocked])
        blocked = {name: one for name, one in blocked.items() if name == "icmp"}
    by_outcome = sorted(blocked.items(), key=lambda item: (item[0] == "icmp", item[1].kind, item[1].source))
    for (_, kind, source), items in groupby(
        by_outcome, key=lambda item: (item[0] == "icmp", item[1].kind, item[1].source)
    ):
        protocols = [name for name, _ in items]
        yield _firewall_finding(way, protocols, blocked[protocols[0]], kind, source)


def _lost_answers(way: _Way, protocols: list[str]) -> Iterator[Finding]:
    """The datagrams reached the other probe, so its answers are lost; not reported where the other direction shows what
    drops them."""
    back = way.back.test
    if back is not None and outcome_of(back, "udp").kind != "answered" and not _delivered(way.back):
        return
    what = " and ".join(PROTOCOL_NAMES[name] for name in protocols)
    delivered = sum(one.packets for one in _delivered(way.direction))
    yield _finding(
        "path_firewall",
        "warning" if way.result.port else "info",
        way.host,
        way.link,
        f"a firewall drops the answers of {way.receiver.host} over {what}",
        evidence=(Evidence(f"received by {way.receiver.host}", count_noun(delivered, "UDP packet"), "path test"),),
        why=f"Packets to {way.receiver.host} arrive; what comes back is dropped by the firewall of {way.sender.host}, "
        "or between the hosts. A firewall that tracks connections accepts answers (ct state established).",
    )


def _delivered(direction: PathDirection) -> tuple[ReceivedPackets, ...]:
    return direction.listener.delivered if direction.listener is not None else ()


def _firewall_finding(way: _Way, protocols: list[str], outcome: Outcome, kind: str, source: str) -> Finding:
    is_icmp = protocols == ["icmp"]
    port = "" if is_icmp else f" port {way.test.port}"
    what = f"{' and '.join(PROTOCOL_NAMES[name] for name in protocols)}{port}"
    arrived = way.arrived if way.direction.listener is not None and way.direction.listener.arrived is not None else None
    has_arrived = arrived is not None and any(one.protocol in protocols for one in arrived)
    on_receiver = has_arrived or source == way.receiver.address
    if kind == "blocked":
        where, host, link = f"the firewall of {way.sender.host} (output)", way.host, way.link
    elif on_receiver:
        where, host = f"the firewall of {way.receiver.host}", way.peer
        link = way.peer.snapshot.links.get(way.receiver.ifindex or 0)
    else:
        where, host, link = "a firewall", way.host, way.link
        if source:
            where = f"the firewall of {source}"
        elif arrived is not None:
            where = "a firewall between the hosts"
    evidence = [Evidence(what, f"{ANSWERS[kind]}{f' by {source}' if source else ''}", outcome.detail or "path test")]
    if arrived is not None:
        seen = sum(one.packets for one in arrived if one.protocol in protocols)
        evidence.append(Evidence(f"arrived at {way.receiver.host}", count_noun(seen, "packet"), "packet socket"))
    severity: Severity = "warning" if way.result.port and not is_icmp else "info"
    fixes: tuple[Fix, ...] = ()
    if way.result.port and not is_icmp and kind != "blocked":
        lines = _opening_lines(way, "udp" if "udp" in protocols else "tcp")
        if lines:
            there = host is way.peer
            title = f"Open the port on {way.receiver.host} for two minutes"
            fixes = (Fix("here" if there else "peer", title, tuple(map(stored_line, lines)), persistent=False),)
    more = "This port was chosen at random; test the one you need with --port."
    if is_icmp:
        more = "Path MTU discovery needs ICMP errors; check that only echo is filtered."
    elif way.result.port:
        more = f"A traffic test over port {way.test.port} fails."
    verb = {"silent": "drops", "refused": "refuses", "prohibited": "prohibits", "blocked": "blocks"}[kind]
    return _finding(
        f"path_firewall{'_icmp' if is_icmp else ''}",
        severity,
        host,
        link,
        f"{where} {verb} {what} from {way.sender.host}"
        if host is not way.host
        else f"{where} {verb} {what} to {way.receiver.host}",
        evidence=tuple(evidence),
        why=f"The path itself works: other protocols are answered. {more}",
        fixes=fixes,
    )


def _opening_lines(way: _Way, protocol: str) -> tuple[str, ...]:
    client = Endpoint(way.sender.host, way.sender.ifindex, way.sender.address)
    server = Endpoint(way.receiver.host, way.receiver.ifindex, way.receiver.address)
    plan = RunPlan(client, server, port=way.test.port, protocol="udp" if protocol == "udp" else "tcp", time=1)
    return opening_commands(plan, way.receiver.nic or None, way.firewalls)


# ----------------------------------------------------------------------------------------------------- not answered


def _not_answered(way: _Way) -> Iterator[Finding]:
    path, link, to = way.test.path, way.link, f"{way.receiver.address} ({way.receiver.host})"
    answers = tuple(
        Evidence(
            PROTOCOL_NAMES[name],
            f"{ANSWERS.get(one.kind, one.kind)}{f' by {one.source}' if one.source else ''}",
            one.detail or "path test",
        )
        for name, one in way.outcomes.items()
    )
    route = path.route if path is not None else ""
    family = "-6" if ":" in way.receiver.address else "-4"
    if route == "none" or route in DISCARDING_ROUTES:
        shown = command("ip", family, "route", "show", "table", "all")
        if route != "none":
            shown = command("ip", family, "route", "show", "table", "all", "type", route)
        yield _finding(
            "path_no_route",
            "critical",
            way.host,
            link,
            f"no route to {to}" if route == "none" else f"the route to {to} is of type {route}: nothing is sent",
            evidence=(Evidence("route", route, f"ip route get {way.receiver.address} from {way.sender.address}"),),
            why=f"{way.sender.host} sends nothing to {way.receiver.host}.",
            fixes=(Fix("here", "Show the routes, then add one or delete the one that discards", (shown,)),),
        )
        return
    state = path.neighbour if path is not None else ""
    if state in UNRESOLVED_STATES or way.test.macs == ():
        wanted = way.gateway or way.receiver.address
        yield _finding(
            "path_no_neighbour",
            "critical",
            way.host,
            link,
            f"no MAC address for {wanted}: nobody answers {'neighbour discovery' if family == '-6' else 'ARP'}",
            evidence=(Evidence("neighbour", state or "none", f"ip neighbour show to {wanted}"), *answers),
            why="The two NICs are not in one network: another VLAN or bridge, a switch port that drops, or the other "
            "NIC is down.",
            fixes=(
                Fix(
                    "here",
                    "Check that both NICs are in the same VLAN and bridge",
                    (),
                    note="nictop show lists VLAN, bridge and carrier of both NICs; nictop check finds known causes.",
                ),
            ),
        )
        return
    listener = way.direction.listener
    arrived = listener.arrived if listener is not None and listener.ended else None
    prohibited = next((one for one in way.outcomes.values() if one.kind in ("refused", "prohibited")), None)
    if arrived or (prohibited is not None and prohibited.source == way.receiver.address):
        seen = sum(one.packets for one in arrived or ())
        evidence = (Evidence(f"arrived at {way.receiver.host}", count_noun(seen, "packet"), "packet socket"),)
        yield _finding(
            "path_no_answer",
            "critical",
            way.peer,
            way.peer.snapshot.links.get(way.receiver.ifindex or 0),
            f"nothing from {way.sender.host} is answered: a firewall of {way.receiver.host} drops it, or its answers "
            "are lost",
            evidence=(*(evidence if arrived else ()), *answers),
            why=f"Packets of {way.sender.host} reach this host, and no answer comes back.",
            fixes=(Fix("here", "Show the firewall rules", (command("nft", "list", "ruleset"),)),),
        )
        return
    reason = (
        f"packets to {to} do not reach it"
        if arrived == ()
        else f"no answer from {to}; whether packets reach it is only visible as root there"
    )
    yield _finding(
        "path_lost" if arrived == () else "path_no_answer",
        "critical",
        way.host,
        link,
        reason,
        evidence=answers,
        why="A router, a firewall, a bridge or a VLAN between the hosts drops them."
        if arrived == ()
        else f"A firewall of {way.receiver.host}, or something between the hosts, drops them.",
        fixes=(),
    )


def _finding(
    rule: str,
    severity: Severity,
    host: HostFacts,
    link: Link | None,
    title: str,
    *,
    evidence: tuple[Evidence, ...],
    why: str,
    fixes: tuple[Fix, ...] = (),
) -> Finding:
    subject, ifindex = (link.name, link.ifindex) if link is not None else ("", None)
    return Finding(rule, severity, host.name, subject, title, evidence, why, fixes, ifindex)
