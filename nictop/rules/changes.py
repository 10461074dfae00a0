"""Findings that appear and go while hosts are watched. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from nictop.probe.light_dataclasses import dataclass
from nictop.rules.by_device import SubjectLoss, not_lost
from nictop.rules.finding import Finding, FindingIdentity
from nictop.rules.registry import Diagnosis

ROUNDS = 2
"""Diagnoses, one after the other, in which a finding is present or absent before it counts: what
comes and goes within seconds tells nobody anything."""

MAX_KNOWN = 1000
"""Findings of a host that are remembered. While its check is skipped, a finding cannot go."""


@dataclass(frozen=True)
class FindingChange:
    """One finding."""

    event: Literal["appeared", "gone"]
    finding: Finding
    """As it was last."""


@dataclass
class _Known:
    finding: Finding
    is_reported: bool = False
    present: int = 0
    absent: int = 0
    """Diagnoses in a row."""
    was_down: bool = False
    """The link was down when the finding was there."""


class FindingChanges:
    """What one diagnosis after the other says. A finding is gone only if its check ran and has not
    found it again; not while its host is not read, the check is skipped, or its link, which was up,
    is down: most checks are not about such links.

    A host whose names change all the time has other subjects in each diagnosis: what a rule finds
    there is reported once, with one of them, and is gone when the rule finds nothing."""

    def __init__(self) -> None:
        self._known: dict[FindingIdentity, _Known] = {}
        """Those seen last at the end."""
        self._of_rule: dict[tuple[str, str], _Known] = {}
        """Host and rule → whether it finds anything; reported if its subjects change."""
        self._loss_of: Callable[[Finding], SubjectLoss] = not_lost

    def update(
        self, diagnosis: Diagnosis, loss_of: Callable[[Finding], SubjectLoss] = not_lost
    ) -> tuple[FindingChange, ...]:
        """The changes, in the order of the findings; then those that are gone. `loss_of`: what is
        the matter with the NIC of a finding now."""
        self._loss_of = loss_of
        found = {finding.identity: finding for finding in diagnosis.findings}
        by_rule: dict[tuple[str, str], Finding] = {}
        for (host, rule, *_), finding in found.items():
            by_rule.setdefault((host, rule), finding)
        changes = (
            *self._appeared(found.items()),
            *self._unsteady(by_rule),
            *self._gone(found.keys(), diagnosis),
            *self._gone_rules(by_rule.keys(), diagnosis),
        )
        self._forget_oldest()
        return changes

    @property
    def are_undecided(self) -> bool:
        """The next diagnosis may say that something has appeared or gone."""
        return any(map(_is_undecided, (*self._known.values(), *self._of_rule.values())))

    def _appeared(
        self, found: Iterable[tuple[FindingIdentity, Finding]]
    ) -> Iterator[FindingChange]:
        for identity, finding in found:
            known = self._known.pop(identity, None) or _Known(finding)
            self._known[identity] = known
            self._count_present(known, finding)
            if known.present < ROUNDS or known.is_reported:
                continue
            known.is_reported = True
            of_rule = self._of_rule.get(identity[:2])
            if of_rule is not None and of_rule.is_reported:
                of_rule.is_reported = False
                if of_rule.finding.identity == identity:
                    continue  # it was reported already
                yield FindingChange("gone", of_rule.finding)
            yield FindingChange("appeared", finding)

    def _unsteady(self, by_rule: Mapping[tuple[str, str], Finding]) -> Iterator[FindingChange]:
        """What a rule finds in one diagnosis after the other, each time with another subject."""
        reported = {identity[:2] for identity, known in self._known.items() if known.is_reported}
        for key, finding in by_rule.items():
            known = self._of_rule.setdefault(key, _Known(finding))
            self._count_present(known, known.finding)
            if known.present >= ROUNDS and not known.is_reported and key not in reported:
                known.is_reported, known.finding = True, finding
                yield FindingChange("appeared", finding)

    def _gone(
        self, found: Iterable[FindingIdentity], diagnosis: Diagnosis
    ) -> Iterator[FindingChange]:
        skipped = {(skip.host, skip.rule) for skip in diagnosis.skipped}
        for identity in self._known.keys() - set(found):
            host, rule, *_ = identity
            if host not in diagnosis.hosts or (host, rule) in skipped:
                continue
            known = self._known[identity]
            if self._is_only_down(known) or not _is_gone(known):
                continue
            del self._known[identity]
            if known.is_reported:
                yield FindingChange("gone", known.finding)

    def _gone_rules(
        self, found: Iterable[tuple[str, str]], diagnosis: Diagnosis
    ) -> Iterator[FindingChange]:
        skipped = {(skip.host, skip.rule) for skip in diagnosis.skipped}
        for key in self._of_rule.keys() - set(found) - skipped:
            known = self._of_rule[key]
            if key[0] not in diagnosis.hosts or self._is_only_down(known) or not _is_gone(known):
                continue
            del self._of_rule[key]
            if known.is_reported:
                yield FindingChange("gone", known.finding)

    def _count_present(self, known: _Known, finding: Finding) -> None:
        known.finding, known.absent = finding, 0
        known.present += 1
        known.was_down = self._loss_of(finding) == "down"

    def _is_only_down(self, known: _Known) -> bool:
        return not known.was_down and self._loss_of(known.finding) == "down"

    def _forget_oldest(self) -> None:
        """Of each host that has too many: those that were not reported, then those not seen for
        longest."""
        of_hosts: dict[str, list[FindingIdentity]] = {}
        for identity in self._known:
            of_hosts.setdefault(identity[0], []).append(identity)
        for identities in of_hosts.values():
            excess = len(identities) - MAX_KNOWN
            if excess > 0:
                identities.sort(key=lambda identity: self._known[identity].is_reported)
                for identity in identities[:excess]:
                    del self._known[identity]


def _is_undecided(known: _Known) -> bool:
    return 0 < known.present < ROUNDS or 0 < known.absent < ROUNDS


def _is_gone(known: _Known) -> bool:
    """Count one more diagnosis without it."""
    known.present = 0
    known.absent += 1
    return known.absent >= ROUNDS
