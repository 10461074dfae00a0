"""The charts say what they show: rates of now, the scale, and the share of the link where that means something."""

from __future__ import annotations

import pytest

from nictop.tui.widgets.base.line_view import SpanLine
from nictop.tui.widgets.devices.detail import Direction, chart_rows, draw_traffic

BUSY = Direction("out", "out", (3e8, 5e8), 5e8, 41_000.0)
IDLE = Direction("in", "in", (0.0, 0.0), 0.0, 0.0)


def drawn(*both: Direction, width: int = 78, height: int, speed: int | None = None) -> list[str]:
    return [text_of(line) for line in draw_traffic(both, width, height, speed=speed)]


def text_of(line: SpanLine) -> str:
    return "".join(part for part, _ in line)


def test_one_row_has_bits_and_packets() -> None:
    received, sent = drawn(IDLE, BUSY, height=2)
    assert "500 Mb/s" in sent
    assert "41.0 kpps" in sent
    assert "0 b/s" in received
    assert "0 pps" in received


def test_rows_say_the_scale_and_the_share_of_the_link() -> None:
    rows = "\n".join(drawn(BUSY, height=4, speed=1000))
    assert "scale  500 Mb/s" in rows
    assert "50 % of 1G" in rows


def test_an_idle_link_has_no_scale_and_an_unknown_speed_no_share() -> None:
    rows = "\n".join(drawn(IDLE, BUSY, height=8))
    assert rows.count("scale") == 1
    assert " of " not in rows


@pytest.mark.parametrize("width", [0, 5, 20, 27, 28, 40, 200])
@pytest.mark.parametrize("height", [0, 1, 2, 8])
def test_any_size_draws(width: int, height: int) -> None:
    rows = drawn(IDLE, BUSY, width=width, height=height, speed=10_000)
    assert len(rows) == 2 * max(1, height // 2)
    assert all(len(row) <= max(width, 28) for row in rows)


@pytest.mark.parametrize(("height", "rows"), [(3, 2), (7, 2), (12, 4), (20, 6), (28, 8), (60, 8)])
def test_the_charts_leave_two_thirds_to_the_facts(height: int, rows: int) -> None:
    assert chart_rows(height) == rows
