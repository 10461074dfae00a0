"""An experiment between watched hosts: request → hosts that take part, or a self-test pair → plan →
run(s) → results.

`RunSession.run` carries out the whole of it for the command line and the screens, which print or
draw the events, and decide when it is stopped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack

from nictop.hosts.session import HostSession, running
from nictop.hosts.specification import LOCAL, Host
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass
from nictop.traffic.experiment.events import ExperimentEnded, ExperimentEvent
from nictop.traffic.experiment.experiment import (
    Change,
    Experiment,
    prepare_experiment,
    run_experiment,
)
from nictop.traffic.experiment.self_test import self_test_pair
from nictop.traffic.hosts.host import RunHost, subscribed_hosts
from nictop.traffic.hosts.readings import wait_for_platforms, wait_for_readings
from nictop.traffic.plan.request import RunRequest
from nictop.traffic.results.selection import StoredRun, directory, save_run
from nictop.traffic.run.events import Stage
from nictop.wire.local import LocalSource


@dataclass(frozen=True)
class Note:
    """Something to know about the results; clean."""

    sentence: str


@dataclass(frozen=True, eq=False)
class ExperimentPrepared:
    """It is known what is to be run, and between which hosts."""

    experiment: Experiment
    hosts: Mapping[str, RunHost]
    """Those that take part, by name."""


@dataclass(frozen=True)
class WaitEnded:
    """What was waited for has not come in time, and the experiment continues without it. `missing`:
    what that is; clean."""

    missing: str


SessionEvent = Note | WaitEnded | ExperimentPrepared | ExperimentEvent
EmitSession = Callable[[SessionEvent], object]
"""Called with each event, when it happens."""


class RunSession:
    """One experiment. `sessions`: the hosts of the request, whose items the caller processes; None:
    two ends on this machine (self-test). `change`: as for `run_experiment`. `timeout`: seconds
    within which every host must have sent inventory and counters; None: both ends are waited for as
    long as they may still connect, and an observer that is not live is left out."""

    def __init__(
        self,
        request: RunRequest,
        sessions: Iterable[HostSession] | None,
        *,
        change: Change | None = None,
        timeout: float | None = None,
    ) -> None:
        self.is_running = False
        """An experiment has begun, and has not ended: it can be stopped."""
        self.stopping = asyncio.Event()
        self._request, self._sessions = request, sessions
        self._change, self._timeout = change, timeout

    def stop(self) -> bool:
        """End what runs, with the result of what was measured so far. False: nothing runs; cancel
        `run`."""
        if self.is_running:
            self.stopping.set()
        return self.is_running

    async def run(self, emit: EmitSession) -> ExperimentEnded:
        """To be called once: the results, and why it ended before its last step. Raises
        HostUnreachable if a host sends nothing, NictopError if the request cannot be run."""
        async with AsyncExitStack() as stack:
            request, sessions = self._request, self._sessions
            if sessions is None:
                emit(Stage("preparing", "creating two network namespaces"))
                pair = await stack.enter_async_context(self_test_pair(request))
                request = pair.request
                emit(Note(pair.description))
                sessions = [_self_test_session(source) for source in pair.sources]
                await stack.enter_async_context(running(*sessions))
            hosts = stack.enter_context(subscribed_hosts(sessions))
            await self._wait_for_hosts(request, hosts, emit)
            experiment = await self._prepare(request, hosts, emit)
            self.is_running = True
            try:
                return await run_experiment(
                    experiment, hosts, emit, change=self._change, keep=_store, stop=self.stopping
                )
            finally:
                self.is_running = False

    async def _wait_for_hosts(
        self, request: RunRequest, hosts: dict[str, RunHost], emit: EmitSession
    ) -> None:
        """Until they have sent their readings; observers that have not are removed from `hosts`."""
        ends = request.watched_ends
        needed = [host.session for name, host in hosts.items() if name in ends]
        if self._timeout is not None:
            needed = [host.session for host in hosts.values()]

        def tell(sentence: str) -> None:
            emit(Stage("waiting", sentence))

        await wait_for_readings(needed, self._timeout, tell)
        missing = await wait_for_platforms(needed, tell)
        if missing:
            emit(WaitEnded(missing))
        for name in request.observers:
            is_observer = name in hosts and name not in ends
            if is_observer and hosts[name].snapshot.counters is None:
                del hosts[name]
                emit(Note(f"{name} is not connected, not monitored"))

    async def _prepare(
        self, request: RunRequest, hosts: Mapping[str, RunHost], emit: EmitSession
    ) -> Experiment:
        what = "iperf3 on both hosts" if request.has_bulk else "both hosts"
        if len(request.watched_ends) == 1:
            what = clean(request.watched_ends[0])
        emit(Stage("preparing", f"checking {what}"))
        experiment = await prepare_experiment(request, hosts)
        emit(ExperimentPrepared(experiment, hosts))
        for note in experiment.notes:
            emit(Note(note))
        return experiment


def _self_test_session(source: LocalSource) -> HostSession:
    return HostSession(Host(source.name, LOCAL), source, window=False)


def _store(run: StoredRun) -> object:
    return save_run(run, directory(os.environ))
