"""Confirmations: stop a test, quit while one runs or a change is not confirmed, and the manual step
between two runs.

╭ Quit? ─────────────────────────────────────────────────────────╮
│ A test is running. Quitting stops it. What was measured so far │
│ is saved.                                                      │
│                                                                │
│ [ Quit ] [▸Cancel ]                                            │
╰ Tab Next · Enter Cancel · Esc Cancel · ctrl+c Quit ────────────╯
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from nictop.traffic.run.events import FINAL_COUNTERS
from nictop.tui.screens.base import NictopScreen
from nictop.tui.screens.dialogs.dialog import OVER_TITLE, Dialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.line_widget import SpanLine

if TYPE_CHECKING:
    from nictop.tui.controllers.traffic import TrafficController

SAVED = "What was measured so far is saved"
NOTHING_MEASURED = "Nothing is measured yet: a test without data is not saved."
ONLY_OMITTED = "Only omitted seconds are over: a test without measured seconds is not saved."
NOT_REPORTED = "The receiver has reported nothing yet: without its figures a test is not saved."


def stop_sentence(traffic: TrafficController) -> str:
    """What is ended, and what of it is saved, if the test that runs is stopped now."""
    saved = _saved_sentence(traffic)
    if traffic.runs_workload:
        return f"The command and all that it started is ended. {saved}"
    return saved


def _saved_sentence(traffic: TrafficController) -> str:
    run_view = traffic.view()
    is_over = run_view is not None and run_view.result is not None
    has_figures = run_view is not None and run_view.has_figures
    if has_figures or (traffic.results and is_over):
        return f"{SAVED}."
    if traffic.results:
        return f"{SAVED}; the run that runs now has measured nothing yet."
    if run_view is None or not run_view.is_measured:
        return NOTHING_MEASURED
    if run_view.seconds < 0:
        return ONLY_OMITTED
    return NOT_REPORTED


Phase = Literal["measuring", "late", "counters"]
"""Of the last run of a test. late: the measured time is over, and its generators have not ended.
counters: they have."""


def _phase(traffic: TrafficController) -> Phase:
    """``measuring`` also while another run is to come."""
    run_view, began = traffic.view(), traffic.began
    if run_view is None or (began is not None and began.number < began.total):
        return "measuring"
    if run_view.result is not None or run_view.stage == FINAL_COUNTERS:
        return "counters"
    plan = run_view.plan
    has_end = not plan.is_of_one_host and not plan.is_open_ended and bool(run_view.series)
    return "late" if has_end and run_view.seconds >= plan.span else "measuring"


OVER_PHASES: Mapping[Phase, str] = {
    "measuring": "The test measures.",
    "late": "The measured time is over; the programs that measure have not ended yet.",
    "counters": "The measurement is over; the counters of the hosts are read.",
}


class ConfirmDialog(NictopScreen, Dialog["bool | None"]):
    """Text and two buttons; the result is whether the answer was yes. As soon as there is nothing
    to ask any more (`is_due`), it says so and has one button, which closes it with None: it does
    not close by itself, so that the keys that were meant for it do nothing to the screen below."""

    IS_OF_PRESENT = True

    DIALOG_TITLE = ""
    YES_LABEL, NO_LABEL = "OK", "Cancel"
    CHOSEN = "yes"
    """The button that Enter presses at first: ``yes``, ``cancel``, or none ("")."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self._was_due = False
        self._is_over = False
        """There is nothing to ask any more."""

    @property
    def dialog_title(self) -> str:
        return OVER_TITLE if self._is_over else self.DIALOG_TITLE

    @property
    def key_hints(self) -> str:
        return self.hints("Esc Close") if self._is_over else super().key_hints

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        if self._is_over:
            return list(self.wrapped(self.over_sentence(), cells))
        return self.question_lines(cells)

    def question_lines(self, cells: int) -> Sequence[SpanLine]:
        lines: list[SpanLine] = []
        for part in self._text.split("\n"):
            lines += self.wrapped(part, cells)
        return lines

    def on_mount(self) -> None:
        self._was_due = self.is_due()
        for signal in (self.nictop.traffic.changed, self.nictop.changes.changed):
            self.subscribe(signal, self._update)

    def on_screen_resume(self) -> None:
        self._update()

    def is_due(self) -> bool:
        """What it says is still true."""
        return True

    def over_sentence(self) -> str:
        """Why there is nothing to ask any more."""
        return "A test is running." if self.nictop.traffic.running else "The test has ended."

    def _update(self) -> None:
        if not self.is_current:  # another dialog is above it: `on_screen_resume` follows
            return
        if self._was_due and not self.is_due():
            self._is_over = True
        self.draw()

    def show_buttons(self, row: ButtonRow) -> None:
        if self._is_over:
            row.show((Button("cancel", "OK"),), stage="over", chosen="cancel")
            return
        row.show(
            (Button("yes", self.YES_LABEL), Button("cancel", self.NO_LABEL)),
            stage="asked",
            chosen=self.CHOSEN,
        )

    def action_yes(self) -> None:
        self.dismiss(True)

    def action_cancel(self) -> None:
        self.dismiss(None if self._is_over else False)


