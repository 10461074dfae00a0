"""Events that runs and experiments emit, to iterate over: leaving the iteration cancels them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from nictop.traffic.experiment.events import ExperimentEvent
from nictop.traffic.experiment.experiment import Experiment, run_experiment
from nictop.traffic.hosts.host import RunHost
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.run.events import RunEvent, RunTimeouts
from nictop.traffic.run.run import run

Event = TypeVar("Event")


async def emitted(
    begin: Callable[[Callable[[Event], object]], Coroutine[Any, Any, object]],
) -> AsyncGenerator[Event, None]:
    """What the coroutine that `begin` makes emits; its exception, if it ends with one."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    task = asyncio.ensure_future(begin(events.put_nowait))
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Run:
    """A run whose events are iterated over."""

    def __init__(
        self,
        plan: RunPlan,
        hosts: Mapping[str, RunHost],
        *,
        limits: RunTimeouts | None = None,
        identity: str = "",
    ) -> None:
        self._plan, self._hosts, self._limits = plan, hosts, limits
        self._identity, self._stop = identity, asyncio.Event()

    def stop(self) -> None:
        """End it with what was measured so far."""
        self._stop.set()

    def events(self) -> AsyncGenerator[RunEvent, None]:
        """To be iterated once."""

        def begin(emit: Callable[[RunEvent], object]) -> Coroutine[Any, Any, object]:
            return run(
                self._plan,
                self._hosts,
                emit,
                limits=self._limits,
                identity=self._identity,
                stop=self._stop,
            )

        return emitted(begin)


def experiment_events(
    experiment: Experiment, hosts: Mapping[str, RunHost], **more: Any
) -> AsyncGenerator[ExperimentEvent, None]:
    """The events of `run_experiment`."""
    return emitted(lambda emit: run_experiment(experiment, hosts, emit, **more))
