"""Protocols that are not answered although another one is: whose firewall it is, as far as that is
known. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal

from nictop.model.text.words import count_noun
from nictop.probe.records import ReceivedPackets
from nictop.rules.finding import Evidence, Finding, Fix, Severity, WhereToType, on_peer
from nictop.rules.fixes.commands import stored_line
from nictop.rules.host import HostFacts
from nictop.traffic.failures import opening_commands
from nictop.traffic.path.findings.answers import (
    ANSWERED_PROTOCOLS,
    LostAnswers,
    answer_title,
    lost_answers,
    lost_answers_evidence,
    makes_no_answer,
    show_filters_fix,
    where_answers_are_lost,
)
from nictop.traffic.path.findings.local_blocks import OWN_FILTERS
from nictop.traffic.path.findings.losses import loss_evidence
from nictop.traffic.path.findings.tested_direction import (
    ANSWERS,
    PROTOCOL_NAMES,
    PROTOCOLS,
    Protocol,
    TestedDirection,
    packets_of,
    path_finding,
)
from nictop.traffic.path.outcomes import Outcome, OutcomeKind, outcome_of
from nictop.traffic.path.result import PathDirection
from nictop.traffic.plan.plan import Endpoint, RunPlan

TRANSPORTS: tuple[Protocol, ...] = ("udp", "tcp")
FIREWALL_KINDS = ("silent", "refused", "prohibited", "blocked")


def firewall_findings(tested: TestedDirection) -> Iterator[Finding]:
    """Protocols that are not answered although another one is."""
    blocked = _blocked_protocols(tested)
    for name in ANSWERED_PROTOCOLS:
        lost = lost_answers(tested, name)
        if lost is None or name not in blocked or blocked[name].kind != "silent":
            continue
        others = [other for other in TRANSPORTS if other in blocked and other != name]
        if name == "icmp":
            others = []
        yield from _lost_answers(tested, lost, others)
        for other in (name, *others):
            del blocked[other]
    by_outcome = sorted(blocked.items(), key=_group_of)
    for (_, _, source), items in groupby(by_outcome, key=_group_of):
        protocols = [name for name, _ in items]
        yield _firewall_finding(tested, protocols, blocked[protocols[0]], source)


def _blocked_protocols(tested: TestedDirection) -> dict[Protocol, Outcome]:
    """Those that must pass the firewalls and are not answered, with what came back instead."""
    outcomes = tested.outcomes
    blocked: dict[Protocol, Outcome] = {}
    for name in PROTOCOLS:
        if name not in outcomes or name not in tested.protocols:
            continue
        if outcomes[name].kind in FIREWALL_KINDS:
            blocked[name] = outcomes[name]
    if _is_blocked_too(tested, blocked):
        blocked["tcp"] = blocked["udp"]
    return blocked


def _group_of(item: tuple[Protocol, Outcome]) -> tuple[bool, str, str]:
    """Protocols with the same outcome from the same source are one finding; ICMP is always one of
    its own."""
    name, outcome = item
    return name == "icmp", outcome.kind, outcome.source


def _is_blocked_too(tested: TestedDirection, found: Mapping[Protocol, Outcome]) -> bool:
    """TCP is silent and UDP gets EPERM: the kernel does not report a SYN that the same filter
    drops."""
    if [found[name].kind for name in TRANSPORTS if name in found] != ["blocked", "silent"]:
        return False
    return not any(packets.protocol == "tcp" for packets in tested.arrived or ())


def _lost_answers(
    tested: TestedDirection, lost: LostAnswers, others: Sequence[Protocol]
) -> Iterator[Finding]:
    """The packets reached the other end, so its answers are lost; not reported where the other
    direction shows what drops them. `others`: protocols that are not answered either, of which no
    answer is counted."""
    is_icmp = lost.protocol == "icmp"
    if not is_icmp and not lost.seen and _is_lost_in_both_directions(tested):
        return
    title = answer_title(tested, lost)
    for other in others:
        title += f"; {PROTOCOL_NAMES[other]}: {ANSWERS[tested.outcomes[other].kind]}"
    stateful = "A stateful firewall accepts them (ct state established)."
    is_at_receiver = lost.made == 0 and not lost.seen
    yield path_finding(
        "path_firewall_icmp" if is_icmp else "path_firewall",
        "info" if is_icmp else _severity(tested),
        tested.peer if is_at_receiver else tested.host,
        tested.receiver_link if is_at_receiver else tested.link,
        title,
        evidence=lost_answers_evidence(tested, lost),
        why=f"{where_answers_are_lost(tested, lost)} "
        f"{_consequence(tested, is_icmp=True) if is_icmp else stateful}",
        fixes=show_filters_fix(lost),
    )


def _is_lost_in_both_directions(tested: TestedDirection) -> bool:
    """What the receiver itself sends over UDP is lost, too."""
    back = tested.back.test
    if back is None or _delivered(tested.back):
        return False
    return outcome_of(back, "udp").kind != "answered"


def _severity(tested: TestedDirection) -> Severity:
    """Of a closed port: one that nobody asked for need not be open."""
    return "warning" if tested.is_requested_port else "info"


def _delivered(direction: PathDirection) -> tuple[ReceivedPackets, ...]:
    """What the probe of the receiver got; (): nothing, or not known."""
    if direction.listener is None:
        return ()
    return direction.listener.delivered


def _firewall_finding(
    tested: TestedDirection, protocols: Sequence[Protocol], outcome: Outcome, source: str
) -> Finding:
    """What was seen is its title; whose filter it may be is listed as possible."""
    seen = _seen(tested, protocols)
    host, link = tested.host, tested.link
    if seen:
        host, link = tested.peer, tested.receiver_link
    rule, severity = "path_firewall", _severity(tested)
    fixes = _fixes(tested, protocols, outcome.kind, host)
    is_icmp = list(protocols) == ["icmp"]
    if is_icmp:
        rule, severity, fixes = "path_firewall_icmp", "info", ()
    return path_finding(
        rule,
        severity,
        host,
        link,
        _title(tested, protocols, outcome.kind, source),
        evidence=_evidence(tested, protocols, outcome, seen),
        why=f"{_other_protocols_text(tested)} "
        f"{_causes(tested, protocols, outcome.kind, seen)} "
        f"{_consequence(tested, is_icmp=is_icmp)}",
        fixes=fixes,
    )


def _other_protocols_text(tested: TestedDirection) -> str:
    """What the answers to other protocols show: who has sent them, an answer alone does not say."""
    names = [PROTOCOL_NAMES[name] for name in PROTOCOLS if _is_answered(tested, name)]
    answered = f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} answered"
    is_seen = tested.is_seen_at_receiver
    if is_seen:
        return f"Packets pass in both directions: {answered}."
    if is_seen is None:
        return f"{answered}."
    return (
        f"{answered}, but none of the packets is seen at {tested.receiver.host}: another host with "
        "its address may answer, or a device in its name."
    )


def _is_answered(tested: TestedDirection, protocol: Protocol) -> bool:
    outcome = tested.outcomes.get(protocol)
    return outcome is not None and outcome.kind == "answered"


def _what(tested: TestedDirection, protocols: Sequence[Protocol]) -> str:
    """``UDP and TCP port 5201``"""
    names = " and ".join(PROTOCOL_NAMES[name] for name in protocols)
    if list(protocols) == ["icmp"]:
        return names
    return f"{names} port {tested.test.port}"


def _seen(tested: TestedDirection, protocols: Sequence[Protocol]) -> int | None:
    """Packets of these protocols that the receiver's packet socket saw, before its firewall; None:
    it has none."""
    listener = tested.direction.listener
    if listener is None or listener.arrived is None:
        return None
    return packets_of(listener.arrived, protocols)


def _title(
    tested: TestedDirection, protocols: Sequence[Protocol], kind: OutcomeKind, source: str
) -> str:
    """``TCP port 5201 from vm1 arrives at vm2, and no answer comes back``"""
    if kind == "blocked":
        return _blocked_title(tested, protocols)
    sender, receiver = tested.sender.host, tested.receiver.host
    what, seen = _what(tested, protocols), _seen(tested, protocols)
    if seen and kind == "silent":
        return f"{what} from {sender} arrives at {receiver}, and no answer comes back"
    is_from_receiver = source in ("", tested.receiver.address)
    result = str(kind) if is_from_receiver else f"{kind} by {source}"
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
    silent = [PROTOCOL_NAMES[name] for name in protocols if name not in refused]
    title = (
        f"{tested.sender.host} itself does not send {_what(tested, refused)} to "
        f"{tested.receiver.host} (EPERM)"
    )
    if not silent:
        return title
    return f"{title}; {' and '.join(silent)} is not answered"


def _causes(
    tested: TestedDirection, protocols: Sequence[Protocol], kind: OutcomeKind, seen: int | None
) -> str:
    """Where the filter may be, as far as that was seen."""
    sender, receiver = tested.sender.host, tested.receiver.host
    between = "a firewall or router between the hosts"
    way_back = f"the answer is lost: at the output of {receiver}, between the hosts or on {sender}"
    if kind == "blocked":
        return f"Possible: {OWN_FILTERS}."
    if seen and kind == "silent":
        if all(makes_no_answer(tested, name) for name in protocols):
            ignored = ", or its icmp echo_ignore settings" if "icmp" in protocols else ""
            return f"{receiver} makes no answer. Possible: a firewall of it drops them{ignored}."
        return f"Possible: a firewall of {receiver} drops it, or {way_back}."
    if seen:
        return (
            f"Possible: a firewall of {receiver} rejects it, or a device between the hosts does "
            f"so in its name and "
            "passes the packet on."
        )
    if kind != "silent" and seen == 0:
        return f"Possible: {between}."
    if kind != "silent":
        return f"Possible: {between}, or one of {receiver}."
    if seen == 0:
        return (
            f"Possible: {between}, a filter at the output of {sender}, or what drops it on "
            f"{receiver} before the "
            "network stack (XDP, tc ingress, the NIC)."
        )
    return (
        f"Possible: a firewall of {receiver}, {between}, a filter at the output of {sender}, "
        f"or {way_back}."
    )


def _consequence(tested: TestedDirection, *, is_icmp: bool) -> str:
    if is_icmp:
        return "Path MTU discovery needs ICMP errors; check that only echo is filtered."
    if tested.is_requested_port:
        return f"A traffic test over port {tested.test.port} fails."
    return "This port was chosen at random; test the one you need with --port."


def _evidence(
    tested: TestedDirection, protocols: Sequence[Protocol], outcome: Outcome, seen: int | None
) -> tuple[Evidence, ...]:
    answer = ANSWERS[outcome.kind]
    if outcome.source:
        answer += f" by {outcome.source}"
    found = [Evidence(_what(tested, protocols), answer, outcome.detail or "path test")]
    if seen is not None:
        where = f"arrived at {tested.receiver.host}"
        found.append(Evidence(where, count_noun(seen, "packet"), "packet socket"))
    return (*found, *loss_evidence(tested))


def _fixes(
    tested: TestedDirection, protocols: Sequence[Protocol], kind: OutcomeKind, host: HostFacts
) -> tuple[Fix, ...]:
    """The port that the user asked for, opened for a while; what opens it also closes it, no reboot
    does."""
    if not tested.is_requested_port or kind == "blocked":
        return ()
    lines = _opening_lines(tested, "udp" if "udp" in protocols else "tcp")
    if not lines:
        return ()
    title = "Open the port for about two minutes"
    where: WhereToType = "here" if host is tested.peer else "peer"
    return on_peer(tested.receiver.host, (Fix(where, title, tuple(map(stored_line, lines))),))


def _opening_lines(tested: TestedDirection, protocol: Literal["tcp", "udp"]) -> tuple[str, ...]:
    client = Endpoint(tested.sender.host, tested.sender.ifindex, tested.sender.address)
    server = Endpoint(tested.receiver.host, tested.receiver.ifindex, tested.receiver.address)
    plan = RunPlan(client, server, port=tested.test.port, protocol=protocol, time=1)
    return opening_commands(plan, tested.receiver.nic or None, tested.firewalls)
