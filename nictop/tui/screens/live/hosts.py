"""The watched hosts: the status of each, why it is not live, and a line to add one.

   HOST    STATE                 RIGHTS   ADDRESS
 ● vm1     live                  root     root@127.0.0.1:2221
 ◌ pve     reconnecting in 4 s   –        pve
╭ pve ───────────────────────────────────────────────────────╮
│ why      pve port 22: connection refused                   │
╰────────────────────────────────────────────────────────────╯
 Add: [label=][user@]host[:port]
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Input

from nictop.model.facts import wrap
from nictop.tui.keys import HOSTS_KEYS
from nictop.tui.screens.base import NictopScreen
from nictop.tui.widgets.base.key_footer import KeyFooter
from nictop.tui.widgets.base.line_view import LineView
from nictop.tui.widgets.base.text_input import TextInput
from nictop.tui.widgets.status.host_table import DrawTime, HostTable, draw_host

ADD_HOST_HINT = "a host to add: [label=][user@]host[:port], local, or a name of ~/.ssh/config or config.toml"


class HostsScreen(NictopScreen, Screen[None]):
    """Changes take effect at once."""

    BINDINGS: ClassVar[list[BindingType]] = HOSTS_KEYS

    def compose(self) -> ComposeResult:
        yield HostTable(id="host-table")
        yield LineView(id="host-facts")
        yield LineView(id="host-complaint")
        yield TextInput(placeholder=ADD_HOST_HINT, id="host-entry")
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#host-complaint").can_focus = False
        self.query_one(HostTable).border_title = "Hosts"
        self.query_one(HostTable).focus()
        self._show_complaint("")
        self.query_one(TextInput).display = False
        self.subscribe(self.nictop.hosts.changed, self._update, now=True)
        self.subscribe(self.nictop.diagnosis.changed, self._update)

    # ------------------------------------------------------------------------------------------ what is shown

    def _update(self) -> None:
        table, hosts = self.query_one(HostTable), self.nictop.hosts.sessions
        table.show(hosts, self.nictop.hosts.chosen, self._draw_time(), self.nictop.diagnosis.result)
        table.take_rows(max(2, min(len(hosts) + 1, self.size.height // 2)) + table.gutter.height)
        self._draw_facts()

    def _draw_time(self) -> DrawTime:
        return DrawTime(self.nictop.here(), self.nictop.hosts.interval)

    def _draw_facts(self) -> None:
        host, view = self.query_one(HostTable).chosen, self.query_one("#host-facts", LineView)
        if host is not None:
            view.show_lines(draw_host(host, self._draw_time(), view.scrollable_content_region.width))
            title = self.glyphs.text(host.name).replace("[", r"\[")
            if view.border_title != title:
                view.border_title = title

    def _show_complaint(self, text: str) -> None:
        view = self.query_one("#host-complaint", LineView)
        lines = [((f" {part}", "warn"),) for part in wrap(text, max(10, self.size.width - 2))] if text else []
        view.show_lines(lines)
        view.display = bool(lines)
        view.take_rows(max(1, min(3, len(lines))))

    def on_line_view_resized(self) -> None:
        self.call_after_refresh(self._update)

    def on_host_table_chosen(self) -> None:
        self.query_one("#host-facts", LineView).scroll_to(y=0, animate=False)
        self._draw_facts()

    # -------------------------------------------------------------------------------------------------- keys

    def on_host_table_opened(self) -> None:
        self.action_show()

    def action_show(self) -> None:
        host = self.query_one(HostTable).chosen
        self.dismiss()
        if host is not None:
            self.nictop.hosts.choose(host.name)

    def action_back(self) -> None:
        if self.query_one(TextInput).display:
            self._end_entry()
        else:
            self.dismiss()

    def _refuses(self) -> bool:
        """In a recording nothing is connected to: show that."""
        if self.nictop.replay is None:
            return False
        self._show_complaint("This is a recording: its hosts are those that were recorded.")
        return True

    def action_add(self) -> None:
        if self._refuses():
            return
        self._show_complaint("")
        entry = self.query_one(TextInput)
        entry.display = True
        self.set_focus(entry)  # at once: the next characters, d among them, are typed into it

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
        entry = self.query_one(TextInput)
        entry.value, entry.display = "", False
        self.set_focus(self.query_one(HostTable))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The key of the entry is handled before any other, so that what follows it is typed there, and removes no
        host; in it, it is a character."""
        return action != "add" or not self.query(TextInput) or not self.query_one(TextInput).has_focus

    def action_remove(self) -> None:
        if self._refuses():
            return
        host = self.query_one(HostTable).chosen
        if host is not None and self.nictop.hosts.several:
            self._show_complaint("")
            self.nictop.hosts.remove(host.name)
        else:
            self._show_complaint("The last host stays: add another one first.")

    def action_reconnect(self) -> None:
        host = self.query_one(HostTable).chosen
        if host is not None and not self._refuses():
            self.nictop.hosts.reconnect(host.name)
