"""Keys and marks, made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from nictop.tui.keys import ALL_KEYS, HELP_KEYS
from nictop.tui.widgets.base.line_view import LineView, SpanLine
from nictop.tui.widgets.base.while_open import WhileOpen

MARKS = (
    ("▲", "link up"),
    ("▽", "up, but no carrier"),
    ("·", "administratively down"),
    ("●", "the host is live"),
    ("◌", "connecting, or lost and tried again"),
    ("–", "not known yet, or the counter was reset"),
    ("DROP/S", "dropped by the kernel or missed by the device; MISS/S is the latter alone"),
    ("HISTORY, ▂▄█", "one column per reading, the newest at the right; in and out together in the table"),
)

KEY_NAMES = {
    "question_mark": "?",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "escape": "esc",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "slash": "/",
    "pageup": "pgup",
    "pagedown": "pgdn",
}


def key_rows(bindings: Sequence[BindingType]) -> list[tuple[str, str]]:
    """(keys, what they do) of each binding that says what it does."""
    rows = []
    for binding in bindings:
        if isinstance(binding, Binding) and (binding.tooltip or binding.description):
            keys = " ".join(KEY_NAMES.get(key, key) for key in binding.key.split(","))
            rows.append((keys, binding.tooltip or binding.description))
    return rows


def draw_help(bindings: Sequence[BindingType]) -> list[SpanLine]:
    """Lines of the help screen."""
    lines: list[SpanLine] = [((" Keys", "accent"),)]
    lines += [((f"  {keys:<14}", "title"), (text, "")) for keys, text in key_rows(bindings)]
    lines += [((" ", ""),), ((" Marks", "accent"),)]
    lines += [((f"  {mark:<14}", "title"), (text, "")) for mark, text in MARKS]
    return lines


class HelpScreen(WhileOpen, ModalScreen[None]):
    """Shown over the live screen; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = HELP_KEYS

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            yield LineView(id="help-lines")

    def on_mount(self) -> None:
        self.query_one("#help", Vertical).border_title = "nictop: keys and marks"
        view = self.query_one("#help-lines", LineView)
        view.show_lines(draw_help(ALL_KEYS))
        view.focus()
