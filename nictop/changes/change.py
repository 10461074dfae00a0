"""One change of one host, from its plan to its end, as the watching side sees it.

`Change.events()` yields what happens as it happens; between, the user decides (`apply`, `keep`, `undo`, `cancel`). The
host itself undoes what nobody told it to keep: this side only asks, and believes nothing but what was read back there.

Whoever iterates the source gives each item to `Change.hear`, with the picture of the host after it.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal
from uuid import uuid4

from nictop.changes.actions import Action
from nictop.changes.audit_log import Logged, LoggedAction, State, user_name
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
from nictop.changes.recovery import GONE, LostChange, found_again
from nictop.errors import NictopError
from nictop.model.snapshot import Snapshot
from nictop.probe.records import LONGEST_KEPT, SHORTEST_KEPT, ChangeLine, ChangeRequest, Line, PlannedAction, Request
from nictop.rules import Finding, HostFacts
from nictop.wire.source import SourceState

DEFAULT_KEEP_WITHIN = 30.0
"""Seconds."""
FOR_EVER = float("inf")
LAST_WORDS: dict[str, Outcome] = {"kept": "kept", "undone": "undone", "refused": "refused"}

Step = Literal["prepare", "apply", "keep", "undo"]


@dataclass(frozen=True)
class ChangeSpec:
    """What is to be changed on one host, and why."""

    host: str
    """As it is watched."""
    actions: tuple[Action, ...]
    title: str = ""
    """In a few words: that of the fix."""
    finding: Finding | None = None
    """Is watched for whether it goes away; None: it comes from no finding."""
    keep_within: float = DEFAULT_KEEP_WITHIN
    """Seconds from "applied" until the host takes it back, `SHORTEST_KEPT` to `LONGEST_KEPT`."""
    undo: tuple[str, ...] = ()
    """Shell lines for a person who wants the old state back when it was kept: those of the fix. For the log."""
    proof: Callable[[Snapshot], GoalCheck] | None = None
    """Checks each inventory that was read after the change; None: there is no goal to check."""


class Change:
    """A wish that is being carried out. `ask`: sends a request to the host's probe. `log`: called when the change
    begins and when it has ended; when it raises NictopError at the begin, nothing is changed. `others`: the other
    watched hosts, for rules that compare."""

    def __init__(
        self,
        wish: ChangeSpec,
        ask: Callable[[Request], Awaitable[None]],
        *,
        log: Callable[[Logged], None],
        others: Callable[[], Iterable[HostFacts]] = tuple,
        limits: ChangeTimeouts | None = None,
    ) -> None:
        if not SHORTEST_KEPT <= wish.keep_within <= LONGEST_KEPT:
            raise NictopError(f"a change waits {SHORTEST_KEPT:g} to {LONGEST_KEPT:g} seconds to be kept")
        self.wish = wish
        self.id = uuid4().hex[:16]
        self.plan: tuple[PlannedAction, ...] = ()
        self.needs_second_yes = False
        self.deadline: float | None = None
        """This machine's CLOCK_MONOTONIC; None: it is not applied."""
        self.outcome: Outcome | None = None
        """None: it has not ended."""
        self._ask, self._log = ask, log
        self._limits = limits or ChangeTimeouts()
        self._news = ChangeInbox(self.id, others)
        self._asked = 0
        self._fingerprint = ""
        self._twice = False
        self._begun = 0.0
        self._logged = False
        """It is in the log: it may have been applied from then on."""
        self._kept = False
        """The host was told to keep it."""
        self._trouble = ""
        self._failed = False
        """The last word of the host was "failed"."""
        self._patience = 0.0
        """This machine's CLOCK_MONOTONIC: how long the next word of the host may take."""

    def hear(self, item: Line | SourceState, snapshot: Snapshot) -> None:
        """Take one item of the source; `snapshot` is the picture after it."""
        self._news.hear(item, snapshot)

    # ------------------------------------------------------------------------------------------- what is decided

    def apply(self, *, twice: bool = False) -> None:
        """Do it. `twice`: the second question was answered with yes, too."""
        self._twice = twice
        self._news.put("apply")

    def keep(self) -> None:
        self._news.put("keep")

    def undo(self) -> None:
        self._news.put("undo")

    def cancel(self) -> None:
        """Do not do it; when it is done already, undo it."""
        self._news.put("cancel")

    # --------------------------------------------------------------------------------------------------- the stages

    async def events(self) -> AsyncGenerator[Event, None]:
        """To be iterated once; to be closed (`contextlib.aclosing`) when it is left early: it is undone then."""
        try:
            async for event in self._stages():
                yield self._ended(event) if isinstance(event, ChangeEnded) else event
        finally:
            if self.outcome is None:
                self._ended(ChangeEnded("unknown", "nictop was left before the end: the host undoes it by itself"))
                if self._logged:
                    await self._send("undo")

    async def _stages(self) -> AsyncGenerator[Event, None]:
        await self._send("prepare")
        ended = await self._prepared()
        if ended is None:
            yield Prepared(self.plan, self.needs_second_yes)
            ended = await self._decided()
        if ended is not None:
            yield ended
            return
        async for event in self._applied():
            yield event

    async def _prepared(self) -> ChangeEnded | None:
        """None: the plan has come."""
        deadline = time.monotonic() + self._limits.answer
        while True:
            item = await self._news.next(deadline)
            if item is None:
                return ChangeEnded("unreachable", f"no answer from the probe within {self._limits.answer:g} s")
            if isinstance(item, SourceState) and item.state in GONE:
                return ChangeEnded("unreachable", item.message)
            if item == "cancel":
                return ChangeEnded("cancelled")
            if isinstance(item, ChangeLine) and item.kind in ("refused", "failed"):
                return ChangeEnded("refused", item.text)
            if isinstance(item, ChangeLine) and item.kind == "prepared":
                self.plan, self._fingerprint = item.plan, item.fingerprint
                self.needs_second_yes = item.needs_second_yes
                return None

    async def _decided(self) -> ChangeEnded | None:
        """None: it is to be done, and that is in the log."""
        while True:
            item = await self._news.next(FOR_EVER)
            if isinstance(item, SourceState) and item.state in GONE:
                return ChangeEnded("unreachable", item.message)
            if item in ("cancel", "undo"):
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

    async def _applied(self) -> AsyncGenerator[Event, None]:
        """From the request to apply it on, to the end."""
        self._patience = time.monotonic() + self._limits.apply
        while True:
            item = await self._news.next(self._patience)
            if item is None and self._failed:
                yield ChangeEnded("failed", self._trouble)
                return
            if item is None or (isinstance(item, SourceState) and item.state in GONE):
                text = item.message if isinstance(item, SourceState) else "the host does not say how it has ended"
                yield ConnectionLost(text)
                yield await self._found_again()
                return
            for event in await self._follow(item):
                yield event
                if isinstance(event, ChangeEnded):
                    return

    async def _follow(self, item: ChangeItem) -> list[Event]:
        if isinstance(item, (ReadBack, GoalCheck, Verdict)):
            return [item] if self._news.is_watching else []
        if isinstance(item, ChangeLine):
            return await self._believe(item)
        if item == "keep" and self._news.is_watching:
            self._kept = True
            await self._send("keep")
        elif item in ("undo", "cancel"):
            await self._send("undo")
        else:
            return []
        if self.deadline is not None:
            self._patience = time.monotonic() + self._limits.settle
        return []

    async def _believe(self, line: ChangeLine) -> list[Event]:
        """What the host says of the change."""
        now = time.monotonic()
        self._failed = line.kind == "failed"
        if line.kind == "applying":
            self._patience = now + self._limits.apply
            return [Applying()]
        if line.kind == "applied":
            self._note(line, now)
            await self._ask(Request(inventory=True))
            return [Applied(self.plan, self.deadline or now)]
        self._news.end_watching()
        self._patience = now + (self._limits.more if self._failed else self._limits.settle)
        if line.kind == "undoing":
            return [Undoing(line.text)]
        if line.kind == "failed":
            self._trouble = "; ".join(part for part in (self._trouble, line.text) if part)
            return [StepFailed(line.text)]
        if line.kind == "refused" and self._kept:
            return [ChangeEnded("unknown", line.text)]
        outcome = LAST_WORDS.get(line.kind)
        return [] if outcome is None else [ChangeEnded(outcome, self._trouble or line.text)]

    def _note(self, line: ChangeLine, now: float) -> None:
        """It has been applied, and is watched from now on."""
        there = line.time + self.wish.keep_within if line.deadline is None else line.deadline
        self.deadline = now + there - line.time
        snapshot = self._news.snapshot
        if snapshot is not None and snapshot.clock is not None:  # the line has been on its way for a while
            self.deadline = min(self.deadline, there - snapshot.clock.offset)
        self._patience = max(now, self.deadline) + self._limits.settle
        self._news.begin_watching(line.time, self.wish.finding, self.wish.proof)

    async def _found_again(self) -> ChangeEnded:
        self._news.end_watching()
        due = self.deadline
        if due is None:
            due = time.monotonic() + self._limits.apply + self.wish.keep_within
        return await found_again(self._news, self._ask_again, LostChange(self.plan, self._kept, due), self._limits)

    async def _ask_again(self) -> None:
        self._asked += 1
        self._news.identity = f"{self.id}-{self._asked}"
        await self._send("prepare")

    # ------------------------------------------------------------------------------------------------ what is said

    async def _send(self, step: Step) -> None:
        actions = self.wish.actions if step in ("prepare", "apply") else ()
        wish = ChangeRequest(self._news.identity, step, actions, self.wish.keep_within)
        if step == "apply":
            wish = replace(wish, fingerprint=self._fingerprint, twice=self._twice)
        await self._ask(Request(change=wish))

    def _ended(self, ended: ChangeEnded) -> ChangeEnded:
        """Write the end into the log."""
        self.outcome = ended.outcome
        self._news.end_watching()
        if not self._logged:
            return ended
        try:
            self._log(replace(self._entry(ended.outcome), ended=time.time(), text=ended.text))
        except NictopError as error:
            return replace(ended, text="; ".join(part for part in (ended.text, error.message) if part))
        return ended

    def _entry(self, state: State) -> Logged:
        finding = self.wish.finding
        actions = tuple(
            LoggedAction(one.words, one.before, one.after, one.undo, one.subject, one.persistent) for one in self.plan
        )
        return Logged(
            id=self.id,
            time=self._begun,
            host=self.wish.host,
            user=user_name(os.environ),
            state=state,
            title=self.wish.title,
            rule=finding.rule if finding is not None else "",
            subject=finding.subject if finding is not None else "",
            actions=actions,
            undo=self.wish.undo,
        )
