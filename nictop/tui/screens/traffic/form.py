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

import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input

from nictop.errors import NictopError
from nictop.hosts.specification import (
    Configuration,
    configuration_path,
    host_argument,
    read_configuration,
)
from nictop.model.devices.pairs import pairs
from nictop.model.facts import clean, wrap
from nictop.model.snapshot import (
    has_platform,
    is_same_namespace,
    reading_notice,
    unread_links,
)
from nictop.model.text.words import count_noun
from nictop.rules.wording import first_names
from nictop.traffic.plan.plan import EndpointPair, endpoint_pairs
from nictop.traffic.plan.request import BUILTIN_TESTS
from nictop.traffic.plan.unlisted import unlisted_texts
from nictop.tui.filter_help import PATH_FILTER, FilterRows
from nictop.tui.keys import TRAFFIC_KEYS, shown_key
from nictop.tui.screens.dialogs.menu import FollowingMenu, MenuEntry
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.traffic.choice import Choice, RunTools, start_text
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine, with_more
from nictop.tui.widgets.traffic.form import RunForm
from nictop.tui.widgets.traffic.form_fields import labelled, rate_question, test_of
from nictop.tui.widgets.traffic.pair_table import COLUMNS, PairRow, PairTable, pair_rows
from nictop.tui.widgets.traffic.start_lines import SELF_TEST_LABEL, StartLines

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.columns.column import Column
    from nictop.model.devices.subnets import SharedSubnet

FILTER_HINT = "filter: host, NIC, network or address"
RUNNING_ALREADY = "A test is running already"
ALL_OPTIONS_MIN_ROWS = 34
"""Rows of a screen that has room for all options at once."""
SELF_TEST_HINT = "Self-test: both ends on this machine, no NIC involved."
BUILTIN_TEXT = "nictop's own generator on both hosts"
"""Of a test that iperf3 does not have."""
MAX_FACT_ROWS, MIN_ROWS_FOR_FACTS = 6, 16
"""Rows of the text about the chosen pair; of a screen, with fewer of which it has one, so that a
field remains."""


def _are_same(parts: Sequence[object], before: Sequence[object]) -> bool:
    """They are the same objects."""
    return len(parts) == len(before) and all(map(operator.is_, parts, before))


def _outdated_texts(hosts: Iterable[HostSession]) -> Sequence[str]:
    """``vm1: read again in 8 s: values were read before an event (address)``, one for each host
    whose inventory may be of before."""
    texts = [(clean(host.name), reading_notice(host.snapshot)) for host in hosts]
    return tuple(f"{name}: {notice}" for name, notice in texts if notice)


def _why_no_subnet(hosts: Sequence[HostSession], unlisted: str) -> Sequence[str]:
    """What the user can do when hosts that were read have no path. `unlisted`: why their NICs have
    none; "": that is not known."""
    first, *others = hosts
    if all(is_same_namespace(first.snapshot, other.snapshot) for other in others):
        names = first_names([host.name for host in hosts])
        return (f"No test path: {names} report the same boot ID: same machine.", SELF_TEST_HINT)
    # several may have one and the same address in a subnet: user networks of virtual machines
    no_path = "No test path: no two machines have different addresses in the same subnet"
    unread = unread_links(host.snapshot for host in hosts)
    if unread:
        return (f"{no_path} so far; not read yet: {first_names(unread)}.",)
    known = (unlisted,) if unlisted else ()
    outdated = _outdated_texts(hosts)
    if outdated:
        return (f"{no_path}, as they were read last.", *known, *outdated)
    return (
        f"{no_path}.",
        *known,
        "Give both hosts an address in one subnet; or, if routers are between them: nictop traffic "
        "CLIENT SERVER --client-address … --server-address …",
    )


