"""Latency of requests and responses over time, as bands of percentiles from 0 up.

   µs   █ p50 78.1 µs  ▒ p90 90.3 µs  ░ p99 120 µs   12.3 k/s   CPU of b 55 % of 4 cores
  150 ┤
      │░░░░░░░░░░░░░░░░░░░
   75 ┤▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
    0 ┤███████████████████

Of a loaded run the axis is logarithmic: idle and loaded latency may differ by a factor of a hundred.

Pure functions. A percentile with too few samples has no band.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nictop.model.text import units
from nictop.model.text.glyphs import Glyphs
from nictop.traffic.generators.latency import LatencySummary
from nictop.traffic.live.run_view import RunView
from nictop.traffic.results.transactions import TransactionPoint
from nictop.tui.widgets.base.line_view import Span
from nictop.tui.widgets.charts.plot import Box, Canvas, means, value_ticks
from nictop.tui.widgets.charts.sparkline import nice_ceiling
from nictop.tui.widgets.traffic.viewport import VisibleRange

BANDS: tuple[tuple[str, str], ...] = (("p50", "in"), ("p90", "accent"), ("p99", "dim"))
"""Percentile and its style; the marks are those of `Glyphs.spread`."""
UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
MAX_LATENCY_SECONDS = 1e4
MIN_LATENCY_SECONDS = 1e-7
"""A logarithmic axis begins there at the lowest."""

Columns = list[list[float | None]]


def latency_columns(points: Sequence[TransactionPoint], sight: VisibleRange, columns: int) -> Columns:
    """Seconds of each of `BANDS`, by column."""
    step = sight.span / columns
    return [
        means(
            [
                (one.time, one.seconds, value)
                for one in points
                if (value := getattr(one.latency, name)) is not None and 0 <= value < MAX_LATENCY_SECONDS
            ],
            sight.begin,
            step,
            columns,
        )
        for name, _ in BANDS
    ]


def highest_latency(bands: Columns) -> float:
    """Seconds; 0 if there are none."""
    return max((value for band in bands for value in band if value is not None), default=0.0)


def latency_scale(highest: float) -> tuple[float, str, float]:
    """(top in seconds, unit, seconds of the unit)"""
    unit, size = next(((name, size) for name, size in UNITS if highest >= size), UNITS[-1])
    return nice_ceiling(highest / size) * size if highest > 0 else size, unit, size


@dataclass(frozen=True)
class LatencyAxis:
    """From `low` to `top`, in seconds."""

    top: float
    size: float
    """Seconds of the unit of its labels."""
    low: float = 0.0
    """Above 0: logarithmic."""

    def share(self, value: float) -> float:
        """Of the height."""
        if not self.low:
            return value / self.top
        return math.log(max(value, self.low) / self.low) / math.log(self.top / self.low)

    def ticks(self, rows: int) -> list[float]:
        """Seconds that get a label."""
        if not self.low:
            return [value * self.size for value in value_ticks(self.top / self.size, rows)]
        decades = round(math.log10(self.top / self.low))
        least = -(-2 * decades // max(1, rows - 1))
        step = next((one for one in range(least, decades) if decades % one == 0), decades)
        return [self.low * 10.0**decade for decade in range(0, decades + 1, step)]


def latency_axis(bands: Columns, *, logarithmic: bool) -> LatencyAxis:
    """From 0; or logarithmic with whole decades, if latencies of very different size are to be seen."""
    highest = highest_latency(bands)
    top, _, size = latency_scale(highest)
    lowest = min((value for band in bands for value in band if value), default=0.0)
    if not logarithmic or not lowest > 0 or highest < MIN_LATENCY_SECONDS:
        return LatencyAxis(top, size)
    low = 10.0 ** math.floor(math.log10(max(lowest, MIN_LATENCY_SECONDS)) - 1e-9)
    return LatencyAxis(10.0 ** max(math.ceil(math.log10(highest) - 1e-9), round(math.log10(low)) + 1), size, low)


def draw_bands(canvas: Canvas, bands: Columns, axis: LatencyAxis, box: Box, *, left: int, glyphs: Glyphs) -> None:
    """The bands and the axis at their left, which takes `left` cells."""
    for column, values in enumerate(zip(*bands, strict=True)):
        below = 0
        for (_, style), value, mark in zip(BANDS, values, glyphs.spread, strict=True):
            rows = 0 if value is None else min(box.rows, max(1, round(axis.share(value) * box.rows)))
            for row in range(below, rows):
                canvas.put(box.left + column, box.top + box.rows - 1 - row, mark, style)
            below = max(below, rows)
    for row in range(box.top, box.top + box.rows):
        canvas.put(box.left - 1, row, glyphs.axis, "dim")
    if left:
        for value in axis.ticks(box.rows):
            label = f"{value / axis.size:.6g}".rjust(left - 1)[: left - 1]
            row = box.top + box.rows - 1 - round(axis.share(value) * (box.rows - 1))
            canvas.write(0, row, label + glyphs.left_tick, "dim")


def latency_legend(run_view: RunView, cursor: float | None, glyphs: Glyphs) -> list[Span]:
    """Marks with the values at the cursor, of the whole run that has ended, or the newest ones."""
    summary, rate = _values(run_view, cursor)
    spans: list[Span] = []
    for (name, style), mark in zip(BANDS, glyphs.spread, strict=True):
        value = getattr(summary, name) if summary is not None else None
        spans += [(f" {mark} ", style), (f"{name} ", ""), (units.duration(value), "title")]
    if run_view.plan.test == "loaded":  # at a fixed rate
        return spans
    return [*spans, (f"  {units.per_second(rate)}", "title")]


def _values(run_view: RunView, cursor: float | None) -> tuple[LatencySummary | None, float | None]:
    figures = run_view.result.transactions if run_view.result is not None else None
    if cursor is None and figures is not None:
        if figures.loaded_since is None and figures.idle is not None:
            return figures.idle.latency.summary(), None
        return figures.latency.summary(), figures.rate
    points = run_view.transactions
    if cursor is not None:
        points = tuple(one for one in points if one.time - one.seconds < cursor <= one.time)
    return (points[-1].latency, points[-1].rate) if points else (None, None)
