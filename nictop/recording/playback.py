"""Playback of a recording: one clock for all hosts, and a `Source` for each host.

`Playback` has the position and changes it: play, pause, step, seek, speed. Its sources yield what a
live host would have sent up to that position, with the recorded timing. Consumers differ from those
of a live host only in the clock: they use `Playback.now` in place of ``time.monotonic``. After a
jump (counted in `jumps`) a source yields the state one window earlier, then everything up to the
position: consumers must discard their state.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator

from nictop.probe.records import Line, Request
from nictop.recording.reader import NOT_YET, HostReader, RecordedItem, Recording
from nictop.wire.budget import INPUT_SECONDS, HostScheduler, host_scheduler
from nictop.wire.source import SourceState

HISTORY_SECONDS = 60.0
"""Seconds of counters that are yielded at once, so that rates, rules and charts have history."""
MIN_SPEED, MAX_SPEED = 0.1, 100.0
"""Recorded seconds per second."""
FILE_POLL_SECONDS = 1.0
"""Seconds between two checks of a file that is still being written."""
SLICE_SECONDS, LONG_SLICE_SECONDS = 0.01, 0.025
"""CPU seconds of reading after which other tasks get to run; and of a single item after which there
is always a pause, as a key needs several turns of the event loop."""
MAX_BURST_SECONDS, HOST_BURST_SECONDS = 1.5, 0.2
"""CPU seconds of reading without pauses, and in addition for each host: a jump in a usual recording
takes 0.2."""
CPU_SHARE, PAUSE_FACTOR = 0.5, 1.0
"""CPU seconds per second after that, as for live hosts; and the length of the pause after a slice,
as a multiple of the time it took."""
TIME_RESOLUTION_SECONDS = 1e-6
"""Seconds: times that are closer than this are the same."""
STEP_SEARCH_SECONDS = (3.0, 60.0, 600.0)
"""Seconds in which a step searches for counter records, one after the other; the first is enough at
the usual intervals."""
JUMP_SECONDS = 0.1
"""From a jump on, in which a key counts as the one for it."""
SLOWED_SECONDS = 1.0
"""After a pause, in which reading counts as slowed down."""
MAX_STEP_CPU_SECONDS = 0.4
"""After which this search ends with what it has found."""


class ReadingBudget:
    """The CPU time of reading a recording in an event loop: a file of a few bytes may take hours,
    in which keys have to be handled."""

    def __init__(self, host_count: int) -> None:
        self._burst = MAX_BURST_SECONDS + HOST_BURST_SECONDS * host_count
        self._remaining = self._burst
        self._refilled_at = self._restarted_at = time.monotonic()
        self._slice_used = 0.0
        self._free_at = 0.0
        """CLOCK_MONOTONIC until which nothing is read."""
        self._turn = asyncio.Lock()
        """Hosts read one after the other: after each slice keys are handled."""
        self._slowed_at: float | None = None

    @property
    def is_exceeded(self) -> bool:
        """Reading is slowed down: values come late."""
        return self._slowed_at is not None and time.monotonic() - self._slowed_at < SLOWED_SECONDS

    async def charge(self, begin: float) -> float:
        """What was read since `begin` (CPU seconds of this thread) is paid for; waits when a slice
        is used. Returns the begin of what follows."""
        self._slice_used += time.thread_time() - begin
        if self._slice_used < SLICE_SECONDS:
            return await self.begin()
        self._end_slice()
        await self._wait_for_turn()
        return time.thread_time()

    async def begin(self) -> float:
        """Wait while other hosts wait or pause. Returns the begin of what is read now."""
        if self._turn.locked():
            await self._wait_for_turn()
        return time.thread_time()

    def restart(self) -> None:
        """The position has jumped: what is there is read without pauses at first."""
        self._remaining = self._burst
        self._refilled_at = self._restarted_at = time.monotonic()

    def _is_input_new(self, scheduler: HostScheduler) -> bool:
        """There was a key just now that is not the one for the jump."""
        input_at = scheduler.quiet_until - INPUT_SECONDS
        return (
            scheduler.quiet_until > time.monotonic()
            and input_at > self._restarted_at + JUMP_SECONDS
        )

    def _end_slice(self) -> None:
        used, now = self._slice_used, time.monotonic()
        self._slice_used = 0.0
        gained = (now - self._refilled_at) * CPU_SHARE
        self._remaining = min(self._burst, self._remaining + gained) - used
        self._refilled_at = now
        if self._remaining < 0 or used >= LONG_SLICE_SECONDS:
            self._free_at = now + PAUSE_FACTOR * used
        if self._remaining < 0:
            self._slowed_at = self._free_at
            self._remaining += used  # it is paid for by waiting

    async def _wait_for_turn(self) -> None:
        """Hosts read in turn. Each looks by itself whether there is a pause: all of the others may
        have waited longer than the one that has caused it."""
        async with self._turn:
            scheduler = host_scheduler()
            if self._free_at <= time.monotonic() and not self._is_input_new(scheduler):
                await asyncio.sleep(0)
                return
            await scheduler.pause(self._free_at)
            self._refilled_at = time.monotonic()  # nothing is gained by waiting


class Playback:
    """The position in a recording. Times as in `Recording`."""

    def __init__(
        self,
        recording: Recording,
        *,
        window: float = HISTORY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.recording, self.window = recording, window
        self.jumps = 0
        """Number of discontinuities of time. What a source yields after `seek` has returned belongs
        to the new position."""
        self.playing = False
        self._speed = 1.0
        self._clock = clock
        self._position, self._set_at = recording.begin, clock()
        self._changed = asyncio.Event()
        self.budget = ReadingBudget(len(recording.hosts))

    def sources(self) -> tuple[PlaybackSource, ...]:
        """One source per host, in the order of the recording."""
        return tuple(self.source(name) for name in self.recording.hosts)

    def source(self, name: str, window: float | None = None) -> PlaybackSource:
        """A source of one host from the current position on; any number of independent sources may
        exist. `window`: seconds of history that it yields; None: the default of this playback."""
        return PlaybackSource(self, name, self.window if window is None else window)

    @property
    def begin(self) -> float:
        return self.recording.begin

    @property
    def end(self) -> float:
        """Grows while the file is being written."""
        return self.recording.end

    def now(self) -> float:
        """The current position: the clock of everything that follows the sources."""
        if not self.playing:
            return self._position
        return min(
            self._position + (self._clock() - self._set_at) * self._speed,
            max(self.end, self._position),
        )

    def wall_now(self) -> float:
        """The current position in seconds since the epoch."""
        return self.recording.wall_time(self.now())

    @property
    def at_end(self) -> bool:
        """There is nothing after the current position (yet)."""
        return self.now() >= self.end

    @property
    def speed(self) -> float:
        """Recorded seconds per second, `MIN_SPEED` to `MAX_SPEED`."""
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._rebase_clock()
        self._speed = min(max(speed, MIN_SPEED), MAX_SPEED)
        self._notify()

    def play(self) -> None:
        """Continue; a closed file that was played to its end starts again at its beginning."""
        if self.at_end and self.recording.closed:
            self.seek(self.begin)
        self._rebase_clock()
        self.playing = True
        self._notify()

    def pause(self) -> None:
        self._rebase_clock()
        self.playing = False
        self._notify()

    def seek(self, position: float) -> None:
        """Jump to a time, limited to the recording; playing or paused does not change."""
        self._position, self._set_at = min(max(position, self.begin), self.end), self._clock()
        self.jumps += 1
        self.budget.restart()
        self._notify()

    def step(self, count: int = 1) -> int:
        """Pause at the next (1) or previous (-1) counter record of any host, or as many as `count`;
        stays when there is none. A step back is a jump, a step forward is not. The result is the
        number of steps."""
        self.pause()
        for done in range(abs(count)):
            if count > 0:
                position = self._reading_after(self._position)
            else:
                position = self._reading_before(self._position)
            if position is None:
                return done
            if count > 0:
                self._position = position
                self._notify()
            else:
                self.seek(position)
        return abs(count)

    def _reading_after(self, position: float) -> float | None:
        begin = time.thread_time()
        for reach in STEP_SEARCH_SECONDS:
            times = self._readings(position + TIME_RESOLUTION_SECONDS, position + reach, begin)
            if (nearest := min(times, default=None)) is not None:
                return nearest
        return None

    def _reading_before(self, position: float) -> float | None:
        begin = time.thread_time()
        for reach in STEP_SEARCH_SECONDS:
            times = self._readings(position - reach, position - TIME_RESOLUTION_SECONDS, begin)
            if (nearest := max(times, default=None)) is not None:
                return nearest
        return None

    def _readings(self, since: float, until: float, begin: float) -> Iterator[float]:
        """Times of counter records of all hosts. `begin`: CPU seconds of this thread when the
        search began."""
        for name in self.recording.hosts:
            for found in self.recording.counter_time_steps(name, since, until):
                if found is not None:
                    yield found
                if time.thread_time() - begin > MAX_STEP_CPU_SECONDS:
                    return

    def _rebase_clock(self) -> None:
        """Set the base of the clock to the current position."""
        self._position, self._set_at = self.now(), self._clock()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, seconds: float | None = None) -> None:
        """Wait until it plays, pauses, jumps or changes its speed, for at most `seconds`."""
        waiting = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({waiting}, timeout=seconds)
        finally:
            waiting.cancel()

    def seconds_until(self, position: float) -> float | None:
        """Seconds until a time is reached at the present speed, 0 for one in the past; None: never,
        playback is paused."""
        missing = position - self.now()
        if missing <= 0:
            return 0.0
        return missing / self._speed if self.playing else None

    def wake(self) -> None:
        """Wake all waiting sources, so that they check their state again."""
        self._notify()


class PlaybackSource:
    """One host of a playback; implements `Source`."""

    pids: tuple[int, ...] = ()

    def __init__(self, playback: Playback, name: str, window: float) -> None:
        self.name = name
        self._playback, self._window = playback, window
        self._closed = False
        self._last_item_time: float | None = None
        self._read: tuple[float, float, float] | None = None
        """Times of the first item that is read up to a position, of the last one so far, and the
        position; None: there was no item yet."""
        self._read_jumps = 0
        """`Playback.jumps` of that position."""
        self._caught_up = asyncio.Event()
        self._caught_up_jumps: int | None = None
        """`Playback.jumps` when it had caught up."""

    def last_item_time(self) -> float:
        """Time of the last yielded item; the current position before the first one."""
        return self._playback.now() if self._last_item_time is None else self._last_item_time

    @property
    def is_catching_up(self) -> bool:
        """Not all items up to the position at the start of iteration were taken, or the position
        has jumped since."""
        return self._caught_up_jumps != self._playback.jumps

    @property
    def read_share(self) -> float | None:
        """While it is catching up: of the time before the position, what is read; None: not known
        yet."""
        if self._read is None or self._read_jumps != self._playback.jumps:
            return None
        first, last, position = self._read
        if position <= first:
            return None
        return min(1.0, (last - first) / (position - first))

    async def wait_until_caught_up(self) -> None:
        """Wait until all items up to the position at the start of iteration were taken."""
        await self._caught_up.wait()

    async def items(self) -> AsyncGenerator[Line | SourceState, None]:
        """See `Source.items`. At the end of the recording it waits for a jump, or for more data in
        the file."""
        playback = self._playback
        while not self._closed:
            jumps = playback.jumps
            now = playback.now()
            self._read, self._read_jumps = None, jumps
            reader = await self._begin(now, jumps)
            cpu = await playback.budget.begin()
            while reader is not None and not self._closed and playback.jumps == jumps:
                recorded = reader.step()
                cpu = await playback.budget.charge(cpu)
                if recorded is NOT_YET:
                    continue
                if recorded is not None:
                    first = recorded.time if self._read is None else self._read[0]
                    self._read = first, recorded.time, now
                if recorded is None or recorded.time > now:
                    self._caught_up_jumps = jumps
                    self._caught_up.set()
                if recorded is None:
                    await self._wait_for_more()
                    cpu = await playback.budget.begin()
                    continue
                if recorded.time > now:
                    if not await self._is_due(recorded, jumps):
                        break
                    cpu = await playback.budget.begin()
                if recorded.received is not None:
                    self._last_item_time = recorded.time
                    yield recorded.received

    async def _begin(self, now: float, jumps: int) -> HostReader | None:
        """A reader that begins a window before the position; None: a jump or the end of the source
        came first."""
        playback = self._playback
        cpu = await playback.budget.begin()
        steps = playback.recording.start_time_steps(self.name, now, self._window)
        while not self._closed and playback.jumps == jumps:
            try:
                next(steps)
            except StopIteration as end:
                return playback.recording.reader(self.name, end.value, with_history=True)
            cpu = await playback.budget.charge(cpu)
        return None

    async def _is_due(self, recorded: RecordedItem, jumps: int) -> bool:
        """Wait until the time of the item; False: a jump or the end of the source came first."""
        while not self._closed and self._playback.jumps == jumps:
            wait = self._playback.seconds_until(recorded.time)
            if wait == 0.0:
                return True
            await self._playback.wait_for_change(wait)
        return False

    async def _wait_for_more(self) -> None:
        """No more data in the file: wait for a change or for growth of the file."""
        recording = self._playback.recording
        if recording.closed:
            await self._playback.wait_for_change()
        elif not recording.refresh():
            await self._playback.wait_for_change(FILE_POLL_SECONDS)

    async def request(self, request: Request) -> None:
        """Ignored: requests are part of the recording."""

    async def close(self) -> None:
        """See `Source.close`. The playback and its file stay open."""
        self._closed = True
        self._playback.wake()
