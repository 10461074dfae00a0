"""The command palette: every view, action, host and interface of this program.

Of Textual's own widgets only those are drawn that an ASCII console can draw.

A page key right behind the one that opens it makes Textual 8 look for the line of an option that has none (KeyError); a
search that goes on when the palette is closed looks for the list that is gone (NoMatches). Neither ends the program.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from textual import work
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.css.query import NoMatches

from nictop.tui.keys import KEYS, key_label
from nictop.tui.widgets.base.line_view import PlainScrollBar
from nictop.tui.widgets.base.with_glyphs import WithGlyphs
from nictop.tui.widgets.status.tab_line import TABS

if TYPE_CHECKING:
    from nictop.model.text.glyphs import Glyphs
    from nictop.tui.controllers.nictop import Nictop

MOVES = {"up", "down", "left", "right", "page-up", "page-down", "home", "end", "pane", "pane-previous"}
"""Ids of keys that are no commands."""
HELP_SCORE = 1e-3
"""Below that of any text that matches."""


class PaletteEntry(NamedTuple):
    """One line of the palette."""

    text: str
    """``Area: Verb object``"""
    help: str
    run: Callable[[], Awaitable[object] | object]


class Commands(Protocol):
    """The application, as the palette needs it."""

    nictop: Nictop
    glyphs: Glyphs

    def commands(self) -> Iterable[tuple[str, str, Callable[[], object]]]:
        """Text, help and function of what can be done from any screen."""

    def action_help(self) -> None: ...

    async def action_quit(self) -> None: ...

    async def action_view(self, tab: str) -> None: ...

    async def open_host(self, host: str) -> None: ...

    async def open_link(self, host: str, ifindex: int) -> None: ...


class NictopCommands(Provider):
    """Those of the screen from which it was opened, then the others."""

    async def discover(self) -> Hits:
        for command in self._commands():
            yield DiscoveryHit(Content(command.text), command.run, text=command.text, help=command.help)

    async def search(self, query: str) -> Hits:
        """Commands whose text matches, below them those with all words of `query` in their help."""
        matcher, words = self.matcher(query), query.casefold().split()
        for command in self._commands():
            score = matcher.match(command.text)
            if score == 0 and all(word in f"{command.text} {command.help}".casefold() for word in words):
                score = HELP_SCORE
            if score > 0:
                yield Hit(score, matcher.highlight(command.text), command.run, text=command.text, help=command.help)

    def _commands(self) -> Iterator[PaletteEntry]:
        app = cast("Commands", self.app)
        general = tuple(_of_all_screens(app))
        for text, words, run in (*self._of_screen(general), *_views(app), *general, *_hosts(app)):
            yield PaletteEntry(app.glyphs.text(text), app.glyphs.text(words), run)

    def _of_screen(self, general: Iterable[PaletteEntry]) -> Iterator[PaletteEntry]:
        """Actions of its keys, without those that are `general`."""
        seen: set[str] = set()
        area = next((tab.label for tab in TABS if tab.name == getattr(self.screen, "tab", "")), "")
        areas = () if area == "Traffic" else (area, "Display", "Recording")  # a test has other keys than the form
        known = {command.help.partition("  ")[0] for command in general if command.text.partition(":")[0] in areas}
        refused = getattr(self.screen, "refused_actions", ())
        for node, binding, enabled, _ in self.screen.active_bindings.values():
            wanted = enabled and binding.show and binding.id not in MOVES and key_label(binding.key) not in known
            if wanted and binding.action not in {*seen, *refused} and not binding.action.startswith("app."):
                seen.add(binding.action)
                run = partial(self.app.run_action, binding.action, node)
                yield PaletteEntry(
                    f"{area}: {binding.description}", f"{key_label(binding.key)}  {binding.tooltip}", run
                )


def _views(app: Commands) -> Iterator[PaletteEntry]:
    for number, tab in enumerate(TABS, 1):
        if tab.name == "traffic" and app.nictop.replay is not None and not app.nictop.replay.runs:
            continue
        words = KEYS[tab.name].meaning.partition(": ")[2]
        yield PaletteEntry(f"View: {tab.label}", f"{number}  {words}".rstrip(), partial(app.action_view, tab.name))


def _of_all_screens(app: Commands) -> Iterator[PaletteEntry]:
    for command in app.commands():
        yield PaletteEntry(*command)
    yield PaletteEntry("Program: Show help", "?  help of this screen", app.action_help)
    yield PaletteEntry("Program: Quit", "q", app.action_quit)


def _hosts(app: Commands) -> Iterator[PaletteEntry]:
    """Hosts, and their interfaces."""
    for host in app.nictop.hosts.sessions:
        yield PaletteEntry(f"Host: Show {host.name}", "its devices", partial(app.open_host, host.name))
    for host in app.nictop.hosts.sessions:
        for ifindex, link in host.snapshot.links.items():
            show = partial(app.open_link, host.name, ifindex)
            yield PaletteEntry(f"Interface: Show {link.name} on {host.name}", "among the devices of its host", show)


class Palette(WithGlyphs, CommandPalette):
    """Keys that move in the list do nothing until it is drawn."""

    def __init__(self) -> None:
        super().__init__(placeholder="type words of a command, a view, a host or an interface", id="--command-palette")

    def on_mount(self) -> None:
        self.query_one(CommandList).vertical_scrollbar.renderer = PlainScrollBar  # type: ignore[misc]

    def _action_command_list(self, action: str) -> None:
        try:
            super()._action_command_list(action)
        except (KeyError, IndexError):
            self.log.debug("the list is not drawn yet")

    @work(exclusive=True, group=CommandPalette._GATHER_COMMANDS_GROUP)
    async def _gather_commands(self, search_value: str) -> None:
        with suppress(NoMatches):  # the palette was closed meanwhile
            await CommandPalette._gather_commands.__wrapped__(self, search_value)  # type: ignore[attr-defined]
