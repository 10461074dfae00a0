"""Lines of which one is chosen: the cursor stays on its line by key, wherever the line goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from nictop.tui.keys import LIST_KEYS
from nictop.tui.widgets.base.line_widget import LineWidget

REACTION_SECONDS = 0.5
"""From what somebody sees until the key that answers it is received: his own reaction, and the
round trip of a terminal over SSH."""


class ChoiceList(LineWidget):
    """Posts `Opened` on a second click; a subclass draws (`redraw`) and reacts to another choice
    (`choice_changed`)."""

    BINDINGS: ClassVar[list[BindingType]] = LIST_KEYS

    class Opened(Message):
        """Details of the chosen line were requested."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._keys: Sequence[str] = ()
        self._key: str | None = None
        self._wanted: str | None = None
        self._moved = False
        """The user has chosen a line; until then it is `first_choice`."""
        self._last_index = 0
        """Index of the line that was chosen last."""
        self.clock: Callable[[], float] = monotonic
        self._is_held = False
        """What is chosen stays chosen, although the user has not chosen it."""
        self._own_choices: deque[tuple[float, str]] = deque(maxlen=8)
        """Time of `clock` and key of the lines that were `first_choice`."""

    @property
    def index(self) -> int | None:
        """Index of the chosen line; None while there is none."""
        if self._key is None or self._key not in self._keys:
            return None
        return self._keys.index(self._key)

    @property
    def key(self) -> str | None:
        """Key of the line that the user has chosen; None: the widget chose it."""
        if not self._moved:
            return None
        return self._key

    def begin(self, key: str | None) -> None:
        """Before other content is shown: choose the line with this key there; None:
        `first_choice`."""
        self._keys, self._key, self._moved = (), None, key is not None
        self._wanted = key
        self._is_held = False
        self._own_choices.clear()

    def hold_choice(self) -> None:
        """A key is pressed: from now on the chosen line stays chosen, as it is read or acted on. If
        it was chosen by itself just now, the user means the one that was shown before."""
        if self.index is None:
            return
        self._is_held = True
        seen = self.clock() - REACTION_SECONDS
        keys = [key for time, key in self._own_choices if time <= seen and key in self._keys]
        self._own_choices.clear()
        if keys and not self._moved:
            self._choose(self._keys.index(keys[-1]))
            self.redraw()

    def set_keys(self, keys: Sequence[str]) -> None:
        """Set the keys of all lines. The cursor stays on its line; when that is gone, it is where
        `index_instead` says."""
        self._last_index = self._index_or_last
        self._keys = keys
        if not keys:
            return
        if self._wanted in keys:
            self._choose(keys.index(self._wanted))
        self._wanted = None
        is_held = self._is_held and self.index is not None
        if not self._moved and not self.is_chosen_gone and not is_held:
            self._choose(self.first_choice())
        elif self.index is None:
            instead = self.index_instead(self._last_index)
            if instead is not None:
                self._choose(instead)

    @property
    def is_chosen_gone(self) -> bool:
        """What was chosen is gone, and what is chosen instead is not `first_choice`, even if the
        user has not chosen it."""
        return False

    @property
    def _index_or_last(self) -> int:
        index = self.index
        return self._last_index if index is None else index

    def index_instead(self, place: int) -> int | None:
        """Index of the line that is chosen when the chosen one, at `place`, is gone; None: none
        is, until the user chooses one."""
        return min(place, len(self._keys) - 1)

    def first_choice(self) -> int:
        """Index of the line that is chosen until the user chooses one, or presses a key
        (`hold_choice`)."""
        return 0

    def choice_changed(self, index: int) -> None:
        """Called when another line has been chosen."""

    def redraw(self) -> None:
        """Called when the cursor has moved."""

    def choose_index(self, index: int) -> None:
        """Choose a line for the user; an index beyond the ends means the nearest line."""
        if self._keys:
            self._moved = True
            self._choose(max(0, min(len(self._keys) - 1, index)))
            self.redraw()

    def _choose(self, index: int) -> None:
        if self._keys[index] != self._key:
            self._key = self._keys[index]
            if not self._moved:
                self._own_choices.append((self.clock(), self._key))
            self.choice_changed(index)

    def index_after(self, lines: int) -> int:
        """Index of the line so many lines on or back; beyond the ends there is none. Of a chosen
        line that is gone, the next one is where it was."""
        place = self._index_or_last
        if self.index is None and lines > 0:
            place -= 1
        return place + lines

    def has_line_after(self, lines: int) -> bool:
        return 0 <= self.index_after(lines) < len(self._keys)

    def action_move(self, lines: int) -> None:
        self.choose_index(self.index_after(lines))

    def action_page(self, pages: int) -> None:
        self.choose_index(self.index_after(pages * max(1, self.size.height - 2)))

    def action_edge(self, side: int) -> None:
        self.choose_index(0 if side < 0 else len(self._keys) - 1)

    def on_click(self, event: events.Click) -> None:
        index = self.line_at(event.get_content_offset_capture(self).y)
        if index is None or index >= len(self._keys):
            return
        again = index == self.index
        self.choose_index(index)
        if again:
            self.post_message(self.Opened())
