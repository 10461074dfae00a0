"""A traffic run in the recording, at the time that is shown: the chart, the hosts, and at its end
the result.

Like the screen of a live run, but nothing can be started here; keys go to other runs and to the
begin of this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from nictop.model.text.terminal import clean
from nictop.model.text.units import whole_seconds
from nictop.replay.position import wall_clock_text
from nictop.replay.run import RecordedRun
from nictop.replay.run_index import run_at
from nictop.traffic.live.run_view import RunView
from nictop.tui.keys import RECORDED_RUN_KEYS, shown_key
from nictop.tui.screens.traffic.run_page import RunPage
from nictop.tui.screens.traffic.status import result_line, time_text
from nictop.tui.widgets.status.replay_line import ReplayLine
from nictop.tui.widgets.traffic.run_waiting import RunWaiting

if TYPE_CHECKING:
    from textual.worker import Worker, WorkType

    from nictop.traffic.results.selection import StoredRun
    from nictop.tui.controllers.replay import Replay


BEING_STARTED = "it is being started"


class RecordedRunScreen(RunPage):
    """The first screen of its tab, in a recording with runs."""

    TAB = "traffic"
    BINDINGS: ClassVar[list[BindingType]] = RECORDED_RUN_KEYS

    def __init__(self, index: int) -> None:
        super().__init__()
        self._index = index
        self._run: RecordedRun | None = None
        self._is_chosen = False
        """By the user; else it is the run of the time that is shown."""
        self._before: RecordedRun | None = None
        """The run before, while this one has no data."""
        self._place: tuple[int, int] | None = None
        """Index of the run, and the number of jumps before the position; None: at first."""
        self._is_read = False
        """Up to the position since the last jump; before that, nothing is known of any run at that
        time."""
        self._reading: Worker[None] | None = None

    @property
    def _replay(self) -> Replay:
        replay = self.nictop.replay
        assert replay is not None  # only then there is this screen
        return replay

    def on_mount(self) -> None:
        self._choose(self._index)
        self.subscribe(self._replay.changed, self._update, now=True)
        self._draw_soon()

    def choose_now(self) -> None:
        """The run that is running at this time, if there is one."""
        self._is_chosen, now = False, self.nictop.now()
        for index, run in enumerate(self._replay.runs):
            is_over = run.end is not None and now > run.end
            if run.begin <= now and not is_over and index != self._index:
                self._choose(index)

    def _follow(self) -> None:
        """Unless the user has chosen another one: the last run that has begun, also after a jump
        back."""
        index = run_at(self._replay.runs, self.nictop.now())
        if index is not None and index != self._index and not self._is_chosen:
            self._choose(index)

    def _choose(self, index: int) -> None:
        self._before = None
        self._index = index % len(self._replay.runs)
        self._run = RecordedRun(self._replay.playback.recording, self._replay.runs[self._index])
        self._update()

    def _update(self) -> None:
        """Time has passed, or it jumped. What is being read is read to its end, unless it is of
        another place: on a slow machine each position would end the reading up to the last one."""
        if not self.in_sight:
            return
        self._follow()
        place = self._index, self._replay.playback.jumps
        if place != self._place:
            self._place, self._is_read = place, False
            self._draw_soon()
        elif self._reading is not None and not self._reading.is_finished:
            return
        work: WorkType[None] = self._advance
        self._reading = self.run_worker(
            work, name="recorded run", group="recorded run", exclusive=True
        )

    async def _advance(self) -> None:
        if self._run is None:
            return
        now = self.nictop.now()
        await self._run.advance(now)
        if self._index > 0 and not self._has_data():
            if self._before is None:
                self._before = RecordedRun(
                    self._replay.playback.recording, self._replay.runs[self._index - 1]
                )
            await self._before.advance(now)
        self._is_read = True
        self._draw_soon()

    def _has_data(self) -> bool:
        view = self._run.view() if self._run is not None else None
        return view is not None and view.is_measured

    def on_screen_resume(self) -> None:
        if self.is_open:
            self._update()

    # -------------------------------------------------------------------------------- what is shown

    def run_view(self) -> RunView | None:
        if self._run is None or not self._is_read:
            return None
        return self._run.view()

    @property
    def is_over(self) -> bool:
        return self._run is not None and self._is_read and bool(self._run.problem)

    def run_results(self) -> Sequence[StoredRun]:
        return ()

    def unread_ends(self) -> str:
        marks = self._replay.runs[self._index]
        return f"{clean(marks.client)} → {clean(marks.server)}"

    def title_parts(self, run_view: RunView | None) -> Sequence[str]:
        runs = self._replay.runs
        place = f"test {self._index + 1} of {len(runs)}" if len(runs) > 1 else ""
        goes_on = run_view is not None and run_view.result is None
        return (place, time_text(run_view) if run_view is not None and goes_on else "")

    def more_sentences(self) -> Sequence[tuple[str, str]]:
        run = self._run
        if run is None or not self._is_read:
            return ()
        if self.nictop.now() < run.marks.begin:
            hint = "" if self._is_timeline_focused else ": enter goes there"
            return (("recorded", f"it begins at {self._begin_text(run)}{hint}"),)
        view = run.view()
        has_result = view is not None and view.result is not None
        if has_result or not run.problem:
            return self._stage_sentences(view)
        return (("recorded", run.problem),)

    def _stage_sentences(self, view: RunView | None) -> Sequence[tuple[str, str]]:
        """What the run does at that moment, until something is measured."""
        if view is None:
            return (("stage", BEING_STARTED),)
        if not view.stage or view.is_measured:
            return ()
        return (("stage", view.stage),)

    def waiting(self) -> RunWaiting | None:
        run = self._run
        if run is None:
            return None
        ended = super().waiting()
        if ended is not None:
            return ended
        runs, now = self._replay.runs, self.nictop.now()
        place = f"Test {self._index + 1} of {len(runs)} ({run.marks.hosts_text})"
        if not self._is_read:
            return RunWaiting(place, "", (), ["Reading the recording up to this time…"])
        if run.problem:
            return RunWaiting(place, run.problem, (), [self._other_text()])
        if now >= run.marks.begin:
            return self._before_first_data(place, run.view())
        seconds = whole_seconds(max(1.0, run.marks.begin - now))
        begin = f"It begins at {self._begin_text(run)}, in {seconds}."
        if not self._is_timeline_focused:
            begin += f" {shown_key(self.app, 'open')}: go there"
        return RunWaiting(place, "", (), [begin, self._last_result_text(), self._other_text()])

    def _before_first_data(self, place: str, view: RunView | None) -> RunWaiting:
        stage = view.stage if view is not None else ""
        title = f"{place}: {stage or BEING_STARTED}."
        nothing = "Nothing is measured yet; the chart begins with the first data."
        return RunWaiting(title, "", (), [nothing, self._last_result_text(), self._other_text()])

    @property
    def _is_timeline_focused(self) -> bool:
        """Then Enter goes to a time that is asked for."""
        return isinstance(self.focused, ReplayLine)

    def on_descendant_focus(self) -> None:
        """Enter does something else."""
        self._draw_soon()

    def on_descendant_blur(self) -> None:
        self._draw_soon()

    def _begin_text(self, run: RecordedRun) -> str:
        """``14:03:20``"""
        return wall_clock_text(self._replay.playback.recording.wall_time(run.marks.begin))

    def _last_result_text(self) -> str:
        """The result of the run before, if that has ended."""
        view = self._before.view() if self._before is not None else None
        if view is None or view.result is None:
            return ""
        return result_line(f"Result of test {self._index}", view.result)

    def _other_text(self) -> str:
        keys = f"{shown_key(self.app, 'next')} and {shown_key(self.app, 'next-previous')}"
        return f"{keys}: the other recorded tests" if len(self._replay.runs) > 1 else ""

    # ----------------------------------------------------------------------------------------- keys

    @property
    def _next_pane(self) -> Widget | None:
        """What Tab focuses."""
        panes = self.focus_chain
        if self.focused not in panes:
            return panes[0] if panes else None
        return panes[(panes.index(self.focused) + 1) % len(panes)]

    def action_begin(self) -> None:
        if self._run is not None:
            self._replay.seek(self._run.marks.begin)

    def action_run(self, step: int) -> None:
        self._is_chosen = True
        self._choose(self._index + step)

    def action_timeline(self) -> None:
        self.set_focus(self.query_one(ReplayLine))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Others only where there are several; the timeline while it is the next pane, so that Tab
        reaches all."""
        if action == "run":
            return len(self._replay.runs) > 1
        if action == "timeline":
            return self.is_open and self._next_pane is self.query_one(ReplayLine)
        return super().check_action(action, parameters)
