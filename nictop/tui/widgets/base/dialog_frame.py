"""What stands in the frame of a dialog: its title, and its keys. Text is never markup there."""

from __future__ import annotations

from nictop.model.facts import fit, width
from nictop.model.text.glyphs import Glyphs

MAX_DIALOG_CELLS, FRAME_CELLS = 104, 6
"""Cells of the widest dialog, and of what stands beside the words in its frame."""
KEY_SEPARATOR = " · "


def box_title(text: str, screen: int, glyphs: Glyphs) -> str:
    """Text for `border_title`, cut to the width of a dialog on a screen of `screen` cells."""
    shown = glyphs.text(text)
    return _unmarked(shown, screen, glyphs)


def box_keys(text: str, screen: int, glyphs: Glyphs) -> str:
    """For `border_subtitle`: keys and their actions, the most important first; those that do not fit are left out."""
    room = _room(screen)
    parts = text.split(KEY_SEPARATOR)
    while len(parts) > 1 and width(KEY_SEPARATOR.join(parts)) > room:
        parts.pop()
    return _unmarked(glyphs.text(KEY_SEPARATOR.join(parts)), screen, glyphs)


def _unmarked(shown: str, screen: int, glyphs: Glyphs) -> str:
    """Cut to the dialog, and escaped: Textual parses the titles of borders as markup."""
    room = _room(screen)
    if width(shown) > room:
        shown = glyphs.text(fit(shown, room))
    return shown.replace("[", r"\[")


def _room(screen: int) -> int:
    return max(1, min(MAX_DIALOG_CELLS, screen) - FRAME_CELLS)
