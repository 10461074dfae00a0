"""Dropped packets of the chosen host: monitored for some seconds, then their reasons as `nictop
drops` prints them.

╭ Dropped packets of vm1 ────────────────────────────────────────╮
│ vm1: 1234 packets dropped in 10.0 s (123/s)                    │
│                                                                │
│ Lost: 1200 packets                                             │
│                                                                │
│ IP_RPFILTER  rx ens224  1200 packets, 120/s                    │
│   meaning  rp_filter: the route back to the source …           │
│                                                                │
│ [ Again ]  [ 60 s ]  [ Copy ]  [▸Close ]                       │
╰ Tab Next · Enter Close · Esc Close · ↑↓ Scroll ────────────────╯

The monitoring ends with the dialog.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from nictop.tui.screens.dialogs.report import ReportDialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.text.glyphs import Glyphs
    from nictop.traffic.drops.result import DropsResult

SHORT_SECONDS, LONG_SECONDS = 10.0, 60.0


class DropsScreen(ReportDialog):
    def __init__(self, session: HostSession) -> None:
        super().__init__()
        self._session = session
        self._result: DropsResult | None = None

    @property
    def dialog_title(self) -> str:
        return f"Dropped packets of {self._session.name}"

    @property
    def value_hosts(self) -> Sequence[str]:
        return (self._session.name,)

    @property
    def has_report(self) -> bool:
        return self._result is not None

    def report_text(self, cells: int, glyphs: Glyphs | None = None) -> str:
        from nictop.report.drops import drops_text

        assert self._result is not None
        if glyphs is None:
            return drops_text([self._result], cells)
        return drops_text([self._result], cells, glyphs)

    def on_mount(self) -> None:
        self._start(SHORT_SECONDS)

    def _start(self, seconds: float) -> None:
        self._in_progress, self._sentence, self._result = True, "starting", None
        self.run_worker(
            self.measure(partial(self._monitor, seconds)),
            group="drops",
            exclusive=True,
            exit_on_error=False,
        )

    async def _monitor(self, seconds: float) -> None:
        from nictop.traffic.drops.session import DropsSession

        session = DropsSession(self._session, seconds)
        self._result = await session.run(self.show_progress, waiting=self.show_progress)

    def show_buttons(self, row: ButtonRow) -> None:
        if self._in_progress:
            row.show((Button("cancel", "Cancel"),), stage="running", chosen="cancel")
            return
        buttons = [Button("again", "Again"), Button("again_longer", f"{LONG_SECONDS:g} s")]
        if self.has_report:
            buttons.append(Button("copy", "Copy"))
        buttons.append(Button("cancel", "Close"))
        row.show(buttons, stage="shown", chosen="cancel")

    def action_again(self) -> None:
        self._start(SHORT_SECONDS)
        self.draw()

    def action_again_longer(self) -> None:
        self._start(LONG_SECONDS)
        self.draw()
