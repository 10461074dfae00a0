"""Tests of requests and responses on the screen: bands of percentiles, list, bars, comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.report.runs.points import set_up_points
from nictop.traffic.generators.latency import LatencySummary
from nictop.traffic.live.run_view import RunView, result_view
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.results.transactions import TransactionPoint
from nictop.tui.screens.traffic.status import goodput_text, options_text, time_text
from nictop.tui.widgets.base.line_view import SpanLine
from nictop.tui.widgets.charts.bar_chart import draw_points
from nictop.tui.widgets.traffic.chart_drawing import draw_run
from nictop.tui.widgets.traffic.comparison_view import draw_comparison
from nictop.tui.widgets.traffic.results_list import COLUMNS, set_ups
from nictop.tui.widgets.traffic.viewport import View
from tests.traffic.analysis.test_transactions import RR, rr

SIZES = [(20, 3), (40, 6), (80, 12), (120, 24), (200, 40)]


def text(lines: list[SpanLine]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def point(time: float, median: float) -> TransactionPoint:
    latency = LatencySummary(9000, median / 2, median, median, 1.2 * median, 2 * median, None, 9 * median)
    return TransactionPoint(time, 1.0, 0, latency)


def measured() -> Result:
    return rr(points=tuple(point(float(second), 80e-6) for second in range(1, 11)))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_bands_fit_into_every_size(width: int, height: int, glyphs: Glyphs) -> None:
    lines = text(draw_run(result_view(measured()), View(), width, height, glyphs=glyphs))
    assert len(lines) == height and all(len(line) <= width for line in lines)
    assert glyphs is UNICODE or all(line.isascii() for line in lines)


def test_bands_of_percentiles() -> None:
    lines = text(draw_run(result_view(measured()), View(), 80, 14))
    assert lines[0].startswith("   µs  █ p50 80.1 µs ▒ p90 104 µs ░ p99 104 µs  12.5 k/s  CPU of a")
    assert "line rate" not in "".join(lines) and "b/s" not in "".join(lines)
    column = [line[20] for line in lines[2:11]]
    assert "".join(column).strip() == "░░░▒████" or set(column) >= set("░▒█")
    at_cursor = text(draw_run(result_view(measured()), View(cursor=3.5), 80, 14))[0]
    assert " at 3.5 s" in at_cursor and "p99 160 µs" in at_cursor


def test_before_the_first_value_the_stage_is_shown() -> None:
    waiting = RunView(RR, "waiting for the first byte", 0.0, (), ())
    assert "waiting for the first byte" in "".join(text(draw_run(waiting, View(), 80, 10)))
    assert goodput_text(waiting) == time_text(waiting) == ""
    live = replace(waiting, transactions=(point(1.0, 80e-6),), seconds=1.2)
    assert goodput_text(live) == "9.00 k/s p50 80.0 µs" and time_text(live) == "1 of 10 s"
    assert options_text(live).startswith("rr · TCP ×1 · 10 s")
    assert goodput_text(result_view(measured())) == "12.5 k/s p50 80.1 µs"


def test_absurd_latencies_of_a_stored_file_are_not_drawn() -> None:
    absurd = (point(1.0, 1e300), point(2.0, -5.0), point(3.0, float("nan")))
    for made in (rr(points=absurd), rr(points=absurd, transactions=None)):
        assert len(draw_run(result_view(made), View(), 60, 10)) == 10


def stored(made: Result, number: int, **more: object) -> StoredRun:
    run = StoredRun(f"run{number}", "experiment", made, 1_790_000_000.0 + number, "0.1", number=number)
    return replace(run, **more)  # type: ignore[arg-type]


def compared() -> list[StoredRun]:
    runs = []
    for number in range(6):
        group = "AB"[number % 2]
        made = rr({"A": 80.0, "B": 60.0}[group] + number / 10)
        value = {"A": "1", "B": "4"}[group]
        runs.append(stored(made, number, kind="compare", group=group, variable="queues", value=value))
    return runs


def test_list_has_transactions_and_their_cost() -> None:
    row = set_ups(compared())[0]
    cells = {column.key: column.value(row) for column in COLUMNS}
    assert cells["hosts"] == "a ↔ b" and cells["goodput"] == ("12.5 k/s", "title") and cells["cost"] == "40.1 µs"
    assert str(cells["test"]).startswith("queues=1 rr TCP ×1 10 s")


def test_bars_are_transactions() -> None:
    lines = text(draw_points(set_up_points(compared()), 100, 12))
    assert "transactions/s" in lines[0] and "CPU per transaction" in lines[0]
    assert "16.6 k/s" in "".join(lines) and "20 k/s" in lines[-1] and "b/s" not in "".join(lines)
    assert any("40.1 µs" in line for line in lines) and "cores" not in "".join(lines)


def test_comparison_has_transactions_and_latencies() -> None:
    a, b = set_ups(compared())
    lines = text(draw_comparison(a, b, 100))
    whole = "\n".join(lines)
    assert "× the transactions/s of" in whole and "CPU/tr." in whole
    assert " trans/s  A " in whole and " p50      A " in whole
    assert "b/s" not in whole and "goodput" not in whole
