"""Limits the CPU time that this process spends on the lines of one host, so that keyboard input and
other hosts are served.

Reads the CPU clock of the calling thread. A host that needs more than its share is overloaded: it
is slowed down, and its channel is not read meanwhile. All hosts of one event loop wait in two
queues, one for the overloaded hosts: after each slice of work the event loop is left idle for a
while, so that it can handle keyboard input. Directly after input (`input_received`) no slice and no
large line begins.
"""

from __future__ import annotations

import asyncio
import time
from weakref import WeakKeyDictionary

from nictop.limits import MAX_SMALL_LINE_BYTES

TOTAL_CPU_SHARE, MIN_CPU_SHARE = 0.5, 0.005
"""CPU seconds per second: of all hosts together, and the minimum of each host however many there
are. A host with 256 CPUs, 4000 interrupts and 1024 VFs takes 0.3 at ten samples per second."""
MAX_BURST_SECONDS, TOTAL_BURST_SECONDS, MIN_BURST_SECONDS = 0.25, 2.0, 0.05
"""CPU seconds that a host may use at once (several of the largest inventories); all hosts together;
and the minimum of each host however many there are."""
SLICE_SECONDS, FULL_SLICES = 0.01, 4
"""CPU seconds of work after which a host waits for its turn; shorter with more hosts than
`FULL_SLICES`: so much all of them together may do before a key is handled."""
PAUSE_FACTOR, OVERLOADED_PAUSE_FACTOR = 1.0, 3.0
"""Length of the pause after a slice or a large line, as a multiple of the time it took: not only
CPU time, so that on a busy machine the event loop has as much of it to itself. All overloaded hosts
together thus use a quarter of a CPU."""
INPUT_SECONDS = 0.5
"""Seconds after a key or a click in which no host that waits gets its turn: to handle it and to
draw its effect. On a busy machine longer, by the time for which this thread waits for a CPU
meanwhile."""
MAX_INPUT_SECONDS, HOST_SECONDS = 2.0, 1.0
"""Of a key that is held, or of fast typing: hosts wait for the first at most and are read in the
second, in turn, so that no host counts as silent and no traffic run as hanging."""
MAX_PAUSE_WAITS = 3
"""Number of times that a host waits for the pause of another one; without a limit it might wait
forever."""
PART_CPU_SECONDS, BYTE_CPU_SECONDS = 1e-4, 5e-9
"""CPU seconds that the event loop needs for each part of a pipe and for each byte."""
BACKLOG_SECONDS = 0.1
"""Seconds after which an overloaded host is looked at again, whose bytes wait."""
OVERLOADED_MESSAGE = (
    "overloaded: the host sends more data than nictop can process; values are delayed"
)
"""State message of an overloaded host."""


class HostScheduler:
    """The hosts of one event loop."""

    def __init__(self) -> None:
        self.host_count = 0
        """Number of hosts whose lines are processed at present."""
        self.quiet_until = 0.0
        """No slice begins before this time: otherwise the two queues together would leave no idle
        time to the event loop."""
        self.normal, self.overloaded = (
            _HostQueue(self, PAUSE_FACTOR),
            _HostQueue(self, OVERLOADED_PAUSE_FACTOR),
        )
        self._input: tuple[float, float] | None = None
        """CLOCK_MONOTONIC and `_seconds_without_cpu` at the last input."""
        self._input_limit = 0.0
        """From this time on hosts do not wait for input, for `HOST_SECONDS`."""

    @property
    def slice_seconds(self) -> float:
        return SLICE_SECONDS * FULL_SLICES / max(FULL_SLICES, self.host_count)

    def record_work(self, seconds: float) -> None:
        """A host has taken `seconds` without a pause."""
        if seconds >= SLICE_SECONDS:
            self.quiet_until = max(self.quiet_until, time.monotonic() + PAUSE_FACTOR * seconds)

    def input_received(self) -> None:
        now = time.monotonic()
        is_first = self._input is None or now >= self._input[0] + INPUT_SECONDS
        if is_first or now >= self._input_limit + HOST_SECONDS:
            self._input_limit = now + MAX_INPUT_SECONDS
        self._input = now, _seconds_without_cpu()
        self._wait_for_input()

    def _wait_for_input(self) -> None:
        if self._input is not None:
            received_at, without_cpu = self._input
            end = received_at + INPUT_SECONDS + _seconds_without_cpu() - without_cpu
            self.quiet_until = max(self.quiet_until, min(end, self._input_limit))
            if end <= time.monotonic():
                self._input = None

    async def pause(self, end: float = 0.0) -> None:
        """Wait until `end` (CLOCK_MONOTONIC) and `quiet_until`; not for ever."""
        for _ in range(MAX_PAUSE_WAITS):
            await asyncio.sleep(max(0.0, max(end, self.quiet_until) - time.monotonic()))
            self._wait_for_input()


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
            await self._scheduler.pause(self._free_at)


