"""The live tree of devices: one line per PCI function, VF and netdev, with the numbers that move.
Sorted by a column it is a list of the same devices.

The cursor stays on its row by key, wherever the row goes; only lines whose text changed are drawn
again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import is_

from textual import events
from textual.message import Message

from nictop.model.columns.column import Column, RowOrder, order_by, ordered
from nictop.model.columns.devices import COLUMNS, COLUMNS_BY_KEY, DeviceRow, row_rates
from nictop.model.devices.netdevs import End
from nictop.model.devices.overview import NO_NIC_IFINDEX, NicRow
from nictop.model.devices.row_filter import row_filter
from nictop.model.devices.tree import Row, device_rows, matching_rows
from nictop.model.doubts import doubts_of
from nictop.model.facts import fit, is_virtual
from nictop.model.history import History
from nictop.model.snapshot import ARPHRD_VOID, Snapshot
from nictop.model.text.words import IFF_LOOPBACK, IFF_UP, is_esxi
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.rules.by_device import DeviceFindings
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.filter_line import no_matches
from nictop.tui.widgets.base.line_widget import SpanLine, WaitingLines, no_lines
from nictop.tui.widgets.cpu.nic_view import NO_INTERFACES
from nictop.tui.widgets.devices.row_findings import place_of, places_of_findings, worst_severity
from nictop.tui.widgets.devices.table_layout import GRAPH, LEAD_CELLS, TableLayout, layout
from nictop.tui.widgets.devices.table_rows import VIRTUAL_GROUP, RowDrawing, RowSource


def merged(rows: Sequence[Row]) -> list[Row]:
    """Rows of the tree, with a virtual function and its only netdev in one row: ``VF0
    ens224v0``."""
    found: list[Row] = []
    vf: Row | None = None
    """Whose netdev is in its row: the rows below it move up by one level."""
    for number, row in enumerate(rows):
        if vf is not None and row.depth <= vf.depth:
            vf = None
        if vf is None:
            if row.kind == "vf" and _has_one_netdev(rows, number):
                vf = row
            else:
                found.append(row)
            continue
        moved = replace(
            row, depth=row.depth - 1, prefix=row.prefix[: vf.depth] + row.prefix[vf.depth + 1 :]
        )
        if moved.depth == vf.depth:
            title = f"{''.join(vf.title.split()[:2])} {row.title}"
            moved = replace(moved, title=title, vf=vf.vf, uplink=vf.uplink)
        found.append(moved)
    return found


def _has_one_netdev(rows: Sequence[Row], number: int) -> bool:
    """Of the row of a virtual function. By index: a slice for each of thousands is quadratic."""
    depth, netdevs = rows[number].depth, 0
    for index in range(number + 1, len(rows)):
        below = rows[index].depth - depth
        if below <= 0:
            break
        netdevs += below == 1
    return netdevs == 1


class DeviceTable(ChoiceList):
    """Devices of one host. Posts `Chosen` when the cursor's row changes, `Opened` on enter or a
    second click."""

    @dataclass
    class Chosen(Message):
        """The cursor is on another row."""

        row: Row

    @dataclass
    class Gone(Message):
        """The device of the cursor's row is gone."""

        title: str
        instead: str
        """Title of the row of the same device, or of a new virtual interface of the same name, that
        is chosen now; "": none is."""
        is_same_device: bool = True

    class Opened(ChoiceList.Opened):
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
        self.is_checked = False
        """`findings` rest on all that the checks read of the host."""
        self._is_settled = False
        """The checks have read what they need: `first_choice` does not follow the findings any
        more."""
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
        self._drawing: RowDrawing | None = None
        self._known_layout: tuple[object, TableLayout] | None = None
        """Width, `packets` and column of `order`, and the layout for them."""
        self.waiting: WaitingLines = no_lines
        self._snapshot: Snapshot | None = None
        self._history: History | None = None
        self._last_chosen: Row | None = None
        """The chosen row as it was last there."""
        self._gone_row: Row | None = None
        """The same once it is gone, and no other row is chosen."""

    # -------------------------------------------------------------------------------------- content

    @property
    def chosen(self) -> Row | None:
        """The row under the cursor; None while there is none."""
        index = self.index
        if index is None:
            return None
        return self._rows[index]

    @property
    def virtual(self) -> bool:
        """Netdevs without a device are shown. Until the user chooses: unless the host has
        others."""
        if self._virtual is not None:
            return self._virtual
        return self._virtual_at_first is not False

    @virtual.setter
    def virtual(self, shown: bool) -> None:
        self._virtual = shown

    def begin(self, key: str | None) -> None:
        super().begin(key)
        self._last_chosen = self._gone_row = None
        self._virtual_at_first, self._drawing = None, None
        self._is_order_due, self._is_settled = True, False

    @property
    def needed_rows(self) -> int:
        """Rows that show everything without a filter, header included; before there are any, what
        is waited for."""
        return len(self._tree or self.lines) + 1

    @property
    def count_text(self) -> str:
        """``3 of 12``: netdevs, and functions without one, that pass the filter."""
        return f"{len(self._matches)} of {len(self._device_rows())}"

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
        """Draw `snapshot`; the cursor stays on its device, and on no row when the device is gone.
        `nics`: ifindex → the row of the overview, for the filter. `peers`: ifindex → host and name
        of the NIC at the other end of a tap or veth. `is_checked`: `findings` rest on all that the
        checks read of this host."""
        is_new = not self._is_settled and is_checked and not self.is_checked
        if findings != self.findings:
            self.findings = findings
            is_new = not self._is_settled
        if self._peers != (peers or {}):
            self._peers = peers or {}
        self._snapshot, self._history, self._nics = snapshot, history, nics or {}
        self.is_checked = is_checked
        self._plant(snapshot)
        if self._is_order_due:
            self._make_order(snapshot)
        self._apply_filter(snapshot)
        if is_new and self._rows:
            self.set_keys(_row_keys(self._rows))
        if is_checked:
            self._is_settled = True
        self._last_chosen = self.chosen or self._last_chosen
        self.redraw()

    def _plant(self, snapshot: Snapshot) -> None:
        """The tree changes with the links and functions, not with the numbers: keep it while these
        are the same.

        The host's own row is left out: the status line has its name."""
        if self._virtual_at_first is None:
            self._virtual_at_first = _shows_virtual_at_first(snapshot)
        tree_of = (snapshot.links, snapshot.pci, self.virtual)
        before = self._tree_of
        if before is not None and all(map(is_, tree_of, before)):
            return
        self._tree_of = tree_of
        rows = merged(device_rows(snapshot))
        keys = _row_keys(rows)
        self._virtual_rows = ()
        if VIRTUAL_GROUP in keys and not self.virtual:
            self._virtual_rows = tuple(rows[keys.index(VIRTUAL_GROUP) + 1 :])
        self._tree = tuple(rows[: len(rows) - len(self._virtual_rows)])

    def _apply_filter(self, snapshot: Snapshot) -> None:
        """The cursor leaves a row that is hidden for the first one that passes."""
        is_new, self._is_new_filter = self._is_new_filter, False
        if not self.filter.tests:
            self._show_all(snapshot)
            return
        self._find_matches(snapshot)
        keys = _row_keys(self._rows)
        allowed: Collection[str] = self._matches if is_new else keys
        if keys and self._key not in allowed and self._wanted not in keys:
            self._wanted = keys[self.first_choice()]
        self.set_keys(keys)
        if keys:
            self._moved = True

    def _show_all(self, snapshot: Snapshot) -> None:
        rows = self._ordered(self._tree, snapshot)
        if self._rows is not rows:
            self._rows, self._hidden, self._matches = rows, self._virtual_rows, frozenset()
            self.set_keys(_row_keys(rows))

    def _find_matches(self, snapshot: Snapshot) -> None:
        """The rows that pass the filter, with those that they are below."""
        self._matches = frozenset(_row_keys(self._accepted(self._device_rows(), snapshot)))
        self._hidden = tuple(self._accepted(self._virtual_rows, snapshot))
        shown = set(self._matches)
        if self._hidden:
            shown.add(VIRTUAL_GROUP)
        rows = matching_rows(self._tree, lambda row: row.key in shown)
        self._rows = self._ordered(rows, snapshot)

    def _accepted(self, rows: Iterable[Row], snapshot: Snapshot) -> Iterator[Row]:
        """Those that pass the filter."""
        return (row for row in rows if self.filter.accepts(self._nic(row, snapshot)))

    def _device_rows(self) -> list[Row]:
        """Those of the tree that a filter accepts or not."""
        return [row for index, row in enumerate(self._tree) if self._is_device(index)]

    def _ordered(self, rows: tuple[Row, ...], snapshot: Snapshot) -> tuple[Row, ...]:
        """In the order by a column, the devices among some rows of the tree; the title of hidden
        ones is the last."""
        column = self._order_column
        if column is None:
            return rows
        wanted = set(_row_keys(rows))
        devices = [device for device in self._devices(snapshot) if device.row.key in wanted]
        in_order = [device.row for device in ordered(devices, self.order, column, _row_key)]
        if self._virtual_rows:
            in_order += [row for row in rows if row.key == VIRTUAL_GROUP]
        return tuple(in_order)

    def _devices(self, snapshot: Snapshot) -> list[DeviceRow]:
        """Those of the tree without their places in it."""
        rows = self._device_rows()
        return [DeviceRow(replace(row, depth=0, prefix=()), snapshot) for row in rows]

    @property
    def _order_column(self) -> Column[DeviceRow] | None:
        return COLUMNS_BY_KEY.get(self.order.column)

    def _make_order(self, snapshot: Snapshot) -> None:
        self._is_order_due, column = False, self._order_column
        if column is not None:
            devices, descending = self._devices(snapshot), self.order.descending
            self.order = order_by(column, devices, _row_key, descending=descending)

    def _is_device(self, index: int) -> bool:
        """A row of the tree that a filter accepts or not: not one that is only above others."""
        row = self._tree[index]
        if row.link is not None:
            return True
        is_leaf = index + 1 == len(self._tree) or self._tree[index + 1].depth <= row.depth
        return is_leaf and row.kind != "group"

    def _nic(self, row: Row, snapshot: Snapshot) -> NicRow:
        """What the filter knows of a row: that of the overview; of a function without a netdev,
        what there is."""
        ifindex = NO_NIC_IFINDEX
        if row.link is not None:
            ifindex = row.link.ifindex
            known = self._nics.get(ifindex)
            if known is not None:
                return known
        return NicRow(
            End(snapshot.host, ifindex),
            snapshot,
            row.link,
            row.pci,
            row.vf,
            rates=row_rates(row, snapshot),
            severity=worst_severity((row,), self.findings),
        )

    def first_choice(self) -> int:
        """The netdev named `preferred`, else the device with the worst finding, once the checks
        have read all, else the first netdev with a device, else the first one that is up, else the
        first row; with a filter, of those that pass it. From then on the choice stays: nothing
        moves below the reader's eyes."""
        if self._is_settled and self.index is not None and not self.filter.tests:
            return self.index
        places = places_of_findings(self.findings if self.is_checked else {})

        def rank(index: int) -> tuple[bool, bool, int, int]:
            row, link = self._rows[index], self._rows[index].link
            is_only_above = bool(self._matches) and row.key not in self._matches
            is_other = link is None or link.name != self.preferred
            return is_only_above, is_other, place_of(row, places), _kind_rank(row)

        return min(range(len(self._rows)), key=rank)

    def choice_changed(self, index: int) -> None:
        self._last_chosen, self._gone_row = self._rows[index], None
        self.post_message(self.Chosen(self._rows[index]))

    @property
    def is_chosen_gone(self) -> bool:
        return (
            self._last_chosen is not None
            and self.index is None
            and self._is_gone(self._last_chosen)
        )

    def _is_gone(self, row: Row) -> bool:
        """From the host, not only from the rows that are shown."""
        snapshot = self._snapshot
        if snapshot is None:
            return False
        if row.link is not None:
            return row.link.ifindex not in snapshot.links
        if row.pci is not None:
            return all(function.address != row.pci.address for function in snapshot.pci)
        return row.kind == "vf"

    def index_instead(self, place: int) -> int | None:
        """A key may be pressed already for the device that has just gone: only a row of the same
        device takes its place, and that is said."""
        row = self._last_chosen
        if row is None or not self._is_gone(row):
            return super().index_instead(place)
        index = self._index_of_same_device(row)
        if self._gone_row is None or index is not None:
            instead = "" if index is None else self._rows[index].title
            is_same_device = row.link is None or row.pci is not None or row.link.device is not None
            self.post_message(self.Gone(row.title, instead, is_same_device))
        self._gone_row = row
        return index

    def _index_of_same_device(self, row: Row) -> int | None:
        """Its netdev of another ifindex, else its function."""
        found: int | None = None
        for index, other in enumerate(self._rows):
            if not _is_same_device(row, other):
                continue
            if other.link is not None:
                return index
            if found is None:
                found = index
        return found

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
            self.show_lines(
                [((f" {no_matches(self.key_label)}", "dim"),)], self._header_line(shape)
            )
            return
        if self._drawing is None:
            self._drawing = RowDrawing(self.glyphs)
        drawing = self._drawing
        drawing.begin(self._row_source(snapshot, shape), history, snapshot)
        self.show_drawn(
            len(rows),
            lambda index: drawing.line(rows[index]),
            self._header_line(shape),
            self.index,
        )

    def _row_source(self, snapshot: Snapshot, shape: TableLayout) -> RowSource:
        return RowSource(
            links=snapshot.links,
            functions=snapshot.pci,
            inventory=snapshot.inventory,
            doubts=doubts_of(snapshot),
            findings=self.findings,
            peers=self._peers,
            hidden=self._hidden,
            shape=shape,
            cells=self.size.width,
            options_key=self.key_label("options"),
        )

    @property
    def _layout(self) -> TableLayout:
        """The same object until it is another one."""
        width = self.scrollable_content_region.width
        given = (width, self.packets, self.order.column)
        if self._known_layout is None or self._known_layout[0] != given:
            self._known_layout = given, self._new_layout(width)
        return self._known_layout[1]

    def _new_layout(self, width: int) -> TableLayout:
        """With room for the mark of the order behind the title of its column, one cell of the name
        if there is none."""
        shape = layout(width, packets=self.packets)
        keys = [column.key for column in shape.columns]
        if self.order.column not in keys:
            return shape
        place = keys.index(self.order.column)
        column = shape.columns[place]
        needed = len(column.title) + 1
        if needed <= column.width:
            return shape
        columns = list(shape.columns)
        columns[place] = replace(column, width=needed)
        name = max(1, shape.name - needed + column.width)
        return replace(shape, columns=tuple(columns), name=name)

    def _empty_lines(self, snapshot: Snapshot) -> list[SpanLine]:
        """Why there is no row."""
        if snapshot.inventory is not None:
            return [((f" {NO_INTERFACES}", "dim"),)]
        return [*self.waiting(self.scrollable_content_region.width)]

    def _header_line(self, shape: TableLayout) -> SpanLine:
        text = " " * LEAD_CELLS + fit("DEVICE", shape.name)
        mark = self.glyphs.descending if self.order.descending else self.glyphs.ascending
        for column in shape.columns:
            title = column.title
            if column.key == self.order.column:
                title += mark
            text += f" {fit(title, column.width, column.align)}"
        if shape.graph:
            text += " " * shape.gap + fit(GRAPH.title, shape.graph)
        if shape.missing:
            text += f" +{shape.missing}"
        return ((text, ""),)

    # ------------------------------------------------------------------------------- keys and mouse

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
        place = 0
        if self.order.column in keys:
            place = keys.index(self.order.column)
        self.sort_first(keys[(place + step) % len(keys)])

    def action_reverse(self) -> None:
        """Of the tree there is no other order."""
        if self.order.column:
            self.sort_by(self.order.column, descending=not self.order.descending)

    def sort_first(self, key: str) -> None:
        """As the first click on its title: numbers begin with the greatest."""
        numbers = [column.key for column in COLUMNS if column.align == "right"]
        self.sort_by(key, descending=key in (*numbers, "link"))

    def _click_title(self, x: int) -> None:
        """Sort by the column; a second time, the other way round. The title of the devices: the
        tree."""
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
        if index is None or index >= len(self._rows):
            return
        if self._rows[index].key == VIRTUAL_GROUP:
            event.prevent_default()
            self.choose_index(index)
            self.post_message(self.VirtualClicked())

    @property
    def is_sortable(self) -> bool:
        """There are rows."""
        return bool(self._rows)

    def step_to_link(self, direction: int) -> bool:
        """Choose the next netdev above (-1) or below (1), skipping other rows; also while the table
        is hidden. From another row, if there is none that way, the nearest the other way. False:
        there is none."""
        here, rows = self._index_or_last, self._rows
        if here >= len(rows):
            here = max(0, len(rows) - 1)
        is_gone = self.index is None  # the next row is where it was
        above, below = range(here - 1, -1, -1), range(here + (not is_gone), len(rows))
        ways = [below, above] if direction > 0 else [above, below]
        if rows and rows[here].kind == "link" and not is_gone:
            del ways[1]
        for index in chain.from_iterable(ways):
            if rows[index].kind == "link":
                self.choose_index(index)
                return True
        return False

    def choose_link(self, ifindex: int) -> None:
        """Choose the netdev with this ifindex, if there is one; hidden ones are shown then."""
        is_hidden = _index_of_link(self._hidden, ifindex) is not None
        if is_hidden and self._snapshot is not None:
            self._virtual = True
            self._plant(self._snapshot)
            self._apply_filter(self._snapshot)
        index = _index_of_link(self._rows, ifindex)
        if index is not None:
            self.choose_index(index)


