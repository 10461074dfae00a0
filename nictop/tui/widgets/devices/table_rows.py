"""Draws the rows of the table of devices. What of a row depends only on the inventory is drawn once
for it; with each reading only numbers and graphs are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nictop.model.columns.column import Column
from nictop.model.columns.devices import (
    COLUMNS_BY_KEY,
    READING_COLUMNS,
    DeviceRow,
    master_text,
)
from nictop.model.devices.bonds import port_text
from nictop.model.devices.ports import rates_words, wire_rates
from nictop.model.devices.tree import AGGREGATE_KINDS, Row, guides
from nictop.model.doubts import Doubts
from nictop.model.facts import Tone, clean, fit, is_virtual
from nictop.model.facts import width as cells_of
from nictop.model.history import History
from nictop.model.rates.links import LinkRates
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import Glyphs
from nictop.model.text.terminal import fit_middle
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.light_tuples import NamedTuple
from nictop.probe.records import Link
from nictop.rules.by_device import DeviceFindings
from nictop.rules.wording import SEVERITY_LABELS, UNKNOWN_MARK, severity_mark
from nictop.tui.widgets.base.line_widget import TONES, Span, SpanLine
from nictop.tui.widgets.devices.row_findings import worst_finding
from nictop.tui.widgets.devices.row_graphs import RowGraphs
from nictop.tui.widgets.devices.table_layout import LEAD_CELLS, TableLayout

VIRTUAL_GROUP = "group:virtual"
"""Key of the title of the netdevs without a device."""
TITLE_STYLES = {"host": "title", "pci": "", "link": "title", "vf": "", "group": "dim"}
DRIVER = COLUMNS_BY_KEY["driver"]
PEER = replace(COLUMNS_BY_KEY["profile"], keeps_end=True)
"""The column of the profile, for a NIC of another host: the name of the NIC is at the end."""

TableCell = tuple[Column[DeviceRow], str, Tone]
"""How a cell is drawn, its text, and its tone."""


class RowSource(NamedTuple):
    """What the rows are drawn from beside the numbers of a reading."""

    links: Mapping[int, Link]
    functions: Sequence[object]
    inventory: object
    doubts: Doubts | None
    findings: DeviceFindings
    peers: Mapping[int, str]
    """ifindex → host and name of the NIC at the other end of a tap or veth."""
    hidden: Sequence[Row]
    """Those below the title of the group that is hidden."""
    shape: TableLayout
    cells: int
    """Of a line."""
    options_key: str
    """Label of the key that shows what is hidden."""

    def is_same(self, other: RowSource) -> bool:
        """What is large is compared by identity: an equal one that was made anew is drawn again."""
        if (self.cells, self.options_key) != (other.cells, other.options_key):
            return False
        return all(one is another for one, another in zip(self[:8], other[:8], strict=True))


@dataclass(eq=False)
class UnfilledRow:
    """A row without its numbers."""

    begin: tuple[Span, ...]
    """What does not change until the next inventory."""
    title_cells: int
    """Cells of the title if it has a word about the reading; 0: it is in `begin`."""
    cells: tuple[Span | Column[DeviceRow], ...]
    """The cells behind it: drawn, or to be drawn with each reading."""
    has_graph: bool


class RowDrawing:
    """`begin` for each reading, then `line` for each row in view."""

    def __init__(self, glyphs: Glyphs) -> None:
        self._glyphs = glyphs
        self._source: RowSource | None = None
        self._snapshot = Snapshot.empty("")
        self._wire: Mapping[int, LinkRates] = {}
        self._drawn: dict[tuple[str, tuple[bool, ...]], UnfilledRow] = {}
        """By key of the row, and its lines of the tree: a filter or an order changes them."""
        self._graphs = RowGraphs(glyphs)

    def begin(self, source: RowSource, history: History, snapshot: Snapshot) -> None:
        """The newest reading is that of `snapshot`."""
        if self._source is None or not self._source.is_same(source):
            self._source, self._drawn = source, {}
        self._snapshot, self._wire = snapshot, wire_rates(snapshot)
        self._graphs.begin(history, source.shape.graph, packets=source.shape.packets)

    def line(self, row: Row) -> SpanLine:
        key = row.key, row.prefix
        drawn = self._drawn.get(key)
        if drawn is None:
            drawn = self._drawn[key] = self._draw(row)
        if not drawn.cells and not drawn.has_graph:
            return drawn.begin
        shown = DeviceRow(row, self._snapshot, self._wire)
        spans = list(drawn.begin)
        if drawn.title_cells:
            spans += self._title_spans(row, drawn.title_cells)
        for cell in drawn.cells:
            if isinstance(cell, Column):
                text, tone = cell.cell(shown)
                if self._glyphs.is_ascii:
                    text = self._glyphs.encode(text)
                spans.append((" " + cell.fit(text), TONES[tone]))
            else:
                spans.append(cell)
        if drawn.has_graph and row.link is not None:
            graph = self._graphs.graph(row.link.ifindex)
            spans.append((" " * self._given.shape.gap + graph, "in"))
        return tuple(spans)

    @property
    def _given(self) -> RowSource:
        if self._source is None:
            raise RuntimeError("a row is drawn before `begin`")
        return self._source

    def _draw(self, row: Row) -> UnfilledRow:
        given, shape = self._given, self._given.shape
        spans = self._lead(row)
        lead = sum(len(text) for text, _ in spans)
        room = max(1, given.cells - lead - 1)
        title = self._glyphs.encode(row.title)
        if row.kind in ("host", "group"):
            return _whole([*spans, self._group_span(row, title, room)])
        shown = DeviceRow(row, self._snapshot)
        cells = [self._cell(column, shown) for column in shape.columns]
        first = _first_filled(cells)
        if first is None:
            return _whole([*spans, *self._function_spans(shown, title, room)])
        # the name may use the cells beside it
        overflow = sum(column.width + 1 for column, _, _ in cells[:first])
        title_cells = max(1, LEAD_CELLS + shape.name + overflow - lead)
        if not _has_words_of_reading(row):
            spans += self._title_spans(row, title_cells)
            title_cells = 0
        return UnfilledRow(
            tuple(spans),
            title_cells,
            tuple(self._cell_span(*cell) for cell in cells[first:]),
            bool(shape.graph and row.kind == "link" and row.link is not None),
        )

    def _cell_span(
        self, column: Column[DeviceRow], text: str, tone: Tone
    ) -> Span | Column[DeviceRow]:
        if column.key in READING_COLUMNS:
            return column
        return " " + column.fit(self._glyphs.encode(text)), TONES[tone]

    def _lead(self, row: Row) -> list[Span]:
        """The mark of the worst finding of the row, "?" while that is being checked again, and the
        lines of the tree; a group that is hidden has that of its netdevs. The cursor takes the
        place of the first blank."""
        lines = (guides(row), "dim")
        marked: Sequence[Row] = self._given.hidden if row.kind == "group" else (row,)
        worst = worst_finding(marked, self._given.findings)
        if worst is None:
            return [("   ", ""), lines]
        if worst.outdated:
            return [(" ", ""), (f"{UNKNOWN_MARK} ", "dim"), lines]
        tone = TONES[SEVERITY_LABELS[worst.severity].tone]
        return [(" ", ""), (f"{severity_mark(worst.severity, glyphs=self._glyphs)} ", tone), lines]

    def _group_span(self, row: Row, title: str, cells: int) -> Span:
        """The title of other rows, with the number of those that are hidden."""
        if row.key == VIRTUAL_GROUP and self._given.hidden:
            hidden = f"{len(self._given.hidden)} hidden ({self._given.options_key})"
            title += f" {self._glyphs.cursor} {hidden}"
        return fit(title, cells), TITLE_STYLES[row.kind]

    def _function_spans(self, shown: DeviceRow, title: str, cells: int) -> list[Span]:
        """A function without a netdev: its name may use the line, but for its driver, for which a
        narrow table has no column."""
        style = TITLE_STYLES[shown.row.kind]
        driver, tone = DRIVER.cell(shown)
        if not driver:
            return [(fit(title, cells), style)]
        room = max(1, cells - len(driver) - 2)
        name = fit(title, min(room, cells_of(clean(title))))
        return [(name, style), (f"  {clean(driver)}", TONES[tone])]

    def _title_spans(self, row: Row, cells: int) -> list[Span]:
        """With the bond or team of a port, and its state there, if there is room: ``eno1  bond0
        active``; else of a port that is not used the state alone: ``eno1  unused``."""
        title, style = self._glyphs.encode(row.title), TITLE_STYLES[row.kind]
        room = cells - cells_of(clean(title)) - 2
        texts, tone = _port_texts(row, self._snapshot)
        for text in texts:
            shown = clean(self._glyphs.encode(text))
            if cells_of(shown) <= room:
                return [(f"{clean(title)}  ", style), (fit(shown, room), tone)]
        return [(fit_middle(title, cells), style)]

    def _cell(self, column: Column[DeviceRow], shown: DeviceRow) -> TableCell:
        """A tap or veth has, in place of a profile, the NIC of another host behind it."""
        if column.key == "profile":
            peer = self._peer_of(shown.row.link)
            if peer is not None:
                return PEER, clean(f"↔ {peer}"), "normal"
        return column, *column.cell(shown)

    def _peer_of(self, link: Link | None) -> str | None:
        """Host and name of the NIC at the other end of a tap or veth; None: it is not known."""
        if link is None or not is_virtual(link):
            return None
        return self._given.peers.get(link.ifindex)


def _whole(spans: Sequence[Span]) -> UnfilledRow:
    """A row without numbers."""
    return UnfilledRow(tuple(spans), 0, (), has_graph=False)


def _has_words_of_reading(row: Row) -> bool:
    """What its rates are of is said in its title: what its readings have (`rates_words`)."""
    return row.link is not None and bool(row.link.virtual_functions)


def _port_texts(row: Row, snapshot: Snapshot) -> tuple[Sequence[str], str]:
    """What is said of a port of a bond or team, or of a port with VFs, the longest first, and its
    style; none of other rows."""
    link = row.link
    if link is None:
        return (), ""
    master = snapshot.links.get(link.master) if link.master else None
    if master is None or master.kind not in AGGREGATE_KINDS:
        return rates_words(link, snapshot), "dim"
    text, is_usable = master_text(link, snapshot)
    if is_usable:
        return (text,), "dim"
    return (text, port_text(link, master)[0].rpartition(" ")[2]), "warn"


def _first_filled(cells: Sequence[TableCell]) -> int | None:
    """Index of the first cell with a text; None: there is none."""
    for index, (_, text, _) in enumerate(cells):
        if text.strip():
            return index
    return None
