"""One host as the screens follow it: its source, the newest picture, the past, and how the connection is.

Reads the boot id of this machine (`read_here`), nothing else. `HostSession.follow` yields a snapshot after every line
of the source and keeps history, window and the state of the connection up to date; another source (`take_over`)
continues all of it, with a gap where nothing was heard.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from functools import lru_cache
from time import monotonic
from typing import Literal

from nictop.hosts.observe import followed
from nictop.hosts.specification import Host
from nictop.model.history import History
from nictop.model.snapshot import Snapshot, with_state
from nictop.model.text import units
from nictop.model.time_axis import LocalClock
from nictop.model.window import RatesWindow
from nictop.probe.records import Line, Request
from nictop.traffic.run.host import RunHost
from nictop.wire.budget import OVERLOADED
from nictop.wire.source import Source, SourceState

HISTORY_LENGTH = 600
"""Samples per series: ten minutes at 1 Hz, more than the widest chart has columns."""

SILENCE = 3.0
"""Seconds on top of two intervals after which a host that is said to be live has fallen silent."""

ConnectionStatus = Literal["connecting", "live", "silent", "overloaded", "lost", "failed"]
"""As in `Snapshot.state`; silent: said to be live, but nothing is heard of it; overloaded: live, but it sends more than
is processed (`wire.budget`)."""


class HostSession:
    """A watched host. Times are those of `clock`, which says when the newest item of the source was heard: seconds of
    this machine's CLOCK_MONOTONIC, unless the source is that of a recording."""

    def __init__(self, host: Host, source: Source, clock: Callable[[], float] = monotonic) -> None:
        self.host, self.source, self._clock = host, source, clock
        self.name = source.name
        self.snapshot = Snapshot.empty(source.name)
        self.history, self.window = History(HISTORY_LENGTH), RatesWindow()
        self.heard: float | None = None
        """When its last line came; None: none came yet."""
        self.retry_at: float | None = None
        """When the next attempt to reach it begins; None: it is not waited for."""
        self.trouble = ""
        """Why it is not live, and what to do next; kept while it is tried again, until it is live."""
        self.listeners: list[Callable[[Line | SourceState, Snapshot], None]] = []
        """Changes hear everything, too, with the picture after it."""
        self.overloaded = False
        """It sends more than is processed."""
        self.rechecked = False
        """Its probe was asked to look again every few seconds, because something was found."""
        self._parts: tuple[RunHost, ...] = ()
        """Runs that it takes part in hear everything, too."""
        self._usual = Request(watch=())

    def take_over(self, source: Source) -> None:
        """Go on with another source of the same host. Runs that the old one took part in have lost it."""
        self._hear(SourceState("lost", "connected anew"), with_state(self.snapshot, "lost", "connected anew"))
        self.source, self.retry_at, self.rechecked, self.overloaded = source, None, False, False

    # ---------------------------------------------------------------------------------------------------- runs

    def take_part(self, interval: float) -> RunHost:
        """It is an end or an observer of a run from now on; `interval`: seconds between two readings otherwise."""
        self._usual = replace(self._usual, interval=self._usual.interval or interval)
        part = RunHost(self.source, self.snapshot, self._usual)
        self._parts += (part,)
        return part

    def leave(self, part: RunHost) -> None:
        """The run is over."""
        self._parts = tuple(one for one in self._parts if one is not part)

    @property
    def in_run(self) -> bool:
        """A run of traffic measures it now: nothing is asked of it that costs processor time."""
        return any(part.attended for part in self._parts)

    def _hear(self, item: Line | SourceState, snapshot: Snapshot) -> None:
        for part in self._parts:
            part.hear(item, snapshot=snapshot)
        for listener in tuple(self.listeners):
            listener(item, snapshot)

    async def request(self, request: Request) -> None:
        """Send a request to its probe. Interval and watched links wait for the end of a run that needs others."""
        self._usual = replace(
            self._usual,
            interval=self._usual.interval if request.interval is None else request.interval,
            watch=self._usual.watch if request.watch is None else request.watch,
        )
        attended = [part for part in self._parts if part.attended]
        for part in attended:
            await part.settle(self._usual)
        rest = replace(request, interval=None, watch=None) if attended else request
        if rest != Request():
            await self.source.request(rest)

    # --------------------------------------------------------------------------------------------------- picture

    def fail(self, sentence: str) -> Snapshot:
        """It is followed no longer, for this reason."""
        self.trouble, self.retry_at = sentence, None
        self.snapshot = with_state(self.snapshot, "failed", sentence)
        self._hear(SourceState("failed", sentence), self.snapshot)
        return self.snapshot

    async def follow(self) -> AsyncGenerator[Snapshot, None]:
        """The newest picture after every item of the source, until that ends."""
        async for item, snapshot in followed(self.source, self.snapshot):
            self.snapshot = snapshot
            if isinstance(item, SourceState):
                self.retry_at = None if item.retry_in is None else self._clock() + item.retry_in
                self.trouble = item.message or self.trouble
                if item.overloaded is not None:
                    self.overloaded = item.overloaded
            else:
                self.heard, self.retry_at = self._clock(), None
            if snapshot.state == "live":
                self.trouble = ""
            else:
                self.overloaded = False
            self._hear(item, snapshot)
            self.history.record(snapshot)
            self.window.take(snapshot)
            yield snapshot

    def age(self, now: float) -> float | None:
        """Seconds since its last line; None: nothing was heard of it."""
        return None if self.heard is None else max(0.0, now - self.heard)

    def standing(self, now: float, interval: float) -> ConnectionStatus:
        """How it is at this moment, when it should say something every `interval` seconds."""
        state, age = self.snapshot.state, self.age(now)
        if state == "live" and age is not None and age > SILENCE + 2 * interval:
            return "silent"
        return "overloaded" if state == "live" and self.overloaded else state

    def standing_words(self, now: float, interval: float) -> str:
        """``live``, ``overloaded``, ``connecting``, ``silent for 8 s``, ``reconnecting in 4 s``, ``reconnecting``,
        ``failed``."""
        standing, age = self.standing(now, interval), self.age(now)
        if standing == "silent":
            return f"silent for {whole_seconds(age or 0.0)}"
        if standing == "lost" and self.retry_at is not None:
            return f"reconnecting in {whole_seconds(max(0.0, self.retry_at - now))}"
        if standing == "lost" or (standing == "connecting" and age is not None):
            return "reconnecting"
        return standing

    def age_words(self, now: float, interval: float) -> str:
        """``values are 12 s old``; "" while they are new, or when there are none."""
        age = self.age(now)
        if age is None or self.standing(now, interval) in ("live", "overloaded"):
            return ""
        return f"values are {whole_seconds(age)} old"

    def notice(self, now: float, interval: float) -> str:
        """What stands above the picture: why the host is not live, what happens next, and how old the values are; of a
        live one, the newest trouble of its probe. "" when there is nothing to say."""
        standing, age = self.standing(now, interval), self.age_words(now, interval)
        if standing == "live":
            return self.snapshot.message
        if standing == "overloaded":
            return OVERLOADED
        said = [self.trouble or self.snapshot.message]
        if said[0] or age:
            said += [self.standing_words(now, interval), age]
        return " · ".join(part for part in said if part)


def whole_seconds(seconds: float) -> str:
    """A duration that does not flicker: no fraction below a minute."""
    return f"{seconds:.0f} s" if seconds < 59.5 else units.duration(round(seconds))


def read_here(monotonic_now: float, wall_now: float) -> LocalClock:
    """This machine's clocks (seconds, CLOCK_MONOTONIC and since the epoch), for comparing others with them."""
    return LocalClock(monotonic_now, wall_now, _read_boot_id())


@lru_cache(maxsize=1)  # it is that of the running kernel
def _read_boot_id(path: str = "/proc/sys/kernel/random/boot_id") -> str:
    """ "" when it cannot be read: then no host is known to share this machine's clock."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
