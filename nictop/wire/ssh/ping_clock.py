"""Clock offset of another machine, estimated from `Pong` records, with its uncertainty.

Of the last pings the one with the shortest round trip counts, as in NTP's clock filter (RFC 5905,
section 10): the cause of a longer round trip also makes the offset wrong. Clocks drift apart by up
to about 100 ppm, so the window is short.
"""

from __future__ import annotations

from collections import deque

from nictop.probe.records import Clock, Pong

FILTER_PINGS = 16
"""Pings in the filter."""
MAX_OUTSTANDING_PINGS = 64
"""Pings without an answer that are remembered."""


class PingClock:
    """The clock of one connection. Times are seconds of this machine's CLOCK_MONOTONIC, passed by
    the caller."""

    def __init__(self) -> None:
        self.estimate: Clock | None = None
        self._sequence = 0
        self._sent: dict[int, float] = {}
        self._answers: deque[tuple[float, float]] = deque(maxlen=FILTER_PINGS)

    def ping(self, now: float) -> int:
        """Sequence number of a ping that is sent at `now`."""
        self._sequence += 1
        self._sent[self._sequence] = now
        if len(self._sent) > MAX_OUTSTANDING_PINGS:
            del self._sent[min(self._sent)]
        return self._sequence

    def pong(self, pong: Pong, now: float) -> Clock | None:
        """The estimate after this answer; None when no such ping was sent."""
        sent = self._sent.pop(pong.sequence, None)
        if sent is None or now < sent:
            return None
        round_trip = now - sent
        self._answers.append((round_trip, pong.monotonic - (sent + now) / 2))
        shortest, offset = min(self._answers)
        self.estimate = Clock(time=now, offset=offset, uncertainty=shortest / 2)
        return self.estimate
