"""The path test before a run as it is stored with the result: the commands of its findings are
text."""

from __future__ import annotations

from nictop.probe.light_dataclasses import dataclass
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


def _stored_finding(finding: Finding) -> StoredFinding:
    fixes = tuple(map(_stored_fix, finding.fixes))
    return StoredFinding(
        finding.rule,
        finding.severity,
        finding.host,
        finding.subject,
        finding.title,
        finding.evidence,
        finding.why,
        fixes,
        finding.ifindex,
    )


def _stored_fix(fix: Fix) -> StoredFix:
    commands, undo = tuple(map(str, fix.commands)), tuple(map(str, fix.undo))
    return StoredFix(fix.where, fix.title, commands, fix.persistent, undo, fix.note, fix.peer)


def _finding(finding: StoredFinding) -> Finding:
    fixes = tuple(map(_fix, finding.fixes))
    return Finding(
        finding.rule,
        finding.severity,
        finding.host,
        finding.subject,
        finding.title,
        finding.evidence,
        finding.why,
        fixes,
        finding.ifindex,
    )


def _fix(fix: StoredFix) -> Fix:
    commands, undo = tuple(map(stored_line, fix.commands)), tuple(map(stored_line, fix.undo))
    return Fix(fix.where, fix.title, commands, fix.persistent, undo, fix.note, fix.peer)
