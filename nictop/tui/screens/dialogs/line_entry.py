"""One line to type: the name of a file, or a time. An error is shown, and the line stays to be
corrected.

╭ Record to file ────────────────────────────────────────────────╮
│ Record all hosts (including tests); r, Stop recording ends it. │
│ File: nictop-vm1-20261121-140320.nictop                        │
│ nictop-vm1-20261121-140320.nictop already exists               │
│                                                                │
│ [ Record ] [ Cancel ]                                          │
╰ Tab Next · Enter Record · Esc Cancel ──────────────────────────╯
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, cast

from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Label

from nictop.tui.screens.dialogs.dialog import MIN_TEXT_CELLS, Dialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine
from nictop.tui.widgets.base.text_input import TextInput

if TYPE_CHECKING:
    from nictop.tui.screens.base import Opener

MAX_ERROR_ROWS = 2


class LineEntry(Dialog[None]):
    """`take` gets the line and returns what is wrong with it; "" closes the dialog. `button`: label
    of the button that does that. `label`: before the line. `holds_keys`: what is typed while `take`
    works is for the screen below, Esc too; else Esc leaves the dialog meanwhile."""

    FIELD_ROWS = 1 + MAX_ERROR_ROWS

    def __init__(
        self,
        title: str,
        text: str,
        value: str,
        take: Callable[[str], Awaitable[str]],
        *,
        button: str = "OK",
        label: str = "File:",
        holds_keys: bool = False,
    ) -> None:
        super().__init__()
        self._title, self._text, self._value, self._take, self._button = (
            title,
            text,
            value,
            take,
            button,
        )
        self._label, self._error = label, ""
        self._taking, self._keys, self._holds_keys = False, ExitStack(), holds_keys
        self.field_enter = button

    @property
    def dialog_title(self) -> str:
        return self._title

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        return list(self.wrapped(self._text, cells))

    def compose_fields(self) -> Iterable[Widget]:
        with Horizontal(id="entry-row"):
            yield Label(self._label, markup=False)
            yield TextInput(self._value, id="entry-line")
        yield from self.compose_options()
        error = LineWidget(id="entry-error")
        error.can_focus = False
        yield error

    def compose_options(self) -> Iterable[Widget]:
        """Widgets below the line."""
        return ()

    def show_buttons(self, row: ButtonRow) -> None:
        row.show((Button("submit", self._button), Button("cancel", "Cancel")))

    def draw(self) -> None:
        super().draw()
        view = self.query_one("#entry-error", LineWidget)
        view.take_rows(MAX_ERROR_ROWS)
        view.show_lines(
            list(self.wrapped(self._error, max(MIN_TEXT_CELLS, view.size.width), "bad"))
        )

    def action_submit(self) -> None:
        self._submit(self.query_one(TextInput).value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._submit(event.value)

    def _submit(self, value: str) -> None:
        text = value.strip()
        if text and not self._taking:
            self._taking = True
            if self._holds_keys:
                self._keys.enter_context(cast("Opener", self.app).held_keys())
            self.run_worker(self._give(text), name="take", group="take")

    async def _give(self, text: str) -> None:
        with self._keys:
            try:
                self._error = await self._take(text)
            finally:
                self._taking = False
            if not self.is_open:
                return
            if self._error:
                self.draw()
            else:
                self.dismiss()

    def on_unmount(self) -> None:
        self._keys.close()
