"""One run between two watched hosts: check both ends and the path, start, watch, end, clean up.

The server is started first, the client when the server listens. Time limits end a run that hangs,
as a generator waits for ever if the link under test fails. However the run ends (by itself, by a
failure, or cancelled), both child processes are stopped and waited for; a probe also ends them
itself when its connection is lost.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterable, Mapping
from functools import partial

from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.traffic.failures import Failure, RunFailed
from nictop.traffic.generators import Side, output_parser
from nictop.traffic.hosts.host import RunHost, slowness_of
from nictop.traffic.path.run import PathRun, PathTimeouts, end_path_run
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.plan.problem import Problem, sentences
from nictop.traffic.record.log import (
    FlowGroup,
    IntervalMeasured,
    new_group,
)
from nictop.traffic.results.result import Result
from nictop.traffic.run.check import check, request_checks
from nictop.traffic.run.child_processes import ChildProcesses
from nictop.traffic.run.events import (
    FINAL_COUNTERS,
    PATH_OF_CHECK,
    WAITING_FOR_DATA,
    Emit,
    PathTested,
    RunTimeouts,
    Stage,
)
from nictop.traffic.run.failing_ends import FailingEnds
from nictop.traffic.run.failure_cause import timeout_failure
from nictop.traffic.run.floors import measure_floors
from nictop.traffic.run.foreign import ForeignRun
from nictop.traffic.run.foreign_client import ForeignClientRun
from nictop.traffic.run.one_end import OneEndRun
from nictop.traffic.run.one_host import OneHostRun
from nictop.traffic.run.path_test import run_path_test
from nictop.traffic.run.payload_watch import PayloadWatch
from nictop.traffic.run.planned_run import PlannedRun, RunParameters

SIDES: tuple[Side, Side] = ("server", "client")


async def run(
    plan: RunPlan,
    hosts: Mapping[str, RunHost],
    emit: Emit = lambda _: None,
    *,
    limits: RunTimeouts | None = None,
    identity: str = "",
    stop: asyncio.Event | None = None,
) -> Result:
    """The result of a run; of one that fails, as far as it is known. `hosts`: both ends and the
    observers, by name; their sessions are run elsewhere. `emit` is called with each event, from
    `RunBegan` to `RunFinished`. `limits`: None: those of such hosts. `stop`: once it is set, the
    run ends with what was measured until then."""
    kind: type[_Run | OneEndRun | OneHostRun] = _Run
    if plan.is_of_one_host:
        kind = OneHostRun
    elif plan.foreign_side == "client":
        kind = ForeignClientRun
    elif plan.foreign:
        kind = ForeignRun
    if limits is None:
        ends = (end.host for end in plan.watched_ends)
        limits = RunTimeouts().for_slow(slowness_of(ends, hosts))
    identity = identity or uuid.uuid4().hex[:12]
    running = kind(RunParameters(plan, hosts, emit, limits, identity))
    if stop is None:
        return await running.result()
    stopping = asyncio.ensure_future(_stop_when_set(stop, running))
    try:
        return await running.result()
    finally:
        stopping.cancel()


async def _stop_when_set(stop: asyncio.Event, running: PlannedRun) -> None:
    await stop.wait()
    running.stop()


class _Run(PlannedRun):
    """A running plan with two watched ends."""

    def __init__(self, given: RunParameters) -> None:
        super().__init__(given)
        self._children = ChildProcesses(self._log, self._inbox, self._emit, self._limits)
        self._failing = FailingEnds(self._log, self._inbox, self._limits)
        self._path_run: PathRun | None = None

    def _ends_of(self, plan: RunPlan) -> Iterable[str]:
        return plan.client.host, plan.server.host

    async def _end(self) -> None:
        """Stop the child processes that still run, and wait for their end."""
        self._inbox.end()
        if self._path_run is not None:
            await end_path_run(self._path_run, self._inbox)
        await self._children.stop()

    # --------------------------------------------------------------------------------------- stages

    async def _carry_out(self) -> None:
        self._check_plan()
        has_bulk = self._log.plan.has_bulk
        what = "checking iperf3 on both hosts" if has_bulk else "checking both hosts"
        self._emit(Stage("checking", f"{what}{PATH_OF_CHECK}"))
        await self._check_hosts()
        if self._log.plan.has_requests:
            await self._measure_floors()
        try:
            await self._transfer()
        except RunFailed as error:
            if not self._can_take_over(error.failure):
                raise
            await self._replace_generators(error.failure)
            self._emit(Stage("starting", self._log.notes[-1]))
            await self._transfer()
        self._emit(Stage("ending", FINAL_COUNTERS))

    def _check_plan(self) -> None:
        wrong = list(plan_problems(self._log.plan))
        for side in SIDES:
            host = self._log.ends[side].host
            if host not in self._log.hosts:
                wrong.append(Problem("", f"{clean(host)} is not watched"))
        if wrong:
            raise RunFailed(Failure("option", sentences(wrong)))

    async def _check_hosts(self) -> None:
        deadline = await request_checks(self._log, self._limits)
        each, stop = self._limits.path_test, self._limits.stop
        timeouts = PathTimeouts(each, each, stop)
        path = run_path_test(self._log.plan, self._log.hosts, self._identity, timeouts)
        self._path_run = path
        await check(self._log, path, self._inbox, self._limits, deadline)
        if self._log.path_test is not None:
            self._emit(PathTested(self._log.path_test))

    async def _measure_floors(self) -> None:
        plan, seconds = self._log.plan, self._limits.floor
        hosts = [(side, self._log.hosts[self._log.ends[side].host]) for side in SIDES]
        await measure_floors(
            plan, hosts, self._inbox, self._emit, identity=self._identity, seconds=seconds
        )

    async def _transfer(self) -> None:
        """Start the generators, and watch them until they have ended."""
        await self._counters.begin()
        for group in self._log.groups:
            await self._children.start_server(group)
        self._counters.note()
        await self._children.start(self._log.first, "client")
        await self._watch()

    def _can_take_over(self, failure: Failure) -> bool:
        """iperf3 died of something that need not concern the built-in generator, which has the
        options of the plan."""
        plan = self._log.plan
        has_crashed = any(end.has_crashed for end in self._log.ends.values())
        if failure.kind != "died" or not has_crashed or len(self._log.groups) > 1:
            return False
        return plan.generator == "iperf3" and not plan_problems(replace(plan, generator="builtin"))

    async def _replace_generators(self, failure: Failure) -> None:
        """From now on the run is one of the built-in generator, from its beginning."""
        await self._children.stop()
        log, old = self._log, self._log.ends
        log.notes += (f"{failure.sentence}; the built-in generator is used instead",)
        log.plan = replace(log.plan, generator="builtin")
        log.groups = (new_group(log.plan, f"{self._identity}-b"),)
        for side, end in log.ends.items():
            tools = old[side].tools
            assert tools is not None
            end.tools, end.output = tools, output_parser(log.plan, tools, side)

    # ---------------------------------------------------------------------------------------- watch

    async def _watch(self) -> None:
        """Until both generators of the last group have ended; one group after the other is started.
        Raises RunFailed if the run hangs or fails."""
        started = time.monotonic()
        deadline = started + self._log.plan.seconds + self._limits.grace
        self._emit(Stage("running", WAITING_FOR_DATA))
        group, watch = self._log.first, PayloadWatch(self._log.first.plan, self._limits, started)
        last = self._log.last
        while any(end.ended is None for end in last.ends.values()):
            line = await self._inbox.next(watch.limit(deadline, time.monotonic()))
            if line is None:
                raise await self._hangs(group, watch, started, deadline)
            for event in self._log.add_line(line):
                self._emit(event)
                is_load = group is not self._log.first
                if isinstance(event, IntervalMeasured) and event.load == is_load:
                    watch.add(event.interval, time.monotonic())
            await self._failing.check()
            if any(end.ended is not None for end in last.ends.values()):
                watch.end_alone(time.monotonic())
            if group is not last and self._is_idle_phase_over():
                group, watch = last, PayloadWatch(last.plan, self._limits, time.monotonic())
                await self._children.start(group, "client")
                self._emit(Stage("loading", "starting the bulk flow beside the requests"))
        await self._failing.check_ended()

    async def _hangs(
        self, group: FlowGroup, watch: PayloadWatch, started: float, deadline: float
    ) -> RunFailed:
        """No payload came in time."""
        now = time.monotonic()
        is_deadline = now >= deadline
        reason = partial(
            timeout_failure,
            payload_bytes=watch.payload_bytes,
            seconds=now - (started if is_deadline else watch.started),
            is_deadline=is_deadline,
        )
        return await self._failing.failed(reason, group)

    def _is_idle_phase_over(self) -> bool:
        """The requests have run alone for the time of a phase."""
        intervals = self._log.ends["client"].intervals
        if not intervals:
            return False
        newest = intervals[-1][1]
        return not newest.omitted and newest.end >= self._log.plan.time
