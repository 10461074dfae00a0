"""Draws the lines of a screen that have changed, and no others.

Textual draws again, in a rectangle around all that has changed, every line of every widget, those
behind others too, and then takes the changed lines from them; it looks for frames, padding and
colour filters for each line. That was a third of the processor time of a table of which some lines
change every second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate
from textual._styles_cache import StylesCache
from textual.geometry import Region, Size
from textual.strip import Strip

if TYPE_CHECKING:
    from rich.console import Console
    from textual.color import Color
    from textual.filter import LineFilter
    from textual.widget import Widget

new_tuple = tuple.__new__
"""Makes a `Segment` in half the time of its own `__new__`, which is one of Python."""

Gap = tuple[int, int]
"""A part of a line that is to be drawn: its first column, and the one behind it."""
Gaps = dict[int, list[Gap]]
"""Line → what of it is to be drawn; no line without any."""
Parts = dict[int, dict[int, tuple[int, Strip]]]
"""Line → first column of a part → the column behind it, and what is drawn there."""


class DrawnRow(Protocol):
    """What is in a row of the screen."""

    @property
    def base(self) -> str:
        """Name of the style of the whole row."""

    @property
    def line(self) -> tuple[tuple[str, str], ...]:
        """Texts with the names of their styles."""


class DrawsLines(Protocol):
    """What `LineCache` needs of a widget."""

    row_size: Size | None
    """Of what is inside its frame, beside its scroll bar, while rows are drawn."""

    def plain_row(self, y: int) -> DrawnRow | None:
        """None: only `render_line` draws this row."""

    def joined_spans(self, line: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
        """As few as there can be."""

    def style_on(self, base: str, name: str) -> Style:
        """The style `name` in a row of the style `base`."""

    def render_line(self, y: int) -> Strip:
        """As wide as `row_size`."""


class LineCache(StylesCache):
    """Of a widget that has no frame just now: its lines are drawn as they are."""

    def __init__(self) -> None:
        super().__init__()
        self._ground: Color | None = None
        """Behind its lines; None: it is not known whether something is drawn around them."""
        self._is_framed = False
        self._filtered_by: tuple[object, ...] = ()
        """Width, ground and filters that `_styles` and `_drawn` are made with."""
        self._styles: dict[tuple[str, str], Style] = {}
        """Styles of a row and of a span in it → that after the filters."""
        self._drawn: dict[int, Strip] = {}
        """Row → what is drawn; without those of `_dirty_lines`."""

    def clear(self) -> None:
        """Textual calls it when a style is another one."""
        super().clear()
        self._ground, self._filtered_by = None, ()

    def render_widget(self, widget: Widget, crop: Region) -> list[Strip]:
        lines = cast("DrawsLines", widget)
        if self._ground is None:
            self._ground, self._is_framed = widget.background_colors[1], not _is_plain(widget)
        size = lines.row_size
        if size is None or self._is_framed:
            return super().render_widget(widget, crop)
        filters = widget.get_line_filters()
        filtered_by = (size.width, self._ground, *filters)
        if filtered_by != self._filtered_by:
            self._filtered_by, self._styles, self._drawn = filtered_by, {}, {}
        for y in self._dirty_lines.intersection(crop.line_range):
            self._drawn.pop(y, None)
        self._dirty_lines.difference_update(crop.line_range)
        strips = []
        for y in crop.line_range:
            strip = self._drawn.get(y)
            if strip is None:
                strip = self._drawn[y] = self._row(lines, y, size.width, filters)
            strips.append(strip)
        if crop.x or crop.width < size.width:
            return [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def _row(self, widget: DrawsLines, y: int, cells: int, filters: Sequence[LineFilter]) -> Strip:
        row = widget.plain_row(y)
        if row is None:
            strip = widget.render_line(y)
            for one in filters:
                strip = strip.apply_filter(one, cast("Color", self._ground))
            return strip
        base, styles = row.base, self._styles
        segments = []
        used = 0
        for text, name in widget.joined_spans(row.line):
            used += len(text) if text.isascii() and text.isprintable() else cell_len(text)
            style = styles.get((base, name))
            if style is None:
                style = self._style(widget, base, name, filters)
            segments.append(new_tuple(Segment, (text, style, None)))
        if used < cells:
            blanks = " " * (cells - used)
            segments.append(Segment(blanks, self._style(widget, base, "", filters)))
        strip = Strip(segments, max(used, cells))
        return strip.crop(0, cells) if used > cells else strip

    def _style(
        self, widget: DrawsLines, base: str, name: str, filters: Sequence[LineFilter]
    ) -> Style:
        """Each filter of Textual makes one style of another."""
        style = self._styles.get((base, name))
        if style is None:
            segments = [Segment(" ", widget.style_on(base, name))]
            for one in filters:
                segments = one.apply(segments, cast("Color", self._ground))
            style = self._styles[base, name] = segments[0].style or Style()
        return style


def use_line_cache(widget: Widget) -> None:
    """The widget `DrawsLines`."""
    widget._styles_cache = LineCache()


def _is_plain(widget: Widget) -> bool:
    """Nothing is drawn around its lines or over them."""
    styles = widget.styles
    if styles.gutter or styles.tint.a or styles.text_opacity != 1.0 or widget.opacity != 1.0:
        return False
    if any(edge for edge, _ in styles.outline):
        return False
    return styles.hatch in (None, "none")


class LineUpdate(CompositorUpdate):
    """Parts of lines."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def render_segments(self, console: Console) -> str:
        """For the terminal: CUP (ECMA-48) before each part."""
        found = []
        for y, parts in self._parts.items():
            for x, (_, strip) in parts.items():
                found.append(f"\x1b[{y + 1};{x + 1}H{strip.render(console)}")
        return "".join(found)


