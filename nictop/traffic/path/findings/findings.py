"""What is wrong with a path between two watched hosts: findings with evidence and the commands that fix it.

Pure: the result of a path test and the facts of both hosts in, findings out, worst first, one for each cause. Their
names begin with ``path_``; they are made by a test, so they are no rules of ``nictop check``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nictop.probe.records import Firewalls
from nictop.rules.finding import SEVERITIES, Evidence, Finding
from nictop.rules.host import HostFacts
from nictop.traffic.path.findings.firewalls import firewall_findings
from nictop.traffic.path.findings.neighbours import neighbour_findings
from nictop.traffic.path.findings.routes import asymmetric_findings, rp_filter_findings
from nictop.traffic.path.findings.sizes import size_findings
from nictop.traffic.path.findings.tested_direction import (
    PROTOCOL_NAMES,
    PROTOCOLS,
    Protocol,
    TestedDirection,
    path_finding,
)
from nictop.traffic.path.findings.unanswered import unanswered_findings
from nictop.traffic.path.result import PathResult

MIN_LOST = 2
"""Unanswered packets of one measurement that are reported as loss."""


def path_findings(
    result: PathResult,
    facts: Mapping[str, HostFacts],
    firewalls: Mapping[str, Firewalls] | None = None,
    protocols: tuple[Protocol, ...] = PROTOCOLS,
) -> tuple[Finding, ...]:
    """`facts` and `firewalls`: by host; both ends must be in `facts`. `protocols`: those that must pass the
    firewalls."""
    found: dict[tuple[str, str, str, str], Finding] = {}
    first, second = result.directions
    for direction, back in ((first, second), (second, first)):
        if direction.test is None:
            continue
        sender, receiver = facts[direction.sender.host], facts[direction.receiver.host]
        known = (firewalls or {}).get(direction.receiver.host)
        tested = TestedDirection(result, direction, back, direction.test, sender, receiver, known, protocols)
        for finding in _findings(tested):
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


def _findings(tested: TestedDirection) -> Iterator[Finding]:
    yield from neighbour_findings(tested)
    yield from rp_filter_findings(tested)
    if tested.is_answered:
        yield from size_findings(tested)
        yield from _loss(tested)
        yield from firewall_findings(tested)
        yield from asymmetric_findings(tested)
    else:
        yield from unanswered_findings(tested)


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
            f"packet loss to {tested.receiver.host} or back: {lost} of {replies.sent} {name} packets unanswered",
            evidence=(Evidence(f"{name} answered", f"{len(replies.rtts)} of {replies.sent}", "path test"),),
            why="TCP slows down with every lost packet. A queue that overflows, a bad cable or a rate limit for ICMP "
            "on the path can be the cause.",
        )
        return
