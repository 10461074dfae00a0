"""One line to type into: no frame, no blinking, and a mask that an ASCII console can draw."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Input

MASK = "*"


class TextInput(Input):
    """Textual's `Input` on one row."""

    def __init__(
        self, *, placeholder: str = "", password: bool = False, ascii_only: bool = False, id: str | None = None
    ) -> None:
        super().__init__(placeholder=placeholder, password=password, compact=True, id=id)
        self._ascii_only = ascii_only
        self.cursor_blink = False

    @property
    def _value(self) -> Text:
        if self.password and self._ascii_only:
            return Text(MASK * len(self.value), no_wrap=True, overflow="ignore", end="")
        return super()._value
