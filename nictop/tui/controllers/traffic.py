"""Runs of the application: the experiment that goes on, whichever screen is shown, and what became of the last one.

Runs use the connections that are there: every followed host that takes part hears its own items a second time, as a
`RunHost`. The screens are told through the application's `run_news`, a few times a second at most. Results are written
where `nictop.traffic.results.selection` keeps them.
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

if TYPE_CHECKING:
    from textual.timer import Timer

    from nictop.probe.records import TrafficTools
    from nictop.traffic.experiment.experiment import ChangeWanted, Experiment, ExperimentEvent, Step, StepBegan
    from nictop.traffic.live.run_view import LiveRun, RunView
    from nictop.traffic.plan.request import RunRequest
    from nictop.traffic.results.selection import StoredRun
    from nictop.traffic.run.host import RunHost
    from nictop.tui.app import NictopApp

TELL_EVERY = 0.4
"""Seconds between two pictures of a run."""

STOPPING = 8.0
"""Seconds for a run that is stopped to tell what was measured: both children end, and the last counters come."""

WAIT = 1.0
"""Seconds after which it is looked again whether the hosts of a run are there."""


@dataclass(frozen=True)
class FinishedExperiment:
    """An experiment that is over."""

    results: tuple[StoredRun, ...]
    trouble: str
    notes: tuple[str, ...]


class TrafficController:
    """At most one experiment at a time. What it shows stays until the next one starts."""

    def __init__(self, app: NictopApp) -> None:
        self._app = app
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._watching: LiveRun | None = None
        self._over: float | None = None
        """When it was stopped, seconds of CLOCK_MONOTONIC: its picture stands still from then on."""
        self._answer: asyncio.Future[bool] | None = None
        self._stopping = asyncio.Event()
        self.is_self_test = False
        self.words: dict[str, str] | None = None
        """What stands in the form; None: it was never opened."""
        self.ended: list[FinishedExperiment] = []
        """Experiments since the start, in order."""
        self._clear()

    def _clear(self) -> None:
        self.wish: RunRequest | None = None
        self.experiment: Experiment | None = None
        self.began: StepBegan | None = None
        """The step that runs now, or ran last."""
        self.began_at = 0.0
        self.wanted: ChangeWanted | None = None
        """What somebody has to change before it goes on."""
        self.sentence = ""
        """What it does now."""
        self.trouble = ""
        """Why it ended before its end, or did not start; "": it did."""
        self.notes: list[str] = []
        self.results: tuple[StoredRun, ...] = ()
        """Of this experiment."""
        self._watching, self._over, self._answer = None, None, None

    # ---------------------------------------------------------------------------------------------- start and end

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self, wish: RunRequest, *, self_test: bool = False) -> bool:
        """Begin; what came of the one before is forgotten. False: one goes on already."""
        if self.running:
            return False
        self._clear()
        self._stopping = asyncio.Event()
        self.wish, self.is_self_test = wish, self_test
        self._task = asyncio.create_task(self._carry_out(wish, self_test), name="traffic")
        self.tell()
        return True

    async def stop(self) -> None:
        """End what goes on with what was measured until then, and wait until nothing of it is left."""
        task = self._task
        if task is None or task.done():
            return
        self.sentence = "stopping"
        self._over = monotonic()
        self.tell()
        if self.began is not None:
            self._stopping.set()
            await asyncio.wait({task}, timeout=STOPPING)
        task.cancel()
        await asyncio.wait({task})

    def answer(self, *, changed: bool) -> None:
        """What somebody says who was asked for a change."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(changed)

    async def _carry_out(self, wish: RunRequest, self_test: bool) -> None:
        from nictop.traffic.experiment.experiment import carry_out, prepared

        try:
            async with self._hosts(wish, self_test) as (hosts, placed):
                self.wish = placed
                self.sentence = "looking for generators on both hosts"
                self.experiment = await prepared(placed, hosts)
                self.notes += self.experiment.notes
                events = carry_out(self.experiment, hosts, change=self._change, keep=_keep, stop=self._stopping)
                async with aclosing(events) as told:
                    async for event in told:
                        self._take(event, hosts)
                        self._tell_soon()
        except asyncio.CancelledError:
            self.trouble = "stopped before anything was measured"
        except NictopError as error:
            self.trouble = f"{error.message}; {error.hint}" if error.hint else error.message
        except Exception as error:  # the screens go on
            self.trouble = f"nictop itself failed here: {type(error).__name__}: {error}"
        finally:
            self._over = monotonic()
            self.sentence, self.wanted, self._answer = "", None, None
            self.ended.append(FinishedExperiment(self.results, self.trouble, tuple(self.notes)))
            self._task = None
            self.tell()

    # ---------------------------------------------------------------------------------------------------- hosts

    @asynccontextmanager
    async def _hosts(
        self, wish: RunRequest, self_test: bool
    ) -> AsyncGenerator[tuple[dict[str, RunHost], RunRequest], None]:
        """Those that take part, each heard, and the wish with its places."""
        from nictop.traffic.run.host import RunHost

        if self_test:
            async with self._own_pair(wish) as found:
                yield found
            return
        names = tuple(dict.fromkeys((wish.client, wish.server, *wish.observers)))
        missing = [name for name in names if name not in self._app.hosts.by_name]
        if missing:
            raise NictopError(f"{', '.join(missing)}: not watched", "add it with the key h")
        hosts = {name: RunHost(self._app.hosts.by_name[name]) for name in names}
        with ExitStack() as subscriptions:
            for host in hosts.values():
                subscriptions.callback(host.close)
            await self._until_known(hosts, wish)
            yield hosts, wish

    @asynccontextmanager
    async def _own_pair(self, wish: RunRequest) -> AsyncGenerator[tuple[dict[str, RunHost], RunRequest], None]:
        """Two ends on this machine, watched for the length of the run and by nobody else."""
        from nictop.hosts.session import HostSession, running
        from nictop.hosts.specification import LOCAL, Host
        from nictop.traffic.experiment.self_test import self_test_pair
        from nictop.traffic.run.host import RunHost

        self.sentence = "making two ends on this machine"
        self.tell()
        async with self_test_pair(wish) as pair:
            self.notes.append(pair.sentence)
            sessions = [HostSession(Host(one.name, LOCAL), one, window=False) for one in pair.sources]
            async with running(*sessions):
                hosts = {session.name: RunHost(session) for session in sessions}
                await self._until_known(hosts, pair.wish)
                yield hosts, pair.wish

    async def _until_known(self, hosts: dict[str, RunHost], wish: RunRequest) -> None:
        """Both ends have told what they have; an observer that has not is left out."""
        for name in dict.fromkeys((wish.client, wish.server)):
            host = hosts[name]
            while not host.session.has_readings:
                if host.snapshot.state == "failed":
                    raise NictopError(f"{name}: {host.snapshot.message}")
                self.sentence = f"waiting for {name}: {host.snapshot.state}"
                self.tell()
                await host.session.until(partial(_is_settled, host), WAIT)
        for name in wish.observers:
            if name in hosts and hosts[name].snapshot.counters is None and name not in (wish.client, wish.server):
                hosts.pop(name)
                self.notes.append(f"{name} is not live: it does not observe")

    async def tools(self, name: str) -> TrafficTools:
        """Which generators a watched host has. NictopError: why that is not known."""
        from nictop.traffic.run.host import RunHost

        followed = self._app.hosts.by_name.get(name)
        if followed is None:
            raise NictopError(f"{name}: not watched")
        host = RunHost(followed)
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
            self._watching = LiveRun(event.step.plan, hosts)
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
        elif self._watching is not None:
            self._watching.take(event)
            if isinstance(event, Stage):
                self.sentence = event.sentence
            elif isinstance(event, IntervalMeasured):
                self.sentence = ""

    async def _change(self, step: Step) -> bool:
        """Wait for `answer`."""
        self._answer = asyncio.get_running_loop().create_future()
        self.tell()
        try:
            return await self._answer
        finally:
            self._answer, self.wanted = None, None

    @property
    def asks(self) -> bool:
        """Somebody is waited for."""
        return self._answer is not None and not self._answer.done()

    def picture(self) -> RunView | None:
        """The step that runs now, or ran last."""
        return None if self._watching is None else self._watching.picture(self._over)

    @property
    def seconds_left(self) -> float | None:
        """Of the whole experiment, about."""
        if not self.running or self.began is None:
            return None
        return max(0.0, self.began.seconds_left - (monotonic() - self.began_at))

    # ------------------------------------------------------------------------------------------------------ news

    def _tell_soon(self) -> None:
        if self._timer is None:
            self._timer = self._app.set_timer(TELL_EVERY, self.tell, name="run news")

    def tell(self) -> None:
        """There is news: the screens look."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self._app.run_news += 1


def _is_settled(host: RunHost) -> bool:
    return host.snapshot.state == "failed" or host.session.has_readings


def _keep(kept: StoredRun) -> object:
    from nictop.traffic.results.selection import directory, keep

    return keep(kept, directory(os.environ))
