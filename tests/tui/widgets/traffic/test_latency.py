"""Tests of requests and responses on the screen: bands of percentiles, list, bars, comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.probe.traffic.builtin.latency_buckets import bucket_of
from nictop.report.runs.latency_axis import LatencyAxis, latency_axis
from nictop.report.runs.points import set_up_points
from nictop.report.runs.text import run_text
from nictop.traffic.analysis.nic_incidents import NicIncident
from nictop.traffic.generators.latency import EMPTY, LatencyHistogram, LatencySummary
from nictop.traffic.live.run_view import RunView, result_view
from nictop.traffic.results.result import Result
from nictop.traffic.results.selection import StoredRun
from nictop.traffic.results.transactions import TransactionFigures, TransactionPoint
from nictop.traffic.run.events import RunFinished
from nictop.tui.screens.traffic.status import goodput_text, options_text, time_text
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.charts.bar_chart import draw_points
from nictop.tui.widgets.traffic.chart_drawing import draw_run
from nictop.tui.widgets.traffic.comparison_view import draw_comparison
from nictop.tui.widgets.traffic.latency_bars import draw_latency_bars
from nictop.tui.widgets.traffic.latency_drawing import band_tops
from nictop.tui.widgets.traffic.results_list import COLUMNS, set_ups
from nictop.tui.widgets.traffic.viewport import Viewport
from tests.traffic.analysis.test_transactions import RR, interval, latencies, rr
from tests.traffic.pictures import altered
from tests.traffic.watched import Watched

SIZES = [(20, 3), (40, 6), (80, 12), (120, 24), (200, 40)]


def text(lines: list[SpanLine]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def point(time: float, median: float) -> TransactionPoint:
    latency = LatencySummary(
        9000, median / 2, median, median, 1.2 * median, 2 * median, None, 9 * median
    )
    return TransactionPoint(time, 1.0, 0, latency)


def of_points(*points: TransactionPoint) -> RunView:
    """A running run."""
    figures = TransactionFigures(0.0, EMPTY, points=points)
    return RunView(Result(RR, 0.0, transactions=figures), 0.0)


def measured() -> Result:
    return rr(points=tuple(point(float(second), 80e-6) for second in range(1, 11)))


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_bands_fit_into_every_size(width: int, height: int, glyphs: Glyphs) -> None:
    lines = text(draw_run(result_view(measured()), Viewport(), width, height, glyphs=glyphs))
    assert len(lines) == height and all(len(line) <= width for line in lines)
    assert glyphs is UNICODE or all(line.isascii() for line in lines)


def test_bands_of_percentiles() -> None:
    lines = text(draw_run(result_view(measured()), Viewport(), 80, 14))
    assert lines[0].startswith(
        "   µs  █ p50 80.1 µs ▒ p90 104 µs ░ p99 104 µs ● max 104 µs  CPU of a"
    )
    assert "line rate" not in "".join(lines) and "b/s" not in "".join(lines)
    column = "".join(line[20] for line in lines[1:10])
    assert [mark for mark in "●░█" if mark in column] == ["●", "░", "█"], column
    at_cursor = text(draw_run(result_view(measured()), Viewport(cursor=3.5), 80, 14))[0]
    assert " at 3.5 s" in at_cursor and "p99 160 µs" in at_cursor


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_a_legend_that_is_cut_ends_with_the_sign_of_it(glyphs: Glyphs) -> None:
    whole = text(draw_run(result_view(measured()), Viewport(), 200, 14, glyphs=glyphs))[0]
    for width in range(20, 60):
        legend = text(draw_run(result_view(measured()), Viewport(), width, 14, glyphs=glyphs))[0]
        is_whole = whole.startswith(f"{legend.rstrip()} ") and "max" in legend
        assert is_whole or legend.rstrip().endswith(glyphs.text("…")), legend


def test_a_percentile_that_no_interval_has_is_named_without_its_mark() -> None:
    """A loaded run has too few samples in an interval for p99, and enough in the whole run."""
    points = [point(float(second), 80e-6) for second in range(1, 11)]
    few = tuple(replace(one, latency=replace(one.latency, p99=None)) for one in points)
    legend = text(draw_run(result_view(rr(points=few)), Viewport(), 80, 14))[0]
    assert legend.startswith("   µs  █ p50 80.1 µs ▒ p90 104 µs p99 104 µs ●"), legend


def far(time: float) -> TransactionPoint:
    """A median of 80 µs, and one transaction of 8 ms."""
    return TransactionPoint(
        time, 1.0, 0, LatencySummary(9000, 7e-5, 8e-5, 8e-5, 9e-5, 1.6e-4, None, 8e-3)
    )


def test_an_axis_has_medians_above_the_highest_latency() -> None:
    """A stored file may contain any numbers."""
    axis = latency_axis([1.0], 0.8, logarithmic=True)
    assert (axis.low, axis.top) == (0.8, 1.0) and axis.share(1.0) == 1.0 and axis.log_ticks(5)
    assert latency_axis([1.0], 0.5).top == 1.0


def test_a_high_maximum_makes_the_axis_logarithmic() -> None:
    made = rr(points=tuple(far(float(second)) for second in range(1, 11)))
    lines = text(draw_run(result_view(made), Viewport(), 80, 20))
    assert lines[0].startswith("  log  █ p50") and not any(
        line.lstrip().startswith("0┤") for line in lines
    )
    labels = {
        line[: line.index("┤")].strip(): row for row, line in enumerate(lines[1:16]) if "┤" in line
    }
    assert list(labels) == ["5ms", "2ms", "1ms", "500µs", "200µs", "100µs"]  # from 60 µs to 8 ms
    column = [line[20] for line in lines[1:16]]
    assert column.index("●") == 0 < labels["5ms"]
    assert labels["200µs"] <= column.index("░") <= labels["100µs"] <= column.index("█")
    assert "max 8.00 ms" in text(draw_run(result_view(made), Viewport(cursor=3.5), 80, 20))[0]


def test_percentiles_that_differ_are_seen_and_at_most_one_row_too_high() -> None:
    axis = LatencyAxis(1.0, "s", 1.0)
    for rows in range(1, 20):
        for values in (
            (0.5, 0.52, 0.54),
            (0.1, 0.1, 0.9),
            (0.01, 0.02, 0.03),
            (0.97, 0.98, 1.0),
            (0.3, None, 0.31),
        ):
            tops = band_tops(values, axis, rows)
            known = [
                (top, value) for top, value in zip(tops, values, strict=True) if value is not None
            ]
            assert [top for top, _ in known] == sorted(top for top, _ in known) and tops[-1] <= rows
            assert all(
                max(1, round(value * rows)) <= top <= round(value * rows) + 1
                for top, value in known
            )
    assert band_tops((0.5, 0.52, 0.54), axis, 10) == [5, 6, 6] and band_tops(
        (0.5, None, 0.5), axis, 10
    ) == [5, 0, 5]
    assert band_tops((0.5, 0.56, 0.65), axis, 10) == [5, 6, 7]


def test_a_column_has_the_highest_latency_of_its_intervals() -> None:
    points = [point(float(second), 80e-6) for second in range(1, 1001)]
    points[500] = far(501.0)
    made = rr(points=tuple(points), plan=replace(RR, time=1000))
    lines = text(draw_run(result_view(made), Viewport(), 60, 12))
    assert lines[0].startswith("  log") and sum(line.count("●") for line in lines[1:4]) == 1


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (10, 2), *SIZES])
def test_histogram_fits_into_every_size(width: int, height: int, glyphs: Glyphs) -> None:
    wide = LatencyHistogram({bucket_of(10**power): 10**power for power in range(2, 10)}, 1)
    for latency in (wide, latencies(80.0)):
        made = draw_latency_bars(result_view(rr(latency=latency)), width, height, glyphs=glyphs)
        lines = text(made)
        assert 1 <= len(lines) <= height and all(len(line) <= width for line in lines)
        assert glyphs is UNICODE or all(line.isascii() for line in lines)


def test_histogram_has_the_counts_of_all_transactions() -> None:
    view = result_view(
        rr(latency=LatencyHistogram({bucket_of(50_000): 60, bucket_of(73_000): 40}, 1))
    )
    assert text(draw_latency_bars(view, 44, 9)) == [
        "latency from  100 transactions",
        "    47 µs █████████████████████████████ 60",
        "    51 µs                                0",
        "    56 µs                                0",
        "    62 µs                                0",
        "    68 µs ███████████████████▍          40",
    ]
    assert draw_latency_bars(altered(view, plan=replace(RR, test="bulk")), 44, 9) == []


def test_live_histogram_has_the_measured_intervals() -> None:
    live = Watched(RR)
    for start, count, omitted in ((0, 100, True), (0, 200, False), (1, 190, False)):
        live.report("client", interval(start, count, omitted=omitted))
    assert live.view(12.0).latency.count == 390
    over = rr(latency=latencies(80.0, 400))
    live.live.process(RunFinished(over))
    assert over.transactions is not None and live.view(13).latency == over.transactions.latency


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("columns", [40, 80, 132])
def test_the_text_of_a_run_has_the_histogram(columns: int, glyphs: Glyphs) -> None:
    lines = glyphs.encode(run_text(measured(), columns, glyphs)).splitlines()
    first = lines.index("Histogram: latency from, transactions") + 1
    counts = [
        int(word)
        for line in lines[first:]
        for word in line.split()
        if word.isdecimal() and int(word) > 100
    ]
    assert sum(counts) == 125_000 and max(map(len, lines)) <= columns
    assert glyphs is UNICODE or all(line.isascii() for line in lines)
    assert "Histogram" not in run_text(rr(latency=LatencyHistogram({}, 0)), columns)


def test_before_the_first_value_the_stage_is_shown() -> None:
    waiting = RunView(Result(RR, 0.0), 0.0, "waiting for the first byte")
    assert "waiting for the first byte" in "".join(text(draw_run(waiting, Viewport(), 80, 10)))
    assert goodput_text(waiting) == time_text(waiting) == ""
    live = replace(of_points(point(1.0, 80e-6)), seconds=1.2)
    assert goodput_text(live) == "9.00 k/s p50 80.0 µs" and time_text(live) == "1 of 10 s"
    for seconds, shown in ((9.9, "9 of 10 s"), (10.4, "10 of 10 s"), (12.6, "10 of 10 s")):
        late = replace(of_points(point(seconds, 80e-6)), seconds=seconds)
        assert time_text(late) == shown, (
            "never more than planned, and no second that has not passed"
        )
    lost = NicIncident("a", "ens4", 1.1, "no_carrier", "")
    interrupted = replace(live, incidents=(lost,))
    assert goodput_text(interrupted) == "", "its last interval was before the link was lost"
    assert "80.0 µs" not in "".join(text(draw_run(interrupted, Viewport(), 80, 10)[:1]))
    assert options_text(live).startswith("rr · TCP ×1 · 10 s")
    assert goodput_text(result_view(measured())) == "12.5 k/s p50 80.1 µs"


def test_absurd_latencies_of_a_stored_file_are_not_drawn() -> None:
    absurd = (point(1.0, 1e300), point(2.0, -5.0), point(3.0, float("nan")))
    for made in (rr(points=absurd), rr(points=absurd, transactions=None)):
        assert len(draw_run(result_view(made), Viewport(), 60, 10)) == 10


def stored(made: Result, number: int, **more: object) -> StoredRun:
    run = StoredRun(
        f"run{number}", "experiment", made, 1_790_000_000.0 + number, "0.1", number=number
    )
    return replace(run, **more)  # type: ignore[arg-type]


def compared() -> list[StoredRun]:
    runs = []
    for number in range(6):
        group = "AB"[number % 2]
        made = rr({"A": 80.0, "B": 60.0}[group] + number / 10)
        value = {"A": "1", "B": "4"}[group]
        runs.append(
            stored(made, number, kind="compare", group=group, variable="queues", value=value)
        )
    return runs


def test_list_has_transactions_and_their_cost() -> None:
    row = set_ups(compared())[0]
    cells = {column.key: column.value(row) for column in COLUMNS}
    assert cells["hosts"] == "a ↔ b" and cells["goodput"] == ("12.5 k/s", "title")
    assert cells["cost"] == "40.1 µs/transaction"
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
