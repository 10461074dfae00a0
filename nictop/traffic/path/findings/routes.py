"""Asymmetric paths, and what rp_filter drops on them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.devices.ipv4_conf import LOOSE, RP_FILTER_TEXTS, STRICT, ipv4_conf
from nictop.probe.records import Link
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.persistence import sysctl_fixes
from nictop.rules.fixes.source_routing import source_routing_fixes
from nictop.rules.host import HostFacts
from nictop.traffic.path.findings.tested_direction import TestedDirection, incoming_links, path_finding


def rp_filter_findings(tested: TestedDirection) -> Iterator[Finding]:
    """The receiver drops what comes in, because its route back uses another NIC."""
    listener = tested.direction.listener
    dropped = (listener.rp_filter_drops or 0) if listener is not None else 0
    if ":" in tested.receiver.address:
        return
    incoming = incoming_links(tested)
    ifindex = incoming[0] if incoming else tested.receiver.ifindex
    link = tested.peer.snapshot.links.get(ifindex or 0)
    if link is None:
        return
    rp_filter = ipv4_conf(link, tested.peer.inventory.settings).rp_filter
    path = tested.back.test.path if tested.back.test is not None else None
    has_route = path is not None and path.route == "unicast"
    would_drop = (rp_filter == STRICT and has_route and path is not None and path.ifindex != link.ifindex) or (
        rp_filter == LOOSE and path is not None and path.route == "none"
    )
    if not dropped and not (would_drop and not tested.is_answered):
        return
    if not would_drop and tested.is_answered:
        return  # something else is dropped meanwhile
    by = tested.peer.snapshot.links.get(path.ifindex or 0) if path is not None else None
    route_text = f"by {by.name}" if by is not None else path.route if path is not None else "unknown"
    evidence = [
        Evidence(
            "rp_filter",
            f"{rp_filter} ({RP_FILTER_TEXTS.get(rp_filter, 'unknown')})" if rp_filter is not None else "unknown",
            f"sysctl net.ipv4.conf.{{all,{link.name}}}.rp_filter",
        ),
        Evidence(
            f"route back to {tested.sender.address}",
            route_text,
            f"ip route get {tested.sender.address} from {tested.receiver.address}",
        ),
    ]
    if dropped:
        evidence.append(Evidence("dropped during the test", str(dropped), "/proc/net/netstat IPReversePathFilter"))
    addresses = [one for one in link.addresses if one.address == tested.receiver.address]
    yield path_finding(
        "path_rp_filter",
        "critical",
        tested.peer,
        link,
        f"rp_filter drops packets from {tested.sender.address} ({tested.sender.host}): route back {route_text}",
        evidence=tuple(evidence),
        why="The path is asymmetric: packets arrive on this NIC, and replies would use another one. With rp_filter 1 "
        "(strict) the kernel drops these packets, and does not answer ARP requests of their sender. Nothing is logged.",
        fixes=(
            *(_loose_fixes(tested.peer, link) if rp_filter == STRICT else ()),
            *(source_routing_fixes(tested.peer, link, addresses) if addresses else ()),
        ),
    )


def _loose_fixes(host: HostFacts, link: Link) -> tuple[Fix, ...]:
    """A dot in the name of a link is a slash for sysctl(8)."""
    return sysctl_fixes(host, f"net.ipv4.conf.{link.name.replace('.', '/')}.rp_filter", LOOSE)


def asymmetric_findings(tested: TestedDirection) -> Iterator[Finding]:
    incoming, back = incoming_links(tested), tested.route_back
    link = tested.peer.snapshot.links.get(incoming[0]) if incoming else None
    by = tested.peer.snapshot.links.get(back or 0)
    if link is None or by is None or by.ifindex in (link.ifindex, tested.receiver.ifindex):
        return  # by the NIC of its address: the other end sends by another NIC
    addresses = [one for one in link.addresses if one.address == tested.receiver.address]
    yield path_finding(
        "path_asymmetric",
        "info",
        tested.peer,
        link,
        f"asymmetric path: packets from {tested.sender.host} arrive on {link.name}, the route back uses {by.name}",
        evidence=(
            Evidence("packets arrive on", link.name, "IP_PKTINFO"),
            Evidence(
                f"route back to {tested.sender.address}",
                f"by {by.name}",
                f"ip route get {tested.sender.address} from {tested.receiver.address}",
            ),
        ),
        why="Each NIC carries one direction of the traffic. A stateful firewall or rp_filter 1 (strict) drops it.",
        fixes=source_routing_fixes(tested.peer, link, addresses) if addresses else (),
    )
