"""Actions of a recording that is shown, for every screen that shows hosts or a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.screen import Screen

from nictop.replay.position import wall_clock_text
from nictop.tui.screens.base import NictopScreen

if TYPE_CHECKING:
    from nictop.tui.controllers.replay import Replay

REPLAY_ACTIONS = ("play", "happening", "go", "reading", "skip", "edge", "speed")
LIVE_ACTIONS = ("freeze", "interval")
"""Of the same keys while the hosts are live."""


class ReplayActions(NictopScreen, Screen[None]):
    """Part of a screen: what the keys do to the playback."""

    @property
    def _replay(self) -> Replay:
        replay = self.nictop.replay
        assert replay is not None  # the keys are not offered otherwise
        return replay

    def replays(self, action: str) -> bool | None:
        """Whether a key is offered, as far as that depends on whether a recording is shown; None: it does not."""
        if action in REPLAY_ACTIONS:
            return self.nictop.replay is not None
        if action in LIVE_ACTIONS and self.nictop.replay is not None:
            return False
        return None

    def refuses_recording(self) -> bool:
        """Whether a recording is shown; a notice says that nothing can be requested from its hosts."""
        if self.nictop.replay is not None:
            self.nictop.notify("Its hosts can be asked for nothing, and nothing of them can be changed.", "A recording")
        return self.nictop.replay is not None

    def action_play(self) -> None:
        self._replay.play()

    def action_reading(self, count: int) -> None:
        self._replay.step(count)

    def action_skip(self, seconds: int) -> None:
        self._replay.skip(float(seconds))

    def action_edge(self) -> None:
        self._replay.edge()

    def action_speed(self, steps: int) -> None:
        self._replay.change_speed(steps)

    def action_happening(self, direction: int) -> None:
        self._replay.search(direction)

    def action_go(self) -> None:
        """Ask for a time, and go there."""
        from nictop.errors import NictopError
        from nictop.recording.time_spec import resolve_time
        from nictop.tui.screens.dialogs.line_entry import LineEntry

        recording = self._replay.playback.recording

        async def take(words: str) -> str:
            try:
                self._replay.seek(resolve_time(words, recording))
            except NictopError as error:
                return f"{error.message}; {error.hint}" if error.hint else error.message
            return ""

        first, last = (wall_clock_text(recording.wall_time(edge)) for edge in (recording.begin, recording.end))
        self.app.push_screen(
            LineEntry(
                "Go to time",
                f"14:03:20, +90 (seconds from the start) or end. Recording: {first} to {last}.",
                "",
                take,
                button="Go",
            )
        )
