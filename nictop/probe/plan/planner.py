"""Answer requests for the plan of a change. Reads only, in every probe.

Takes `records.ChangeRequest`s and sends `records.ChangeLine`s, one plan at a time. A child reads
it, because a driver may hang in any read. Every other step is refused here: what makes a change is
in `nictop.probe.changes`, which only a probe with ``--allow-changes`` has.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time

from nictop.probe.kernel import daemonize
from nictop.probe.plan.current_state import Roots
from nictop.probe.plan.pipe import MAX_REPORT_BYTES, ReportPipe, is_pipe_closed
from nictop.probe.plan.plan import ChangePlan, read_plan
from nictop.probe.plan.requests import PLAN_TIMEOUT, ChangeCommand
from nictop.probe.protocol.requests import take_lines
from nictop.probe.traffic.requests import request_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    ReportChange = Callable[[dict[str, object]], None]
    CheckPlan = Callable[[ChangePlan], None]

READ_ONLY_TEXT = "changes are disabled: nictop was started without --allow-changes"
CLOSE_TIMEOUT = 2.0
"""Seconds that a probe that is ending waits for a child it has killed."""
READ_BYTES = 64 * 1024


def accept(_: ChangePlan) -> None:
    """A plan that is only shown needs nothing else."""


class PlanChild:
    """A process that reads a plan; it must have ended by `deadline` (CLOCK_MONOTONIC)."""

    def __init__(self, change_id: str, pipes: daemonize.Pipes, pid: int, deadline: float) -> None:
        self.change_id, self.pipes, self.pid = change_id, pipes, pid
        self.deadline: float | None = deadline
        self.finished = False
        self.buffer = bytearray()
        self.error = ""


class Planner:
    """All plans of one probe. `report` takes the fields of one `records.ChangeLine`; `check` raises
    ValueError for a plan that is to be refused, in the child. Descriptors are registered with
    `poll`, and `handle_readable` must be called when they are readable; `now` is
    CLOCK_MONOTONIC."""

    def __init__(
        self,
        report: ReportChange,
        poll: select.poll,
        *,
        sys: str = "/sys",
        proc: str = "/proc",
        check: CheckPlan = accept,
    ) -> None:
        self._report, self._poll, self._roots, self._check = report, poll, Roots(sys, proc), check
        self._child: PlanChild | None = None

    def handle_request(self, request: Mapping[str, object], now: float) -> None:
        """Answer a request of a probe that only reads: the plan, or a refusal."""
        try:
            command = ChangeCommand(request)
        except ValueError as error:
            self.refuse(id_of(request), str(error), now)
            return
        if command.step != "prepare":
            self.refuse(command.id, READ_ONLY_TEXT, now)
        elif self.busy_with(now):
            self.refuse(command.id, f"another change is in progress: {self.busy_with(now)}", now)
        else:
            self.start(command, now)

    def busy_with(self, now: float) -> str:
        """Id of the change whose plan is being read; "": none."""
        child = self._child
        if child is not None and child.finished:  # the process is about to exit
            self._handle_exit(child, now)
        return "" if self._child is None else self._child.change_id

    def start(self, command: ChangeCommand, now: float) -> None:
        """Read the plan of a change. `busy_with` must be ""."""
        roots, check = self._roots, self._check

        def work(reports: int, _: int) -> None:
            report_plan(ReportPipe(reports, command.id), command, roots, check)

        try:
            pipes, pid = daemonize.start(work, detached=False)
        except OSError as error:
            self.refuse(command.id, f"cannot start a process: {error.strerror}", now)
            return
        self._child = PlanChild(command.id, pipes, pid, now + PLAN_TIMEOUT)
        self._poll.register(pipes.reports, select.POLLIN)

    def owns(self, descriptor: int) -> bool:
        return self._child is not None and self._child.pipes.reports == descriptor

    def handle_readable(self, descriptor: int, now: float) -> None:
        """Read reports of the child, or notice its end."""
        child = self._child
        if child is None or child.pipes.reports != descriptor:
            return
        while len(child.buffer) <= MAX_REPORT_BYTES:
            try:
                data = os.read(descriptor, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                break
            for line in take_lines(child.buffer, data):
                self._handle_message(child, line)
        self._handle_exit(child, now)

    def next_deadline(self) -> float | None:
        """When `advance` has something to do; None: nothing is pending."""
        return self._child.deadline if self._child is not None else None

    def advance(self, now: float) -> None:
        """Kill a child that reads for too long."""
        child = self._child
        if child is None or child.deadline is None or now < child.deadline:
            return
        child.deadline = None
        if not is_pipe_closed(child.pipes.reports):
            child.error = f"the current state could not be read within {PLAN_TIMEOUT:g} s"
            os.kill(child.pid, signal.SIGKILL)

    def close(self) -> None:
        """Called when the probe ends."""
        child = self._child
        if child is None:
            return
        self._report = discard_line
        os.kill(child.pid, signal.SIGKILL)
        poll = select.poll()
        poll.register(child.pipes.reports, select.POLLIN)
        end = time.monotonic() + CLOSE_TIMEOUT
        while self._child is not None and time.monotonic() < end:
            if poll.poll(max(0.0, end - time.monotonic()) * 1000):
                self.handle_readable(child.pipes.reports, time.monotonic())

    def refuse(self, change_id: str, text: str, now: float) -> None:
        self._send({"time": now, "id": change_id, "kind": "refused", "text": text})

    def _handle_message(self, child: PlanChild, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            child.error = line.decode("utf-8", "replace")[:300]
            return
        child.finished = child.finished or "end" in message
        self._send(message["line"])

    def _handle_exit(self, child: PlanChild, now: float) -> None:
        self._poll.unregister(child.pipes.reports)
        child.pipes.close()
        self._child = None
        os.waitpid(child.pid, 0)
        if not child.finished:
            error = child.error or child.buffer.decode("utf-8", "replace").strip()[:300]
            self.refuse(child.change_id, error or "the current state could not be read", now)

    def _send(self, fields: dict[str, object]) -> None:
        with contextlib.suppress(BrokenPipeError):  # the probe's loop notices that
            self._report(fields)


def discard_line(_: dict[str, object]) -> None:
    """Used once the probe is ending."""


def id_of(request: Mapping[str, object]) -> str:
    """The id of a request that is otherwise invalid; "" when that is invalid, too."""
    try:
        return request_id(request)
    except ValueError:
        return ""


def report_plan(pipe: ReportPipe, command: ChangeCommand, roots: Roots, check: CheckPlan) -> None:
    """Answer a "prepare" request."""
    try:
        plan = read_plan(command.actions, roots)
        check(plan)
    except ValueError as error:
        pipe.finish("refused", str(error))
    else:
        pipe.finish(
            "prepared",
            plan=plan.actions,
            fingerprint=plan.fingerprint,
            needs_second_yes=plan.needs_second_yes,
        )
