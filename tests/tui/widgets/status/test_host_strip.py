"""The hosts in the first line: whatever the room, the chosen one is there, and nothing is wider
than the line."""

from __future__ import annotations

import pytest

from nictop.hosts.session import HostSession
from nictop.hosts.specification import Host
from nictop.model.snapshot import with_state
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.tui.widgets.status.host_strip import draw_hosts
from nictop.tui.widgets.status.status_line import draw_several
from nictop.wire.budget import OVERLOADED_MESSAGE
from tests.support.sources import ScriptedSource


def host(name: str, state: str = "live") -> HostSession:
    one = HostSession(Host(name, name), ScriptedSource(name))
    one.snapshot = with_state(one.snapshot, state, "")  # type: ignore[arg-type]
    one.received_at = 100.0
    return one


def text(
    hosts: list[HostSession],
    chosen: str,
    cells: int,
    *,
    now: float = 101.0,
    glyphs: Glyphs = UNICODE,
) -> str:
    return "".join(
        part for part, _ in draw_hosts(hosts, chosen, cells, now, 1.0, glyphs=glyphs).spans
    )


def test_each_host_has_a_mark_and_the_shown_one_brackets() -> None:
    hosts = [host("vm1"), host("vm2", "failed"), host("pve", "connecting")]
    assert text(hosts, "vm1", 100) == " [● vm1]  ✖ vm2 failed   ◌ pve reconnecting "
    assert text(hosts, "pve", 100, glyphs=ASCII) == "  * vm1   X vm2 failed  [@ pve reconnecting]"


def test_the_next_attempt_is_counted_down() -> None:
    lost = host("vm1", "lost")
    lost.retry_at = 105.0
    assert text([lost, host("vm2")], "vm2", 100).startswith("  ◌ vm1 reconnecting in 4 s ")
    assert "reconnecting in 0 s" in text([lost], "vm1", 100, now=200.0)


def test_a_host_that_was_never_connected_does_not_reconnect() -> None:
    lost = host("vm1", "lost")
    lost.received_at = None
    assert text([lost], "vm1", 100) == " [◌ vm1 connecting]"
    lost.retry_at = 105.0
    assert text([lost], "vm1", 100) == " [◌ vm1 retry in 4 s]"


def test_a_live_host_that_sends_nothing_is_silent() -> None:
    assert text([host("vm1")], "vm1", 100, now=104.9) == " [● vm1]"
    assert text([host("vm1")], "vm1", 100, now=110.0) == " [◌ vm1 no data for 10 s]"


def test_a_host_that_sends_too_much_is_overloaded_until_it_is_not_live() -> None:
    one = host("vm1")
    one.overloaded = True
    assert text([one], "vm1", 100) == " [● vm1 overloaded]"
    assert one.notice(101.0, 1.0) == OVERLOADED_MESSAGE and one.age_text(101.0, 1.0) == ""
    assert text([one], "vm1", 100, now=110.0) == " [◌ vm1 no data for 10 s]"
    one.snapshot = with_state(one.snapshot, "lost", "")
    assert text([one], "vm1", 100) == " [◌ vm1 reconnecting]"


@pytest.mark.parametrize("cells", range(0, 140, 3))
@pytest.mark.parametrize("chosen", [0, 7, 19])
def test_it_fits_and_counts_what_is_out_of_sight(cells: int, chosen: int) -> None:
    hosts = [host(f"host{number:02}") for number in range(20)]
    line = text(hosts, f"host{chosen:02}", cells)
    assert len(line) <= cells
    if cells >= 24:
        assert f"[● host{chosen:02}]" in line
        shown = line.count("host")
        hidden = sum(int(word) for word in line.replace("+", " ").split() if word.isdecimal())
        assert shown + hidden == 20


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("width", range(0, 140, 7))
def test_the_line_has_the_width_of_the_screen(width: int, paused: bool) -> None:
    hosts = [host("vm1"), host("x" * 60, "failed")]
    line, _ = draw_several(
        hosts, "vm1", width, 1.0, (1.8, 52_000_000), now=101.0, paused=paused, glyphs=UNICODE
    )
    assert len("".join(part for part, _ in line)) == width


def test_a_name_is_drawn_and_not_obeyed() -> None:
    line = text([host("\x1b[2J\u202e[red]")], "x", 100)
    assert "\x1b" not in line
    assert "\u202e" not in line
    assert "[red]" in line
