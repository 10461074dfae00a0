"""The worst finding in one line, below every view but that of all findings.

▲ ens224: no DHCP reply; auto-generated profile "Wired connection 1"                                          +5 (4)

``+5``: further findings; ``(4)``: the key that lists all of them.
"""

from __future__ import annotations

from textual.message import Message

from nictop.model.facts import fit, width
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.rules import Diagnosis, Finding, Fix
from nictop.rules.wording import (
    SEVERITY_LABELS,
    checks_text,
    fixes_with_commands,
    severity_mark,
    subject_text,
    verdict_text,
)
from nictop.tui.widgets.base.line_view import TONES, LineView, Span, SpanLine

WAITING = " waiting for the inventory: nothing checked yet"


def draw_worst_finding(
    diagnosis: Diagnosis | None, cells: int, *, notice: str = "", several_hosts: bool = False, glyphs: Glyphs = UNICODE
) -> SpanLine:
    """At most `cells` cells. `notice`: why the chosen host is not live; it is shown instead of the worst finding."""
    findings = diagnosis.findings if diagnosis is not None else ()
    others = len(findings) - (0 if notice else 1)
    more = f" +{others} (4) " if others > 0 else ""
    more = more if len(more) < cells // 2 else ""
    room = cells - len(more)
    if notice:
        return (fit(f" {glyphs.text(notice)}", room), "warn"), (more, "accent")
    if diagnosis is None:
        return ((fit(WAITING, cells), "dim"),)
    if not findings:
        said, tone = verdict_text(diagnosis, glyphs=glyphs)
        rest = glyphs.text(f"{said[1:]} ({checks_text(diagnosis)})")
        return (f" {said[0]}"[:cells], tone), (fit(rest, max(0, cells - 2)), "dim")
    line = finding_line(findings[0], room, several_hosts=several_hosts, glyphs=glyphs)
    blank = max(0, room - sum(width(text) for text, _ in line))
    return (*line, (" " * blank, ""), (more, "accent"))


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


def worst_fix(diagnosis: Diagnosis | None) -> tuple[Finding, Fix] | None:
    """The finding that the panel shows in full, and the fix whose command it shows."""
    worst = diagnosis.findings[0] if diagnosis is not None and diagnosis.findings else None
    fix = next(iter(fixes_with_commands(worst)), None) if worst is not None else None
    return (worst, fix) if worst is not None and fix is not None else None


class FindingsPanel(LineView):
    """One row, whatever the findings. Posts `Opened` on a click."""

    can_focus = False

    class Opened(Message):
        """The list of all findings was requested."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._content: tuple[Diagnosis | None, str, bool] = (None, "", False)

    def show(self, diagnosis: Diagnosis | None, *, several_hosts: bool, notice: str = "") -> None:
        """See `draw_worst_finding`."""
        self._content = (diagnosis, notice, several_hosts)
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        diagnosis, notice, several = self._content
        cells = self.size.width
        line = draw_worst_finding(diagnosis, cells, notice=notice, several_hosts=several, glyphs=self.glyphs)
        self.show_lines((line,))

    def on_click(self) -> None:
        self.post_message(self.Opened())
