"""Bars of set-ups are as long as their numbers, their spread is seen, and failed runs are no short
bars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from nictop.model.devices.ceiling import Ceiling
from nictop.model.facts import width as cells
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.report.runs.points import SetUpPoint, set_up_points
from nictop.traffic.analysis.comparison import Spread
from nictop.traffic.failures import Failure
from nictop.traffic.results.selection import StoredRun
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.charts.bar_chart import PointChart, bar_cells, draw_points
from tests.support.screen import running
from tests.traffic.runs import load, result


def swept(value: str, *gigabits: float, cost: float = 0.2, **more: object) -> list[StoredRun]:
    """Runs of one value of a sweep; the server pays twice as much as the client."""
    hosts = (load("a", per_gigabit=cost), load("b", "server", per_gigabit=2 * cost))
    return [
        StoredRun(
            f"{value}-{number}",
            "e",
            result(rate, hosts=hosts, **more),
            0.0,
            "1",
            "sweep",
            "",
            value,
            "length",
            value,
        )
        for number, rate in enumerate(gigabits)
    ]


def sweep() -> tuple[SetUpPoint, ...]:
    return set_up_points(
        [*swept("512", 1.8, 2.0, 2.5, cost=0.4), *swept("8K", 5.0, 5.0, 5.0, cost=0.1)]
    )


def text(lines: Iterable[SpanLine]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


@pytest.mark.parametrize(
    ("values", "bar"),
    [
        ((2.0, 4.0, 6.0), "██▒▒░░    "),
        ((5.0, 5.0, 5.0), "█████     "),
        ((5.5, 5.5, 5.5), "█████▌    "),
        ((0.001, 0.001, 0.001), "▏         "),
        ((0.0, 0.001, 0.002), "░         "),
        ((0.0, 0.0, 0.0), "          "),
        ((10.0, 10.0, 10.0), "██████████"),
        ((10.0, 20.0, 99.0), "██████████"),
    ],
)
def test_a_bar_reaches_to_its_values(values: tuple[float, float, float], bar: str) -> None:
    low, middle, high = values
    assert bar_cells(Spread(values, middle, low, high), 10.0, 10) == bar


def test_without_block_characters_the_parts_differ_too() -> None:
    assert bar_cells(Spread((), 4.0, 2.0, 6.0), 10.0, 10, glyphs=ASCII) == "##==--    "
    assert all(line.isascii() for line in text(draw_points(sweep(), 80, 12, glyphs=ASCII)))


def test_each_point_has_its_bar_its_number_and_what_each_host_paid() -> None:
    lines = text(draw_points(sweep(), 120, 8))
    assert len(lines) == 8
    assert lines[1].startswith(" 512 ████") and "2.00 Gb/s" in lines[1] and "21 %" in lines[1]
    assert lines[4].startswith("  8K ") and "5.00 Gb/s" in lines[4]
    assert "0.40 cores client a" in lines[2] and "0.80 cores server b" in lines[3]
    assert lines[2].count("━") * 2 == pytest.approx(lines[3].count("━"), abs=1)


def test_in_few_rows_the_host_that_pays_most_is_shown_and_in_fewer_none() -> None:
    lines = text(draw_points(sweep(), 80, 6))
    assert [line.split()[-1] for line in lines[2:5:2]] == ["server", "server"]
    assert len(text(draw_points(sweep(), 80, 4))) == 4


def test_the_ceiling_stands_in_its_cell() -> None:
    """The axis ends at 10 Gb/s; 9.41 of it are 94 % of the bar."""
    line = text(draw_points(sweep(), 80, 4))[2]
    bar = line[5 : line.index("5.00")]
    columns = (
        len(draw_points(sweep(), 80, 4)[2][1][0]) + len(draw_points(sweep(), 80, 4)[2][3][0]) + 1
    )
    assert bar.index("┊") == int(0.941 * columns)
    assert bar.count("█") == columns // 2
    far = [
        replace(one, result=replace(one.result, ceiling=Ceiling(1e12, 1.0, "far")))
        for one in swept("1", 5.0)
    ]
    assert not any("┊" in line for line in text(draw_points(set_up_points(far), 80, 4)))


def test_failed_runs_are_said_and_have_no_bar() -> None:
    failure = Failure("refused", "nobody listens")
    lines = text(
        draw_points(
            set_up_points([*swept("512", 2.0), *swept("8K", 3.0, 3.0, failure=failure)]), 80, 4
        )
    )
    assert "no result: 2 of 2 runs failed" in lines[2] and "█" not in lines[2]
    mixed = set_up_points([*swept("512", 2.0), *swept("512", 3.0, failure=failure)])
    assert "1 failed" in text(draw_points(mixed, 120, 4))[1]


def test_names_tell_apart_what_was_not_varied_and_are_cleaned() -> None:
    lines = text(draw_points(sweep(), 80, 4, names=("virtio\x1b[2J", "VF")))
    assert lines[1].startswith(" virtio\\x1b[2J ") and lines[2].strip().startswith("VF ")


RATES = st.lists(st.floats(0, 1e6), min_size=1, max_size=3)


@given(
    st.lists(st.tuples(st.text(max_size=8), RATES, st.floats(0, 1e9)), max_size=5),
    st.tuples(st.integers(1, 150), st.integers(0, 30)),
    st.sampled_from((UNICODE, ASCII)),
)
def test_any_points_fit_any_size(
    groups: list[tuple[str, list[float], float]], size: tuple[int, int], glyphs: Glyphs
) -> None:
    runs = [one for value, rates, cost in groups for one in swept(value, *rates, cost=cost)]
    lines = text(draw_points(set_up_points(runs), *size, glyphs=glyphs))
    assert bool(lines) == bool(runs)
    assert all(cells(line) <= size[0] for line in lines)
    assert not glyphs.is_ascii or all(line.isascii() for line in lines)


class Points(App[None]):
    """The bars alone."""

    CSS_PATH = "../../../../nictop/tui/nictop.tcss"

    def compose(self) -> ComposeResult:
        yield PointChart()


async def test_bars_follow_the_size_of_the_screen() -> None:
    app = Points()
    async with running(app, (120, 8), notifications=False) as pilot:
        chart = app.query_one(PointChart)
        chart.styles.height = "1fr"
        chart.show(sweep())
        await pilot.pause()
        rows = text(chart.lines)
        assert len(rows) == 8
        await pilot.resize_terminal(60, 4)
        await pilot.pause()
        rows = text(chart.lines)
        assert len(rows) == 4 and all(cells(line) <= 60 for line in rows)
