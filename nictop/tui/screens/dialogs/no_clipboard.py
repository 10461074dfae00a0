"""What would be copied, on a terminal without a clipboard: to be read, or saved to another file.

╭ No clipboard in this terminal ─────────────────────────────────╮
│ to be typed on vm1                                             │
│ this terminal has no clipboard …; saved in ~/…/copied.txt      │
│     nmcli con mod uuid cb81f911-… connection.id ens224         │
│     nmcli con up uuid cb81f911-…                               │
│                                                                │
│ [ Save to file… ] [▸Close ]                                    │
╰ Tab Next · Enter Close · Esc Close · ↑↓ Scroll ────────────────╯
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nictop.model.facts import wrap
from nictop.rules.fixes.commands import Step
from nictop.rules.wording import command_lines
from nictop.tui.clipboard import CopyRequest
from nictop.tui.screens.base import NictopScreen
from nictop.tui.screens.dialogs.dialog import MIN_TEXT_CELLS, Dialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.line_widget import SpanLine
from nictop.tui.widgets.findings.page import COMMAND_INDENT


class NoClipboardScreen(NictopScreen, Dialog[None]):
    """`request`: what was to be copied. `save`: asks for a file."""

    def __init__(self, request: CopyRequest, save: Callable[[NictopScreen], None]) -> None:
        super().__init__()
        self._request, self._save = request, save

    @property
    def dialog_title(self) -> str:
        return "No clipboard in this terminal"

    @property
    def key_hints(self) -> str:
        return self.hints("Esc Close", "↑↓ Scroll")

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        lines: list[SpanLine] = []
        for note in self._request.notes:
            lines += self.wrapped(note, cells, "dim", indent=" ")
        room = max(MIN_TEXT_CELLS, cells - len(COMMAND_INDENT) - 1)
        for copied in self._request.lines:
            lines += [((COMMAND_INDENT + part, "accent"),) for part in self._parts(copied, room)]
        return lines

    def _parts(self, line: Step | str, cells: int) -> Iterator[str]:
        if isinstance(line, str):
            yield from wrap(self.glyphs.text(line), cells)
        else:
            yield from command_lines(line, cells, where=self._request.where, shown=self.glyphs.text)

    def show_buttons(self, row: ButtonRow) -> None:
        row.show(
            (Button("save", "Save to file…"), Button("cancel", "Close")),
            stage="shown",
            chosen="cancel",
        )

    def action_save(self) -> None:
        self._save(self)
