"""Latency of requests and responses over time, as bands of percentiles.

 µs log █ p50 78.1 µs ▒ p90 90.3 µs ░ p99 120 µs ● max 3.20 ms   12.3 k/s   CPU of b 55 % of 4 cores
  5ms ┤        ●
      │●●●●●●●● ●●●●●●●●●
100µs ┤░░░░░░░░░░░░░░░░░░
      │▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
 50µs ┤██████████████████

Pure functions. A percentile with too few samples has no band. The axis begins at 0; it is logarithmic if the highest
latency is far above the median, and of a loaded run, whose idle and loaded latency may differ by a factor of a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nictop.model.text import units
from nictop.model.text.glyphs import Glyphs
from nictop.report.runs.latency_axis import LatencyAxis, is_latency, latency_axis
from nictop.traffic.generators.latency import LatencySummary
from nictop.traffic.live.run_view import RunView
from nictop.traffic.results.transactions import TransactionPoint
from nictop.tui.widgets.base.line_view import Span
from nictop.tui.widgets.charts.plot import Box, Canvas, means, peaks, value_ticks
from nictop.tui.widgets.traffic.viewport import VisibleRange

BANDS: tuple[tuple[str, str], ...] = (("p50", "in"), ("p90", "accent"), ("p99", "dim"))
"""Percentile and its style; the marks are those of `Glyphs.spread`."""
MAX_STYLE = "title"
MIN_RATIO = 1.02
"""Of two percentiles that have different rows in any case."""
Columns = list[float | None]


@dataclass(frozen=True)
class LatencyColumns:
    """Seconds by column."""

    bands: tuple[Columns, ...]
    """Of each of `BANDS`."""
    highest: Columns

    def axis(self, *, logarithmic: bool = False) -> LatencyAxis:
        """The axis that has all of them; `logarithmic`: in any case."""
        highest = max((value for values in (*self.bands, self.highest) for value in values if value), default=0.0)
        return latency_axis([value for value in self.bands[0] if value], highest, logarithmic=logarithmic)


def latency_columns(points: Sequence[TransactionPoint], sight: VisibleRange, columns: int) -> LatencyColumns:
    """The percentiles are means of a column, the highest latencies are its highest."""
    step = sight.span / columns

    def values(name: str) -> list[tuple[float, float, float]]:
        return [(one.time, one.seconds, value) for one in points if is_latency(value := getattr(one.latency, name))]

    bands = tuple(means(values(name), sight.begin, step, columns) for name, _ in BANDS)
    return LatencyColumns(bands, peaks(values("maximum"), sight.begin, step, columns))


def draw_bands(
    canvas: Canvas,
    columns: LatencyColumns,
    axis: LatencyAxis,
    box: Box,
    omitted: Sequence[bool],
    *,
    left: int,
    glyphs: Glyphs,
) -> None:
    """The bands and the axis at their left, which takes `left` cells. `omitted`: columns of seconds that are not
    measured."""
    for column, (values, highest) in enumerate(zip(zip(*columns.bands, strict=True), columns.highest, strict=True)):
        tops, bottom = band_tops(values, axis, box.rows), box.top + box.rows - 1
        below = 0
        for number, ((_, style), top, mark) in enumerate(zip(BANDS, tops, glyphs.spread, strict=True)):
            hides = number == len(BANDS) - 1 and top == below > tops[0]  # the tail matters more than p90
            for row in range(below - hides, top):
                canvas.put(box.left + column, bottom - row, mark, "dim" if omitted[column] else style)
            below = max(below, top)
        if highest is not None:
            row = min(box.rows - 1, max(below, round(axis.share(highest) * box.rows) - 1))
            canvas.put(box.left + column, bottom - row, glyphs.run, "dim" if omitted[column] else MAX_STYLE)
    for row in range(box.top, box.top + box.rows):
        canvas.put(box.left - 1, row, glyphs.axis, "dim")
    if left:
        for value, label in _ticks(axis, box.rows):
            row = box.top + box.rows - 1 - round(axis.share(value) * (box.rows - 1))
            canvas.write(0, row, glyphs.text(label).rjust(left - 1)[: left - 1] + glyphs.left_tick, "dim")


def band_tops(values: Sequence[float | None], axis: LatencyAxis, rows: int) -> list[int]:
    """Rows from the bottom up to each percentile; 0: unknown. One that is higher than that before is at most one row
    too high, if otherwise it would not be seen."""
    tops: list[int] = []
    below, lower = 0, 0.0
    for value in values:
        if value is None:
            tops.append(0)
            continue
        exact = round(axis.share(value) * rows)
        seen = min(exact + 1, below + (value > MIN_RATIO * lower))
        below, lower = min(rows, max(1, below, exact, seen)), value
        tops.append(below)
    return tops


def _ticks(axis: LatencyAxis, rows: int) -> list[tuple[float, str]]:
    """(seconds, label), as many as fit on `rows` rows."""
    if not axis.low:
        return [(value * axis.size, f"{value:g}") for value in value_ticks(axis.top / axis.size, rows)]
    return [(value, label.replace(" ", "")) for value, label in axis.log_ticks((rows + 1) // 2)]


def latency_legend(run_view: RunView, cursor: float | None, glyphs: Glyphs, *, brief: bool = False) -> list[Span]:
    """Marks with the values at the cursor, of the whole run that has ended, or the newest ones. `brief`: without the
    transactions per second."""
    summary, rate = _values(run_view, cursor)
    spans: list[Span] = []
    marks = (*zip(BANDS, glyphs.spread, strict=True), (("max", MAX_STYLE), glyphs.run))
    for (name, style), mark in marks:
        value = getattr(summary, "maximum" if name == "max" else name) if summary is not None else None
        spans += [(f" {mark} ", style), (f"{name} ", ""), (units.duration(value), "title")]
    if brief or run_view.plan.test == "loaded":  # which has a fixed rate
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
