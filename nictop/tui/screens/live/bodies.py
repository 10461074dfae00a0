"""What fills the body of the live screen, one class for each of its views: what the keys act on
there, what can be typed into its filter, and how it is drawn.

The live screen asks the one that is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from nictop.model.columns import connections, cpus, devices
from nictop.model.devices.netdevs import End
from nictop.model.facts.pairs import peer_facts, with_ages
from nictop.model.pair_chain import pair_chain_facts
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.rules import Finding, HostFacts
from nictop.rules.by_device import device_findings, findings_of
from nictop.rules.queue_advice import queue_advice
from nictop.tui.filter_help import (
    CONNECTION_FILTER,
    CPU_FILTER,
    FINDING_FILTER,
    NIC_FILTER,
    QUEUE_FILTER,
    FilterRows,
)
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.cpu.cpu_block import HEAT
from nictop.tui.widgets.cpu.queue_table import ALL_COLUMNS
from nictop.tui.widgets.cpu.queues import QueueView
from nictop.tui.widgets.cpu.view import CpuView
from nictop.tui.widgets.devices.connections import ConnectionList, ConnectionsView
from nictop.tui.widgets.devices.overview import HostPairs, outages
from nictop.tui.widgets.devices.table import DeviceTable
from nictop.tui.widgets.devices.table_layout import GRAPH
from nictop.tui.widgets.devices.view import DevicesView, netdev_of, netdevs_of
from nictop.tui.widgets.findings.panel import first_fix
from nictop.tui.widgets.findings.view import FindingList, FindingsView

if TYPE_CHECKING:
    from nictop.model.columns.column import Column
    from nictop.model.devices.tree import Row
    from nictop.model.snapshot import Snapshot
    from nictop.probe.records import Link
    from nictop.rules import Fix
    from nictop.rules.queue_advice import QueueAdvice
    from nictop.tui.controllers.nictop import Nictop
    from nictop.tui.screens.frame import FramedScreen

LIVE_TABS = ("devices", "queues", "cpus", "findings")
"""Names of the tabs that the live screen has; each is also the id of the widget that fills its
body."""
BODY_ACTIONS = frozenset(
    ("open", "connections", "filter", "options", "step", "step_nic", "sort", "reverse")
)
"""Actions that only some of the views have."""
DETAIL_CLASS = "-detail"
"""Of the live screen, while one device is over the whole view."""


class ShownHost:
    """The host that the live screen shows."""

    def __init__(self) -> None:
        self.name = ""
        self.snapshot: Snapshot | None = None
        """That is drawn; an older one while the display is paused."""
        self.pairs = HostPairs()
        """Of its NICs and those of other hosts."""
        self.old_seconds: float | None = None
        """Age of its newest values, where it is not live; None: they are current."""
        self._without_rates: tuple[Snapshot, Snapshot] | None = None

    def current(self, snapshot: Snapshot) -> Snapshot:
        """Without rates where they are not those of now: a table shows none instead of old ones."""
        if self.old_seconds is None or snapshot.rates is None:
            return snapshot
        if self._without_rates is None or self._without_rates[0] is not snapshot:
            self._without_rates = snapshot, replace(snapshot, rates=None)
        return self._without_rates[1]


class Body:
    """One view of the live screen."""

    name: ClassVar[str]
    """Id of its widget."""
    filter_id: ClassVar[str]
    filter_rows: ClassVar[FilterRows]
    """What can be typed into its filter."""
    columns: ClassVar[Sequence[Column[Any]]] = ()
    is_sortable: ClassVar[bool] = False
    has_processors: ClassVar[bool] = True
    """The line of the processors has room below it."""
    has_worst_finding: ClassVar[bool] = True

    def __init__(self, screen: FramedScreen, host: ShownHost) -> None:
        self.screen = screen
        self.host = host

    @property
    def nictop(self) -> Nictop:
        return self.screen.nictop

    @property
    def tab(self) -> str:
        """Name of the tab that it belongs to."""
        return self.name

    @property
    def actions(self) -> Collection[str]:
        """Those of `BODY_ACTIONS` that have something to act on now."""
        raise NotImplementedError

    @property
    def focus(self) -> str:
        """Selector of the widget that has the focus first."""
        return f"#{self.name}"

    @property
    def filter(self) -> FilterLine:
        return self.screen.query_one(f"#{self.filter_id}", FilterLine)

    @property
    def sorted_table(self) -> DeviceTable | ConnectionList:
        """The table that the keys sort."""
        return self.screen.query_one(DeviceTable)

    @property
    def fix(self) -> tuple[Finding | None, Fix] | None:
        """The fix that the view shows, and the finding that it is of."""
        return None

    @property
    def why_no_fix(self) -> str:
        """Why `fix` is None, once the checks have run."""
        return "This view shows no commands; Findings and Devices do."

    @property
    def nics_to_set_up(self) -> tuple[str, Sequence[Link]]:
        """Host and netdevs of what is chosen: one, or those of the chosen PCI function."""
        row, snapshot = self.screen.query_one(DeviceTable).chosen, self.host.snapshot
        if row is None or snapshot is None:
            return self.host.name, ()
        return self.host.name, netdevs_of(row, snapshot)

    def chosen_netdev(self, snapshot: Snapshot) -> Link | None:
        """Of the chosen row of the devices."""
        row = self.screen.query_one(DeviceTable).chosen
        if row is None:
            return None
        return netdev_of(row, snapshot)

    @property
    def is_empty(self) -> bool:
        """Nothing is chosen that could be opened."""
        return False

    @property
    def measured(self) -> tuple[str, str] | None:
        """Names of the host and the interface that the key measures; None: what is chosen among the
        devices."""
        return None

    def open_detail(self) -> None:
        """What is chosen, over the whole view."""

    def close_detail(self) -> bool:
        """False: it was not open."""
        return False

    @property
    def has_detail(self) -> bool:
        """It is open."""
        return False

    def draw(self, snapshot: Snapshot) -> None:
        """It is the one that is shown."""
        raise NotImplementedError


class DevicesBody(Body):
    """All devices of the host, and the chosen one."""

    name = "devices"
    filter_id = "device-filter"
    filter_rows = NIC_FILTER
    columns = (*devices.COLUMNS, GRAPH)
    is_sortable = True

    @property
    def actions(self) -> Collection[str]:
        if not self._has_rows and not self.filter.display:
            return ()
        if not self.has_detail:
            return ("open", "filter", "options", "step", "sort", "reverse")
        if self._has_netdev:
            return ("connections", "step")
        return ("step",)

    @property
    def _has_rows(self) -> bool:
        """There is a device, or may still be one: nothing comes of a host that has failed."""
        snapshot = self.host.snapshot
        if snapshot is None or snapshot.state != "failed":
            return True
        return bool(snapshot.links or snapshot.pci)

    @property
    def _has_netdev(self) -> bool:
        """The chosen row has connections to show."""
        snapshot = self.host.snapshot
        return snapshot is not None and self.chosen_netdev(snapshot) is not None

    @property
    def focus(self) -> str:
        return "#facts" if self.has_detail else "#device-table"

    @property
    def fix(self) -> tuple[Finding | None, Fix] | None:
        """That of the worst finding of the chosen interface."""
        row = self.screen.query_one(DeviceTable).chosen
        if row is None:
            return None
        return first_fix(self._findings_of(row))

    def _findings_of(self, row: Row) -> Sequence[Finding]:
        findings = device_findings(self.nictop.display.diagnosis, self.host.name)
        return findings_of(row, findings)

    @property
    def why_no_fix(self) -> str:
        row = self.screen.query_one(DeviceTable).chosen
        if row is None:
            return "Choose an interface first, by its line."
        findings = self._findings_of(row)
        if not findings:
            return f"{clean(row.title)} has no finding."
        worst = clean(findings[0].title)
        return f"The worst finding of {clean(row.title)} has no command: {worst}."

    @property
    def is_empty(self) -> bool:
        return self.screen.query_one(DeviceTable).chosen is None

    def open_detail(self) -> None:
        if not self.is_empty:
            self.screen.add_class(DETAIL_CLASS)

    def close_detail(self) -> bool:
        was_open = self.has_detail
        self.screen.remove_class(DETAIL_CLASS)
        return was_open

    @property
    def has_detail(self) -> bool:
        return self.screen.has_class(DETAIL_CLASS)

    def draw(self, snapshot: Snapshot) -> None:
        row, pairs = self.screen.query_one(DeviceTable).chosen, self.host.pairs
        ifindex = 0
        if row is not None and row.link is not None:
            ifindex = row.link.ifindex
        end, display = End(self.host.name, ifindex), self.nictop.display
        hosts = self.nictop.hosts.sessions if self.nictop.hosts.several else ()
        shown = {session.name: display.snapshot(session) for session in hosts}
        ages = outages(hosts, self.nictop.drawn_at(), self.nictop.hosts.interval)
        peers = (
            *peer_facts(end, pairs.pairs, with_ages(pairs.names, ages)),
            *pair_chain_facts(end, pairs.pairs, shown),
        )
        history = self.nictop.hosts.session.history
        self.screen.query_one(DevicesView).show(self.host.current(snapshot), history, peers)


class ConnectionsBody(Body):
    """Who uses the chosen interface."""

    name = "connections"
    filter_id = "connection-filter"
    filter_rows = CONNECTION_FILTER
    columns = connections.COLUMNS
    is_sortable = True
    actions = ("filter", "step_nic", "sort", "reverse")
    tab = DevicesBody.name
    focus = "#connection-list"

    @property
    def sorted_table(self) -> ConnectionList:
        return self.screen.query_one(ConnectionList)

    def draw(self, snapshot: Snapshot) -> None:
        self.screen.query_one(ConnectionsView).show(
            self.chosen_netdev(snapshot), snapshot, is_recording=self.nictop.replay is not None
        )


class NicBody(Body):
    """Queues or CPUs: a view of one NIC, whose filter is in a line of the screen."""

    @property
    def view(self) -> QueueView | CpuView:
        raise NotImplementedError

    def draw(self, snapshot: Snapshot) -> None:
        link, parts = self.chosen_netdev(snapshot), self.nictop.hosts.session.window.parts
        facts = HostFacts(snapshot, tuple(parts))
        self.show(link, facts)
        errors = self.view.filter.errors
        note = "; ".join(errors) or self.view.count_text
        self.filter.show_note(note, is_error=bool(errors))

    def show(self, link: Link | None, facts: HostFacts) -> None:
        """Draw the NIC."""
        raise NotImplementedError


class QueuesBody(NicBody):
    """The queues of the chosen NIC."""

    name = "queues"
    filter_id = "queue-filter"
    filter_rows = QUEUE_FILTER
    columns = ALL_COLUMNS
    actions = ("filter", "options", "step_nic")

    @property
    def view(self) -> QueueView:
        return self.screen.query_one(QueueView)

    @property
    def fix(self) -> tuple[Finding | None, Fix] | None:
        """What to do about them."""
        advice = self.view.advice
        if advice is None or advice.fix is None:
            return None
        return advice.finding, advice.fix

    @property
    def why_no_fix(self) -> str:
        return "The line below the queues names no command."

    def show(self, link: Link | None, facts: HostFacts) -> None:
        queue_map = None if link is None else facts.queue_map(link)
        advice = self._advice(link, facts)
        self.view.show(link, facts.snapshot, queue_map, facts.window, advice)

    def _advice(self, link: Link | None, facts: HostFacts) -> QueueAdvice | None:
        if link is None or facts.snapshot.inventory is None:
            return None
        diagnosis = self.nictop.display.diagnosis
        findings = None if diagnosis is None else diagnosis.findings
        return queue_advice(facts, link, findings)


def knows_machine(nictop: Nictop) -> bool:
    """Whether the whole of /proc/interrupts of the chosen host can be shown. A recording has it if
    it was shown during the recording."""
    if nictop.replay is None:
        return True
    counters = nictop.display.snapshot(nictop.hosts.session).counters
    return counters is not None and counters.machine is not None


class CpusBody(NicBody):
    """All CPUs, and the interrupts of the chosen NIC."""

    name = "cpus"
    filter_id = "cpu-filter"
    filter_rows = CPU_FILTER
    columns = (*cpus.COLUMNS, HEAT)
    has_processors = False

    actions = ("filter", "options", "step_nic")

    @property
    def view(self) -> CpuView:
        return self.screen.query_one(CpuView)

    def show(self, link: Link | None, facts: HostFacts) -> None:
        queue_map = None if link is None else facts.queue_map(link)
        self.view.show(link, facts.snapshot, queue_map, facts.window)


class FindingsBody(Body):
    """All findings, of all hosts."""

    name = "findings"
    filter_id = "finding-filter"
    filter_rows = FINDING_FILTER
    has_processors = False
    has_worst_finding = False

    @property
    def actions(self) -> Collection[str]:
        return ("options",) if self.has_detail else ("open", "filter", "options")

    @property
    def focus(self) -> str:
        return "#finding-page" if self.has_detail else "#finding-list"

    @property
    def view(self) -> FindingsView:
        return self.screen.query_one(FindingsView)

    @property
    def fix(self) -> tuple[Finding | None, Fix] | None:
        """That of the chosen finding."""
        return self.view.fix

    @property
    def why_no_fix(self) -> str:
        return self.view.why_no_fix

    @property
    def nics_to_set_up(self) -> tuple[str, Sequence[Link]]:
        """The one that the chosen finding is about."""
        finding, sessions = self.screen.query_one(FindingList).chosen, self.nictop.hosts.by_name
        if not isinstance(finding, Finding) or finding.host not in sessions:
            return "", ()
        if finding.ifindex is None:
            return "", ()
        link = sessions[finding.host].snapshot.links.get(finding.ifindex)
        if link is None:
            return finding.host, ()
        return finding.host, (link,)

    @property
    def measured(self) -> tuple[str, str] | None:
        """The one that the chosen finding is about."""
        host, nics = self.nics_to_set_up
        if not nics:
            return None
        return host, nics[0].name

    @property
    def is_empty(self) -> bool:
        return self.screen.query_one(FindingList).chosen is None

    def open_detail(self) -> None:
        self.view.full = True

    def close_detail(self) -> bool:
        was_open = self.view.full
        self.view.full = False
        return was_open

    @property
    def has_detail(self) -> bool:
        return self.view.full

    def draw(self, snapshot: Snapshot | None = None) -> None:
        """It remembers when findings were there, even while it is hidden."""
        hosts, display = self.nictop.hosts, self.nictop.display
        self.view.show(
            display.diagnosis,
            tuple(hosts.by_name),
            hosts.unread(display.diagnosis),
            hosts.outdated,
            {session.name: display.snapshot(session) for session in hosts.sessions},
        )