class LineCompositor(Compositor):
    """Makes the same frames as its base class."""

    def render_partial_update(self) -> ChopsUpdate | None:
        regions = self._dirty_regions.copy()
        self._dirty_regions.clear()
        if not regions:
            return None
        gaps: Gaps = {}
        for y, begin, end in self._regions_to_spans(regions):
            gaps.setdefault(y, []).append((begin, end))
        return cast("ChopsUpdate", LineUpdate(self._draw(gaps)))

    def _draw(self, gaps: Gaps) -> Parts:
        """From the widget in front to the hindmost, each where nothing is before it."""
        parts: Parts = {y: {} for y in gaps}
        top, bottom = min(gaps), max(gaps) + 1
        for widget, (region, clip) in self.visible_widgets.items():
            shown = region.intersection(clip)
            rows = range(max(top, shown.y), min(bottom, shown.bottom))
            left, right = shown.x, shown.right
            own = [y for y in rows if y in gaps and _overlaps(gaps[y], left, right)]
            for run in runs(own):
                crop = Region(left - region.x, run.start - region.y, shown.width, len(run))
                for y, strip in zip(run, widget.render_lines(crop), strict=False):
                    _fill(gaps, parts[y], y, strip, left, right)
            if not gaps:
                break
        return parts


def _fill(  # noqa: PLR0917
    gaps: Gaps, parts: dict[int, tuple[int, Strip]], y: int, strip: Strip, left: int, right: int
) -> None:
    """Take from a line of a widget, which is in these columns, what is to be drawn."""
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


def _overlaps(gaps: Sequence[Gap], left: int, right: int) -> bool:
    for begin, end in gaps:
        if begin < right and end > left:
            return True
    return False


def runs(numbers: Sequence[int]) -> Iterator[range]:
    """``2, 3, 4, 7``: 2 to 4, 7."""
    begin = 0
    for index in range(1, len(numbers) + 1):
        if index == len(numbers) or numbers[index] != numbers[index - 1] + 1:
            yield range(numbers[begin], numbers[index - 1] + 1)
            begin = index
