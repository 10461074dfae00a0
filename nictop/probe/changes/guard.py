"""The process on the watched host that makes a change and takes it back, unless it is told to keep it.

It holds the locks of what it changes, compares the host with what was shown, hands the list of what takes the change
back to the probe, and only then begins. From then on the end of its pipe (the probe has gone, and so may the connection
have), the deadline, SIGTERM, or anything that fails ends in the same place: everything is taken back, in reverse
order, and read. The probe takes the change back if the guard dies (`run_rescue`).
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass

from nictop.probe.changes import locks
from nictop.probe.changes.apply import do, take_back
from nictop.probe.changes.grammar.actions import Operation
from nictop.probe.changes.networkmanager import guard as managed
from nictop.probe.changes.networkmanager.guard import CheckpointFields, RolledBack
from nictop.probe.changes.pipe import ReportPipe
from nictop.probe.changes.plan.current_state import Roots, State, read_state, wanted_state
from nictop.probe.changes.plan.ifindexes import Numbers, refuse_another
from nictop.probe.changes.plan.plan import ChangePlan, read_plan
from nictop.probe.changes.requests import ChangeCommand

PATIENCE = 5.0
"""Seconds that the probe may take to read what takes the change back; else nothing is begun."""
MOMENT = 0.5
"""Seconds for a guard that has said its last word to be gone."""
LAST_LOCK = 60.0
"""Seconds that whoever takes a dead guard's change back waits for the program that the guard was running."""
LONGEST_LINE = 4 * 1024 * 1024
KEEP, UNDO = b"keep", b"undo"
GONE, LATE, ENDED = "the connection is gone", "nobody said in time that it shall stay", "the guard was told to end"
ASKED, KILLED = "as asked", "the guard was killed"


class Guard:
    """One change, from its locks to its end. `control`: what the probe tells."""

    def __init__(self, wish: ChangeCommand, voice: ReportPipe, control: int, roots: Roots) -> None:
        self._wish, self._voice, self._control, self._roots = wish, voice, control, roots
        self._told = b""
        self._signals = os.pipe()
        self._poll = select.poll()
        for descriptor in self._signals:
            os.set_blocking(descriptor, False)
        for descriptor in (control, self._signals[0]):
            os.set_blocking(descriptor, False)
            self._poll.register(descriptor, select.POLLIN)
        signal.set_wakeup_fd(self._signals[1])
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: None)  # the byte in the pipe is what counts

    def run(self) -> None:
        """Say "refused" and change nothing, or change, and end in "kept" or "undone"."""
        try:
            plan = agreed_plan(self._wish, self._roots)
            held = locks.take(plan.subjects, MOMENT)
            agreed_plan(self._wish, self._roots)  # nobody else could change it since
            kept = managed.begin(plan, self._wish.keep_within)
        except ValueError as error:
            self._voice.end("refused", str(error))
            return
        if not self._hand_over(plan, kept):
            self._take_back(plan, kept, held, "the probe does not listen: nothing was begun")
            return
        try:
            kept = self._apply(plan, kept, held)
            self._wait(plan)
            complaint = managed.keep(kept)
            if complaint:
                raise RolledBack(complaint, failed=True)
        except RolledBack as end:
            if end.failed:
                self._voice.say("failed", end.reason)
            self._take_back(plan, kept, held, end.reason)
            return
        except Exception as error:  # a fault of our own must not leave a change behind
            reason = f"{type(error).__name__}: {error}"
            self._voice.say("failed", reason)
            self._take_back(plan, kept, held, reason)
            return
        self._voice.end("kept")

    def _hand_over(self, plan: ChangePlan, kept: CheckpointFields | None) -> bool:
        message: dict[str, object] = {"undo": plan.undo, "networkmanager": kept, "subjects": plan.subjects}
        return self._voice.tell({**message, "numbers": plan.numbers, "pid": os.getpid()}, PATIENCE)

    def _apply(self, plan: ChangePlan, kept: CheckpointFields | None, held: locks.Locks) -> CheckpointFields | None:
        """Do all actions. Raises RolledBack."""
        self._voice.say("applying")
        lookout = managed.NetworkManagerWatchdog(kept)

        def glance() -> None:
            self._listen(0.0)
            lookout.look()

        for operation in plan.operations:
            self._listen(0.0)
            try:
                refuse_another(operation.interface, plan.numbers)
                wanted = {} if operation.is_networkmanagers else wanted_now(operation, self._roots)
                do(operation, self._roots, wanted, held.descriptors, glance)
            except (ValueError, OSError) as error:
                why = lookout.why(str(error)) if operation.is_networkmanagers else str(error)
                raise RolledBack(why, failed=True) from None
        kept = managed.settle(kept, self._wish.keep_within)
        if kept is not None and not self._hand_over(plan, kept):
            raise RolledBack(GONE)
        return kept

    def _wait(self, plan: ChangePlan) -> None:
        """Until it is told to keep the change; else raises RolledBack."""
        deadline = time.monotonic() + self._wish.keep_within
        self._voice.say("applied", plan=plan.shown, deadline=deadline)
        while time.monotonic() < deadline:
            if self._listen(deadline - time.monotonic()):
                return
        raise RolledBack(LATE)

    def _listen(self, seconds: float) -> bool:
        """Whether it was told to keep the change; raises RolledBack for every other news."""
        for descriptor, _ in self._poll.poll(max(0.0, seconds) * 1000):
            if descriptor == self._signals[0]:
                raise RolledBack(ENDED)
            try:
                part = os.read(self._control, 4096)
            except BlockingIOError:
                continue
            if not part:
                raise RolledBack(GONE)
            self._told += part
        *words, self._told = self._told.split(b"\n")
        if UNDO in words:
            raise RolledBack(ASKED)
        return KEEP in words

    def _take_back(self, plan: ChangePlan, kept: CheckpointFields | None, held: locks.Locks, reason: str) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._voice.say("undoing", reason)
        finish(self._voice, UndoRecord(plan.undo, kept, plan.subjects, plan.numbers), held, self._roots, reason)


