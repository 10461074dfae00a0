"""Limits the CPU time that this process spends on the lines of one host, so that keyboard input and other hosts are
served.

Reads the CPU clock of the calling thread. A host that needs more than its share is overloaded: it is slowed down, and
its channel is not read meanwhile. All hosts of one event loop wait in two queues, one for the overloaded hosts: after
each slice of work the event loop is left idle for a while, so that it can handle keyboard input.
"""

from __future__ import annotations

import asyncio
import time
from weakref import WeakKeyDictionary

from nictop.limits import MAX_SMALL_LINE_BYTES

TOTAL_CPU_SHARE, MIN_CPU_SHARE = 0.5, 0.005
"""CPU seconds per second: of all hosts together, and the minimum of each host however many there are. A host with 256
CPUs, 4000 interrupts and 1024 VFs takes 0.3 at ten samples per second."""
MAX_BURST_SECONDS, TOTAL_BURST_SECONDS, MIN_BURST_SECONDS = 0.25, 2.0, 0.05
"""CPU seconds that a host may use at once (several of the largest inventories); all hosts together; and the minimum of
each host however many there are."""
SLICE_SECONDS = 0.01
"""CPU seconds of work after which other hosts get their turn."""
PAUSE_FACTOR, OVERLOADED_PAUSE_FACTOR = 1.0, 3.0
"""Length of the pause after a slice or a large line, as a multiple of the time it took. All overloaded hosts together
thus use a quarter of a CPU."""
MAX_PAUSE_WAITS = 3
"""Number of times that a host waits for the pause of another one; without a limit it might wait forever."""
PART_CPU_SECONDS, BYTE_CPU_SECONDS = 1e-4, 5e-9
"""CPU seconds that the SSH library needs for each part of a stream and for each byte."""
OVERLOADED_MESSAGE = "overloaded: the host sends more data than nictop can process; values are delayed"
"""State message of an overloaded host."""


class HostScheduler:
    """The hosts of one event loop."""

    def __init__(self) -> None:
        self.host_count = 0
        """Number of hosts whose lines are processed at present."""
        self.quiet_until = 0.0
        """No slice begins before this time: otherwise the two queues together would leave no idle time to the event
        loop."""
        self.normal, self.overloaded = _HostQueue(self, PAUSE_FACTOR), _HostQueue(self, OVERLOADED_PAUSE_FACTOR)

    def record_work(self, seconds: float) -> None:
        """A host used `seconds` of CPU time without a pause."""
        if seconds >= SLICE_SECONDS:
            self.quiet_until = max(self.quiet_until, time.monotonic() + PAUSE_FACTOR * seconds)


class _HostQueue:
    """Hosts that wait for each other, first in, first out."""

    def __init__(self, scheduler: HostScheduler, pause: float) -> None:
        self._scheduler, self._pause = scheduler, pause
        self._lock = asyncio.Lock()
        self._free_at = 0.0

    def record_work(self, seconds: float) -> None:
        self._scheduler.record_work(seconds)
        self._free_at = max(self._free_at, time.monotonic() + self._pause * seconds)

    async def wait(self) -> None:
        async with self._lock:
            for _ in range(MAX_PAUSE_WAITS):
                await asyncio.sleep(max(0.0, max(self._free_at, self._scheduler.quiet_until) - time.monotonic()))


_schedulers: WeakKeyDictionary[asyncio.AbstractEventLoop, HostScheduler] = WeakKeyDictionary()


class HostBudget:
    """The CPU budget of one host; a context manager that is entered while the host is followed."""

    def __init__(self) -> None:
        self.overloaded = False
        self._scheduler = HostScheduler()
        self._remaining = 0.0
        self._refilled_at = 0.0
        self._slice_used = 0.0

    def __enter__(self) -> HostBudget:
        self._scheduler = _schedulers.setdefault(asyncio.get_running_loop(), HostScheduler())
        self._scheduler.host_count += 1
        self._remaining = self._burst
        self._refilled_at = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._scheduler.host_count -= 1

    def charge(self, seconds: float) -> None:
        """Charge `seconds` of CPU time to this host."""
        self._remaining -= seconds
        self._slice_used += seconds

    async def wait_for_turn(self, size: int) -> None:
        """Wait until a line of `size` bytes may be decoded. A host that becomes overloaded returns at once, so that the
        state is reported first, and waits at the next call."""
        if self._slice_used < SLICE_SECONDS and size <= MAX_SMALL_LINE_BYTES:
            return
        self._refill()
        if not self.overloaded and self._remaining < 0:
            self.overloaded = True
            return
        queue = self._scheduler.overloaded if self.overloaded else self._scheduler.normal
        queue.record_work(self._slice_used)
        self._slice_used = 0.0
        await queue.wait()
        self._refilled_at = time.monotonic()  # no budget is gained while waiting in the queue

    def seconds_until_normal(self) -> float:
        """To be called when all received lines are decoded. Returns how many seconds an overloaded host must send
        nothing until it counts as normal again; 0.0: it is not overloaded."""
        self._scheduler.record_work(self._slice_used)
        self._slice_used = 0.0
        if self.overloaded:
            share = self._refill()
            missing = max(0.0, self._burst / 2 - self._remaining)
            self.overloaded = missing > 0
            return missing / share
        return 0.0

    @property
    def _burst(self) -> float:
        return max(MIN_BURST_SECONDS, min(MAX_BURST_SECONDS, TOTAL_BURST_SECONDS / max(1, self._scheduler.host_count)))

    def _refill(self) -> float:
        """Add the budget gained since the last call; returns the share of this host in CPU seconds per second."""
        now = time.monotonic()
        share = max(TOTAL_CPU_SHARE / max(1, self._scheduler.host_count), MIN_CPU_SHARE)
        self._remaining = min(self._burst, self._remaining + (now - self._refilled_at) * share)
        self._refilled_at = now
        return share
