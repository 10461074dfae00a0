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
    """Stands before Textual's class among the bases."""

    @cached_property
    def glyphs(self) -> Glyphs:
        """Those of the application; Unicode in one that has none."""
        found = getattr(self.app, "glyphs", UNICODE)
        assert isinstance(found, Glyphs)
        return found
