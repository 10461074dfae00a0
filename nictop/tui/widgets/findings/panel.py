"""The worst finding in one line, below every view but that of all findings.

 ▲ ens224: uses the auto-generated profile "Wired connection 1"               +5 (key 4)

``+5``: further findings; ``(key 4)``: lists all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual import events
from textual.message import Message

from nictop.model.facts import fit, width
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import fit_middle
from nictop.rules import Diagnosis, Finding, Fix
from nictop.rules.wording import (
    SEVERITY_LABELS,
    all_clear,
    fixes_with_commands,
    headline,
    severity_mark,
)
from nictop.tui.keys import shown_key
from nictop.tui.widgets.base.line_view import TONES, LineView, Span, SpanLine

NUMBER_SPAN = 2
"""Index of the number of the others among the spans of the line."""
MAX_HOST_CELLS = 16
"""Of the name of a host in a line that is too long."""
NOT_CHECKED_TEXT = "Not checked yet: the checks run when the inventory has been read"


def draw_worst_finding(
    diagnosis: Diagnosis | None,
    cells: int,
    *,
    notice: str = "",
    several_hosts: bool = False,
    unread: Sequence[str] = (),
    key: str = "4",
    glyphs: Glyphs = UNICODE,
) -> SpanLine:
    """Mark, subject and title of the worst finding and the number of the others, in `cells` cells. `notice`: why the
    chosen host is not live; it is shown instead of the worst finding. `unread`: names of hosts that are not checked.
    `key`: lists all findings."""
    findings = diagnosis.findings if diagnosis is not None else ()
    others = len(findings) - (0 if notice else 1)
    more = f" +{others} (key {key}) " if others > 0 else f" (key {key}) "
    if notice:
        line: tuple[Span, str] = ((f" {glyphs.warning} ", "warn"), glyphs.text(notice))
    elif diagnosis is None:
        return ((fit(f" {NOT_CHECKED_TEXT}", cells), "dim"),)
    elif not findings:
        return no_problems_line(diagnosis, cells, glyphs, unread)
    else:
        mark = severity_span(findings[0], glyphs)
        line = mark, finding_text(findings[0], several_hosts, glyphs, cells - width(mark[0]) - len(more))
    mark, text = line
    room = cells - width(mark[0]) - len(more)
    if room < len(more):
        return mark, (fit(text, max(0, cells - width(mark[0]))), "")
    return mark, (fit(text, room), ""), (more, "accent")


def no_problems_line(diagnosis: Diagnosis, cells: int, glyphs: Glyphs, unread: Sequence[str] = ()) -> SpanLine:
    """`` ✓ No problems found (98 of 98 checks ran)``"""
    text, tone = all_clear(diagnosis, unread=unread, live=True, glyphs=glyphs)
    return (f" {text[0]}", tone), (fit(glyphs.text(text[1:]), max(0, cells - 2)), "")


def severity_span(finding: Finding, glyphs: Glyphs) -> Span:
    """Mark of the severity, with a blank at both sides."""
    return f" {severity_mark(finding.severity, glyphs=glyphs)} ", TONES[SEVERITY_LABELS[finding.severity].tone]


def finding_text(finding: Finding, several_hosts: bool, glyphs: Glyphs, cells: int) -> str:
    """``ens224: RSS table contains 2 of 4 receive queues``; a long name of the host is cut before these words are."""
    text = glyphs.text(headline(finding, several_hosts=several_hosts))
    if width(text) <= cells:
        return text
    short = replace(finding, host=fit_middle(finding.host, MAX_HOST_CELLS).rstrip())
    return glyphs.text(headline(short, several_hosts=several_hosts))


def first_fix(findings: Sequence[Finding]) -> tuple[Finding, Fix] | None:
    """The first of the findings, the worst one, and its first fix that has commands; None if there is none."""
    fix = next(iter(fixes_with_commands(findings[0])), None) if findings else None
    return (findings[0], fix) if fix is not None else None


class FindingsPanel(LineView):
    """One row, whatever the findings. Posts `Opened` on a click."""

    can_focus = False

    class Opened(Message):
        """The finding that is shown was requested; None: the list of all findings."""

        def __init__(self, finding: Finding | None) -> None:
            super().__init__()
            self.finding = finding

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._content: tuple[Diagnosis | None, str, bool, Sequence[str]] = (None, "", False, ())

    def show(
        self, diagnosis: Diagnosis | None, *, several_hosts: bool, notice: str = "", unread: Sequence[str] = ()
    ) -> None:
        """See `draw_worst_finding`."""
        self._content = diagnosis, notice, several_hosts, unread
        self._draw()

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def _draw(self) -> None:
        diagnosis, notice, several_hosts, unread = self._content
        cells = self.scrollable_content_region.width
        line = draw_worst_finding(
            diagnosis,
            cells,
            notice=notice,
            several_hosts=several_hosts,
            unread=unread,
            key=shown_key(self.app, "findings"),
            glyphs=self.glyphs,
        )
        self.show_lines([line])

    def on_click(self, event: events.Click) -> None:
        """On the number of the others: all of them."""
        diagnosis, notice, _, _ = self._content
        (line,) = self.lines
        is_on_number = event.get_content_offset_capture(self).x >= sum(width(text) for text, _ in line[:NUMBER_SPAN])
        shown = diagnosis.findings[:1] if diagnosis is not None and not notice else ()
        self.post_message(self.Opened(shown[0] if shown and not is_on_number else None))
