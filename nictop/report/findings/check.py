"""The findings about hosts: text and JSON of ``nictop check``, and the JSON schema.

Reads nothing; takes hosts and their diagnosis. The JSON is ASCII with escapes: no name can reach a
terminal as a control sequence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from nictop import __version__
from nictop.model.facts import clean, platform_text, wrap
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.words import kernel_text, recorded_text
from nictop.report.facts.hosts import UnreachableHost
from nictop.report.findings.text import Paint, finding_lines, labelled, plain
from nictop.report.text_table import layout_width
from nictop.rules import RULES, SEVERITIES, Diagnosis, Finding, HostFacts, Severity, Skipped
from nictop.rules.fixes.commands import Step
from nictop.rules.wording import (
    SKIPPED_LABEL,
    all_clear,
    severity_counts,
    subject_text,
)

NO_HOST_ANSWERED = "no checks ran: no host reachable"


@dataclass(frozen=True)
class CheckedHost:
    """A host whose data was checked."""

    host: str
    """Name under which it is watched."""
    platform: str
    """``VMware guest · 1 CPU``"""
    kernel: str
    root: bool
    """The probe ran as root; without root some rules are skipped."""
    seconds: float
    """Length of the window of rates that the rules used."""
    recorded_at: float | None = None
    """The time of this state in a recording, seconds since the epoch; null: of a live host."""


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


def checked_host(host: HostFacts) -> CheckedHost:
    hello = host.snapshot.hello
    return CheckedHost(
        host=host.name,
        platform=platform_text(host.inventory.platform),
        kernel=hello.kernel if hello is not None else "",
        root=hello is not None and hello.euid == 0,
        seconds=host.elapsed,
        recorded_at=host.snapshot.recorded_at,
    )


def check_json(hosts: Sequence[HostFacts], diagnosis: Diagnosis, unreachable: Sequence[UnreachableHost] = ()) -> str:
    """The document as indented ASCII JSON with a final newline."""
    return json.dumps(check_document(hosts, diagnosis, unreachable), indent=2, default=json_value) + "\n"


def json_value(value: Any) -> Any:
    """A step of a fix as text, any other record as its fields."""
    return str(value) if isinstance(value, Step) else {one.name: getattr(value, one.name) for one in fields(value)}


def check_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final newline."""
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema.update(msgspec.json.schema(CheckDocument, schema_hook=lambda _: {"type": "string"}))  # `Step`
    return json.dumps(schema, indent=2) + "\n"


def has_severity(diagnosis: Diagnosis, threshold: Severity) -> bool:
    """Whether there is a finding at or above `threshold`."""
    limit = SEVERITIES.index(threshold)
    return any(SEVERITIES.index(finding.severity) <= limit for finding in diagnosis.findings)


# ------------------------------------------------------------------------------------------------------------- text


def check_text(
    hosts: Sequence[HostFacts],
    diagnosis: Diagnosis,
    room: int,
    unreachable: Sequence[UnreachableHost] = (),
    *,
    skipped: bool = False,
    glyphs: Glyphs = UNICODE,
    paint: Paint = plain,
) -> str:
    """Hosts, findings with their commands, and how many checks ran; at most `room` cells (40 to 200) per line unless a
    word of a command is wider, with a final newline. `skipped`: list the skipped checks. `glyphs`: for the marks; the
    caller encodes the other text (`Glyphs.encode`). `paint`: makes the colours."""
    room = layout_width(room)
    several = len(hosts) + len(unreachable) > 1
    lines = [part for host in hosts for part in wrap(checked_host_text(checked_host(host)), room)]
    lines += [paint("bad", part) for host in unreachable for part in wrap(unreachable_host_text(host), room)]
    for finding in diagnosis.findings:
        lines += ["", *finding_lines(finding, room, several, glyphs, paint)]
    unread = [host.host for host in unreachable]
    verdict, tone = (NO_HOST_ANSWERED, "bad")
    if hosts:
        verdict, tone = all_clear(diagnosis, unread=unread, named=False, glyphs=glyphs)
    lines += ["", *(paint(tone, part) for part in wrap(verdict, room))]
    lines += _skipped_lines(diagnosis, room, several) if skipped else _skipped_reasons(diagnosis, room)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def verdict_beside(verdict: str, tests: str) -> str:
    """The verdict of the checks behind that of failed tests, without its tick: ``✖ 1 of 2 tests failed; checks: No
    problems found``. `tests`: ""; there are no such tests."""
    if not tests:
        return verdict
    mark, _, words = verdict.partition(" ")
    return f"{tests}; checks: {words if mark in (UNICODE.passed, UNICODE.note) else verdict}"


def checked_host_text(host: CheckedHost) -> str:
    """``guest · VMware guest · 4 CPUs · Linux 6.12.0 · rates over 3.00 s · not root``"""
    parts = [host.host, host.platform]
    if host.recorded_at is not None:
        parts.insert(1, recorded_text(host.recorded_at))
    if host.kernel:
        parts.append(kernel_text(host.kernel))
        if host.kernel.startswith("VMkernel"):
            parts.append("without the checks of Linux hosts")
    if host.seconds:
        parts.append(f"rates over {units.duration(host.seconds)}")
    if not host.root:
        parts.append("not root")
    return " · ".join(clean(part) for part in parts)


def unreachable_host_text(host: UnreachableHost) -> str:
    """``vm3 · unreachable: 192.0.2.7 port 22: connection timed out``"""
    return f"{clean(host.host)} · unreachable: {clean(host.unreachable)}"


def _skipped_reasons(diagnosis: Diagnosis, room: int) -> Iterator[str]:
    """The reasons for which checks were skipped, each with the number of checks."""
    for reason, skipped in _by_reason(diagnosis).items():
        number = len({one.rule for one in skipped})
        yield from labelled("", f"{number} skipped: {reason}", room, indent=0, label_cells=1)
    if diagnosis.skipped:
        yield from labelled("", "list: nictop check --skipped", room, indent=0, label_cells=1)


def _skipped_lines(diagnosis: Diagnosis, room: int, several: bool) -> Iterator[str]:
    for reason, skipped in _by_reason(diagnosis).items():
        yield from wrap(f"{SKIPPED_LABEL}: {reason}", room)
        named = [
            (one.rule, subject_text(one, several_hosts=several) if one.subject or several else "") for one in skipped
        ]
        yield from labelled("", ", ".join(f"{rule} ({about})" if about else rule for rule, about in named), room)


def _by_reason(diagnosis: Diagnosis) -> dict[str, list[Skipped]]:
    """Reason → the skipped checks."""
    found: dict[str, list[Skipped]] = {}
    for one in diagnosis.skipped:
        found.setdefault(one.reason, []).append(one)
    return found
