"""The command palette: every view, action, host and interface of this program, one line each.
``:find``, ``:nic`` and ``:sort drops`` are words of an entry, or their beginnings: `match` puts the
entry first that they are most of.

Of Textual's own widgets only those are drawn that an ASCII console can draw.

A page key right behind the one that opens it makes Textual 8 look for the line of an option that
has none (KeyError); a search that is still running when the palette is closed looks for the list
that is gone (NoMatches); Enter twice makes it run the command twice and close the screen below as
well. None of these ends the program.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from inspect import isawaitable
from itertools import chain
from operator import methodcaller
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on
from textual.binding import BindingType
from textual.command import CommandList, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.widgets import Input, OptionList

from nictop.hosts.guests import running_guests
from nictop.model.columns import devices, overview
from nictop.model.facts import fit, width
from nictop.model.guests.owners import guest_text
from nictop.model.guests.table import hosted_guests
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_tuples import NamedTuple
from nictop.tui.keys import INTERRUPT, TABS, key_labels, shown_key
from nictop.tui.palette_commands import SCREENS, GeneralCommand, general_commands
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.textual_private import PrivatePalette
from nictop.tui.widgets.base.line_widget import PlainScrollBar
from nictop.tui.widgets.base.with_glyphs import WithGlyphs

if TYPE_CHECKING:
    from textual.fuzzy import Matcher

    from nictop.model.columns.column import Column
    from nictop.probe.records import HostedGuest
    from nictop.tui.controllers.nictop import Nictop

MOVES = {
    "up",
    "down",
    "left",
    "right",
    "page-up",
    "page-down",
    "home",
    "end",
    "pane",
    "pane-previous",
}
"""Ids of keys that are no commands."""
HELP_SCORE = 1e-3
"""Below that of any text that matches."""
WORDS_SCORE = 10.0
"""Above that of any text that only has the letters."""
VIEW_BONUS = 0.5
"""A view is meant before its commands."""
WORD_PATTERN = pattern(r"[^\s:]+")
MIN_HELP_CELLS = 8
MAX_GUESTS = 256
"""Of one host."""
TEXT_CELLS = 44
"""Of an entry, before what is said about it."""
PALETTE_MARGIN_CELLS = 5
"""Of the list: its padding and the scroll bar."""
AREA_ALIASES = {
    "Interface": "nic",
    "View: Devices": "nics interfaces",
    "View: Results": "saved tests",
    "Change:": "rollback",
    "Traffic: Measure a command": "own program workload script",
    "Traffic: Test against a host without a login": "foreign end address iperf3 server",
    "Traffic: Test the path": "mtu arp firewall",
    "Traffic: Start self-test": "selftest loopback",
    "Devices: Show why packets are dropped": "drops lost reasons",
    "Devices: Show layers": "chain",
    "Devices: Show connections": "sockets processes users",
    "Report: Write report": "html export save",
    "Recording: Save the last minutes": "past history",
    "Recording: Start recording": "capture save",
    "Program: Quit": "exit",
    "Program: Show help": "keys",
    "Hosts: Add, remove or reconnect host": "delete edit new login connect",
    "Devices: Read inventory again": "refresh reload rescan",
    "Display: Read more often": "faster interval",
    "Display: Read less often": "slower interval",
    "CPUs: Show or hide all interrupts": "irqs",
}
"""Beginning of an entry → other words by which it is found."""


class PaletteEntry(NamedTuple):
    """One line of the palette."""

    text: str
    """``Area: Verb object``"""
    help: str
    """Label of its key, and what it does."""
    run: Callable[[], Awaitable[object] | object]
    is_listed: bool = True
    """Also while nothing is typed."""


def match(entry: PaletteEntry, words: Sequence[str]) -> float:
    """How well the words, in small letters, fit the words of an entry; 0: one of them begins none
    of these. A whole word is better than the beginning of one, a word of the entry better than one
    of `AREA_ALIASES`."""
    own = WORD_PATTERN.findall(entry.text.casefold())
    aliases = [text for begin, text in AREA_ALIASES.items() if entry.text.startswith(begin)]
    other = WORD_PATTERN.findall(" ".join(aliases))
    score = WORDS_SCORE
    for word in words:
        value = _word_value(word, own, other)
        if not value:
            return 0.0
        score += value
    if entry.text.startswith("View:"):
        score += VIEW_BONUS
    return score


def _word_value(word: str, own: Sequence[str], other: Sequence[str]) -> float:
    """Of one word; 0: it begins none of them."""
    if word in own:
        return 1.0
    if any(text.startswith(word) for text in own):
        return 0.8
    if any(text.startswith(word) for text in other):
        return 0.6
    return 0.0


def _letters(matcher: Matcher, text: str) -> float:
    """How well a text has the letters of what is typed, in their order: below `WORDS_SCORE`,
    whatever Textual's score is."""
    score = matcher.match(text)
    return WORDS_SCORE * score / (1 + score)


