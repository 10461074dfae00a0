"""Set-up A against set-up B: the verdict in words or why there is none, both side by side, and in what they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from nictop.report.runs.comparison import comparison_text
from nictop.traffic.analysis.comparison import Comparison, ComparisonVerdict, compare_stored_runs
from nictop.traffic.results.selection import StoredRun
from nictop.tui.keys import COMPARISON_KEYS
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.widgets.base.line_view import LineView, SpanLine
from nictop.tui.widgets.charts.bar_chart import PointChart
from nictop.tui.widgets.traffic.results_list import ResultGroup, set_ups

FRAME_ROWS = 5
"""Of the frame, and the border between text and bars."""
BAR_ROWS = 6
"""Of the bars below the text."""

STYLES: dict[ComparisonVerdict, str] = {
    "better": "good",
    "worse": "bad",
    "same": "accent",
    "not settled": "warn",
    "refused": "warn",
}


def verdict_of(runs: Sequence[StoredRun]) -> Comparison | None:
    """Of an experiment that compared two set-ups; None: it did not, or one has no run yet."""
    found = sorted(set_ups(runs), key=lambda one: one.first.group)
    if len(found) != 2 or runs[0].kind != "compare":
        return None
    a, b = found
    return compare_stored_runs(a.point.runs, b.point.runs, (a.name, b.name))


class ComparisonScreen(FramedScreen):
    """Over the list of kept runs."""

    TAB = "results"
    BINDINGS: ClassVar[list[BindingType]] = COMPARISON_KEYS

    def __init__(self, a: ResultGroup, b: ResultGroup) -> None:
        super().__init__()
        self._a, self._b = a, b

    def compose_body(self) -> Iterable[Widget]:
        yield LineView(id="comparison-lines")
        yield PointChart(id="comparison-points")

    def on_mount(self) -> None:
        self.query_one("#comparison-lines").focus()
        self.call_after_refresh(self._draw)

    def on_line_view_resized(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        view = self.query_one("#comparison-lines", LineView)
        names = (self._a.name, self._b.name)
        comparison = compare_stored_runs(self._a.point.runs, self._b.point.runs, names)
        text = comparison_text(comparison, names, max(20, view.size.width - 2), self.glyphs)
        lines: list[SpanLine] = []
        verdict = False
        for line in text.rstrip("\n").split("\n"):
            verdict = bool(line) and (verdict or (bool(lines) and not lines[-1][0][0].strip() and len(lines) < 5))
            shown = self.glyphs.text(line)
            lines.append(((f" {shown}", STYLES[comparison.verdict] if verdict else ""),))
        view.take_rows(max(3, min(len(lines), self.size.height - FRAME_ROWS - BAR_ROWS)))
        view.show_lines(lines)
        self.query_one(PointChart).show((self._a.point, self._b.point), [f"A {names[0]}", f"B {names[1]}"])

    def action_turn(self) -> None:
        self._a, self._b = self._b, self._a
        self._draw()

    def action_copy(self) -> None:
        lines = ["".join(text for text, _ in line) for line in self.query_one("#comparison-lines", LineView).lines]
        self.nictop.copy_lines(lines, ["the comparison as text"])
