"""The latencies of a run as a histogram, beside the chart of their percentiles or in its place.

latency from        transactions: 126391 in 10.0 s
   20 µs ▏                  3    47 µs ███████████ 61210
   22 µs █▏              6120    51 µs ███▌        20011
"""

from __future__ import annotations

from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.report.runs.histogram import GAP_CELLS, LATENCY_CELLS, histogram_rows
from nictop.traffic.live.run_view import RunView
from nictop.tui.widgets.base.line_widget import Span, SpanLine
from nictop.tui.widgets.traffic.legend import cut
from nictop.tui.widgets.traffic.queue_bars import RunLines


def draw_latency_bars(
    run_view: RunView, width: int, rows: int, *, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """At most `rows` lines, none wider than `width`."""
    latency = run_view.latency
    has_room = width >= 1 and rows >= 1
    if run_view.plan.test == "bulk" or not has_room:
        return []
    words = "connections" if run_view.plan.test == "crr" else "transactions"
    if run_view.loaded_since is not None:
        words += ", loaded"
    title = f"{'latency from':>{GAP_CELLS + LATENCY_CELLS}}  {units.count(latency.count)} {words}"
    lines: list[SpanLine] = [((title, "dim"),)] if rows > 1 else []
    for row in histogram_rows(latency, width - GAP_CELLS, rows - len(lines), glyphs=glyphs):
        spans: list[Span] = []
        for bucket in row:
            spans.append((f"{' ' * GAP_CELLS}{bucket.latency} ", "dim"))
            spans.append((bucket.bar, "in"))
            spans.append((f" {bucket.samples}", "title"))
        lines.append(tuple(spans))
    return [cut(line, width) for line in lines]


class LatencyBars(RunLines):
    """`draw_latency_bars` of a run."""

    def shown_of(self, run_view: RunView) -> tuple[object, ...]:
        return run_view.latency, run_view.loaded_since

    def draw(self, run_view: RunView, width: int, rows: int) -> list[SpanLine]:
        return draw_latency_bars(run_view, width, rows, glyphs=self.glyphs)
