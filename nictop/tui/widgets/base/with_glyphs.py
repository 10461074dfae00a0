"""Base of every screen and widget that draws: where its characters come from."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from nictop.model.text.glyphs import UNICODE, Glyphs

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
        found = getattr(self.app, "glyphs", UNICODE)
        assert isinstance(found, Glyphs)
        return found
