"""How controllers publish that something has changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial


class Signal:
    """Callbacks without arguments, called at once by `publish`: a subscriber reads the new state
    from the controller. Nothing is queued; a subscriber that draws schedules one redraw, however
    often it is called before that."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], object]] = []

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Returns the function that unsubscribes."""
        self._callbacks.append(callback)
        return partial(self._callbacks.remove, callback)

    def publish(self) -> None:
        for callback in tuple(self._callbacks):
            callback()
