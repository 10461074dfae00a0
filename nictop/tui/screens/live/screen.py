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

Below 120 columns the two panels stand above each other, and the table leaves the facts the rows
that it does not need. The tabs 1 to 4 change the body: devices, the queues of the chosen NIC, its
interrupts and all processors, the findings.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.widgets import ContentSwitcher

from nictop.model.chain import Step
from nictop.model.place import has_place
from nictop.model.snapshot import Snapshot
from nictop.model.text.terminal import clean
from nictop.model.text.words import is_virtual
from nictop.probe.records import Link, Request
from nictop.rules import Finding, Fix
from nictop.rules.wording import is_checked
from nictop.tui.keys import LIVE_KEYS
from nictop.tui.screens.dialogs.menu import FollowingMenu, MenuEntry, MenuScreen
from nictop.tui.screens.frame import MARK_TITLE, PAUSE_ACTIONS, MeasuredSubject
from nictop.tui.screens.live.bodies import (
    BODY_ACTIONS,
    DETAIL_CLASS,
    ConnectionsBody,
    CpusBody,
    DevicesBody,
    FindingsBody,
    NicBody,
    QueuesBody,
    knows_machine,
)
from nictop.tui.screens.live.drawing import LiveDrawing
from nictop.tui.screens.live.layer import LayerScreen
from nictop.tui.screens.live.place import PlaceScreen
from nictop.tui.widgets.base.line_widget import LineWidget, SpanLine
from nictop.tui.widgets.cpu.nic_view import choose_link_text
from nictop.tui.widgets.cpu.queues import QueueView
from nictop.tui.widgets.cpu.strip import ProcessorStrip
from nictop.tui.widgets.cpu.view import CpuView
from nictop.tui.widgets.devices.chain import ChainView
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.devices.view import DevicesView, netdev_of, netdevs_of
from nictop.tui.widgets.findings.panel import FindingsPanel
from nictop.tui.widgets.findings.view import FindingList, FindingsView

COMMAND_ACTIONS = frozenset(
    ("copy", "fix", "show_fix", "show_change", "set_up", "show_set_up", "why_not")
)
"""Actions of the keys that act on the fix that is shown, and on the NIC that is chosen."""
MAX_MEASURABLE_LINKS = 20
"""In the question which one is measured; others are selected on Devices."""
NO_MACHINE_TEXT = "This recording has only the interrupts of NICs: all were not shown meanwhile."
CHOOSE_BY_LINE = "Choose an interface first, by its line."
NOT_CHECKED_TO_OPEN = "not all checks had run yet; no finding was chosen."
NOT_CHECKED_FOR_COMMAND = "not all checks had run yet; no command was known of what is chosen."
WHY_NOT_TITLES = {"copy": "Copy", "fix": "Fix", "set_up": "Set up", "open": "Open"}
"""What a key does → title of the notice where it has nothing to act on."""


