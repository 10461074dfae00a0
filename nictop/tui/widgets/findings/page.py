"""One finding in full: the fix first, then why it matters, what was seen and where, and how to undo the fix.

▲ warning  ens224: uses the auto-generated profile "Wired connection 1"
FIX 1/3 ◂ ▸ rename the profile to the interface   on alma-load-001, survives a reboot
   nmcli con mod uuid cb81f911-… connection.id ens224
WHY      nmcli modifies profiles, not interfaces …
EVIDENCE profile  Wired connection 1 (NetworkManager: Settings.Connection)
UNDO     nmcli con mod uuid cb81f911-… connection.id 'Wired connection 1'
RULE     profile_is_generated
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import events
from textual.message import Message

from nictop.model.facts import fit, width, wrap
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.rules import RULES, Evidence, Finding, Fix
from nictop.rules.fixes.commands import Step
from nictop.rules.wording import (
    SEVERITY_LABELS,
    SKIPPED_LABEL,
    command_lines,
    headline,
    place_text,
    subject_text,
)
from nictop.tui.widgets.base.line_view import TONES, LineView, Span, SpanLine
from nictop.tui.widgets.findings.panel import severity_span
from nictop.tui.widgets.findings.recent import SkippedCheck

COMMAND_INDENT = "    "
LABEL_CELLS = 10
"""Cells of the column with WHY, EVIDENCE, UNDO and RULE."""
MAX_EVIDENCE_NAME_CELLS = 24
SPACED_ROWS = 24
"""Rows of the page from which on there is an empty line between two sections."""


def ordered_fixes(finding: Finding) -> tuple[Fix, ...]:
    """The fixes in the order of the page: those with commands first, otherwise as the rule gives them."""
    return tuple(sorted(finding.fixes, key=lambda fix: not fix.commands))


def draw_finding(
    finding: Finding,
    cells: int,
    *,
    fix_index: int = 0,
    several_hosts: bool = False,
    gone: str = "",
    spaced: bool = False,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The page, `cells` cells wide. `fix_index`: which of `ordered_fixes` is shown. `gone`: said
    instead of the severity, if the newest diagnosis does not have it any more. `spaced`: with an empty line between two
    sections."""
    label = SEVERITY_LABELS[finding.severity]
    mark: Span = (f"{severity_span(finding, glyphs)[0]}{label.word}  ", TONES[label.tone])
    if gone:
        mark = (f" {glyphs.passed} {gone}  ", "dim")
    sections = [_title(mark, glyphs.text(headline(finding, several_hosts=several_hosts)), cells)]
    fixes = ordered_fixes(finding)
    fix = fixes[min(fix_index, len(fixes) - 1)] if fixes else None
    if fix is not None:
        sections.append(_fix(finding, fix, fixes, cells, glyphs))
    if finding.why:
        sections.append(_labelled("WHY", _texts(finding.why, cells, glyphs)))
    if finding.evidence:
        sections.append(_labelled("EVIDENCE", _evidence(finding.evidence, cells - LABEL_CELLS, glyphs)))
    if fix is not None and fix.undo:
        undo = _command_lines(fix.undo, fix, cells - LABEL_CELLS - 1, glyphs)
        sections.append(_labelled("UNDO", (((part, ""),) for part in undo)))
    sections.append(_rule(finding.rule, cells, glyphs))
    return _joined(sections, spaced)


