"""The chart of a run says what is true: the area under its ceiling, each direction by itself, the
values under the cursor; in any number of cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from nictop.model.devices.ceiling import Ceiling
from nictop.model.facts import width as cells
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.traffic.failures import Failure
from nictop.traffic.live.flow_so_far import FlowNow
from nictop.traffic.live.run_view import RunView, result_view
from nictop.traffic.plan.plan import NETWORK
from nictop.traffic.results.result import Flow
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.traffic.chart import RunChart
from nictop.tui.widgets.traffic.chart_drawing import draw_run
from nictop.tui.widgets.traffic.viewport import Viewport, cpu_line, enlarged, scale_of, sight_of
from tests.support.screen import running
from tests.traffic.pictures import (
    CEILING,
    NO_CEILING,
    altered,
    arrival,
    busy,
    flow,
    host,
    run_view,
    steady,
)
from tests.traffic.plans import PLAN
from tests.traffic.runs import result

GIGABIT = 1e9


def text(lines: Iterable[SpanLine]) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def drawn(shown: RunView, width: int = 80, height: int = 12, **view: object) -> list[str]:
    return text(draw_run(shown, Viewport(**view), width, height))  # type: ignore[arg-type]


def plot(rows: Sequence[str]) -> list[str]:
    """What is between the axes of the goodput."""
    cpu = next((number for number, row in enumerate(rows) if row.startswith("  CPU│")), len(rows))
    return [row[6:75] for row in rows[:cpu] if row[5:6] in ("┤", "│")]


def cpu_plot(rows: Sequence[str]) -> list[str]:
    """The rows of the CPU chart."""
    cpu = next(number for number, row in enumerate(rows) if row.startswith("  CPU│"))
    return [row[6:].rstrip() for row in rows[cpu : cpu + 3]]


def without_cpu(shown: RunView) -> RunView:
    return altered(shown, hosts=())


def test_half_of_the_axis_fills_half_of_the_rows() -> None:
    """Ten rows up to 10 Gb/s: 5 Gb/s fill five of them, over the seven of ten seconds that have
    passed (48 of 69 columns, and a third of the next)."""
    rows = plot(
        drawn(without_cpu(run_view(flow(steady(5 * GIGABIT), until=7), seconds=7)), height=13)
    )
    assert len(rows) == 10
    assert [row.strip() for row in rows[1:5]] == [""] * 4
    assert rows[5:] == ["█" * 49 + " " * 20] * 5


def test_eighths_of_a_row_are_seen() -> None:
    rows = plot(drawn(without_cpu(run_view(flow(steady(5.5 * GIGABIT)))), height=13))
    assert rows[4] == "▄" * 69 and rows[5] == "█" * 69


def test_the_ceiling_is_a_line_at_its_height_with_its_words() -> None:
    shown = drawn(without_cpu(run_view(flow(steady(GIGABIT)))))
    assert "line rate 9.41 Gb/s: 10 GbE, MTU 1500, IPv4, TCP timestamps" in shown[1]
    rows = plot(shown)
    assert rows[0] == "┄" * 69 and not any("┄" in row for row in rows[1:])
    low = altered(
        run_view(flow(steady(2.9 * GIGABIT))),
        ceiling=replace(CEILING, goodput=1.4 * GIGABIT),
        hosts=(),
    )
    rows = plot(drawn(low, height=13))
    assert rows[5] == "┄" * 69, "goodput above it does not hide it"
    assert rows[4] == rows[6] == "█" * 69


def test_without_a_ceiling_the_reason_stands_there_and_no_line() -> None:
    shown = drawn(altered(run_view(flow(steady(GIGABIT))), ceiling=NO_CEILING))
    assert "line rate none: ens4 reports no speed (virtio_net)" in shown[1]
    assert not any("┄" in row for row in shown)


def test_a_run_far_below_the_ceiling_is_drawn_on_its_own_scale() -> None:
    slow = run_view(flow(steady(300e3)))
    assert scale_of(slow, [[300e3]]).top == 300e3
    shown = drawn(slow)
    assert shown[0].startswith(" kb/s") and shown[2].startswith("  300┤")
    assert "above this scale: line rate 9.41 Gb/s" in shown[1]
    assert not any("┄" in row for row in shown)


@pytest.mark.parametrize(
    ("rate", "ceiling", "unit", "top"),
    [
        (93e9, 94.1e9, "Gb/s", "100"),
        (31e9, 9.41e9, "Gb/s", "50"),
        (940e6, 941e6, "Gb/s", "1"),
        (0.0, 9.41e9, "Gb/s", "10"),
    ],
)
def test_the_axis_ends_at_a_round_number_above_everything(
    rate: float, ceiling: float, unit: str, top: str
) -> None:
    shown = drawn(altered(run_view(flow(steady(rate))), ceiling=Ceiling(ceiling, None, "known")))
    assert shown[0].startswith(f"{unit:>5} ") and shown[2].startswith(f"{top:>5}┤")


@pytest.mark.parametrize("values", [flow(steady(0.0)), Flow("a", "network", None, None)])
def test_an_axis_without_values_has_the_smallest_unit(values: Flow) -> None:
    """Not ``Gb/s``, as if that were the speed of the NIC."""
    shown = drawn(altered(run_view(values), ceiling=None))
    assert shown[0].startswith("  b/s ") and shown[2].startswith("    1┤")


def test_an_interval_that_is_higher_than_its_column_is_on_the_axis() -> None:
    burst = flow(lambda time: 9e9 if time == 5.0 else 1e9, until=60.0)
    shown = drawn(
        altered(run_view(burst), plan=replace(PLAN, time=60), ceiling=NO_CEILING), width=80
    )
    assert shown[2].startswith("   10┤")
    assert "peak 9.00 Gb/s" in shown[0]


def test_a_peak_of_readings_that_will_be_dropped_is_not_told() -> None:
    """It would fall when the generator reports its own."""
    early = run_view(flow(steady(340e3), until=1.0), seconds=1.2)
    head = drawn(replace(early, flows_now=(FlowNow(by_sockets=True),)))[0]
    assert "340 kb/s by its sockets" in head and "peak" not in head
    assert "peak 340 kb/s" in drawn(early)[0]


def test_what_was_sent_is_not_told_as_what_arrived() -> None:
    early = run_view(flow(steady(9.47e6), until=1.0), seconds=1.2)
    head = drawn(replace(early, flows_now=(FlowNow(by_sender=True),)))[0]
    assert "9.47 Mb/s sent" in head and "peak" not in head


def test_nothing_that_arrives_is_a_dot_and_not_an_empty_place() -> None:
    rows = plot(drawn(without_cpu(run_view(flow(steady(0.0))))))
    assert rows[-1] == "·" * 69
    assert plot(drawn(without_cpu(run_view(flow(steady(0.0), until=5)))))[-1].rstrip() == "·" * 35


def test_a_gap_in_the_values_stays_empty() -> None:
    one = flow(steady(5 * GIGABIT))
    gap = replace(one, points=tuple(point for point in one.points if not 4 < point.time <= 6))
    row = plot(drawn(without_cpu(run_view(gap))))[-1]
    assert row[:27] == "█" * 27 and row[28:41].strip() == "" and row[42:] == "█" * 27


def test_omitted_seconds_are_quiet_and_before_zero() -> None:
    shown = run_view(
        flow(steady(5 * GIGABIT), begin=-2, until=8), plan=replace(PLAN, time=8, omit=2), hosts=()
    )
    lines = draw_run(shown, Viewport(), 80, 12)
    styles = [style for part, style in lines[8] if "█" in part]
    assert styles == ["dim", "in"]
    assert text(lines)[-1].split()[:2] == ["-2", "0"]


def test_two_directions_have_a_plot_each() -> None:
    both = run_view(flow(steady(10 * GIGABIT)), flow(steady(5 * GIGABIT), back=True), hosts=())
    rows = plot(drawn(altered(both, ceiling=NO_CEILING), height=15))
    assert len(rows) == 12
    assert rows[:6] == ["█" * 69] * 6
    assert [row.strip() for row in rows[6:9]] == [""] * 3 and rows[9:] == ["█" * 69] * 3
    legend = drawn(both)[0]
    assert "▀ a → b 10.0 Gb/s" in legend and "▄ b → a 5.00 Gb/s" in legend


def test_which_direction_is_which_is_said_on_a_narrow_screen() -> None:
    """Of the two ends by an arrow as in the title, of one host by a word."""
    name = "a-host-with-a-long-name"
    there, back = flow(steady(10 * GIGABIT)), flow(steady(5 * GIGABIT), back=True)
    ends = [
        replace(one, sender=name, receiver="b") if one is there else
        replace(one, sender="b", receiver=name) for one in (there, back)
    ]  # fmt: skip
    legend = drawn(run_view(*ends, hosts=()), width=44)[0]
    assert "▀ → 10.0 Gb/s  ▄ ← 5.00 Gb/s" in legend
    alone = [
        replace(there, sender=name, receiver=NETWORK),
        replace(back, sender=NETWORK, receiver=name),
    ]
    for width in (46, 80):
        legend = drawn(run_view(*alone, hosts=()), width=width)[0]
        assert "▀ sent 10.0 Gb/s" in legend and "▄ received 5.00 Gb/s" in legend


def test_in_too_few_rows_both_directions_are_added() -> None:
    both = altered(
        run_view(flow(steady(2e9)), flow(steady(4e9), back=True), hosts=()), ceiling=NO_CEILING
    )
    assert drawn(both, height=3)[1].startswith("  7.5┤"), "6 Gb/s together"


def test_the_line_rate_does_not_hide_the_area_of_a_flat_plot() -> None:
    shown = run_view(flow(steady(9.5 * GIGABIT)))
    assert all("█" in row or "▇" in row for row in drawn(shown, height=4)[1:3])
    assert all("█" in row or "▇" in row for row in drawn(shown, height=5)[1:4])
    half = run_view(flow(steady(5 * GIGABIT)))
    assert ["┄" in row for row in drawn(half, height=5)[1:4]] == [True, False, False]


def test_the_cpu_has_a_chart_of_its_own_below_the_goodput_with_an_axis_at_its_right() -> None:
    """Half of b's CPUs, a quarter of a's: three rows up to 100 %."""
    shown = run_view(flow(steady(5 * GIGABIT)))
    of_b, of_a = drawn(shown, height=13), drawn(shown, height=13, host="a")
    assert cpu_plot(of_b) == [" " * 69 + "├100", "▄" * 69 + "├ 50", "█" * 69 + "├  0"]
    assert cpu_plot(of_a) == [" " * 69 + "├100", " " * 69 + "├ 50", "▆" * 69 + "├  0"]
    assert plot(of_b) == plot(of_a) and set("".join(plot(of_b))) == {" ", "┄", "█", "▄"}
    assert "CPU of b  50 % of 4 cores" in of_b[0]
    assert "CPU of a  25 % of 4 cores" in of_a[0]
    assert "CPU 2 (hottest) of b 100 %" in drawn(shown, host="b", hottest=True)[0]


def test_the_cpu_chart_says_what_time_its_values_are_of() -> None:
    """Other views have the CPU of each reading, which may be 0.1 s."""
    for glyphs, words in ((UNICODE, ["CPU", "%", "≥1 s"]), (ASCII, ["CPU", "%", ">=1 s"])):
        shown = run_view(flow(steady(5 * GIGABIT)))
        rows = text(draw_run(shown, Viewport(host="a"), 80, 13, glyphs=glyphs))
        first = next(number for number, row in enumerate(rows) if row.startswith("  CPU"))
        assert [row[:5].strip() for row in rows[first : first + 3]] == words


def test_on_few_rows_there_is_no_cpu_chart_and_its_value_stays_in_the_legend() -> None:
    for height in (3, 5, 7):
        shown = drawn(run_view(flow(steady(5 * GIGABIT))), height=height)
        assert len(shown) == height and not any(row.startswith("  CPU│") for row in shown)
        assert "CPU of b  50 %" in shown[0]


def test_in_ascii_the_cpu_chart_has_four_steps_in_a_row() -> None:
    shown = text(draw_run(run_view(flow(steady(5 * GIGABIT))), Viewport(), 80, 13, glyphs=ASCII))
    cpu = next(number for number, row in enumerate(shown) if row.startswith("  CPU|"))
    rows = [row[6:].rstrip() for row in shown[cpu : cpu + 3]]
    assert rows == [" " * 69 + "+100", ":" * 69 + "+ 50", "#" * 69 + "+  0"]


def test_the_cpu_line_stands_at_the_middle_of_its_windows_and_breaks_where_nothing_was_read() -> (
    None
):
    line = cpu_line([busy(1.0, 0.25), busy(2.0, 0.5)], False)
    assert line == [(0.0, 0.25), (0.5, 0.25), (1.5, 0.5), (2.0, 0.5)]
    assert cpu_line([busy(1.0), busy(9.0)], False)[3] is None
    assert cpu_line([], False) == []


def test_what_the_run_waits_for_stands_where_the_area_will_be() -> None:
    assert any(
        "waiting for the first byte" in row
        for row in drawn(run_view(flow(steady(1.0), until=0), seconds=0))
    )
    failed = result_view(
        result(flows=(), failure=Failure("refused", "b: nobody listens\x1b[2J there"))
    )
    shown = drawn(failed)
    assert any("b: nobody listens\\x1b[2J there" in row for row in shown)


def test_the_legend_has_the_newest_while_it_goes_on_the_total_after_it_and_the_cursor_before_both() -> (
    None
):
    live = run_view(flow(lambda end: end * GIGABIT))
    assert "10.0 Gb/s" in drawn(live)[0]
    assert "at 3.2 s" in drawn(live, cursor=3.2)[0] and "3.50 Gb/s" in drawn(live, cursor=3.2)[0]
    over = replace(
        altered(live, flows=(replace(live.flows[0], received=result(5.0).flows[0].received),)),
        result=result(5.0),
    )
    assert "5.00 Gb/s" in drawn(over)[0]
    assert "–" in drawn(live, cursor=-5.0)[0]


def test_names_of_hosts_do_not_reach_the_terminal_as_they_are() -> None:
    evil = replace(flow(steady(1e9)), sender="a\x1b[31m\u202e", receiver="[b]")
    shown = drawn(run_view(evil), 120)
    assert "a\\x1b[31m\\u202e → [b]" in shown[0]


def test_a_part_of_the_run_can_be_seen_and_the_cursor_stays_in_sight() -> None:
    shown = run_view(flow(steady(1e9), until=600), plan=replace(PLAN, time=600), seconds=600)
    assert sight_of(shown, Viewport()).span == 600
    near = Viewport(span=60.0)
    assert (sight_of(shown, near).begin, sight_of(shown, near).end) == (540, 600)
    for time in (0.5, 30.0, 300.0, 599.0):
        sight = sight_of(shown, replace(near, cursor=time))
        assert sight.begin <= time <= sight.end and sight.begin >= 0 and sight.span == 60
    assert enlarged(shown, Viewport(), 1) == 300
    assert enlarged(shown, Viewport(span=300.0), 2) == 75
    assert enlarged(shown, Viewport(span=300.0), -1) is None
    assert enlarged(shown, Viewport(), 20) == 2.0


def test_without_block_characters_everything_is_ascii() -> None:
    both = run_view(flow(steady(3e9)), flow(steady(4e9), back=True))
    for shown in (both, run_view(flow(steady(31e9))), run_view(flow(steady(0.0), until=0))):
        for width, height in ((120, 16), (80, 8), (40, 5)):
            lines = text(draw_run(shown, Viewport(cursor=1.0), width, height, glyphs=ASCII))
            assert all(line.isascii() and len(line) <= width for line in lines), lines


def arbitrary_flow(values: list[tuple[float, float, float]], back: bool) -> Flow:
    points = sorted((arrival(*one) for one in values), key=lambda one: one.time)
    return replace(flow(steady(0), until=0, back=back), points=tuple(points))


VALUES = st.lists(
    st.tuples(st.floats(allow_nan=False), st.floats(0, 1e4), st.floats(0, 1e300)), max_size=12
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(VALUES, max_size=2),
    st.none() | st.floats(0, 1e15) | st.just(float("inf")),
    st.tuples(st.integers(1, 150), st.integers(1, 40)),
    st.builds(
        Viewport,
        st.sampled_from((None, "a", "b", "c")),
        st.booleans(),
        st.none() | st.floats(0.5, 1e6),
        st.none() | st.floats(-1e6, 1e6),
    ),
    st.sampled_from((UNICODE, ASCII)),
)
def test_whatever_was_measured_fits_whatever_the_size(
    series: list[list[tuple[float, float, float]]],
    ceiling: float | None,
    size: tuple[int, int],
    view: Viewport,
    glyphs: Glyphs,
) -> None:
    width, height = size
    flows = [arbitrary_flow(values, number == 1) for number, values in enumerate(series)]
    shown = altered(run_view(*flows), ceiling=Ceiling(ceiling, None, "a × b" * 30))
    lines = text(draw_run(shown, view, width, height, glyphs=glyphs))
    assert len(lines) == height
    assert all(cells(line) <= width for line in lines)
    assert not glyphs.is_ascii or all(line.isascii() for line in lines)


# --------------------------------------------------------------------------------------- the widget


class Chart(App[None]):
    """The chart alone."""

    CSS_PATH = "../../../../nictop/tui/nictop.tcss"

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def compose(self) -> ComposeResult:
        yield RunChart()

    def on_run_chart_view_changed(self) -> None:
        self.looks += 1


async def charted(
    act: Callable[[Chart, RunChart], None], size: tuple[int, int] = (80, 12)
) -> tuple[Chart, list[str]]:
    app = Chart()
    async with running(app, size, notifications=False) as pilot:
        chart = app.query_one(RunChart)
        chart.styles.height = size[1]
        await pilot.pause()
        act(app, chart)
        await pilot.pause()
        return app, text(chart.lines)


async def test_the_cursor_begins_at_the_newest_value_and_moves_by_columns() -> None:
    seen: list[float | None] = []

    def act(app: Chart, chart: RunChart) -> None:
        chart.show(run_view(flow(steady(1e9), until=7), seconds=7))
        for columns in (-1, -1, 10, -1000):
            chart.move(columns)
            seen.append(chart.time)
        chart.leave()
        seen.append(chart.time)

    app, _ = await charted(act)
    step = 10 / 69
    assert seen[:2] == [pytest.approx(7 - step / 2), pytest.approx(7 - 1.5 * step)]
    assert seen[2:] == [pytest.approx(7 - step / 2), pytest.approx(step / 2), None]
    assert app.looks == 5


async def test_a_frozen_chart_stands_still_and_then_shows_the_newest() -> None:
    rows: list[str] = []

    def act(app: Chart, chart: RunChart) -> None:
        chart.show(run_view(flow(steady(1e9), until=2), seconds=2))
        chart.freeze(True)
        chart.show(run_view(flow(steady(8e9), until=3), seconds=3))
        assert chart.frozen and chart.shown is not None and chart.shown.seconds == 2
        rows.extend(text(chart.lines))
        chart.freeze(False)

    _, after = await charted(act)
    assert "1.00 Gb/s" in rows[0] and "8.00 Gb/s" in after[0]


async def test_the_cpu_line_goes_round_all_hosts_and_their_hottest_cores() -> None:
    seen: list[tuple[str | None, bool]] = []

    def act(app: Chart, chart: RunChart) -> None:
        chart.next_cpu()
        ends = host("a", "client", steady(0.1)), host("b", "server", steady(0.1))
        hosts = (*ends, host("c", "observer", steady(0.1)))
        chart.show(run_view(flow(steady(1e9)), hosts=hosts))
        for _ in range(6):
            chart.next_cpu()
            seen.append((chart.view.host, chart.view.hottest))

    await charted(act)
    assert seen == [("b", True), ("c", False), ("c", True), ("a", False), ("a", True), ("b", False)]


async def test_another_run_is_seen_whole_and_without_a_cursor() -> None:
    def act(app: Chart, chart: RunChart) -> None:
        chart.show(result_view(result(5.0)))
        chart.show(run_view(flow(steady(1e9))))
        chart.move(-3)
        chart.enlarge(1)
        over = replace(run_view(flow(steady(1e9))), result=result(5.0))
        chart.show(over)
        assert chart.time is not None and chart.view.span is not None, "the same run is over now"
        chart.show(run_view(flow(steady(1e9))))
        assert chart.view == Viewport()

    await charted(act)


async def test_it_is_drawn_anew_in_another_size() -> None:
    app = Chart()
    async with running(app, (80, 12), notifications=False) as pilot:
        chart = app.query_one(RunChart)
        chart.styles.height = "1fr"
        chart.show(run_view(flow(steady(1e9))))
        await pilot.pause()
        assert len(chart.lines) == 12
        await pilot.resize_terminal(50, 8)
        await pilot.pause()
        assert len(chart.lines) == 8 and all(cells(line) <= 50 for line in text(chart.lines))
