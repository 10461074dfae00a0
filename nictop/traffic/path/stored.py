"""The path test before a run as it is stored with the result: the commands of its findings are text."""

from __future__ import annotations

from dataclasses import dataclass

from nictop.rules.finding import Evidence, Finding, Fix, Severity, WhereToType
from nictop.rules.fixes.commands import stored_line
from nictop.traffic.path.result import PathReport, PathResult


@dataclass(frozen=True)
class StoredFix:
    """As `Fix`."""

    where: WhereToType
    title: str
    commands: tuple[str, ...]
    persistent: bool | None = None
    undo: tuple[str, ...] = ()
    note: str = ""
    peer: str = ""


@dataclass(frozen=True)
class StoredFinding:
    """As `Finding`."""

    rule: str
    severity: Severity
    host: str
    subject: str
    title: str
    evidence: tuple[Evidence, ...]
    why: str
    fixes: tuple[StoredFix, ...] = ()
    ifindex: int | None = None


@dataclass(frozen=True)
class StoredPathTest:
    """As `PathReport`."""

    result: PathResult
    findings: tuple[StoredFinding, ...]

    @property
    def report(self) -> PathReport:
        return PathReport(self.result, tuple(map(_finding, self.findings)))


def stored_path_test(report: PathReport) -> StoredPathTest:
    return StoredPathTest(report.result, tuple(map(_stored_finding, report.findings)))


def _stored_finding(one: Finding) -> StoredFinding:
    fixes = tuple(_stored_fix(fix) for fix in one.fixes)
    return StoredFinding(
        one.rule, one.severity, one.host, one.subject, one.title, one.evidence, one.why, fixes, one.ifindex
    )


def _stored_fix(one: Fix) -> StoredFix:
    commands, undo = tuple(map(str, one.commands)), tuple(map(str, one.undo))
    return StoredFix(one.where, one.title, commands, one.persistent, undo, one.note, one.peer)


def _finding(one: StoredFinding) -> Finding:
    fixes = tuple(_fix(fix) for fix in one.fixes)
    return Finding(one.rule, one.severity, one.host, one.subject, one.title, one.evidence, one.why, fixes, one.ifindex)


def _fix(one: StoredFix) -> Fix:
    commands, undo = tuple(map(stored_line, one.commands)), tuple(map(stored_line, one.undo))
    return Fix(one.where, one.title, commands, one.persistent, undo, one.note, one.peer)
