"""The first line has exactly the width of the screen, and gives up what matters least."""

from __future__ import annotations

import pytest

from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host
from nictop.model.snapshot import Snapshot, with_state
from nictop.model.text.glyphs import UNICODE
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.status.status_line import (
    CHANGES_ALLOWED,
    draw_several,
    draw_status,
    reading_interval,
)
from tests.model.hosts import live_host
from tests.support.sources import ScriptedSource

COST = (1.8, 52e6)


def text(line: SpanLine) -> str:
    return "".join(part for part, _ in line)


def drawn(snapshot: Snapshot, width: int, *, old: str = "", paused: bool = False) -> str:
    cost = (COST[0], int(COST[1]))
    return text(draw_status(snapshot, width, 1.0, cost, paused=paused, glyphs=UNICODE, old=old))


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("old", ["", "no data for 1 min 15 s"])
@pytest.mark.parametrize("width", range(0, 140, 7))
def test_it_has_the_width_of_the_screen(width: int, old: str, paused: bool) -> None:
    assert len(drawn(live_host(), width, old=old, paused=paused)) == width


async def test_the_interval_is_that_of_the_readings_during_a_test() -> None:
    """A test reads its hosts more often than they are read otherwise."""
    sessions = [HostSession(Host(name, name), ScriptedSource(name)) for name in ("a", "b")]

    def right(chosen: str) -> str:
        line, _ = draw_several(
            sessions, chosen, 120, 1.0, (1.8, 52), now=0.0, paused=False, glyphs=UNICODE
        )
        return text(line)

    await sessions[0].join_run(0.2, None)
    assert " every 0.2 s " in right("a") and " every 1 s " in right("b")
    assert reading_interval(sessions, 1.0) == 0.2
    await sessions[0].leave_run()
    assert " every 1 s " in right("a")


def test_the_host_comes_first_and_the_cost_last() -> None:
    host = live_host()
    assert "nictop 1.8 % CPU 52 MB" in drawn(host, 120)
    assert drawn(host, 20).startswith(" ● ")
    assert drawn(host, 40).endswith(" 1 s ")
    assert not drawn(host, 20).endswith(" 1 s ")


def test_a_lost_host_is_named_on_a_narrow_screen() -> None:
    assert "lost" in drawn(with_state(live_host(), "lost", "why"), 60)


def test_a_host_that_sends_nothing_is_not_drawn_as_live() -> None:
    line = drawn(live_host(), 80, old="no data for 1 min 15 s")
    assert "no data for 1 min 15 s" in line
    assert "●" not in line


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("width", [60, 80])
def test_a_change_that_waits_for_an_answer_leaves_the_whole_name_of_its_host(
    several: bool, width: int
) -> None:
    """``● al…`` beside ``keep change? 30 s`` does not say of which host."""
    run = "keep change? 30 s (f: details)"
    if several:
        hosts = [
            HostSession(Host(name, name), ScriptedSource(name))
            for name in ("alma-load-001", "alma-load-002")
        ]
        line, _ = draw_several(
            hosts, "alma-load-001", width, 1.0, None, now=0.0, paused=False, glyphs=UNICODE,
            run=run, mode=CHANGES_ALLOWED,
        )  # fmt: skip
    else:
        line = draw_status(
            live_host(), width, 1.0, None, paused=False, glyphs=UNICODE, run=run,
            mode=CHANGES_ALLOWED,
        )  # fmt: skip
    shown = text(line)
    assert "alma-load-001" in shown and run in shown
    assert ("changes allowed" in shown) == (width == 80)
