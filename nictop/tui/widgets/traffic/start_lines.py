"""Below the form of a test: the command line that starts the same, and the buttons.

= nictop traffic vm1 vm2 --reverse
[ Start ]  [ Self-test ]  Start waits for the check of both hosts
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from nictop.model.facts import fit, width, wrap
from nictop.rules.wording import LINE_CONTINUATION
from nictop.tui.keys import BUTTON_KEYS
from nictop.tui.widgets.base.line_widget import LineWidget, Span, SpanLine, span_cells

SELF_TEST_LABEL = "Self-test"
BUTTONS = ("Start", SELF_TEST_LABEL)
FIRST_CELL, GAP = 1, 2
MAX_COMMAND_ROWS = 4


def _command_rows(text: str, cells: int) -> Sequence[str]:
    """The command in rows that end as a shell wants it, as many as are shown; the last one says if
    there is more."""
    *rows, last = wrap(text, cells - len(LINE_CONTINUATION))
    rows = [row + LINE_CONTINUATION for row in rows]
    if len(rows) < MAX_COMMAND_ROWS:
        return [*rows, last]
    return [
        *rows[: MAX_COMMAND_ROWS - 1],
        f"{fit(rows[MAX_COMMAND_ROWS - 1], cells - 2).rstrip()} …",
    ]


class StartLines(LineWidget):
    """Posts `Pressed` when a button is pressed."""

    BINDINGS: ClassVar[list[BindingType]] = BUTTON_KEYS

    class Pressed(Message):
        """A button was pressed."""

        def __init__(self, *, self_test: bool) -> None:
            super().__init__()
            self.self_test = self_test

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._command = ""
        self._start = ("", "")
        self._chosen = 0
        """Index of the button that Enter presses."""

    def show(self, command: str, start: tuple[str, str] = ("", "")) -> None:
        """Draw the command line, in as many rows as it needs, the buttons, and what Start does
        (text, style): beside the buttons, or above them where there is too little room."""
        self._command, self._start = command, start
        self._draw()

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def _draw(self) -> None:
        lines = self._command_lines()
        buttons = self._buttons()
        text, style = self.glyphs.text(self._start[0]), self._start[1]
        if width(text) <= max(10, self.size.width - span_cells(buttons)):
            buttons.append((text, style))
        else:
            lines += [((f" {part}", style),) for part in wrap(text, max(10, self.size.width - 2))]
        self.take_rows(len(lines) + 1)
        self.show_lines([*lines, tuple(buttons)])

    def _command_lines(self) -> list[SpanLine]:
        text = self.glyphs.text(self._command)
        lead = "=" if text else " "
        lines: list[SpanLine] = []
        for part in _command_rows(text, max(10, self.size.width - 4)):
            lines.append(((f" {lead} ", "dim"), (part, "title")))
            lead = " "
        return lines

    def _buttons(self) -> list[Span]:
        is_focused = self.screen.focused is self  # has_focus follows later
        spans: list[Span] = [(" " * FIRST_CELL, "")]
        for index, label in enumerate(BUTTONS):
            mark, style = " ", "accent"
            if is_focused and index == self._chosen:
                mark, style = self.glyphs.cursor, "cursor"
            spans += [(f"[{mark}{label} ]", style), (" " * GAP, "")]
        return spans

    def on_focus(self) -> None:
        super().on_focus()
        self._chosen = 0
        self._draw()

    def on_blur(self) -> None:
        super().on_blur()
        self._draw()

    def action_choose(self, step: int) -> None:
        self._chosen = (self._chosen + step) % len(BUTTONS)
        self._draw()

    def action_press(self) -> None:
        self.post_message(self.Pressed(self_test=self._chosen > 0))

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset_capture(self)
        first, second = (len(label) + len("[  ]") for label in BUTTONS)
        self_test_cell = FIRST_CELL + first + GAP
        is_button_line = self.line_at(place.y) == len(self.lines) - 1
        if is_button_line and FIRST_CELL <= place.x < self_test_cell + second:
            self.post_message(self.Pressed(self_test=place.x >= self_test_cell))
