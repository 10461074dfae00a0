"""A recording instead of live hosts: the position of its playback, and what the keys do to it.

The sources of a `Playback` are watched like live ones, with its clock. After a jump each host gets
a new session: first one that starts `FIRST_WINDOW_SECONDS` before the new position, so that its
numbers are drawn at once, then one that starts a whole window before it, for charts and rules.
"""

from __future__ import annotations

import asyncio
from collections import deque
from statistics import median
from typing import TYPE_CHECKING

from nictop.hosts.specification import RECORDED, Host
from nictop.replay.position import PlaybackPosition, wall_clock_text
from nictop.replay.run_index import RunMarks, run_marks
from nictop.replay.search import STEP_SECONDS, RecordingEvent, event_after, event_before
from nictop.tui.controllers.signal import Signal

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.recording.playback import Playback, PlaybackSource
    from nictop.tui.controllers.diagnosis import DiagnosisScheduler
    from nictop.tui.controllers.hosts import WatchedHosts
    from nictop.tui.controllers.scheduler import Notify, Scheduler, Worker

POSITION_SECONDS = 0.25
"""Between two updates of the position."""
SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0)
REPLAY_WINDOW_SECONDS = 100.0
"""Of readings that are known after a jump: a column each of the usual charts, read once a
second."""
FIRST_WINDOW_SECONDS = 5.0
"""The same for the numbers that are drawn first: enough for rates."""
OVERLOADED_NOTE = "the recording has more data than can be read in time: values are delayed"
CUT_SECONDS = 1.0
"""A jump that ends so much before its aim has ended elsewhere: times are shown in whole seconds."""
MIN_REPLAY_INTERVAL_SECONDS = 0.1
"""Between two readings."""


