"""Below the form of a test: the command line that starts the same, and the buttons.

= nictop traffic vm1 vm2 --reverse
[ Start ]  [ Self-test ]
"""

from __future__ import annotations

from textual import events
from textual.message import Message

from nictop.model.facts import wrap
from nictop.tui.widgets.base.line_view import LineView, SpanLine

START, SELF_TEST = "[ Start ]", "[ Self-test ]"
FIRST_CELL, GAP = 1, 2
MAX_COMMAND_ROWS = 4


class StartLines(LineView):
    """Posts `Pressed` when a button is clicked."""

    can_focus = False

    class Pressed(Message):
        """A button was pressed."""

        def __init__(self, *, self_test: bool) -> None:
            super().__init__()
            self.self_test = self_test

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._command = ""

    def show(self, command: str) -> None:
        """Draw the command line, in as many rows as it needs, and the buttons."""
        self._command = command
        self._draw()

    def on_resize(self) -> None:
        super().on_resize()
        self._draw()

    def _draw(self) -> None:
        text = self.glyphs.text(self._command)
        parts = wrap(text, max(10, self.size.width - 4))[:MAX_COMMAND_ROWS] if text else [""]
        lead = "=" if text else " "
        lines: list[SpanLine] = [
            ((f" {lead if not number else ' '} ", "dim"), (part, "title")) for number, part in enumerate(parts)
        ]
        buttons = f"{' ' * FIRST_CELL}{START}{' ' * GAP}{SELF_TEST}"
        self.take_rows(len(lines) + 1)
        self.show_lines([*lines, ((buttons, "accent"),)])

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset_capture(self)
        self_test_cell = FIRST_CELL + len(START) + GAP
        if self.line_at(place.y) == len(self.lines) - 1 and FIRST_CELL <= place.x < self_test_cell + len(SELF_TEST):
            self.post_message(self.Pressed(self_test=place.x >= self_test_cell))
