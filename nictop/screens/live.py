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
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Footer, Static

from nictop.model.snapshot import Snapshot
from nictop.model.wording import ascii_only as ascii_text
from nictop.model.wording import clean
from nictop.probe.records import Request
from nictop.screens.help import HelpScreen
from nictop.screens.hosts import OWN_KEYS as HOSTS_KEYS
from nictop.screens.hosts import HostsScreen
from nictop.widgets.choice_view import ChoiceView
from nictop.widgets.device_table import DeviceTable
from nictop.widgets.devices_view import DevicesView
from nictop.widgets.findings_panel import FindingsPanel, worst_fix
from nictop.widgets.findings_view import FindingsView
from nictop.widgets.processor_view import ProcessorView
from nictop.widgets.processors import ProcessorStrip
from nictop.widgets.queue_view import QueueView
from nictop.widgets.status_line import StatusLine

if TYPE_CHECKING:
    from nictop.app import NictopApp
    from nictop.followed import Followed
    from nictop.rules import Diagnosis, Finding, Fix

INTERVALS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds; the steps of the keys + and -."""


class LiveScreen(Screen[None]):
    """What the host's NICs do now."""

    CSS_PATH = "../nictop.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="live.open", key_display="enter", tooltip="one device, the whole screen"),
        Binding("escape", "back", "Back", id="live.back", tooltip="back to all devices"),
        Binding("question_mark", "help", "Help", id="live.help", key_display="?", tooltip="keys and marks"),
        Binding("q", "app.quit", "Quit", id="live.quit", tooltip="leave nictop"),
        Binding("h", "hosts", "Hosts", id="live.hosts", tooltip="the watched hosts: how they are, add, remove"),
        Binding(
            "left_square_bracket,less_than_sign",
            "host(-1)",
            "Host before",
            id="live.host-before",
            show=False,
            tooltip="several hosts: the one before",
        ),
        Binding(
            "right_square_bracket,greater_than_sign",
            "host(1)",
            "Next host",
            id="live.host-next",
            key_display="]",
            tooltip="several hosts: the next one",
        ),
        Binding("5", "view('findings')", "Findings", id="live.findings", tooltip="what is wrong, and what to type"),
        Binding("y", "copy", "Copy", id="live.copy", tooltip="copy the command of the finding that is shown"),
        Binding("s", "skipped", "Skipped", id="live.skipped", tooltip="findings: also the rules that could not look"),
        Binding("1", "view('body')", "Devices", id="live.devices", tooltip="all devices, and the facts of one"),
        Binding("2", "view('queues')", "Queues", id="live.queues", tooltip="queues of the chosen NIC, wire to core"),
        Binding("3", "view('load')", "CPUs", id="live.load", tooltip="its interrupts, all CPUs, and who spends them"),
        Binding("space", "freeze", "Freeze", id="live.freeze", tooltip="stop the picture; the history goes on"),
        Binding("p", "packets", "Packets", id="live.packets", tooltip="bits per second or packets per second"),
        Binding("v", "virtual", "Virtual", id="live.virtual", tooltip="show or hide netdevs without a device"),
        Binding("u", "update", "Update", id="live.update", tooltip="read everything again, now"),
        Binding("left", "step(-1)", "Previous", id="live.previous", show=False, tooltip="the netdev above"),
        Binding("right", "step(1)", "Next", id="live.next", show=False, tooltip="the netdev below"),
        Binding("i", "idle", "Idle", id="live.idle", tooltip="show or fold queues that do nothing"),
        Binding("a", "machine", "All", id="live.machine", tooltip="all interrupts of the machine, too"),
        Binding("plus,equals_sign", "interval(-1)", "Faster", id="live.faster", show=False, tooltip="read more often"),
        Binding("minus", "interval(1)", "Slower", id="live.slower", show=False, tooltip="read less often"),
        Binding("ctrl+c", "app.quit", "Quit", id="live.interrupt", show=False, tooltip="leave nictop"),
        Binding("tab", "app.focus_next", "Panel", id="live.panel", show=False, tooltip="to the facts, and back"),
    ]

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
        self._draw_due = False
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
        """Id of the widget that fills the body now: body, queues, load or findings."""
        return self.query_one("#views", ContentSwitcher).current

    def _draw_view(self, snapshot: Snapshot) -> None:
        """What is not in sight is not drawn."""
        row = self.query_one(DeviceTable).chosen
        link = row.link if row is not None else None
        if self.view == "queues":
            self.query_one(QueueView).show(link, snapshot)
        elif self.view == "load":
            self.query_one(ProcessorView).show(link, snapshot)
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

    def on_finding_list_opened(self) -> None:
        self.action_open()

    def on_findings_panel_opened(self) -> None:
        self.action_view("findings")

    def action_open(self) -> None:
        """The chosen device, or the chosen finding, over the whole view."""
        if self.view == "findings":
            self.query_one(FindingsView).full = True
            self._changed("#finding-page")
        else:
            self.add_class("-detail")
            self._changed("#facts")

    def action_back(self) -> None:
        """From a finding to all of them; else to the devices, from wherever."""
        findings = self.query_one(FindingsView)
        if self.view == "findings" and findings.full:
            self.action_view("findings")
        else:
            self.remove_class("-detail")
            self.action_view("body")

    def action_view(self, view: str) -> None:
        self.query_one(FindingsView).full = False
        self.query_one("#views", ContentSwitcher).current = view
        self.query_one(ProcessorStrip).display = view not in ("load", "findings")  # no room there, or a line for each
        self.query_one(FindingsPanel).display = view != "findings"
        detail = self.has_class("-detail")
        self._changed({"body": "#facts" if detail else "#devices", "findings": "#finding-list"}.get(view, f"#{view}"))

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
            "open": (body and not detail) or (findings and not full),
            "back": detail or not body,
            "packets": body and not detail,
            "virtual": body and not detail,
            "idle": self.view == "queues",
            "machine": self.view == "load",
            "copy": self._fix is not None,
            "skipped": findings,
            "step": not findings,
            "view": parameters != (self.view,),
            "host": self.nictop.several_hosts,
        }
        return offered.get(action, True)


ALL_BINDINGS: list[BindingType] = [
    *LiveScreen.BINDINGS,
    *FindingsView.BINDINGS,
    *HOSTS_KEYS,
    *ChoiceView.BINDINGS,
]
"""Every key, for the help and for README."""
