"""The watched hosts: the status of each, why it is not live, a line to add one; below them every NIC of all of them.

   HOST    STATE                 RIGHTS   ADDRESS
 ● vm1     live                  root     root@127.0.0.1:2221
 ◌ pve     reconnecting in 4 s   –        pve
── pve ───────────────────────────────────────────────────────
 why      pve port 22: connection refused
 HOST      NAME    LINK   …
 vm1       ens192  ↑ 10G
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input

from nictop.model.columns.overview import COLUMNS as NIC_COLUMNS
from nictop.model.devices.pairs import pairs
from nictop.model.facts import wrap
from nictop.traffic.plan.plan import EndpointPair, endpoint_pairs
from nictop.tui.filter_help import NIC_FILTER, FilterRows
from nictop.tui.keys import HOSTS_KEYS
from nictop.tui.screens.dialogs.menu import MenuEntry, MenuScreen
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.traffic.path_test import PathTestScreen
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.base.line_view import LineView
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.devices.overview import OverviewView
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.tui.widgets.status.host_table import COLUMNS, DrawTime, HostTable, draw_host

if TYPE_CHECKING:
    from nictop.model.columns.column import Column
    from nictop.model.devices.netdevs import End
    from nictop.model.devices.overview import NicRow

ADD_HOST_HINT = "a host to add: [label=][user@]host[:port], local, or a name of ~/.ssh/config or config.toml"
MAX_PATH_ENTRIES = 4
"""In the menu of an interface."""
MIN_OVERVIEW_ROWS = 6
"""Of the interfaces below the hosts."""


class HostFacts(LineView):
    """`draw_host` of the chosen host."""

    marks_more = True

    @property
    def more_key(self) -> str:
        return super().more_key if self.has_focus else f"Tab {super().more_key}"


class HostsScreen(FramedScreen):
    """Changes take effect at once."""

    TAB = "hosts"
    BINDINGS: ClassVar[list[BindingType]] = HOSTS_KEYS

    @property
    def tables(self) -> Mapping[str, Sequence[Column[Any]]]:
        return {"hosts": COLUMNS, "interfaces": NIC_COLUMNS}

    @property
    def sorted_tables(self) -> Collection[str]:
        return ("interfaces",)

    @property
    def filter_rows(self) -> FilterRows:
        return NIC_FILTER

    def sort_table(self, column: str) -> None:
        self.query_one(OverviewTable).sort_first(column)

    def compose_body(self) -> Iterable[Widget]:
        yield HostTable(id="host-table")
        yield HostFacts(id="host-facts")
        yield LineView(id="host-complaint")
        yield TextInput(placeholder=ADD_HOST_HINT, id="host-entry")
        yield OverviewView(id="overview")

    def on_mount(self) -> None:
        self.query_one("#host-complaint").can_focus = False
        self.query_one(HostTable).border_title = "Hosts"
        self.query_one(HostTable).focus()
        self._show_complaint("")
        self._entry.display = False
        self._due = False
        self.subscribe(self.nictop.hosts.changed, self._update_soon)
        self.subscribe(self.nictop.diagnosis.changed, self._update_soon)
        self.subscribe(self.nictop.display.changed, self._update_soon)
        self._update()

    @property
    def _entry(self) -> TextInput:
        return self.query_one("#host-entry", TextInput)

    # ------------------------------------------------------------------------------------------ what is shown

    def _update_soon(self) -> None:
        """One redraw for all that is new; nothing while the display is paused."""
        if not self._due and self.in_sight and not (self.nictop.display.paused and self.nictop.replay is None):
            self._due = True
            self.call_after_refresh(self._update)

    def _update(self) -> None:
        self._due = False
        table, hosts = self.query_one(HostTable), self.nictop.hosts.sessions
        table.show(hosts, self.nictop.hosts.chosen, self._draw_time(), self.nictop.display.diagnosis)
        table.take_rows(max(2, min(len(hosts) + 1, self.size.height // 3)) + table.gutter.height)
        self._draw_facts()
        self._draw_overview()

    def _draw_overview(self) -> None:
        hosts, display = self.nictop.hosts.sessions, self.nictop.display
        snapshots = [display.snapshot(one) for one in hosts]
        moment = self._draw_time()
        view = self.query_one(OverviewView)
        view.show(hosts, snapshots, display.diagnosis, moment.here.monotonic, moment.interval)

    def _draw_time(self) -> DrawTime:
        return DrawTime(self.nictop.here(), self.nictop.hosts.interval)

    def _draw_facts(self) -> None:
        host, view = self.query_one(HostTable).chosen, self.query_one("#host-facts", LineView)
        if host is not None:
            cells = view.scrollable_content_region.width
            lines = draw_host(host, self._draw_time(), cells, glyphs=self.glyphs)
            room = self.size.height - self.query_one(HostTable).size.height - MIN_OVERVIEW_ROWS - 6
            view.take_rows(max(1, min(len(lines), room)) + view.gutter.height)
            view.show_lines(lines)
            title = self.glyphs.text(host.name).replace("[", r"\[")
            if view.border_title != title:
                view.border_title = title

    def _show_complaint(self, text: str) -> None:
        view = self.query_one("#host-complaint", LineView)
        lines = [((f" {part}", "warn"),) for part in wrap(text, max(10, self.size.width - 2))] if text else []
        view.show_lines(lines)
        view.display = bool(lines)
        view.take_rows(max(1, min(3, len(lines))))

    def draw_resized(self) -> None:
        self._update()

    def on_screen_resume(self) -> None:
        if self.is_open:
            self._update()

    def on_host_table_chosen(self) -> None:
        self.query_one("#host-facts", LineView).scroll_to(y=0, animate=False)
        self._draw_facts()

    # -------------------------------------------------------------------------------------------------- keys

    async def on_host_table_opened(self) -> None:
        await self.action_open()

    async def on_overview_table_opened(self) -> None:
        await self.action_open()

    async def action_open(self) -> None:
        """The devices of the chosen host; of an interface, that one among them."""
        host, row = self.query_one(HostTable).chosen, self._row
        if row is not None:
            await self.opener.open_link(row.end.host, row.end.ifindex)
        elif host is not None:
            self.nictop.hosts.choose(host.name)
            await self.opener.action_view("devices")

    async def action_back(self) -> None:
        entry = self.query_one(FilterLine)
        if self._entry.display:
            self._end_entry()
        elif entry.display:
            entry.action_end_filter()
        else:
            await super().action_back()

    def action_options(self) -> None:
        """The only option: netdevs without a device."""
        overview = self.query_one(OverviewView)
        overview.virtual = not overview.virtual
        self._draw_overview()

    def action_filter(self) -> None:
        self.query_one(FilterLine).begin()

    def action_sort(self, step: int) -> None:
        self.query_one(OverviewTable).action_sort(step)

    def action_reverse(self) -> None:
        self.query_one(OverviewTable).action_reverse()

    def action_edit(self) -> None:
        """What can be done to the list of hosts."""
        if self.refuses_recording():
            return
        host = self.query_one(HostTable).chosen
        name = host.name if host is not None else ""
        entries = [
            MenuEntry("Add host…", self._add_host),
            MenuEntry(f"Reconnect {name}", self._reconnect_host),
            MenuEntry(
                f"Remove {name}",
                self._remove_host,
                enabled=self.nictop.hosts.several,
                why_not="The last host stays: add another one first",
            ),
        ]
        row = self._row
        if row is not None and row.link is not None:
            words = "Set up" if self.nictop.changes.allowed(row.end.host) else "Show set-up of"
            entries.append(MenuEntry(f"{words} {row.end.host} {row.link.name}…", self._set_up))
            entries += self._path_entries(row.end)
        self.app.push_screen(MenuScreen("Hosts", entries))

    def _path_entries(self, end: End) -> list[MenuEntry]:
        """Path tests from a NIC."""
        snapshots = {one.name: one.snapshot for one in self.nictop.hosts.sessions}
        found = endpoint_pairs(pairs(tuple(snapshots.values())).subnets, snapshots.values())
        why_not = "a test is running" if self.nictop.traffic.running else ""
        entries: list[MenuEntry] = []
        for pair in found:
            if (pair.client.host, pair.client.ifindex) == (end.host, end.ifindex) and len(entries) < MAX_PATH_ENTRIES:
                link = snapshots[pair.server.host].links.get(pair.server.ifindex or 0)
                there = f"{pair.server.host} {link.name if link is not None else pair.server.address}"
                test = partial(self._test_path, pair)
                entries.append(MenuEntry(f"Test the path to {there}", test, None, not why_not, why_not))
        return entries

    def _test_path(self, pair: EndpointPair) -> None:
        self.app.push_screen(PathTestScreen(pair))

    def _set_up(self) -> None:
        row = self._row
        if row is not None:
            self.opener.open_set_up(row.end.host, row.end.ifindex)

    @property
    def _row(self) -> NicRow | None:
        """The chosen interface, if the list of them has the focus."""
        overview = self.query_one(OverviewView)
        return overview.chosen if overview.has_focus_within else None

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
