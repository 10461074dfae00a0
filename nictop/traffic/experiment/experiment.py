"""One run or several that belong together: repeats, a sweep, a comparison.

`run_experiment` runs the steps of an `Experiment` between watched hosts, waits for manual changes,
and emits an event for each step and result. However it ends, the settings of the hosts' probes are
restored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from statistics import mean
from typing import Any

from nictop import __version__
from nictop.errors import NictopError
from nictop.probe.light_dataclasses import replace
from nictop.traffic.experiment.events import (
    ChangeRequired,
    EmitExperiment,
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
    change_sentence,
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
from nictop.traffic.failures import Failure, Kind
from nictop.traffic.hosts.host import RunHost, link_of
from nictop.traffic.plan.plan import Endpoint, RunPlan
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.run.events import RunTimeouts, Stage
from nictop.traffic.run.run import run
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
"""Between two counter records of every host during an experiment: CPU times have a resolution of 10
ms."""
RETRY_SUFFIX = "-r"
"""Of the identity of a run that is repeated (see `nictop.replay.run_index`)."""
RETRIED_KINDS: tuple[Kind, ...] = ("control_message", "refused", "busy", "start", "tools")
"""Kinds of failures that generators or slow hosts occasionally cause."""

Change = Callable[[ExperimentStep], Coroutine[Any, Any, bool]]
Keep = Callable[[StoredRun], object]


async def run_experiment(
    experiment: Experiment,
    hosts: Mapping[str, RunHost],
    emit: EmitExperiment = lambda _: None,
    *,
    change: Change | None = None,
    keep: Keep | None = None,
    limits: RunTimeouts | None = None,
    change_timeouts: ManualChangeTimeouts | None = None,
    stop: asyncio.Event | None = None,
) -> ExperimentEnded:
    """Run the steps; the results of those that were run. `hosts` may contain more than the
    participants. `emit` is called with each event, at last with what is returned.

    `change` returns whether the user made the change of a step (False ends the experiment); None:
    the user cannot be asked. `keep` stores a result; it is called in a thread and may raise
    NictopError. `stop`: once it is set, the current run ends with what was measured of it, which is
    stored, and no other one starts.
    """
    running = _RunningExperiment(
        experiment,
        hosts,
        emit,
        change=change,
        keep=keep,
        limits=limits,
        change_timeouts=change_timeouts or ManualChangeTimeouts(),
        stop=stop or asyncio.Event(),
    )
    try:
        ended = await running.carry_out()
        emit(ended)
        return ended
    finally:
        await running.release()


class _ExperimentStopped(Exception):
    """Ends the experiment; the message is the reason."""


class _StepRefused(Exception):
    """A step cannot be run; the message says why."""


class _RunningExperiment:
    def __init__(
        self,
        experiment: Experiment,
        hosts: Mapping[str, RunHost],
        emit: EmitExperiment,
        *,
        change: Change | None,
        keep: Keep | None,
        limits: RunTimeouts | None,
        change_timeouts: ManualChangeTimeouts,
        stop: asyncio.Event,
    ) -> None:
        self._experiment, self._emit = experiment, emit
        self._hosts = {name: hosts[name] for name in experiment.hosts if name in hosts}
        self._change, self._keep, self._stop = change, keep, stop
        self._limits, self._change_timeouts = limits, change_timeouts
        self._value: str | None = None
        """Value of the variable that the user has set; None: not known."""
        self._overheads: list[float] = []
        """Seconds that each run took in addition to its planned ones."""

    async def carry_out(self) -> ExperimentEnded:
        """All steps, or those before it was stopped."""
        runs: list[StoredRun] = []
        try:
            for number, step in enumerate(self._experiment.steps, 1):
                if number > 1:
                    await self._rest()
                run = await self._step(number, step)
                runs.append(run)
                await self._store(number, run)
                self._emit(StepEnded(number, run))
                has_more = number < len(self._experiment.steps)
                if self._stop.is_set() and (has_more or run.result.stopped is not None):
                    return ExperimentEnded(tuple(runs), STOPPED)
        except EventSetError:
            return ExperimentEnded(tuple(runs), STOPPED)
        except _ExperimentStopped as error:
            return ExperimentEnded(tuple(runs), str(error))
        return ExperimentEnded(tuple(runs))

    async def _rest(self) -> None:
        """The pause before a step."""
        if self._experiment.rest > 0:
            self._emit(PauseStarted(self._experiment.rest))
            await run_until(self._stop, asyncio.sleep(self._experiment.rest))

    async def _store(self, number: int, run: StoredRun) -> None:
        if self._keep is None:
            return
        try:
            await asyncio.to_thread(self._keep, run)
        except NictopError as error:
            self._emit(SaveFailed(number, error.message))

    async def release(self) -> None:
        """Restore the request interval and watched links of every host."""
        for host in self._hosts.values():
            if host.session.in_run:
                await host.session.leave_run()

    # --------------------------------------------------------------------------------------- a step

    async def _step(self, number: int, step: ExperimentStep) -> StoredRun:
        """A run, or why it cannot be made."""
        wall = time.time()
        self._emit(self._step_began(number, step))
        await self._wait_for_ends(step)
        try:
            if step.change:
                step = await self._make_change(number, step)
        except _StepRefused as error:
            failure = Failure("other", str(error))
            return self._stored_run(number, step, Result(step.plan, wall, failure=failure))
        result = await self._attempts(number, step)
        if result.stopped is not None and result.failure is not None:
            raise _ExperimentStopped(STOPPED)  # nothing was measured
        return self._stored_run(number, step, result)

    def _step_began(self, number: int, step: ExperimentStep) -> StepStarted:
        overhead = mean(self._overheads) if self._overheads else RUN_OVERHEAD_SECONDS
        seconds_left = self._experiment.seconds_from(number, overhead)
        return StepStarted(
            number, len(self._experiment.steps), step, seconds_left, self._identity(number)
        )

    def _identity(self, number: int) -> str:
        """Of the run of a step."""
        return f"{self._experiment.identity}-{number}"

    async def _attempts(self, number: int, step: ExperimentStep) -> Result:
        """Run the step. If there are other steps, a run that failed with one of `RETRIED_KINDS` is
        repeated once."""
        first = await self._run(step, self._identity(number))
        failure = first.failure
        if failure is None or failure.kind not in RETRIED_KINDS or self._stop.is_set():
            return first
        if len(self._experiment.steps) == 1 or step.plan.is_of_one_host:
            return first  # a command of the user is not repeated unasked
        self._emit(Stage("waiting", f"retrying after failure: {failure.sentence}"))
        await run_until(self._stop, asyncio.sleep(self._experiment.rest))
        second = await self._run(step, self._identity(number) + RETRY_SUFFIX)
        note = f"the first attempt failed: {failure.sentence}"
        return replace(second, notes=(*second.notes, note))

    async def _run(self, step: ExperimentStep, identity: str) -> Result:
        for host in self._hosts.values():
            await host.session.join_run(COUNTER_INTERVAL_SECONDS, _chosen_nic(step.plan, host.name))
        started = time.monotonic()
        result = await run(
            step.plan,
            self._hosts,
            self._emit,
            limits=self._limits,
            identity=identity,
            stop=self._stop,
        )
        if result.failure is None and result.stopped is None:
            overhead = time.monotonic() - started - step.plan.seconds
            self._overheads.append(max(0.0, overhead))
        return result

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

    # -------------------------------------------------------------------------------- before a step

    async def _wait_for_ends(self, step: ExperimentStep) -> None:
        """Wait until both ends are live; raise _ExperimentStopped if they are not."""
        reason = unavailable_end(step.plan, self._hosts)
        if reason:
            self._emit(Stage("waiting", f"waiting for reconnection: {reason}"))
            waiting = wait_for_ends(step.plan, self._hosts, self._change_timeouts.back)
            reason = await run_until(self._stop, waiting)
        if reason:
            raise _ExperimentStopped(reason)

    async def _make_change(self, number: int, step: ExperimentStep) -> ExperimentStep:
        """Have the change made if it is not in force yet, and check that it is: the step with the
        NICs of then. Raises _StepRefused."""
        variable = self._experiment.variable
        self._emit(Stage("changing", f"checking {step.change}"))
        refreshing = refreshed_plan(step.plan, self._hosts, self._change_timeouts.shown)
        plan = await run_until(self._stop, refreshing)
        reason = unmet_change(variable, step.value, plan, self._hosts)
        is_made = variable != "setup" or self._value == step.value  # a setup cannot be seen
        if reason or not is_made:
            self._value = None
            await self._request_change(number, replace(step, plan=plan), reason)
            await self._wait_for_ends(step)
            plan = await self._wait_for_change(step, plan)
            self._value = step.value
        if plan != step.plan:
            step = replace(step, plan=plan)
            self._emit(self._step_began(number, step))
        return step

    async def _request_change(self, number: int, step: ExperimentStep, reason: str) -> None:
        """By the command between the runs, or by the user. Raises _StepRefused."""
        if self._experiment.between:
            self._emit(Stage("changing", f"running setup command: {step.change}"))
            environment = self._environment(number, step)
            timeout = self._change_timeouts.between
            running = run_hook(self._experiment.between, environment, timeout)
            refusal = await run_until(self._stop, running)
            if refusal:
                raise _StepRefused(refusal)
            return
        sentence, variable = change_sentence(step.change, reason), self._experiment.variable
        self._emit(ChangeRequired(step, sentence, variable))
        if self._change is None:
            raise _ExperimentStopped(f"change required, no terminal to ask: {step.change}")
        if not await run_until(self._stop, self._change(step)):
            raise _ExperimentStopped(f"change not confirmed: {step.change}")

    async def _wait_for_change(self, step: ExperimentStep, plan: RunPlan) -> RunPlan:
        """The plan once the hosts show the change. Raises _StepRefused."""
        self._emit(Stage("changing", f"waiting for {step.change}"))
        variable, timeout = self._experiment.variable, self._change_timeouts.shown
        waiting = wait_for_change(variable, step.value, plan, self._hosts, timeout)
        plan, refusal = await run_until(self._stop, waiting)
        if refusal:
            raise _StepRefused(f"change not in effect: {refusal}")
        return plan

    def _environment(self, number: int, step: ExperimentStep) -> dict[str, str]:
        """Environment of the command between the runs. Host names are those of the watched
        hosts."""
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
        link = link_of(endpoint, self._hosts)
        return link.name if link is not None else ""


def _chosen_nic(plan: RunPlan, host: str) -> int | None:
    """ifindex of the NIC of a host that should carry the run."""
    for endpoint in (plan.client, plan.server):
        if endpoint.host == host:
            return endpoint.ifindex
    return None
