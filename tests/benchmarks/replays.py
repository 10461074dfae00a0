"""The screens on a recording: how soon the first picture is drawn, what a jump costs from the key to the picture, and
the memory of the whole program meanwhile."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from tests.benchmarks.results import Result
from tests.benchmarks.terminals import Terminal, cpu_seconds
from tests.support.replayed import Replayed, replayed

SEEKS = 21
FIRST_NIC = b"ens1"
"""Name of the first NIC: its host is drawn."""
BACK = b"("
"""The key for a minute back."""
QUIET = 1.5
"""Seconds for a jump to be drawn on a machine that is busy, too."""


def replay_screens(path: str, hours: int, quick: bool) -> Iterator[Result]:
    """Of a recording of `hours` hours, in a terminal of 120×36."""
    what = f"nictop replay, {hours} h"
    took, used = first_pictures(path, 3 if quick else 7)
    yield Result(f"{what}: CPU to the first picture", used, 1.0, "s")
    yield Result(f"{what}: from start to the first picture", took, None, "s")
    costs, times, whole = asyncio.run(seeks_on_the_screen(path, 7 if quick else SEEKS))
    yield Result(f"{what}: CPU of a jump until it is drawn, median", statistics.median(costs), 0.2, "s")
    yield Result(f"{what}: CPU of a jump until it is drawn, most", max(costs), 0.4, "s")
    yield Result(f"{what}: from the key until it is drawn, median", statistics.median(times), None, "s")
    yield Result(f"{what}: CPU until charts and findings are, median", statistics.median(whole), None, "s")
    yield Result(f"{what}: most memory of the program while seeking", memory_while_seeking(path), 150.0, "MB")


def first_pictures(path: str, runs: int) -> tuple[float, float]:
    """Median seconds from the start of the process to the first NIC on the terminal: by the clock, and of CPU."""
    times, used = [], []
    for _ in range(runs):
        with Terminal([sys.executable, "-m", "nictop", "replay", path]) as terminal:
            moment = terminal.read(30.0, lambda output: FIRST_NIC in output)
            if moment is None:
                raise RuntimeError(f"no picture was drawn: {terminal.output[-400:]!r}")
            times.append(moment)
            used.append(cpu_seconds(terminal.pid))
    return statistics.median(times), statistics.median(used)


async def seeks_on_the_screen(path: str, count: int) -> tuple[list[float], list[float], list[float]]:
    """Seconds from the key for a minute back, at random moments: of CPU and by the clock until the numbers of there are
    drawn, of CPU until charts and findings are."""
    costs, times, whole, random = [], [], [], Random(2)
    async with replayed(path) as screen:
        recording, replay = screen.replay.playback.recording, screen.replay
        for _ in range(count):
            await screen.at(recording.begin + 120 + random.random() * (recording.end - recording.begin - 120))
            used, begin = time.process_time(), time.perf_counter()
            screen.app.simulate_key("left_parenthesis")
            await until_drawn(screen, lambda: not replay.settled.is_set(), replay.numbered)
            times.append(time.perf_counter() - begin)
            costs.append(time.process_time() - used)
            await until_drawn(screen, lambda: True, replay.settled)
            whole.append(time.process_time() - used)
    return costs, times, whole


async def until_drawn(screen: Replayed, begun: Callable[[], bool], told: asyncio.Event) -> None:
    """Until the screens have been told, and what they drew is out."""
    while not begun():  # noqa: ASYNC110  (the key is on its way)
        await asyncio.sleep(0)
    await told.wait()
    drawn = asyncio.Event()
    screen.app.screen.call_after_refresh(drawn.set)
    await drawn.wait()


def memory_while_seeking(path: str) -> float:
    """MB, the most that was resident (VmHWM) of `nictop replay` by the end of ten jumps; all of Python included."""
    with Terminal([sys.executable, "-m", "nictop", "replay", path, "--at", "end"]) as terminal:
        terminal.read(30.0, lambda output: FIRST_NIC in output)
        for _ in range(10):
            terminal.type(BACK)
            terminal.read(QUIET)
        status = Path(f"/proc/{terminal.pid}/status").read_text()
    most = next(line.split() for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(most[1]) * 1024 / 1e6
