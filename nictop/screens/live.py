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

from time import monotonic
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Footer, Static

from nictop.model.snapshot import Snapshot
from nictop.model.wording import ascii_only as ascii_text
from nictop.model.wording import clean
from nictop.probe.records import Request
from nictop.screens.help import HelpScreen
from nictop.screens.hosts import HostsScreen
from nictop.screens.live_keys import ALL_BINDINGS, LIVE_KEYS
from nictop.widgets.device_table import DeviceTable
from nictop.widgets.devices_view import DevicesView
from nictop.widgets.findings_panel import FindingsPanel, worst_fix
from nictop.widgets.findings_view import FindingsView
from nictop.widgets.overview_view import OverviewView
from nictop.widgets.processor_view import ProcessorView
from nictop.widgets.processors import ProcessorStrip
from nictop.widgets.queue_view import QueueView
from nictop.widgets.status_line import StatusLine

if TYPE_CHECKING:
    from nictop.app import NictopApp
    from nictop.followed import Followed
    from nictop.model.overview import NicRow
    from nictop.rules import Diagnosis, Finding, Fix

LISTS = {"findings": "#finding-list", "overview": "#nics"}
"""View → what has the keys there."""

WITHOUT_PROCESSORS = ("load", "findings", "overview")
"""Views that have no room for the processors, or a line for each."""

