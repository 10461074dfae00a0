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
            return f"{error.message}; {error.hint}" if error.hint else error.message
        return ""

    first, last = (wall_clock_text(recording.wall_time(edge)) for edge in (recording.begin, recording.end))
    screen.app.push_screen(
        LineEntry(
            "go to a time",
            f"14:03:20, +90 (seconds from the beginning), or end; it goes from {first} to {last}",
            "",
            take,
            label="Time:",
        )
    )
