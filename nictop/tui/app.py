"""The Textual application: opens screens, and gives the controllers its event loop, its notices and
its dialogs.

The first frame is drawn before the screens, the model and the probe are even imported: on a slow
console the user sees at once that nictop runs.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from textual.app import App, ComposeResult
from textual.events import Event, InputEvent, Key, MouseMove, Paste
from textual.screen import ModalScreen, Screen
from textual.widgets import Static
from textual.worker import WorkerFailed

from nictop.errors import NictopError
from nictop.hosts.specification import LOCAL, Host, configuration_path
from nictop.hosts.theme_setting import keep_theme
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import replace
from nictop.probe.light_tuples import NamedTuple
from nictop.tui.ascii_only import AsciiOnly
from nictop.tui.controllers.nictop import Nictop
from nictop.tui.controllers.signal import Signal
from nictop.tui.controllers.traffic import FinishedExperiment, TrafficController
from nictop.tui.garbage import CHECK_SECONDS, GarbageCollector
from nictop.tui.keys import APP_KEYS, NOT_HERE_TEXTS, PAIRS, key_labels, pair_label, shown_key
from nictop.tui.no_colour import without_black
from nictop.tui.terminal import has_job_control
from nictop.tui.textual_private import PrivateApp
from nictop.tui.themes import ANSI_TEXTS, TRUE_COLOURS, first_theme, readable_theme, theme_names
from nictop.tui.type_ahead import TypeAhead
from nictop.tui.widgets.base.whole_frames import WholeFrames
from nictop.tui.widgets.status.own_cost import OwnCost

if TYPE_CHECKING:
    from textual.binding import Binding
    from textual.command import Provider
    from textual.driver import Driver
    from textual.worker import WorkType

    from nictop.changes.actions import Actions
    from nictop.changes.job import ChangeJob
    from nictop.probe.records import Link
    from nictop.recording.recent import RecentRecording
    from nictop.rules import Finding, Fix
    from nictop.traffic.plan.request import RunRequest
    from nictop.tui.clipboard import Clipboard, CopyRequest, Placed
    from nictop.tui.controllers.look_back import Past
    from nictop.tui.controllers.marks import Marked
    from nictop.tui.controllers.nictop import Connect
    from nictop.tui.screens.dialogs.menu import MenuEntry
    from nictop.tui.screens.dialogs.question import QuestionScreen
    from nictop.tui.screens.frame import MeasuredSubject
    from nictop.tui.screens.live.screen import LiveScreen
    from nictop.wire.ssh.authentication import Question

DEFAULT_TERMINAL: Mapping[str, str] = MappingProxyType({"TERM": "xterm-256color"})
"""Variables of a terminal with a clipboard, and without a home directory."""
STYLES = Path(__file__).with_name("nictop.tcss")
MAX_NOTICES = 3
"""Shown at a time."""
MAX_EARLY_KEYS = 100
MAX_GREETED_HOSTS = 10
"""Names of hosts in the first frame."""
MODES_OF_VIEWS = ("live", "hosts", "traffic", "results")
"""Modes of Textual, of which each has a stack of screens; those of the past have other names."""


class WantedPast(NamedTuple):
    """Which moment is wanted: seconds, CLOCK_MONOTONIC, and so many readings and events from
    there."""

    moment: float
    steps: int
    events: int
    asks: bool
    """For the time."""

    def after(self, before: WantedPast | None, now: float) -> WantedPast:
        """Both together: a key was pressed again before its first effect."""
        if before is None:
            return self
        moment = before.moment - (now - self.moment)
        steps, events = before.steps + self.steps, before.events + self.events
        return WantedPast(moment, steps, events, before.asks or self.asks)


def _commands() -> type[Provider]:
    from nictop.tui.palette import NictopCommands

    return NictopCommands


class NictopApp(PrivateApp):
    """Screens of some hosts. `connect` makes the source of one, once the first frame is drawn; it
    is given the function that asks the user. `environment`: of the terminal, which decides where
    copied text goes. `request`: a run that is started at once, between two of the hosts, or
    (`self_test`) on this machine alone. `theme`: that of the configuration, if it has one;
    `colours`: of the terminal. `keeps_past`: one can look back at the last minutes of the
    hosts."""

    TITLE = "nictop"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  (Textual declares it so)
    BINDINGS = APP_KEYS
    COMMANDS = {_commands}  # noqa: RUF012  (Textual declares it so)
    DEFAULT_MODE = "live"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (18, "-medium"), (30, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        connect: Connect,
        hosts: Sequence[Host] = (Host(LOCAL, LOCAL),),
        *,
        interval: float = 1.0,
        glyphs: Glyphs = UNICODE,
        environment: Mapping[str, str] = DEFAULT_TERMINAL,
        allow_changes: bool = False,
        request: RunRequest | None = None,
        self_test: bool = False,
        theme: str = "",
        colours: int = TRUE_COLOURS,
        keeps_past: bool = False,
    ) -> None:
        super().__init__()
        self.change_filters(
            lambda filters: without_black(filters, lambda: self.theme in ANSI_TEXTS)
        )
        self.glyphs = glyphs
        if glyphs.is_ascii:
            self.change_filters(lambda filters: [*filters, AsciiOnly()])
        self._colours = colours
        self.themes = theme_names(ansi_only=colours < 256 or glyphs.is_ascii)
        self._set_first_theme(theme)
        self.set_class(glyphs.is_ascii, "-ascii")
        self.nictop = Nictop(
            connect,
            self.ask_user,
            self,
            self.show_notice,
            self._copy,
            interval=interval,
            allow_changes=allow_changes,
            keeps_past=keeps_past,
        )
        self._past: Past | None = None
        """What the screens show while the user looks back."""
        self._wanted_past: WantedPast | None = None
        """While it is being opened."""
        self._past_lock = asyncio.Lock()
        """The past is opened or closed."""
        self._environment = environment
        self.own_cost = OwnCost(self._past_bytes)
        self.pressed = Signal()
        """A key or a mouse button is, which nothing has reacted to yet."""
        self.garbage = GarbageCollector()
        self.nictop.changes.ended.subscribe(self._show_end_of_change)
        self.nictop.traffic.changed.subscribe(self._show_end_of_test)
        self._tests_ended = 0
        self._hosts, self._request, self._self_test = tuple(hosts), request, self_test
        self._question_lock = asyncio.Lock()
        self._shown = asyncio.Event()
        """The live screen is."""
        self._type_ahead = TypeAhead(self, self._handle_key)
        self._early_keys: deque[Key] = deque(maxlen=MAX_EARLY_KEYS)
        """Pressed before the live screen is shown."""
        self._is_leaving = False
        """A test is being stopped, and nictop ends then."""

    @property
    def shown(self) -> Nictop:
        """What the screens show."""
        return self.nictop if self._past is None else self._past.nictop

    def _past_bytes(self) -> int:
        return 0 if self.nictop.recent is None else self.nictop.recent.size

    # --------------------------------------------------------------------- the terminal, and faults

    async def on_event(self, event: Event) -> None:
        from nictop.wire.budget import input_received

        is_input = isinstance(event, InputEvent) and not isinstance(event, MouseMove)
        if is_input and not event.is_forwarded:
            input_received()
            self.garbage.input_received()
            self.pressed.publish()
        if isinstance(event, (Key, Paste)) and not event.is_forwarded:
            if isinstance(event, Key) and self._is_interrupt(event):
                self.action_interrupt()  # not behind keys that wait for something
                return
            if isinstance(event, Key) and not self._shown.is_set():
                self._early_keys.append(event)
            await self._type_ahead.take(event)
            return
        await super().on_event(event)

    def _is_interrupt(self, event: Key) -> bool:
        if event.is_printable or not self.screen_stack:
            return False
        active = self.screen.active_bindings.get(event.key)
        return active is not None and active.binding.action == "app.interrupt"

    async def _handle_key(self, event: Key | Paste) -> None:
        self.typed = event.character if isinstance(event, Key) else None
        await super().on_event(event)

    def get_driver_class(self) -> type[Driver]:
        """That of Textual for this system; where it reads a terminal, one that no input ends."""
        from textual.drivers.linux_driver import LinuxDriver

        from nictop.tui.driver import TerminalDriver

        driver = super().get_driver_class()
        if driver is LinuxDriver:
            return TerminalDriver
        return driver

    def panic(self, *renderables: object) -> None:
        """Textual's own threads end the application so, with its exit code 0."""
        self.handle_exception(RuntimeError("a thread of the user interface failed"))

    @property
    def failure(self) -> Exception | None:
        """The fault that has ended the application."""
        error = self.exception
        if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
            return error.error
        return error

    # -------------------------------------------------------------------------------- start and end

    def compose(self) -> ComposeResult:
        yield Static(self.glyphs.encode(_greeting(self._hosts)), markup=False)

    def on_mount(self) -> None:
        self.set_interval(CHECK_SECONDS, self.garbage.collect_if_idle, name="garbage")
        self.call_after_refresh(self._open)

    def _open(self) -> None:
        """Start the sources first: the probe starts up while the screen is being imported."""
        self.nictop.start(self._hosts)
        work: WorkType[None] = self._show_live
        self.run_worker(work, name="live", group="screen", exclusive=True)

    async def _show_live(self) -> None:
        from nictop.tui.screens.live.screen import LiveScreen

        # not before: the styles would be applied once more before the first frame; as those of a
        # screen all other styles would be parsed again, too
        self.stylesheet.read(STYLES)
        self._add_modes(Screen[None])
        await self.push_screen(LiveScreen())
        if self._request is not None:
            self.nictop.traffic.start(self._request, self_test=self._self_test)
            await self.action_view("traffic")
        self._shown.set()
        await self._show_early_view()

    async def _show_early_view(self) -> None:
        """The last one whose key was pressed while there was no screen for it yet."""
        bindings = self.screen.active_bindings
        for key in reversed(self._early_keys):
            active = bindings.get(key.key)
            if active is not None and active.binding.action.startswith("app.view("):
                await self._type_ahead.take(key)
                break
        self._early_keys.clear()

    def _add_modes(self, live: Callable[[], Screen[Any]]) -> None:
        """One for each view that has screens of its own, of what is shown now."""
        views: dict[str, Callable[[], Screen[Any]]] = {
            "live": live,
            "hosts": _hosts_screen,
            "traffic": self._traffic_screen,
            "results": _results_screen,
        }
        for name in MODES_OF_VIEWS:
            self.add_mode(self._mode(name), views[name])

    def _mode(self, name: str) -> str:
        """The past has screens of its own, which are closed with it."""
        return name if self._past is None else f"past {name}"

    # ------------------------------------------------------------------------------------- the past

    def look_back(
        self, moment: float, steps: int = 0, *, events: int = 0, asks: bool = False
    ) -> None:
        wanted, now = WantedPast(moment, steps, events, asks), monotonic()
        if self._past is not None:  # pressed on the timeline of now, while that of before opened
            self._move_in_past(wanted, now)
            return
        is_opening = self._wanted_past is not None
        self._wanted_past = wanted.after(self._wanted_past, now)
        if not is_opening:
            work: WorkType[None] = self._look_back
            self.run_worker(work, name="look back", group="past")

    def _move_in_past(self, wanted: WantedPast, now: float) -> None:
        replay = self.shown.replay
        if replay is None:
            return
        if wanted.moment < now:
            replay.skip(wanted.moment - now)
        if wanted.steps:
            replay.step(wanted.steps)
        self._go_on_in_past(wanted)

    def _go_on_in_past(self, wanted: WantedPast) -> None:
        """What is done on the screen of the past."""
        from nictop.tui.screens.dialogs.go_to_time import ask_time
        from nictop.tui.screens.frame import FramedScreen

        replay = self.shown.replay
        if replay is not None and wanted.events:
            replay.search(wanted.events)
        if wanted.asks and isinstance(self.screen, FramedScreen):
            ask_time(self.screen)

    def held_keys(self) -> AbstractContextManager[None]:
        return self._type_ahead.held()

    async def _look_back(self) -> None:
        with self.held_keys():
            await self._open_past()

    async def _open_past(self) -> None:
        """The same view of the same host and interface, when the past before is closed."""
        from nictop.tui.screens.frame import FramedScreen
        from nictop.tui.widgets.status.replay_line import ReplayLine

        async with self._past_lock:
            try:
                recording = await self._recent_recording()
            finally:
                wanted, self._wanted_past = self._wanted_past, None
            if recording is None or wanted is None:
                return
            tab = self.screen.tab if isinstance(self.screen, FramedScreen) else "devices"
            self._past = past = self._past_of(recording, wanted)
            self._add_modes(_live_screen)
            replay = past.nictop.replay
            if tab == "traffic" and (replay is None or not replay.runs):
                tab = "devices"
            await self.action_view(tab)
        if isinstance(self.screen, FramedScreen):
            has_focus = asyncio.Event()
            self.screen.query_one(ReplayLine).focus()  # later than what its screen focuses first
            self.call_later(has_focus.set)
            await has_focus.wait()
        self._go_on_in_past(wanted)

    async def _recent_recording(self) -> RecentRecording | None:
        """None: there is none, or it is shown already."""
        if self._past is not None or self.nictop.recent is None:
            return None
        try:
            return await self.nictop.recent.open()
        except NictopError as error:
            self.show_notice(error.with_hint, "The past")
            return None

    def _past_of(self, recording: RecentRecording, wanted: WantedPast) -> Past:
        from nictop.tui.controllers.look_back import Past

        return Past(
            recording,
            self,
            self.show_notice,
            self._copy,
            moment=wanted.moment,
            steps=wanted.steps,
            chosen=self.nictop.hosts.chosen,
            nic=self._live_screens("live")[-1].chosen_nic,
            leave=self.leave_past,
        )

    def leave_past(self) -> None:
        work: WorkType[None] = self._leave_past
        self.run_worker(work, name="leave past", group="past")

    async def _leave_past(self) -> None:
        with self._type_ahead.held():
            await self._close_past()

    async def _close_past(self) -> None:
        """To the same view of the present."""
        from nictop.tui.screens.frame import FramedScreen

        async with self._past_lock:
            past = self._past
            if past is None:
                return
            modes = [self._mode(name) for name in MODES_OF_VIEWS]
            tab = self.screen.tab if isinstance(self.screen, FramedScreen) else "devices"
            self._past = None
            await self.action_view(tab)
            for mode in modes:
                await self.remove_mode(mode)
            await past.close()

    # --------------------------------------------------------------------------------------- themes

    def _set_first_theme(self, chosen: str) -> None:
        """Before anything is drawn; `App.theme` would compute all styles once more."""
        theme = readable_theme(first_theme(chosen, self.themes), self._colours)
        self.register_theme(theme)
        self.set_reactive(App.theme, theme.name)
        self.set_class(theme.dark, "-dark-mode", update=False)
        self.set_class(not theme.dark, "-light-mode", update=False)
        self.refresh_colour_filter()
        self.stylesheet.set_variables(self.get_css_variables())

    def use_theme(self, name: str) -> None:
        """One of `themes`, from now on and, by the configuration file, the next time."""
        self.register_theme(readable_theme(name, self._colours))
        self.theme = name
        self.show_notice(keep_theme(name, configuration_path(os.environ)), f"Theme {name}")

    # -------------------------------------------------------------------------------------- screens

    def action_not_here(self, key: str) -> None:
        """`key`: its id."""
        self.show_notice(NOT_HERE_TEXTS[key], shown_key(self, key))

    def action_help(self) -> None:
        from nictop.tui.screens.dialogs.help import HelpScreen

        self.push_screen(HelpScreen(self.screen))

    async def action_view(self, tab: str) -> None:
        """Show a view as it was left; the one that is shown already, from its top. Each of
        `LIVE_TABS` is a part of the live screen, and each of the others has a stack of screens of
        its own (a mode of Textual)."""
        from nictop.tui.screens.live.bodies import LIVE_TABS

        if tab in LIVE_TABS:
            await self._show_live_tab(tab)
        elif tab == "traffic":
            await self._show_traffic()
        else:
            mode = self._mode(tab)
            if mode == self.current_mode:
                await self._show_first_screen()
            await self._show_mode(mode)

    async def _show_live_tab(self, tab: str) -> None:
        if tab in ("queues", "cpus") and self.current_mode == self._mode("traffic"):
            self._choose_nic_of_test()
        mode = self._mode("live")
        if not self._live_screens(mode):  # the past, of which nothing was shown yet
            await self._show_mode(mode)
        self._live_screen.show_tab(tab)  # no frame has the part that was shown there before
        await self._show_mode(mode)

    async def _show_traffic(self) -> None:
        """The test that runs; else the form."""
        replay = self.shown.replay
        if replay is not None and not replay.runs:
            text = f"No traffic test was recorded. {replay.refusal}."
            self.show_notice(text, "Traffic")
            return
        mode = self._mode("traffic")
        if self.current_mode == mode and not self.nictop.traffic.running:
            await self._show_first_screen()
        await self._show_mode(mode)
        await self._show_run()

    async def _show_mode(self, mode: str) -> None:
        from nictop.tui.screens.frame import FramedScreen

        if mode == self.current_mode:
            return
        await self.switch_mode(mode)
        if isinstance(self.screen, FramedScreen):
            self.screen.open_again()

    async def _show_first_screen(self) -> None:
        """Of the mode that is shown."""
        while len(self.screen_stack) > 1:
            await self.pop_screen()

    async def action_show_form(self) -> None:
        """The form for a traffic test, also while one runs."""
        from nictop.tui.screens.traffic.form import TrafficScreen

        if self.current_mode != "traffic":
            await self.switch_mode("traffic")
        await self._show_first_screen()
        if isinstance(self.screen, TrafficScreen):
            self.screen.open_again()
            self.call_later(self.screen.action_edit)  # a new screen has yet to focus its table

    async def action_measure(self) -> None:
        """Begin a measurement of what the selected interface carries, or end the one that runs."""
        traffic = self.nictop.traffic
        run_view = traffic.view()
        has_figures = run_view is not None and run_view.has_figures
        if traffic.measures_by_hand and not has_figures and not traffic.is_stopping:
            await self.action_view("traffic")  # its page asks whether it is ended without a result
            self.nictop.notify("Nothing is measured yet.", "Measure")
            return
        if traffic.measures_by_hand:
            work: WorkType[None] = traffic.stop
            self.run_worker(work, name="stop", group="stop", exclusive=True)
            self.nictop.notify("It is being ended. Results has it then.", "Measure")
            return
        if traffic.running:
            self.nictop.notify("A test is running.", "Measure")
            return
        subjects = self._measured
        if len(subjects) == 1 and self._shows_measured:
            await self._begin_measurement(subjects[0])
            return
        from nictop.tui.screens.dialogs.menu import FollowingMenu

        title = "Measure which NIC?" if len(subjects) > 1 else "Measure what flows now?"
        self.push_screen(FollowingMenu(title, partial(self._measure_entries, subjects)))

    def _measure_entries(self, subjects: Sequence[MeasuredSubject]) -> Sequence[MenuEntry]:
        from nictop.tui.screens.dialogs.menu import NO_MORE, MenuEntry

        why_not = "a test is running" if self.nictop.traffic.running else ""
        entries = []
        for subject in subjects:
            nic = subject.nic or "NIC of the default route"
            label = f"{clean(subject.host)} {clean(nic)}"
            if len(subjects) == 1:
                label = f"Begin to measure {label}, selected on Devices"
            begin, why = partial(self._begin_measurement, subject), why_not
            if not why and subject.nic and not self._has_nic(subject):
                why = NO_MORE
            entries.append(MenuEntry(label, begin, enabled=not why, why_not=why))
        return entries

    def _has_nic(self, subject: MeasuredSubject) -> bool:
        session = self.nictop.hosts.by_name.get(subject.host)
        links = () if session is None else session.snapshot.links.values()
        return any(link.name == subject.nic for link in links)

    async def _begin_measurement(self, subject: MeasuredSubject) -> None:
        self.nictop.traffic.start(self._measurement(subject))
        await self.action_view("traffic")

    def _measurement(self, subject: MeasuredSubject) -> RunRequest:
        """With the CPUs of all other hosts."""
        from nictop.traffic.plan.plan import DEFAULT_WORKLOAD_SECONDS
        from nictop.traffic.plan.request import RunRequest

        hosts = self.nictop.hosts
        return RunRequest(
            subject.host,
            subject.host,
            client_nic=subject.nic,
            guest=subject.guest,
            test="manual",
            time=DEFAULT_WORKLOAD_SECONDS,
            observers=tuple(name for name in hosts.by_name if name != subject.host),
        )

    @property
    def _shows_measured(self) -> bool:
        """Which interface is measured is to be seen on this screen."""
        from nictop.tui.screens.frame import FramedScreen

        shown = self.screen
        if not isinstance(shown, FramedScreen):
            return False
        return shown.measured is not None or shown.shows_device

    @property
    def _measured(self) -> Sequence[MeasuredSubject]:
        """The interface or guest of this screen, or else the interface on Devices; several: those
        of which one is to be chosen."""
        from nictop.tui.screens.frame import FramedScreen, MeasuredSubject

        subject = self.screen.measured if isinstance(self.screen, FramedScreen) else None
        if subject is not None:
            return (subject,)
        host = self.nictop.hosts.chosen
        links = self._live_screen.measurable_links
        subjects = [MeasuredSubject(host, link.name) for link in links]
        if len(subjects) != 1:
            subjects.append(MeasuredSubject(host))
        return subjects

    def _choose_nic_of_test(self) -> None:
        """On the page of a test, its NIC of the shown host."""
        from nictop.tui.screens.traffic.run_page import RunPage

        if not isinstance(self.screen, RunPage):
            return
        run_view = self.screen.run_view()
        if run_view is None:
            return
        hosts = self.shown.hosts
        nics = [run_view.nic_of(load) for load in run_view.hosts if load.host == hosts.chosen]
        for link in hosts.session.snapshot.links.values():
            if clean(link.name) in nics:
                self._live_screen.open_link(hosts.chosen, link.ifindex)
                return

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Digits change the view unless they are typed into a field, and not below a dialog."""
        match action:
            case "view":
                is_typed = self.focused is not None and self.focused.check_consume_key("1", "1")
                return not is_typed
            case "show_form":
                return self.shown.replay is None
            case "measure":
                if isinstance(self.screen, ModalScreen):
                    return None  # the footer below a dialog stays as it is
                return self.shown.replay is None
            case "show_change":
                return self.nictop.changes.progress is not None
            case "command_palette":
                return not isinstance(self.screen, ModalScreen)
        return super().check_action(action, parameters)

    @property
    def _live_screen(self) -> LiveScreen:
        return self._live_screens(self._mode("live"))[0]

    def _live_screens(self, mode: str) -> list[LiveScreen]:
        """None before it is shown for the first time."""
        from nictop.tui.screens.live.screen import LiveScreen

        screens = self.screens_of_mode(mode)
        return [screen for screen in screens if isinstance(screen, LiveScreen)]

    def _traffic_screen(self) -> Screen[None]:
        """The form; of a recording, its runs."""
        from nictop.replay.run_index import run_at
        from nictop.tui.screens.replay.run import RecordedRunScreen
        from nictop.tui.screens.traffic.form import TrafficScreen

        replay = self.shown.replay
        if replay is None:
            return TrafficScreen()
        return RecordedRunScreen(run_at(replay.runs, self.shown.now()) or 0)

    async def _show_run(self) -> None:
        """The test that runs, above the form; in a recording the run of this time."""
        from nictop.tui.screens.replay.run import RecordedRunScreen
        from nictop.tui.screens.traffic.run import RunScreen

        if isinstance(self.screen, RecordedRunScreen):
            self.screen.choose_now()
            return
        is_shown = any(isinstance(screen, RunScreen) for screen in self.screen_stack)
        if self.nictop.traffic.running and not is_shown:
            await self.push_screen(RunScreen())

    async def open_link(self, host: str, ifindex: int) -> None:
        self._live_screen.open_link(host, ifindex)
        await self.action_view("devices")

    async def open_finding(self, finding: Finding) -> None:
        await self.action_view("findings")
        self._live_screen.choose_finding(finding)

    def action_record(self) -> None:
        from nictop.tui.screens.base import NictopScreen
        from nictop.tui.screens.live.files import open_record_menu

        if isinstance(self.screen, NictopScreen):
            open_record_menu(self.screen)

    def activity(self) -> tuple[tuple[str, str], ...]:
        from nictop.tui.screens.changes.status import change_status

        nictop = self.nictop
        changes = nictop.changes
        change = change_status(changes.progress, changes.published_at, shown_key(self, "fix"))
        marked = nictop.marks.first
        parts = (
            (nictop.recording.status, "app.record"),
            (_run_status(nictop.traffic), "app.view('traffic')"),
            (change, "app.show_change"),
            ("" if marked is None else f"A: {clean(marked.name)}", "app.forget_mark"),
        )
        return tuple(part for part in parts if part[0])

    def action_show_change(self) -> None:
        self.open_change()

    def open_diff(self, left: Marked, right: Marked) -> None:
        from nictop.tui.screens.live.diff import DiffScreen

        self.push_screen(DiffScreen(left, right))

    def action_forget_mark(self) -> None:
        self.nictop.marks.forget()

    def open_change(self) -> bool:
        from nictop.tui.screens.changes.screen import HostChangeScreen

        if self.nictop.changes.progress is None:
            return False
        if not isinstance(self.screen, HostChangeScreen):
            self.push_screen(HostChangeScreen())
        return True

    def open_fix(self, finding: Finding, fix: Fix) -> None:
        from nictop.changes.job import ChangeJob

        self.open_job(ChangeJob.of_finding(finding, fix))

    def open_job(self, job: ChangeJob) -> None:
        from nictop.changes.actions import ManualOnly, actions_of
        from nictop.tui.screens.changes.fix import FixScreen

        actions = actions_of(job.fix)
        if isinstance(actions, ManualOnly) or actions.blanks:
            self.push_screen(FixScreen(job, actions))
        else:
            self.start_change(job, actions)

    def start_change(self, job: ChangeJob, actions: Actions) -> None:
        """Show the plan; on a host that may not be changed, its commands if there is none."""
        from nictop.tui.screens.changes.fix import FixScreen
        from nictop.tui.screens.changes.screen import HostChangeScreen

        why_not = self.nictop.changes.start(job, actions.actions)
        if not why_not:
            self.push_screen(HostChangeScreen())
        elif self.nictop.changes.allowed(job.host):
            self.show_notice(why_not, "Nothing was changed")
        else:
            self.push_screen(FixScreen(job, actions, why_not))

    def open_set_up(self, host: str, ifindex: int | None) -> None:
        from nictop.rules import HostFacts
        from nictop.tui.screens.changes.guided import SetUpScreen
        from nictop.tui.widgets.changes.guided_fields import NicRef, other_facts

        if self.nictop.changes.running:
            self.open_change()
            return
        session = self.nictop.hosts.by_name.get(host)
        link: Link | None = None
        if session is not None and session.snapshot.inventory is not None and ifindex is not None:
            link = session.snapshot.links.get(ifindex)
        if session is None or link is None:
            self.show_notice("Choose a NIC first, by its line.", "Set up")
            return
        facts = HostFacts(session.snapshot, session.window.parts)
        others = other_facts(self.nictop.hosts.sessions, host)
        self.push_screen(SetUpScreen(NicRef.of(facts, link, others)))

    def delay_update(self, delay: float = 0.0) -> None:
        """Nothing: Textual would show another mode 50 ms late, to hide an empty screen; here it has
        its content."""

    def get_key_display(self, binding: Binding) -> str:
        """The same everywhere; a hint of a key of `PAIRS` is about both."""
        if binding.show and binding.id in PAIRS:
            return pair_label(partial(shown_key, self), binding.id)
        return binding.key_display or key_labels(binding.key, self.glyphs)

    def action_command_palette(self) -> None:
        """Show the command palette."""
        from nictop.tui.palette import Palette

        if self.use_command_palette and not Palette.is_open(cast("App[object]", self)):
            self.push_screen(Palette())

    def action_suspend_process(self) -> None:
        """Only where a shell can continue it."""
        if has_job_control():
            super().action_suspend_process()
        else:
            text = "No shell has started nictop here: nothing could continue it."
            self.show_notice(text, "Not suspended")

    async def action_quit(self) -> None:
        """Ask before a run, or a change that is not kept, is ended."""
        if not self.nictop.traffic.running and not self.nictop.changes.is_unconfirmed:
            self.exit()
            return
        from nictop.tui.screens.dialogs.leave import LeaveScreen

        if not isinstance(self.screen, LeaveScreen):
            self.push_screen(LeaveScreen(), self._leave)

    def action_interrupt(self) -> None:
        """End without a question, whatever is open, as by SIGINT: a test is stopped, with what it
        has measured, and a change that is not kept is rolled back. Once more: without waiting for
        the test."""
        if self._is_leaving or not self.nictop.traffic.running:
            self.exit()
            return
        self._is_leaving = True
        self.run_worker(self._leave(True), group="leave")

    async def _leave(self, sure: bool | None) -> None:
        if sure:
            await self.nictop.traffic.stop()
            self.exit()

    async def on_unmount(self) -> None:
        if self._past is not None:
            await self._past.close()
        await self.nictop.close()

    @property
    def requested_experiment(self) -> FinishedExperiment:
        """What came of the request, whatever was run after it."""
        ended = self.nictop.traffic.ended
        if self._request is None or not ended:
            return FinishedExperiment()
        return ended[0]

    def draw_at_once(self, change: Callable[[], object]) -> None:
        """On the screen that is seen; while nictop ends there is none."""
        seen = self.screen_stack[-1:]
        if seen and isinstance(seen[0], WholeFrames):
            seen[0].draw_at_once(change)
        else:
            change()

    # ------------------------------------------------------------------------ notices and questions

    def show_notice(self, text: str, title: str) -> None:
        """For some seconds, or until there is another one with this title; names in it are no
        markup."""
        shown = "\n".join(self.glyphs.text(line) for line in text.split("\n"))
        self.notify(shown, title=title, markup=False)
        self.call_later(self.keep_newest_notices, MAX_NOTICES)

    def _copy(self, request: CopyRequest) -> None:
        """Copy lines, and say where they are."""
        from nictop.tui.clipboard import Clipboard

        clipboard = Clipboard.of(self._environment, self.copy_to_clipboard)
        if clipboard.place == "tmux":
            self.run_worker(self._copy_into_tmux(clipboard, request), group="copy")
        else:
            self._show_copied(clipboard.put(request), request)

    async def _copy_into_tmux(self, clipboard: Clipboard, request: CopyRequest) -> None:
        self._show_copied(await clipboard.put_into_tmux(request), request)

    def _show_copied(self, placed: Placed, request: CopyRequest) -> None:
        """A notice; the lines themselves where no clipboard has them."""
        from nictop.tui.screens.dialogs.no_clipboard import NoClipboardScreen
        from nictop.tui.screens.live.files import ask_lines_file

        notes = (*request.notes, *placed.notes)
        if placed.is_in_reach:
            self.show_notice("\n".join(filter(None, (request.summary, *notes))), placed.title)
            return
        shown = replace(request, notes=notes)
        save = partial(ask_lines_file, lines=request.lines)
        self.push_screen(NoClipboardScreen(shown, save))

    def _show_end_of_change(self) -> None:
        """Unless its dialog is open, which shows it."""
        from nictop.tui.screens.changes.screen import HostChangeScreen
        from nictop.tui.screens.changes.status import end_text

        progress = self.nictop.changes.progress
        if progress is None or not self.screen_stack:  # empty: the application is being closed
            return
        if isinstance(self.screen, HostChangeScreen):
            return
        if progress.outcome not in (None, "cancelled"):
            self.show_notice(end_text(progress), f"{progress.spec.host}: {progress.spec.title}")

    def _show_end_of_test(self) -> None:
        """Unless its view is shown."""
        from nictop.tui.screens.traffic.status import end_text

        ended = len(self.nictop.traffic.ended)
        is_in_sight = self.current_mode == "traffic" or not self._shown.is_set()
        if ended > self._tests_ended and not is_in_sight:
            labels = partial(shown_key, self)
            self.show_notice(end_text(self.nictop.traffic, labels), "Traffic")
        self._tests_ended = ended

    async def ask_user(self, question: Question) -> str | None:
        """The answer to a question of a connection, by a dialog, one after the other; None: no.
        When the caller is cancelled, its dialog says so."""
        from nictop.tui.screens.dialogs.question import QuestionScreen

        await self._shown.wait()
        async with self._question_lock:
            answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            screen = QuestionScreen(question)
            self.call_later(self._open_question, screen, answer)
            try:
                return await answer
            finally:
                self.call_later(screen.end)

    def _open_question(self, screen: QuestionScreen, answer: asyncio.Future[str | None]) -> None:
        """Unless the caller was cancelled."""

        def take(text: str | None) -> None:
            if not answer.done():
                answer.set_result(text)

        if answer.done():
            return
        self._close_ended_question()
        self.push_screen(screen, take)

    def _close_ended_question(self) -> None:
        """Another one takes its place: nobody may be there to close each of them."""
        from nictop.tui.screens.dialogs.question import QuestionScreen

        if isinstance(self.screen, QuestionScreen) and self.screen.has_ended:
            self.screen.dismiss(None)


def _live_screen() -> Screen[None]:
    from nictop.tui.screens.live.screen import LiveScreen

    return LiveScreen()


def _hosts_screen() -> Screen[None]:
    from nictop.tui.screens.live.hosts import HostsScreen

    return HostsScreen()


def _results_screen() -> Screen[None]:
    from nictop.tui.screens.traffic.results import ResultsScreen

    return ResultsScreen()


def _run_status(traffic: TrafficController) -> str:
    """Of the test that runs; "": none does."""
    if not traffic.running:
        return ""
    from nictop.tui.screens.traffic.status import run_status

    return run_status(traffic)


def _greeting(hosts: Sequence[Host]) -> str:
    """Text of the first frame: on a busy machine it is there for seconds."""
    lines = [f" nictop: {_start_text(hosts)}"]
    lines += [f"   {clean(host.label)}" for host in hosts[:MAX_GREETED_HOSTS]]
    if len(hosts) > MAX_GREETED_HOSTS:
        lines.append(f"   {len(hosts) - MAX_GREETED_HOSTS} more")
    lines.append(" loading the screens")
    return "\n".join(lines)


def _start_text(hosts: Sequence[Host]) -> str:
    if not hosts:
        return "opening the recording"
    if len(hosts) > 1:
        return f"{len(hosts)} hosts"
    if hosts[0].is_local:
        return "reading this host"
    return "connecting"
