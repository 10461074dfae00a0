"""The findings about hosts: text and JSON of ``nictop check``, and the JSON schema.

Reads nothing; takes hosts and their diagnosis. The JSON is ASCII with escapes: no name can reach a
terminal as a control sequence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import msgspec

from nictop import __version__
from nictop.model.facts import clean, platform_text, wrap
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.words import kernel_text
from nictop.report.facts.hosts import UnreachableHost
from nictop.report.text_table import labelled_lines, layout_width
from nictop.rules import RULES, SEVERITIES, Diagnosis, Finding, Fix, HostFacts, Severity, Skipped
from nictop.rules.fixes.commands import Step
from nictop.rules.wording import (
    SEVERITY_LABELS,
    SKIPPED_LABEL,
    checks_text,
    command_lines,
    headline,
    place_text,
    severity_counts,
    severity_mark,
    subject_text,
    verdict_text,
)

FINDING_LABEL_CELLS = 8
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

_labelled = partial(labelled_lines, label_cells=FINDING_LABEL_CELLS, indent=2)


def check_text(
    hosts: Sequence[HostFacts],
    diagnosis: Diagnosis,
    room: int,
    unreachable: Sequence[UnreachableHost] = (),
    *,
    skipped: bool = False,
    glyphs: Glyphs = UNICODE,
) -> str:
    """Hosts, findings with their commands, and how many checks ran; at most `room` cells (40 to 200) per line unless a
    word of a command is wider, with a final newline. `skipped`: list the skipped checks. `glyphs`: for the marks; the
    caller encodes the other text (`Glyphs.encode`)."""
    room = layout_width(room)
    lines = [part for host in hosts for part in wrap(checked_host_text(checked_host(host)), room)]
    lines += [part for host in unreachable for part in wrap(unreachable_host_text(host), room)]
    for finding in diagnosis.findings:
        lines += ["", *finding_lines(finding, room, len(hosts) > 1, glyphs)]
    lines += ["", *wrap(_verdict(diagnosis, glyphs) if hosts else NO_HOST_ANSWERED, room)]
    lines += _skipped_lines(diagnosis, room, len(hosts) > 1) if skipped else _skipped_reasons(diagnosis, room)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def checked_host_text(host: CheckedHost) -> str:
    """``guest · VMware guest · 4 CPUs · Linux 6.12.0 · rates over 3.00 s · not root``"""
    parts = [host.host, host.platform]
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


def _verdict(diagnosis: Diagnosis, glyphs: Glyphs) -> str:
    return f"{verdict_text(diagnosis, glyphs=glyphs)[0]} ({checks_text(diagnosis)})"


def finding_lines(finding: Finding, room: int, several: bool, glyphs: Glyphs) -> Iterator[str]:
    """A finding with its evidence and commands. `several`: with the name of its host."""
    mark = severity_mark(finding.severity, glyphs=glyphs)
    word = SEVERITY_LABELS[finding.severity].word
    title = headline(finding, several_hosts=several)
    yield from _labelled(f"{mark} {word}", title, room, indent=0, label_cells=len(word) + 2)
    for number, one in enumerate(finding.evidence):
        text = f"{one.what}: {one.value} ({one.source})" if one.source else f"{one.what}: {one.value}"
        yield from _labelled("" if number else "evidence", text, room)
    yield from _labelled("why", finding.why, room)
    for fix in finding.fixes:
        yield from _fix_lines(finding, fix, room)
    yield from _labelled("rule", finding.rule, room)


def _fix_lines(finding: Finding, fix: Fix, room: int) -> Iterator[str]:
    yield from _labelled("fix", f"{fix.title} ({place_text(finding, fix)})", room)
    yield from _command_lines(fix.commands, fix, room)
    if fix.note:
        yield from _labelled("", fix.note, room)
    if fix.undo:
        yield from _labelled("", "undo:", room)
        yield from _command_lines(fix.undo, fix, room)


def _command_lines(steps: Iterable[Step], fix: Fix, room: int) -> Iterator[str]:
    indent = " " * (FINDING_LABEL_CELLS + 5)
    for step in steps:
        yield from (indent + part for part in command_lines(step, room - len(indent), where=fix.where, cut=False))


def _skipped_reasons(diagnosis: Diagnosis, room: int) -> Iterator[str]:
    """The reasons for which checks were skipped, each with the number of checks."""
    for reason, skipped in _by_reason(diagnosis).items():
        number = len({one.rule for one in skipped})
        yield from _labelled("", f"{number} skipped: {reason}", room, indent=0, label_cells=1)
    if diagnosis.skipped:
        yield from _labelled("", "list: nictop check --skipped", room, indent=0, label_cells=1)


def _skipped_lines(diagnosis: Diagnosis, room: int, several: bool) -> Iterator[str]:
    for reason, skipped in _by_reason(diagnosis).items():
        yield from wrap(f"{SKIPPED_LABEL}: {reason}", room)
        named = [
            (one.rule, subject_text(one, several_hosts=several) if one.subject or several else "") for one in skipped
        ]
        yield from _labelled("", ", ".join(f"{rule} ({about})" if about else rule for rule, about in named), room)


def _by_reason(diagnosis: Diagnosis) -> dict[str, list[Skipped]]:
    """Reason → the skipped checks."""
    found: dict[str, list[Skipped]] = {}
    for one in diagnosis.skipped:
        found.setdefault(one.reason, []).append(one)
    return found
