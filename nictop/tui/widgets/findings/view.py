"""All findings, one line each, and the chosen one in full, below them or (wide) beside them. On
demand also skipped checks, and findings that are resolved. The sizes of both parts do not depend on
the findings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.message import Message
from textual.widgets import Input

from nictop.model.facts import fit, width, wrap
from nictop.model.snapshot import Snapshot, reading_notice
from nictop.model.text.names import distinct_names, short_names
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import replace
from nictop.replay.position import wall_clock_text
from nictop.rules import Diagnosis, Finding, Fix
from nictop.rules.by_device import SubjectLoss, device_findings, losses_in
from nictop.rules.recent import Entry, RecentFindings, SkippedCheck, keyed_checks
from nictop.rules.unchecked import NOT_CHECKED_AGAIN, why_unchecked
from nictop.rules.wording import (
    LOST_SUBJECT,
    SEVERITY_LABELS,
    checks_text,
    is_checked,
    passed_texts,
    settings_age_text,
    severity_counts_text,
    subject_text,
)
from nictop.tui.keys import FINDINGS_KEYS
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.filter_line import FilterLine, no_matches
from nictop.tui.widgets.base.line_widget import (
    LineWidget,
    Span,
    SpanLine,
    WaitingLines,
    no_lines,
    span_cells,
    wrapped_lines,
)
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
from nictop.tui.widgets.findings.panel import no_problems_line, not_checked_line, severity_span

if TYPE_CHECKING:
    from nictop.model.time_axis import LocalClock

LOST: dict[SubjectLoss, str] = {"gone": "its NIC is gone", "down": "its link is down"}
CHOSEN_IS_RESOLVED = "The finding that was chosen is resolved."
READ_AGAIN = "read again, not checked yet"
READ_AGAIN_NOTICE = "its host was read again: the checks have not run on that yet"
WORD_MIN_CELLS = 100
"""Cells below which a line has the mark of the severity, but not its word."""
MAX_HOST_CELLS, MAX_SUBJECT_CELLS = 14, 16
MIN_TITLE_CELLS = 40
"""Of the title of a finding in the list, with its mark: where it has less, hosts have short
names."""
TITLE_CELLS = 4
"""Of the line around a title."""
MINUTE_CHARACTERS = len("14:03")
"""Of a time of day in the list; the page has the seconds."""
MIN_SUBJECT_COLUMN_ROWS = 38
"""Rows of the column of the list from which on its lower half has what is known of the chosen
finding's interface."""
FILTER_HINT = "filter: words of title, interface, host, severity or rule"


def fix_index(fixes: Sequence[Fix], chosen: Fix | None) -> int:
    """Index of the chosen fix, whose title or commands may have changed since; 0 if it is not there
    any more."""
    if chosen is None or not fixes:
        return 0
    alike = [2 * (fix.title == chosen.title) + (fix.commands == chosen.commands) for fix in fixes]
    return alike.index(max(alike))


def _names_in(cells: int, names: Collection[str]) -> dict[str, str]:
    """Name of a host → what is shown of it, at most `cells` cells wide, and of each host something
    else."""
    short = short_names(names)
    shown = distinct_names(short.values(), cells)
    return {name: shown[text] for name, text in short.items()}