class StopScreen(ConfirmDialog):
    """Whether the test that runs is stopped: not by the second Enter of two that were to start it.
    What it says follows the test."""

    DIALOG_TITLE, YES_LABEL, NO_LABEL = "Stop the test?", "Stop", "Continue"
    CHOSEN = "cancel"

    def __init__(self) -> None:
        super().__init__("")
        self._asked_in: Phase | None = None

    def on_mount(self) -> None:
        self._asked_in = _phase(self.nictop.traffic)

    def is_due(self) -> bool:
        """It was asked whether to stop what was done then: not what follows it."""
        traffic = self.nictop.traffic
        if not traffic.running or traffic.is_stopping:
            return False
        return self._asked_in in (None, _phase(traffic))

    def over_sentence(self) -> str:
        traffic = self.nictop.traffic
        if not traffic.running:
            return "The test has ended. The key that closes this starts no other one."
        if traffic.is_stopping:
            return "The test is being stopped."
        return OVER_PHASES[_phase(traffic)]

    def question_lines(self, cells: int) -> Sequence[SpanLine]:
        return list(self.wrapped(stop_sentence(self.nictop.traffic), cells))


class LeaveScreen(ConfirmDialog):
    """Whether nictop quits: not by the Enter that was meant for the screen below."""

    DIALOG_TITLE, YES_LABEL, CHOSEN = "Quit?", "Quit", "cancel"

    def __init__(self) -> None:
        super().__init__("")

    def is_due(self) -> bool:
        return self.nictop.traffic.running or self.nictop.changes.is_unconfirmed

    def over_sentence(self) -> str:
        return "What quitting would have ended has ended by itself."

    def question_lines(self, cells: int) -> Sequence[SpanLine]:
        lines: list[SpanLine] = []
        traffic = self.nictop.traffic
        if traffic.is_stopping:
            lines += self.wrapped("A test is being stopped.", cells)
        elif traffic.running:
            stopped = f"A test is running. Quitting stops it. {stop_sentence(traffic)}"
            lines += self.wrapped(stopped, cells)
        if self.nictop.changes.is_unconfirmed:
            lines += self.wrapped(
                "A change is not confirmed. If you quit, the host rolls it back.", cells
            )
        return lines

    @property
    def key_hints(self) -> str:
        return f"{super().key_hints} · ctrl+c Quit"


class ChangeScreen(ConfirmDialog):
    """Whether the user has changed what the next run needs. It opens by itself: an Enter may be
    meant for the screen below."""

    closes_by_click = False
    DIALOG_TITLE, YES_LABEL, NO_LABEL = "Change before the next run", "Continue", "Stop experiment"
    CHOSEN = ""
