"""Latency of requests and responses over time, as bands of percentiles.

 µs log █ p50 78.1 µs ▒ p90 90.3 µs ░ p99 120 µs ● max 3.20 ms   12.3 k/s   CPU of b 55 % of 4 cores
  5ms ┤        ●
      │●●●●●●●● ●●●●●●●●●
100µs ┤░░░░░░░░░░░░░░░░░░
      │▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
 50µs ┤██████████████████

Pure functions. A percentile with too few samples has no band. The axis begins at 0; it is
logarithmic if the highest latency is far above the median, and of a loaded run, whose idle and
loaded latency may differ by a factor of a hundred.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from nictop.model.text import units
from nictop.model.text.glyphs import Glyphs
from nictop.probe.light_dataclasses import dataclass
from nictop.report.runs.latency_axis import LatencyAxis, is_latency, latency_axis
from nictop.traffic.generators.intervals import has_rate
from nictop.traffic.generators.latency import LatencySummary
from nictop.traffic.live.run_view import RunView
from nictop.traffic.results.transactions import TransactionPoint
from nictop.tui.widgets.base.line_widget import Span
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
        medians = list(filter(None, self.bands[0]))
        highest = max((0.0, *filter(None, chain(*self.bands, self.highest))))
        return latency_axis(medians, highest, logarithmic=logarithmic)


def latency_columns(
    points: Sequence[TransactionPoint], sight: VisibleRange, columns: int
) -> LatencyColumns:
    """The percentiles are means of a column, the highest latencies are its highest."""
    step = sight.span / columns
    bands = tuple(means(_values_of(points, name), sight.begin, step, columns) for name, _ in BANDS)
    return LatencyColumns(bands, peaks(_values_of(points, "maximum"), sight.begin, step, columns))


def _values_of(points: Sequence[TransactionPoint], name: str) -> list[tuple[float, float, float]]:
    """(end, seconds, latency) of the points that have this percentile."""
    values = []
    for point in points:
        value = getattr(point.latency, name)
        if is_latency(value):
            values.append((point.time, point.seconds, value))
    return values


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
    """The bands and the axis at their left, which takes `left` cells. `omitted`: columns of seconds
    that are not measured."""
    percentiles = zip(*columns.bands, strict=True)
    for number, (values, highest, is_omitted) in enumerate(
        zip(percentiles, columns.highest, omitted, strict=True)
    ):
        column = _Column(canvas, box, number, is_dim=is_omitted)
        below = column.draw_bands(band_tops(values, axis, box.rows), glyphs)
        if highest is not None:
            column.draw_highest(axis.share(highest), below, glyphs)
    for row in range(box.top, box.top + box.rows):
        canvas.put(box.left - 1, row, glyphs.axis, "dim")
    if left:
        for value, label in _ticks(axis, box.rows):
            row = box.top + box.rows - 1 - round(axis.share(value) * (box.rows - 1))
            canvas.write(
                0, row, glyphs.text(label).rjust(left - 1)[: left - 1] + glyphs.left_tick, "dim"
            )


@dataclass(frozen=True)
class _Column:
    """One column of the bands."""

    canvas: Canvas
    box: Box
    number: int
    is_dim: bool

    def draw_bands(self, tops: Sequence[int], glyphs: Glyphs) -> int:
        """Rows that they take."""
        below = 0
        tail = len(BANDS) - 1
        for band, ((_, style), top, mark) in enumerate(
            zip(BANDS, tops, glyphs.spread, strict=True)
        ):
            # the tail matters more than p90
            hides = band == tail and top == below > tops[0]
            for row in range(below - hides, top):
                self._put(row, mark, style)
            below = max(below, top)
        return below

    def draw_highest(self, share: float, below: int, glyphs: Glyphs) -> None:
        """The highest latency, above the bands. `share`: of the axis."""
        rows = self.box.rows
        row = min(rows - 1, max(below, round(share * rows) - 1))
        self._put(row, glyphs.run, MAX_STYLE)

    def _put(self, row: int, mark: str, style: str) -> None:
        """`row`: from the bottom."""
        bottom = self.box.top + self.box.rows - 1
        style = "dim" if self.is_dim else style
        self.canvas.put(self.box.left + self.number, bottom - row, mark, style)


def band_tops(values: Sequence[float | None], axis: LatencyAxis, rows: int) -> list[int]:
    """Rows from the bottom up to each percentile; 0: unknown. One that is higher than that before
    is at most one row too high, if otherwise it would not be seen."""
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
        ticks = value_ticks(axis.top / axis.size, rows)
        return [(value * axis.size, f"{value:g}") for value in ticks]
    return [(value, label.replace(" ", "")) for value, label in axis.log_ticks((rows + 1) // 2)]


def latency_legend(
    run_view: RunView, cursor: float | None, glyphs: Glyphs, *, brief: bool = False
) -> list[Span]:
    """Marks with the values at the cursor, of the whole run that has ended, or the newest ones.
    `brief`: without the transactions per second."""
    summary, rate = _values(run_view, cursor)
    spans: list[Span] = []
    for (name, style), mark in zip(BANDS, glyphs.spread, strict=True):
        shown_mark = f" {mark} " if _is_drawn(run_view, name) else " "
        spans += _legend_spans(shown_mark, name, style, getattr(summary, name, None))
    highest = getattr(summary, "maximum", None)
    spans += _legend_spans(f" {glyphs.run} ", "max", MAX_STYLE, highest)
    has_fixed_rate = run_view.plan.test == "loaded"
    if brief or has_fixed_rate:
        return spans
    return [*spans, (f"  {units.per_second(rate)}", "title")]


def _legend_spans(mark: str, name: str, style: str, value: float | None) -> Iterable[Span]:
    return ((mark, style), (f"{name} ", ""), (units.duration(value), "title"))


def _is_drawn(run_view: RunView, name: str) -> bool:
    """The intervals of a loaded run have too few samples for a band of p99; the whole run has
    enough."""
    points = run_view.transactions
    return not points or any(is_latency(getattr(point.latency, name)) for point in points)


def _values(run_view: RunView, cursor: float | None) -> tuple[LatencySummary | None, float | None]:
    """Latency and rate at the cursor; without one of the whole run that has ended, or the newest
    ones."""
    if cursor is not None:
        return _values_at(run_view, cursor)
    figures = run_view.result.transactions if run_view.result is not None else None
    if figures is None:
        newest = run_view.newest_rate(run_view.transactions)
        return _values_of_last(run_view, () if newest is None else (newest,))
    if figures.loaded_since is None and figures.idle is not None:
        return figures.idle.latency.summary(), None
    return figures.latency.summary(), figures.rate


def _values_at(run_view: RunView, time: float) -> tuple[LatencySummary | None, float | None]:
    points = run_view.transactions
    return _values_of_last(
        run_view, [point for point in points if point.time - point.seconds < time <= point.time]
    )


def _values_of_last(
    run_view: RunView, points: Sequence[TransactionPoint]
) -> tuple[LatencySummary | None, float | None]:
    if not points:
        return None, None
    last = points[-1]
    rate = last.rate if has_rate(last.seconds, run_view.plan.requests.interval) else None
    return last.latency, rate
