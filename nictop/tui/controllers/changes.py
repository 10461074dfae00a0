"""The change of a host, at most one at a time, whichever screen is shown, and its result.

It uses the connection of the watched host: its `Change` receives all items of that session. What was changed is written
into `nictop.changes.audit_log`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from nictop.tui.controllers.signal import Signal

if TYPE_CHECKING:
    from nictop.changes.actions import Action
    from nictop.changes.audit_log import Logged
    from nictop.changes.change import Change
    from nictop.changes.events import Event
    from nictop.changes.job import ChangeJob
    from nictop.changes.progress import ChangeProgress, PendingQuestion
    from nictop.hosts.session import HostSession
    from nictop.model.snapshot import Snapshot
    from nictop.probe.records import Inventory, Line
    from nictop.rules import HostFacts
    from nictop.tui.controllers.hosts import WatchedHosts
    from nictop.tui.controllers.scheduler import Scheduler, Timer
    from nictop.wire.source import SourceState

CHANGE_COUNTDOWN_SECONDS = 0.5
"""Between two redraws of the time that is left."""
KEEP_SECONDS = (5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""After which a change that is not kept is undone; the steps of the keys + and -."""


class Changes:
    """`allowed`: every host may be changed, not only those for which the configuration allows it."""

    def __init__(self, hosts: WatchedHosts, scheduler: Scheduler, *, allowed: bool) -> None:
        self._hosts, self._scheduler, self._allowed = hosts, scheduler, allowed
        self.changed, self.ended = Signal(), Signal()
        """`job` or `progress` is another one, or time has passed; the change has ended."""
        self._task: asyncio.Task[None] | None = None
        self._change: Change | None = None
        self._timer: Timer | None = None
        self._proven_by: Inventory | None = None
        self.job: ChangeJob | None = None
        self.progress: ChangeProgress | None = None
        """Of the change that runs, or of the last one; None: there was none, or the user has seen its end."""

    def allowed(self, host: str) -> bool:
        """Whether the probe of a watched host was started so that it may change it."""
        one = self._hosts.by_name.get(host)
        return one is not None and (self._allowed or one.host.allow_changes)

    @property
    def running(self) -> bool:
        """A change is being prepared, waits for a decision, or is not kept yet."""
        return self._task is not None and not self._task.done()

    @property
    def at_stake(self) -> bool:
        """The host was sent a change that has not ended: leaving now undoes it."""
        progress = self.progress
        return self.running and progress is not None and (progress.told == "apply" or progress.is_under_way)

    def start(self, job: ChangeJob, actions: Sequence[Action]) -> str:
        """Request from the host what would be changed. Returns why that is not possible, "" if it was requested."""
        from nictop.changes.change import Change
        from nictop.changes.progress import ChangeProgress

        if self.running:
            return "a change goes on already"
        session = self._hosts.by_name.get(job.host)
        if session is None:
            return f"{job.host}: not watched"
        if session.snapshot.state != "live":
            return f"{job.host} is not live: {session.snapshot.state}"
        spec = job.wish(actions)
        others = partial(self._others, job.host)
        change = Change(spec, partial(self._hosts.request_from, job.host), log=_write, others=others)
        self._change, self.job, self.progress = change, job, ChangeProgress(spec)
        self._task = asyncio.create_task(self._run(change, session), name="change")
        self._timer = self._scheduler.set_interval(CHANGE_COUNTDOWN_SECONDS, self.changed.publish, name="change")
        self.changed.publish()
        return ""

    async def _run(self, change: Change, session: HostSession) -> None:
        from nictop.changes.events import ChangeEnded

        subscriptions = [session.subscribe(callback) for callback in (change.hear, self._prove)]
        try:
            async with aclosing(change.events()) as events:
                async for event in events:
                    self._take(event)
                    self._prove(None, session.snapshot)
        except Exception as error:  # the screens go on, and the host undoes what is not kept
            self._take(ChangeEnded("unknown", f"nictop itself failed here: {type(error).__name__}: {error}"))
        finally:
            for unsubscribe in subscriptions:
                unsubscribe()
            self._task = self._change = None
            if self._timer is not None:
                self._timer.stop()
            self.changed.publish()
            self.ended.publish()

    def _take(self, event: Event) -> None:
        if self.progress is not None:
            self.progress = self.progress.after(event)
            self.changed.publish()

    def _prove(self, item: Line | SourceState | None, snapshot: Snapshot) -> None:
        """Check whether a guided set-up has reached its goal, after each new inventory of the host."""
        from nictop.wire.source import SourceState

        job, progress = self.job, self.progress
        if job is None or job.proof is None or progress is None or not progress.still_heard:
            return
        if isinstance(item, SourceState):
            return
        inventory = snapshot.inventory
        if inventory is not None and not inventory.pending and inventory is not self._proven_by:
            self._proven_by = inventory
            self.progress = replace(progress, proof=job.proof(snapshot))

    # ------------------------------------------------------------------------------------------------- decisions

    def apply(self, *, twice: bool = False) -> None:
        """Apply it; `twice`: the second question was answered with yes, too."""
        if self._change is not None and self._stage_is("prepared"):
            self._change.apply(twice=twice)
            self._decided("apply")

    def keep(self) -> None:
        """Keep it. Does nothing while it is not applied."""
        if self._change is not None and self._stage_is("applied"):
            self._change.keep()
            self._decided("keep")

    def undo(self) -> None:
        """Undo it now, or do not apply it."""
        if self._change is not None:
            self._change.cancel()
            self._decided("undo")

    def wait(self, step: int) -> None:
        """More or less time to keep it, by steps of `KEEP_SECONDS`. Does nothing once it is applied."""
        change, progress = self._change, self.progress
        if change is not None and progress is not None and self._stage_is("prepared"):
            seconds = change.wish.keep_within
            nearest = min(range(len(KEEP_SECONDS)), key=lambda index: abs(KEEP_SECONDS[index] - seconds))
            chosen = KEEP_SECONDS[max(0, min(len(KEEP_SECONDS) - 1, nearest + step))]
            change.wish = replace(change.wish, keep_within=chosen)
            self.progress = replace(progress, wish=change.wish)
            self.changed.publish()

    def forget(self) -> None:
        """The user has seen its end."""
        if not self.running and self.progress is not None:
            self.progress = self.job = None
            self.changed.publish()

    async def stop(self) -> None:
        """Cancel a change that is not kept, and wait until the host has that request."""
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})

    def _stage_is(self, stage: str) -> bool:
        return self.progress is not None and self.progress.stage == stage

    def _decided(self, decision: PendingQuestion) -> None:
        if self.progress is not None:
            self.progress = self.progress.decided(decision)
            self.changed.publish()

    # ---------------------------------------------------------------------------------------------------- hosts

    def _others(self, host: str) -> tuple[HostFacts, ...]:
        from nictop.rules import HostFacts

        known = (one for name, one in self._hosts.by_name.items() if name != host)
        return tuple(HostFacts(one.snapshot, one.window.parts) for one in known if one.snapshot.inventory is not None)


def _write(change: Logged) -> None:
    from nictop.changes.audit_log import log_path, write

    write(change, log_path(os.environ))
