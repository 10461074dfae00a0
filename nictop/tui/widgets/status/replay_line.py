"""Where the playback of a recording is, in the second line of every screen: the timeline, a pane of
its own.

▶ 14:03:20  14:02:11 ━━━━━━━━━━╋╋╋╋━━━●────────── 14:03:23  ×2  demo.nictop

The last minutes of live hosts say how long ago it was; at the present the line has a few cells only
until it is focused:

▮ 14:03:20, 2 min 10 s ago ━━━━━━━━━━●──────    now 14:05:30 ━━━━━━━━━━━━━━━━●    g ◂ 9 min
"""

from __future__ import annotations

import os
from typing import ClassVar, Protocol

from textual import events
from textual.binding import BindingType
from textual.message import Message

from nictop.model.facts import clean
from nictop.model.facts import width as cells
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_tuples import NamedTuple
from nictop.replay.position import PlaybackPosition, wall_clock_text
from nictop.tui.keys import TIMELINE_KEYS
from nictop.tui.widgets.base.line_widget import LineWidget, Span, SpanLine, cut_spans, span_cells

STATE_TEXT = {"playing": "", "paused": "paused", "end": "at the end", "newest": "newest"}
MIN_TIMELINE_CELLS, MAX_TIMELINE_CELLS = 8, 200
EDGE_CELLS = 60
"""Cells from which on the times of both ends and the name of the file are there."""
END_CELLS = len("14:03:20")
"""On a narrower line, if the bar leaves them: the time of the end."""
DATED_SECONDS = 86400.0
"""Seconds from which on the edges are told with their dates."""


class Timeline(NamedTuple):
    """The line, and where the bar is in it."""

    line: SpanLine
    begin: int = 0
    cells: int = 0

    def share(self, x: int) -> float | None:
        """Of the recording before a column; None: the bar is not there."""
        place = x - self.begin
        if not 0 <= place < self.cells:
            return None
        return place / max(1, self.cells - 1)


def draw_place(place: PlaybackPosition, width: int, *, glyphs: Glyphs = UNICODE) -> Timeline:
    """One line of at most `width` cells; the least important parts are left out first."""
    marks = {
        "playing": glyphs.playing,
        "paused": glyphs.paused,
        "end": glyphs.end,
        "newest": glyphs.newest,
    }
    clock = wall_clock_text(place.wall + place.now)
    left: list[Span] = [(f" {marks[place.state]} ", "accent"), (clock, "title")]
    if place.is_present:
        left = [(f" now {clock}", "title")]
    elif place.ago is not None:
        left.append((f", {past_text(place.ago)} ", "warn"))
    elif STATE_TEXT[place.state]:
        left.append((f" {STATE_TEXT[place.state]}", "warn" if place.state == "paused" else "dim"))
    left.append((" ", ""))
    right = f" {glyphs.encode('×')}{place.speed:g} "
    if place.ago is not None and place.speed == 1:
        right = " "
    room = width - span_cells(left) - cells(right)
    if room < MIN_TIMELINE_CELLS:
        return Timeline(tuple(cut_spans((*left, (right, "dim")), width)))
    behind: list[Span] = [(right, "dim")]
    if width >= EDGE_CELLS:
        date = place.end - place.begin >= DATED_SECONDS
        first = wall_clock_text(place.wall + place.begin, date=date)
        last = wall_clock_text(place.wall + place.end, date=date)
        name = f"{clean(os.path.basename(place.path))} "
        if room - len(first) - len(last) - 3 >= MIN_TIMELINE_CELLS:
            left.append((f" {first} ", "dim"))
            behind.insert(0, (f" {last}", "dim"))
            room -= len(first) + len(last) + 3
        if room - cells(name) >= 2 * MIN_TIMELINE_CELLS:
            behind.append((name, "dim"))
            room -= cells(name)
    elif room - END_CELLS - 1 >= MIN_TIMELINE_CELLS:
        behind.insert(0, (f" {wall_clock_text(place.wall + place.end)}", "dim"))
        room -= END_CELLS + 1
    bar = draw_bar(place, min(room, MAX_TIMELINE_CELLS), glyphs=glyphs)
    return Timeline((*left, *bar, *behind), span_cells(left), len(bar))


