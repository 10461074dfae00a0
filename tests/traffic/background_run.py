"""A real run in its own task, with the PIDs of its child processes, to be interrupted at a
stage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from nictop.probe.records import TrafficLine
from nictop.traffic.hosts.host import TrafficItem
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.log import IntervalMeasured
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import RunEvent, RunFinished, RunTimeouts, Stage
from tests.support.probe import is_alive
from tests.traffic.emitted import Run
from tests.traffic.pair import Pair

STAGES = ("checking", "starting", "listening", "running", "first byte")
LOADED_STAGES = (*STAGES, "loading", "bulk flow")
"""Of a loaded run: its bulk flow is started, and has delivered bytes."""


class BackgroundRun:
    """Runs while its context is entered. Its child processes are found by the port in their command
    lines, so that runs of one pair need different ports; those of the bulk flow of a loaded run
    have the next one."""

    def __init__(self, both: Pair, plan: RunPlan, limits: RunTimeouts | None = None) -> None:
        self.result: Result | None = None
        self.pids: dict[str, int] = {}
        """Host → PID of its child process."""
        self.bulk_pids: dict[str, int] = {}
        """The same, of the bulk flow of a loaded run."""
        self.line_count = 0
        """Lines of both probes so far."""
        self.task: asyncio.Future[None]
        self._both, self._port = both, str(plan.port)
        self._bulk_port = str(plan.load.port) if plan.load is not None else ""
        self._run = Run(plan, both.hosts, limits=limits)
        self._reached = -1
        self._changed = asyncio.Event()

    def __enter__(self) -> BackgroundRun:
        self._unsubscribe = [host.subscribe(self._receive) for host in self._both.hosts.values()]
        self.task = asyncio.ensure_future(self._iterate())
        return self

    def __exit__(self, *_: object) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    async def until(self, stage: str) -> None:
        """Wait until the run has reached a stage; AssertionError if it ends before."""
        await self._until(lambda: self._reached >= LOADED_STAGES.index(stage))

    async def until_lines(self, lines: int) -> None:
        """Wait until the probes have sent that many lines; AssertionError if the run ends
        before."""
        await self._until(lambda: self.line_count >= lines)

    @property
    def children(self) -> list[int]:
        """PIDs of the child processes that still run."""
        return [pid for pid in (*self.pids.values(), *self.bulk_pids.values()) if is_alive(pid)]

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert not self.task.done(), (
                self._port,
                self._reached,
                self.result and self.result.failure,
            )
            self._changed.clear()
            await self._changed.wait()

    async def _iterate(self) -> None:
        try:
            async for event in self._run.events():
                self._take(event)
        finally:
            self._changed.set()

    def _take(self, event: RunEvent) -> None:
        if isinstance(event, Stage) and event.name in LOADED_STAGES:
            self._reached = LOADED_STAGES.index(event.name)
        elif (
            isinstance(event, IntervalMeasured)
            and not event.interval.sends
            and event.interval.bits_per_second
        ):
            self._reached = max(
                self._reached, LOADED_STAGES.index("bulk flow" if event.load else "first byte")
            )
        elif isinstance(event, RunFinished):
            self.result = event.result
        self._changed.set()

    def _receive(self, name: str, item: TrafficItem) -> None:
        if isinstance(item, TrafficLine):
            self.line_count += 1
            if item.kind == "started" and item.pid is not None:
                for port, pids in ((self._port, self.pids), (self._bulk_port, self.bulk_pids)):
                    if port in item.arguments:
                        pids[name] = item.pid
            self._changed.set()
