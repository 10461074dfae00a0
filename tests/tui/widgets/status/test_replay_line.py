"""Where a playback is, on one line: what it shows, and that it has the width of the screen."""

from __future__ import annotations

import pytest

from nictop.model.facts import width as cells
from nictop.model.text.glyphs import ASCII, UNICODE, Glyphs
from nictop.replay.position import PlaybackPosition, wall_clock_text
from nictop.tui.widgets.status.replay_line import draw_bar, draw_place

PLACE = PlaybackPosition(
    "/home/x/vm\x1b[1.nictop",
    True,
    2.0,
    150.0,
    100.0,
    200.0,
    1.7e9,
    is_growing=False,
    runs=((120.0, 130.0),),
)


def text(place: PlaybackPosition, width: int, *, glyphs: Glyphs = UNICODE) -> str:
    return "".join(part for part, _ in draw_place(place, width, glyphs=glyphs).line)


@pytest.mark.parametrize("width", [*range(0, 60, 3), 80, 120, 500])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_it_fits(width: int, glyphs: Glyphs) -> None:
    drawn = text(PLACE, width, glyphs=glyphs)
    assert cells(drawn) <= width
    assert "\x1b" not in drawn
    assert not glyphs.is_ascii or width < 60 or drawn.isascii()


@pytest.mark.parametrize("width", [36, 54, 80, 120])
def test_it_has_the_time_of_the_end(width: int) -> None:
    end = wall_clock_text(PLACE.wall + PLACE.end)
    assert f" {end} ×2 " in text(PLACE, width)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, " ▶ "),
        ({"playing": False}, "paused"),
        ({"now": 200.0}, "at the end"),
        ({"now": 200.0, "is_growing": True}, "newest"),
        ({"now": 200.0, "is_growing": True, "playing": False}, "at the end"),
    ],
)
def test_it_says_what_it_does(change: dict[str, float | bool], words: str) -> None:
    place = PlaybackPosition(**{**vars(PLACE), **change})
    assert words in text(place, 80)
    assert "×2" in text(place, 80)


def test_the_bar_has_runs_and_the_place_where_they_are() -> None:
    drawn = "".join(part for part, _ in draw_bar(PLACE, 100))
    assert drawn == "━" * 20 + "╋" * 11 + "━" * 19 + "●" + "─" * 49


@pytest.mark.parametrize("now", [0.0, 100.0, 199.9, 200.0, 1e9])
def test_the_place_is_always_in_the_bar(now: float) -> None:
    place = PlaybackPosition(**{**vars(PLACE), "now": now})
    assert "".join(part for part, _ in draw_bar(place, 8)).count("●") == 1


def test_a_recording_of_one_moment() -> None:
    place = PlaybackPosition(
        **{**vars(PLACE), "begin": 100.0, "end": 100.0, "now": 100.0, "runs": ()}
    )
    assert "●" in text(place, 80)
