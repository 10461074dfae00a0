"""Latency of requests and responses over time, as bands of percentiles.

 µs log █ p50 78.1 µs ▒ p90 90.3 µs ░ p99 120 µs ● max 3.20 ms   12.3 k/s   CPU of b 55 % of 4 cores
  5ms ┤        ●
      │●●●●●●●● ●●●●●●●●●
100µs ┤░░░░░░░░░░░░░░░░░░
      │▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
 50µs ┤██████████████████

Pure functions. A percentile with too few samples has no band. The axis begins at 0; it is logarithmic if the highest
latency is far above the median.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from nictop.model.text import units
from nictop.model.text.glyphs import Glyphs
from nictop.report.runs.histogram import latency_text
from nictop.traffic.generators.latency import LatencySummary
from nictop.traffic.live.run_view import RunView
from nictop.traffic.results.transactions import TransactionPoint
from nictop.tui.widgets.base.line_view import Span
from nictop.tui.widgets.charts.plot import Box, Canvas, means, peaks, value_ticks
from nictop.tui.widgets.charts.sparkline import nice_ceiling
from nictop.tui.widgets.traffic.viewport import VisibleRange

BANDS: tuple[tuple[str, str], ...] = (("p50", "in"), ("p90", "accent"), ("p99", "dim"))
"""Percentile and its style; the marks are those of `Glyphs.spread`."""
MAX_STYLE = "title"
MAX_LATENCY_SECONDS = 1e4
LOG_RATIO = 10.0
"""Highest latency / median from which on the axis is logarithmic."""
LOG_STEPS = (1.0, 2.0, 5.0)

Columns = list[float | None]


@dataclass(frozen=True)
class LatencyColumns:
    """Seconds by column."""

    bands: tuple[Columns, ...]
    """Of each of `BANDS`."""
    highest: Columns

    @property
    def scale(self) -> LatencyScale:
        """The axis that has all of them."""
        top = max((value for values in (*self.bands, self.highest) for value in values if value), default=0.0)
        medians = [value for value in self.bands[0] if value]
        if not medians or top < LOG_RATIO * median(medians):
            unit, size = next(
                ((name, size) for name, size in units.LATENCY_UNITS if top >= size), units.LATENCY_UNITS[-1]
            )
            return LatencyScale(nice_ceiling(top / size) * size if top > 0 else size, unit, size)
        power = 10.0 ** math.floor(math.log10(top))
        top = next((step * power for step in LOG_STEPS if step * power >= top * (1 - 1e-9)), 10 * power)
        lowest = 0.8 * min(medians)  # the band of the median is seen
        power = 10.0 ** math.floor(math.log10(lowest))
        return LatencyScale(top, "log", 1.0, max(step * power for step in LOG_STEPS if step * power <= lowest))


@dataclass(frozen=True)
class LatencyScale:
    """The value axis, from 0; or from `low` on, logarithmic."""

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
            return min(1.0, value / self.top)
        return min(1.0, math.log(max(value, self.low) / self.low) / math.log(self.top / self.low))

    def ticks(self, rows: int) -> list[tuple[float, str]]:
        """(seconds, label), as many as fit on `rows` rows."""
        if not self.low:
            return [(value * self.size, f"{value:g}") for value in value_ticks(self.top / self.size, rows)]
        first, last = (math.floor(math.log10(end)) for end in (self.low, self.top))
        for steps in (LOG_STEPS, LOG_STEPS[:1]):
            values = [step * 10.0**power for power in range(first, last + 1) for step in steps]
            values = [value for value in values if self.low * (1 - 1e-9) <= value <= self.top * (1 + 1e-9)]
            if 2 * len(values) <= rows + 1 and values:
                break
        else:
            values = [self.low, self.top] if rows > 2 else [self.top]
        return [(value, latency_text(value).replace(" ", "")) for value in values]


def latency_columns(points: Sequence[TransactionPoint], sight: VisibleRange, columns: int) -> LatencyColumns:
    """The percentiles are means of a column, the highest latencies are its highest."""
    step = sight.span / columns

    def values(name: str) -> list[tuple[float, float, float]]:
        return [
            (one.time, one.seconds, value)
            for one in points
            if (value := getattr(one.latency, name)) is not None and 0 <= value < MAX_LATENCY_SECONDS
        ]

    bands = tuple(means(values(name), sight.begin, step, columns) for name, _ in BANDS)
    return LatencyColumns(bands, peaks(values("maximum"), sight.begin, step, columns))


def draw_bands(
    canvas: Canvas,
    columns: LatencyColumns,
    scale: LatencyScale,
    box: Box,
    omitted: Sequence[bool],
    *,
    left: int,
    glyphs: Glyphs,
) -> None:
    """The bands and the axis at their left, which takes `left` cells. `omitted`: columns of seconds that are not
    measured."""
    for column, (values, highest) in enumerate(zip(zip(*columns.bands, strict=True), columns.highest, strict=True)):
        below, bottom = 0, box.top + box.rows - 1
        for (_, style), value, mark in zip(BANDS, values, glyphs.spread, strict=True):
            rows = 0 if value is None else max(1, round(scale.share(value) * box.rows))
            for row in range(below, rows):
                canvas.put(box.left + column, bottom - row, mark, "dim" if omitted[column] else style)
            below = max(below, rows)
        if highest is not None:
            row = min(box.rows - 1, max(below, round(scale.share(highest) * box.rows) - 1))
            canvas.put(box.left + column, bottom - row, glyphs.run, "dim" if omitted[column] else MAX_STYLE)
    for row in range(box.top, box.top + box.rows):
        canvas.put(box.left - 1, row, glyphs.axis, "dim")
    if left:
        for value, label in scale.ticks(box.rows):
            row = box.top + box.rows - 1 - round(scale.share(value) * (box.rows - 1))
            canvas.write(0, row, glyphs.text(label).rjust(left - 1)[: left - 1] + glyphs.left_tick, "dim")


def latency_legend(run_view: RunView, cursor: float | None, glyphs: Glyphs, *, brief: bool = False) -> list[Span]:
    """Marks with the values at the cursor, of the whole run that has ended, or the newest ones. `brief`: without the
    transactions per second."""
    summary, rate = _values(run_view, cursor)
    spans: list[Span] = []
    marks = (*zip(BANDS, glyphs.spread, strict=True), (("max", MAX_STYLE), glyphs.run))
    for (name, style), mark in marks:
        value = getattr(summary, "maximum" if name == "max" else name) if summary is not None else None
        spans += [(f" {mark} ", style), (f"{name} ", ""), (units.duration(value), "title")]
    return spans if brief else [*spans, (f"  {units.per_second(rate)}", "title")]


def _values(run_view: RunView, cursor: float | None) -> tuple[LatencySummary | None, float | None]:
    figures = run_view.result.transactions if run_view.result is not None else None
    if cursor is None and figures is not None:
        return figures.latency.summary(), figures.rate
    points = run_view.transactions
    if cursor is not None:
        points = tuple(one for one in points if one.time - one.seconds < cursor <= one.time)
    return (points[-1].latency, points[-1].rate) if points else (None, None)
