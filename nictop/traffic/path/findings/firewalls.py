"""Protocols that are not answered although another one is: whose firewall it is, as far as that is known. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from nictop.model.text.words import count_noun
from nictop.probe.records import ReceivedPackets
from nictop.rules.finding import Evidence, Finding, Fix, Severity, WhereToType, on_peer
from nictop.rules.fixes.commands import stored_line
from nictop.rules.host import HostFacts
from nictop.traffic.path.findings.local_blocks import OWN_FILTERS
from nictop.traffic.path.findings.losses import loss_evidence
from nictop.traffic.path.findings.tested_direction import (
    ANSWERS,
    PROTOCOL_NAMES,
    Protocol,
    TestedDirection,
    path_finding,
)
from nictop.traffic.path.outcomes import Outcome, OutcomeKind, outcome_of
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
    for (_, _, source), items in groupby(
        by_outcome, key=lambda item: (item[0] == "icmp", item[1].kind, item[1].source)
    ):
        protocols = [name for name, _ in items]
        yield _firewall_finding(tested, protocols, blocked[protocols[0]], source)


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
    sender, receiver = tested.sender.host, tested.receiver.host
    yield path_finding(
        "path_firewall",
        "warning" if tested.is_requested_port else "info",
        tested.host,
        tested.link,
        f"the answers of {receiver} over {what} are lost",
        evidence=(Evidence(f"received by {receiver}", count_noun(delivered, "UDP packet"), "path test"),),
        why=f"Packets to {receiver} arrive, and it answers UDP. Possible: a filter at the output of {receiver}, "
        f"between the hosts or on {sender} drops the answers. A stateful firewall accepts them (ct state established).",
    )


def _delivered(direction: PathDirection) -> tuple[ReceivedPackets, ...]:
    return direction.listener.delivered if direction.listener is not None else ()


def _firewall_finding(tested: TestedDirection, protocols: Sequence[Protocol], outcome: Outcome, source: str) -> Finding:
    """What was seen is its title; whose filter it may be is listed as possible."""
    is_icmp = list(protocols) == ["icmp"]
    seen = _seen(tested, protocols)
    host, link = tested.host, tested.link
    if seen:
        host, link = tested.peer, tested.peer.snapshot.links.get(tested.receiver.ifindex or 0)
    severity: Severity = "warning" if tested.is_requested_port and not is_icmp else "info"
    return path_finding(
        f"path_firewall{'_icmp' if is_icmp else ''}",
        severity,
        host,
        link,
        _title(tested, protocols, outcome.kind, source),
        evidence=_evidence(tested, protocols, outcome, seen),
        why=f"The path itself works: other protocols are answered. {_causes(tested, outcome.kind, seen)} "
        f"{_consequence(tested, is_icmp=is_icmp)}",
        fixes=_fixes(tested, protocols, outcome.kind, host) if not is_icmp else (),
    )


def _what(tested: TestedDirection, protocols: Sequence[Protocol]) -> str:
    """``UDP and TCP port 5201``"""
    port = "" if list(protocols) == ["icmp"] else f" port {tested.test.port}"
    return f"{' and '.join(PROTOCOL_NAMES[name] for name in protocols)}{port}"


def _seen(tested: TestedDirection, protocols: Sequence[Protocol]) -> int | None:
    """Packets of these protocols that the receiver's packet socket saw, before its firewall; None: it has none."""
    listener = tested.direction.listener
    if listener is None or listener.arrived is None:
        return None
    return sum(one.packets for one in listener.arrived if one.protocol in protocols)


def _title(tested: TestedDirection, protocols: Sequence[Protocol], kind: OutcomeKind, source: str) -> str:
    """``TCP port 5201 from vm1 arrives at vm2 and is not answered``"""
    sender, receiver = tested.sender.host, tested.receiver.host
    what, seen = _what(tested, protocols), _seen(tested, protocols)
    if kind == "blocked":
        return _blocked_title(tested, protocols)
    by = f" by {source}" if source and source != tested.receiver.address else ""
    result = {"silent": "not answered", "refused": f"refused{by}", "prohibited": f"prohibited{by}"}[kind]
    if seen:
        return f"{what} from {sender} arrives at {receiver} and is {result}"
    if kind != "silent":
        return f"{what} to {receiver} is {result}"
    if seen == 0:
        return f"{what} from {sender} is not seen at {receiver}"
    return f"{what} to {receiver} is not answered; needs root there to show whether it arrives"


