"""All findings, one line each, and the chosen one in full, below them or (wide) beside them. On demand also skipped
checks, and findings that are resolved. The sizes of both parts do not depend on the findings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.widgets import Input

from nictop.model.facts import fit, width, wrap
from nictop.model.snapshot import BEFORE_CHANGE, Snapshot
from nictop.model.text.names import distinct_names, short_names
from nictop.replay.position import wall_clock_text
from nictop.rules import Diagnosis, Finding, Fix
from nictop.rules.wording import SEVERITY_LABELS, checks_text, passed_texts, severity_counts_text, subject_text
from nictop.tui.keys import FINDINGS_KEYS, shown_key
from nictop.tui.widgets.base.filter_line import NO_MATCHES, FilterLine
from nictop.tui.widgets.base.line_view import LineView, Span, SpanLine, WaitingLines, no_lines
from nictop.tui.widgets.base.list_view import ChoiceView
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.devices.detail import draw_subject
from nictop.tui.widgets.findings.page import (
    SPACED_ROWS,
    FindingPage,
    draw_finding,
    draw_skipped,
    ordered_fixes,
    skipped_places,
)
from nictop.tui.widgets.findings.panel import NOT_CHECKED_TEXT, no_problems_line, severity_span
from nictop.tui.widgets.findings.recent import Entry, RecentFindings, SkippedCheck, keyed_checks

if TYPE_CHECKING:
    from nictop.model.time_axis import LocalClock

WORD_MIN_CELLS = 100
"""Cells below which a line has the mark of the severity, but not its word."""
MAX_HOST_CELLS, MAX_SUBJECT_CELLS = 14, 16
TITLE_CELLS = 4
"""Of the line around a title."""
MINUTE_CHARACTERS = len("14:03")
"""Of a time of day in the list; the page has the seconds."""
MIN_SUBJECT_COLUMN_ROWS = 38
"""Rows of the column of the list from which on its lower half has what is known of the chosen finding's interface."""
FILTER_HINT = "filter: words of title, interface, host, severity or rule"


def fix_index(fixes: Sequence[Fix], chosen: Fix | None) -> int:
    """Index of the chosen fix, whose title or commands may have changed since; 0 if it is not there any more."""
    if chosen is None or not fixes:
        return 0
    alike = [2 * (one.title == chosen.title) + (one.commands == chosen.commands) for one in fixes]
    return alike.index(max(alike))


def _names_in(cells: int, names: Collection[str]) -> dict[str, str]:
    """Name of a host → what is shown of it, at most `cells` cells wide, and of each host something else."""
    short = short_names(names)
    shown = distinct_names(short.values(), cells)
    return {name: shown[text] for name, text in short.items()}


