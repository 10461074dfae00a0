"""Whether the generators of a run hang: until when the next payload is waited for.

Reads nothing; takes intervals. Times are seconds of this machine's CLOCK_MONOTONIC.
"""

from __future__ import annotations

from nictop.traffic.generators.intervals import Interval
from nictop.traffic.plan.plan import RunPlan
from nictop.traffic.run.events import RunTimeouts


class PayloadWatch:
    """Payload of one client and its server, since the start of the client."""

    def __init__(self, plan: RunPlan, limits: RunTimeouts, started: float) -> None:
        self.started = started
        self.payload_bytes = 0.0
        """Received."""
        self._end = started + plan.seconds
        self._first = started + max(limits.first_byte, 2 * plan.interval)
        self._stall = max(limits.stall, 4 * plan.interval)
        self._last = started
        self._alone: float | None = None

    def add(self, interval: Interval, now: float) -> None:
        """An interval that one end reported."""
        if not interval.sends and interval.bits_per_second > 0:
            self.payload_bytes, self._last = self.payload_bytes + interval.bytes, now

    def end_alone(self, now: float) -> None:
        """Only one end runs: it should soon detect that, but may wait for ever."""
        self._alone = now if self._alone is None else self._alone

    def limit(self, deadline: float, now: float) -> float:
        """When it is clear that they hang. `deadline`: of the whole run."""
        limit = self._last + self._stall if self.payload_bytes else self._first
        if self.payload_bytes and now > self._end:
            limit = deadline  # at the end the totals are exchanged and no payload is sent
        if self._alone is not None:
            limit = min(limit, self._alone + self._stall)
        return min(deadline, limit)
