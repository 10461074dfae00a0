"""The change of a watched host, at most one at a time, and its result; independent of the screen
that is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from time import monotonic
from typing import TYPE_CHECKING

from nictop.probe.light_dataclasses import dataclass
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
"""Selectable times until the rollback."""


@dataclass(frozen=True)
class TypedSetUp:
    """What was typed into the form of a set-up that was not applied."""

    words: Mapping[str, str]
    """Name of a field → its text."""
    state: object
    """That of the NIC when it was typed; equal while the NIC has not changed."""
    job: ChangeJob | None
    """What the words describe."""


class Changes:
    """`allowed`: every host may be changed, not only those for which the configuration allows
    it."""

    def __init__(self, hosts: WatchedHosts, scheduler: Scheduler, *, allowed: bool) -> None:
        self._hosts, self._scheduler, self._allowed = hosts, scheduler, allowed
        self.changed, self.ended = Signal(), Signal()
        """`job` or `progress` is another one, or time has passed; the change has ended."""
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self.job: ChangeJob | None = None
        self.session: ChangeSession | None = None
        """The running change, or the last one; None: there was none, or its end was seen."""
        self.typed: dict[tuple[str, int], TypedSetUp] = {}
        """Host and ifindex of a NIC → what is in its form."""
        self._step: tuple[str, str] = ("", "")
        """Stage and decision of now."""
        self.step_began = 0.0
        """CLOCK_MONOTONIC: when they became these."""
        self.published_at = 0.0
        """CLOCK_MONOTONIC: that of all seconds of the change that are shown, so that the dialog and
        the status line tell the same."""

    @property
    def progress(self) -> ChangeProgress | None:
        if self.session is None:
            return None
        return self.session.progress

    def _publish(self) -> None:
        """Something of the change is new."""
        progress = self.progress
        step = ("", "")
        if progress is not None:
            step = (progress.shown_stage, progress.decision)
        if step != self._step:
            self._step, self.step_began = step, monotonic()
        self._count_down()

    def _count_down(self) -> None:
        self.published_at = monotonic()
        self.changed.publish()

    def allowed(self, host: str) -> bool:
        """Whether the probe of a watched host was started so that it may change it."""
        session = self._hosts.by_name.get(host)
        if session is None:
            return False
        return self._allowed or session.host.allow_changes

    @property
    def running(self) -> bool:
        """A change is being prepared, waits for a decision, or is not confirmed yet."""
        return self._task is not None and not self._task.done()

    @property
    def is_unconfirmed(self) -> bool:
        """A change was sent to the host and has not ended: quitting now rolls it back."""
        progress = self.progress
        if progress is None or not self.running:
            return False
        return progress.decision == "apply" or progress.is_under_way

    def start(self, job: ChangeJob, actions: Sequence[Action]) -> str:
        """Request the plan from the host. Returns why that is not possible, "" if it was
        requested."""
        from nictop.changes.session import ChangeSession

        if self.running:
            return "another change is in progress"
        host = self._hosts.by_name.get(job.host)
        if host is None:
            return f"{job.host} is not watched"
        if host.snapshot.state != "live":
            return f"{job.host} is not live: {host.snapshot.state}"

        def others() -> Iterable[HostSession]:
            return (session for session in self._hosts.sessions if session is not host)

        self._step = ("", "")
        self.job, self.session = job, ChangeSession(host, job.spec(actions), others=others)
        self._task = asyncio.create_task(self._run(self.session), name="change")
        self._timer = self._scheduler.set_interval(
            CHANGE_COUNTDOWN_SECONDS, self._count_down, name="change"
        )
        self._publish()
        return ""

    async def _run(self, session: ChangeSession) -> None:
        from nictop.changes.events import ChangeEnded
        from nictop.wire.errors import internal_error_text

        try:
            async with aclosing(session.events()) as events:
                async for _ in events:
                    self._publish()
        except Exception as error:  # the screens continue, and the host rolls back
            ended = ChangeEnded("unknown", internal_error_text(error))
            session.progress = session.progress.after(ended)
        finally:
            self._task = None
            if self._timer is not None:
                self._timer.stop()
            if session.progress.outcome == "cancelled" and session is self.session:
                self.forget()  # who has cancelled it knows: the next key is for something else
            self._publish()
            self.ended.publish()

    # ------------------------------------------------------------------------------------ decisions

    def apply(self, *, twice: bool = False) -> None:
        """Apply it, if it is prepared and allowed; `twice`: the second question was confirmed,
        too."""
        if self.session is not None and self.job is not None and self.allowed(self.job.host):
            self.session.apply(twice=twice)
            if self.session.progress.decision == "apply":
                self._forget_typed(self.job)
            self._publish()

    def _forget_typed(self, job: ChangeJob) -> None:
        """The form of this change is empty when it is opened again."""
        left = {nic: typed for nic, typed in self.typed.items() if typed.job is not job}
        self.typed = left

    def keep(self) -> None:
        """Keep it, if it is applied."""
        if self.session is not None:
            self.session.keep()
            self._publish()

    def undo(self) -> None:
        """Undo it now, or do not apply it."""
        if self.session is not None:
            self.session.undo()
            self._publish()

    def keep_seconds(self, step: int) -> float:
        """The next longer (`step` 1) or shorter (-1) time of `KEEP_SECONDS`; the present one if
        there is none."""
        assert self.session is not None
        now = self.session.spec.keep_within
        if step > 0:
            return min((seconds for seconds in KEEP_SECONDS if seconds > now), default=now)
        return max((seconds for seconds in KEEP_SECONDS if seconds < now), default=now)

    def wait(self, step: int) -> None:
        """More or less time to keep it, in steps of `KEEP_SECONDS`. No effect once it is
        applied."""
        if self.session is not None:
            self.session.set_keep_within(self.keep_seconds(step))
            self._publish()

    def forget(self) -> None:
        """Drop a change whose end was seen."""
        if not self.running and self.session is not None:
            self.session = self.job = None
            self._publish()

    async def stop(self) -> None:
        """Cancel an unconfirmed change, and wait until the host has that request."""
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})
