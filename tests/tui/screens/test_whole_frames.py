"""No frame that a terminal shows has a view that is empty or cut: each is drawn when all that is in
it has been drawn for its size. Every frame is recorded here as the compositor draws it, not only
the one after all work is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.app import App
from textual.screen import Screen as TextualScreen

import tests.support.screen
from nictop.cli.commands.demo import DEMO_FILE, DEMO_NIC, DEMO_START_SECONDS
from nictop.tui.palette import Palette
from nictop.tui.screens.live.hosts import HostsScreen
from nictop.tui.widgets.status.status_line import StatusLine
from nictop.wire.source import SourceState
from tests.support.replay_screen import ScreenWithReplay, screen_with_replay
from tests.support.screen import (
    NARROW,
    NO_COST,
    WIDE,
    Screen,
    live_screen,
    screen_with_hosts,
    wait_until,
)

VIEWS = "1234567"
READING = ("Reading results…", "Reading the recording up to this time…")
"""Of Results, and of a test, while they are read from the recording."""
FRAME_ROWS = 2
"""Above the body, and below it."""
draw_frame = TextualScreen._compositor_refresh


class Frames:
    """What the screen on top has drawn, oldest first."""

    def __init__(self) -> None:
        self.drawn: list[list[str]] = []

    def record(self, screen: TextualScreen[Any]) -> None:
        is_drawn = screen is screen.app.screen and bool(screen._compositor._dirty_regions)
        draw_frame(screen)
        if is_drawn:
            width = screen.app.size.width
            rows = screen._compositor.render_strips()
            self.drawn.append(
                comparable(["".join(segment.text for segment in row)[:width] for row in rows])
            )


def comparable(rows: list[str]) -> list[str]:
    """Without the mark of the cursor, which follows the focus a little later."""
    return [row.replace("▸", " ") for row in rows]


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Frames]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(StatusLine, "COST_EVERY", NO_COST)
    found = Frames()

    def draw(screen: TextualScreen[Any]) -> None:
        found.record(screen)

    monkeypatch.setattr(tests.support.screen, "_refresh_later", draw)
    monkeypatch.setattr(tests.support.screen, "_refresh", draw)
    yield found


@asynccontextmanager
async def demo(size: tuple[int, int]) -> AsyncIterator[ScreenWithReplay]:
    with as_file(files("nictop.recording").joinpath(DEMO_FILE)) as path:
        async with screen_with_replay(path, size, start=DEMO_START_SECONDS, nic=DEMO_NIC) as screen:
            await screen.settle()
            yield screen


def same(frame: list[str], other: list[str]) -> bool:
    """But for the keys, which follow the focus."""
    return frame[:-1] == other[:-1]


def is_reading(frame: list[str]) -> bool:
    return any(sentence in row for row in frame for sentence in READING)


def check(found: Frames, key: str, *whole: list[str]) -> None:
    """Each frame is one of these, or says that results are read, and has keys in its last line."""
    assert found.drawn, f"nothing was drawn after {key}"
    for number, frame in enumerate(found.drawn):
        is_whole = any(same(frame, one) for one in whole) or is_reading(frame)
        assert is_whole, "\n".join([f"{key}, frame {number}:", *frame, "instead of:", *whole[-1]])
        assert "Help" in frame[-1] or "Help" in whole[-1][0] or frame[-1].strip(), (
            f"{key}, frame {number}: no keys"
        )


async def press(screen: Screen, found: Frames, key: str) -> None:
    before = comparable(screen.drawn())
    found.drawn.clear()
    await screen.press(key)
    await screen.settle()
    check(found, key, before, comparable(screen.drawn()))


@pytest.mark.parametrize("size", [(60, 20), NARROW, WIDE], ids="{0[0]}x{0[1]}".format)
async def test_every_frame_of_every_view_is_whole(size: tuple[int, int], frames: Frames) -> None:
    """At its first time, and when another view was shown meanwhile."""
    async with demo(size) as screen:
        for key in (*"234567", *"15461", "enter", "escape", "4", "enter", "escape"):
            await press(screen, frames, key)
        await screen.seek(screen.replay.runs[1].begin)  # the first test has a result then
        for key in ("7", "enter"):
            await press(screen, frames, key)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("every", [1, 2, 3, 5])
async def test_frames_are_whole_at_whichever_turn_the_timer_comes(
    size: tuple[int, int], every: int, frames: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a widget that wants another place and the layout that gives it that place too."""
    settle = tests.support.screen.settle

    async def settle_with_timer(app: App[Any], most: float = 3.0) -> None:
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        turn = 0
        await asyncio.sleep(0)
        while ready and app.is_running:
            turn += 1
            if turn % every == 0 and tests.support.screen._is_undrawn(app):
                with app._context():
                    app.screen._on_timer_update()
            await asyncio.sleep(0)
        await settle(app, most)

    monkeypatch.setattr(tests.support.screen, "settle", settle_with_timer)
    async with demo(size) as screen:
        for key in (*"4", "enter", "escape", *"15", "enter", "escape", *"4", "enter", "escape"):
            await press(screen, frames, key)


