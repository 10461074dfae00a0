"""The time axis of another machine: `Pong`s → how far its clock lies from this one's, and how sure that is.

Of the last pings the one with the shortest way there and back counts, as NTP's clock filter does (RFC 5905, section
10): whatever made the others longer would also make them wrong. Clocks drift apart by up to some 100 ppm, so the window
is short.
"""

from __future__ import annotations

from collections import deque

from nictop.probe.records import Clock, Pong

WINDOW = 16
"""Pings that are remembered."""
MOST_OUTSTANDING = 64
"""Pings whose answer may still come."""


class PingClock:
    """Of one connection. Times are seconds of this machine's CLOCK_MONOTONIC, given by the caller."""

    def __init__(self) -> None:
        self.estimate: Clock | None = None
        self._sequence = 0
        self._sent: dict[int, float] = {}
        self._answers: deque[tuple[float, float]] = deque(maxlen=WINDOW)

    def ping(self, now: float) -> int:
        """Number of the ping that is being sent."""
        self._sequence += 1
        self._sent[self._sequence] = now
        if len(self._sent) > MOST_OUTSTANDING:
            del self._sent[min(self._sent)]
        return self._sequence

    def pong(self, pong: Pong, now: float) -> Clock | None:
        """The estimate with this answer in it; None when nobody asked for it."""
        sent = self._sent.pop(pong.sequence, None)
        if sent is None or now < sent:
            return None
        trip = now - sent
        self._answers.append((trip, pong.monotonic - (sent + now) / 2))
        shortest, offset = min(self._answers)
        self.estimate = Clock(time=now, offset=offset, uncertainty=shortest / 2)
        return self.estimate
