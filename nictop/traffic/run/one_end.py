"""A run of which nictop starts and watches one end only: what both kinds have in common, from the
begin to the result.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping

from nictop.model.text.terminal import clean
from nictop.probe.records import TrafficRequest
from nictop.traffic.analysis.assemble import result_of
from nictop.traffic.failures import Failure, RunFailed, RunStopped
from nictop.traffic.generators import Side, output_parser
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.plan.problem import sentences
from nictop.traffic.plan.tools import own_refusals
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.record.log import RunLog, axis_start, new_groups
from nictop.traffic.results.result import Result
from nictop.traffic.run.child_processes import ChildProcesses
from nictop.traffic.run.counters_around import CountersAround
from nictop.traffic.run.events import Emit, RunBegan, RunFinished, RunTimeouts, Stage


class OneEndRun(ABC):
    """A running plan with one watched end."""

    own_side: Side

    def __init__(
        self,
        plan: RunPlan,
        hosts: Mapping[str, RunHost],
        emit: Emit,
        limits: RunTimeouts,
        identity: str,
    ) -> None:
        self._plan, self._emit, self._limits = plan, emit, limits
        self._identity = identity
        self._log = RunLog(plan, new_groups(plan, identity), hosts, time.time())
        self._inbox = TrafficInbox(hosts, {plan.watched_ends[0].host})
        self._children = ChildProcesses(self._log, self._inbox, emit, limits)
        self._counters = CountersAround(self._log, self._inbox, limits, identity)

    def stop(self) -> None:
        """End it now, with what was measured. Without effect after the end."""
        self._inbox.stop()

    @property
    def _own(self) -> RunEnd:
        return self._log.ends[self.own_side]

    async def result(self) -> Result:
        """To be called once."""
        self._emit(RunBegan(self._log))
        self._inbox.open()
        try:
            try:
                self._check_plan()
                await self._check_tools()
                await self._carry_out()
            except RunFailed as error:
                self._log.failure = error.failure
            except RunStopped:
                self._log.stopped = self._measured_seconds()
            finally:
                self._inbox.end()
                await self._children.stop()
            await self._counters.end()
            result = result_of(self._log)
            self._emit(RunFinished(result))
            return result
        finally:
            self._inbox.close()

    @abstractmethod
    async def _carry_out(self) -> None:
        """Raises RunFailed or RunStopped if it does not come to its end."""

    def _measured_seconds(self) -> float:
        axis = axis_start(self._log)
        if axis is None:
            return 0.0
        return min(max(0.0, time.monotonic() - axis), float(self._plan.span))

    def _check_plan(self) -> None:
        wrong = plan_problems(self._plan)
        if wrong:
            raise RunFailed(Failure("option", sentences(wrong)))

    async def _check_tools(self) -> None:
        """The generators of the own end, by its probe. Raises RunFailed."""
        own = self._own
        name = clean(own.host)
        self._emit(Stage("checking", f"checking {self._plan.generator} on {name}"))
        host = self._log.hosts.get(own.host)
        if host is None or host.snapshot.state != "live":
            state = "it is not watched" if host is None else clean(host.snapshot.message)
            raise RunFailed(Failure("unreachable", f"{name}: {state or 'it is not connected'}"))
        deadline = time.monotonic() + self._limits.check
        await host.request(TrafficRequest(f"{own.identity}-check", "check"))
        while own.tools is None:
            line = await self._inbox.next(deadline)
            if line is None:
                late = f"{name}: no answer from the probe within {self._limits.check:g} s"
                raise RunFailed(Failure("tools", late))
            if line.id == f"{own.identity}-check" and line.kind == "failed":
                raise RunFailed(Failure("tools", f"{name}: {clean(line.text)}"))
            if line.id == f"{own.identity}-check" and line.tools is not None:
                own.tools = line.tools
                own.output = output_parser(self._plan, line.tools, self.own_side)
        refused = own_refusals(self._plan, own.tools)
        if refused:
            raise RunFailed(Failure("option", sentences(refused)))
