"""What is drawn stands where the numbers say, cell by cell."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.text.glyphs import ASCII, UNICODE
from nictop.tui.widgets.charts.plot import (
    Box,
    Canvas,
    along,
    draw_area,
    means,
    time_ticks,
    time_words,
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
    assert along([(0.0, 1.0), (1.0, 1.0), None, (3.0, 2.0), (4.0, 2.0)], 0.0, 1.0, 4) == [1.0, None, None, 2.0]
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
    assert time_words(time, span) == words


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
    assert all(value is None or math.isfinite(value) for value in found) or any(abs(one[2]) > 1e300 for one in points)


@given(st.lists(st.none() | ANY, max_size=60), st.integers(1, 30), st.integers(1, 6), st.floats(1e-9, 1e15))
def test_nothing_is_drawn_outside_of_its_box(values: list[float | None], width: int, height: int, top: float) -> None:
    for glyphs in (UNICODE, ASCII):
        canvas = Canvas(width + 2, height + 2)
        draw_area(canvas, values[:width], Box(1, 1, width, height), top, ["in"] * width, glyphs=glyphs)
        drawn = rows(canvas)
        assert drawn[0].strip() == "" == drawn[-1].strip()
        assert all(row[0] == " " == row[-1] for row in drawn)


@given(st.floats(-1e7, 1e7), st.floats(0.01, 1e7), st.integers(1, 300))
def test_ticks_of_time_never_crowd(begin: float, span: float, width: int) -> None:
    ticks = time_ticks(begin, begin + span, width)
    assert len(ticks) <= width / 9 + 2
    assert all(one < other for one, other in pairwise(ticks))
