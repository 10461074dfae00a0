"""One line to type into: no frame, no blinking, and a mask that an ASCII console can draw."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Input

from nictop.tui.widgets.base.with_glyphs import WithGlyphs

MASK = "*"


class TextInput(WithGlyphs, Input):
    """Textual's `Input` on one row."""

    def __init__(
        self, value: str = "", *, placeholder: str = "", password: bool = False, id: str | None = None
    ) -> None:
        super().__init__(value, placeholder=placeholder, password=password, compact=True, id=id)
        self.cursor_blink = False

    @property
    def _value(self) -> Text:
        if self.password and self.glyphs.is_ascii:
            return Text(MASK * len(self.value), no_wrap=True, overflow="ignore", end="")
        return super()._value