def _general_keys(area: str, nictop: Nictop) -> set[str]:
    """Ids of the keys of general commands that do the same in a view."""
    if area == "Traffic":  # a test has other keys than the form
        return set()
    keys = set()
    for command in general_commands(nictop):
        about = command.text.partition(":")[0]
        if about in (area, "Display", "Recording") and not command.pane:
            keys.add(command.key)
    return keys


class NictopCommands(Provider):
    """Those of the screen from which it was opened, then the others."""

    async def discover(self) -> Hits:
        for command in self._commands():
            if command.is_listed:
                line = self._line(Content(command.text), command)
                yield DiscoveryHit(line, command.run, text=command.text)

    async def search(self, query: str) -> Hits:
        """Entries with the words of `query`, then those whose text has its letters, then those with
        all words of it in their help."""
        matcher, words = self.matcher(query), query.casefold().split()
        for command in self._commands():
            score = match(command, words)
            if score == 0 and command.is_listed:
                score = _letters(matcher, command.text)
            everything = f"{command.text} {command.help}".casefold()
            if score == 0 and all(word in everything for word in words):
                score = HELP_SCORE
            if score > 0:
                line = self._line(matcher.highlight(command.text), command)
                yield Hit(score, line, command.run, text=command.text)

    def _line(self, text: Content, command: PaletteEntry) -> Content:
        """Text and help beside each other, as far as there is room."""
        gap = " " * max(2, TEXT_CELLS - width(command.text))
        room = self.app.size.width - PALETTE_MARGIN_CELLS - width(command.text) - len(gap)
        if room < MIN_HELP_CELLS:
            return text
        glyphs = cast("FramedScreen", self.screen).glyphs
        help_text = glyphs.encode(fit(command.help, room)).rstrip()
        return Content.assemble(text, (f"{gap}{help_text}", "dim"))

    def _commands(self) -> Iterator[PaletteEntry]:
        screen = self.screen
        if not isinstance(screen, FramedScreen):  # not before the first of them is shown
            return
        entries = chain(
            self._of_screen(screen),
            self._views(screen),
            self._general(screen),
            _hosts(screen),
            _guests(screen),
            _themes(screen),
            _orders(screen),
        )
        text = screen.glyphs.text
        for entry in entries:
            yield entry._replace(text=text(entry.text), help=text(entry.help))

    def _of_screen(self, screen: FramedScreen) -> Iterator[PaletteEntry]:
        """Actions of its keys, without those of the general commands."""
        labels = {tab.name: tab.label for tab in TABS}
        area = labels.get(screen.tab, "")
        left_out = {*screen.refused_actions}
        left_out_keys = MOVES | _general_keys(area, screen.nictop)
        for node, binding, enabled, _ in screen.active_bindings.values():
            action = binding.action
            is_general = binding.id in left_out_keys or action.startswith("app.")
            if not enabled or not binding.show or is_general or action in left_out:
                continue
            left_out.add(action)
            words = f"{key_labels(binding.key, screen.glyphs)}  {binding.tooltip}"
            run = partial(self.app.run_action, action, node)
            yield PaletteEntry(f"{area}: {binding.description}", words, run)

    def _views(self, screen: FramedScreen) -> Iterator[PaletteEntry]:
        replay = screen.nictop.replay
        for tab in TABS:
            if tab.name == "traffic" and replay is not None and not replay.runs:
                continue
            words = f"{shown_key(self.app, tab.name)}  {tab.content}".rstrip()
            run = partial(screen.opener.action_view, tab.name)
            yield PaletteEntry(f"View: {tab.label}", words, run)

    def _general(self, screen: FramedScreen) -> Iterator[PaletteEntry]:
        for command in general_commands(screen.nictop):
            words = command.help
            if command.key:
                key = f"{shown_key(self.app, command.key)} {command.pane}".rstrip()
                words = f"{key}  {words}".strip()
            yield PaletteEntry(command.text, words, partial(_run, command, screen))


