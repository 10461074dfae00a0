"""Loaded runs on the screen: latency above goodput, idle and loaded told apart, title, list, bars,
comparison."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.report.runs.points import set_up_points
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.generators.latency import EMPTY, LatencySummary
from nictop.traffic.live.run_view import RunView, result_view
from nictop.traffic.results.result import IntervalPoint, Result
from nictop.traffic.results.transactions import IdlePhase, TransactionFigures, TransactionPoint
from nictop.tui.screens.traffic.status import goodput_text, options_text, progress_bar, time_text
from nictop.tui.widgets.charts.bar_chart import draw_points
from nictop.tui.widgets.traffic.chart_drawing import draw_run, layout_of
from nictop.tui.widgets.traffic.comparison_view import draw_comparison
from nictop.tui.widgets.traffic.results_list import COLUMNS, set_ups
from nictop.tui.widgets.traffic.viewport import Viewport
from tests.support.kept_runs import kept_runs
from tests.traffic.analysis.test_loaded import LOADED, loaded, stored
from tests.traffic.analysis.test_transactions import RR, rr
from tests.traffic.pictures import altered
from tests.traffic.runs import flow
from tests.tui.widgets.traffic.test_latency import SIZES, text

BEGUN = 10.5


def point(time: float) -> TransactionPoint:
    median = 310e-6 if time <= BEGUN else 48e-3
    return TransactionPoint(
        time, 0.5, 0, LatencySummary(100, median / 2, median, median, 1.2 * median, 1.4 * median)
    )


def measured(**more: object) -> Result:
    """Idle until 10.5 s; the bulk flow from then on to 22.5 s."""
    arrived = tuple(
        IntervalPoint(BEGUN + 0.5 * number, Interval(0.0, 0.5, 94e6, False))
        for number in range(1, 25)
    )
    points = tuple(point(0.5 * number) for number in range(1, 46))
    return loaded(**{"points": points, "flows": (flow(0.0941, points=arrived),), **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_chart_fits_into_every_size(width: int, height: int, glyphs: Glyphs) -> None:
    lines = text(draw_run(result_view(measured()), Viewport(), width, height, glyphs=glyphs))
    assert len(lines) == height and all(len(line) <= width for line in lines)
    assert glyphs is UNICODE or all(line.isascii() for line in lines)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_the_names_of_the_phases_are_not_joined_to_points(glyphs: Glyphs) -> None:
    """The mark of the maximum is an o in ASCII."""
    view = result_view(measured())
    for width in (60, 80, 118):
        rows = text(draw_run(view, Viewport(), width, 14, glyphs=glyphs))
        (top,) = [row for row in rows if "loaded" in row and "max" not in row]
        assert {"idle", "loaded"} <= set(re.split(r"[^A-Za-z0-9●]+", top)), top


def test_latency_is_above_goodput_and_both_phases_have_their_names() -> None:
    view = result_view(measured())
    assert view.loaded_since == BEGUN
    lines = text(draw_run(view, Viewport(), 118, 20))
    layout = layout_of(view, 118, 20)
    assert (
        layout.latency is not None
        and len(layout.plots) == 1
        and layout.plots[0][0] == sum(layout.latency) + 1
    )
    top, rows = layout.latency
    border = lines[top].index("loaded") - 2
    assert lines[top][border] == "│" and "idle" in lines[top][:border]
    assert all(line[border] == "│" for line in lines[layout.heads : -1])
    foot = lines[-1]
    assert foot.index("10") <= border <= foot.index("12")
    idle, busy = (
        [line[column] for line in lines[top : top + rows]] for column in (border // 2, border + 20)
    )
    assert sum(one != " " for one in idle) < sum(one != " " for one in busy), (
        "loaded latency is higher"
    )
    assert "goodput" in lines[sum(layout.latency)]
    goodput = lines[layout.plots[0][0] : sum(layout.plots[0])]
    assert all(line[border // 2] == " " for line in goodput) and any(
        "█" in line[border:] for line in goodput
    )
    assert any(line.strip().startswith("Mb/s") for line in goodput)
    assert lines[0].startswith(
        "  log  █ p50 48.1 ms ▒ p90 62.8 ms ░ p99 62.8 ms ● max 62.8 ms █ 94.1 Mb/s"
    ), lines[0]
    labels = [line[:5].strip() for line in lines[top : top + rows] if line[:5].strip()]
    assert labels == ["10ms", "1ms"], "logarithmic"


@pytest.mark.parametrize("width", range(60, 140, 4))
def test_the_legend_names_no_cpu_without_its_value(width: int) -> None:
    (run,) = kept_runs("self-test")["self-test-loaded"]
    legend, *_ = text(draw_run(result_view(run.result), Viewport(), width, 10))
    assert "CPU" not in legend or legend.rstrip().endswith((" %", " cores")), legend


def test_a_chart_with_few_rows_has_the_latency() -> None:
    view = result_view(measured())
    for height in (3, 4, 5):
        layout = layout_of(view, 80, height)
        assert layout.latency is not None and layout.plots == ()
    both = result_view(
        measured(plan=replace(LOADED, direction="bidirectional"), flows=2 * measured().flows)
    )
    assert len(layout_of(both, 118, 24).plots) == 2 and len(layout_of(both, 118, 7).plots) == 1
    only = result_view(rr())
    assert layout_of(only, 80, 14).latency is not None and layout_of(only, 80, 14).plots == ()


def test_absurd_figures_of_a_stored_file_are_drawn_or_left_out() -> None:
    for value in (1e300, -5.0, float("nan"), 0.0, 1e-300):
        absurd = replace(point(1.0), latency=LatencySummary(9, value, value, value, value, value))
        assert (
            len(draw_run(result_view(measured(points=(absurd, absurd))), Viewport(), 60, 14)) == 14
        )


def test_title_of_a_live_and_of_a_finished_run() -> None:
    final = result_view(measured())
    assert goodput_text(final) == "p50 310 µs idle, 48.1 ms loaded 94.1 Mb/s"
    assert options_text(final).startswith("loaded · TCP ×1 · 10.0 s idle, 10.0 s loaded")
    latency = TransactionFigures(0.0, EMPTY, points=(point(3.0),))
    begun = RunView(Result(LOADED, 0.0, final.flows, transactions=latency), 3.2)
    idle = altered(begun, flows=(replace(final.flows[0], points=()),))
    assert goodput_text(idle) == "p50 310 µs idle" and time_text(idle) == "3 of 22 s"
    assert goodput_text(begun) == "p50 310 µs 94.0 Mb/s" and progress_bar(begun, UNICODE)
    assert goodput_text(altered(begun, transactions=None)) == ""
    assert idle.loaded_since is None and "idle" in "".join(text(draw_run(idle, Viewport(), 80, 14)))
    assert RunView(Result(RR, 0.0), 3.0).loaded_since is None


def test_legend_of_a_run_that_ended_in_its_idle_phase() -> None:
    figures = measured().transactions
    assert isinstance(figures, TransactionFigures) and isinstance(figures.idle, IdlePhase)
    idle_only = replace(figures, latency=replace(figures.latency, counts={}), loaded_since=None)
    (head, *_) = text(draw_run(result_view(measured(transactions=idle_only)), Viewport(), 118, 20))
    assert "p50 310 µs" in head


def test_list_bars_and_comparison() -> None:
    runs = [
        stored(loaded(busy={"A": 48e3, "B": 5e3}["AB"[number % 2]]), number, "AB"[number % 2])
        for number in range(6)
    ]
    a, b = set_ups(runs)
    cells = {column.key: column.value(a) for column in COLUMNS}
    assert cells["hosts"] == "a → b" and cells["goodput"] == ("48.1 ms", "title"), cells
    bars = text(draw_points(set_up_points(runs), 100, 12))
    assert (
        "loaded latency p50" in bars[0]
        and "ceiling" not in bars[0]
        and bars[-1].rstrip().endswith("50.0 ms")
    )
    full, short = (sum(one == "█" for one in line) for line in (bars[1], bars[4]))
    assert full > 5 * short, bars
    whole = "\n".join(text(draw_comparison(a, b, 100)))
    assert (
        " load p50 A " in whole
        and " goodput  A " in whole
        and "× the loaded latency p50 of" in whole
    )
