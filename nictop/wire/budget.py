"""How much processor time of this process the lines of one host may take, so that keys and the other hosts have theirs.

Reads the CPU clock of the calling thread. A host that needs more than its share is overloaded: it is slowed, and the
channel that its lines come through is not read meanwhile. All hosts of one event loop wait in two queues, overloaded
ones in their own: after every slice of work the loop is left alone for a while, which is when keys are handled.
"""

from __future__ import annotations

import asyncio
import time
from weakref import WeakKeyDictionary

from nictop.limits import LARGEST_SMALL_LINE

SHARE, LEAST_SHARE = 0.5, 0.005
"""CPU seconds per second: of all hosts together, and what each may take however many there are. A host with 256 CPUs,
4000 interrupts and 1024 VFs takes 0.3 at ten readings a second."""
BURST, BURSTS, LEAST_BURST = 0.25, 2.0, 0.05
"""CPU seconds that a host may take at once: several of the largest inventories; all of them together; and what each may
take however many there are."""
SLICE = 0.01
"""CPU seconds of work until others have their turn."""
PAUSE, OVERLOADED_PAUSE = 1.0, 3.0
"""Times as long as a slice, or a large line, took: until the next one begins. So overloaded hosts together take a
quarter of a CPU."""
RESPECT = 3
"""Times that somebody waits for another's pause, and no more: else there might always be another."""
PART_COST, BYTE_COST = 1e-4, 5e-9
"""CPU seconds for each part of a stream and each byte: what the SSH library needs for them."""
OVERLOADED = "overloaded: it sends more than nictop processes; what is shown lags behind"
"""What is said of such a host."""


class Turns:
    """The hosts of one event loop."""

    def __init__(self) -> None:
        self.hosts = 0
        """Whose lines are taken now."""
        self._quiet_until = 0.0
        """Nobody begins a slice before: else the two queues would leave the loop no time between them."""
        self.usual, self.overloaded = _Lane(self, PAUSE), _Lane(self, OVERLOADED_PAUSE)

    def worked(self, seconds: float) -> None:
        """Somebody did so much without a pause."""
        if seconds >= SLICE:
            self._quiet_until = max(self._quiet_until, time.monotonic() + PAUSE * seconds)

    @property
    def quiet_until(self) -> float:
        return self._quiet_until


class _Lane:
    """Hosts that wait for each other, first come, first served."""

    def __init__(self, turns: Turns, pause: float) -> None:
        self._turns, self._pause = turns, pause
        self._lock = asyncio.Lock()
        self._free_at = 0.0

    def worked(self, seconds: float) -> None:
        self._turns.worked(seconds)
        self._free_at = max(self._free_at, time.monotonic() + self._pause * seconds)

    async def wait(self) -> None:
        async with self._lock:
            for _ in range(RESPECT):
                await asyncio.sleep(max(0.0, max(self._free_at, self._turns.quiet_until) - time.monotonic()))


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


class HostBudget:
    """The share of one host, while it is entered."""

    def __init__(self) -> None:
        self.overloaded = False
        self._turns = Turns()
        self._left = 0.0
        self._counted = 0.0
        self._slice = 0.0

    def __enter__(self) -> HostBudget:
        self._turns = _turns.setdefault(asyncio.get_running_loop(), Turns())
        self._turns.hosts += 1
        self._left = self._burst
        self._counted = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._turns.hosts -= 1

    def spend(self, seconds: float) -> None:
        """So much CPU time has been used for it."""
        self._left -= seconds
        self._slice += seconds

    async def turn(self, size: int) -> None:
        """Wait until a line of `size` bytes may be decoded; but a host that becomes overloaded waits the next time,
        when that has been said."""
        if self._slice < SLICE and size <= LARGEST_SMALL_LINE:
            return
        self._count()
        if not self.overloaded and self._left < 0:
            self.overloaded = True
            return
        lane = self._turns.overloaded if self.overloaded else self._turns.usual
        lane.worked(self._slice)
        self._slice = 0.0
        await lane.wait()
        self._counted = time.monotonic()  # a queue that many wait in earns nothing

    def rest(self) -> float:
        """All that it has said is decoded. An overloaded host is so no longer when it stays quiet for so many seconds;
        0.0: it is not overloaded."""
        self._turns.worked(self._slice)
        self._slice = 0.0
        if self.overloaded:
            share = self._count()
            missing = max(0.0, self._burst / 2 - self._left)
            self.overloaded = missing > 0
            return missing / share
        return 0.0

    @property
    def _burst(self) -> float:
        return max(LEAST_BURST, min(BURST, BURSTS / max(1, self._turns.hosts)))

    def _count(self) -> float:
        """Add what has become its own since the last time; its share."""
        now = time.monotonic()
        share = max(SHARE / max(1, self._turns.hosts), LEAST_SHARE)
        self._left = min(self._burst, self._left + (now - self._counted) * share)
        self._counted = now
        return share
