"""A scrolling view of lines that changes only what changed.

Textual's `DataTable` and `Static` render everything again at each update; a live screen changes a
few numbers per second. Here a line is a tuple of spans (text, style name), made only when it comes
into view; lines are compared with what is on the screen, and only the regions of those that differ
are refreshed. Text is drawn as it is, never as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.actions import SkipAction
from textual.dom import DOMNode
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

from nictop.model.text.terminal import fit, width, wrap
from nictop.probe.light_tuples import NamedTuple
from nictop.tui.textual_private import attach_node, refresh_regions, update_scroll_bars
from nictop.tui.widgets.base.line_compositor import runs, use_line_cache
from nictop.tui.widgets.base.with_glyphs import WithGlyphs

Span = tuple[str, str]
"""Text and the name of its style: one of `STYLES`, or "" for the widget's own."""
SpanLine = tuple[Span, ...]


class StyledRow(NamedTuple):
    """What is in a row of the screen."""

    base: str
    """Style of the whole row: one of `LINE_STYLES`, or ""."""
    line: SpanLine


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
    "heat0",
    "heat1",
    "heat2",
    "heat3",
    "heat4",
)
"""Each is the class ``line--NAME`` of the style sheet; colours are given once, in nictop.tcss."""


ELLIPSIS = "…"
BLANKS = frozenset(" ─-")
"""Characters that may be covered: a sentence that ends where the mark begins would say something
else."""

TONES = {"normal": "", "dim": "dim", "good": "good", "warn": "warn", "bad": "bad", "title": "title"}
"""Tone of a fact → its style."""

BLOCK_ELEMENTS = range(0x2580, 0x25A0)
"""Characters of which bars are made (Unicode)."""
UPRIGHT = Style(reverse=False)
LINE_STYLES = ("header", "cursor", "cursor-blurred")
"""Styles of whole lines, with a background of their own."""


def section_line(title: str, cells: int) -> SpanLine:
    """The heading of a section, followed by a line."""
    text = fit(f" ── {title} ", min(cells, width(title) + 5))
    return (text, "accent"), ("─" * max(0, cells - width(text) - 1), "dim")


def wrapped_lines(text: str, cells: int, style: str = "") -> list[SpanLine]:
    """A text in parts of at most `cells` cells, each with a blank before it."""
    return [((f" {part}", style),) for part in wrap(text, cells)]


def span_cells(spans: Iterable[Span]) -> int:
    """Cells that they take on a terminal."""
    return sum(width(text) for text, _ in spans)


def cut_spans(spans: Iterable[Span], cells: int) -> list[Span]:
    """The spans in at most `cells` cells; what does not fit ends with an ellipsis."""
    spans = list(spans)
    found: list[Span] = []
    for number, (text, style) in enumerate(spans):
        is_last = not any(more.strip() for more, _ in spans[number + 1 :])
        if width(text) < cells or (is_last and width(text) == cells):
            shown = text
        else:  # also a text that fills the line, if more follows
            shown = fit(f"{text}…", max(0, cells))
        cells -= width(shown)
        found.append((shown, style))
    return found


def upright_bars(segments: Iterable[Segment]) -> list[Segment]:
    """Of a reversed line: bars and small charts, with the blanks behind them, as in any other line.
    Reversed, a full cell is drawn empty, and traffic that rises seems to fall."""
    found: list[Segment] = []
    is_upright = False
    for text, style, _ in segments:
        has_bar = any(ord(character) in BLOCK_ELEMENTS for character in text)
        is_upright = has_bar or (is_upright and not text.strip())
        own = style or Style()
        found.append(Segment(text, own + UPRIGHT if is_upright else own))
    return found


def with_more(text: str, cells: int) -> str:
    """The first words of a line, and one ellipsis: there is more, in this line or below it."""
    words = wrap(text.strip(), cells - 3)
    first = words[0] if words else ""
    return f" {first} …"


