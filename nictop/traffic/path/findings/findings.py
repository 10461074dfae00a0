"""What is wrong with a path between two watched hosts: findings with evidence and the commands that
fix it.

Pure: the result of a path test and the facts of both hosts in, findings out, worst first, one for
each cause. Their names begin with ``path_``; they are made by a test, so they are no rules of
``nictop check``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nictop.probe.light_dataclasses import replace
from nictop.probe.records import DropReport, Firewalls, PathTest
from nictop.rules.far_ends import find_far_ends, with_watched_ends
from nictop.rules.finding import SEVERITIES, Evidence, Finding, Fix
from nictop.rules.fixes.ipv6_addresses import with_ipv6_notes
from nictop.rules.host import HostFacts
from nictop.rules.subjects import LOSSES_SLOW_TCP
from nictop.traffic.path.findings.losses import attributed, loss_evidence, text_of
from nictop.traffic.path.findings.neighbours import (
    answers_go_to_another_host,
    goes_to_another_host,
    neighbour_findings,
    others_get_answers,
    unconfirmed_neighbour_findings,
)
from nictop.traffic.path.findings.own_addresses import is_own_address, own_address_findings
from nictop.traffic.path.findings.routes import (
    asymmetric_findings,
    route_mtu_findings,
    rp_filter_findings,
)
from nictop.traffic.path.findings.sizes import size_findings
from nictop.traffic.path.findings.tested_direction import (
    PROTOCOL_NAMES,
    PROTOCOLS,
    Protocol,
    TestedDirection,
    path_finding,
)
from nictop.traffic.path.findings.transports import transport_findings
from nictop.traffic.path.findings.unanswered import unanswered_findings
from nictop.traffic.path.findings.used_nics import down_nic_findings, unused_nic_findings
from nictop.traffic.path.link_losses import NO_CARRIER, LinkLoss
from nictop.traffic.path.result import PathResult

UNANSWERED = ("path_no_answer", "path_lost")
CONSEQUENCES = {
    "path_own_address": (
        *UNANSWERED,
        "path_no_neighbour",
        "path_gateway_silent",
        "path_rp_filter",
        "path_asymmetric",
        "path_firewall",
        "path_only_icmp",
        "path_nic_not_used",
    ),
    "path_nic_down": (
        *UNANSWERED,
        "path_no_route",
        "path_no_neighbour",
        "path_gateway_silent",
        "path_link_lost",
    ),
    "path_separated": (*UNANSWERED, "path_no_neighbour", "path_gateway_silent", "path_rp_filter"),
    "path_rp_filter": (
        *UNANSWERED,
        "path_no_neighbour",
        "path_asymmetric",
        "path_firewall",
        "path_only_icmp",
    ),
    "path_no_route": UNANSWERED,
    "path_no_neighbour": ("path_no_answer",),
    "path_gateway_silent": ("path_no_answer",),
    "path_blocked_here": UNANSWERED,
    "path_dropped": (*UNANSWERED, "path_no_neighbour"),
    "path_only_icmp": ("path_firewall",),
    "path_nic_not_used": ("path_asymmetric",),
}
"""Finding → what it makes look like another cause: what rp_filter drops looks like loss or a
firewall, too. What does not arrive (path_lost) has no cause in how the receiver sends."""
SEEN_RULES = (
    "path_own_address",
    "path_duplicate_address",
    "path_arp_flux",
    "path_mtu_smaller",
    "path_route_mtu",
    "path_nic_down",
    "path_blocked_here",
)
"""Findings that rest on an answer, a report or a setting, not on silence."""
MIN_LOST = 2
"""Unanswered packets of one measurement that are reported as loss."""


def path_findings(
    result: PathResult,
    facts: Mapping[str, HostFacts],
    firewalls: Mapping[str, Firewalls] | None = None,
    protocols: tuple[Protocol, ...] = PROTOCOLS,
    drops: Mapping[str, DropReport] | None = None,
) -> tuple[Finding, ...]:
    """`facts` and `firewalls`: by host; both ends must be in `facts`, other watched hosts may be.
    `protocols`: those that must pass the firewalls. `drops`: host → what its kernel dropped while
    the test was repeated."""
    known_firewalls = firewalls or {}
    found: dict[tuple[str, str, str, str], Finding] = {}
    ends = find_far_ends(tuple(facts.values()))
    first, second = result.directions
    for direction, back in ((first, second), (second, first)):
        if direction.test is None:
            continue
        sender, receiver = direction.sender.host, direction.receiver.host
        tested = TestedDirection(
            result,
            direction,
            back,
            direction.test,
            facts[sender],
            facts[receiver],
            known_firewalls.get(receiver),
            protocols,
            known_firewalls.get(sender),
            drops or {},
            ends,
            facts,
        )
        for finding in _findings(tested):
            key = (finding.rule, finding.host, finding.subject, finding.title)
            found.setdefault(key, _with_notes(finding, facts))
    known = with_watched_ends(found.values(), ends)
    if result.link_losses:
        known = _despite_losses(known, result, facts)
    worst_first = sorted(known, key=lambda finding: SEVERITIES.index(finding.severity))
    return _without_consequences(tuple(worst_first))


def _with_notes(finding: Finding, facts: Mapping[str, HostFacts]) -> Finding:
    """With what rules say of the same commands."""
    host = facts.get(finding.host)
    if host is None:
        return finding
    hosts = tuple(facts.values())
    return replace(finding, fixes=with_ipv6_notes(host, finding.fixes, hosts))


NOTHING_KNOWN = "not known what the path passes"
ALL_ANSWERED = "all packets of the test were answered while it was up"
PARTLY_ANSWERED = "what was answered passed while it was up, of the rest nothing is known"


def _despite_losses(
    found: Sequence[Finding], result: PathResult, facts: Mapping[str, HostFacts]
) -> list[Finding]:
    """The links that were without carrier meanwhile, and of the findings those that rest on
    something that was answered or reported: the others may be of that time alone."""
    known = _known_despite_loss(result)
    lost = [_link_loss(loss, facts[loss.host], known) for loss in result.link_losses]
    return lost + [finding for finding in found if finding.rule in SEEN_RULES]


def _known_despite_loss(result: PathResult) -> str:
    """What the answers of the test say: there was a link while they were received."""
    tests = [direction.test for direction in result.directions]
    if not any(one.rtts for test in tests if test is not None for one in test.replies):
        return NOTHING_KNOWN
    are_answered = all(test is not None and _is_all_answered(test) for test in tests)
    return ALL_ANSWERED if are_answered else PARTLY_ANSWERED


def _is_all_answered(test: PathTest) -> bool:
    return (
        test.macs != ()
        and all(len(replies.rtts) >= replies.sent for replies in test.replies)
        and all(size.largest == size.limit for size in test.sizes)
    )


def _link_loss(loss: LinkLoss, host: HostFacts, known: str) -> Finding:
    return path_finding(
        "path_link_lost",
        "critical" if loss.text == NO_CARRIER else "warning",
        host,
        host.link_at(loss.ifindex),
        f"{loss.text}: {known}",
        evidence=(Evidence("link", loss.text, "rtnetlink"),),
        why="Packets that were not answered while it was down say nothing of MTU, losses, "
        "firewalls and MAC addresses on the path.",
        fixes=(Fix("here", "Test again when the link stays up", ()),),
    )


def _without_consequences(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The consequences of a cause that was found, in either direction, are left out: the cause is
    enough."""
    explained: set[str] = set()
    for finding in findings:
        explained.update(CONSEQUENCES.get(finding.rule, ()))
    return tuple(finding for finding in findings if finding.rule not in explained)


