"""The Textual application: follows one source and hands the newest snapshot to whatever screen is shown.

The first frame is painted before the screens, the model and the probe are even imported: somebody on a slow console
sees at once that nictop runs.
"""

from __future__ import annotations

import locale
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual.app import App, ComposeResult
from textual.reactive import var
from textual.widgets import Static

if TYPE_CHECKING:
    from nictop.model.history import History
    from nictop.model.snapshot import Snapshot
    from nictop.probe.records import Request
    from nictop.wire.source import Source

HISTORY_LENGTH = 600
"""Samples per series: ten minutes at 1 Hz, more than the widest chart has columns."""

PLAIN_TERMINALS = ("linux", "vt100", "vt102", "vt220", "ansi", "dumb", "cons25", "xterm-mono")
"""Consoles whose font has neither block eighths nor rounded corners."""


def wants_ascii(environment: Mapping[str, str]) -> bool:
    """Whether this terminal can only be trusted with ASCII: a plain console, or a locale that is not UTF-8."""
    if environment.get("TERM", "dumb") in PLAIN_TERMINALS:
        return True
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if environment.get(name):
            return "utf" not in environment[name].lower()
    return "utf" not in locale.getpreferredencoding(False).lower()


class NictopApp(App[None]):
    """Live screens of one host. `connect` makes its source, once the first frame is on the terminal."""

    TITLE = "nictop"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012  (Textual declares it so)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (18, "-medium"), (30, "-tall")]  # noqa: RUF012

    snapshot: var[Snapshot | None] = var(None, init=False, always_update=True)
    """The newest picture of the host. Screens watch it; nothing is pushed into widgets."""

    source: Source
    history: History

    def __init__(self, connect: Callable[[], Source], *, interval: float = 1.0, ascii_only: bool = False) -> None:
        super().__init__()
        self.interval = interval
        self.ascii_only = ascii_only
        self._connect = connect
        self._newest: Snapshot | None = None

    def compose(self) -> ComposeResult:
        yield Static(" nictop: reading this host")

    def on_mount(self) -> None:
        if self.ascii_only:
            self.theme = "ansi-dark"
        self.call_after_refresh(self._open)

    def _open(self) -> None:
        self.source = self._connect()
        self.run_worker(self._follow(), name="follow", group="source", exclusive=True)

    async def _follow(self) -> None:
        """Every snapshot reaches the history; the screen gets the newest one when it has time for it."""
        from nictop.model.history import History
        from nictop.screens.live import LiveScreen
        from nictop.watch import snapshots

        self.history = History(HISTORY_LENGTH)
        await self.push_screen(LiveScreen(ascii_only=self.ascii_only))
        async for snapshot in snapshots(self.source):
            self.history.record(snapshot)
            waiting = self._newest is not None
            self._newest = snapshot
            if not waiting:
                self.call_later(self._deliver)

    def _deliver(self) -> None:
        self.snapshot, self._newest = self._newest, None

    async def ask(self, request: Request) -> None:
        """Send a request to the probe; what is still wanted after a restart, the source asks for again by itself."""
        if request.interval is not None:
            self.interval = request.interval
        await self.source.request(request)

    async def on_unmount(self) -> None:
        if hasattr(self, "source"):
            await self.source.close()


def run(interval: float, ascii_only: bool) -> int:
    """Open the live screen of this host; return the exit code."""

    def connect() -> Source:
        from nictop.wire.local import LocalSource

        return LocalSource(interval=interval, eager=True)

    app = NictopApp(connect, interval=interval, ascii_only=ascii_only or wants_ascii(os.environ))
    app.run()
    return app.return_code or 0
