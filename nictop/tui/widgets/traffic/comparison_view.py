"""Set-up A against set-up B: the verdict, every run of both on one axis, CPU costs, and what differs.

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
from nictop.tui.widgets.base.line_view import LineView, Span, SpanLine
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
}
LABEL_CELLS, VALUE_CELLS = 11, 19
"""Cells of ``goodput A``, and of the figures behind a bar."""
MIN_BAR_CELLS = 10
MAX_COST_SHARE = 0.6
"""Of the axis: length of the longest bar of CPU costs."""
TICK_STEPS = (1, 2, 2.5, 5, 10)


def verdict_of(runs: Sequence[StoredRun]) -> Comparison | None:
    """Of an experiment that compared two set-ups; None: it did not, or one has no run yet."""
    found = sorted(set_ups(runs), key=lambda one: one.first.group)
    if len(found) != 2 or runs[0].kind != "compare":
        return None
    a, b = found
    return compare_stored_runs(a.point.runs, b.point.runs, _names(a, b))


def _names(a: ResultGroup, b: ResultGroup) -> tuple[str, str]:
    """A and B for those without a name of their own, or with the same one; of one experiment the varied values."""
    if a.first.label == b.first.label and a.varied and b.varied and a.varied != b.varied:
        return a.varied, b.varied
    return ("A", "B") if a.name == b.name else (a.name or "A", b.name or "B")


def draw_comparison(a: ResultGroup, b: ResultGroup, width: int, *, glyphs: Glyphs = UNICODE) -> list[SpanLine]:
    """All lines, none wider than `width`."""
    comparison = compare_stored_runs(a.point.runs, b.point.runs, _names(a, b))
    lines = _verdict_lines(comparison, width, glyphs)
    for figure in comparison.figures:
        lines += _dot_lines(figure, comparison.caveats, width, glyphs)
    for cost in comparison.costs:
        lines += _cost_lines(cost, width, glyphs)
    for number, (what, one, other) in enumerate(comparison.differences):
        label = "differs" if not number else ""
        text = glyphs.text(f"{what}: {one} → {other}")
        for row, part in enumerate(wrap(text, max(10, width - LABEL_CELLS - 1))):
            lines.append(((f" {label if not row else '':<{LABEL_CELLS}}", "dim"), (part, "")))
    return [cut(line, width) for line in lines]


def _verdict_lines(comparison: Comparison, width: int, glyphs: Glyphs) -> list[SpanLine]:
    """The verdict; without one what is known, then why it is not ranked."""
    style = STYLES[comparison.verdict]
    sentences = [(comparison.sentence, style)]
    reasons = _refusals(comparison)
    if reasons:
        known = comparison.known_text.replace(UNICODE.warning, glyphs.warning)
        sentences = [(known, "warn" if any(comparison.caveats) else "title")]
        label = VERDICT_LABELS[comparison.verdict]
        sentences += [(f"{label}: {reason}" if not number else reason, style) for number, reason in enumerate(reasons)]
    return [
        ((f" {part}", style),)
        for sentence, style in sentences
        if sentence
        for part in wrap(glyphs.text(sentence), max(10, width - 4))
    ]


def _refusals(comparison: Comparison) -> list[str]:
    """Why it is not ranked. Of facts that differ only the names: their values are below."""
    reasons = list(refusal_reasons(comparison))
    differing = [
        what for what, _, _ in comparison.differences if any(one.startswith(f"{what} differs: ") for one in reasons)
    ]
    reasons = [one for one in reasons if not any(one.startswith(f"{what} differs: ") for what in differing)]
    return [*reasons, f"different {', '.join(differing)}"] if differing else reasons


def _dot_lines(figure: ComparedFigure, caveats: tuple[str, str], width: int, glyphs: Glyphs) -> list[SpanLine]:
    """Every run of both set-ups as a dot on one axis, which does not begin at 0. `caveats`: of A and B; the sentence
    above has their words."""
    spreads, text = (figure.a, figure.b), figure.measure.text
    known = [spread for spread in spreads if spread is not None]
    bar = width - LABEL_CELLS - VALUE_CELLS - 1
    if not known or bar < MIN_BAR_CELLS:
        return []
    ticks = axis_ticks(min(one.lowest for one in known), max(one.highest for one in known), bar)
    lines: list[SpanLine] = []
    both = zip("AB", spreads, ("in", "out"), caveats, figure.absent, strict=True)
    for number, (letter, spread, style, caveat, absent) in enumerate(both):
        label = f" {FIGURE_LABELS[figure.name] if not number else '':<{LABEL_CELLS - 3}} {letter} "
        if spread is None:
            lines.append(((label, "dim"), (absent, "bad" if absent == NO_RUN else "dim")))
            continue
        mark = glyphs.warning if caveat else ""
        figures = f" {mark}{text(spread.median):>{9 - len(mark)}} {count_noun(len(spread.values), 'run')}"
        lines.append(((label, "title"), *_dots(spread, ticks, bar, style, glyphs), (figures, "title")))
    canvas = Canvas(width, 1)
    scale, free = Scale(ticks[-1], None, "b/s" if figure.name == "goodput" else "/s"), 0
    for value in ticks:
        words = scale.label(value) + (f" {scale.unit}" if value == ticks[-1] else "")
        words = text(value) if figure.measure.less_is_better else words
        x = min(LABEL_CELLS + _cell(value, ticks, bar), width - len(words))
        if x >= free:
            canvas.write(x, 0, words, "dim")
            free = x + len(words) + 1
    key = f"{glyphs.median} median"
    if free + len(key) + 1 < width:
        canvas.write(width - len(key) - 1, 0, key, "dim")
    return [*lines, canvas.row(0)]


def axis_ticks(lowest: float, highest: float, width: int) -> list[float]:
    """Round values from below the lowest to above the highest one, about ten cells apart."""
    if not 0 < highest < math.inf or not lowest >= 0:
        return [0.0, 1.0]
    span = highest - lowest or highest
    rough = max(span, 1e-3 * highest) / max(2, width // 10)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in TICK_STEPS if one * power >= rough * (1 - 1e-9))
    first = max(0, math.floor(lowest / step + 1e-9))
    last = max(first + 1, math.ceil(highest / step - 1e-9))
    return [number * step for number in range(first, last + 1)]


def _cell(value: float, ticks: Sequence[float], width: int) -> int:
    share = (value - ticks[0]) / (ticks[-1] - ticks[0])
    return min(width - 1, max(0, round(share * (width - 1))))


def _dots(spread: Spread, ticks: Sequence[float], width: int, style: str, glyphs: Glyphs) -> list[Span]:
    counts: dict[int, int] = {}
    for value in spread.values:
        cell = _cell(value, ticks, width)
        counts[cell] = counts.get(cell, 0) + 1
    canvas = Canvas(width, 1)
    canvas.write(0, 0, glyphs.ceiling * width, "dim")
    for cell, count in counts.items():
        canvas.put(cell, 0, glyphs.run if count == 1 else str(min(9, count)), style)
    middle = _cell(spread.median, ticks, width)
    canvas.put(middle, 0, glyphs.median if counts.get(middle, 0) < 2 else canvas.at(middle, 0), "title")
    return list(canvas.row(0))


def _cost_lines(cost: Cost, width: int, glyphs: Glyphs) -> list[SpanLine]:
    """Median CPU cost of both set-ups in one role, as bars from 0."""
    most = max((one.median for one in (cost.a, cost.b) if one is not None), default=0.0)
    bar = max(0, int(MAX_COST_SHARE * (width - LABEL_CELLS - VALUE_CELLS - 1)))
    title = "core/Gb" if cost.per == "Gb/s" else "CPU/tr."
    lines: list[SpanLine] = []
    for number, (letter, spread) in enumerate((("A", cost.a), ("B", cost.b))):
        label = f" {title if not number else '':<{LABEL_CELLS - 3}} {letter} "
        if spread is None:
            lines.append(((label, "title"), (f"{units.UNKNOWN} {cost.role}", "dim")))
            continue
        marks = max(1, round(bar * spread.median / most)) if most > 0 and spread.median > 0 and bar else 0
        value = ">999" if spread.median >= 999.5 else cost_value_text(spread.median, cost.per)
        text = f" {value} {cost.role}"
        line: SpanLine = ((label, "title"), (glyphs.cost * marks, "system"), (text, ""))
        if number and cost.ratio is not None:
            ratio = f"   B/A {ratio_text(cost.ratio)}"
            room = width - sum(cells(part) for part, _ in line)
            for words in (f"{ratio} {percent_text(cost.ratio.estimate)}", ratio):
                if cells(words) <= room:
                    line = (*line, (words, "dim"))
                    break
        lines.append(line)
    return lines


class ComparisonView(LineView):
    """`draw_comparison` of two set-ups, or other lines."""

    marks_more = True

    @property
    def more_key(self) -> str:
        return super().more_key if self.has_focus else "Tab PgDn"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pair: tuple[ResultGroup, ResultGroup] | None = None
        self._otherwise: Sequence[SpanLine] = ()

    def show(self, pair: tuple[ResultGroup, ResultGroup] | None, otherwise: Sequence[SpanLine] = ()) -> None:
        """`otherwise`: shown without a pair."""
        self._pair, self._otherwise = pair, otherwise
        self._draw()

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def _draw(self) -> None:
        width = self.scrollable_content_region.width
        pair = self._pair
        self.show_lines(draw_comparison(*pair, width, glyphs=self.glyphs) if pair is not None else self._otherwise)
