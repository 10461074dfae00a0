"""The help of a screen: its keys by group, marks, and then the keys of all other screens. Made from the bindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen

from nictop.tui.keys import HELP_KEYS, KEYS, Key, key_labels
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


def key_rows(table: Iterable[Key]) -> list[tuple[str, str]]:
    """(keys, what they do)"""
    return [(key_labels(key.keys), key.meaning) for key in table]


def draw_help(screen: Screen[object]) -> list[SpanLine]:
    """Lines of the help of `screen`."""
    lines: list[SpanLine] = [((" This screen", "accent"),)]
    seen: dict[tuple[str, str], list[str]] = {}
    for _, binding, _, _ in screen.active_bindings.values():
        if binding.id is not None and (binding.tooltip or binding.description):
            seen.setdefault((binding.action, binding.tooltip or binding.description), []).append(binding.key)
    lines += [((f"  {key_labels(','.join(found)):<14}", "title"), (text, "")) for (_, text), found in seen.items()]
    lines += [((" ", ""),), ((" Marks", "accent"),)]
    lines += [((f"  {mark:<14}", "title"), (text, "")) for mark, text in MARKS]
    lines += [((" ", ""),), ((" All keys", "accent"),)]
    lines += [((f"  {labels:<14}", "title"), (text, "")) for labels, text in key_rows(KEYS.values())]
    return lines


class HelpScreen(WhileOpen, ModalScreen[None]):
    """Shown over the screen that it is about; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = HELP_KEYS

    def __init__(self, screen: Screen[object]) -> None:
        super().__init__()
        self._lines = draw_help(screen)

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            yield LineView(id="help-lines")

    def on_mount(self) -> None:
        self.query_one("#help", Vertical).border_title = "nictop: keys and marks"
        view = self.query_one("#help-lines", LineView)
        view.show_lines([tuple((self.glyphs.encode(text), style) for text, style in line) for line in self._lines])
        view.focus()
