"""Clock offset of another machine, estimated from `Pong` records, with its uncertainty.

Of all pings the one counts that is least uncertain now: half of its round trip, and what two clocks
may have drifted apart since (as in NTP's clock filter, RFC 5905, section 10: the cause of a longer
round trip also makes the offset wrong). A short round trip is remembered while later ones wait in
a full queue: only so is it known how late the readings in that queue are. Answers that contradict
the newest one are dropped: a virtual machine that is paused has another offset afterwards.
"""

from __future__ import annotations

from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Clock, Pong
from nictop.probe.records.counters import MAX_CLOCK_DRIFT

FILTER_PINGS = 16
"""Pings that are remembered."""
MAX_OUTSTANDING_PINGS = 64
"""Pings without an answer that are remembered."""


@dataclass(frozen=True)
class _Answer:
    received: float
    offset: float
    round_trip: float

    def uncertainty(self, now: float) -> float:
        return self.round_trip / 2 + MAX_CLOCK_DRIFT * max(0.0, now - self.received)

    def agrees(self, newest: _Answer) -> bool:
        allowed = newest.round_trip / 2 + self.uncertainty(newest.received)
        return abs(self.offset - newest.offset) <= allowed


class PingClock:
    """The clock of one connection. Times are seconds of this machine's CLOCK_MONOTONIC, passed by
    the caller."""

    def __init__(self) -> None:
        self.estimate: Clock | None = None
        self._sequence = 0
        self._sent: dict[int, float] = {}
        self._answers: list[_Answer] = []

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
        newest = _Answer(now, pong.monotonic - (sent + now) / 2, now - sent)
        agreeing = [answer for answer in self._answers if answer.agrees(newest)]
        self._answers = sorted([*agreeing, newest], key=lambda answer: answer.uncertainty(now))
        del self._answers[FILTER_PINGS:]
        best = self._answers[0]
        self.estimate = Clock(
            time=now,
            offset=best.offset,
            uncertainty=best.uncertainty(now),
            round_trip=newest.round_trip,
        )
        return self.estimate
