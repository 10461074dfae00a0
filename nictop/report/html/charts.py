"""Charts of runs as inline SVG: goodput, ceiling and busiest CPUs over time, and a bar for each
set-up.

Reads nothing; takes a `Result` or bars. Colours are in the style sheet of the page. Stored files
may contain any number: values that are not finite are not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeGuard

from nictop.model.text import units
from nictop.probe.light_dataclasses import dataclass
from nictop.report.document import Bar, BarChart
from nictop.report.html.elements import LINE_END, Html, element, join_html
from nictop.traffic.results.host_load import HostLoad
from nictop.traffic.results.result import Flow, Result

CHART_WIDTH, CHART_HEIGHT = 1000.0, 220.0
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 62.0, 40.0, 14.0, 24.0
"""Margins around the plot, for the labels of the axes."""
MAX_CEILING_RATIO = 8.0
"""Ceiling / highest rate: a higher ceiling is in the legend only, so that the rates remain
visible."""
MAX_STEP_GAP = 0.5
"""Units of the chart between two intervals that are drawn as connected."""
MAX_CHART_POINTS = 2000
BAR_LABEL_WIDTH, BAR_VALUE_WIDTH, BAR_HEIGHT, BAR_GAP = 130.0, 86.0, 16.0, 10.0
COST_TEXT_WIDTH, COST_HEIGHT, COST_LINE = 230.0, 14.0, 3.0
"""Below a bar: a line for each host, with its cost and its name at the right."""
MAX_COST_TEXT_CHARS = 36
MAX_BAR_LABEL_CHARS = 22
"""Longer labels of bars are shortened; the table has all of them."""

Point = tuple[float, float]
Rate = tuple[float, float, float]
"""(start, end, bits per second)"""


@dataclass(frozen=True)
class Axes:
    """Scales of a chart over time: seconds and share of the height → position."""

    start: float
    end: float

    def point(self, time: float, share: float) -> Point:
        """`share`: of the height, 0 to 1."""
        span = self.end - self.start or 1.0  # floats near 2^53 lie more than a second apart
        width = CHART_WIDTH - MARGIN_LEFT - MARGIN_RIGHT
        height = CHART_HEIGHT - MARGIN_TOP - MARGIN_BOTTOM
        x = MARGIN_LEFT + (time - self.start) / span * width
        y = CHART_HEIGHT - MARGIN_BOTTOM - min(1.0, max(0.0, share)) * height
        return round(x, 1), round(y, 1)


# ---------------------------------------------------------------------------------------- over time


def run_chart(result: Result) -> Html:
    """Goodput as an area (of a second direction as a line), each ceiling as a dashed line, the
    hottest CPU of each end as a line on the right axis. "" without intervals."""
    flows = [_intervals(flow) for flow in result.flows]
    intervals = [interval for flow in flows for interval in flow]
    if not intervals:
        return Html("")
    starts, ends, rates = zip(*intervals, strict=True)
    ceilings = _ceilings(result)
    drawn = [known for known in ceilings if drawn_ceiling(known, max(*rates, 1.0))]
    axes, top = Axes(min(starts), max(ends)), axis_end(max(*rates, *drawn, 0.0))
    loads = drawn_loads(result, axes)
    parts = [*_rate_labels(axes, top), *time_labels(axes)]
    if loads:
        parts += share_labels(axes)
    parts += _flow_shapes(flows, axes, top)
    parts += (_ceiling_line(ceiling / top, axes) for ceiling in drawn)
    parts += cpu_lines(loads, axes)
    legend = [*_flow_legend(result), *_ceiling_legend(ceilings, drawn), *cpu_legend(loads)]
    return figure(parts, CHART_HEIGHT, f"{_rate_name(result)} over time", legend)


def _ceilings(result: Result) -> dict[float, str]:
    """Bits per second of each ceiling → its direction; "": it is that of all."""
    if result.ceiling is None:
        return {}
    own = {}
    for flow in result.flows:
        if flow.ceiling is not None and flow.ceiling.goodput:
            own[flow.ceiling.goodput] = f" {flow.sender} → {flow.receiver}"
    if own or not result.ceiling.goodput:
        return own
    return {result.ceiling.goodput: ""}


def drawn_ceiling(ceiling: float | None, highest: float) -> float | None:
    """The ceiling; None: it is not known, or so far above the highest value that this would be
    flat."""
    if not ceiling or not is_number(ceiling):
        return None
    is_far_above = ceiling > MAX_CEILING_RATIO * highest
    return None if is_far_above else ceiling


def _flow_shapes(flows: Iterable[Sequence[Rate]], axes: Axes, top: float) -> Iterator[Html]:
    """An area for the first direction, a line for a second one."""
    for number, intervals in enumerate(flows):
        if intervals:
            shares = [(start, end, rate / top) for start, end, rate in intervals]
            yield steps(shares, axes, "back" if number else "area", area=not number)


def _ceiling_line(share: float, axes: Axes) -> Html:
    (x1, y1), (x2, y2) = axes.point(axes.start, share), axes.point(axes.end, share)
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="ceiling")


def drawn_loads(result: Result, axes: Axes) -> list[HostLoad]:
    """Of client and server, if their CPUs are known at a time of the chart."""
    ends = [load for load in result.hosts if load.role != "observer"]
    return [load for load in ends if _cpu_points(load, axes)]


def cpu_lines(loads: Iterable[HostLoad], axes: Axes) -> Iterator[Html]:
    """The hottest CPU of each host."""
    for number, load in enumerate(loads):
        yield _line(_cpu_points(load, axes), "cpu2" if number else "cpu")


def cpu_legend(loads: Iterable[HostLoad]) -> Iterator[str]:
    """What these lines are."""
    for number, load in enumerate(loads):
        yield f"{'dotted' if number else 'solid'} line, right axis: hottest CPU of {load.host}"


def _intervals(flow: Flow) -> list[Rate]:
    """The measured ones, sorted; of more than `MAX_CHART_POINTS` every n-th."""
    rates = []
    for point in flow.points:
        length, rate = point.interval.seconds, point.interval.bits_per_second
        if not all(map(is_number, (point.time, length, rate))):
            continue
        if length > 0 and rate >= 0:
            rates.append((point.time - length, point.time, rate))
    rates.sort()
    return rates[:: 1 + len(rates) // MAX_CHART_POINTS]


def is_number(value: float | None) -> TypeGuard[float]:
    """It can be drawn."""
    return value is not None and math.isfinite(value) and abs(value) < 1e18


def steps(
    intervals: Sequence[tuple[float, float, float]], axes: Axes, class_: str, *, area: bool
) -> Html:
    """A horizontal line for each interval (start, end, share of the height), or the area below
    them; gaps between intervals, which were not measured, remain empty."""
    foot = axes.point(axes.start, 0)[1]
    closing = f"V{foot:g}Z" if area else ""
    path, last = "", None
    for start, end, share in intervals:
        (x1, y), (x2, _) = axes.point(start, share), axes.point(end, share)
        is_joined = last is not None and abs(last - x1) < MAX_STEP_GAP
        if path and not is_joined:
            path += closing
        if not is_joined:
            path += f"M{x1:g} {foot if area else y:g}"
        path += f"V{y:g}H{x2:g}"
        last = x2
    return element("path", d=path + closing, class_=class_)


def _cpu_points(load: HostLoad, axes: Axes) -> list[Point]:
    """Where the hottest CPU is known at a time of the chart."""
    points = []
    for sample in load.series:
        time, busy = sample.time, sample.hottest_busy
        if not is_number(time) or not is_number(busy):
            continue
        if axes.start <= time <= axes.end:
            points.append(axes.point(time, busy))
    return points


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


def _rate_name(result: Result) -> str:
    """Of what one host sends and receives, with headers."""
    return "rate of the NIC" if result.plan.is_of_one_host else "goodput"


def _flow_legend(result: Result) -> Iterator[str]:
    for number, flow in enumerate(result.flows):
        shape = "green line" if number else "area"
        yield f"{shape}: {_rate_name(result)} {flow.sender} → {flow.receiver}"


def _ceiling_legend(ceilings: Mapping[float, str], drawn: Sequence[float]) -> Iterator[str]:
    """`ceilings`: bits per second → direction."""
    for ceiling, direction in ceilings.items():
        text = f"line rate{direction} {units.bits_per_second(ceiling)}"
        yield f"dashed line: {text}" if ceiling in drawn else f"{text}: above the chart"


# --------------------------------------------------------------------------------------------- bars


@dataclass(frozen=True)
class BarScale:
    """Value → where its bar ends."""

    max_value: float
    max_cost: float
    """0: no bar has a cost."""

    @property
    def room(self) -> float:
        return CHART_WIDTH - BAR_LABEL_WIDTH - self.text_width

    @property
    def text_width(self) -> float:
        return COST_TEXT_WIDTH if self.max_cost else BAR_VALUE_WIDTH

    def end(self, value: float) -> float:
        return round(BAR_LABEL_WIDTH + max(0.0, value) / self.max_value * self.room, 1)

    def cost_width(self, cost: float) -> float:
        return round(max(0.5, max(0.0, cost) / self.max_cost * self.room), 1)


def bar_chart(drawing: BarChart) -> Html:
    """A bar for each set-up, a line from its lowest to its highest run, a dot for each run, below
    it what each host paid. "" without positive values."""
    bars = drawing.bars
    highest = max(chain.from_iterable(map(_drawn_values, bars)), default=0.0)
    if highest <= 0:
        return Html("")
    ceiling = drawn_ceiling(drawing.ceiling, highest)
    costs = [cost.value for bar in bars for cost in bar.costs if is_number(cost.value)]
    scale = BarScale(max(highest, ceiling or 0.0), max(0.0, *costs, 0.0))
    parts: list[Html] = []
    top = BAR_GAP
    for bar in bars:
        parts += _bar(bar, top, scale)
        top += BAR_HEIGHT
        if scale.max_cost:
            parts += _costs(bar, top, scale)
            top += len(bar.costs) * COST_HEIGHT
        top += BAR_GAP
    if ceiling is not None:
        x = scale.end(ceiling)
        parts.append(element("line", x1=x, y1=2, x2=x, y2=top - 2, class_="ceiling"))
    legend_of_ceiling = _ceiling_legend({ceiling: ""}, [ceiling]) if ceiling else ()
    legend = ["bar: median; line: min to max; dots: runs", *legend_of_ceiling]
    if scale.max_cost:
        legend.append(f"line below: {drawing.cost_title}")
    return figure(parts, top, drawing.title, legend)


def _drawn_values(bar: Bar) -> Iterator[float]:
    return filter(is_number, (bar.value, bar.high, *bar.each))


def _costs(bar: Bar, top: float, scale: BarScale) -> Iterator[Html]:
    for number, cost in enumerate(bar.costs):
        middle = top + (number + 0.5) * COST_HEIGHT
        if is_number(cost.value):
            yield element(
                "rect",
                x=BAR_LABEL_WIDTH,
                y=round(middle - COST_LINE / 2, 1),
                width=scale.cost_width(cost.value),
                height=COST_LINE,
                class_="cost",
            )
        text = shortenlabel(f"{cost.text} {cost.host}", MAX_COST_TEXT_CHARS)
        yield label(text, CHART_WIDTH - 2, middle + 4, "end")


def _bar(bar: Bar, top: float, scale: BarScale) -> Iterator[Html]:
    middle = top + BAR_HEIGHT / 2
    yield label(shortenlabel(bar.label), BAR_LABEL_WIDTH - 6, middle + 4, "end", "value")
    if not is_number(bar.value):
        yield label("no run completed", BAR_LABEL_WIDTH, middle + 4)
        return
    width = max(0.5, scale.end(bar.value) - BAR_LABEL_WIDTH)
    yield element("rect", x=BAR_LABEL_WIDTH, y=top, width=width, height=BAR_HEIGHT, class_="bar")
    yield from _spread_line(bar, middle, scale)
    if len(bar.each) > 1:
        for value in filter(is_number, bar.each):
            yield element("circle", cx=scale.end(value), cy=middle, r=2, class_="dot")
    text = bar.text or units.bits_per_second(bar.value)
    yield label(text, CHART_WIDTH - 2, middle + 4, "end", "value")


def _spread_line(bar: Bar, middle: float, scale: BarScale) -> Iterator[Html]:
    """From the lowest run to the highest, with a mark at both ends."""
    low, high = bar.low, bar.high
    if not is_number(low) or not is_number(high) or low >= high:
        return
    x1, x2 = scale.end(low), scale.end(high)
    marks = f"M{x1:g} {middle - 4:g}v8M{x2:g} {middle - 4:g}v8"
    yield element("path", d=f"M{x1:g} {middle:g}H{x2:g}{marks}", class_="spread")


def shortenlabel(label: str, most: int = MAX_BAR_LABEL_CHARS) -> str:
    if len(label) <= most:
        return label
    return label[: most - 1] + "…"


# -------------------------------------------------------------------------------------------- parts


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
    """End of an axis for values up to `value`: the next 1, 2, 2.5 or 5 times a power of ten, at
    least 1."""
    if not value > 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1, 2, 2.5, 5):
        if value <= step * power * 1.0000001:
            return step * power
    return 10 * power
