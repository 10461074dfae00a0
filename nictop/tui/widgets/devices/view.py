"""The first view: the table of devices, and beside or below it everything about the chosen one."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container

from nictop.model.facts import clean
from nictop.model.history import History
from nictop.model.snapshot import Snapshot
from nictop.tui.widgets.base.while_open import WhileOpen
from nictop.tui.widgets.devices.detail import LinkPanel
from nictop.tui.widgets.devices.table import DeviceTable

MIN_PANEL_ROWS = 8
"""Rows of the panel below the table: title, in, out, and the summary of the chosen device."""


def table_rows(needed: int, room: int, *, short: bool) -> int:
    """Rows of the table above the panel, header included: what it needs, as long as the panel keeps two fifths of the
    `room` and at least `MIN_PANEL_ROWS`. On a `short` screen the panel takes what is left."""
    return needed if short else max(1, min(needed, room - max(MIN_PANEL_ROWS, room * 2 // 5)))


class DevicesView(WhileOpen, Container):
    """Divides its room between table and panel: side by side on wide screens, else above each other."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title = ""

    def compose(self) -> ComposeResult:
        yield DeviceTable(id="devices")
        yield LinkPanel(id="link")

    def on_mount(self) -> None:
        self.query_one(DeviceTable).border_title = "Devices"

    def show(self, snapshot: Snapshot, history: History) -> None:
        """Draw the panel; the table, which other views need too, has been drawn already."""
        self._divide()
        row = self.query_one(DeviceTable).chosen
        panel = self.query_one(LinkPanel)
        title = "" if row is None else clean(row.title)
        if title != self._title:
            self._title = title
            panel.border_title = self.glyphs.encode(title).replace("[", r"\[")
        panel.show(row, snapshot, history)

    def _divide(self) -> None:
        """Give the panel below the table the rows that the table does not need; without enough of them, no panel."""
        table, room = self.query_one(DeviceTable), self.size.height
        wide, short, detail = (self.screen.has_class(name) for name in ("-wide", "-short", "-detail"))
        panel = wide or not short or detail or room - table.needed_rows >= MIN_PANEL_ROWS - 2
        if self.query_one(LinkPanel).display != panel:
            self.query_one(LinkPanel).display = panel
        table.take_rows(None if wide or not panel else table_rows(table.needed_rows, room, short=short))