def _index_of_link(rows: Sequence[Row], ifindex: int) -> int | None:
    """Index of the row of a netdev; None: there is none."""
    for index, row in enumerate(rows):
        if row.link is not None and row.link.ifindex == ifindex:
            return index
    return None


def _shows_virtual_at_first(snapshot: Snapshot) -> bool | None:
    """A host that has no others, and an ESXi host, whose NICs are among them; None: no netdev is
    known."""
    links = [link for link in snapshot.links.values() if link.type != ARPHRD_VOID]
    if not links:
        return None
    if snapshot.inventory is not None and is_esxi(snapshot.inventory.platform):
        return True
    return all(map(is_virtual, links))


def _is_same_device(row: Row, other: Row) -> bool:
    """The same PCI function, the same device of another bus, or a virtual interface of the same
    name."""
    if row.pci is not None:
        return other.pci is not None and other.pci.address == row.pci.address
    if row.link is None or other.link is None:
        return False
    if row.link.device is not None:
        return other.link.device == row.link.device
    return other.link.device is None and other.link.name == row.link.name


def _row_key(shown: DeviceRow) -> str:
    return shown.row.key


def _row_keys(rows: Iterable[Row]) -> list[str]:
    return [row.key for row in rows]


def _kind_rank(row: Row) -> int:
    """Netdevs with a device, then virtual ones that are up, the others, rows without a netdev."""
    if row.link is None:
        return 3
    if not is_virtual(row.link):
        return 0
    if row.link.flags & IFF_LOOPBACK or not row.link.flags & IFF_UP:
        return 2
    return 1
