"""One host behind the metrics: followed for as long as nictop runs, whatever happens to it.

Reads its source. What counts is the newest snapshot and when it came; a scrape asks nobody anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from time import monotonic

from nictop.hosts.observe import MOST_WATCHED, followed
from nictop.hosts.specification import Host
from nictop.metrics.collector import HostCollector
from nictop.metrics.series import Sample
from nictop.model.snapshot import Snapshot, with_state
from nictop.model.window import RatesWindow
from nictop.probe.records import Request
from nictop.wire.source import Source

SILENCE = 3.0
"""Seconds on top of two intervals after which a host that is said to be live is not up."""

AGAIN = 60.0
"""Seconds until a host that trying again could not help is tried again: somebody may have repaired it meanwhile."""

Connect = Callable[[Host], Source]
Say = Callable[[str], None]


class ScrapedHost:
    """`connect` makes its source, anew after each failure; `say` is told how the connection is, whenever that
    changes."""

    def __init__(self, host: Host, connect: Connect, interval: float, say: Say, *, again: float = AGAIN) -> None:
        self.host = host
        self.name = host.label
        self.snapshot = Snapshot.empty(self.name)
        self.window = RatesWindow()
        self.collector = HostCollector(self.name)
        self._connect, self._interval, self._say, self._again = connect, interval, say, again
        self._source: Source | None = None
        self._heard: float | None = None
        """When the newest counters came, CLOCK_MONOTONIC of this machine."""
        self._watched: tuple[int, ...] = ()
        self._said = ("", "")
        self._failure = ""

    def age(self, now: float) -> float | None:
        """Seconds since its newest counters came; None: none came yet."""
        return None if self._heard is None else max(0.0, now - self._heard)

    def is_up(self, now: float) -> bool:
        age = self.age(now)
        return self.snapshot.state == "live" and age is not None and age <= SILENCE + 2 * self._interval

    def samples(self, now: float) -> list[Sample]:
        """Its numbers, all or none; only while it is up."""
        return self.collector.samples(self.snapshot, self.age(now) or 0.0)

    def say_failure(self, error: Exception) -> None:
        """What it said could not be told, for this reason; said once per reason."""
        sentence = f"nictop itself failed here: {type(error).__name__}: {error}"
        if sentence != self._failure:
            self._failure = sentence
            self._say(f"{self.name}: {sentence}")

    async def follow(self, delay: float = 0.0) -> None:
        """Until cancelled; begins after `delay` seconds."""
        await asyncio.sleep(delay)
        while True:
            try:
                await self._follow_one(self._connect(self.host))
            except Exception as error:  # the other hosts go on
                self._fail(f"nictop itself failed here: {type(error).__name__}: {error}")
            self._tell()
            await asyncio.sleep(self._again)

    async def close(self) -> None:
        """End its source, and every process of it."""
        if self._source is not None:
            await self._source.close()

    async def _follow_one(self, source: Source) -> None:
        self._source, self._watched = source, ()
        try:
            async with aclosing(followed(source, self.snapshot)) as news:  # type: ignore[type-var]
                async for _, snapshot in news:
                    await self._take(source, snapshot)
        finally:
            await source.close()
        if self.snapshot.state != "failed":
            self._fail("the connection ended")

    async def _take(self, source: Source, snapshot: Snapshot) -> None:
        before, self.snapshot = self.snapshot, snapshot
        if snapshot.counters is not before.counters and snapshot.counters is not None:
            self._heard = monotonic()
        self.window.take(snapshot)
        if snapshot.inventory is not before.inventory:
            await self._watch(source, snapshot)
        self._tell()

    async def _watch(self, source: Source, snapshot: Snapshot) -> None:
        """Queue and driver counters are read only of links that somebody asks for."""
        devices = tuple(sorted(one.ifindex for one in snapshot.links.values() if one.device is not None))[:MOST_WATCHED]
        if devices != self._watched:
            self._watched = devices
            await source.request(Request(watch=devices))

    def _fail(self, sentence: str) -> None:
        self.snapshot = with_state(self.snapshot, "failed", sentence)

    def _tell(self) -> None:
        """Say how the connection is; the troubles of a live probe are its own affair."""
        state = self.snapshot.state
        now = (state, "" if state == "live" else self.snapshot.message)
        if now != self._said and state != "connecting":
            self._said = now
            self._say(f"{self.name}: {': '.join(part for part in now if part)}")
