"""Keys are handled one after the other, also those that come at once, as after a pause of a slow
connection: what a key opens gets the keys behind it.

Textual hands each key to what has the focus when it comes. A dialog that the key before has just
opened has none yet: an address that is typed at once would choose views and filter them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from textual.app import App
from textual.dom import DOMNode
from textual.events import Key, Paste
from textual.screen import Screen

MAX_SECONDS = 2.0
"""After which the next key is handled in any case."""
MAX_KEYS = 1000
"""That wait; further ones are dropped."""


class TypeAhead:
    """Of one application. `handle`: runs the action of a key, or hands the key (or pasted text) to
    what has the focus."""

    def __init__(self, app: App[Any], handle: Callable[[Key | Paste], Awaitable[None]]) -> None:
        self._app, self._handle = app, handle
        self._waiting: deque[Key | Paste] = deque()
        self._is_handling = False
        self._number = 0
        """Of the newest key that was handed on."""
        self._held = 0
        """What keys wait for although those before them are handled."""
        self._place: tuple[DOMNode, DOMNode | None] | None = None
        """The screen that the last keys were for, and what had the focus."""

    @property
    def is_idle(self) -> bool:
        """All keys were handled."""
        return not self._is_handling and not self._waiting

    @contextmanager
    def held(self) -> Iterator[None]:
        """What a key has asked for is being opened: those behind it are for that."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if self._waiting and not self._held and not self._is_handling:
                self._app.call_later(self._go_on)

    async def _go_on(self) -> None:
        if self._waiting and not self._is_handling:
            await self._hand_on(self._waiting.popleft())

    async def take(self, event: Key | Paste) -> None:
        """Hand it on now, or when the keys before it are handled."""
        if not self._is_handling and not self._held:
            await self._hand_on(event)
            return
        if not self._waiting:
            self._limit()
        if len(self._waiting) < MAX_KEYS:
            self._waiting.append(event)

    def _limit(self) -> None:
        """What is being handled, and each key that waits: no widget that never answers may keep the
        keys behind its own."""
        self._app.set_timer(MAX_SECONDS, partial(self._end_late, self._number))

    async def _end_late(self, number: int) -> None:
        if self._is_handling:
            await self._end(number, even_if_held=True)
        else:
            await self._go_on()
        if self._waiting:
            self._limit()

    async def _hand_on(self, event: Key | Paste) -> None:
        self._is_handling = True
        self._number += 1
        target: DOMNode = self._app.focused or self._app.screen
        await self._handle(event)
        self._follow(target, self._number)

    def _follow(self, node: DOMNode, number: int) -> None:
        """Go on behind what the node has received, and what it sends to those around it."""
        is_open = node.call_later(self._passed, node, number)
        if not is_open:
            self._app.call_later(self._passed, self._app, number)

    async def _passed(self, node: DOMNode, number: int) -> None:
        if node is not self._app:
            self._follow(node.parent or self._app, number)
            return
        place = self._app.screen, self._app.focused
        if place == self._place:
            await self._end(number)
            return
        self._place = place
        # what is shown from now on has its widgets, its focus and its lines only then
        drawn = partial(
            Screen.call_after_refresh, self._app.screen, self._follow, self._app, number
        )
        self._app.screen.call_later(drawn)

    async def _end(self, number: int, *, even_if_held: bool = False) -> None:
        if not self._is_handling or number != self._number:
            return
        self._is_handling = False
        if even_if_held or not self._held:
            await self._go_on()
