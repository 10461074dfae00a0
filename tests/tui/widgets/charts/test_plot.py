"""What is drawn stands where the numbers say, cell by cell."""

from __future__ import annotations

import math
from functools import partial
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.text.glyphs import ASCII, UNICODE
from nictop.tui.widgets.charts.plot import (
    Box,
    Canvas,
    ColumnCache,
    along,
    axis_time_text,
    column_means,
    draw_area,
    means,
    reading_ranges,
    tick_text,
    time_axis,
    time_chart,
    time_ticks,
    value_ticks,
)


def rows(canvas: Canvas) -> list[str]:
    return ["".join(text for text, _ in canvas.row(y)) for y in range(canvas.height)]


def test_a_column_is_the_mean_of_what_lies_in_it() -> None:
    """Intervals of 1 s on columns of 2 s, then of 2 s on columns of 1 s."""
    assert means([(1, 1, 10.0), (2, 1, 20.0), (3, 1, 40.0)], 0.0, 2.0, 3) == [15.0, 40.0, None]
    assert means([(2, 2, 10.0), (4, 2, 20.0)], 0.0, 1.0, 4) == [10.0, 10.0, 20.0, 20.0]
    assert means([(1.5, 1, 30.0), (3, 1.5, 60.0)], 0.0, 1.0, 3) == [30.0, 45.0, 60.0]


def test_what_is_out_of_sight_counts_nowhere() -> None:
    assert means([(1, 1, 10.0), (9, 1, 90.0)], 4.0, 1.0, 3) == [None, None, None]
    assert means([(1, 1, math.inf), (1, 1, 10.0)], 0.0, 1.0, 1) == [10.0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, [" ", "·"]),
        (1e-9, [" ", "▁"]),
        (4.0, [" ", "▄"]),
        (8.0, [" ", "█"]),
        (9.0, ["▁", "█"]),
        (16.0, ["█", "█"]),
        (99.0, ["█", "█"]),
        (None, [" ", " "]),
    ],
)
def test_an_area_fills_eighths_of_cells(value: float | None, expected: list[str]) -> None:
    canvas = Canvas(1, 2)
    draw_area(canvas, [value], Box(0, 0, 1, 2), 16.0, ["in"])
    assert rows(canvas) == expected


def test_an_area_in_ascii_fills_quarters() -> None:
    canvas = Canvas(5, 1)
    draw_area(canvas, [0.0, 1.0, 2.0, 3.0, 4.0], Box(0, 0, 5, 1), 4.0, ["in"] * 5, glyphs=ASCII)
    assert rows(canvas) == ["_.:|#"]


def test_a_line_runs_straight_between_its_vertices_and_stops_where_it_is_interrupted() -> None:
    assert along([(0.0, 0.0), (4.0, 4.0)], 0.0, 1.0, 5) == [0.5, 1.5, 2.5, 3.5, None]
    assert along([(0.0, 1.0), (1.0, 1.0), None, (3.0, 2.0), (4.0, 2.0)], 0.0, 1.0, 4) == [
        1.0,
        None,
        None,
        2.0,
    ]
    assert along([], 0.0, 1.0, 2) == [None, None]
    assert along([(2.0, 1.0), (3.0, 1.0)], 0.0, 1.0, 3) == [None, None, 1.0]


@pytest.mark.parametrize(
    ("top", "rows", "ticks"),
    [
        (1e10, 12, [0, 2.5e9, 5e9, 7.5e9, 1e10]),
        (1e10, 5, [0, 5e9, 1e10]),
        (1e10, 3, [0, 1e10]),
        (1e10, 1, [1e10]),
        (1.5, 8, [0, 0.5, 1.0, 1.5]),
        (75.0, 9, [0, 25, 50, 75]),
        (100.0, 10, [0, 25, 50, 75, 100]),
        (3e5, 9, [0, 1e5, 2e5, 3e5]),
    ],
)
def test_ticks_are_round_and_have_room(top: float, rows: int, ticks: list[float]) -> None:
    assert value_ticks(top, rows) == pytest.approx(ticks)


def test_a_column_has_the_readings_of_its_time_and_keeps_them() -> None:
    times = [float(second) for second in range(100, 160)]
    values = [float(second) for second in range(100, 160)]
    now = column_means(values, reading_ranges(times, 60, 6))
    later = column_means([*values, 160.0], reading_ranges([*times, 160.0], 60, 6))
    assert now[0] == 104.5
    assert later[:-1] == now[1:]
    assert later[-1] == 160.0


def test_columns_shorter_than_a_reading_have_the_one_that_covers_them() -> None:
    means = column_means([1.0, 2.0, 3.0], reading_ranges([10.0, 20.0, 30.0], 60, 60))
    assert means[-1] == 3.0
    assert means[-2] == means[-10] == 3.0
    assert means[-11] == means[-20] == 2.0
    assert means[-21] == 1.0
    assert means[-22] is None


def test_what_is_not_known_is_left_out_of_a_mean() -> None:
    times = [float(second) for second in range(60)]
    ranges = reading_ranges(times, 60, 10)
    assert column_means([None] * 30 + [2.0, None] * 15, ranges) == [None] * 5 + [2.0] * 5
    assert column_means([4.0] * 9, ranges) == [None] * 8 + [4.0] * 2, (
        "a series that begins later than its times"
    )
    assert column_means([], ranges) == [None] * 10
    assert column_means([], reading_ranges([], 60, 3)) == [None] * 3


