"""When the next counters are due. Pure."""

from __future__ import annotations


class Schedule:
    """Ticks at `start`, `start` + `interval`, … without drift; late ticks are skipped."""

    def __init__(self, interval: float, start: float) -> None:
        self.interval = interval
        self.next = start

    def advance(self, now: float) -> None:
        """The tick at `now` is done; `next` becomes the first one after it."""
        missed_ticks = int((now - self.next) / self.interval)
        self.next += (max(missed_ticks, 0) + 1) * self.interval

    def set_interval(self, interval: float, now: float) -> None:
        self.interval = interval
        self.bring_forward(interval, now)

    def bring_forward(self, seconds: float, now: float) -> None:
        """The next tick is at most `seconds` after `now`; later ones keep the interval from it."""
        self.next = min(self.next, now + seconds)
