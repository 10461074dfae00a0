"""The first line of every screen: its views, each with the digit that is its key, and the number of what is in it.

nictop │1 Devices│2 Queues 3 CPUs 4 Findings ✖1 ▲4 5 Hosts ●2 6 Traffic ● 7 Results
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from textual import events
from textual.message import Message

from nictop.model.facts import width
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.tui.keys import TABS, Tab
from nictop.tui.widgets.base.line_view import LineView, Span, SpanLine, cut_spans

PROGRAM = " nictop "


@dataclass(frozen=True)
class DrawnTabs:
    """The line, and for each tab the column behind it."""

    line: SpanLine
    ends: Sequence[int]

    def at(self, x: int) -> str | None:
        """Name of the tab in a column; that before the first one is None."""
        if not self.ends or x < self.ends[0]:
            return None
        return next((tab.name for tab, end in zip(TABS, self.ends[1:], strict=True) if x < end), None)


def draw_tabs(active: str, badges: Mapping[str, Sequence[Span]], cells: int, *, glyphs: Glyphs = UNICODE) -> DrawnTabs:
    """At most `cells` cells: names become short, then only the active one has its name, and at last there are only
    digits. `badges`: name of a tab → what is behind its name: marks, with a number behind each."""
    forms: tuple[tuple[str, Callable[[Tab], str], bool], ...] = (
        (PROGRAM, lambda tab: tab.label, True),
        (" ", lambda tab: tab.label, True),
        (" ", lambda tab: tab.short, True),
        (" ", lambda tab: tab.label if tab.name == active else "", True),
        (" ", lambda tab: tab.label if tab.name == active else "", False),
        ("", lambda tab: "", False),
    )
    spans: list[Span] = []
    sizes: list[int] = []
    for lead, name_of, has_badges in forms:
        spans, sizes = [(lead, "accent")], [width(lead)]
        for number, tab in enumerate(TABS, 1):
            tab_badges = badges.get(tab.name, ()) if has_badges else ()
            words = f"{number} {name_of(tab)}".rstrip()
            here = tab.name == active
            edge = glyphs.axis if here else ""
            parts = [(edge, "title"), (words, "title" if here else "")]
            parts += [(f" {glyphs.encode(badge)}", style) for badge, style in tab_badges]
            parts += [(edge or " ", "title")]
            spans += parts
            sizes.append(sum(width(text) for text, _ in parts))
        if sum(sizes) - 1 <= cells:
            break
    return DrawnTabs(tuple(cut_spans(spans, cells)), tuple(accumulate(sizes)))


class TabLine(LineView):
    """`draw_tabs`. Posts `Clicked`."""

    can_focus = False

    class Clicked(Message):
        """A tab was clicked."""

        def __init__(self, tab: str) -> None:
            super().__init__()
            self.tab = tab

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.active = ""
        self._badges: Mapping[str, Sequence[Span]] = {}
        self._drawn_tabs: DrawnTabs | None = None

    def show(self, active: str, badges: Mapping[str, Sequence[Span]]) -> None:
        if (active, badges) != (self.active, self._badges):
            self.active, self._badges = active, badges
            self._draw()

    def draw_for_size(self) -> None:
        super().draw_for_size()
        self._draw()

    def _draw(self) -> None:
        self._drawn_tabs = draw_tabs(self.active, self._badges, self.size.width, glyphs=self.glyphs)
        self.show_lines((self._drawn_tabs.line,))

    def on_click(self, event: events.Click) -> None:
        name = self._drawn_tabs.at(event.get_content_offset_capture(self).x) if self._drawn_tabs is not None else None
        if name is not None:
            self.post_message(self.Clicked(name))
