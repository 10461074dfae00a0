"""When the next counters are due. Nothing is read here."""

from __future__ import annotations


class Schedule:
    """Ticks at `start`, `start` + `interval`, …: no drift, and a late one is skipped, not caught up with."""

    def __init__(self, interval: float, start: float) -> None:
        self.interval = interval
        self.next = start

    def advance(self, now: float) -> None:
        """The tick of `now` is done; `next` lies after it."""
        missed = int((now - self.next) / self.interval)
        self.next += (max(missed, 0) + 1) * self.interval

    def change(self, interval: float, now: float) -> None:
        self.interval = interval
        self.hurry(interval, now)

    def hurry(self, wait: float, now: float) -> None:
        """The next tick comes after `wait` at the latest, and the others in step with it."""
        self.next = min(self.next, now + wait)
