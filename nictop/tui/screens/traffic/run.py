"""The run that is running, or the last one: its chart, and at its end its result.

Escape leaves the screen, and the run continues; enter ends it and shows what was measured so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.report.runs.points import set_up_points
from nictop.report.runs.sentences import (
    MAX_DEVICES_IN_RESULT,
    TEST_TEXTS,
    path_test_sentences,
    storage_text,
)
from nictop.traffic.live.run_view import RunView
from nictop.traffic.path.result import PathReport
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.run.events import PATH_OF_CHECK
from nictop.tui.keys import RUN_KEYS, shown_key
from nictop.tui.screens.dialogs.leave import ChangeScreen, ConfirmDialog, StopScreen
from nictop.tui.screens.traffic.run_page import RunPage
from nictop.tui.screens.traffic.status import last_result_text, late_text, progress_text, time_text
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.traffic.chart import RunChart
from nictop.tui.widgets.traffic.comparison_view import verdict_of
from nictop.tui.widgets.traffic.run_waiting import RunStage, RunWaiting

if TYPE_CHECKING:
    from textual.worker import WorkType

    from nictop.traffic.experiment.experiment import ChangeRequired

RUN_COUNTDOWN_SECONDS = 1.0
"""Between two redraws while nothing is measured: the time that is left is counted in seconds."""
MAX_STAGES = 6
"""Of those before the first data, the last ones."""
NOT_APPLIED = "nictop does not apply it, but checks it afterwards."
KEY_IGNORED_SECONDS = 3.0
"""After a test has ended by itself: the key that stops it must not start it again."""
JUST_ENDED = (
    "The test has just ended by itself. The key may have been meant to stop it, and has started "
    "nothing: {} again runs it again."
)
CONTINUES = "The test continues: it was not stopped."


def _done_stage(text: str, seconds: float, missing: str) -> RunStage:
    """`missing`: what of it was not done; "": all was."""
    if missing and missing == text:  # a wait that has ended without what was waited for
        return RunStage(text, seconds, "partly")
    if missing:
        return RunStage(f"{text.removesuffix(PATH_OF_CHECK)}: {missing}", seconds, "partly")
    return RunStage(text, seconds, "done")


class RepeatScreen(ConfirmDialog):
    """Whether the command of a workload is run again."""

    DIALOG_TITLE, YES_LABEL, CHOSEN = "Run the command again?", "Run", "cancel"

    def is_due(self) -> bool:
        return not self.nictop.traffic.running


class RunChangeScreen(ChangeScreen):
    """While the run waits for the answer. It says what the hosts show now: the change is made
    while it is open."""

    def __init__(self) -> None:
        super().__init__("")

    def is_due(self) -> bool:
        return self.nictop.traffic.awaits_answer

    def over_sentence(self) -> str:
        return "The experiment does not wait for this change any more."

    def question_lines(self, cells: int) -> Sequence[SpanLine]:
        lines = list(self.wrapped(self.nictop.traffic.sentence, cells))
        return [*lines, *self.wrapped(NOT_APPLIED, cells)]


class RunScreen(RunPage):
    """Shows the state of the `TrafficController`."""

    TAB = "traffic"
    BINDINGS: ClassVar[list[BindingType]] = RUN_KEYS

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._ended_at: float | None = None
        """Of `clock`; None: it runs, or the user has stopped it."""
        self._is_stopped = False
        self._keys = (False, False)
        self._shown_change: ChangeRequired | None = None

    def on_mount(self) -> None:
        self.subscribe(self.nictop.traffic.changed, self._update)
        self._update_keys()
        self._draw_soon()
        self.set_interval(RUN_COUNTDOWN_SECONDS, self._tick, name="run")

    def _update(self) -> None:
        """Drawn at once, as the frame is: both tell the same reading of the test on every frame of
        the terminal."""
        self._update_keys()
        if self.in_sight:
            self.draw()
            self.update_pause_key()
            self._ask_for_change()

    def _update_keys(self) -> None:
        """The footer is laid out again only for other keys: that costs more than the chart."""
        traffic = self.nictop.traffic
        was_running, _ = self._keys
        keys = (traffic.running, len(traffic.results) > 1)
        if keys == self._keys:
            return
        if traffic.running != was_running:
            has_ended_by_itself = was_running and not self._is_stopped
            self._ended_at = self._clock() if has_ended_by_itself else None
            self._is_stopped = False
        if traffic.running and not was_running:
            self.show_points(False)  # the page may still have the bars of the last experiment
        has_ended = was_running and not traffic.running
        if has_ended and len(set_up_points(traffic.results)) > 1:
            self.show_points(True)
        self._keys = keys
        self.refresh_bindings()

    def _tick(self) -> None:
        """Time passes, also if nothing is measured: the frame shows that too when this page is not
        in sight."""
        if self.nictop.traffic.running:
            self.nictop.traffic.publish()

    def on_screen_resume(self) -> None:
        if self.is_open:
            self._draw_soon()
            self._ask_for_change()

    def _ask_for_change(self) -> None:
        """Ask the user to change what the next run needs."""
        traffic = self.nictop.traffic
        wanted = traffic.wanted
        if wanted is None or wanted is self._shown_change or not traffic.awaits_answer:
            return
        self._shown_change = wanted
        self.app.push_screen(RunChangeScreen(), self._answer)

    def _answer(self, changed: bool | None) -> None:
        self.nictop.traffic.answer(changed=bool(changed))

    # -------------------------------------------------------------------------------- what is shown

    def run_view(self) -> RunView | None:
        return self.nictop.traffic.view()

    @property
    def is_over(self) -> bool:
        return not self.nictop.traffic.running

    @property
    def is_stopping(self) -> bool:
        return self.nictop.traffic.is_stopping

    def run_results(self) -> Sequence[StoredRun]:
        return self.nictop.traffic.results

    def unread_ends(self) -> str:
        """While hosts are waited for, what is measured is known already."""
        request = self.nictop.traffic.request
        if request is None or request.test != "manual":
            return super().unread_ends()
        place = ":".join(filter(None, (request.client, request.client_nic)))
        guest = f"guest {request.guest}, " if request.guest else ""
        return clean(f"{place} · {guest}{TEST_TEXTS[request.test]}")

    def title_parts(self, run_view: RunView | None) -> Sequence[str]:
        traffic = self.nictop.traffic
        time = ""
        if traffic.is_stopping:
            time = "stopping"
        elif run_view is not None and traffic.running:
            time = time_text(run_view)
        return (progress_text(traffic), time)

    def more_sentences(self) -> Sequence[tuple[str, str]]:
        traffic = self.nictop.traffic
        sentences: list[tuple[str, str]] = []
        run_view = self.run_view()
        doing = traffic.sentence
        if not doing and run_view is not None:
            doing = late_text(run_view, shown_key(self.app, "open"))
        if traffic.running and doing:
            sentences.append(("now", doing))
        if traffic.running:
            for activity in traffic.storage[:MAX_DEVICES_IN_RESULT]:
                sentences.append(("storage", storage_text(activity)))
        if traffic.running and traffic.path_test is not None:
            sentences += path_test_sentences(traffic.path_test)
        if traffic.trouble:
            sentences.append(("ended", traffic.trouble))
        verdict = None if traffic.running else verdict_of(traffic.results)
        if verdict is not None:
            sentences.append(("verdict", verdict.sentence))
        return sentences

    def waiting(self) -> RunWaiting | None:
        traffic = self.nictop.traffic
        stages = [
            _done_stage(text, seconds, traffic.untested.get(number, ""))
            for number, (text, seconds) in enumerate(traffic.stage_times)
        ]
        if stages:
            stages[-1] = replace(stages[-1], state="active" if traffic.running else "failed")
        stages = stages[-MAX_STAGES:]
        last = last_result_text(traffic)
        if traffic.running:
            return RunWaiting(self._waiting_title(), "", stages, [*traffic.typed, last])
        result = self._result_of_run
        if result is not None and result.failure is None and not traffic.trouble:
            return None  # only its rate is not known: the chart says so
        reason, _, advice = traffic.trouble.partition("; ")
        failure = f"Test failed: {reason}" if reason else self.failure_text()
        hint = f"Hint: {advice}" if advice else ""
        again, back = shown_key(self.app, "open"), shown_key(self.app, "back")
        keys = f"{again}: run it again · {back}: change its options"
        return RunWaiting("Nothing was measured.", failure, stages, [hint, keys, last])

    def _has_begun(self, run_view: RunView | None) -> bool:
        """What is measured on one host runs."""
        is_of_one_host = run_view is not None and run_view.plan.is_of_one_host
        return is_of_one_host and run_view is not None and bool(time_text(run_view))

    def _waiting_title(self) -> str:
        if self._has_begun(self.run_view()):
            return "It has begun; the chart begins with the first full second."
        return "Nothing is measured yet; the chart begins with the first data."

    def notes(self) -> Sequence[str]:
        return self.nictop.traffic.notes

    def path_test(self) -> PathReport | None:
        return self.nictop.traffic.path_test

    # ----------------------------------------------------------------------------------------- keys

    @property
    def pause_action(self) -> str:
        """Of the chart: hosts are shown as they are."""
        return "resume" if self.is_open and self.query_one(RunChart).frozen else "pause"

    def action_pause(self) -> None:
        """Pause the chart, or resume it."""
        chart = self.query_one(RunChart)
        chart.freeze(not chart.frozen)
        self.draw()
        self.update_pause_key()

    def action_stop(self) -> None:
        """A measurement by hand is ended so: that is its planned end."""
        if self.nictop.traffic.measures_by_hand:
            self.action_end_measurement()
        else:
            self._ask_to_stop()

    def _ask_to_stop(self) -> None:
        if self.nictop.traffic.is_stopping:
            self._stop(True)
        else:
            self.app.push_screen(StopScreen(), self._stop)

    def _stop(self, sure: bool | None) -> None:
        if sure is False and self.nictop.traffic.running:
            self.nictop.notify(CONTINUES, "Test")
        elif sure and (self._is_stopped or self.nictop.traffic.is_stopping):
            self.nictop.notify("It is being ended.", "Test")
        elif sure:
            self._is_stopped = True
            work: WorkType[None] = self.nictop.traffic.stop
            self.app.run_worker(work, name="stop", group="stop", exclusive=True)

    def action_end_measurement(self) -> None:
        """What was begun by hand ends now, as planned; before it has begun, only if that is
        wanted."""
        run_view = self.run_view()
        if run_view is not None and run_view.has_figures:
            self._stop(True)
        else:
            self._ask_to_stop()

    async def action_form(self) -> None:
        await self.app.run_action("show_form")

    async def action_back(self) -> None:
        """The run continues in the background, and its page stays."""
        if self.nictop.traffic.running:
            await self.opener.action_view("devices")
        else:
            self.dismiss()

    def action_again(self) -> None:
        """Not by the key that was to stop it."""
        traffic = self.nictop.traffic
        seconds = math.inf if self._ended_at is None else self._clock() - self._ended_at
        request = traffic.request
        if request is None:
            return
        if seconds < KEY_IGNORED_SECONDS:
            self.nictop.notify(JUST_ENDED.format(shown_key(self.app, "open")), "Test")
            return
        if request.test == "workload":
            where = f"On {clean(request.client)}: {clean(request.workload)}"
            self.app.push_screen(RepeatScreen(where), self._repeat)
        else:
            self._repeat(True)

    def _repeat(self, sure: bool | None) -> None:
        traffic = self.nictop.traffic
        if sure and traffic.request is not None:
            traffic.start(traffic.request, self_test=traffic.is_self_test)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A run must have ended before it is started again."""
        traffic = self.nictop.traffic
        if action in ("stop", "again"):
            return traffic.running == (action == "stop")
        if action == "form":
            return self.is_over
        if action == "end_measurement":
            return traffic.measures_by_hand
        return super().check_action(action, parameters)
