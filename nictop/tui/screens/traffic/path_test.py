"""The path test between the two hosts of the chosen path: its progress, then its result as `nictop path` prints it.

╭ Path test vm1 ↔ vm2 ───────────────────────────────────────────╮
│ vm1 ens224 192.0.2.1 ↔ vm2 ens224 192.0.2.2                    │
│                                                                │
│ ✓ No problems found                                            │
│                                                                │
│ vm1 → vm2                                                      │
│   route     on-link, by ens224, MTU 1500                       │
│                                                                │
│ [ Again ]  [ Copy ]  [▸Close ]                                 │
╰ Tab Next · Enter Confirm · Esc Close · ↑↓ Scroll ──────────────╯

The test ends with the dialog.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from nictop.errors import NictopError
from nictop.report.path import path_text
from nictop.tui.keys import COPY_KEYS
from nictop.tui.screens.base import NictopScreen
from nictop.tui.screens.dialogs.dialog import Dialog
from nictop.tui.widgets.base.button_row import Button, ButtonRow
from nictop.tui.widgets.base.line_view import SpanLine

if TYPE_CHECKING:
    from nictop.traffic.path.result import PathReport
    from nictop.traffic.plan.plan import EndpointPair


class PathReportScreen(NictopScreen, Dialog[None]):
    """A result: that of a path test before a run."""

    BINDINGS: ClassVar[list[BindingType]] = COPY_KEYS
    is_tall = True

    def __init__(self, client: str, server: str, report: PathReport | None) -> None:
        super().__init__()
        self._hosts = (client, server)
        self._report = report

    @property
    def dialog_title(self) -> str:
        return f"Path test {' ↔ '.join(self._hosts)}"

    @property
    def key_hints(self) -> str:
        return "Tab Next · Enter Confirm · Esc Close · ↑↓ Scroll"

    def text_lines(self, cells: int) -> Sequence[SpanLine]:
        if self._report is None:
            return ()
        text = self.glyphs.encode(path_text(self._report, cells, self.glyphs, findings_first=True))
        return [((line, "title" if line and not line.startswith(" ") else ""),) for line in text.splitlines()]

    def show_buttons(self, row: ButtonRow) -> None:
        row.show((Button("copy", "Copy"), Button("cancel", "Close")), stage="shown", chosen="cancel")

    def action_copy(self) -> None:
        if self._report is not None:
            self.nictop.copy_lines(path_text(self._report, 100).splitlines(), ["the result as text"])


class PathTestScreen(PathReportScreen):
    """Tests the path of a pair."""

    def __init__(self, pair: EndpointPair) -> None:
        super().__init__(pair.client.host, pair.server.host, None)
        self._pair = pair
        self._sentence = "starting"
        self._in_progress = True

    def on_mount(self) -> None:
        self._start()

    def _start(self) -> None:
        self._in_progress, self._sentence, self._report = True, "starting", None
        self.run_worker(self._test(), group="path", exclusive=True, exit_on_error=False)

    async def _test(self) -> None:
        from nictop.traffic.path.result import PathRequest
        from nictop.traffic.path.session import PathSession

        client, server = self._pair.client, self._pair.server
        request = PathRequest(
            client.host,
            server.host,
            client_address=client.address.partition("%")[0],
            server_address=server.address.partition("%")[0],
        )
        sessions = [one for one in self.nictop.hosts.sessions if one.name in (client.host, server.host)]
        try:
            self._report = await PathSession(request, sessions).run(self._show_progress)
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
        if self._report is None:
            return list(self.wrapped(self._sentence, cells, "dim" if self._in_progress else "bad"))
        return super().text_lines(cells)

    def show_buttons(self, row: ButtonRow) -> None:
        if self._in_progress:
            row.show((Button("cancel", "Cancel"),), stage="running", chosen="cancel")
            return
        copy = (Button("copy", "Copy"),) if self._report is not None else ()
        row.show((Button("again", "Again"), *copy, Button("cancel", "Close")), stage="shown", chosen="cancel")

    def action_again(self) -> None:
        self._start()
        self.draw()
