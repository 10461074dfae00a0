"""The line into which the filter of a list is typed (key ``/``), below that list.

drops>0 driver:igb                                   2 of 12
"""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.binding import BindingType
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from nictop.model.text.terminal import fit, width
from nictop.tui.keys import FILTER_KEYS, KeyLabels
from nictop.tui.widgets.base.text_input import TextInput

MIN_NOTE_GAP = 2
"""Blanks between the filter and the note."""


def no_matches(labels: KeyLabels) -> str:
    """In place of the lines of a list."""
    return f"No matches ({labels('back')} clears the filter)"


class FilterLine(TextInput):
    """Hidden until `begin`. Enter keeps the filter and returns to the list. Its parent redraws on
    `Input.Changed`."""

    BINDINGS: ClassVar[list[BindingType]] = FILTER_KEYS
    COMPONENT_CLASSES: ClassVar[set[str]] = {"filter-line--note", "filter-line--error"}

    def __init__(self, listed: type[Widget], hint: str, *, id: str) -> None:
        """`listed`: class of the list; `hint`: shown while nothing is typed."""
        super().__init__(placeholder=hint, id=id)
        self._listed = listed
        self._note = ("", False)
        self.display = False

    def show_note(self, text: str, *, is_error: bool = False) -> None:
        """At the right end, as far as the filter leaves room: how many lines it accepts, or what is
        wrong with it."""
        if (text, is_error) != self._note:
            self._note = (text, is_error)
            self.refresh()

    def begin(self) -> None:
        """What is typed next belongs to the filter."""
        self.display = True
        self.screen.set_focus(self)  # at once

    def action_end_filter(self) -> None:
        """Clear and hide the filter."""
        self.value, self.display = "", False
        self._focus_list()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """An empty filter is hidden."""
        event.stop()
        self.display = bool(event.value.strip())
        self._focus_list()

    def _focus_list(self) -> None:
        self.screen.set_focus(self.screen.query_one(self._listed))

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        text, is_error = self._note
        cells = self.scrollable_content_region.width
        room = cells - width(self.value) - 1 - MIN_NOTE_GAP
        if not text or not self.value or room < 1:
            return strip
        note = self.glyphs.text(text)
        shown = fit(note, min(room, width(note)))
        kind = "error" if is_error else "note"
        style = self.rich_style + self.get_component_rich_style(f"filter-line--{kind}")
        return Strip([*strip.crop(0, cells - width(shown)), Segment(shown, style)])
