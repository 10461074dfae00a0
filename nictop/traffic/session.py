"""An experiment between watched hosts: request → hosts that take part, or a self-test pair → plan → run(s) → results.

`RunSession.events` carries out the whole of it for the command line and the screens, which print or draw the events,
and decide when it is stopped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass

from nictop.hosts.session import HostSession, running
from nictop.hosts.specification import LOCAL, Host
from nictop.traffic.experiment.events import ExperimentEnded, ExperimentEvent, StepEnded
from nictop.traffic.experiment.experiment import Change, Experiment, prepare_experiment, run_experiment
from nictop.traffic.experiment.self_test import self_test_pair
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.results.selection import StoredRun, directory, save_run
from nictop.traffic.run.events import Stage
from nictop.traffic.run.host import RunHost, subscribed_hosts
from nictop.traffic.run.readings import wait_for_readings


@dataclass(frozen=True)
class Note:
    """Something to know about the results; clean."""

    sentence: str


SessionEvent = Note | ExperimentEvent


class RunSession:
    """One experiment. `sessions`: the hosts of the request, whose items the caller processes; None: two ends on this
    machine (self-test). `change`: as for `run_experiment`. `timeout`: seconds within which every host must have sent
    inventory and counters; None: both ends are waited for as long as they may still connect, and an observer that is
    not live is left out."""

    def __init__(
        self,
        request: RunRequest,
        sessions: Iterable[HostSession] | None,
        *,
        change: Change | None = None,
        timeout: float | None = None,
    ) -> None:
        self.request = request
        """With the addresses of the self-test pair, once it is made."""
        self.experiment: Experiment | None = None
        """None: it is not known yet what is to be run."""
        self.hosts: dict[str, RunHost] = {}
        """Those that take part, by name."""
        self.results: tuple[StoredRun, ...] = ()
        self.why = ""
        """Why it ended before its last step; "": it did not."""
        self.is_running = False
        """An experiment has begun, and has not ended: it can be stopped."""
        self.stopping = asyncio.Event()
        self._sessions, self._change, self._timeout = sessions, change, timeout

    def stop(self) -> bool:
        """End what runs, with the result of what was measured so far. False: nothing runs; cancel `events`."""
        if self.is_running:
            self.stopping.set()
        return self.is_running

    async def events(self) -> AsyncGenerator[SessionEvent, None]:
        """To be iterated once; to be closed (`contextlib.aclosing`) when it is left early. Raises HostUnreachable if a
        host sends nothing, NictopError if the request cannot be run."""
        async with AsyncExitStack() as stack:
            sessions = self._sessions
            if sessions is None:
                yield Stage("preparing", "creating two network namespaces")
                pair = await stack.enter_async_context(self_test_pair(self.request))
                self.request = pair.request
                yield Note(pair.description)
                sessions = [HostSession(Host(one.name, LOCAL), one, window=False) for one in pair.sources]
                await stack.enter_async_context(running(*sessions))
            self.hosts = hosts = stack.enter_context(subscribed_hosts(sessions))
            ends = (self.request.client, self.request.server)
            needed = [host.session for name, host in hosts.items() if self._timeout is not None or name in ends]
            async with aclosing(wait_for_readings(needed, self._timeout)) as waiting:
                async for stage in waiting:
                    yield stage
            for name in self.request.observers:
                if name in hosts and name not in ends and hosts[name].snapshot.counters is None:
                    del hosts[name]
                    yield Note(f"{name} is not connected, not monitored")
            what = "iperf3 on both hosts" if self.request.has_bulk else "both hosts"
            yield Stage("preparing", f"checking {what}")
            self.experiment = await prepare_experiment(self.request, hosts)
            for note in self.experiment.notes:
                yield Note(note)
            steps = run_experiment(self.experiment, hosts, change=self._change, keep=_store, stop=self.stopping)
            self.is_running = True
            try:
                async with aclosing(steps) as events:
                    async for event in events:
                        if isinstance(event, StepEnded):
                            self.results += (event.run,)
                        elif isinstance(event, ExperimentEnded):
                            self.why = event.reason
                        yield event
            finally:
                self.is_running = False


def _store(run: StoredRun) -> object:
    return save_run(run, directory(os.environ))
