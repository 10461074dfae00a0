"""The layers of the chosen interface, of which one can be chosen:

slot ✓ 8 GT/s ×8 │ driver ✓ ixgbevf │ name ✓ │ link ✓ 10G │ port ? no LLDP
▸profile ▲ Wired connection 1 │ address – │ gateway – │ peers – │ load ✓
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from nictop.model.chain import Step
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_tuples import NamedTuple
from nictop.report.chain import ChainPart, chain_lines, separator_of
from nictop.rules.chain import ChainStep, first_of_interest
from nictop.tui.keys import CHAIN_KEYS
from nictop.tui.widgets.base.line_widget import TONES, LineWidget, Span, SpanLine, span_cells


def draw_chain(
    layers: Sequence[ChainStep], cells: int, chosen: int | None = None, *, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """The layers in at most two lines. `chosen`: index of the one that has the cursor."""
    lines: list[SpanLine] = []
    index = 0
    for parts in chain_lines(layers, cells - 1, glyphs=glyphs):
        spans: list[Span] = []
        for number, part in enumerate(parts):
            separator = separator_of(glyphs) if number else " "
            spans += _part_spans(part, separator, glyphs, has_cursor=index == chosen)
            index += 1
        lines.append(tuple(spans))
    return lines


def _part_spans(
    part: ChainPart, separator: str, glyphs: Glyphs, *, has_cursor: bool
) -> Iterator[Span]:
    """The cursor takes the place of the blank before the name."""
    lead = separator[:-1]
    yield (lead, "dim")
    yield (glyphs.cursor, "accent") if has_cursor else (separator[-1], "dim")
    yield (f"{part.name} ", "title" if has_cursor else "dim")
    yield (part.mark, TONES[part.tone])
    if part.text:
        yield (f" {part.text}", "title" if has_cursor else "")


class _Place(NamedTuple):
    """Where a layer is drawn."""

    line: int
    begin: int
    end: int
    """Cells; the last one is not of it."""


def _places(
    layers: Sequence[ChainStep], cells: int, *, glyphs: Glyphs = UNICODE
) -> Iterator[_Place]:
    """Of each layer."""
    for number, parts in enumerate(chain_lines(layers, cells - 1, glyphs=glyphs)):
        begin = 1
        for part in parts:
            end = begin + span_cells([(str(part), "")])
            yield _Place(number, begin, end)
            begin = end + span_cells([(separator_of(glyphs), "")])


class ChainView(LineWidget):
    """Posts `Opened`, `ScrollRequested` and `Moved`. It has as many rows as the layers take, and
    none where there is no room."""

    BINDINGS: ClassVar[list[BindingType]] = CHAIN_KEYS

    class Opened(Message):
        """The facts of a layer are wanted."""

        def __init__(self, step: Step) -> None:
            super().__init__()
            self.step = step

    class ScrollRequested(Message):
        """The facts below it are to be scrolled."""

        def __init__(self, *, lines: int = 0, pages: int = 0) -> None:
            super().__init__()
            self.lines, self.pages = lines, pages

    class Moved(Message):
        """It has the focus now, or no longer: the keys that scroll are those of the facts."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.steps: Sequence[ChainStep] = ()
        """None: the chosen row has no chain."""
        self._cells = 0
        self._row_key = ""
        """Key of the row that they are of."""
        self._known: tuple[Sequence[ChainStep], tuple[int, int | None], list[SpanLine]] | None
        self._known = None
        """Layers, width and cursor of the last lines, and those."""
        self._chosen: Step | None = None
        """By the user; None: the first one of interest."""
        self.display = False

    @property
    def rows(self) -> int:
        return len(self._lines())

    def show(self, row: str, layers: Sequence[ChainStep], cells: int, room: int) -> bool:
        """Draw the layers of the row with this key, if there are rows for all of them. False: there
        are not, or it has none."""
        if row != self._row_key:
            self._row_key, self._chosen = row, None
        self.steps, self._cells = layers, cells
        lines = self._lines()
        if not lines or len(lines) > room:
            self.hide()
            return False
        self.display = True
        self.take_rows(len(lines))
        self.show_lines(lines)
        return True

    def hide(self) -> None:
        self.display = False

    @property
    def chosen(self) -> int:
        """Index of the layer that has the cursor."""
        steps = [layer.step for layer in self.steps]
        if self._chosen in steps:
            return steps.index(self._chosen)
        return first_of_interest(self.steps)

    def _lines(self) -> list[SpanLine]:
        """Made anew only for other layers, another width or another cursor: which texts have room
        is tried out."""
        chosen = self.chosen if self.steps and self.is_focused else None
        known = self._known
        made_of = (self._cells, chosen)
        if known is None or known[0] is not self.steps or known[1] != made_of:
            lines = draw_chain(self.steps, *made_of, glyphs=self.glyphs)
            known = self._known = (self.steps, made_of, lines)
        return known[2]

    def choose(self, index: int) -> None:
        if self.steps:
            self._chosen = self.steps[index % len(self.steps)].step
            self.show_lines(self._lines())

    def on_focus(self) -> None:
        super().on_focus()
        self.show_lines(self._lines())
        self.post_message(self.Moved())

    def on_blur(self) -> None:
        super().on_blur()
        self.show_lines(self._lines())
        self.post_message(self.Moved())

    def action_layer(self, step: int) -> None:
        self.choose(self.chosen + step)

    def action_scroll_facts(self, lines: int) -> None:
        self.post_message(self.ScrollRequested(lines=lines))

    def action_page_facts(self, pages: int) -> None:
        self.post_message(self.ScrollRequested(pages=pages))

    def action_open_layer(self) -> None:
        if self.steps:
            self.post_message(self.Opened(self.steps[self.chosen].step))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset_capture(self)
        places = _places(self.steps, self._cells, glyphs=self.glyphs)
        for index, place in enumerate(places):
            if place.line == offset.y and place.begin <= offset.x < place.end:
                self.choose(index)
                self.action_open_layer()
