"""Many hosts on one screen: what a second of their readings costs, how much memory they take, and how
soon a key is answered meanwhile."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from textual import events

from nictop.probe.records import Line
from tests.benchmarks.results import Result
from tests.support.lines import counters, hello, inventory, link
from tests.support.screen import Screen, screen_with_hosts

HOSTS, NICS, CPUS = 64, 8, 16
FEW_HOSTS, MANY_NICS = 16, 30
PARTS = 4
"""In which the hosts send within a second: not all at the same time."""
VIEWS = {"Devices": "1", "Queues": "2", "CPUs": "3", "Findings": "4", "Hosts": "5"}


def many_hosts(quick: bool) -> Iterator[Result]:
    """64 hosts at 1 Hz on the live screen."""
    yield from asyncio.run(watched(HOSTS, NICS, 6 if quick else 30, 3.0))
    yield Result(f"{HOSTS} hosts: resident memory", resident_bytes() / 1e6, 250, "MB")


def views(quick: bool) -> Iterator[Result]:
    """Each view of 16 hosts with 30 NICs."""
    yield from asyncio.run(watched(FEW_HOSTS, MANY_NICS, 6 if quick else 30, None))


async def watched(hosts: int, nics: int, seconds: int, bound: float | None) -> list[Result]:
    names = [f"vm{number:02}" for number in range(hosts)]
    results = []
    async with screen_with_hosts(*names, size=(120, 36)) as (screen, sources):
        numbers = range(2, nics + 2)
        links = [link(number, f"ens{number}", bus="pci") for number in numbers]
        for name in names:
            sources[name].send(hello(), inventory(*links))
        await screen.settle()
        second = 0
        for view, key in VIEWS.items():
            await screen.press(key)
            spent, answers = [], []
            for _ in range(seconds):
                second += 1
                begin = time.process_time()
                for part in range(PARTS):
                    for number, name in enumerate(names):
                        if number % PARTS == part:
                            sources[name].send(reading(second, number, nics))
                    await screen.settle()
                spent.append(time.process_time() - begin)
                if view == "Devices":
                    key_name = "down" if second % 2 else "up"
                    for number, name in enumerate(names):
                        sources[name].send(reading(second + 0.5, number, nics))
                    answers.append(await answer_seconds(screen, key_name))
                    await screen.settle()
            what = f"{hosts} hosts with {nics} NICs, {view}"
            results.append(
                Result(f"{what}: at 1 Hz", 100 * statistics.median(spent), bound, "% of a core")
            )
            if answers:
                results.append(Result(f"{what}: a key", max(answers) * 1e3, 100, "ms CPU"))
    return results


async def answer_seconds(screen: Screen, key: str) -> float:
    """CPU time from a key until the cursor has moved, while readings of all hosts wait."""
    before, begin = screen.chosen(), time.process_time()
    screen.app.post_message(events.Key(key, None))
    while screen.chosen() == before:  # noqa: ASYNC110  (nothing tells of it)
        await asyncio.sleep(0)
    return time.process_time() - begin


def reading(second: float, host: int, nics: int) -> Line:
    moved = {
        number: (int(second * 10_000) * (number + host), int(second * 999) * number)
        for number in range(2, nics + 2)
    }
    ticks = int(second * 100)
    busy = (ticks * 31 // 100, 0, ticks * 7 // 100, ticks * 50 // 100, 0, 0, ticks * 12 // 100)
    return counters(float(second), moved, [(*busy, 0, 0, 0)] * CPUS)


def resident_bytes() -> int:
    """Of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096
