"""The change of the application: at most one at a time, whichever screen is shown, and what became of it.

It uses the connection that is there: the followed host that is changed is heard a second time by the `Change`. The
screens are told through the application's `change_news`. What was changed is written into `nictop.changes.audit_log`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.timer import Timer

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
    from nictop.tui.app import NictopApp
    from nictop.wire.source import SourceState

COUNTDOWN = 0.5
"""Seconds between two looks at the time that is left."""
WAITS = (5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds that a change may wait to be kept, for the keys + and -."""


class Changes:
    """`allowed`: every host may be changed, not only those of which the configuration says so."""

    def __init__(self, app: NictopApp, *, allowed: bool) -> None:
        self._app, self._allowed = app, allowed
        self._task: asyncio.Task[None] | None = None
        self._change: Change | None = None
        self._timer: Timer | None = None
        self._proven_by: Inventory | None = None
        self.errand: ChangeJob | None = None
        """What it is for."""
        self.progress: ChangeProgress | None = None
        """Of the change that goes on, or of the last one; None: there was none, or its end has been seen."""

    def allowed(self, host: str) -> bool:
        """Whether the probe of a watched host was started so that it may change it."""
        one = self._app.hosts.by_name.get(host)
        return one is not None and (self._allowed or one.host.allow_changes)

    @property
    def running(self) -> bool:
        """A change is being prepared, or waits, or is not kept yet."""
        return self._task is not None and not self._task.done()

    @property
    def at_stake(self) -> bool:
        """The host has been told to change something and has not come to an end: leaving now takes it back."""
        progress = self.progress
        return self.running and progress is not None and (progress.told == "apply" or progress.is_under_way)

    def start(self, errand: ChangeJob, actions: Sequence[Action]) -> str:
        """Ask the host what would be changed. Why not, in a sentence; "": it is asked."""
        from nictop.changes.change import Change
        from nictop.changes.progress import ChangeProgress

        if self.running:
            return "a change goes on already"
        followed = self._app.hosts.by_name.get(errand.host)
        if followed is None:
            return f"{errand.host}: not watched"
        if followed.snapshot.state != "live":
            return f"{errand.host} is not live: {followed.snapshot.state}"
        wish = errand.wish(actions)
        others = partial(self._others, errand.host)
        change = Change(wish, partial(self._app.hosts.ask_host, errand.host), log=_write, others=others)
        self._change, self.errand, self.progress = change, errand, ChangeProgress(wish)
        self._task = asyncio.create_task(self._carry_out(change, followed), name="change")
        self._timer = self._app.set_interval(COUNTDOWN, self.tell, name="change")
        self.tell()
        return ""

    async def _carry_out(self, change: Change, followed: HostSession) -> None:
        from nictop.changes.events import ChangeEnded

        subscriptions = [followed.subscribe(callback) for callback in (change.hear, self._prove)]
        try:
            async with aclosing(change.events()) as events:
                async for event in events:
                    self._take(event)
                    self._prove(None, followed.snapshot)
        except Exception as error:  # the screens go on, and the host takes back what nobody keeps
            self._take(ChangeEnded("unknown", f"nictop itself failed here: {type(error).__name__}: {error}"))
        finally:
            for unsubscribe in subscriptions:
                unsubscribe()
            self._task = self._change = None
            if self._timer is not None:
                self._timer.stop()
            self.tell()
            self._say_end()

    def _say_end(self) -> None:
        """To somebody who has left its dialog."""
        from nictop.tui.screens.changes.screen import HostChangeScreen
        from nictop.tui.screens.changes.status import end_words

        progress = self.progress
        if (
            progress is None
            or progress.outcome in (None, "cancelled")
            or isinstance(self._app.screen, HostChangeScreen)
        ):
            return
        self._app.say(end_words(progress), f"{progress.wish.host}: {progress.wish.title}")

    def _take(self, event: Event) -> None:
        if self.progress is not None:
            self.progress = self.progress.after(event)
            self.tell()

    def _prove(self, item: Line | SourceState | None, snapshot: Snapshot) -> None:
        """Ask the job of a guided set-up whether it is done, whenever the host has been read anew."""
        from nictop.wire.source import SourceState

        errand, progress = self.errand, self.progress
        if errand is None or errand.proof is None or progress is None or not progress.still_heard:
            return
        if isinstance(item, SourceState):
            return
        inventory = snapshot.inventory
        if inventory is not None and not inventory.pending and inventory is not self._proven_by:
            self._proven_by = inventory
            self.progress = replace(progress, proof=errand.proof(snapshot))

    # ------------------------------------------------------------------------------------------- what is decided

    def apply(self, *, twice: bool = False) -> None:
        """Do it; `twice`: the second question was answered with yes, too."""
        if self._change is not None and self._stage_is("prepared"):
            self._change.apply(twice=twice)
            self._decided("apply")

    def keep(self) -> None:
        """It stays. Nothing happens while it is not applied."""
        if self._change is not None and self._stage_is("applied"):
            self._change.keep()
            self._decided("keep")

    def undo(self) -> None:
        """Take it back now, or do not do it at all."""
        if self._change is not None:
            self._change.cancel()
            self._decided("undo")

    def wait(self, step: int) -> None:
        """Let it wait longer or less long to be kept; until it is applied."""
        change, progress = self._change, self.progress
        if change is not None and progress is not None and self._stage_is("prepared"):
            nearest = min(range(len(WAITS)), key=lambda index: abs(WAITS[index] - change.wish.keep_within))
            chosen = WAITS[max(0, min(len(WAITS) - 1, nearest + step))]
            change.wish = replace(change.wish, keep_within=chosen)
            self.progress = replace(progress, wish=change.wish)
            self.tell()

    def forget(self) -> None:
        """Its end has been seen."""
        if not self.running and self.progress is not None:
            self.progress = self.errand = None
            self.tell()

    async def stop(self) -> None:
        """Nobody will keep what is not kept: tell the host, and wait until that is said."""
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})

    def _stage_is(self, stage: str) -> bool:
        return self.progress is not None and self.progress.stage == stage

    def _decided(self, told: PendingQuestion) -> None:
        if self.progress is not None:
            self.progress = self.progress.decided(told)
            self.tell()

    # ---------------------------------------------------------------------------------------------------- hosts

    def _others(self, host: str) -> tuple[HostFacts, ...]:
        from nictop.rules import HostFacts

        known = (one for name, one in self._app.hosts.by_name.items() if name != host)
        return tuple(HostFacts(one.snapshot, one.window.parts) for one in known if one.snapshot.inventory is not None)

    def tell(self) -> None:
        """There is news: the screens look."""
        self._app.change_news += 1


def _write(change: Logged) -> None:
    from nictop.changes.audit_log import log_path, write

    write(change, log_path(os.environ))