def _blocked_title(tested: TestedDirection, protocols: Sequence[Protocol]) -> str:
    """Of TCP the kernel does not report it: there is no answer, and that is all."""
    refused = [name for name in protocols if tested.outcomes[name].kind == "blocked"]
    title = f"{tested.sender.host} itself does not send {_what(tested, refused)} to {tested.receiver.host} (EPERM)"
    silent = [PROTOCOL_NAMES[name] for name in protocols if name not in refused]
    return f"{title}; {' and '.join(silent)} is not answered" if silent else title


def _causes(tested: TestedDirection, kind: OutcomeKind, seen: int | None) -> str:
    """Where the filter may be, as far as that was seen."""
    sender, receiver = tested.sender.host, tested.receiver.host
    between = "a firewall or router between the hosts"
    way_back = f"the answer is lost: at the output of {receiver}, between the hosts or on {sender}"
    if kind == "blocked":
        return f"Possible: {OWN_FILTERS}."
    if seen and kind == "silent":
        return f"Possible: a firewall of {receiver} drops it, or {way_back}."
    if seen:
        return (
            f"Possible: a firewall of {receiver} rejects it, or a device between the hosts does so in its name and "
            "passes the packet on."
        )
    if kind != "silent":
        return f"Possible: {between}{'' if seen == 0 else f', or one of {receiver}'}."
    if seen == 0:
        return (
            f"Possible: {between}, a filter at the output of {sender}, or what drops it on {receiver} before the "
            "network stack (XDP, tc ingress, the NIC)."
        )
    return f"Possible: a firewall of {receiver}, {between}, a filter at the output of {sender}, or {way_back}."


def _consequence(tested: TestedDirection, *, is_icmp: bool) -> str:
    if is_icmp:
        return "Path MTU discovery needs ICMP errors; check that only echo is filtered."
    if tested.is_requested_port:
        return f"A traffic test over port {tested.test.port} fails."
    return "This port was chosen at random; test the one you need with --port."


def _evidence(
    tested: TestedDirection, protocols: Sequence[Protocol], outcome: Outcome, seen: int | None
) -> tuple[Evidence, ...]:
    answer = f"{ANSWERS[outcome.kind]}{f' by {outcome.source}' if outcome.source else ''}"
    found = [Evidence(_what(tested, protocols), answer, outcome.detail or "path test")]
    if seen is not None:
        found.append(Evidence(f"arrived at {tested.receiver.host}", count_noun(seen, "packet"), "packet socket"))
    return (*found, *loss_evidence(tested))


def _fixes(
    tested: TestedDirection, protocols: Sequence[Protocol], kind: OutcomeKind, host: HostFacts
) -> tuple[Fix, ...]:
    """The port that the user asked for, opened for a while; what opens it also closes it, no reboot does."""
    if not tested.is_requested_port or kind == "blocked":
        return ()
    lines = _opening_lines(tested, "udp" if "udp" in protocols else "tcp")
    if not lines:
        return ()
    title = f"Open the port on {tested.receiver.host} for two minutes"
    where: WhereToType = "here" if host is tested.peer else "peer"
    return on_peer(tested.receiver.host, (Fix(where, title, tuple(map(stored_line, lines))),))


def _opening_lines(tested: TestedDirection, protocol: str) -> tuple[str, ...]:
    client = Endpoint(tested.sender.host, tested.sender.ifindex, tested.sender.address)
    server = Endpoint(tested.receiver.host, tested.receiver.ifindex, tested.receiver.address)
    plan = RunPlan(client, server, port=tested.test.port, protocol="udp" if protocol == "udp" else "tcp", time=1)
    return opening_commands(plan, tested.receiver.nic or None, tested.firewalls)
