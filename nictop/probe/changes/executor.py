"""Carry out change requests in a probe that was started with ``--allow-changes``.

Takes `records.ChangeRequest`s and sends `records.ChangeLine`s; one change at a time. `plan.planner`
answers requests for a plan; a guard process (`undo_guard`), which outlives the probe, makes the
change. When the guard dies, its `watcher` rolls the change back; when that dies, too, another
process does. Only `Executor.close` blocks.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time

from nictop.probe.changes import locks
from nictop.probe.changes.undo_guard import KEEP, LOCK_TIMEOUT, UNDO, UndoRecord, run_rescue
from nictop.probe.changes.watcher import (
    APPLY_STOP_TIMEOUT,
    HANGING_TEXT,
    UNDO_START_TIMEOUT,
    run_change,
)
from nictop.probe.kernel import daemonize
from nictop.probe.kernel.process_identity import ProcessIdentity
from nictop.probe.plan.current_state import Roots
from nictop.probe.plan.pipe import MAX_REPORT_BYTES, ReportPipe, is_pipe_closed
from nictop.probe.plan.plan import ChangePlan
from nictop.probe.plan.planner import Planner, discard_line, id_of
from nictop.probe.plan.requests import ChangeCommand
from nictop.probe.protocol.requests import take_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from nictop.probe.plan.planner import ReportChange

REPORT_READ_BYTES = 64 * 1024
CLOSE_TIMEOUT = 10.0
"""Seconds that a probe that is ending still supervises its guard."""
WATCHER_START_TIMEOUT = 2.0
"""Seconds for a watcher to report that it rolls back, once its guard was killed; then it is killed
as well."""
MAX_RESCUES = 5
"""Number of processes, one after another, that may roll back for a killed guard: each may be killed
as well."""


class ChangeWorker:
    """The processes that make a change. `role`: "guard" or "rescue". `processes`: guard and
    watcher, once they are known. `deadline`: they must have reported by then (CLOCK_MONOTONIC).
    `undo_record`: known before anything is changed. `is_waiting`: applied, and waiting for the
    decision to keep it. `is_undoing`: no decision is needed."""

    def __init__(self, change_id: str, role: str, pipes: daemonize.Pipes) -> None:
        self.change_id, self.role, self.pipes = change_id, role, pipes
        self.processes: list[ProcessIdentity] = []
        self.deadline: float | None = None
        self.undo_record: UndoRecord | None = None
        self.keep_requested = self.is_waiting = self.is_undoing = self.finished = False
        self.rescues = 0
        self.buffer = bytearray()
        self.error = ""


class Executor:
    """All changes of one probe. `report` takes the fields of one `records.ChangeLine`; descriptors
    are registered with `poll`, and `handle_readable` must be called when they are readable; `now`
    is CLOCK_MONOTONIC."""

    def __init__(
        self, report: ReportChange, poll: select.poll, *, sys: str = "/sys", proc: str = "/proc"
    ) -> None:
        self._report, self._poll, self._roots = report, poll, Roots(sys, proc)
        self._planner = Planner(self._send_line, poll, sys=sys, proc=proc, check=refuse_locked)
        self._worker: ChangeWorker | None = None

    def handle_request(self, request: Mapping[str, object], now: float) -> None:
        """Execute one `records.ChangeRequest`; a refusal is sent as a line."""
        try:
            command = ChangeCommand(request)
        except ValueError as error:
            self._refuse(id_of(request), str(error), now)
            return
        worker = self._worker
        if worker is not None and worker.finished:  # the process is about to exit
            self._handle_exit(worker, now)
            worker = None
        if command.step in ("keep", "undo"):
            if worker is None or worker.change_id != command.id:
                self._refuse(command.id, "no such change in progress", now)
            elif worker.role == "guard":
                self._forward(worker, command.step, now)
            return
        busy_with = self._planner.busy_with(now) if worker is None else worker.change_id
        if busy_with:
            self._refuse(command.id, f"another change is in progress: {busy_with}", now)
        elif command.step == "apply":
            self._start(command, now)
        elif os.geteuid() != 0:
            self._refuse(command.id, "changes need root on the host: use --sudo", now)
        else:
            self._planner.start(command, now)

    def owns(self, descriptor: int) -> bool:
        return self._planner.owns(descriptor) or (
            self._worker is not None and self._worker.pipes.reports == descriptor
        )

    def handle_readable(self, descriptor: int, now: float) -> None:
        """Read reports of the worker or of the planner's child, or notice its end."""
        if self._planner.owns(descriptor):
            self._planner.handle_readable(descriptor, now)
            return
        worker = self._worker
        if worker is None or worker.pipes.reports != descriptor:
            return
        while True:
            try:
                data = os.read(descriptor, REPORT_READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                break
            for line in take_lines(worker.buffer, data):
                self._handle_message(worker, line)
            if len(worker.buffer) > MAX_REPORT_BYTES:
                break
        self._handle_exit(worker, now)

    def next_deadline(self) -> float | None:
        """When `advance` has something to do; None: nothing is pending."""
        return self._planner.next_deadline() if self._worker is None else self._worker.deadline

    def advance(self, now: float) -> None:
        """Kill a child that reads for too long, or a guard that does not roll back in time."""
        self._planner.advance(now)
        worker = self._worker
        if worker is None or worker.deadline is None or now < worker.deadline:
            return
        worker.deadline = None
        if worker.processes and not is_pipe_closed(worker.pipes.reports):
            worker.error = HANGING_TEXT
            worker.processes.pop(0).send_signal(signal.SIGKILL)
            worker.deadline = now + WATCHER_START_TIMEOUT

    def close(self) -> None:
        """Called when the probe ends. The guard notices the end of its pipe and rolls back; it is
        supervised for at most `CLOSE_TIMEOUT` seconds, in case it is killed now."""
        self._planner.close()
        worker = self._worker
        if worker is None:
            return
        self._report = discard_line
        if worker.pipes.commands >= 0:
            os.close(worker.pipes.commands)
            worker.pipes.commands = -1
            if worker.role == "guard" and not worker.keep_requested:
                worker.deadline = time.monotonic() + (
                    UNDO_START_TIMEOUT if worker.is_waiting else CLOSE_TIMEOUT - 1.0
                )
        end = time.monotonic() + CLOSE_TIMEOUT
        while self._worker is not None and not self._worker.finished and time.monotonic() < end:
            poll = select.poll()
            poll.register(self._worker.pipes.reports, select.POLLIN)
            until = end if self._worker.deadline is None else min(end, self._worker.deadline)
            if poll.poll(max(0.0, until - time.monotonic()) * 1000):
                self.handle_readable(self._worker.pipes.reports, time.monotonic())
            self.advance(time.monotonic())
        if self._worker is not None:
            self._unregister(self._worker)

    def _forward(self, worker: ChangeWorker, step: str, now: float) -> None:
        """Send a decision to the guard. After "keep" there is no deadline: NetworkManager may take
        long."""
        if worker.is_undoing:
            return
        worker.keep_requested = worker.keep_requested or step == "keep"
        timeout = UNDO_START_TIMEOUT if worker.is_waiting else APPLY_STOP_TIMEOUT
        worker.deadline = now + timeout if step == "undo" and not worker.keep_requested else None
        with contextlib.suppress(OSError):  # it has ended: `_handle_exit` follows
            os.write(worker.pipes.commands, (KEEP if step == "keep" else UNDO) + b"\n")

    def _start(self, command: ChangeCommand, now: float) -> None:
        roots = self._roots

        def guard(reports: int, commands: int) -> None:
            run_change(command, reports, commands, roots)

        try:
            pipes, _ = daemonize.start(guard, sys=roots.sys)
        except OSError as error:
            self._refuse(command.id, f"cannot start a process: {error.strerror}", now)
            return
        self._register(ChangeWorker(command.id, "guard", pipes))

    def _start_rescue(self, worker: ChangeWorker, now: float) -> None:
        """Start a process that rolls back for a guard that has died."""
        change_id, undo_record, roots = worker.change_id, worker.undo_record, self._roots
        assert undo_record is not None

        def rescue(reports: int, _: int) -> None:
            run_rescue(ReportPipe(reports, change_id), undo_record, roots)

        try:
            pipes, _ = daemonize.start(rescue, sys=roots.sys)
        except OSError as error:
            self._send(
                change_id,
                "failed",
                f"the rollback process was killed and the change remains: {error.strerror}",
                now,
                is_last=True,
            )
            return
        rescuer = ChangeWorker(change_id, "rescue", pipes)
        rescuer.undo_record, rescuer.rescues = undo_record, worker.rescues + 1
        self._register(rescuer)

    def _register(self, worker: ChangeWorker) -> None:
        self._worker = worker
        self._poll.register(worker.pipes.reports, select.POLLIN)

    def _handle_message(self, worker: ChangeWorker, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            worker.error = line.decode("utf-8", "replace")[:300]
            return
        worker.finished = worker.finished or "end" in message
        if "line" in message:
            due = message["line"].get("deadline")
            worker.is_waiting = due is not None and worker.role == "guard"
            worker.deadline = due + UNDO_START_TIMEOUT if worker.is_waiting else None
            worker.is_undoing = message["line"]["kind"] == "undoing"
            self._send_line(message["line"])
        if "undo" in message:
            worker.processes = [ProcessIdentity(**one) for one in message["processes"]]
            worker.undo_record = UndoRecord(**message["undo"])

    def _handle_exit(self, worker: ChangeWorker, now: float) -> None:
        """The worker has ended; if it was not finished, report it and roll back."""
        worker.error = worker.error or worker.buffer.decode("utf-8", "replace").strip()[:300]
        self._unregister(worker)
        if worker.finished:
            return
        if worker.undo_record is None:
            reason = worker.error or "the process was killed"
            self._send(
                worker.change_id,
                "failed",
                f"nothing was changed, the rollback process ended early: {reason}",
                now,
            )
            self._send(worker.change_id, "undone", "nothing was changed", now)
        elif worker.rescues >= MAX_RESCUES:
            self._send(
                worker.change_id,
                "failed",
                "the rollback process is killed: the change may remain",
                now,
                is_last=True,
            )
        else:
            if not worker.rescues:
                reason = worker.error or "the process was killed"
                self._send(
                    worker.change_id, "failed", f"the rollback process ended early: {reason}", now
                )
            self._start_rescue(worker, now)

    def _unregister(self, worker: ChangeWorker) -> None:
        self._poll.unregister(worker.pipes.reports)
        worker.pipes.close()
        self._worker = None

    def _refuse(self, change_id: str, text: str, now: float) -> None:
        self._send(change_id, "refused", text, now)

    def _send(
        self, change_id: str, kind: str, text: str, now: float, *, is_last: bool = False
    ) -> None:
        line = {"time": now, "id": change_id, "kind": kind, "text": text, "is_last": is_last}
        self._send_line(line)

    def _send_line(self, fields: dict[str, object]) -> None:
        with contextlib.suppress(BrokenPipeError):
            # the probe's loop notices that; the change continues
            self._report(fields)


def refuse_locked(plan: ChangePlan) -> None:
    """Raises ValueError for a plan of which another change holds a lock: `Guard` would refuse it
    later."""
    locks.acquire(plan.subjects, LOCK_TIMEOUT).close()
