"""What a probe has sent and nobody has taken yet: bytes in, records out, one line at a time.

Lines are decoded when they are taken, under the budget of their host, so that neither waiting records nor the work for
them add up. Whoever puts bytes in must stop while it `is_full`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable

from nictop.probe.records import Line
from nictop.wire.budget import BYTE_COST, OVERLOADED, PART_COST, HostBudget
from nictop.wire.line_reader import LineReader
from nictop.wire.source import SourceState
from nictop.wire.timeout import within

FULL, ROOM = 1024 * 1024, 256 * 1024
"""Bytes that wait: from the first on, nothing more is read until there are only so many as the second says."""
LEAST = 256
"""Bytes that each part counts as."""


class Inbox:
    """`has_room` is called when it has been full and is no longer."""

    def __init__(self, budget: HostBudget, has_room: Callable[[], None]) -> None:
        self.hearing = LineReader()
        self.size = 0
        """Bytes that wait."""
        self.arrived = 0.0
        """When the line came that was taken last: CLOCK_MONOTONIC."""
        self.is_full = False
        self._budget, self._has_room = budget, has_room
        self._parts: deque[tuple[float, bytes, int]] = deque()
        self._news = asyncio.Event()
        self._closed = self._said_overloaded = False
        self._taken_at: float | None = None
        """CPU time at which an item was handed out, while whoever took it has not let others run since."""
        self._marked = False

    def put(self, data: bytes, *, beside: int = 0) -> None:
        """Some bytes of the stream. `beside`: so many have come that are not of it and not kept, but have cost time."""
        weight = max(LEAST, len(data) + beside)
        self._parts.append((time.monotonic(), data, weight))
        self.size += weight
        self.is_full = self.is_full or self.size >= FULL
        self._news.set()

    def close(self, *, forget: bool = False) -> None:
        """Nothing more will come. `forget`: nor is what has come to be taken."""
        self._closed = True
        if forget:
            self._parts.clear()
            self.size = 0
            self.hearing.forget()
        self._news.set()

    async def next(self) -> Line | SourceState | None:
        """The next record, or what is to be said of the host; None at the end. Raises LineError or ProtocolMismatch
        when it is of no use to go on."""
        self._settle()
        while True:
            if self._budget.overloaded != self._said_overloaded:
                self._said_overloaded = self._budget.overloaded
                return SourceState(
                    "live", OVERLOADED if self._said_overloaded else "", overloaded=self._said_overloaded
                )
            if self.hearing.waits:
                await self._budget.turn(self.hearing.next_size)
                if self._budget.overloaded != self._said_overloaded or not self.hearing.waits:
                    continue
                item = self._decoded()
                if item is not None:
                    self._hand_out()
                    return item
            elif self._parts:
                self._take_part()
            elif self._closed:
                return None
            else:
                await self._wait(self._budget.rest())

    async def _wait(self, seconds: float) -> None:
        """For more; 0.0: however long that takes, unless there is something to say now."""
        if self._budget.overloaded == self._said_overloaded:
            self._news.clear()
            if not seconds:
                await self._news.wait()
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await within(seconds, self._news.wait())

    def _take_part(self) -> None:
        self.arrived, data, weight = self._parts.popleft()
        self.size -= weight
        self._budget.spend(PART_COST + weight * BYTE_COST)
        self.hearing.add(data)
        if self.is_full and self.size <= ROOM:
            self.is_full = False
            self._has_room()

    def _decoded(self) -> Line | SourceState | None:
        begin = time.thread_time()
        try:
            return self.hearing.take()
        finally:
            self._budget.spend(time.thread_time() - begin)

    def _hand_out(self) -> None:
        """What is done with an item before the next one is asked for belongs to the host as well."""
        self._taken_at = time.thread_time()
        if not self._marked:
            self._marked = True
            asyncio.get_running_loop().call_soon(self._others_run)

    def _others_run(self) -> None:
        self._marked, self._taken_at = False, None

    def _settle(self) -> None:
        if self._taken_at is not None:
            self._budget.spend(time.thread_time() - self._taken_at)
            self._taken_at = None
