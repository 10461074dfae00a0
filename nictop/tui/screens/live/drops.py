"""Dropped packets of the chosen host: monitored for some seconds, then their reasons as `nictop drops` prints them.

╭ Dropped packets of vm1 ────────────────────────────────────────╮
│ vm1: 1234 packets dropped in 10.0 s (123/s)                    │
│                                                                │
│ Lost: 1200 packets                                             │
│                                                                │
│ IP_RPFILTER  rx ens224  1200 packets, 120/s                    │
│   meaning  rp_filter: the route back to the source …           │
│                                                                │
│ [ Again ]  [ 60 s ]  [ Copy ]  [▸Close ]                       │
╰ Tab Next · Enter Confirm · Esc Close · ↑↓ Scroll ──────────────╯

The monitoring ends with the dialog.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from nictop.errors import NictopError
from nictop.tui.keys import COPY_KEYS
from nictop.tui.screens.base import NictopScreen
from nictop.tui.screens.dialogs.dialog import Dialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.line_view import SpanLine

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.traffic.drops.result import DropsResult

SHORT_SECONDS, LONG_SECONDS = 10.0, 60.0


class DropsScreen(NictopScreen, Dialog[None]):
    BINDINGS: ClassVar[list[BindingType]] = COPY_KEYS
    is_tall = True

    def __init__(self, session: HostSession) -> None:
        super().__init__()
        self._session = session
        self._sentence = "starting"
        self._result: DropsResult | None = None
        self._in_progress = True

    @property
    def dialog_title(self) -> str:
        return f"Dropped packets of {self._session.name}"

    @property
    def key_hints(self) -> str:
        return "Tab Next · Enter Confirm · Esc Close · ↑↓ Scroll"

    def on_mount(self) -> None:
        self._start(SHORT_SECONDS)

    def _start(self, seconds: float) -> None:
        self._in_progress, self._sentence, self._result = True, "starting", None
        self.run_worker(self._monitor(seconds), group="drops", exclusive=True, exit_on_error=False)

    async def _monitor(self, seconds: float) -> None:
        from nictop.traffic.drops.session import DropsSession

        try:
            self._result = await DropsSession(self._session, seconds).run(self._show_progress)
        except NictopError as error:
            self._sentence = f"{error.message}; {error.hint}" if error.hint else error.message
        finally:
            self._in_progress = False
            if self.is_open:
                self.draw()

    def _show_progress(self, sentence: str) -> None:
        self._sentence = sentence
        if self.is_open:
            self.draw()

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        if self._result is None:
            return list(self.wrapped(self._sentence, cells, "dim" if self._in_progress else "bad"))
        from nictop.report.drops import drops_text

        text = self.glyphs.encode(drops_text([self._result], cells, self.glyphs))
        return [((line, "title" if line and not line.startswith(" ") else ""),) for line in text.splitlines()]

    def show_buttons(self, row: ButtonRow) -> None:
        if self._in_progress:
            row.show((Button("cancel", "Cancel"),), stage="running", chosen="cancel")
            return
        copy = (Button("copy", "Copy"),) if self._result is not None else ()
        again = (Button("again", "Again"), Button("again_longer", f"{LONG_SECONDS:g} s"))
        row.show((*again, *copy, Button("cancel", "Close")), stage="shown", chosen="cancel")

    def action_again(self) -> None:
        self._start(SHORT_SECONDS)
        self.draw()

    def action_again_longer(self) -> None:
        self._start(LONG_SECONDS)
        self.draw()

    def action_copy(self) -> None:
        if self._result is not None:
            from nictop.report.drops import drops_text

            self.nictop.copy_lines(drops_text([self._result], 100).splitlines(), ["the result as text"])
