"""The change of a host: its plan, the confirmation, its progress, and whether it is kept.

╭ vm1: set it now ───────────────────────────────────────────────╮
│ ✓ Applied                                                      │
│ Rolls back in 23 s unless you keep it  ██████████████░░░░░     │
│ ✓ Finding resolved                                             │
│                                                                │
│ [ Keep ] [ Undo now ] [▸Hide ]                                 │
╰ Tab Next · Enter Hide · Esc Hide (f: reopen) ──────────────────╯

Where changes are not allowed, the plan is all that is shown. At the plan Cancel is chosen,
afterwards Hide or Close: a doubled or held Enter cannot apply and keep. What may disconnect the
host is applied by the word yes alone. It closes by a key of the user alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input

from nictop.changes.actions import Actions
from nictop.changes.events import NOTHING_CHANGED
from nictop.changes.progress import ChangeProgress
from nictop.model.text.units import whole_seconds
from nictop.rules.by_device import reported_now
from nictop.tui.keys import CHANGE_KEYS, shown_key
from nictop.tui.screens.base import NictopScreen
from nictop.tui.screens.dialogs.dialog import OVER_TITLE, Dialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.changes.page import DISABLED_REASON, ChangePage, commands_of

if TYPE_CHECKING:
    from nictop.changes.job import ChangeJob
    from nictop.rules import Finding

APPLY_ANSWER = "yes"
CANCELLED = "This change was not applied: it was cancelled."
CANCEL = Button("cancel", "Cancel")
CLOSE = Button("cancel", "Close")
HIDE = Button("cancel", "Hide")
TIME_STEPS = (1, "More time"), (-1, "Less")
"""Step of the time until the rollback → words of its button, which do not read as a rollback."""


class HostChangeScreen(NictopScreen, Dialog[None]):
    """Shows the change of the `Changes` controller, and passes decisions to it."""

    IS_OF_PRESENT = True

    BINDINGS: ClassVar[list[BindingType]] = CHANGE_KEYS
    is_tall = True
    field_enter = "Continue"

    def __init__(self) -> None:
        super().__init__()
        self._asks_twice = False
        self._stage = ""
        self._left = False
        self._is_over = False
        """There is no change any more."""

    def compose_fields(self) -> Iterable[Widget]:
        entry = TextInput(placeholder=f"{APPLY_ANSWER} applies it", id="change-sure")
        entry.display = False
        yield entry

    def on_mount(self) -> None:
        self.subscribe(self.nictop.changes.changed, self.draw)

    # -------------------------------------------------------------------------------- what is shown

    @property
    def _shown(self) -> tuple[ChangeJob, ChangeProgress] | None:
        changes = self.nictop.changes
        if changes.job is None or changes.progress is None:
            return None
        return changes.job, changes.progress

    @property
    def _is_allowed(self) -> bool:
        """False: the plan is shown, and is not applied."""
        found = self._shown
        return found is not None and self.nictop.changes.allowed(found[0].host)

    @property
    def dialog_title(self) -> str:
        shown = self._shown
        if shown is None or self._is_over:
            return OVER_TITLE
        job, _ = shown
        return job.heading

    @property
    def closes_by_click(self) -> bool:
        """Only when there is nothing left to decide."""
        progress = self.nictop.changes.progress
        return progress is None or progress.stage == "ended"

    @property
    def key_hints(self) -> str:
        progress = self.nictop.changes.progress
        if self._is_over:
            return self.hints("Esc Close")
        copy = f"{shown_key(self.app, 'copy')} Copy"
        if progress is None or progress.stage == "ended":
            return self.hints("Esc Close", copy)
        if _is_undecided(progress):
            word = "Cancel" if self._is_allowed else "Close"
            return self.hints(f"Esc {word}", copy)
        return self.hints(f"Esc Hide ({shown_key(self.app, 'fix')}: reopen)")

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        shown = self._shown
        if shown is None or self._is_over:
            return list(self.wrapped(CANCELLED, cells, indent=" "))
        job, progress = shown
        session = self.nictop.hosts.by_name.get(job.host)
        page = ChangePage(
            job,
            progress,
            cells,
            glyphs=self.glyphs,
            is_allowed=self._is_allowed,
            began=self.nictop.changes.step_began,
            reported=self._reported(job.finding),
        )
        snapshot = None if session is None else session.snapshot
        return page.lines(self.nictop.changes.published_at, snapshot, asks_twice=self._asks_twice)

    def _reported(self, finding: Finding | None) -> Finding | None:
        """The finding as the checks report it now; None: they do not any more."""
        result = self.nictop.diagnosis.result
        if finding is None or result is None or finding.host not in result.hosts:
            return finding  # nothing newer is known
        return reported_now(finding, result)

    def show_buttons(self, row: ButtonRow) -> None:
        progress = self.nictop.changes.progress
        if self._is_over:
            row.show((Button("cancel", "OK"),), stage="over", chosen="cancel")
        elif progress is not None:
            stage = (progress.stage, progress.decision, self._asks_twice)
            is_plan = stage == ("prepared", "", False)
            safest = "copy" if is_plan and not self._is_allowed else "cancel"
            row.show(tuple(self._buttons(progress)), stage=stage, chosen=safest)

    def _buttons(self, progress: ChangeProgress) -> Iterable[Button]:
        if self._asks_twice:
            return Button("confirm", "Continue"), CANCEL
        if _is_undecided(progress):
            return self._undecided_buttons(progress)
        if progress.stage == "ended":
            return self._ended_buttons(progress)
        return _buttons_under_way(progress)

    def _undecided_buttons(self, progress: ChangeProgress) -> Iterator[Button]:
        if progress.stage == "preparing":
            yield CANCEL
            return
        if not self._is_allowed:
            yield Button("apply", "Apply", enabled=False, why_not=DISABLED_REASON)
            yield from (Button("copy", "Copy"), CLOSE)
            return
        yield from (Button("apply", "Apply"), Button("copy", "Copy"))
        for step, words in TIME_STEPS:
            seconds = self.nictop.changes.keep_seconds(step)
            label = f"{words}: {whole_seconds(seconds)}"
            yield Button(f"wait({step})", label, seconds != progress.spec.keep_within)
        yield CANCEL

    def _ended_buttons(self, progress: ChangeProgress) -> Iterator[Button]:
        if self._can_last(progress):
            yield Button("make_persistent", "Make persistent")
        if progress.outcome in NOTHING_CHANGED:
            yield Button("try_again", "Try again")
        yield CLOSE

    def draw(self) -> None:
        """The change has advanced, or time has passed."""
        found = self._shown
        if self._left:
            return
        if self._is_over or found is None or found[1].outcome == "cancelled":
            self._end()
            return
        if found[1].shown_stage != self._stage:
            self._stage = found[1].shown_stage
            if self._stage != "prepared":
                self._end_question()
            self.query_one("#dialog-text", LineWidget).scroll_to(y=0, animate=False)
        super().draw()

    def _end(self) -> None:
        """There is no change any more, and no key of this dialog has ended it."""
        self._is_over = True
        self._end_question()
        super().draw()

    def on_screen_resume(self) -> None:
        """What has happened meanwhile."""
        if self.is_open:
            self.draw()

    # ------------------------------------------------------------------------------------ decisions

    def action_apply(self) -> None:
        progress = self.nictop.changes.progress
        if not self._is_allowed:
            return
        if progress is None or not progress.needs_second_yes:
            self.nictop.changes.apply()
            return
        self._asks_twice = True
        entry = self.query_one(TextInput)
        entry.display = True
        self.set_focus(entry)
        self.draw()

    async def action_leave(self) -> None:
        """Close it as Esc does; a change that is not kept yet is asked about, as on any screen."""
        if self.nictop.changes.is_unconfirmed:
            await self.app.run_action("app.quit")
        else:
            self.action_cancel()

    def action_confirm(self) -> None:
        self._answer(self.query_one(TextInput).value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._answer(event.value)

    def _answer(self, text: str) -> None:
        """Only the word applies it."""
        if text.strip().casefold() == APPLY_ANSWER:
            self._end_question()
            self.nictop.changes.apply(twice=True)
        else:
            self.app.bell()

    def _end_question(self) -> None:
        if self._asks_twice:
            self._asks_twice = False
            entry = self.query_one(TextInput)
            entry.value, entry.display = "", False
            self.set_focus(self.query_one(ButtonRow))

    def action_keep(self) -> None:
        self.nictop.changes.keep()

    def action_undo(self) -> None:
        self.nictop.changes.undo()

    def action_wait(self, step: int) -> None:
        self.nictop.changes.wait(step)

    def action_copy(self) -> None:
        found = self._shown
        if found is not None:
            self.nictop.copy_commands(found[0].host, commands_of(found[1]))

    def action_cancel(self) -> None:
        """Before it is applied: do not apply it; afterwards: close the dialog, the change
        continues."""
        progress = self.nictop.changes.progress
        if progress is not None and _is_undecided(progress) and not self._is_over:
            self.nictop.changes.undo()
        self._leave()

    def _leave(self) -> None:
        """Close the dialog; a change that has ended is dropped."""
        if not self._left and self.is_current:
            self._left = True
            self.nictop.changes.forget()
            self.dismiss()

    def action_try_again(self) -> None:
        """Request the plan once more, with the same values."""
        job, session = self.nictop.changes.job, self.nictop.changes.session
        if job is not None and session is not None:
            self._leave()
            self.opener.start_change(job, Actions(session.spec.actions))

    # --------------------------------------------------------------------------- make it persistent

    def _can_last(self, progress: ChangeProgress) -> bool:
        job = self.nictop.changes.job
        return progress.outcome == "kept" and job is not None and bool(job.lasting)

    def action_make_persistent(self) -> None:
        """Open the first fix that does that."""
        job = self.nictop.changes.job
        if job is not None and job.lasting:
            self._leave()
            self.opener.open_job(job.lasting_job(job.lasting[0]))


def _buttons_under_way(progress: ChangeProgress) -> Iterator[Button]:
    """Of a change that was decided about and has not ended."""
    if progress.is_applied:
        yield Button("keep", "Keep")
    if progress.is_applied or progress.stage == "applying":
        yield Button("undo", "Undo now")
    yield HIDE


def _is_undecided(progress: ChangeProgress) -> bool:
    return progress.stage in ("preparing", "prepared") and progress.decision == ""
