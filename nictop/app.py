"""The Textual application: follows one source and hands the newest snapshot to whatever screen is shown.

The first frame is painted before the screens, the model and the probe are even imported: somebody on a slow console
sees at once that nictop runs.
"""

from __future__ import annotations

import locale
import os
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from textual.app import App, ComposeResult
from textual.reactive import var
from textual.widgets import Static

if TYPE_CHECKING:
    from textual.timer import Timer

    from nictop.model.history import History
    from nictop.model.snapshot import Snapshot
    from nictop.model.window import RatesWindow
    from nictop.probe.records import Request
    from nictop.rules import Diagnosis, Finding, Fix
    from nictop.wire.source import Source

HISTORY_LENGTH = 600
"""Samples per series: ten minutes at 1 Hz, more than the widest chart has columns."""

DIAGNOSE_EVERY = 2.0
"""Seconds from one diagnosis to the next, unless there is a new inventory."""

DIAGNOSE_PAUSE = 100.0
"""At least so many times as long as a diagnosis takes: however slow the machine, it costs one per cent of a CPU."""

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
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (Textual declares it so)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (18, "-medium"), (30, "-tall")]  # noqa: RUF012

    snapshot: var[Snapshot | None] = var(None, init=False, always_update=True)
    """The newest picture of the host. Screens watch it; nothing is pushed into widgets."""

    diagnosis: var[Diagnosis | None] = var(None, init=False)
    """What the rules say about it: anew with every inventory, and every `DIAGNOSE_EVERY` seconds."""

    source: Source
    history: History
    window: RatesWindow
    several_hosts = False
    """Whether findings have to say which host they are about."""

    def __init__(
        self,
        connect: Callable[[], Source],
        *,
        interval: float = 1.0,
        ascii_only: bool = False,
        has_clipboard: bool = True,
    ) -> None:
        super().__init__()
        self.interval = interval
        self.ascii_only = ascii_only
        self._has_clipboard = has_clipboard
        self._connect = connect
        self._newest: Snapshot | None = None
        self._diagnosed: Snapshot | None = None
        self._next_diagnosis: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(" nictop: reading this host")

    def on_mount(self) -> None:
        if self.ascii_only:
            self.theme = "ansi-dark"
        self.call_after_refresh(self._open)

    def _open(self) -> None:
        """Start the source first: its probe starts up while the screen is being imported."""
        self.source = self._connect()
        self.run_worker(self._follow(), name="follow", group="source", exclusive=True)
        self.run_worker(self._show_live(), name="live", group="screen", exclusive=True)

    async def _show_live(self) -> None:
        from nictop.screens.live import LiveScreen

        await self.push_screen(LiveScreen(ascii_only=self.ascii_only))

    async def _follow(self) -> None:
        """Every snapshot reaches the history; the screen gets the newest one when it has time for it."""
        from nictop.model.history import History
        from nictop.model.window import RatesWindow
        from nictop.watch import snapshots

        self.history, self.window = History(HISTORY_LENGTH), RatesWindow()
        async for snapshot in snapshots(self.source):
            self.history.record(snapshot)
            self.window.take(snapshot)
            waiting = self._newest is not None
            self._newest = snapshot
            if not waiting:
                self.call_later(self._deliver)

    def _deliver(self) -> None:
        self.snapshot, self._newest = self._newest, None
        known = self._diagnosed.inventory if self._diagnosed is not None else None
        if self.snapshot is not None and self.snapshot.inventory is not known:
            self.call_after_refresh(self._diagnose)

    def _diagnose(self) -> None:
        """Ask all rules about what is known now, after it has been drawn; again after a while."""
        from nictop.rules import Watched, diagnose

        if self._next_diagnosis is not None:
            self._next_diagnosis.stop()
        start = monotonic()
        snapshot = self.snapshot
        if snapshot is not None and snapshot.inventory is not None and snapshot is not self._diagnosed:
            self._diagnosed = snapshot
            self.diagnosis = diagnose([Watched(snapshot, self.window.parts)])
        pause = max(DIAGNOSE_EVERY, DIAGNOSE_PAUSE * (monotonic() - start))
        self._next_diagnosis = self.set_timer(pause, self._diagnose, name="diagnose")

    def copy_command(self, finding: Finding, fix: Fix) -> None:
        """Put the commands of `fix` into the clipboard of the terminal (OSC 52), and say what was put there."""
        from nictop.rules.words import place_words, placeholders

        notes = [fix.commands[0] if len(fix.commands) == 1 else f"{fix.commands[0]} …"]
        notes.append(f"to be typed {place_words(finding, fix).partition(',')[0]}")
        fill_in = placeholders(fix.commands)
        if fill_in:
            notes.append(f"fill in {', '.join(fill_in)}")
        number = "one line" if len(fix.commands) == 1 else f"{len(fix.commands)} lines"
        if self._has_clipboard:
            self.copy_to_clipboard("\n".join(fix.commands))
            self._say("\n".join(notes), f"Copied {number}")
        else:
            self._say("\n".join(notes), "No clipboard on this console: to be typed by hand")

    def _say(self, text: str, title: str) -> None:
        """A notice that goes by itself; names in it are no markup."""
        from nictop.model.wording import ascii_only, clean

        lines = [clean(line) for line in text.split("\n")]
        shown = "\n".join(ascii_only(line) if self.ascii_only else line for line in lines)
        self.notify(shown, title=title, markup=False)

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

    app = NictopApp(
        connect,
        interval=interval,
        ascii_only=ascii_only or wants_ascii(os.environ),
        has_clipboard=os.environ.get("TERM") not in PLAIN_TERMINALS,
    )
    app.run()
    return app.return_code or 0
