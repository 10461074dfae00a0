"""Base of every screen and widget that draws: its characters, and the labels of keys in texts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from nictop.model.text.glyphs import Glyphs
from nictop.tui.keys import glyphs_of, shown_key

if TYPE_CHECKING:
    from textual.widget import Widget

    Base = Widget
else:
    Base = object


class WithGlyphs(Base):
    """Must precede the Textual class among the bases."""

    @cached_property
    def glyphs(self) -> Glyphs:
        """The character set of the application; Unicode if it has none."""
        return glyphs_of(self.app)

    def key_label(self, name: str) -> str:
        """`KeyLabels` of the application."""
        return shown_key(self.app, name)
