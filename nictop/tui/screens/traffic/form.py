"""A traffic test: its path, its options, and the command line that starts the same.

╭ Traffic test: 2 paths ─────────────────────────────────────────────────────╮
│ PATH                      NETWORK       SPEED  DIFFERS                     │
│▸vm1:ens224 ↔ vm2:ens224   192.0.2.0/24  10G                                │
╰────────────────────────────────────────────────────────────────────────────╯
 vm1: iperf3 3.12 · vm2: iperf3 3.18
  test          ◂ bulk ▸           full speed: goodput
  direction     ◂ client → server ▸  vm1 sends, vm2 receives
  seconds       10                   measured seconds (-t)
 = nictop traffic vm1 vm2
 [ Start ]  [ Self-test ]

Nothing is started while an error is known; it is shown beside its field, or above the form.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input

from nictop.errors import NictopError
from nictop.hosts.specification import Configuration, configuration_path, host_argument, read_configuration
from nictop.model.devices.pairs import pairs
from nictop.model.facts import clean, fit, wrap
from nictop.model.snapshot import has_platform, is_same_machine
from nictop.model.text.words import count_noun
from nictop.traffic.plan.plan import EndpointPair, endpoint_pairs
from nictop.traffic.plan.request import BUILTIN_TESTS
from nictop.tui.filter_help import PATH_FILTER, FilterRows
from nictop.tui.keys import TRAFFIC_KEYS, shown_key
from nictop.tui.screens.dialogs.menu import MenuEntry, MenuScreen
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.traffic.choice import Choice, RunTools, start_text
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.base.line_view import LineView, SpanLine
from nictop.tui.widgets.traffic.form import RunForm
from nictop.tui.widgets.traffic.form_fields import labelled, rate_question, test_of
from nictop.tui.widgets.traffic.pair_table import COLUMNS, OfferRow, OfferTable, offer_rows
from nictop.tui.widgets.traffic.start_lines import SELF_TEST_LABEL, StartLines

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.columns.column import Column

FILTER_HINT = "filter: host, NIC, network or address"
ALL_OPTIONS_MIN_ROWS = 34
"""Rows of a screen that has room for all options at once."""
SELF_TEST_HINT = "Self-test: both ends on this machine, no NIC involved."
BUILTIN_TEXT = "nictop's own generator on both hosts"
"""Of a test that iperf3 does not have."""
MAX_NAMES = 5
"""Of hosts in a sentence."""
MAX_FACT_ROWS, MIN_ROWS_FOR_FACTS = 6, 16
"""Rows of the text about the chosen pair; of a screen, with fewer of which it has one, so that a field remains."""


class TrafficScreen(FramedScreen):
    """The first screen of its tab."""

    TAB = "traffic"
    BINDINGS: ClassVar[list[BindingType]] = TRAFFIC_KEYS

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[OfferRow, ...] = ()
        self._pairs: tuple[EndpointPair, ...] = ()
        self._links: tuple[object, ...] = ()
        self._tools = RunTools()
        self._choice = Choice()
        self._form_error = ""
        """Why it was not started."""
        try:
            self._configuration = read_configuration(configuration_path(os.environ))
        except NictopError:
            self._configuration = Configuration()

    @property
    def tables(self) -> Mapping[str, Sequence[Column[Any]]]:
        return {"": COLUMNS}

    @property
    def filter_rows(self) -> FilterRows:
        return PATH_FILTER

    def compose_body(self) -> Iterable[Widget]:
        yield OfferTable(id="offers")
        yield FilterLine(OfferTable, FILTER_HINT, id="offer-filter")
        yield LineView(id="offer-facts")
        yield RunForm(id="run-form")
        yield StartLines(id="run-command")

    def on_mount(self) -> None:
        self.query_one("#offer-facts").can_focus = False
        self.query_one(OfferTable).focus()
        form = self.query_one(RunForm)
        form.border_title = "Options"
        self.nictop.traffic.form_values = form.words = self.nictop.traffic.form_values or form.words
        form.everything = self.app.size.height >= ALL_OPTIONS_MIN_ROWS
        self.subscribe(self.nictop.hosts.changed, self._update)
        self._update()

    def open_again(self) -> None:
        """At the list of paths and the first field: what is typed next is not meant for the field of the last use."""
        if not self.is_open:
            return  # new: its mount does the same
        form = self.query_one(RunForm)
        form.begin(None)
        form.show(form.problems)
        self.set_focus(self.query_one(OfferTable))

    # ------------------------------------------------------------------------------------------ what is shown

    def _update(self) -> None:
        """Pairs are searched for only when links have changed."""
        if not self.in_sight:
            return
        hosts = self.nictop.hosts.sessions
        links = tuple(part for one in hosts for part in (one.name, one.snapshot.links, one.snapshot.state))
        if len(links) == len(self._links) and all(a is b for a, b in zip(links, self._links, strict=True)):
            if not self._rows:
                self._draw()  # what is waited for has its seconds
            return
        self._links = links
        snapshots = {one.name: one.snapshot for one in hosts}
        self._pairs = endpoint_pairs(pairs(tuple(snapshots.values())).subnets, snapshots.values())
        self._rows = offer_rows(self._pairs, snapshots)
        self._draw()

    def _draw(self) -> None:
        table = self.query_one(OfferTable)
        words = self.query_one(FilterLine).value.casefold().split()
        rows = [row for row in self._rows if row.accepts(words)]
        table.show(rows, self._why_empty(bool(words)))
        number = count_noun(len(self._rows), "path")
        number = number if len(rows) == len(self._rows) else f"{len(rows)} of {number}"
        title = f"Traffic test: {number}" if self._rows else "Traffic test"
        if table.border_title != title:
            table.border_title = title
        self._divide(len(rows))
        self._check()

    def _divide(self, rows: int) -> None:
        table = self.query_one(OfferTable)
        needed = max(2, rows + 1 if self._rows else 2 * len(self._why_empty(False)) + 1)
        table.take_rows(min(needed, max(3, self.size.height // 3)) + table.gutter.height)

    def _why_empty(self, filtered: bool) -> Sequence[str]:
        """What the user can do when there is no pair."""
        if self._rows and filtered:
            return ("No matches",)
        hosts = self.nictop.hosts.sessions
        if len(hosts) < 2:
            return (f"A test needs two hosts. Press {shown_key(self.app, 'hosts')} to add one.", SELF_TEST_HINT)
        unknown = [one for one in hosts if not has_platform(one.snapshot)]
        waiting = [one for one in unknown if one.snapshot.state not in ("lost", "failed")]
        if waiting:
            failed = [one for one in unknown if one not in waiting]
            sentence = f"Waiting for {self._statuses_of(waiting)}."
            return (sentence, f"Not connected: {self._statuses_of(failed)}.") if failed else (sentence,)
        hosts = tuple(one for one in hosts if one not in unknown)
        if len(hosts) < 2:
            return (
                f"A test needs two connected hosts; not connected: {self._statuses_of(unknown)}.",
                SELF_TEST_HINT,
            )
        no_path = "No test path: no two hosts have unique addresses in the same subnet"
        if all(is_same_machine(hosts[0].snapshot, one.snapshot) for one in hosts[1:]):
            names = " and ".join(one.name for one in hosts[:MAX_NAMES])
            return (f"{no_path} ({names} report the same boot ID: same machine).", SELF_TEST_HINT)
        return (
            f"{no_path}.",
            "Across routers: nictop traffic CLIENT SERVER --client-address … --server-address …",
        )

    def _why_no_path(self) -> str:
        """Whether there is one is not known before all interfaces are read."""
        if self._rows:
            return "no path is chosen"
        unread = [clean(one.name) for one in self.nictop.hosts.sessions if not has_platform(one.snapshot)]
        return f"interfaces of {', '.join(unread[:MAX_NAMES])} are not read yet" if unread else "no test path"

    def _statuses_of(self, hosts: Sequence[HostSession]) -> str:
        """``vm1 (logging in, 4 s), vm2 (refused, retry in 2 s)``"""
        now, interval = self.nictop.now(), self.nictop.hosts.interval
        return ", ".join(f"{one.name} ({one.brief_text(now, interval)})" for one in hosts[:MAX_NAMES])

    def _check(self) -> None:
        """Check what the form and the pair make together, and show what is wrong with it."""
        row = self.query_one(OfferTable).chosen
        snapshots = {one.name: one.snapshot for one in self.nictop.hosts.sessions}
        form = self.query_one(RunForm)
        self._choice = Choice.of(row, form.words, snapshots, self._tools.known, self._pairs)
        if row is not None:
            form.ends = (clean(row.offer.client.host), clean(row.offer.server.host))
        form.show(self._choice.problems)
        self._draw_command()
        self._draw_facts()
        if row is not None and self.in_sight:
            for name in self._tools.missing((row.offer.client.host, row.offer.server.host)):
                self.run_worker(self._ask_tools(name), group="tools", exit_on_error=False)

    async def _ask_tools(self, name: str) -> None:
        await self._tools.ask(self.nictop.traffic, name)
        if self.is_open:
            self._check()

    def _draw_command(self) -> None:
        """The command line that starts the same as Start; without a path that of Self-test, which says so."""
        arguments, words = self._arguments(), self.query_one(RunForm).words
        start = start_text(self._choice, words, self._why_no_path(), self._tools)
        if self._choice.request is not None and self._choice.request.client:
            self.query_one(StartLines).show(self._choice.command(arguments), start)
            return
        command = self._choice.for_self_test(words).command(arguments)
        self.query_one(StartLines).show(f"{SELF_TEST_LABEL}: {command}" if command else "", start)

    def _arguments(self) -> dict[str, str]:
        """Name of a host → what is typed for it."""
        sessions = self.nictop.hosts.sessions
        return {one.name: host_argument(one.host, self._configuration) for one in sessions}

    def _draw_facts(self) -> None:
        view, row = self.query_one("#offer-facts", LineView), self.query_one(OfferTable).chosen
        cells = max(10, view.scrollable_content_region.width - 2)
        facts: list[tuple[str, str]] = [(self._form_error, "bad")] if self._form_error else []
        facts += [(complaint, "warn") for complaint in self._choice.complaints]
        if row is not None:
            is_builtin = test_of(self.query_one(RunForm).words) in BUILTIN_TESTS
            facts += [(BUILTIN_TEXT if is_builtin else self._tools.words(row), "dim")]
        beside = rate_question(self.query_one(RunForm).words)
        facts += [(note, "warn") for note in self._choice.notes if note != beside]
        lines: list[SpanLine] = []
        for text, style in facts:
            lines += [((f" {part}", style),) for part in wrap(self.glyphs.encode(text), cells)] if text else []
        most = MAX_FACT_ROWS if self.size.height >= MIN_ROWS_FOR_FACTS else 1
        if len(lines) > most:
            ((text, style),) = lines[most - 1]
            lines = [*lines[: most - 1], ((f"{fit(text, cells - 1).rstrip()} …", style),)]
        view.show_lines(lines)
        view.display = bool(lines)
        view.take_rows(max(1, len(lines)) + view.gutter.height)

    def on_screen_resume(self) -> None:
        if self.is_open:
            self._update()
            self._check()

    def draw_resized(self) -> None:
        self._draw()

    def on_offer_table_chosen(self) -> None:
        self._form_error = ""
        self._check()

    def on_form_changed(self) -> None:
        self._form_error = ""
        self._check()

    # -------------------------------------------------------------------------------------------------- keys

    def action_start(self) -> None:
        """If something is wrong, show that and start nothing."""
        row = self.query_one(OfferTable).chosen
        if row is None:
            self._form_error = f"Not started: {self._why_no_path()} (Tab: to the button Self-test)"
            self._draw_facts()
        else:
            self._begin(self._choice)

    def _begin(self, choice: Choice) -> None:
        """Start it, or say why it cannot be started."""
        from nictop.tui.screens.traffic.run import RunScreen

        request, self_test, words = choice.request, choice.is_self_test, self.query_one(RunForm).words
        if choice.problems or choice.complaints or request is None:
            wrong = [labelled(name, complaint, words) for name, complaint in choice.problems.items()]
            wrong += [one for one in choice.complaints if one not in self._choice.complaints]  # those are shown anyway
            self._form_error = f"Not started: {'; '.join(wrong)}" if wrong else "Not started:"
            self._draw_facts()
            return
        self._form_error = ""
        if not self.nictop.traffic.start(request, self_test=self_test):
            self._form_error = "A test is running already"
        self.set_focus(self.query_one(OfferTable))  # what is typed after the run is no text of a field
        self.app.push_screen(RunScreen())

    def on_start_lines_pressed(self, event: StartLines.Pressed) -> None:
        if event.self_test:
            self.start_self_test()
        else:
            self.action_start()

    def start_self_test(self) -> None:
        """Start a self-test with the options of the form."""
        self._begin(self._choice.for_self_test(self.query_one(RunForm).words))

    async def action_back(self) -> None:
        entry = self.query_one(FilterLine)
        if entry.display:
            entry.action_end_filter()
        elif not self.query_one(OfferTable).has_focus:
            self.set_focus(self.query_one(OfferTable))
        else:
            await super().action_back()

    def action_edit(self) -> None:
        self.set_focus(self.query_one(RunForm))

    def action_options(self) -> None:
        why_not = "" if self.query_one(OfferTable).chosen is not None else self._why_no_path()
        why_not = "a test is running" if self.nictop.traffic.running else why_not
        entries = (
            MenuEntry("All options", self.toggle_everything, self.query_one(RunForm).everything),
            MenuEntry("Test the path (ARP, RTT, MTU, firewall)", self.test_path, None, not why_not, why_not),
            MenuEntry("Start a self-test (two ends on this machine, no NIC)", self.start_self_test),
        )
        self.app.push_screen(MenuScreen("Traffic", entries))

    def test_path(self) -> None:
        """Test the chosen path without traffic."""
        from nictop.tui.screens.traffic.path_test import PathTestScreen

        row = self.query_one(OfferTable).chosen
        if row is not None:
            self.app.push_screen(PathTestScreen(row.offer))

    def toggle_everything(self) -> None:
        form = self.query_one(RunForm)
        form.everything = not form.everything
        form.show(form.problems)

    def action_filter(self) -> None:
        self.query_one(FilterLine).begin()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._draw()
