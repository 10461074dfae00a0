"""A change of a watched host: plan, apply, verify, keep or undo; for the command line and the
screens.

`ChangeSession.events` yields the events of the change; between two of them the user decides
(`apply`, `keep`, `undo`). The host rolls back what it was not requested to keep. This side only
sends requests; the outcome is known from values that were read back on the host. What was changed
is written to the `audit_log`.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Literal
from uuid import uuid4

from nictop.changes.audit_log import (
    LoggedAction,
    LoggedChange,
    State,
    append_change,
    log_path,
    user_name,
)
from nictop.changes.events import (
    Applied,
    Applying,
    ChangeEnded,
    ChangeTimeouts,
    ConnectionLost,
    Event,
    GoalCheck,
    Outcome,
    Prepared,
    ReadBack,
    RuleVerdict,
    StepFailed,
    Undoing,
    ValuesChecked,
)
from nictop.changes.inbox import ChangeInbox, ChangeItem, Decision
from nictop.changes.job import ChangeSpec
from nictop.changes.progress import ChangeProgress
from nictop.changes.recovery import LostChange, is_disconnected, wait_for_outcome
from nictop.changes.wording import NO_RESULT_TEXT, NOT_VERIFIED, outside_text
from nictop.errors import NictopError
from nictop.hosts.session import HostSession
from nictop.probe.light_dataclasses import replace
from nictop.probe.plan.grammar.operation import REQUESTED_TEXT
from nictop.probe.records import (
    MAX_KEEP_WITHIN,
    MIN_KEEP_WITHIN,
    ChangeLine,
    ChangeRequest,
    PlannedAction,
    Request,
)
from nictop.rules import HostFacts

NO_DEADLINE = float("inf")
FINAL_OUTCOMES: dict[str, Outcome] = {"kept": "kept", "undone": "undone", "refused": "refused"}

Step = Literal["prepare", "apply", "keep", "undo"]


def _write_to_log(change: LoggedChange) -> None:
    append_change(change, log_path(os.environ))


class ChangeSession:
    """One change of the host of `session`, whose items the caller processes.

    `others`: the other watched hosts, for rules that compare. `log`: called when the change begins
    and when it has ended; if it raises NictopError the first time, nothing is changed. Raises
    NictopError if the time to keep it is out of range.
    """

    def __init__(
        self,
        session: HostSession,
        spec: ChangeSpec,
        *,
        others: Callable[[], Iterable[HostSession]] = tuple,
        log: Callable[[LoggedChange], None] = _write_to_log,
        limits: ChangeTimeouts | None = None,
    ) -> None:
        if not MIN_KEEP_WITHIN <= spec.keep_within <= MAX_KEEP_WITHIN:
            raise NictopError(
                f"the time to confirm a change is {MIN_KEEP_WITHIN:g} to {MAX_KEEP_WITHIN:g} "
                f"seconds"
            )
        self.progress = ChangeProgress(spec)
        self.id = uuid4().hex[:16]
        self.outcome: Outcome | None = None
        """None: it has not ended."""
        self._session, self._others, self._log = session, others, log
        self._limits = limits or ChangeTimeouts()
        self._inbox = ChangeInbox(self.id, self._other_facts)
        self._recoveries = 0
        self._boot_id = ""
        """Of the host when the plan was read; "": not known."""
        self._fingerprint = ""
        self._twice = False
        self._deadline: float | None = None
        """When the host undoes it, seconds of this machine's CLOCK_MONOTONIC; None: it was never
        applied."""
        self._begun = 0.0
        self._logged = False
        """It was written to the log: it may have been applied from then on."""
        self._kept = False
        """The host was requested to keep it."""
        self._why_undone = ""
        self._error = ""
        self._failed = False
        """The last reply of the host was "failed"."""
        self._reply_deadline = 0.0
        """Until when the next reply of the host is waited for, seconds of this machine's
        CLOCK_MONOTONIC."""

    @property
    def spec(self) -> ChangeSpec:
        return self.progress.spec

    def _other_facts(self) -> Iterable[HostFacts]:
        return (
            session.facts for session in self._others() if session.snapshot.inventory is not None
        )

    # ------------------------------------------------------------------------------------ decisions

    def apply(self, *, twice: bool = False) -> None:
        """Apply it, if it is prepared. `twice`: the second question was confirmed, too."""
        if self.progress.stage == "prepared":
            self._twice = twice
            self._decide("apply")

    def keep(self) -> None:
        """Keep it, if it is applied."""
        if self.progress.stage == "applied":
            self._decide("keep")

    def undo(self, why: str = "") -> None:
        """Undo it, or do not apply it. `why`: what nictop decides it for; "": the user did."""
        if self.outcome is None:
            self._why_undone = why
            self._decide("undo")

    def set_keep_within(self, seconds: float) -> None:
        """Seconds until the host undoes what is not kept; no effect once it is applied."""
        if self.progress.stage == "prepared":
            self.progress = replace(self.progress, spec=replace(self.spec, keep_within=seconds))

    def _decide(self, decision: Decision) -> None:
        self.progress = self.progress.decided(decision)
        self._inbox.put(decision)

    # ----------------------------------------------------------------------------------- the stages

    async def events(self) -> AsyncGenerator[Event, None]:
        """To be iterated once; to be closed (`contextlib.aclosing`) when it is left early, which
        undoes the change."""
        unsubscribe = self._session.subscribe(self._inbox.receive)
        try:
            async for stage_event in self._stages():
                event = stage_event
                if isinstance(event, ChangeEnded):
                    event = self._log_end(event)
                self.progress = self.progress.after(event)
                yield event
        finally:
            unsubscribe()
            if self.outcome is None:
                why = "nictop quit before it was confirmed: the host rolls back"
                self._log_end(ChangeEnded("unknown", why))
                if self._logged:
                    await self._send("undo")

    async def _stages(self) -> AsyncGenerator[Event, None]:
        await self._send("prepare")
        plan = await self._wait_for_plan()
        yield plan
        if isinstance(plan, ChangeEnded):
            return
        ended = await self._wait_for_decision()
        if ended is not None:
            yield ended
            return
        async for event in self._after_apply():
            yield event

    async def _wait_for_plan(self) -> Prepared | ChangeEnded:
        deadline = time.monotonic() + self._limits.reply
        while True:
            item = await self._inbox.next(deadline)
            if item is None:
                return ChangeEnded("unreachable", f"waited {self._limits.reply:g} s for its plan")
            if is_disconnected(item):
                return ChangeEnded("unreachable", item.message)
            if item == "undo":
                return ChangeEnded("cancelled")
            if not isinstance(item, ChangeLine):
                continue
            if item.kind in ("refused", "failed"):
                return ChangeEnded("refused", item.text)
            if item.kind == "prepared":
                self._fingerprint, self._boot_id = item.fingerprint, self._inbox.boot_id
                return Prepared(item.plan, item.needs_second_yes, item.time)

    async def _wait_for_decision(self) -> ChangeEnded | None:
        """None: it is to be applied, and that is in the log."""
        while True:
            item = await self._inbox.next(NO_DEADLINE)
            if is_disconnected(item):
                return ChangeEnded("unreachable", item.message)
            if item == "undo":
                return ChangeEnded("cancelled")
            if item != "apply":
                continue
            if self.progress.needs_second_yes and not self._twice:
                return ChangeEnded("refused", "it needs a second confirmation")
            try:
                self._begun = time.time()
                self._log(self._entry("begun"))
            except NictopError as error:
                return ChangeEnded("refused", error.message)
            self._logged = True
            await self._send("apply")
            return None

    async def _after_apply(self) -> AsyncGenerator[Event, None]:
        """From the request to apply it to the end."""
        self._reply_deadline = time.monotonic() + self._limits.apply
        while True:
            item = await self._inbox.next(self._reply_deadline)
            if item is None and self._failed:
                yield ChangeEnded("failed", self._error)
                return
            if item is None:
                lost_text = NO_RESULT_TEXT
            elif is_disconnected(item):
                lost_text = item.message
            else:
                for event in await self._process(item):
                    yield event
                    if isinstance(event, ChangeEnded):
                        return
                continue
            yield ConnectionLost(lost_text)
            async for event in self._recover():
                yield event
            return

    async def _process(self, item: ChangeItem) -> list[Event]:
        if isinstance(item, (ReadBack, GoalCheck, RuleVerdict)):
            return [item] if self._inbox.is_watching else []
        if isinstance(item, ChangeLine):
            return await self._process_line(item)
        if item == "keep" and self._inbox.is_watching:
            self._kept = True
            await self._send("keep")
        elif item == "undo":
            await self._send("undo")
        else:
            return []
        if self._deadline is not None:
            self._reply_deadline = time.monotonic() + self._limits.settle
        return []

    async def _process_line(self, line: ChangeLine) -> list[Event]:
        """A reply of the host about the change."""
        if line.kind == "checked":
            return await self._process_check(line)
        now = time.monotonic()
        self._failed = line.kind == "failed"
        if line.kind == "applying":
            self._reply_deadline = now + self._limits.apply
            return [Applying()]
        if line.kind == "applied":
            self._begin_watching(line, now)
            await self._session.request(Request(inventory=True))
            at = self._inbox.wall_time(line.time)
            return [Applied(self.progress.plan, self._deadline or now, at)]
        self._inbox.end_watching()
        if line.kind in ("undone", "failed"):
            await self._session.request(Request(inventory=True))
        seconds = self._limits.after_failure if self._failed else self._limits.settle
        self._reply_deadline = now + seconds
        return self._end_events(line)

    def _end_events(self, line: ChangeLine) -> list[Event]:
        """Of a line that says that it is undone, or has ended."""
        if line.kind == "undoing":
            return [Undoing(self._reason(line.text))]
        if line.kind == "failed":
            self._error = "; ".join(filter(None, (self._error, line.text)))
            if line.is_last:
                return [ChangeEnded("failed", self._error)]
            return [StepFailed(line.text, was_applied=self._deadline is not None)]
        if line.kind == "refused" and self._kept:
            return [ChangeEnded("unknown", line.text)]
        outcome = FINAL_OUTCOMES.get(line.kind)
        if outcome is None:
            return []
        if outcome == "kept":
            return [self._kept_event(line)]
        at = self._inbox.wall_time(line.time) if outcome == "undone" else None
        return [ChangeEnded(outcome, self._error or self._reason(line.text), at)]

    def _reason(self, text: str) -> str:
        """Why it is rolled back. `text`: what the host says."""
        return self._why_undone or text if text == REQUESTED_TEXT else text

    def _kept_event(self, line: ChangeLine) -> ChangeEnded:
        """Whether its values are there was read again, unless the line says why not."""
        if line.unverified:
            return ChangeEnded("kept", f"{NOT_VERIFIED}: {line.unverified}")
        at = self._inbox.wall_time(line.time)
        if line.differences:
            return ChangeEnded("overridden", "; ".join(line.differences), at)
        return ChangeEnded("kept", line.text, at)

    async def _process_check(self, line: ChangeLine) -> list[Event]:
        """The host has found other values than before: what it was read as is outdated, too."""
        if not self._inbox.is_watching:
            return []
        await self._session.request(Request(inventory=True))
        return [ValuesChecked(line.differences, self._inbox.wall_time(line.time))]

    def _begin_watching(self, line: ChangeLine, now: float) -> None:
        """It was applied: check the host from now on."""
        host_deadline = line.deadline
        if host_deadline is None:
            host_deadline = line.time + self.spec.keep_within
        self._deadline = now + host_deadline - line.time
        snapshot = self._inbox.snapshot
        if snapshot is not None and snapshot.clock is not None:  # without the delay of the line
            self._deadline = min(self._deadline, host_deadline - snapshot.clock.offset)
        self._reply_deadline = max(now, self._deadline) + self._limits.settle
        self._inbox.begin_watching(line.time, self.spec.finding, self.spec.proof)

    async def _recover(self) -> AsyncGenerator[Event, None]:
        """From the loss of the host to the end. The same answer of the host is shown once."""
        self._inbox.end_watching()
        due = self._deadline
        if due is None:
            due = time.monotonic() + self._limits.apply + self.spec.keep_within
        is_applied = self._deadline is not None
        lost = LostChange(self.progress.plan, self._kept, due, self._boot_id, is_applied)
        last: Event | None = None
        async for event in wait_for_outcome(self._inbox, self._prepare_again, lost, self._limits):
            if event != last:
                yield event
            last = event

    async def _prepare_again(self) -> None:
        self._recoveries += 1
        self._inbox.identity = f"{self.id}-{self._recoveries}"
        await self._send("prepare")

    # ----------------------------------------------------------------------------- requests and log

    async def _send(self, step: Step) -> None:
        actions = self.spec.actions if step in ("prepare", "apply") else ()
        request = ChangeRequest(self._inbox.identity, step, actions, self.spec.keep_within)
        if step == "apply":
            request = replace(request, fingerprint=self._fingerprint, twice=self._twice)
        await self._session.request(Request(change=request))

    def _log_end(self, ended: ChangeEnded) -> ChangeEnded:
        """Write the end into the log."""
        self.outcome = ended.outcome
        self._inbox.end_watching()
        outside = outside_text(self.progress.seen_differences, ended.outcome, ended.text)
        ended = replace(ended, outside=outside)
        if not self._logged:
            return ended
        try:
            entry = replace(self._entry(ended.outcome), ended=time.time(), text=ended.text)
            self._log(replace(entry, outside=outside))
        except NictopError as error:
            return replace(ended, text="; ".join(filter(None, (ended.text, error.message))))
        return ended

    def _entry(self, state: State) -> LoggedChange:
        finding = self.spec.finding
        rule, subject = "", ""
        if finding is not None:
            rule, subject = finding.rule, finding.subject
        return LoggedChange(
            id=self.id,
            time=self._begun,
            host=self.spec.host,
            user=user_name(os.environ),
            state=state,
            title=self.spec.title,
            rule=rule,
            subject=subject,
            actions=tuple(map(_logged_action, self.progress.plan)),
            undo=self.spec.undo,
        )


def _logged_action(action: PlannedAction) -> LoggedAction:
    return LoggedAction(
        action.words,
        action.before,
        action.after,
        action.undo,
        action.subject,
        action.persistent,
    )
