"""All findings, one line each, and below them the chosen one in full; on demand also skipped checks."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.message import Message

from nictop.model.facts import fit, wrap
from nictop.rules import Diagnosis, Finding, Fix, Skipped
from nictop.rules.wording import checks_text, fixes_with_commands, subject_text, verdict_text
from nictop.tui.keys import FINDINGS_KEYS
from nictop.tui.widgets.base.line_view import SpanLine
from nictop.tui.widgets.base.list_view import ChoiceView
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.findings.page import FindingPage, draw_finding, draw_skipped
from nictop.tui.widgets.findings.panel import WAITING, finding_line

MIN_WORD_CELLS = 60
"""Cells below which a line has the mark of the severity, but not its word."""


def entry_key(entry: Finding | Skipped) -> str:
    """Key of an entry: independent of the numbers in its text."""
    return f"{type(entry).__name__}:{entry.rule}:{entry.host}:{entry.subject}"


class FindingList(ChoiceView):
    """One line per finding."""

    class Chosen(Message):
        """The cursor is on another finding."""

    class Opened(ChoiceView.Opened):
        """Details of the chosen finding were requested."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entries: tuple[Finding | Skipped, ...] = ()
        self.several_hosts = False

    @property
    def chosen(self) -> Finding | Skipped | None:
        index = self.index
        return None if index is None else self.entries[index]

    def show(self, entries: tuple[Finding | Skipped, ...], *, several_hosts: bool) -> None:
        """Draw `entries`; the cursor stays on its finding."""
        self.entries, self.several_hosts = entries, several_hosts
        self.set_keys([entry_key(one) for one in entries])
        self.redraw()

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def redraw(self) -> None:
        if self.entries:
            self.show_drawn(len(self.entries), self._entry_line, None, self.index)
        else:
            self.show_lines([])

    def _entry_line(self, index: int) -> SpanLine:
        entry, cells = self.entries[index], self.scrollable_content_region.width
        if isinstance(entry, Finding):
            return finding_line(
                entry, cells, several_hosts=self.several_hosts, glyphs=self.glyphs, word=cells >= MIN_WORD_CELLS
            )
        about = subject_text(entry, several_hosts=self.several_hosts) if entry.subject or self.several_hosts else ""
        text = self.glyphs.text(f"{entry.rule} {about}".rstrip() + f": {entry.reason}")
        return ((fit(f" {self.glyphs.skipped} {text}", cells), "dim"),)


class FindingsView(WhileOpen, Container):
    """List above, page below; `enter` gives the page the whole view."""

    BINDINGS: ClassVar[list[BindingType]] = FINDINGS_KEYS

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._diagnosis: Diagnosis | None = None
        self._several_hosts = False
        self._marked = 0
        self.skipped = False
        """Whether skipped checks are listed, too."""
        self.full = False
        """Whether the page has the whole view."""

    def compose(self) -> ComposeResult:
        yield FindingList(id="finding-list")
        yield FindingPage(id="finding-page")

    @property
    def fix(self) -> tuple[Finding, Fix] | None:
        """The finding whose page is shown, and the fix that is marked there; None where there is nothing to type."""
        entry = self.query_one(FindingList).chosen
        fixes = fixes_with_commands(entry) if isinstance(entry, Finding) else ()
        return (entry, fixes[min(self._marked, len(fixes) - 1)]) if fixes and isinstance(entry, Finding) else None

    def show(self, diagnosis: Diagnosis | None, *, several_hosts: bool) -> None:
        self._diagnosis, self._several_hosts = diagnosis, several_hosts
        entries: tuple[Finding | Skipped, ...] = ()
        if diagnosis is not None:
            entries = (*diagnosis.findings, *(diagnosis.skipped if self.skipped else ()))
        listed = self.query_one(FindingList)
        listed.show(entries, several_hosts=several_hosts)
        listed.take_rows(max(1, min(len(entries), self.size.height * 2 // 5)) + listed.gutter.height)
        visible = bool(entries) and not self.full
        if listed.display != visible:
            listed.display = visible
        title = self._title()
        if listed.border_title != title:
            listed.border_title = title
        self.draw_page()

    def _title(self) -> str:
        if self._diagnosis is None:
            return "Findings"
        said, _ = verdict_text(self._diagnosis, glyphs=self.glyphs)
        return self.glyphs.text(f"{said} · {checks_text(self._diagnosis)}")

    def draw_page(self) -> None:
        page = self.query_one(FindingPage)
        cells = page.scrollable_content_region.width
        entry = self.query_one(FindingList).chosen
        if isinstance(entry, Finding):
            lines = draw_finding(
                entry, cells, marked=self._marked, several_hosts=self._several_hosts, glyphs=self.glyphs
            )
        elif entry is not None:
            lines = draw_skipped(entry, cells, several_hosts=self._several_hosts, glyphs=self.glyphs)
        elif self._diagnosis is None:
            lines = [((WAITING, "dim"),)]
        else:
            said, tone = verdict_text(self._diagnosis, glyphs=self.glyphs)
            lines = [((f" {said} ({checks_text(self._diagnosis)})", tone),)]
            reasons = sorted({one.reason for one in self._diagnosis.skipped})
            skipped = [f"Skipped: {reason}" for reason in reasons]
            lines += [((f" {part}", "dim"),) for text in skipped for part in wrap(text, cells - 2)]
            if skipped:
                lines.append(((" s lists the skipped checks", "dim"),))
        page.show_lines(lines)

    def on_finding_list_chosen(self) -> None:
        """Show the page of the newly chosen finding from its top, with the first fix marked."""
        self._marked = 0
        self.query_one(FindingPage).scroll_to(y=0, animate=False)
        self.draw_page()

    def action_mark(self, step: int) -> None:
        """Mark the previous or next fix, and scroll to it."""
        entry = self.query_one(FindingList).chosen
        fixes = fixes_with_commands(entry) if isinstance(entry, Finding) else ()
        if not fixes:
            return
        self._marked = max(0, min(len(fixes) - 1, self._marked + step))
        self.draw_page()
        self.query_one(FindingPage).scroll_to_mark()
