"""Charts of latencies as inline SVG: percentiles over time, and the histogram, which is also a
table.

Reads nothing; takes a `Result`. Stored files may contain any number: latencies that no test can
have are not drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nictop.model.text import units
from nictop.report.html.charts import (
    CHART_HEIGHT,
    CHART_WIDTH,
    MARGIN_BOTTOM,
    MARGIN_LEFT,
    MARGIN_RIGHT,
    MARGIN_TOP,
    MAX_CHART_POINTS,
    Axes,
    cpu_legend,
    cpu_lines,
    drawn_loads,
    figure,
    is_number,
    label,
    share_labels,
    steps,
    time_labels,
)
from nictop.report.html.elements import Html, details_element, element, join_html, table
from nictop.report.runs.histogram import latency_text
from nictop.report.runs.latency_axis import LatencyAxis, is_latency, latency_axis
from nictop.report.runs.sentences import latency_text as summary_text
from nictop.traffic.generators.latency import LatencyBin, LatencyHistogram
from nictop.traffic.results.result import Result
from nictop.traffic.results.transactions import TransactionFigures, TransactionPoint

BANDS = (("p99", "p99"), ("p90", "p90"), ("p50", "p50"))
"""Name of a percentile and its class, the highest first: a lower one is drawn over it."""
BANDS_LEGEND = "areas, from the lowest one: p50, p90, p99; line: max of each interval"
LABEL_SIDES = {"p50": ("end", -3), "p99": ("start", 3)}
"""Percentile in the histogram → anchor and distance of its label."""
MAX_BINS = 40
MAX_TICKS = 7
FOOT, BARS_TOP, LABEL_TOP = CHART_HEIGHT - MARGIN_BOTTOM, MARGIN_TOP + 22.0, 11.0
"""Heights of the histogram: its base line, its highest bar, the labels of percentiles above."""
TITLE_WIDTH = 62.0
"""Of the title of the axis below, with half a label."""
BAR_SPACE = 0.5
"""Units of the chart between two bars."""


def latency_charts(result: Result) -> Html:
    """Both charts of a test of requests and responses; "" of another one, and without samples."""
    figures = result.transactions
    if figures is None:
        return Html("")
    return join_html((_over_time(result, figures), _histogram(result, figures.latency)))


# ---------------------------------------------------------------------------------------- over time


def _over_time(result: Result, figures: TransactionFigures) -> Html:
    points = _drawn_points(figures.points)
    if not points:
        return Html("")
    highest = max(point.latency.maximum or 0.0 for point in points)
    scale = latency_axis(_medians(points), highest, logarithmic=result.plan.test == "loaded")
    axes = Axes(
        min(point.time - point.seconds for point in points), max(point.time for point in points)
    )
    loads = drawn_loads(result, axes)
    name = "latency (log)" if scale.low else "latency"
    parts = [*_latency_labels(axes, scale), *time_labels(axes), label(name, 2, MARGIN_TOP - 5)]
    if loads:
        parts += share_labels(axes)
    for percentile, class_ in BANDS:
        band = _steps_of(points, percentile, scale)
        if band:
            parts.append(steps(band, axes, class_, area=True))
    parts.append(steps(_steps_of(points, "maximum", scale), axes, "highest", area=False))
    parts += (*cpu_lines(loads, axes), *_phases(figures.loaded_since, axes))
    title = f"latency over time{_phase(result)}: {summary_text(figures.latency.summary())}"
    legend = [f"{BANDS_LEGEND}; {_axis_text(scale)}", *cpu_legend(loads)]
    return figure(parts, CHART_HEIGHT, title, legend)


def _drawn_points(points: Iterable[TransactionPoint]) -> list[TransactionPoint]:
    """Those with a time and a latency; of more than `MAX_CHART_POINTS` every n-th."""
    drawn = []
    for point in points:
        if not is_number(point.time) or not is_number(point.seconds):
            continue
        if point.seconds > 0 and is_latency(point.latency.maximum):
            drawn.append(point)
    return drawn[:: 1 + len(drawn) // MAX_CHART_POINTS]


def _medians(points: Iterable[TransactionPoint]) -> list[float]:
    medians = (point.latency.p50 for point in points)
    return [median for median in medians if median is not None and is_latency(median)]


def _axis_text(scale: LatencyAxis) -> str:
    return "logarithmic axis" if scale.low else "axis from 0"


def _phase(result: Result) -> str:
    return ", loaded" if result.plan.test == "loaded" else ""


def _phases(loaded_since: float | None, axes: Axes) -> Iterator[Html]:
    """Of a loaded run: a line where the measured seconds with the bulk flow begin, and both phases
    by name."""
    if loaded_since is None or not axes.start < loaded_since < axes.end:
        return
    (x, foot), (_, top) = axes.point(loaded_since, 0.0), axes.point(loaded_since, 1.0)
    yield element("line", x1=x, y1=top, x2=x, y2=foot, class_="ceiling")
    yield label("idle", x - 4, top + 10, "end")
    yield label("loaded", x + 4, top + 10, "start")


def _steps_of(
    points: list[TransactionPoint], name: str, scale: LatencyAxis
) -> list[tuple[float, float, float]]:
    """(start, end, share of the height) of the intervals in which the percentile is known."""
    steps = []
    for point in points:
        value = getattr(point.latency, name)
        if is_latency(value):
            steps.append((point.time - point.seconds, point.time, scale.share(value)))
    return steps


def _latency_labels(axes: Axes, scale: LatencyAxis) -> Iterator[Html]:
    for value, text in _ticks(scale):
        share = scale.share(value)
        (x1, y), (x2, _) = axes.point(axes.start, share), axes.point(axes.end, share)
        yield element("line", x1=x1, y1=y, x2=x2, y2=y, class_="axis")
        yield label(text, x1 - 4, y + 4, "end")


def _ticks(scale: LatencyAxis) -> list[tuple[float, str]]:
    """(Seconds, label) on the axis of a chart over time."""
    if scale.low:
        return scale.log_ticks(MAX_TICKS)
    values = (0.0, scale.top / 2, scale.top)
    return [(value, units.duration(value)) for value in values]


# ---------------------------------------------------------------------------------------- histogram


def _histogram(result: Result, latency: LatencyHistogram) -> Html:
    bins = latency.bins(MAX_BINS)
    if not bins:
        return Html("")
    summary, axis = latency.summary(), _bin_axis(bins)
    parts = [*_count_labels(max(bucket.count for bucket in bins)), *_bars(bins, axis)]
    parts += (*_histogram_ticks(axis), *_quantile_line("p50", summary.p50, axis))
    parts += _quantile_line("p99", summary.p99, axis)
    number = f"{units.count(latency.count)} transactions"
    title = f"latency histogram{_phase(result)}: {number}, {summary_text(summary)}"
    legend = ["transactions by latency (logarithmic axis)", "dashed lines: p50, p99"]
    drawn = figure(parts, CHART_HEIGHT, title, legend)
    as_table = table(("from", "below", "transactions"), map(_bin_row, bins), numbers_from=0)
    return join_html((drawn, details_element("Latency histogram as a table", as_table)))


def _bin_row(bucket: LatencyBin) -> tuple[str, str, str]:
    return latency_text(bucket.low), latency_text(bucket.high), units.count(bucket.count)


def _histogram_ticks(axis: LatencyAxis) -> Iterator[Html]:
    """Labels below the bars, as far as the title of the axis leaves room."""
    yield label("latency", CHART_WIDTH - 2, FOOT + 15, "end")
    for value, text in axis.log_ticks(MAX_TICKS):
        x = _place(value, axis)
        if x <= CHART_WIDTH - TITLE_WIDTH:
            yield label(text, x, FOOT + 15, "middle")


def _quantile_line(name: str, quantile: float | None, axis: LatencyAxis) -> Iterator[Html]:
    """With its label on the left side (p50) or on the right."""
    if quantile is None:
        return
    x = _place(quantile, axis)
    anchor, aside = LABEL_SIDES[name]
    yield element("line", x1=x, y1=LABEL_TOP + 4, x2=x, y2=FOOT, class_="ceiling")
    yield label(f"{name} {units.duration(quantile)}", x + aside, LABEL_TOP, anchor, "value")


def _count_labels(most: int) -> Iterator[Html]:
    yield label("transactions", 2, BARS_TOP - 12)
    for share in (0.0, 0.5, 1.0):
        y = _height(share)
        yield element(
            "line", x1=MARGIN_LEFT, y1=y, x2=CHART_WIDTH - MARGIN_RIGHT, y2=y, class_="axis"
        )
        yield label(units.count(round(most * share)), MARGIN_LEFT - 4, y + 4, "end")


def _bars(bins: Sequence[LatencyBin], axis: LatencyAxis) -> Iterator[Html]:
    most = max(bucket.count for bucket in bins)
    for bucket in bins:
        if bucket.count:
            x, end = _place(bucket.low, axis), _place(bucket.high, axis)
            height = max(1.0, round(FOOT - _height(bucket.count / most), 1))
            width = max(0.5, round(end - x - BAR_SPACE, 1))
            yield element("rect", x=x, y=FOOT - height, width=width, height=height, class_="bar")


def _bin_axis(bins: Sequence[LatencyBin]) -> LatencyAxis:
    low = bins[0].low or bins[0].high / 10
    return LatencyAxis(max(bins[-1].high, 1.1 * low), "log", 1.0, low)


def _place(latency: float, axis: LatencyAxis) -> float:
    return round(MARGIN_LEFT + axis.share(latency) * (CHART_WIDTH - MARGIN_LEFT - MARGIN_RIGHT), 1)


def _height(share: float) -> float:
    return round(FOOT - share * (FOOT - BARS_TOP), 1)
