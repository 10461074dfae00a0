"""Findings of two states: those that only one side has, those that both have with another severity
or title, and those between the two hosts.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link
from nictop.report.diff.matching import NicPair
from nictop.report.diff.own_values import OwnValues, host_values
from nictop.rules import RULES, SEVERITIES, Diagnosis, Finding, HostFacts, Severity, diagnose
from nictop.rules.outdated import without_mark

SideName = Literal["left", "right"]
RuleAndSubject = tuple[str, str]
NOT_EVALUATED = "its inventory is not read yet"
NUMBER = re.compile(r"\d[\d.,:]*(?: ?[kMGTP]i?\b)?")
"""``30.9 k``, ``12:03``"""


@dataclass(frozen=True)
class Side:
    """One of the two states."""

    name: str
    snapshot: Snapshot
    diagnosis: Diagnosis
    nic: str = ""
    """Only this NIC; "": the whole host."""


@dataclass(frozen=True)
class OneSidedFinding:
    """A finding that the other side does not have, or has in another form, or one between both
    hosts."""

    side: SideName
    rule: str
    severity: Severity
    subject: str
    title: str
    needs_both: bool = False
    """It is between the two hosts (the rule compares hosts), and about the one of this side."""
    is_unchecked_there: bool = False
    """The check could not be made on the other side: that may have it, too."""
    why_unchecked: str = ""
    """Why it was not made there; empty: it was."""
    outdated: bool = False
    """It may have changed: an event came after it was read. The title says so."""
    differs_there: bool = False
    """The other side has it, too, with another severity or another title; both are listed."""


FindingPair = tuple[OneSidedFinding, OneSidedFinding]
"""One finding as the left and as the right side have it."""


def compared_findings(
    left: Side, right: Side, pairs: Sequence[NicPair], *, is_one_moment: bool, one_host: bool
) -> tuple[OneSidedFinding, ...]:
    """The worst first; those of both sides that differ at the end, each beside the other.
    `one_host`: both sides are of one."""
    between = _findings_between(left, right) if is_one_moment else []
    findings, different = _one_sided(left, right, pairs, between, one_host=one_host)
    for finding in between:
        findings.append(_finding(_side_of(finding, left), finding, needs_both=True))
    findings.sort(key=_rank)
    different.sort(key=lambda pair: min(map(_rank, pair)))
    return (*findings, *(finding for pair in different for finding in pair))


def named_link(snapshot: Snapshot, name: str) -> Link | None:
    for link in snapshot.links.values():
        if link.name == name:
            return link
    return None


def _rank(finding: OneSidedFinding) -> tuple[int, str, str, str]:
    return SEVERITIES.index(finding.severity), finding.rule, finding.side, finding.subject


def _findings_between(left: Side, right: Side) -> list[Finding]:
    """Of the rules that compare hosts, about these two, whatever other hosts are watched."""
    names = {left.snapshot.host, right.snapshot.host}
    checked = set(left.diagnosis.hosts)
    if len(names) < 2 or not names <= checked:
        return []
    found = [finding for side in (left, right) for finding in _findings(side)]
    found = [finding for finding in found if RULES[finding.rule].compares_hosts]
    if not found or names == checked:
        return found
    hosts = (HostFacts(left.snapshot), HostFacts(right.snapshot))
    rules = [RULES[name] for name in dict.fromkeys(finding.rule for finding in found)]
    about_both = {_key(finding) for finding in diagnose(hosts, rules).findings}
    return [finding for finding in found if _key(finding) in about_both]


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.rule, finding.host, finding.subject


def _one_sided(
    left: Side, right: Side, pairs: Sequence[NicPair], between: Sequence[Finding], *, one_host: bool
) -> tuple[list[OneSidedFinding], list[FindingPair]]:
    """Findings that the other side does not have, and those of both that differ. A finding about a
    NIC is on both sides if its partner has it. Without those in `between`."""
    left_out = {_key(finding) for finding in between}
    partners = {}
    for pair in pairs:
        if pair.left is not None and pair.right is not None:
            partners[pair.left.name] = pair.right.name
    ours: dict[RuleAndSubject, list[Finding]] = {}
    for finding in _findings(left, left_out):
        subject = partners.get(finding.subject, finding.subject)
        ours.setdefault((finding.rule, subject), []).append(finding)
    theirs: dict[RuleAndSubject, list[Finding]] = {}
    for finding in _findings(right, left_out):
        theirs.setdefault((finding.rule, finding.subject), []).append(finding)
    found: list[OneSidedFinding] = []
    different: list[FindingPair] = []
    for key in dict.fromkeys((*ours, *theirs)):
        matched = _match_items(ours.get(key, []), theirs.get(key, []), one_host=one_host)
        for finding in matched.only_left:
            found.append(_finding("left", finding, why_unchecked=_why_unchecked([key], right)))
        rule, subject = key
        names = [subject, *(ours for ours, theirs in partners.items() if theirs == subject)]
        for finding in matched.only_right:
            why = _why_unchecked([(rule, name) for name in names], left)
            found.append(_finding("right", finding, why_unchecked=why))
        for our, their in matched.both:
            if _form(our, left) != _form(their, right):
                different.append(
                    (
                        _finding("left", our, differs_there=True),
                        _finding("right", their, differs_there=True),
                    )
                )
    return found, different


class _Matched(NamedTuple):
    """Findings of one rule and subject on both sides."""

    only_left: list[Finding]
    only_right: list[Finding]
    both: list[tuple[Finding, Finding]]


def _match_items(ours: list[Finding], theirs: list[Finding], *, one_host: bool) -> _Matched:
    """By their item. `one_host`: another item is another finding; the items of two hosts are
    addresses and names that they do not have in common."""
    both = []
    only_left, only_right = [], list(theirs)
    for our in ours:
        same = [their for their in only_right if their.item == our.item]
        if same:
            both.append((our, same[0]))
            only_right.remove(same[0])
        else:
            only_left.append(our)
    if one_host:
        return _Matched(only_left, only_right, both)
    number = min(len(only_left), len(only_right))
    both += zip(only_left[:number], only_right[:number], strict=True)
    return _Matched(only_left[number:], only_right[number:], both)


def _form(finding: Finding, side: Side) -> tuple[Severity, str]:
    """Severity and title, without the numbers in it, which are counted or measured, and without
    what two hosts never have in common."""
    title = without_mark(finding).title
    own = OwnValues(host_values(side.snapshot), named_link(side.snapshot, finding.subject))
    without_own = own.without_values(own.without_name(title))
    return finding.severity, NUMBER.sub("#", without_own)


def _why_unchecked(keys: Sequence[tuple[str, str]], side: Side) -> str:
    """Why a rule was not evaluated there, or skipped for the whole host or a subject; "": it was
    evaluated. `keys`: (rule, subject)"""
    host, diagnosis = side.snapshot.host, side.diagnosis
    if diagnosis.hosts and host not in diagnosis.hosts:
        return NOT_EVALUATED
    for skipped in diagnosis.skipped:
        if skipped.host not in (host, ""):
            continue
        for rule, subject in keys:
            if skipped.rule == rule and skipped.subject in ("", *_names_of(subject, side)):
                return skipped.reason
    return ""


def _names_of(subject: str, side: Side) -> Iterator[str]:
    """A NIC, and the address of its PCI function: checks are skipped for either."""
    yield subject
    link = named_link(side.snapshot, subject)
    if link is not None and link.pci_address is not None:
        yield link.pci_address


def _findings(
    side: Side, left_out: Collection[tuple[str, str, str]] = frozenset()
) -> list[Finding]:
    """Of its host, and of its NIC if it is one. `left_out`: keys of some."""
    found = []
    for finding in side.diagnosis.findings:
        is_of_nic = not side.nic or finding.subject == side.nic
        is_wanted = is_of_nic and _key(finding) not in left_out
        if is_wanted and finding.host == side.snapshot.host:
            found.append(finding)
    return found


def _side_of(finding: Finding, left: Side) -> SideName:
    return "left" if finding.host == left.snapshot.host else "right"


def _finding(
    side: SideName,
    finding: Finding,
    *,
    needs_both: bool = False,
    why_unchecked: str = "",
    differs_there: bool = False,
) -> OneSidedFinding:
    return OneSidedFinding(
        side,
        finding.rule,
        finding.severity,
        finding.subject,
        finding.title,
        needs_both,
        bool(why_unchecked),
        why_unchecked,
        finding.outdated,
        differs_there,
    )
