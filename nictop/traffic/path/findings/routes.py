"""Asymmetric paths, what rp_filter drops on them, and routes with an MTU of their own. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from nictop.model.devices.ipv4_conf import LOOSE, RP_FILTER_TEXTS, STRICT, ipv4_conf
from nictop.probe.kernel.sysfs import parse_integer
from nictop.probe.records import Link, TrafficPath
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.fixes.source_routing import source_routing_fixes
from nictop.rules.host import HostFacts
from nictop.traffic.path.findings.sizes import best_size
from nictop.traffic.path.findings.tested_direction import (
    TestedDirection,
    incoming_links,
    path_finding,
)


def rp_filter_findings(tested: TestedDirection) -> Iterator[Finding]:
    """The receiver drops what comes in, because its route back uses another NIC."""
    is_ipv6 = ":" in tested.receiver.address
    link = _incoming_link(tested)
    if is_ipv6 or link is None:
        return
    rp_filter = ipv4_conf(link, tested.peer.inventory.settings).rp_filter
    path, dropped = tested.path_back, _rp_filter_drops(tested)
    would_drop = _would_drop(rp_filter, path, link)
    is_cause = would_drop or dropped > 0
    if tested.is_answered:
        # drops alone are of something else then, and the route alone does no harm
        is_cause = would_drop and dropped > 0
    if is_cause:
        yield _rp_filter_finding(tested, link, rp_filter, _route_text(tested, path), dropped)


def _incoming_link(tested: TestedDirection) -> Link | None:
    """By which most packets of the sender came in; else the NIC of the receiver's address."""
    incoming = incoming_links(tested)
    if not incoming:
        return tested.receiver_link
    return tested.peer.link_at(incoming[0])


def _rp_filter_drops(tested: TestedDirection) -> int:
    """Packets that the receiver's kernel counted as dropped by rp_filter; 0 if not known."""
    listener = tested.direction.listener
    if listener is None:
        return 0
    return listener.rp_filter_drops or 0


def _would_drop(rp_filter: int | None, path: TrafficPath | None, link: Link) -> bool:
    """By the route back to the sender. `link`: by which its packets come in."""
    if path is None:
        return False
    if rp_filter == STRICT:
        return path.route == "unicast" and path.ifindex != link.ifindex
    return rp_filter == LOOSE and path.route == "none"


def _route_text(tested: TestedDirection, path: TrafficPath | None) -> str:
    """``by ens3``, ``none``"""
    if path is None:
        return "unknown"
    link = tested.peer.link_at(path.ifindex)
    if link is None:
        return path.route
    return f"by {link.name}"


def _rp_filter_finding(
    tested: TestedDirection, link: Link, rp_filter: int | None, route: str, dropped: int
) -> Finding:
    sender, receiver = tested.sender, tested.receiver
    setting = "unknown"
    if rp_filter is not None:
        setting = f"{rp_filter} ({RP_FILTER_TEXTS.get(rp_filter, 'unknown')})"
    route_command = f"ip route get {sender.address} from {receiver.address}"
    evidence = [
        Evidence("rp_filter", setting, f"sysctl net.ipv4.conf.{{all,{link.name}}}.rp_filter"),
        Evidence(f"route back to {sender.address}", route, route_command),
    ]
    if dropped:
        source = "/proc/net/netstat IPReversePathFilter"
        evidence.append(Evidence("dropped during the test", str(dropped), source))
    fixes: list[Fix] = []
    if rp_filter == STRICT:
        fixes += _loose_fixes(tested.peer, link)
    fixes += _source_routing_fixes(tested, link)
    return path_finding(
        "path_rp_filter",
        "critical",
        tested.peer,
        link,
        f"rp_filter drops packets from {sender.address} ({sender.host}): route back {route}",
        evidence=tuple(evidence),
        why=f"{_why_dropped(rp_filter, route)} The kernel does not answer ARP requests of such a "
        "sender either, and logs it only with log_martians.",
        fixes=tuple(fixes),
    )


