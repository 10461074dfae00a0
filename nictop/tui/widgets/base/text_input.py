"""One line to type into: no frame, no blinking, and a mask that an ASCII console can draw."""

from __future__ import annotations

from rich.text import Text

from nictop.tui.textual_private import PrivateInput
from nictop.tui.widgets.base.with_glyphs import WithGlyphs

MASK = "*"


class TextInput(WithGlyphs, PrivateInput):
    """Textual's `Input` on one row."""

    def __init__(
        self,
        value: str = "",
        *,
        placeholder: str = "",
        password: bool = False,
        id: str | None = None,
    ) -> None:
        super().__init__(value, placeholder=placeholder, password=password, compact=True, id=id)
        self.cursor_blink = False

    def drawn_value(self) -> Text:
        if self.password and self.glyphs.is_ascii:
            return Text(MASK * len(self.value), no_wrap=True, overflow="ignore", end="")
        return super().drawn_value()
