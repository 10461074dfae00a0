"""The command palette: every view, action, host and interface of this program, one line each. ``:find``, ``:nic`` and
``:sort drops`` are words of an entry, or their beginnings: `match` puts the entry first that they are most of.

Of Textual's own widgets only those are drawn that an ASCII console can draw.

A page key right behind the one that opens it makes Textual 8 look for the line of an option that has none (KeyError); a
search that is still running when the palette is closed looks for the list that is gone (NoMatches); Enter twice makes
it run the command twice and close the screen below as well. None of these ends the program.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from inspect import isawaitable
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from textual import on
from textual.command import CommandList, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.widgets import Input, OptionList

from nictop.model.columns import devices, overview
from nictop.model.facts import fit, width
from nictop.probe.records import Request
from nictop.tui.filter_help import (
    CPU_FILTER,
    FINDING_FILTER,
    NIC_FILTER,
    PATH_FILTER,
    QUEUE_FILTER,
    RESULT_FILTER,
    examples,
)
from nictop.tui.keys import TABS, key_label, shown_key
from nictop.tui.screens.dialogs.go_to_time import ask_time
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.live.files import ask_report, toggle_recording
from nictop.tui.screens.live.hosts import HostsScreen
from nictop.tui.screens.live.screen import LiveScreen
from nictop.tui.screens.traffic.form import TrafficScreen
from nictop.tui.screens.traffic.results import ResultsScreen
from nictop.tui.textual_private import PrivatePalette
from nictop.tui.widgets.base.line_view import PlainScrollBar
from nictop.tui.widgets.base.with_glyphs import WithGlyphs

if TYPE_CHECKING:
    from textual.fuzzy import Matcher

    from nictop.model.columns.column import Column
    from nictop.tui.controllers.nictop import Nictop

MOVES = {"up", "down", "left", "right", "page-up", "page-down", "home", "end", "pane", "pane-previous"}
"""Ids of keys that are no commands."""
HELP_SCORE = 1e-3
"""Below that of any text that matches."""
WORDS_SCORE = 10.0
"""Above that of any text that only has the letters."""
VIEW_BONUS = 0.5
"""A view is meant before its commands."""
WORD_PATTERN = re.compile(r"[^\s:]+")
MIN_HELP_CELLS = 8
TEXT_CELLS = 44
"""Of an entry, before what is said about it."""
PALETTE_MARGIN_CELLS = 5
"""Of the list: its padding and the scroll bar."""
AREA_ALIASES = {
    "Interface": "nic",
    "View: Devices": "nics interfaces",
    "View: Results": "saved tests",
    "Change:": "rollback",
}
"""Beginning of an entry → other words by which it is found."""


class GeneralCommand(NamedTuple):
    """A command that is offered on every screen."""

    text: str
    """``Area: Verb object``"""
    key: str
    """Id of its key; "": it has none."""
    help: str
    action: Callable[[Any], object]
    """It is given the screen of the view, or the one from which the palette was opened."""
    view: str = ""
    """This one is shown first; "": none."""
    pane: str = ""
    """Where the key works, if not everywhere on the screen."""


ALWAYS = (
    GeneralCommand("Devices: Filter", "filter", examples(NIC_FILTER), LiveScreen.action_filter, "devices"),
    GeneralCommand("Queues: Filter", "filter", examples(QUEUE_FILTER), LiveScreen.action_filter, "queues"),
    GeneralCommand("CPUs: Filter", "filter", examples(CPU_FILTER), LiveScreen.action_filter, "cpus"),
    GeneralCommand("Findings: Filter", "filter", examples(FINDING_FILTER), LiveScreen.action_filter, "findings"),
    GeneralCommand(
        "Devices: Show or hide virtual interfaces",
        "options",
        "bridges, bonds, VLANs, taps, veth links",
        LiveScreen.toggle_virtual,
        "devices",
    ),
    GeneralCommand(
        "Devices: Sort interfaces",
        "sort",
        "by the next column, or click its title",
        partial(LiveScreen.action_sort, step=1),
        "devices",
    ),
    GeneralCommand(
        "Devices: Show packets or bits", "options", "packets/s instead of b/s", LiveScreen.toggle_packets, "devices"
    ),
    GeneralCommand(
        "Devices: Show connections",
        "open",
        "who uses the interface: processes, peers, rates",
        LiveScreen.action_connections,
        "devices",
        "on the open interface",
    ),
    GeneralCommand(
        "Queues: Show or hide idle queues", "options", "queues without packets", LiveScreen.action_options, "queues"
    ),
    GeneralCommand(
        "CPUs: Show or hide all interrupts", "options", "all of /proc/interrupts", LiveScreen.action_options, "cpus"
    ),
    GeneralCommand(
        "Findings: Show or hide skipped checks",
        "options",
        "checks that could not run, and why",
        LiveScreen.toggle_skipped,
        "findings",
    ),
    GeneralCommand(
        "Findings: Show or hide resolved findings",
        "options",
        "findings that are no longer present, with their time",
        LiveScreen.toggle_resolved,
        "findings",
    ),
    GeneralCommand(
        "Hosts: Show or hide virtual interfaces",
        "options",
        "virtual interfaces of all hosts",
        HostsScreen.action_options,
        "hosts",
    ),
    GeneralCommand("Hosts: Filter", "filter", examples(NIC_FILTER), HostsScreen.action_filter, "hosts"),
    GeneralCommand(
        "Hosts: Sort interfaces",
        "sort",
        "by the next column, or click its title",
        partial(HostsScreen.action_sort, step=1),
        "hosts",
    ),
    GeneralCommand("Results: Filter", "filter", examples(RESULT_FILTER), ResultsScreen.action_filter, "results"),
    GeneralCommand(
        "Results: Mark A/B", "mark", "mark two results to compare them", ResultsScreen.action_mark, "results"
    ),
    GeneralCommand(
        "Report: Write report", "record", "HTML page with findings, hosts, interfaces, test results", ask_report
    ),
)
IN_RECORDING = (
    GeneralCommand("Recording: Go to time", "open", "14:03:20, +90 or end", ask_time, pane="on the timeline"),
    GeneralCommand("Recording: Play or pause", "pause", "the playback", FramedScreen.action_pause),
    GeneralCommand("Recording: Faster", "faster", "playback speed", partial(FramedScreen.action_speed, step=1)),
    GeneralCommand("Recording: Slower", "slower", "playback speed", partial(FramedScreen.action_speed, step=-1)),
    GeneralCommand(
        "Recording: Next finding or test", "next", "next in time", partial(FramedScreen.action_next, step=1)
    ),
    GeneralCommand(
        "Recording: Previous finding or test",
        "next-previous",
        "previous in time",
        partial(FramedScreen.action_next, step=-1),
    ),
)
LIVE = (
    GeneralCommand(
        "Hosts: Add, remove or reconnect host", "edit", "change the list of hosts", HostsScreen.action_edit, "hosts"
    ),
    GeneralCommand("Display: Pause or resume", "pause", "data collection continues", FramedScreen.action_pause),
    GeneralCommand(
        "Display: Read more often",
        "faster",
        "shorter interval between readings",
        partial(FramedScreen.action_speed, step=1),
    ),
    GeneralCommand(
        "Display: Read less often",
        "slower",
        "longer interval between readings",
        partial(FramedScreen.action_speed, step=-1),
    ),
    GeneralCommand(
        "Devices: Read inventory again",
        "",
        "interfaces, addresses, profiles, settings",
        lambda screen: screen.nictop.hosts.request(Request(inventory=True)),
    ),
    GeneralCommand(
        "Devices: Show why packets are dropped",
        "options",
        "drop reasons of the kernel, for 10 s; needs root",
        LiveScreen.show_drops,
    ),
    GeneralCommand(
        "Devices: Listen for LLDP",
        "options",
        "find the switch ports; up to 35 s, needs root on the host, sends nothing",
        LiveScreen.listen_for_lldp,
        "devices",
    ),
)
START_RECORDING = GeneralCommand("Recording: Start recording", "record", "record all hosts to a file", toggle_recording)
STOP_RECORDING = GeneralCommand("Recording: Stop recording", "record", "close the file", toggle_recording)
WITHOUT_TEST = (
    GeneralCommand("Traffic: Filter paths", "filter", examples(PATH_FILTER), TrafficScreen.action_filter, "traffic"),
    GeneralCommand(
        "Traffic: Show all options",
        "options",
        "all options of the test, or the common ones",
        TrafficScreen.toggle_everything,
        "traffic",
    ),
    GeneralCommand(
        "Traffic: Test the path",
        "options",
        "ARP, RTT, largest packet, routes and firewalls between two hosts",
        TrafficScreen.test_path,
        "traffic",
    ),
    GeneralCommand(
        "Traffic: Start self-test",
        "options",
        "test the generator on this machine, without other hosts",
        TrafficScreen.start_self_test,
        "traffic",
    ),
)


def _undo_change(screen: FramedScreen) -> None:
    """Unless it was kept, or has ended, while the palette was open; the dialog says what comes of it."""
    progress = screen.nictop.changes.progress
    if progress is not None and (progress.is_applied or progress.stage == "applying"):
        screen.nictop.changes.undo()
    screen.opener.open_change()


def _show_kept_changes(screen: FramedScreen) -> None:
    host = screen.nictop.hosts.chosen
    text = f"nictop logs each change with the commands that undo it. In a shell: nictop changes {host}"
    screen.nictop.notify(text, "Undo a kept change")


OPEN_CHANGE = GeneralCommand(
    "Change: Open the change",
    "fix",
    "its commands and state; keep it or undo it there",
    lambda screen: screen.opener.open_change(),
    pane="on Devices, Queues, Findings",
)
UNDO_CHANGE = GeneralCommand(
    "Change: Undo it now (roll back)", "", "the change that is not confirmed yet", _undo_change
)
UNDO_KEPT = GeneralCommand("Change: Undo a kept change", "", "where its commands are", _show_kept_changes)
PROGRAM = (
    GeneralCommand("Program: Show help", "help", "help of this screen", lambda screen: screen.app.action_help()),
    GeneralCommand("Program: Quit", "quit", "", lambda screen: screen.app.action_quit()),
)
SCREENS: dict[str, type[FramedScreen]] = {"hosts": HostsScreen, "traffic": TrafficScreen, "results": ResultsScreen}
"""View → its screen; of the others it is the live screen."""


def general_commands(nictop: Nictop) -> Iterator[GeneralCommand]:
    """Those that can be carried out now."""
    yield from ALWAYS
    if nictop.replay is not None:
        yield from IN_RECORDING
    else:
        yield from LIVE
        yield STOP_RECORDING if nictop.recording.running else START_RECORDING
        yield from _change_commands(nictop)
        if not nictop.traffic.running:
            yield from WITHOUT_TEST
    yield from PROGRAM


def _change_commands(nictop: Nictop) -> Iterator[GeneralCommand]:
    """What can be done about the change of a host now."""
    progress = nictop.changes.progress
    if progress is not None:
        yield OPEN_CHANGE
        if progress.is_applied or progress.stage == "applying":
            yield UNDO_CHANGE
    yield UNDO_KEPT


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
    """How well the words, in small letters, fit the words of an entry; 0: one of them begins none of these. A whole
    word is better than the beginning of one, a word of the entry better than one of `AREA_ALIASES`."""
    own = WORD_PATTERN.findall(entry.text.casefold())
    aliases = [text for begin, text in AREA_ALIASES.items() if entry.text.startswith(begin)]
    other = WORD_PATTERN.findall(" ".join(aliases))
    score = WORDS_SCORE
    for word in words:
        value = next((value for value, fits in _word_values(word, own, other) if fits), 0.0)
        if not value:
            return 0.0
        score += value
    return score + (VIEW_BONUS if entry.text.startswith("View:") else 0.0)


def _word_values(word: str, own: Sequence[str], other: Sequence[str]) -> Iterator[tuple[float, bool]]:
    """(Value, whether it is that of the word), the best first."""
    yield 1.0, word in own
    yield 0.8, any(one.startswith(word) for one in own)
    yield 0.6, any(one.startswith(word) for one in other)


def _letters(matcher: Matcher, text: str) -> float:
    """How well a text has the letters of what is typed, in their order: below `WORDS_SCORE`, whatever Textual's score
    is."""
    score = matcher.match(text)
    return WORDS_SCORE * score / (1 + score)


class NictopCommands(Provider):
    """Those of the screen from which it was opened, then the others."""

    async def discover(self) -> Hits:
        for command in self._commands():
            if command.is_listed:
                yield DiscoveryHit(self._line(Content(command.text), command), command.run, text=command.text)

    async def search(self, query: str) -> Hits:
        """Entries with the words of `query`, then those whose text has its letters, then those with all words of it in
        their help."""
        matcher, words = self.matcher(query), query.casefold().split()
        for command in self._commands():
            score = match(command, words) or (_letters(matcher, command.text) if command.is_listed else 0.0)
            if score == 0 and all(word in f"{command.text} {command.help}".casefold() for word in words):
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
        return Content.assemble(text, (f"{gap}{glyphs.encode(fit(command.help, room)).rstrip()}", "dim"))

    def _commands(self) -> Iterator[PaletteEntry]:
        screen = self.screen
        if isinstance(screen, FramedScreen):  # not before the first of them is shown
            for text, words, run, is_listed in (
                *self._of_screen(screen),
                *self._views(screen),
                *self._general(screen),
                *_hosts(screen),
                *_themes(screen),
                *_orders(screen),
            ):
                yield PaletteEntry(screen.glyphs.text(text), screen.glyphs.text(words), run, is_listed)

    def _of_screen(self, screen: FramedScreen) -> Iterator[PaletteEntry]:
        """Actions of its keys, without those of the general commands."""
        seen: set[str] = set()
        area = next((tab.label for tab in TABS if tab.name == screen.tab), "")
        areas = () if area == "Traffic" else (area, "Display", "Recording")  # a test has other keys than the form
        known = {
            command.key
            for command in general_commands(screen.nictop)
            if command.text.partition(":")[0] in areas and not command.pane
        }
        for node, binding, enabled, _ in screen.active_bindings.values():
            action = binding.action
            is_own = binding.show and binding.id not in MOVES | known and not action.startswith("app.")
            if enabled and is_own and action not in {*seen, *screen.refused_actions}:
                seen.add(action)
                words = f"{key_label(binding.key)}  {binding.tooltip}"
                yield PaletteEntry(f"{area}: {binding.description}", words, partial(self.app.run_action, action, node))

    def _views(self, screen: FramedScreen) -> Iterator[PaletteEntry]:
        replay = screen.nictop.replay
        for tab in TABS:
            if tab.name == "traffic" and replay is not None and not replay.runs:
                continue
            run = partial(screen.opener.action_view, tab.name)
            yield PaletteEntry(f"View: {tab.label}", f"{shown_key(self.app, tab.name)}  {tab.content}".rstrip(), run)

    def _general(self, screen: FramedScreen) -> Iterator[PaletteEntry]:
        for command in general_commands(screen.nictop):
            key = f"{shown_key(self.app, command.key)} {command.pane}".rstrip() if command.key else ""
            yield PaletteEntry(command.text, f"{key}  {command.help}".strip(), partial(_run, command, screen))


def _orders(screen: FramedScreen) -> Iterator[PaletteEntry]:
    """Each column that devices, or the interfaces of all hosts, can be sorted by; only while something is typed. Those
    of the shown view are the first."""
    tables: list[tuple[str, str, Sequence[Column[Any]]]] = [
        ("Devices", "devices", devices.COLUMNS),
        ("Hosts", "hosts", overview.COLUMNS),
    ]
    tables.sort(key=lambda table: table[1] != screen.tab)
    for area, view, columns in tables:
        for column in columns:
            command = GeneralCommand("", "", "", methodcaller("sort_table", column.key), view)
            run = partial(_run, command, screen)
            yield PaletteEntry(f"{area}: Sort by {column.title}", column.source, run, is_listed=False)


async def _run(command: GeneralCommand, screen: FramedScreen) -> None:
    kind: type[FramedScreen] = FramedScreen
    if command.view:
        kind = SCREENS.get(command.view, LiveScreen)
        await screen.opener.action_view(command.view)
    shown = screen.app.screen
    result = command.action(shown) if isinstance(shown, kind) else None
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
            yield PaletteEntry(f"Interface: Show {link.name} on {host.name}", "in the devices of its host", open_link)


def _themes(screen: FramedScreen) -> Iterator[PaletteEntry]:
    """Those that this terminal can show."""
    opener, current = screen.opener, screen.app.theme
    for name in opener.themes:
        words = "the current one" if name == current else "colours of the screen; kept in config.toml"
        yield PaletteEntry(f"Theme: {name}", words, partial(opener.use_theme, name))


class Palette(WithGlyphs, PrivatePalette):
    """Keys that move in the list do nothing until it is drawn."""

    def __init__(self) -> None:
        super().__init__(placeholder="type words of a command, a view, a host or an interface", id="--command-palette")

    def on_mount(self) -> None:
        self.query_one(CommandList).vertical_scrollbar.renderer = PlainScrollBar  # type: ignore[misc]

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _ignore_when_closed_or_early(self, event: Input.Submitted | OptionList.OptionSelected) -> None:
        """A command was chosen already. While the list is that of an earlier text, the end of the search chooses."""
        if not self.is_current:
            event.stop()
            event.prevent_default()
        elif isinstance(event, Input.Submitted) and event.value.strip() != self.listed_for:
            self.is_enter_due = True
            event.stop()
            event.prevent_default()
