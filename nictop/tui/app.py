"""The Textual application: follows every host and hands the newest pictures to whatever screen is shown.

The first frame is painted before the screens, the model and the probe are even imported: somebody on a slow console
sees at once that nictop runs. What it knows of the hosts is in `hosts`, of the rules in `diagnosing`, of runs in
`traffic`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from time import monotonic, time
from typing import TYPE_CHECKING, cast

from textual._styles_cache import StylesCache
from textual.app import App, ComposeResult
from textual.reactive import var
from textual.widgets import Static
from textual.worker import WorkerFailed

from nictop.hosts.specification import LOCAL, Host
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.tui.controllers.changes import Changes
from nictop.tui.controllers.diagnosis import DiagnosisScheduler
from nictop.tui.controllers.hosts import WatchedHosts
from nictop.tui.controllers.recording import LiveRecording
from nictop.tui.controllers.traffic import TrafficController

if TYPE_CHECKING:
    from textual.driver import Driver
    from textual.worker import WorkType

    from nictop.hosts.session import HostSession
    from nictop.model.history import History
    from nictop.model.snapshot import Snapshot
    from nictop.model.time_axis import LocalClock
    from nictop.probe.records import Request
    from nictop.recording.playback import Playback
    from nictop.rules import Diagnosis, Finding, Fix
    from nictop.traffic.plan.request import RunRequest
    from nictop.traffic.results.selection import StoredRun
    from nictop.tui.controllers.hosts import Connect
    from nictop.tui.controllers.replay import Replay
    from nictop.tui.screens.dialogs.question import Questions
    from nictop.wire.source import Source
    from nictop.wire.ssh.authentication import Question

COLOUR_CACHE = vars(StylesCache).get("get_inner_outer")
if isinstance(COLOUR_CACHE, _lru_cache_wrapper):
    # Textual 8 caches this function, which does not use `self`, as a method: the cache keeps the last 1024 widgets that
    # were closed with all that they have drawn, 0.2 MiB for each help screen.
    setattr(StylesCache, "get_inner_outer", classmethod(COLOUR_CACHE))  # type: ignore[arg-type]  # noqa: B010

COUNTDOWN = 1.0
"""Seconds between two pictures while a host is not live: its age and the next attempt are counted in seconds."""


class NictopApp(App[None]):
    """Live screens of some hosts. `connect` makes the source of one, once the first frame is on the terminal; it is
    given the function that asks the user. `wish`: a run that is started at once, between two of the hosts, or
    (`self_test`) on this machine alone."""

    TITLE = "nictop"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (Textual declares it so)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (18, "-medium"), (30, "-tall")]  # noqa: RUF012

    snapshot: var[Snapshot | None] = var(None, init=False, always_update=True)
    """The newest picture of the chosen host. Screens watch it; nothing is pushed into widgets."""

    watched: var[tuple[HostSession, ...]] = var((), init=False, always_update=True)
    """Every host, in the order they were named, whenever there is news of one."""

    chosen: var[str] = var("", init=False)
    """Name of the host whose devices are shown."""

    diagnosis: var[Diagnosis | None] = var(None, init=False)
    """What the rules say about all hosts together."""

    run_news: var[int] = var(0, init=False)
    """Changes whenever there is something new in `traffic`."""

    recording_news: var[int] = var(0, init=False)
    """Changes whenever there is something new in `recording`."""

    replay_news: var[int] = var(0, init=False)
    """Changes whenever time has passed in `replay`."""

    change_news: var[int] = var(0, init=False)
    """Changes whenever there is something new in `changes`."""

    def __init__(
        self,
        connect: Connect,
        hosts: Sequence[Host] = (Host(LOCAL, LOCAL),),
        *,
        interval: float = 1.0,
        glyphs: Glyphs = UNICODE,
        has_clipboard: bool = True,
        allow_changes: bool = False,
        wish: RunRequest | None = None,
        self_test: bool = False,
    ) -> None:
        super().__init__()
        self.interval = interval
        self.glyphs = glyphs
        self.set_class(glyphs.is_ascii, "-ascii")
        self._has_clipboard = has_clipboard
        self._wanted = tuple(hosts)
        self.diagnosing = DiagnosisScheduler(self)
        self.recording = LiveRecording(self)
        self.replay: Replay | None = None
        """None: the hosts are live."""
        self.hosts = WatchedHosts(self, connect, self.ask_user, self.diagnosing.hear)
        self.traffic = TrafficController(self)
        self.changes = Changes(self, allowed=allow_changes)
        self._wish, self._self_test = wish, self_test
        self._questions: Questions | None = None
        self._shown = asyncio.Event()

    # -------------------------------------------------------------------------------------- the terminal, and faults

    def get_driver_class(self) -> type[Driver]:
        """Textual's own for this system; where that reads a terminal, one that no input ends."""
        from textual.drivers.linux_driver import LinuxDriver

        from nictop.tui.driver import TerminalDriver

        found = super().get_driver_class()
        return TerminalDriver if found is LinuxDriver else found

    def _handle_exception(self, error: Exception) -> None:
        """A fault of nictop itself ends it; `failure` has it then. Textual would print all local variables, host data
        among them."""
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._return_code = 1
        self._close_messages_no_wait()

    def panic(self, *renderables: object) -> None:
        """Textual's own threads end the application so, with its exit code 0."""
        self._handle_exception(RuntimeError("a thread of the user interface failed"))

    @property
    def failure(self) -> Exception | None:
        """The fault that has ended the application."""
        error = self._exception
        return error.error if isinstance(error, WorkerFailed) and isinstance(error.error, Exception) else error

    # ------------------------------------------------------------------------------------------- the chosen host

    @property
    def several_hosts(self) -> bool:
        """Whether findings have to say which host they are about."""
        return len(self.hosts.by_name) > 1

    @property
    def followed(self) -> HostSession:
        """The chosen host."""
        return self.hosts.by_name[self.chosen]

    @property
    def source(self) -> Source:
        """That of the chosen host."""
        return self.followed.source

    @property
    def history(self) -> History:
        """That of the chosen host."""
        return self.followed.history

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes on this machine whose cost belongs to nictop."""
        return tuple(pid for one in self.hosts.by_name.values() for pid in one.source.pids)

    @property
    def has_mail(self) -> bool:
        """There is news that the screens have not been told yet."""
        return self.hosts.has_mail

    def now(self) -> float:
        """The clock of everything that is shown: seconds, CLOCK_MONOTONIC of the machine that hears the hosts."""
        return monotonic() if self.replay is None else self.replay.playback.now()

    def here(self) -> LocalClock:
        """That machine's clocks, read together."""
        from nictop.hosts.session import read_local_clock
        from nictop.model.time_axis import LocalClock

        if self.replay is None:
            return read_local_clock(monotonic(), time())
        playback = self.replay.playback
        return LocalClock(playback.now(), playback.wall_now(), playback.recording.boot_id)

    def show_recording(self, playback: Playback, *, start: float, loop: bool = False, banner: str = "") -> None:
        """Show a recording instead of live hosts; to be called before the application runs."""
        from nictop.tui.controllers.replay import Replay

        self.replay = Replay(self, playback, start=start, loop=loop, banner=banner)

    async def ask(self, request: Request) -> None:
        """As `WatchedHosts.ask`."""
        await self.hosts.ask(request)

    # ------------------------------------------------------------------------------------------ start and end

    def compose(self) -> ComposeResult:
        yield Static(_greeting(self._wanted), markup=False)

    def on_mount(self) -> None:
        if self.glyphs.is_ascii:
            self.theme = "ansi-dark"
        self.call_after_refresh(self._open)

    def _open(self) -> None:
        """Start the sources first: the probe starts up while the screen is being imported."""
        if self.replay is not None:
            self.replay.begin()
        else:
            for host in self._wanted:
                self.hosts.follow(host)
        work: WorkType[None] = self._show_live
        self.run_worker(work, name="live", group="screen", exclusive=True)
        self.set_interval(COUNTDOWN, self.hosts.count_down, name="countdown")

    async def _show_live(self) -> None:
        from nictop.tui.screens.live.screen import LiveScreen

        await self.push_screen(LiveScreen())
        if self._wish is not None:
            from nictop.tui.screens.traffic.run import RunScreen

            self.traffic.start(self._wish, self_test=self._self_test)
            await self.push_screen(RunScreen())
        self._shown.set()

    def action_command_palette(self) -> None:
        """Show the command palette."""
        from nictop.tui.palette import Palette

        if self.use_command_palette and not Palette.is_open(cast("App[object]", self)):
            self.push_screen(Palette(id="--command-palette"))

    async def action_quit(self) -> None:
        """Somebody who forgets a run, or a change that is not kept, is asked before it is ended."""
        run, change = self.traffic.running, self.changes.at_stake
        if not run and not change:
            self.exit()
            return
        from nictop.tui.screens.dialogs.leave import LeaveScreen

        if not isinstance(self.screen, LeaveScreen):
            self.push_screen(LeaveScreen(run=run, change=change), self._leave)

    async def _leave(self, sure: bool | None) -> None:
        if sure:
            await self.traffic.stop()
            self.exit()

    async def on_unmount(self) -> None:
        await self.traffic.stop()
        await self.changes.stop()
        await self.hosts.close()
        await self.recording.end(says=False)

    @property
    def outcome(self) -> AppOutcome:
        """What is left when the screen is gone: of the wished experiment, whatever was run after it."""
        code, ended = self.return_code or 0, self.traffic.ended
        if self._wish is None or not ended:
            return AppOutcome(code)
        return AppOutcome(code, ended[0].results, ended[0].trouble, ended[0].notes)

    # -------------------------------------------------------------------------------------------- what is said

    def copy_command(self, finding: Finding, fix: Fix) -> None:
        """Put the commands of `fix` into the clipboard of the terminal (OSC 52), and say what was put there."""
        from nictop.rules.wording import place_words, placeholders

        lines = [str(step) for step in fix.commands]
        notes = [lines[0] if len(lines) == 1 else f"{lines[0]} …"]
        notes.append(f"to be typed {place_words(finding, fix).partition(',')[0]}")
        fill_in = placeholders(lines)
        if fill_in:
            notes.append(f"fill in {', '.join(fill_in)}")
        self.copy_lines(lines, notes)

    def copy_lines(self, lines: Sequence[str], notes: Sequence[str]) -> None:
        """The same with any lines; `notes`: what is said of them."""
        number = "one line" if len(lines) == 1 else f"{len(lines)} lines"
        if self._has_clipboard:
            self.copy_to_clipboard("\n".join(lines))
            self.say("\n".join(notes), f"Copied {number}")
        else:
            self.say("\n".join(notes), "No clipboard on this console: to be typed by hand")

    def say(self, text: str, title: str) -> None:
        """A notice that goes by itself; names in it are no markup."""
        shown = "\n".join(self.glyphs.text(line) for line in text.split("\n"))
        self.notify(shown, title=title, markup=False)

    async def ask_user(self, question: Question) -> str | None:
        """The answer to a question of a connection, by a dialog; None: no."""
        from nictop.tui.screens.dialogs.question import Questions

        await self._shown.wait()
        if self._questions is None:
            self._questions = Questions(self)
        return await self._questions.ask(question)


def _greeting(hosts: Sequence[Host]) -> str:
    """What stands on the first frame."""
    if len(hosts) > 1:
        return f" nictop: {len(hosts)} hosts"
    return " nictop: reading this host" if all(host.is_local for host in hosts) else " nictop: connecting"


@dataclass(frozen=True)
class AppOutcome:
    """What the application leaves behind when its screen is gone."""

    code: int
    """Exit code."""
    results: tuple[StoredRun, ...] = ()
    """Of the experiment that was wished, as far as it came."""
    trouble: str = ""
    """Why it ended before its end, or did not start; "": it did."""
    notes: tuple[str, ...] = ()
    """What is worth knowing of it."""
