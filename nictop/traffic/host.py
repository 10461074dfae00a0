"""A watched host that takes part in a run: its newest picture, its counters meanwhile, and what its generators say.

Whoever iterates the source gives each item to `RunHost.hear`: the screens do that for hosts that they follow anyway,
`follow` does it for a source that nobody else listens to.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.probe.records import Counters, Line, Request, TrafficLine, TrafficRequest
from nictop.wire.source import Source, SourceState

MOST_RECORDS = 60_000
"""Counter records that are kept of a run: an hour and a half at 10 Hz."""

Heard = TrafficLine | SourceState
Listener = Callable[[str, Heard], None]


@dataclass(frozen=True)
class Offset:
    """How a host's CLOCK_MONOTONIC lies to that of the watching machine."""

    seconds: float
    """To subtract from a time of the host."""
    uncertainty: float | None
    """Seconds, either way; None: only bounded by how long its lines took."""


class RunHost:
    """One host. Times are seconds of CLOCK_MONOTONIC: the host's in its lines, this machine's in `now`."""

    def __init__(self, source: Source, snapshot: Snapshot | None = None) -> None:
        self.name = source.name
        self.snapshot = snapshot if snapshot is not None else Snapshot.empty(source.name)
        self.records: deque[Counters] = deque(maxlen=MOST_RECORDS)
        """Since `begin`."""
        self._source = source
        self._listeners: list[Listener] = []
        self._quickest: float | None = None
        self._news = asyncio.Event()

    def begin(self) -> None:
        """A run begins: forget the records of before, but for the newest."""
        newest = self.snapshot.counters
        self.records.clear()
        if newest is not None:
            self.records.append(newest)

    def hear(self, item: Line | SourceState, now: float | None = None) -> None:
        """Take one item of the source."""
        self._take(item, time.monotonic() if now is None else now)
        self._news.set()
        self._news = asyncio.Event()

    def _take(self, item: Line | SourceState, now: float) -> None:
        if isinstance(item, SourceState):
            self.snapshot = with_state(self.snapshot, item.state, item.message)
            self._tell(item)
            return
        known = self.snapshot.hello
        if item.hello is not None and known is not None and item.hello.boot_id != known.boot_id:
            self._quickest = None
        self.snapshot = advance(self.snapshot, item)
        if item.counters is not None:
            self.records.append(item.counters)
            self._compare(item.counters.time, now)
        if item.traffic is not None:
            self._compare(item.traffic.time, now)
            self._tell(item.traffic)

    async def follow(self) -> None:
        """Hear everything that the source says, until it ends."""
        async for item in self._source.items():
            self.hear(item)

    async def until(self, fact: Callable[[], object], seconds: float) -> bool:
        """Wait until something that is heard makes `fact` true; whether it has become so within these seconds."""
        end = time.monotonic() + seconds
        while not fact():
            if not await is_set_within(self._news, end - time.monotonic()):
                return bool(fact())
        return True

    async def ask(self, traffic: TrafficRequest) -> None:
        await self._source.request(Request(traffic=traffic))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Give it everything about traffic and connection from now on; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def offset(self) -> Offset:
        """By pings where there are any; else by the line that took the shortest time to get here."""
        clock = self.snapshot.clock
        if clock is not None:
            return Offset(clock.offset, clock.uncertainty)
        return Offset(self._quickest or 0.0, None)

    def _compare(self, there: float, here: float) -> None:
        self._quickest = there - here if self._quickest is None else max(self._quickest, there - here)

    def _tell(self, item: Heard) -> None:
        for listener in tuple(self._listeners):
            listener(self.name, item)


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event. Not by `asyncio.wait_for`, which until Python 3.12 forgets that it was cancelled when the
    event comes at the same moment: the run would go on."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        done, _ = await asyncio.wait({waiting}, timeout=max(0.0, seconds))
        return bool(done)
    finally:
        waiting.cancel()
