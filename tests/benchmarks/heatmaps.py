"""Repaints of the queue × CPU heatmap: 64 queues, 128 CPUs, a tenth of the cells changes at each
tick."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

from nictop.model.snapshot import advance
from nictop.probe.records import Counters, Interrupt, Line, Queue
from nictop.tui.app import NictopApp
from tests.benchmarks.results import Result
from tests.support.captured import captured_lines
from tests.support.screen import Screen
from tests.support.sources import ScriptedSource

QUEUES, CPUS = 64, 128


def heatmap(quick: bool) -> Iterator[Result]:
    repaint, tick = asyncio.run(repainted(10 if quick else 60))
    yield Result(
        f"picture of {QUEUES} queues × {CPUS} CPUs, a tenth changes: drawn anew",
        repaint * 1e3,
        10,
        "ms CPU",
    )
    yield Result(
        "… the whole tick, rates and the tables below it included", tick * 1e3, None, "ms CPU"
    )


async def repainted(ticks: int) -> tuple[float, float]:
    """Median CPU seconds (of drawing the visible part at 120×36, of everything that one counters
    record causes)."""
    source = ScriptedSource()
    app = NictopApp(lambda host, ask: source)
    drawn, whole = [], []
    async with app.run_test(size=(120, 36)) as pilot:
        screen = Screen(app, source, pilot)
        await screen.receive(*big_host())
        await screen.press("right", "right", "3")
        chance = random.Random(1)
        snapshot = app.nictop.hosts.snapshot
        assert snapshot is not None and snapshot.counters is not None
        counters = snapshot.counters
        for number in range(ticks):
            counters = moved(counters, chance)
            begin = time.process_time()
            before = advance(snapshot, Line(counters=counters))
            middle = time.process_time()
            snapshot = before
            app.nictop.hosts.show(snapshot)
            await pilot.pause()
            end = time.process_time()
            if number > 2:
                drawn.append(end - middle)
                whole.append(end - begin)
    return statistics.median(drawn), statistics.median(whole)


def big_host() -> list[Line]:
    """The captured guest with `QUEUES` queues and `CPUS` CPUs."""
    lines = captured_lines("virtio-4-queues")
    hello = next(line for line in lines if line.hello is not None)
    inventory = next(line.inventory for line in lines if line.inventory is not None)
    interrupts = tuple(
        Interrupt(
            1000 + number, (f"virtio2-input.{number}",), "0000:03:00.0", effective_cpus=str(number)
        )
        for number in range(QUEUES)
    )
    links = tuple(
        replace(link, queues=tuple(Queue("rx", number) for number in range(QUEUES)))
        if link.name == "ens256"
        else link
        for link in inventory.links
    )
    first = Counters(
        time=1.0,
        links={link.ifindex: (0,) * 25 for link in links},
        cpus=dict.fromkeys(range(CPUS), (100, 0, 5, 900, 0, 0, 9, 0, 0, 0)),
        interrupts={1000 + number: dict.fromkeys(range(CPUS), 1000) for number in range(QUEUES)},
        softirqs=dict.fromkeys(range(CPUS), (0, 0)),
        softnet=dict.fromkeys(range(CPUS), (0, 0, 0, 0, 0)),
    )
    chance = random.Random(0)
    return [
        hello,
        Line(inventory=replace(inventory, interrupts=interrupts, links=links)),
        Line(counters=first),
        Line(counters=moved(first, chance)),
    ]


def moved(counters: Counters, chance: random.Random) -> Counters:
    """Counters one second later: each vector continues at its rate, a tenth of the cells at another
    rate."""
    interrupts = {
        irq: {
            cpu: count
            + (chance.randrange(5000) if chance.random() < 0.1 else 100 + (irq + cpu) % 7)
            for cpu, count in per_cpu.items()
        }
        for irq, per_cpu in counters.interrupts.items()
    }
    cpus = {
        cpu: (times[0] + 30, *times[1:3], times[3] + 70, *times[4:])
        for cpu, times in counters.cpus.items()
    }
    return replace(counters, time=counters.time + 1.0, interrupts=interrupts, cpus=cpus)
