"""The change of a host: its plan, yes or no, its progress, and whether it is kept.

╭ vm1: set it now ───────────────────────────────────────────────╮
│ ✓ applied, and read back                                       │
│ vm1 takes it back by itself in 23 s  ████████████████░░░░░     │
│ ✓ the finding is gone                                          │
╰ k keep · u undo now · esc look around (f comes back) ──────────╯

Nothing is kept by a key that has done something else before: apply, keep and undo are keys of their own, and what may
cut the host off is done by the word yes alone.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from nictop.changes.progress import ChangeProgress
from nictop.tui.keys import CHANGE_DIALOG_KEYS, CHANGE_KEYS
from nictop.tui.screens.base import NictopScreen
from nictop.tui.widgets.base.dialog_frame import box_keys, box_title
from nictop.tui.widgets.base.line_view import LineView
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.changes.page import ChangePage, commands_of

if TYPE_CHECKING:
    from nictop.changes.job import ChangeJob

APPLY_ANSWER = "yes"
ANSWERS = "yes applies it, anything else does not"
CHANGE_CHROME_ROWS = 5
"""Rows of the screen that are not the page: borders, the input line, and what stays visible behind the dialog."""
KEYS = {
    "preparing": "esc leave it as it is",
    "prepared": "a apply · esc leave it as it is · y copy · +/- time to keep it",
    "applying": "u undo · esc look around (f comes back)",
    "applied": "k keep · u undo now · esc look around (f comes back)",
    "undoing": "esc look around (f comes back)",
    "disconnected": "esc look around (f comes back)",
    "ended": "enter close",
}


class HostChangeScreen(NictopScreen, ModalScreen[None]):
    """Shows the change of the `Changes` controller, and passes decisions to it."""

    BINDINGS: ClassVar[list[BindingType]] = [*CHANGE_KEYS, *CHANGE_DIALOG_KEYS]

    def __init__(self) -> None:
        super().__init__()
        self._asks_twice = False
        self._stage = ""
        self._left = False

    def compose(self) -> ComposeResult:
        with Vertical(id="change", classes="dialog"):
            yield LineView(id="change-page")
            yield TextInput(placeholder=ANSWERS, id="change-sure")

    def on_mount(self) -> None:
        self.query_one(TextInput).display = False
        self.query_one(LineView).focus()
        self.subscribe(self.nictop.changes.changed, self._update)
        self.call_after_refresh(self._update)

    # ------------------------------------------------------------------------------------------ what is shown

    @property
    def _shown(self) -> tuple[ChangeJob, ChangeProgress] | None:
        changes = self.nictop.changes
        return None if changes.job is None or changes.progress is None else (changes.job, changes.progress)

    def _update(self) -> None:
        """The change has advanced, or time has passed."""
        found = self._shown
        if self._left:
            return
        if found is None or found[1].outcome == "cancelled":
            self._leave()
            return
        job, progress = found
        if progress.stage != self._stage:
            self._stage = progress.stage
            if progress.stage != "prepared":
                self._end_question()
            self.query_one(LineView).scroll_to(y=0, animate=False)
        self._draw(job, progress)

    def _draw(self, job: ChangeJob, progress: ChangeProgress) -> None:
        box, view = self.query_one("#change", Vertical), self.query_one(LineView)
        title, keys = f"{job.host}: {job.title}", self._keys(progress)
        if box.border_title != (shown := box_title(title, self.size.width, self.glyphs)):
            box.border_title = shown
        if box.border_subtitle != (shown := box_keys(keys, self.size.width, self.glyphs)):
            box.border_subtitle = shown
        session = self.nictop.hosts.by_name.get(job.host)
        page = ChangePage(job, progress, view.scrollable_content_region.width, glyphs=self.glyphs)
        snapshot = session.snapshot if session is not None else None
        lines = page.lines(monotonic(), snapshot, asks_twice=self._asks_twice)
        view.take_rows(max(1, min(len(lines), self.size.height - CHANGE_CHROME_ROWS)))
        view.show_lines(lines)

    def _keys(self, progress: ChangeProgress) -> str:
        if self._asks_twice:
            return "enter answer · esc leave it as it is"
        if progress.stage == "applied" and not progress.is_applied:
            return KEYS["undoing"]
        lasts = " · l make it last" if self._can_last(progress) else ""
        return KEYS[progress.stage] + lasts

    def on_line_view_resized(self) -> None:
        self.call_after_refresh(self._update)

    # -------------------------------------------------------------------------------------------------- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Each key only while its action is possible."""
        found = self._shown
        if found is None or not self.query(TextInput):
            return action in ("back", "close")
        progress = found[1]
        offered = {
            "apply": progress.stage == "prepared" and progress.decision == "" and not self._asks_twice,
            "keep": progress.is_applied,
            "undo": progress.stage == "applying" or progress.is_applied,
            "wait": progress.stage == "prepared" and not self._asks_twice,
            "lasting": self._can_last(progress),
            "close": progress.stage == "ended",
        }
        return offered.get(action, True)

    def action_apply(self) -> None:
        found = self._shown
        if found is None or not found[1].needs_second_yes:
            self.nictop.changes.apply()
            return
        self._asks_twice = True
        entry = self.query_one(TextInput)
        entry.display = True
        self.set_focus(entry)
        self._draw(*found)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Only the word applies it."""
        event.stop()
        sure = event.value.strip().casefold() == APPLY_ANSWER
        self._end_question()
        if sure:
            self.nictop.changes.apply(twice=True)
        else:
            self.nictop.changes.undo()

    def _end_question(self) -> None:
        if self._asks_twice:
            self._asks_twice = False
            entry = self.query_one(TextInput)
            entry.value, entry.display = "", False
            self.set_focus(self.query_one(LineView))

    def action_keep(self) -> None:
        self.nictop.changes.keep()

    def action_undo(self) -> None:
        self.nictop.changes.undo()

    def action_wait(self, step: int) -> None:
        self.nictop.changes.wait(step)

    def action_copy(self) -> None:
        found = self._shown
        if found is not None:
            self.nictop.copy_lines(commands_of(found[1]), [f"to be typed on {found[0].host}"])

    def action_back(self) -> None:
        """Before it is applied: do not apply it; afterwards: close the dialog, the change continues."""
        found = self._shown
        if found is not None and found[1].stage in ("preparing", "prepared") and found[1].decision == "":
            self._end_question()
            self.nictop.changes.undo()
        else:
            self._leave()

    def action_close(self) -> None:
        self._leave()

    def _leave(self) -> None:
        """Close the dialog; a change that has ended is dropped."""
        if not self._left and self.is_current:
            self._left = True
            self.nictop.changes.forget()
            self.dismiss()

    # ----------------------------------------------------------------------------------------------- make it last

    def _can_last(self, progress: ChangeProgress) -> bool:
        job = self.nictop.changes.job
        return progress.outcome == "kept" and job is not None and bool(job.lasting)

    def action_lasting(self) -> None:
        """Open the first way to make it last, a fix like any other."""
        job = self.nictop.changes.job
        if job is not None and job.lasting:
            self._leave()
            self.opener.open_job(job.lasting_job(job.lasting[0]))
