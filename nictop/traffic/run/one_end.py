"""A run of which nictop starts and watches one end only: what both kinds have in common, from the
begin to the result.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable

from nictop.model.text.terminal import clean
from nictop.traffic.failures import Failure, RunFailed
from nictop.traffic.generators import Side, output_parser
from nictop.traffic.hosts.host import PROBE_REPLY_TIMEOUT, RunHost, check_request
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.plan.plan_problems import plan_problems
from nictop.traffic.plan.problem import sentences
from nictop.traffic.plan.tools import own_refusals
from nictop.traffic.record.endpoint import RunEnd
from nictop.traffic.run.child_processes import ChildProcesses
from nictop.traffic.run.events import Stage
from nictop.traffic.run.planned_run import PlannedRun, RunParameters


class OneEndRun(PlannedRun):
    """A running plan with one watched end."""

    own_side: Side

    def __init__(self, given: RunParameters) -> None:
        super().__init__(given)
        self._children = ChildProcesses(self._log, self._inbox, self._emit, self._limits)

    def _ends_of(self, plan: RunPlan) -> Iterable[str]:
        return (plan.watched_ends[0].host,)

    @property
    def _own(self) -> RunEnd:
        return self._log.ends[self.own_side]

    async def _carry_out(self) -> None:
        self._check_plan()
        await self._check_tools()
        await self._transfer()

    @abstractmethod
    async def _transfer(self) -> None:
        """Raises RunFailed or RunStopped if it does not come to its end."""

    async def _end(self) -> None:
        self._inbox.end()
        await self._children.stop()

    def _check_plan(self) -> None:
        wrong = plan_problems(self._plan)
        if wrong:
            raise RunFailed(Failure("option", sentences(wrong)))

    async def _check_tools(self) -> None:
        """The generators of the own end, by its probe. Raises RunFailed."""
        own = self._own
        name, request = clean(own.host), check_request(own.identity, self._limits.check)
        self._emit(Stage("checking", f"checking {self._plan.generator} on {name}"))
        host = self._live_host(own.host)
        began = time.monotonic()
        deadline = began + self._limits.check
        await host.request(request)
        while own.tools is None:
            line = await self._inbox.next(deadline)
            if line is None:
                late = f"{name}: no answer from the probe within {self._limits.check:g} s"
                raise RunFailed(Failure("tools", late))
            if line.id != request.id:
                continue
            if line.kind == "failed":
                raise RunFailed(Failure("tools", f"{name}: {clean(line.text)}"))
            if line.tools is not None:
                host.session.slowness.note(time.monotonic() - began, PROBE_REPLY_TIMEOUT)
                own.tools = line.tools
                own.output = output_parser(self._plan, line.tools, self.own_side)
        refused = own_refusals(self._plan, own.tools)
        if refused:
            raise RunFailed(Failure("option", sentences(refused)))

    def _live_host(self, name: str) -> RunHost:
        """Raises RunFailed."""
        host = self._log.hosts.get(name)
        if host is None:
            raise RunFailed(Failure("unreachable", f"{clean(name)}: it is not watched"))
        if host.snapshot.state != "live":
            state = clean(host.snapshot.message) or "it is not connected"
            raise RunFailed(Failure("unreachable", f"{clean(name)}: {state}"))
        return host
