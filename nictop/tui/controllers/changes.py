"""The change of a host, at most one at a time, whichever screen is shown, and its result.

It uses the session of the watched host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from nictop.tui.controllers.signal import Signal

if TYPE_CHECKING:
    from nictop.changes.actions import Action
    from nictop.changes.job import ChangeJob
    from nictop.changes.progress import ChangeProgress
    from nictop.changes.session import ChangeSession
    from nictop.hosts.session import HostSession
    from nictop.tui.controllers.hosts import WatchedHosts
    from nictop.tui.controllers.scheduler import Scheduler, Timer

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
        self._timer: Timer | None = None
        self.job: ChangeJob | None = None
        self.session: ChangeSession | None = None
        """The change that runs, or the last one; None: there was none, or the user has seen its end."""

    @property
    def progress(self) -> ChangeProgress | None:
        return None if self.session is None else self.session.progress

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
        return self.running and progress is not None and (progress.decision == "apply" or progress.is_under_way)

    def start(self, job: ChangeJob, actions: Sequence[Action]) -> str:
        """Request from the host what would be changed. Returns why that is not possible, "" if it was requested."""
        from nictop.changes.session import ChangeSession

        if self.running:
            return "a change goes on already"
        host = self._hosts.by_name.get(job.host)
        if host is None:
            return f"{job.host}: not watched"
        if host.snapshot.state != "live":
            return f"{job.host} is not live: {host.snapshot.state}"

        def others() -> Iterable[HostSession]:
            return (one for one in self._hosts.sessions if one is not host)

        self.job, self.session = job, ChangeSession(host, job.spec(actions), others=others)
        self._task = asyncio.create_task(self._run(self.session), name="change")
        self._timer = self._scheduler.set_interval(CHANGE_COUNTDOWN_SECONDS, self.changed.publish, name="change")
        self.changed.publish()
        return ""

    async def _run(self, session: ChangeSession) -> None:
        from nictop.changes.events import ChangeEnded
        from nictop.hosts.session import internal_error_text

        try:
            async with aclosing(session.events()) as events:
                async for _ in events:
                    self.changed.publish()
        except Exception as error:  # the screens go on, and the host undoes what is not kept
            session.progress = session.progress.after(ChangeEnded("unknown", internal_error_text(error)))
        finally:
            self._task = None
            if self._timer is not None:
                self._timer.stop()
            self.changed.publish()
            self.ended.publish()

    # ------------------------------------------------------------------------------------------------- decisions

    def apply(self, *, twice: bool = False) -> None:
        """Apply it, if it is prepared; `twice`: the second question was answered with yes, too."""
        if self.session is not None:
            self.session.apply(twice=twice)
            self.changed.publish()

    def keep(self) -> None:
        """Keep it, if it is applied."""
        if self.session is not None:
            self.session.keep()
            self.changed.publish()

    def undo(self) -> None:
        """Undo it now, or do not apply it."""
        if self.session is not None:
            self.session.undo()
            self.changed.publish()

    def wait(self, step: int) -> None:
        """More or less time to keep it, by steps of `KEEP_SECONDS`. Does nothing once it is applied."""
        if self.session is not None:
            seconds = self.session.spec.keep_within
            nearest = min(range(len(KEEP_SECONDS)), key=lambda index: abs(KEEP_SECONDS[index] - seconds))
            self.session.set_keep_within(KEEP_SECONDS[max(0, min(len(KEEP_SECONDS) - 1, nearest + step))])
            self.changed.publish()

    def forget(self) -> None:
        """The user has seen its end."""
        if not self.running and self.session is not None:
            self.session = self.job = None
            self.changed.publish()

    async def stop(self) -> None:
        """Cancel a change that is not kept, and wait until the host has that request."""
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})
