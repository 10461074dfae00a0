"""Confirmation before nictop is left while a run is running, or a change is not kept.

╭ a run goes on ─────────────────────────────────────────────────╮
│ Leaving ends it, and both generators with it; what was measured │
│ of it so far is kept.                                           │
╰ enter end it and leave · esc go on ────────────────────────────╯
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from nictop.model.facts import wrap
from nictop.tui.keys import DIALOG_KEYS, LEAVE_KEYS, RUN_CHANGE_KEYS
from nictop.tui.widgets.base.line_view import LineView
from nictop.tui.widgets.base.while_open import WhileOpen


class Dialog(WhileOpen, ModalScreen["bool | None"]):
    """Text and two keys; the result is whether the answer was yes."""

    TITLE_WORDS = ""
    KEY_WORDS = ""

    BINDINGS: ClassVar[list[BindingType]] = DIALOG_KEYS

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="dialog"):
            yield LineView(id="dialog-lines")

    def on_mount(self) -> None:
        box = self.query_one("#dialog", Vertical)
        box.border_title = self.glyphs.text(self.TITLE_WORDS)
        box.border_subtitle = self.glyphs.text(self.KEY_WORDS)
        self.query_one(LineView).focus()
        self.call_after_refresh(self._draw)

    def on_line_view_resized(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        view = self.query_one(LineView)
        lines = [((line, ""),) for part in self._words.split("\n") for line in wrap(part, max(10, view.size.width))]
        view.take_rows(len(lines))
        view.show_lines(lines)

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)


class LeaveScreen(Dialog):
    """Whether the run is ended and nictop left."""

    TITLE_WORDS = "a run goes on"
    KEY_WORDS = "enter end it and leave · esc go on"

    BINDINGS: ClassVar[list[BindingType]] = LEAVE_KEYS

    def __init__(self, *, run: bool = True, change: bool = False) -> None:
        words = []
        if run:
            words.append("Leaving ends it, and both generators with it; what was measured of it so far is kept.")
        if change:
            words.append("A change is not kept yet: when you leave, the host takes it back by itself.")
            self.TITLE_WORDS = "a run and a change go on" if run else "a change is not kept"
        super().__init__("\n".join(words))


class ChangeScreen(Dialog):
    """Whether the user has changed what the next run needs."""

    TITLE_WORDS = "to be changed before the next run"
    KEY_WORDS = "enter it is done · esc end the experiment"

    BINDINGS: ClassVar[list[BindingType]] = RUN_CHANGE_KEYS
