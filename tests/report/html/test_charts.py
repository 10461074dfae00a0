"""Charts of runs: shapes match the measured values, and arbitrary values are drawn within the
chart."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nictop.model.devices.ceiling import Ceiling
from nictop.probe.traffic.builtin.latency_buckets import bucket_of
from nictop.report.document import Bar, BarChart, BarCost
from nictop.report.html.charts import (
    BAR_LABEL_WIDTH,
    BAR_VALUE_WIDTH,
    CHART_HEIGHT,
    CHART_WIDTH,
    MARGIN_BOTTOM,
    MARGIN_LEFT,
    MARGIN_RIGHT,
    MARGIN_TOP,
    axis_end,
    bar_chart,
    run_chart,
)
from nictop.report.html.latency_charts import latency_charts
from nictop.traffic.generators.intervals import Interval
from nictop.traffic.generators.latency import LatencyHistogram, LatencySummary
from nictop.traffic.results.result import IntervalPoint, Result
from nictop.traffic.results.transactions import TransactionPoint
from tests.support.reports import full_result
from tests.traffic.analysis.test_transactions import rr
from tests.traffic.runs import flow, result

ANY = st.floats(allow_nan=True, allow_infinity=True)


def test_an_axis_that_begins_a_moment_before_what_counts_begins_at_zero() -> None:
    """The clocks of two hosts differ by milliseconds."""
    points = tuple(
        IntervalPoint(time + 0.99792, Interval(time, time + 1, 1e9, False)) for time in range(10)
    )
    chart = run_chart(result(1.0, flows=(flow(1.0, points=points),)))
    assert ">0 s<" in chart and ">10 s<" in chart
    assert "ms" not in chart and "measurement starts" not in chart


def shapes(chart: str, class_: str) -> list[ElementTree.Element]:
    return [one for one in ElementTree.fromstring(chart).iter() if one.get("class") == class_]


def numbers(path: str) -> list[float]:
    return [float(one) for one in re.findall(r"-?\d+(?:\.\d+)?", path)]


def test_the_area_is_the_goodput_and_the_line_the_ceiling() -> None:
    chart = run_chart(steady(5e9))
    (area,) = shapes(chart, "area")
    assert numbers(area.get("d", "")) == [
        MARGIN_LEFT,
        CHART_HEIGHT - MARGIN_BOTTOM,
        105.0,
        511.0,
        105.0,
        CHART_WIDTH - MARGIN_RIGHT,
        CHART_HEIGHT - MARGIN_BOTTOM,
    ]
    assert (
        CHART_HEIGHT - MARGIN_BOTTOM - (CHART_HEIGHT - MARGIN_TOP - MARGIN_BOTTOM) / 2 == 105.0
    )  # 5 of the 10 Gb/s of the axis
    (ceiling,) = shapes(chart, "ceiling")
    assert float(ceiling.get("y1", "")) == pytest.approx(
        CHART_HEIGHT - MARGIN_BOTTOM - 0.941 * (CHART_HEIGHT - MARGIN_TOP - MARGIN_BOTTOM), abs=0.1
    )
    assert "10.0 Gb/s" in chart and "dashed line: line rate 9.41 Gb/s" in chart


def steady(rate: float) -> Result:
    points = tuple(
        IntervalPoint(float(end), Interval(end - 1.0, float(end), rate, False)) for end in (1, 2)
    )
    return result(5.0, flows=(flow(5.0, points=points),))


def test_gaps_between_intervals_are_not_drawn() -> None:
    points = tuple(IntervalPoint(end, Interval(end - 1, end, 1e9, False)) for end in (1.0, 3.0))
    (area,) = shapes(run_chart(result(1.0, flows=(flow(1.0, points=points),))), "area")
    assert area.get("d", "").count("M") == area.get("d", "").count("Z") == 2


def test_each_end_has_its_cpu_line() -> None:
    chart = run_chart(full_result(5.0))
    assert len(shapes(chart, "cpu")) == len(shapes(chart, "cpu2")) == 1
    assert "hottest CPU of a" in chart and "hottest CPU of b" in chart


def test_the_omitted_time_is_marked() -> None:
    assert "measurement starts" in run_chart(full_result(5.0))
    assert "measurement starts" not in run_chart(steady(1e9))


def test_a_much_higher_ceiling_is_only_in_the_legend() -> None:
    far = replace(full_result(0.1), ceiling=Ceiling(9.41e9, 8e5, "far"))
    chart = run_chart(far)
    assert shapes(chart, "ceiling") == [] and "line rate 9.41 Gb/s: above the chart" in chart


def test_a_second_direction_is_a_line() -> None:
    one = full_result(5.0)
    chart = run_chart(
        replace(one, flows=(one.flows[0], replace(one.flows[0], sender="b", receiver="a")))
    )
    assert len(shapes(chart, "area")) == len(shapes(chart, "back")) == 1


def test_a_run_without_intervals_has_no_chart() -> None:
    assert run_chart(result()) == ""


@given(st.lists(st.tuples(ANY, ANY, ANY), max_size=6), ANY, ANY)
def test_any_numbers_draw_within_the_chart(
    rows: list[tuple[float, float, float]], ceiling: float, busy: float
) -> None:
    points = tuple(
        IntervalPoint(time, Interval(time - length, time, rate, False))
        for time, length, rate in rows
    )
    base = full_result(1.0)
    series = tuple(replace(one, hottest_busy=busy) for one in base.hosts[0].series)
    made = replace(
        base,
        flows=(flow(1.0, points=points),),
        hosts=(replace(base.hosts[0], series=series),),
        ceiling=Ceiling(ceiling, 1.0, "any"),
    )
    chart = run_chart(made)
    if chart:
        for one in (*shapes(chart, "area"), *shapes(chart, "cpu")):
            found = numbers(one.get("d", "") or one.get("points", ""))
            assert all(0 <= number <= CHART_WIDTH for number in found)
        assert "nan" not in chart and "inf" not in chart.replace("∞", "")


# ---------------------------------------------------------------------------------------- latencies


def percentiles(time: float, highest: float) -> TransactionPoint:
    return TransactionPoint(
        time, 1.0, 0, LatencySummary(9000, 7e-5, 8e-5, 8e-5, 9e-5, 1.6e-4, None, highest)
    )


def latency_run(*highest: float) -> Result:
    """A run whose percentiles are the same in all intervals."""
    return rr(
        points=tuple(percentiles(float(number), value) for number, value in enumerate(highest, 1))
    )


def svg_of(charts: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(f"<div>{charts}</div>").iter("svg"))


def test_percentiles_are_areas_and_the_maximum_a_line() -> None:
    charts = latency_charts(latency_run(2e-4, 2e-4))
    over_time, _ = svg_of(charts)
    shares = {}
    for one in over_time.iter("path"):
        top = min(
            numbers(one.get("d", ""))[1::2] if one.get("class") == "highest" else heights(one)
        )
        shares[one.get("class")] = (CHART_HEIGHT - MARGIN_BOTTOM - top) / (
            CHART_HEIGHT - MARGIN_TOP - MARGIN_BOTTOM
        )
    expected = {"p99": 0.8, "p90": 0.45, "p50": 0.4, "highest": 1.0}  # of 200 µs
    assert shares == pytest.approx(expected, abs=0.01)
    assert (
        ">200 µs<" in charts and ">0 s<" in charts and ">2 s<" in charts and "axis from 0" in charts
    )


def heights(path: ElementTree.Element) -> list[float]:
    return [float(one) for one in re.findall(r"V(-?[\d.]+)", path.get("d", ""))]


def test_a_high_maximum_makes_the_axis_logarithmic() -> None:
    charts = latency_charts(latency_run(2e-4, 8e-3))
    assert (
        ">1 ms<" in charts
        and ">100 µs<" in charts
        and "logarithmic axis" in charts.split("histogram")[0]
    )
    assert "p99 104 µs" in svg_of(charts)[0].get("aria-label", "")


def test_histogram_has_a_bar_for_each_range_and_a_table() -> None:
    latency = LatencyHistogram({bucket_of(50_000): 6000, bucket_of(73_000): 3000}, 1)
    charts = latency_charts(rr(latency=latency))
    (svg,) = svg_of(charts)
    bars = [float(one.get("height", "")) for one in svg.iter("rect")]
    assert len(bars) == 2 and bars[0] == pytest.approx(2 * bars[1], abs=0.2)
    assert "9000 transactions" in svg.get("aria-label", "")
    table_rows = ElementTree.fromstring(f"<div>{charts}</div>").iter("tr")
    rows = [["".join(cell.itertext()) for cell in row] for row in table_rows]
    assert ["47 µs", "51 µs", "6000"] in rows and ["68 µs", "75 µs", "3000"] in rows
    assert sum(int(count) for _, _, count in rows[1:]) == 9000


def test_a_bulk_run_and_one_without_samples_have_no_latency_charts() -> None:
    assert (
        latency_charts(full_result(5.0))
        == ""
        == latency_charts(rr(latency=LatencyHistogram({}, 0)))
    )


@example([(9007199254740996.0, 1.0, 0.0, 1.0)], {}).via(
    "a time that has no second before it, as a float"
)
@given(
    st.lists(st.tuples(ANY, ANY, ANY, ANY), max_size=5),
    st.dictionaries(st.integers(-5, 4000), st.integers()),
)
def test_any_latencies_draw_within_the_chart(
    rows: list[tuple[float, float, float, float]], counts: dict[int, int]
) -> None:
    points = tuple(
        TransactionPoint(time, seconds, 0, LatencySummary(9, low, low, low, low, high, None, high))
        for time, seconds, low, high in rows
    )
    charts = latency_charts(rr(points=points, latency=LatencyHistogram(counts, 1)))
    for svg in svg_of(charts):
        for one in svg.iter("path"):
            assert all(0 <= number <= CHART_WIDTH for number in numbers(one.get("d", "")))
        for one in svg.iter("rect"):
            x, width = float(one.get("x", "")), float(one.get("width", ""))
            assert x >= MARGIN_LEFT and x + width <= CHART_WIDTH - MARGIN_RIGHT + 0.6
    assert "nan" not in charts and "inf" not in charts.replace("∞", "")


def test_bars_are_as_long_as_their_values() -> None:
    bars = (Bar("A", 2e9, 1e9, 4e9, (1e9, 2e9, 4e9)), Bar("B", 4e9), Bar("C", None))
    chart = bar_chart(BarChart(bars, "goodput", 8e9))
    first, second = shapes(chart, "bar")
    assert float(second.get("width", "")) == pytest.approx(
        2 * float(first.get("width", "")), abs=0.1
    )
    assert float(second.get("width", "")) == pytest.approx(
        (CHART_WIDTH - BAR_LABEL_WIDTH - BAR_VALUE_WIDTH) / 2, abs=0.1
    )
    assert (
        len(shapes(chart, "dot")) == 3
        and len(shapes(chart, "spread")) == 1
        and len(shapes(chart, "ceiling")) == 1
    )
    assert "no run completed" in chart


@given(st.lists(st.tuples(st.text(max_size=60), st.none() | ANY, ANY), max_size=5), st.none() | ANY)
def test_any_bars_draw_within_the_chart(
    rows: list[tuple[str, float | None, float]], ceiling: float | None
) -> None:
    bars = tuple(
        Bar(label, value, other, value, (other, other), costs=(BarCost(label, other, label),))
        for label, value, other in rows
    )
    chart = bar_chart(BarChart(bars, "any", ceiling))
    for name in ("bar", "cost"):
        for one in shapes(chart, name) if chart else ():
            assert 0 <= float(one.get("width", "")) <= CHART_WIDTH - BAR_LABEL_WIDTH


def test_below_each_bar_is_what_its_hosts_paid() -> None:
    costs = BarCost("client vm1", 0.5, "0.50 cores"), BarCost("server vm2", 1.0, "1.00 cores")
    bars = Bar("4K", 1e6, costs=costs), Bar("16K", None)
    chart = bar_chart(BarChart(bars, "read bandwidth", cost_title="cores that were busy"))
    first, second = (float(one.get("width", "")) for one in shapes(chart, "cost"))
    assert second == pytest.approx(2 * first, abs=0.2)
    assert "0.50 cores client vm1" in chart and "1.00 cores server vm2" in chart
    assert "line below: cores that were busy" in chart
    without = bar_chart(BarChart((Bar("4K", 1e6),), "read bandwidth", cost_title="unused"))
    assert not shapes(without, "cost") and "unused" not in without


@given(st.floats(min_value=0, max_value=1e18))
def test_an_axis_ends_at_or_above_its_highest_value(value: float) -> None:
    end = axis_end(value)
    assert end * 1.000001 >= value and (end <= 2.6 * value or value <= 1)
    assert math.isfinite(end)
