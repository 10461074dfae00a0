"""A recording played back: one clock for all hosts, and a `Source` for each.

`Playback` says where it is, and moves: play, pause, step, seek, speed. Its sources yield what a live host would have
said by then, in their own time; nobody who follows one of them can tell, but for the clock: what reads
``time.monotonic`` for a live host reads `Playback.now` for a recorded one. After a jump (`jumps` counts them) a source
yields what was known a window earlier, then everything up to now: whoever follows has to forget what it knew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

from nictop.probe.records import Line, Request
from nictop.recording.reader import HostReader, RecordedItem, Recording
from nictop.wire.source import SourceState

WINDOW = 60.0
"""Seconds of counters that are yielded at once, so that rates, rules and charts have a past."""
SLOWEST, FASTEST = 0.1, 100.0
GROWTH = 1.0
"""Seconds between two looks at a file that is still being written."""
BREATH = 16
"""Items of the past that are yielded in one go before others have their turn."""
NEAREST = 1e-6
"""Seconds between two moments that are not the same."""
STEP_REACHES = (3.0, 60.0, 600.0)
"""Seconds in which a step looks for a reading, one after the other; nothing is read in vain at the usual intervals."""


class Playback:
    """Where the playback of a recording is. Times as in `Recording`."""

    def __init__(
        self, recording: Recording, *, window: float = WINDOW, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.recording, self.window = recording, window
        self.jumps = 0
        """How often time has not simply gone on. What a source yields after `seek` has returned belongs to the new
        place."""
        self.playing = False
        self._speed = 1.0
        self._clock = clock
        self._place, self._since = recording.begin, clock()
        self._changed = asyncio.Event()

    def sources(self) -> tuple[PlaybackSource, ...]:
        """One per host of the recording, in its order."""
        return tuple(self.source(name) for name in self.recording.hosts)

    def source(self, name: str, window: float | None = None) -> PlaybackSource:
        """Of one host, from this moment on; as many as are wanted, they do not know each other. `window`: seconds of
        the past that it yields; None: the usual ones."""
        return PlaybackSource(self, name, self.window if window is None else window)

    @property
    def begin(self) -> float:
        return self.recording.begin

    @property
    def end(self) -> float:
        """Grows while the file does."""
        return self.recording.end

    def now(self) -> float:
        """The moment that is shown: the clock for everything that follows the sources."""
        if not self.playing:
            return self._place
        return min(self._place + (self._clock() - self._since) * self._speed, max(self.end, self._place))

    def wall_now(self) -> float:
        """The same in seconds since the epoch."""
        return self.recording.wall(self.now())

    @property
    def at_end(self) -> bool:
        """There is nothing after this moment (yet)."""
        return self.now() >= self.end

    @property
    def speed(self) -> float:
        """Recorded seconds per second, `SLOWEST` to `FASTEST`."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._hold()
        self._speed = min(max(speed, SLOWEST), FASTEST)
        self._tell()

    def play(self) -> None:
        """Go on; from the beginning when a closed file has been played to its end."""
        if self.at_end and self.recording.closed:
            self.seek(self.begin)
        self._hold()
        self.playing = True
        self._tell()

    def pause(self) -> None:
        self._hold()
        self.playing = False
        self._tell()

    def seek(self, moment: float) -> None:
        """Jump to a moment, as near as the recording has it; playing or not goes on as it was."""
        self._place, self._since = min(max(moment, self.begin), self.end), self._clock()
        self.jumps += 1
        self._tell()

    def step(self, count: int = 1) -> None:
        """Pause at the next (1) or an earlier (-1) reading of any host, as many as `count`; stays where there is none.
        Back is a jump, forward is not."""
        self.pause()
        for _ in range(abs(count)):
            moment = self._reading_after(self._place) if count > 0 else self._reading_before(self._place)
            if moment is None:
                return
            if count > 0:
                self._place = moment
                self._tell()
            else:
                self.seek(moment)

    def _reading_after(self, moment: float) -> float | None:
        for reach in STEP_REACHES:
            if times := self._readings(moment + NEAREST, moment + reach):
                return min(times)
        return None

    def _reading_before(self, moment: float) -> float | None:
        for reach in STEP_REACHES:
            if times := self._readings(moment - reach, moment - NEAREST):
                return max(times)
        return None

    def _readings(self, since: float, until: float) -> list[float]:
        return [time for name in self.recording.hosts for time in self.recording.counted(name, since, until)]

    def _hold(self) -> None:
        """What is now becomes what the clock counts from."""
        self._place, self._since = self.now(), self._clock()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self, seconds: float | None = None) -> None:
        """Wait until it plays, pauses, jumps or changes its speed, at most these seconds."""
        waiting = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({waiting}, timeout=seconds)
        finally:
            waiting.cancel()

    def seconds_until(self, moment: float) -> float | None:
        """How long it takes at this speed, 0 for what has been; None: for ever, it does not play."""
        missing = moment - self.now()
        if missing <= 0:
            return 0.0
        return missing / self._speed if self.playing else None

    def wake(self) -> None:
        """Let everybody who waits look again."""
        self._tell()


class PlaybackSource:
    """One host of a playback; a `Source` like that of a live one."""

    pids: tuple[int, ...] = ()

    def __init__(self, playback: Playback, name: str, window: float) -> None:
        self.name = name
        self._playback, self._window = playback, window
        self._closed = False
        self._said_at: float | None = None
        self._past = asyncio.Event()

    def said_at(self) -> float:
        """When what was yielded last had been heard; now, before anything was."""
        return self._playback.now() if self._said_at is None else self._said_at

    async def caught_up(self) -> None:
        """Wait until everything was taken that had been heard when it began to be followed."""
        await self._past.wait()

    async def items(self) -> AsyncGenerator[Line | SourceState, None]:
        """See `Source.items`. At the end of the recording it waits for a jump, or for more to be written."""
        playback = self._playback
        while not self._closed:
            jumps = playback.jumps
            recording, now = playback.recording, playback.now()
            reader = recording.reader(self.name, recording.since(self.name, now, self._window))
            given = 0
            while not self._closed and playback.jumps == jumps:
                heard = reader.next()
                if heard is None or heard.time > now:
                    self._past.set()
                if heard is None:
                    await self._more(reader, jumps)
                    continue
                if not await self._is_due(heard, jumps):
                    break
                if not isinstance(heard.item, Request):
                    self._said_at = heard.time
                    yield heard.item
                    given += 1
                    if given % BREATH == 0:
                        await asyncio.sleep(0)

    async def _is_due(self, heard: RecordedItem, jumps: int) -> bool:
        """Wait for its moment; False: it will never come."""
        while not self._closed and self._playback.jumps == jumps:
            wait = self._playback.seconds_until(heard.time)
            if wait == 0.0:
                return True
            await self._playback.change(wait)
        return False

    async def _more(self, reader: HostReader, jumps: int) -> None:
        """Nothing more is in the file: wait for what may change that."""
        recording = self._playback.recording
        if recording.closed:
            await self._playback.change()
        elif not recording.refresh():
            await self._playback.change(GROWTH)

    async def request(self, request: Request) -> None:
        """What was asked is part of the recording."""

    async def close(self) -> None:
        """See `Source.close`. The playback and its file stay open."""
        self._closed = True
        self._playback.wake()
