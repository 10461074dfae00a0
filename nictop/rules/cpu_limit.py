"""A limit for the CPU time of one rule, so that no host can keep the program busy with what it reports.

Reads the CPU clock of the main thread. A timer (ITIMER_VIRTUAL, SIGVTALRM) interrupts what takes longer, also a search
of `re`, which looks for signals while it backtracks. Signals are handled in the main thread alone: in another one
nothing is interrupted.
"""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

_deadline: float | None = None
"""`time.thread_time` of the main thread at which the work that goes on is interrupted; None: nothing goes on."""


class TooLong(BaseException):
    """The limit is over. No Exception: what handles those of its own must not end it."""


def limited(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`. Raises TooLong when that takes more than `seconds` of CPU time, at any point of it. Not to
    be nested."""
    global _deadline  # noqa: PLW0603
    if threading.current_thread() is not threading.main_thread():
        return work()
    if signal.getsignal(signal.SIGVTALRM) is not _interrupt:
        signal.signal(signal.SIGVTALRM, _interrupt)
    collects = gc.isenabled()
    gc.disable()  # a collection may take longer than a rule, and is not the rule's
    try:
        try:
            _deadline = time.thread_time() + seconds
            # again and again: an exception is lost where Python calls a destructor
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
            return work()
        finally:
            _deadline = None
    finally:  # the signal may have come inside the other one, before its first step
        _deadline = None
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        if collects:
            gc.enable()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """The timer counts the CPU time of all threads: what the main thread has left it gets."""
    if _deadline is None:
        return
    left = _deadline - time.thread_time()
    if left > 0:
        signal.setitimer(signal.ITIMER_VIRTUAL, left, left)
        return
    raise TooLong
