"""What dialogs, menus and the help share: the title and the keys in their frame, and what a click
does there.

Text is never markup there."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.containers import Vertical
from textual.screen import ModalScreen, ScreenResultType

from nictop.model.facts import fit, width
from nictop.model.text.glyphs import Glyphs
from nictop.model.text.terminal import fit_middle
from nictop.tui.keys import drawn_label, keys_by_label
from nictop.tui.widgets.base.whole_frames import WholeFrames

MAX_DIALOG_CELLS, FRAME_CELLS = 104, 6
"""Cells of the widest dialog, and of what stands beside the words in its frame."""
MIN_HOST_CELLS = 8
"""Of the name of a host in a title that is too long."""
KEY_SEPARATOR = " · "


class PopUp(WholeFrames, ModalScreen[ScreenResultType]):
    """A frame (its first `Vertical`) above another screen."""

    @property
    def closes_by_click(self) -> bool:
        """A click outside its frame does what Esc does."""
        return True

    def on_click(self, event: events.Click) -> None:
        x, y = event.screen_x, event.screen_y
        is_on_widget = self.get_widget_at(x, y)[0] is not self
        if is_on_widget or self.query_one(Vertical).region.contains(x, y):
            return
        if self.closes_by_click:
            self.action_press_key("escape")

    def frame_keys(self, text: str) -> str:
        """`box_keys` of this screen."""
        return box_keys(text, self.app.size.width, self.glyphs, keys_by_label(self.app))

    def action_press_key(self, key: str) -> None:
        """By the application: a key that one of its own widgets sends would not reach the bindings
        of the screen."""
        self.app.call_later(self.app.simulate_key, key)


def box_title(text: str, screen: int, glyphs: Glyphs) -> str:
    """Text for `border_title`, cut to the width of a dialog on a screen of `screen` cells: first
    a remark in brackets at its end, then the middle of the host's name before the colon: which host
    it is, and what the dialog is about, stays."""
    title = glyphs.text(text)
    if width(title) > _room(screen) and title.endswith(")"):
        title = title.rpartition(" (")[0] or title
    host, colon, about = title.partition(": ")
    room = _room(screen) - width(colon + about)
    if colon and MIN_HOST_CELLS <= room < width(host):
        host = glyphs.text(fit_middle(host, room))
    return _unmarked(host + colon + about, screen, glyphs)


def box_keys(text: str, screen: int, glyphs: Glyphs, keys: Mapping[str, str]) -> str:
    """For `border_subtitle`: keys and their actions, the most important first; those that do not
    fit are left out. A click presses the key. `keys`: by label."""
    room = _room(screen)
    parts = [_with_drawn_key(part, glyphs) for part in text.split(KEY_SEPARATOR)]
    while len(parts) > 1 and width(KEY_SEPARATOR.join(parts)) > room:
        parts.pop()
    clickable = [_clickable(part, screen, glyphs, keys) for part in parts]
    return glyphs.text(KEY_SEPARATOR).join(clickable)


def _with_drawn_key(part: str, glyphs: Glyphs) -> str:
    label, blank, words = part.partition(" ")
    return drawn_label(label, glyphs) + blank + words


def _clickable(part: str, screen: int, glyphs: Glyphs, keys: Mapping[str, str]) -> str:
    label = part.partition(" ")[0]
    shown = _unmarked(glyphs.text(part), screen, glyphs)
    return f"[@click=screen.press_key('{keys.get(label, label)}')]{shown}[/]"


def _unmarked(shown: str, screen: int, glyphs: Glyphs) -> str:
    """Cut to the dialog, and escaped: Textual parses the titles of borders as markup."""
    room = _room(screen)
    if width(shown) > room:
        shown = glyphs.text(fit(shown, room))
    return shown.replace("[", r"\[")


def _room(screen: int) -> int:
    return max(1, min(MAX_DIALOG_CELLS, screen) - FRAME_CELLS)