def whole_spans(entries: Iterable[Sequence[Span]], cells: int) -> list[Span]:
    """The spans of the first entries that fit whole into `cells` cells: a part of an entry of a
    legend says nothing."""
    found: list[Span] = []
    for entry in entries:
        cells -= span_cells(entry)
        if cells < 0:
            break
        found += entry
    return found


class PlainScrollBar(ScrollBarRender):
    """A scroll bar of whole blank cells: no block eighths at its ends, which look like data."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * 8
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * 8


WaitingLines = Callable[[int], Sequence[SpanLine]]
"""What is waited for, in lines of so many cells, for a view that has nothing else to show of its
host yet."""


def no_lines(cells: int) -> Sequence[SpanLine]:
    """`WaitingLines` of a view whose host is known."""
    return ()


def _no_line(index: int) -> SpanLine:
    return ()


class LineWidget(WithGlyphs, ScrollView):
    """Lines of spans, with a fixed header (optional), scrolling, and a cursor line (optional)."""

    marks_more = False
    """The last row says that there is more below: for text that page down scrolls."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._header: SpanLine | None = None
        self._count = 0
        self._line_of: Callable[[int], SpanLine] = _no_line
        self._drawn: dict[int, SpanLine] = {}
        self._cursor: int | None = None
        self._styles: dict[str, Style] = {}
        self.row_size: Size | None = None
        """That of `seen_size`, while rows are drawn."""
        self._row_top = 0
        """Index of the first line in view, while rows are drawn."""
        use_line_cache(self)
        self._rows_taken: int | None = None
        self._size_drawn: Size | None = None

    # -------------------------------------------------------------------------------------- content

    @property
    def lines(self) -> tuple[SpanLine, ...]:
        """All lines, in view or not, for tests and for copying."""
        return tuple(self._line(index) for index in range(self._count))

    def show_lines(
        self, lines: Sequence[SpanLine], header: SpanLine | None = None, cursor: int | None = None
    ) -> None:
        """Replace the content by lines that exist already; see `show_drawn`."""
        self.show_drawn(len(lines), lines.__getitem__, header, cursor)

    def show_drawn(
        self,
        count: int,
        line_of: Callable[[int], SpanLine],
        header: SpanLine | None = None,
        cursor: int | None = None,
    ) -> None:
        """Replace the content by `count` lines; refreshes those in view that differ.
        `line_of(index)` is called for lines in view now, and for others when they are scrolled into
        it. `cursor` is the index of the marked line."""
        before, self._drawn, self._line_of = self._drawn, {}, line_of
        if header != self._header:
            self._header = header
            self.refresh()
        if count != self._count:
            self._count = count
            self._fit_virtual_size()
            self.refresh()
        if cursor != self._cursor:
            self._move_cursor(cursor)
        top, size = self.scroll_offset.y, self.seen_size
        for index in range(top, min(count, top + size.height - self._header_height)):
            self._line(index)
        drawn = self._drawn.items()
        changed = [index for index, line in drawn if line != before.get(index)]
        if changed:
            self._refresh_lines(changed, top, size)

    def _move_cursor(self, cursor: int | None) -> None:
        """Draw both lines again, and bring the marked one into view."""
        for marked in (self._cursor, cursor):
            if marked is not None:
                self._refresh_line(marked)
        self._cursor = cursor
        if cursor is not None:
            self._scroll_to_line(cursor)

    def _line(self, index: int) -> SpanLine:
        line = self._drawn.get(index)
        if line is None:
            line = self._drawn[index] = self._line_of(index)
        return line

    def take_rows(self, rows: int | None) -> None:
        """Ask the layout for another height (None: the style sheet's), and only for another one:
        laying the screen out again costs more than drawing it."""
        if rows != self._rows_taken:
            self._rows_taken = rows
            self.styles.height = rows

    @property
    def seen_size(self) -> Size:
        """The size without the scroll bar."""
        width, height = self.size
        if self.show_vertical_scrollbar:
            width -= self.scrollbar_size_vertical
        return Size(width, height)

    @property
    def _header_height(self) -> int:
        return 0 if self._header is None else 1

    def _fit_virtual_size(self) -> None:
        self.virtual_size = Size(
            self.scrollable_content_region.width, self._count + self._header_height
        )
        update_scroll_bars(self, self.virtual_size)

    def _refresh_line(self, index: int) -> None:
        self._refresh_lines((index,), self.scroll_offset.y, self.seen_size)

    def _refresh_lines(self, indices: Iterable[int], first: int, size: Size) -> None:
        """Those of them that are in view, which begins with line `first`."""
        top = self._header_height
        rows = [index + top - first for index in indices]
        seen = [y for y in rows if top <= y < size.height]
        regions = [Region(0, run.start, size.width, len(run)) for run in runs(seen)]
        if regions:
            refresh_regions(self, regions)

    def _scroll_to_line(self, index: int) -> None:
        visible = max(1, self.size.height - self._header_height)
        top = self.scroll_offset.y
        if index < top:
            self.scroll_to(y=index, animate=False)
        elif index >= top + visible:
            self.scroll_to(y=index - visible + 1, animate=False)

    def scroll_rows(self, rows: int) -> None:
        """At once: what a key does before the next refresh is added."""
        self.scroll_relative(y=rows, animate=False, immediate=True)

    def scroll_pages(self, pages: int) -> None:
        self.scroll_rows(pages * max(1, self.size.height - 1))

    def action_scroll_up(self) -> None:
        self._scroll_by_key(-1)

    def action_scroll_down(self) -> None:
        self._scroll_by_key(1)

    def action_page_up(self) -> None:
        self._scroll_by_key(-max(1, self.size.height - 1))

    def action_page_down(self) -> None:
        self._scroll_by_key(max(1, self.size.height - 1))

    def _scroll_by_key(self, rows: int) -> None:
        """Of the keys of Textual, which would scroll after the next refresh."""
        if not self.allow_vertical_scroll:
            raise SkipAction
        self.scroll_rows(rows)

    def line_at(self, y: int) -> int | None:
        """Index of the line that is drawn at row `y` of the widget; None for the header, the frame
        and below the end."""
        if not self._header_height <= y < self.size.height:
            return None
        index = y - self._header_height + self.scroll_offset.y
        if not 0 <= index < self._count:
            return None
        return index

    # -------------------------------------------------------------------------------------- drawing

    @property
    def more_key(self) -> str:
        """Label of the keys that show what is below the last row."""
        return self.key_label("page-down")

    def render_lines(self, crop: Region) -> list[Strip]:
        """Size and scroll offset are looked up once for all of them."""
        self.row_size, self._row_top = self.seen_size, self.scroll_offset.y
        try:
            return super().render_lines(crop)
        finally:
            self.row_size = None

    def render_line(self, y: int) -> Strip:
        size = self.row_size or self.seen_size
        row = self._row(y)
        strip = self._strip(row, size.width)
        if self._has_more_mark(y, size):
            return self._with_more_mark(strip).crop(0, size.width)
        return strip

    def plain_row(self, y: int) -> StyledRow | None:
        """The row at `y`, if it is drawn as its spans are."""
        size = self.row_size or self.seen_size
        row = self._row(y)
        if self._style(row.base).reverse or self._has_more_mark(y, size):
            return None
        return row

    def _has_more_mark(self, y: int, size: Size) -> bool:
        if not self.marks_more or y != size.height - 1:
            return False
        return self.scroll_offset.y + size.height - self._header_height < self._count

    def _with_more_mark(self, strip: Strip) -> Strip:
        """The last row, with the key that shows what is below it at its end."""
        hint = self.glyphs.encode(f" {self.glyphs.descending} {self.more_key} ")
        room = max(0, self.size.width - width(hint))
        style = self._style("") + self._style("dim")
        covered = strip.crop(room, self.size.width).text
        if set(covered) <= BLANKS:
            return Strip.join([strip.crop(0, room), Strip([Segment(hint, style)])])
        cut = self.glyphs.encode(ELLIPSIS)
        return Strip.join(
            [strip.crop(0, max(0, room - width(cut))), Strip([Segment(cut + hint, style)])]
        )

    def _row(self, y: int) -> StyledRow:
        if self._header is not None and y == 0:
            return StyledRow("header", self._header)
        top = self.scroll_offset.y if self.row_size is None else self._row_top
        index = y - self._header_height + top
        if not 0 <= index < self._count:
            return StyledRow("", ())
        line = self._line(index)
        if index != self._cursor:
            return StyledRow("", line)
        if not self.has_focus:
            return StyledRow("cursor-blurred", line)
        return StyledRow("cursor", self._with_cursor(line))

    def _with_cursor(self, line: SpanLine) -> SpanLine:
        """The mark replaces the blank that a line begins with: a terminal without colours shows the
        cursor too."""
        if not line or not line[0][0].startswith(" "):
            return line
        (first, style), *rest = line
        return ((self.glyphs.cursor + first[1:], style), *rest)

    def _strip(self, row: StyledRow, cells: int) -> Strip:
        spans = self.joined_spans(row.line)
        segments = [Segment(text, self.style_on(row.base, name)) for text, name in spans]
        style = self._style(row.base)
        if style.reverse:
            segments = upright_bars(segments)
        return Strip(segments).adjust_cell_length(cells, style)

    def joined_spans(self, line: SpanLine) -> list[Span]:
        """The spans of a line in the character set of the terminal, neighbours of one style as
        one."""
        if self.glyphs.is_ascii:
            line = tuple([(self.glyphs.encode(text), name) for text, name in line])
        joined: list[Span] = []
        last = None
        for span in line:
            if span[1] == last:
                joined[-1] = (joined[-1][0] + span[0], span[1])
            else:
                joined.append(span)
                last = span[1]
        return joined

    def style_on(self, base: str, name: str) -> Style:
        """Of a span in a row."""
        style = self._style(base)
        if name:
            style += self._style(name)
        return style

    def _style(self, name: str) -> Style:
        """That of a class of the style sheet, or ("") of the widget itself; looked up once, as a
        look-up walks up the whole tree."""
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = self._look_up(name) if name else self.rich_style
        return style

    def _look_up(self, name: str) -> Style:
        """As Textual does it for each of COMPONENT_CLASSES, which it does again for all of them,
        drawn or not, whenever the focus moves or a class changes: that was a third of the CPU time
        of a key press."""
        if name not in STYLES and name not in LINE_STYLES:
            raise KeyError(name)
        node = DOMNode(classes=f"line--{name}")
        attach_node(node, self)
        self.app.stylesheet.apply(node)
        style = node.rich_style
        if name in LINE_STYLES:
            return style  # a span keeps the background of its line
        return Style(color=style.color, bold=style.bold, dim=style.dim, reverse=style.reverse)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        before, self._styles = self._styles, {}
        if any(self._style(name) != style for name, style in before.items()):
            self.refresh()

    def on_mount(self) -> None:
        self.vertical_scrollbar.renderer = PlainScrollBar  # type: ignore[misc]  # of this bar alone

    def draw_for_size(self) -> None:
        """Draw what depends on the number of cells: it is another one. A screen of `WholeFrames`
        calls it before it draws a frame."""
        self._size_drawn = self.size
        self._fit_virtual_size()
        if self._cursor is not None:
            self._scroll_to_line(self._cursor)

    def on_resize(self) -> None:
        if self.size != self._size_drawn:  # on another screen
            self.draw_for_size()

    @property
    def is_focused(self) -> bool:
        """It has the focus now; Textual's `has_focus` says so only after `on_focus` and
        `on_blur`."""
        return self.is_attached and self.screen.focused is self

    def on_focus(self) -> None:
        if self._cursor is not None:
            self._refresh_line(self._cursor)

    def on_blur(self) -> None:
        if self._cursor is not None:
            self._refresh_line(self._cursor)
