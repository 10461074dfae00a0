"""The live screen: devices of the chosen host, the chosen device, processors.

    nictop ● host  VMware guest · 4 CPUs                            1 s · nictop 1.8 % 52 MB
    ╭ Devices ─────────────────────────────────╮╭ ens224 ─────────────────────────────────╮
    │ NAME            LINK   IN      OUT       ││ in  9.41 Gb/s ▂▄▆█████                  │
    │ 02:00.0 82576   …                        ││ ── Link ──                              │
    ╰──────────────────────────────────────────╯╰─────────────────────────────────────────╯
    ╭ Findings: 1 warning ───────────────────────────────────────────────────────────────╮
    │ ▲ ens224 is run by "Wired connection 1" …                                          │
    ╰────────────────────────────────────────────────────────────────────────────────────╯
     4 CPUs  █ user 3 …
     enter Open  ? Help  q Quit  5 Findings  y Copy  1 Devices  2 Queues

Below 120 columns the two panels stand above each other, and the table leaves the facts the rows that it does not need.
With several hosts the first line has all of them, the key 0 shows every NIC of all, and [ and ] change the host.
The keys 1, 2, 3 and 5 change the body: devices, the queues of the chosen NIC, its interrupts and all processors, the
findings. The worst finding stands below every other view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.widgets import ContentSwitcher

from nictop.probe.records import Request
from nictop.tui.keys import LIVE_KEYS
from nictop.tui.screens.live.view import LiveView
from nictop.tui.screens.replay.actions import ReplayActions
from nictop.tui.widgets.cpu.queues import QueueView
from nictop.tui.widgets.cpu.strip import ProcessorStrip
from nictop.tui.widgets.cpu.view import CpuView
from nictop.tui.widgets.devices.overview import OverviewView
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.findings.panel import FindingsPanel
from nictop.tui.widgets.findings.view import FindingsView

if TYPE_CHECKING:
    from nictop.model.devices.overview import NicRow

LISTS = {"findings": "#finding-list", "overview": "#nics"}
"""View → what has the focus there."""

WITHOUT_PROCESSORS = ("load", "findings", "overview")
"""Views that have no room for the processors, or a line for each."""

INTERVALS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds; the steps of the keys + and -."""


