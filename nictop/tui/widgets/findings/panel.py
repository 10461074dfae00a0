"""The findings, always in sight: the worst one in full, with the command that repairs it, then one line for each other.

▲ ens224 is run by "Wired connection 1", a profile NetworkManager made up
    nmcli con mod uuid cb81f911-8a04-3da2-956a-0864d8c11ae5 connection.id ens224
· ens256 one queue on four CPUs                                        5: all 4
"""

from __future__ import annotations

from textual.message import Message

from nictop.model.facts import fit, width, wrap
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.rules import Diagnosis, Finding, Fix
from nictop.rules.wording import (
    LINE_CONTINUATION,
    PLACE_TEXTS,
    SEVERITY_LABELS,
    checks_text,
    command_lines,
    fixes_with_commands,
    headline,
    severity_counts_text,
    severity_mark,
    subject_text,
    verdict_text,
)
from nictop.tui.widgets.base.line_view import TONES, LineView, Span, SpanLine, cut_spans

MAX_PANEL_ROWS = {"-tall": 6, "-medium": 4, "-short": 2}
"""Rows of text, by the class that the screen has for its height."""
WAITING = " waiting for the inventory: nothing checked yet"
INDENT = "    "
ELLIPSIS = " …"


def draw_findings(
    diagnosis: Diagnosis | None, cells: int, rows: int, *, several_hosts: bool = False, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """At most `rows` lines of `cells` cells: the worst finding and its first command as a whole if there is room, then
    the next ones; the last line says how many more there are."""
    if diagnosis is None:
        return [((fit(WAITING, cells), "dim"),)]
    if not diagnosis.findings:
        said, tone = verdict_text(diagnosis, glyphs=glyphs)
        return [((f" {said[0]}", tone), (fit(f"{said[1:]} ({checks_text(diagnosis)})", max(0, cells - 2)), "dim"))]
    worst, *others = diagnosis.findings
    title, commands = _title(worst, cells, several_hosts, glyphs), _commands(worst, cells, glyphs)
    if len(title) + len(commands) > rows:
        title = [finding_line(worst, cells, several_hosts=several_hosts, glyphs=glyphs)]
    lines = [*title, *_cut_short(commands, rows - len(title), cells)]
    shown = others[: rows - len(lines)]
    lines += [finding_line(one, cells, several_hosts=several_hosts, glyphs=glyphs) for one in shown]
    hidden = len(others) - len(shown)
    return [*lines[:-1], _with_more(lines[-1], hidden, cells)] if hidden else lines


def finding_line(finding: Finding, cells: int, *, several_hosts: bool, glyphs: Glyphs, word: bool = False) -> SpanLine:
    """One finding on one line; `word`: with the name of its severity."""
    mark = _mark(finding, glyphs)
    spans: list[Span] = [mark]
    if word:
        spans.append((f"{SEVERITY_LABELS[finding.severity].word:<9}", mark[1]))
    room = max(0, cells - sum(len(text) for text, _ in spans))
    subject = glyphs.text(subject_text(finding, several_hosts=several_hosts)) + ": "
    shown = fit(subject, min(room, width(subject)))
    return (*spans, (shown, "title"), (fit(glyphs.text(finding.title), room - width(shown)), ""))


def _mark(finding: Finding, glyphs: Glyphs) -> Span:
    tone = TONES[SEVERITY_LABELS[finding.severity].tone]
    return f" {severity_mark(finding.severity, glyphs=glyphs)} ", tone


def _title(finding: Finding, cells: int, several_hosts: bool, glyphs: Glyphs) -> list[SpanLine]:
    mark = _mark(finding, glyphs)
    text = glyphs.text(headline(finding, several_hosts=several_hosts))
    parts = wrap(text, cells - len(mark[0]))
    return [(mark if number == 0 else (" " * len(mark[0]), ""), (part, "title")) for number, part in enumerate(parts)]


def _commands(finding: Finding, cells: int, glyphs: Glyphs) -> list[str]:
    fix = next(iter(fixes_with_commands(finding)), None)
    if fix is None:
        return []
    room = cells - len(INDENT)
    lines = [part for one in fix.commands for part in command_lines(one, room, where=fix.where, shown=glyphs.text)]
    if fix.where == "here":
        return lines
    place = f"# {PLACE_TEXTS[fix.where]}"  # a comment to a shell: it may be copied with the rest
    beside = f"{lines[0]}  {place}"
    return [beside, *lines[1:]] if len(lines) == 1 and width(beside) <= room else [place, *lines]


def _cut_short(commands: list[str], rows: int, cells: int) -> list[SpanLine]:
    """As many lines as there are rows. What is cut ends with an ellipsis: half a command must not look like a whole
    one."""
    shown = commands[: max(0, rows)]
    if shown and len(shown) < len(commands):
        rest = " ".join(one.removesuffix(LINE_CONTINUATION).strip() for one in commands[len(shown) - 1 :])
        room = max(0, cells - len(INDENT) - len(ELLIPSIS))
        shown[-1] = fit(rest, min(room, width(rest))).rstrip("… ") + ELLIPSIS
    return [((INDENT + one, "accent"),) for one in shown]


def _with_more(line: SpanLine, hidden: int, cells: int) -> SpanLine:
    """The last line, with the number of findings that have no room at its right end."""
    said = f" +{hidden} more: 5 "
    room = cells - len(said)
    if room < len(said):
        return line
    spans = cut_spans(line, room)
    room -= sum(width(text) for text, _ in spans)
    return (*spans, (" " * room, ""), (said, "accent"))


def worst_fix(diagnosis: Diagnosis | None) -> tuple[Finding, Fix] | None:
    """The finding that the panel shows in full, and the fix whose command it shows."""
    worst = diagnosis.findings[0] if diagnosis is not None and diagnosis.findings else None
    fix = next(iter(fixes_with_commands(worst)), None) if worst is not None else None
    return (worst, fix) if worst is not None and fix is not None else None


def panel_title(diagnosis: Diagnosis | None) -> str:
    """``Findings: 1 critical · 2 warnings``"""
    said = severity_counts_text(diagnosis.findings) if diagnosis is not None else ""
    return f"Findings: {said}" if said else "Findings"


class FindingsPanel(LineView):
    """Draws the newest diagnosis into as few rows as it needs. Posts `Opened` on a click."""

    can_focus = False

    class Opened(Message):
        """The list of all findings was requested."""

    def show(self, diagnosis: Diagnosis | None, *, several_hosts: bool) -> None:
        most = next((rows for name, rows in MAX_PANEL_ROWS.items() if self.screen.has_class(name)), 2)
        cells = self.scrollable_content_region.width
        lines = draw_findings(diagnosis, cells, most, several_hosts=several_hosts, glyphs=self.glyphs)
        self.take_rows(len(lines) + self.gutter.height)
        title = self.glyphs.text(panel_title(diagnosis))
        if self.border_title != title:
            self.border_title = title
        self.show_lines(lines)

    def on_click(self) -> None:
        self.post_message(self.Opened())
