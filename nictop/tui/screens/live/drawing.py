"""What the live screen draws: its widgets, and when each of them is drawn from which snapshot.

What is not visible is not drawn. The actions are in `screen`, and what differs between the views in
`bodies`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.widget import Widget
from textual.widgets import ContentSwitcher, Input

from nictop.model.connections.table import requested_links
from nictop.model.facts.pairs import tap_peer_names
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.probe.records import Request
from nictop.rules import Fix
from nictop.rules.by_device import device_findings
from nictop.rules.wording import is_checked
from nictop.tui.filter_help import FilterRows
from nictop.tui.screens.frame import FramedScreen
from nictop.tui.screens.live.bodies import (
    ConnectionsBody,
    CpusBody,
    DevicesBody,
    FindingsBody,
    QueuesBody,
    ShownHost,
)
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.cpu.nic_view import NicView
from nictop.tui.widgets.cpu.queues import QueueView
from nictop.tui.widgets.cpu.strip import ProcessorStrip
from nictop.tui.widgets.cpu.view import CpuView
from nictop.tui.widgets.devices.connections import ConnectionsView
from nictop.tui.widgets.devices.detail import TrafficChart
from nictop.tui.widgets.devices.overview import NicRows
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.devices.view import DevicesView
from nictop.tui.widgets.findings.view import FindingsView
from nictop.tui.widgets.status.host_start import draw_host_start

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.columns.column import Column
    from nictop.model.devices.overview import NicRow
    from nictop.tui.screens.live.bodies import Body
    from nictop.tui.widgets.base.line_widget import SpanLine

QUEUE_FILTER_HINT = "filter: 0-7  irq:57  cpu:3  input  rx>1000  drops/s>0  !12"
CPU_FILTER_HINT = "filter: 0-7  busy>50  soft>10  steal>0  irq/s>1000  !3"


class LiveDrawing(FramedScreen):
    """The live screen without its actions."""

    HELD_LISTS = (DeviceTable,)

    def __init__(self) -> None:
        super().__init__()
        self.host = ShownHost()
        self._findings = FindingsBody(self, self.host)
        self._nic_bodies = QueuesBody(self, self.host), CpusBody(self, self.host)
        bodies = (
            DevicesBody(self, self.host),
            ConnectionsBody(self, self.host),
            *self._nic_bodies,
            self._findings,
        )
        self._bodies: dict[str, Body] = {body.name: body for body in bodies}
        self._watched: tuple[int, ...] | None = None
        """Netdevs whose queues were requested from the probe of the chosen host; None: nothing was
        requested yet."""
        self._connections: tuple[int, ...] = ()
        """Links whose connections were requested from the probe of the chosen host."""
        self._hosts_known = 1
        self._cursors: dict[str, str] = {}
        """Host → key of the row that was chosen there when another host was shown."""
        self._nics = NicRows()
        """For the filter of the devices."""
        self._has_change = self._filled = False
        self._offered: tuple[str, str, Collection[str]] = "", "", ()
        """`fix_action`, `set_up_action` and the actions of the body, as the footer has them."""
        self._judged: tuple[Fix, bool] | None = None
        """The last fix of `_can_apply`, and its answer."""

    def compose_body(self) -> Iterable[Widget]:
        with ContentSwitcher(initial=DevicesBody.name, id="views"):
            yield DevicesView(id=DevicesBody.name)
            yield ConnectionsView(id=ConnectionsBody.name)
            yield QueueView(id=QueuesBody.name)
            yield CpuView(id=CpusBody.name)
            yield FindingsView(here=self.nictop.drawn_here, id=FindingsBody.name)
        yield FilterLine(QueueView, QUEUE_FILTER_HINT, id=QueuesBody.filter_id)
        yield FilterLine(CpuView, CPU_FILTER_HINT, id=CpusBody.filter_id)
        yield ProcessorStrip(id="processors")

    def on_mount(self) -> None:
        self._filled = True
        nictop, table = self.nictop, self.query_one(DeviceTable)
        if nictop.replay is not None:
            table.preferred = nictop.replay.nic
        table.waiting = self._waiting_lines
        self.query_one(QueueView).waiting = self._waiting_lines
        self.query_one(CpuView).waiting = self._waiting_lines
        self.query_one(FindingsView).waiting = self._waiting_for_checks
        nictop.display.recent = self.query_one(FindingsView).recent
        for view in (*self.query(TrafficChart), *self.query(NicView)):
            view.axis_end = self._moment_text
        for page in self.query(NicView):
            page.age_text = self._age_text
        table.focus()
        self.host.name = nictop.hosts.chosen
        nictop.hosts.show_pending()
        self.subscribe(nictop.hosts.chosen_changed, self._switch_host)
        self.subscribe(nictop.changes.changed, self._update_change)
        self.subscribe(nictop.hosts.changed, self._update_hosts, now=True)
        self.subscribe(nictop.hosts.snapshot_changed, self._update_snapshot, now=True)
        self.subscribe(nictop.diagnosis.changed, self._update_diagnosis, now=True)
        self.subscribe(nictop.display.changed, self._update_display)

    # -------------------------------------------------------------------------------- what is shown

    @property
    def chosen_nic(self) -> str:
        """Name of the interface that is chosen; "": none is."""
        row = self.query_one(DeviceTable).chosen
        return "" if row is None or row.link is None else row.link.name

    @property
    def view(self) -> str | None:
        """Id of the widget that fills the body now."""
        return self.query_one("#views", ContentSwitcher).current

    @property
    def body(self) -> Body:
        """The view that is shown."""
        return self._bodies[self.view or DevicesBody.name]

    @property
    def tab(self) -> str:
        return self.body.tab

    @property
    def tables(self) -> Mapping[str, Sequence[Column[Any]]]:
        if not self.body.columns:
            return {}
        return {"": self.body.columns}

    @property
    def filter_rows(self) -> FilterRows:
        return self.body.filter_rows

    def on_input_changed(self, event: Input.Changed) -> None:
        """The filter of the devices, queues or CPUs."""
        event.stop()
        for body in self._nic_bodies:
            if body.filter_id == event.input.id:
                body.view.set_filter(event.value)
        self._draw()

    def _update_snapshot(self) -> None:
        snapshot = self.nictop.hosts.snapshot
        if snapshot is not None and not self.nictop.display.paused:
            self.host.snapshot = snapshot
            shown = self.nictop.display
            sessions = self.nictop.hosts.sessions
            snapshots = {session.name: shown.snapshot(session) for session in sessions}
            self.query_one(FindingsView).remember(shown.diagnosis, snapshots)
            self._draw()

    def _update_hosts(self) -> None:
        """Something of a host is new, or time has passed for one that is not live."""
        number = len(self.nictop.hosts.sessions)
        if number != self._hosts_known:
            self._hosts_known = number
            self.refresh_bindings()
        snapshot = self.host.snapshot
        if snapshot is not None and self.in_sight:
            self._show_stale()
            if snapshot.inventory is None or self.host.old_seconds is not None:
                self._draw()  # what is waited for has its seconds, and so have old values
        self._offer()

    def _switch_host(self) -> None:
        """Another host is shown: its snapshot, with the cursor on the interface of the same name,
        else where it was there. The probe of the one before need not read any more what only this
        screen showed."""
        name, hosts = self.nictop.hosts.chosen, self.nictop.hosts
        table, has_machine = self.query_one(DeviceTable), self.query_one(CpuView).machine
        self._remember_cursor(table)
        if self._watched is not None or has_machine:
            connections = () if self._connections else None
            unwanted = Request(watch=(), machine=False, connections=connections)
            self.run_worker(hosts.request_from(self.host.name, unwanted), group="requests")
        self._watched, self._connections = None, ()
        snapshot = self.nictop.display.snapshot(hosts.session)
        self.host.name, self.host.snapshot = name, snapshot
        is_known = any(link.name == table.preferred for link in snapshot.links.values())
        table.begin(None if is_known else self._cursors.get(name))
        if has_machine:
            self.run_worker(hosts.request_from(name, Request(machine=True)), group="requests")
        self._draw()

    def _remember_cursor(self, table: DeviceTable) -> None:
        """For this host, and the name of the interface for the next one."""
        if table.key is not None:
            self._cursors[self.host.name] = table.key
        row = table.chosen
        was_moved = table.key is not None or not table.preferred
        if row is not None and row.link is not None and was_moved:
            table.preferred = row.link.name

    def _update_diagnosis(self) -> None:
        self._findings.draw()
        self._update_findings()  # the line below the views is about what is listed since then
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
        snapshot = self.host.snapshot
        if snapshot is None or not self.in_sight:
            return
        self._show_stale()
        self.show_devices(snapshot)
        self.body.draw(snapshot)
        if self.view == QueuesBody.name or self._offered[2] != self.body.actions:
            self._offer()  # a fix of queues is known once it is drawn
        self._request_connections()
        self.query_one(ProcessorStrip).show(snapshot, self._age_text())

    def _waiting_lines(self, cells: int) -> Sequence[SpanLine]:
        """What is waited for of the shown host; nothing once its interfaces are known."""
        hosts, snapshot = self.nictop.hosts, self.host.snapshot
        is_known = snapshot is not None and snapshot.inventory is not None
        if is_known or not hosts.sessions:
            return ()
        return self._start_lines(hosts.session, cells)

    def _waiting_for_checks(self, cells: int) -> Sequence[SpanLine]:
        """The checks are made when settings are known, after the interfaces of `_waiting_lines`."""
        return self._start_lines(self.nictop.hosts.session, cells)

    def _start_lines(self, host: HostSession, cells: int) -> Sequence[SpanLine]:
        return draw_host_start(
            host,
            self.nictop.drawn_at(),
            self.nictop.hosts.interval,
            cells,
            labels=self.key_label,
            glyphs=self.glyphs,
        )

    def show_devices(self, snapshot: Snapshot) -> None:
        """Draw the table of devices, which other views need too."""
        display, table = self.nictop.display, self.query_one(DeviceTable)
        nics: Mapping[int, NicRow] = {}
        if table.filter.tests:
            nics = self._filtered_nics()
        table.show(
            self.host.current(snapshot),
            self.nictop.hosts.session.history,
            device_findings(display.diagnosis, self.host.name),
            nics,
            self._peer_names(),
            is_checked=is_checked(display.diagnosis, snapshot),
        )

    def _filtered_nics(self) -> dict[int, NicRow]:
        """ifindex → what the filter looks at."""
        hosts, display = self.nictop.hosts.sessions, self.nictop.display
        snapshots = [display.snapshot(session) for session in hosts]
        now, interval = self.nictop.drawn_at(), self.nictop.hosts.interval
        self._nics.update(hosts, snapshots, display.diagnosis, now, interval, virtual=True)
        return {row.end.ifindex: row for row in self._nics.rows if row.end.host == self.host.name}

    def _peer_names(self) -> dict[int, str]:
        """ifindex → ``vm1 ens3``: NICs of other hosts behind taps of this one, and taps behind
        its NICs."""
        hosts, display, pairs = self.nictop.hosts, self.nictop.display, self.host.pairs
        several = hosts.sessions if hosts.several else []
        pairs.update([display.snapshot(session) for session in several])
        names = tap_peer_names(pairs.pairs, pairs.names)
        return {end.ifindex: name for end, name in names.items() if end.host == self.host.name}

    def _request_connections(self) -> None:
        """The probe reads connections only while they are shown."""
        if self.nictop.replay is not None:
            return
        wanted = self._wanted_connections()
        if wanted != self._connections:
            self._connections = wanted
            request = self.nictop.hosts.request(Request(connections=wanted))
            self.run_worker(request, group="requests")

    def _wanted_connections(self) -> tuple[int, ...]:
        """Links whose connections are shown."""
        snapshot = self.host.snapshot
        if snapshot is None or self.view != ConnectionsBody.name or not self.in_sight:
            return ()
        link = self.body.chosen_netdev(snapshot)
        if link is None:
            return ()
        return requested_links(link.ifindex, snapshot.links)

    def _show_stale(self) -> None:
        """Values of a host that is not live are grey, and have their age."""
        hosts, now = self.nictop.hosts, self.nictop.drawn_at()
        status = hosts.session.status(now, hosts.interval)
        stale = status not in ("live", "overloaded")
        if not self.nictop.display.paused:  # then what is shown is of that time
            self.host.old_seconds = hosts.session.age(now) if stale else None
        if stale != self.has_class("-stale"):
            self.set_class(stale, "-stale")

    def _moment_text(self) -> str:
        """`AxisEnd` of the shown host."""
        return self.nictop.moment_text(self.host.old_seconds)

    def _age_text(self) -> str:
        """``values of 32 s ago``, where they are not those of now; else ""."""
        age = self.host.old_seconds
        return "" if age is None else f"values of {units.whole_seconds(age)} ago"

    @property
    def fix_action(self) -> str:
        """The action of the key of fixes: fix, show_fix, show_change; "": none."""
        if self.nictop.changes.progress is not None:
            return "show_change"
        shown = self.body.fix
        if shown is None:
            return ""
        finding, fix = shown
        host = self.host.name if finding is None else finding.host
        if self._can_change(host) and self._can_apply(fix):
            return "fix"
        return "show_fix"

    @property
    def set_up_action(self) -> str:
        """The action of the key of the set-up: set_up, show_set_up; "": none."""
        host, nics = self.body.nics_to_set_up
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
        offered = self.fix_action, self.set_up_action, self.body.actions
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()
