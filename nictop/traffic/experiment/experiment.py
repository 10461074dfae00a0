"""One run or several that belong together: repeats, a sweep, a comparison.

`run_experiment` runs the steps of an `Experiment` between watched hosts, waits for manual changes, and yields an event
for each step and result. However it ends, the settings of the hosts' probes are restored.
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
    ChangeRequired,
    ExperimentEnded,
    ExperimentEvent,
    PauseStarted,
    SaveFailed,
    StepEnded,
    StepStarted,
)
from nictop.traffic.experiment.hook import run_hook
from nictop.traffic.experiment.manual_changes import (
    ManualChangeTimeouts,
    refreshed_plan,
    unavailable_end,
    unmet_change,
    wait_for_change,
    wait_for_ends,
)
from nictop.traffic.experiment.steps import (
    RUN_OVERHEAD_SECONDS,
    Experiment,
    ExperimentStep,
    experiment_of,
    prepare_experiment,
)
from nictop.traffic.plan.plan import Endpoint
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.run.events import RunEvent, RunFinished, RunTimeouts, Stage
from nictop.traffic.run.failures import Failure, Kind
from nictop.traffic.run.host import RunHost
from nictop.traffic.run.run import Run
from nictop.wire.timeout import EventSetError, run_until

__all__ = [
    "ChangeRequired",
    "Experiment",
    "ExperimentEnded",
    "ExperimentEvent",
    "ExperimentStep",
    "ManualChangeTimeouts",
    "PauseStarted",
    "SaveFailed",
    "StepEnded",
    "StepStarted",
    "experiment_of",
    "prepare_experiment",
    "run_experiment",
]

STOPPED = "stopped"
"""`ExperimentEnded.why` of an experiment that the user stopped."""
COUNTER_INTERVAL_SECONDS = 0.2
"""Between two counter records of every host during an experiment: CPU times have a resolution of 10 ms."""
RETRY_SUFFIX = "-r"
"""Of the identity of a run that is repeated (see `nictop.replay.run_index`)."""
RETRIED_KINDS: tuple[Kind, ...] = ("control_message", "refused", "busy", "start", "tools")
"""Kinds of failures that generators or slow hosts occasionally cause."""

Change = Callable[[ExperimentStep], Coroutine[Any, Any, bool]]
Keep = Callable[[StoredRun], object]


async def run_experiment(
    experiment: Experiment,
    hosts: Mapping[str, RunHost],
    *,
    change: Change | None = None,
    keep: Keep | None = None,
    limits: RunTimeouts | None = None,
    change_timeouts: ManualChangeTimeouts | None = None,
    stop: asyncio.Event | None = None,
) -> AsyncGenerator[ExperimentEvent, None]:
    """Run the steps; close the iterator (`contextlib.aclosing`) if it is left early. `hosts` may contain more than the
    participants.

    `change` returns whether the user made the change of a step (False ends the experiment); None: the user cannot be
    asked. `keep` stores a result; it is called in a thread and may raise NictopError. `stop`: once it is set, the
    current run ends with what was measured of it (`Run.stop`), which is stored, and no other one starts.
    """
    running = _RunningExperiment(
        experiment,
        hosts,
        change=change,
        keep=keep,
        limits=limits,
        change_timeouts=change_timeouts or ManualChangeTimeouts(),
        stop=stop or asyncio.Event(),
    )
    try:
        async with aclosing(running.events()) as events:
            async for event in events:
                yield event
    finally:
        await running.release()


class _ExperimentStopped(Exception):
    """Ends the experiment; the message is the reason."""


class _RunningExperiment:
    def __init__(
        self,
        experiment: Experiment,
        hosts: Mapping[str, RunHost],
        *,
        change: Change | None,
        keep: Keep | None,
        limits: RunTimeouts | None,
        change_timeouts: ManualChangeTimeouts,
        stop: asyncio.Event,
    ) -> None:
        self._experiment = experiment
        self._hosts = {name: hosts[name] for name in experiment.hosts if name in hosts}
        self._change, self._keep, self._stop = change, keep, stop
        self._limits, self._change_timeouts = limits, change_timeouts
        self._results: list[StoredRun] = []
        self._value: str | None = None
        """Value of the variable that the user has set; None: not known."""
        self._refusal = ""
        """Why the current step cannot be run."""
        self._result: Result | None = None
        """Result of the current step."""
        self._overheads: list[float] = []
        """Seconds that each run took in addition to its planned ones."""

    async def events(self) -> AsyncGenerator[ExperimentEvent, None]:
        reason, total = "", len(self._experiment.steps)
        try:
            for number, step in enumerate(self._experiment.steps, 1):
                if number > 1 and self._experiment.rest > 0:
                    yield PauseStarted(self._experiment.rest)
                    await run_until(self._stop, asyncio.sleep(self._experiment.rest))
                async with aclosing(self._step(number, step)) as events:
                    async for event in events:
                        yield event
                if self._stop.is_set() and (number < total or self._results[-1].result.stopped is not None):
                    raise _ExperimentStopped(STOPPED)
        except EventSetError:
            reason = STOPPED
        except _ExperimentStopped as error:
            reason = str(error)
        yield ExperimentEnded(tuple(self._results), reason)

    async def release(self) -> None:
        """Restore the request interval and watched links of every host."""
        for host in self._hosts.values():
            if host.session.in_run:
                await host.session.leave_run()

    # ------------------------------------------------------------------------------------------------------ a step

    async def _step(self, number: int, step: ExperimentStep) -> AsyncGenerator[ExperimentEvent, None]:
        self._result, self._refusal = None, ""
        wall = time.time()
        yield self._step_began(number, step)
        async with aclosing(self._wait_for_ends(step)) as waiting:
            async for event in waiting:
                yield event
        if step.change:
            changing = self._make_change(number, step)
            async with aclosing(changing) as changes:
                async for change in changes:
                    yield change
                    step = change.step if isinstance(change, StepStarted) else step
        if self._refusal:
            self._result = Result(step.plan, wall, failure=Failure("other", self._refusal))
        else:
            async with aclosing(self._attempts(number, step)) as events:
                async for event in events:
                    yield event
        assert self._result is not None
        if self._result.stopped is not None and self._result.failure is not None:
            raise _ExperimentStopped(STOPPED)  # nothing was measured
        run = self._stored_run(number, step, self._result)
        self._results.append(run)
        if self._keep is not None:
            try:
                await asyncio.to_thread(self._keep, run)
            except NictopError as error:
                yield SaveFailed(number, error.message)
        yield StepEnded(number, run)

    def _step_began(self, number: int, step: ExperimentStep) -> StepStarted:
        overhead = mean(self._overheads) if self._overheads else RUN_OVERHEAD_SECONDS
        seconds_left = self._experiment.seconds_from(number, overhead)
        return StepStarted(number, len(self._experiment.steps), step, seconds_left, self._identity(number))

    def _identity(self, number: int) -> str:
        """Of the run of a step."""
        return f"{self._experiment.identity}-{number}"

    async def _attempts(self, number: int, step: ExperimentStep) -> AsyncGenerator[RunEvent, None]:
        """Run the step. If there are other steps, a run that failed with one of `RETRIED_KINDS` is repeated once."""
        async with aclosing(self._run(step, self._identity(number))) as events:
            async for event in events:
                yield event
        first = self._result
        if first is None or first.failure is None or first.failure.kind not in RETRIED_KINDS or self._stop.is_set():
            return
        if len(self._experiment.steps) > 1:
            reason = first.failure.sentence
            yield Stage("waiting", f"retrying after failure: {reason}")
            await run_until(self._stop, asyncio.sleep(self._experiment.rest))
            async with aclosing(self._run(step, self._identity(number) + RETRY_SUFFIX)) as events:
                async for event in events:
                    yield event
            assert self._result is not None
            self._result = replace(self._result, notes=(*self._result.notes, f"the first attempt failed: {reason}"))

    async def _run(self, step: ExperimentStep, identity: str) -> AsyncGenerator[RunEvent, None]:
        for host in self._hosts.values():
            ifindexes = (one.ifindex for one in (step.plan.client, step.plan.server) if one.host == host.name)
            await host.session.join_run(COUNTER_INTERVAL_SECONDS, next(ifindexes, None))
        started = time.monotonic()
        run = Run(step.plan, self._hosts, limits=self._limits, identity=identity)
        stopping = asyncio.ensure_future(self._stop_run(run))
        try:
            async with aclosing(run.events()) as events:
                async for event in events:
                    if isinstance(event, RunFinished):
                        self._result = event.result
                    yield event
        finally:
            stopping.cancel()
        if self._result is not None and self._result.failure is None and self._result.stopped is None:
            self._overheads.append(max(0.0, time.monotonic() - started - step.plan.seconds))

    async def _stop_run(self, run: Run) -> None:
        await self._stop.wait()
        run.stop()

    def _stored_run(self, number: int, step: ExperimentStep, result: Result) -> StoredRun:
        return StoredRun(
            self._identity(number),
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

    async def _wait_for_ends(self, step: ExperimentStep) -> AsyncGenerator[RunEvent, None]:
        """Wait until both ends are live; raise _ExperimentStopped if they are not."""
        reason = unavailable_end(step.plan, self._hosts)
        if reason:
            yield Stage("waiting", f"waiting for reconnection: {reason}")
            reason = await run_until(self._stop, wait_for_ends(step.plan, self._hosts, self._change_timeouts.back))
        if reason:
            raise _ExperimentStopped(reason)

    async def _make_change(self, number: int, step: ExperimentStep) -> AsyncGenerator[ExperimentEvent, None]:
        """Have the change made if it is not in force yet, and check that it is."""
        variable = self._experiment.variable
        yield Stage("changing", f"checking {step.change}")
        plan = await run_until(self._stop, refreshed_plan(step.plan, self._hosts, self._change_timeouts.shown))
        reason = unmet_change(variable, step.value, plan, self._hosts)
        if reason or (variable == "setup" and self._value != step.value):
            self._value = None
            async with aclosing(self._request_change(number, step, reason)) as events:
                async for event in events:
                    yield event
            if self._refusal:
                return
            async with aclosing(self._wait_for_ends(step)) as waiting:
                async for event in waiting:
                    yield event
            yield Stage("changing", f"waiting for {step.change}")
            shown = wait_for_change(variable, step.value, plan, self._hosts, self._change_timeouts.shown)
            plan, self._refusal = await run_until(self._stop, shown)
            if self._refusal:
                self._refusal = f"change not in effect: {self._refusal}"
                return
            self._value = step.value
        if plan != step.plan:
            yield self._step_began(number, replace(step, plan=plan))

    async def _request_change(
        self, number: int, step: ExperimentStep, reason: str
    ) -> AsyncGenerator[ExperimentEvent, None]:
        """By the command between the runs, or by the user."""
        if self._experiment.between:
            yield Stage("changing", f"running setup command: {step.change}")
            environment = self._environment(number, step)
            running = run_hook(self._experiment.between, environment, self._change_timeouts.between)
            self._refusal = await run_until(self._stop, running)
            return
        yield ChangeRequired(step, f"{step.change} (current: {reason})" if reason else step.change)
        if self._change is None:
            raise _ExperimentStopped(f"change required, no terminal to ask: {step.change}")
        if not await run_until(self._stop, self._change(step)):
            raise _ExperimentStopped(f"change not confirmed: {step.change}")

    def _environment(self, number: int, step: ExperimentStep) -> dict[str, str]:
        """Environment of the command between the runs. Host names are those of the watched hosts."""
        return {
            "NICTOP_VARIABLE": self._experiment.variable,
            "NICTOP_VALUE": step.value,
            "NICTOP_GROUP": step.group,
            "NICTOP_STEP": str(number),
            "NICTOP_CLIENT": step.plan.client.host,
            "NICTOP_SERVER": step.plan.server.host,
            "NICTOP_CLIENT_NIC": self._nic_name(step.plan.client),
            "NICTOP_SERVER_NIC": self._nic_name(step.plan.server),
        }

    def _nic_name(self, endpoint: Endpoint) -> str:
        host = self._hosts.get(endpoint.host)
        link = host.snapshot.links.get(endpoint.ifindex or 0) if host is not None else None
        return link.name if link is not None else ""