class FindingList(ChoiceView):
    """One line per finding, more for long titles while there is room for all, and one that says how many resolved ones
    are hidden."""

    class Chosen(Message):
        """The cursor is on another finding."""

    class Opened(ChoiceView.Opened):
        """Details of the chosen finding were requested."""

    class ResolvedClicked(Message):
        """The number of hidden resolved findings was clicked."""

    class PageRequested(Message):
        """The page of the chosen finding is to be scrolled up (-1) or down (1)."""

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entries: Sequence[Entry] = ()
        self._several_hosts = False
        self._empty_line: SpanLine = ()
        self._hidden = 0
        """Resolved findings that are not in `entries`."""
        self._seen: Callable[[Entry], str] = lambda entry: ""
        self._hosts: dict[str, str] = {}
        self._host_cells = self._subject_cells = 0
        self._wrapped: list[tuple[int, SpanLine]] = []
        """(Index of the entry, line) of all lines, if all titles fit in full; else empty: one line each."""

    @property
    def entry(self) -> Entry | None:
        """The chosen line."""
        index = self.index
        return None if index is None else self.entries[index]

    @property
    def chosen(self) -> Finding | SkippedCheck | None:
        entry = self.entry
        return None if entry is None else entry.about

    def show(
        self,
        entries: Sequence[Entry],
        *,
        several_hosts: bool,
        empty_line: SpanLine,
        hidden: int,
        seen: Callable[[Entry], str],
    ) -> None:
        """Draw `entries`, or `empty_line` if there are none; the cursor stays on its finding. `hidden`: resolved ones
        that are not among them. `seen`: the time in which a finding was there, as text."""
        self.entries, self._several_hosts, self._empty_line = entries, several_hosts, empty_line
        self._hidden, self._seen = hidden, seen
        abouts = [entry.about for entry in entries if isinstance(entry.about, Finding)]
        text = self.glyphs.text
        names = {one.host for one in abouts} if several_hosts else set()
        are_whole = self.screen.has_class("-wide") and all(width(text(name)) <= MAX_HOST_CELLS for name in names)
        self._hosts = {name: name for name in names} if are_whole else _names_in(MAX_HOST_CELLS, names)
        self._host_cells = min(max((width(text(name)) for name in self._hosts.values()), default=0), MAX_HOST_CELLS)
        subjects = (text(self._subject(one)) for one in abouts)
        self._subject_cells = min(max(map(width, subjects), default=0), MAX_SUBJECT_CELLS)
        self.set_keys([entry.key for entry in entries])
        self.redraw()

    def first_choice(self) -> int:
        return next((index for index, entry in enumerate(self.entries) if not entry.gone), 0)

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def action_page(self, pages: int) -> None:
        """The list has few rows and the page many: the keys that scroll by a page scroll that one."""
        self.post_message(self.PageRequested(pages))

    def redraw(self) -> None:
        self._wrapped = self._wrapped_lines()
        rows = (len(self._wrapped) or max(1, len(self.entries))) + bool(self._hidden)
        cursor = next((row for row, (entry, _) in enumerate(self._wrapped) if entry == self.index), self.index)
        self.show_drawn(rows, self._list_line, None, cursor)

    def _wrapped_lines(self) -> list[tuple[int, SpanLine]]:
        """Empty: there is no room for more than one line each."""
        room = self.scrollable_content_region.height - bool(self._hidden)
        if len(self.entries) >= room:
            return []
        lines = [(index, line) for index in range(len(self.entries)) for line in self._entry_lines(index)]
        return lines if len(lines) <= room else []

    def line_at(self, y: int) -> int | None:
        """Index of the entry, or of what follows the entries."""
        line = super().line_at(y)
        if line is None or not self._wrapped:
            return line
        return self._wrapped[line][0] if line < len(self._wrapped) else line - len(self._wrapped) + len(self.entries)

    def on_click(self, event: events.Click) -> None:
        """The lines of findings are those of the base class."""
        if self._hidden and self.line_at(event.get_content_offset_capture(self).y) == max(1, len(self.entries)):
            self.post_message(self.ResolvedClicked())

    def _list_line(self, index: int) -> SpanLine:
        if index < len(self._wrapped):
            return self._wrapped[index][1]
        index += len(self.entries) - len(self._wrapped) if self._wrapped else 0
        if index < len(self.entries):
            return self._entry_lines(index, is_cut=True)[0]
        if index == 0:
            return self._empty_line
        return ((f" {self.glyphs.passed} {self._hidden} resolved ({shown_key(self.app, 'options')})", "dim"),)

    def _subject(self, finding: Finding) -> str:
        return finding.subject if self._several_hosts else finding.subject or finding.host

    def _entry_lines(self, index: int, *, is_cut: bool = False) -> list[SpanLine]:
        """Mark, host, subject, title; `is_cut`: on one line."""
        entry, cells = self.entries[index], self.scrollable_content_region.width
        about, text = entry.about, self.glyphs.text
        if isinstance(about, SkippedCheck):
            places = skipped_places(about, several_hosts=self._several_hosts)
            reasons = "; ".join(f"{reason} ({where})" if where else reason for reason, where in places)
            return [((fit(f" {self.glyphs.skipped} {text(f'{about.rule}: {reasons}')}", cells), "dim"),)]
        spans: list[Span] = [severity_span(about, self.glyphs)]
        if entry.resolved:
            spans.append((f"{self._seen(entry)} ", ""))
        elif cells >= WORD_MIN_CELLS:
            spans.append((f"{SEVERITY_LABELS[about.severity].word:<9}", spans[0][1]))
        if self._host_cells:
            spans.append((fit(text(self._hosts[about.host]), self._host_cells) + " ", ""))
        spans.append((fit(text(self._subject(about)), self._subject_cells) + " ", "title"))
        before = sum(width(one) for one, _ in spans)
        room = max(0, cells - before)
        first, *further = [fit(text(about.title), room)] if is_cut else wrap(text(about.title), room) or ("",)
        spans.append((first, ""))
        if entry.gone:
            spans = [(f" {self.glyphs.passed} ", "dim"), *((one, "dim") for one, _ in spans[1:])]
        tone = "dim" if entry.gone else ""
        return [tuple(spans), *(((" " * before + part, tone),) for part in further)]


