"""The interfaces of all hosts: the table, the filter, and the peers of the chosen one on other
hosts."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Input

from nictop.hosts.session import HostSession
from nictop.model.devices.netdevs import End
from nictop.model.devices.overview import (
    NO_NIC_IFINDEX,
    HostNow,
    NicRow,
    overview,
)
from nictop.model.devices.pairs import Pairs, pairs, peers
from nictop.model.devices.row_filter import row_filter
from nictop.model.facts import wrap
from nictop.model.facts.pairs import netdev_names, pair_facts, with_ages
from nictop.model.snapshot import Snapshot, has_platform
from nictop.probe.light_dataclasses import replace
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules import Diagnosis, Finding
from nictop.rules.by_device import device_findings
from nictop.rules.unchecked import open_findings
from nictop.rules.wording import first_names, is_checked
from nictop.tui.keys import shown_key
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.base.line_widget import (
    TONES,
    LineWidget,
    SpanLine,
    section_line,
    with_more,
    wrapped_lines,
)
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.cpu.nic_view import beside
from nictop.tui.widgets.devices.detail import draw_subject
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.tui.widgets.devices.row_findings import severity_rank

FILTER_HINT = "filter: ens3  driver:virtio  drops>0  drops/s>0  !host:pve  address:192.0.2.0/24"
MAX_FACT_ROWS = 6
"""Rows for what belongs to the chosen NIC."""
MIN_TABLE_ROWS = 7
"""Rows of the table with its titles and of the frames, which those do not take."""
MIN_DETAIL_ROWS = 10
"""Rows that the table leaves empty, from which on everything about the chosen NIC is shown in
them."""
MIN_TWO_COLUMNS = 140
"""Cells from which on that stands in two columns."""


def worst_findings(
    diagnosis: Diagnosis | None, snapshots: Sequence[Snapshot]
) -> dict[End, Finding]:
    """The worst finding about each netdev, or about its PCI function."""
    found: dict[End, Finding] = {}
    by_address = _ends_by_address(snapshots)
    for finding in open_findings(diagnosis):
        if finding.ifindex is not None:
            end: End | None = End(finding.host, finding.ifindex)
        else:
            end = by_address.get((finding.host, finding.subject))
        if end is not None:
            found[end] = min((found.get(end, finding), finding), key=severity_rank)
    return found


def _ends_by_address(snapshots: Sequence[Snapshot]) -> dict[tuple[str, str], End]:
    """(Host, address of a PCI function) → its last netdev."""
    ends: dict[tuple[str, str], End] = {}
    for snapshot in snapshots:
        for link in snapshot.links.values():
            if link.pci_address is not None:
                ends[snapshot.host, link.pci_address] = End(snapshot.host, link.ifindex)
    return ends


class HostPairs:
    """Pairs of NICs of all hosts, derived only when links have changed."""

    def __init__(self) -> None:
        self.pairs = Pairs()
        self.names: dict[End, str] = {}
        self._links: Sequence[object] = ()

    def update(self, pictures: Sequence[Snapshot]) -> None:
        """`pictures`: one snapshot of each host."""
        links: list[object] = []
        for snapshot in pictures:
            links += (snapshot.host, snapshot.links, snapshot.inventory)
        is_known = len(links) == len(self._links) and all(map(is_, links, self._links))
        if not is_known:
            self._links, self.pairs, self.names = links, pairs(pictures), netdev_names(pictures)


class NicRows:
    """The NICs of all hosts."""

    def __init__(self) -> None:
        self.rows: tuple[NicRow, ...] = ()
        self.known = HostPairs()

    def update(
        self,
        hosts: Sequence[HostSession],
        pictures: Sequence[Snapshot],
        diagnosis: Diagnosis | None,
        now: float,
        interval: float,
        *,
        virtual: bool,
    ) -> None:
        """`pictures`: one snapshot of each host; `virtual`: including netdevs without a device."""
        self.known.update(pictures)
        worst = worst_findings(diagnosis, pictures)
        hosts_now = [
            HostNow(
                picture,
                host.age(now),
                host.is_overdue(now, interval),
                host.late_seconds(now, interval),
            )
            for host, picture in zip(hosts, pictures, strict=True)
        ]
        self.rows = overview(
            hosts_now,
            severities={end: finding.severity for end, finding in worst.items()},
            doubtful={end for end, finding in worst.items() if finding.outdated},
            peers=peers(self.known.pairs),
            virtual=virtual,
            before=self.rows,
        )


class OverviewPane(WhileOpen, Container):
    """Table, filter and facts."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._nics = NicRows()
        self.virtual = False
        """Netdevs without a device are listed, too."""
        self.guests: Sequence[str] = ()
        """How many the chosen host has, of each kind: the same key shows them next."""
        self._diagnosis: Diagnosis | None = None
        self._ages: dict[str, str] = {}
        """Host → how old its values are, of those that are not live."""
        self._statuses: dict[str, str] = {}
        """Host → what is waited for; "": its interfaces and what they are connected to are
        known."""

    def compose(self) -> ComposeResult:
        yield OverviewTable(id="nics")
        yield FilterLine(OverviewTable, FILTER_HINT, id="nic-filter")
        yield LineWidget(id="nic-facts")

    def on_mount(self) -> None:
        self.query_one("#nic-facts").can_focus = False

    @property
    def chosen(self) -> NicRow | None:
        return self.query_one(OverviewTable).chosen

    def show(
        self,
        hosts: Sequence[HostSession],
        pictures: Sequence[Snapshot],
        diagnosis: Diagnosis | None,
        now: float,
        interval: float,
    ) -> None:
        """Draw the hosts from `pictures`, one snapshot of each."""
        self._statuses, self._ages = {}, outages(hosts, now, interval)
        for host, picture in zip(hosts, pictures, strict=True):
            status = ""
            if not has_platform(picture):
                status = host.brief_text(now, interval)
            self._statuses[host.name] = status
        self._diagnosis = diagnosis
        self._nics.update(hosts, pictures, diagnosis, now, interval, virtual=self.virtual)
        self._draw()

    def _draw(self) -> None:
        wanted = row_filter(self.query_one(FilterLine).value)
        rows, table = wanted.accepted(self._nics.rows), self.query_one(OverviewTable)
        table.show(rows)
        number = _number(rows)
        if len(rows) < len(self._nics.rows):
            number += f" of {_number(self._nics.rows)}"
        title = self.glyphs.text(f"Interfaces: {number}{self._hidden_text()}")
        if table.border_title != title:
            table.border_title = title
        self._draw_facts()

    def _hidden_text(self) -> str:
        """`` · 3 virtual hidden, 12 guests (o)``: a click shows them."""
        links = {row.snapshot.host: len(row.snapshot.links) for row in self._nics.rows}
        hidden = sum(links.values()) - sum(row.link is not None for row in self._nics.rows)
        parts = []
        if hidden > 0:
            parts.append(f"{hidden} virtual hidden")
        parts += self.guests
        if not parts:
            return ""
        return f"[@click=screen.options] · {', '.join(parts)} ({shown_key(self.app, 'options')})[/]"

    def _draw_facts(self) -> None:
        """Errors of the filter come first: they explain an empty table."""
        view, row = self.query_one("#nic-facts", LineWidget), self.chosen
        cells = max(10, view.scrollable_content_region.width - 2)
        lines: list[SpanLine] = []
        for message in row_filter(self.query_one(FilterLine).value).errors:
            lines += self._wrapped_lines(message, cells, "warn")
        if row is not None:
            lines += self._peer_lines(row, cells, has_errors=bool(lines))
        most = max(1, min(MAX_FACT_ROWS, self.size.height - MIN_TABLE_ROWS))
        lines = self._in_rows(lines, most, cells)
        if row is not None and row.link is not None:
            room = self._empty_rows() - len(lines) - view.gutter.height
            lines += self._detail(row, cells + 1, room)
        view.take_rows(max(1, len(lines)) + view.gutter.height)
        view.show_lines(lines)

    def _peer_lines(self, row: NicRow, cells: int, *, has_errors: bool) -> list[SpanLine]:
        """What the row is connected to; why that is not known, unless there are errors of the
        filter instead; or why its host has no interface."""
        if row.end.ifindex == NO_NIC_IFINDEX:
            message = row.snapshot.message or self._why_no_nic(row.snapshot)
            return self._wrapped_lines(f"{row.end.host}: {message}", cells, "dim")
        lines: list[SpanLine] = []
        names = with_ages(self._nics.known.names, self._ages)
        title, age = _title(row), self._ages.get(row.end.host)
        if age:
            title += f" ({age})"
        for fact in pair_facts(row.end, self._nics.known.pairs, names):
            lines += self._wrapped_lines(f"{title} {fact.text}", cells, TONES[fact.tone])
        if lines or has_errors:
            return lines
        return self._wrapped_lines(f"{_title(row)}: {self._why_no_peer(row)}", cells, "dim")

    def _wrapped_lines(self, text: str, cells: int, style: str) -> list[SpanLine]:
        return wrapped_lines(self.glyphs.encode(text), cells, style)

    def _in_rows(self, lines: list[SpanLine], rows: int, cells: int) -> list[SpanLine]:
        """The first `rows` of the lines; the last of them says that there are more."""
        if len(lines) <= rows:
            return lines
        (text, style), *_ = lines[rows - 1]
        return [*lines[: rows - 1], ((self.glyphs.encode(with_more(text, cells)), style),)]

    def _empty_rows(self) -> int:
        """Those below the interfaces and their titles."""
        table, entry = self.query_one(OverviewTable), self.query_one(FilterLine)
        return self.size.height - table.gutter.height - 1 - table.count - int(bool(entry.display))

    def _detail(self, row: NicRow, cells: int, rows: int) -> list[SpanLine]:
        """Everything about a NIC in exactly `rows` rows; nothing if they are too few."""
        if rows < MIN_DETAIL_ROWS:
            return []
        columns = 2 if cells >= MIN_TWO_COLUMNS else 1
        room = cells // columns
        title, *_ = wrap(self.glyphs.encode(_title(row)), room)
        head = section_line(title, cells)
        findings = device_findings(self._diagnosis, row.end.host)
        snapshot = row.snapshot
        if row.is_stale:  # rates are those of now
            snapshot = replace(snapshot, rates=None)
        lines = draw_subject(
            snapshot,
            row.end.ifindex,
            "",
            room - 1,
            findings=findings,
            is_checked=is_checked(self._diagnosis, row.snapshot),
            glyphs=self.glyphs,
        )
        rows -= 1  # that of the head
        if len(lines) > columns * rows:
            lines = lines[: columns * rows - 1]
            lines.append(((" … everything else on Devices", "dim"),))
        if columns == 2:
            lines = beside(lines[:rows], lines[rows:], room)
        return [head, *lines, *[()] * (rows - len(lines))]

    def _why_no_nic(self, snapshot: Snapshot) -> str:
        if snapshot.inventory is None:
            return self._statuses.get(snapshot.host, "") or NOT_READ_YET
        if not snapshot.links:
            return "no interfaces"
        return "loopback is its only interface"

    def _why_no_peer(self, row: NicRow) -> str:
        """Nothing is said of hosts whose interfaces are not known."""
        if len(self._statuses) < 2:
            return "no other host is watched"
        unread = [name for name, status in self._statuses.items() if status]
        if unread:
            return f"what it is connected to is not known yet; not read: {first_names(unread)}"
        return "no peer found on other hosts"

    def on_overview_table_chosen(self) -> None:
        self._draw_facts()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._draw()


def outages(hosts: Sequence[HostSession], now: float, interval: float) -> dict[str, str]:
    """Host → ``no data for 40 s``, of those that are not live."""
    found = {}
    for host in hosts:
        text = host.outage_text(now, interval)
        if text:
            found[host.name] = text
    return found


def _title(row: NicRow) -> str:
    name = "" if row.link is None else row.link.name
    return f"{row.end.host} {name}"


def _number(rows: Sequence[NicRow]) -> str:
    return str(sum(row.end.ifindex != NO_NIC_IFINDEX for row in rows))
