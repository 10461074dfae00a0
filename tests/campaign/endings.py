"""Time that nictop takes to end, for every way to end it, while all CPUs are busy; no process may
be left."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

import psutil

from tests.campaign.results import Options, Progress, Row
from tests.campaign.suites import busy_processors
from tests.support.namespaces import ROOT
from tests.support.terminal import TerminalProgram

MAX_END_SECONDS = 2.0
"""Bound from the key, the signal or the closed terminal to the end of the last process."""
END_TIMEOUT = 30.0
POLL_SECONDS = 0.01
COMMANDS = {
    "live": (["--interval", "0.1"], " CPUs "),
    "demo": (["demo"], "ens192"),
}
"""Name → arguments of nictop, and text that it draws when it is ready."""


def typed(keys: str) -> Callable[[TerminalProgram], None]:
    return lambda screen: screen.type(keys)


def sent(number: signal.Signals) -> Callable[[TerminalProgram], None]:
    return lambda screen: os.kill(screen.pid, number)


ENDINGS: dict[str, Callable[[TerminalProgram], None]] = {
    "q": typed("q"),
    "ctrl+c": typed("\x03"),
    "SIGTERM": sent(signal.SIGTERM),
    "SIGHUP": sent(signal.SIGHUP),
    "terminal closed": lambda screen: screen.hang_up(),
}


def endings(options: Options, progress: Progress) -> Iterator[Row]:
    """Every way to end, `options.kills` times each."""
    with busy_processors():
        for name, end in ENDINGS.items():
            begin, took, left = time.monotonic(), [], 0
            for number in range(options.kills):
                progress.show(f"endings: {name}, {number} of {options.kills}")
                seconds, remaining = ended(list(COMMANDS)[number % len(COMMANDS)], end)
                took.append(seconds)
                left += remaining
            text = f"{name}: {len(took)} times, at most {max(took):.1f} s, {left} processes left"
            yield Row(
                "endings", text, bool(left) or max(took) > MAX_END_SECONDS, time.monotonic() - begin
            )


def ended(kind: str, end: Callable[[TerminalProgram], None]) -> tuple[float, int]:
    """(Seconds until no process was left, number of processes left at the timeout)."""
    arguments, ready = COMMANDS[kind]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    with TerminalProgram(
        [sys.executable, "-m", "nictop", *arguments], ROOT, environment, (120, 36)
    ) as screen:
        screen.wait_for_text(ready)
        children = psutil.Process(screen.pid).children(recursive=True)
        begin = time.monotonic()
        end(screen)
        while time.monotonic() - begin < END_TIMEOUT and not (
            screen.has_ended() and not any(map(runs, children))
        ):
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - begin
        left = [one for one in children if runs(one)]
        for one in left:
            one.kill()
        return seconds, len(left) + (not screen.has_ended())


def runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