@given(
    st.lists(st.floats(0.1, 70.0), max_size=80),
    st.integers(0, 70),
    st.integers(0, 90),
    st.floats(0, 1e6),
)
def test_every_reading_of_the_time_is_in_a_column(
    gaps: list[float], columns: int, known: int, start: float
) -> None:
    times = list(accumulate(gaps, initial=start))[1:]
    ranges = reading_ranges(times, 60.0, columns)
    assert len(ranges) == len(column_means([1.0] * min(known, len(times)), ranges)) == columns
    assert all(-len(times) <= low <= high <= 0 for low, high in ranges)
    if times and columns:
        assert ranges[-1][1] == 0, "the newest reading is in the last column"


@given(
    st.lists(
        st.tuples(st.floats(0.1, 20.0), st.one_of(st.none(), st.floats(0, 1e9))),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 40),
    st.integers(0, 60),
    st.integers(1, 3),
)
def test_what_the_cache_gives_is_what_is_computed(
    readings: list[tuple[float, float | None]], columns: int, restart: int, every: int
) -> None:
    """Also after another history with other times, and for a series that is not drawn each time."""
    cache, times = ColumnCache(), [0.0]
    series: list[float | None] = [0.0]
    for number, (gap, value) in enumerate(readings):
        if number == restart:
            times, series = [1000.0], [5.0]
        times.append(times[-1] + gap)
        series.append(value)
        cache.begin(times, 60.0, columns)
        expected = column_means(series, reading_ranges(times, 60.0, columns))
        newest = partial(last_of, series)
        assert cache.means(("always", 1), newest) == expected
        if number % every == 0:
            assert cache.means(("sometimes", 1), newest) == expected


def last_of(series: list[float | None], count: int) -> list[float | None]:
    return series[-count:] if count else []


def test_the_axis_contains_the_highest_reading_of_columns_that_are_means() -> None:
    lines = [
        "".join(text for text, _ in line)
        for line in time_chart([1e6] * 24, 5, 60, "in", peak=2.9e6)
    ]
    assert lines[0].startswith(" 3 M┤") or lines[0].strip().startswith("3 M┤")
    assert "█" not in lines[0] and "█" in lines[4]


def test_a_chart_has_ticks_and_a_time_axis() -> None:
    lines = [
        "".join(text for text, _ in line)
        for line in time_chart([0.0, 15e5, 3e6] * 8, 5, 60, "in", peak=3e6)
    ]
    assert [line[:6] for line in lines] == [
        "  3 M┤",
        "     │",
        "     │",
        "     │",
        "    0┤",
        "      ",
    ]
    assert lines[-1] == "      -60 s       -30 s    now"
    assert {len(line) for line in lines} == {30}


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1.5, "1.5"), (750e3, "750 k"), (1e9, "1 G"), (1.5e6, "1.5 M")]
)
def test_a_tick_has_its_prefix(value: float, text: str) -> None:
    assert tick_text(value) == text


@pytest.mark.parametrize("columns", range(70))
def test_the_time_axis_is_as_wide_as_its_chart(columns: int) -> None:
    for end in ("now", "14:03:20"):
        axis = time_axis(columns, 60, end)
        assert len(axis) == columns
        assert axis.endswith(end) or not axis.strip(), "a part of a time would be another one"


def test_times_are_round_and_have_room() -> None:
    assert time_ticks(0, 10, 50) == [0, 2, 4, 6, 8, 10]
    assert time_ticks(-2, 10, 100) == [-2, 0, 2, 4, 6, 8, 10]
    assert time_ticks(0, 600, 100) == [60.0 * minute for minute in range(11)]
    assert time_ticks(5, 5, 50) == []


@pytest.mark.parametrize(
    ("time", "span", "words"),
    [
        (7.5, 10, "7.5"), (12.0, 20, "12"), (-2.0, 10, "-2"), (-0.01, 10, "0"), (90.0, 600, "1:30"),
        (-2.0, 600, "-0:02"), (7500.0, 9000, "2:05:00"),
    ],
)  # fmt: skip
def test_times_are_as_fine_as_the_span_needs(time: float, span: float, words: str) -> None:
    assert axis_time_text(time, span) == words


ANY = st.floats(allow_nan=True, allow_infinity=True)


@given(
    st.lists(st.tuples(ANY, st.floats(0, 1e6), ANY), max_size=20),
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
    st.integers(1, 50),
)
def test_means_have_their_width_whatever_there_is(
    points: list[tuple[float, float, float]], begin: float, step: float, width: int
) -> None:
    found = means(points, begin, step, width)
    assert len(found) == width
    assert all(value is None or math.isfinite(value) for value in found) or any(
        abs(one[2]) > 1e300 for one in points
    )


@given(
    st.lists(st.none() | ANY, max_size=60),
    st.integers(1, 30),
    st.integers(1, 6),
    st.floats(1e-9, 1e15),
)
def test_nothing_is_drawn_outside_of_its_box(
    values: list[float | None], width: int, height: int, top: float
) -> None:
    for glyphs in (UNICODE, ASCII):
        canvas = Canvas(width + 2, height + 2)
        draw_area(
            canvas, values[:width], Box(1, 1, width, height), top, ["in"] * width, glyphs=glyphs
        )
        drawn = rows(canvas)
        assert drawn[0].strip() == "" == drawn[-1].strip()
        assert all(row[0] == " " == row[-1] for row in drawn)


@given(st.floats(-1e7, 1e7), st.floats(0.01, 1e7), st.integers(1, 300))
def test_ticks_of_time_never_crowd(begin: float, span: float, width: int) -> None:
    ticks = time_ticks(begin, begin + span, width)
    assert len(ticks) <= width / 9 + 2
    assert all(one < other for one, other in pairwise(ticks))
