"""The results that are kept: open one, or mark two set-ups as A and B and compare them.

Reads the directory of `nictop.traffic.results.selection`, in a thread; changes nothing there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from nictop.errors import NictopError
from nictop.model.facts import clean, wrap
from nictop.model.text.words import count_noun
from nictop.traffic.live.run_view import RunView, result_view
from nictop.traffic.results.selection import StoredRun, StoredRuns, directory, stored_runs
from nictop.tui.keys import KEPT_KEYS, KEPT_RUN_KEYS
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.traffic.comparison import ComparisonScreen
from nictop.tui.screens.traffic.run_page import RunPage
from nictop.tui.widgets.base.line_view import LineView
from nictop.tui.widgets.traffic.results_list import ResultGroup, SetUpList, set_ups

if TYPE_CHECKING:
    from textual.worker import WorkType


MAX_TROUBLE_ROWS = 3
"""Rows for files that cannot be read."""


class KeptScreen(FramedScreen):
    """The first screen of its tab."""

    TAB = "results"
    BINDINGS: ClassVar[list[BindingType]] = KEPT_KEYS

    def compose_body(self) -> Iterable[Widget]:
        yield SetUpList(id="kept-list")
        yield LineView(id="kept-trouble")

    def on_mount(self) -> None:
        self.query_one("#kept-trouble").can_focus = False
        table = self.query_one(SetUpList)
        table.border_title = "Kept runs"
        table.show((), ("reading …",))
        table.focus()

    def on_screen_resume(self) -> None:
        """Read them anew; what is shown stays meanwhile."""
        work: WorkType[None] = self._read
        self.run_worker(work, name="kept runs", group="kept", exclusive=True)

    async def _read(self) -> None:
        found, trouble = StoredRuns(), ""
        try:
            found = await asyncio.to_thread(stored_runs, directory(os.environ))
        except NictopError as error:
            trouble = error.message
        if self.is_open:
            self._show(found, trouble)

    def _show(self, found: StoredRuns, trouble: str) -> None:
        table = self.query_one(SetUpList)
        table.show(set_ups([kept for _, kept in found.runs]), ("Nothing is kept yet: every run that ends is.",))
        said = [trouble] if trouble else []
        said += [f"{path.name}: {sentence}" for path, sentence in found.unreadable]
        said += [f"not listed: {count_noun(found.left_out, 'older result')}"] if found.left_out else []
        self._say(said)
        self.refresh_bindings()

    def _say(self, sentences: Sequence[str]) -> None:
        view = self.query_one("#kept-trouble", LineView)
        lines = [
            ((f" {self.glyphs.encode(part)}", "warn"),)
            for sentence in sentences
            for part in wrap(clean(sentence), max(10, self.size.width - 2))
        ][:MAX_TROUBLE_ROWS]
        view.show_lines(lines)
        view.display = bool(lines)
        view.take_rows(max(1, len(lines)))

    # -------------------------------------------------------------------------------------------------- keys

    def on_line_view_resized(self) -> None:
        self.call_after_refresh(self.query_one(SetUpList).redraw)

    def on_choice_view_opened(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        """The comparison if the line is one of A and B, else the run."""
        table = self.query_one(SetUpList)
        row, a, b = table.chosen, table.marked("A"), table.marked("B")
        if a is not None and b is not None and row in (a, b):
            self.app.push_screen(ComparisonScreen(a, b))
        elif row is not None:
            self.app.push_screen(KeptRunScreen(row))

    def action_mark(self) -> None:
        """The next line that is marked is A, then B; a marked one is no longer. Both are compared at once."""
        table = self.query_one(SetUpList)
        letters = {table.marks[letter]: letter for letter in table.marks}
        here = letters.get(table.chosen.key) if table.chosen is not None else None
        table.mark(here or ("A" if table.marked("A") is None else "B"))
        self._say(())
        self.refresh_bindings()
        a, b = table.marked("A"), table.marked("B")
        if not here and a is not None and b is not None:
            self.app.push_screen(ComparisonScreen(a, b))


class KeptRunScreen(RunPage):
    """A kept run; a key goes to the others of its experiment."""

    TAB = "results"
    BINDINGS: ClassVar[list[BindingType]] = KEPT_RUN_KEYS

    def __init__(self, row: ResultGroup) -> None:
        super().__init__()
        self._runs = row.experiment
        self._index = row.experiment.index(row.first)
        self._picture = result_view(row.first.result)

    def on_mount(self) -> None:
        self._draw_soon()

    def run_view(self) -> RunView | None:
        return self._picture

    def run_results(self) -> Sequence[StoredRun]:
        return self._runs

    def title_parts(self, picture: RunView | None) -> Sequence[str]:
        kept = self._runs[self._index]
        varied = f"{kept.variable} {kept.value}" if kept.value else ""
        place = f"run {self._index + 1} of {len(self._runs)}" if len(self._runs) > 1 else ""
        return (kept.label, place, varied)

    def more_sentences(self) -> Sequence[tuple[str, str]]:
        return ()

    def action_next(self, step: int) -> None:
        self._index = (self._index + step) % len(self._runs)
        self._picture = result_view(self._runs[self._index].result)
        self._draw_soon()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There are others only in an experiment of several."""
        if action == "next":
            return len(self._runs) > 1
        return super().check_action(action, parameters)