@pytest.mark.parametrize("size", [NARROW, WIDE], ids="{0[0]}x{0[1]}".format)
async def test_every_frame_of_every_dialog_is_whole(size: tuple[int, int], frames: Frames) -> None:
    async with demo(size) as screen:
        for view, dialog in (
            *((view, "question_mark") for view in VIEWS),
            ("1", "o"),
            ("4", "o"),
            ("1", "r"),
            ("6", "o"),
        ):
            await press(screen, frames, view)
            for key in (dialog, "escape"):
                await press(screen, frames, key)


async def test_every_frame_after_a_resize_is_whole(frames: Frames) -> None:
    """The one before stays until then; views that were not in sight are resized when they are."""
    async with demo(WIDE) as screen:
        for view in (*"1457", "question_mark"):
            await screen.press(view)
            for width, height in ((60, 20), (200, 50), WIDE):
                frames.drawn.clear()
                await screen.pilot.resize_terminal(width, height)
                await screen.settle()
                after = comparable(screen.drawn())
                resized = [
                    frame
                    for frame in frames.drawn
                    if (len(frame[0]), len(frame)) == (width, height)
                ]
                assert all(same(frame, after) for frame in resized), (
                    f"view {view}, {width}x{height}"
                )
        await screen.press("escape")
        await screen.pilot.resize_terminal(*NARROW)
        for other in "514":
            await press(screen, frames, other)


async def test_every_frame_is_whole_when_views_change_quickly(frames: Frames) -> None:
    """Keys come before the view of the one before was drawn."""
    async with demo(NARROW) as screen:
        whole = []
        for view in VIEWS:
            await screen.press(view)
            await screen.settle()
            whole.append(comparable(screen.drawn()))
        frames.drawn.clear()
        for key in "123456741736251":
            screen.app.post_message(events.Key(key, key))
        await screen.settle()
        assert frames.drawn
        for frame in frames.drawn:
            body = frame[FRAME_ROWS:-FRAME_ROWS]
            is_whole = any(body == one[FRAME_ROWS:-FRAME_ROWS] for one in whole) or is_reading(body)
            assert is_whole, "\n".join(frame)


async def test_the_first_frame_of_hosts_has_its_columns(frames: Frames) -> None:
    """It had two of them, whatever the width."""
    async with screen_with_hosts("vm1", "pve", size=NARROW) as (screen, hosts):
        hosts["pve"].send(
            SourceState(
                "lost", "pve.example: connection refused; check that sshd listens on this port", 4
            )
        )
        await screen.settle()
        frames.drawn.clear()
        await screen.press("5")
        await wait_until(screen, lambda: isinstance(screen.app.screen, HostsScreen))
        await screen.settle()
        of_hosts = [frame for frame in frames.drawn if any("│5 Host" in row for row in frame[:1])]
        assert of_hosts
        for frame in of_hosts:
            assert "STATE" in frame[2] and "CPU" in frame[2] and "FINDINGS" in frame[2], "\n".join(
                frame
            )


async def test_the_palette_has_its_entries_as_soon_as_it_is_seen(frames: Frames) -> None:
    async with demo(NARROW) as screen:
        frames.drawn.clear()
        await screen.press("colon")
        await wait_until(screen, lambda: isinstance(screen.app.screen, Palette))
        await screen.settle()
        final = comparable(screen.drawn())
        assert any("View: Devices" in row for row in final)
        for frame in frames.drawn:
            assert any("type words" in row for row in frame) <= any(
                "View: " in row for row in frame
            ), "\n".join(frame)


async def test_a_reading_that_comes_after_the_screens_were_closed_ends_nothing() -> None:
    """While nictop ends there is no screen, but a reading may wait to be shown."""
    async with live_screen(NARROW) as screen:
        app = screen.app
    published: list[str] = []
    assert not app.screen_stack
    app.draw_at_once(lambda: published.append("reading"))
    assert published == ["reading"]
