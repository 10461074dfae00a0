"""Set-ups beside each other, the points of a sweep or the two sides of a comparison: a bar of goodput for each, and
below it bars of what each host paid for it.

 length │ goodput: █ to the lowest run ▒ to the median ░ to the highest ┊ ceiling
    512 │██████████▒▒░░                              ┊  1.23 Gb/s  13 %
        │━━━━━━━━━━━━━━━━━━━━━━━                        0.71 cores per Gb/s, server b
     4K │█████████████████████████████▒░             ┊  6.02 Gb/s  64 %
        │━━━━━━━                                        0.22 cores per Gb/s, server b
        0              2.5             5              7.5             10 Gb/s
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nictop.model.facts import clean
from nictop.model.facts import width as cells
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.report.runs.latency_axis import MAX_LATENCY_SECONDS, latency_axis
from nictop.report.runs.points import SetUpPoint, point_cells
from nictop.report.runs.sentences import CostUnit, cost_value_text
from nictop.traffic.analysis.comparison import Spread
from nictop.traffic.results.caveats import caveat_of_runs
from nictop.traffic.results.measures import Measure
from nictop.tui.widgets.base.line_view import LineView, Span, SpanLine
from nictop.tui.widgets.charts.plot import Canvas, value_ticks
from nictop.tui.widgets.charts.sparkline import nice_ceiling
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


def draw_points(
    points: Sequence[SetUpPoint], width: int, rows: int, *, names: Sequence[str] = (), glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """A line for each point and, as far as there are rows, for its hosts, those that paid most. `names`: of the points,
    else what was varied tells them apart. None is wider than `width`."""
    if width < 1 or not points:
        return []
    called = [clean(name) for name in names] or [point_cells(point)[0] for point in points]
    most = max((known.highest for known in (point.main for point in points) if known is not None), default=0.0)
    measure = points[0].measures[0]
    ceilings = [_ceiling(point) if measure.name == "goodput" else None for point in points]
    highest = max((one for one in ceilings if one is not None), default=0.0)
    shown = highest > 0 and (most <= 0 or most >= MIN_CEILING_SHARE * highest)
    top = nice_ceiling(min(MAX_SCALE_BITS_PER_SECOND, max(1.0, most, highest if shown else 0.0)))
    if measure.less_is_better:
        top = latency_axis((), min(most, MAX_LATENCY_SECONDS)).top
    costs = _highest_costs(points)
    frame = _frame(called, points, width, top, glyphs=glyphs)
    payers = sorted(costs, key=lambda one: -costs[one])[: max(0, (rows - 2) // len(points) - 1)]
    has_ceiling = any(shown and one for one in ceilings)
    lines: list[SpanLine] = [_head(frame, _caveats(points), has_ceiling=has_ceiling, has_costs=bool(payers))]
    for name, point, ceiling in zip(called, points, ceilings, strict=False):
        lines.append(_goodput_line(name, point, frame, ceiling if shown else None))
        for role, host, known in point.costs:
            if (role, host) not in payers:
                continue
            words = f"{role} {clean(host)}" if width >= MIN_HOST_CELLS else role
            lines.append(_cost_line(words, known, frame, nice_ceiling(max(costs.values(), default=0.0))))
    lines.append(_axis(frame, width))
    return [cut(line, width) for line in lines]


def _highest_costs(points: Sequence[SetUpPoint]) -> dict[tuple[str, str], float]:
    """(role, host) → its highest CPU cost, cores per Gb/s."""
    found: dict[tuple[str, str], float] = {}
    for point in points:
        for role, host, known in point.costs:
            found[role, host] = max(found.get((role, host), 0.0), known.highest if known is not None else 0.0)
    return found


def _ceiling(point: SetUpPoint) -> float | None:
    """Ceiling of the first run, bits per second: all runs of a point use the same path."""
    known = [run.result.ceiling.goodput for run in point.runs if run.result.ceiling is not None]
    return next((one for one in known if one is not None and 0 < one < math.inf), None)


def _frame(names: Sequence[str], points: Sequence[SetUpPoint], width: int, top: float, *, glyphs: Glyphs) -> BarLayout:
    name = min(max(cells(glyphs.text(one)) for one in names), max(3, width // 4))
    hosts = max((cells(f"{role} {clean(host)}") for point in points for role, host, _ in point.costs), default=0)
    words = 0 if width < MIN_VALUE_CELLS else 20 if width < MIN_HOST_CELLS else max(27, min(14 + hosts, width // 3))
    bar = width - name - words - 3
    if bar < MIN_BAR_CELLS:
        words, bar = 0, max(1, width - name - 3)
    return BarLayout(name, bar, words, top, glyphs, points[0].measures[0], points[0].cost_unit)


def _caveats(points: Sequence[SetUpPoint]) -> str:
    """What the figures with a mark lack; "": there are none."""
    return caveat_of_runs(run.result for point in points for run in point.runs)


def _head(frame: BarLayout, caveat: str, *, has_ceiling: bool, has_costs: bool) -> SpanLine:
    low, middle, high = frame.glyphs.spread
    spans: list[Span] = [frame.margin, (frame.measure.title, "dim")]
    spans += [(f" {frame.glyphs.warning} {caveat}", "warn")] if caveat else []
    for mark, words in ((low, "to the lowest run"), (middle, "median"), (high, "highest")):
        spans += [(f" {mark}", GOODPUT_STYLE), (f" {words}", "dim")]
    spans += [(f"  {frame.glyphs.limit}", "title"), (" ceiling", "dim")] if has_ceiling else []
    spans += [(f"  {frame.glyphs.cost}", COST_STYLE), (f" CPU per {frame.cost_unit}", "dim")] if has_costs else []
    return tuple(spans)


def _goodput_line(name: str, point: SetUpPoint, frame: BarLayout, ceiling: float | None) -> SpanLine:
    label: Span = (f" {drawn(name, frame.name, frame.glyphs, 'right')} ", "title")
    known = point.main
    if known is None:
        words = f"no result: {point.failed} of {len(point.runs)} runs failed"
        return label, (drawn(words, frame.bar + frame.words, frame.glyphs), "bad")
    marks = bar_cells(known, frame.top, frame.bar, glyphs=frame.glyphs)
    spans: list[Span] = [label, *_with_ceiling(marks, ceiling, frame)]
    if frame.words:
        mark = frame.glyphs.warning if point.caveat else ""
        words = f" {mark}{frame.measure.text(known.median):>{9 - len(mark)}}"
        words += f" {units.percentage(point.of_ceiling):>6}" if point.of_ceiling is not None else ""
        spans.append((words, "title"))
        spans += [(f" {point.failed} failed", "warn")] if point.failed else []
    return tuple(spans)


def _with_ceiling(marks: str, ceiling: float | None, frame: BarLayout) -> list[Span]:
    """A bar with the mark of the ceiling at its place."""
    if ceiling is None:
        return [(marks, GOODPUT_STYLE)]
    place = min(len(marks) - 1, int(ceiling / frame.top * len(marks)))
    mark: Span = (frame.glyphs.limit, "title")
    return [(marks[:place], GOODPUT_STYLE), mark, (marks[place + 1 :], GOODPUT_STYLE)]


def bar_cells(known: Spread, top: float, width: int, *, glyphs: Glyphs = UNICODE) -> str:
    """A bar in `width` cells, each part up to the nearest cell. A single value ends in eighths of a cell, and what is
    not nothing has at least the smallest mark."""
    low, middle, high = glyphs.spread
    scale = width / top if top > 0 else 0.0
    if known.highest <= 0 or not scale:
        return " " * width
    if known.lowest == known.highest and not glyphs.is_ascii:
        eighths = max(1, min(8 * width, round(8 * known.median * scale)))
        full, rest = divmod(eighths, 8)
        return f"{low * full}{EIGHTHS[rest - 1] if rest else ''}".ljust(width)
    ends = [round(value * scale) for value in (known.lowest, known.median, known.highest)]
    ends[2] = max(1, ends[2])
    first, second, third = (min(width, end) for end in ends)
    return (low * first + middle * (second - first) + high * (third - second)).ljust(width)


def _cost_line(words: str, known: Spread | None, frame: BarLayout, top: float) -> SpanLine:
    """`top`: cost where the bar ends."""
    if known is None:
        return (
            frame.margin,
            (" " * frame.bar, ""),
            (drawn(f" {units.UNKNOWN} {words}", frame.words, frame.glyphs), "dim"),
        )
    marks = max(1, min(frame.bar, round(known.median / top * frame.bar))) if known.median > 0 else 0
    bar: Span = ((frame.glyphs.cost * marks).ljust(frame.bar), COST_STYLE)
    text = cost_value_text(known.median, frame.cost_unit)
    text += " cores" if frame.cost_unit == "Gb/s" else ""
    return frame.margin, bar, (drawn(f" {text:>10} {words}", frame.words, frame.glyphs), "dim")


def _axis(frame: BarLayout, width: int) -> SpanLine:
    """Round values below the bars, the last one with its unit."""
    base = "b/s" if frame.measure.name == "goodput" else "/s"
    scale, left = Scale(frame.top, None, base), frame.name + 2
    canvas = Canvas(width, 1)
    free = 0
    for value in value_ticks(frame.top, max(3, frame.bar // 5)):
        words = scale.label(value) + (f" {scale.unit}" if value == frame.top else "")
        words = frame.measure.text(value) if frame.measure.less_is_better else words
        x = min(left + round(value / frame.top * frame.bar), width - len(words))
        if x >= free:
            canvas.write(x, 0, words, "dim")
            free = x + len(words) + 1
    return canvas.row(0)


class PointChart(LineView):
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
        self.show_lines(draw_points(self._points, width, rows, names=self._names, glyphs=self.glyphs))
