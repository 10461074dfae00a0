"""The path test between the two hosts of the chosen path: its progress, then its result as `nictop
path` prints it.

╭ Path test vm1 ↔ vm2 ───────────────────────────────────────────╮
│ vm1 ens224 192.0.2.1 ↔ vm2 ens224 192.0.2.2                    │
│                                                                │
│ ✓ No problems found                                            │
│                                                                │
│ vm1 → vm2                                                      │
│   route     on-link, by ens224, MTU 1500                       │
│                                                                │
│ [ Again ]  [ Copy ]  [▸Close ]                                 │
╰ Tab Next · Enter Close · Esc Close · ↑↓ Scroll ────────────────╯

The test ends with the dialog. Its result is saved, and part of a report that is written later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nictop.errors import NictopError
from nictop.report.path import path_text
from nictop.tui.screens.dialogs.report import ReportDialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.text.glyphs import Glyphs
    from nictop.traffic.path.result import PathReport
    from nictop.traffic.plan.plan import EndpointPair


class PathReportScreen(ReportDialog):
    """A result: that of a path test before a run."""

    def __init__(self, client: str, server: str, report: PathReport | None) -> None:
        super().__init__()
        self._hosts = (client, server)
        self._report = report

    @property
    def dialog_title(self) -> str:
        return f"Path test {' ↔ '.join(self._hosts)}"

    @property
    def value_hosts(self) -> Sequence[str]:
        return self._hosts

    @property
    def has_report(self) -> bool:
        return self._report is not None

    def report_text(self, cells: int, glyphs: Glyphs | None = None) -> str:
        assert self._report is not None
        if glyphs is None:
            return path_text(self._report, cells)
        return path_text(self._report, cells, glyphs, findings_first=True)

    def show_buttons(self, row: ButtonRow) -> None:
        row.show(
            (Button("copy", "Copy"), Button("cancel", "Close")), stage="shown", chosen="cancel"
        )


class PathTestScreen(PathReportScreen):
    """Tests the path of a pair."""

    def __init__(self, pair: EndpointPair) -> None:
        super().__init__(pair.client.host, pair.server.host, None)
        self._pair = pair

    def on_mount(self) -> None:
        self._start()

    def _start(self) -> None:
        self._in_progress, self._sentence, self._report = True, "starting", None
        self.run_worker(self.measure(self._test), group="path", exclusive=True, exit_on_error=False)

    async def _test(self) -> None:
        from nictop.traffic.path.result import PathRequest
        from nictop.traffic.path.session import PathSession
        from nictop.traffic.path.store import save_path, stored_path

        client, server = self._pair.client, self._pair.server
        request = PathRequest(
            client.host,
            server.host,
            client_address=client.address.partition("%")[0],
            server_address=server.address.partition("%")[0],
        )
        report = await PathSession(request, self._known_hosts()).run(self.show_progress)
        self._report, path = report, stored_path(report)
        self.nictop.traffic.path_tests.append(path)
        try:
            await asyncio.to_thread(save_path, path)
        except NictopError as error:
            self.nictop.notify(error.message, "Path test not saved")

    def _known_hosts(self) -> list[HostSession]:
        """Both ends, and all others that were read."""
        ends = (self._pair.client.host, self._pair.server.host)
        known = []
        for session in self.nictop.hosts.sessions:
            if session.name in ends or session.snapshot.inventory is not None:
                known.append(session)
        return known

    def show_buttons(self, row: ButtonRow) -> None:
        if self._in_progress:
            row.show((Button("cancel", "Cancel"),), stage="running", chosen="cancel")
            return
        buttons = [Button("again", "Again"), Button("cancel", "Close")]
        if self._report is not None:
            buttons.insert(1, Button("copy", "Copy"))
        row.show(buttons, stage="shown", chosen="cancel")

    def action_again(self) -> None:
        self._start()
        self.draw()
