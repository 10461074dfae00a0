"""The last minutes on the screens: a recording as any other (`Replay`), beside the live hosts,
which are read all the time.

`Past` has controllers of its own for it: sessions, findings, position. Nothing can be requested or
changed there. `PresentTimeline` is the timeline of the live screens, which leads to it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from nictop.probe.light_dataclasses import replace
from nictop.recording.playback import Playback
from nictop.replay.position import PlaybackPosition
from nictop.tui.controllers.nictop import Nictop
from nictop.tui.controllers.replay import REPLAY_WINDOW_SECONDS, Replay

if TYPE_CHECKING:
    from nictop.hosts.specification import Host
    from nictop.recording.recent import RecentRecording
    from nictop.tui.controllers.nictop import Copy
    from nictop.tui.controllers.recent import RecentPast
    from nictop.tui.controllers.scheduler import Notify, Scheduler, Timer, Worker
    from nictop.wire.source import Source
    from nictop.wire.ssh.authentication import Ask, Question


class LookBack(Replay):
    """What is behind the last reading is the present."""

    is_past = True
    leave: Callable[[], object]
    """Shows the present again."""

    def where(self) -> PlaybackPosition:
        return replace(super().where(), ago=monotonic() - self.playback.now())

    def step(self, count: int) -> None:
        if count > 0 and self.playback.at_end:
            self.leave()
        else:
            super().step(count)

    def skip(self, seconds: float) -> None:
        if seconds > 0 and self.playback.now() + seconds >= self.playback.end:
            self.leave()
        else:
            super().skip(seconds)

    def edge(self) -> None:
        """The end is now."""
        self.leave()


class Past:
    """The controllers of one look back. `moment`: seconds, CLOCK_MONOTONIC; `steps`: so many
    readings from there. `chosen`, `nic`: names of the host and of the interface that are shown
    first."""

    def __init__(
        self,
        recording: RecentRecording,
        scheduler: Scheduler,
        notify: Notify,
        copy: Copy,
        *,
        moment: float,
        steps: int,
        chosen: str,
        nic: str,
        leave: Callable[[], object],
    ) -> None:
        self._recording, self._scheduler = recording, ScopedScheduler(scheduler, "past")
        self.nictop = nictop = Nictop(
            _refuse,
            _answer_nothing,
            self._scheduler,
            notify,
            copy,
            interval=1.0,
            allow_changes=False,
        )
        playback = Playback(recording, window=REPLAY_WINDOW_SECONDS)
        playback.seek(moment)
        done = playback.step(steps)
        nictop.replay = replay = LookBack(
            playback,
            nictop.hosts,
            nictop.diagnosis,
            self._scheduler,
            notify,
            start=playback.now(),
            plays=False,
            nic=nic,
        )
        replay.leave = leave
        nictop.start(())
        nictop.hosts.choose(chosen)
        replay.say_if_cut(moment)
        if done < abs(steps):
            replay.say_edge(steps)

    async def close(self) -> None:
        """Nothing of it is read or drawn any more."""
        self._scheduler.close()
        await self.nictop.close()
        self._recording.close()


def _refuse(host: Host, ask: Ask) -> Source:
    raise RuntimeError("nothing is connected to in the past")


async def _answer_nothing(question: Question) -> str | None:
    return None


class ScopedScheduler:
    """`scheduler` for what ends before the application: `close` stops its timers and workers.
    `name`: of their groups, so that they end no others."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self._scheduler, self._name = scheduler, name
        self._timers: WeakSet[Timer] = WeakSet()
        self._workers: WeakSet[Worker] = WeakSet()
        self._is_closed = False

    def set_timer(self, delay: float, callback: Callable[[], object], *, name: str) -> Timer:
        return self._stoppable(self._scheduler.set_timer(delay, self._open(callback), name=name))

    def set_interval(self, interval: float, callback: Callable[[], object], *, name: str) -> Timer:
        timer = self._scheduler.set_interval(interval, self._open(callback), name=name)
        return self._stoppable(timer)

    def call_later(self, callback: Callable[[], object]) -> object:
        return self._scheduler.call_later(self._open(callback))

    def call_after_refresh(self, callback: Callable[..., object], *args: Any) -> object:
        return self._scheduler.call_after_refresh(self._open(partial(callback, *args)))

    def draw_at_once(self, change: Callable[[], object]) -> None:
        if not self._is_closed:
            self._scheduler.draw_at_once(change)

    def run_worker(
        self, work: Callable[[], Awaitable[None]], name: str, group: str, *, exclusive: bool = False
    ) -> Worker:
        group = f"{self._name} {group}"
        worker = self._scheduler.run_worker(work, name, group, exclusive=exclusive)
        self._workers.add(worker)
        return worker

    def close(self) -> None:
        self._is_closed = True
        for timer in self._timers:
            timer.stop()
        for worker in self._workers:
            worker.cancel()

    def _stoppable(self, timer: Timer) -> Timer:
        self._timers.add(timer)
        return timer

    def _open(self, callback: Callable[[], object]) -> Callable[[], object]:
        """The same, but nothing once this is closed."""

        def call() -> object:
            return None if self._is_closed else callback()

        return call


NOW_TEXT = "This is now: there is nothing later."


class OpenPast(Protocol):
    """Shows the past at a time (seconds, CLOCK_MONOTONIC), so many readings or events from
    there."""

    def __call__(self, moment: float, steps: int = 0, *, events: int = 0) -> object: ...


class PresentTimeline:
    """The timeline of live hosts, at now: every step back opens the past."""

    def __init__(self, recent: RecentPast, open_past: OpenPast, notify: Notify) -> None:
        self._recent, self._open, self._notify = recent, open_past, notify

    @property
    def seconds(self) -> float:
        """As `RecentPast.sure_seconds`."""
        return self._recent.sure_seconds

    def where(self) -> PlaybackPosition:
        now = monotonic()
        begin = now if self._recent.begin is None else min(now, self._recent.begin)
        return PlaybackPosition(
            path="",
            playing=True,
            speed=1.0,
            now=now,
            begin=begin,
            end=now,
            wall=time() - now,
            is_growing=True,
            ago=0.0,
        )

    def seek(self, moment: float) -> None:
        self._open(moment)

    def step(self, count: int) -> None:
        if count < 0:
            self._open(monotonic(), count)
        else:
            self.edge()

    def skip(self, seconds: float) -> None:
        if seconds < 0:
            self._open(monotonic() + seconds)
        else:
            self.edge()

    def edge(self) -> None:
        """It is there."""
        self._notify(NOW_TEXT, "Timeline")

    def search(self, direction: int) -> None:
        if direction < 0:
            self._open(monotonic(), events=direction)
        else:
            self.edge()
