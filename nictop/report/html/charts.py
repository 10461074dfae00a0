"""Charts of runs as inline SVG: goodput, ceiling and busiest CPUs over time, and a bar for each set-up.

Reads nothing; takes a `Result` or bars. Colours are in the style sheet of the page. Stored files may contain any
number: values that are not finite are not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from nictop.model.text import units
from nictop.report.html.elements import LINE_END, Html, element, join_html
from nictop.traffic.analysis.cpu_load import HostLoad
from nictop.traffic.results.result import Flow, Result

CHART_WIDTH, CHART_HEIGHT = 1000.0, 220.0
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 62.0, 40.0, 14.0, 24.0
"""Margins around the plot, for the labels of the axes."""
MAX_CEILING_RATIO = 8.0
"""Ceiling / highest rate: a higher ceiling is in the legend only, so that the rates remain visible."""
MAX_STEP_GAP = 0.5
"""Units of the chart between two intervals that are drawn as connected."""
MAX_CHART_POINTS = 2000
BAR_LABEL_WIDTH, BAR_VALUE_WIDTH, BAR_HEIGHT, BAR_GAP = 130.0, 86.0, 16.0, 10.0
MAX_BAR_LABEL_CHARS = 22
"""Longer labels of bars are shortened; the table has all of them."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Bar:
    """One set-up."""

    label: str
    value: float | None
    """Bits or transactions per second; None: no run was completed."""
    low: float | None = None
    high: float | None = None
    each: tuple[float, ...] = ()
    """The value of every run."""
    text: str = ""
    """The value with its unit; "": bits per second."""


@dataclass(frozen=True)
class Axes:
    """Scales of a chart over time: seconds and share of the height → position."""

    start: float
    end: float

    def point(self, time: float, share: float) -> Point:
        """`share`: of the height, 0 to 1."""
        span = self.end - self.start or 1.0  # floats near 2^53 lie more than a second apart
        x = MARGIN_LEFT + (time - self.start) / span * (CHART_WIDTH - MARGIN_LEFT - MARGIN_RIGHT)
        return round(x, 1), round(
            CHART_HEIGHT - MARGIN_BOTTOM - min(1.0, max(0.0, share)) * (CHART_HEIGHT - MARGIN_TOP - MARGIN_BOTTOM), 1
        )


# ------------------------------------------------------------------------------------------------------ over time


def run_chart(result: Result) -> Html:
    """Goodput as an area (of a second direction as a line), the ceiling as a dashed line, the hottest CPU of each end
    as a line on the right axis. "" without intervals."""
    flows = [(flow, _intervals(flow)) for flow in result.flows]
    intervals = [interval for _, of_flow in flows for interval in of_flow]
    if not intervals:
        return Html("")
    highest = max(rate for _, _, rate in intervals)
    ceiling = result.ceiling.goodput if result.ceiling is not None else None
    drawn = ceiling if is_number(ceiling) and ceiling and ceiling <= MAX_CEILING_RATIO * max(highest, 1.0) else None
    start, end = min(one for one, _, _ in intervals), max(one for _, one, _ in intervals)
    axes, top = Axes(start, end), axis_end(max(highest, drawn or 0.0))
    loads = drawn_loads(result, axes)
    parts = [*_rate_labels(axes, top), *time_labels(axes)]
    parts += share_labels(axes) if loads else []
    for number, (_, of_flow) in enumerate(flows):
        if of_flow:
            shares = [(begin, until, rate / top) for begin, until, rate in of_flow]
            parts.append(steps(shares, axes, "back" if number else "area", area=not number))
    if drawn is not None:
        (x1, y1), (x2, y2) = axes.point(start, drawn / top), axes.point(end, drawn / top)
        parts.append(element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="ceiling"))
    parts += cpu_lines(loads, axes)
    return figure(parts, CHART_HEIGHT, "goodput over time", _legend(result, [flow for flow, _ in flows], drawn, loads))


def drawn_loads(result: Result, axes: Axes) -> list[HostLoad]:
    """Of client and server, if their CPUs are known at a time of the chart."""
    return [load for load in result.hosts if load.role != "observer" and any(_cpu_points(load, axes))]


