"""Where the playback of a recording is, on one line, and below it what there is to say of the recording.

▶ 14:03:20  14:02:11 ━━━━━━━━━━╋╋╋╋━━━●────────── 14:03:23  ×2  demo.nictop
"""

from __future__ import annotations

import os
from collections.abc import Callable

from nictop.model.facts import clean, wrap
from nictop.model.facts import width as cells
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.replay.position import PlaybackPosition, wall_clock_text
from nictop.tui.widgets.base.line_view import LineView, Span, SpanLine, cut_spans

STATE_TEXT = {"playing": "", "paused": "paused", "end": "at the end", "newest": "newest"}
MIN_TIMELINE_CELLS, MAX_TIMELINE_CELLS = 8, 200
DATED_SECONDS = 86400.0
"""Seconds from which on the edges are told with their dates."""
MAX_NOTICE_ROWS = 2
"""Of what there is to say."""
MIN_FILE_NAME_CELLS = 60
"""Cells below which there is no room for the name of the file."""


def draw_place(place: PlaybackPosition, width: int, *, glyphs: Glyphs = UNICODE) -> SpanLine:
    """One line of at most `width` cells; the least important parts are left out first."""
    marks = {"playing": glyphs.playing, "paused": glyphs.paused, "end": glyphs.end, "newest": glyphs.newest}
    left: list[Span] = [(f" {marks[place.state]} ", "accent"), (wall_clock_text(place.wall + place.now), "title")]
    if STATE_TEXT[place.state]:
        left.append((f" {STATE_TEXT[place.state]}", "warn" if place.state == "paused" else "dim"))
    right = f" {glyphs.encode('×')}{place.speed:g} "
    date = place.end - place.begin >= DATED_SECONDS
    first, last = (wall_clock_text(place.wall + edge, date=date) for edge in (place.begin, place.end))
    name = f" {clean(os.path.basename(place.path))} " if width >= MIN_FILE_NAME_CELLS else ""
    used = sum(cells(text) for text, _ in left) + cells(right)
    room = width - used - len(first) - len(last) - 4
    if room - cells(name) >= 2 * MIN_TIMELINE_CELLS:
        room -= cells(name)
        right = f"{right}{name}"
    if room < MIN_TIMELINE_CELLS:
        return tuple(cut_spans((*left, (right, "dim")), width))
    bar = draw_bar(place, min(room, MAX_TIMELINE_CELLS), glyphs=glyphs)
    spans = (*left, (f"  {first} ", "dim"), *bar, (f" {last}", "dim"), (right, "dim"))
    return tuple(cut_spans(spans, width))


def draw_bar(place: PlaybackPosition, width: int, *, glyphs: Glyphs = UNICODE) -> SpanLine:
    """The whole recording in `width` cells: before the position, after it, runs, and the position."""
    past, future, run_past, run_future, here = glyphs.timeline
    span = max(place.end - place.begin, 1e-9)

    def cell(moment: float) -> int:
        return min(width - 1, max(0, int((moment - place.begin) / span * width)))

    at = cell(place.now)
    runs = {index for begin, end in place.runs for index in range(cell(begin), cell(end) + 1)}
    spans: list[Span] = []
    for index in range(width):
        if index == at:
            spans.append((here, "title"))
        elif index in runs:
            spans.append((run_past if index < at else run_future, "accent"))
        else:
            spans.append((past, "good") if index < at else (future, "dim"))
    return tuple(spans)


class ReplayLine(LineView):
    """Hidden while the hosts are live."""

    can_focus = False

    def __init__(self, *, place: Callable[[], PlaybackPosition] | None, id: str | None = None) -> None:
        super().__init__(id=id)
        self._place = place

    def on_mount(self) -> None:
        super().on_mount()
        self.display = self._place is not None

    def redraw(self) -> None:
        """Draw the present position."""
        if self._place is None or not self.size.width:
            return
        place, width = self._place(), self.size.width
        lines: list[SpanLine] = [draw_place(place, width, glyphs=self.glyphs)]
        said = self.glyphs.text(place.note)
        lines += [((f" {part}", "warn"),) for part in wrap(said, max(10, width - 2))[:MAX_NOTICE_ROWS]] if said else []
        self.take_rows(len(lines))
        self.show_lines(lines)
