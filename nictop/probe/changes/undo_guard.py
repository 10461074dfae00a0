"""The process that makes a change on the watched host, and rolls it back unless it receives "keep".

It takes the locks, compares the plan with the one that was confirmed, sends the undo record to its
watcher and to the probe, and only then begins. The end of its pipe (the probe has ended, and
perhaps the connection with it), the deadline, SIGTERM, the end of its watcher, or any error then
lead to the same rollback, in reverse order and read back. When the guard dies, its `watcher` rolls
back, and when both have died, a process that the probe starts (`run_rescue`).

Deadlines are those of CLOCK_MONOTONIC: neither a step of the time of day nor a suspended machine
brings them nearer. NetworkManager's checkpoint uses the same clock, so that the guard still undoes
before it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Sequence

from nictop.probe.changes import locks
from nictop.probe.changes.apply import apply_operation, roll_back
from nictop.probe.changes.networkmanager import guard as networkmanager_guard
from nictop.probe.changes.networkmanager.guard import CheckpointFields, RolledBack
from nictop.probe.changes.verification import (
    AppliedValues,
    DifferenceReading,
    Differences,
    read_applied,
)
from nictop.probe.kernel.process_identity import ProcessIdentity
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.plan.current_state import Roots, State, read_state, target_state
from nictop.probe.plan.grammar.operation import IDENTIFIED_TEXT, REQUESTED_TEXT
from nictop.probe.plan.ifindexes import Ifindexes, refuse_other_link
from nictop.probe.plan.pipe import ReportPipe
from nictop.probe.plan.plan import ChangePlan, read_plan
from nictop.probe.plan.requests import ChangeCommand

HANDOVER_TIMEOUT = 5.0
"""Seconds for the probe to read the undo record; after that nothing is begun."""
LOCK_TIMEOUT = 0.5
"""Seconds to wait for locks of a guard that is just exiting."""
RESCUE_LOCK_TIMEOUT = 60.0
"""Seconds that a rescue waits for the program that the dead guard was running."""
CHECK_SECONDS = 1.0
"""Between two readings of the values that were applied, while the decision is waited for."""
LAST_READ_TIMEOUT = 1.0
"""Seconds for the reading before a rollback that is not urgent."""
VERIFY_TIMEOUT = 10.0
"""Seconds for the reading before a change is kept; NetworkManager on a slow host takes some."""
KEEP, UNDO = b"keep", b"undo"
REASON_DISCONNECTED, REASON_TIMEOUT, REASON_TERMINATED = (
    "connection lost",
    "not confirmed in time",
    "the rollback process was stopped",
)
REASON_GUARD_KILLED = "the rollback process was killed"
REASON_WATCHER_KILLED = "the process that watches the rollback process was killed"


class Guard:
    """One change, from locks to result. `control`: descriptor with commands from the probe.
    `watcher`: descriptor of the pipe to the watcher."""

    def __init__(
        self, command: ChangeCommand, pipe: ReportPipe, control: int, watcher: int, roots: Roots
    ) -> None:
        self._command, self._pipe, self._control, self._roots = command, pipe, control, roots
        self._watcher = watcher
        self._received = b""
        self._reading = -1
        """Descriptor of the reading that runs; -1: none."""
        self._signals = os.pipe()
        self._poll = select.poll()
        self._poll.register(watcher, 0)  # only POLLERR: the watcher has ended
        for descriptor in (control, *self._signals):
            os.set_blocking(descriptor, False)
        for descriptor in (control, self._signals[0]):
            self._poll.register(descriptor, select.POLLIN)
        signal.set_wakeup_fd(self._signals[1])
        for signal_number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(signal_number, signal.SIG_IGN)
        signal.signal(
            signal.SIGTERM, lambda *_: None
        )  # set_wakeup_fd writes its number into the pipe

    def run(self) -> None:
        """Report "refused" and change nothing, or change and end with "kept" or "undone"."""
        try:
            plan = read_confirmed_plan(self._command, self._roots)
            held = locks.acquire(plan.subjects, LOCK_TIMEOUT)
            read_confirmed_plan(self._command, self._roots)  # from here on the locks protect it
            checkpoint = networkmanager_guard.begin(plan, self._command.keep_within)
        except ValueError as error:
            self._pipe.finish("refused", str(error))
            return
        record = UndoRecord(plan.undo, checkpoint, plan.subjects, plan.ifindexes)
        if not self._hand_over(record):
            self._roll_back(
                record,
                held,
                "the probe or the watching process does not respond: nothing was changed",
            )
            return
        try:
            record = self._apply(plan, record, held)
            if plan.ends_by_itself:
                self._pipe.finish("kept", IDENTIFIED_TEXT)
                return
            applied = read_applied(plan.operations, record.checkpoint, plan.ifindexes, self._roots)
            self._wait_for_decision(plan, applied)
            self._pipe.send({"keeping": True})
            differences = self._verify(applied)
            problem = networkmanager_guard.keep(record.checkpoint)
            if problem:
                raise RolledBack(problem, failed=True)
        except RolledBack as rollback:
            if rollback.failed:
                self._pipe.report("failed", rollback.reason)
            self._roll_back(record, held, rollback.reason)
            return
        except Exception as error:  # a bug must not leave the change in place
            reason = f"{type(error).__name__}: {error}"
            self._pipe.report("failed", reason)
            self._roll_back(record, held, reason)
            return
        if differences is None:
            self._pipe.finish("kept", unverified=f"not read again within {VERIFY_TIMEOUT:g} s")
        else:
            self._pipe.finish("kept", differences=differences)

    def _hand_over(self, record: UndoRecord) -> bool:
        processes = [ProcessIdentity.of(pid) for pid in (os.getpid(), os.getppid())]
        return self._pipe.send({"undo": record, "processes": processes}, HANDOVER_TIMEOUT)

    def _apply(self, plan: ChangePlan, record: UndoRecord, held: locks.Locks) -> UndoRecord:
        """Apply all actions. Raises RolledBack."""
        self._pipe.report("applying")
        watchdog = networkmanager_guard.NetworkManagerWatchdog(record.checkpoint)

        def on_poll() -> None:
            self._poll_commands(0.0)
            watchdog.check()

        for operation in plan.operations:
            self._poll_commands(0.0)
            try:
                refuse_other_link(operation.interface, plan.ifindexes)
                target: State = {}
                if not operation.uses_networkmanager:
                    # read now: an earlier action may have created its object
                    target = target_state(operation, read_state(operation, self._roots))
                apply_operation(operation, self._roots, target, held.descriptors, on_poll)
            except (ValueError, OSError) as error:
                reason = str(error)
                if operation.uses_networkmanager:
                    reason = watchdog.failure_reason(reason)
                raise RolledBack(reason, failed=True) from None
        settled = networkmanager_guard.settle(record.checkpoint, self._command.keep_within)
        record = replace(record, checkpoint=settled)
        if settled is not None and not self._hand_over(record):
            raise RolledBack(REASON_DISCONNECTED)
        return record

    def _wait_for_decision(self, plan: ChangePlan, applied: AppliedValues) -> None:
        """Wait for "keep", and report what something else changes meanwhile; raises RolledBack for
        anything else, and at the deadline. What is rolled back in time is read once more: a
        rollback hides what was set in between."""
        deadline = time.monotonic() + self._command.keep_within
        self._pipe.report("applied", plan=plan.actions, deadline=deadline)
        watch = ValueWatch(self._pipe, applied, self._roots, deadline)
        try:
            while time.monotonic() < deadline:
                self._set_reading(watch.reading)
                if self._poll_commands(min(deadline, watch.due) - time.monotonic()):
                    return
                watch.advance()
            raise RolledBack(REASON_TIMEOUT)
        except RolledBack as rollback:
            if rollback.reason in (REASON_TIMEOUT, REQUESTED_TEXT):
                watch.read_last()
            raise
        finally:
            self._set_reading(None)
            watch.close()

    def _set_reading(self, reading: DifferenceReading | None) -> None:
        """`_poll_commands` returns when it has a result."""
        descriptor = -1 if reading is None else reading.descriptor
        if descriptor == self._reading:
            return
        if self._reading >= 0:
            self._poll.unregister(self._reading)
        self._reading = descriptor
        if descriptor >= 0:
            self._poll.register(descriptor, select.POLLIN)

    def _verify(self, applied: AppliedValues) -> Differences | None:
        """Read the values once more, now that they are to be kept; None: they cannot be read."""
        try:
            return DifferenceReading(applied, self._roots, must_answer=True).wait(VERIFY_TIMEOUT)
        except OSError:
            return None

    def _poll_commands(self, seconds: float) -> bool:
        """Whether "keep" was received within `seconds`; raises RolledBack for any other event."""
        for descriptor, _ in self._poll.poll(max(0.0, seconds) * 1000):
            if descriptor == self._signals[0]:
                raise RolledBack(REASON_TERMINATED)
            if descriptor == self._watcher:
                raise RolledBack(REASON_WATCHER_KILLED, failed=True)
            if descriptor == self._reading:
                continue
            try:
                data = os.read(self._control, 4096)
            except BlockingIOError:
                continue
            if not data:
                raise RolledBack(REASON_DISCONNECTED)
            self._received += data
        *commands, self._received = self._received.split(b"\n")
        if UNDO in commands:
            raise RolledBack(REQUESTED_TEXT)
        return KEEP in commands

    def _roll_back(self, record: UndoRecord, held: locks.Locks, reason: str) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._pipe.report("undoing", reason)
        roll_back_all(self._pipe, record, held, self._roots, reason)


class ValueWatch:
    """Reads the values of a change that waits for its decision, time and again, and reports each
    time that others differ. `deadline`: of the change."""

    def __init__(
        self, pipe: ReportPipe, applied: AppliedValues, roots: Roots, deadline: float
    ) -> None:
        self._pipe, self._applied, self._roots = pipe, applied, roots
        self._deadline = deadline
        self._reported: Differences = ()
        self.reading: DifferenceReading | None = None
        self.due = time.monotonic() + CHECK_SECONDS
        """When `advance` has something to do (CLOCK_MONOTONIC), unless the reading has a result
        before."""

    def advance(self) -> None:
        """Take a result, or begin the next reading. One that hangs is waited for until the end of
        the change: another one would hang, too."""
        now = time.monotonic()
        if self.reading is not None:
            if self.reading.is_ready:
                self._take(self.reading.result())
                self.reading, self.due = None, now + CHECK_SECONDS
        elif now >= self.due:
            self.due = self._deadline
            with contextlib.suppress(OSError):
                self.reading = DifferenceReading(self._applied, self._roots, must_answer=False)

    def read_last(self) -> None:
        """Report what differs now, if that is known soon."""
        with contextlib.suppress(OSError):
            if self.reading is None:
                self.reading = DifferenceReading(self._applied, self._roots, must_answer=False)
            self._take(self.reading.wait(LAST_READ_TIMEOUT))
        self.reading = None

    def _take(self, differences: Differences | None) -> None:
        if differences in (None, self._reported):
            return
        assert differences is not None
        self._reported = differences
        self._pipe.report("checked", deadline=self._deadline, differences=differences)

    def close(self) -> None:
        if self.reading is not None:
            self.reading.close()


def read_confirmed_plan(command: ChangeCommand, roots: Roots) -> ChangePlan:
    """The plan, if it is still the one that was confirmed. Raises ValueError."""
    if os.geteuid() != 0:
        raise ValueError("changes need root on the host: use --sudo")
    plan = read_plan(command.actions, roots)
    if plan.fingerprint != command.fingerprint:
        raise ValueError("the host has changed since the plan was shown: show the plan again")
    if plan.needs_second_yes and not command.twice:
        raise ValueError("this may disconnect the host and needs a second confirmation")
    return plan


@dataclass(frozen=True)
class UndoRecord:
    """Everything a rollback needs: `ChangePlan.undo`, NetworkManager's checkpoint, lock names, and
    interface name → ifindex."""

    undo: Sequence[Sequence[str]]
    checkpoint: CheckpointFields | None
    subjects: Sequence[str]
    ifindexes: Ifindexes


def roll_back_all(
    pipe: ReportPipe, record: UndoRecord, held: locks.Locks, roots: Roots, reason: str
) -> None:
    """Roll everything back and send the last report."""
    problems = [problem for problem in (networkmanager_guard.undo(record.checkpoint),) if problem]
    problems += roll_back(record.undo, roots, held.descriptors, record.ifindexes)
    if problems:
        pipe.finish("failed", f"rollback incomplete: {'; '.join(dict.fromkeys(problems))}")
    else:
        pipe.finish("undone", reason)


def run_rescue(pipe: ReportPipe, record: UndoRecord, roots: Roots) -> None:
    """For a guard that has died: wait for its locks, then roll its change back."""
    for signal_number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_IGN)
    pipe.report("undoing", REASON_GUARD_KILLED)
    try:
        held = locks.acquire(record.subjects, RESCUE_LOCK_TIMEOUT, ignore_unknown=True)
    except ValueError as error:
        pipe.finish("failed", f"{REASON_GUARD_KILLED} and the change remains: {error}")
        return
    roll_back_all(pipe, record, held, roots, REASON_GUARD_KILLED)
