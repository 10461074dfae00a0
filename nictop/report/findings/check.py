"""The findings about hosts: text and JSON of ``nictop check``, and the JSON schema.

Reads nothing; takes hosts and their diagnosis. The JSON is ASCII with escapes: no name can reach a
terminal as a control sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop import __version__
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import dataclass
from nictop.report.facts.hosts import UnreachableHost
from nictop.report.findings.document import findings_blocks
from nictop.report.findings.hosts import CheckedHost, checked_host
from nictop.report.json import json_schema, json_text
from nictop.report.render.paint import Paint, plain
from nictop.report.render.text import text_of
from nictop.rules import RULES, SEVERITIES, Diagnosis, Finding, HostFacts, Severity, Skipped
from nictop.rules.fixes.commands import Step
from nictop.rules.wording import severity_counts


@dataclass(frozen=True)
class CheckDocument:
    """What ``nictop check --format json`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    hosts: tuple[CheckedHost, ...]
    rules: int
    """Number of rules that were evaluated."""
    counts: dict[Severity, int]
    """Findings by severity."""
    findings: tuple[Finding, ...]
    """Worst first, then by host, family and subject."""
    skipped: tuple[Skipped, ...]
    """Checks that could not be made, or not everywhere, and why."""
    unreachable: tuple[UnreachableHost, ...] = ()
    """Hosts without a complete answer; no rule was evaluated for them."""


def check_document(
    hosts: Sequence[HostFacts], diagnosis: Diagnosis, unreachable: Sequence[UnreachableHost] = ()
) -> CheckDocument:
    """Hosts and findings as a record of the schema."""
    return CheckDocument(
        nictop=__version__,
        hosts=tuple(checked_host(host) for host in hosts),
        rules=len(RULES) if hosts else 0,
        counts=severity_counts(diagnosis.findings),
        findings=diagnosis.findings,
        skipped=diagnosis.skipped,
        unreachable=tuple(unreachable),
    )


def check_json(
    hosts: Sequence[HostFacts], diagnosis: Diagnosis, unreachable: Sequence[UnreachableHost] = ()
) -> str:
    """The document as indented ASCII JSON with a final newline."""
    return json_text(check_document(hosts, diagnosis, unreachable), texts=(Step,))


def check_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final
    newline."""
    return json_schema(CheckDocument)


def has_severity(diagnosis: Diagnosis, threshold: Severity) -> bool:
    """Whether there is a finding at or above `threshold`."""
    limit = SEVERITIES.index(threshold)
    return any(SEVERITIES.index(finding.severity) <= limit for finding in diagnosis.findings)


# --------------------------------------------------------------------------------------------- text


def check_text(
    hosts: Sequence[HostFacts],
    diagnosis: Diagnosis,
    room: int,
    unreachable: Sequence[UnreachableHost] = (),
    *,
    skipped: bool = False,
    glyphs: Glyphs = UNICODE,
    paint: Paint = plain,
    applies: bool = False,
) -> str:
    """Hosts, findings with their commands, and how many checks ran; at most `room` cells (40 to
    200) per line unless a word of a command is wider, with a final newline. `skipped`: list the
    skipped checks. `glyphs`: for the marks; the caller encodes the other text (`Glyphs.encode`).
    `paint`: makes the colours."""
    blocks = findings_blocks(
        hosts, diagnosis, unreachable, skipped=skipped, glyphs=glyphs, applies=applies
    )
    return text_of(blocks, room, glyphs, paint)
