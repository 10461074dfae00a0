"""A recording in the place of live hosts: where its playback is, and what the keys do to it.

The application follows the sources of a `Playback` as it follows live ones, and takes its clock for its own. After a
jump everything that was known is forgotten: each host is followed anew, first from a moment before the new one, so that
its numbers are drawn at once, then from a whole window before it, for charts and rules. The screens look at
`Replay.where` whenever `replay_news` changes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from nictop.hosts.specification import RECORDED, Host
from nictop.replay.position import PlaybackPosition, wall_words
from nictop.replay.run_index import RunMarks, run_marks
from nictop.replay.search import Happening, happening_after, happening_before

if TYPE_CHECKING:
    from textual.worker import WorkType

    from nictop.hosts.session import HostSession
    from nictop.recording.playback import Playback, PlaybackSource
    from nictop.tui.app import NictopApp

TICK = 0.25
"""Seconds between two looks at where it is."""
SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0)
WINDOW = 100.0
"""Seconds of readings that are there after a jump: a column each of the usual charts, read once a second."""
FIRST_WINDOW = 5.0
"""The same of the picture that is drawn at once: enough for rates of the moment."""
SHORTEST = 0.1
"""Seconds between two readings."""


class Replay:
    """`loop`: begin anew at the end, at `start`. `banner`: what is always said of the recording."""

    def __init__(
        self, app: NictopApp, playback: Playback, *, start: float, loop: bool = False, banner: str = ""
    ) -> None:
        self._app, self.playback = app, playback
        self._start, self._loop, self.banner = start, loop, banner
        self._searching = ""
        """What is looked for, and where."""
        self._marks, self._runs = 0, tuple[RunMarks, ...]()
        self._gaps: deque[float] = deque(maxlen=9)
        """Seconds between two readings, as they were found lately."""
        self._jumps = 0
        self._sources: dict[str, PlaybackSource] = {}
        """Of every host, the one that is followed."""
        self.numbered, self.settled = asyncio.Event(), asyncio.Event()
        """The screens show the numbers of the moment that it stands at, not those before a jump; and its past, too."""

    # ------------------------------------------------------------------------------------------------ the hosts

    def begin(self) -> None:
        """Follow every host of the recording, from the start on."""
        self.playback.seek(self._start)
        self._jumps = self.playback.jumps
        for name in self.playback.recording.hosts:
            self._add(name)
        self._hold()
        self._work(self._settle, name="settle", group="settle", exclusive=True)
        self.playback.play()
        self._app.set_interval(TICK, self._tick, name="replay")

    def _add(self, name: str) -> None:
        one, self._sources[name] = self._followed(name)
        self._app.hosts.add_followed(one)

    def _followed(self, name: str, window: float | None = None) -> tuple[HostSession, PlaybackSource]:
        from nictop.hosts.session import HostSession

        source = self.playback.source(name, window)
        return HostSession(Host(name, RECORDED), source, clock=source.said_at, history=True), source

    def _hold(self) -> None:
        """The screens hear nothing before every host has come to now."""
        self._gaps.clear()
        self._app.hosts.hold()
        self.settled.clear()

    def _work(self, work: WorkType[None], *, name: str, group: str, exclusive: bool) -> None:
        """A worker that may be replaced before it has begun: so it is not given a coroutine, which would have to."""
        self._app.run_worker(work, name=name, group=group, exclusive=exclusive)

    async def _go_there(self) -> None:
        """After a jump: the numbers of the moment are drawn, then it settles with the whole window."""
        await self._follow_anew(FIRST_WINDOW)
        self._app.hosts.release()
        self._tell()
        self.numbered.set()
        drawn = asyncio.Event()
        self._app.screen.call_after_refresh(drawn.set)
        await drawn.wait()
        self._app.hosts.hold()
        await self._follow_anew(None)
        await self._settle()

    async def _follow_anew(self, window: float | None) -> None:
        anew: list[HostSession] = []
        for name in self._app.hosts.by_name:
            one, self._sources[name] = self._followed(name, window)
            self._app.hosts.prepare(one)
            anew.append(one)
        await self._caught_up()
        for one in anew:
            self._app.hosts.exchange(one)
        self._look_at_interval()

    async def _caught_up(self) -> None:
        await asyncio.gather(*(source.caught_up() for source in self._sources.values()))

    async def _settle(self) -> None:
        """Everything of the window was heard: charts and rules have their past."""
        await self._caught_up()
        self._look_at_interval()
        self._app.diagnosing.now()
        self._app.hosts.release()
        self.numbered.set()
        self.settled.set()
        self._tell()

    def _look_at_interval(self) -> None:
        """How far readings are apart now: hosts that were read rarely are not silent."""
        snapshot = self._app.followed.snapshot
        if snapshot.before is not None and snapshot.counters is not None:
            self._gaps.append(snapshot.counters.time - snapshot.before.time)
            seconds = median(self._gaps)
            self._app.interval = round(seconds, 1 if seconds < 1 else 0) or SHORTEST

    # ------------------------------------------------------------------------------------------------- the clock

    def _tick(self) -> None:
        """Time goes on, and the file may have grown."""
        playback = self.playback
        if playback.recording.refresh():
            for name in playback.recording.hosts:
                if name not in self._app.hosts.by_name:
                    self._add(name)
            playback.wake()
        if self._loop and playback.playing and playback.at_end and playback.recording.closed:
            self.seek(self._start)
        self._look_at_interval()
        self._tell()

    def _tell(self) -> None:
        self._app.replay_news += 1

    @property
    def runs(self) -> tuple[RunMarks, ...]:
        """Those that are marked in the recording."""
        marks = len(self.playback.recording.marks)
        if marks != self._marks:
            self._marks, self._runs = marks, run_marks(self.playback.recording)
        return self._runs

    def where(self) -> PlaybackPosition:
        """Where it is, for the line that says so."""
        playback = self.playback
        recording, runs = playback.recording, self.runs
        return PlaybackPosition(
            path=recording.path,
            playing=playback.playing,
            speed=playback.speed,
            now=playback.now(),
            begin=recording.begin,
            end=recording.end,
            wall=recording.wall(0.0),
            grows=not recording.closed,
            runs=tuple((run.begin, recording.end if run.end is None else run.end) for run in runs),
            says=self._searching or self.banner,
        )

    def _jumped(self) -> None:
        """Follow every host anew, where it jumped."""
        if self.playback.jumps == self._jumps:
            self._tell()
            return
        self._jumps = self.playback.jumps
        self._hold()
        self.numbered.clear()
        self._work(self._go_there, name="settle", group="settle", exclusive=True)
        self._tell()

    # -------------------------------------------------------------------------------------------------- the keys

    def play(self) -> None:
        """Pause, or go on; from the beginning when it is at the end."""
        if self.playback.playing and not (self.playback.at_end and self.playback.recording.closed):
            self.playback.pause()
        else:
            self.playback.play()
        self._jumped()

    def step(self, count: int) -> None:
        """One reading on or back, and stay there."""
        self.playback.step(count)
        self._jumped()

    def seek(self, moment: float) -> None:
        """Jump, seconds as in the recording."""
        self.playback.seek(moment)
        self._jumped()

    def skip(self, seconds: float) -> None:
        """Jump on or back."""
        self.seek(self.playback.now() + seconds)

    def edge(self) -> None:
        """To the end; of a file that is still being written, to what comes."""
        self.seek(self.playback.end)
        if not self.playback.recording.closed:
            self.playback.play()
            self._tell()

    def change_speed(self, steps: int) -> None:
        """Faster or slower."""
        speeds, now = SPEEDS, self.playback.speed
        nearest = min(range(len(speeds)), key=lambda index: abs(speeds[index] - now))
        self.playback.speed = speeds[max(0, min(len(speeds) - 1, nearest + steps))]
        self._tell()

    # --------------------------------------------------------------------------------------- findings and runs

    @property
    def searches(self) -> bool:
        return bool(self._searching)

    def search(self, direction: int) -> None:
        """Look for the next or the one before: a finding that appears, or a run. Ends a search that goes on."""
        self._work(partial(self._search, direction), name="search", group="replay search", exclusive=True)

    def stop_search(self) -> None:
        self._app.workers.cancel_group(self._app, "replay search")
        self._searching = ""
        self._tell()

    async def _search(self, direction: int) -> None:
        self.playback.pause()
        recording, now = self.playback.recording, self.playback.now()
        look = happening_after if direction > 0 else happening_before
        which = "next" if direction > 0 else "previous"

        def told(moment: float) -> None:
            self._searching = (
                f"looking for the {which} finding or run: {wall_words(recording.wall(moment))}, esc ends it"
            )
            self._tell()

        found: Happening | None = None
        try:
            told(now)
            found = await look(recording, now, told)
        finally:
            self._searching = ""
            self._tell()
        if found is None:
            self._app.say(f"There is no {which} one in this recording.", "Findings and runs")
            return
        self.seek(found.time)
        self._app.say(found.sentence, wall_words(recording.wall(found.time)))
