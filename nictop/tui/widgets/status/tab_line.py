"""The first line of every screen: its views, each with the digit that is its key, and the number of
what is in it.

nictop │1 Devices│2 Queues 3 CPUs 4 Findings ✖1 ▲4 5 Hosts ●2 6 Traffic ● 7 Results
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from textual import events
from textual.message import Message

from nictop.model.facts import width
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import dataclass
from nictop.tui.keys import TABS, KeyLabels, Tab, default_label
from nictop.tui.widgets.base.line_widget import LineWidget, Span, SpanLine, cut_spans, span_cells

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
        for tab, end in zip(TABS, self.ends[1:], strict=True):
            if x < end:
                return tab.name
        return None


def draw_tabs(
    active: str,
    badges: Mapping[str, Sequence[Span]],
    cells: int,
    *,
    labels: KeyLabels = default_label,
    glyphs: Glyphs = UNICODE,
) -> DrawnTabs:
    """At most `cells` cells: names become short, then only the active one has its name, and at last
    there are only the keys. `badges`: name of a tab → what is behind its name: marks, with a number
    behind each."""

    def active_label(tab: Tab) -> str:
        return tab.label if tab.name == active else ""

    forms: tuple[tuple[str, Callable[[Tab], str], bool], ...] = (
        (PROGRAM, lambda tab: tab.label, True),
        (" ", lambda tab: tab.label, True),
        (" ", lambda tab: tab.short, True),
        (" ", active_label, True),
        (" ", active_label, False),
        ("", lambda tab: "", False),
    )
    spans: list[Span] = []
    sizes: list[int] = []
    for lead, name_of, has_badges in forms:
        spans, sizes = [(lead, "accent")], [width(lead)]
        for tab in TABS:
            words = f"{labels(tab.name)} {name_of(tab)}".rstrip()
            shown_badges = badges.get(tab.name, ()) if has_badges else ()
            parts = _tab_spans(words, shown_badges, glyphs, is_active=tab.name == active)
            spans += parts
            sizes.append(span_cells(parts))
        if width("".join(text for text, _ in spans).rstrip()) <= cells:
            break
    shown = [(glyphs.encode(text), style) for text, style in cut_spans(spans, cells)]
    return DrawnTabs(tuple(shown), tuple(accumulate(sizes)))


def _tab_spans(
    words: str, badges: Sequence[Span], glyphs: Glyphs, *, is_active: bool
) -> list[Span]:
    """One tab, between two lines if it is the active one."""
    left, style, right = "", "", " "
    if is_active:
        left, style, right = glyphs.axis, "title", glyphs.axis
    spans: list[Span] = [(left, "title"), (words, style)]
    spans += [(f" {glyphs.encode(badge)}", badge_style) for badge, badge_style in badges]
    spans.append((right, "title"))
    return spans


class TabLine(LineWidget):
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
        self._drawn_tabs = draw_tabs(
            self.active,
            self._badges,
            self.size.width,
            labels=self.key_label,
            glyphs=self.glyphs,
        )
        self.show_lines((self._drawn_tabs.line,))

    def on_click(self, event: events.Click) -> None:
        if self._drawn_tabs is None:
            return
        name = self._drawn_tabs.at(event.get_content_offset_capture(self).x)
        if name is not None:
            self.post_message(self.Clicked(name))
