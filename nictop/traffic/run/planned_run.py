"""A run from its begin to its result, whatever it is of: what ends it, and in which order."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from nictop.probe.light_tuples import NamedTuple
from nictop.traffic.analysis.assemble import result_of
from nictop.traffic.failures import RunFailed, RunStopped
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.hosts.inbox import TrafficInbox
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.record.log import RunLog, axis_start, new_groups
from nictop.traffic.results.result import Result
from nictop.traffic.run.counters_around import CountersAround
from nictop.traffic.run.events import Emit, RunBegan, RunFinished, RunTimeouts


class RunParameters(NamedTuple):
    """What a run is started with (`nictop.traffic.run.run.run`)."""

    plan: RunPlan
    hosts: Mapping[str, RunHost]
    emit: Emit
    limits: RunTimeouts
    identity: str
    """Begin of the ids of all its requests."""


class PlannedRun(ABC):
    """A running plan."""

    def __init__(self, given: RunParameters) -> None:
        self._plan, self._emit = given.plan, given.emit
        self._limits, self._identity = given.limits, given.identity
        groups = new_groups(given.plan, given.identity)
        grace = given.limits.grace
        self._log = RunLog(given.plan, groups, given.hosts, time.time(), grace=grace)
        self._inbox = TrafficInbox(given.hosts, set(self._ends_of(given.plan)))
        self._counters = CountersAround(self._log, self._inbox, given.limits, given.identity)

    @abstractmethod
    def _ends_of(self, plan: RunPlan) -> Iterable[str]:
        """Names of the hosts without which it fails."""

    def stop(self) -> None:
        """End it now: what it has started is ended, and the result is what was measured. Without
        effect after the end."""
        self._inbox.stop()

    async def result(self) -> Result:
        """To be called once."""
        self._emit(RunBegan(self._log))
        self._inbox.open()
        try:
            try:
                await self._carry_out()
            except RunFailed as error:
                self._log.failure = error.failure
            except RunStopped:
                self._note_stop()
            finally:
                await self._end()
            await self._read_final_counters()
            result = self._result()
            self._emit(RunFinished(result))
            return result
        finally:
            self._inbox.close()

    @abstractmethod
    async def _carry_out(self) -> None:
        """Raises RunFailed or RunStopped if it does not come to its end."""

    def _note_stop(self) -> None:
        axis, seconds = axis_start(self._log), 0.0
        if axis is not None:
            seconds = min(max(0.0, time.monotonic() - axis), float(self._log.plan.span))
        self._log.stopped = seconds

    @abstractmethod
    async def _end(self) -> None:
        """End what it has started, and wait for that."""

    async def _read_final_counters(self) -> None:
        await self._counters.end()

    def _result(self) -> Result:
        return result_of(self._log)
