"""Queue between a probe and its consumer: bytes in, records out, one line at a time.

Lines are decoded when they are taken, within the CPU budget of their host, so that neither decoded
records nor the work for them accumulate. The producer must stop while `is_full`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable

from nictop.probe.records import Line
from nictop.wire.budget import OVERLOADED_MESSAGE, HostBudget
from nictop.wire.line_reader import LineReader
from nictop.wire.source import SourceState
from nictop.wire.timeout import with_timeout

MAX_QUEUED_BYTES, RESUME_QUEUED_BYTES = 1024 * 1024, 256 * 1024
"""Bytes in the queue. Reading stops at the first value and resumes at the second."""
MIN_PART_BYTES = 256
"""Minimum number of bytes that each part counts as, however short it is."""


class Inbox:
    """`has_room` is called when the queue was full and has room again."""

    def __init__(self, budget: HostBudget, has_room: Callable[[], None]) -> None:
        self.reader = LineReader()
        self.size = 0
        """Bytes in the queue."""
        self.received_at = 0.0
        """When the part taken last was received: seconds, CLOCK_MONOTONIC."""
        self.is_full = False
        self._budget, self._has_room = budget, has_room
        self._parts: deque[tuple[float, bytes, int]] = deque()
        self._state: SourceState | None = None
        self._changed = asyncio.Event()
        self._closed = self._reported_overloaded = False
        self._taken_at: tuple[float, float] | None = None
        """CPU time and CLOCK_MONOTONIC at which an item was returned; None once the event loop has
        run other tasks since."""
        self._is_reset_scheduled = False

    def put(self, data: bytes, *, other_bytes: int = 0) -> None:
        """Add bytes of the stream. `other_bytes`: bytes received outside the stream (stderr); they
        are not stored, but count for the size. What it took to receive them is charged by the
        caller."""
        weight = max(MIN_PART_BYTES, len(data) + other_bytes)
        self._parts.append((time.monotonic(), data, weight))
        self.size += weight
        self.is_full = self.is_full or self.size >= MAX_QUEUED_BYTES
        self._changed.set()

    def announce(self, state: SourceState) -> None:
        """Return this state next, instead of one that was announced before and not taken."""
        self._state = state
        self._changed.set()

    def close(self, *, forget: bool = False) -> None:
        """No more bytes follow. `forget`: discard what is in the queue."""
        self._closed = True
        if forget:
            self._parts.clear()
            self.size = 0
            self._state = None
            self.reader.discard()
        self._changed.set()

    async def next(self) -> Line | SourceState | None:
        """The next record or connection state; None at the end. Raises LineError or
        ProtocolMismatch when the probe has to be given up."""
        self._charge_consumer_time()
        while True:
            if self._state is not None:
                state, self._state = self._state, None
                return state
            if self._is_load_new():
                self._reported_overloaded = self._budget.overloaded
                return SourceState(
                    "live",
                    OVERLOADED_MESSAGE if self._reported_overloaded else "",
                    overloaded=self._reported_overloaded,
                )
            if self.reader.has_items:
                await self._budget.wait_for_turn(self.reader.next_size)
                if self._is_load_new() or not self.reader.has_items:
                    continue
                item = self._decode_next()
                if item is not None:
                    self._start_consumer_time()
                    return item
            elif self._parts:
                self._feed_part()
            elif self._closed:
                return None
            else:
                await self._wait_for_bytes(self._budget.seconds_until_normal())

    def _is_load_new(self) -> bool:
        """Whether it is overloaded has changed. Before its hello nothing is said about a host but
        how it ends."""
        return self._budget.overloaded != self._reported_overloaded and self.reader.line_count > 0

    async def _wait_for_bytes(self, seconds: float) -> None:
        """Wait for more bytes or a state, or `seconds`; 0.0: without a limit. Returns at once when
        the overload state has changed."""
        if not self._is_load_new():
            self._changed.clear()
            if not seconds:
                await self._changed.wait()
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await with_timeout(seconds, self._changed.wait())

    def _feed_part(self) -> None:
        begin = _clocks()
        self.received_at, data, weight = self._parts.popleft()
        self.size -= weight
        try:
            self.reader.add(data)
        finally:
            self._charge_since(begin)
        if self.is_full and self.size <= RESUME_QUEUED_BYTES:
            self.is_full = False
            self._has_room()

    def _decode_next(self) -> Line | SourceState | None:
        begin = _clocks()
        try:
            return self.reader.take()
        finally:
            self._charge_since(begin)

    def _start_consumer_time(self) -> None:
        """Count the CPU time that the consumer uses before the next item as that of the host."""
        self._taken_at = _clocks()
        if not self._is_reset_scheduled:
            self._is_reset_scheduled = True
            asyncio.get_running_loop().call_soon(self._reset_consumer_time)

    def _reset_consumer_time(self) -> None:
        self._is_reset_scheduled, self._taken_at = False, None

    def _charge_consumer_time(self) -> None:
        if self._taken_at is not None:
            self._charge_since(self._taken_at)
            self._taken_at = None

    def _charge_since(self, begin: tuple[float, float]) -> None:
        cpu, now = _clocks()
        self._budget.charge(cpu - begin[0], now - begin[1])


def _clocks() -> tuple[float, float]:
    """CPU seconds of this thread, and CLOCK_MONOTONIC."""
    return time.thread_time(), time.monotonic()
