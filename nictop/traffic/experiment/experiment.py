"""One run or several that belong together: repeats, a sweep, a comparison; each step made known as it goes.

`carry_out` runs the steps of an `Experiment` (`steps`) between watched hosts, waits for changes that somebody else
makes, hands on every result, and leaves every host as it was, whatever ends it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import replace
from statistics import mean
from typing import Any

from nictop import __version__
from nictop.errors import NictopError
from nictop.traffic.experiment.events import (
    ChangeWanted,
    ExperimentEnded,
    ExperimentEvent,
    NotKept,
    Resting,
    StepBegan,
    StepEnded,
)
from nictop.traffic.experiment.hook import run_between
from nictop.traffic.experiment.manual_changes import Waits, away, back, looked, missing, until_shown
from nictop.traffic.experiment.steps import AROUND, Experiment, Step, experiment_of, prepared
from nictop.traffic.plan.plan import Endpoint
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.run.events import Event, Finished, RunTimeouts, Stage
from nictop.traffic.run.failures import Failure, Kind
from nictop.traffic.run.host import RunHost
from nictop.traffic.run.run import Run
from nictop.wire.timeout import EventSetError, run_until

__all__ = [
    "ChangeWanted",
    "Experiment",
    "ExperimentEnded",
    "ExperimentEvent",
    "NotKept",
    "Resting",
    "Step",
    "StepBegan",
    "StepEnded",
    "Waits",
    "carry_out",
    "experiment_of",
    "prepared",
]

STOPPED = "stopped"
"""Why an experiment ended that somebody has stopped."""
READING = 0.2
"""Seconds between two counter records of every host meanwhile: CPU shares come in steps of 10 ms of their windows."""


Change = Callable[[Step], Coroutine[Any, Any, bool]]
Keep = Callable[[StoredRun], object]


async def carry_out(
    experiment: Experiment,
    hosts: Mapping[str, RunHost],
    *,
    change: Change | None = None,
    keep: Keep | None = None,
    limits: RunTimeouts | None = None,
    waits: Waits | None = None,
    stop: asyncio.Event | None = None,
) -> AsyncGenerator[ExperimentEvent, None]:
    """To be closed (`contextlib.aclosing`) when it is left early. `hosts`: more than take part may be in it.

    `change`: whether somebody has made the change of that step (False: nobody will, and it ends); None: nobody can be
    asked. `keep` writes a result; it is called in a thread, and may raise NictopError. `stop`: once it is set the run
    that goes on ends with what was measured of it (`Run.stop`), which is kept as such, and no other one begins.
    """
    course = _Course(
        experiment,
        hosts,
        change=change,
        keep=keep,
        limits=limits,
        waits=waits or Waits(),
        stop=stop or asyncio.Event(),
    )
    try:
        async with aclosing(course.events()) as events:
            async for event in events:
                yield event
    finally:
        await course.release()


ACCIDENTS: tuple[Kind, ...] = ("control_message", "refused", "busy", "start", "tools")
"""Of failures: those that a generator or a slow host has by itself, now and then."""


class _Ended(Exception):
    """The experiment cannot go on; the sentence says why."""


class _Course:
    """An experiment that is being carried out."""

    def __init__(
        self,
        experiment: Experiment,
        hosts: Mapping[str, RunHost],
        *,
        change: Change | None,
        keep: Keep | None,
        limits: RunTimeouts | None,
        waits: Waits,
        stop: asyncio.Event,
    ) -> None:
        self._experiment = experiment
        self._hosts = {name: hosts[name] for name in experiment.hosts if name in hosts}
        self._change, self._keep, self._limits, self._waits, self._stop = change, keep, limits, waits, stop
        self._results: list[StoredRun] = []
        self._value: str | None = None
        """To which somebody has set what is varied; None: not known."""
        self._refusal = ""
        """Why the step at hand cannot be run."""
        self._result: Result | None = None
        """Of the step at hand."""
        self._around: list[float] = []
        """Seconds that each run took beside its own."""

    async def events(self) -> AsyncGenerator[ExperimentEvent, None]:
        why, total = "", len(self._experiment.steps)
        try:
            for number, step in enumerate(self._experiment.steps, 1):
                if number > 1 and self._experiment.rest > 0:
                    yield Resting(self._experiment.rest)
                    await run_until(self._stop, asyncio.sleep(self._experiment.rest))
                async with aclosing(self._step(number, step)) as events:
                    async for event in events:
                        yield event
                if self._stop.is_set() and (number < total or self._results[-1].result.stopped is not None):
                    raise _Ended(STOPPED)
        except EventSetError:
            why = STOPPED
        except _Ended as error:
            why = str(error)
        yield ExperimentEnded(tuple(self._results), why)

    async def release(self) -> None:
        """Every host goes on as before."""
        for host in self._hosts.values():
            if host.session.in_run:
                await host.session.leave_run()

    # ------------------------------------------------------------------------------------------------------ a step

    async def _step(self, number: int, step: Step) -> AsyncGenerator[ExperimentEvent, None]:
        self._result, self._refusal = None, ""
        wall = time.time()
        yield self._began(number, step)
        async with aclosing(self._reach(step)) as waiting:
            async for event in waiting:
                yield event
        if step.change:
            changing = self._make_change(number, step)
            async with aclosing(changing) as changes:
                async for change in changes:
                    yield change
                    step = change.step if isinstance(change, StepBegan) else step
        if self._refusal:
            self._result = Result(step.plan, wall, failure=Failure("other", self._refusal))
        else:
            async with aclosing(self._attempts(step)) as events:
                async for event in events:
                    yield event
        assert self._result is not None
        if self._result.stopped is not None and self._result.failure is not None:
            raise _Ended(STOPPED)  # there is nothing of it to be shown
        kept = self._kept(number, step, self._result)
        self._results.append(kept)
        if self._keep is not None:
            try:
                await asyncio.to_thread(self._keep, kept)
            except NictopError as error:
                yield NotKept(number, error.message)
        yield StepEnded(number, kept)

    def _began(self, number: int, step: Step) -> StepBegan:
        left = self._experiment.seconds_from(number, mean(self._around) if self._around else AROUND)
        return StepBegan(number, len(self._experiment.steps), step, left)

    async def _attempts(self, step: Step) -> AsyncGenerator[Event, None]:
        """Where other runs wait for it, one that failed by accident is made once more."""
        async with aclosing(self._run(step)) as events:
            async for event in events:
                yield event
        first = self._result
        if first is None or first.failure is None or first.failure.kind not in ACCIDENTS or self._stop.is_set():
            return
        if len(self._experiment.steps) > 1:
            why = first.failure.sentence
            yield Stage("waiting", f"once more, since it failed: {why}")
            await run_until(self._stop, asyncio.sleep(self._experiment.rest))
            async with aclosing(self._run(step)) as events:
                async for event in events:
                    yield event
            assert self._result is not None
            self._result = replace(self._result, notes=(*self._result.notes, f"the first attempt failed: {why}"))

    async def _run(self, step: Step) -> AsyncGenerator[Event, None]:
        for host in self._hosts.values():
            places = (step.plan.client, step.plan.server)
            ifindex = next((one.ifindex for one in places if one.host == host.name), None)
            await host.session.join_run(READING, ifindex)
        begun = time.monotonic()
        run = Run(step.plan, self._hosts, limits=self._limits)
        stopping = asyncio.ensure_future(self._stops(run))
        try:
            async with aclosing(run.events()) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        self._result = event.result
                    yield event
        finally:
            stopping.cancel()
        if self._result is not None and self._result.failure is None and self._result.stopped is None:
            self._around.append(max(0.0, time.monotonic() - begun - step.plan.seconds))

    async def _stops(self, run: Run) -> None:
        await self._stop.wait()
        run.stop()

    def _kept(self, number: int, step: Step, result: Result) -> StoredRun:
        return StoredRun(
            f"{self._experiment.identity}-{number}",
            self._experiment.identity,
            result,
            time.time(),
            __version__,
            self._experiment.kind,
            self._experiment.label,
            step.group,
            self._experiment.variable,
            step.value,
            number,
        )

    # --------------------------------------------------------------------------------------------- before a step

    async def _reach(self, step: Step) -> AsyncGenerator[Event, None]:
        """Both ends are there, or it ends."""
        why = away(step.plan, self._hosts)
        if why:
            yield Stage("waiting", f"waiting for a host to come back: {why}")
            why = await run_until(self._stop, back(step.plan, self._hosts, self._waits.back))
        if why:
            raise _Ended(why)

    async def _make_change(self, number: int, step: Step) -> AsyncGenerator[ExperimentEvent, None]:
        """Have it made where it is not made already, and look whether it is."""
        variable = self._experiment.variable
        yield Stage("changing", f"looking whether it is so: {step.change}")
        plan = await run_until(self._stop, looked(step.plan, self._hosts, self._waits.shown))
        why = missing(variable, step.value, plan, self._hosts)
        if why or (variable == "setup" and self._value != step.value):
            self._value = None
            async with aclosing(self._have_made(number, step, why)) as events:
                async for event in events:
                    yield event
            if self._refusal:
                return
            async with aclosing(self._reach(step)) as waiting:
                async for event in waiting:
                    yield event
            yield Stage("changing", f"waiting until it is so: {step.change}")
            shown = until_shown(variable, step.value, plan, self._hosts, self._waits.shown)
            plan, self._refusal = await run_until(self._stop, shown)
            if self._refusal:
                self._refusal = f"the change was not made: {self._refusal}"
                return
            self._value = step.value
        if plan != step.plan:
            yield self._began(number, replace(step, plan=plan))

    async def _have_made(self, number: int, step: Step, why: str) -> AsyncGenerator[ExperimentEvent, None]:
        """By the command, or by somebody who is asked."""
        if self._experiment.between:
            yield Stage("changing", f"the command between the runs makes it so: {step.change}")
            words = self._environment(number, step)
            making = run_between(self._experiment.between, words, self._waits.between)
            self._refusal = await run_until(self._stop, making)
            return
        yield ChangeWanted(step, f"{step.change} (now: {why})" if why else step.change)
        if self._change is None:
            raise _Ended(f"somebody has to change something, and nobody can be asked: {step.change}")
        if not await run_until(self._stop, self._change(step)):
            raise _Ended(f"nobody makes the change: {step.change}")

    def _environment(self, number: int, step: Step) -> dict[str, str]:
        """What the command is told. Names are those of hosts as they are watched."""
        return {
            "NICTOP_VARIABLE": self._experiment.variable,
            "NICTOP_VALUE": step.value,
            "NICTOP_GROUP": step.group,
            "NICTOP_STEP": str(number),
            "NICTOP_CLIENT": step.plan.client.host,
            "NICTOP_SERVER": step.plan.server.host,
            "NICTOP_CLIENT_NIC": self._nic(step.plan.client),
            "NICTOP_SERVER_NIC": self._nic(step.plan.server),
        }

    def _nic(self, place: Endpoint) -> str:
        host = self._hosts.get(place.host)
        link = host.snapshot.links.get(place.ifindex or 0) if host is not None else None
        return link.name if link is not None else ""
