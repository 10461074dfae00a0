"""Protocols that are not answered although another one is: whose firewall it is, as far as that is known. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from nictop.model.text.words import count_noun
from nictop.probe.records import ReceivedPackets
from nictop.rules.finding import Evidence, Finding, Fix, Severity
from nictop.rules.fixes.commands import stored_line
from nictop.traffic.path.findings.losses import loss_evidence
from nictop.traffic.path.findings.tested_direction import (
    ANSWERS,
    PROTOCOL_NAMES,
    Protocol,
    TestedDirection,
    path_finding,
)
from nictop.traffic.path.outcomes import Outcome, outcome_of
from nictop.traffic.path.result import PathDirection
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.run.failures import opening_commands

TRANSPORTS: tuple[Protocol, ...] = ("udp", "tcp")
FIREWALL_KINDS = ("silent", "refused", "prohibited", "blocked")


def firewall_findings(tested: TestedDirection) -> Iterator[Finding]:
    """Protocols that are not answered although another one is."""
    blocked = {
        name: one for name, one in tested.outcomes.items() if one.kind in FIREWALL_KINDS and name in tested.protocols
    }
    if _is_blocked_too(tested, blocked):
        blocked["tcp"] = blocked["udp"]
    listener = tested.direction.listener
    if "udp" in blocked and listener is not None and listener.delivered:
        yield from _lost_answers(tested, [name for name in ("udp", "tcp") if name in blocked])
        blocked = {name: one for name, one in blocked.items() if name == "icmp"}
    by_outcome = sorted(blocked.items(), key=lambda item: (item[0] == "icmp", item[1].kind, item[1].source))
    for (_, kind, source), items in groupby(
        by_outcome, key=lambda item: (item[0] == "icmp", item[1].kind, item[1].source)
    ):
        protocols = [name for name, _ in items]
        yield _firewall_finding(tested, protocols, blocked[protocols[0]], kind, source)


def _is_blocked_too(tested: TestedDirection, found: Mapping[Protocol, Outcome]) -> bool:
    """TCP is silent and UDP gets EPERM: the kernel does not report a SYN that the same filter drops."""
    if [found[name].kind for name in TRANSPORTS if name in found] != ["blocked", "silent"]:
        return False
    return not any(one.protocol == "tcp" for one in tested.arrived or ())


def _lost_answers(tested: TestedDirection, protocols: Sequence[str]) -> Iterator[Finding]:
    """The datagrams reached the other probe, so its answers are lost; not reported where the other direction shows what
    drops them."""
    back = tested.back.test
    if back is not None and outcome_of(back, "udp").kind != "answered" and not _delivered(tested.back):
        return
    what = " and ".join(PROTOCOL_NAMES[name] for name in protocols)
    delivered = sum(one.packets for one in _delivered(tested.direction))
    yield path_finding(
        "path_firewall",
        "warning" if tested.is_requested_port else "info",
        tested.host,
        tested.link,
        f"a firewall drops the answers of {tested.receiver.host} over {what}",
        evidence=(Evidence(f"received by {tested.receiver.host}", count_noun(delivered, "UDP packet"), "path test"),),
        why=f"Packets to {tested.receiver.host} arrive; the answers are dropped by the firewall of "
        f"{tested.sender.host} or between the hosts. A stateful firewall accepts answers (ct state established).",
    )


def _delivered(direction: PathDirection) -> tuple[ReceivedPackets, ...]:
    return direction.listener.delivered if direction.listener is not None else ()


def _firewall_finding(
    tested: TestedDirection, protocols: Sequence[str], outcome: Outcome, kind: str, source: str
) -> Finding:
    is_icmp = list(protocols) == ["icmp"]
    port = "" if is_icmp else f" port {tested.test.port}"
    what = f"{' and '.join(PROTOCOL_NAMES[name] for name in protocols)}{port}"
    arrived = (
        tested.arrived
        if tested.direction.listener is not None and tested.direction.listener.arrived is not None
        else None
    )
    has_arrived = arrived is not None and any(one.protocol in protocols for one in arrived)
    on_receiver = has_arrived or source == tested.receiver.address
    if kind == "blocked":
        where, host, link = f"the output filter of {tested.sender.host}", tested.host, tested.link
    elif on_receiver:
        where, host = f"the firewall of {tested.receiver.host}", tested.peer
        link = tested.peer.snapshot.links.get(tested.receiver.ifindex or 0)
    else:
        where, host, link = "a firewall", tested.host, tested.link
        if source:
            where = f"the firewall of {source}"
        elif arrived is not None:
            where = "a firewall between the hosts"
    evidence = [Evidence(what, f"{ANSWERS[kind]}{f' by {source}' if source else ''}", outcome.detail or "path test")]
    if arrived is not None:
        seen = sum(one.packets for one in arrived if one.protocol in protocols)
        evidence.append(Evidence(f"arrived at {tested.receiver.host}", count_noun(seen, "packet"), "packet socket"))
    evidence += loss_evidence(tested)
    severity: Severity = "warning" if tested.is_requested_port and not is_icmp else "info"
    fixes: tuple[Fix, ...] = ()
    if tested.is_requested_port and not is_icmp and kind != "blocked":
        lines = _opening_lines(tested, "udp" if "udp" in protocols else "tcp")
        if lines:
            there = host is tested.peer
            title = f"Open the port on {tested.receiver.host} for two minutes"
            fixes = (Fix("here" if there else "peer", title, tuple(map(stored_line, lines)), persistent=False),)
    more = "This port was chosen at random; test the one you need with --port."
    if is_icmp:
        more = "Path MTU discovery needs ICMP errors; check that only echo is filtered."
    elif tested.is_requested_port:
        more = f"A traffic test over port {tested.test.port} fails."
    verb = {"silent": "drops", "refused": "refuses", "prohibited": "prohibits", "blocked": "blocks"}[kind]
    return path_finding(
        f"path_firewall{'_icmp' if is_icmp else ''}",
        severity,
        host,
        link,
        f"{where} {verb} {what} from {tested.sender.host}"
        if host is not tested.host
        else f"{where} {verb} {what} to {tested.receiver.host}",
        evidence=tuple(evidence),
        why=f"The path itself works: other protocols are answered. {more}",
        fixes=fixes,
    )


def _opening_lines(tested: TestedDirection, protocol: str) -> tuple[str, ...]:
    client = Endpoint(tested.sender.host, tested.sender.ifindex, tested.sender.address)
    server = Endpoint(tested.receiver.host, tested.receiver.ifindex, tested.receiver.address)
    plan = RunPlan(client, server, port=tested.test.port, protocol="udp" if protocol == "udp" else "tcp", time=1)
    return opening_commands(plan, tested.receiver.nic or None, tested.firewalls)
