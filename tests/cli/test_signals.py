"""Signals that end a screen."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

import pytest

from nictop.cli.signals import termination_as_interrupt


@pytest.mark.parametrize("line", range(1, 4))
def test_a_signal_during_the_handling_of_another_one_interrupts_once(line: int) -> None:
    """The kernel sends SIGHUP when a terminal is closed, and so does the thread that reads it."""
    interrupts: list[int] = []
    lines = 0

    def second_signal(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_name != "interrupt":
            return None
        if event == "line":
            lines += 1
            if lines == line:
                signal.raise_signal(signal.SIGHUP)
        return second_signal

    before, tracing = (
        signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number)),
        sys.gettrace(),
    )
    try:
        with termination_as_interrupt() as got:
            sys.settrace(second_signal)
            signal.raise_signal(signal.SIGHUP)
            sys.settrace(tracing)
    finally:
        sys.settrace(tracing)
        signal.signal(signal.SIGINT, before)
    assert got == [signal.SIGHUP] * 2
    assert interrupts == [signal.SIGINT]
