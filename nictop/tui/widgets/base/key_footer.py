"""The last line of a screen: the keys that work now, and what each does; help and quit at its right
end, always.

Textual's `Footer` is a widget per key, all of them made anew, styled and laid out whenever the
focus moves; that was nearly half of the CPU time of a key press. This one is a single line, drawn
again only when its keys have changed.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.dom import DOMNode
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from nictop.model.text.glyphs import UNICODE
from nictop.model.text.terminal import width
from nictop.probe.light_tuples import NamedTuple

if TYPE_CHECKING:
    from textual.screen import Screen

MAX_HINTS = 7
"""Of the screen, beside `LAST` and `AFTER`."""
SHORT_LABELS = {"Show set-up": "Set-up", "Record/report": "Record"}
"""Labels of hints for which there is too little room at the right."""
AFTER = ("record",)
"""Ids of the keys behind the hints of the screen, where there is room."""
LAST = ("help", "quit")
"""Ids of the keys at the right end."""


class KeyHint(NamedTuple):
    """One key of the footer."""

    key: str
    display: str
    label: str
    tooltip: str
    enabled: bool
    is_last: bool = False
    """At the right end."""

    @property
    def width(self) -> int:
        """In cells, with the blanks around both parts."""
        return width(self.display) + width(self.label) + 3


class KeyFooter(Widget, can_focus=False):
    """Keys of the focused widget, its screen and the application, one hint for each action; a click
    presses the key."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "key-footer--key",
        "key-footer--label",
        "key-footer--hover",
    }
    DEFAULT_CSS = """
    KeyFooter {
        dock: bottom; height: 1; color: $footer-foreground; background: $footer-background;
    }
    KeyFooter > .key-footer--key {
        color: $text-primary; background: $footer-key-background; text-style: bold;
    }
    KeyFooter > .key-footer--label {
        color: $footer-description-foreground; background: $footer-description-background;
    }
    KeyFooter > .key-footer--hover { color: $text-primary; background: $block-hover-background; }
    """

    hints: reactive[tuple[KeyHint, ...]] = reactive((), init=False)
    hovered: reactive[int | None] = reactive(None, init=False)
    """Index into `hints` of the one under the pointer."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._take_bindings)

    def _take_bindings(self, screen: Screen[object]) -> None:
        if screen.app.app_focus and self.is_attached and screen is self.screen:
            self.take_bindings()

    def take_bindings(self) -> None:
        """Draw the keys that work now; the screen calls it before its first frame."""
        self.hints = active_hints(self.screen)

    def placed(self) -> tuple[tuple[int, int], ...]:
        """(column, index into `hints`) of those that have room: the last ones at the right end, the
        others from the left as far as all of them fit."""
        room = self._room
        left: list[tuple[int, int]] = []
        right: list[tuple[int, int]] = []
        x, right_x, is_full = 0, max(0, room), False
        for index, hint in enumerate(self.hints):
            if hint.is_last:
                right.append((right_x, index))
                right_x += hint.width
                continue
            needed = self.shown_at(x, index).width
            is_full = is_full or x + needed > room
            if not is_full:
                left.append((x, index))
                x += needed
        return (*left, *right)

    @property
    def _room(self) -> int:
        """Cells before the hints at the right end."""
        return self.size.width - sum(hint.width for hint in self.hints if hint.is_last)

    def shown_at(self, x: int, index: int) -> KeyHint:
        """The hint as it is shown at a column: with its short label where its own does not fit."""
        hint = self.hints[index]
        if hint.is_last or x + hint.width <= self._room:
            return hint
        return hint._replace(label=SHORT_LABELS.get(hint.label, hint.label))

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        styles = {
            name: self.get_component_rich_style(f"key-footer--{name}")
            for name in ("key", "label", "hover")
        }
        segments: list[Segment] = []
        x = 0
        for column, index in self.placed():
            hint = self.shown_at(column, index)
            change = styles["hover"] if index == self.hovered else Style()
            if not hint.enabled:
                change += Style(dim=True)
            if column > x:
                segments.append(Segment(" " * (column - x), base))
            segments.append(Segment(f" {hint.display} ", base + styles["key"] + change))
            segments.append(Segment(f"{hint.label} ", base + styles["label"] + change))
            x = column + hint.width
        return Strip(segments).adjust_cell_length(self.size.width, base)

    def hint_at(self, x: int) -> int | None:
        """Index of the hint that covers a column."""
        for column, index in self.placed():
            if column <= x < column + self.shown_at(column, index).width:
                return index
        return None

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.hovered = self.hint_at(event.x)

    def on_leave(self) -> None:
        self.hovered = None

    def watch_hovered(self, hovered: int | None) -> None:
        self.tooltip = None
        if hovered is not None:
            self.tooltip = self.hints[hovered].tooltip or None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        index = self.hint_at(event.x)
        if index is None:
            return
        if self.hints[index].enabled:
            self.app.simulate_key(self.hints[index].key)
        else:
            self.app.bell()


def active_hints(screen: Screen[object]) -> tuple[KeyHint, ...]:
    """Of a screen as it is focused now; an action with several keys is shown with the first of
    them."""
    app, shown = screen.app, dict[str, KeyHint]()
    glyphs, refused = getattr(app, "glyphs", UNICODE), getattr(screen, "refused_actions", ())
    places: dict[str, tuple[int, int, int]] = {}
    nodes: list[DOMNode] = []
    for node, binding, enabled, tooltip in screen.active_bindings.values():
        if node not in nodes:
            nodes.append(node)
        action = binding.action
        if not binding.show or action in shown or action in refused:
            continue
        display = glyphs.text(app.get_key_display(binding))
        is_last = binding.id in LAST
        shown[action] = KeyHint(
            binding.key, display, binding.description, tooltip, enabled, is_last
        )
        place = order_of_bindings(type(node)).get((binding.id, action), 0)
        places[action] = (_part_of_footer(binding), nodes.index(node), place)
    actions = sorted(shown, key=places.__getitem__)
    own = [action for action in actions if places[action][0] == 0]
    return tuple(shown[action] for action in (*own[:MAX_HINTS], *actions[len(own) :]))


def _part_of_footer(binding: Binding) -> int:
    """0: the hints of the screen; 1: behind them; 2: the right end."""
    if binding.id in LAST:
        return 2
    return int(binding.id in AFTER)


@cache
def order_of_bindings(kind: type[DOMNode]) -> dict[tuple[str | None, str], int]:
    """(id, action) → its place: those of a class come before those of its bases, in the order of
    the lists, whatever keys they have."""
    found: dict[tuple[str | None, str], int] = {}
    for base in kind.__mro__:
        for binding in base.__dict__.get("BINDINGS", ()):
            if isinstance(binding, Binding):
                found.setdefault((binding.id, binding.action), len(found))
    return found
