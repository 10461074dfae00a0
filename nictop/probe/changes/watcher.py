"""The process that starts the guard of a change and watches it, in case that guard and probe are
killed together.

The probe starts the watcher, the watcher the guard, which has a session of its own. The guard sends
every line to its watcher as well. A guard that ends without a result, or that does not roll back in
time although it should (it hangs or was stopped, and is killed then), is replaced by the watcher,
which rolls the change back (`undo_guard.run_rescue`). The other way round, a guard whose watcher
has ended rolls back. A change is left in place only if all three processes are killed at once, or
the machine ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from typing import Any

from nictop.probe.changes.undo_guard import Guard, UndoRecord, run_rescue
from nictop.probe.plan.current_state import Roots
from nictop.probe.plan.pipe import ReportPipe
from nictop.probe.plan.requests import ChangeCommand
from nictop.probe.protocol.requests import take_lines

READ_BYTES = 64 * 1024
UNDO_START_TIMEOUT, APPLY_STOP_TIMEOUT = 5.0, 30.0
"""Seconds for a guard to report that it rolls back, when it should; then it counts as hanging or
stopped, is killed, and another process rolls back. `APPLY_STOP_TIMEOUT`: while it was still
applying."""
HANGING_TEXT = "the rollback process hangs or was stopped"


def run_change(command: ChangeCommand, reports: int, commands: int, roots: Roots) -> None:
    """Both processes: start the guard and watch it. `reports` and `commands`: pipes from and to the
    probe."""
    progress, watcher = os.pipe()
    pid = os.fork()
    if pid:
        os.close(watcher)
        Watcher(pid, progress, commands, ReportPipe(reports, command.id), roots).run()
        return
    os.close(progress)
    os.setsid()
    Guard(command, ReportPipe(reports, command.id, watcher), commands, watcher, roots).run()


class Watcher:
    """Watches the guard `pid`, which writes to `progress`. `commands`: read by the guard; here only
    its end matters, with which the guard must roll back."""

    def __init__(
        self, pid: int, progress: int, commands: int, pipe: ReportPipe, roots: Roots
    ) -> None:
        self._pid, self._progress, self._commands, self._pipe, self._roots = (
            pid,
            progress,
            commands,
            pipe,
            roots,
        )
        self._buffer = bytearray()
        self._record: UndoRecord | None = None
        self._due: float | None = None
        self._probe_ended: float | None = None
        self._must_not_be_killed = self._has_result = False
        self._problem = "the process was killed"
        for signal_number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(signal_number, signal.SIG_IGN)
        self._poll = select.poll()
        self._poll.register(progress, select.POLLIN)
        self._poll.register(commands, 0)

    def run(self) -> None:
        """Return when the guard has ended, and its change with it."""
        is_running = True
        while is_running:
            deadline = self._deadline()
            if deadline is not None and time.monotonic() >= deadline:
                self._kill_guard()
                deadline = None
            is_running = self._handle_event(deadline)
        if not self._has_result and self._record is not None:
            self._pipe.report("failed", f"the rollback process ended early: {self._problem}")
            run_rescue(self._pipe, self._record, self._roots)
        os.waitpid(self._pid, 0)

    def _deadline(self) -> float | None:
        """When the guard must have begun to roll back (CLOCK_MONOTONIC); None: it need not, or does
        so already."""
        if self._must_not_be_killed:
            return None
        deadlines = [] if self._due is None else [self._due + UNDO_START_TIMEOUT]
        if self._probe_ended is not None:
            deadlines.append(
                self._probe_ended
                + (APPLY_STOP_TIMEOUT if self._due is None else UNDO_START_TIMEOUT)
            )
        return min(deadlines, default=None)

    def _kill_guard(self) -> None:
        self._problem, self._must_not_be_killed = HANGING_TEXT, True
        os.kill(self._pid, signal.SIGKILL)  # a child: its id is not used again before waitpid

    def _handle_event(self, deadline: float | None) -> bool:
        """Wait for the next event until the deadline; False when the guard has ended."""
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        is_running = True
        for descriptor, _ in self._poll.poll(timeout):
            if descriptor == self._commands:
                self._poll.unregister(descriptor)
                self._probe_ended = time.monotonic()
            else:
                is_running = self._read_progress()
        return is_running

    def _read_progress(self) -> bool:
        """False at the end of the pipe, and after the last line of a guard."""
        data = os.read(self._progress, READ_BYTES)
        for line in take_lines(self._buffer, data):
            with contextlib.suppress(ValueError):  # one that could not be written completely
                self._handle_message(json.loads(line))
        return bool(data) and not self._has_result

    def _handle_message(self, message: dict[str, Any]) -> None:
        self._has_result = self._has_result or "end" in message
        self._must_not_be_killed = self._must_not_be_killed or "keeping" in message
        if "undo" in message:
            self._record = UndoRecord(**message["undo"])
        if "line" in message:
            self._due = message["line"].get("deadline", self._due)
            self._must_not_be_killed = (
                self._must_not_be_killed or message["line"]["kind"] == "undoing"
            )