class FindingList(ChoiceList):
    """One line per finding, more for long titles while there is room for all, and one that says how
    many resolved ones are hidden."""

    class Chosen(Message):
        """The cursor is on another finding."""

    class Opened(ChoiceList.Opened):
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
        self._hidden: frozenset[str] = frozenset()
        """Keys of the resolved findings that are not in `entries`."""
        self._left: str | None = None
        """Key of the chosen finding that was resolved while it was in the list."""
        self._lost = 0
        """Of these, those whose NIC is gone or down."""
        self.is_read = False
        """It was in sight: what is found later does not move the cursor."""
        self._seen: Callable[[Entry], str] = lambda entry: ""
        self._hosts: dict[str, str] = {}
        self._host_cells = self._subject_cells = 0
        self._wrapped: list[tuple[int, SpanLine]] = []
        """(Index of the entry, line) of all lines, if all titles fit in full; else empty: one line
        each."""

    @property
    def entry(self) -> Entry | None:
        """The chosen line."""
        index = self.index
        if index is None:
            return None
        return self.entries[index]

    @property
    def chosen(self) -> Finding | SkippedCheck | None:
        entry = self.entry
        if entry is None:
            return None
        return entry.about

    def show(
        self,
        entries: Sequence[Entry],
        *,
        several_hosts: bool,
        empty_line: SpanLine,
        hidden: Sequence[Entry],
        seen: Callable[[Entry], str],
    ) -> None:
        """Draw `entries`, or `empty_line` if there are none; the cursor stays on its finding.
        `hidden`: resolved ones that are not among them. `seen`: the time in which a finding was
        there, as text."""
        chosen = self.entry
        self.entries, self._several_hosts, self._empty_line = entries, several_hosts, empty_line
        self._hidden, self._seen = frozenset(entry.key for entry in hidden), seen
        self._lost = sum(bool(entry.lost) for entry in hidden)
        if chosen is not None:
            is_left = chosen.key in self._hidden and not chosen.resolved
            self._left = chosen.key if is_left else None
        findings = [entry.about for entry in entries if isinstance(entry.about, Finding)]
        subjects = [self._subject(finding) for finding in findings]
        self._subject_cells = min(self._widest(subjects), MAX_SUBJECT_CELLS)
        self._hosts = self._host_texts(findings) if several_hosts else {}
        self._host_cells = min(self._widest(self._hosts.values()), MAX_HOST_CELLS)
        self.set_keys([entry.key for entry in entries])
        self.redraw()

    def first_choice(self) -> int:
        """The first finding that is still there, until the list was in sight."""
        if self.is_read and self.index is not None:
            return self.index
        for index, entry in enumerate(self.entries):
            if not entry.gone:
                return index
        return 0

    @property
    def is_chosen_resolved(self) -> bool:
        """What the user has chosen has left the list as resolved."""
        return self.index is None and self.key is not None and self.key == self._left

    def index_instead(self, place: int) -> int | None:
        """A key may be pressed already for the finding that was just resolved: it is not for
        another one."""
        return None if self.is_chosen_resolved else super().index_instead(place)

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen())

    def action_page(self, pages: int) -> None:
        """The list has few rows and the page many: the keys that scroll by a page scroll that
        one."""
        self.post_message(self.PageRequested(pages))

    def _host_texts(self, findings: Iterable[Finding]) -> dict[str, str]:
        """Name of a host → what is shown of it: all, if there is room for all of them beside the
        titles."""
        names = {finding.host for finding in findings}
        widest = self._widest(names)
        title_cells = self.scrollable_content_region.width - widest - self._subject_cells
        is_wide = self.screen.has_class("-wide") and title_cells >= MIN_TITLE_CELLS
        if is_wide and widest <= MAX_HOST_CELLS:
            return {name: name for name in names}
        return _names_in(MAX_HOST_CELLS, names)

    def _widest(self, texts: Iterable[str]) -> int:
        """Cells of the widest one."""
        return max((width(self.glyphs.text(text)) for text in texts), default=0)

    def redraw(self) -> None:
        self._wrapped = self._wrapped_lines()
        entry_rows = len(self._wrapped) or max(1, len(self.entries))
        chosen_rows = (row for row, (entry, _) in enumerate(self._wrapped) if entry == self.index)
        cursor = next(chosen_rows, self.index)
        self.show_drawn(entry_rows + bool(self._hidden), self._list_line, None, cursor)

    def _wrapped_lines(self) -> list[tuple[int, SpanLine]]:
        """Empty: there is no room for more than one line each."""
        room = self.scrollable_content_region.height - bool(self._hidden)
        if len(self.entries) >= room:
            return []
        lines = []
        for index in range(len(self.entries)):
            lines += [(index, line) for line in self._entry_lines(index)]
        if len(lines) > room:
            return []
        return lines

    def line_at(self, y: int) -> int | None:
        """Index of the entry, or of what follows the entries."""
        line = super().line_at(y)
        if line is None or not self._wrapped:
            return line
        if line < len(self._wrapped):
            return self._wrapped[line][0]
        return line - len(self._wrapped) + len(self.entries)

    def on_click(self, event: events.Click) -> None:
        """The lines of findings are those of the base class."""
        line = self.line_at(event.get_content_offset_capture(self).y)
        behind_entries = max(1, len(self.entries))
        if self._hidden and line == behind_entries:
            self.post_message(self.ResolvedClicked())

    def _list_line(self, index: int) -> SpanLine:
        if index < len(self._wrapped):
            return self._wrapped[index][1]
        if self._wrapped:
            index += len(self.entries) - len(self._wrapped)
        if index < len(self.entries):
            return self._entry_lines(index, is_cut=True)[0]
        if index == 0:
            return self._empty_line
        key = self.key_label("options")
        return ((f" {self._hidden_text()} ({key})", "dim"),)

    def _hidden_text(self) -> str:
        resolved = len(self._hidden) - self._lost
        parts: list[str] = []
        if resolved:
            parts.append(f"{self.glyphs.passed} {resolved} resolved")
        if self._lost:
            parts.append(f"{self.glyphs.skipped} {self._lost} {LOST_SUBJECT}")
        return " ".join(parts)

    def _subject(self, finding: Finding) -> str:
        if self._several_hosts:
            return finding.subject
        return finding.subject or finding.host

    def _entry_lines(self, index: int, *, is_cut: bool = False) -> list[SpanLine]:
        """Mark, host, subject, title; `is_cut`: on one line."""
        entry, cells = self.entries[index], self.scrollable_content_region.width
        if isinstance(entry.about, SkippedCheck):
            return [self._skipped_line(entry.about, cells)]
        spans = self._spans_before_title(entry, entry.about, cells)
        before = span_cells(spans)
        title, room = self._title_text(entry, entry.about), max(0, cells - before)
        parts: Sequence[str] = [fit(title, room)]
        if not is_cut:
            parts = wrap(title, room) or ("",)
        spans.append((parts[0], ""))
        tone = ""
        if entry.gone:
            tone = "dim"
            mark = self.glyphs.skipped if entry.lost else self.glyphs.passed
            spans = [(f" {mark} ", tone), *((text, tone) for text, _ in spans[1:])]
        elif entry.unchecked or entry.about.outdated:
            tone = "dim"
            spans = [(text, tone) for text, _ in spans]
        return [tuple(spans), *(((" " * before + part, tone),) for part in parts[1:])]

    def _title_text(self, entry: Entry, finding: Finding) -> str:
        title = self.glyphs.text(finding.title)
        if entry.lost:
            return f"{LOST[entry.lost]}: {title}"
        if entry.unchecked:
            return f"{NOT_CHECKED_AGAIN}: {title}"
        return title

    def _skipped_line(self, check: SkippedCheck, cells: int) -> SpanLine:
        """Its name, and where it was not made, and why."""
        reasons = []
        for reason, where in skipped_places(check, several_hosts=self._several_hosts):
            reasons.append(f"{reason} ({where})" if where else reason)
        text = self.glyphs.text(f"{check.rule}: {'; '.join(reasons)}")
        return ((fit(f" {self.glyphs.skipped} {text}", cells), "dim"),)

    def _spans_before_title(self, entry: Entry, finding: Finding, cells: int) -> list[Span]:
        """Mark; time of a resolved finding, or word of the severity; host; subject."""
        mark = severity_span(_as_shown(entry, finding), self.glyphs)
        spans: list[Span] = [mark]
        if entry.resolved:
            spans.append((f"{self._seen(entry)} ", ""))
        elif cells >= WORD_MIN_CELLS:
            spans.append((f"{SEVERITY_LABELS[finding.severity].word:<9}", mark[1]))
        text = self.glyphs.text
        if self._host_cells:
            spans.append((fit(text(self._hosts[finding.host]), self._host_cells) + " ", ""))
        spans.append((fit(text(self._subject(finding)), self._subject_cells) + " ", "title"))
        return spans


