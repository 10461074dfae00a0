"""NO_COLOR: shades of grey, and with a theme of the terminal's own colours none at all.

Textual makes a shade of every colour. Those of the terminal have no value that is known here: they
all became black, text and ground alike, and nothing could be read.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter, Monochrome


class WithoutColours(Monochrome):
    """`uses_terminal_colours`: whether the theme that is shown now does."""

    def __init__(self, uses_terminal_colours: Callable[[], bool]) -> None:
        super().__init__()
        self._uses_terminal_colours = uses_terminal_colours

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if not self._uses_terminal_colours():
            return super().apply(segments, background)
        return list(map(_without_colour, segments))


def _without_colour(segment: Segment) -> Segment:
    if not segment.style:
        return Segment(segment.text, segment.style)
    return Segment(segment.text, segment.style.without_color)


def without_black(
    filters: list[LineFilter], uses_terminal_colours: Callable[[], bool]
) -> list[LineFilter]:
    """The filters of an application with this one in place of Textual's, which is there only with
    NO_COLOR."""
    own = WithoutColours(uses_terminal_colours)
    return [own if isinstance(line_filter, Monochrome) else line_filter for line_filter in filters]
