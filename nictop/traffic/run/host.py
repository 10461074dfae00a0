"""A watched host that takes part in a run: its newest picture, its counters meanwhile, and what its generators say.

Whoever iterates the source gives each item to `RunHost.hear`: the screens do that for hosts that they follow anyway,
`follow` does it for a source that nobody else listens to.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from nictop.errors import HostUnreachable, NictopError
from nictop.model.snapshot import Snapshot, advance, with_state
from nictop.model.text.terminal import clean
from nictop.probe.records import Counters, Line, Request, TrafficLine, TrafficRequest, TrafficTools
from nictop.wire.source import Source, SourceState
from nictop.wire.timeout import within

MOST_RECORDS = 60_000
"""Counter records that are kept of a run: an hour and a half at 10 Hz."""

ANSWER = 10.0
"""Seconds that a probe may take for a check of its generators, or for an inventory."""

USUAL = Request(interval=1.0, watch=())
"""What a probe does that nobody has asked for anything."""

MOST_WATCHED = 64
"""As many links as a probe accepts to watch."""

TrafficItem = TrafficLine | SourceState
TrafficListener = Callable[[str, TrafficItem], None]


@dataclass(frozen=True)
class Offset:
    """How a host's CLOCK_MONOTONIC lies to that of the watching machine."""

    seconds: float
    """To subtract from a time of the host."""
    uncertainty: float | None
    """Seconds, either way; None: only bounded by how long its lines took."""


class RunHost:
    """One host. Times are seconds of CLOCK_MONOTONIC: the host's in its lines, this machine's in `now`.

    `usual`: the interval and the watched links that it has when no run attends it."""

    def __init__(self, source: Source, snapshot: Snapshot | None = None, usual: Request = USUAL) -> None:
        self.name = source.name
        self.attended = False
        self.snapshot = snapshot if snapshot is not None else Snapshot.empty(source.name)
        self.records: deque[Counters] = deque(maxlen=MOST_RECORDS)
        """Since `begin`."""
        self._source = source
        self._usual = usual
        self._listeners: list[TrafficListener] = []
        self._quickest: float | None = None
        self._news = asyncio.Event()

    def begin(self) -> None:
        """A run begins: forget the records of before, but for the newest."""
        newest = self.snapshot.counters
        self.records.clear()
        if newest is not None:
            self.records.append(newest)

    def hear(self, item: Line | SourceState, now: float | None = None, snapshot: Snapshot | None = None) -> None:
        """Take one item of the source. `snapshot`: the picture after it, where somebody has made that already."""
        self._take(item, time.monotonic() if now is None else now, snapshot)
        self._news.set()
        self._news = asyncio.Event()

    def _take(self, item: Line | SourceState, now: float, snapshot: Snapshot | None) -> None:
        if isinstance(item, SourceState):
            self.snapshot = snapshot or with_state(self.snapshot, item.state, item.message)
            self._tell(item)
            return
        known = self.snapshot.hello
        if item.hello is not None and known is not None and item.hello.boot_id != known.boot_id:
            self._quickest = None
        self.snapshot = snapshot or advance(self.snapshot, item)
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
            try:
                await within(end - time.monotonic(), self._news.wait())
            except asyncio.TimeoutError:
                return bool(fact())
        return True

    async def ask(self, traffic: TrafficRequest) -> None:
        await self._source.request(Request(traffic=traffic))

    async def attend(self, interval: float, ifindex: int | None) -> None:
        """Read at least so often (seconds), and count the queues of that NIC too, until `release`."""
        self.attended = True
        usual = self._usual.watch or ()
        watch = usual if ifindex is None else tuple(dict.fromkeys((ifindex, *usual)))
        interval = min(interval, self._usual.interval or interval)
        await self._source.request(Request(interval=interval, watch=watch[:MOST_WATCHED]))

    async def release(self) -> None:
        """Go on as usual."""
        self.attended = False
        await self._source.request(
            Request(interval=self._usual.interval or USUAL.interval, watch=self._usual.watch or USUAL.watch)
        )

    async def settle(self, usual: Request) -> None:
        """Another interval and other links are the usual ones from now on: at once, or after the run that attends."""
        self._usual = usual
        if not self.attended:
            await self.release()

    async def tools(self, seconds: float = ANSWER) -> TrafficTools:
        """Which generators it has. NictopError when its probe cannot tell, HostUnreachable when there is no answer."""
        request = TrafficRequest(f"{uuid.uuid4().hex[:12]}-check", "check")
        answers: list[TrafficLine] = []

        def take(_: str, item: TrafficItem) -> None:
            if isinstance(item, TrafficLine) and item.id == request.id:
                answers.append(item)

        end_listening = self.listen(take)
        try:
            await self.ask(request)
            await self.until(lambda: answers or self.snapshot.state in ("lost", "failed"), seconds)
        finally:
            end_listening()
        answer = answers[0] if answers else None
        if answer is not None and answer.tools is not None:
            return answer.tools
        name = clean(self.name)
        if answer is not None:
            raise NictopError(f"{name}: {clean(answer.text)}")
        if self.snapshot.state != "live":
            raise HostUnreachable(f"{name}: {clean(self.snapshot.message) or 'it is not connected'}")
        raise HostUnreachable(f"{name}: no answer from the probe within {seconds:g} s", "the host may be very busy")

    async def look(self, seconds: float = ANSWER) -> bool:
        """Ask for a new inventory; whether one that was begun after that has come within these seconds."""
        asked = time.monotonic() + self.offset.seconds
        await self._source.request(Request(inventory=True))

        def has_come() -> bool:
            return self.snapshot.inventory is not None and self.snapshot.inventory.time >= asked

        return await self.until(has_come, seconds)

    def listen(self, listener: TrafficListener) -> Callable[[], None]:
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

    def _tell(self, item: TrafficItem) -> None:
        for listener in tuple(self._listeners):
            listener(self.name, item)
