"""The value axis of a chart of latencies: from 0, or logarithmic if the highest latency is far
above the median.

Pure; for the report and the screens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from nictop.probe.light_dataclasses import dataclass
from nictop.report.runs.histogram import latency_text, latency_unit

LOG_RATIO = 10.0
"""Highest latency / median from which on the axis is logarithmic."""
LOG_STEPS, LINEAR_STEPS = (
    (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0),
)
"""First digits of the ends of an axis."""
TICK_STEPS = (1.0, 2.0, 5.0)
"""First digits of the ticks of a logarithmic axis."""
MAX_FIRST_SHARE = 0.8
"""Of the lowest median: where a logarithmic axis begins at most, so that its band is seen."""
MIN_LATENCY_SECONDS, MAX_LATENCY_SECONDS = 1e-9, 1e4
"""Others, which a stored file may contain, are not drawn."""


@dataclass(frozen=True)
class LatencyAxis:
    """Latencies in seconds → share of the height of the chart."""

    top: float
    """Seconds."""
    unit: str
    """Of its labels; ``log``: each has its own."""
    size: float
    """Seconds of the unit."""
    low: float = 0.0
    """Seconds; 0: it is linear."""

    def share(self, value: float) -> float:
        """Of its height, 0 to 1."""
        if not self.low:
            return min(1.0, max(0.0, value / self.top))
        return min(1.0, math.log(max(value, self.low) / self.low) / math.log(self.top / self.low))

    def _contains(self, value: float) -> bool:
        """On a logarithmic axis."""
        return self.low * (1 - 1e-9) <= value <= self.top * (1 + 1e-9)

    def log_ticks(self, most: int) -> list[tuple[float, str]]:
        """(seconds, label) on a logarithmic axis: at most `most`, but not less than two."""
        first, last = (math.floor(math.log10(end) + 1e-9) for end in (self.low, self.top))
        for steps in (TICK_STEPS, TICK_STEPS[:1]):
            values: list[float] = []
            for power in range(first, last + 1):
                values += filter(self._contains, (step * 10.0**power for step in steps))
            if 2 <= len(values) <= most:
                break
        else:
            values = [self.low, self.top]
        return [(value, latency_text(value)) for value in values]


def latency_axis(
    medians: Sequence[float], highest: float, *, logarithmic: bool = False
) -> LatencyAxis:
    """The axis that has all of these, in seconds; `logarithmic`: also if the highest is not far
    above the median."""
    known = [value for value in medians if value > 0]
    highest = max((highest, *known))
    if not known or not (logarithmic or highest >= LOG_RATIO * median(known)):
        unit, size = latency_unit(highest)
        top = size
        if highest > 0:
            top = _end_above(highest / size, LINEAR_STEPS) * size
        return LatencyAxis(top, unit, size)
    most = MAX_FIRST_SHARE * min(known)
    power = 10.0 ** math.floor(math.log10(most))
    low = max(step * power for step in LOG_STEPS if step * power <= most * (1 + 1e-9))
    return LatencyAxis(_end_above(highest, LOG_STEPS), "log", 1.0, low)


def _end_above(value: float, steps: Sequence[float]) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    for step in steps:
        if step * power >= value * (1 - 1e-9):
            return step * power
    return 10 * power


def is_latency(value: float | None) -> bool:
    """It can be drawn."""
    return value is not None and MIN_LATENCY_SECONDS <= value <= MAX_LATENCY_SECONDS
