"""The protocol of one change of one host, as the watching side sees it.

`Change.events()` yields the events of the change; between two of them the user decides (`apply`, `keep`, `undo`). The
host undoes by itself what it was not requested to keep. This side only sends requests; the outcome is known from values
that were read back on the host. Each item of the source is given to `Change.receive`, with the snapshot after it.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal
from uuid import uuid4

from nictop.changes.actions import Action
from nictop.changes.audit_log import LoggedAction, LoggedChange, State, user_name
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
    StepFailed,
    Undoing,
    Verdict,
)
from nictop.changes.inbox import ChangeInbox, ChangeItem
from nictop.changes.recovery import DISCONNECTED_STATES, LostChange, wait_for_outcome
from nictop.errors import NictopError
from nictop.model.snapshot import Snapshot
from nictop.probe.records import LONGEST_KEPT, SHORTEST_KEPT, ChangeLine, ChangeRequest, Line, PlannedAction, Request
from nictop.rules import Finding, HostFacts
from nictop.wire.source import SourceState

DEFAULT_KEEP_WITHIN = 30.0
"""Seconds."""
NO_DEADLINE = float("inf")
FINAL_OUTCOMES: dict[str, Outcome] = {"kept": "kept", "undone": "undone", "refused": "refused"}

Step = Literal["prepare", "apply", "keep", "undo"]


@dataclass(frozen=True)
class ChangeSpec:
    """What is to be changed on one host, and why."""

    host: str
    """Name under which it is watched."""
    actions: tuple[Action, ...]
    title: str = ""
    """That of the fix."""
    finding: Finding | None = None
    """It is checked whether it is still there after the change; None: the change is not a fix of a finding."""
    keep_within: float = DEFAULT_KEEP_WITHIN
    """Seconds from "applied" until the host undoes it, `SHORTEST_KEPT` to `LONGEST_KEPT`."""
    undo: tuple[str, ...] = ()
    """Shell lines of the fix that restore the old state after the change was kept; for the log."""
    proof: Callable[[Snapshot], GoalCheck] | None = None
    """Checks each inventory that was read after the change; None: there is no goal to check."""


class Change:
    """One change. `request`: sends a request to the probe of the host. `log`: called when the change begins and when it
    has ended; if it raises NictopError the first time, nothing is changed. `others`: the other watched hosts, for rules
    that compare. Raises NictopError if the time to keep it is out of range."""

    def __init__(
        self,
        spec: ChangeSpec,
        request: Callable[[Request], Awaitable[None]],
        *,
        log: Callable[[LoggedChange], None],
        others: Callable[[], Iterable[HostFacts]] = tuple,
        limits: ChangeTimeouts | None = None,
    ) -> None:
        if not SHORTEST_KEPT <= spec.keep_within <= LONGEST_KEPT:
            raise NictopError(f"a change waits {SHORTEST_KEPT:g} to {LONGEST_KEPT:g} seconds to be kept")
        self.spec = spec
        self.id = uuid4().hex[:16]
        self.plan: tuple[PlannedAction, ...] = ()
        self.needs_second_yes = False
        self.deadline: float | None = None
        """When the host undoes it, seconds of this machine's CLOCK_MONOTONIC; None: it is not applied."""
        self.outcome: Outcome | None = None
        """None: it has not ended."""
        self._request, self._log = request, log
        self._limits = limits or ChangeTimeouts()
        self._inbox = ChangeInbox(self.id, others)
        self._recoveries = 0
        self._fingerprint = ""
        self._twice = False
        self._begun = 0.0
        self._logged = False
        """It was written to the log: it may have been applied from then on."""
        self._kept = False
        """The host was requested to keep it."""
        self._error = ""
        self._failed = False
        """The last reply of the host was "failed"."""
        self._reply_deadline = 0.0
        """Until when the next reply of the host is waited for, seconds of this machine's CLOCK_MONOTONIC."""

    def receive(self, item: Line | SourceState, snapshot: Snapshot) -> None:
        """Process one item of the source; `snapshot`: the state after it."""
        self._inbox.receive(item, snapshot)

    # ------------------------------------------------------------------------------------------------- decisions

    def apply(self, *, twice: bool = False) -> None:
        """Apply it. `twice`: the second question was answered with yes, too."""
        self._twice = twice
        self._inbox.put("apply")

    def keep(self) -> None:
        self._inbox.put("keep")

    def undo(self) -> None:
        """Undo it, or do not apply it."""
        self._inbox.put("undo")

    # --------------------------------------------------------------------------------------------------- the stages

    async def events(self) -> AsyncGenerator[Event, None]:
        """To be iterated once; to be closed (`contextlib.aclosing`) when it is left early, which undoes the change."""
        try:
            async for event in self._stages():
                yield self._log_end(event) if isinstance(event, ChangeEnded) else event
        finally:
            if self.outcome is None:
                self._log_end(ChangeEnded("unknown", "nictop was left before the end: the host undoes it by itself"))
                if self._logged:
                    await self._send("undo")

    async def _stages(self) -> AsyncGenerator[Event, None]:
        await self._send("prepare")
        ended = await self._wait_for_plan()
        if ended is None:
            yield Prepared(self.plan, self.needs_second_yes)
            ended = await self._wait_for_decision()
        if ended is not None:
            yield ended
            return
        async for event in self._after_apply():
            yield event

    async def _wait_for_plan(self) -> ChangeEnded | None:
        """None: the plan was received."""
        deadline = time.monotonic() + self._limits.reply
        while True:
            item = await self._inbox.next(deadline)
            if item is None:
                return ChangeEnded("unreachable", f"no answer from the probe within {self._limits.reply:g} s")
            if isinstance(item, SourceState) and item.state in DISCONNECTED_STATES:
                return ChangeEnded("unreachable", item.message)
            if item == "undo":
                return ChangeEnded("cancelled")
            if isinstance(item, ChangeLine) and item.kind in ("refused", "failed"):
                return ChangeEnded("refused", item.text)
            if isinstance(item, ChangeLine) and item.kind == "prepared":
                self.plan, self._fingerprint = item.plan, item.fingerprint
                self.needs_second_yes = item.needs_second_yes
                return None

    async def _wait_for_decision(self) -> ChangeEnded | None:
        """None: it is to be applied, and that is in the log."""
        while True:
            item = await self._inbox.next(NO_DEADLINE)
            if isinstance(item, SourceState) and item.state in DISCONNECTED_STATES:
                return ChangeEnded("unreachable", item.message)
            if item == "undo":
                return ChangeEnded("cancelled")
            if item != "apply":
                continue
            if self.needs_second_yes and not self._twice:
                return ChangeEnded("refused", "it needs a second yes")
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
            if item is None or (isinstance(item, SourceState) and item.state in DISCONNECTED_STATES):
                text = item.message if isinstance(item, SourceState) else "the host does not say how it has ended"
                yield ConnectionLost(text)
                yield await self._recover()
                return
            for event in await self._process(item):
                yield event
                if isinstance(event, ChangeEnded):
                    return

    async def _process(self, item: ChangeItem) -> list[Event]:
        if isinstance(item, (ReadBack, GoalCheck, Verdict)):
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
        if self.deadline is not None:
            self._reply_deadline = time.monotonic() + self._limits.settle
        return []

    async def _process_line(self, line: ChangeLine) -> list[Event]:
        """A reply of the host about the change."""
        now = time.monotonic()
        self._failed = line.kind == "failed"
        if line.kind == "applying":
            self._reply_deadline = now + self._limits.apply
            return [Applying()]
        if line.kind == "applied":
            self._begin_watching(line, now)
            await self._request(Request(inventory=True))
            return [Applied(self.plan, self.deadline or now)]
        self._inbox.end_watching()
        self._reply_deadline = now + (self._limits.after_failure if self._failed else self._limits.settle)
        if line.kind == "undoing":
            return [Undoing(line.text)]
        if line.kind == "failed":
            self._error = "; ".join(part for part in (self._error, line.text) if part)
            return [StepFailed(line.text)]
        if line.kind == "refused" and self._kept:
            return [ChangeEnded("unknown", line.text)]
        outcome = FINAL_OUTCOMES.get(line.kind)
        return [] if outcome is None else [ChangeEnded(outcome, self._error or line.text)]

    def _begin_watching(self, line: ChangeLine, now: float) -> None:
        """It was applied: watch the host from now on."""
        host_deadline = line.time + self.spec.keep_within if line.deadline is None else line.deadline
        self.deadline = now + host_deadline - line.time
        snapshot = self._inbox.snapshot
        if snapshot is not None and snapshot.clock is not None:  # without the delay of the line
            self.deadline = min(self.deadline, host_deadline - snapshot.clock.offset)
        self._reply_deadline = max(now, self.deadline) + self._limits.settle
        self._inbox.begin_watching(line.time, self.spec.finding, self.spec.proof)

    async def _recover(self) -> ChangeEnded:
        self._inbox.end_watching()
        due = self.deadline
        if due is None:
            due = time.monotonic() + self._limits.apply + self.spec.keep_within
        lost = LostChange(self.plan, self._kept, due)
        return await wait_for_outcome(self._inbox, self._prepare_again, lost, self._limits)

    async def _prepare_again(self) -> None:
        self._recoveries += 1
        self._inbox.identity = f"{self.id}-{self._recoveries}"
        await self._send("prepare")

    # ------------------------------------------------------------------------------------------ requests and log

    async def _send(self, step: Step) -> None:
        actions = self.spec.actions if step in ("prepare", "apply") else ()
        request = ChangeRequest(self._inbox.identity, step, actions, self.spec.keep_within)
        if step == "apply":
            request = replace(request, fingerprint=self._fingerprint, twice=self._twice)
        await self._request(Request(change=request))

    def _log_end(self, ended: ChangeEnded) -> ChangeEnded:
        """Write the end into the log."""
        self.outcome = ended.outcome
        self._inbox.end_watching()
        if not self._logged:
            return ended
        try:
            self._log(replace(self._entry(ended.outcome), ended=time.time(), text=ended.text))
        except NictopError as error:
            return replace(ended, text="; ".join(part for part in (ended.text, error.message) if part))
        return ended

    def _entry(self, state: State) -> LoggedChange:
        finding = self.spec.finding
        actions = tuple(
            LoggedAction(one.words, one.before, one.after, one.undo, one.subject, one.persistent) for one in self.plan
        )
        return LoggedChange(
            id=self.id,
            time=self._begun,
            host=self.spec.host,
            user=user_name(os.environ),
            state=state,
            title=self.spec.title,
            rule=finding.rule if finding is not None else "",
            subject=finding.subject if finding is not None else "",
            actions=actions,
            undo=self.spec.undo,
        )
