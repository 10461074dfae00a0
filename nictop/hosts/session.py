"""One host while it is watched: the newest snapshot, history, rates of the last minute, and
connection status.

`HostSession.process` is the only place where an item of a source becomes the next snapshot. Live,
recorded and scraped hosts differ in the `Source` and the clock that the constructor is given; the
items of a recording may also be given to `process` one by one. `read_local_clock` reads the boot id
of this machine; nothing else here does I/O of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Literal

from nictop.hosts.brief_reason import brief_reasons
from nictop.hosts.specification import LOCAL, RECORDED, Host
from nictop.hosts.start import StartSteps, StepName
from nictop.model.clock_step import ClockStep, clock_step
from nictop.model.history import History
from nictop.model.reboot import MAX_REBOOTS, Reboot, reboot_between
from nictop.model.snapshot import (
    SILENT_AFTER_SECONDS,
    Snapshot,
    advance,
    has_platform,
    is_outage,
    links_of_rated_drivers,
    reading_notice,
    watchable_links,
    with_silence,
    with_state,
)
from nictop.model.text import units
from nictop.model.text.terminal import fit, width
from nictop.model.time_axis import LocalClock, axis_time
from nictop.model.window import RatesWindow
from nictop.probe.light_dataclasses import replace
from nictop.probe.protocol.requests import MAX_WATCHED_LINKS
from nictop.probe.records import Clock, Hello, Line, Request
from nictop.wire.budget import OVERLOADED_MESSAGE
from nictop.wire.errors import internal_error_text
from nictop.wire.slowness import Slowness
from nictop.wire.source import Source, SourceState, merge_settings
from nictop.wire.timeout import with_timeout

if TYPE_CHECKING:
    from nictop.model.guests.agent_facts import AgentsTold
    from nictop.rules import HostFacts

HISTORY_LENGTH = 600
"""Samples per series: ten minutes at 1 Hz, more than the widest chart has columns."""

MAX_BRIEF_CELLS = 42
"""Of the longest `HostSession.brief_text`."""
MIN_REASON_CELLS = 6
"""Of the reason in it."""

START_LIMITS: dict[StepName, float] = {"probe": 15.0, "links": 10.0, "inventory": 10.0}
"""Step of the start → seconds that it may take on a usual host; where it takes longer, all that is
waited for from this host may (`wire.slowness`)."""

LATE_REASON = "the connection is too slow, read less often (-, --interval)"
HELD_UP_REASON = "the connection is slow, or it or the host stood still"
MIN_LATE_READINGS = 3
"""One after the other at the pace at which they were made, until the connection is said to be too
slow: after a pause of the host or of the network those that waited come at once."""
MIN_PACE = 0.5
"""Time between the receipts of two readings / time between the readings."""
LATE_AFTER_SECONDS = 1.0
"""A reading is said to be old when the next one is late by so much."""
MIN_RETRY_WAIT = 2.0
"""Seconds until the next attempt from which on the key for one now is worth its room."""
READING_A_RECORDING = "reading the recording"

ConnectionStatus = Literal["connecting", "live", "silent", "overloaded", "lost", "failed"]
"""`Snapshot.state`, and two kinds of live: silent: it has sent nothing for some time, or nothing
new, because its connection is too slow; overloaded: it sends more than is processed
(`wire.budget`)."""

Item = Line | SourceState
ItemCallback = Callable[[Item, Snapshot], object]
"""Called with an item of the source and the snapshot after it."""


class HostSession:
    """A watched host.

    `source`: where its items come from; None: not connected yet, or `process` is given the items.
    `clock`: the time at which an item is received, in seconds: CLOCK_MONOTONIC of this machine, or
    for a recording that of the machine that recorded. `interval`: seconds between two counter
    records that the source was created with. `history`, `window`: store the rates that charts
    (`HISTORY_LENGTH` samples) and rules (`RatesWindow`) use. `watch_devices`: request queue and
    driver counters of `watchable_links` after every inventory that has other ones; `watch_rated`:
    beside those that are requested only of `links_of_rated_drivers`. `memory_share`:
    of the memory that history and window of one host may use.
    """

    def __init__(
        self,
        host: Host,
        source: Source | None = None,
        *,
        clock: Callable[[], float] = monotonic,
        interval: float = 1.0,
        history: bool = False,
        window: bool = True,
        watch_devices: bool = False,
        watch_rated: bool = False,
        memory_share: float = 1.0,
    ) -> None:
        self.host, self.name = host, host.label if source is None else source.name
        is_replayed = host.address == RECORDED
        self.snapshot = replace(Snapshot.empty(self.name), is_replayed=is_replayed)
        self.history, self.window = History(HISTORY_LENGTH, memory_share), RatesWindow(memory_share)
        """Empty if they are not stored."""
        self.received_at: float | None = None
        """When its newest line was received; None: none was."""
        self.counted_at: float | None = None
        """The same of its newest counters."""
        self.late_by = 0.0
        """Seconds that its newest counters had been waiting, at least, when they were received: the
        connection is slower than its readings, or it or the host stood still."""
        self._late_readings = 0
        """So many in a row were late, and came at their pace."""
        self._last_reading: tuple[float, float] | None = None
        """Time of the newest counters on the clock of the host, and when they were received."""
        self.retry_at: float | None = None
        """When the next attempt to connect begins; None: no attempt is scheduled."""
        self.start = StartSteps(is_remote=host.address not in (LOCAL, RECORDED))
        """What of it is reached and read already."""
        self.reason = ""
        """Why it is not live, and what to do next; stays during the next attempts, until it is
        live."""
        self.reboots: list[Reboot] = []
        """Since it is watched, oldest first."""
        self.clock_step: ClockStep | None = None
        """The newest one of its time of day, since its last reboot."""
        self.overloaded = False
        """It sends more than is processed."""
        self.slowness = Slowness()
        """By what its start and its answers to requests took."""
        self._is_silent = False
        """It was given up because nothing was received for too long, and is connected to again."""
        self.rechecked = False
        """Its probe was requested to read again every few seconds, because there are findings."""
        self.is_closed = False
        """Nothing is waited for any more."""
        self.in_run = False
        """A traffic run measures it: nothing is requested from it that costs CPU time."""
        self.run_interval: float | None = None
        """Seconds between two readings while a run measures it; None: those of `settings`."""
        self.settings = Request(interval=interval, watch=())
        """What was requested of its probe, except for the time of a run."""
        self._source, self._clock = source, clock
        self._stores_history, self._stores_window, self._watches_devices = (
            history,
            window,
            watch_devices,
        )
        self._watches_rated = watch_rated
        self._requested_devices: tuple[int, ...] = ()
        """Those of the newest request."""
        self._rated_devices: tuple[int, ...] = ()
        self._watched_devices: tuple[int, ...] = ()
        self._subscribers: list[ItemCallback] = []

    @property
    def source(self) -> Source:
        assert self._source is not None, "the session has no source"
        return self._source

    @property
    def facts(self) -> HostFacts:
        """The host as the rules see it."""
        from nictop.rules import HostFacts

        return HostFacts(self.snapshot, self.window.parts)

    # ----------------------------------------------------------------------------------- connection

    def replace_source(self, source: Source) -> None:
        """Continue with another source of the same host. To subscribers the connection is lost:
        what they waited for does not come any more."""
        if self._source is not None:
            lost = SourceState("lost", "reconnected")
            self._publish(lost, with_state(self.snapshot, lost.state, lost.message))
        self._source, self.retry_at, self.rechecked, self.overloaded = source, None, False, False
        self._watched_devices, self._rated_devices = (), ()

    def fail(self, reason: str) -> Snapshot:
        """It is watched no longer, for this reason."""
        failed = SourceState("failed", reason)
        self.reason, self.retry_at = reason, None
        self.snapshot = with_state(self.snapshot, "failed", reason)
        self.start.process_state(failed, self._clock())
        self._publish(failed, self.snapshot)
        return self.snapshot

    def note_agents(self, told: AgentsTold) -> None:
        """What the agents of its guests have told, in place of what they told before."""
        self.snapshot = replace(self.snapshot, agents=told)

    async def close(self) -> None:
        """Close the source, if there is one."""
        self.is_closed = True
        if self._source is not None:
            await self._source.close()

    # ------------------------------------------------------------------------------------- requests

    async def request(self, request: Request) -> None:
        """Send a request to the probe. Interval and watched links are sent at the end of a run that
        uses others."""
        if request.watch is not None and self._watches_rated:
            self._requested_devices = request.watch
            watched = tuple(dict.fromkeys((*request.watch, *self._rated_devices)))
            request = replace(request, watch=watched[:MAX_WATCHED_LINKS])
        self.settings = merge_settings(self.settings, request)
        if self.in_run:
            request = replace(request, interval=None, watch=None)
        if request != Request():
            await self.source.request(request)

    async def join_run(self, interval: float, ifindex: int | None) -> None:
        """Read at least this often (seconds) and count the queues of this NIC too, until
        `leave_run`."""
        watch = self.settings.watch or ()
        if ifindex is not None:
            watch = tuple(dict.fromkeys((ifindex, *watch)))[:MAX_WATCHED_LINKS]
        self.in_run = True
        interval = self.run_interval = min(interval, self.settings.interval or interval)
        await self.source.request(Request(interval=interval, watch=watch))

    async def leave_run(self) -> None:
        """Read with the settings outside a run again."""
        self.in_run, self.run_interval = False, None
        await self.source.request(
            Request(interval=self.settings.interval, watch=self.settings.watch)
        )

    # ---------------------------------------------------------------------------------------- items

    def subscribe(self, callback: ItemCallback) -> Callable[[], None]:
        """Call `callback` after every item from now on; the returned function ends that."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def _publish(self, item: Item, snapshot: Snapshot) -> None:
        for callback in tuple(self._subscribers):
            callback(item, snapshot)

    async def until(self, condition: Callable[[], object], timeout: float) -> bool:
        """`until` of this session alone."""
        return await until((self,), condition, timeout)

    def process(self, item: Item, now: float | None = None) -> Snapshot:
        """Update everything with one item; the snapshot after it. `now`: when it was received;
        None: read the clock."""
        if now is None:
            now = self._clock()
        if isinstance(item, SourceState):
            snapshot = with_state(self.snapshot, item.state, item.message)
            self._process_state(item, snapshot, now)
        else:
            snapshot = advance(self.snapshot, item)
            if item.hello is not None:
                self._note_hello(item.hello, now)
            if item.inventory is not None:
                step = clock_step(self.snapshot, snapshot, now)
                self.clock_step = step or self.clock_step
            self.received_at, self.retry_at = now, None
            if item.counters is not None:
                self.counted_at = now
                self.late_by = _lateness(snapshot.clock, item.counters.time, now)
                self._note_pace(item.counters.time, now)
            if item.trouble is not None and item.trouble.about == "inventory":
                self.start.process_stopped(now)
            self.start.process_line(item, snapshot, now)
            if item.inventory is not None:
                self._note_start(now)
        if snapshot.state == "live":
            self.reason = ""
        else:
            self.overloaded = False
        self.snapshot = snapshot
        if self._stores_history:
            self.history.record(snapshot, self.run_interval or self.settings.interval or 0.0)
        if self._stores_window:
            self.window.add(snapshot)
        self._publish(item, snapshot)
        return snapshot

    def note_silence(self, now: float, interval: float) -> bool:
        """Whether nothing comes of the host any more, and its snapshot was one of before that until
        now."""
        if self.snapshot.silence is not None or self.age(now) is None:
            return False
        if self.snapshot.state == "live" and not self._is_cut_off(now, interval):
            return False
        self.snapshot = with_silence(self.snapshot)
        return True

    def _is_cut_off(self, now: float, interval: float) -> bool:
        """Not only late: that is said in another way."""
        if not self._is_late:
            return self.is_overdue(now, interval)
        return self.received_at is not None and is_silent(now - self.received_at, interval)

    def _note_pace(self, time: float, now: float) -> None:
        """Whether late readings come at their pace. `time`: of the newest one, on its host."""
        before, self._last_reading = self._last_reading, (time, now)
        at_pace = before is not None and now - before[1] >= MIN_PACE * (time - before[0]) > 0
        self._late_readings = self._late_readings + 1 if self._is_late and at_pace else 0

    def _note_start(self, now: float) -> None:
        for step in self.start.steps(now):
            if step.name in START_LIMITS and step.seconds is not None:
                self.slowness.note(step.seconds, START_LIMITS[step.name])

    def _note_hello(self, hello: Hello, now: float) -> None:
        found = reboot_between(self.snapshot.hello, hello, self.received_at, now)
        if found is not None:
            self.reboots = [*self.reboots, found][-MAX_REBOOTS:]
            self.clock_step = None

    @property
    def reboot(self) -> Reboot | None:
        """The newest one; None: none is known."""
        return self.reboots[-1] if self.reboots else None

    def _process_state(self, item: SourceState, snapshot: Snapshot, now: float) -> None:
        self.retry_at = None if item.retry_in is None else now + item.retry_in
        self.reason = item.message or self.reason
        if item.state in ("lost", "failed"):
            self._is_silent = item.silent
        if item.state == "live" and item.stage is not None:
            self.received_at = now  # it has said how much of the probe it has
        self.start.process_state(item, now)
        if item.overloaded is not None:
            self.overloaded = item.overloaded

    async def follow(self) -> AsyncGenerator[Snapshot, None]:
        """Process the items of the source until it ends; yields the snapshot after each."""
        async for item in self.source.items():
            snapshot = self.process(item)
            has_inventory = isinstance(item, Line) and item.inventory is not None
            if has_inventory and self._watches_devices:
                await self._watch_devices(snapshot)
            if has_inventory and self._watches_rated:
                await self._watch_rated(snapshot)
            yield snapshot

    async def _watch_devices(self, snapshot: Snapshot) -> None:
        """Ask for counters of the links with a device, if these are others than before."""
        devices = watchable_links(snapshot.links.values())
        if devices != self._watched_devices:
            self._watched_devices = devices
            await self.request(Request(watch=devices))

    async def _watch_rated(self, snapshot: Snapshot) -> None:
        """Ask for what rules need beside what is requested, if that is something else than
        before."""
        devices = links_of_rated_drivers(snapshot.links.values())
        if devices != self._rated_devices:
            self._rated_devices = devices
            await self.request(Request(watch=self._requested_devices))

    async def run(self) -> None:
        """Process the items of the source until it ends. The session has failed after an error of
        nictop itself."""
        try:
            async for _ in self.follow():
                pass
        except Exception as error:  # other hosts continue
            self.fail(internal_error_text(error))

    # --------------------------------------------------------------------------------------- status

    @property
    def is_catching_up(self) -> bool:
        """A recording: what is before the position that was chosen is still being read."""
        return getattr(self._source, "is_catching_up", False)

    @property
    def _recording_text(self) -> str:
        """``reading the recording, 37 %``: of the time before the position."""
        share = getattr(self._source, "read_share", None)
        if share is None:
            return READING_A_RECORDING
        return f"{READING_A_RECORDING}, {units.percentage(share)}"

    @property
    def is_unreachable(self) -> bool:
        """The connection is lost, or will never be there."""
        return self.snapshot.state in ("lost", "failed")

    @property
    def is_given_up(self) -> bool:
        """As `is_unreachable`, for a command that waits for one answer: another attempt to reach a
        host that only was silent for too long is waited for."""
        return self.is_unreachable and not (self.snapshot.state == "lost" and self._is_silent)

    @property
    def has_readings(self) -> bool:
        """Inventory and counters were received."""
        return self.snapshot.inventory is not None and self.snapshot.counters is not None

    @property
    def is_readable(self) -> bool:
        """It is reached, and as much of it is read as the rules need."""
        if self.is_unreachable or not self.has_readings:
            return False
        return has_platform(self.snapshot)

    def age(self, now: float) -> float | None:
        """How old what was received last is, in seconds; None: nothing was, or newer lines are
        being read."""
        if self.received_at is None or self.is_catching_up:
            return None
        return max(0.0, now - self.received_at) + self.late_by

    def status(self, now: float, interval: float) -> ConnectionStatus:
        """How the connection is, if the host sends something every `interval` seconds."""
        state = self.snapshot.state
        if self.is_overdue(now, interval):
            return "silent"
        return "overloaded" if state == "live" and self.overloaded else state

    def is_overdue(self, now: float, interval: float) -> bool:
        """It is live and nothing that it has sent is new. Not before its first reading, which takes
        longer: until then the step that is waited for is said."""
        if self.snapshot.state != "live" or self._awaits_first_reading(now):
            return False
        return is_silent(self.age(now), interval)

    def late_seconds(self, now: float, interval: float) -> float | None:
        """Age of the newest reading of a live host whose next one should have come; None: it is of
        now, or so old that `is_overdue` says so."""
        age = self.age(now)
        if self.snapshot.state != "live" or age is None or age <= interval + LATE_AFTER_SECONDS:
            return None
        return None if self.is_overdue(now, interval) else age

    def _awaits_first_reading(self, now: float) -> bool:
        has_none = self.snapshot.inventory is None and self.snapshot.counters is None
        return has_none and self.start.active(now) is not None

    def status_text(self, now: float, interval: float) -> str:
        """``live``, ``overloaded``, ``logging in, 4 s``, ``no data for 8 s``, ``reconnecting in 4
        s``, ``reconnecting``, ``failed``; of a host that has sent nothing yet ``retry in 4
        s``, ``connecting``; of a recording ``reading the recording``."""
        if self.is_catching_up:
            return self._recording_text
        status, age = self.status(now, interval), self.age(now)
        if status == "silent":
            return self.old_text(now)
        if status == "lost":
            return self._lost_text(now)
        if status == "connecting" and age is not None:
            return "reconnecting"
        if status in ("connecting", "live"):
            return self.start.active_text(now) or status
        return status

    @property
    def _is_late(self) -> bool:
        return self.late_by > SILENT_AFTER_SECONDS

    def old_text(self, now: float) -> str:
        """``no data for 8 s``, ``values are 24 s old``"""
        age = units.whole_seconds(self.age(now) or 0.0)
        if self._is_late:
            return f"values are {age} old"
        return f"no data for {age}"

    def _lost_text(self, now: float) -> str:
        has_sent = self.age(now) is not None
        if self.retry_at is None:
            return "reconnecting" if has_sent else "connecting"
        left = units.whole_seconds(max(0.0, self.retry_at - now))
        return f"reconnecting in {left}" if has_sent else f"retry in {left}"

    def waits_to_retry(self, now: float) -> bool:
        """The next attempt to connect is some seconds away."""
        return self.retry_at is not None and self.retry_at - now >= MIN_RETRY_WAIT

    def doing_text(self, now: float) -> str:
        """The step that is waited for: ``logging in, 4 s``; "": none."""
        if self.is_catching_up:
            return self._recording_text
        return self.start.active_text(now)

    @property
    def has_failed(self) -> bool:
        """It is not reached, and the newest attempt that has ended says why."""
        return self.snapshot.state == "failed" or bool(self.reason)

    def brief_text(self, now: float, interval: float, cells: int = MAX_BRIEF_CELLS) -> str:
        """`status_text` with the reason in a few words: ``refused, retry in 4 s``, ``refused;
        attempt 2, 3 s``, ``failed: permission denied``. Where it is wider than `cells`, it has
        fewer words, not cut ones: ``handshake; attempt 2``, ``failed``."""
        if not self.reason:
            return self.status_text(now, interval)
        reasons = brief_reasons(self.reason)
        if self.snapshot.state == "failed":
            texts = [*(f"failed: {reason}" for reason in reasons), "failed"]
        else:
            ends = self._after_reason(now, interval)
            texts = [reason + end for end in ends for reason in reasons]
        for text in texts:
            if width(text) <= cells:
                return text
        if self.snapshot.state == "failed":
            return texts[-1]
        room = max(MIN_REASON_CELLS, cells - width(ends[-1]))
        return fit(reasons[-1], min(width(reasons[-1]), room)) + ends[-1]

    def _after_reason(self, now: float, interval: float) -> Sequence[str]:
        """What follows, and in fewer words: when it is tried again, or for how long it has been."""
        if self.retry_at is not None:
            left = self.retry_at - now
            if left <= 0.5:  # the seconds of the attempt, which count up, follow
                return (", retrying",)
            seconds = units.whole_seconds(left)
            return f", retry in {seconds}", f", in {seconds}"
        step = self.start.active(now)
        if step is None:
            return (f"; {self.status_text(now, interval)}",)
        attempt = self.start.attempt
        seconds = units.whole_seconds(self.start.attempt_seconds(now) // 1)
        return f"; attempt {attempt}, {seconds}", f"; attempt {attempt}"

    def age_text(self, now: float, interval: float) -> str:
        """``no data for 12 s`` if it is not live and `status_text` does not say it; "" if nothing
        was received."""
        age = self.age(now)
        if age is None or self.status(now, interval) in ("live", "overloaded", "silent"):
            return ""
        return f"no data for {units.whole_seconds(age)}"

    def outage_text(self, now: float, interval: float) -> str:
        """``no data for 12 s``, ``values are 24 s old`` of a host that is not live; "" of one whose
        values are those of now, or of which nothing was received."""
        if self.status(now, interval) == "silent":
            return self.old_text(now)
        return self.age_text(now, interval)

    def reboot_notice(self, now: float) -> str:
        """For some time after it was noticed."""
        if self.reboot is None or not self.reboot.is_new(now):
            return ""
        return self.reboot.text(now)

    def clock_notice(self, now: float) -> str:
        """For some time after it was noticed."""
        if self.clock_step is None or not self.clock_step.is_new(now):
            return ""
        return self.clock_step.text(now)

    def notice(self, now: float, interval: float, *, named: bool = False) -> str:
        """The line above the values of a host: why it is not live, what happens next, and how old
        the values are; for a live one that it has rebooted, that its time of day jumped, the newest
        error of its probe, or that it was changed since it was read (`named`: with the name of the
        host). "" if there is none of these."""
        status, age = self.status(now, interval), self.age_text(now, interval)
        if status == "live":
            newest = self.snapshot.message or reading_notice(self.snapshot)
            text = " · ".join(
                filter(None, (self.reboot_notice(now), self.clock_notice(now), newest))
            )
            return f"{self.name}: {text}" if text and named else text
        if status == "overloaded":
            return OVERLOADED_MESSAGE
        if status == "silent" and self._is_late:
            is_slow = self._late_readings >= MIN_LATE_READINGS
            return f"{self.old_text(now)}: {LATE_REASON if is_slow else HELD_UP_REASON}"
        reason = self.reason or self.snapshot.message
        if not reason and not age:
            return ""
        return " · ".join(filter(None, (reason, self.status_text(now, interval), age)))


def slowest_factor(sessions: Iterable[HostSession]) -> float:
    """That by which time limits of all of them are longer."""
    return max(session.slowness.factor for session in sessions)


async def until(
    sessions: Iterable[HostSession], condition: Callable[[], object], timeout: float
) -> bool:
    """Wait until an item of one of the sessions makes `condition` true; False: none did within
    `timeout` seconds."""
    end = monotonic() + timeout
    changed = asyncio.Event()
    with ExitStack() as subscriptions:
        for session in sessions:
            subscriptions.callback(session.subscribe(lambda *_: changed.set()))
        while not condition():
            changed.clear()
            try:
                await with_timeout(end - monotonic(), changed.wait())
            except asyncio.TimeoutError:
                return bool(condition())
        return True


@asynccontextmanager
async def running(*sessions: HostSession) -> AsyncGenerator[None, None]:
    """Process the items of these sessions inside the block; their sources are closed at its end."""
    tasks = [asyncio.ensure_future(session.run()) for session in sessions]
    try:
        yield
    finally:
        await asyncio.gather(*(session.close() for session in sessions), return_exceptions=True)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _lateness(clock: Clock | None, time: float, now: float) -> float:
    """Seconds, at least, from the `time` of a reading on its host until `now`; 0.0: none, or the
    clock of the host is not known."""
    if clock is None:
        return 0.0
    taken = axis_time(clock, time)
    return max(0.0, now - taken.time - taken.uncertainty)


def is_silent(age: float | None, interval: float) -> bool:
    """Whether something that comes every `interval` seconds is overdue; `age`: seconds since the
    newest, None: none."""
    return age is not None and is_outage(age, interval)


def read_local_clock(monotonic_now: float, wall_now: float) -> LocalClock:
    """This machine's clocks (seconds, CLOCK_MONOTONIC and since the epoch), to compare those of
    hosts with."""
    return LocalClock(monotonic_now, wall_now, _read_boot_id())


@lru_cache(maxsize=1)  # it is that of the running kernel
def _read_boot_id(path: str = "/proc/sys/kernel/random/boot_id") -> str:
    """ "" if it cannot be read: then no host is known to share this machine's clock."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
