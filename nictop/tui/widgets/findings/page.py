"""One finding in full: the fix first, then why it matters, what was seen and where, and how to undo
the fix.

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
from nictop.rules.recent import SkippedCheck
from nictop.rules.wording import (
    SEVERITY_LABELS,
    SKIPPED_LABEL,
    command_lines,
    headline,
    place_text,
    subject_text,
)
from nictop.tui.widgets.base.line_widget import TONES, LineWidget, Span, SpanLine, span_cells
from nictop.tui.widgets.findings.panel import severity_span

COMMAND_INDENT = "    "
LABEL_CELLS = 10
"""Cells of the column with WHY, EVIDENCE, UNDO and RULE."""
MAX_EVIDENCE_NAME_CELLS = 24
WHEN_FOUND = "The following was so when it was found:"
SPACED_ROWS = 24
"""Rows of the page from which on there is an empty line between two sections."""


def ordered_fixes(finding: Finding) -> tuple[Fix, ...]:
    """The fixes in the order of the page: those with commands first, otherwise as the rule gives
    them."""
    return tuple(sorted(finding.fixes, key=lambda fix: not fix.commands))


def draw_finding(
    finding: Finding,
    cells: int,
    *,
    fix_index: int = 0,
    several_hosts: bool = False,
    gone: str = "",
    gone_mark: str = "",
    notice: str = "",
    spaced: bool = False,
    has_arrows: bool = True,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The page, `cells` cells wide. `fix_index`: which of `ordered_fixes` is shown. `gone`: said
    instead of the severity, after `gone_mark` ("": that of what is resolved), if the newest
    diagnosis does not have it any more. `notice`: why it may
    not be so any more. `spaced`: with an empty line between two sections. `has_arrows`: keys lead
    to the other fixes."""
    label = SEVERITY_LABELS[finding.severity]
    mark: Span = (f"{severity_span(finding, glyphs)[0]}{label.word}  ", TONES[label.tone])
    if gone:
        mark = (f" {gone_mark or glyphs.passed} {gone}  ", "dim")
    sections = [_title(mark, glyphs.text(headline(finding, several_hosts=several_hosts)), cells)]
    if gone:
        sections.append(_lines((f" {WHEN_FOUND}",), "dim"))
    elif notice:
        sections.append(_notice(notice, cells, glyphs))
    fixes = ordered_fixes(finding)
    fix: Fix | None = None
    if fixes:
        fix = fixes[min(fix_index, len(fixes) - 1)]
        sections.append(_fix(finding, fix, fixes, cells, glyphs, has_arrows=has_arrows))
    if finding.why:
        sections.append(_labelled("WHY", _texts(finding.why, cells, glyphs)))
    if finding.evidence:
        evidence = _evidence(finding.evidence, cells - LABEL_CELLS, glyphs)
        sections.append(_labelled("EVIDENCE", evidence))
    if fix is not None and fix.undo:
        undo = _command_lines(fix.undo, fix, cells - LABEL_CELLS - 1, glyphs)
        sections.append(_labelled("UNDO", _lines(undo, "")))
    sections.append(_rule(finding.rule, cells, glyphs))
    return _joined(sections, spaced)


