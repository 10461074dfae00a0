"""What differs between two hosts or interfaces that were marked as A and B.

╭ What differs: vm1:ens224 · vm2:ens224 ─────────────────────────╮
│ vm1:ens224 · vm2:ens224                                        │
│ 3 differences                                                  │
│                                                                │
│ findings between both hosts                                    │
│ ▲ vm2: ens224: MTU mismatch (mtu_differs_in_one_subnet)        │
│ [ All ]  [ Swap ]  [ Copy ]  [ Save ]  [▸Close ]               │
╰ Tab Next · Enter Close · Esc Close · ↑↓ Scroll ────────────────╯
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nictop.errors import NictopError
from nictop.probe.light_dataclasses import replace
from nictop.rules.wording import is_checked
from nictop.tui.screens.dialogs.line_entry import LineEntry
from nictop.tui.screens.dialogs.report import ReportDialog
from nictop.tui.screens.live.files import file_name, write_new
from nictop.tui.widgets.base.button_row import Button, ButtonRow

if TYPE_CHECKING:
    from nictop.model.text.glyphs import Glyphs
    from nictop.report.diff.compare import HostDifferences
    from nictop.tui.controllers.marks import Marked

NOT_CHECKED = "Findings are not compared: the checks have not run yet on {}."


class DiffScreen(ReportDialog):
    """`left`, `right`: A and B, as they are when it is opened."""

    def __init__(self, left: Marked, right: Marked) -> None:
        super().__init__()
        self._left, self._right = left, right
        self._shows_all = False
        self._diff = self._compared()

    def _compared(self) -> HostDifferences:
        from nictop.report.diff.compare import compare_sides

        left, right = self._left, self._right
        if self._unchecked():  # one side without findings would have all of those of the other
            left, right = replace(left, diagnosis=None), replace(right, diagnosis=None)
        is_one_moment = left.moment == right.moment
        return compare_sides(left.side(), right.side(), is_one_moment=is_one_moment)

    def _unchecked(self) -> list[str]:
        """Names of the sides on which the checks have not run."""
        sides = (self._left, self._right)
        return [side.name for side in sides if not is_checked(side.diagnosis, side.snapshot)]

    @property
    def dialog_title(self) -> str:
        return f"What differs: {self._left.name} · {self._right.name}"

    @property
    def value_hosts(self) -> Sequence[str]:
        sides = (self._left, self._right)
        return tuple(side.host for side in sides if not side.moment)

    @property
    def has_report(self) -> bool:
        return True

    def report_text(self, cells: int, glyphs: Glyphs | None = None) -> str:
        from nictop.model.text.glyphs import UNICODE
        from nictop.report.diff.document import diff_text

        text = diff_text(
            self._diff, cells, everything=self._shows_all, glyphs=glyphs or UNICODE, hint="All"
        )
        unchecked = self._unchecked()
        if unchecked:
            text = f"{NOT_CHECKED.format(' and '.join(unchecked))}\n{text}"
        return text

    def show_buttons(self, row: ButtonRow) -> None:
        row.show(
            (
                Button("toggle_all", "Fewer" if self._shows_all else "All"),
                Button("swap", "Swap"),
                Button("copy", "Copy"),
                Button("save", "Save…"),
                Button("cancel", "Close"),
            ),
            stage="shown",
            chosen="cancel",
        )

    def action_toggle_all(self) -> None:
        """Expected differences, too."""
        self._shows_all = not self._shows_all
        self.draw()

    def action_swap(self) -> None:
        self._left, self._right = self._right, self._left
        self._diff = self._compared()
        self.draw()

    def action_save(self) -> None:
        """As an HTML page."""
        from nictop.report.diff.document import diff_html

        nictop = self.nictop
        page = diff_html(self._diff, everything=self._shows_all)

        async def take(path: str) -> str:
            try:
                path = await asyncio.to_thread(write_new, path, page)
            except NictopError as error:
                return error.message
            nictop.notify(path, "Saved")
            return ""

        names = (self._left.host, self._right.host)
        name = file_name(tuple(dict.fromkeys(names)), nictop.here().wall, "html")
        text = "An HTML page, readable by you only (0600), with names and addresses."
        self.app.push_screen(LineEntry("Save the difference", text, name, take, button="Save"))
