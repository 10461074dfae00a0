"""Traffic runs: the experiment that runs, whichever screen is shown, or the last one.

Runs use the connections of the watched hosts: the session of each that takes part passes its items to a `RunHost`.
`changed` is published a few times a second at most. Results are stored by `nictop.traffic.results.selection`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from nictop.errors import NictopError
from nictop.tui.controllers.signal import Signal

if TYPE_CHECKING:
    from nictop.probe.records import TrafficTools
    from nictop.traffic.experiment.experiment import ChangeWanted, Experiment, ExperimentEvent, Step, StepBegan
    from nictop.traffic.live.run_view import LiveRun, RunView
    from nictop.traffic.plan.request import RunRequest
    from nictop.traffic.results.selection import StoredRun
    from nictop.traffic.run.host import RunHost
    from nictop.tui.controllers.hosts import WatchedHosts
    from nictop.tui.controllers.scheduler import Scheduler, Timer

RUN_REDRAW_SECONDS = 0.4
"""Between two redraws of a run."""

RUN_STOP_TIMEOUT = 8.0
"""Seconds for a run that is stopped to report its result: both generators end, and the last counters are read."""

HOST_WAIT_SECONDS = 1.0
"""Between two checks whether the hosts of a run are live."""


@dataclass(frozen=True)
class FinishedExperiment:
    """An experiment that is over."""

    results: tuple[StoredRun, ...]
    trouble: str
    notes: tuple[str, ...]


class TrafficController:
    """At most one experiment at a time; its state stays until the next one starts."""

    def __init__(self, hosts: WatchedHosts, scheduler: Scheduler) -> None:
        self._watched, self._scheduler = hosts, scheduler
        self.changed = Signal()
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._live: LiveRun | None = None
        self._stopped_at: float | None = None
        """Seconds of CLOCK_MONOTONIC: its view does not change any more from then on."""
        self._answer: asyncio.Future[bool] | None = None
        self._stopping = asyncio.Event()
        self.is_self_test = False
        self.form_values: dict[str, str] | None = None
        """Name of a field of the form → its text; None: the form was never opened."""
        self.ended: list[FinishedExperiment] = []
        """Experiments since the start, in order."""
        self._clear()

    def _clear(self) -> None:
        self.request: RunRequest | None = None
        self.experiment: Experiment | None = None
        self.began: StepBegan | None = None
        """The step that runs now, or ran last."""
        self.began_at = 0.0
        self.wanted: ChangeWanted | None = None
        """What the user has to change before the next step."""
        self.sentence = ""
        """What it does now."""
        self.trouble = ""
        """Why it ended before its end, or did not start; "": it did."""
        self.notes: list[str] = []
        self.results: tuple[StoredRun, ...] = ()
        """Of this experiment."""
        self._live, self._stopped_at, self._answer = None, None, None

    # ---------------------------------------------------------------------------------------------- start and end

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, request: RunRequest, *, self_test: bool = False) -> bool:
        """Start; the results of the one before are dropped. False: one is running."""
        if self.running:
            return False
        self._clear()
        self._stopping = asyncio.Event()
        self.request, self.is_self_test = request, self_test
        self._task = asyncio.create_task(self._run(request, self_test), name="traffic")
        self.publish()
        return True

    async def stop(self) -> None:
        """End what runs, with the result of what was measured so far, and wait until nothing of it is left."""
        task = self._task
        if task is None or task.done():
            return
        self.sentence = "stopping"
        self._stopped_at = monotonic()
        self.publish()
        if self.began is not None:
            self._stopping.set()
            await asyncio.wait({task}, timeout=RUN_STOP_TIMEOUT)
        task.cancel()
        await asyncio.wait({task})

    def answer(self, *, changed: bool) -> None:
        """The user has changed what was wanted, or ends the experiment."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(changed)

    async def _run(self, request: RunRequest, self_test: bool) -> None:
        from nictop.traffic.experiment.experiment import carry_out, prepared

        try:
            async with self._hosts(request, self_test) as (hosts, placed):
                self.request = placed
                self.sentence = "looking for generators on both hosts"
                self.experiment = await prepared(placed, hosts)
                self.notes += self.experiment.notes
                events = carry_out(self.experiment, hosts, change=self._change, keep=_keep, stop=self._stopping)
                async with aclosing(events):
                    async for event in events:
                        self._take(event, hosts)
                        self._publish_soon()
        except asyncio.CancelledError:
            self.trouble = "stopped before anything was measured"
        except NictopError as error:
            self.trouble = f"{error.message}; {error.hint}" if error.hint else error.message
        except Exception as error:  # the screens go on
            self.trouble = f"nictop itself failed here: {type(error).__name__}: {error}"
        finally:
            self._stopped_at = monotonic()
            self.sentence, self.wanted, self._answer = "", None, None
            self.ended.append(FinishedExperiment(self.results, self.trouble, tuple(self.notes)))
            self._task = None
            self.publish()

    # ---------------------------------------------------------------------------------------------------- hosts

    @asynccontextmanager
    async def _hosts(
        self, request: RunRequest, self_test: bool
    ) -> AsyncGenerator[tuple[dict[str, RunHost], RunRequest], None]:
        """Those that take part, each being read, and the request with their addresses."""
        from nictop.traffic.run.host import RunHost

        if self_test:
            async with self._own_pair(request) as found:
                yield found
            return
        names = tuple(dict.fromkeys((request.client, request.server, *request.observers)))
        missing = [name for name in names if name not in self._watched.by_name]
        if missing:
            raise NictopError(f"{', '.join(missing)}: not watched", "add it with the key h")
        hosts = {name: RunHost(self._watched.by_name[name]) for name in names}
        with ExitStack() as subscriptions:
            for host in hosts.values():
                subscriptions.callback(host.close)
            await self._until_known(hosts, request)
            yield hosts, request

    @asynccontextmanager
    async def _own_pair(self, request: RunRequest) -> AsyncGenerator[tuple[dict[str, RunHost], RunRequest], None]:
        """Two ends on this machine, watched during the run and by nothing else."""
        from nictop.hosts.session import HostSession, running
        from nictop.hosts.specification import LOCAL, Host
        from nictop.traffic.experiment.self_test import self_test_pair
        from nictop.traffic.run.host import RunHost

        self.sentence = "making two ends on this machine"
        self.publish()
        async with self_test_pair(request) as pair:
            self.notes.append(pair.sentence)
            sessions = [HostSession(Host(one.name, LOCAL), one, window=False) for one in pair.sources]
            async with running(*sessions):
                hosts = {session.name: RunHost(session) for session in sessions}
                await self._until_known(hosts, pair.wish)
                yield hosts, pair.wish

    async def _until_known(self, hosts: dict[str, RunHost], request: RunRequest) -> None:
        """Inventory and counters of both ends are known; an observer without counters is left out."""
        for name in dict.fromkeys((request.client, request.server)):
            host = hosts[name]
            while not host.session.has_readings:
                if host.snapshot.state == "failed":
                    raise NictopError(f"{name}: {host.snapshot.message}")
                self.sentence = f"waiting for {name}: {host.snapshot.state}"
                self.publish()
                await host.session.until(partial(_is_settled, host), HOST_WAIT_SECONDS)
        for name in request.observers:
            if name in hosts and hosts[name].snapshot.counters is None and name not in (request.client, request.server):
                hosts.pop(name)
                self.notes.append(f"{name} is not live: it does not observe")

    async def tools(self, name: str) -> TrafficTools:
        """Which generators a watched host has. NictopError: why that is not known."""
        from nictop.traffic.run.host import RunHost

        session = self._watched.by_name.get(name)
        if session is None:
            raise NictopError(f"{name}: not watched")
        host = RunHost(session)
        try:
            return await host.tools()
        finally:
            host.close()

    # ----------------------------------------------------------------------------------------------------- events

    def _take(self, event: ExperimentEvent, hosts: dict[str, RunHost]) -> None:
        from nictop.traffic.experiment.experiment import (
            ChangeWanted,
            ExperimentEnded,
            NotKept,
            Resting,
            StepBegan,
            StepEnded,
        )
        from nictop.traffic.live.run_view import LiveRun
        from nictop.traffic.run.events import IntervalMeasured, Stage

        if isinstance(event, StepBegan):
            self.began, self.began_at, self.wanted = event, monotonic(), None
            self._live = LiveRun(event.step.plan, hosts)
        elif isinstance(event, Resting):
            self.sentence = f"resting for {event.seconds:g} s"
        elif isinstance(event, ChangeWanted):
            self.wanted = event
            self.sentence = event.sentence
        elif isinstance(event, StepEnded):
            self.results += (event.kept,)
        elif isinstance(event, NotKept):
            self.notes.append(event.sentence)
        elif isinstance(event, ExperimentEnded):
            self.results, self.trouble = event.results, event.why
        elif self._live is not None:
            self._live.take(event)
            if isinstance(event, Stage):
                self.sentence = event.sentence
            elif isinstance(event, IntervalMeasured):
                self.sentence = ""

    async def _change(self, step: Step) -> bool:
        """Wait for `answer`."""
        self._answer = asyncio.get_running_loop().create_future()
        self.publish()
        try:
            return await self._answer
        finally:
            self._answer, self.wanted = None, None

    @property
    def asks(self) -> bool:
        """It waits for `answer`."""
        return self._answer is not None and not self._answer.done()

    def view(self) -> RunView | None:
        """The step that runs now, or ran last."""
        return None if self._live is None else self._live.picture(self._stopped_at)

    @property
    def seconds_left(self) -> float | None:
        """Estimate for the whole experiment."""
        if not self.running or self.began is None:
            return None
        return max(0.0, self.began.seconds_left - (monotonic() - self.began_at))

    # --------------------------------------------------------------------------------------------------- publish

    def _publish_soon(self) -> None:
        if self._timer is None:
            self._timer = self._scheduler.set_timer(RUN_REDRAW_SECONDS, self.publish, name="run news")

    def publish(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self.changed.publish()


def _is_settled(host: RunHost) -> bool:
    return host.snapshot.state == "failed" or host.session.has_readings


def _keep(kept: StoredRun) -> object:
    from nictop.traffic.results.selection import directory, keep

    return keep(kept, directory(os.environ))
