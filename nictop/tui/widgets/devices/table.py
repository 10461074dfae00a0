"""The live tree of devices: one line per PCI function, VF and netdev, with the numbers that move. Sorted by a column it
is a list of the same devices.

The cursor stays on its row by key, wherever the row goes; only lines whose text changed are drawn again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from nictop.model.columns.column import Column, RowOrder, no_value, order_by, ordered
from nictop.model.columns.devices import (
    COLUMNS,
    MAIN_COLUMNS,
    PACKET_COLUMNS,
    DeviceRow,
    master_text,
    row_rates,
    visible_columns,
)
from nictop.model.devices.bonds import port_text
from nictop.model.devices.netdevs import End
from nictop.model.devices.overview import NO_NIC_IFINDEX, NicRow
from nictop.model.devices.row_filter import row_filter
from nictop.model.devices.tree import AGGREGATE_KINDS, Row, device_tree, guides, matching_rows
from nictop.model.facts import Tone, clean, fit, is_virtual
from nictop.model.facts import width as cells_of
from nictop.model.history import History
from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.model.text.terminal import fit_middle
from nictop.model.text.words import IFF_LOOPBACK, IFF_UP, is_esxi
from nictop.rules import SEVERITIES
from nictop.rules.wording import SEVERITY_LABELS, severity_mark
from nictop.tui.keys import shown_key
from nictop.tui.widgets.base.filter_line import NO_MATCHES
from nictop.tui.widgets.base.line_view import TONES, Span, SpanLine, WaitingLines, no_lines
from nictop.tui.widgets.base.list_view import ChoiceView
from nictop.tui.widgets.charts.plot import ColumnCache
from nictop.tui.widgets.charts.sparkline import nice_ceiling, spark
from nictop.tui.widgets.cpu.nic_view import NO_INTERFACES

if TYPE_CHECKING:
    from nictop.rules import Diagnosis, Finding

TITLE_STYLES = {"host": "title", "pci": "", "link": "title", "vf": "", "group": "dim"}
DRIVER = next(column for column in COLUMNS if column.key == "driver")
PEER = replace(next(column for column in COLUMNS if column.key == "profile"), keeps_end=True)
"""The column of the profile, for a NIC of another host: the name of the NIC is at the end."""
LEAD_CELLS = 3
"""The cursor, the mark of the worst finding, a blank."""
MIN_NAME_CELLS = 14
PREFERRED_NAME_CELLS = 20
GRAPH: Column[DeviceRow] = Column(
    "graph", "RX+TX 60 s", "b/s", 10, 1, "left", no_value,
    source="both directions over the last 60 s; option packets: packets/s (as RX b/s and TX b/s)",
)  # fmt: skip
GRAPH_CELLS = (30, 20, GRAPH.width)
"""Cells of the history graph: the widest that leaves the name comfortable, else the narrowest."""
HISTORY_SECONDS = 60.0

DeviceFindings = Mapping[int | str, Sequence["Finding"]]
"""ifindex of a netdev, or address of a PCI function → its findings, worst first."""


def device_findings(diagnosis: Diagnosis | None, host: str) -> DeviceFindings:
    """The findings of one host by device. Those about something else are under the name of their subject."""
    found: dict[int | str, list[Finding]] = {}
    for finding in diagnosis.findings if diagnosis is not None else ():
        if finding.host == host:
            found.setdefault(finding.subject if finding.ifindex is None else finding.ifindex, []).append(finding)
    return found


def findings_of(row: Row, findings: DeviceFindings) -> Sequence[Finding]:
    """Findings about the netdev of a row, or else about its PCI function."""
    if row.link is not None:
        return findings.get(row.link.ifindex, ())
    return findings.get(row.pci.address, ()) if row.pci is not None else ()


def all_findings_of(row: Row, findings: DeviceFindings) -> Sequence[Finding]:
    """Findings about the netdev of a row and about its PCI function, the worst first."""
    found = [*findings_of(row, findings)]
    if row.link is not None and row.pci is not None:
        found += findings.get(row.pci.address, ())
    return sorted(found, key=lambda one: SEVERITIES.index(one.severity))


@dataclass(frozen=True)
class TableLayout:
    """How the width of the table is divided."""

    name: int
    columns: tuple[Column[DeviceRow], ...]
    graph: int
    gap: int
    """Blanks before the graph: two, unless the name needs one of them."""
    missing: int
    """Columns of an 80 column table for which there is no room, the history among them."""


def layout(width: int, *, packets: bool) -> TableLayout:
    """The smallest graph and name first, then columns by priority; what remains widens the graph and the name."""
    room = width - LEAD_CELLS
    columns = visible_columns(room - MIN_NAME_CELLS - GRAPH_CELLS[-1] - 1, packets=packets)
    without_graph = visible_columns(room - MIN_NAME_CELLS, packets=packets)
    now = ("rx_packets", "tx_packets") if packets else ("rx", "tx")
    keys = {column.key for column in columns}
    if any(column.key in now and column.key not in keys for column in without_graph):  # what is, before what was
        columns, graph = without_graph, 0
    else:
        rest = room - sum(column.width + 1 for column in columns)
        graph = next((cells for cells in GRAPH_CELLS if rest - cells - 2 >= PREFERRED_NAME_CELLS), GRAPH_CELLS[-1])
        if rest - graph - 1 < MIN_NAME_CELLS:
            graph = 0
    name = room - sum(column.width + 1 for column in columns) - (graph + 1 if graph else 0)
    gap = 2 if graph and name > MIN_NAME_CELLS else 1
    wanted = PACKET_COLUMNS if packets else MAIN_COLUMNS
    missing = len(wanted) - len([column for column in columns if column.key in wanted]) + (graph == 0)
    return TableLayout(
        name=max(1, name - (gap - 1) - (3 if missing else 0)), columns=columns, graph=graph, gap=gap, missing=missing
    )


def merged(rows: Sequence[Row]) -> list[Row]:
    """Rows of the tree, with a virtual function and its only netdev in one row: ``VF0 ens224v0``."""
    found: list[Row] = []
    vf: Row | None = None
    """Whose netdev is in its row: the rows below it move up by one level."""
    for number, row in enumerate(rows):
        if vf is not None and row.depth <= vf.depth:
            vf = None
        if vf is None:
            if row.kind == "vf" and _has_one_netdev(row, rows[number + 1 :]):
                vf = row
            else:
                found.append(row)
            continue
        moved = replace(row, depth=row.depth - 1, prefix=row.prefix[: vf.depth] + row.prefix[vf.depth + 1 :])
        if moved.depth == vf.depth:
            title = f"{''.join(vf.title.split()[:2])} {row.title}"
            moved = replace(moved, title=title, vf=vf.vf, uplink=vf.uplink)
        found.append(moved)
    return found


def _has_one_netdev(row: Row, following: Sequence[Row]) -> bool:
    below = takewhile(lambda one: one.depth > row.depth, following)
    return sum(one.depth == row.depth + 1 for one in below) == 1


class DeviceTable(ChoiceView):
    """Devices of one host. Posts `Chosen` when the cursor's row changes, `Opened` on enter or a second click."""

    @dataclass
    class Chosen(Message):
        """The cursor is on another row."""

        row: Row

    class Opened(ChoiceView.Opened):
        """Details of the chosen row were requested."""

    class PageRequested(Message):
        """The facts of the chosen row are to be scrolled up (-1) or down (1)."""

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

    class VirtualClicked(Message):
        """The title of the virtual interfaces was clicked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.packets = False
        self.order = RowOrder()
        """Column "": the tree."""
        self._is_order_due = False
        """It is to be made from the values of the host that is shown now."""
        self._virtual: bool | None = None
        """Chosen by the user."""
        self.preferred = ""
        """Name of the netdev for `first_choice`."""
        self._virtual_at_first: bool | None = None
        """Decided for the host that is shown; None: nothing is known of its netdevs."""
        self.findings: DeviceFindings = {}
        self._is_settled = False
        """The checks have read what they need: `first_choice` does not follow the findings any more."""
        self.filter = row_filter("")
        self._is_new_filter = False
        """It was changed since the last `show`."""
        self._nics: Mapping[int, NicRow] = {}
        self._peers: Mapping[int, str] = {}
        self._tree: tuple[Row, ...] = ()
        """All rows but those of the option virtual."""
        self._rows: tuple[Row, ...] = ()
        """Those of them that pass the filter, with the rows that they are below."""
        self._matches: frozenset[str] = frozenset()
        """Keys of the rows that pass the filter."""
        self._virtual_rows: tuple[Row, ...] = ()
        """Those that the option virtual hides."""
        self._hidden: tuple[Row, ...] = ()
        """Those of them that pass the filter."""
        self._tree_of: tuple[object, object, bool] | None = None
        self._columns = ColumnCache()
        self.waiting: WaitingLines = no_lines
        self._snapshot: Snapshot | None = None
        self._history: History | None = None

    # ------------------------------------------------------------------------------------------------ content

    @property
    def chosen(self) -> Row | None:
        """The row under the cursor; None while there is none."""
        index = self.index
        return None if index is None else self._rows[index]

    @property
    def virtual(self) -> bool:
        """Netdevs without a device are shown. Until the user chooses: unless the host has others."""
        return self._virtual_at_first is not False if self._virtual is None else self._virtual

    @virtual.setter
    def virtual(self, shown: bool) -> None:
        self._virtual = shown

    def begin(self, key: str | None) -> None:
        super().begin(key)
        self._virtual_at_first, self._columns = None, ColumnCache()
        self._is_order_due, self._is_settled = True, False

    @property
    def needed_rows(self) -> int:
        """Rows that show everything without a filter, header included; before there are any, what is waited for."""
        return len(self._tree or self.lines) + 1

    @property
    def count_text(self) -> str:
        """``3 of 12``: netdevs, and functions without one, that pass the filter."""
        return f"{len(self._matches)} of {sum(map(self._is_device, range(len(self._tree))))}"

    def set_filter(self, text: str) -> None:
        """Takes effect at the next `show`."""
        self.filter, self._is_new_filter = row_filter(text), True

    def show(
        self,
        snapshot: Snapshot,
        history: History,
        findings: DeviceFindings,
        nics: Mapping[int, NicRow] | None = None,
        peers: Mapping[int, str] | None = None,
        *,
        is_checked: bool = False,
    ) -> None:
        """Draw `snapshot`; the cursor stays on its device, or at its index when the device is gone. `nics`: ifindex →
        the row of the overview, for the filter. `peers`: ifindex → host and name of the NIC at the other end of a tap
        or veth. `is_checked`: `findings` rest on all that the checks read of this host."""
        is_new = findings != self.findings and not self._is_settled
        self._snapshot, self._history, self.findings, self._nics = snapshot, history, findings, nics or {}
        self._peers = peers or {}
        self._plant(snapshot)
        if self._is_order_due:
            self._make_order(snapshot)
        self._apply_filter(snapshot)
        if is_new and self._rows:
            self.set_keys([row.key for row in self._rows])
        self._is_settled = self._is_settled or is_checked
        self.redraw()

    def _plant(self, snapshot: Snapshot) -> None:
        """The tree changes with the links and functions, not with the numbers: keep it while these are the same.

        The host's own row is left out: the status line has its name."""
        if self._virtual_at_first is None:
            known_links = [link for link in snapshot.links.values() if link.type != ARPHRD_VOID]
            esxi = snapshot.inventory is not None and is_esxi(snapshot.inventory.platform)
            self._virtual_at_first = esxi or all(map(is_virtual, known_links)) if known_links else None
        known = self._tree_of
        if known is not None and known[0] is snapshot.links and known[1] is snapshot.pci and known[2] is self.virtual:
            return
        self._tree_of = (snapshot.links, snapshot.pci, self.virtual)
        host, *below = device_tree(snapshot)
        levels = host.depth + 1
        rows = merged([replace(row, depth=row.depth - levels, prefix=row.prefix[levels:]) for row in below])
        group = next((index for index, row in enumerate(rows) if row.key == "group:virtual"), len(rows))
        self._virtual_rows = () if self.virtual else tuple(rows[group + 1 :])
        self._tree = tuple(rows[: len(rows) - len(self._virtual_rows)])

    def _apply_filter(self, snapshot: Snapshot) -> None:
        """The cursor leaves a row that is hidden for the first one that passes."""
        is_new, self._is_new_filter = self._is_new_filter, False
        if not self.filter.tests:
            rows = self._ordered(self._tree, snapshot)
            if self._rows is not rows:
                self._rows, self._hidden, self._matches = rows, self._virtual_rows, frozenset()
                self.set_keys([row.key for row in self._rows])
            return
        accepts, tree = self.filter.accepts, self._tree
        devices = (row for index, row in enumerate(tree) if self._is_device(index))
        self._matches = frozenset(row.key for row in devices if accepts(self._nic(row, snapshot)))
        self._hidden = tuple(row for row in self._virtual_rows if accepts(self._nic(row, snapshot)))
        group = "group:virtual" if self._hidden else ""
        rows = matching_rows(tree, lambda row: row.key in self._matches or row.key == group)
        self._rows = self._ordered(rows, snapshot)
        keys = [row.key for row in self._rows]
        if keys and self._wanted not in keys and self._key not in (self._matches if is_new else keys):
            self._wanted = keys[self.first_choice()]
        self.set_keys(keys)
        self._moved = self._moved or bool(keys)

    def _ordered(self, rows: tuple[Row, ...], snapshot: Snapshot) -> tuple[Row, ...]:
        """In the order by a column, the devices among some rows of the tree; the title of hidden ones is the last."""
        column = self._order_column
        if column is None:
            return rows
        wanted = {row.key for row in rows}
        group = [row for row in rows if row.key == "group:virtual" and self._virtual_rows]
        devices = [one for one in self._devices(snapshot) if one.row.key in wanted]
        return (*(shown.row for shown in ordered(devices, self.order, column, _row_key)), *group)

    def _devices(self, snapshot: Snapshot) -> list[DeviceRow]:
        """Those of the tree without their places in it."""
        rows = (row for index, row in enumerate(self._tree) if self._is_device(index))
        return [DeviceRow(replace(row, depth=0, prefix=()), snapshot) for row in rows]

    @property
    def _order_column(self) -> Column[DeviceRow] | None:
        return next((column for column in COLUMNS if column.key == self.order.column), None)

    def _make_order(self, snapshot: Snapshot) -> None:
        self._is_order_due, column = False, self._order_column
        if column is not None:
            self.order = order_by(column, self._devices(snapshot), _row_key, descending=self.order.descending)

    def _is_device(self, index: int) -> bool:
        """A row of the tree that a filter accepts or not: not one that is only above others."""
        row = self._tree[index]
        is_leaf = index + 1 == len(self._tree) or self._tree[index + 1].depth <= row.depth
        return row.link is not None or (is_leaf and row.kind != "group")

    def _nic(self, row: Row, snapshot: Snapshot) -> NicRow:
        """What the filter knows of a row: that of the overview; of a function without a netdev, what there is."""
        known = self._nics.get(row.link.ifindex) if row.link is not None else None
        if known is not None:
            return known
        end = End(snapshot.host, row.link.ifindex if row.link is not None else NO_NIC_IFINDEX)
        found = findings_of(row, self.findings)
        severity = found[0].severity if found else None
        return NicRow(end, snapshot, row.link, row.pci, row.vf, rates=row_rates(row, snapshot), severity=severity)

    def first_choice(self) -> int:
        """The netdev named `preferred`, else the device with the worst finding, else the first netdev with a device,
        else the first one that is up, else the first row; with a filter, of those that pass it. Once the checks have
        read all, the choice stays: nothing moves below the reader's eyes."""
        if self._is_settled and self.index is not None and not self._matches:
            return self.index
        places = _places_of_findings(self.findings)

        def rank(index: int) -> tuple[bool, bool, int, int, int]:
            row = self._rows[index]
            above, link = bool(self._matches) and row.key not in self._matches, row.link
            is_other = link is None or link.name != self.preferred
            return above, is_other, _place_of(row, places), _kind_rank(row), index

        return min(rank(index) for index in range(len(self._rows)))[-1]

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen(self._rows[index]))

    def redraw(self) -> None:
        snapshot, history = self._snapshot, self._history
        if snapshot is None or history is None:
            return
        shape = self._layout
        if not snapshot.links and not snapshot.pci:
            self.show_lines(self._empty_lines(snapshot))
            return
        rows = self._rows
        if not rows:
            self.show_lines([((NO_MATCHES, "dim"),)], self._header_line(shape))
            return
        self._columns.begin(history.times(), HISTORY_SECONDS, shape.graph)
        self.show_drawn(
            len(rows),
            lambda index: self._row_line(rows[index], shape, snapshot, history),
            self._header_line(shape),
            self.index,
        )

    @property
    def _layout(self) -> TableLayout:
        """With room for the mark of the order behind the title of its column, one cell of the name if there is none."""
        shape = layout(self.scrollable_content_region.width, packets=self.packets)
        ordered_by = next((one for one in shape.columns if one.key == self.order.column), None)
        if ordered_by is None or len(ordered_by.title) < ordered_by.width:
            return shape
        wider = replace(ordered_by, width=len(ordered_by.title) + 1)
        columns = tuple(wider if one is ordered_by else one for one in shape.columns)
        return replace(shape, columns=columns, name=max(1, shape.name - wider.width + ordered_by.width))

    def _empty_lines(self, snapshot: Snapshot) -> list[SpanLine]:
        """Why there is no row."""
        if snapshot.inventory is not None:
            return [((f" {NO_INTERFACES}", "dim"),)]
        return [*self.waiting(self.scrollable_content_region.width)]

    def _header_line(self, shape: TableLayout) -> SpanLine:
        text = " " * LEAD_CELLS + fit("DEVICE", shape.name)
        mark = self.glyphs.descending if self.order.descending else self.glyphs.ascending
        for column in shape.columns:
            title = column.title + (mark if column.key == self.order.column else "")
            text += f" {fit(title, column.width, column.align)}"
        if shape.graph:
            text += " " * shape.gap + fit(GRAPH.title, shape.graph)
        if shape.missing:
            text += f" +{shape.missing}"
        return ((text, ""),)

    def _lead(self, row: Row) -> list[Span]:
        """The mark of the worst finding of the row, and the lines of the tree; a group that is hidden has that of its
        netdevs. The cursor takes the place of the first blank."""
        lines = (guides(row), "dim")
        rows = self._hidden if row.kind == "group" else (row,)
        found = [findings_of(one, self.findings) for one in rows] if self.findings else []
        severities = [findings[0].severity for findings in found if findings]
        if not severities:
            return [("   ", ""), lines]
        worst = min(severities, key=SEVERITIES.index)
        tone = TONES[SEVERITY_LABELS[worst].tone]
        return [(" ", ""), (f"{severity_mark(worst, glyphs=self.glyphs)} ", tone), lines]

    def _row_line(self, row: Row, shape: TableLayout, snapshot: Snapshot, history: History) -> SpanLine:
        spans = self._lead(row)
        lead = sum(len(text) for text, _ in spans)
        title = self.glyphs.encode(row.title)
        if row.kind in ("host", "group"):
            if row.key == "group:virtual" and self._hidden:
                title += f" {self.glyphs.cursor} {len(self._hidden)} hidden ({shown_key(self.app, 'options')})"
            return (*spans, (fit(title, max(1, self.size.width - lead - 1)), TITLE_STYLES[row.kind]))
        shown = DeviceRow(row, snapshot)
        cells = [self._cell(column, shown) for column in shape.columns]
        if not any(text.strip() for _, text, _ in cells):  # a function without a netdev: its name may use the line
            driver, tone = DRIVER.cell(shown)  # for which a narrow table has no column
            room = max(1, self.size.width - lead - 1 - (len(driver) + 2 if driver else 0))
            name = fit(title, min(room, cells_of(clean(title)))) if driver else fit(title, room)
            return (*spans, (name, TITLE_STYLES[row.kind]), (f"  {clean(driver)}" if driver else "", TONES[tone]))
        empty = next(number for number, (_, text, _) in enumerate(cells) if text.strip())
        overflow = sum(column.width + 1 for column, _, _ in cells[:empty])  # the name may use the cells beside it
        spans += self._title_spans(row, title, max(1, LEAD_CELLS + shape.name + overflow - lead), snapshot)
        encode = self.glyphs.encode
        for column, text, tone in cells[empty:]:
            spans.append((" " + column.fit(encode(text)), TONES[tone]))
        if shape.graph and row.kind == "link" and row.link is not None:
            spans.append((" " * shape.gap + self._graph(row.link.ifindex, shape.graph, history), "in"))
        return tuple(spans)

    def _title_spans(self, row: Row, title: str, cells: int, snapshot: Snapshot) -> list[Span]:
        """With the bond or team of a port, and its state there, if there is room: ``eno1  bond0 active``; else of a
        port that is not used the state alone: ``eno1  unused``."""
        master = snapshot.links.get(row.link.master or 0) if row.link is not None else None
        if row.link is not None and master is not None and master.kind in AGGREGATE_KINDS:
            whole, is_usable = master_text(row.link, snapshot)
            room = cells - cells_of(clean(title)) - 2
            for text in (whole,) if is_usable else (whole, port_text(row.link, master)[0].rpartition(" ")[2]):
                shown = clean(self.glyphs.encode(text))
                if cells_of(shown) <= room:
                    style = "dim" if is_usable else "warn"
                    return [(f"{clean(title)}  ", TITLE_STYLES[row.kind]), (fit(shown, room), style)]
        return [(fit_middle(title, cells), TITLE_STYLES[row.kind])]

    def _cell(self, column: Column[DeviceRow], shown: DeviceRow) -> tuple[Column[DeviceRow], str, Tone]:
        """Text and tone; a tap or veth has, in place of a profile, the NIC of another host behind it."""
        link = shown.row.link
        peer = self._peers.get(link.ifindex) if link is not None and is_virtual(link) else None
        if column.key == "profile" and peer is not None:
            return PEER, clean(f"↔ {peer}"), "normal"
        return column, *column.cell(shown)

    def _graph(self, ifindex: int, width: int, history: History) -> str:
        names = ("rx_packets", "tx_packets") if self.packets else ("rx_bits", "tx_bits")
        received, sent = (self._columns.means((name, ifindex), history.series((name, ifindex))) for name in names)
        both = [None if a is None or b is None else a + b for a, b in zip(received, sent, strict=True)]
        top = nice_ceiling(max((value for value in both if value is not None), default=0.0))
        return spark(both, width, top, glyphs=self.glyphs)

    # ------------------------------------------------------------------------------------------- keys and mouse

    @property
    def is_in_view(self) -> bool:
        """All of its rows are: the keys that scroll by a page scroll the facts."""
        return self.virtual_size.height <= self.size.height

    def action_page(self, pages: int) -> None:
        if self.is_in_view:
            self.post_message(self.PageRequested(pages))
        else:
            super().action_page(pages)

    def sort_by(self, column: str, *, descending: bool) -> None:
        """Sort by the present values of a column; "": the tree."""
        self.order = RowOrder(column, descending)
        if self._snapshot is not None:
            self._make_order(self._snapshot)
            self._apply_filter(self._snapshot)
        self.redraw()

    def action_sort(self, step: int) -> None:
        """The next column in sight, then the tree again; numbers begin with the greatest."""
        shape = self._layout
        keys = ["", *(column.key for column in shape.columns)]
        place = keys.index(self.order.column) if self.order.column in keys else 0
        self.sort_first(keys[(place + step) % len(keys)])

    def action_reverse(self) -> None:
        """Of the tree there is no other order."""
        if self.order.column:
            self.sort_by(self.order.column, descending=not self.order.descending)

    def sort_first(self, key: str) -> None:
        """As the first click on its title: numbers begin with the greatest."""
        column = next((one for one in COLUMNS if one.key == key), None)
        self.sort_by(key, descending=column is not None and (column.align == "right" or key == "link"))

    def _click_title(self, x: int) -> None:
        """Sort by the column; a second time, the other way round. The title of the devices: the tree."""
        shape = self._layout
        left = LEAD_CELLS + shape.name
        if x < left:
            self.sort_by("", descending=False)
        for column in shape.columns:
            if left <= x <= left + column.width:
                if column.key == self.order.column:
                    self.action_reverse()
                else:
                    self.sort_first(column.key)
                return
            left += column.width + 1

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset_capture(self)
        if offset.y == 0:
            event.prevent_default()
            self._click_title(offset.x)
            return
        index = self.line_at(offset.y)
        if index is not None and index < len(self._rows) and self._rows[index].key == "group:virtual":
            event.prevent_default()
            self.choose_index(index)
            self.post_message(self.VirtualClicked())

    def step_to_link(self, direction: int) -> None:
        """Choose the next netdev above (-1) or below (1), skipping other rows; also while the table is hidden. From
        another row, if there is none that way, the nearest the other way."""
        here, rows = self.index or 0, self._rows
        above, below = range(here - 1, -1, -1), range(here + 1, len(rows))
        ways = [below, above] if direction > 0 else [above, below]
        if rows and rows[here].kind == "link":
            del ways[1]
        following = next((index for way in ways for index in way if rows[index].kind == "link"), None)
        if following is not None:
            self.choose_index(following)

    def choose_link(self, ifindex: int) -> None:
        """Choose the netdev with this ifindex, if there is one; hidden ones are shown then."""
        if self._snapshot is not None and any(row.link and row.link.ifindex == ifindex for row in self._hidden):
            self._virtual = True
            self._plant(self._snapshot)
            self._apply_filter(self._snapshot)
        for index, row in enumerate(self._rows):
            if row.link is not None and row.link.ifindex == ifindex:
                self.choose_index(index)
                return


def _row_key(shown: DeviceRow) -> str:
    return shown.row.key


def _places_of_findings(findings: DeviceFindings) -> Mapping[int | str, int]:
    """Key of `DeviceFindings` → place of the worst finding of it among all critical ones and warnings."""
    urgent = [key for key, found in findings.items() if found[0].severity != "info"]
    return {key: place for place, key in enumerate(urgent)}


def _place_of(row: Row, places: Mapping[int | str, int]) -> int:
    """That of the worst finding about the netdev of a row or its PCI function; behind all others if there is none."""
    keys: list[int | str] = [row.link.ifindex] if row.link is not None else []
    if row.pci is not None:
        keys.append(row.pci.address)
    return min((places[key] for key in keys if key in places), default=len(places))


def _kind_rank(row: Row) -> int:
    """Netdevs with a device, then virtual ones that are up, the others, rows without a netdev."""
    if row.link is None:
        return 3
    if not is_virtual(row.link):
        return 0
    return 2 if not row.link.flags & IFF_UP or row.link.flags & IFF_LOOPBACK else 1