def cpu_lines(loads: Iterable[HostLoad], axes: Axes) -> Iterator[Html]:
    """The hottest CPU of each host."""
    for number, load in enumerate(loads):
        yield _line(_cpu_points(load, axes), "cpu2" if number else "cpu")


def cpu_legend(loads: Iterable[HostLoad]) -> Iterator[str]:
    """What these lines are."""
    for number, load in enumerate(loads):
        yield f"{'dotted' if number else 'solid'} line, right axis: hottest CPU of {load.host}"


def _intervals(flow: Flow) -> list[tuple[float, float, float]]:
    """(start, end, bits per second), sorted; of more than `MAX_CHART_POINTS` every n-th."""
    found = []
    for point in flow.points:
        length, rate = point.interval.seconds, point.interval.bits_per_second
        if all(map(is_number, (point.time, length, rate))) and length > 0 and rate >= 0:
            found.append((point.time - length, point.time, rate))
    found.sort()
    return found[:: 1 + len(found) // MAX_CHART_POINTS]


def is_number(value: float | None) -> TypeGuard[float]:
    """It can be drawn."""
    return value is not None and math.isfinite(value) and abs(value) < 1e18


def steps(intervals: Sequence[tuple[float, float, float]], axes: Axes, class_: str, *, area: bool) -> Html:
    """A horizontal line for each interval (start, end, share of the height), or the area below them; gaps between
    intervals, which were not measured, remain empty."""
    pieces, last = "", None
    foot = axes.point(axes.start, 0)[1]
    for start, end, share in intervals:
        (x1, y), (x2, _) = axes.point(start, share), axes.point(end, share)
        joins = last is not None and abs(last - x1) < MAX_STEP_GAP
        if not joins:
            pieces += f"{f'V{foot:g}Z' if area and pieces else ''}M{x1:g} {foot if area else y:g}"
        pieces += f"V{y:g}H{x2:g}"
        last = x2
    return element("path", d=f"{pieces}V{foot:g}Z" if area else pieces, class_=class_)


def _cpu_points(load: HostLoad, axes: Axes) -> list[Point]:
    return [
        axes.point(one.time, one.hottest_busy)
        for one in load.series
        if is_number(one.time) and is_number(one.hottest_busy) and axes.start <= one.time <= axes.end
    ]


def _line(points: Sequence[Point], class_: str) -> Html:
    if len(points) == 1:
        return element("circle", cx=points[0][0], cy=points[0][1], r=2, class_=class_)
    return element("polyline", points=" ".join(f"{x:g},{y:g}" for x, y in points), class_=class_)


def _rate_labels(axes: Axes, top: float) -> Iterator[Html]:
    for share in (0.0, 0.5, 1.0):
        (x1, y), (x2, _) = axes.point(axes.start, share), axes.point(axes.end, share)
        yield element("line", x1=x1, y1=y, x2=x2, y2=y, class_="axis")
        yield label(units.bits_per_second(top * share), x1 - 4, y + 4, "end")


def share_labels(axes: Axes) -> Iterator[Html]:
    """Percentages at the right."""
    for share in (0.0, 0.5, 1.0):
        x, y = axes.point(axes.end, share)
        yield label(units.percentage(share), x + 4, y + 4)


def time_labels(axes: Axes) -> Iterator[Html]:
    """Seconds below the chart, and where the measured ones begin."""
    for time, anchor in ((axes.start, "start"), (axes.end, "end")):
        x, y = axes.point(time, 0)
        yield label(f"{_tenths(time):g} s", x, y + 15, anchor)
    if _tenths(axes.start) < 0 < axes.end:
        x, y = axes.point(0, 0)
        yield element("line", x1=x, y1=MARGIN_TOP, x2=x, y2=y, class_="axis")
        yield label("measurement starts", x + 3, MARGIN_TOP - 3)


def _tenths(time: float) -> float:
    """Without the milliseconds by which clocks differ."""
    return round(time, 1) + 0.0  # no -0


def _legend(result: Result, flows: Sequence[Flow], drawn: float | None, loads: Sequence[HostLoad]) -> Iterator[str]:
    for number, flow in enumerate(flows):
        yield f"{'green line' if number else 'area'}: goodput {flow.sender} → {flow.receiver}"
    if drawn is not None:
        yield f"dashed line: line rate {units.bits_per_second(drawn)}"
    elif result.ceiling is not None and result.ceiling.goodput is not None:
        yield f"line rate {units.bits_per_second(result.ceiling.goodput)}: above the chart"
    yield from cpu_legend(loads)


# ---------------------------------------------------------------------------------------------------------- bars


def bar_chart(bars: Sequence[Bar], title: str, ceiling: float | None = None) -> Html:
    """A bar for each set-up, a line from its lowest to its highest run, a dot for each run. "" without positive
    values."""
    known = [
        value for bar in bars for value in (bar.value, bar.high, *bar.each) if value is not None and is_number(value)
    ]
    if not known or max(known) <= 0:
        return Html("")
    drawn = ceiling if is_number(ceiling) and ceiling and ceiling <= MAX_CEILING_RATIO * max(known) else None
    max_value = max(*known, drawn or 0.0)
    height = len(bars) * (BAR_HEIGHT + BAR_GAP) + BAR_GAP
    parts = [part for number, bar in enumerate(bars) for part in _bar(bar, number, max_value)]
    legend = ["bar: median; line: min to max; dots: runs"]
    if drawn is not None:
        x = _bar_end(drawn, max_value)
        parts.append(element("line", x1=x, y1=2, x2=x, y2=height - 2, class_="ceiling"))
        legend.append(f"dashed line: line rate {units.bits_per_second(drawn)}")
    return figure(parts, height, title, legend)


def _bar_end(value: float, max_value: float) -> float:
    return round(BAR_LABEL_WIDTH + max(0.0, value) / max_value * (CHART_WIDTH - BAR_LABEL_WIDTH - BAR_VALUE_WIDTH), 1)


def _bar(bar: Bar, number: int, max_value: float) -> Iterator[Html]:
    y = BAR_GAP + number * (BAR_HEIGHT + BAR_GAP)
    middle = y + BAR_HEIGHT / 2
    yield label(shortenlabel(bar.label), BAR_LABEL_WIDTH - 6, middle + 4, "end", "value")
    if bar.value is None or not is_number(bar.value):
        yield label("no run completed", BAR_LABEL_WIDTH, middle + 4)
        return
    end = _bar_end(bar.value, max_value)
    yield element(
        "rect", x=BAR_LABEL_WIDTH, y=y, width=max(0.5, end - BAR_LABEL_WIDTH), height=BAR_HEIGHT, class_="bar"
    )
    if bar.low is not None and bar.high is not None and bar.low < bar.high and is_number(bar.low + bar.high):
        ends = (_bar_end(bar.low, max_value), _bar_end(bar.high, max_value))
        path = f"M{ends[0]:g} {middle:g}H{ends[1]:g}" + "".join(f"M{x:g} {middle - 4:g}v8" for x in ends)
        yield element("path", d=path, class_="spread")
    for value in filter(is_number, bar.each if len(bar.each) > 1 else ()):
        yield element("circle", cx=_bar_end(value, max_value), cy=middle, r=2, class_="dot")
    yield label(bar.text or units.bits_per_second(bar.value), CHART_WIDTH - 2, middle + 4, "end", "value")


def shortenlabel(label: str) -> str:
    return label if len(label) <= MAX_BAR_LABEL_CHARS else label[: MAX_BAR_LABEL_CHARS - 1] + "…"


# --------------------------------------------------------------------------------------------------------- parts


def label(content: str, x: float, y: float, anchor: str = "start", class_: str = "") -> Html:
    return element("text", content, x=round(x, 1), y=round(y, 1), text_anchor=anchor, class_=class_)


def figure(parts: Iterable[Html], height: float, title: str, legend: Iterable[str]) -> Html:
    svg = element(
        "svg",
        element("title", title),
        join_html(parts, LINE_END),
        viewBox=f"0 0 {CHART_WIDTH:g} {height:g}",
        role="img",
        aria_label=title,
    )
    return element("figure", svg, element("figcaption", " · ".join(legend)))


def axis_end(value: float) -> float:
    """End of an axis for values up to `value`: the next 1, 2, 2.5 or 5 times a power of ten, at least 1."""
    if not value > 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 2.5, 5) if value <= step * power * 1.0000001), 10 * power)