class Replay:
    """`start`: seconds as in the recording; `loop`: continue there at the end. `nic`: name of the
    interface that is chosen at first, of each host that has it. `notice`: text that is shown for
    some seconds at the start. `plays`: at once; else it is paused there."""

    is_past = False
    """It is about the last minutes of hosts that are live."""

    def __init__(
        self,
        playback: Playback,
        hosts: WatchedHosts,
        diagnosis: DiagnosisScheduler,
        scheduler: Scheduler,
        notify: Notify,
        *,
        start: float,
        loop: bool = False,
        nic: str = "",
        notice: str = "",
        notice_title: str = "Demo",
        plays: bool = True,
    ) -> None:
        self.playback, self._hosts, self._diagnosis = playback, hosts, diagnosis
        self._scheduler, self._notify = scheduler, notify
        self._start, self._loop = start, loop
        self._notice, self._notice_title = notice, notice_title
        self.nic, self._plays = nic, plays
        self.changed = Signal()
        """`where` is new."""
        self._searching = ""
        """What is searched for, and where."""
        self._search_worker: Worker | None = None
        self._wanted_events = 0
        """So many are still to be found, forwards or (negative) backwards."""
        self._marks, self._runs = 0, tuple[RunMarks, ...]()
        self._gaps: deque[float] = deque(maxlen=9)
        """Seconds between two of the last readings."""
        self._measured: tuple[float, float] | None = None
        """Times of the newest two readings, once their distance is in `_gaps`."""
        self._jumps = 0
        self._sources: dict[str, PlaybackSource] = {}
        """Host → the one that is read."""
        self.numbered, self.settled = asyncio.Event(), asyncio.Event()
        """Screens show the numbers of the new position, not those before a jump; and its history
        and findings, too."""

    # ------------------------------------------------------------------------------------ the hosts

    def begin(self) -> None:
        """Watch every host of the recording, from the start on."""
        self.playback.seek(self._start)
        self._jumps = self.playback.jumps
        for name in self.playback.recording.hosts:
            self._add(name)
        self._hold()
        self._scheduler.run_worker(self._settle, "settle", "settle", exclusive=True)
        if self._plays:
            self.playback.play()
        if self._notice:
            self._notify(self._notice, self._notice_title)
        self._scheduler.set_interval(POSITION_SECONDS, self._tick, name="replay")

    def _add(self, name: str) -> None:
        session, self._sources[name] = self._session(name)
        self._hosts.add_session(session)

    def _session(
        self, name: str, window: float | None = None
    ) -> tuple[HostSession, PlaybackSource]:
        from nictop.hosts.session import HostSession

        source = self.playback.source(name, window)
        share = self.playback.recording.memory_share
        clock = source.last_item_time
        return HostSession(
            Host(name, RECORDED), source, clock=clock, history=True, memory_share=share
        ), source

    def _hold(self) -> None:
        """Publish nothing before every host has been read up to the position."""
        self._gaps.clear()
        self._measured = None
        self._hosts.hold()
        self.settled.clear()

    async def _after_jump(self) -> None:
        """After a jump: draw the numbers of the new position, then read the whole window."""
        await self._replace_sessions(FIRST_WINDOW_SECONDS)
        self._hosts.release()
        self.changed.publish()
        self.numbered.set()
        drawn = asyncio.Event()
        self._scheduler.call_after_refresh(drawn.set)
        await drawn.wait()
        self._hosts.hold()
        await self._replace_sessions(None)
        await self._settle()

    async def _replace_sessions(self, window: float | None) -> None:
        new: list[HostSession] = []
        for name in self._hosts.by_name:
            session, self._sources[name] = self._session(name, window)
            self._hosts.prepare(session)
            new.append(session)
        await self._caught_up()
        for session in new:
            self._hosts.exchange(session)
        self._update_interval()

    async def _caught_up(self) -> None:
        await asyncio.gather(*(source.wait_until_caught_up() for source in self._sources.values()))

    async def _settle(self) -> None:
        """The whole window was read: charts and rules have their history."""
        await self._caught_up()
        self._update_interval()
        self._hosts.release()
        self.numbered.set()
        await self._diagnosis.renew()
        self.settled.set()
        self.changed.publish()

    def _update_interval(self) -> None:
        """Take over the interval of the recording: hosts that were read rarely are not silent."""
        snapshot = self._hosts.session.snapshot
        if snapshot.before is None or snapshot.counters is None:
            return
        reading = (snapshot.before.time, snapshot.counters.time)
        if reading == self._measured:
            return  # each counts once, however often the position is drawn meanwhile
        self._measured = reading
        self._gaps.append(reading[1] - reading[0])
        seconds = median(self._gaps)
        digits = 1 if seconds < 1 else 0
        self._hosts.interval = round(seconds, digits) or MIN_REPLAY_INTERVAL_SECONDS

    # ------------------------------------------------------------------------------------ the clock

    def _tick(self) -> None:
        """Time has passed, and the file may have grown."""
        playback = self.playback
        if playback.recording.refresh():
            for name in playback.recording.hosts:
                if name not in self._hosts.by_name:
                    self._add(name)
            playback.wake()
        if self._loop and playback.playing and playback.at_end and playback.recording.closed:
            self._jump(self._start)
        if self.settled.is_set():  # before, the newest reading is one on the way to the position
            self._update_interval()
        self.changed.publish()

    @property
    def runs(self) -> tuple[RunMarks, ...]:
        """Those that are marked in the recording."""
        marks = len(self.playback.recording.marks)
        if marks != self._marks:
            self._marks, self._runs = marks, run_marks(self.playback.recording)
        return self._runs

    def where(self) -> PlaybackPosition:
        """Position, for the line that shows it."""
        playback = self.playback
        recording = playback.recording
        runs: list[tuple[float, float]] = []
        for run in self.runs:
            end = recording.end if run.end is None else run.end
            runs.append((run.begin, end))
        return PlaybackPosition(
            path=recording.path,
            playing=playback.playing,
            speed=playback.speed,
            now=playback.now(),
            begin=recording.begin,
            end=recording.end,
            wall=recording.wall_time(0.0),
            is_growing=not recording.closed,
            runs=tuple(runs),
        )

    @property
    def refusal(self) -> str:
        """Why something cannot be done, without a full stop."""
        return "Not available in the past" if self.is_past else "Not available in a recording"

    @property
    def note(self) -> str:
        """Status of a search, or that values come late; ""."""
        if self._searching:
            return self._searching
        if self.playback.budget.is_exceeded:
            return OVERLOADED_NOTE
        return ""

    def _jumped(self) -> None:
        """Read every host again, if the position is another one."""
        if self.playback.jumps == self._jumps:
            self.changed.publish()
            return
        self._jumps = self.playback.jumps
        self._diagnosis.forget()
        self._hold()
        self.numbered.clear()
        self._scheduler.run_worker(self._after_jump, "settle", "settle", exclusive=True)
        self.changed.publish()

    # ------------------------------------------------------------------------------------- the keys

    @property
    def is_playing(self) -> bool:
        """False also at the end of a recording that does not grow."""
        playback = self.playback
        return playback.playing and not (playback.at_end and playback.recording.closed)

    def play(self) -> None:
        """Pause, or play; from the beginning when it is at the end."""
        if self.is_playing:
            self.playback.pause()
        else:
            self.playback.play()
        self._jumped()

    def step(self, count: int) -> None:
        """One reading on or back, and pause there."""
        done = self.playback.step(count)
        self._jumped()
        if done < abs(count):
            self.say_edge(count)

    def seek(self, moment: float) -> None:
        """Jump, seconds as in the recording; at most to its begin or end, which is said."""
        before, playback = self.playback.now(), self.playback
        if not moment <= playback.begin == before and not moment >= playback.end == before:
            self._jump(moment)
        self.say_if_cut(moment, before)

    def _jump(self, moment: float) -> None:
        self.playback.seek(moment)
        self._jumped()

    def say_if_cut(self, moment: float, before: float | None = None) -> None:
        """If a jump to `moment` has ended at an edge of the recording, or has begun (`before`) at
        the one that it was meant to reach."""
        begin, end = self.playback.begin, self.playback.end
        if moment < begin - CUT_SECONDS or moment <= begin == before:
            self.say_edge(-1)
        elif moment > end + CUT_SECONDS or moment >= end == before:
            self.say_edge(1)

    def skip(self, seconds: float) -> None:
        """Jump on or back."""
        self.seek(self.playback.now() + seconds)

    def say_edge(self, direction: float) -> None:
        """There is nothing further back (negative) or on."""
        recording = self.playback.recording
        what = "the last minutes begin" if self.is_past else "the recording begins"
        side, moment = "earlier", recording.begin
        if direction > 0:
            what = "the recording ends" if recording.closed else "the newest is"
            if self.is_past:
                what = "the newest was"
            side, moment = "later", recording.end
        at = wall_clock_text(recording.wall_time(moment))
        self._notify(f"There is no {side} reading: {what} at {at}.", self._place_title)

    @property
    def _place_title(self) -> str:
        """Of a notice about what it has."""
        return "In the last minutes" if self.is_past else "In this recording"

    def edge(self) -> None:
        """To the end; of a file that is still being written, to what comes."""
        self.seek(self.playback.end)
        if not self.playback.recording.closed:
            self.playback.play()
            self.changed.publish()

    def change_speed(self, steps: int) -> None:
        """Faster or slower."""
        now = self.playback.speed
        nearest = min(SPEEDS, key=lambda speed: abs(speed - now))
        place = SPEEDS.index(nearest) + steps
        speed = SPEEDS[max(0, min(len(SPEEDS) - 1, place))]
        if speed == now:
            self._notify(f"×{speed:g}: there is no further step.", "Speed")
        self.playback.speed = speed
        self.changed.publish()

    # ---------------------------------------------------------------------------- findings and runs

    @property
    def searches(self) -> bool:
        return bool(self._searching)

    def search(self, direction: int) -> None:
        """Search for the next or the previous finding that appears, or run, so many times. Goes on
        with a search that is running; one in the other direction takes one from it."""
        before, self._wanted_events = self._wanted_events, self._wanted_events + direction
        if not self._wanted_events:
            self.stop_search()
            self._notify("The search was ended.", self._place_title)
        elif before * self._wanted_events <= 0:
            self._search_worker = self._scheduler.run_worker(
                self._search, "search", "replay search", exclusive=True
            )

    def stop_search(self) -> None:
        if self._search_worker is not None:
            self._search_worker.cancel()
        self._searching, self._wanted_events = "", 0
        self.changed.publish()

    async def _search(self) -> None:
        self.playback.pause()
        direction = 1 if self._wanted_events > 0 else -1
        now, found = self.playback.now(), None
        while self._wanted_events * direction > 0:
            new = await self._find(direction, now)
            if new is None:
                break
            now, found = new.time, new
            self._wanted_events -= direction
        missing, self._wanted_events = self._wanted_events * direction, 0
        recording = self.playback.recording
        which = "next" if direction > 0 else "previous"
        if found is None:
            self._notify(
                f"No {which} warning, critical finding, change of a link or test was found. "
                f"Findings are looked for every {STEP_SECONDS:g} s.",
                self._place_title,
            )
            return
        self._jump(found.time)
        sentence = found.sentence
        if missing > 0:
            sentence += "\nNo further event was found."
        elif found.is_doubt:
            sentence += f"\nNo {which} event that is sure was found."
        self._notify(sentence, wall_clock_text(recording.wall_time(found.time)))

    async def _find(self, direction: int, now: float) -> RecordingEvent | None:
        """The event after or before a time of the recording."""
        recording = self.playback.recording
        look = event_after if direction > 0 else event_before
        which = "next" if direction > 0 else "previous"

        def show(moment: float) -> None:
            at = wall_clock_text(recording.wall_time(moment))
            self._searching = f"searching for the {which} event: {at}, esc cancels"
            self.changed.publish()

        try:
            show(now)
            return await look(recording, now, show)
        finally:
            self._searching = ""
            self.changed.publish()
