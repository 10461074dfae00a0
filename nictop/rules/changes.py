"""Findings that appear and go while hosts are watched. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from nictop.probe.light_dataclasses import dataclass
from nictop.rules.finding import Finding, Skipped
from nictop.rules.registry import Diagnosis

ROUNDS = 2
"""Diagnoses, one after the other, in which a finding is present or absent before it counts: what
comes and goes within seconds tells nobody anything."""

Identity = tuple[str, str, str]
"""Host, rule, subject."""


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


class FindingChanges:
    """What one diagnosis after the other says. A finding is gone only if its check ran and has not
    found it again; not while its host is not read, or the check is skipped."""

    def __init__(self) -> None:
        self._known: dict[Identity, _Known] = {}

    def update(self, diagnosis: Diagnosis) -> tuple[FindingChange, ...]:
        """The changes, in the order of the findings; then those that are gone."""
        found = {identity_of(finding): finding for finding in diagnosis.findings}
        return (*self._appeared(found.items()), *self._gone(found.keys(), diagnosis))

    def _appeared(self, found: Iterable[tuple[Identity, Finding]]) -> Iterator[FindingChange]:
        for identity, finding in found:
            known = self._known.setdefault(identity, _Known(finding))
            known.finding, known.absent = finding, 0
            known.present += 1
            if known.present >= ROUNDS and not known.is_reported:
                known.is_reported = True
                yield FindingChange("appeared", finding)

    def _gone(self, found: Iterable[Identity], diagnosis: Diagnosis) -> Iterator[FindingChange]:
        skipped = {(skip.host, skip.rule) for skip in diagnosis.skipped}
        for identity in self._known.keys() - set(found):
            host, rule, _ = identity
            if host not in diagnosis.hosts or (host, rule) in skipped:
                continue
            known = self._known[identity]
            known.present = 0
            known.absent += 1
            if known.absent < ROUNDS:
                continue
            del self._known[identity]
            if known.is_reported:
                yield FindingChange("gone", known.finding)


def identity_of(finding: Finding | Skipped) -> Identity:
    return finding.host, finding.rule, finding.subject