class LiveScreen(LiveView, ReplayActions):
    """What the host's NICs do now."""

    BINDINGS: ClassVar[list[BindingType]] = LIVE_KEYS

    async def on_device_table_chosen(self, event: DeviceTable.Chosen) -> None:
        """The probe reads queue and driver counters only of the NIC that is shown."""
        watched = () if event.row.link is None else (event.row.link.ifindex,)
        if watched != self._watched:
            self._watched = watched
            await self.nictop.hosts.request(Request(watch=watched))
        if self._snapshot is not None:
            self._draw_view(self._snapshot)

    def on_device_table_opened(self) -> None:
        self.action_open()

    def on_overview_table_opened(self) -> None:
        self.action_open()

    def on_finding_list_opened(self) -> None:
        self.action_open()

    def on_findings_panel_opened(self) -> None:
        self.action_view("findings")

    def action_open(self) -> None:
        """The chosen device, or the chosen finding, over the whole view."""
        if self.view == "findings":
            self.query_one(FindingsView).full = True
            self._changed("#finding-page")
        elif self.view == "overview":
            self._open_nic(self.query_one(OverviewView).chosen)
        else:
            self.add_class("-detail")
            self._changed("#facts")

    def _open_nic(self, row: NicRow | None) -> None:
        """A line of the overview: that NIC among the devices of its host."""
        if row is None:
            return
        if row.end.host != self._host:
            self.nictop.hosts.choose(row.end.host)
        self.query_one(DeviceTable).choose_link(row.end.ifindex)
        self.action_view("body")

    def action_back(self) -> None:
        """From a finding to all of them, from a filter to all NICs; else to the devices, from wherever."""
        findings = self.query_one(FindingsView)
        if self.nictop.replay is not None and self.nictop.replay.searches:
            self.nictop.replay.stop_search()
        elif self.view == "findings" and findings.full:
            self.action_view("findings")
        elif self.view == "overview" and self.query_one(OverviewView).end_filter():
            self._draw_overview()
        else:
            self.remove_class("-detail")
            self.action_view("body")

    def action_view(self, view: str) -> None:
        self.query_one(FindingsView).full = False
        self.query_one("#views", ContentSwitcher).current = view
        self.query_one(ProcessorStrip).display = view not in WITHOUT_PROCESSORS
        self.query_one(FindingsPanel).display = view != "findings"
        detail = self.has_class("-detail")
        self._changed({"body": "#facts" if detail else "#devices", **LISTS}.get(view, f"#{view}"))

    def _changed(self, focus: str) -> None:
        """Another part of the screen is visible: offer its keys, and draw its newest numbers."""
        self.query_one(focus).focus()
        self.refresh_bindings()
        self.call_after_refresh(self._draw)

    def action_copy(self) -> None:
        """The command of the finding that is shown: the marked one of the page, else the first of the worst."""
        fix = self._fix
        if fix is not None:
            self.nictop.copy_command(*fix)

    def action_fix(self) -> None:
        """Open the change that is running, or the fix that the key y copies."""
        if self.refuses_recording():
            return
        fix = self._fix
        if not self.opener.open_change() and fix is not None:
            self.opener.open_fix(*fix)

    def action_set_up(self) -> None:
        """The NIC that is chosen, or that the chosen finding is about."""
        if self.refuses_recording():
            return
        self.opener.open_set_up(*self._nic)

    def action_skipped(self) -> None:
        self.query_one(FindingsView).skipped = not self.query_one(FindingsView).skipped
        self._draw_findings()

    def action_step(self, direction: int) -> None:
        self.query_one(DeviceTable).step_to_link(direction)

    def action_idle(self) -> None:
        self.query_one(QueueView).unfold = not self.query_one(QueueView).unfold
        self._draw()

    def action_record(self) -> None:
        from nictop.tui.screens.live.files import toggle_recording

        toggle_recording(self)

    def action_report(self) -> None:
        from nictop.tui.screens.live.files import ask_report

        ask_report(self)

    def action_host(self, step: int) -> None:
        """The host before or after, round and round."""
        names = [one.name for one in self.nictop.hosts.sessions]
        if self._host in names:
            self.nictop.hosts.choose(names[(names.index(self._host) + step) % len(names)])

    async def action_machine(self) -> None:
        """The probe reads the whole of /proc/interrupts only while it is shown."""
        view = self.query_one(CpuView)
        view.machine = not view.machine
        await self.nictop.hosts.request(Request(machine=view.machine))
        self._draw()

    def action_freeze(self) -> None:
        self._frozen = not self._frozen
        self._kept = {one.name: one.snapshot for one in self.nictop.hosts.sessions} if self._frozen else {}
        if not self._frozen:
            self._update_snapshot()
            self._update_diagnosis()
        self._draw()

    def action_packets(self) -> None:
        self.query_one(DeviceTable).packets = not self.query_one(DeviceTable).packets
        self._draw()

    def action_virtual(self) -> None:
        if self.view == "overview":
            self.query_one(OverviewView).virtual = not self.query_one(OverviewView).virtual
            self._draw_overview()
            return
        self.query_one(DeviceTable).virtual = not self.query_one(DeviceTable).virtual
        self._draw()

    async def action_update(self) -> None:
        if self.refuses_recording():
            return
        await self.nictop.hosts.request(Request(inventory=True))

    async def action_interval(self, step: int) -> None:
        nearest = min(range(len(INTERVALS)), key=lambda index: abs(INTERVALS[index] - self.nictop.hosts.interval))
        chosen = INTERVALS[max(0, min(len(INTERVALS) - 1, nearest + step))]
        await self.nictop.hosts.request(Request(interval=chosen))
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are offered only in the view that they act on."""
        if not self._filled:
            return True
        replays = self.replays(action)
        if replays is not None:
            return replays
        view, detail = self.view, self.has_class("-detail")
        match action:
            case "open":
                full = self.query_one(FindingsView).full
                return (view == "body" and not detail) or (view == "findings" and not full) or view == "overview"
            case "back":
                return detail or view != "body"
            case "packets":
                return view == "body" and not detail
            case "virtual":
                return (view == "body" and not detail) or view == "overview"
            case "idle":
                return view == "queues"
            case "machine":
                return view == "load"
            case "copy":
                return self._fix is not None
            case "fix":
                return self._fix is not None or self.nictop.changes.progress is not None
            case "skipped":
                return view == "findings"
            case "step":
                return view not in LISTS
            case "view":
                return parameters != (view,) and (parameters != ("overview",) or self.nictop.hosts.several)
            case "host":
                return self.nictop.hosts.several
        return True
