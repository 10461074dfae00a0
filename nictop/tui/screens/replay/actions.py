"""Keys of a recording that is shown: what they do is in `ReplayActions`, for every screen that shows hosts or a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType
from textual.screen import Screen

from nictop.replay.position import wall_words

if TYPE_CHECKING:
    from nictop.tui.app import NictopApp
    from nictop.tui.controllers.replay import Replay

REPLAY_KEYS: list[BindingType] = [
    Binding("space", "play", "Play", id="replay.play", tooltip="a recording: pause, or go on"),
    Binding("n", "happening(1)", "Next", id="replay.next", tooltip="a recording: to the next finding or run"),
    Binding(
        "N", "happening(-1)", "Previous", id="replay.previous", show=False, tooltip="a recording: to the one before"
    ),
    Binding("ctrl+g", "go", "Go to", id="replay.go", tooltip="a recording: to a time: 14:03:20, +90, end"),
    Binding("comma", "reading(-1)", "Back", id="replay.back", show=False, tooltip="a recording: one reading back"),
    Binding("full_stop", "reading(1)", "On", id="replay.on", show=False, tooltip="a recording: one reading on"),
    Binding("left_curly_bracket", "skip(-10)", id="replay.less", show=False, tooltip="a recording: 10 s back"),
    Binding("right_curly_bracket", "skip(10)", id="replay.more", show=False, tooltip="a recording: 10 s on"),
    Binding("left_parenthesis", "skip(-60)", id="replay.minute-less", show=False, tooltip="a recording: 1 min back"),
    Binding("right_parenthesis", "skip(60)", id="replay.minute-more", show=False, tooltip="a recording: 1 min on"),
    Binding(
        "e", "edge", "End", id="replay.edge", show=False, tooltip="a recording: to its end, and what is added to it"
    ),
    Binding("plus,equals_sign", "speed(1)", "Faster", id="replay.faster", show=False, tooltip="a recording: faster"),
    Binding("minus", "speed(-1)", "Slower", id="replay.slower", show=False, tooltip="a recording: slower"),
]

RECORDED_RUN_KEYS: list[BindingType] = [
    Binding("escape,t", "back", "Back", id="recorded-run.back", key_display="esc", tooltip="a recorded run: back"),
    Binding(
        "enter", "begin", "Begin", id="recorded-run.begin", key_display="enter", tooltip="a recorded run: to its begin"
    ),
    Binding("left_square_bracket,less_than_sign", "run(-1)", "Run before", id="recorded-run.before", show=False),
    Binding(
        "right_square_bracket,greater_than_sign",
        "run(1)",
        "Next run",
        id="recorded-run.next",
        key_display="]",
        tooltip="a recorded run: the next one",
    ),
]

REPLAY_ACTIONS = ("play", "happening", "go", "reading", "skip", "edge", "speed")
LIVE_ACTIONS = ("freeze", "interval")
"""The same keys while the hosts are live."""


class ReplayActions(Screen[None]):
    """Part of a screen: what the keys do to the playback."""

    if TYPE_CHECKING:

        @property
        def nictop(self) -> NictopApp: ...

    @property
    def _replay(self) -> Replay:
        replay = self.nictop.replay
        assert replay is not None  # the keys are not offered otherwise
        return replay

    def replays(self, action: str) -> bool | None:
        """Whether a key is offered, as far as that is a matter of recordings; None: it is not."""
        if action in REPLAY_ACTIONS:
            return self.nictop.replay is not None
        if action in LIVE_ACTIONS and self.nictop.replay is not None:
            return False
        return None

    def refuses_recording(self) -> bool:
        """Whether what is shown is a recording; it is said that nothing can be asked of it."""
        if self.nictop.replay is not None:
            self.nictop.say("Its hosts can be asked for nothing, and nothing of them can be changed.", "A recording")
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
        from nictop.recording.time_spec import moment
        from nictop.tui.screens.dialogs.line_entry import LineEntry

        recording = self._replay.playback.recording

        async def take(words: str) -> str:
            try:
                self._replay.seek(moment(words, recording))
            except NictopError as error:
                return f"{error.message}; {error.hint}" if error.hint else error.message
            return ""

        first, last = (wall_words(recording.wall(edge)) for edge in (recording.begin, recording.end))
        self.app.push_screen(
            LineEntry(
                "go to a time",
                f"14:03:20, +90 (seconds from the beginning), or end; it goes from {first} to {last}",
                "",
                take,
            )
        )
