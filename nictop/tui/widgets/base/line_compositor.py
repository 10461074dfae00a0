"""Draws the lines of a screen that have changed, and no others.

Textual draws again, in a rectangle around all that has changed, every line of every widget, those
behind others too, and then takes the changed lines from them; it looks for frames, padding and
colour filters for each line. That was a third of the processor time of a table of which some lines
change every second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor
from textual._styles_cache import StylesCache
from textual.geometry import Region, Size
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.color import Color
    from textual.filter import LineFilter
    from textual.widget import Widget

Gap = tuple[int, int]
"""A part of a line that is to be drawn: its first column, and the one behind it."""
Gaps = dict[int, list[Gap]]
"""Line → what of it is to be drawn; no line without any."""
Parts = dict[int, dict[int, tuple[int, Strip]]]
"""Line → first column of a part → the column behind it, and what is drawn there."""


class DrawsLines(Protocol):
    """What `LineCache` needs of a widget."""

    row_size: Size | None
    """Of what is inside its frame, beside its scroll bar, while rows are drawn."""

    def render_line(self, y: int) -> Strip:
        """As wide as `row_size`."""


class LineCache(StylesCache):
    """Of a widget that has no frame just now: its lines are drawn as they are."""

    def __init__(self) -> None:
        super().__init__()
        self._filtered_by: tuple[object, ...] = ()
        """Filters, and the colour of the ground, that `_styles` and `_drawn` are made with."""
        self._styles: dict[Style, Style] = {}
        """Style → that after the filters."""
        self._drawn: dict[int, Strip] = {}
        """Line → what is drawn; without those of `_dirty_lines`."""

    def clear(self) -> None:
        super().clear()
        self._drawn = {}

    def render_widget(self, widget: Widget, crop: Region) -> list[Strip]:
        size = cast("DrawsLines", widget).row_size
        if size is None or not _is_plain(widget):
            self._drawn = {}
            return super().render_widget(widget, crop)
        filters = [one for one in widget.get_line_filters() if one.enabled]
        background = widget.background_colors[1]
        filtered_by = (size.width, background, *filters)
        if filtered_by != self._filtered_by:
            self._filtered_by, self._styles, self._drawn = filtered_by, {}, {}
        for y in self._dirty_lines.intersection(crop.line_range):
            self._drawn.pop(y, None)
        self._dirty_lines.difference_update(crop.line_range)
        strips = []
        for y in crop.line_range:
            strip = self._drawn.get(y)
            if strip is None:
                drawn = widget.render_line(y)
                strip = self._drawn[y] = self._filter(drawn, size.width, filters, background)
            strips.append(strip)
        if crop.column_span != (0, size.width):
            return [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def _filter(
        self, strip: Strip, cells: int, filters: Sequence[LineFilter], background: Color
    ) -> Strip:
        """Each filter of Textual makes one style of another."""
        segments = []
        for text, style, _ in strip:
            if style is None:
                segments.append(Segment(text))
                continue
            filtered = self._styles.get(style)
            if filtered is None:
                filtered = self._styles[style] = _filtered(style, filters, background)
            segments.append(Segment(text, filtered))
        return Strip(segments, cells)


def use_line_cache(widget: Widget) -> None:
    """The widget `DrawsLines`."""
    widget._styles_cache = LineCache()


def _filtered(style: Style, filters: Sequence[LineFilter], background: Color) -> Style:
    segments = [Segment(" ", style)]
    for one in filters:
        segments = one.apply(segments, background)
    return segments[0].style or Style()


def _is_plain(widget: Widget) -> bool:
    """Nothing is drawn around its lines or over them."""
    styles = widget.styles
    if styles.gutter or styles.tint.a or styles.text_opacity != 1.0 or widget.opacity != 1.0:
        return False
    if any(edge for edge, _ in styles.outline):
        return False
    return styles.hatch in (None, "none")


class LineCompositor(Compositor):
    """Makes the same frames as its base class."""

    def render_partial_update(self) -> ChopsUpdate | None:
        regions = self._dirty_regions.copy()
        self._dirty_regions.clear()
        if not regions:
            return None
        spans = list(self._regions_to_spans(regions))
        gaps: Gaps = {}
        for y, begin, end in spans:
            gaps.setdefault(y, []).append((begin, end))
        return _update(spans, self._draw(gaps), self.size.height)

    def _draw(self, gaps: Gaps) -> Parts:
        """From the widget in front to the hindmost, each where nothing is before it."""
        parts: Parts = {y: {} for y in gaps}
        top, bottom = min(gaps), max(gaps) + 1
        for widget, (region, clip) in self.visible_widgets.items():
            shown = region.intersection(clip)
            rows = range(max(top, shown.y), min(bottom, shown.bottom))
            own = [y for y in rows if y in gaps and _overlaps(gaps[y], shown)]
            for run in _runs(own):
                crop = Region(shown.x - region.x, run.start - region.y, shown.width, len(run))
                for y, strip in zip(run, widget.render_lines(crop), strict=False):
                    _fill(gaps, parts[y], y, strip, shown)
            if not gaps:
                break
        return parts


def _fill(
    gaps: Gaps, parts: dict[int, tuple[int, Strip]], y: int, strip: Strip, shown: Region
) -> None:
    """Take from a line of a widget, which is in the columns of `shown`, what is to be drawn."""
    left, right = shown.x, shown.right
    rest: list[Gap] = []
    for begin, end in gaps[y]:
        low, high = max(begin, left), min(end, right)
        if low >= high:
            rest.append((begin, end))
            continue
        is_whole = low == left and high - left == strip.cell_length
        parts[low] = high, strip if is_whole else strip.crop(low - left, high - left)
        if begin < low:
            rest.append((begin, low))
        if high < end:
            rest.append((high, end))
    if rest:
        gaps[y] = rest
    else:
        del gaps[y]


def _update(spans: list[tuple[int, int, int]], parts: Parts, height: int) -> ChopsUpdate:
    """As Textual writes it to the terminal."""
    strips: list[dict[int, Strip]] = [{} for _ in range(height)]
    ends: list[list[int]] = [[] for _ in range(height)]
    for y, drawn in parts.items():
        for begin in sorted(drawn):
            end, strip = drawn[begin]
            strips[y][begin] = strip
            ends[y].append(end)
    return ChopsUpdate(cast("Sequence[dict[int, Strip | None]]", strips), spans, ends)


def _overlaps(gaps: Sequence[Gap], shown: Region) -> bool:
    left, right = shown.x, shown.right
    return any(begin < right and end > left for begin, end in gaps)


def _runs(numbers: Sequence[int]) -> Iterator[range]:
    """``2, 3, 4, 7``: 2 to 4, 7."""
    begin = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            yield range(numbers[begin], numbers[index - 1] + 1)
            begin = index