class SubjectLines(LineWidget):
    """What is known of the interface of the chosen finding."""

    can_focus = False


class FindingsView(WhileOpen, Container):
    """List and page; `enter` gives the page the whole view. `here`: the time that is shown."""

    BINDINGS: ClassVar[list[BindingType]] = FINDINGS_KEYS

    class NoFurtherFix(Message):
        """The first (-1) or last (1) fix is shown."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, *, here: Callable[[], LocalClock], id: str | None = None) -> None:
        super().__init__(id=id)
        self._here = here
        self.recent = RecentFindings()
        self._diagnosis: Diagnosis | None = None
        self._was_checked = False
        """There was a diagnosis before."""
        self._hosts: Collection[str] = ()
        self._unread: Sequence[str] = ()
        self._outdated: Mapping[str, str] = {}
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
            yield SubjectLines(id="finding-subject")
        yield FindingPage(id="finding-page")

    @property
    def fix(self) -> tuple[Finding, Fix] | None:
        """The finding whose page is shown, and the fix that is shown there; None if that has no
        commands, or if the finding is gone."""
        entry = self.query_one(FindingList).entry
        if entry is None or entry.gone or not isinstance(entry.about, Finding):
            return None
        fixes = ordered_fixes(entry.about)
        if not fixes:
            return None
        fix = fixes[fix_index(fixes, self._chosen_fix)]
        if not fix.commands:
            return None
        return entry.about, fix

    @property
    def why_no_fix(self) -> str:
        """Why `fix` is None."""
        entry = self.query_one(FindingList).entry
        if entry is None:
            return "No finding is chosen."
        if entry.gone:
            return "The chosen finding is resolved."
        if not isinstance(entry.about, Finding):
            return "The chosen line is no finding."
        fixes = ordered_fixes(entry.about)
        title = clean(entry.about.title)
        if not any(fix.commands for fix in fixes):
            return f"This finding has no command: {title}."
        return "The chosen fix has no command; another one of this finding has."

    def choose(self, finding: Finding) -> None:
        """The cursor is on this finding as soon as it is drawn, also if a filter had hidden it."""
        keys = (entry.key for entry in self.recent.entries if _is_about(entry, finding))
        self.query_one(FindingList).begin(next(keys, None))
        self.query_one(FilterLine).action_end_filter()

    def remember(
        self,
        diagnosis: Diagnosis | None,
        snapshots: Mapping[str, Snapshot] | None = None,
    ) -> None:
        """The findings are there now. None: not known, as after a jump in a recording.
        `snapshots`: of their hosts; None: as at the last `show`."""
        known = self._snapshots if snapshots is None else snapshots
        now = self._here().monotonic
        if diagnosis is None:
            self.recent.forget(now)
        else:
            self.recent.update(diagnosis, now, losses_in(known))

    def show(
        self,
        diagnosis: Diagnosis | None,
        hosts: Collection[str],
        unread: Sequence[str] = (),
        outdated: Mapping[str, str] | None = None,
        snapshots: Mapping[str, Snapshot] | None = None,
    ) -> None:
        """Remember the findings, and draw them if the view is visible. `hosts`: names of those
        that are watched, with their `snapshots` (None: as before); `unread`: of those that are
        not checked; `outdated`: see `Hosts.outdated`."""
        self._diagnosis, self._hosts = diagnosis, hosts
        self._was_checked = self._was_checked or diagnosis is not None
        self._unread, self._outdated = unread, outdated or {}
        if snapshots is not None:
            self._snapshots = snapshots
        self.remember(diagnosis)
        if not self.display:
            self._snapshots = {}  # they may be replaced before the view is shown
            return
        self._draw_list()
        column = self.query_one("#finding-column")
        if column.display is self.full:
            column.display = not self.full
        self._draw_titles()
        self.draw_page()

    @property
    def _several_hosts(self) -> bool:
        return len(self._hosts) > 1

    def _is_watched(self, entry: Entry) -> bool:
        """A host that was removed has resolved nothing."""
        return isinstance(entry.about, Finding) and entry.about.host in self._hosts

    def _draw_list(self) -> None:
        """The entries that the filter accepts."""
        entries, filter_line = self._entries(), self.query_one(FilterLine)
        words = filter_line.value.casefold().split()
        accepted = [entry for entry in entries if _has_words(entry, words)]
        filter_line.show_note(f"{len(accepted)} of {len(entries)}")
        hidden = [] if self.resolved else self._resolved_entries()
        self.query_one(FindingList).show(
            accepted,
            several_hosts=self._several_hosts,
            empty_line=self._empty_line(has_entries=bool(entries)),
            hidden=[entry for entry in hidden if _has_words(entry, words)],
            seen=lambda entry: self._seen(entry, MINUTE_CHARACTERS),
        )
        self.query_one(FindingList).is_read = True

    def _entries(self) -> list[Entry]:
        """Findings; below them skipped checks and resolved findings, where they are wanted."""
        recent = self.recent.entries
        entries = [
            entry
            for entry in recent
            if not (entry.gone or entry.unchecked) or self._is_watched(entry)
        ]
        if self.skipped and self._diagnosis is not None:
            entries += keyed_checks(self._diagnosis.skipped)
        if self.resolved:
            entries += self._resolved_entries()
        return entries

    def _resolved_entries(self) -> list[Entry]:
        return [entry for entry in self.recent.resolved if self._is_watched(entry)]

    def _draw_titles(self) -> None:
        """Numbers of findings, and of checks; on a narrow screen both are in the title of the
        page."""
        page, counts = self.query_one(FindingPage), self._counts_texts()
        cells = page.size.width - TITLE_CELLS
        silence = self._silence_text()
        list_title = " · ".join(filter(None, (*counts, silence)))
        _set_title(self.query_one(FindingList), ": ".join(filter(None, ("Findings", list_title))))
        if self.screen.has_class("-wide"):  # the list has its own title, in its border
            _set_title(page, self._checks_text(cells))
            return
        title = ""
        # The checks say of how many hosts they are: of two texts about a silent host, theirs stays.
        for silence_text in (silence, ""):
            before = "".join(f"{text} · " for text in (*counts, silence_text) if text)
            title = before + self._checks_text(cells - width(before))
            if width(title) <= cells:
                break
        _set_title(page, title)

    def _counts_texts(self) -> list[str]:
        """``1 critical, 3 warnings``, ``web1: read before it changed``"""
        parts = []
        if self._diagnosis is not None:
            parts.append(severity_counts_text(self._diagnosis.findings))
            entries = self.recent.entries
            unchecked = sum(entry.unchecked and self._is_watched(entry) for entry in entries)
            if unchecked:
                parts.append(f"{unchecked} {NOT_CHECKED_AGAIN}")
            lost = self.recent.lost(self._hosts)
            if lost:
                parts.append(f"{lost} {LOST_SUBJECT}")
        parts += self._outdated_texts()
        return list(filter(None, parts))

    def _outdated_texts(self) -> Sequence[str]:
        """``web1, web2: read before an event (link)``, one for each text."""
        outdated = {**self._outdated, **dict.fromkeys(self._hosts_to_check, READ_AGAIN)}
        texts = list(dict.fromkeys(outdated.values()))
        if not self._several_hosts:
            return texts
        hosts_by_text: dict[str, list[str]] = {}
        for host, text in outdated.items():
            hosts_by_text.setdefault(text, []).append(host)
        return [f"{', '.join(hosts)}: {text}" for text, hosts in hosts_by_text.items()]

    @property
    def _hosts_to_check(self) -> Iterable[str]:
        """Hosts that were read again after an event, while the findings are still those of before:
        the rules are being run."""
        if self._diagnosis is None:
            return ()
        doubtful = dict.fromkeys(one.host for one in self._diagnosis.findings if one.outdated)
        return [host for host in doubtful if self._is_read_again(host)]

    def _is_read_again(self, host: str) -> bool:
        snapshot = self._snapshots.get(host)
        if snapshot is None or snapshot.silence is not None:
            return False
        return host not in self._outdated and not reading_notice(snapshot)

    def _silence_text(self) -> str:
        """``g2: no data``, ``no data of 2 hosts``: a title has no room for long names."""
        silent = [name for name, host in self._snapshots.items() if host.silence is not None]
        if not silent:
            return ""
        if not self._several_hosts:
            return "no data"
        if len(silent) == 1 and width(silent[0]) <= MAX_HOST_CELLS:
            return f"{silent[0]}: no data"
        return f"no data of {count_noun(len(silent), 'host')}"

    def _checks_text(self, cells: int) -> str:
        """In as many words as these cells have room for."""
        if self._diagnosis is None:
            return ""
        for why in (True, False):
            text = checks_text(self._diagnosis, self._unread, why=why)
            if width(text) <= cells:
                return text
        return checks_text(self._diagnosis, self._unread, brief=True)

    def _seen(self, entry: Entry, characters: int | None = None) -> str:
        """``14:03:20-14:05:10``; `characters`: of each time."""
        here = self._here()
        boot = here.wall - here.monotonic
        first = wall_clock_text(boot + entry.first_seen)
        last = wall_clock_text(boot + entry.last_seen)
        return f"{first[:characters]}-{last[:characters]}"

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.show(self._diagnosis, self._hosts, self._unread, self._outdated)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "mark":
            return self._has_several_fixes
        return super().check_action(action, parameters)

    def _empty_line(self, *, has_entries: bool) -> SpanLine:
        """`has_entries`: the filter accepts none of them."""
        if has_entries:
            return ((f" {no_matches(self.key_label)}", "dim"),)
        cells = self.query_one(FindingList).scrollable_content_region.width
        if self._diagnosis is None:
            return not_checked_line(cells, was_checked=self._was_checked)
        age = settings_age_text(self._snapshots.values())
        return no_problems_line(self._diagnosis, cells, self.glyphs, self._unread, age=age)

    def draw_page(self) -> None:
        page, entry = self.query_one(FindingPage), self.query_one(FindingList).entry
        self._offer_fixes(entry)
        page.show_lines(self._page_lines(entry, page.scrollable_content_region.width))
        self._draw_subject(entry)

    def _offer_fixes(self, entry: Entry | None) -> None:
        """The keys that choose a fix are offered where there are several."""
        finding, _ = self._finding_and_snapshot(entry)
        has_several = finding is not None and len(finding.fixes) > 1
        if has_several != self._has_several_fixes:
            self._has_several_fixes = has_several
            self.refresh_bindings()

    def _page_lines(self, entry: Entry | None, cells: int) -> Sequence[SpanLine]:
        if entry is None:
            return self._empty_page(cells)
        is_spaced = self.query_one(FindingPage).size.height >= SPACED_ROWS
        if isinstance(entry.about, SkippedCheck):
            return draw_skipped(
                entry.about,
                cells,
                several_hosts=self._several_hosts,
                spaced=is_spaced,
                glyphs=self.glyphs,
            )
        snapshot = self._snapshots.get(entry.about.host)
        return draw_finding(
            _as_shown(entry, entry.about),
            cells,
            fix_index=fix_index(ordered_fixes(entry.about), self._chosen_fix),
            several_hosts=self._several_hosts,
            gone=self._gone_label(entry),
            gone_mark=self.glyphs.skipped if entry.lost else self.glyphs.passed,
            notice=self._doubt(entry, snapshot),
            spaced=is_spaced,
            glyphs=self.glyphs,
        )

    def _draw_subject(self, entry: Entry | None) -> None:
        """Below a list that leaves half of its column empty: the interface, or the host, of the
        chosen finding."""
        view = self.query_one("#finding-subject", LineWidget)
        rows = self._free_rows()
        finding, snapshot = self._finding_and_snapshot(entry)
        is_shown = rows > 0 and snapshot is not None
        if view.display != is_shown:
            view.display = is_shown
        if not rows or finding is None or snapshot is None:
            return
        view.take_rows(rows)
        cells = view.scrollable_content_region.width
        _set_title(view, subject_text(finding, several_hosts=True))
        lines = draw_subject(
            snapshot,
            finding.ifindex,
            finding.subject,
            cells,
            findings=device_findings(self._diagnosis, finding.host),
            is_checked=is_checked(self._diagnosis, snapshot),
            lists_findings=False,
            glyphs=self.glyphs,
        )
        most = rows - view.gutter.height
        if len(lines) > most:
            lines = [*lines[: most - 1], ((" … everything else on Devices", "dim"),)]
        view.show_lines(lines)

    def _finding_and_snapshot(self, entry: Entry | None) -> tuple[Finding | None, Snapshot | None]:
        """The finding of an entry, and the newest snapshot of its host; None: there is none."""
        if entry is None or not isinstance(entry.about, Finding):
            return None, None
        return entry.about, self._snapshots.get(entry.about.host)

    def _doubt(self, entry: Entry, snapshot: Snapshot | None) -> str:
        """Why the finding may not be so any more."""
        notice = reading_notice(snapshot) if snapshot is not None else ""
        if entry.unchecked:
            return " · ".join(filter(None, (self._why_unchecked(entry.about), notice)))
        if isinstance(entry.about, Finding) and entry.about.host in self._hosts_to_check:
            return READ_AGAIN_NOTICE if entry.about.outdated else ""
        return notice

    def _why_unchecked(self, about: Finding | SkippedCheck) -> str:
        """``not checked again yet: NetworkManager (D-Bus): no answer within 5 s``"""
        if self._diagnosis is None or not isinstance(about, Finding):
            return NOT_CHECKED_AGAIN
        reasons = why_unchecked(about, self._diagnosis)
        if not reasons:
            return NOT_CHECKED_AGAIN
        return f"{NOT_CHECKED_AGAIN}: {'; '.join(reasons)}"

    def _gone_label(self, entry: Entry) -> str:
        if entry.lost:
            return f"{LOST[entry.lost]}, seen {self._seen(entry)}"
        if entry.resolved:
            return f"resolved, seen {self._seen(entry)}"
        if entry.gone:
            return "no longer found"
        return ""

    def _free_rows(self) -> int:
        """Half of the column, if the list leaves that empty; else 0."""
        listed, rows = self.query_one(FindingList), self.query_one("#finding-column").size.height
        half = rows // 2
        used = listed.virtual_size.height + listed.gutter.height
        if rows < MIN_SUBJECT_COLUMN_ROWS or used > half:
            return 0
        return half

    def _empty_page(self, cells: int) -> list[SpanLine]:
        """What follows from an empty list."""
        if self._diagnosis is None:
            return [*self.waiting(cells)]
        if self.query_one(FindingList).is_chosen_resolved:
            return [((f" {CHOSEN_IS_RESOLVED}", "dim"),)]
        if self.query_one(FilterLine).value:
            return []
        lines: list[SpanLine] = []
        key = self.key_label("options")
        for text in passed_texts(self._diagnosis, self._unread, live=True, key=key):
            lines += wrapped_lines(self.glyphs.text(text), cells - 2)
        return lines

    def on_finding_list_chosen(self) -> None:
        """Show the page of the newly chosen finding from its top, with its first fix."""
        self._chosen_fix = None
        self.query_one(FindingPage).scroll_to(y=0, animate=False)
        self.draw_page()

    def on_finding_list_page_requested(self, message: FindingList.PageRequested) -> None:
        self.query_one(FindingPage).scroll_pages(message.pages)

    def on_finding_page_fix_requested(self, message: FindingPage.FixRequested) -> None:
        self.action_mark(message.step)

    def action_mark(self, step: int) -> None:
        """Show the previous or next fix."""
        listed = self.query_one(FindingList)
        if listed.index is None or not isinstance(listed.chosen, Finding):
            return
        fixes = ordered_fixes(listed.chosen)
        before = fix_index(fixes, self._chosen_fix)
        index = max(0, min(len(fixes) - 1, before + step))
        if index == before:
            self.post_message(self.NoFurtherFix(step))
            return
        # the cursor stays on this finding, whichever is the first of the list
        listed.choose_index(listed.index)
        self._chosen_fix = fixes[index]
        self.query_one(FindingPage).scroll_to(y=0, animate=False)
        self.draw_page()
        self.screen.refresh_bindings()


def _as_shown(entry: Entry, finding: Finding) -> Finding:
    """With the mark of what may have changed if it was not checked again, as the tab has it."""
    return replace(finding, outdated=True) if entry.unchecked else finding


def _is_about(entry: Entry, finding: Finding) -> bool:
    """The finding may have a remark before its title."""
    about = entry.about
    if not isinstance(about, Finding) or not finding.title.endswith(about.title):
        return False
    return about.identity == finding.identity


def _has_words(entry: Entry, words: Sequence[str]) -> bool:
    """All of them, in small letters."""
    return all(word in _text(entry.about) for word in words)


def _text(about: Finding | SkippedCheck) -> str:
    """What the filter searches."""
    if isinstance(about, Finding):
        severity = SEVERITY_LABELS[about.severity].word
        words = [about.host, about.subject, about.rule, severity, about.title]
    else:
        words = [about.rule]
        for place in about.places:
            words += [place.host, place.subject, place.reason]
    return " ".join(words).casefold()


def _set_title(view: LineWidget, title: str) -> None:
    title = view.glyphs.text(title).replace("[", r"\[")
    if view.border_title != title:
        view.border_title = title
