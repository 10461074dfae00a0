"""The live tree of devices: one line per PCI function, VF and netdev, with the numbers that move.

The cursor stays on its row by key, wherever the row goes; only lines whose text changed are drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual.message import Message

from nictop.model.columns.column import Column
from nictop.model.columns.devices import COLUMNS, DeviceRow, visible_columns
from nictop.model.devices.tree import Row, device_tree, guides
from nictop.model.facts import clean, fit, is_virtual
from nictop.model.facts import width as cells_of
from nictop.model.history import History
from nictop.model.snapshot import Snapshot
from nictop.model.text.words import IFF_LOOPBACK, IFF_UP
from nictop.tui.widgets.base.line_view import TONES, Span, SpanLine
from nictop.tui.widgets.base.list_view import ChoiceView
from nictop.tui.widgets.charts.sparkline import nice_ceiling, spark

TITLE_STYLES = {"host": "title", "pci": "", "link": "title", "vf": "", "group": "dim"}
DRIVER = next(column for column in COLUMNS if column.key == "driver")
MIN_NAME_CELLS = 16
PREFERRED_NAME_CELLS = 20
GRAPH_CELLS = (24, 16, 10, 6)
"""Cells of the history graph: the widest that leaves the name comfortable, else the narrowest."""


@dataclass(frozen=True)
class TableLayout:
    """How the width of the table is divided."""

    name: int
    columns: tuple[Column[DeviceRow], ...]
    graph: int


def layout(width: int, *, packets: bool) -> TableLayout:
    """The smallest graph and name first, then columns by priority; what remains widens the graph and the name."""
    columns = visible_columns(width - MIN_NAME_CELLS - GRAPH_CELLS[-1] - 2, packets=packets)
    without_graph = visible_columns(width - MIN_NAME_CELLS - 1, packets=packets)
    now = ("in_packets", "out_packets") if packets else ("in", "out")
    if any(column.key in now and column not in columns for column in without_graph):  # what is, before what was
        room = width - 1 - sum(column.width + 1 for column in without_graph)
        return TableLayout(name=max(1, room), columns=without_graph, graph=0)
    room = width - 1 - sum(column.width + 1 for column in columns)
    graph = next((cells for cells in GRAPH_CELLS if room - cells - 1 >= PREFERRED_NAME_CELLS), GRAPH_CELLS[-1])
    if room - graph - 1 < MIN_NAME_CELLS:
        graph = 0
    return TableLayout(name=max(1, room - (graph + 1 if graph else 0)), columns=columns, graph=graph)


class DeviceTable(ChoiceView):
    """Devices of one host. Posts `Chosen` when the cursor's row changes, `Opened` on enter or a second click."""

    @dataclass
    class Chosen(Message):
        """The cursor is on another row."""

        row: Row

    class Opened(ChoiceView.Opened):
        """Details of the chosen row were requested."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.packets = False
        self.virtual = True
        self._rows: tuple[Row, ...] = ()
        self._tree_of: tuple[object, object, bool] | None = None
        self._snapshot: Snapshot | None = None
        self._history: History | None = None

    # ------------------------------------------------------------------------------------------------ content

    @property
    def chosen(self) -> Row | None:
        """The row under the cursor; None while there is none."""
        index = self.index
        return None if index is None else self._rows[index]

    @property
    def needed_rows(self) -> int:
        """Rows that show everything, header included."""
        return len(self._rows) + 1

    def show(self, snapshot: Snapshot, history: History) -> None:
        """Draw `snapshot`; the cursor stays on its device, or at its index when the device is gone."""
        self._snapshot, self._history = snapshot, history
        self._plant(snapshot)
        self.redraw()

    def _plant(self, snapshot: Snapshot) -> None:
        """The tree changes with the links and functions, not with the numbers: keep it while these are the same.

        The host's own row is left out: the status line has its name."""
        known = self._tree_of
        if known is not None and known[0] is snapshot.links and known[1] is snapshot.pci and known[2] is self.virtual:
            return
        self._tree_of = (snapshot.links, snapshot.pci, self.virtual)
        host, *below = device_tree(snapshot)
        rows = tuple(replace(row, prefix=row.prefix[host.depth + 1 :]) for row in below)
        if not self.virtual:
            group = next((index for index, row in enumerate(rows) if row.key == "group:virtual"), len(rows))
            rows = rows[: group + 1]
        self._rows = rows
        self.set_keys([row.key for row in rows])

    def first_choice(self) -> int:
        """The first netdev with a device, else the first one that is up, else the first row."""

        def rank(index: int) -> tuple[int, int]:
            link = self._rows[index].link
            if link is None:
                return 3, index
            if not is_virtual(link):
                return 0, index
            return 2 if not link.flags & IFF_UP or link.flags & IFF_LOOPBACK else 1, index

        return min(rank(index) for index in range(len(self._rows)))[1]

    def choice_changed(self, index: int) -> None:
        self.post_message(self.Chosen(self._rows[index]))

    def redraw(self) -> None:
        snapshot, history = self._snapshot, self._history
        if snapshot is None or history is None:
            return
        shape = layout(self.scrollable_content_region.width, packets=self.packets)
        if not snapshot.links and not snapshot.pci:
            self.show_lines([((" no inventory yet" if snapshot.inventory is None else " no network device", "dim"),)])
            return
        rows = self._rows
        self.show_drawn(
            len(rows),
            lambda index: self._row_line(rows[index], shape, snapshot, history),
            self._header_line(shape),
            self.index,
        )

    def _header_line(self, shape: TableLayout) -> SpanLine:
        cells = [" " + fit("DEVICE", shape.name)]
        cells += [column.heading for column in shape.columns]
        if shape.graph:
            cells.append(fit("HISTORY" if shape.graph > 7 else "PAST", shape.graph))
        return ((" ".join(cells), ""),)

    def _row_line(self, row: Row, shape: TableLayout, snapshot: Snapshot, history: History) -> SpanLine:
        lead = guides(row)
        title = self.glyphs.encode(row.title)
        if row.kind in ("host", "group"):
            return ((f" {lead}", "dim"), (fit(title, max(1, self.size.width - len(lead) - 2)), TITLE_STYLES[row.kind]))
        spans: list[Span] = [(f" {lead}", "dim")]
        shown = DeviceRow(row, snapshot)
        cells = [(column, *column.cell(shown)) for column in shape.columns]
        if not any(text.strip() for _, text, _ in cells):  # a function without a netdev: its name may use the line
            driver, tone = DRIVER.cell(shown)  # for which a narrow table has no column
            room = max(1, self.size.width - len(lead) - 2 - (len(driver) + 2 if driver else 0))
            name = fit(title, min(room, cells_of(clean(title)))) if driver else fit(title, room)
            return (*spans, (name, TITLE_STYLES[row.kind]), (f"  {clean(driver)}" if driver else "", TONES[tone]))
        empty = next(number for number, (_, text, _) in enumerate(cells) if text.strip())
        overflow = sum(column.width + 1 for column, _, _ in cells[:empty])  # the name may use the cells beside it
        spans.append((fit(title, max(1, shape.name + overflow - len(lead))), TITLE_STYLES[row.kind]))
        encode = self.glyphs.encode
        for column, text, tone in cells[empty:]:
            spans.append((" " + fit(encode(text), column.width, column.align), TONES[tone]))
        if shape.graph and row.kind == "link" and row.link is not None:
            spans.append((" " + self._graph(row.link.ifindex, shape.graph, history), "in"))
        return tuple(spans)

    def _graph(self, ifindex: int, width: int, history: History) -> str:
        kind = "packets" if self.packets else "bits"
        received = history.series((f"rx_{kind}", ifindex))[-width:]
        sent = history.series((f"tx_{kind}", ifindex))[-width:]
        both = [None if a is None or b is None else a + b for a, b in zip(received, sent, strict=True)]
        top = nice_ceiling(max((value for value in both if value is not None), default=0.0))
        return spark(both, width, top, glyphs=self.glyphs)

    # --------------------------------------------------------------------------------------------------- keys

    def step_to_link(self, direction: int) -> None:
        """Choose the next netdev above (-1) or below (1), skipping other rows; also while the table is hidden."""
        here = self.index or 0
        rows = range(here + direction, len(self._rows) if direction > 0 else -1, direction)
        following = next((index for index in rows if self._rows[index].kind == "link"), None)
        if following is not None:
            self.choose_index(following)

    def choose_link(self, ifindex: int) -> None:
        """Choose the netdev with this ifindex, if there is one."""
        for index, row in enumerate(self._rows):
            if row.link is not None and row.link.ifindex == ifindex:
                self.choose_index(index)
                return
