"""Signals that end programs, while a screen is open: the screen is left as by Ctrl-C, which cleans everything up.

Without that, SIGTERM and the SIGHUP of a closed terminal end this process at once: a terminal without its cursor stays,
and the namespaces of a self-test.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_as_interrupts() -> Iterator[list[int]]:
    """In the main thread only. Yields the list of signals that have come; the first one became a SIGINT, which is heard
    even where a shell has had it ignored, as it does in the background."""
    got: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        got.append(number)
        if len(got) == 1:
            signal.raise_signal(signal.SIGINT)

    before = {number: signal.signal(number, end) for number in ENDING}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield got
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
