"""Rows of the campaign's summary table, and its progress line."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the summary."""

    part: str
    what: str
    """Text of what was counted or measured."""
    failed: bool
    seconds: float


@dataclass(frozen=True)
class Options:
    """Durations and repetitions, from the command line."""

    minutes: float
    """Of fuzzing."""
    soak_minutes: float
    kills: int
    """At each stage."""
    jobs: int
    """Tests at a time."""
    inputs: int
    """For all parsers together."""
    logs: str
    """Folder for the output of the test runner."""


class Progress:
    """One line on stderr, overwritten on a terminal; elsewhere a new line at most every 30 s."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._next = 0.0
        self.begin = time.monotonic()

    def show(self, text: str) -> None:
        now = time.monotonic()
        if self._terminal:
            print(f"\r\x1b[K{clock(now - self.begin)}  {text}", end="", file=sys.stderr, flush=True)
        elif now >= self._next:
            self._next = now + 30.0
            print(f"{clock(now - self.begin)}  {text}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def clock(seconds: float) -> str:
    """``1:02:03``"""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


TITLES = f"{'part':<10} {'result':<7} {'time':>8}  counted"


def row_text(row: Row) -> str:
    """Part, result, time, and what was counted or measured."""
    return (
        f"{row.part:<10} {'FAILED' if row.failed else 'passed':<7} {clock(row.seconds):>8}  "
        f"{row.what}"
    )
