"""A traffic run in the recording, at the time that is shown: the chart, the hosts, and at its end the result.

Like the screen of a live run, but nothing can be started here; keys go to other runs and to the begin of this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from nictop.replay.position import wall_clock_text
from nictop.replay.run import RecordedRun
from nictop.traffic.live.run_view import RunView
from nictop.tui.keys import RECORDED_RUN_KEYS
from nictop.tui.screens.traffic.run_page import RunPage
from nictop.tui.screens.traffic.status import time_text

if TYPE_CHECKING:
    from textual.worker import WorkType

    from nictop.traffic.results.selection import StoredRun
    from nictop.tui.controllers.replay import Replay


class RecordedRunScreen(RunPage):
    """The first screen of its tab, in a recording with runs."""

    TAB = "traffic"
    BINDINGS: ClassVar[list[BindingType]] = RECORDED_RUN_KEYS

    def __init__(self, index: int) -> None:
        super().__init__()
        self._index = index
        self._run: RecordedRun | None = None

    @property
    def _replay(self) -> Replay:
        replay = self.nictop.replay
        assert replay is not None  # only then there is this screen
        return replay

    def on_mount(self) -> None:
        self._choose(self._index)
        self.subscribe(self._replay.changed, self._update, now=True)

    def choose_now(self) -> None:
        """The run that is running at this time, if there is one."""
        now = self.nictop.now()
        for index, run in enumerate(self._replay.runs):
            if run.begin <= now and (run.end is None or now <= run.end) and index != self._index:
                self._choose(index)

    def _choose(self, index: int) -> None:
        self._index = index % len(self._replay.runs)
        self._run = RecordedRun(self._replay.playback.recording, self._replay.runs[self._index])
        self._update()

    def _update(self) -> None:
        """Time has passed, or it jumped."""
        if self.in_sight:
            work: WorkType[None] = self._advance
            self.run_worker(work, name="recorded run", group="recorded run", exclusive=True)

    async def _advance(self) -> None:
        if self._run is not None:
            await self._run.advance(self.nictop.now())
            self._draw_soon()

    def on_screen_resume(self) -> None:
        if self.is_open:
            self._update()

    # ------------------------------------------------------------------------------------------ what is shown

    def run_view(self) -> RunView | None:
        return self._run.view() if self._run is not None else None

    def run_results(self) -> Sequence[StoredRun]:
        return ()

    def title_parts(self, run_view: RunView | None) -> Sequence[str]:
        runs = self._replay.runs
        place = f"run {self._index + 1} of {len(runs)}" if len(runs) > 1 else ""
        goes_on = run_view is not None and run_view.result is None
        return (place, time_text(run_view) if run_view is not None and goes_on else "")

    def more_sentences(self) -> Sequence[tuple[str, str]]:
        run = self._run
        if run is None:
            return ()
        if self.nictop.now() < run.marks.begin:
            wall = self._replay.playback.recording.wall_time(run.marks.begin)
            return (("recorded", f"it begins at {wall_clock_text(wall)}: enter goes there"),)
        view = run.view()
        has_result = view is not None and view.result is not None
        if has_result or not run.problem:
            return self._stage_sentences(view)
        return (("recorded", run.problem),)

    def _stage_sentences(self, view: RunView | None) -> Sequence[tuple[str, str]]:
        """What the run does now, until something is measured."""
        if view is None or not view.stage or view.series:
            return ()
        return (("now", view.stage),)

    # -------------------------------------------------------------------------------------------------- keys

    def action_begin(self) -> None:
        if self._run is not None:
            self._replay.seek(self._run.marks.begin)

    def action_run(self, step: int) -> None:
        self._choose(self._index + step)

    def action_pause(self) -> None:
        self._replay.play()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Others only where there are several."""
        if action == "run":
            return len(self._replay.runs) > 1
        return super().check_action(action, parameters)
