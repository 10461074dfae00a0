"""Limit of the CPU time of one rule, or of a search with an expression of the user: the data of a
host cannot block the program.

Reads the CPU clock of the main thread. A timer (ITIMER_VIRTUAL, SIGVTALRM) interrupts a rule that
takes longer, also in a search of `re`, which checks for signals while it backtracks. Signals are
handled in the main thread only: work in another thread is not interrupted.
"""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable
from functools import cache
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

_deadline: float | None = None
"""`time.thread_time` of the main thread at which the work is interrupted; None: no work in
progress."""


class TooLong(BaseException):
    """The limit is exceeded. Not a subclass of Exception: a rule that catches exceptions must not
    catch it."""


def limited(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`. Raises TooLong when that takes more than `seconds` of CPU time, at any
    point of it. Calls cannot be nested."""
    global _deadline  # noqa: PLW0603
    if threading.get_ident() != threading.main_thread().ident:
        return work()
    _handle_the_signal()
    gc_was_enabled = gc.isenabled()
    gc.disable()  # a garbage collection may take longer than the rule, and is not its fault
    try:
        try:
            _deadline = time.thread_time() + seconds
            # periodic: Python ignores an exception that is raised in a destructor
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
            return work()
        finally:
            _deadline = None
    finally:  # the signal may arrive in the inner finally before its first statement
        _deadline = None
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        if gc_was_enabled:
            gc.enable()


@cache
def _handle_the_signal() -> None:
    """Once: to ask for the present handler takes half the time of the rest of `limited`."""
    signal.signal(signal.SIGVTALRM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """The timer counts the CPU time of all threads: it is started again for the time that the main
    thread has left."""
    if _deadline is None:
        return
    left = _deadline - time.thread_time()
    if left > 0:
        signal.setitimer(signal.ITIMER_VIRTUAL, left, left)
        return
    raise TooLong