class TrafficScreen(FramedScreen):
    """The first screen of its tab."""

    TAB = "traffic"
    HELD_LISTS = (PairTable,)
    BINDINGS: ClassVar[list[BindingType]] = TRAFFIC_KEYS

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[PairRow, ...] = ()
        self._pairs: tuple[EndpointPair, ...] = ()
        self._subnets: Sequence[SharedSubnet] = ()
        self._links: Sequence[object] = ()
        self._is_outdated = False
        """A host was changed since it was read."""
        self._tools = RunTools()
        self._choice = Choice()
        self._form_error = ""
        """Why it was not started."""
        self._chosen: PairRow | None = None
        """The last pair that was chosen."""
        self._gone: PairRow | None = None
        """It was chosen when it went."""
        self._is_gone_told = False
        """Start was pressed since."""
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
        yield PairTable(id="pairs")
        yield FilterLine(PairTable, FILTER_HINT, id="pair-filter")
        yield LineWidget(id="pair-facts")
        yield RunForm(id="run-form")
        yield StartLines(id="run-command")

    def on_mount(self) -> None:
        self.query_one("#pair-facts").can_focus = False
        self.query_one(PairTable).focus()
        form = self.query_one(RunForm)
        form.border_title = "Options"
        self.nictop.traffic.form_values = form.words = self.nictop.traffic.form_values or form.words
        form.everything = self.app.size.height >= ALL_OPTIONS_MIN_ROWS
        self.subscribe(self.nictop.hosts.changed, self._update)
        self.subscribe(self.nictop.traffic.changed, self._follow_test)
        self._update()

    def open_again(self) -> None:
        """At the list of paths and the first field: what is typed next is not meant for the field
        of the last use."""
        if not self.is_open:
            return  # new: its mount does the same
        form = self.query_one(RunForm)
        form.begin(None)
        form.show(form.problems)
        self.set_focus(self.query_one(PairTable))

    # -------------------------------------------------------------------------------- what is shown

    def _update(self) -> None:
        """Pairs are searched for only when links have changed."""
        if not self.in_sight:
            return
        hosts = self.nictop.hosts.sessions
        links: list[object] = []
        for session in hosts:
            links += (session.name, session.snapshot.links, session.snapshot.state)
        was_outdated, self._is_outdated = self._is_outdated, bool(_outdated_texts(hosts))
        if _are_same(links, self._links):
            if not self._rows or self._is_outdated or was_outdated:
                self._draw()  # what is waited for has its seconds
            return
        self._links = links
        if self.query_one(PairTable).chosen is None:
            self._form_error = ""  # that of another time
        snapshots = {session.name: session.snapshot for session in hosts}
        self._subnets = pairs(tuple(snapshots.values())).subnets
        self._pairs = endpoint_pairs(self._subnets, snapshots.values())
        self._rows = pair_rows(self._pairs, snapshots)
        self._draw()

    def _draw(self) -> None:
        table = self.query_one(PairTable)
        words = self.query_one(FilterLine).value.casefold().split()
        rows = [row for row in self._rows if row.accepts(words)]
        hidden = [row for row in self._rows if row not in rows]
        unlisted = self._unlisted_line(words)
        table.show(rows, self._why_empty(words), hidden, unlisted)
        self._follow_chosen(table.chosen)
        title = "Traffic test"
        if self._rows:
            number = count_noun(len(self._rows), "path")
            is_filtered = len(rows) < len(self._rows)
            title += f": {len(rows)} of {number}" if is_filtered else f": {number}"
        if table.border_title != title:
            table.border_title = title
        self._divide(max(1, len(rows)) + bool(unlisted))
        self._check()

    def _unlisted_line(self, words: Sequence[str] = ()) -> str:
        """``Not listed: vm1 ens256: no IP address; set down · 192.0.2.7: on vm1 ens4 and vm2
        ens4``, of what the filter accepts; "": nothing, or no reason is known."""
        sessions = self.nictop.hosts.sessions
        if len(sessions) < 2:
            return ""
        snapshots = {session.name: session.snapshot for session in sessions}
        texts = unlisted_texts(self._subnets, self._pairs, snapshots)
        accepted = [text for text in texts if all(word in text.casefold() for word in words)]
        return f"Not listed: {' · '.join(accepted)}" if accepted else ""

    def _follow_chosen(self, chosen: PairRow | None) -> None:
        """Note a chosen pair that is gone, until it comes back or the user chooses another one."""
        keys = {row.key for row in self._rows}
        if self._gone is not None and self._gone.key in keys:
            self._gone = None
        if self._rows and self._chosen is not None and self._chosen.key not in keys:
            self._gone, self._is_gone_told = self._chosen, False
            self._chosen = None
        if chosen is not None:
            self._chosen = chosen

    def _gone_text(self) -> str:
        """``vm1:ens224 ↔ vm2:ens224 is gone (vm1 has no ens224 any more); chosen now: vm1:ens256 ↔
        vm2:ens256``; "": it is there."""
        gone, chosen = self._gone, self.query_one(PairTable).chosen
        if gone is None or not self._rows:
            return ""
        instead = "choose a path" if chosen is None else f"chosen now: {clean(chosen.path)}"
        reason = self._why_gone(gone)
        return f"{clean(gone.path)} is gone{f' ({reason})' if reason else ''}; {instead}"

    def _why_gone(self, gone: PairRow) -> str:
        """What is known of its ends; "": they are there."""
        pair, reasons = gone.pair, list[str]()
        for end, nic in ((pair.client, gone.client_nic), (pair.server, gone.server_nic)):
            session = self.nictop.hosts.by_name.get(end.host)
            if session is None:
                reasons.append(f"{clean(end.host)} is not watched any more")
                continue
            link = session.snapshot.links.get(end.ifindex or 0)
            address = end.address.partition("%")[0]
            if link is None:
                reasons.append(f"{clean(end.host)} has no {clean(nic)} any more")
            elif address not in [own.address for own in link.addresses]:
                place = f"{clean(end.host)} {clean(link.name)}"
                reasons.append(f"{place} has no {clean(address)} any more")
        return ", ".join(reasons)

    def _divide(self, rows: int) -> None:
        table = self.query_one(PairTable)
        needed = rows + 1
        if not self._rows:
            needed = 2 * len(self._why_empty(())) + 1
        most = max(3, self.size.height // 3)
        table.take_rows(min(max(2, needed), most) + table.gutter.height)

    def _why_empty(self, words: Sequence[str]) -> Sequence[str]:
        """What the user can do when there is no pair. `words`: of the filter."""
        if self._rows and words:
            return tuple(filter(None, ("No matches", self._unlisted_line(words))))
        hosts = self.nictop.hosts.sessions
        if len(hosts) < 2:
            key, options = shown_key(self.app, "hosts"), shown_key(self.app, "options")
            hint = f"Press {key} to add one, {options} for one without a login."
            return (f"A test needs two hosts. {hint}", SELF_TEST_HINT)
        read = [session for session in hosts if has_platform(session.snapshot)]
        unread = [session for session in hosts if not has_platform(session.snapshot)]
        failed = [session for session in unread if session.snapshot.state in ("lost", "failed")]
        if len(failed) < len(unread):
            return self._why_unread(unread, failed)
        if len(read) < 2:
            missing = self._statuses_of(unread)
            return (f"A test needs two connected hosts; not connected: {missing}.", SELF_TEST_HINT)
        return _why_no_subnet(read, self._unlisted_line())

    def _why_unread(
        self, unread: Sequence[HostSession], failed: Sequence[HostSession]
    ) -> Sequence[str]:
        waiting = [session for session in unread if session not in failed]
        sentence = f"Waiting for {self._statuses_of(waiting)}."
        if not failed:
            return (sentence,)
        return (sentence, f"Not connected: {self._statuses_of(failed)}.")

    def _why_no_path(self) -> str:
        """Whether there is one is not known before all interfaces are read."""
        if self._rows:
            return "no path is chosen"
        if not self.nictop.hosts.several:
            return "a test needs two hosts"
        sessions = self.nictop.hosts.sessions
        unread = [session.name for session in sessions if not has_platform(session.snapshot)]
        if unread:
            return f"inventory of {first_names(unread)} not read yet"
        outdated = _outdated_texts(sessions)
        return f"no test path so far; {'; '.join(outdated)}" if outdated else "no test path"

    def _statuses_of(self, hosts: Sequence[HostSession]) -> str:
        """``vm1 (logging in, 4 s), vm2 (refused, retry in 2 s)``"""
        now, interval = self.nictop.drawn_at(), self.nictop.hosts.interval
        return first_names([f"{host.name} ({host.brief_text(now, interval)})" for host in hosts])

    def _check(self) -> None:
        """Check what the form and the pair make together, and show what is wrong with it."""
        row = self.query_one(PairTable).chosen
        snapshots = {host.name: host.snapshot for host in self.nictop.hosts.sessions}
        form = self.query_one(RunForm)
        self._choice = Choice.of(row, form.words, snapshots, self._tools.known, self._pairs)
        if row is not None:
            form.ends = (clean(row.pair.client.host), clean(row.pair.server.host))
        form.show(self._choice.problems)
        self._draw_command()
        self._draw_facts()
        if row is not None and self.in_sight:
            for name in self._tools.missing((row.pair.client.host, row.pair.server.host)):
                self.run_worker(self._ask_tools(name), group="tools", exit_on_error=False)

    async def _ask_tools(self, name: str) -> None:
        await self._tools.ask(self.nictop.traffic, name)
        if self.is_open:
            self._check()

    def _draw_command(self) -> None:
        """The command line that starts the same as Start; without a path that of Self-test, which
        says so."""
        arguments, words = self._arguments(), self.query_one(RunForm).words
        start = start_text(self._choice, words, self._why_no_path(), self._tools)
        request = self._choice.request
        if request is not None and request.client:
            command = self._choice.command(arguments)
        else:
            command = self._choice.for_self_test(words).command(arguments)
            if command:
                command = f"{SELF_TEST_LABEL}: {command}"
        self.query_one(StartLines).show(command, start)

    def _arguments(self) -> dict[str, str]:
        """Name of a host → what is typed for it."""
        arguments = {}
        for session in self.nictop.hosts.sessions:
            arguments[session.name] = host_argument(session.host, self._configuration)
        return arguments

    def _draw_facts(self) -> None:
        view = self.query_one("#pair-facts", LineWidget)
        cells = max(10, view.scrollable_content_region.width - 2)
        lines: list[SpanLine] = []
        for text, style in self._facts():
            if text:
                lines += [((f" {part}", style),) for part in wrap(self.glyphs.encode(text), cells)]
        most = MAX_FACT_ROWS if self.size.height >= MIN_ROWS_FOR_FACTS else 1
        if len(lines) > most:
            ((text, style),) = lines[most - 1]
            lines = [*lines[: most - 1], ((with_more(text, cells + 1), style),)]
        view.show_lines(lines)
        view.display = bool(lines)
        view.take_rows(max(1, len(lines)) + view.gutter.height)

    def _facts(self) -> Iterator[tuple[str, str]]:
        """(text, style) about the chosen pair and what is wrong beyond the fields."""
        row, words = self.query_one(PairTable).chosen, self.query_one(RunForm).words
        yield self._form_error, "bad"
        gone = self._gone_text()
        if gone not in self._form_error:
            yield gone, "warn"
        for text in self._outdated_ends(row):
            yield text, "warn"
        for complaint in self._choice.complaints:
            yield complaint, "warn"
        if row is not None:
            is_builtin = test_of(words) in BUILTIN_TESTS
            yield BUILTIN_TEXT if is_builtin else self._tools.words(row), "dim"
        beside_the_field = rate_question(words)
        for note in self._choice.notes:
            if note != beside_the_field:
                yield note, "warn"

    def _outdated_ends(self, row: PairRow | None) -> Sequence[str]:
        """Of the hosts of the chosen pair: addresses, NICs and what is said of them may be of
        before."""
        if row is None:
            return ()
        names = (row.pair.client.host, row.pair.server.host)
        return _outdated_texts(host for host in self.nictop.hosts.sessions if host.name in names)

    def on_screen_resume(self) -> None:
        if self.is_open:
            self._update()
            self._check()

    def draw_resized(self) -> None:
        self._draw()

    def on_pair_table_chosen(self) -> None:
        table = self.query_one(PairTable)
        if table.key is not None and table.chosen is not None:  # the user has chosen it
            self._gone, self._chosen = None, table.chosen
        self._form_error = ""
        self._check()

    def on_form_changed(self) -> None:
        self._form_error = ""
        self._check()

    # ----------------------------------------------------------------------------------------- keys

    def action_start(self) -> None:
        """If something is wrong, show that and start nothing."""
        gone = self._gone_text()
        if self.query_one(PairTable).chosen is not None:
            if gone and not self._is_gone_told:
                self._is_gone_told = True
                self._form_error = f"Not started: {gone}. Start again uses it."
                self._draw_facts()
                return
            self._begin(self._choice)
            return
        if gone:
            self._form_error = f"Not started: {gone}"
            self._draw_facts()
            return
        key = self.key_label("pane")
        self._form_error = f"Not started: {self._why_no_path()} ({key}: to the button Self-test)"
        self._draw_facts()

    def _begin(self, choice: Choice) -> None:
        """Start it, or say why it cannot be started."""
        from nictop.tui.screens.traffic.run import RunScreen

        request = choice.request
        is_wrong = bool(choice.problems or choice.complaints)
        if request is None or is_wrong:
            self._form_error = self._why_not_started(choice)
            self._draw_facts()
            return
        self._form_error = ""
        if not self.nictop.traffic.start(request, self_test=choice.is_self_test):
            self._form_error = RUNNING_ALREADY
        # what is typed after the run is no text of a field
        self.set_focus(self.query_one(PairTable))
        self.app.push_screen(RunScreen())

    def _why_not_started(self, choice: Choice) -> str:
        words = self.query_one(RunForm).words
        wrong = [labelled(name, problem, words) for name, problem in choice.problems.items()]
        for complaint in choice.complaints:
            if complaint not in self._choice.complaints:  # those are shown anyway
                wrong.append(complaint)
        return f"Not started: {'; '.join(wrong)}".rstrip()

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
        elif not self.query_one(PairTable).has_focus:
            self.set_focus(self.query_one(PairTable))
        else:
            await super().action_back()

    def action_edit(self) -> None:
        self.set_focus(self.query_one(RunForm))

    def action_options(self) -> None:
        self.app.push_screen(FollowingMenu("Traffic", self._menu_entries))

    def _follow_test(self) -> None:
        """A test has ended, or begun: what the form says of it."""
        if self._form_error == RUNNING_ALREADY and not self.nictop.traffic.running:
            self._form_error = ""
            self._check()

    def _menu_entries(self) -> Sequence[MenuEntry]:
        why_not = ""
        if self.nictop.traffic.running:
            why_not = "a test is running"
        elif self.query_one(PairTable).chosen is None:
            why_not = self._why_no_path()
        path_test = "Test the path (ARP, RTT, MTU, firewall)"
        self_test = "Start a self-test (two ends on this machine, no NIC)"
        return (
            MenuEntry("All options", self.toggle_everything, self.query_one(RunForm).everything),
            MenuEntry(path_test, self.test_path, None, not why_not, why_not),
            MenuEntry(
                f"Measure a command of yours on {clean(self.nictop.hosts.chosen)}",
                self.measure_command,
                None,
                not self.nictop.traffic.running,
                "a test is running",
            ),
            MenuEntry(
                f"Test {clean(self.nictop.hosts.chosen)} against a host without a login",
                self.test_foreign,
                None,
                not self.nictop.traffic.running,
                "a test is running",
            ),
            MenuEntry(self_test, self.start_self_test),
        )

    def measure_command(self) -> None:
        """Ask for a command, and run it on the shown host."""
        from nictop.tui.screens.traffic.command import ask_command

        if self.nictop.traffic.running:
            self.nictop.notify("A test is running.", "Measure a command")
            return
        ask_command(self, self.nictop.hosts.chosen, self._arguments())

    def test_foreign(self) -> None:
        """Ask for the address of a host that nictop cannot log in to, and test the shown host
        against it, with the options of the form."""
        from nictop.tui.screens.traffic.foreign import ForeignScreen

        if self.nictop.traffic.running:
            self.nictop.notify("A test is running.", "Test")
            return
        words = dict(self.query_one(RunForm).words)
        self.app.push_screen(ForeignScreen(self.nictop.hosts.chosen, words, self._arguments()))

    def test_path(self) -> None:
        """Test the chosen path without traffic."""
        from nictop.tui.screens.traffic.path_test import PathTestScreen

        row = self.query_one(PairTable).chosen
        if row is None:
            self.nictop.notify(f"Not tested: {self._why_no_path()}.", "Test the path")
            return
        self.app.push_screen(PathTestScreen(row.pair))

    def toggle_everything(self) -> None:
        form = self.query_one(RunForm)
        form.everything = not form.everything
        form.show(form.problems)

    def action_filter(self) -> None:
        self.query_one(FilterLine).begin()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._draw()
