"""Where an interface is in its machine: NUMA node, port, slot, CPUs of its interrupts, its guest.

╭ vm1 ens224: place ─────────────────────────────────────────────╮
│ machine  2 NUMA nodes                                          │
│ └ NUMA node 0  CPUs 0-15                                       │
│   └ root port 0000:00:1c.0  PCIe 8 GT/s ×8                     │
│     └ 0000:03:00.0  82576 · PCIe 5 GT/s ×4 (of 8 GT/s ×8)      │
│       │ ▲ slower or narrower than it can be                    │
│       └ ▸ens224  up, 10G full                                  │
│ 4 queue interrupts  to CPUs 16-19 (node 1)                     │
│   ▲ CPUs 16-19 on another node than the NIC                    │
│ [ Copy ]  [▸Close ]                                            │
╰ Tab Next · Enter Close · Esc Close · ↑↓ Scroll ────────────────╯
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nictop.model.place import place_of
from nictop.report.place import place_lines, place_text
from nictop.tui.screens.live.row_dialog import RowDialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.line_widget import SpanLine

if TYPE_CHECKING:
    from nictop.model.devices.tree import Row

COPIED_CELLS = 100
NO_PLACE = "No PCI function, interrupt or guest of it is known."
ONLY_NETWORK = "Other devices than network functions are not read."


class PlaceScreen(RowDialog):
    @property
    def dialog_title(self) -> str:
        return f"{self.subject}: place"

    def lines_of(self, row: Row, cells: int) -> Sequence[SpanLine]:
        place = place_of(row, self.snapshot)
        if not place:
            return list(self.wrapped(NO_PLACE, cells, indent=" "))
        lines: list[SpanLine] = [
            ((" ", ""), *((part.text, part.style) for part in parts))
            for parts in place_lines(place, cells - 2, glyphs=self.glyphs)
        ]
        if row.pci is not None:
            lines += [(), *self.wrapped(ONLY_NETWORK, cells, "dim", indent=" ")]
        return lines

    def show_buttons(self, row: ButtonRow) -> None:
        row.show((Button("copy", "Copy"), Button("cancel", "Close")), chosen="cancel", stage="")

    def action_copy(self) -> None:
        row = self.row
        if row is not None:
            text = place_text(place_of(row, self.snapshot), COPIED_CELLS)
            self.nictop.copy_lines(text, ["the place as text"])