def draw_skipped(
    check: SkippedCheck,
    cells: int,
    *,
    several_hosts: bool = False,
    spaced: bool = False,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The page of a skipped check."""
    sections = [
        _title((f" {glyphs.skipped} {SKIPPED_LABEL}  ", "dim"), glyphs.text(check.rule), cells)
    ]
    for reason, where in skipped_places(check, several_hosts=several_hosts):
        lines = _labelled("REASON", _texts(reason, cells, glyphs))
        if where:
            lines += _labelled("ON", _texts(where, cells, glyphs))
        sections.append(lines)
    return _joined([*sections, _rule(check.rule, cells, glyphs)], spaced)


def skipped_places(check: SkippedCheck, *, several_hosts: bool) -> list[tuple[str, str]]:
    """(Reason, ``vm1, vm2 ens224``): for what the check was skipped for this reason; "": for the
    only host."""
    places: dict[str, dict[str, None]] = {}
    for place in check.places:
        subject = ""
        if place.subject or several_hosts:
            subject = subject_text(place, several_hosts=several_hosts)
        places.setdefault(place.reason, {})[subject] = None
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
    if indent > cells // 3:
        return [(mark,), *_lines(wrap(text, cells - 2), "title", indent=1)]
    blank: Span = (" " * indent, "")
    return _with_leads((mark,), (blank,), _lines(wrap(text, cells - indent - 1), "title"))


def _notice(text: str, cells: int, glyphs: Glyphs) -> list[SpanLine]:
    mark: Span = (f" {glyphs.warning} ", "warn")
    lines = _lines(wrap(glyphs.text(text), cells - width(mark[0]) - 1), "warn")
    return _with_leads((mark,), (("   ", ""),), lines)


def _labelled(label: str, lines: Iterable[SpanLine]) -> list[SpanLine]:
    first: Span = (f" {label:<{LABEL_CELLS - 1}}", "accent")
    rest: Span = (" " * LABEL_CELLS, "accent")
    return _with_leads((first,), (rest,), lines)


def _with_leads(
    first: Sequence[Span], rest: Sequence[Span], lines: Iterable[SpanLine]
) -> list[SpanLine]:
    """The lines, each behind a lead: the first one behind another than the rest."""
    found: list[SpanLine] = []
    for line in lines:
        lead = rest if found else first
        found.append((*lead, *line))
    return found


def _lines(texts: Iterable[str], style: str, *, indent: int = 0) -> list[SpanLine]:
    return [((" " * indent + text, style),) for text in texts]


def _texts(text: str, cells: int, glyphs: Glyphs, style: str = "") -> list[SpanLine]:
    return _lines(wrap(glyphs.text(text), cells - LABEL_CELLS - 1), style)


def _evidence(evidence: Sequence[Evidence], cells: int, glyphs: Glyphs) -> Iterable[SpanLine]:
    """Name, value and source of each piece of evidence."""
    name_cells = min(
        MAX_EVIDENCE_NAME_CELLS,
        max(width(glyphs.text(piece.what)) for piece in evidence),
        max(4, cells // 3),
    )
    for piece in evidence:
        text, source = glyphs.text(piece.value), glyphs.text(piece.source)
        if source:
            text += f" ({source})"
        name = f"{fit(glyphs.text(piece.what), name_cells)}  "
        blank = " " * width(name)
        parts = wrap(text, cells - width(name) - 1)
        yield from _with_leads(((name, "dim"),), ((blank, "dim"),), _lines(parts, ""))


def _fix(
    finding: Finding,
    fix: Fix,
    fixes: Sequence[Fix],
    cells: int,
    glyphs: Glyphs,
    *,
    has_arrows: bool,
) -> list[SpanLine]:
    """``FIX 1/3 ◂ ▸ TITLE   PLACE``, the commands, and the note."""
    head = _fix_head(fixes.index(fix) + 1, len(fixes), glyphs, has_arrows=has_arrows)
    indent = span_cells(head)
    title, place = glyphs.text(fix.title), glyphs.text(place_text(finding.host, fix))
    if indent + width(title) + width(place) + 4 <= cells:
        lines: list[SpanLine] = [(*head, (title, "title"), (f"   {place}", "dim"))]
    else:
        text_cells = cells - indent - 1
        parts = [*_lines(wrap(title, text_cells), "title"), *_lines(wrap(place, text_cells), "dim")]
        lines = _with_leads(head, ((" " * indent, ""),), parts)
    cells -= len(COMMAND_INDENT) + 1
    commands = _command_lines(fix.commands, fix, cells, glyphs)
    lines += [((COMMAND_INDENT, ""), (part, "accent")) for part in commands]
    if fix.note:
        note = wrap(glyphs.text(fix.note), cells)
        lines += _lines(note, "", indent=len(COMMAND_INDENT))
    return lines


def _fix_head(number: int, fixes: int, glyphs: Glyphs, *, has_arrows: bool) -> list[Span]:
    """`` FIX 1/3 ◂ ▸ ``: an arrow that leads nowhere is dim."""
    if fixes == 1:
        return [(f"{' FIX':<{LABEL_CELLS}}", "accent")]
    if not has_arrows:
        return [(f"{f' FIX {number}/{fixes}':<{LABEL_CELLS}}", "accent")]
    return [
        (f" FIX {number}/{fixes} ", "accent"),
        (glyphs.choice_left, "accent" if number > 1 else "dim"),
        (" ", ""),
        (f"{glyphs.cursor} ", "accent" if number < fixes else "dim"),
    ]


def _command_lines(commands: Iterable[Step], fix: Fix, cells: int, glyphs: Glyphs) -> list[str]:
    lines: list[str] = []
    for command in commands:
        lines += command_lines(command, cells, where=fix.where, shown=glyphs.text)
    return lines


def _rule(name: str, cells: int, glyphs: Glyphs) -> list[SpanLine]:
    """Name and explanation of the rule."""
    lines: list[SpanLine] = [((name, "dim"),)]
    rule = RULES.get(name)
    if rule is not None:
        for paragraph in rule.explanation.split("\n\n"):
            lines += _texts(" ".join(paragraph.split()), cells, glyphs, "dim")
    return _labelled("RULE", lines)


class FindingPage(LineWidget):
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
        if index is None:
            return
        line = self._line(index)
        if len(line) < 4 or line[1][0] != self.glyphs.choice_left:
            return
        left = width(line[0][0])
        if left - 1 <= offset.x <= left:
            self.post_message(self.FixRequested(-1))
        elif left < offset.x <= left + 3:
            self.post_message(self.FixRequested(1))
