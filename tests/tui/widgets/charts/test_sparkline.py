"""Graphs keep three promises: nothing that moves looks idle, a gap never looks like zero, a bar is
never too long."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.tui.widgets.charts.sparkline import area, nice_ceiling, spark, stacked


def test_a_row_is_right_aligned_and_scaled_to_the_top() -> None:
    assert spark([0.0, 4.0, 8.0], 5, 8.0) == "  ·▄█"


def test_a_gap_is_empty_and_zero_is_a_dot() -> None:
    assert spark([1.0, None, 0.0, 1.0], 4, 1.0) == "█ ·█"


def test_the_smallest_traffic_is_visible_beside_the_largest() -> None:
    assert spark([1.0, 1e10], 2, 1e10) == "▁█"


def test_more_than_the_top_fills_the_cell_and_no_more() -> None:
    assert spark([20.0], 1, 10.0) == "█"


def test_rows_of_an_area_stack_up() -> None:
    assert area([0.0, 1.0, 2.0, 3.0, 4.0], 5, 2, 4.0) == ["   ▄█", "·▄███"]


def test_only_the_newest_values_are_drawn() -> None:
    assert spark([8.0, 8.0, 0.0], 1, 8.0) == UNICODE.zero


def test_ascii_uses_ascii() -> None:
    assert "".join(area([0.0, 1.0, 2.0, 3.0, 4.0, None], 8, 3, 4.0, glyphs=ASCII)).isascii()


@given(
    st.lists(st.one_of(st.none(), st.floats(min_value=0, max_value=1e15))),
    st.integers(0, 200),
    st.integers(1, 10),
    st.floats(min_value=1e-3, max_value=1e15),
    st.sampled_from((UNICODE, ASCII)),
)
def test_an_area_has_the_size_that_was_asked_for(
    values: list[float | None], width: int, height: int, top: float, glyphs: Glyphs
) -> None:
    rows = area(values, width, height, top, glyphs=glyphs)
    assert [len(row) for row in rows] == [width] * height


def test_character_sets_differ_from_empty_to_full() -> None:
    assert len(set(UNICODE.levels)) == 9
    assert len(set(ASCII.levels)) == 5


@pytest.mark.parametrize(
    ("value", "top"),
    [
        (0.0, 1.0),
        (1.0, 1.0),
        (1.01, 1.5),
        (9.41e9, 1e10),
        (10.0, 10.0),
        (3.2e6, 5e6),
        (math.inf, 1.0),
    ],
)
def test_axis_ends_are_round_numbers(value: float, top: float) -> None:
    assert nice_ceiling(value) == pytest.approx(top)


@given(st.floats(min_value=1e-6, max_value=1e18))
def test_an_axis_holds_its_value_and_is_not_mostly_empty(value: float) -> None:
    top = nice_ceiling(value)
    assert value <= top * (1 + 1e-9)
    assert top <= value * 2 * (1 + 1e-9)


def test_shares_fill_the_bar_by_largest_remainder() -> None:
    assert stacked([0.5, 0.25, 0.25], 10) == [5, 3, 2]
    assert stacked([0.0, 0.0], 10) == [0, 0]


@given(st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=8), st.integers(0, 100))
def test_a_bar_is_never_longer_than_what_it_stands_for(raw: list[float], width: int) -> None:
    total = sum(raw)
    shares = [value / total for value in raw] if total > 1 else raw
    cells = stacked(shares, width)
    assert sum(cells) == min(width, round(sum(share * width for share in shares)))
    assert all(
        abs(number - share * width) < 1 + 1e-6 for number, share in zip(cells, shares, strict=True)
    )


@pytest.mark.parametrize("value", [0.0, -1.0, 5e-324, 2e-308, float("inf"), float("nan")])
def test_an_axis_of_nothing_ends_somewhere(value: float) -> None:
    assert nice_ceiling(value) == 1.0
