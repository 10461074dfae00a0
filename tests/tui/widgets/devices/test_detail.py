"""The panel of a device: charts with ticks and a time axis, the facts in one line or in five, its
findings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nictop.model.facts import Fact, width
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.devices.detail import (
    Direction,
    chart_shape,
    draw_findings_of,
    draw_summary_line,
    draw_traffic,
)
from nictop.tui.widgets.devices.view import left_charts, panel_rows
from tests.support.findings import RENAME, finding

TIMES = tuple(float(second) for second in range(90))
BUSY = Direction("TX", "out", (5e8,) * 90, 5e8, 41_000.0)
IDLE = Direction("RX", "in", (0.0,) * 90, 0.0, 0.0)


def drawn(
    *both: Direction,
    cells: int = 78,
    rows: int = 2,
    beside: bool = True,
    speed: int | None = None,
    gap: float = 0.0,
    glyphs: Glyphs = UNICODE,
) -> list[str]:
    lines = draw_traffic(
        both, TIMES, cells, rows, beside=beside, speed=speed, gap=gap, glyphs=glyphs
    )
    return [text_of(line) for line in lines]


def text_of(line: SpanLine) -> str:
    return "".join(part for part, _ in line)


def test_rx_and_tx_beside_each_other_at_80_columns() -> None:
    assert drawn(IDLE, BUSY, speed=1000) == [
        " RX 0 b/s           │                   TX 500 Mb/s   500 M┤█████████████████ ",
        " 0 pps             0┤·················  41.0 kpps         0┤█████████████████ ",
        " 0 % of 1G           -60 s         now  50 % of 1G          -60 s         now ",
    ]


@pytest.mark.parametrize("rows", [2, 8])
@pytest.mark.parametrize(("count", "is_told"), [(1, True), (2, True), (3, False)])
def test_few_readings_are_no_course(count: int, is_told: bool, rows: int) -> None:
    """Two, half a minute apart, fill the columns between them."""
    times = tuple(30.0 * number / count for number in range(count))
    busy = replace(BUSY, series=(5e8,) * count)
    lines = [text_of(line) for line in draw_traffic((busy, busy), times, 78, rows, beside=True)]
    told = f"{count} reading" + "s" * (count > 1)
    assert (told in "".join(lines)) is is_told, lines


def test_above_each_other_in_a_narrow_panel() -> None:
    rows = drawn(BUSY, IDLE, cells=44, rows=5, beside=False)
    assert len(rows) == 12
    assert rows[0].startswith(" TX 500 Mb/s   500 M┤█")
    assert rows[4].startswith("                   0┤█")
    assert rows[5].split() == ["chart:", "means", "-60", "s", "-30", "s", "now"]


def test_an_idle_link_has_only_the_tick_of_zero_and_an_unknown_speed_no_share() -> None:
    rows = "\n".join(drawn(IDLE, rows=5))
    assert rows.count("┤") == 1
    assert " of " not in rows


def test_the_peak_is_told_and_on_the_axis() -> None:
    burst = Direction("RX", "in", (*(1e6,) * 80, 40e6, *(1e6,) * 9), 1e6, 100.0)
    rows = drawn(burst, rows=5)
    assert "peak 40.0 Mb/s" in rows[2] and "50 M┤" in rows[0]
    now = Direction("RX", "in", (1e6,) * 90, 40e6, 100.0)
    assert "50 M┤" in drawn(now, rows=5)[0], "what stands beside it"


def test_peak_and_scale_are_those_of_the_seconds_that_are_drawn() -> None:
    """127 Mb/s two minutes ago made the curve of now flat."""
    past = Direction("RX", "in", (*(127e6,) * 20, *(1300.0,) * 70), 1300.0, 1.0)
    text = "\n".join(drawn(past, rows=5))
    assert "peak 1.30 kb/s" in text and "1.5 k┤" in text and "M" not in text


def test_a_chart_of_means_is_called_so_and_one_of_readings_is_not() -> None:
    burst = Direction("RX", "in", (*(1e6,) * 80, 40e6, *(1e6,) * 9), 1e6, 100.0)
    assert "chart: means" in drawn(burst, rows=5)[5]
    for cells in (56, 31):
        row = drawn(burst, rows=2, cells=cells)[2]
        assert row.rstrip().endswith(" means now") and ("-60 s" in row) == (cells > 31)
    assert not any("means" in row for row in drawn(burst, rows=5, cells=200))
    assert not any("means" in row for row in drawn(burst, rows=2, cells=200))


def test_seconds_without_readings_are_told_beside_the_axis() -> None:
    lost = replace(BUSY, series=(*(5e8,) * 60, *(None,) * 12, *(5e8,) * 18))
    rows = drawn(lost, cells=80, rows=5, gap=12.0)
    assert rows[5].startswith(" no data 12 s ") and rows[5].endswith(" now ")
    assert "█  " in rows[4], rows
    narrow = drawn(lost, IDLE, speed=1000, gap=12.0)
    assert [line.count(" gap now ") for line in narrow] == [0, 0, 2]


def test_charts_in_ascii() -> None:
    assert all(row.isascii() for row in drawn(IDLE, BUSY, rows=5, speed=10_000, glyphs=ASCII))


@pytest.mark.parametrize("cells", [0, 5, 22, 23, 40, 56, 78, 200])
@pytest.mark.parametrize("beside", [False, True])
def test_any_width_draws(cells: int, beside: bool) -> None:
    rows = drawn(IDLE, BUSY, cells=cells, beside=beside, speed=10_000)
    assert len(rows) == (3 if beside else 6)


@pytest.mark.parametrize(
    ("cells", "height", "rows", "beside"),
    [
        (80, 4, 2, True),
        (80, 3, 0, True),
        (80, 12, 5, True),
        (44, 27, 5, False),
        (44, 10, 0, False),
        (40, 1, 0, False),
    ],
)
def test_charts_leave_a_line_to_the_facts_and_half_of_a_high_panel(
    cells: int, height: int, rows: int, beside: bool
) -> None:
    shape = chart_shape(cells, height)
    assert (shape.rows, shape.beside) == (rows, beside)
    assert shape.height < height


FACTS = (
    Fact("State", "up, 1G full", "good"),
    Fact("MTU", "MTU 1500"),
    Fact("Addresses", "192.0.2.7/24"),
)


def test_facts_in_one_line_are_whole_or_left_out_with_an_ellipsis() -> None:
    (line,) = draw_summary_line(FACTS, 60, 1)
    assert text_of(line) == " up, 1G full · MTU 1500 · 192.0.2.7/24"
    (line,) = draw_summary_line(FACTS, 30, 1)
    assert text_of(line) == " up, 1G full · MTU 1500 …"
    assert [text_of(line) for line in draw_summary_line(FACTS, 30, 2)] == [
        " up, 1G full · MTU 1500",
        " 192.0.2.7/24",
    ]


@pytest.mark.parametrize("cells", range(1, 60))
def test_the_line_of_facts_is_never_wider_than_the_panel(cells: int) -> None:
    for rows in (1, 2, 3):
        lines = draw_summary_line(FACTS, cells, rows)
        assert len(lines) <= rows
        assert all(width(text_of(line)) <= cells for line in lines)


def test_findings_of_an_interface_have_their_first_command() -> None:
    shown = draw_findings_of([finding(fixes=(RENAME,))], 60)
    rows = [text_of(line) for line in shown]
    assert "Findings of this interface" in rows[0]
    assert shown[1][0] == (" ▲ ", "warn")
    assert any(row.startswith("   nmcli con mod") for row in rows)
    assert draw_findings_of([], 60) == []


@pytest.mark.parametrize("room", range(80))
@pytest.mark.parametrize("needed", [1, 4, 12, 50])
def test_the_rows_are_divided_without_a_rest(room: int, needed: int) -> None:
    panel = panel_rows(needed, room)
    assert 0 <= panel <= room
    assert panel >= (5 if room >= 12 else 1 if room > 2 else 0)
    if room > 12 and needed <= 7:
        assert room - panel >= min(needed, 7), "the table is whole"
    charts = left_charts(needed, 200, room)
    assert charts.height <= max(0, room - needed)
