"""The first line has exactly the width of the screen, and gives up what matters least."""

from __future__ import annotations

import pytest

from nictop.model.snapshot import Snapshot, with_state
from nictop.model.text.glyphs import UNICODE
from nictop.tui.widgets.base.line_view import SpanLine
from nictop.tui.widgets.status.status_line import draw_status
from tests.model.hosts import live_host

COST = (1.8, 52e6)


def text(line: SpanLine) -> str:
    return "".join(part for part, _ in line)


def drawn(snapshot: Snapshot, width: int, *, silent: float = 0.0, paused: bool = False) -> str:
    cost = (COST[0], int(COST[1]))
    return text(draw_status(snapshot, width, 1.0, cost, paused=paused, glyphs=UNICODE, silent=silent))


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("silent", [0.0, 75.0])
@pytest.mark.parametrize("width", range(0, 140, 7))
def test_it_has_the_width_of_the_screen(width: int, silent: float, paused: bool) -> None:
    assert len(drawn(live_host(), width, silent=silent, paused=paused)) == width


def test_the_host_comes_first_and_the_cost_last() -> None:
    host = live_host()
    assert "nictop 1.8 % CPU 52 MB" in drawn(host, 120)
    assert drawn(host, 20).startswith(" ● ")
    assert drawn(host, 40).endswith(" 1 s ")
    assert not drawn(host, 20).endswith(" 1 s ")


def test_a_lost_host_is_named_on_a_narrow_screen() -> None:
    assert "lost" in drawn(with_state(live_host(), "lost", "why"), 60)


def test_a_host_that_sends_nothing_is_not_drawn_as_live() -> None:
    line = drawn(live_host(), 80, silent=75.0)
    assert "silent for 1 min 15 s" in line
    assert "●" not in line