def draw_skipped(
    check: SkippedCheck, cells: int, *, several_hosts: bool = False, spaced: bool = False, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """The page of a skipped check."""
    sections = [_title((f" {glyphs.skipped} {SKIPPED_LABEL}  ", "dim"), glyphs.text(check.rule), cells)]
    for reason, where in skipped_places(check, several_hosts=several_hosts):
        lines = _labelled("REASON", _texts(reason, cells, glyphs))
        sections.append([*lines, *_labelled("ON", _texts(where, cells, glyphs))] if where else lines)
    return _joined([*sections, _rule(check.rule, cells, glyphs)], spaced)


def skipped_places(check: SkippedCheck, *, several_hosts: bool) -> list[tuple[str, str]]:
    """(Reason, ``vm1, vm2 ens224``): for what the check was skipped for this reason; "": for the only host."""
    places: dict[str, dict[str, None]] = {}
    for one in check.places:
        subject = subject_text(one, several_hosts=several_hosts) if one.subject or several_hosts else ""
        places.setdefault(one.reason, {})[subject] = None
    return [(reason, ", ".join(filter(None, subjects))) for reason, subjects in places.items()]


def _joined(sections: Iterable[Sequence[SpanLine]], spaced: bool) -> list[SpanLine]:
    lines: list[SpanLine] = []
    for section in sections:
        if spaced and lines:
            lines.append(())
        lines += section
    return lines


def _title(mark: Span, text: str, cells: int) -> list[SpanLine]:
    """Mark and text; on a narrow page the text is below the mark."""
    indent = width(mark[0])
    if indent <= cells // 3:
        parts = wrap(text, cells - indent - 1)
        return [(mark if number == 0 else (" " * indent, ""), (part, "title")) for number, part in enumerate(parts)]
    return [(mark,), *(((f" {part}", "title"),) for part in wrap(text, cells - 2))]


def _labelled(label: str, lines: Iterable[SpanLine]) -> list[SpanLine]:
    first, rest = f" {label:<{LABEL_CELLS - 1}}", " " * LABEL_CELLS
    return [((rest if number else first, "accent"), *line) for number, line in enumerate(lines)]


def _texts(text: str, cells: int, glyphs: Glyphs, style: str = "") -> Iterable[SpanLine]:
    return (((part, style),) for part in wrap(glyphs.text(text), cells - LABEL_CELLS - 1))


def _evidence(evidence: Sequence[Evidence], cells: int, glyphs: Glyphs) -> Iterable[SpanLine]:
    """Name, value and source of each piece of evidence."""
    name_cells = min(MAX_EVIDENCE_NAME_CELLS, max(width(glyphs.text(one.what)) for one in evidence), max(4, cells // 3))
    for one in evidence:
        value, source = glyphs.text(one.value), glyphs.text(one.source)
        name = f"{fit(glyphs.text(one.what), name_cells)}  "
        parts = wrap(f"{value} ({source})" if source else value, cells - width(name) - 1)
        for number, part in enumerate(parts):
            yield (name if number == 0 else " " * width(name), "dim"), (part, "")


def _fix(finding: Finding, fix: Fix, fixes: Sequence[Fix], cells: int, glyphs: Glyphs) -> list[SpanLine]:
    """``FIX 1/3 ◂ ▸ TITLE   PLACE``, the commands, and the note."""
    head: list[Span] = [(f"{' FIX':<{LABEL_CELLS}}", "accent")]
    if len(fixes) > 1:
        number = fixes.index(fix) + 1
        head = [
            (f" FIX {number}/{len(fixes)} ", "accent"),
            (glyphs.choice_left, "accent" if number > 1 else "dim"),
            (" ", ""),
            (f"{glyphs.cursor} ", "accent" if number < len(fixes) else "dim"),
        ]
    indent = sum(width(text) for text, _ in head)
    title, place = glyphs.text(fix.title), glyphs.text(place_text(finding.host, fix))
    if indent + width(title) + width(place) + 4 <= cells:
        lines: list[SpanLine] = [(*head, (title, "title"), (f"   {place}", "dim"))]
    else:
        parts = [
            *((part, "title") for part in wrap(title, cells - indent - 1)),
            *((part, "dim") for part in wrap(place, cells - indent - 1)),
        ]
        lines = [(*(head if number == 0 else [(" " * indent, "")]), part) for number, part in enumerate(parts)]
    commands = _command_lines(fix.commands, fix, cells - len(COMMAND_INDENT) - 1, glyphs)
    lines += [((COMMAND_INDENT, ""), (part, "accent")) for part in commands]
    note_cells = cells - len(COMMAND_INDENT) - 1
    return lines + [((COMMAND_INDENT + part, ""),) for part in wrap(glyphs.text(fix.note), note_cells) if fix.note]


def _command_lines(commands: Iterable[Step], fix: Fix, cells: int, glyphs: Glyphs) -> list[str]:
    return [part for one in commands for part in command_lines(one, cells, where=fix.where, shown=glyphs.text)]


def _rule(name: str, cells: int, glyphs: Glyphs) -> list[SpanLine]:
    """Name and explanation of the rule."""
    lines: list[SpanLine] = [((name, "dim"),)]
    rule = RULES.get(name)
    for paragraph in rule.explanation.split("\n\n") if rule is not None else ():
        lines += _texts(" ".join(paragraph.split()), cells, glyphs, "dim")
    return _labelled("RULE", lines)


class FindingPage(LineView):
    """`draw_finding` of the chosen finding. A click on ◂ or ▸ posts `FixRequested`."""

    marks_more = True

    class FixRequested(Message):
        """The previous (-1) or next (1) fix is to be shown."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset_capture(self)
        index = self.line_at(offset.y)
        line = self._line(index) if index is not None else ()
        if len(line) < 4 or line[1][0] != self.glyphs.choice_left:
            return
        left = width(line[0][0])
        if left - 1 <= offset.x <= left + 3:
            self.post_message(self.FixRequested(-1 if offset.x <= left else 1))
