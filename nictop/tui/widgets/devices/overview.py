"""The interfaces of all hosts: the table, the filter, and the peers of the chosen one on other hosts."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Input

from nictop.hosts.session import HostSession
from nictop.model.devices.netdevs import End
from nictop.model.devices.overview import NO_NIC_IFINDEX, SEVERITIES_WORST_FIRST, HostNow, NicRow, overview
from nictop.model.devices.pairs import Pairs, pairs, peers
from nictop.model.devices.row_filter import row_filter
from nictop.model.facts import fit, width, wrap
from nictop.model.facts.pairs import netdev_names, pair_facts
from nictop.model.snapshot import Snapshot, has_platform
from nictop.model.text.words import NOT_READ_YET
from nictop.rules import Diagnosis
from nictop.rules.wording import first_names
from nictop.tui.keys import shown_key
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.base.line_view import TONES, LineView, SpanLine, section_line
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.cpu.nic_view import beside
from nictop.tui.widgets.devices.detail import draw_subject
from nictop.tui.widgets.devices.overview_table import OverviewTable
from nictop.tui.widgets.devices.table import device_findings

FILTER_HINT = "filter: ens3  driver:virtio  drops>0  drops/s>0  !host:pve  address:192.0.2.0/24"
MAX_FACT_ROWS = 6
"""Rows for what belongs to the chosen NIC."""
MIN_TABLE_ROWS = 7
"""Rows of the table with its titles and of the frames, which those do not take."""
MORE_FACTS = " …"
"""Behind the last of these rows, if there is more."""
MIN_DETAIL_ROWS = 10
"""Rows that the table leaves empty, from which on everything about the chosen NIC is shown in them."""
MIN_TWO_COLUMNS = 140
"""Cells from which on that stands in two columns."""


def severities(diagnosis: Diagnosis | None, snapshots: Sequence[Snapshot]) -> dict[End, str]:
    """The worst finding about each netdev, or about its PCI function."""
    by_address = {
        (one.host, link.pci_address): ifindex
        for one in snapshots
        for ifindex, link in one.links.items()
        if link.pci_address is not None
    }
    found: dict[End, str] = {}
    for finding in diagnosis.findings if diagnosis is not None else ():
        ifindex = finding.ifindex
        if ifindex is None:
            ifindex = by_address.get((finding.host, finding.subject))
        if ifindex is not None:
            end = End(finding.host, ifindex)
            found[end] = min(found.get(end, finding.severity), finding.severity, key=SEVERITIES_WORST_FIRST.index)
    return found


class HostPairs:
    """Pairs of NICs of all hosts, derived only when links have changed."""

    def __init__(self) -> None:
        self.pairs = Pairs()
        self.names: dict[End, str] = {}
        self._links: tuple[object, ...] = ()

    def update(self, pictures: Sequence[Snapshot]) -> None:
        """`pictures`: one snapshot of each host."""
        links = tuple(part for one in pictures for part in (one.host, one.links, one.inventory))
        if len(links) != len(self._links) or any(
            one is not other for one, other in zip(links, self._links, strict=True)
        ):
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
        *,
        virtual: bool,
    ) -> None:
        """`pictures`: one snapshot of each host; `virtual`: including netdevs without a device."""
        self.known.update(pictures)
        self.rows = overview(
            [HostNow(picture, host.age(now)) for host, picture in zip(hosts, pictures, strict=True)],
            severities=severities(diagnosis, pictures),
            peers=peers(self.known.pairs),
            virtual=virtual,
            before=self.rows,
        )


class OverviewView(WhileOpen, Container):
    """Table, filter and facts."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._nics = NicRows()
        self.virtual = False
        """Netdevs without a device are listed, too."""
        self._diagnosis: Diagnosis | None = None
        self._statuses: dict[str, str] = {}
        """Host → what is waited for; "": its interfaces and what they are connected to are known."""

    def compose(self) -> ComposeResult:
        yield OverviewTable(id="nics")
        yield FilterLine(OverviewTable, FILTER_HINT, id="nic-filter")
        yield LineView(id="nic-facts")

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
        self._statuses = {
            host.name: "" if has_platform(picture) else host.brief_text(now, interval)
            for host, picture in zip(hosts, pictures, strict=True)
        }
        self._diagnosis = diagnosis
        self._nics.update(hosts, pictures, diagnosis, now, virtual=self.virtual)
        self._draw()

    def _draw(self) -> None:
        wanted = row_filter(self.query_one(FilterLine).value)
        rows, table = wanted.accepted(self._nics.rows), self.query_one(OverviewTable)
        table.show(rows)
        title = (
            f"{_number(rows)}"
            if len(rows) == len(self._nics.rows)
            else f"{_number(rows)} of {_number(self._nics.rows)}"
        )
        title = self.glyphs.text(f"Interfaces: {title}{self._hidden_text()}")
        if table.border_title != title:
            table.border_title = title
        self._draw_facts()

    def _hidden_text(self) -> str:
        """`` · 3 virtual hidden (o)``: a click shows them."""
        links = {snapshot.host: len(snapshot.links) for snapshot in (row.snapshot for row in self._nics.rows)}
        hidden = sum(links.values()) - sum(row.link is not None for row in self._nics.rows)
        key = shown_key(self.app, "options")
        return f"[@click=screen.options] · {hidden} virtual hidden ({key})[/]" if hidden > 0 else ""

    def _draw_facts(self) -> None:
        """Errors of the filter come first: they explain an empty table."""
        view, row = self.query_one("#nic-facts", LineView), self.chosen
        cells = max(10, view.scrollable_content_region.width - 2)
        complaints = row_filter(self.query_one(FilterLine).value).errors
        lines: list[SpanLine] = [
            ((f" {part}", "warn"),) for message in complaints for part in self._wrapped(message, cells)
        ]
        if row is not None and row.end.ifindex == NO_NIC_IFINDEX:
            message = row.snapshot.message or self._why_no_nic(row.snapshot)
            lines += [((f" {part}", "dim"),) for part in self._wrapped(f"{row.end.host}: {message}", cells)]
        elif row is not None:
            lines += [
                ((f" {part}", TONES[fact.tone]),)
                for fact in pair_facts(row.end, self._nics.known.pairs, self._nics.known.names)
                for part in self._wrapped(f"{_title(row)} {fact.text}", cells)
            ]
            if not lines:
                text = f"{_title(row)}: {self._why_no_peer(row)}"
                lines = [((f" {part}", "dim"),) for part in self._wrapped(text, cells)]
        lines = self._in_rows(lines, max(1, min(MAX_FACT_ROWS, self.size.height - MIN_TABLE_ROWS)), cells)
        if row is not None and row.link is not None:
            lines += self._detail(row, cells + 1, self._empty_rows() - len(lines) - view.gutter.height)
        view.take_rows(max(1, len(lines)) + view.gutter.height)
        view.show_lines(lines)

    def _in_rows(self, lines: list[SpanLine], rows: int, cells: int) -> list[SpanLine]:
        """The first `rows` of the lines; the last of them says that there are more."""
        if len(lines) <= rows:
            return lines
        (text, style), *_ = lines[rows - 1]
        more = self.glyphs.encode(MORE_FACTS)
        return [*lines[: rows - 1], ((fit(text, min(width(text), cells - width(more))), style), (more, "dim"))]

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
        findings = device_findings(self._diagnosis, row.end.host)
        lines = [
            section_line(self._wrapped(_title(row), room)[0], cells),
            *draw_subject(row.snapshot, row.end.ifindex, "", room - 1, findings=findings, glyphs=self.glyphs),
        ]
        head, lines = lines[:1], lines[1:]
        shown = [lines[number * (rows - 1) : (number + 1) * (rows - 1)] for number in range(columns)]
        if len(lines) > columns * (rows - 1):
            shown[-1][-1] = ((" … everything else on Devices", "dim"),)
        drawn = beside(shown[0], shown[1], room) if columns == 2 else shown[0]
        return [*head, *drawn, *[()] * (rows - 1 - len(drawn))]

    def _why_no_nic(self, snapshot: Snapshot) -> str:
        if snapshot.inventory is None:
            return self._statuses.get(snapshot.host, "") or NOT_READ_YET
        return "loopback is its only interface" if snapshot.links else "no interfaces"

    def _why_no_peer(self, row: NicRow) -> str:
        """Nothing is said of hosts whose interfaces are not known."""
        if len(self._statuses) < 2:
            return "no other host is watched"
        unread = [name for name, status in self._statuses.items() if status]
        if unread:
            return f"what it is connected to is not known yet; not read: {first_names(unread)}"
        return "no peer found on other hosts"

    def _wrapped(self, text: str, cells: int) -> tuple[str, ...]:
        return wrap(self.glyphs.encode(text), cells)

    def on_overview_table_chosen(self) -> None:
        self._draw_facts()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._draw()


def _title(row: NicRow) -> str:
    return f"{row.end.host} {row.link.name if row.link is not None else ''}"


def _number(rows: Sequence[NicRow]) -> str:
    return str(sum(row.end.ifindex != NO_NIC_IFINDEX for row in rows))
