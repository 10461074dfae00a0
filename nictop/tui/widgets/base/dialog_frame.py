"""What dialogs, menus and the help share: the title and the keys in their frame, and what a click does there.

Text is never markup there."""

from __future__ import annotations

from textual import events
from textual.containers import Vertical
from textual.screen import ModalScreen, ScreenResultType

from nictop.model.facts import fit, width
from nictop.model.text.glyphs import Glyphs
from nictop.tui.keys import KEY_LABELS
from nictop.tui.widgets.base.whole_frames import WholeFrames

MAX_DIALOG_CELLS, FRAME_CELLS = 104, 6
"""Cells of the widest dialog, and of what stands beside the words in its frame."""
MIN_HOST_CELLS = 8
"""Of the name of a host in a title that is too long."""
KEY_SEPARATOR = " · "
KEYS_BY_LABEL = {label: key for key, label in KEY_LABELS.items()}


class PopUp(WholeFrames, ModalScreen[ScreenResultType]):
    """A frame (its first `Vertical`) above another screen."""

    @property
    def closes_by_click(self) -> bool:
        """A click outside its frame does what Esc does."""
        return True

    def on_click(self, event: events.Click) -> None:
        region = self.query_one(Vertical).region
        is_outside = self.get_widget_at(event.screen_x, event.screen_y)[0] is self
        if is_outside and self.closes_by_click and not region.contains(event.screen_x, event.screen_y):
            self.action_press_key("escape")

    def action_press_key(self, key: str) -> None:
        """By the application: a key that one of its own widgets sends would not reach the bindings of the screen."""
        self.app.call_later(self.app.simulate_key, key)


def box_title(text: str, screen: int, glyphs: Glyphs) -> str:
    """Text for `border_title`, cut to the width of a dialog on a screen of `screen` cells: first the name of the host
    before the colon, so that what the dialog is about stays."""
    host, colon, about = glyphs.text(text).partition(": ")
    room = _room(screen) - width(colon + about)
    if colon and MIN_HOST_CELLS <= room < width(host):
        host = glyphs.text(fit(host, room))
    return _unmarked(host + colon + about, screen, glyphs)


def box_keys(text: str, screen: int, glyphs: Glyphs) -> str:
    """For `border_subtitle`: keys and their actions, the most important first; those that do not fit are left out. A
    click presses the key."""
    room = _room(screen)
    parts = text.split(KEY_SEPARATOR)
    while len(parts) > 1 and width(KEY_SEPARATOR.join(parts)) > room:
        parts.pop()
    return glyphs.text(KEY_SEPARATOR).join(_clickable(part, screen, glyphs) for part in parts)


def _clickable(part: str, screen: int, glyphs: Glyphs) -> str:
    label = part.partition(" ")[0]
    shown = _unmarked(glyphs.text(part), screen, glyphs)
    return f"[@click=screen.press_key('{KEYS_BY_LABEL.get(label, label)}')]{shown}[/]"


def _unmarked(shown: str, screen: int, glyphs: Glyphs) -> str:
    """Cut to the dialog, and escaped: Textual parses the titles of borders as markup."""
    room = _room(screen)
    if width(shown) > room:
        shown = glyphs.text(fit(shown, room))
    return shown.replace("[", r"\[")


def _room(screen: int) -> int:
    return max(1, min(MAX_DIALOG_CELLS, screen) - FRAME_CELLS)
