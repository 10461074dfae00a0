"""Set-up A against set-up B: the verdict, every run of both on one axis, CPU costs, and what
differs.

 Better: queues 4 = 1.63× of queues 1 (+63 %, 95 % CI 1.60–1.66)
 goodput A ──●●◆●●──────────────────────────────── 5.60 Gb/s  5 runs
         B ────────────────────────────────●●◆●●── 9.20 Gb/s  5 runs
           5.5      6.5       7.5       8.5     9.5 Gb/s
 core/Gb A ━━━━━━━━━━━━━━━━━━ 0.31 server
         B ━━━━━━━━━━━━━━━━━━━━━━ 0.38 server   B/A 1.22 (1.10 to 1.36) +22 %
 differs   queues 1 → 4

A digit stands for that many runs in one cell. Pure functions, and the widget that shows them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from nictop.model.facts import width as cells
from nictop.model.facts import wrap
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.words import count_noun
from nictop.report.runs.comparison import ratio_text, refusal_reasons
from nictop.report.runs.sentences import cost_value_text
from nictop.traffic.analysis.comparison import (
    NO_RUN,
    VERDICT_LABELS,
    ComparedFigure,
    Comparison,
    ComparisonVerdict,
    Cost,
    Spread,
    compare_stored_runs,
    percent_text,
)
from nictop.traffic.results.measures import MeasureName
from nictop.traffic.results.selection import StoredRun
from nictop.tui.widgets.base.line_widget import LineWidget, Span, SpanLine, span_cells
from nictop.tui.widgets.charts.plot import Canvas
from nictop.tui.widgets.traffic.legend import cut
from nictop.tui.widgets.traffic.results_list import ResultGroup, set_ups
from nictop.tui.widgets.traffic.viewport import Scale

STYLES: dict[ComparisonVerdict, str] = {
    "better": "good",
    "worse": "bad",
    "same": "accent",
    "not settled": "warn",
    "refused": "warn",
}
FIGURE_LABELS: dict[MeasureName, str] = {
    "goodput": "goodput",
    "transactions": "trans/s",
    "p50": "p50",
    "p99": "p99",
    "loaded p50": "load p50",
    "loaded p99": "load p99",
    "cpu": "CPU",
    "duration": "duration",
    "rate": "NIC rate",
    "value": "figure",
    "smaller value": "figure",
    "cpu per gigabit": "CPU/Gb/s",
    "storage": "storage",
}
LABEL_CELLS, VALUE_CELLS = 11, 19
"""Cells of ``goodput A``, and of the figures behind a bar."""
MIN_BAR_CELLS = 10
MAX_COST_SHARE = 0.6
"""Of the axis: length of the longest bar of CPU costs."""
TICK_STEPS = (1, 2, 2.5, 5, 10)


def verdict_of(runs: Sequence[StoredRun]) -> Comparison | None:
    """Of an experiment that compared two set-ups; None: it did not, or one has no run yet."""
    groups = sorted(set_ups(runs), key=lambda group: group.first.group)
    if len(groups) != 2 or runs[0].kind != "compare":
        return None
    a, b = groups
    return compare_stored_runs(a.point.runs, b.point.runs, _names(a, b))


def _names(a: ResultGroup, b: ResultGroup) -> tuple[str, str]:
    """A and B for those without a name of their own, or with the same one; of one experiment the
    varied values."""
    is_one_label = a.first.label == b.first.label
    if is_one_label and a.varied and b.varied and a.varied != b.varied:
        return a.varied, b.varied
    if a.name == b.name:
        return "A", "B"
    return a.name or "A", b.name or "B"


def draw_comparison(
    a: ResultGroup, b: ResultGroup, width: int, *, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """All lines, none wider than `width`."""
    comparison = compare_stored_runs(a.point.runs, b.point.runs, _names(a, b))
    lines = _verdict_lines(comparison, width, glyphs)
    for figure in comparison.figures:
        lines += _dot_lines(figure, comparison.caveats, width, glyphs)
    for cost in comparison.costs:
        lines += _cost_lines(cost, width, glyphs)
    label = "differs"
    for what, of_a, of_b in comparison.difference_texts:
        text = glyphs.text(f"{what}: {of_a} → {of_b}")
        for part in wrap(text, max(10, width - LABEL_CELLS - 1)):
            lines.append(((f" {label:<{LABEL_CELLS}}", "dim"), (part, "")))
            label = ""
    return [cut(line, width) for line in lines]


def _verdict_lines(comparison: Comparison, width: int, glyphs: Glyphs) -> list[SpanLine]:
    """The verdict; without one what is known, then why it is not ranked."""
    style = STYLES[comparison.verdict]
    sentences = [(comparison.sentence, style)]
    reasons = _refusals(comparison)
    if reasons:
        known = comparison.known_text.replace(UNICODE.warning, glyphs.warning)
        sentences = [(known, "warn" if any(comparison.caveats) else "title")]
        reasons[0] = f"{VERDICT_LABELS[comparison.verdict]}: {reasons[0]}"
        sentences += [(reason, style) for reason in reasons]
    lines: list[SpanLine] = []
    for sentence, tone in sentences:
        if sentence:
            parts = wrap(glyphs.text(sentence), max(10, width - 4))
            lines += [((f" {part}", tone),) for part in parts]
    return lines


def _refusals(comparison: Comparison) -> list[str]:
    """Why it is not ranked. Of facts that differ only the names: their values are below."""
    others: list[str] = []
    differing: dict[str, None] = {}
    names = [what for what, _, _ in comparison.difference_texts]
    for reason in refusal_reasons(comparison):
        about = [name for name in names if reason.startswith(f"{name} differs: ")]
        if about:
            differing.update(dict.fromkeys(about))
        else:
            others.append(reason)
    if not differing:
        return others
    in_order = [name for name in names if name in differing]
    return [*others, f"different {', '.join(in_order)}"]


def _dot_lines(
    figure: ComparedFigure, caveats: tuple[str, str], width: int, glyphs: Glyphs
) -> list[SpanLine]:
    """Every run of both set-ups as a dot on one axis, which does not begin at 0. `caveats`: of A
    and B; the sentence above has their words."""
    spreads = (figure.a, figure.b)
    known = [spread for spread in spreads if spread is not None]
    bar = width - LABEL_CELLS - VALUE_CELLS - 1
    if not known or bar < MIN_BAR_CELLS:
        return []
    lowest = min(spread.lowest for spread in known)
    highest = max(spread.highest for spread in known)
    ticks = axis_ticks(lowest, highest, bar)
    lines: list[SpanLine] = []
    labels = (FIGURE_LABELS[figure.name], "A"), ("", "B")
    both = zip(labels, spreads, ("in", "out"), caveats, figure.absent, strict=True)
    for (title, letter), spread, style, caveat, absent in both:
        label = f" {title:<{LABEL_CELLS - 3}} {letter} "
        if spread is None:
            lines.append(((label, "dim"), (absent, "bad" if absent == NO_RUN else "dim")))
            continue
        dots = _dots(spread, ticks, bar, style, glyphs)
        figures = _figures_text(figure, spread, glyphs.warning if caveat else "")
        lines.append(((label, "title"), *dots, (figures, "title")))
    return [*lines, _axis_line(figure, ticks, bar, width, glyphs)]


def _figures_text(figure: ComparedFigure, spread: Spread, mark: str) -> str:
    """Median and number of runs. `mark`: of what they lack."""
    value = figure.measure.text(spread.median)
    return f" {mark}{value:>{9 - len(mark)}} {count_noun(len(spread.values), 'run')}"


def axis_ticks(lowest: float, highest: float, width: int) -> list[float]:
    """Round values from below the lowest to above the highest one, about ten cells apart."""
    if not 0 < highest < math.inf or not lowest >= 0:
        return [0.0, 1.0]
    span = highest - lowest or highest
    rough = max(span, 1e-3 * highest) / max(2, width // 10)
    power = 10.0 ** math.floor(math.log10(rough))
    steps = [factor * power for factor in TICK_STEPS]
    step = next(step for step in steps if step >= rough * (1 - 1e-9))
    first = max(0, math.floor(lowest / step + 1e-9))
    last = max(first + 1, math.ceil(highest / step - 1e-9))
    return [number * step for number in range(first, last + 1)]


def _cell(value: float, ticks: Sequence[float], width: int) -> int:
    share = (value - ticks[0]) / (ticks[-1] - ticks[0])
    return min(width - 1, max(0, round(share * (width - 1))))


def _axis_line(
    figure: ComparedFigure, ticks: Sequence[float], bar: int, width: int, glyphs: Glyphs
) -> SpanLine:
    """Round values below the dots, the last one with its unit, and what the mark of the median
    is."""
    canvas, free = Canvas(width, 1), 0
    for value in ticks:
        words = _tick_text(figure, value, ticks)
        x = min(LABEL_CELLS + _cell(value, ticks, bar), width - len(words))
        if x >= free:
            canvas.write(x, 0, words, "dim")
            free = x + len(words) + 1
    key = f"{glyphs.median} median"
    if free + len(key) + 1 < width:
        canvas.write(width - len(key) - 1, 0, key, "dim")
    return canvas.row(0)


def _tick_text(figure: ComparedFigure, value: float, ticks: Sequence[float]) -> str:
    measure = figure.measure
    if measure.less_is_better or not measure.scaled_unit:
        return measure.text(value)
    scale = Scale(ticks[-1], base=measure.scaled_unit)
    text = scale.label(value)
    return f"{text} {scale.unit}" if value == ticks[-1] else text


def _dots(
    spread: Spread, ticks: Sequence[float], width: int, style: str, glyphs: Glyphs
) -> list[Span]:
    counts = Counter(_cell(value, ticks, width) for value in spread.values)
    canvas = Canvas(width, 1)
    canvas.write(0, 0, glyphs.ceiling * width, "dim")
    for cell, count in counts.items():
        canvas.put(cell, 0, glyphs.run if count == 1 else str(min(9, count)), style)
    middle = _cell(spread.median, ticks, width)
    median = canvas.at(middle, 0) if counts[middle] > 1 else glyphs.median
    canvas.put(middle, 0, median, "title")
    return list(canvas.row(0))


def _cost_lines(cost: Cost, width: int, glyphs: Glyphs) -> list[SpanLine]:
    """Median CPU cost of both set-ups in one role, as bars from 0."""
    known = [spread.median for spread in (cost.a, cost.b) if spread is not None]
    bar = max(0, int(MAX_COST_SHARE * (width - LABEL_CELLS - VALUE_CELLS - 1)))
    longest = (max(known, default=0.0), bar)
    title = "core/Gb" if cost.per == "Gb/s" else "CPU/tr."
    lines = [
        _cost_line(f"{title:<{LABEL_CELLS - 3}} A", cost, cost.a, longest, glyphs),
        _cost_line(f"{'':<{LABEL_CELLS - 3}} B", cost, cost.b, longest, glyphs),
    ]
    if cost.b is not None:
        lines[1] = (*lines[1], *_ratio_spans(cost, width - span_cells(lines[1])))
    return lines


def _cost_line(
    label: str, cost: Cost, spread: Spread | None, longest: tuple[float, int], glyphs: Glyphs
) -> SpanLine:
    """`longest`: median and cells of the longest bar."""
    lead: Span = (f" {label} ", "title")
    if spread is None:
        return (lead, (f"{units.UNKNOWN} {cost.role}", "dim"))
    most, bar = longest
    marks = 0
    if bar and spread.median > 0:
        marks = max(1, round(bar * spread.median / most))
    value = cost_value_text(spread.median, cost.per)
    if spread.median >= 999.5:
        value = ">999"
    return (lead, (glyphs.cost * marks, "system"), (f" {value} {cost.role}", ""))


def _ratio_spans(cost: Cost, room: int) -> list[Span]:
    """B relative to A, as long as there is room for it."""
    if cost.ratio is None:
        return []
    ratio = f"   B/A {ratio_text(cost.ratio)}"
    for words in (f"{ratio} {percent_text(cost.ratio.estimate)}", ratio):
        if cells(words) <= room:
            return [(words, "dim")]
    return []


class ComparisonLines(LineWidget):
    """`draw_comparison` of two set-ups, or other lines."""

    marks_more = True

    @property
    def more_key(self) -> str:
        key = super().more_key
        return key if self.has_focus else f"{self.key_label('pane')} {key}"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pair: tuple[ResultGroup, ResultGroup] | None = None
        self._otherwise: Sequence[SpanLine] = ()

    def show(
        self, pair: tuple[ResultGroup, ResultGroup] | None, otherwise: Sequence[SpanLine] = ()
    ) -> None:
        """`otherwise`: shown without a pair."""
        self._pair, self._otherwise = pair, otherwise
        self._draw()

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def _draw(self) -> None:
        lines = self._otherwise
        if self._pair is not None:
            width = self.scrollable_content_region.width
            lines = draw_comparison(*self._pair, width, glyphs=self.glyphs)
        self.show_lines(lines)