class LiveScreen(LiveDrawing):
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
        if self.host.snapshot is not None and self.in_sight:
            self.body.draw(self.host.snapshot)
            self._request_connections()
        self._offer()

    def on_device_table_gone(self, event: DeviceTable.Gone) -> None:
        """It is not silent: a key may be pressed already for what was chosen."""
        text = f"{event.title} is gone: no interface is chosen."
        if event.instead:
            what = "the same device" if event.is_same_device else "a new interface of this name"
            text = f"{event.title} is gone: {event.instead}, {what}, is chosen."
        self.nictop.notify(text, "Devices")
        if self.host.snapshot is not None and self.in_sight:
            self._draw()

    def on_device_table_opened(self) -> None:
        self.action_open()

    def on_finding_list_chosen(self) -> None:
        self._offer()

    def on_device_table_virtual_clicked(self) -> None:
        self.toggle_virtual()

    def on_finding_list_resolved_clicked(self) -> None:
        self.toggle_resolved()

    def on_findings_view_no_further_fix(self, message: FindingsView.NoFurtherFix) -> None:
        which = "first" if message.step < 0 else "last"
        self.nictop.notify(f"This is the {which} fix of this finding.", "Fix")

    def on_finding_list_opened(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        """The chosen device, or the chosen finding, over the whole view."""
        if self.body.is_empty:
            self.nictop.notify(self._why_not("open"), WHY_NOT_TITLES["open"])
            return
        self.body.open_detail()
        self._changed()

    def on_chain_view_opened(self, event: ChainView.Opened) -> None:
        self.open_layer(event.step)

    def open_layer(self, step: Step) -> None:
        """Of the chosen interface."""
        row = self.query_one(DeviceTable).chosen
        if row is not None:
            ifindex = None if row.link is None else row.link.ifindex
            address = "" if row.pci is None else row.pci.address
            self.app.push_screen(LayerScreen(ifindex, address, step))

    def action_mark(self) -> None:
        """The chosen interface."""
        row = self.query_one(DeviceTable).chosen
        link = None
        if row is not None:
            link = netdev_of(row, self.nictop.display.snapshot(self.nictop.hosts.session))
        if link is None:
            self.nictop.notify(self._why_not("choose"), MARK_TITLE)
        else:
            self.mark(self.host.name, link.name)

    def show_place(self) -> None:
        """Of the chosen interface in its machine."""
        row = self.query_one(DeviceTable).chosen
        if row is None:
            self.nictop.notify(self._why_not("choose"), "Place in the machine")
            return
        ifindex = None if row.link is None else row.link.ifindex
        self.app.push_screen(PlaceScreen(ifindex, "" if row.pci is None else row.pci.address))

    def show_layers(self) -> None:
        """The first one of interest, if the chosen interface has a chain."""
        view = self.query_one(ChainView)
        if view.steps:
            self.open_layer(view.steps[view.chosen].step)
            return
        why_not = "No layers are known of this row."
        if self.query_one(DeviceTable).chosen is None:
            why_not = self._why_not("choose")
        self.nictop.notify(why_not, "Layers")

    def action_connections(self) -> None:
        """Who uses the chosen interface."""
        self._show(ConnectionsBody.name)

    def open_link(self, host: str, ifindex: int) -> None:
        """Show a netdev among the devices of its host."""
        self.nictop.hosts.choose(host)
        self.remove_class(DETAIL_CLASS)
        self.query_one(DevicesView).end_filter()
        if self.host.snapshot is not None:
            self.show_devices(self.host.snapshot)
        self.query_one(DeviceTable).choose_link(ifindex)

    def choose_finding(self, finding: Finding) -> None:
        """The view is Findings already."""
        self.query_one(FindingsView).choose(finding)
        self._findings.draw()

    async def action_back(self) -> None:
        """From a finding to all of them, from one device to all of them, from its connections to
        it; else to Devices."""
        replay = self.nictop.replay
        if replay is not None and replay.searches:
            replay.stop_search()
        elif self.body.close_detail():
            self.show_tab(self.tab)
        elif self.body.filter.display:
            self.body.filter.action_end_filter()
        elif self.view != DevicesBody.name:
            self.show_tab(DevicesBody.name)
        elif self.shows_past:
            self.action_now()

    @property
    def _can_go_back(self) -> bool:
        """`action_back` does something."""
        replay = self.nictop.replay
        if replay is not None and replay.searches:
            return True
        if self.view != DevicesBody.name or self.body.has_detail or self.shows_past:
            return True
        return bool(self.body.filter.display)

    def action_filter(self) -> None:
        """Of the visible list; from the palette also while something else is on the whole
        screen."""
        self.body.close_detail()
        self.body.filter.begin()

    @property
    def refused_actions(self) -> tuple[str, ...]:
        refused = super().refused_actions
        if self.view == CpusBody.name and not knows_machine(self.nictop):
            return (*refused, "options")
        return refused

    def show_tab(self, tab: str) -> None:
        """One of `LIVE_TABS`."""
        self.query_one(QueueView).advice = None  # it may be of another NIC, until it is drawn
        self._show(tab)

    def _show(self, name: str) -> None:
        """The view whose widget has this id."""
        self.query_one(FindingsView).full = False
        self.query_one("#views", ContentSwitcher).current = name
        for body in self._nic_bodies:
            body.filter.display = body.name == name and bool(body.filter.value)
        self.query_one(ProcessorStrip).display = self.body.has_processors
        self.query_one(FindingsPanel).display = self.body.has_worst_finding
        self._changed()

    def _changed(self) -> None:
        """Another part of the screen is visible: offer its keys, and draw its newest numbers."""
        self.query_one(self.body.focus).focus()
        self.refresh_bindings()
        self.draw_frame()
        self.call_after_refresh(self._draw)

    def action_copy(self) -> None:
        """The commands of the fix that is shown."""
        shown = self.body.fix
        if shown is not None:
            finding, fix = shown
            self.nictop.copy_command(self.host.name if finding is None else finding.host, fix)

    def action_fix(self) -> None:
        """Open the change that is running, or the fix that `action_copy` copies."""
        if self.refuses_recording():
            return
        shown = self.body.fix
        if self.opener.open_change() or shown is None:
            return
        finding, fix = shown
        if finding is not None:
            self.opener.open_fix(finding, fix)
        else:
            self._open_advice(fix)

    def action_show_fix(self) -> None:
        """The same: the dialog says what it cannot do."""
        self.action_fix()

    def action_show_change(self) -> None:
        self.action_fix()

    def _open_advice(self, fix: Fix) -> None:
        """What Queues says, without a finding."""
        from nictop.changes.job import ChangeJob

        row = self.query_one(DeviceTable).chosen
        subject = ""
        if row is not None and row.link is not None:
            subject = row.link.name
        self.opener.open_job(ChangeJob(self.host.name, fix.title, subject, fix))

    @property
    def measured(self) -> MeasuredSubject | None:
        shown = self.body.measured
        return None if shown is None else MeasuredSubject(*shown)

    @property
    def shows_device(self) -> bool:
        return self.tab != "findings"

    @property
    def measurable_links(self) -> Sequence[Link]:
        """What a measurement may be of: the selected interface, or that of the selected device;
        several: it is not known which one is meant."""
        row, snapshot = self.query_one(DeviceTable).chosen, self.host.snapshot
        if snapshot is None:
            return ()
        of_row = () if row is None else netdevs_of(row, snapshot)
        if of_row:
            return of_row
        devices = [link for link in snapshot.links.values() if not is_virtual(link)]
        return devices[:MAX_MEASURABLE_LINKS]

    def action_set_up(self) -> None:
        """The NIC that is chosen, or that the chosen finding is about; of several of a PCI
        function there is a menu."""
        if self.refuses_recording():
            return
        host, nics = self.body.nics_to_set_up
        if len(nics) == 1:
            self.opener.open_set_up(host, nics[0].ifindex)
        elif nics:
            open_nic = partial(self.opener.open_set_up, host)
            entries = [MenuEntry(nic.name, partial(open_nic, nic.ifindex)) for nic in nics]
            self.app.push_screen(MenuScreen("Set up", entries))

    def action_show_set_up(self) -> None:
        """The same: it ends with the plan."""
        self.action_set_up()

    def action_why_not(self, what: str) -> None:
        """`what`: copy, fix or set_up: there is nothing that its key could act on."""
        self.nictop.notify(self._why_not(what), WHY_NOT_TITLES[what])

    def _why_not(self, what: str) -> str:
        """At the moment of the key: the notice stays for some seconds. What is not known yet comes
        first: without it nothing can be chosen."""
        snapshot, name = self.host.snapshot, self.nictop.hosts.session.name
        if snapshot is None or snapshot.inventory is None:
            return f"{name}: interfaces were not read yet."
        is_about_one = isinstance(self.body, NicBody) and bool(snapshot.links)
        if is_about_one and what in ("choose", "open", "set_up"):
            return f"{choose_link_text(self.key_label)}."
        if what == "choose":
            return CHOOSE_BY_LINE
        if what == "set_up":
            return self._why_no_set_up(name, snapshot)
        if what == "open" and self.view == DevicesBody.name:
            return CHOOSE_BY_LINE
        was_checked = is_checked(self.nictop.display.diagnosis, snapshot)
        if what == "open":
            return "No finding is chosen." if was_checked else f"{name}: {NOT_CHECKED_TO_OPEN}"
        return self.body.why_no_fix if was_checked else f"{name}: {NOT_CHECKED_FOR_COMMAND}"

    def _why_no_set_up(self, name: str, snapshot: Snapshot) -> str:
        if not snapshot.links:
            return f"{name} has no network interfaces."
        if self.view == DevicesBody.name:
            return CHOOSE_BY_LINE
        if self.query_one(FindingList).chosen is None:
            return "No finding is chosen; choose an interface in Devices, by its line."
        return "The chosen finding is about no interface; choose one in Devices, by its line."

    def action_step(self, direction: int) -> None:
        if not self.query_one(DeviceTable).step_to_link(direction):
            self.nictop.notify(self._why_no_step(direction), "Interface")

    def _why_no_step(self, direction: int) -> str:
        row, snapshot = self.query_one(DeviceTable).chosen, self.host.snapshot
        if snapshot is None or snapshot.inventory is None:
            return f"{self.nictop.hosts.session.name}: interfaces were not read yet."
        if row is None or row.link is None:
            return "No other interface is listed in Devices."
        which = "first" if direction < 0 else "last"
        return f"{clean(row.link.name)} is the {which} interface that Devices lists."

    def action_step_nic(self, direction: int) -> None:
        """The same in Queues and CPUs, where the key is among the first of the footer."""
        self.action_step(direction)

    def action_sort(self, step: int) -> None:
        table = self.body.sorted_table
        table.action_sort(step)
        self._say_if_empty()

    def action_reverse(self) -> None:
        table = self.body.sorted_table
        table.action_reverse()
        if not self._say_if_empty():
            self.say_if_usual(table.order)

    def _say_if_empty(self) -> bool:
        is_empty = not self.body.sorted_table.is_sortable
        if is_empty:
            self.nictop.notify("There is nothing to sort yet.", "Sort")
        return is_empty

    @property
    def sorted_tables(self) -> Collection[str]:
        return ("",) if self.body.is_sortable else ()

    def sort_table(self, column: str) -> None:
        self.body.sorted_table.sort_first(column)

    def action_next(self, step: int) -> None:
        """A recording: in time; else the next finding of the list."""
        if self.nictop.replay is not None:
            super().action_next(step)
            return
        listed = self.query_one(FindingList)
        if listed.has_line_after(step):
            listed.action_move(step)
            return
        which = "next" if step > 0 else "previous"
        that = " that the filter accepts" if self.body.filter.value else ""
        so_far = "" if self._all_are_checked else " so far: not all checks have run yet"
        self.nictop.notify(f"There is no {which} finding{that}{so_far}.", "Findings")

    @property
    def _all_are_checked(self) -> bool:
        """No finding of a watched host is still to be expected from what is being read."""
        display = self.nictop.display
        snapshots = map(display.snapshot, self.nictop.hosts.sessions)
        return all(is_checked(display.diagnosis, snapshot) for snapshot in snapshots)

    # --------------------------------------------------------------------------------- view options

    async def action_options(self) -> None:
        """One option is toggled at once, of several there is a menu."""
        match self.tab:
            case QueuesBody.name:
                self._toggle_idle()
            case CpusBody.name:
                await self._toggle_machine()
            case FindingsBody.name:
                self.app.push_screen(MenuScreen("View options: Findings", self._finding_options()))
            case _:
                options = self._device_options
                self.app.push_screen(FollowingMenu("View options: Devices", options))

    def toggle_virtual(self) -> None:
        table = self.query_one(DeviceTable)
        table.virtual = not table.virtual
        state = "Virtual interfaces are " + ("shown" if table.virtual else "hidden")
        self._draw_toggled(table, state)

    def toggle_packets(self) -> None:
        table = self.query_one(DeviceTable)
        table.packets = not table.packets
        before = table.lines
        self._draw()
        if not table.is_sortable:  # else the titles of its columns are others
            self._say_if_same(table, before, f"{'Packets' if table.packets else 'Bits'} are shown")

    def show_drops(self) -> None:
        """Monitor the dropped packets of the chosen host."""
        from nictop.tui.screens.live.drops import DropsScreen

        self.app.push_screen(DropsScreen(self.nictop.hosts.by_name[self.nictop.hosts.chosen]))

    def listen_for_lldp(self) -> None:
        """Of the chosen host: find the switch ports of its NICs."""
        if not self.refuses_recording():
            self.nictop.hosts.listen_for_lldp(self.nictop.notify)

    def _toggle_idle(self) -> None:
        view = self.query_one(QueueView)
        view.unfold = not view.unfold
        self._draw_toggled(view, f"Idle queues {'are shown' if view.unfold else 'are folded'}")

    def _draw_toggled(self, view: LineWidget, state: str) -> None:
        before = view.lines
        self._draw()
        self._say_if_same(view, before, state)

    def _say_if_same(self, view: LineWidget, before: Sequence[SpanLine], state: str) -> None:
        """Say the state where it changes nothing that is drawn."""
        if view.lines == before:
            self.nictop.notify(f"{state}; that changes nothing that is shown now.", "View")

    async def _toggle_machine(self) -> None:
        """The probe reads the whole of /proc/interrupts only while it is shown."""
        if not knows_machine(self.nictop):
            self.nictop.notify(NO_MACHINE_TEXT, "CPUs")
            return
        view = self.query_one(CpuView)
        view.machine = not view.machine
        await self.nictop.hosts.request(Request(machine=view.machine))
        state = "All interrupts are shown" if view.machine else "Interrupts of the NIC are shown"
        self._draw_toggled(view, state)

    def _finding_options(self) -> Sequence[MenuEntry]:
        view = self.query_one(FindingsView)
        return (
            MenuEntry("Skipped checks", self.toggle_skipped, view.skipped),
            MenuEntry("Resolved findings", self.toggle_resolved, view.resolved),
        )

    def _device_options(self) -> Sequence[MenuEntry]:
        """What asks a host for something is disabled in a recording, and while the host is
        lost."""
        table = self.query_one(DeviceTable)
        replay = self.nictop.replay
        state = self.nictop.hosts.session.snapshot.state
        is_lost = state in ("lost", "failed")
        why_not = f"{clean(self.nictop.hosts.chosen)} is not connected" if is_lost else ""
        if replay is not None:
            why_not = replay.refusal
        live_entry = partial(MenuEntry, enabled=not why_not, why_not=why_not)
        row, snapshot = table.chosen, self.nictop.display.snapshot(self.nictop.hosts.session)
        is_placed = row is not None and has_place(row, snapshot)
        return (
            MenuEntry(
                "Place in the machine",
                self.show_place,
                enabled=is_placed,
                why_not="" if is_placed else "not known of this row",
            ),
            MenuEntry("Virtual interfaces", self.toggle_virtual, table.virtual),
            MenuEntry("Packets instead of bits", self.toggle_packets, table.packets),
            live_entry("Listen for LLDP (35 s)", self.listen_for_lldp),
            live_entry("Why packets are dropped (10 s, as root)", self.show_drops),
        )

    def _is_idle_key(self, what: str) -> bool:
        """The key of an action of `WHY_NOT_ACTIONS` does nothing else now."""
        if what == "set_up":
            return not self.set_up_action
        if what == "fix":
            return not self.fix_action
        return self.body.fix is None

    def toggle_skipped(self) -> None:
        view = self.query_one(FindingsView)
        view.skipped = not view.skipped
        self._draw_toggled_findings("Skipped checks", is_shown=view.skipped)

    def toggle_resolved(self) -> None:
        view = self.query_one(FindingsView)
        view.resolved = not view.resolved
        self._draw_toggled_findings("Resolved findings", is_shown=view.resolved)

    def _draw_toggled_findings(self, what: str, *, is_shown: bool) -> None:
        listed = self.query_one(FindingList)
        before = listed.lines
        self._findings.draw()
        self._say_if_same(listed, before, f"{what} are {'shown' if is_shown else 'hidden'}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are offered only in the view that they act on."""
        if not self._filled and action not in PAUSE_ACTIONS:
            return True
        if action in COMMAND_ACTIONS:
            return self._offers_command(action, parameters)
        if action == "back":
            return self._can_go_back
        if action == "next" and self.view == FindingsBody.name:
            return True
        if action == "mark":
            return self.view == DevicesBody.name
        if action in BODY_ACTIONS and action not in self.body.actions:
            return False
        return super().check_action(action, parameters)

    def _offers_command(self, action: str, parameters: tuple[object, ...]) -> bool:
        """For one of `COMMAND_ACTIONS`."""
        if action == "why_not":
            return self._is_idle_key(str(parameters[0]))
        if action == "copy":
            return self.body.fix is not None
        if action in ("set_up", "show_set_up"):
            return action == self.set_up_action
        return action == self.fix_action
