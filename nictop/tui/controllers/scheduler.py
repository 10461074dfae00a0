"""What controllers need of the event loop of the application: timers, callbacks and workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

Notify = Callable[[str, str], None]
"""Shows a notice for some seconds: its text, its title."""


class Timer(Protocol):
    def stop(self) -> None: ...


class Worker(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """A Textual application provides it. An exception in a callback or a worker ends the
    application."""

    def set_timer(self, delay: float, callback: Callable[[], object], *, name: str) -> Timer:
        """Call it once, after `delay` seconds."""

    def set_interval(self, interval: float, callback: Callable[[], object], *, name: str) -> Timer:
        """Call it every `interval` seconds."""

    def call_later(self, callback: Callable[[], object]) -> object:
        """Call it after the messages that wait, keys among them."""

    def call_after_refresh(self, callback: Callable[..., object], *args: Any) -> object:
        """Call it after that, when the screen has been drawn."""

    def draw_at_once(self, change: Callable[[], object]) -> None:
        """Call it, and draw what it changes. The timer of Textual would do so up to 17 ms later,
        after another wake-up of the process."""

    def run_worker(
        self, work: Callable[[], Awaitable[None]], name: str, group: str, *, exclusive: bool = False
    ) -> Worker:
        """Start a coroutine function, which is never called when its worker is cancelled before it
        has begun. `exclusive`: the other workers of its group are cancelled."""