def _orders(screen: FramedScreen) -> Iterator[PaletteEntry]:
    """Each column that devices, or the interfaces of all hosts, can be sorted by; only while
    something is typed. Those of the shown view are the first."""
    tables: list[tuple[str, str, Sequence[Column[Any]], str]] = [
        ("Devices", "devices", devices.COLUMNS, "sort_table"),
        ("Hosts", "hosts", overview.COLUMNS, "sort_interfaces"),
    ]
    tables.sort(key=lambda table: table[1] != screen.tab)
    for area, view, columns, action in tables:
        for column in columns:
            command = GeneralCommand("", "", "", methodcaller(action, column.key), view)
            run = partial(_run, command, screen)
            text = f"{area}: Sort by {column.title}"
            yield PaletteEntry(text, column.source, run, is_listed=False)


async def _run(command: GeneralCommand, screen: FramedScreen) -> None:
    kind: type[FramedScreen] = FramedScreen
    if command.view:
        kind = SCREENS.get(command.view, LiveScreen)
        await screen.opener.action_view(command.view)
    shown = screen.app.screen
    if not isinstance(shown, kind):
        return
    result = command.action(shown)
    if isawaitable(result):
        await result


def _hosts(screen: FramedScreen) -> Iterator[PaletteEntry]:
    """Hosts, and their interfaces."""
    hosts, opener = screen.nictop.hosts, screen.opener

    async def show(host: str) -> None:
        hosts.choose(host)
        await opener.action_view("devices")

    for host in hosts.sessions:
        yield PaletteEntry(f"Host: Show {host.name}", "its devices", partial(show, host.name))
    for host in hosts.sessions:
        for ifindex, link in host.snapshot.links.items():
            open_link = partial(screen.opener.open_link, host.name, ifindex)
            text = f"Interface: Show {link.name} on {host.name}"
            yield PaletteEntry(text, "in the devices of its host", open_link)


def _guests(screen: FramedScreen) -> Iterator[PaletteEntry]:
    """Guests of live hosts that can be watched and are not; only while something is typed."""
    hosts = screen.nictop.hosts
    if screen.nictop.replay is not None:
        return
    for host in hosts.sessions:
        for guest in running_guests(hosted_guests(host.snapshot))[:MAX_GUESTS]:
            if not hosts.name_of_guest(host.name, guest):
                text = f"Host: Watch {guest_text(guest.name, guest.kind)} of {host.name}"
                run = partial(_watch, screen, host.name, guest)
                yield PaletteEntry(text, "as a host of its own", run, is_listed=False)


def _watch(screen: FramedScreen, host: str, guest: HostedGuest) -> None:
    complaint = screen.nictop.hosts.watch_guests(host, [guest])
    if complaint:
        screen.nictop.notify(screen.glyphs.text(complaint), "Guest")


def _themes(screen: FramedScreen) -> Iterator[PaletteEntry]:
    """Those that this terminal can show."""
    opener, current = screen.opener, screen.app.theme
    for name in opener.themes:
        words = "colours of the screen; kept in config.toml"
        if name == current:
            words = "the current one"
        yield PaletteEntry(f"Theme: {name}", words, partial(opener.use_theme, name))


class Palette(WithGlyphs, PrivatePalette):
    """Keys that move in the list do nothing until it is drawn."""

    BINDINGS: ClassVar[list[BindingType]] = [INTERRUPT]

    def __init__(self) -> None:
        super().__init__(
            placeholder="type words of a command, a view, a host or an interface",
            id="--command-palette",
        )

    def on_mount(self) -> None:
        self.query_one(CommandList).vertical_scrollbar.renderer = PlainScrollBar  # type: ignore[misc]

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _ignore_when_closed_or_early(
        self, event: Input.Submitted | OptionList.OptionSelected
    ) -> None:
        """A command was chosen already. While the list is that of an earlier text, the end of the
        search chooses."""
        if not self.is_current:
            event.stop()
            event.prevent_default()
        elif isinstance(event, Input.Submitted) and event.value.strip() != self.listed_for:
            self.is_enter_due = True
            event.stop()
            event.prevent_default()
