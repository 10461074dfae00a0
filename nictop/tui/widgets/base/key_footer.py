"""The last line of a screen: the keys that work now, and what each does.

Textual's `Footer` is a widget per key, all of them made anew, styled and laid out whenever the focus moves; that was
nearly half of the CPU time of a key press. This one is a single line, drawn again only when its keys have changed.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from nictop.model.text.terminal import width

if TYPE_CHECKING:
    from textual.screen import Screen


class KeyHint(NamedTuple):
    """One key of the footer."""

    key: str
    display: str
    label: str
    tooltip: str
    enabled: bool

    @property
    def width(self) -> int:
        """In cells, with the blanks around both parts."""
        return width(self.display) + width(self.label) + 3


class KeyFooter(Widget, can_focus=False):
    """Keys of the focused widget, its screen and the application, one hint for each action; a click presses the key."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "key-footer--key",
        "key-footer--label",
        "key-footer--hover",
    }
    DEFAULT_CSS = """
    KeyFooter { dock: bottom; height: 1; color: $footer-foreground; background: $footer-background; }
    KeyFooter > .key-footer--key {
        color: $footer-key-foreground; background: $footer-key-background; text-style: bold;
    }
    KeyFooter > .key-footer--label {
        color: $footer-description-foreground; background: $footer-description-background;
    }
    KeyFooter > .key-footer--hover { color: $footer-key-foreground; background: $block-hover-background; }
    """

    hints: reactive[tuple[KeyHint, ...]] = reactive((), init=False)
    hovered: reactive[int | None] = reactive(None, init=False)
    """Index into `hints` of the one under the pointer."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._take_bindings)

    def _take_bindings(self, screen: Screen[object]) -> None:
        if screen.app.app_focus and self.is_attached and screen is self.screen:
            self.hints = active_hints(screen)

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        styles = {name: self.get_component_rich_style(f"key-footer--{name}") for name in ("key", "label", "hover")}
        segments: list[Segment] = []
        for index, hint in enumerate(self.hints):
            change = styles["hover"] if index == self.hovered else Style()
            if not hint.enabled:
                change += Style(dim=True)
            segments.append(Segment(f" {hint.display} ", base + styles["key"] + change))
            segments.append(Segment(f"{hint.label} ", base + styles["label"] + change))
        return Strip(segments).adjust_cell_length(self.size.width, base)

    def hint_at(self, x: int) -> int | None:
        """Index of the hint that covers a column."""
        ends = accumulate(hint.width for hint in self.hints)
        return next((index for index, end in enumerate(ends) if x < end), None)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.hovered = self.hint_at(event.x)

    def on_leave(self) -> None:
        self.hovered = None

    def watch_hovered(self, hovered: int | None) -> None:
        self.tooltip = self.hints[hovered].tooltip or None if hovered is not None else None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        index = self.hint_at(event.x)
        if index is None:
            return
        if self.hints[index].enabled:
            self.app.simulate_key(self.hints[index].key)
        else:
            self.app.bell()


def active_hints(screen: Screen[object]) -> tuple[KeyHint, ...]:
    """Of a screen as it is focused now; an action with several keys is shown with the first of them."""
    shown: dict[str, KeyHint] = {}
    for _, binding, enabled, tooltip in screen.active_bindings.values():
        if binding.show and binding.action not in shown:
            display = screen.app.get_key_display(binding)
            shown[binding.action] = KeyHint(binding.key, display, binding.description, tooltip, enabled)
    return tuple(shown.values())
