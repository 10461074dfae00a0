"""The whole program in a pseudo-terminal: first paint, first numbers, CPU with 30 NICs, beside other programs."""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections.abc import Sequence

from tests.benchmarks.terminals import Terminal, cpu_seconds

EMPTY_APP = "from textual.app import App\nclass Empty(App): pass\nEmpty().run()"
PAINTED = b"\x1b[36;1H"
"""The last of 36 rows is being drawn: a full frame."""


def first_paint(argv: Sequence[str], runs: int, until: bytes = PAINTED) -> float:
    """Median seconds from start to the first frame that holds `until`."""
    times = []
    for _ in range(runs):
        with Terminal(argv) as terminal:
            moment = terminal.read(15.0, lambda output: until in output)
            if moment is None:
                raise RuntimeError(f"{argv[0]} drew nothing: {terminal.output[-400:]!r}")
            times.append(moment)
    return statistics.median(times)


def share_of_a_core(argv: Sequence[str], seconds: float, settle: float = 6.0) -> float:
    """CPU of a program and its children while it runs in a 120×36 terminal, per cent of one core, after it settled."""
    with Terminal(argv) as terminal:
        terminal.read(settle)
        before, start = cpu_seconds(terminal.pid), time.monotonic()
        terminal.read(seconds)
        used, elapsed = cpu_seconds(terminal.pid) - before, time.monotonic() - start
    return 100 * used / elapsed


def nictop(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "nictop", *arguments]


def empty_app() -> list[str]:
    return [sys.executable, "-c", EMPTY_APP]


def peers() -> dict[str, list[str]]:
    """Programs of the field that are installed here, each at one refresh per second."""
    known = {
        "btop": ["btop", "--utf-force"],
        "bmon": ["bmon", "-r", "1", "-o", "curses"],
        "network-top": ["network-top", "--interval", "1"],
    }
    return {name: argv for name, argv in known.items() if shutil.which(argv[0])}
