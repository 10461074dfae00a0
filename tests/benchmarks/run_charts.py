"""The charts of a running run: ten minutes, four hosts, 120×36, five frames per second."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

from textual.app import App, ComposeResult

from nictop.probe.records import Counters, Hello, Line
from nictop.traffic.generators import Side
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.plan.plan import RunPlan
from nictop.tui.widgets.traffic.chart import RunChart
from nictop.tui.widgets.traffic.hosts import RunHosts
from tests.benchmarks.results import Result
from tests.support.sources import ScriptedSource, session_of
from tests.traffic.plans import PLAN
from tests.traffic.watched import Watched

SECONDS, FRAMES_PER_SECOND, INTERVAL = 600, 5, 0.5
HOSTS = ("a", "b", "c", "d")
CPUS = 16
HELLO = Hello(1, "1", "a", "6.1", "x86_64", "3.11", 1, 0, "boot", 100, 0.0, 0.0, 0.2)


class Charts(App[None]):
    """Only the two charts."""

    CSS_PATH = "../../nictop/tui/nictop.tcss"

    def compose(self) -> ComposeResult:
        yield RunChart()
        yield RunHosts()

    def on_mount(self) -> None:
        self.query_one(RunChart).styles.height = 20
        self.query_one(RunHosts).styles.height = 16


class LongRun:
    """A run in which every interval and every second has another value. Its axis begins at 0 of all
    clocks."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan, self.now = plan, 0.0
        self.hosts = {
            name: RunHost(session_of(ScriptedSource(name), window=False)) for name in HOSTS
        }
        for one in self.hosts.values():
            one.session.process(Line(hello=HELLO), 0.0)
        self.watched = Watched(plan, self.hosts, axis=0.0)

    def advance(self) -> None:
        """Process the events of a fifth of a second."""
        before, self.now = self.now, self.now + 1 / FRAMES_PER_SECOND
        for number, one in enumerate(self.hosts.values()):
            one.session.process(Line(counters=self._counters(number)), self.now)
        end = self.now // INTERVAL * INTERVAL
        if end > before:
            ends: tuple[tuple[Side, bool], ...] = (("server", False), ("client", True))
            for side, sends in ends:
                rate = 8e9 + 1e9 * ((7 * end) % 1)
                interval = Interval(
                    end - INTERVAL, end, rate, sends, retransmits=3 if sends else None
                )
                self.watched.report(side, interval)
                if self.plan.direction == "bidirectional":
                    back = replace(interval, sends=not sends)
                    self.watched.report(side, back)

    def _counters(self, number: int) -> Counters:
        ticks = round(self.now * 100)
        busy = round(ticks * (0.3 + 0.1 * number))
        times: tuple[int, ...] = (busy // 2, 0, busy // 4, ticks - busy, 0, 0, busy // 4, 0, 0, 0)
        packets = round(8e5 * self.now)
        return Counters(
            time=self.now,
            links={4: (packets,) * 25, 5: (packets,) * 25},
            cpus=dict.fromkeys(range(CPUS), times),
        )


def run_charts(quick: bool) -> Iterator[Result]:
    for name, directions in (("one direction", "forward"), ("both directions", "bidirectional")):
        plan = replace(PLAN, time=SECONDS, direction=directions)  # type: ignore[arg-type]
        drawn, second = asyncio.run(repainted(LongRun(plan), 4 if quick else 20))
        what = f"charts of 10 min, 4 hosts, {name}, {FRAMES_PER_SECOND} Hz"
        yield Result(f"{what}: CPU", 100 * second, 3.0, "% of a core")
        yield Result(f"… {name}: the dearest picture of each second", drawn * 1e3, None, "ms CPU")


async def repainted(run: LongRun, seconds: int) -> tuple[float, float]:
    """Median CPU seconds of (the most expensive frame of a second, all frames of a second)."""
    app = Charts()
    while run.now < SECONDS - seconds - 2:
        run.advance()
    dearest, sums = [], []
    async with app.run_test(size=(120, 36)) as pilot:
        chart, hosts = app.query_one(RunChart), app.query_one(RunHosts)
        for _ in range(seconds):
            spent = []
            for _ in range(FRAMES_PER_SECOND):
                run.advance()
                begin = time.process_time()
                chart.show(run.watched.view(run.now))
                hosts.show(chart.shown, chart.time)
                await pilot.pause()
                spent.append(time.process_time() - begin)
            dearest.append(max(spent))
            sums.append(sum(spent))
    return statistics.median(dearest[1:]), statistics.median(sums[1:])
