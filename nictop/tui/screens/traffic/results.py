"""The stored results, or those of the recording that is shown: open one, or mark two set-ups as A
and B, which are compared below the list.

Reads the directory of `nictop.traffic.results.selection`, in a thread; changes nothing there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import Input

from nictop.errors import NictopError
from nictop.model.facts import clean, wrap
from nictop.model.text.words import count_noun
from nictop.replay.position import wall_clock_text
from nictop.report.runs.limits import shortened
from nictop.report.runs.points import median_run
from nictop.report.runs.sentences import result_sentences
from nictop.traffic.live.run_view import RunView, result_view
from nictop.traffic.results.selection import StoredRun, StoredRuns, directory, stored_runs
from nictop.tui.filter_help import RESULT_FILTER, FilterRows
from nictop.tui.keys import RESULTS_KEYS, STORED_RUN_KEYS, shown_key
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.traffic.run_page import RunPage, sentence_lines
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine
from nictop.tui.widgets.traffic.comparison_view import ComparisonLines
from nictop.tui.widgets.traffic.results_list import (
    COLUMNS,
    ResultGroup,
    SetUpList,
    set_up_text,
    set_ups,
)

if TYPE_CHECKING:
    from textual.worker import WorkType

    from nictop.model.columns.column import Column
    from nictop.replay.results import RecordedResults
    from nictop.replay.run_index import RunMarks
    from nictop.tui.controllers.replay import Replay

SUMMARY_KINDS = (
    *(
        "event",
        "failed",
        "type",
        "under load",
        "idle",
        "loaded",
        "goodput",
        "transactions",
        "latency",
        "connect",
        "held back",
    ),
    *("path", "path finding", "ceiling", "floor", "note", "not ranked"),
)
"""Kinds of sentences that are shown below the list."""
FILTER_HINT = "filter: host, NIC, tcp, reverse, iperf3, MTU or words of the label"
MARK_HINT = "m marks this result as A, and another one as B"
KEYS_TO_TESTS = {
    "next": "the next finding or test",
    "traffic": "the chart of the test",
    "pane": "the timeline",
}
"""Key → where it goes in a recording."""
MAX_LISTED_TESTS = 10
"""Of a recording, while none of them has ended."""
MAX_TROUBLE_ROWS = 3
"""Rows for files that cannot be read."""


class ResultsScreen(FramedScreen):
    """The first screen of its tab."""

    TAB = "results"
    BINDINGS: ClassVar[list[BindingType]] = RESULTS_KEYS

    def __init__(self) -> None:
        super().__init__()
        self._recorded: tuple[float, tuple[RunMarks, ...], RecordedResults] | None = None
        """Of the recording: its end and its tests when they were read, and their results."""
        self._known: tuple[RecordedResults, int] | None = None
        """Those of the tests that had ended at the time that is shown, and the number of those that
        had begun."""
        self._set_ups: Sequence[ResultGroup] = ()
        self._empty: Sequence[str] = ()
        """What to say if there are none."""
        self._newest = ""
        """Key of the newest result that was shown."""

    @property
    def tables(self) -> Mapping[str, Sequence[Column[Any]]]:
        return {"": COLUMNS}

    @property
    def filter_rows(self) -> FilterRows:
        return RESULT_FILTER

    def compose_body(self) -> Iterable[Widget]:
        with Container(id="results-body"):
            yield SetUpList(id="results-list")
            yield FilterLine(SetUpList, FILTER_HINT, id="results-filter")
            yield ComparisonLines(id="results-comparison")
        yield LineWidget(id="results-message")

    def on_mount(self) -> None:
        self.query_one("#results-message").can_focus = False
        table = self.query_one(SetUpList)
        table.border_title = "Results"
        self.query_one(ComparisonLines).border_title = "Result"
        table.show((), ("Reading results…",))
        table.focus()
        if self.nictop.replay is not None:
            self.subscribe(self.nictop.replay.changed, self._follow)

    def on_screen_resume(self) -> None:
        """Read them anew; what is shown stays meanwhile."""
        work: WorkType[None] = self._read
        self.run_worker(work, name="results", group="results", exclusive=True)

    async def _read(self) -> None:
        if self.nictop.replay is not None:
            await self._read_recorded(self.nictop.replay)
            return
        saved = StoredRuns()
        said: list[str] = []
        try:
            saved = await asyncio.to_thread(stored_runs, directory(os.environ))
        except NictopError as error:
            said.append(error.message)
        said += [f"{path.name}: {sentence}" for path, sentence in saved.unreadable]
        if saved.left_out:
            said.append(f"{count_noun(saved.left_out, 'older result')} not listed")
        none_yet = f"No results yet. Press {self.key_label('traffic')} to run a test."
        self._show([run for _, run in saved.results], said, (none_yet,))

    async def _read_recorded(self, replay: Replay) -> None:
        """All tests of the recording; shown are those that have ended at the time that is shown
        (`_follow`)."""
        from nictop.replay.results import recorded_results

        recording = replay.playback.recording
        if self._recorded is None or self._recorded[:2] != (recording.end, replay.runs):
            runs = replay.runs
            self._recorded = recording.end, runs, await recorded_results(recording, recording.end)
        self._known = None
        self._follow()

    def _follow(self) -> None:
        """Show the results that were known at the time that is shown: it has passed, or it
        jumped."""
        replay = self.nictop.replay
        if replay is None or self._recorded is None or not self.in_sight:
            return
        _, runs, results = self._recorded
        if runs != replay.runs:
            self.on_screen_resume()  # the file has grown
            return
        now = self.nictop.now()
        known = results.until(now)
        begun = sum(run.begin <= now for run in runs)
        if (known, begun) != self._known:
            self._known = known, begun
            missing = [test.sentence for test in known.missing]
            self._show(known.runs[::-1], missing, self._why_none(replay))

    def _why_none(self, replay: Replay) -> Sequence[str]:
        """At the time that is shown: which tests there are, and the keys that go there."""
        if not replay.runs:
            return ("No traffic test was recorded.",)
        now, recording, count = self.nictop.now(), replay.playback.recording, len(replay.runs)
        lines = ["No traffic test has ended at this time.", ""]
        for number, run in enumerate(replay.runs[:MAX_LISTED_TESTS], 1):
            state = "has been running since" if run.begin <= now else "begins at"
            at = wall_clock_text(recording.wall_time(run.begin))
            lines.append(f"Test {number} of {count} {state} {at}: {run.hosts_text}")
        lines.append("")
        for key, words in KEYS_TO_TESTS.items():
            lines.append(f"{shown_key(self.app, key)}: {words}")
        return lines

    def _show(self, runs: Sequence[StoredRun], said: Sequence[str], empty: Sequence[str]) -> None:
        """`runs`: newest first; if there is a new one, it is chosen. `said`: what is not among
        them, and why."""
        if self.is_open:
            table, rows = self.query_one(SetUpList), set_ups(runs)
            if rows and rows[0].key != self._newest:
                self._newest = rows[0].key
                table.begin(None)
            self._set_ups, self._empty = rows, empty
            self._draw_list()
            self._show_messages(said)
            self._compare()

    def _divide(self) -> None:
        """Give the list the rows that it needs, at most two fifths, and all others to what is below
        it; without results there is nothing below it."""
        table, count = self.query_one(SetUpList), len(self._set_ups)
        most = self.query_one("#results-body").size.height * 2 // 5
        needed = count + 1 + table.gutter.height
        table.take_rows(min(needed, most) if count else None)
        self.query_one(ComparisonLines).display = count > 0

    def _draw_list(self) -> None:
        """The results that the filter accepts."""
        self._divide()
        table, entry = self.query_one(SetUpList), self.query_one(FilterLine)
        table.show(self._set_ups, self._empty, entry.value.casefold().split())
        number = f"{table.count} of {len(self._set_ups)}"
        entry.show_note(number)
        table.border_title = f"Results: {number}" if entry.value else "Results"

    def _show_messages(self, sentences: Sequence[str]) -> None:
        view = self.query_one("#results-message", LineWidget)
        lines: list[SpanLine] = []
        for sentence in sentences:
            for part in wrap(clean(sentence), max(10, self.size.width - 2)):
                lines.append(((f" {self.glyphs.encode(part)}", "warn"),))
        lines = lines[:MAX_TROUBLE_ROWS]
        view.show_lines(lines)
        view.display = bool(lines)
        view.take_rows(max(1, len(lines)))

    # ----------------------------------------------------------------------------------------- keys

    def draw_resized(self) -> None:
        self._divide()
        self.query_one(SetUpList).redraw()
        self._compare()

    def on_input_changed(self, event: Input.Changed) -> None:
        """The filter."""
        event.stop()
        self._draw_list()
        self._compare()

    def action_filter(self) -> None:
        self.query_one(FilterLine).begin()

    async def action_back(self) -> None:
        entry = self.query_one(FilterLine)
        if entry.display:
            entry.action_end_filter()
        else:
            await super().action_back()

    def on_choice_list_opened(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        row = self.query_one(SetUpList).chosen
        if row is not None:
            self.app.push_screen(StoredRunScreen(row))

    def _compare(self) -> None:
        """A against B; without a pair the median run of the chosen set-up."""
        table, view = self.query_one(SetUpList), self.query_one(ComparisonLines)
        pair = table.compared
        if pair is not None:
            view.border_title = "A against B"
            view.show(pair)
        else:
            view.border_title = "Result"
            view.show(None, self._summary(table.chosen))
        self.refresh_bindings()

    def _summary(self, row: ResultGroup | None) -> Sequence[SpanLine]:
        """All sentences about the median run; if they do not fit, the most important ones."""
        if row is None:
            return ()
        result = (median_run(row.point) or row.first).result
        room = self.query_one(ComparisonLines).scrollable_content_region
        sentences = result_sentences(result)
        more = [("test", set_up_text(row)), ("compare", MARK_HINT)]
        messages: list[tuple[str, str]] = [*sentences, *more]
        whole = sentence_lines(messages, room.width, glyphs=self.glyphs, limits=result.limits)
        if len(whole) <= room.height:
            return whole
        brief: list[tuple[str, str]] = []
        for sentence in sentences:
            if sentence.kind in SUMMARY_KINDS:
                brief.append(shortened(result.limits, sentence))
        return sentence_lines([*brief, *more], room.width, glyphs=self.glyphs)

    def on_set_up_list_chosen(self) -> None:
        self._compare()

    def action_mark(self) -> None:
        results = self.query_one(SetUpList)
        if results.chosen is None:
            self.nictop.notify("No result to mark.", "Mark A/B")  # the palette's, not the key's
            return
        results.mark()
        self._compare()

    def action_swap(self) -> None:
        self.query_one(SetUpList).swap()
        self._compare()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Two marked results can be swapped."""
        match action:
            case "swap":
                return self.is_open and len(self.query_one(SetUpList).marks) == 2
            case "open" | "mark":
                return self.is_open and self.query_one(SetUpList).chosen is not None
        return super().check_action(action, parameters)


