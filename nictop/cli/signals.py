"""Handling of the signals that terminate a program: in the event loop of a command, and while a
screen is open."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType

TERMINATION_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def termination_signals(on_signal: Callable[[int], None]) -> Iterator[list[int]]:
    """In a running event loop: `on_signal` is called for each signal, with the number of signals so
    far. Yields the list of signals received."""
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def receive(number: int) -> None:
        received.append(number)
        on_signal(len(received))

    for number in TERMINATION_SIGNALS:
        loop.add_signal_handler(number, receive, number)
    try:
        yield received
    finally:
        for number in TERMINATION_SIGNALS:
            loop.remove_signal_handler(number)


def run_screen(show: Callable[[], int]) -> int:
    """Run a screen until it ends. Returns its exit code, or 128 + the number of the signal that
    ended it."""
    with termination_as_interrupt() as signals:
        code = 0
        try:
            code = show()
        except (KeyboardInterrupt, OSError):
            if not signals:
                raise
    return 128 + signals[0] if signals else code


@contextmanager
def termination_as_interrupt() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP (closed terminal) become one SIGINT, so that a screen is left as by
    Ctrl-C: by default they would end the process at once and leave the terminal without a cursor
    and the namespaces of a self-test. SIGINT is handled even if the shell has set it to be ignored,
    as for background jobs. In the main thread only. Yields the list of signals received."""
    received: list[int] = []
    numbers = count()  # one step: another signal may be handled between two lines of the handler

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if next(numbers) == 0:
            signal.raise_signal(signal.SIGINT)

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
