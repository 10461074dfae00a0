"""The screens with a recording: time to the first frame, cost of a seek from the key to the frame,
and the memory of the whole program."""

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
from tests.support.replay_screen import ScreenWithReplay, screen_with_replay

SEEKS = 21
FIRST_NIC = b"ens1"
"""Name of the first NIC, which is drawn with the first frame."""
BACK = b"("
"""The key that seeks back by a minute."""
SEEK_SECONDS = 1.5
"""Seconds until a seek is drawn, also on a busy machine."""


def replay_screens(path: str, hours: int, quick: bool) -> Iterator[Result]:
    """With a recording of `hours` hours, in a terminal of 120×36."""
    what = f"nictop replay, {hours} h"
    took, used = first_frames(path, 3 if quick else 7)
    yield Result(f"{what}: CPU to the first picture", used, 1.0, "s")
    yield Result(f"{what}: from start to the first picture", took, None, "s")
    costs, times, whole = asyncio.run(seeks_on_the_screen(path, 7 if quick else SEEKS))
    yield Result(
        f"{what}: CPU of a jump until it is drawn, median", statistics.median(costs), 0.2, "s"
    )
    yield Result(f"{what}: CPU of a jump until it is drawn, most", max(costs), 0.4, "s")
    yield Result(
        f"{what}: from the key until it is drawn, median", statistics.median(times), None, "s"
    )
    yield Result(
        f"{what}: CPU until charts and findings are, median", statistics.median(whole), None, "s"
    )
    yield Result(
        f"{what}: most memory of the program while seeking", memory_while_seeking(path), 150.0, "MB"
    )


def first_frames(path: str, runs: int) -> tuple[float, float]:
    """Median seconds from the start of the process to the first NIC on the terminal: elapsed time,
    and CPU time."""
    times, used = [], []
    for _ in range(runs):
        with Terminal([sys.executable, "-m", "nictop", "replay", path]) as terminal:
            elapsed = terminal.read(30.0, lambda output: FIRST_NIC in output)
            if elapsed is None:
                raise RuntimeError(f"nothing was drawn: {terminal.output[-400:]!r}")
            times.append(elapsed)
            used.append(cpu_seconds(terminal.pid))
    return statistics.median(times), statistics.median(used)


async def seeks_on_the_screen(
    path: str, count: int
) -> tuple[list[float], list[float], list[float]]:
    """Seconds after the key that seeks back by a minute, from random positions: CPU and elapsed
    time until the counters are drawn, CPU time until charts and findings are drawn."""
    costs, times, whole, random = [], [], [], Random(2)
    async with screen_with_replay(path) as screen:
        recording, replay = screen.replay.playback.recording, screen.replay
        for _ in range(count):
            await screen.seek(
                recording.begin + 120 + random.random() * (recording.end - recording.begin - 120)
            )
            used, begin = time.process_time(), time.perf_counter()
            screen.app.simulate_key("left_parenthesis")
            await until_drawn(screen, lambda: not replay.settled.is_set(), replay.numbered)
            times.append(time.perf_counter() - begin)
            costs.append(time.process_time() - used)
            await until_drawn(screen, lambda: True, replay.settled)
            whole.append(time.process_time() - used)
    return costs, times, whole


async def until_drawn(
    screen: ScreenWithReplay, begun: Callable[[], bool], event: asyncio.Event
) -> None:
    """Wait until `begun` is true, `event` is set, and the screen is drawn."""
    while not begun():  # noqa: ASYNC110  (until the key is handled)
        await asyncio.sleep(0)
    await event.wait()
    drawn = asyncio.Event()
    screen.app.screen.call_after_refresh(drawn.set)
    await drawn.wait()


def memory_while_seeking(path: str) -> float:
    """Peak resident memory in MB (VmHWM) of the `nictop replay` process after ten seeks."""
    with Terminal([sys.executable, "-m", "nictop", "replay", path, "--at", "end"]) as terminal:
        terminal.read(30.0, lambda output: FIRST_NIC in output)
        for _ in range(10):
            terminal.type(BACK)
            terminal.read(SEEK_SECONDS)
        status = Path(f"/proc/{terminal.pid}/status").read_text()
    most = next(line.split() for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(most[1]) * 1024 / 1e6
