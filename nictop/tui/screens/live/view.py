"""What the live screen shows: the widgets, and when each of them is drawn from which snapshot.

What is not visible is not drawn. The actions are in `screen`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.widget import Widget
from textual.widgets import ContentSwitcher, Input

from nictop.model.columns import connections, cpus, devices
from nictop.model.connections.table import requested_links
from nictop.model.devices.netdevs import End
from nictop.model.facts.pairs import peer_facts, tap_peer_names
from nictop.model.rates.links import Rates
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Link, Request
from nictop.rules import Finding, Fix, HostFacts
from nictop.rules.queue_advice import QueueAdvice, queue_advice
from nictop.rules.wording import is_checked
from nictop.tui.filter_help import (
    CONNECTION_FILTER,
    CPU_FILTER,
    FINDING_FILTER,
    NIC_FILTER,
    QUEUE_FILTER,
    FilterRows,
)
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.cpu.cpu_block import HEAT
from nictop.tui.widgets.cpu.queue_table import ALL_COLUMNS
from nictop.tui.widgets.cpu.queues import QueueView
from nictop.tui.widgets.cpu.strip import ProcessorStrip
from nictop.tui.widgets.cpu.view import CpuView
from nictop.tui.widgets.devices.connections import ConnectionsView
from nictop.tui.widgets.devices.overview import HostPairs, NicRows
from nictop.tui.widgets.devices.table import GRAPH, DeviceTable, all_findings_of, device_findings
from nictop.tui.widgets.devices.view import DevicesView, netdev_of, netdevs_of
from nictop.tui.widgets.findings.panel import first_fix
from nictop.tui.widgets.findings.view import FindingList, FindingsView
from nictop.tui.widgets.status.host_start import draw_host_start

if TYPE_CHECKING:
    from nictop.model.columns.column import Column
    from nictop.model.devices.overview import NicRow
    from nictop.probe.records import Link
    from nictop.rules import Fix
    from nictop.tui.widgets.base.line_view import SpanLine

LIVE_TABS = {"devices": "body", "queues": "queues", "cpus": "load", "findings": "findings"}
"""Tab → id of the widget that fills the body."""
CONNECTIONS = "connections"
"""Id of another one, which belongs to the tab Devices."""
FILTERS = {
    "body": "device-filter",
    CONNECTIONS: "connection-filter",
    "queues": "queue-filter",
    "load": "cpu-filter",
    "findings": "finding-filter",
}
"""Id of such a widget → that of its filter."""
FILTER_ROWS: dict[str, FilterRows] = {
    "body": NIC_FILTER,
    CONNECTIONS: CONNECTION_FILTER,
    "queues": QUEUE_FILTER,
    "load": CPU_FILTER,
    "findings": FINDING_FILTER,
}
"""Id of such a widget → what can be typed there."""
NIC_FILTERS: dict[str, type[QueueView | CpuView]] = {"queue-filter": QueueView, "cpu-filter": CpuView}
QUEUE_FILTER_HINT = "filter: 0-7  irq:57  cpu:3  input  rx>1000  drops/s>0  !12"
CPU_FILTER_HINT = "filter: 0-7  busy>50  soft>10  steal>0  irq/s>1000  !3"


class LiveView(FramedScreen):
    """The live screen without its actions."""

    CSS_PATH = "../../nictop.tcss"

    def __init__(self) -> None:
        super().__init__()
        self._snapshot: Snapshot | None = None
        self._watched: tuple[int, ...] | None = None
        """Netdevs whose queues were requested from the probe of the chosen host; None: nothing was requested yet."""
        self._connections: tuple[int, ...] = ()
        """Links whose connections were requested from the probe of the chosen host."""
        self._host = ""
        self._hosts_known = 1
        self._cursors: dict[str, str] = {}
        """Host → key of the row that was chosen there when another host was shown."""
        self._nics = NicRows()
        self._pairs = HostPairs()
        """For the filter of the devices."""
        self._has_change = self._filled = False
        self._offered = "", ""
        """`fix_action` and `set_up_action` of the footer."""
        self._judged: tuple[Fix, bool] | None = None
        """The last fix of `_can_apply`, and its answer."""

    def compose_body(self) -> Iterable[Widget]:
        with ContentSwitcher(initial="body", id="views"):
            yield DevicesView(id="body")
            yield ConnectionsView(id=CONNECTIONS)
            yield QueueView(id="queues")
            yield CpuView(id="load")
            yield FindingsView(here=self.nictop.here, id="findings")
        yield FilterLine(QueueView, QUEUE_FILTER_HINT, id="queue-filter")
        yield FilterLine(CpuView, CPU_FILTER_HINT, id="cpu-filter")
        yield ProcessorStrip(id="processors")

    def on_mount(self) -> None:
        self._filled = True
        nictop, table = self.nictop, self.query_one(DeviceTable)
        if nictop.replay is not None:
            table.preferred = nictop.replay.nic
        for view in (table, self.query_one(QueueView), self.query_one(CpuView), self.query_one(FindingsView)):
            view.waiting = self._waiting_lines
        table.focus()
        self._host = nictop.hosts.chosen
        self.subscribe(nictop.hosts.chosen_changed, self._switch_host)
        self.subscribe(nictop.changes.changed, self._update_change)
        self.subscribe(nictop.hosts.changed, self._update_hosts, now=True)
        self.subscribe(nictop.hosts.snapshot_changed, self._update_snapshot, now=True)
        self.subscribe(nictop.diagnosis.changed, self._update_diagnosis, now=True)
        self.subscribe(nictop.display.changed, self._update_display)

    # ------------------------------------------------------------------------------------------ what is shown

    @property
    def tab(self) -> str:
        return next((tab for tab, view in LIVE_TABS.items() if view == self.view), "devices")

    @property
    def tables(self) -> Mapping[str, Sequence[Column[Any]]]:
        match self.tab:
            case "devices" if self.view == CONNECTIONS:
                return {"": connections.COLUMNS}
            case "devices":
                return {"": (*devices.COLUMNS, GRAPH)}
            case "queues":
                return {"": ALL_COLUMNS}
            case "cpus":
                return {"": (*cpus.COLUMNS, HEAT)}
        return {}

    @property
    def filter_rows(self) -> FilterRows:
        return FILTER_ROWS[self.view or "body"]

    def on_input_changed(self, event: Input.Changed) -> None:
        """The filter of the devices, queues or CPUs."""
        event.stop()
        if event.input.id in NIC_FILTERS:
            self.query_one(NIC_FILTERS[event.input.id]).set_filter(event.value)
        self._draw()

    def _update_snapshot(self) -> None:
        snapshot = self.nictop.hosts.snapshot
        if snapshot is not None and not self.nictop.display.paused:
            self._snapshot = snapshot
            self.query_one(FindingsView).remember(self.nictop.display.diagnosis)
            self._draw()

    def _update_hosts(self) -> None:
        """Something of a host is new, or time has passed for one that is not live."""
        number = len(self.nictop.hosts.sessions)
        if number != self._hosts_known:
            self._hosts_known = number
            self.refresh_bindings()
        if self._snapshot is not None and self.in_sight:
            self._show_stale()
            if self._snapshot.inventory is None:
                self._draw()  # what is waited for has its seconds
        self._offer()

    def _switch_host(self) -> None:
        """Another host is shown: its snapshot, with the cursor on the interface of the same name, else where it was
        there. The probe of the one before need not read any more what only this screen showed."""
        name, hosts = self.nictop.hosts.chosen, self.nictop.hosts
        table, view = self.query_one(DeviceTable), self.query_one(CpuView)
        row = table.chosen
        if table.key is not None:
            self._cursors[self._host] = table.key
        if row is not None and row.link is not None and (table.key is not None or not table.preferred):
            table.preferred = row.link.name
        if self._watched is not None or view.machine:
            unwanted = Request(watch=(), machine=False, connections=() if self._connections else None)
            self.run_worker(hosts.request_from(self._host, unwanted), group="requests")
        self._host, self._watched, self._connections = name, None, ()
        self._snapshot = self.nictop.display.snapshot(hosts.session)
        is_known = any(link.name == table.preferred for link in self._snapshot.links.values())
        table.begin(None if is_known else self._cursors.get(name))
        if view.machine:
            self.run_worker(hosts.request_from(name, Request(machine=True)), group="requests")
        self._draw()

    def _update_diagnosis(self) -> None:
        self._draw_findings()
        self._draw()
        self._offer()

    def _update_change(self) -> None:
        """A change has started, or was dropped: the key f is offered for it."""
        there = self.nictop.changes.progress is not None
        if there != self._has_change:
            self._has_change = there
            self.refresh_bindings()

    def _update_display(self) -> None:
        """It was paused, or resumed."""
        self._update_snapshot()
        self._update_diagnosis()
        self._draw()

    def draw_resized(self) -> None:
        self._draw()

    def on_screen_resume(self) -> None:
        """It was covered by another screen, and not drawn meanwhile."""
        if self._filled:
            self._draw()

    def on_screen_suspend(self) -> None:
        if self._filled:
            self._request_connections()

    def _draw(self) -> None:
        snapshot = self._snapshot
        if snapshot is None or not self.in_sight:
            return
        self._show_stale()
        self.show_devices(snapshot)
        self._draw_view(snapshot)
        self._request_connections()
        self.query_one(ProcessorStrip).show(snapshot)

    def _waiting_lines(self, cells: int) -> Sequence[SpanLine]:
        """What is waited for of the shown host; nothing once its interfaces are known."""
        hosts = self.nictop.hosts
        if self._snapshot is None or self._snapshot.inventory is not None:
            return ()
        return draw_host_start(hosts.session, self.nictop.now(), hosts.interval, cells, glyphs=self.glyphs)

    def show_devices(self, snapshot: Snapshot) -> None:
        """Draw the table of devices."""
        display, table = self.nictop.display, self.query_one(DeviceTable)
        nics: dict[int, NicRow] = {}
        if table.filter.tests:
            hosts = self.nictop.hosts.sessions
            snapshots = [display.snapshot(one) for one in hosts]
            self._nics.update(hosts, snapshots, display.diagnosis, self.nictop.now(), virtual=True)
            nics = {row.end.ifindex: row for row in self._nics.rows if row.end.host == self._host}
        findings = device_findings(display.diagnosis, self._host)
        table.show(
            snapshot,
            self.nictop.hosts.session.history,
            findings,
            nics,
            self._peer_names(),
            is_checked=is_checked(display.diagnosis, snapshot),
        )

    def _peer_names(self) -> dict[int, str]:
        """ifindex → ``vm1 ens3``: NICs of other hosts behind taps of this one, and taps behind its NICs."""
        hosts = self.nictop.hosts
        self._pairs.update([self.nictop.display.snapshot(one) for one in hosts.sessions] if hosts.several else [])
        found = tap_peer_names(self._pairs.pairs, self._pairs.names)
        return {end.ifindex: name for end, name in found.items() if end.host == self._host}

    def _draw_findings(self) -> None:
        """It remembers when findings were there, even while it is hidden."""
        hosts, display = self.nictop.hosts, self.nictop.display
        diagnosis, snapshots = display.diagnosis, {one.name: display.snapshot(one) for one in hosts.sessions}
        self.query_one(FindingsView).show(
            diagnosis, tuple(hosts.by_name), hosts.unread(diagnosis), hosts.changed_since, snapshots
        )

    @property
    def _filter(self) -> FilterLine:
        """That of the visible list."""
        return self.query_one(f"#{FILTERS[self.view or 'body']}", FilterLine)

    @property
    def view(self) -> str | None:
        """Id of the widget that fills the body now: one of `LIVE_TABS`, or `CONNECTIONS`."""
        return self.query_one("#views", ContentSwitcher).current

    def _draw_view(self, snapshot: Snapshot) -> None:
        """Only the view that is visible."""
        row = self.query_one(DeviceTable).chosen
        link = netdev_of(row, snapshot) if row is not None else None
        if self.view in ("queues", "load"):
            view: QueueView | CpuView = self.query_one(NIC_FILTERS[FILTERS[self.view]])
            parts = self.nictop.hosts.session.window.parts
            if isinstance(view, QueueView):
                view.show(link, snapshot, parts, self._queue_advice(link, snapshot, parts))
                self._offer()
            else:
                view.show(link, snapshot, parts)
            errors = view.filter.errors
            self._filter.show_note("; ".join(errors) or view.count_text, is_error=bool(errors))
        elif self.view == "findings":
            self._draw_findings()
        elif self.view == CONNECTIONS:
            is_recording = self.nictop.replay is not None
            self.query_one(ConnectionsView).show(link, snapshot, is_recording=is_recording)
        elif self.view == "body":
            ifindex = row.link.ifindex if row is not None and row.link is not None else 0
            peers = peer_facts(End(self._host, ifindex), self._pairs.pairs, self._pairs.names)
            self.query_one(DevicesView).show(snapshot, self.nictop.hosts.session.history, peers)

    def _queue_advice(self, link: Link | None, snapshot: Snapshot, parts: Sequence[Rates]) -> QueueAdvice | None:
        if link is None or snapshot.inventory is None:
            return None
        diagnosis = self.nictop.display.diagnosis
        findings = diagnosis.findings if diagnosis is not None else None
        return queue_advice(HostFacts(snapshot, tuple(parts)), link, findings)

    def _request_connections(self) -> None:
        """The probe reads connections only while they are shown."""
        if self.nictop.replay is not None:
            return
        row, snapshot = self.query_one(DeviceTable).chosen, self._snapshot
        wanted: tuple[int, ...] = ()
        if self.in_sight and self.view == CONNECTIONS and row is not None and snapshot is not None:
            link = netdev_of(row, snapshot)
            wanted = requested_links(link.ifindex, snapshot.links) if link is not None else ()
        if wanted != self._connections:
            self._connections = wanted
            self.run_worker(self.nictop.hosts.request(Request(connections=wanted)), group="requests")

    def _show_stale(self) -> None:
        """Values of a host that is not live are grey."""
        host, now, interval = self.nictop.hosts.session, self.nictop.now(), self.nictop.hosts.interval
        stale = host.status(now, interval) not in ("live", "overloaded")
        if stale != self.has_class("-stale"):
            self.set_class(stale, "-stale")

    @property
    def _nics_to_set_up(self) -> tuple[str, Sequence[Link]]:
        """Host and netdevs of what is chosen in the visible view: one, or those of the chosen PCI function."""
        by_name = self.nictop.hosts.by_name
        if self.view == "findings":
            entry = self.query_one(FindingList).chosen
            if not isinstance(entry, Finding) or entry.host not in by_name or entry.ifindex is None:
                return "", ()
            link = by_name[entry.host].snapshot.links.get(entry.ifindex)
            return entry.host, () if link is None else (link,)
        row = self.query_one(DeviceTable).chosen
        snapshot = self._snapshot
        return self._host, netdevs_of(row, snapshot) if row is not None and snapshot is not None else ()

    @property
    def _fix(self) -> tuple[Finding | None, Fix] | None:
        """The fix that the view shows, and the finding that it is of: on Findings that of the chosen one, on Devices
        that of the worst finding of the chosen interface, on Queues what to do about them."""
        if self.view == "findings":
            return self.query_one(FindingsView).fix
        if self.view == "queues":
            advice = self.query_one(QueueView).advice
            return (advice.finding, advice.fix) if advice is not None and advice.fix is not None else None
        row = self.query_one(DeviceTable).chosen
        if self.view != "body" or row is None:
            return None
        return first_fix(all_findings_of(row, device_findings(self.nictop.display.diagnosis, self._host)))

    @property
    def fix_action(self) -> str:
        """The action of the key of fixes: fix, show_fix, show_change; "": none."""
        if self.nictop.changes.progress is not None:
            return "show_change"
        found = self._fix
        if found is None or self.view == CONNECTIONS:
            return ""
        finding, fix = found
        host = self._host if finding is None else finding.host
        return "fix" if self._can_change(host) and self._can_apply(fix) else "show_fix"

    @property
    def set_up_action(self) -> str:
        """The action of the key of the set-up: set_up, show_set_up; "": none."""
        host, nics = self._nics_to_set_up
        if self.nictop.replay is None and not nics:
            return ""
        return "set_up" if self._can_change(host) else "show_set_up"

    def _can_change(self, host: str) -> bool:
        """A recording refuses it when the key is pressed."""
        return self.nictop.replay is not None or self.nictop.changes.allowed(host)

    def _can_apply(self, fix: Fix) -> bool:
        """It is not only for the user to run."""
        if self._judged is None or self._judged[0] is not fix:
            from nictop.changes.actions import Actions, actions_of

            self._judged = fix, isinstance(actions_of(fix), Actions)
        return self._judged[1]

    def _offer(self) -> None:
        """Keys that act on what is chosen are in the footer where they do."""
        offered = self.fix_action, self.set_up_action
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()
