"""Keys are handled one after the other, also those that come at once, as after a pause of a slow
connection: what a key opens gets the keys behind it.

Textual hands each key to what has the focus when it comes. A dialog that the key before is about to
open has none yet: an address that is typed at once would choose views and filter them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from textual.app import App
from textual.dom import DOMNode
from textual.events import Event

MAX_SECONDS = 1.0
"""After which the next key is handled in any case: what had the one before may have been closed."""
MAX_KEYS = 1000
"""That wait; further ones are dropped."""


class TypeAhead:
    """Of one application. `handle`: hands a key, or pasted text, to what has the focus."""

    def __init__(self, app: App[Any], handle: Callable[[Event], Awaitable[None]]) -> None:
        self._app, self._handle = app, handle
        self._waiting: deque[Event] = deque()
        self._number = 0
        """Of the newest key that was handed on."""
        self._is_handled = True

    async def take(self, event: Event) -> None:
        """Hand it on now, or when the keys before it are handled."""
        if self._is_handled:
            await self._hand_on(event)
            return
        if not self._waiting:
            self._app.set_timer(MAX_SECONDS, partial(self._end, self._number))
        if len(self._waiting) < MAX_KEYS:
            self._waiting.append(event)

    async def _hand_on(self, event: Event) -> None:
        self._number += 1
        self._is_handled = False
        target: DOMNode = self._app.focused or self._app.screen
        await self._handle(event)
        self._follow(target, self._number)

    def _follow(self, node: DOMNode, number: int) -> None:
        """The key rises from what has the focus to the application: be called behind it."""
        is_open = node.call_later(self._passed, node, number)
        if not is_open:
            self._app.call_later(self._passed, self._app, number)

    def _passed(self, node: DOMNode, number: int) -> None:
        if node is not self._app:
            self._follow(node.parent or self._app, number)
            return
        # a screen that the key has opened has the focus before it takes a call
        self._app.screen.call_later(self._app.call_later, self._end, number)

    async def _end(self, number: int) -> None:
        if self._is_handled or number != self._number:
            return
        self._is_handled = True
        if self._waiting:
            await self._hand_on(self._waiting.popleft())
