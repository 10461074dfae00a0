"""The live screen: devices of the chosen host, the chosen device, processors.

     nictop │1 Devices│2 Queues 3 CPUs 4 Findings ▲1 5 Hosts 6 Traffic 7 Results
     ● host  VMware guest · 4 CPUs                                   1 s · nictop 1.8 % 52 MB
    ╭ Devices ─────────────────────────────────╮╭ ens224 ─────────────────────────────────╮
    │ NAME            LINK   IN      OUT       ││ in  9.41 Gb/s ▂▄▆█████                  │
    │ 02:00.0 82576   …                        ││ ── Link ──                              │
    ╰──────────────────────────────────────────╯╰─────────────────────────────────────────╯
     4 CPUs  █ user 3 …
     ▲ ens224 is run by "Wired connection 1" …
     Enter Open  e Set up  y Copy fix                                       ? Help  q Quit

Below 120 columns the two panels stand above each other, and the table leaves the facts the rows that it does not need.
The tabs 1 to 4 change the body: devices, the queues of the chosen NIC, its interrupts and all processors, the findings.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.widgets import ContentSwitcher

from nictop.probe.records import Request
from nictop.rules import Finding, Fix
from nictop.rules.wording import is_checked
from nictop.tui.keys import LIVE_KEYS
from nictop.tui.screens.dialogs.menu import MenuEntry, MenuScreen
from nictop.tui.screens.frame import PAUSE_ACTIONS
from nictop.tui.screens.live.view import CONNECTIONS, FILTERS, LIVE_TABS, LiveView
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.cpu.queues import QueueView
from nictop.tui.widgets.cpu.strip import ProcessorStrip
from nictop.tui.widgets.cpu.view import CpuView
from nictop.tui.widgets.devices.connections import ConnectionList
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.devices.view import DevicesView, netdev_of
from nictop.tui.widgets.findings.panel import FindingsPanel
from nictop.tui.widgets.findings.view import FindingList, FindingsView

WITHOUT_PROCESSORS = ("load", "findings")
"""Views that have no room for the processors, or a line for each."""


WHY_NOT_TITLES = {"copy": "Copy", "fix": "Fix", "set_up": "Set up"}
"""What a key does → title of the notice where it has nothing to act on."""


class LiveScreen(LiveView):
    """What the host's NICs do now."""

    BINDINGS: ClassVar[list[BindingType]] = LIVE_KEYS

    async def on_device_table_chosen(self, event: DeviceTable.Chosen) -> None:
        """The probe reads queue and driver counters only of the NIC that is shown."""
        snapshot = self.nictop.display.snapshot(self.nictop.hosts.session)
        link = netdev_of(event.row, snapshot)
        watched = () if link is None else (link.ifindex,)
        if watched != self._watched:
            self._watched = watched
            await self.nictop.hosts.request(Request(watch=watched))
        if self._snapshot is not None and self.in_sight:
            self._draw_view(self._snapshot)
            self._request_connections()
        self._offer()

    def on_device_table_opened(self) -> None:
        self.action_open()

    def on_finding_list_chosen(self) -> None:
        self._offer()

    def on_device_table_virtual_clicked(self) -> None:
        self.toggle_virtual()

    def on_finding_list_resolved_clicked(self) -> None:
        self.toggle_resolved()

    def on_finding_list_opened(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        """The chosen device, or the chosen finding, over the whole view."""
        if self.view == "findings":
            self.query_one(FindingsView).full = True
            self._changed("#finding-page")
        else:
            self.add_class("-detail")
            self._changed("#facts")

    def action_connections(self) -> None:
        """Who uses the chosen interface."""
        self.query_one(FindingsView).full = False
        self.query_one("#views", ContentSwitcher).current = CONNECTIONS
        self.query_one(ProcessorStrip).display = True
        self.query_one(FindingsPanel).display = True
        self._changed("#connection-list")

    def open_link(self, host: str, ifindex: int) -> None:
        """Show a netdev among the devices of its host."""
        self.nictop.hosts.choose(host)
        self.remove_class("-detail")
        self.query_one(DevicesView).end_filter()
        if self._snapshot is not None:
            self.show_devices(self._snapshot)
        self.query_one(DeviceTable).choose_link(ifindex)

    def choose_finding(self, finding: Finding) -> None:
        """The view is Findings already."""
        self.query_one(FindingsView).choose(finding)
        self._draw_findings()

    async def action_back(self) -> None:
        """From a finding to all of them, from one device to all of them, from its connections to it; else to
        Devices."""
        findings = self.query_one(FindingsView)
        if self.nictop.replay is not None and self.nictop.replay.searches:
            self.nictop.replay.stop_search()
        elif self.view == "findings" and findings.full:
            self.show_tab("findings")
        elif self.view != "body" and self._filter.display:
            self._filter.action_end_filter()
        elif self.view != "body":
            self.show_tab("devices")
        elif self.has_class("-detail"):
            self.remove_class("-detail")
            self.show_tab("devices")
        elif self._filter.display:
            self._filter.action_end_filter()

    def action_filter(self) -> None:
        """Of the visible list; from the palette also while something else is on the whole screen."""
        if self.view == "body":
            self.remove_class("-detail")
        self._filter.begin()

    def show_tab(self, tab: str) -> None:
        """One of `LIVE_TABS`."""
        view = LIVE_TABS[tab]
        self.query_one(FindingsView).full = False
        self.query_one(QueueView).advice = None  # it may be of another NIC, until it is drawn
        self.query_one("#views", ContentSwitcher).current = view
        for name in ("queues", "load"):
            entry = self.query_one(f"#{FILTERS[name]}", FilterLine)
            entry.display = name == view and bool(entry.value)
        self.query_one(ProcessorStrip).display = view not in WITHOUT_PROCESSORS
        self.query_one(FindingsPanel).display = view != "findings"
        detail = self.has_class("-detail")
        self._changed({"body": "#facts" if detail else "#devices", "findings": "#finding-list"}.get(view, f"#{view}"))

    def _changed(self, focus: str) -> None:
        """Another part of the screen is visible: offer its keys, and draw its newest numbers."""
        self.query_one(focus).focus()
        self.refresh_bindings()
        self.draw_frame()
        self.call_after_refresh(self._draw)

    def action_copy(self) -> None:
        """The commands of `_fix`."""
        fix = self._fix
        if fix is not None:
            finding, shown = fix
            self.nictop.copy_command(self._host if finding is None else finding.host, shown)

    def action_fix(self) -> None:
        """Open the change that is running, or the fix that the key y copies."""
        if self.refuses_recording():
            return
        fix = self._fix
        if self.opener.open_change() or fix is None:
            return
        finding, shown = fix
        if finding is not None:
            self.opener.open_fix(finding, shown)
        else:
            self._open_advice(shown)

    def action_show_fix(self) -> None:
        """The same: the dialog says what it cannot do."""
        self.action_fix()

    def action_show_change(self) -> None:
        self.action_fix()

    def _open_advice(self, fix: Fix) -> None:
        """What Queues says, without a finding."""
        from nictop.changes.job import ChangeJob

        row = self.query_one(DeviceTable).chosen
        subject = row.link.name if row is not None and row.link is not None else ""
        self.opener.open_job(ChangeJob(self._host, fix.title, subject, fix))

    def action_set_up(self) -> None:
        """The NIC that is chosen, or that the chosen finding is about; of several of a PCI function there is a menu."""
        host, nics = self._nics_to_set_up
        if self.refuses_recording():
            return
        if len(nics) == 1:
            self.opener.open_set_up(host, nics[0].ifindex)
        elif nics:
            entries = [MenuEntry(one.name, partial(self.opener.open_set_up, host, one.ifindex)) for one in nics]
            self.app.push_screen(MenuScreen("Set up", entries))

    def action_show_set_up(self) -> None:
        """The same: it ends with the plan."""
        self.action_set_up()

    def action_why_not(self, what: str) -> None:
        """`what`: copy, fix or set_up: there is nothing that its key could act on."""
        self.nictop.notify(self._why_not(what), WHY_NOT_TITLES[what])

    def _why_not(self, what: str) -> str:
        """What is not known yet comes first: without it nothing can be chosen."""
        hosts = self.nictop.hosts
        session, snapshot = hosts.session, self._snapshot
        if snapshot is None or snapshot.inventory is None:
            doing = session.status_text(self.nictop.now(), hosts.interval)
            return f"{session.name}: interfaces are not read yet ({doing})."
        if what == "set_up" and not snapshot.links:
            return f"{session.name} has no network interfaces."
        if what == "set_up":
            return "Choose an interface first, by its line."
        if not is_checked(self.nictop.display.diagnosis, snapshot):
            return f"{session.name}: not all checks have run yet; no command is known so far."
        return "No command is shown here: choose a finding, or an interface with one, whose fix has commands."

    def action_step(self, direction: int) -> None:
        self.query_one(DeviceTable).step_to_link(direction)

    def action_step_nic(self, direction: int) -> None:
        """The same in Queues and CPUs, where the key is among the first of the footer."""
        self.action_step(direction)

    def action_sort(self, step: int) -> None:
        self._sorted_table.action_sort(step)

    def action_reverse(self) -> None:
        self._sorted_table.action_reverse()

    @property
    def sorted_tables(self) -> Collection[str]:
        return ("",) if self.view in ("body", CONNECTIONS) else ()

    def sort_table(self, column: str) -> None:
        self._sorted_table.sort_first(column)

    @property
    def _sorted_table(self) -> DeviceTable | ConnectionList:
        return self.query_one(ConnectionList) if self.view == CONNECTIONS else self.query_one(DeviceTable)

    def action_next(self, step: int) -> None:
        """A recording: in time; else the next finding of the list."""
        if self.nictop.replay is None:
            self.query_one(FindingList).action_move(step)
        else:
            super().action_next(step)

    # ------------------------------------------------------------------------------------------ view options

    async def action_options(self) -> None:
        """One option is toggled at once, of several there is a menu."""
        table = self.query_one(DeviceTable)
        match self.view:
            case "queues":
                self._toggle_idle()
            case "load":
                await self._toggle_machine()
            case "findings":
                findings = self.query_one(FindingsView)
                entries: tuple[MenuEntry, ...] = (
                    MenuEntry("Skipped checks", self.toggle_skipped, findings.skipped),
                    MenuEntry("Resolved findings", self.toggle_resolved, findings.resolved),
                )
                self.app.push_screen(MenuScreen("View options: Findings", entries))
            case _:
                live_entry = partial(
                    MenuEntry, enabled=self.nictop.replay is None, why_not="Not available in a recording"
                )
                entries = (
                    MenuEntry("Virtual interfaces", self.toggle_virtual, table.virtual),
                    MenuEntry("Packets instead of bits", self.toggle_packets, table.packets),
                    live_entry("Listen for LLDP (35 s)", self.listen_for_lldp),
                    live_entry("Why packets are dropped (10 s, as root)", self.show_drops),
                )
                self.app.push_screen(MenuScreen("View options: Devices", entries))

    def toggle_virtual(self) -> None:
        self.query_one(DeviceTable).virtual = not self.query_one(DeviceTable).virtual
        self._draw()

    def toggle_packets(self) -> None:
        self.query_one(DeviceTable).packets = not self.query_one(DeviceTable).packets
        self._draw()

    def show_drops(self) -> None:
        """Monitor the dropped packets of the chosen host."""
        from nictop.tui.screens.live.drops import DropsScreen

        self.app.push_screen(DropsScreen(self.nictop.hosts.by_name[self.nictop.hosts.chosen]))

    def listen_for_lldp(self) -> None:
        """Of the chosen host: find the switch ports of its NICs."""
        if not self.refuses_recording():
            self.nictop.hosts.listen_for_lldp(self.nictop.notify)

    def _toggle_idle(self) -> None:
        self.query_one(QueueView).unfold = not self.query_one(QueueView).unfold
        self._draw()

    async def _toggle_machine(self) -> None:
        """The probe reads the whole of /proc/interrupts only while it is shown."""
        view = self.query_one(CpuView)
        view.machine = not view.machine
        await self.nictop.hosts.request(Request(machine=view.machine))
        self._draw()

    @property
    def _has_netdev(self) -> bool:
        """The chosen row has connections to show."""
        row = self.query_one(DeviceTable).chosen
        return row is not None and self._snapshot is not None and netdev_of(row, self._snapshot) is not None

    @property
    def _knows_machine(self) -> bool:
        """The whole of /proc/interrupts can be shown. A recording has it if it was shown during the recording."""
        counters = self._snapshot.counters if self._snapshot is not None else None
        return self.nictop.replay is None or (counters is not None and counters.machine is not None)

    def _is_idle_key(self, what: str) -> bool:
        """The key of an action of `WHY_NOT_ACTIONS` does nothing else now."""
        if what == "set_up":
            return not self.set_up_action
        if what == "fix":
            return not self.fix_action
        return self.view == CONNECTIONS or self._fix is None

    def toggle_skipped(self) -> None:
        self.query_one(FindingsView).skipped = not self.query_one(FindingsView).skipped
        self._draw_findings()

    def toggle_resolved(self) -> None:
        self.query_one(FindingsView).resolved = not self.query_one(FindingsView).resolved
        self._draw_findings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are offered only in the view that they act on."""
        if not self._filled:
            return super().check_action(action, parameters) if action in PAUSE_ACTIONS else True
        view, detail = self.view, self.has_class("-detail")
        match action:
            case "open":
                return (view == "body" and not detail) or (view == "findings" and not self.query_one(FindingsView).full)
            case "connections":
                return view == "body" and detail and self._has_netdev
            case "back":
                searches = self.nictop.replay is not None and self.nictop.replay.searches
                return detail or view != "body" or searches or bool(self._filter.display)
            case "filter":
                listed = not (detail if view == "body" else view == "findings" and self.query_one(FindingsView).full)
                return listed and super().check_action(action, parameters)
            case "options":
                return (
                    self._knows_machine if view == "load" else view != CONNECTIONS and not (detail and view == "body")
                )
            case "copy":
                return view != CONNECTIONS and self._fix is not None
            case "fix" | "show_fix" | "show_change":
                return action == self.fix_action
            case "set_up" | "show_set_up":
                return action == self.set_up_action
            case "why_not":
                return self._is_idle_key(str(parameters[0]))
            case "step":
                return view == "body"
            case "sort" | "reverse":
                return view == CONNECTIONS or (view == "body" and not detail)
            case "step_nic":
                return view in ("queues", "load", CONNECTIONS)
            case "next":
                return self.nictop.replay is not None or view == "findings"
        return super().check_action(action, parameters)
