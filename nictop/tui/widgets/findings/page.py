"""One finding in full: what was seen and where, why it matters, what to type and where, and how to undo it.

▲ warning  ens224 is run by "Wired connection 1", a profile NetworkManager made up
── Seen ──────────────────────────────────────────────
profile       Wired connection 1   NetworkManager: Settings.Connection
── Why ───────────────────────────────────────────────
NetworkManager made it because no profile matches this NIC …
── What to type ──────────────────────────────────────
▸ 1 rename the profile to the interface   on alma-load-001, survives a reboot
      nmcli con mod uuid cb81f911-… connection.id ens224
"""

from __future__ import annotations

from nictop.model.facts import fit, width, wrap
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.rules import RULES, Evidence, Finding, Fix, Skipped
from nictop.rules.fixes.commands import Step
from nictop.rules.wording import (
    SEVERITY_LABELS,
    SKIPPED_LABEL,
    command_lines,
    fixes_with_commands,
    headline,
    place_text,
    severity_mark,
    subject_text,
)
from nictop.tui.widgets.base.line_view import TONES, LineView, SpanLine, section_line

COMMAND_INDENT = "      "
MAX_LABEL_CELLS = 24


def draw_finding(
    finding: Finding, cells: int, *, marked: int = 0, several_hosts: bool = False, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """The page, `cells` cells wide. `marked`: which of the fixes that are commands the key y copies."""
    words = SEVERITY_LABELS[finding.severity]
    tone = TONES[words.tone]
    mark = f" {severity_mark(finding.severity, glyphs=glyphs)} {words.word}  "
    title = glyphs.text(headline(finding, several_hosts=several_hosts))
    lines: list[SpanLine] = []
    for number, part in enumerate(wrap(title, cells - len(mark) - 1)):
        lines.append(((mark if number == 0 else " " * len(mark), tone), (part, "title")))
    if finding.evidence:
        lines += [section_line("Seen", cells), *_evidence(finding.evidence, cells, glyphs)]
    if finding.why:
        lines += [section_line("Why", cells), *_text(finding.why, cells, glyphs)]
    if finding.fixes:
        lines += [section_line("What to type" if fixes_with_commands(finding) else "What to do", cells)]
        commands = fixes_with_commands(finding)
        chosen = commands[marked] if marked < len(commands) else None
        for fix in finding.fixes:
            lines += _fix(finding, fix, cells, fix is chosen, glyphs)
    return lines + _explanation(finding.rule, cells, glyphs)


def draw_skipped(
    skipped: Skipped, cells: int, *, several_hosts: bool = False, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """The page of a skipped check."""
    subject = subject_text(skipped, several_hosts=several_hosts) if skipped.subject or several_hosts else ""
    title = glyphs.text(f"{skipped.rule} {subject}".rstrip())
    lines: list[SpanLine] = [((f" {glyphs.skipped} {SKIPPED_LABEL}  ", "dim"), (fit(title, cells - 20), "title"))]
    lines += [section_line("Reason", cells), *_text(skipped.reason, cells, glyphs)]
    return lines + _explanation(skipped.rule, cells, glyphs)


def _text(text: str, cells: int, glyphs: Glyphs, indent: str = " ", style: str = "") -> list[SpanLine]:
    return [((f"{indent}{part}", style),) for part in wrap(glyphs.text(text), cells - len(indent) - 1)]


def _evidence(evidence: tuple[Evidence, ...], cells: int, glyphs: Glyphs) -> list[SpanLine]:
    """Name, value and source of each piece of evidence."""
    label = min(MAX_LABEL_CELLS, max(width(glyphs.text(one.what)) for one in evidence), max(4, cells // 3))
    lines: list[SpanLine] = []
    for one in evidence:
        value, source = glyphs.text(one.value), glyphs.text(one.source)
        first = f" {fit(glyphs.text(one.what), label)}  "
        parts = wrap(f"{value} ({source})" if source else value, cells - len(first) - 1)
        lines += [
            ((first if number == 0 else " " * width(first), "dim"), (part, "")) for number, part in enumerate(parts)
        ]
    return lines


def _fix(finding: Finding, fix: Fix, cells: int, chosen: bool, glyphs: Glyphs) -> list[SpanLine]:
    mark = glyphs.cursor if chosen else " "
    place = glyphs.text(place_text(finding, fix))
    title = glyphs.text(fix.title)
    lines: list[SpanLine] = []
    if width(title) + width(place) + 6 <= cells:
        lines.append(((f" {mark} ", "accent"), (title, "title"), (f"  {place}", "dim")))
    else:
        parts = wrap(title, cells - 4)
        lines += [((f" {mark if n == 0 else ' '} ", "accent"), (part, "title")) for n, part in enumerate(parts)]
        lines += _text(place, cells, glyphs, "   ", "dim")
    lines += _shell(fix.commands, fix, cells, glyphs, "accent")
    if fix.note:
        lines += _text(fix.note, cells, glyphs, "   ")
    if fix.undo:
        lines += [(("   to undo it:", "dim"),), *_shell(fix.undo, fix, cells, glyphs, "")]
    return lines


def _shell(commands: tuple[Step, ...], fix: Fix, cells: int, glyphs: Glyphs, style: str) -> list[SpanLine]:
    room = cells - len(COMMAND_INDENT) - 1
    parts = [part for one in commands for part in command_lines(one, room, where=fix.where, shown=glyphs.text)]
    return [((COMMAND_INDENT + part, style),) for part in parts]


def _explanation(name: str, cells: int, glyphs: Glyphs) -> list[SpanLine]:
    """The explanation of the rule, as the last section."""
    rule = RULES.get(name)
    lines: list[SpanLine] = [section_line(f"The rule {name}", cells)]
    if rule is None:
        return lines
    for paragraph in rule.explanation.split("\n\n"):
        lines += _text(" ".join(paragraph.split()), cells, glyphs, style="dim")
    return lines


class FindingPage(LineView):
    """`draw_finding` of the chosen finding."""

    def scroll_to_mark(self) -> None:
        """Scroll to the fix that the key y copies."""
        mark = f" {self.glyphs.cursor} "
        index = next((index for index, line in enumerate(self.lines) if line and line[0][0] == mark), None)
        if index is not None and not self.scroll_offset.y <= index < self.scroll_offset.y + self.size.height - 2:
            self.scroll_to(y=max(0, index - 1), animate=False)