class StoredRunScreen(RunPage):
    """A stored run; a key goes to the others of its experiment."""

    TAB = "results"
    BINDINGS: ClassVar[list[BindingType]] = STORED_RUN_KEYS

    def __init__(self, row: ResultGroup) -> None:
        super().__init__()
        self._runs = row.experiment
        self._index = row.experiment.index(row.first)
        self._run_view = result_view(row.first.result)

    def on_mount(self) -> None:
        self._draw_soon()

    def run_view(self) -> RunView | None:
        return self._run_view

    def run_results(self) -> Sequence[StoredRun]:
        return self._runs

    def title_parts(self, run_view: RunView | None) -> Sequence[str]:
        run, count = self._runs[self._index], len(self._runs)
        varied = f"{run.variable} {run.value}" if run.value else ""
        place = f"run {self._index + 1} of {count}" if count > 1 else ""
        return (run.label, place, varied)

    def more_sentences(self) -> Sequence[tuple[str, str]]:
        return ()

    def action_next(self, step: int) -> None:
        self._index = (self._index + step) % len(self._runs)
        self._run_view = result_view(self._runs[self._index].result)
        self._draw_soon()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There are others only in an experiment of several."""
        if action == "next":
            return len(self._runs) > 1
        return super().check_action(action, parameters)
