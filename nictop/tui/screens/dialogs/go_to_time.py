"""Asks for a time of the recording, and goes there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nictop.errors import NictopError
from nictop.recording.time_spec import resolve_time
from nictop.replay.position import wall_clock_text
from nictop.tui.screens.dialogs.line_entry import LineEntry

if TYPE_CHECKING:
    from nictop.tui.screens.base import NictopScreen


def ask_time(screen: NictopScreen) -> None:
    replay = screen.nictop.replay
    if replay is None:
        return
    recording = replay.playback.recording

    async def take(words: str) -> str:
        try:
            replay.seek(resolve_time(words, recording))
        except NictopError as error:
            return error.with_hint
        return ""

    half = (recording.end - recording.begin) // 2
    first, example, last = (
        wall_clock_text(recording.wall_time(time))
        for time in (recording.begin, recording.begin + half, recording.end)
    )
    screen.app.push_screen(
        LineEntry(
            "Go to time",
            f"{example}, +{half:g} (seconds from the beginning), or end. The recording goes from "
            f"{first} to {last}.",
            "",
            take,
            label="Time:",
            holds_keys=True,
        )
    )
