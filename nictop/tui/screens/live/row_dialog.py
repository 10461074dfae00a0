"""Dialogs about one interface of the chosen host, which show its newest state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from nictop.tui.keys import COPY_KEYS
from nictop.tui.screens.dialogs.host_dialog import HostDialog
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.devices.detail import row_at

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.devices.tree import Row
    from nictop.model.snapshot import Snapshot

GONE = "This interface is gone."


class RowDialog(HostDialog):
    """`ifindex`, `address`: of a netdev, or of a PCI function without one."""

    BINDINGS: ClassVar[list[BindingType]] = COPY_KEYS
    is_tall = True

    def __init__(self, ifindex: int | None, address: str) -> None:
        super().__init__()
        self._ifindex, self._address = ifindex, address

    def on_mount(self) -> None:
        self.subscribe(self.nictop.hosts.snapshot_changed, self.draw)
        self.subscribe(self.nictop.diagnosis.changed, self.draw)

    @property
    def value_hosts(self) -> Sequence[str]:
        return (self.nictop.hosts.chosen,)

    def value_snapshot(self, session: HostSession) -> Snapshot:
        return self.nictop.display.snapshot(session)

    @property
    def key_hints(self) -> str:
        return self.hints("Esc Close", "↑↓ Scroll")

    @property
    def snapshot(self) -> Snapshot:
        """What is shown of the host."""
        return self.nictop.display.snapshot(self.nictop.hosts.session)

    @property
    def row(self) -> Row | None:
        """None: the interface is gone."""
        return row_at(self._ifindex, self._address, self.snapshot)

    @property
    def subject(self) -> str:
        """``vm1 ens224``"""
        row = self.row
        return f"{self.nictop.hosts.chosen} {self._address if row is None else row.title}"

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        row = self.row
        if row is None:
            return list(self.wrapped(GONE, cells, "warn", indent=" "))
        return self.lines_of(row, cells)

    def lines_of(self, row: Row, cells: int) -> Sequence[SpanLine]:
        """The text about it."""
        raise NotImplementedError
