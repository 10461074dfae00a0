"""The output of the built-in generator: one JSON object per line on stdout, and when the next
interval ends."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nictop.probe.traffic.greetings import RefusedSenders

MIN_INTERVAL_SECONDS = 0.001
"""An interval that is shorter, at the end of a run, is not reported."""


class ReportSchedule:
    """Ends of the intervals in seconds from the start, `interval` apart; the first ones are
    omitted, until `omit`."""

    def __init__(self, interval: float, omit: float) -> None:
        self._interval, self._omit = interval, omit
        self._base, self._count, self._last = 0.0, 1, 0.0
        self.omitting = omit > 0

    def next(self) -> float:
        """End of the current interval."""
        end = self._base + self._count * self._interval
        return min(end, self._omit) if self.omitting else end

    def advance(self, elapsed: float) -> tuple[bool, float, float]:
        """End the interval at `elapsed`; returns (omitted, start, end), the latter two from the
        start of the omitted or counted part."""
        omitted, start = self.omitting, self._last - self._base
        end = elapsed - self._base
        self._last = elapsed
        if omitted and elapsed >= self._omit:
            self.omitting, self._base, self._count = False, elapsed, 1
        else:
            self._count = int(end / self._interval + 1e-6) + 1
        return omitted, round(start, 6), round(end, 6)


def report(event: str, **fields: object) -> None:
    """Write one line."""
    line = (
        json.dumps({"event": event, **fields}, separators=(",", ":"), ensure_ascii=True).encode(
            "ascii"
        )
        + b"\n"
    )
    while line:
        line = line[os.write(1, line) :]


def report_refused(refused: RefusedSenders) -> None:
    """Write one line if a sender was refused."""
    senders = refused.fields()
    if senders:
        report("refused", senders=senders)
