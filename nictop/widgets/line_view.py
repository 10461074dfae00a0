"""A scrolling view of lines that changes only what changed.

Textual's `DataTable` and `Static` render everything again at each update; a live screen changes a few numbers per
second. Here a line is a tuple of spans (text, style name); `show_lines` compares them with what is on the screen and
refreshes only the regions of lines that differ. Text is drawn as it is, never as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

from nictop.model.wording import ascii_only as ascii_text

Span = tuple[str, str]
"""Text and the name of its style: one of `STYLES`, or "" for the widget's own."""
SpanLine = tuple[Span, ...]

STYLES = (
    "dim",
    "good",
    "warn",
    "bad",
    "accent",
    "title",
    "in",
    "out",
    "user",
    "system",
    "irq",
    "softirq",
    "steal",
    "guest",
)
"""Each has a component class ``line--NAME``; colours are given once, in nictop.tcss."""


LINE_STYLES = ("header", "cursor", "cursor-blurred")
"""Styles of whole lines, with a background of their own."""


class PlainScrollBar(ScrollBarRender):
    """A scroll bar of whole cells: no block eighths at its ends."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


class LineView(ScrollView):
    """Lines of spans, with a fixed header (optional), scrolling, and a cursor line (optional)."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"line--{name}" for name in (*LINE_STYLES, *STYLES)),
    }

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ascii_only = ascii_only
        self._header: SpanLine | None = None
        self._lines: tuple[SpanLine, ...] = ()
        self._cursor: int | None = None
        self._styles: dict[str, Style] = {}

    # ------------------------------------------------------------------------------------------------ content

    @property
    def lines(self) -> tuple[SpanLine, ...]:
        """What is shown now, for tests and for copying."""
        return self._lines

    def show_lines(self, lines: Sequence[SpanLine], header: SpanLine | None = None, cursor: int | None = None) -> None:
        """Replace the content; refreshes the lines that differ. `cursor` is the index of the marked line."""
        before, after = self._lines, tuple(lines)
        if header != self._header:
            self._header = header
            self.refresh()
        self._lines = after
        head = self._header_height
        if len(before) != len(after):
            self._fit_virtual_size()
            self.refresh()
        else:
            for index, (old, new) in enumerate(zip(before, after, strict=True)):
                if old != new:
                    self._refresh_line(index)
        if cursor != self._cursor:
            for marked in (self._cursor, cursor):
                if marked is not None:
                    self._refresh_line(marked)
            self._cursor = cursor
            if cursor is not None:
                self._scroll_to_line(cursor, head)

    @property
    def _header_height(self) -> int:
        return 0 if self._header is None else 1

    def _fit_virtual_size(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._lines) + self._header_height)

    def _refresh_line(self, index: int) -> None:
        y = index + self._header_height - self.scroll_offset.y
        if self._header_height <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def _scroll_to_line(self, index: int, head: int) -> None:
        visible = max(1, self.size.height - head)
        top = self.scroll_offset.y
        if index < top:
            self.scroll_to(y=index, animate=False)
        elif index >= top + visible:
            self.scroll_to(y=index - visible + 1, animate=False)

    def line_at(self, y: int) -> int | None:
        """Index of the line that is drawn at row `y` of the widget; None for the header and below the end."""
        index = y - self._header_height + self.scroll_offset.y
        return index if y >= self._header_height and 0 <= index < len(self._lines) else None

    # ------------------------------------------------------------------------------------------------ drawing

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self._header is not None and y == 0:
            return self._strip(self._header, width, self._style("header"))
        index = y - self._header_height + self.scroll_offset.y
        if not 0 <= index < len(self._lines):
            return Strip.blank(width, self.rich_style)
        if index == self._cursor:
            return self._strip(self._lines[index], width, self._style("cursor" if self.has_focus else "cursor-blurred"))
        return self._strip(self._lines[index], width, self.rich_style)

    def _strip(self, line: SpanLine, width: int, base: Style) -> Strip:
        if self.ascii_only:
            line = tuple((ascii_text(text), name) for text, name in line)
        segments = [Segment(text, base + self._style(name) if name else base) for text, name in line]
        used = sum(cell_len(text) for text, _ in line)
        return Strip(segments, used).adjust_cell_length(width, base)

    def _style(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self.get_component_rich_style(f"line--{name}")
            if name not in LINE_STYLES:  # a span keeps the background of its line
                style = Style(color=style.color, bold=style.bold, dim=style.dim, reverse=style.reverse)
            self._styles[name] = style
        return style

    def notify_style_update(self) -> None:
        self._styles.clear()
        super().notify_style_update()

    def on_mount(self) -> None:
        if self.ascii_only:
            self.vertical_scrollbar.renderer = PlainScrollBar  # type: ignore[misc]  # of this bar alone

    def on_resize(self) -> None:
        self._fit_virtual_size()

    def on_focus(self) -> None:
        if self._cursor is not None:
            self._refresh_line(self._cursor)

    def on_blur(self) -> None:
        if self._cursor is not None:
            self._refresh_line(self._cursor)
