"""One run on one host: a command of the user, from its start to its end, or what flows between two
moments that the user chooses.

The command is a child of the host's probe, which ends it when its connection is lost. However the
run ends, the command has been told to end, and its end is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from nictop.model.text.terminal import clean
from nictop.probe.records import Counters, TrafficLine, TrafficRequest
from nictop.traffic.analysis.nic_rates import RX_BYTES, TX_BYTES, counted, counted_nic
from nictop.traffic.analysis.workload import one_host_result
from nictop.traffic.failures import Failure, RunFailed
from nictop.traffic.hosts.host import slowness_of
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.plan.problem import sentences
from nictop.traffic.results.result import Result
from nictop.traffic.run.events import (
    FINAL_COUNTERS,
    NicMeasured,
    Stage,
    StorageMeasured,
)
from nictop.traffic.run.planned_run import PlannedRun, RunParameters

WORKLOAD_END_SECONDS = 6.0
"""For all processes of the command to end: SIGTERM, a second, SIGKILL."""
RATE_SECONDS = 1.0
"""Between two rates of the NIC that are emitted."""
START_SECONDS = 15.0
"""For the probe to start it."""
REPORT_SECONDS = 20.0
"""After the time limit of the command, until its host must have reported its end."""
MEASURING = "measuring what flows until it is ended by hand"


class OneHostRun(PlannedRun):
    """A running plan of one host."""

    def __init__(self, given: RunParameters) -> None:
        super().__init__(given)
        self._rated: Counters | None = None
        """The record until which rates were emitted."""
        self._rates_due = time.monotonic() + RATE_SECONDS
        self._begun = 0.0
        """By hand; on the clock of nictop: the offset of that of the host may become better known
        meanwhile."""
        self._is_requested = False
        """The command was requested, and may run."""

    def _ends_of(self, plan: RunPlan) -> Iterable[str]:
        return (plan.client.host,)

    async def _read_final_counters(self) -> None:
        self._emit(Stage("ending", FINAL_COUNTERS))
        await super()._read_final_counters()

    def _result(self) -> Result:
        return one_host_result(self._log)

    async def _carry_out(self) -> None:
        self._check()
        await self._counters.begin()
        self._counters.note()
        if self._plan.test == "manual":
            self._begin_by_hand()
            await self._wait(time.monotonic() + self._plan.time)
            self._end_by_hand()
            return
        await self._start_command()
        end = self._log.ends["client"]
        seconds = REPORT_SECONDS * self._slowness
        deadline = time.monotonic() + self._plan.time + seconds
        while end.ended is None:
            line = await self._next(deadline)
            if line is None:
                late = f"no report about the end of the command within {seconds:g} s"
                raise RunFailed(Failure("deadline", f"{clean(end.host)}: {late}"))
            self._log.add_line(line)
            if line.work is not None and line.work.state == "running" and end.started is not None:
                self._emit(StorageMeasured(line.work.time - end.started, line.work.storage))
        if end.work is None:
            why = clean(end.failed) or "its supervisor ended without a report"
            raise RunFailed(Failure("died", f"{clean(end.host)}: {why}"))

    @property
    def _slowness(self) -> float:
        return slowness_of([self._plan.client.host], self._log.hosts)

    def _check(self) -> None:
        wrong = plan_problems(self._plan)
        if wrong:
            raise RunFailed(Failure("option", sentences(wrong)))
        name = self._plan.client.host
        if name not in self._log.hosts:
            raise RunFailed(Failure("unreachable", f"{clean(name)} is not watched"))
        snapshot = self._log.hosts[name].snapshot
        if snapshot.state != "live":
            state = clean(snapshot.message) or f"it is {snapshot.state}"
            raise RunFailed(Failure("unreachable", f"{clean(name)}: {state}"))

    async def _start_command(self) -> None:
        plan, end = self._plan, self._log.ends["client"]
        host = clean(plan.client.host)
        self._emit(Stage("starting", f"starting on {host}: {clean(plan.workload)}"))
        self._is_requested = True
        await self._log.hosts[end.host].request(
            TrafficRequest(
                end.identity,
                "work",
                workload=plan.workload,
                variables=workload_variables(plan),
                deadline=float(plan.time),
            )
        )
        seconds = START_SECONDS * self._slowness
        deadline = time.monotonic() + seconds
        while end.started is None and end.ended is None:
            line = await self._inbox.next(deadline)
            if line is None:
                late = f"{host}: the command was not started within {seconds:g} s"
                raise RunFailed(Failure("start", late))
            self._log.add_line(line)
        if end.failed:
            raise RunFailed(Failure("start", f"{host}: {clean(end.failed)}"))
        assert end.begin is not None
        self._emit(Stage("running", f"running on {host} as {clean(end.begin.user)}"))

    def _begin_by_hand(self) -> None:
        self._begun = time.monotonic()
        self._log.ends["client"].begin_by_hand(self._now())
        self._emit(Stage("running", MEASURING))

    def _end_by_hand(self) -> None:
        end = self._log.ends["client"]
        if end.started is not None:
            end.end_by_hand(end.started + time.monotonic() - self._begun)

    def _now(self) -> float:
        """On the clock of the host."""
        return time.monotonic() + self._log.hosts[self._plan.client.host].offset.seconds

    async def _wait(self, deadline: float) -> None:
        while await self._next(deadline) is not None:
            pass

    async def _next(self, deadline: float) -> TrafficLine | None:
        """The next line; None at the deadline. The rates of the NIC are emitted meanwhile."""
        while True:
            line = await self._inbox.next(min(self._rates_due, deadline))
            now = time.monotonic()
            if now >= self._rates_due:
                self._rates_due = now + RATE_SECONDS
                self._emit_rates()
            if line is not None or now >= deadline:
                return line

    def _emit_rates(self) -> None:
        """Of the time since the last ones."""
        endpoint, started = self._plan.client, self._log.ends["client"].started
        records = self._log.hosts[endpoint.host].records
        if endpoint.ifindex is None or started is None or not records:
            return
        before, after = self._rated or records[0], records[-1]
        seconds = after.time - before.time
        self._rated = after
        if seconds <= 0 or after.time <= started:
            return
        nic = counted_nic(self._plan, self._log.hosts[endpoint.host].snapshot)
        rates = []
        for index in (TX_BYTES, RX_BYTES):
            moved = counted(before, after, nic, index)
            rates.append(None if moved is None else 8 * moved / seconds)
        self._emit(NicMeasured(after.time - started, *rates))

    def _note_stop(self) -> None:
        """The user has stopped it: the planned end of a measurement by hand."""
        end = self._log.ends["client"]
        if end.started is None:
            self._log.stopped = 0.0
            return
        if self._plan.test == "manual":
            self._end_by_hand()
        else:
            self._log.stopped = max(0.0, self._now() - end.started)

    async def _end(self) -> None:
        """Until it has ended."""
        self._inbox.end()
        end = self._log.ends["client"]
        if not self._is_requested or end.ended is not None or end.host in self._inbox.lost:
            return
        await self._log.hosts[end.host].request(TrafficRequest(end.identity, "stop"))
        deadline = time.monotonic() + WORKLOAD_END_SECONDS
        while end.ended is None:
            try:
                line = await self._inbox.next(deadline)
            except RunFailed as error:
                self._log.failure = self._log.failure or error.failure
                return
            if line is None:
                return
            self._log.add_line(line)


def workload_variables(plan: RunPlan) -> dict[str, str]:
    """Variables in the environment of the command."""
    if not plan.variable_value:
        return {}
    return {"NICTOP_VARIABLE": plan.variable_name, "NICTOP_VALUE": plan.variable_value}