def agreed_plan(wish: ChangeCommand, roots: Roots) -> ChangePlan:
    """What is to be done, if that is still what was shown. Raises ValueError."""
    if os.geteuid() != 0:
        raise ValueError("only root may change this host: the probe does not run as root")
    plan = read_plan(wish.actions, roots)
    if plan.fingerprint != wish.fingerprint:
        raise ValueError("the host has changed since this was shown: have it shown again")
    if plan.needs_second_yes and not wish.twice:
        raise ValueError("this may cut off the host, and was confirmed only once")
    return plan


def wanted_now(operation: Operation, roots: Roots) -> State:
    """What it shall be. An earlier action may have made what this one is about. Raises ValueError."""
    return wanted_state(operation, read_state(operation, roots))


@dataclass(frozen=True)
class UndoRecord:
    """All that takes a change back: `ChangePlan.undo`, what NetworkManager's part has kept, and whom it concerns."""

    undo: Sequence[Sequence[str]]
    kept: CheckpointFields | None
    subjects: Sequence[str]
    numbers: Numbers


def finish(voice: ReportPipe, back: UndoRecord, held: locks.Locks, roots: Roots, reason: str) -> None:
    """Take everything back, say what came of it, and that it is over."""
    stayed = [complaint for complaint in (managed.undo(back.kept),) if complaint]
    stayed += take_back(back.undo, roots, held.descriptors, back.numbers)
    if stayed:
        voice.end("failed", f"not everything could be taken back: {'; '.join(dict.fromkeys(stayed))}")
    else:
        voice.end("undone", reason)


def run_rescue(voice: ReportPipe, back: UndoRecord, roots: Roots) -> None:
    """In the place of a guard that has died: wait until nobody holds its locks, then take its change back."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    voice.say("undoing", KILLED)
    try:
        held = locks.take(back.subjects, LAST_LOCK, despite_strangers=True)
    except ValueError as error:
        voice.end("failed", f"{KILLED}, and its change stays: {error}")
        return
    finish(voice, back, held, roots, KILLED)