def _findings(tested: TestedDirection) -> Iterator[Finding]:
    if is_own_address(tested):  # whatever was answered: it has answered itself
        yield from own_address_findings(tested)
        return
    yield from neighbour_findings(tested)
    if goes_to_another_host(tested):
        return  # whatever was answered or not says nothing of the receiver
    yield from rp_filter_findings(tested)
    yield from unused_nic_findings(tested)
    if tested.is_answered and others_get_answers(tested):
        yield from asymmetric_findings(tested)  # what is not answered has that cause
    elif tested.is_answered:
        yield from unconfirmed_neighbour_findings(tested)
        yield from size_findings(tested)
        yield from route_mtu_findings(tested)
        yield from _loss(tested)
        yield from transport_findings(tested)
        yield from asymmetric_findings(tested)
    else:
        yield from down_nic_findings(tested)
        if not answers_go_to_another_host(tested):
            yield from unanswered_findings(tested)


def _why_lost(tested: TestedDirection, lost: int) -> str:
    counted = attributed(tested, lost)
    if counted is None:
        return (
            f"{LOSSES_SLOW_TCP} No counter of either host explains it; a queue "
            "that overflows, a bad cable or a rate limit for ICMP on the path can be the cause."
        )
    host, _ = counted
    return f"{LOSSES_SLOW_TCP} {host.name}: {text_of(*counted)} during the test."


def _loss(tested: TestedDirection) -> Iterator[Finding]:
    link = tested.link
    for replies in tested.test.replies:
        lost = replies.sent - len(replies.rtts)
        if link is None or not replies.rtts or lost < MIN_LOST:
            continue
        name = PROTOCOL_NAMES[replies.protocol]
        yield path_finding(
            "path_loss",
            "warning",
            tested.host,
            link,
            f"packet loss to {tested.receiver.host} or back: {lost} of {replies.sent} {name} "
            f"packets unanswered",
            evidence=(
                Evidence(f"{name} answered", f"{len(replies.rtts)} of {replies.sent}", "path test"),
                *loss_evidence(tested),
            ),
            why=_why_lost(tested, lost),
        )
        return