INTERVALS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds; the steps of the keys + and -."""


class LiveScreen(Screen[None]):
    """What the host's NICs do now."""

    CSS_PATH = "../nictop.tcss"

    BINDINGS: ClassVar[list[BindingType]] = LIVE_KEYS

    def __init__(self, *, ascii_only: bool) -> None:
        super().__init__()
        self._ascii_only = ascii_only
        self._frozen = False
        self._snapshot: Snapshot | None = None
        self._diagnosis: Diagnosis | None = None
        self._watched: tuple[int, ...] | None = None
        """Netdevs whose queues the probe of the chosen host was asked for; None: it was asked for nothing yet."""
        self._host = ""
        self._hosts_known = 1
        self._cursors: dict[str, str] = {}
        """Host → key of the row that was chosen there when another host was shown."""
        self._kept: dict[str, Snapshot] = {}
        """While frozen: the pictures as they were."""
        self._draw_due = self._overview_due = False
        self.set_class(ascii_only, "-ascii")

    @property
    def nictop(self) -> NictopApp:
        return cast("NictopApp", self.app)

    def compose(self) -> ComposeResult:
        yield StatusLine(ascii_only=self._ascii_only, id="status")
        yield Static("", id="banner", markup=False)
        with ContentSwitcher(initial="body", id="views"):
            yield DevicesView(ascii_only=self._ascii_only, id="body")
            yield QueueView(ascii_only=self._ascii_only, id="queues")
            yield ProcessorView(ascii_only=self._ascii_only, id="load")
            yield FindingsView(ascii_only=self._ascii_only, id="findings")
            yield OverviewView(ascii_only=self._ascii_only, id="overview")
        yield FindingsPanel(ascii_only=self._ascii_only, id="worst")
        yield ProcessorStrip(ascii_only=self._ascii_only, id="processors")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one(DeviceTable).focus()
        self._host = self.nictop.chosen
        self.watch(self.app, "chosen", self._take_host, init=False)
        self.watch(self.app, "watched", self._take_hosts, init=True)
        self.watch(self.app, "snapshot", self._take, init=True)
        self.watch(self.app, "diagnosis", self._take_diagnosis, init=True)

    # ------------------------------------------------------------------------------------------ what is shown

    def _take(self, snapshot: Snapshot | None) -> None:
        if snapshot is not None and not self._frozen:
            self._snapshot = snapshot
            self._draw()

    def _take_hosts(self, hosts: tuple[Followed, ...]) -> None:
        """There is news of some host, or time has passed for one that is away."""
        self.query_one(StatusLine).show_hosts(hosts, self.nictop.chosen)
        if self._snapshot is not None:
            self._show_standing()
        if self.view == "overview" and not self._frozen:
            self._draw_overview_soon()
        if len(hosts) != self._hosts_known:
            self._hosts_known = len(hosts)
            self.refresh_bindings()

    def _take_host(self, name: str) -> None:
        """Another host is shown: its picture, with the cursor where it was there; the probe of the one before reads
        for nobody."""
        table, view = self.query_one(DeviceTable), self.query_one(ProcessorView)
        if table.key is not None:
            self._cursors[self._host] = table.key
        if self._watched is not None or view.machine:
            self.run_worker(self.nictop.ask_host(self._host, Request(watch=(), machine=False)), group="requests")
        self._host, self._watched = name, None
        self._snapshot = self._kept.get(name) or self.nictop.followed.snapshot
        table.begin(self._cursors.get(name))
        if view.machine:
            self.run_worker(self.nictop.ask_host(name, Request(machine=True)), group="requests")
        self._draw()

    def _take_diagnosis(self, diagnosis: Diagnosis | None) -> None:
        if not self._frozen:
            could_copy = self._fix is not None
            self._diagnosis = diagnosis
            self._draw_findings()
            if could_copy != (self._fix is not None):
                self.refresh_bindings()

    def on_line_view_resized(self) -> None:
        if not self._draw_due:
            self._draw_due = True
            self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        self._draw_due = False
        snapshot = self._snapshot
        if snapshot is None:
            return
        status = self.query_one(StatusLine)
        status.pids = self.nictop.pids
        status.show(snapshot, interval=self.nictop.interval, frozen=self._frozen)
        self._show_standing()
        self.query_one(DeviceTable).show(snapshot, self.nictop.history)
        self._draw_view(snapshot)
        self._draw_findings()
        self.query_one(ProcessorStrip).show(snapshot)

    def _draw_findings(self) -> None:
        """The panel, or the view that has them all."""
        several = self.nictop.several_hosts
        if self.view == "findings":
            self.query_one(FindingsView).show(self._diagnosis, several_hosts=several)
        else:
            self.query_one(FindingsPanel).show(self._diagnosis, several_hosts=several)

    @property
    def view(self) -> str | None:
        """Id of the widget that fills the body now: body, queues, load, findings or overview."""
        return self.query_one("#views", ContentSwitcher).current

    def _draw_overview_soon(self) -> None:
        """Once for all that is new: of the chosen host, and of the others."""
        if not self._overview_due:
            self._overview_due = True
            self.call_after_refresh(self._draw_overview)

    def _draw_overview(self) -> None:
        self._overview_due = False
        hosts = self.nictop.watched
        pictures = [self._kept.get(one.name, one.snapshot) for one in hosts]
        self.query_one(OverviewView).show(hosts, pictures, self._diagnosis, monotonic())

    def _draw_view(self, snapshot: Snapshot) -> None:
        """What is not in sight is not drawn."""
        row = self.query_one(DeviceTable).chosen
        link = row.link if row is not None else None
        if self.view == "queues":
            self.query_one(QueueView).show(link, snapshot)
        elif self.view == "load":
            self.query_one(ProcessorView).show(link, snapshot)
        elif self.view == "overview":
            self._draw_overview_soon()
        elif self.view == "body":
            self.query_one(DevicesView).show(snapshot, self.nictop.history)

    def _show_standing(self) -> None:
        """Why the host is not live, how old the values are, and those in grey."""
        host, now, interval = self.nictop.followed, monotonic(), self.nictop.interval
        message = self._shown(host.notice(now, interval))
        banner = self.query_one("#banner", Static)
        if message != banner.content:
            banner.update(message)
            banner.set_class(bool(message), "shown")
        stale = host.standing(now, interval) != "live"
        if stale != self.has_class("-stale"):
            self.set_class(stale, "-stale")

    def _shown(self, text: str) -> str:
        return ascii_text(clean(text)) if self._ascii_only else clean(text)

    # -------------------------------------------------------------------------------------------------- keys

    async def on_device_table_chosen(self, event: DeviceTable.Chosen) -> None:
        """The probe reads queue and driver counters only of the NIC that somebody looks at."""
        watched = () if event.row.link is None else (event.row.link.ifindex,)
        if watched != self._watched:
            self._watched = watched
            await self.nictop.ask(Request(watch=watched))
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
            self.nictop.choose(row.end.host)
        self.query_one(DeviceTable).choose_link(row.end.ifindex)
        self.action_view("body")

    def action_back(self) -> None:
        """From a finding to all of them, from a filter to all NICs; else to the devices, from wherever."""
        findings = self.query_one(FindingsView)
        if self.view == "findings" and findings.full:
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
        """Another part of the screen is in sight: its keys, and its newest numbers."""
        self.query_one(focus).focus()
        self.refresh_bindings()
        self.call_after_refresh(self._draw)

    def action_copy(self) -> None:
        """The command of the finding that is shown: the marked one of the page, else the first of the worst."""
        fix = self._fix
        if fix is not None:
            self.nictop.copy_command(*fix)

    @property
    def _fix(self) -> tuple[Finding, Fix] | None:
        return self.query_one(FindingsView).fix if self.view == "findings" else worst_fix(self._diagnosis)

    def action_skipped(self) -> None:
        self.query_one(FindingsView).skipped = not self.query_one(FindingsView).skipped
        self._draw_findings()

    def action_step(self, direction: int) -> None:
        self.query_one(DeviceTable).step_to_link(direction)

    def action_idle(self) -> None:
        self.query_one(QueueView).unfold = not self.query_one(QueueView).unfold
        self._draw()

    def action_hosts(self) -> None:
        self.app.push_screen(HostsScreen(ascii_only=self._ascii_only))

    def action_host(self, step: int) -> None:
        """The host before or after, round and round."""
        names = [one.name for one in self.nictop.watched]
        if self._host in names:
            self.nictop.choose(names[(names.index(self._host) + step) % len(names)])

    async def action_machine(self) -> None:
        """The probe reads the whole of /proc/interrupts only while somebody looks at it."""
        view = self.query_one(ProcessorView)
        view.machine = not view.machine
        await self.nictop.ask(Request(machine=view.machine))
        self._draw()

    def action_freeze(self) -> None:
        self._frozen = not self._frozen
        self._kept = {one.name: one.snapshot for one in self.nictop.watched} if self._frozen else {}
        if not self._frozen:
            self._take(self.nictop.snapshot)
            self._take_diagnosis(self.nictop.diagnosis)
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
        await self.nictop.ask(Request(inventory=True))

    async def action_interval(self, step: int) -> None:
        nearest = min(range(len(INTERVALS)), key=lambda index: abs(INTERVALS[index] - self.nictop.interval))
        chosen = INTERVALS[max(0, min(len(INTERVALS) - 1, nearest + step))]
        await self.nictop.ask(Request(interval=chosen))
        self._draw()

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(ALL_BINDINGS, ascii_only=self._ascii_only))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys are offered only in the view that they act on."""
        if not self.query("#views"):  # not composed yet
            return True
        body, detail, findings = self.view == "body", self.has_class("-detail"), self.view == "findings"
        full = self.query_one(FindingsView).full
        offered = {
            "open": (body and not detail) or (findings and not full) or self.view == "overview",
            "back": detail or not body,
            "packets": body and not detail,
            "virtual": (body and not detail) or self.view == "overview",
            "idle": self.view == "queues",
            "machine": self.view == "load",
            "copy": self._fix is not None,
            "skipped": findings,
            "step": not findings and self.view != "overview",
            "view": parameters != (self.view,) and (parameters != ("overview",) or self.nictop.several_hosts),
            "host": self.nictop.several_hosts,
        }
        return offered.get(action, True)