_schedulers: WeakKeyDictionary[asyncio.AbstractEventLoop, HostScheduler] = WeakKeyDictionary()


def host_scheduler() -> HostScheduler:
    """That of the running event loop."""
    return _schedulers.setdefault(asyncio.get_running_loop(), HostScheduler())


def input_received() -> None:
    """To be called for every key and click, in the event loop of the hosts: it is handled first."""
    host_scheduler().input_received()


def _seconds_without_cpu() -> float:
    """For which this thread was ready to run and had no CPU, since its start; 0.0: this kernel does
    not tell."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class HostBudget:
    """The CPU budget of one host; a context manager that is entered while the host is followed."""

    def __init__(self) -> None:
        self.overloaded = False
        self.has_backlog = False
        """Bytes that were received wait for a turn before they are handled: the host is not
        quiet."""
        self._scheduler = HostScheduler()
        self._remaining = 0.0
        self._refilled_at = 0.0
        self._slice_used = self._slice_elapsed = 0.0
        """Since the last turn: seconds of CPU time, and seconds."""

    def __enter__(self) -> HostBudget:
        self._scheduler = host_scheduler()
        self._scheduler.host_count += 1
        self._remaining = self._burst
        self._refilled_at = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._scheduler.host_count -= 1

    def charge(self, seconds: float, elapsed: float = 0.0) -> None:
        """Charge `seconds` of CPU time to this host, in which `elapsed` seconds have passed."""
        self._remaining -= seconds
        self._slice_used += seconds
        self._slice_elapsed += max(seconds, elapsed)

    @property
    def slice_seconds(self) -> float:
        """CPU seconds of work after which a host waits for its turn."""
        return self._scheduler.slice_seconds

    def has_time(self) -> bool:
        """Whether a slice of work may begin without waiting for a turn."""
        if self.overloaded:
            return False
        self._refill()
        return self._remaining >= 0

    async def wait_for_turn(self, size: int) -> None:
        """Wait until a line of `size` bytes may be decoded. A host that becomes overloaded returns
        at once, so that the state is reported first, and waits at the next call."""
        if self._slice_used < self.slice_seconds and size <= MAX_SMALL_LINE_BYTES:
            return
        self._refill()
        if not self.overloaded and self._remaining < 0:
            self.overloaded = True
            return
        queue = self._scheduler.overloaded if self.overloaded else self._scheduler.normal
        queue.record_work(self._slice_elapsed)
        self._slice_used = self._slice_elapsed = 0.0
        await queue.wait()
        self._refilled_at = time.monotonic()  # no budget is gained while waiting in the queue

    def seconds_until_normal(self) -> float:
        """To be called when all received lines are decoded. Returns how many seconds an overloaded
        host must send nothing until it counts as normal again; 0.0: it is not overloaded."""
        self._scheduler.record_work(self._slice_elapsed)
        self._slice_used = self._slice_elapsed = 0.0
        if self.overloaded and self.has_backlog:
            return BACKLOG_SECONDS
        if self.overloaded:
            share = self._refill()
            missing = max(0.0, self._burst / 2 - self._remaining)
            self.overloaded = missing > 0
            return missing / share
        return 0.0

    @property
    def _burst(self) -> float:
        return max(
            MIN_BURST_SECONDS,
            min(MAX_BURST_SECONDS, TOTAL_BURST_SECONDS / max(1, self._scheduler.host_count)),
        )

    def _refill(self) -> float:
        """Add the budget gained since the last call; returns the share of this host in CPU seconds
        per second."""
        now = time.monotonic()
        share = max(TOTAL_CPU_SHARE / max(1, self._scheduler.host_count), MIN_CPU_SHARE)
        self._remaining = min(self._burst, self._remaining + (now - self._refilled_at) * share)
        self._refilled_at = now
        return share
