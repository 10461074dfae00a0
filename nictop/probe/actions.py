"""Requests that do more than read: tests and changes. In the probe itself, or in its helper
(`helper`).

Generators and the executor or planner are imported with the first request for them. A probe that
only reads has the planner, which makes no change: modules that can change this host are imported
only with ``--allow-changes``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select
    from typing import Any, Protocol

    from nictop.probe.changes.executor import Executor
    from nictop.probe.plan.planner import Planner
    from nictop.probe.traffic.generators import Generators

    class SendLine(Protocol):
        """Sends the fields of one line of a kind."""

        def __call__(
            self, kind: str, fields: dict[str, Any], *, droppable: bool = False
        ) -> None: ...


class ActionProcesses:
    """Registers its descriptors with `poll`; `now` is CLOCK_MONOTONIC."""

    def __init__(
        self,
        send: SendLine,
        poll: select.poll,
        *,
        allow_changes: bool,
        allow_workload: bool = False,
        sys: str = "/sys",
        proc: str = "/proc",
    ) -> None:
        self._send, self._poll, self._allow_changes = send, poll, allow_changes
        self._allow_workload = allow_workload
        self._sys, self._proc = sys, proc
        self._generators: Generators | None = None
        self._executor: Executor | Planner | None = None

    def handle_request(self, kind: str, request: dict[str, object], now: float) -> None:
        """Execute a request. `kind`: "traffic" or "change"."""
        if kind == "traffic":
            self._traffic().handle_request(request, now)
        else:
            self._changes().handle_request(request, now)

    def owns(self, descriptor: int) -> bool:
        """Whether events of a descriptor must be passed to `handle_readable`."""
        return any(
            part.owns(descriptor) for part in (self._generators, self._executor) if part is not None
        )

    def handle_readable(self, descriptor: int, now: float) -> None:
        if self._generators is not None and self._generators.owns(descriptor):
            self._generators.handle_readable(descriptor, now)
        elif self._executor is not None:
            self._executor.handle_readable(descriptor, now)

    def advance(self, now: float) -> None:
        """Do what is due."""
        if self._generators is not None:
            self._generators.advance(now)
        if self._executor is not None:
            self._executor.advance(now)

    def next_deadline(self, now: float) -> float | None:
        """When `advance` has something to do; None: nothing is pending."""
        deadlines = []
        if self._generators is not None:
            deadlines.append(self._generators.next_deadline(now))
        if self._executor is not None:
            deadlines.append(self._executor.next_deadline())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def pause(self, paused: bool) -> None:
        """While lines are waiting for their reader, generators block on their pipes."""
        if self._generators is not None:
            self._generators.pause(paused)

    def close(self) -> None:
        """End all tests, and supervise a change that is being undone. May take some seconds."""
        if self._generators is not None:
            self._generators.end_all()
        if self._executor is not None:
            self._executor.close()

    def _traffic(self) -> Generators:
        if self._generators is None:
            from nictop.probe.traffic.generators import Generators

            self._generators = Generators(
                self._send_traffic, self._poll, self._proc, allow_workload=self._allow_workload
            )
        return self._generators

    def _changes(self) -> Executor | Planner:
        if self._executor is None:
            self._executor = self._new_executor() if self._allow_changes else self._new_planner()
        return self._executor

    def _new_executor(self) -> Executor:
        from nictop.probe.changes.executor import Executor

        return Executor(self._send_change, self._poll, sys=self._sys, proc=self._proc)

    def _new_planner(self) -> Planner:
        from nictop.probe.plan.planner import Planner

        return Planner(self._send_change, self._poll, sys=self._sys, proc=self._proc)

    def _send_change(self, fields: dict[str, object]) -> None:
        self._send("change", fields)

    def _send_traffic(self, fields: dict[str, object], *, droppable: bool = False) -> None:
        self._send("traffic", fields, droppable=droppable)
