"""Set-ups beside each other, the points of a sweep or the two sides of a comparison: a bar of
goodput for each, and below it bars of what each host paid for it.

 length │ goodput: █ to the lowest run ▒ to the median ░ to the highest ┊ ceiling
    512 │██████████▒▒░░                              ┊  1.23 Gb/s  13 %
        │━━━━━━━━━━━━━━━━━━━━━━━                        0.71 cores per Gb/s, server b
     4K │█████████████████████████████▒░             ┊  6.02 Gb/s  64 %
        │━━━━━━━                                        0.22 cores per Gb/s, server b
        0              2.5             5              7.5             10 Gb/s
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from nictop.model.facts import clean
from nictop.model.facts import width as cells
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import dataclass
from nictop.report.runs.latency_axis import MAX_LATENCY_SECONDS, latency_axis
from nictop.report.runs.points import SetUpPoint, point_cells
from nictop.report.runs.sentences import CostUnit, cost_with_unit
from nictop.traffic.analysis.comparison import Spread
from nictop.traffic.results.caveats import caveat_of_runs
from nictop.traffic.results.measures import Measure
from nictop.traffic.results.result import Result
from nictop.tui.widgets.base.line_widget import LineWidget, Span, SpanLine
from nictop.tui.widgets.charts.plot import Canvas, value_ticks
from nictop.tui.widgets.charts.sparkline import highest, nice_ceiling
from nictop.tui.widgets.traffic.legend import cut
from nictop.tui.widgets.traffic.legend import shown as drawn
from nictop.tui.widgets.traffic.viewport import MAX_SCALE_BITS_PER_SECOND, MIN_CEILING_SHARE, Scale

EIGHTHS = "▏▎▍▌▋▊▉█"
GOODPUT_STYLE, COST_STYLE = "in", "warn"
MIN_VALUE_CELLS, MIN_HOST_CELLS = 36, 90
"""Cells from which on numbers stand beside the bars, and with them the host that paid."""
MIN_BAR_CELLS = 8


@dataclass(frozen=True)
class BarLayout:
    """Columns of the chart."""

    name: int
    bar: int
    words: int
    """Cells of name, bar and text."""
    top: float
    """Value where the bars end."""
    glyphs: Glyphs
    measure: Measure
    """What the bars show."""
    cost_unit: CostUnit

    @property
    def margin(self) -> Span:
        """Blanks before a bar without a name."""
        return " " * (self.name + 2), ""


@dataclass(frozen=True)
class CostBars:
    """Which hosts have a bar of what they paid, and the cost where a bar ends."""

    payers: Collection[tuple[str, str]]
    """(role, host)"""
    top: float

    @classmethod
    def of(cls, points: Sequence[SetUpPoint], rows: int) -> CostBars:
        """Those that paid most, as far as there are rows below each point."""
        costs = _highest_costs(points)
        number = max(0, (rows - 2) // len(points) - 1)
        payers = sorted(costs, key=lambda payer: -costs[payer])[:number]
        return cls(payers, nice_ceiling(max(costs.values(), default=0.0)))


def draw_points(
    points: Sequence[SetUpPoint],
    width: int,
    rows: int,
    *,
    names: Sequence[str] = (),
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """A line for each point and, as far as there are rows, for its hosts, those that paid most.
    `names`: of the points, else what was varied tells them apart. None is wider than `width`."""
    if width < 1 or not points:
        return []
    shown_names = [clean(name) for name in names]
    if not names:
        shown_names = [point_cells(point)[0] for point in points]
    ceilings = _ceilings(points)
    frame = _frame(shown_names, points, width, _top(points, ceilings), glyphs=glyphs)
    costs = CostBars.of(points, rows)
    head = _head(frame, _caveats(points), has_ceiling=any(ceilings), has_costs=bool(costs.payers))
    lines: list[SpanLine] = [head]
    for name, point, ceiling in zip(shown_names, points, ceilings, strict=False):
        lines.append(_goodput_line(name, point, frame, ceiling))
        lines += _cost_lines(point, costs, frame, width)
    lines.append(_axis(frame, width))
    return [cut(line, width) for line in lines]


def _ceilings(points: Sequence[SetUpPoint]) -> list[float | None]:
    """Ceiling of each point, where it is shown: not if all runs are far below it, and not for
    another measure."""
    if points[0].measures[0].name != "goodput":
        return [None] * len(points)
    ceilings = [_ceiling(point) for point in points]
    most = _highest_value(points)
    if 0 < most < MIN_CEILING_SHARE * highest(ceilings):
        return [None] * len(points)
    return ceilings


def _highest_value(points: Sequence[SetUpPoint]) -> float:
    return highest(point.main.highest for point in points if point.main is not None)


def _top(points: Sequence[SetUpPoint], ceilings: Sequence[float | None]) -> float:
    """Value where the bars end."""
    most = _highest_value(points)
    if points[0].measures[0].less_is_better:
        return latency_axis((), min(most, MAX_LATENCY_SECONDS)).top
    most = max(1.0, most, highest(ceilings))
    return nice_ceiling(min(MAX_SCALE_BITS_PER_SECOND, most))


def _highest_costs(points: Sequence[SetUpPoint]) -> dict[tuple[str, str], float]:
    """(role, host) → its highest CPU cost, cores per Gb/s."""
    costs: dict[tuple[str, str], float] = {}
    for point in points:
        for role, host, cost in point.costs:
            value = 0.0
            if cost is not None:
                value = cost.highest
            costs[role, host] = max(costs.get((role, host), 0.0), value)
    return costs


def _ceiling(point: SetUpPoint) -> float | None:
    """Ceiling of the first run, bits per second of all directions together, as its goodput: all
    runs of a point use the same path."""
    for run in point.runs:
        ceiling = run.result.total_ceiling
        if ceiling is not None and 0 < ceiling < math.inf:
            return ceiling
    return None


def _frame(
    names: Sequence[str], points: Sequence[SetUpPoint], width: int, top: float, *, glyphs: Glyphs
) -> BarLayout:
    """Names, bars, and behind these their texts, if there is room."""
    name = min(max(cells(glyphs.text(text)) for text in names), max(3, width // 4))
    words = _word_cells(points, width)
    bar = width - name - words - 3
    if bar < MIN_BAR_CELLS:
        words, bar = 0, max(1, width - name - 3)
    return BarLayout(name, bar, words, top, glyphs, points[0].measures[0], points[0].cost_unit)


def _caveats(points: Sequence[SetUpPoint]) -> str:
    """What the figures with a mark lack; "": there are none."""
    results: list[Result] = []
    for point in points:
        results += [run.result for run in point.runs]
    return caveat_of_runs(results)


def _word_cells(points: Sequence[SetUpPoint], width: int) -> int:
    """Cells for the numbers, and for the host that paid."""
    if width < MIN_VALUE_CELLS:
        return 0
    if width < MIN_HOST_CELLS:
        return 20
    longest = 0
    for point in points:
        for role, host, _ in point.costs:
            longest = max(longest, cells(f"{role} {clean(host)}"))
    return max(27, min(14 + longest, width // 3))


def _head(frame: BarLayout, caveat: str, *, has_ceiling: bool, has_costs: bool) -> SpanLine:
    """What the marks mean."""
    low, middle, high = frame.glyphs.spread
    spans: list[Span] = [frame.margin, (frame.measure.title, "dim")]
    if caveat:
        spans.append((f" {frame.glyphs.warning} {caveat}", "warn"))
    for mark, words in ((low, "to the lowest run"), (middle, "median"), (high, "highest")):
        spans += [(f" {mark}", GOODPUT_STYLE), (f" {words}", "dim")]
    if has_ceiling:
        spans += [(f"  {frame.glyphs.limit}", "title"), (" ceiling", "dim")]
    if has_costs:
        cost_title = " busy CPU" if frame.cost_unit == "busy" else f" CPU per {frame.cost_unit}"
        spans += [(f"  {frame.glyphs.cost}", COST_STYLE), (cost_title, "dim")]
    return tuple(spans)


def _goodput_line(
    name: str, point: SetUpPoint, frame: BarLayout, ceiling: float | None
) -> SpanLine:
    label: Span = (f" {drawn(name, frame.name, frame.glyphs, 'right')} ", "title")
    measured = point.main
    if measured is None:
        words = f"no result: {point.failed} of {len(point.runs)} runs failed"
        if not point.failed:
            words = "no figure to compare"
        return label, (drawn(words, frame.bar + frame.words, frame.glyphs), "bad")
    marks = bar_cells(measured, frame.top, frame.bar, glyphs=frame.glyphs)
    spans: list[Span] = [label, *_with_ceiling(marks, ceiling, frame)]
    if frame.words:
        mark = frame.glyphs.warning if point.caveat else ""
        words = f" {mark}{frame.measure.text(measured.median):>{9 - len(mark)}}"
        if point.of_ceiling is not None:
            words += f" {units.percentage(point.of_ceiling):>6}"
        spans.append((words, "title"))
        if point.failed:
            spans.append((f" {point.failed} failed", "warn"))
    return tuple(spans)


def _with_ceiling(marks: str, ceiling: float | None, frame: BarLayout) -> list[Span]:
    """A bar with the mark of the ceiling at its place."""
    if ceiling is None:
        return [(marks, GOODPUT_STYLE)]
    place = min(len(marks) - 1, int(ceiling / frame.top * len(marks)))
    mark: Span = (frame.glyphs.limit, "title")
    return [(marks[:place], GOODPUT_STYLE), mark, (marks[place + 1 :], GOODPUT_STYLE)]


def bar_cells(values: Spread, top: float, width: int, *, glyphs: Glyphs = UNICODE) -> str:
    """A bar in `width` cells, each part up to the nearest cell. A single value ends in eighths
    of a cell, and what is not nothing has at least the smallest mark."""
    scale = width / top if top > 0 else 0.0
    if values.highest <= 0 or not scale:
        return " " * width
    low, middle, high = glyphs.spread
    if values.lowest == values.highest and not glyphs.is_ascii:
        eighths = max(1, min(8 * width, round(8 * values.median * scale)))
        full, rest = divmod(eighths, 8)
        last = EIGHTHS[rest - 1] if rest else ""
        return f"{low * full}{last}".ljust(width)
    first = min(width, round(values.lowest * scale))
    second = min(width, round(values.median * scale))
    third = min(width, max(1, round(values.highest * scale)))
    return (low * first + middle * (second - first) + high * (third - second)).ljust(width)


def _cost_lines(
    point: SetUpPoint, costs: CostBars, frame: BarLayout, width: int
) -> Iterator[SpanLine]:
    """What the hosts of a point paid."""
    for role, host, cost in point.costs:
        if (role, host) in costs.payers:
            words = f"{role} {clean(host)}" if width >= MIN_HOST_CELLS else role
            yield _cost_line(words, cost, frame, costs.top)


def _cost_line(words: str, cost: Spread | None, frame: BarLayout, top: float) -> SpanLine:
    """`top`: cost where the bar ends."""
    if cost is None:
        text = drawn(f" {units.UNKNOWN} {words}", frame.words, frame.glyphs)
        return frame.margin, (" " * frame.bar, ""), (text, "dim")
    marks = 0
    if cost.median > 0:
        marks = max(1, min(frame.bar, round(cost.median / top * frame.bar)))
    bar: Span = ((frame.glyphs.cost * marks).ljust(frame.bar), COST_STYLE)
    value = cost_with_unit(cost.median, frame.cost_unit)
    return frame.margin, bar, (drawn(f" {value:>10} {words}", frame.words, frame.glyphs), "dim")


def _axis(frame: BarLayout, width: int) -> SpanLine:
    """Round values below the bars, the last one with its unit."""
    left = frame.name + 2
    canvas = Canvas(width, 1)
    free = 0
    for value in value_ticks(frame.top, max(3, frame.bar // 5)):
        words = _tick_text(value, frame)
        x = min(left + round(value / frame.top * frame.bar), width - len(words))
        if x >= free:
            canvas.write(x, 0, words, "dim")
            free = x + len(words) + 1
    return canvas.row(0)


def _tick_text(value: float, frame: BarLayout) -> str:
    measure = frame.measure
    if measure.less_is_better or not measure.scaled_unit:
        return measure.text(value)
    scale = Scale(frame.top, base=measure.scaled_unit)
    text = scale.label(value)
    if value == frame.top:
        text += f" {scale.unit}"
    return text


class PointChart(LineWidget):
    """`draw_points` of the set-ups of an experiment; more of them than there are rows scroll."""

    can_focus = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._points: tuple[SetUpPoint, ...] = ()
        self._names: tuple[str, ...] = ()

    def show(self, points: Sequence[SetUpPoint], names: Sequence[str] = ()) -> None:
        """`names`: of the points, where what was varied does not tell them apart."""
        self._points, self._names = tuple(points), tuple(names)
        self._draw()

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def _draw(self) -> None:
        width, rows = self.scrollable_content_region.width, self.size.height
        self.show_lines(
            draw_points(self._points, width, rows, names=self._names, glyphs=self.glyphs)
        )
