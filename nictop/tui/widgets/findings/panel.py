"""The worst finding in one line, below every view but that of all findings.

 ▲ ens224: uses the auto-generated profile "Wired connection 1"               +5 (key 4)

``+5``: further ones of the badge at the top; ``(key 4)``: lists all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from nictop.model.facts import fit, width
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import fit_middle
from nictop.probe.light_dataclasses import replace
from nictop.rules import Diagnosis, Finding, Fix
from nictop.rules.unchecked import open_findings
from nictop.rules.wording import (
    SEVERITY_LABELS,
    all_clear,
    finding_badges,
    finding_mark,
    fixes_with_commands,
    headline,
)
from nictop.tui.keys import KeyLabels, default_label
from nictop.tui.widgets.base.line_widget import TONES, LineWidget, Span, SpanLine, span_cells

NUMBER_SPAN = 2
"""Index of the number of the others among the spans of the line."""
MAX_HOST_CELLS = 16
"""Of the name of a host in a line that is too long."""
NOT_CHECKED_TEXT = "Not checked yet: the checks run when the inventory has been read"
READING_TEXT = "The recording is being read: the findings of this time follow"
NOT_READ_THEN_TEXT = "Not checked: no inventory had been read at this time"
"""Of a past time."""
CHECKED_BEFORE_TEXT = "Not checked now: the checks run again when the inventory has been read"
"""Earlier findings are of another time, or of a host that is being read again."""


def draw_worst_finding(
    diagnosis: Diagnosis | None,
    cells: int,
    *,
    notice: str = "",
    has_failed: bool = False,
    several_hosts: bool = False,
    unread: Sequence[str] = (),
    was_checked: bool = False,
    lost: int = 0,
    age: str = "",
    labels: KeyLabels = default_label,
    glyphs: Glyphs = UNICODE,
) -> SpanLine:
    """Mark, subject and title of the worst finding and the number of the others, in `cells` cells.
    `notice`: why the chosen host is not live; it is shown instead of the worst finding, with the
    number of findings by severity. `has_failed`: that host is not reached. `unread`: names
    of hosts that are not checked. `lost`: see `verdict_text`; `age`: `no_problems_line`."""
    findings = open_findings(diagnosis)
    key: Span = (f" (key {labels('findings')}) ", "accent")
    if notice:
        mark: Span = (f" {glyphs.warning} ", "warn")
        if has_failed:
            mark = (f" {glyphs.critical} ", "bad")
        # a critical finding of another host is not hidden by it
        more = [*_badge_spans(findings, glyphs), key]
        return _with_number(mark, glyphs.text(notice), more, cells)
    if diagnosis is None:
        return not_checked_line(cells, was_checked=was_checked)
    if not findings:
        return no_problems_line(diagnosis, cells, glyphs, unread, lost=lost, age=age)
    others = _others(findings)
    number = f" +{others}" if others > 0 else ""
    more = [(number, "accent"), key]
    mark = severity_span(findings[0], glyphs)
    room = cells - width(mark[0]) - span_cells(more)
    text = finding_text(findings[0], several_hosts, glyphs, room)
    return _with_number(mark, text, more, cells)


def _others(findings: Sequence[Finding]) -> int:
    """How many there are beside the first: without those of severity info, which the badge at the
    top does not count either, unless there are no others."""
    first, *rest = findings
    if first.severity == "info":
        return len(rest)
    return sum(finding.severity != "info" for finding in rest)


def not_checked_line(cells: int, *, was_checked: bool) -> SpanLine:
    """Nothing is known of findings now. `was_checked`: the checks have run before."""
    text = CHECKED_BEFORE_TEXT if was_checked else NOT_CHECKED_TEXT
    return ((fit(f" {text}", cells), "dim"),)


def _badge_spans(findings: Sequence[Finding], glyphs: Glyphs) -> list[Span]:
    """`` ✖1 ▲4``"""
    badges = finding_badges(findings, glyphs=glyphs)
    return [(f" {text}", TONES[tone]) for text, tone in badges]


def _with_number(mark: Span, text: str, more: Sequence[Span], cells: int) -> SpanLine:
    """The line; without what is at its end where that takes more than half of the cells behind the
    mark."""
    room = cells - width(mark[0]) - span_cells(more)
    if room < span_cells(more):
        return mark, (fit(text, max(0, cells - width(mark[0]))), "")
    return mark, (fit(text, room), ""), *more


def no_problems_line(
    diagnosis: Diagnosis,
    cells: int,
    glyphs: Glyphs,
    unread: Sequence[str] = (),
    *,
    lost: int = 0,
    age: str = "",
) -> SpanLine:
    """`` ✓ No problems found (98 of 98 checks ran)``; `age`: see `settings_age_text`, shown where
    there is room."""
    text, tone = all_clear(diagnosis, unread=unread, live=True, lost=lost, glyphs=glyphs)
    for shown in (age, age.removeprefix("settings ")):
        with_age = f"{text[:-1]}, {shown})"
        if shown and width(with_age) <= cells - 1:
            text = with_age
            break
    return (f" {text[0]}", tone), (fit(glyphs.text(text[1:]), max(0, cells - 2)), "")


def severity_span(finding: Finding, glyphs: Glyphs) -> Span:
    """Mark of the severity, with a blank at both sides; "?" of a finding that may have changed."""
    tone = "dim" if finding.outdated else TONES[SEVERITY_LABELS[finding.severity].tone]
    return f" {finding_mark(finding, glyphs=glyphs)} ", tone


def finding_text(finding: Finding, several_hosts: bool, glyphs: Glyphs, cells: int) -> str:
    """``ens224: RSS table contains 2 of 4 receive queues``; a long name of the host is cut before
    these words are."""
    text = glyphs.text(headline(finding, several_hosts=several_hosts))
    if width(text) <= cells:
        return text
    short = replace(finding, host=fit_middle(finding.host, MAX_HOST_CELLS).rstrip())
    return glyphs.text(headline(short, several_hosts=several_hosts))


def first_fix(findings: Sequence[Finding]) -> tuple[Finding, Fix] | None:
    """The first of the findings, the worst one, and its first fix that has commands; None if there
    is none."""
    if not findings:
        return None
    fix = next(iter(fixes_with_commands(findings[0])), None)
    if fix is None:
        return None
    return findings[0], fix


class FindingsPanel(LineWidget):
    """One row, whatever the findings. Posts `Opened` on a click."""

    can_focus = False

    class Opened(Message):
        """The finding that is shown was requested; None: the list of all findings."""

        def __init__(self, finding: Finding | None) -> None:
            super().__init__()
            self.finding = finding

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._content: tuple[Diagnosis | None, str, bool, bool, Sequence[str], bool, int, str]
        self._content = None, "", False, False, (), False, 0, ""

    def show(
        self,
        diagnosis: Diagnosis | None,
        *,
        several_hosts: bool,
        notice: str = "",
        has_failed: bool = False,
        unread: Sequence[str] = (),
        was_checked: bool = False,
        lost: int = 0,
        age: str = "",
    ) -> None:
        """See `draw_worst_finding`."""
        self._content = (
            diagnosis, notice, has_failed, several_hosts, unread, was_checked, lost, age,
        )  # fmt: skip
        self._draw()

    def show_text(self, text: str) -> None:
        """Instead of findings."""
        cells = self.scrollable_content_region.width
        self.show_lines([((fit(f" {text}", cells), "dim"),)])

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def _draw(self) -> None:
        diagnosis, notice, has_failed, several_hosts, unread, was_checked, lost, age = self._content
        cells = self.scrollable_content_region.width
        line = draw_worst_finding(
            diagnosis,
            cells,
            notice=notice,
            has_failed=has_failed,
            several_hosts=several_hosts,
            unread=unread,
            was_checked=was_checked,
            lost=lost,
            age=age,
            labels=self.key_label,
            glyphs=self.glyphs,
        )
        self.show_lines([line])

    def on_click(self, event: events.Click) -> None:
        """On the number of the others: all of them."""
        diagnosis, notice, *_ = self._content
        (line,) = self.lines
        column = event.get_content_offset_capture(self).x
        is_on_number = column >= span_cells(line[:NUMBER_SPAN])
        shown: Finding | None = None
        if diagnosis is not None and not notice and not is_on_number:
            shown = next(iter(open_findings(diagnosis)), None)
        self.post_message(self.Opened(shown))
