"""Base of screens, and of widgets made of others: nothing is drawn before these are there, or while
they are removed.

Textual removes the widgets of a screen that was left before the screen itself ends. What the screen
has asked for (signals, timers, callbacks, messages of its widgets) still comes meanwhile, and would
look for widgets that are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from textual.message import Message

from nictop.tui.widgets.base.with_glyphs import WithGlyphs

if TYPE_CHECKING:
    from textual.timer import Timer


class CallIfOpen:
    """A callback without parameters. Textual counts those of each function that it calls, which is
    dear; of a method it knows the number after the first time."""

    def __init__(self, owner: WhileOpen, callback: Callable[[], Any]) -> None:
        self._owner, self._callback = owner, callback

    def call(self) -> Any:
        if self._owner.is_open:
            return self._callback()
        return None


class WhileOpen(WithGlyphs):
    """Must precede the Textual class among the bases."""

    @property
    def is_open(self) -> bool:
        """Its widgets are mounted, and it is not being closed."""
        if self._pruning or self._closing or self._closed:
            return False
        return len(self.children) > 0

    def _if_open(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(callback)  # Textual looks at the parameters
        def call(*given: Any, **named: Any) -> Any:
            if self.is_open:
                return callback(*given, **named)
            return None

        return call

    def _if_given(self, callback: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """The callback of a timer, which may have none."""
        if callback is None:
            return None
        return self._if_open(callback)

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        return super().call_after_refresh(CallIfOpen(self, partial(callback, *args, **kwargs)).call)

    def set_timer(
        self, delay: float, callback: Callable[..., Any] | None = None, **named: Any
    ) -> Timer:
        return super().set_timer(delay, self._if_given(callback), **named)

    def set_interval(
        self, interval: float, callback: Callable[..., Any] | None = None, **named: Any
    ) -> Timer:
        return super().set_interval(interval, self._if_given(callback), **named)

    async def _on_message(self, message: Message) -> None:
        """Drop messages of nictop's own widgets unless it is open; Textual's own messages also
        close it."""
        if self.is_open or not type(message).__module__.startswith("nictop."):
            await super()._on_message(message)
