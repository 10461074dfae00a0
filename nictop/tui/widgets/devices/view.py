"""The first view: the table of devices, and below or beside it everything about the chosen one.

Less than 120 columns: the panel is below the table, one line of it in any case. From 120 columns on
it is at the right; where the table leaves room, the charts are at the left, below it. The rows are
divided by the number of rows in the table, so that a recording is drawn as the live screen was.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Input

from nictop.model.devices.tree import Row
from nictop.model.facts import clean
from nictop.model.facts.pairs import PairFact
from nictop.model.history import History
from nictop.model.snapshot import Snapshot
from nictop.probe.light_dataclasses import replace
from nictop.probe.records import Link
from nictop.tui.widgets.base.filter_line import FilterLine
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.devices.detail import ChartShape, FactLines, LinkPanel, TrafficChart
from nictop.tui.widgets.devices.table import DeviceTable

FILTER_HINT = "filter: ens3  driver:igb  drops/s>0  !state:down  address:192.0.2.0/24"
MIN_PANEL_ROWS = 5
"""Rows of the panel below the table: title, RX and TX with their time axis, and one line of
facts."""
MIN_TABLE_ROWS = 7
"""Rows that the table has above such a panel; with less room the panel is one line of facts."""
MIN_CELLS_FOR_LEFT, MIN_LEFT_ROWS = 120, 8
"""Cells of the view and free rows below a table at the left, from which on the charts are there."""
MIN_STACKED_ROWS = 12
"""Rows of each chart, its axis included, from which on RX and TX stand one above the other."""
MAX_CHART_ROWS = 20


def panel_rows(needed: int, room: int) -> int:
    """Rows of the panel below the table, its title included: those that the table does not need,
    but at least three tenths of the `room`. 1: one line of facts without a title; 0: nothing."""
    if room <= 2:
        return 0
    if room < MIN_TABLE_ROWS + MIN_PANEL_ROWS:
        return 1
    return max(MIN_PANEL_ROWS, room * 3 // 10, room - needed)


def left_charts(needed: int, cells: int, room: int) -> ChartShape:
    """The charts below a table at the left that needs `needed` rows, in a view of `cells` x `room`;
    none where that is too small."""
    free = room - needed
    if cells < MIN_CELLS_FOR_LEFT or free < MIN_LEFT_ROWS:
        return ChartShape(0, beside=False)
    if free < 2 * MIN_STACKED_ROWS:
        return ChartShape(min(MAX_CHART_ROWS, free - 2), beside=True)
    return ChartShape(min(MAX_CHART_ROWS, free // 2 - 2), beside=False)


class DevicesView(WhileOpen, Container):
    """Divides its room between table, charts and panel."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title = ""
        self._divided_for: object = None
        self._charts = ChartShape(0, beside=False)
        """Those below the table at the left."""

    def compose(self) -> ComposeResult:
        with Vertical(id="left"):
            yield DeviceTable(id="device-table")
            yield FilterLine(DeviceTable, FILTER_HINT, id="device-filter")
            yield TrafficChart(id="left-traffic")
        yield LinkPanel(id="link")

    def show(self, snapshot: Snapshot, history: History, peers: Sequence[PairFact] = ()) -> None:
        """Draw the panel; the table, which other views need too, has been drawn already. `peers`:
        of the chosen netdev on other hosts."""
        self._divide()
        table, entry = self.query_one(DeviceTable), self.query_one(FilterLine)
        row, errors = table.chosen, table.filter.errors
        entry.show_note("; ".join(errors) or table.count_text, is_error=bool(errors))
        panel = self.query_one(LinkPanel)
        title = "" if row is None else clean(row.title)
        if title != self._title:
            self._title = title
            panel.border_title = self.glyphs.encode(title).replace("[", r"\[")
        self.query_one(FactLines).has_page_keys = table.is_in_view
        panel.show(
            row,
            snapshot,
            history,
            table.findings,
            peers,
            with_chart=not self._charts.rows,
            is_checked=table.is_checked,
        )
        chart = self.query_one("#left-traffic", TrafficChart)
        if self._charts.rows and row is not None:
            chart.show(replace(row, link=netdev_of(row, snapshot)), snapshot, history, self._charts)

    def on_input_changed(self, event: Input.Changed) -> None:
        """The screen draws then."""
        self.query_one(DeviceTable).set_filter(event.value)

    def on_device_table_page_requested(self, event: DeviceTable.PageRequested) -> None:
        self.query_one(FactLines).page(event.pages)

    def end_filter(self) -> None:
        self.query_one(FilterLine).action_end_filter()
        self.query_one(DeviceTable).set_filter("")

    def _divide(self) -> None:
        """Give the table the rows that it needs, and the rest to the panel or the charts."""
        table, panel = self.query_one(DeviceTable), self.query_one(LinkPanel)
        wide, detail = self.screen.has_class("-wide"), self.screen.has_class("-detail")
        has_row, needed = table.chosen is not None, table.needed_rows
        divided_for = (needed, has_row, self.size, wide, detail)
        if divided_for == self._divided_for:
            return
        self._divided_for = divided_for
        room = self.size.height
        self._charts = ChartShape(0, beside=False)
        if wide and has_row and not detail:
            self._charts = left_charts(needed, self.size.width, room)
        has_whole_height = wide or detail
        rows = 0
        if has_whole_height:
            rows = room
        elif has_row:
            rows = panel_rows(needed, room)
        panel.set_class(rows == 1, "-line")
        panel.display = rows > 0
        self.query_one("#left").styles.height = None if has_whole_height else room - rows
        chart = self.query_one("#left-traffic", TrafficChart)
        chart.display = self._charts.rows > 0
        chart.take_rows(self._charts.height)


def netdevs_of(row: Row, snapshot: Snapshot) -> Sequence[Link]:
    """The netdev of a row; of a PCI function, all of its netdevs."""
    if row.link is not None:
        return (row.link,)
    if row.pci is None or not row.pci.address:
        return ()
    address = row.pci.address
    return [link for link in snapshot.links.values() if link.pci_address == address]


def netdev_of(row: Row, snapshot: Snapshot) -> Link | None:
    """The first one of them."""
    return next(iter(netdevs_of(row, snapshot)), None)
