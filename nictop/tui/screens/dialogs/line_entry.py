"""One line to be typed: the name of a file, or a time. An error is shown, and the line stays to be corrected.

╭ record to a file ──────────────────────────────────────────────╮
│ Everything that the hosts say, until r is pressed again.       │
│ > nictop-vm1-20261121-140320.nictop                            │
│ nictop-vm1-20261121-140320.nictop exists already               │
╰ enter begin · esc cancel ──────────────────────────────────────╯
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from nictop.model.facts import wrap
from nictop.tui.keys import LINE_ENTRY_KEYS
from nictop.tui.widgets.base.line_view import LineView, SpanLine
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.base.while_open import WhileOpen

KEY_WORDS = "enter take it · esc cancel"


class LineEntry(WhileOpen, ModalScreen[None]):
    """`take` gets the line and returns what is wrong with it; "" closes the dialog."""

    BINDINGS: ClassVar[list[BindingType]] = LINE_ENTRY_KEYS

    def __init__(self, title: str, words: str, value: str, take: Callable[[str], Awaitable[str]]) -> None:
        super().__init__()
        self._title, self._words, self._value, self._take = title, words, value, take
        self._complaint = ""
        self._taking = False

    def compose(self) -> ComposeResult:
        with Vertical(id="entry-dialog", classes="dialog"):
            yield LineView(id="entry-words")
            yield TextInput(id="entry-line")
            yield LineView(id="entry-complaint")

    def on_mount(self) -> None:
        box, entry = self.query_one("#entry-dialog", Vertical), self.query_one(TextInput)
        box.border_title = self.glyphs.text(self._title)
        box.border_subtitle = self.glyphs.text(KEY_WORDS)
        entry.value = self._value
        entry.cursor_position = len(self._value)
        for view in self.query(LineView):
            view.can_focus = False
        entry.focus()
        self.call_after_refresh(self._draw)

    def on_line_view_resized(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        for name, text, style in (("#entry-words", self._words, ""), ("#entry-complaint", self._complaint, "warn")):
            view = self.query_one(name, LineView)
            lines: list[SpanLine] = [
                ((part, style),) for part in wrap(self.glyphs.text(text), max(10, view.size.width)) if text
            ]
            view.display = bool(lines)
            view.take_rows(max(1, len(lines)))
            view.show_lines(lines)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        words = event.value.strip()
        if words and not self._taking:
            self._taking = True
            self.run_worker(self._give(words), name="take", group="take")

    async def _give(self, words: str) -> None:
        try:
            self._complaint = await self._take(words)
        finally:
            self._taking = False
        if not self.is_open:
            return
        if self._complaint:
            # hidden it has no width to be wrapped to
            self.query_one("#entry-complaint").display = True
            self.call_after_refresh(self._draw)
        else:
            self.dismiss()