def _why_dropped(rp_filter: int | None, route: str) -> str:
    if rp_filter == LOOSE and route == "none":
        return (
            "There is no route back to the sender. With rp_filter 2 (loose) the kernel drops what "
            "it sends."
        )
    if rp_filter == STRICT:
        return (
            "The path is asymmetric: packets arrive on this NIC, and replies would use another "
            "one. With rp_filter 1 (strict) the kernel drops these packets."
        )
    return "The kernel counted packets that rp_filter dropped while those of the test were lost."


def _loose_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """A dot in the name of a link is a slash for sysctl(8)."""
    return sysctl_fixes(host, f"net.ipv4.conf.{link.name.replace('.', '/')}.rp_filter", LOOSE)


def _source_routing_fixes(tested: TestedDirection, link: Link) -> tuple[Fix, ...]:
    """(): the link of the receiver does not have its address."""
    address = tested.receiver.address
    own = [candidate for candidate in link.addresses if candidate.address == address]
    if not own:
        return ()
    return source_routing_fixes(tested.peer, link, own)


def asymmetric_findings(tested: TestedDirection) -> Iterator[Finding]:
    incoming = incoming_links(tested)
    if not incoming:
        return
    link, by = tested.peer.link_at(incoming[0]), tested.peer.link_at(tested.route_back)
    if link is None or by is None:
        return
    if by.ifindex in (link.ifindex, tested.receiver.ifindex):
        return  # by the NIC of its address: the other end sends by another NIC
    sender, receiver = tested.sender.address, tested.receiver.address
    route_command = f"ip route get {sender} from {receiver}"
    yield path_finding(
        "path_asymmetric",
        "info",
        tested.peer,
        link,
        f"asymmetric path: packets from {tested.sender.host} arrive on {link.name}, the route "
        f"back uses {by.name}",
        evidence=(
            Evidence("packets arrive on", link.name, "IP_PKTINFO"),
            Evidence(f"route back to {sender}", f"by {by.name}", route_command),
        ),
        why="Each NIC carries one direction of the traffic. A stateful firewall, or rp_filter 1 "
        "(strict) at one of the ends, may drop it.",
        fixes=_source_routing_fixes(tested, link),
    )


def route_mtu_findings(tested: TestedDirection) -> Iterator[Finding]:
    """The route has a smaller MTU than the NIC, and the path passes larger packets."""
    path, link, size = tested.test.path, tested.link, best_size(tested.test)
    if path is None or link is None or size is None or size.largest is None:
        return
    mtu = route_mtu(path)
    if mtu is None or mtu >= min(size.largest, size.limit):
        return
    looked_up = f"ip route get {tested.receiver.address} from {tested.sender.address}"
    is_locked = "lock" in path.options
    yield path_finding(
        "path_route_mtu",
        "info",
        tested.host,
        link,
        f"the route to {tested.receiver.host} has MTU {mtu} (of this NIC: {size.limit}); "
        f"{size.largest} bytes pass",
        evidence=(
            Evidence("route", f"mtu {'lock ' if is_locked else ''}{mtu}", looked_up),
            Evidence("largest packet that is answered", f"{size.largest} bytes", "path test"),
        ),
        why="TCP and other sockets that follow the MTU of their route send smaller packets than "
        "the path passes, so that each byte costs more packets.",
        fixes=(
            Fix(
                "here",
                "Show the route",
                (
                    command(
                        "ip",
                        "-6" if ":" in tested.receiver.address else "-4",
                        "route",
                        "show",
                        "match",
                        tested.receiver.address.partition("%")[0],
                    ),
                ),
                note="Set without mtu (ip route replace), it has the MTU of the NIC.",
            ),
        ),
    )


def route_mtu(path: TrafficPath) -> int | None:
    """Bytes; None: that of the NIC."""
    words = [word for word in path.options if word != "lock"]
    for name, value in pairwise(words):
        if name == "mtu":
            return parse_integer(value)
    return None
