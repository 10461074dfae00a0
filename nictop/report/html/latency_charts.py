"""Charts of latencies as inline SVG: percentiles over time, and the histogram, which is also a table.

Reads nothing; takes a `Result`. Stored files may contain any number: latencies that no test can have are not drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from nictop.traffic.results.transactions import TransactionPoint

BANDS = (("p99", "p99"), ("p90", "p90"), ("p50", "p50"))
"""Name of a percentile and its class, the highest first: a lower one is drawn over it."""
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
    return join_html((_over_time(result, figures.points), _histogram(result, figures.latency)))


# ------------------------------------------------------------------------------------------------------ over time


def _over_time(result: Result, reported: tuple[TransactionPoint, ...]) -> Html:
    points = [
        one
        for one in reported
        if is_number(one.time) and is_number(one.seconds) and one.seconds > 0 and is_latency(one.latency.maximum)
    ]
    points = points[:: 1 + len(points) // MAX_CHART_POINTS]
    if not points:
        return Html("")
    highest = max(one.latency.maximum or 0.0 for one in points)
    medians = [value for one in points if (value := one.latency.p50) is not None and is_latency(value)]
    scale = latency_axis(medians, highest, logarithmic=result.plan.test == "loaded")
    axes = Axes(min(one.time - one.seconds for one in points), max(one.time for one in points))
    loads = drawn_loads(result, axes)
    name = "latency (log)" if scale.low else "latency"
    parts = [*_latency_labels(axes, scale), *time_labels(axes), label(name, 2, MARGIN_TOP - 5)]
    parts += share_labels(axes) if loads else []
    for name, class_ in BANDS:
        band = _steps_of(points, name, scale)
        parts += [steps(band, axes, class_, area=True)] if band else []
    parts += [steps(_steps_of(points, "maximum", scale), axes, "highest", area=False), *cpu_lines(loads, axes)]
    figures = result.transactions
    title = "latency over time"
    if figures is not None:
        parts += _phases(figures.loaded_since, axes)
        title += f"{_phase(result)}: {summary_text(figures.latency.summary())}"
    axis = "logarithmic axis" if scale.low else "axis from 0"
    legend = [f"areas, from the lowest one: p50, p90, p99; line: max of each interval; {axis}", *cpu_legend(loads)]
    return figure(parts, CHART_HEIGHT, title, legend)


def _phase(result: Result) -> str:
    return ", loaded" if result.plan.test == "loaded" else ""


def _phases(loaded_since: float | None, axes: Axes) -> Iterator[Html]:
    """Of a loaded run: a line where the measured seconds with the bulk flow begin, and both phases by name."""
    if loaded_since is None or not axes.start < loaded_since < axes.end:
        return
    (x, foot), (_, top) = axes.point(loaded_since, 0.0), axes.point(loaded_since, 1.0)
    yield element("line", x1=x, y1=top, x2=x, y2=foot, class_="ceiling")
    yield label("idle", x - 4, top + 10, "end")
    yield label("loaded", x + 4, top + 10, "start")


def _steps_of(points: list[TransactionPoint], name: str, scale: LatencyAxis) -> list[tuple[float, float, float]]:
    """(start, end, share of the height) of the intervals in which the percentile is known."""
    return [
        (one.time - one.seconds, one.time, scale.share(value))
        for one in points
        if is_latency(value := getattr(one.latency, name))
    ]


def _latency_labels(axes: Axes, scale: LatencyAxis) -> Iterator[Html]:
    ticks = scale.log_ticks(MAX_TICKS) if scale.low else [(scale.top * part, "") for part in (0.0, 0.5, 1.0)]
    for value, text in ticks:
        (x1, y), (x2, _) = axes.point(axes.start, scale.share(value)), axes.point(axes.end, scale.share(value))
        yield element("line", x1=x1, y1=y, x2=x2, y2=y, class_="axis")
        yield label(text or units.duration(value), x1 - 4, y + 4, "end")


# ------------------------------------------------------------------------------------------------------ histogram


def _histogram(result: Result, latency: LatencyHistogram) -> Html:
    bins = latency.bins(MAX_BINS)
    if not bins:
        return Html("")
    summary, axis = latency.summary(), _bin_axis(bins)
    parts = [*_count_labels(max(one.count for one in bins)), *_bars(bins, axis)]
    parts.append(label("latency", CHART_WIDTH - 2, FOOT + 15, "end"))
    for value, text in axis.log_ticks(MAX_TICKS):
        if (x := _place(value, axis)) <= CHART_WIDTH - TITLE_WIDTH:
            parts.append(label(text, x, FOOT + 15, "middle"))
    for name, quantile, anchor, aside in (("p50", summary.p50, "end", -3), ("p99", summary.p99, "start", 3)):
        if quantile is not None:
            x = _place(quantile, axis)
            parts.append(element("line", x1=x, y1=LABEL_TOP + 4, x2=x, y2=FOOT, class_="ceiling"))
            parts.append(label(f"{name} {units.duration(quantile)}", x + aside, LABEL_TOP, anchor, "value"))
    title = f"latency histogram{_phase(result)}: {units.count(latency.count)} transactions, {summary_text(summary)}"
    legend = ["transactions by latency (logarithmic axis)", "dashed lines: p50, p99"]
    rows = [(latency_text(one.low), latency_text(one.high), units.count(one.count)) for one in bins]
    as_table = table(("from", "below", "transactions"), rows, numbers_from=0)
    return join_html(
        (figure(parts, CHART_HEIGHT, title, legend), details_element("Latency histogram as a table", as_table))
    )


def _count_labels(most: int) -> Iterator[Html]:
    yield label("transactions", 2, BARS_TOP - 12)
    for share in (0.0, 0.5, 1.0):
        y = _height(share)
        yield element("line", x1=MARGIN_LEFT, y1=y, x2=CHART_WIDTH - MARGIN_RIGHT, y2=y, class_="axis")
        yield label(units.count(round(most * share)), MARGIN_LEFT - 4, y + 4, "end")


def _bars(bins: Sequence[LatencyBin], axis: LatencyAxis) -> Iterator[Html]:
    most = max(one.count for one in bins)
    for one in bins:
        if one.count:
            x, end = _place(one.low, axis), _place(one.high, axis)
            height = max(1.0, round(FOOT - _height(one.count / most), 1))
            width = max(0.5, round(end - x - BAR_SPACE, 1))
            yield element("rect", x=x, y=FOOT - height, width=width, height=height, class_="bar")


def _bin_axis(bins: Sequence[LatencyBin]) -> LatencyAxis:
    low = bins[0].low or bins[0].high / 10
    return LatencyAxis(max(bins[-1].high, 1.1 * low), "log", 1.0, low)


def _place(latency: float, axis: LatencyAxis) -> float:
    return round(MARGIN_LEFT + axis.share(latency) * (CHART_WIDTH - MARGIN_LEFT - MARGIN_RIGHT), 1)


def _height(share: float) -> float:
    return round(FOOT - share * (FOOT - BARS_TOP), 1)
