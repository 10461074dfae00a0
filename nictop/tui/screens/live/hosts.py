"""The watched hosts: the status of each, why it is not live, a line to add one; below them every
NIC of all of them, or the guests of the chosen one.

   HOST    STATE                 RIGHTS   ADDRESS
 ● vm1     live                  root     root@127.0.0.1:2221
 ◌ pve     reconnecting in 4 s   –        pve
── pve ───────────────────────────────────────────────────────
 why      pve port 22: connection refused
 HOST      NAME    LINK   …
 vm1       ens192  ↑ 10G
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input

from nictop.hosts.guests import running_guests
from nictop.model.columns.guests import COLUMNS as GUEST_COLUMNS
from nictop.model.columns.overview import COLUMNS as NIC_COLUMNS
from nictop.model.devices.netdevs import End
from nictop.model.devices.pairs import pairs
from nictop.model.guests.owners import guest_text
from nictop.model.guests.table import (
    GuestRow,
    guest_counts,
    hosted_guests,
    why_guests_are_missing,
)
from nictop.model.text.terminal import clean
from nictop.model.text.words import count_noun
from nictop.traffic.plan.plan import EndpointPair, endpoint_pairs
from nictop.tui.filter_help import NIC_FILTER, FilterRows
from nictop.tui.keys import HOSTS_KEYS
from nictop.tui.screens.dialogs.menu import FollowingMenu, MenuEntry
from nictop.tui.screens.frame import FramedScreen, MeasuredSubject
from nictop.tui.screens.traffic.path_test import PathTestScreen
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine, wrapped_lines
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.devices.guest_table import GuestTable
from nictop.tui.widgets.devices.guests import GuestPane
from nictop.tui.widgets.devices.overview import OverviewPane
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.tui.widgets.status.host_table import COLUMNS, DrawTime, HostTable, draw_host

if TYPE_CHECKING:
    from nictop.model.columns.column import Column
    from nictop.model.devices.overview import NicRow
    from nictop.probe.records import HostedGuest

ADD_HOST_HINT = (
    "a host to add: [label=][user@]host[:port], local, or a name of ~/.ssh/config or config.toml"
)
MAX_PATH_ENTRIES = 4
"""In the menu of an interface."""
MIN_OVERVIEW_ROWS = 6
"""Of the interfaces below the hosts."""


class HostFactLines(LineWidget):
    """`draw_host` of the chosen host."""

    marks_more = True

    @property
    def more_key(self) -> str:
        key = super().more_key
        if self.has_focus:
            return key
        return f"{self.key_label('pane')} {key}"


class HostsScreen(FramedScreen):
    """Changes take effect at once."""

    TAB = "hosts"
    HELD_LISTS = (OverviewTable,)
    BINDINGS: ClassVar[list[BindingType]] = HOSTS_KEYS

    @property
    def tables(self) -> Mapping[str, Sequence[Column[Any]]]:
        return {"hosts": COLUMNS, "interfaces": NIC_COLUMNS, "guests": GUEST_COLUMNS}

    @property
    def sorted_tables(self) -> Collection[str]:
        return ("guests",) if self._shows_guests else ("interfaces",)

    @property
    def filter_rows(self) -> FilterRows:
        return NIC_FILTER

    def sort_table(self, column: str) -> None:
        self._table.sort_first(column)

    def sort_interfaces(self, column: str) -> None:
        """Of the interfaces, whatever is shown below the hosts."""
        if self._shows_guests:
            self._show_guests(False)
        self.sort_table(column)

    def compose_body(self) -> Iterable[Widget]:
        yield HostTable(id="host-table")
        yield HostFactLines(id="host-facts")
        yield LineWidget(id="host-complaint")
        yield TextInput(placeholder=ADD_HOST_HINT, id="host-entry")
        yield OverviewPane(id="overview")
        yield GuestPane(id="guest-pane")

    def on_mount(self) -> None:
        self.query_one("#host-complaint").can_focus = False
        self.query_one(HostTable).border_title = "Hosts"
        self.query_one(HostTable).focus()
        self._show_complaint("")
        self._entry.display = False
        self.query_one(GuestPane).display = False
        self._due = False
        self.subscribe(self.nictop.hosts.changed, self._update_soon)
        self.subscribe(self.nictop.diagnosis.changed, self._update_soon)
        self.subscribe(self.nictop.display.changed, self._update_soon)
        self._update()

    @property
    def _entry(self) -> TextInput:
        return self.query_one("#host-entry", TextInput)

    # -------------------------------------------------------------------------------- what is shown

    def _update_soon(self) -> None:
        """One redraw for all that is new; nothing while the display is paused."""
        is_paused = self.nictop.display.paused and self.nictop.replay is None
        if self._due or is_paused or not self.in_sight:
            return
        self._due = True
        self.call_after_refresh(self._update)

    def _update(self) -> None:
        self._due = False
        table, hosts = self.query_one(HostTable), self.nictop.hosts.sessions
        diagnosis = self.nictop.display.diagnosis
        table.show(hosts, self.nictop.hosts.chosen, self._draw_time(), diagnosis)
        table.take_rows(max(2, min(len(hosts) + 1, self.size.height // 3)) + table.gutter.height)
        self._draw_facts()
        self._draw_overview()

    def _draw_overview(self) -> None:
        if self._shows_guests:
            self._draw_guests()
            return
        hosts, display = self.nictop.hosts.sessions, self.nictop.display
        snapshots = [display.snapshot(host) for host in hosts]
        moment = self._draw_time()
        view = self.query_one(OverviewPane)
        view.guests = guest_counts(self._guests_of_chosen())
        view.show(hosts, snapshots, display.diagnosis, moment.here.monotonic, moment.interval)

    def _draw_guests(self) -> None:
        host = self.query_one(HostTable).chosen
        if host is not None:
            snapshot = self.nictop.display.snapshot(host)
            self.query_one(GuestPane).show(snapshot, self._watched_text)

    def _watched_text(self, row: GuestRow) -> tuple[str, str]:
        """(text, style): as which host a guest is watched, and what its connection says; "": it is
        not, or the name says it."""
        name = self.nictop.hosts.name_of_guest(row.snapshot.host, row.guest)
        session = self.nictop.hosts.by_name.get(name)
        if session is None:
            return "", ""
        text = f"watched as {name}"
        if session.is_unreachable and session.snapshot.message:
            return f"{text}: {session.snapshot.message}", "warn"
        return text, ""

    def _guests_of_chosen(self) -> Sequence[HostedGuest]:
        host = self.query_one(HostTable).chosen
        if host is None:
            return ()
        return hosted_guests(self.nictop.display.snapshot(host))

    @property
    def _shows_guests(self) -> bool:
        """In place of the interfaces."""
        return bool(self.query_one(GuestPane).display)

    @property
    def _table(self) -> OverviewTable | GuestTable:
        """The one below the hosts."""
        if self._shows_guests:
            return self.query_one(GuestTable)
        return self.query_one(OverviewTable)

    @property
    def _filter(self) -> FilterLine:
        """Of that table."""
        pane = self.query_one(GuestPane if self._shows_guests else OverviewPane)
        return pane.query_one(FilterLine)

    def _draw_time(self) -> DrawTime:
        return DrawTime(self.nictop.drawn_here(), self.nictop.hosts.interval)

    def _draw_facts(self) -> None:
        host, view = self.query_one(HostTable).chosen, self.query_one("#host-facts", LineWidget)
        if host is None:
            return
        cells = view.scrollable_content_region.width
        lines = draw_host(host, self._draw_time(), cells, glyphs=self.glyphs, labels=self.key_label)
        guest = self._guest_text(host.name)
        if guest:
            lines += wrapped_lines(self.glyphs.text(guest), max(10, cells - 2), "")
        room = self.size.height - self.query_one(HostTable).size.height - MIN_OVERVIEW_ROWS - 6
        view.take_rows(max(1, min(len(lines), room)) + view.gutter.height)
        view.show_lines(lines)
        title = self.glyphs.text(host.name).replace("[", r"\[")
        if view.border_title != title:
            view.border_title = title

    def _guest_text(self, name: str) -> str:
        """``VM web1 of pve, by its MAC addresses``; "": of no watched host, as far as is known."""
        for match in self.nictop.hosts.watched_guests():
            if match.name == name:
                what = guest_text(match.guest.name, match.guest.kind)
                return clean(f"{what} of {match.hypervisor}, by its MAC addresses")
        return ""

    def _show_complaint(self, text: str) -> None:
        """ "": there is none."""
        view = self.query_one("#host-complaint", LineWidget)
        lines: list[SpanLine] = []
        if text:
            lines = wrapped_lines(text, max(10, self.size.width - 2), "warn")
        view.show_lines(lines)
        view.display = bool(lines)
        view.take_rows(max(1, min(3, len(lines))))

    def draw_resized(self) -> None:
        self._update()

    def on_screen_resume(self) -> None:
        if self.is_open:
            self._update()

    def on_host_table_chosen(self) -> None:
        self.query_one("#host-facts", LineWidget).scroll_to(y=0, animate=False)
        self._draw_facts()
        self._draw_overview()

    # ----------------------------------------------------------------------------------------- keys

    async def on_host_table_opened(self) -> None:
        await self.action_open()

    async def on_overview_table_opened(self) -> None:
        await self.action_open()

    async def on_guest_table_opened(self) -> None:
        await self.action_open()

    async def action_open(self) -> None:
        """The devices of the chosen host; of an interface, that one among them. A guest is watched;
        its devices, if it is already."""
        host, guest = self.query_one(HostTable).chosen, self._guest
        if guest is not None:
            await self._open_guest(guest)
        elif self._row is not None:
            await self.opener.open_link(self._row.end.host, self._row.end.ifindex)
        elif host is not None:
            self.nictop.hosts.choose(host.name)
            await self.opener.action_view("devices")

    async def _open_guest(self, row: GuestRow) -> None:
        name = row.snapshot.host
        watched = self.nictop.hosts.name_of_guest(name, row.guest)
        if watched:
            self.nictop.hosts.choose(watched)
            await self.opener.action_view("devices")
        elif not self.refuses_recording():
            self._watch_guest(row)

    def _watch_guest(self, row: GuestRow) -> None:
        complaint = f"{row.text} is stopped"
        if not row.is_stopped:
            complaint = self.nictop.hosts.watch_guests(row.snapshot.host, [row.guest])
        self._show_complaint(complaint)

    def action_watch_guests(self) -> None:
        """Of the chosen host, all that run and can be reached."""
        host = self.query_one(HostTable).chosen
        if host is None or self.refuses_recording():
            return
        guests = running_guests(self._guests_of_chosen())
        if guests:
            complaint = self.nictop.hosts.watch_guests(host.name, guests)
        else:
            why = why_guests_are_missing(self.nictop.display.snapshot(host))
            complaint = f"no guest of {host.name} that runs can be watched"
            if why is not None:
                complaint = f"the guests of {host.name} are not known: {why}"
        self._show_complaint(self.glyphs.text(complaint))

    async def action_back(self) -> None:
        entry = self._filter
        if self._entry.display:
            self._end_entry()
        elif entry.display:
            entry.action_end_filter()
        else:
            await super().action_back()

    def action_options(self) -> None:
        """In turn: interfaces with a device, all of them, and the guests of the chosen host, if it
        has any."""
        overview, table = self.query_one(OverviewPane), self._table
        before = table.lines
        if self._shows_guests or not (overview.virtual and self._guests_of_chosen()):
            overview.virtual = not overview.virtual and not self._shows_guests
            self._show_guests(False)
        else:
            self._show_guests(True)
        if self._table is table and table.lines == before:
            state = "shown" if overview.virtual else "hidden"
            changes = "that changes nothing that is shown now"
            self.nictop.notify(f"Virtual interfaces are {state}; {changes}.", "View")

    def action_guests(self) -> None:
        """The guests of the chosen host, or the interfaces again."""
        self._show_guests(not self._shows_guests)

    def _show_guests(self, shown: bool) -> None:
        """The table that takes the place of the other one has the focus, if that had it."""
        guests, overview = self.query_one(GuestPane), self.query_one(OverviewPane)
        if shown != self._shows_guests:
            had_focus = overview.has_focus_within or guests.has_focus_within
            guests.display, overview.display = shown, not shown
            if had_focus:
                self.set_focus(self._table)
        self._draw_overview()

    def action_filter(self) -> None:
        self._filter.begin()

    def action_sort(self, step: int) -> None:
        self._table.action_sort(step)

    def action_reverse(self) -> None:
        self._table.action_reverse()
        self.say_if_usual(self._table.order)

    def action_mark(self) -> None:
        """The chosen interface, if the list of them has the focus; else the chosen host."""
        row, host = self._row, self.query_one(HostTable).chosen
        if row is not None and row.link is not None:
            self.mark(row.end.host, row.link.name)
        elif host is not None:
            self.mark(host.name, "")

    def action_edit(self) -> None:
        """What can be done to the list of hosts."""
        if self.refuses_recording():
            return
        host = self.query_one(HostTable).chosen
        name = host.name if host is not None else ""
        entries = partial(self._edit_entries, name, self._row, self._guest)
        self.app.push_screen(FollowingMenu("Hosts", entries))

    def _edit_entries(
        self, name: str, row: NicRow | None, guest: GuestRow | None
    ) -> Sequence[MenuEntry]:
        """`name`: of the chosen host; `row` and `guest`: the chosen interface, or NIC of a
        guest."""
        entries = [
            MenuEntry("Add host…", self._add_host),
            MenuEntry(f"Reconnect {name}", self._reconnect_host),
            MenuEntry(
                f"Remove {name}",
                self._remove_host,
                enabled=self.nictop.hosts.several,
                why_not="The last host stays: add another one first",
            ),
            *self._guest_entries(name, guest),
        ]
        if row is not None and self._has_link(row.end):
            assert row.link is not None
            words = "Set up" if self.nictop.changes.allowed(row.end.host) else "Show set-up of"
            label = f"{words} {row.end.host} {row.link.name}…"
            entries.append(MenuEntry(label, partial(self._set_up, row.end)))
            entries += self._path_entries(row.end)
        return entries

    def _has_link(self, end: End) -> bool:
        session = self.nictop.hosts.by_name.get(end.host)
        return session is not None and end.ifindex in session.snapshot.links

    def _guest_entries(self, name: str, guest: GuestRow | None) -> Iterator[MenuEntry]:
        """Of the guests of the chosen host, whose name is given, and of the chosen guest."""
        guests = running_guests(self._guests_of_chosen())
        if guests:
            number = " and ".join(guest_counts(guests))
            yield MenuEntry(f"Watch {number} of {name}", self.action_watch_guests)
        asked = [one for one in guests if one.product == "qemu"]
        if asked:
            label = f"Ask {count_noun(len(asked), 'guest agent')} of {name}"
            yield MenuEntry(label, self._ask_agents)
        if guest is None:
            return
        yield self._measure_entry(guest)
        if guest.shown_link is not None:
            label = f"Show {guest.shown_link.name}, of {guest.text}"
            yield MenuEntry(label, partial(self._show_link, guest))

    def _ask_agents(self) -> None:
        """For system, CPUs and addresses: also of guests that cannot be watched."""
        host = self.query_one(HostTable).chosen
        if host is not None:
            self._show_complaint("")
            self.nictop.hosts.ask_agents(host.name, self.nictop.notify)

    def _path_entries(self, end: End) -> list[MenuEntry]:
        """Path tests from a NIC."""
        snapshots = [session.snapshot for session in self.nictop.hosts.sessions]
        found = endpoint_pairs(pairs(tuple(snapshots)).subnets, snapshots)
        own = [pair for pair in found if (pair.client.host, pair.client.ifindex) == end]
        why_not = "a test is running" if self.nictop.traffic.running else ""
        entries: list[MenuEntry] = []
        for pair in own[:MAX_PATH_ENTRIES]:
            label = f"Test the path to {self._server_text(pair)}"
            test = partial(self._test_path, pair)
            entries.append(MenuEntry(label, test, None, not why_not, why_not))
        return entries

    def _server_text(self, pair: EndpointPair) -> str:
        """``vm2 ens3``; with the address where the NIC is not known."""
        host = self.nictop.hosts.by_name[pair.server.host]
        link = host.snapshot.links.get(pair.server.ifindex or 0)
        nic = pair.server.address if link is None else link.name
        return f"{pair.server.host} {nic}"

    def _test_path(self, pair: EndpointPair) -> None:
        self.app.push_screen(PathTestScreen(pair))

    def _set_up(self, end: End) -> None:
        self.opener.open_set_up(end.host, end.ifindex)

    def _measure_entry(self, guest: GuestRow) -> MenuEntry:
        label = f"Measure what {guest.text} sends and receives ({self.key_label('measure')})"
        is_free = not self.nictop.traffic.running
        begin = partial(self.run_action, "app.measure")
        return MenuEntry(label, begin, None, is_free, "a test is running")

    async def _show_link(self, row: GuestRow) -> None:
        """Its tap, the physical function of its VF, or the link below its macvlan."""
        if row.shown_link is not None:
            await self.opener.open_link(row.snapshot.host, row.shown_link.ifindex)

    @property
    def _guest(self) -> GuestRow | None:
        """The chosen NIC of a guest, if the list of them has the focus."""
        guests = self.query_one(GuestPane)
        return guests.chosen if guests.has_focus_within else None

    @property
    def _row(self) -> NicRow | None:
        """The chosen interface, if the list of them has the focus."""
        overview = self.query_one(OverviewPane)
        if not overview.has_focus_within:
            return None
        return overview.chosen

    @property
    def measured(self) -> MeasuredSubject | None:
        """The chosen NIC of a guest, the chosen interface, or the chosen host."""
        guest, row, host = self._guest, self._row, self.query_one(HostTable).chosen
        if guest is not None:
            link = guest.shown_link
            nic = "" if link is None else link.name
            return MeasuredSubject(guest.snapshot.host, nic, guest.guest.name)
        if row is not None and row.link is not None:
            return MeasuredSubject(row.end.host, row.link.name)
        return None if host is None else MeasuredSubject(host.name)

    def _add_host(self) -> None:
        """Ask for a host in a line."""
        self._show_complaint("")
        self._entry.display = True
        self.set_focus(self._entry)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """An invalid host stays in the line, to be corrected."""
        event.stop()
        if not event.value.strip():
            self._end_entry()
            return
        complaint = self.nictop.hosts.add(event.value)
        self._show_complaint(complaint)
        if not complaint:
            self._end_entry()

    def _end_entry(self) -> None:
        self._show_complaint("")
        self._entry.value, self._entry.display = "", False
        self.set_focus(self.query_one(HostTable))

    def _remove_host(self) -> None:
        """Watch the chosen host no longer."""
        host = self.query_one(HostTable).chosen
        if host is not None and self.nictop.hosts.several:
            self._show_complaint("")
            self.nictop.hosts.remove(host.name)

    def _reconnect_host(self) -> None:
        """Connect to the chosen host again, now."""
        host = self.query_one(HostTable).chosen
        if host is not None:
            self.nictop.hosts.reconnect(host.name)
