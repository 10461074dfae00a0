"""What the live screen shows: the widgets, and when each of them is drawn from which snapshot.

What is not visible is not drawn. The actions are in `screen`.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.screen import ModalScreen, Screen
from textual.widgets import ContentSwitcher, Static

from nictop.model.snapshot import Snapshot
from nictop.probe.records import Request
from nictop.rules import Finding
from nictop.tui.screens.base import NictopScreen
from nictop.tui.screens.changes.status import change_status
from nictop.tui.screens.traffic.status import run_status
from nictop.tui.widgets.base.key_footer import KeyFooter
from nictop.tui.widgets.cpu.queues import QueueView
from nictop.tui.widgets.cpu.strip import ProcessorStrip
from nictop.tui.widgets.cpu.view import CpuView
from nictop.tui.widgets.devices.overview import OverviewView
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.devices.view import DevicesView
from nictop.tui.widgets.findings.panel import FindingsPanel, worst_fix
from nictop.tui.widgets.findings.view import FindingList, FindingsView
from nictop.tui.widgets.status.replay_line import ReplayLine
from nictop.tui.widgets.status.status_line import StatusLine

if TYPE_CHECKING:
    from nictop.rules import Diagnosis, Fix


class LiveView(NictopScreen, Screen[None]):
    """The live screen without its actions."""

    CSS_PATH = "../../nictop.tcss"

    def __init__(self) -> None:
        super().__init__()
        self._frozen = False
        self._snapshot: Snapshot | None = None
        self._diagnosis: Diagnosis | None = None
        self._watched: tuple[int, ...] | None = None
        """Netdevs whose queues were requested from the probe of the chosen host; None: nothing was requested yet."""
        self._host = ""
        self._hosts_known = 1
        self._cursors: dict[str, str] = {}
        """Host → key of the row that was chosen there when another host was shown."""
        self._kept: dict[str, Snapshot] = {}
        """While frozen: host → snapshot at that time."""
        self._draw_due = self._overview_due = self._has_change = self._filled = False

    def compose(self) -> ComposeResult:
        replay = self.nictop.replay
        yield StatusLine(clock=self.nictop.now, id="status")
        yield ReplayLine(place=replay.where if replay else None, id="replay")
        yield Static("", id="banner", markup=False)
        with ContentSwitcher(initial="body", id="views"):
            yield DevicesView(id="body")
            yield QueueView(id="queues")
            yield CpuView(id="load")
            yield FindingsView(clock=self.nictop.now, id="findings")
            yield OverviewView(id="overview")
        yield FindingsPanel(id="worst")
        yield ProcessorStrip(id="processors")
        yield KeyFooter()

    def on_mount(self) -> None:
        self._filled = True
        self.query_one(DeviceTable).focus()
        nictop = self.nictop
        self._host = nictop.hosts.chosen
        self.subscribe(nictop.hosts.chosen_changed, self._switch_host)
        self.subscribe(nictop.recording.changed, self._update_recording)
        self.subscribe(nictop.changes.changed, self._update_change)
        self.subscribe(nictop.hosts.changed, self._update_hosts, now=True)
        self.subscribe(nictop.hosts.snapshot_changed, self._update_snapshot, now=True)
        self.subscribe(nictop.diagnosis.changed, self._update_diagnosis, now=True)
        self.subscribe(nictop.traffic.changed, self._update_run, now=True)
        if nictop.replay is not None:
            self.subscribe(nictop.replay.changed, self._update_replay, now=True)

    # ------------------------------------------------------------------------------------------ what is shown

    def _update_snapshot(self) -> None:
        snapshot = self.nictop.hosts.snapshot
        if snapshot is not None and not self._frozen:
            self._snapshot = snapshot
            self._draw()

    def _update_hosts(self) -> None:
        """Something of a host is new, or time has passed for one that is not live."""
        hosts = self.nictop.hosts.sessions
        if len(hosts) != self._hosts_known:
            self._hosts_known = len(hosts)
            self.refresh_bindings()
        if not self.in_sight:
            return
        self.query_one(StatusLine).show_hosts(hosts, self.nictop.hosts.chosen)
        if self._snapshot is not None:
            self._show_status()
        if self.view == "overview" and not self._frozen:
            self._draw_overview_soon()

    def _switch_host(self) -> None:
        """Another host is shown: its snapshot, with the cursor where it was there. The probe of the one before need not
        read any more what only this screen showed."""
        name, hosts = self.nictop.hosts.chosen, self.nictop.hosts
        table, view = self.query_one(DeviceTable), self.query_one(CpuView)
        if table.key is not None:
            self._cursors[self._host] = table.key
        if self._watched is not None or view.machine:
            self.run_worker(hosts.request_from(self._host, Request(watch=(), machine=False)), group="requests")
        self._host, self._watched = name, None
        self._snapshot = self._kept.get(name) or hosts.session.snapshot
        table.begin(self._cursors.get(name))
        if view.machine:
            self.run_worker(hosts.request_from(name, Request(machine=True)), group="requests")
        self._draw()

    def _update_diagnosis(self) -> None:
        if not self._frozen:
            could_copy = self._fix is not None
            self._diagnosis = self.nictop.diagnosis.result
            self._draw_findings()
            if self.view == "overview":
                self._draw_overview_soon()
            if could_copy != (self._fix is not None):
                self.refresh_bindings()

    def _update_run(self) -> None:
        """Show the status of the run and of the change."""
        if not self.in_sight:
            return
        said = (run_status(self.nictop.traffic), change_status(self.nictop.changes.progress, monotonic()))
        self.query_one(StatusLine).show_run(self.glyphs.text(" · ".join(part for part in said if part)))

    def _update_change(self) -> None:
        """A change has started, or was dropped: the key f is offered for it."""
        there = self.nictop.changes.progress is not None
        if there != self._has_change:
            self._has_change = there
            self.refresh_bindings()
        self._update_run()

    def _update_recording(self) -> None:
        self.query_one(StatusLine).show_recording(self.glyphs.text(self.nictop.recording.status))

    def _update_replay(self) -> None:
        if self.in_sight:
            self.query_one(ReplayLine).redraw()

    def on_line_view_resized(self) -> None:
        self._update_replay()
        if not self._draw_due:
            self._draw_due = True
            self.call_after_refresh(self._draw)

    @property
    def in_sight(self) -> bool:
        """It is shown, if only behind a dialog."""
        return self.is_current or isinstance(self.app.screen, ModalScreen)

    def on_screen_resume(self) -> None:
        """It was covered by another screen, and not drawn meanwhile."""
        if self._filled:
            self._draw()
            self._update_run()
            self._update_replay()

    def _draw(self) -> None:
        self._draw_due = False
        snapshot = self._snapshot
        if snapshot is None or not self.in_sight:
            return
        status = self.query_one(StatusLine)
        status.pids = self.nictop.hosts.pids
        status.show(snapshot, interval=self.nictop.hosts.interval, frozen=self._frozen)
        self._show_status()
        self.query_one(DeviceTable).show(snapshot, self.nictop.hosts.session.history)
        self._draw_view(snapshot)
        self._draw_findings()
        self.query_one(ProcessorStrip).show(snapshot)

    def _draw_findings(self) -> None:
        """The panel, or the view that has them all; this remembers the findings that are gone even while hidden."""
        several = self.nictop.hosts.several
        self.query_one(FindingsView).show(self._diagnosis, several_hosts=several)
        if self.view != "findings":
            self.query_one(FindingsPanel).show(self._diagnosis, several_hosts=several)

    @property
    def view(self) -> str | None:
        """Id of the widget that fills the body now: body, queues, load, findings or overview."""
        return self.query_one("#views", ContentSwitcher).current

    def _draw_overview_soon(self) -> None:
        """One redraw for all that is new, of the chosen host and of the others."""
        if not self._overview_due:
            self._overview_due = True
            self.call_after_refresh(self._draw_overview)

    def _draw_overview(self) -> None:
        self._overview_due = False
        hosts = self.nictop.hosts.sessions
        pictures = [self._kept.get(one.name, one.snapshot) for one in hosts]
        self.query_one(OverviewView).show(hosts, pictures, self._diagnosis, self.nictop.now())

    def _draw_view(self, snapshot: Snapshot) -> None:
        """Only the view that is visible."""
        row = self.query_one(DeviceTable).chosen
        link = row.link if row is not None else None
        if self.view == "queues":
            self.query_one(QueueView).show(link, snapshot, self.nictop.hosts.session.window.parts)
        elif self.view == "load":
            self.query_one(CpuView).show(link, snapshot, self.nictop.hosts.session.window.parts)
        elif self.view == "overview":
            self._draw_overview_soon()
        elif self.view == "body":
            self.query_one(DevicesView).show(snapshot, self.nictop.hosts.session.history)

    def _show_status(self) -> None:
        """Why the host is not live and how old the values are, with the values in grey."""
        host, now, interval = self.nictop.hosts.session, self.nictop.now(), self.nictop.hosts.interval
        message = self.glyphs.text(host.notice(now, interval))
        banner = self.query_one("#banner", Static)
        if message != banner.content:
            banner.update(message)
            banner.set_class(bool(message), "shown")
        stale = host.status(now, interval) not in ("live", "overloaded")
        if stale != self.has_class("-stale"):
            self.set_class(stale, "-stale")

    @property
    def _nic(self) -> tuple[str, int | None]:
        """Host and ifindex of what is chosen in the visible view; None: it is not a NIC."""
        if self.view == "findings":
            entry = self.query_one(FindingList).chosen
            return (entry.host, entry.ifindex) if isinstance(entry, Finding) else (self._host, None)
        if self.view == "overview":
            row = self.query_one(OverviewView).chosen
            return (row.end.host, row.end.ifindex) if row is not None else (self._host, None)
        chosen = self.query_one(DeviceTable).chosen
        return self._host, chosen.link.ifindex if chosen is not None and chosen.link is not None else None

    @property
    def _fix(self) -> tuple[Finding, Fix] | None:
        return self.query_one(FindingsView).fix if self.view == "findings" else worst_fix(self._diagnosis)
