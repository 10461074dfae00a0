"""No protocol is answered: no route, no MAC address, or lost on the way. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from nictop.model.text.words import count_noun
from nictop.rules.finding import Evidence, Finding, Fix
from nictop.rules.fixes.commands import command
from nictop.traffic.path.findings.way import ANSWERS, PROTOCOL_NAMES, Way, path_finding
from nictop.traffic.run.unreachable import DISCARDING_ROUTES, UNRESOLVED_STATES


def unanswered_findings(way: Way) -> Iterator[Finding]:
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
        yield path_finding(
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
        yield path_finding(
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
        yield path_finding(
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
    yield path_finding(
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