def past_text(seconds: float) -> str:
    """``2 min 10 s ago``"""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    if not minutes:
        return f"{rest} s ago"
    return f"{minutes} min {rest} s ago"


def draw_present(seconds: float, key: str, *, glyphs: Glyphs) -> SpanLine:
    """``g ◂ 9 min``: how far one can go back, and the key for it."""
    minutes = int(seconds / 60)
    amount = f"{minutes} min" if minutes else "<1 min"
    return ((f" {key} {glyphs.choice_left} {amount} ", "dim"),)


def draw_bar(place: PlaybackPosition, width: int, *, glyphs: Glyphs = UNICODE) -> SpanLine:
    """The whole recording in `width` cells: before the position, after it, runs, and the
    position."""
    past, future, run_past, run_future, here = glyphs.timeline
    span = max(place.end - place.begin, 1e-9)

    def cell(moment: float) -> int:
        return min(width - 1, max(0, int((moment - place.begin) / span * width)))

    runs: set[int] = set()
    for begin, end in place.runs:
        runs.update(range(cell(begin), cell(end) + 1))
    at = cell(place.now)
    spans: list[Span] = []
    for index in range(width):
        is_past = index < at
        if index == at:
            spans.append((here, "title"))
        elif index in runs:
            spans.append((run_past if is_past else run_future, "accent"))
        elif is_past:
            spans.append((past, "good"))
        else:
            spans.append((future, "dim"))
    return tuple(spans)


class TimelineTarget(Protocol):
    """What the timeline does to a recording."""

    def where(self) -> PlaybackPosition: ...

    def seek(self, moment: float) -> None:
        """Jump, seconds as in the recording."""

    def step(self, count: int) -> None:
        """So many readings on or back."""

    def skip(self, seconds: float) -> None:
        """Jump on or back."""

    def edge(self) -> None:
        """To the end, and what is added to it."""

    def search(self, direction: int) -> None:
        """To the next or previous event."""


class Present(TimelineTarget, Protocol):
    """The timeline of live hosts."""

    @property
    def seconds(self) -> float:
        """How far one can go back."""


class ReplayLine(LineWidget):
    """The timeline of `replay`, or of live hosts (`present`); hidden if there is neither. Posts
    `GoRequested`, and, of live hosts, `Left`."""

    BINDINGS: ClassVar[list[BindingType]] = [*TIMELINE_KEYS]

    class GoRequested(Message):
        """A time is to be asked for."""

    class Left(Message):
        """The keys are to be those of the view again."""

    def __init__(
        self,
        replay: TimelineTarget | None,
        present: Present | None = None,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._replay, self._present = replay or present, None if replay else present
        self._timeline = Timeline(())
        self.can_focus = self.display = self._replay is not None
        self.set_class(self._present is not None, "-present")

    @property
    def is_present(self) -> bool:
        """It is that of live hosts."""
        return self._present is not None

    def redraw(self) -> None:
        """Draw the present position."""
        if self._replay is None or not self.size.width:
            return
        if self._present is not None and not self.is_focused:
            key = self.key_label("timeline")
            line = draw_present(self._present.seconds, key, glyphs=self.glyphs)
            self._timeline = Timeline(line)
            self.show_lines([line], cursor=None)
        else:
            self._timeline = draw_place(self._replay.where(), self.size.width, glyphs=self.glyphs)
            cursor = 0 if self.screen.focused is self else None
            self.show_lines([self._timeline.line], cursor=cursor)

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self.redraw()

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        share = self._timeline.share(event.get_content_offset_capture(self).x)
        if self._replay is not None and share is not None:
            place = self._replay.where()
            self._replay.seek(place.begin + share * (place.end - place.begin))

    def action_go(self) -> None:
        self.post_message(self.GoRequested())

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def action_search(self, direction: int) -> None:
        if self._replay is not None:
            self._replay.search(direction)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "leave":
            return self.is_present
        return super().check_action(action, parameters)

    def action_reading(self, count: int) -> None:
        if self._replay is not None:
            self._replay.step(count)

    def action_skip(self, seconds: int) -> None:
        if self._replay is not None:
            self._replay.skip(float(seconds))

    def action_edge(self, side: int) -> None:
        if self._replay is None:
            return
        if side < 0:
            self._replay.seek(self._replay.where().begin)
        else:
            self._replay.edge()