class SubjectView(LineView):
    """What is known of the interface of the chosen finding."""

    can_focus = False


class FindingsView(WhileOpen, Container):
    """List and page; `enter` gives the page the whole view. `here`: the time that is shown."""

    BINDINGS: ClassVar[list[BindingType]] = FINDINGS_KEYS

    def __init__(self, *, here: Callable[[], LocalClock], id: str | None = None) -> None:
        super().__init__(id=id)
        self._here = here
        self._recent = RecentFindings()
        self._diagnosis: Diagnosis | None = None
        self._hosts: Collection[str] = ()
        self._unread: Sequence[str] = ()
        self._changed_since: Sequence[str] = ()
        self._snapshots: Mapping[str, Snapshot] = {}
        self._chosen_fix: Fix | None = None
        """That of the chosen finding that the user has chosen."""
        self.skipped = False
        """Whether skipped checks are listed, too."""
        self.resolved = False
        """Whether findings that are resolved are, too."""
        self.full = False
        """Whether the page has the whole view."""
        self._has_several_fixes = False
        """Of the finding whose page is shown."""
        self.waiting: WaitingLines = no_lines

    def compose(self) -> ComposeResult:
        with Vertical(id="finding-column"):
            yield FindingList(id="finding-list")
            yield FilterLine(FindingList, FILTER_HINT, id="finding-filter")
            yield SubjectView(id="finding-subject")
        yield FindingPage(id="finding-page")

    @property
    def fix(self) -> tuple[Finding, Fix] | None:
        """The finding whose page is shown, and the fix that is shown there; None if that has no commands, or if the
        finding is gone."""
        entry = self.query_one(FindingList).entry
        if entry is None or entry.gone or not isinstance(entry.about, Finding):
            return None
        fixes = ordered_fixes(entry.about)
        fix = fixes[fix_index(fixes, self._chosen_fix)] if fixes else None
        return (entry.about, fix) if fix is not None and fix.commands else None

    def choose(self, finding: Finding) -> None:
        """The cursor is on this finding as soon as it is drawn, also if a filter had hidden it."""
        keys = (entry.key for entry in self._recent.entries if entry.about == finding)
        self.query_one(FindingList).begin(next(keys, None))
        self.query_one(FilterLine).action_end_filter()

    def remember(self, diagnosis: Diagnosis | None) -> None:
        """The findings are there now. None: not known, as after a jump in a recording."""
        now = self._here().monotonic
        if diagnosis is None:
            self._recent.forget(now)
        else:
            self._recent.update(diagnosis.findings, now)

    def show(
        self,
        diagnosis: Diagnosis | None,
        hosts: Collection[str],
        unread: Sequence[str] = (),
        changed_since: Sequence[str] = (),
        snapshots: Mapping[str, Snapshot] | None = None,
    ) -> None:
        """Remember the findings, and draw them if the view is visible. `hosts`: names of those that are watched, with
        their `snapshots` (None: as before);
        `unread`: of those that are not checked; `changed_since`: of those that were changed since they were read."""
        self._diagnosis, self._hosts, self._unread, self._changed_since = diagnosis, hosts, unread, changed_since
        self._snapshots = self._snapshots if snapshots is None else snapshots
        self.remember(diagnosis)
        if not self.display:
            return
        found = [one for one in self._recent.entries if not one.gone or self._is_watched(one)]
        skipped = keyed_checks(diagnosis.skipped) if diagnosis is not None and self.skipped else []
        resolved = [one for one in self._recent.resolved if self._is_watched(one)]
        listed, page, entry = self.query_one(FindingList), self.query_one(FindingPage), self.query_one(FilterLine)
        words = entry.value.casefold().split()
        entries = [*found, *skipped, *(resolved if self.resolved else ())]
        accepted = [one for one in entries if all(word in _text(one.about) for word in words)]
        entry.show_note(f"{len(accepted)} of {len(entries)}")
        empty_line: SpanLine = ((NO_MATCHES, "dim"),) if entries else self._empty_line()
        listed.show(
            accepted,
            several_hosts=self._several_hosts,
            empty_line=empty_line,
            hidden=0 if self.resolved else sum(all(word in _text(one.about) for word in words) for one in resolved),
            seen=lambda one: self._seen(one, MINUTE_CHARACTERS),
        )
        column = self.query_one("#finding-column")
        if column.display is self.full:
            column.display = not self.full
        counts = severity_counts_text(diagnosis.findings) if diagnosis is not None else ""
        if changed_since:
            hosts = f"{', '.join(changed_since)}: " if self._several_hosts else ""
            counts = " · ".join(filter(None, (counts, f"{hosts}{BEFORE_CHANGE}")))
        checks = checks_text(diagnosis, unread) if diagnosis is not None else ""
        _set_title(listed, f"Findings: {counts}" if counts else "Findings")
        is_titled = self.screen.has_class("-wide")  # the list has a border, which has the title
        before = "" if is_titled or not counts else f"{counts} · "
        if width(before + checks) > page.size.width - TITLE_CELLS:
            checks = checks_text(diagnosis, unread, brief=True) if diagnosis is not None else ""
        _set_title(page, before + checks)
        self.draw_page()

    @property
    def _several_hosts(self) -> bool:
        return len(self._hosts) > 1

    def _is_watched(self, entry: Entry) -> bool:
        """A host that was removed has resolved nothing."""
        return isinstance(entry.about, Finding) and entry.about.host in self._hosts

    def _seen(self, entry: Entry, characters: int | None = None) -> str:
        """``14:03:20-14:05:10``; `characters`: of each time."""
        here = self._here()
        times = (wall_clock_text(here.wall - here.monotonic + moment) for moment in (entry.first_seen, entry.last_seen))
        return "-".join(one[:characters] for one in times)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.show(self._diagnosis, self._hosts, self._unread, self._changed_since)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._has_several_fixes if action == "mark" else super().check_action(action, parameters)

    def _empty_line(self) -> SpanLine:
        cells = self.query_one(FindingList).scrollable_content_region.width
        if self._diagnosis is None:
            return ((fit(f" {NOT_CHECKED_TEXT}", cells), "dim"),)
        return no_problems_line(self._diagnosis, cells, self.glyphs, self._unread)

    def draw_page(self) -> None:
        page = self.query_one(FindingPage)
        cells = page.scrollable_content_region.width
        spaced = page.size.height >= SPACED_ROWS
        several, glyphs = self._several_hosts, self.glyphs
        entry = self.query_one(FindingList).entry
        several_fixes = entry is not None and isinstance(entry.about, Finding) and len(entry.about.fixes) > 1
        if several_fixes != self._has_several_fixes:
            self._has_several_fixes = several_fixes
            self.refresh_bindings()
        if entry is None:
            lines = self._empty_page(cells)
        elif isinstance(entry.about, SkippedCheck):
            lines = draw_skipped(entry.about, cells, several_hosts=several, spaced=spaced, glyphs=glyphs)
        else:
            lines = draw_finding(
                entry.about,
                cells,
                fix_index=fix_index(ordered_fixes(entry.about), self._chosen_fix),
                several_hosts=several,
                gone=self._gone_label(entry),
                spaced=spaced,
                glyphs=glyphs,
            )
        page.show_lines(lines)
        self._draw_subject(entry)

    def _draw_subject(self, entry: Entry | None) -> None:
        """Below a list that leaves half of its column empty: the interface, or the host, of the chosen finding."""
        view, listed = self.query_one("#finding-subject", LineView), self.query_one(FindingList)
        rows = self.query_one("#finding-column").size.height
        about = entry.about if entry is not None else None
        snapshot = self._snapshots.get(about.host) if isinstance(about, Finding) else None
        has_room = rows >= MIN_SUBJECT_COLUMN_ROWS and listed.virtual_size.height + listed.gutter.height <= rows // 2
        shown = has_room and isinstance(about, Finding) and snapshot is not None
        if view.display != shown:
            view.display = shown
        if not shown or snapshot is None or not isinstance(about, Finding):
            return
        view.take_rows(rows // 2)
        cells = view.scrollable_content_region.width
        _set_title(view, subject_text(about, several_hosts=True))
        lines = draw_subject(snapshot, about.ifindex, about.subject, cells, findings={}, glyphs=self.glyphs)
        most = rows // 2 - view.gutter.height
        view.show_lines(
            lines if len(lines) <= most else [*lines[: most - 1], ((" … everything else on Devices", "dim"),)]
        )

    def _gone_label(self, entry: Entry) -> str:
        if not entry.gone:
            return ""
        return f"resolved, seen {self._seen(entry)}" if entry.resolved else "no longer found"

    def _empty_page(self, cells: int) -> list[SpanLine]:
        """What follows from an empty list."""
        if self._diagnosis is None:
            return [*self.waiting(cells)]
        if self.query_one(FilterLine).value:
            return []
        texts = passed_texts(self._diagnosis, self._unread, live=True)
        return [((f" {part}", ""),) for text in texts for part in wrap(self.glyphs.text(text), cells - 2)]

    def on_finding_list_chosen(self) -> None:
        """Show the page of the newly chosen finding from its top, with its first fix."""
        self._chosen_fix = None
        self.query_one(FindingPage).scroll_to(y=0, animate=False)
        self.draw_page()

    def on_finding_list_page_requested(self, message: FindingList.PageRequested) -> None:
        page = self.query_one(FindingPage)
        page.scroll_relative(y=message.pages * max(1, page.size.height - 1), animate=False)

    def on_finding_page_fix_requested(self, message: FindingPage.FixRequested) -> None:
        self.action_mark(message.step)

    def action_mark(self, step: int) -> None:
        """Show the previous or next fix."""
        listed = self.query_one(FindingList)
        fixes = ordered_fixes(listed.chosen) if isinstance(listed.chosen, Finding) else ()
        before = fix_index(fixes, self._chosen_fix)
        index = max(0, min(len(fixes) - 1, before + step))
        if index != before and listed.index is not None:
            listed.choose_index(listed.index)  # the cursor stays on this finding, whichever is the first of the list
            self._chosen_fix = fixes[index]
            self.query_one(FindingPage).scroll_to(y=0, animate=False)
            self.draw_page()
            self.screen.refresh_bindings()


def _text(about: Finding | SkippedCheck) -> str:
    """What the filter searches."""
    if isinstance(about, Finding):
        words = (about.host, about.subject, about.rule, SEVERITY_LABELS[about.severity].word, about.title)
        return " ".join(words).casefold()
    return " ".join((about.rule, *(f"{one.host} {one.subject} {one.reason}" for one in about.places))).casefold()


def _set_title(view: LineView, title: str) -> None:
    title = view.glyphs.text(title).replace("[", r"\[")
    if view.border_title != title:
        view.border_title = title
