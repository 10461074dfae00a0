"""A finding as text: title, evidence, reason, fixes with their commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from nictop.model.text.glyphs import Glyphs
from nictop.report.render.paint import Paint
from nictop.report.text_table import labelled_lines
from nictop.rules import Finding, Fix
from nictop.rules.finding import WhereToType
from nictop.rules.fixes.commands import Step
from nictop.rules.wording import SEVERITY_LABELS, command_lines, finding_mark, headline, place_text

FINDING_LABEL_CELLS = 8

labelled = partial(labelled_lines, label_cells=FINDING_LABEL_CELLS, indent=2)


def finding_lines(
    finding: Finding,
    room: int,
    several: bool,
    glyphs: Glyphs,
    paint: Paint,
    *,
    apply: Step | None = None,
) -> Iterator[str]:
    """A finding with its evidence and commands. `several`: with the name of its host. `apply`: the
    command that applies a fix."""
    mark = finding_mark(finding, glyphs=glyphs)
    word = SEVERITY_LABELS[finding.severity].word
    title = headline(finding, several_hosts=several)
    for line in labelled(f"{mark} {word}", title, room, indent=0, label_cells=len(word) + 2):
        yield line if finding.outdated else paint(finding.severity, line)
    label = "evidence"
    for evidence in finding.evidence:
        text = f"{evidence.what}: {evidence.value}"
        if evidence.source:
            text += f" ({evidence.source})"
        yield from labelled(label, text, room)
        label = ""  # of the first one only
    yield from labelled("why", finding.why, room)
    for fix in finding.fixes:
        yield from _fix_lines(finding, fix, room, paint)
    yield from labelled("rule", finding.rule, room)
    if apply is not None:
        yield from labelled("apply", "By nictop, after its plan is shown:", room)
        yield from _command_lines((apply,), "here", room, paint)


def _fix_lines(finding: Finding, fix: Fix, room: int, paint: Paint) -> Iterator[str]:
    yield from labelled("fix", f"{fix.title} ({place_text(finding.host, fix)})", room)
    yield from _command_lines(fix.commands, fix.where, room, paint)
    if fix.note:
        yield from labelled("", fix.note, room)
    if fix.undo:
        yield from labelled("", "undo:", room)
        yield from _command_lines(fix.undo, fix.where, room, paint)


def _command_lines(
    steps: Iterable[Step], where: WhereToType, room: int, paint: Paint
) -> Iterator[str]:
    indent = " " * (FINDING_LABEL_CELLS + 5)
    for step in steps:
        for part in command_lines(step, room - len(indent), where=where, cut=False):
            yield indent + paint("command", part)
