"""What all dialogs share: a frame with a title, text that scrolls, fields if there are any, a row
of buttons.

╭ web1: set IP address ──────────────────────────────────────────╮
│ text                                                           │
│                                                                │
│ [▸Apply ] [ Copy ] [ Cancel ]                                  │
╰ Tab Next · Enter Cancel · Esc Cancel ──────────────────────────╯
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ScreenResultType
from textual.widget import Widget

from nictop.model.facts import wrap
from nictop.tui.keys import DIALOG_KEYS, key_label
from nictop.tui.widgets.base.button_row import ButtonRow
from nictop.tui.widgets.base.dialog_frame import PopUp, box_title
from nictop.tui.widgets.base.form import Form
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine

OVER_TITLE = "Nothing to ask any more"
"""Of a dialog whose question has ended while it is open: it does not close by itself, so that the
keys that were meant for it do nothing to the screen below."""
MIN_TEXT_CELLS = 10
CHROME_ROWS = 7
"""Rows of a screen that are neither text nor fields of a dialog: those that stay visible, frame,
buttons, a blank."""


class DialogText(LineWidget):
    """The text, which the keys of the dialog scroll."""

    can_focus = False
    marks_more = True

    @property
    def more_key(self) -> str:
        """No configuration changes it."""
        return key_label("pagedown")


class Dialog(PopUp[ScreenResultType]):
    """A subclass has the title, the text, the buttons, and for each of them the action of its
    name."""

    BINDINGS: ClassVar[list[BindingType]] = DIALOG_KEYS
    is_tall = False
    """It has the full height of a dialog from the start: its text changes, and its frame must not
    move."""
    fields_above = False
    FIELD_ROWS = 0
    """Rows of `compose_fields`, with their margins, unless it is tall."""

    @property
    def dialog_title(self) -> str:
        raise NotImplementedError

    @property
    def key_hints(self) -> str:
        """Keys and their actions, the most important first."""
        return self.hints("Esc Cancel")

    field_enter = "OK"
    """What Enter does while a field has the focus."""

    def hints(self, *others: str) -> str:
        """``Tab Next · Enter Close · Esc …``: what Enter does now, and other keys."""
        row = self.query_one(ButtonRow)
        does = row.enter_label if self.focused in (row, None) else self.field_enter
        hints = ["Tab Next"]
        if does:
            hints.append(f"Enter {does}")
        return " · ".join((*hints, *others))

    def head_lines(self, cells: int) -> Sequence[SpanLine]:
        """What is said above the text."""
        return ()

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        """The text, `cells` cells wide."""
        raise NotImplementedError

    def compose_fields(self) -> Iterable[Widget]:
        """Widgets between text and buttons, or above the text (`fields_above`)."""
        return ()

    def show_buttons(self, row: ButtonRow) -> None:
        """Call `row.show` with the buttons of now; the name of each is an action of the dialog:
        ``cancel``."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="dialog tall" if self.is_tall else "dialog"):
            if self.fields_above:
                yield from self.compose_fields()
            yield DialogText(id="dialog-text")
            if not self.fields_above:
                yield from self.compose_fields()
            yield ButtonRow(id="dialog-buttons")

    def on_mount(self) -> None:
        fields = self.query("#dialog TextInput, #dialog Form")
        shown = [field for field in fields if field.display]
        self.set_focus(shown[0] if shown else self.query_one(ButtonRow))
        self.show_buttons(self.query_one(ButtonRow))  # a key typed at once is for one of them

    def draw_resized(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw everything of it that differs."""
        box, view = self.query_one("#dialog", Vertical), self.query_one("#dialog-text", LineWidget)
        cells = self.app.size.width
        if box.border_title != (shown := box_title(self.dialog_title, cells, self.glyphs)):
            box.border_title = shown
        for _ in range(2):  # once more when the lines make the scroll bar appear or go
            cells = view.scrollable_content_region.width
            cells_of_text = max(MIN_TEXT_CELLS, cells)
            lines = [*self.head_lines(cells_of_text), *self.text_lines(cells_of_text)]
            if not self.is_tall:
                most = self.size.height - CHROME_ROWS - self.FIELD_ROWS
                view.take_rows(max(1, min(len(lines), most)))
            view.show_lines(lines)
            if view.scrollable_content_region.width == cells:
                break
        self.show_buttons(self.query_one(ButtonRow))
        self._draw_keys()

    def _draw_keys(self) -> None:
        box = self.query_one("#dialog", Vertical)
        if box.border_subtitle != (shown := self.frame_keys(self.key_hints)):
            box.border_subtitle = shown

    def on_button_row_moved(self) -> None:
        """Enter does something else."""
        if self.is_open:
            self._draw_keys()

    def wrapped(
        self, text: str, cells: int, style: str = "", *, indent: str = ""
    ) -> Iterator[SpanLine]:
        """Clean lines of at most `cells` cells."""
        for part in wrap(self.glyphs.text(text), max(MIN_TEXT_CELLS, cells - len(indent))):
            yield ((indent + part, style),)

    # ----------------------------------------------------------------------------------------- keys

    async def on_button_row_pressed(self, event: ButtonRow.Pressed) -> None:
        event.stop()
        await self.run_action(event.name)

    def action_cancel(self) -> None:
        self.dismiss()

    def action_step(self, step: int) -> None:
        """To the next button or field, or (`step` -1) to the one before."""
        focused = self.focused
        if isinstance(focused, (ButtonRow, Form)) and focused.move(step):
            return
        if step > 0:
            self.focus_next()
        else:
            self.focus_previous()
        if isinstance(self.focused, (ButtonRow, Form)):
            self.focused.choose_edge(step)

    def action_scroll_text(self, rows: int) -> None:
        self.query_one("#dialog-text", LineWidget).scroll_rows(rows)

    def action_page_text(self, pages: int) -> None:
        self.query_one("#dialog-text", LineWidget).scroll_pages(pages)
