"""A menu: one entry is chosen, or some are switched on and off.

╭ View ───────────────────────────────────╮
│▸on  Virtual interfaces                  │
│ off Packets per second                  │
│     Idle queues      only on Queues     │
╰ Enter Choose · Space Toggle · Esc Close ╯
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import isawaitable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from nictop.model.facts import fit, width
from nictop.model.text.terminal import fit_middle
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.tui.keys import MENU_KEYS, MENU_LIST_KEYS
from nictop.tui.screens.base import NictopScreen
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.dialog_frame import FRAME_CELLS, PopUp, box_title
from nictop.tui.widgets.base.line_widget import SpanLine

CHECKED, UNCHECKED = "on  ", "off "
"""No brackets: those are buttons."""
MIN_MENU_CELLS = 24
NO_MORE = "not any more"
"""Of an entry that there was when the menu was opened."""


@dataclass(frozen=True)
class MenuEntry:
    """One line of a menu."""

    label: str
    action: Callable[[], Awaitable[object] | None] | str
    """Called when the entry is chosen; or the result of the menu."""
    checked: bool | None = None
    """State of an option that the action changes; None: not an option."""
    enabled: bool = True
    why_not: str = ""
    """Why it is disabled."""


class MenuList(ChoiceList):
    """The entries. Posts `Opened` for a click on one of them."""

    BINDINGS: ClassVar[list[BindingType]] = MENU_LIST_KEYS

    def __init__(self, entries: Sequence[MenuEntry]) -> None:
        super().__init__(id="menu-list")
        self.entries = entries
        self.checked = [entry.checked for entry in entries]

    def first_choice(self) -> int:
        """The first one that can be chosen."""
        for index, entry in enumerate(self.entries):
            if entry.enabled:
                return index
        return 0

    def redraw(self) -> None:
        self.show_drawn(len(self.entries), self._entry_line, None, self.index)

    def _entry_line(self, index: int) -> SpanLine:
        entry = self.entries[index]
        cells = self.scrollable_content_region.width
        text = self.glyphs.text(f" {self._mark(index)}{entry.label} ")
        text = fit_middle(text, min(width(text), cells))
        room = max(0, cells - width(text))
        if entry.enabled:
            return (text, ""), (fit("", room), "dim")
        reason = self.glyphs.text(f" {entry.why_not}")
        return (text, "dim"), (fit(reason, room), "dim")

    def _mark(self, index: int) -> str:
        """State of an option; of other entries blanks, where there are options."""
        state = self.checked[index]
        if state is not None:
            return CHECKED if state else UNCHECKED
        if self.has_options:
            return " " * len(CHECKED)
        return ""

    @property
    def has_options(self) -> bool:
        return any(state is not None for state in self.checked)

    @property
    def cells(self) -> int:
        """Width of the longest entry."""
        return max(map(self._entry_cells, range(len(self.entries))), default=0)

    def _entry_cells(self, index: int) -> int:
        entry = self.entries[index]
        cells = width(self._mark(index) + entry.label) + 4
        if not entry.enabled:
            cells += width(entry.why_not)
        return cells

    def on_click(self, event: events.Click) -> None:
        """One click chooses: that of the base class needs two."""
        event.prevent_default()
        index = self.line_at(event.get_content_offset_capture(self).y)
        if index is not None:
            self.choose_index(index)
            self.post_message(self.Opened())


class MenuScreen(PopUp["str | None"]):
    """Its result is the `action` of the chosen entry if that is a text, else None."""

    BINDINGS: ClassVar[list[BindingType]] = MENU_KEYS

    def __init__(self, title: str, entries: Sequence[MenuEntry]) -> None:
        super().__init__()
        self._title, self._entries = title, tuple(entries)
        self._least_cells = MIN_MENU_CELLS
        """Of its title and its keys."""

    def compose(self) -> ComposeResult:
        with Vertical(id="menu", classes="dialog"):
            yield MenuList(self._entries)

    def on_mount(self) -> None:
        box, entries = self.query_one("#menu", Vertical), self.query_one(MenuList)
        keys = "Enter Choose · Esc Close"
        if entries.has_options:
            keys = "Enter Choose · Space Toggle · Esc Close"
        cells = self.app.size.width
        box.border_title = box_title(self._title, cells, self.glyphs)
        box.border_subtitle = self.frame_keys(keys)
        self._least_cells = max(MIN_MENU_CELLS, width(self._title), width(keys))
        box.styles.width = FRAME_CELLS + max(self._least_cells, entries.cells)
        entries.take_rows(max(1, len(self._entries)))
        entries.set_keys([str(index) for index in range(len(self._entries))])
        entries.redraw()
        entries.focus()

    def show_entries(self, entries: Sequence[MenuEntry]) -> None:
        """The same entries, of which others can be chosen now, and why not."""
        self._entries = tuple(entries)
        shown = self.query_one(MenuList)
        shown.entries = self._entries
        needed = FRAME_CELLS + max(self._least_cells, shown.cells)
        self.query_one("#menu", Vertical).styles.width = needed
        shown.redraw()

    def draw_resized(self) -> None:
        self.query_one(MenuList).redraw()

    def on_choice_list_opened(self) -> None:
        """A click: an option is toggled, any other entry chosen."""
        self._act(toggle=True)

    def action_choose(self) -> None:
        self._act(toggle=False)

    def action_toggle_option(self) -> None:
        """Options only: the menu stays open."""
        index = self.query_one(MenuList).index
        if index is not None and self._entries[index].checked is not None:
            self._act(toggle=True)

    def _act(self, *, toggle: bool) -> None:
        entries = self.query_one(MenuList)
        if entries.index is None:
            return
        entry, state = self._entries[entries.index], entries.checked[entries.index]
        if not entry.enabled:
            self.app.bell()
            return
        if toggle and state is not None:
            entries.checked[entries.index] = not state
            entries.redraw()
        else:
            self.dismiss(entry.action if isinstance(entry.action, str) else None)
        if not isinstance(entry.action, str):
            # by the application: the action may open a dialog whose result comes after this screen
            # is gone
            self.app.call_later(self._run, entry.action)

    def _run(self, action: Callable[[], Awaitable[object] | None]) -> None:
        work = action()
        if isawaitable(work):
            self.app.run_worker(work, name="menu", group="menu")


class FollowingMenu(MenuScreen, NictopScreen):
    """A menu that follows the test and the hosts: `entries` makes those of now. An entry that there
    is not any more is disabled; what is new is in the next menu."""

    def __init__(self, title: str, entries: Callable[[], Sequence[MenuEntry]]) -> None:
        self._entries_now = entries
        super().__init__(title, entries())

    def on_mount(self) -> None:
        for signal in (self.nictop.traffic.changed, self.nictop.hosts.changed):
            self.subscribe(signal, self._follow)

    def _follow(self) -> None:
        if not self.query(MenuList):
            return  # not drawn yet
        now = {entry.label: entry for entry in self._entries_now()}
        gone = partial(replace, enabled=False, why_not=NO_MORE)
        entries = [now.get(entry.label, gone(entry)) for entry in self._entries]
        states = [(entry.enabled, entry.why_not) for entry in entries]
        if states != [(entry.enabled, entry.why_not) for entry in self._entries]:
            self.show_entries(entries)
