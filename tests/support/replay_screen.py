"""The application with a recording, without a terminal."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nictop.hosts.specification import Host
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.recording.playback import Playback
from nictop.recording.reader import Recording
from nictop.tui.app import NictopApp
from nictop.tui.controllers.replay import REPLAY_WINDOW_SECONDS, Replay
from nictop.tui.widgets.base.line_widget import LineWidget
from nictop.wire.source import Source
from tests.support.screen import WIDE, Screen, running, wait_until
from tests.support.sources import ScriptedSource


class Clock:
    """A clock that the test moves by setting `now`."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class ManualPlayback(Playback):
    """A playback whose waits end only when `ScreenWithReplay.advance_clock` moves the clock and
    wakes them."""

    def seconds_until(self, time: float) -> float | None:
        return 0.0 if time <= self.now() else None


class ScreenWithReplay(Screen):
    """The screens of a recording, and its clock."""

    clock: Clock
    replay: Replay

    async def until(self, condition: Callable[[], bool]) -> None:
        await wait_until(self, condition)
        await self.settle()

    async def seek(self, time: float) -> None:
        """Seek to a time of the recording, and wait until it is shown."""
        self.replay.seek(time)
        await self.wait_until_shown()

    async def wait_until_shown(self) -> None:
        await self.until(lambda: self.replay.settled.is_set() and not self.nictop.hosts.pending)

    async def advance_clock(self, seconds: float) -> None:
        self.clock.now += seconds
        self.replay.playback.wake()
        await self.settle()

    def text(self, selector: str) -> str:
        view = self.app.screen.query_one(selector, LineWidget)
        return "\n".join("".join(text for text, _ in line) for line in view.lines)

    def notifications(self) -> list[str]:
        """Notifications as ``TITLE: TEXT``."""
        return [f"{one.title}: {one.message}" for one in self.app._notifications]


def refuse_connection(host: Host, ask: object) -> Source:
    raise AssertionError("a replay connects to no host")


@asynccontextmanager
async def screen_with_replay(
    path: Path | str,
    size: tuple[int, int] = WIDE,
    *,
    start: float = 0.0,
    loop: bool = False,
    nic: str = "",
    notice: str = "",
    glyphs: Glyphs = UNICODE,
) -> AsyncIterator[ScreenWithReplay]:
    """`start`: seconds after the begin of the recording. Playback advances only when the test moves
    the clock; reading does not pause for keys, as these pauses follow the clock of the machine."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch, Recording.open(str(path)) as recording:
        patch.setattr("nictop.recording.playback.SLICE_SECONDS", math.inf)
        app = NictopApp(refuse_connection, (), glyphs=glyphs)
        app.nictop.show_recording(
            ManualPlayback(recording, window=REPLAY_WINDOW_SECONDS, clock=clock),
            start=recording.begin + start,
            loop=loop,
            nic=nic,
            notice=notice,
        )
        async with running(app, size) as pilot:
            screen = ScreenWithReplay(app, ScriptedSource(), pilot)
            assert app.nictop.replay is not None
            screen.clock, screen.replay = clock, app.nictop.replay
            await screen.wait_until_shown()
            yield screen
