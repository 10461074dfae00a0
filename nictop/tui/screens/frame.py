"""The frame of every screen that is not a dialog: tabs, hosts with the timeline of a recording,
findings, keys.

 nictop │1 Devices│2 Queues 3 CPUs 4 Findings ▲4 5 Hosts ●2 6 Traffic ● 7 Results
 [● vm1]  ● vm2                                                     every 1 s
…
 ▲ ens224: no DHCP reply; auto-generated profile "Wired connection 1" +5 (key 4)
 Enter Open  e Set up  y Copy fix                                ? Help  q Quit
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.geometry import Size
from textual.screen import Screen
from textual.widget import Widget

from nictop.probe.light_tuples import NamedTuple
from nictop.replay.position import wall_clock_text
from nictop.tui.keys import FRAME_KEYS, WHY_NOT_ACTIONS
from nictop.tui.screens.base import NictopScreen
from nictop.tui.widgets.base.choice_list import ChoiceList
from nictop.tui.widgets.base.key_footer import KeyFooter
from nictop.tui.widgets.base.line_widget import TONES, Span
from nictop.tui.widgets.findings.panel import (
    NOT_READ_THEN_TEXT,
    READING_TEXT,
    FindingsPanel,
)
from nictop.tui.widgets.status.host_strip import host_badges
from nictop.tui.widgets.status.replay_line import ReplayLine
from nictop.tui.widgets.status.status_line import (
    CHANGES_ALLOWED,
    NOTHING_TO_CHANGE,
    READ_ONLY,
    WORKLOAD_RUNS,
    StatusLine,
)
from nictop.tui.widgets.status.tab_line import TabLine

if TYPE_CHECKING:
    from nictop.model.columns.column import Column, RowOrder
    from nictop.tui.controllers.look_back import PresentTimeline
    from nictop.tui.filter_help import FilterRows

PAUSE_ACTIONS = ("pause", "resume", "play")
MARK_TITLE = "Mark A/B"
INTERVALS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Seconds; the steps of the keys + and -."""


class MeasuredSubject(NamedTuple):
    """What a measurement by hand is of."""

    host: str
    nic: str = ""
    """Name of its interface; "": that of the default route."""
    guest: str = ""
    """A guest of the host, whose NIC that is."""


class FramedScreen(NictopScreen, Screen[None]):
    """A subclass yields what is between the lines of the frame (`compose_body`), and says which tab
    it belongs to."""

    AUTO_FOCUS = ""
    HELD_LISTS: ClassVar[tuple[type[ChoiceList], ...]] = ()
    """Those whose lines the keys act on, and whose first choice may move."""
    TAB: ClassVar[str] = ""
    BINDINGS: ClassVar[list[BindingType]] = FRAME_KEYS

    def __init__(self) -> None:
        super().__init__()
        self._findings_shown: tuple[object, ...] | None = None
        """What the line of the worst finding was drawn of."""
        self._pause_action = ""
        """The one that the footer shows."""
        self._before_timeline: Widget | None = None
        """What had the focus."""

    def compose(self) -> ComposeResult:
        self.set_size_classes(self.app.size)  # before there are widgets, whose styles depend on it
        yield TabLine(id="tabs")
        with Horizontal(id="hosts-line"):
            yield StatusLine(self.opener.own_cost, clock=self.nictop.drawn_at, id="status")
            yield ReplayLine(self.nictop.replay, self._present, id="replay")
        yield from self.compose_body()
        yield FindingsPanel(id="worst")
        yield KeyFooter()

    @property
    def _present(self) -> PresentTimeline | None:
        """The timeline of live hosts; None: their last minutes are not recorded."""
        if self.nictop.recent is None:
            return None
        from nictop.tui.controllers.look_back import PresentTimeline

        return PresentTimeline(self.nictop.recent, self.opener.look_back, self.nictop.notify)

    def compose_body(self) -> Iterable[Widget]:
        """The widgets of this screen."""
        raise NotImplementedError

    @property
    def tab(self) -> str:
        """Name of the active tab."""
        return self.TAB

    @property
    def tables(self) -> Mapping[str, Sequence[Column[Any]]]:
        """Name of a table ("" where there is only one) → its columns, for the help."""
        return {}

    @property
    def sorted_tables(self) -> Collection[str]:
        """Names of those of `tables` that can be sorted."""
        return ()

    @property
    def filter_rows(self) -> FilterRows:
        """What can be typed into the filter of this screen, for the help."""
        return ()

    def say_if_usual(self, order: RowOrder) -> None:
        """That of no column cannot be reversed."""
        if not order.column:
            key = self.key_label("sort")
            text = f"The usual order is not reversed; {key} sorts by a column."
            self.nictop.notify(text, "Sort")

    def sort_table(self, column: str) -> None:
        """Sort the table of `sorted_tables` by the column with this key."""

    def on_mount(self) -> None:
        nictop = self.nictop
        self.subscribe(self.opener.pressed, self._hold_choices)
        for held in self.HELD_LISTS:
            self.query_one(held).clock = nictop.now
        for signal in (
            nictop.hosts.changed,
            nictop.traffic.changed,
            nictop.recording.changed,
            nictop.changes.changed,
            self.opener.nictop.marks.changed,
        ):
            self.subscribe(signal, self._update_status)
        self.subscribe(nictop.diagnosis.changed, self._update_findings)
        self.subscribe(nictop.display.changed, self.draw_frame)
        if nictop.replay is not None:
            self.subscribe(nictop.replay.changed, self._update_status)
            self.set_class(nictop.replay.is_past, "-past")
        self.draw_frame()
        self.query_one(KeyFooter).take_bindings()

    def _hold_choices(self) -> None:
        """What is read or acted on is what was shown when the key was pressed."""
        if self.in_sight:
            for held in self.HELD_LISTS:
                self.query_one(held).hold_choice()

    def on_screen_resume(self) -> None:
        """It was covered by another screen, and not drawn meanwhile."""
        if self.is_open:
            self.draw_frame()

    @property
    def measured(self) -> MeasuredSubject | None:
        """What the key measures that begins a measurement by hand; None: the interface that is
        selected on Devices."""
        return None

    @property
    def shows_device(self) -> bool:
        """The interface that is selected on Devices is to be seen here."""
        return False

    def open_again(self) -> None:
        """Its view is chosen, from another one."""

    def draw_for_screen_size(self, size: Size) -> None:
        self.draw_frame()

    def draw_frame(self) -> None:
        self._update_status()
        self._update_findings()

    def _update_status(self) -> None:
        """Tabs, hosts, and why the chosen one is not live."""
        if not self.in_sight or not self.nictop.hosts.by_name:
            return
        nictop = self.nictop
        hosts, session = nictop.hosts, nictop.hosts.session
        line = self.query_one(StatusLine)
        line.pids = hosts.pids
        line.show(
            nictop.display.snapshot(session),
            hosts.sessions,
            hosts.chosen,
            interval=hosts.interval,
            paused=nictop.display.paused,
            going=[(self.glyphs.text(text), action) for text, action in self.opener.activity()],
            note=nictop.replay.note if nictop.replay is not None else "",
            mode=self._mode,
        )
        self.query_one(ReplayLine).redraw()
        self._draw_tabs()
        self._draw_findings_line()
        self.update_pause_key()

    def update_pause_key(self) -> None:
        """The footer says what the key does now."""
        if self.pause_action != self._pause_action:
            self._pause_action = self.pause_action
            self.refresh_bindings()

    @property
    def _mode(self) -> Span:
        """Whether the chosen host may be changed; of a recording there is nothing to change."""
        nictop = self.nictop
        if nictop.replay is not None:
            return NOTHING_TO_CHANGE
        if nictop.traffic.runs_workload:
            return WORKLOAD_RUNS
        return CHANGES_ALLOWED if nictop.changes.allowed(nictop.hosts.chosen) else READ_ONLY

    def _update_findings(self) -> None:
        if self.in_sight:
            self._draw_tabs()
            self._draw_findings_line()

    def _draw_tabs(self) -> None:
        self.query_one(TabLine).show(self.tab, self._badges())

    def _badges(self) -> dict[str, Sequence[Span]]:
        """What is behind the names of the tabs: ``✖1 ▲4``, ``▲2?``, ``●3 ✖1``."""
        from nictop.rules.unchecked import open_findings
        from nictop.rules.wording import finding_badges

        nictop, badges = self.nictop, dict[str, Sequence[Span]]()
        findings = open_findings(nictop.display.diagnosis)
        badges["findings"] = [
            (text, TONES[tone]) for text, tone in finding_badges(findings, glyphs=self.glyphs)
        ]
        sessions = nictop.hosts.sessions
        if len(sessions) > 1 or any(session.has_failed for session in sessions):
            badges["hosts"] = host_badges(sessions, nictop.drawn_at(), nictop.hosts.interval)
        if nictop.traffic.running:
            badges["traffic"] = [("●", "good")]
        return badges

    def _why_not_checked_then(self) -> str:
        """Of a time in a recording."""
        sessions = self.nictop.hosts.sessions
        is_read = bool(sessions) and not any(session.is_catching_up for session in sessions)
        if is_read and all(session.snapshot.inventory is None for session in sessions):
            return NOT_READ_THEN_TEXT
        return READING_TEXT

    def _draw_findings_line(self) -> None:
        line, nictop = self.query_one(FindingsPanel), self.nictop
        if nictop.replay is not None and nictop.display.diagnosis is None:
            self._findings_shown = None
            line.show_text(self._why_not_checked_then())
            return
        if line.display and nictop.hosts.by_name:
            session, diagnosis = nictop.hosts.session, nictop.display.diagnosis
            several, unread = nictop.hosts.several, nictop.hosts.unread(diagnosis)
            notice = self._notice()
            was_checked = nictop.diagnosis.has_run
            recent = nictop.display.recent
            lost = 0 if recent is None else recent.lost(nictop.hosts.by_name)
            age = self._settings_age()
            content = (
                diagnosis, notice, session.has_failed, several, unread, was_checked, lost, age,
            )  # fmt: skip
            if content != self._findings_shown:
                self._findings_shown = content
                line.show(
                    diagnosis,
                    notice=notice,
                    has_failed=session.has_failed,
                    several_hosts=several,
                    unread=unread,
                    was_checked=was_checked,
                    lost=lost,
                    age=age,
                )

    def _settings_age(self) -> str:
        """Of what the checks rest on."""
        from nictop.rules.wording import settings_age_text

        return settings_age_text(session.snapshot for session in self.nictop.hosts.sessions)

    def _notice(self) -> str:
        """Of the chosen host; if it has none, that another one has rebooted: what is seen of that
        one is of another boot than before."""
        hosts, now = self.nictop.hosts, self.nictop.drawn_at()
        own = hosts.session.notice(now, hosts.interval, named=hosts.several)
        if own:
            return own
        for session in hosts.sessions:
            text = session.reboot_notice(now)
            if text:
                return f"{session.name}: {text}"
        return ""

    # ----------------------------------------------------------------------------------------- keys

    @property
    def refused_actions(self) -> tuple[str, ...]:
        """Those that only say that they are not available: no hint is shown for them."""
        if self.nictop.replay is None:
            return WHY_NOT_ACTIONS
        return (*WHY_NOT_ACTIONS, "set_up", "fix", "show_change", "edit")

    @property
    def shows_past(self) -> bool:
        """The last minutes of hosts that are live."""
        return self.nictop.replay is not None and self.nictop.replay.is_past

    @property
    def types(self) -> bool:
        """Characters are typed into a field."""
        return self.focused is not None and self.focused.check_consume_key("x", "x")

    def refuses_recording(self) -> bool:
        """Whether a recording is shown; a notice says so."""
        replay = self.nictop.replay
        if replay is None:
            return False
        text, title = f"{replay.refusal}.", "Recording"
        if replay.is_past:
            text, title = f"{text} {self.key_label('timeline')}: back to now", "The past"
        self.nictop.notify(text, title)
        return True

    async def on_tab_line_clicked(self, event: TabLine.Clicked) -> None:
        await self.opener.action_view(event.tab)

    async def on_findings_panel_opened(self, event: FindingsPanel.Opened) -> None:
        if event.finding is None:
            await self.opener.action_view("findings")
        else:
            await self.opener.open_finding(event.finding)

    def on_status_line_host_clicked(self, event: StatusLine.HostClicked) -> None:
        self.nictop.hosts.choose(event.name)

    async def on_status_line_activity_clicked(self, event: StatusLine.ActivityClicked) -> None:
        await self.run_action(event.action)

    def on_replay_line_go_requested(self) -> None:
        if self.nictop.replay is None:
            self.opener.look_back(self.nictop.now(), asks=True)
        else:
            from nictop.tui.screens.dialogs.go_to_time import ask_time

            ask_time(self)

    def mark(self, host: str, nic: str) -> None:
        """As A, or as B: then what differs between both is shown. `nic`: name of an interface of
        the host; "": the whole host."""
        from nictop.tui.controllers.marks import marked_now, newest

        nictop, present = self.nictop, self.opener.nictop
        moment = ""
        if nictop.replay is not None:
            moment = wall_clock_text(nictop.here().wall)
        marked = marked_now(nictop.hosts, nictop.display, host, nic, moment)
        marks = present.marks
        if marked is None:
            self.nictop.notify(f"{host}: interfaces are not read yet.", MARK_TITLE)
            return
        self.opener.hide_notices(MARK_TITLE)
        first = marks.mark(marked)
        if first is not None:
            self.opener.open_diff(newest(first, present.hosts, present.display), marked)
        elif marks.first is not None:
            what = "interface" if nic else "host"
            key = self.key_label("mark")
            text = f"{marked.name} is A. {key} on another {what}: what differs; on A: no mark"
            self.nictop.notify(text, MARK_TITLE)

    def action_go_back(self) -> None:
        """The timeline has the keys for it."""
        self._before_timeline = self.focused
        self.set_focus(self.query_one(ReplayLine))

    def on_replay_line_left(self) -> None:
        """To the pane of before; where that is not shown any more, to the next one."""
        before, self._before_timeline = self._before_timeline, None
        if before in self.focus_chain and not isinstance(before, ReplayLine):
            self.set_focus(before)
        else:
            self.focus_next()

    def action_now(self) -> None:
        self.opener.leave_past()

    def action_host(self, step: int) -> None:
        """The host before or after, round and round."""
        hosts = self.nictop.hosts
        names = list(hosts.by_name)
        if hosts.chosen in names:
            hosts.choose(names[(names.index(hosts.chosen) + step) % len(names)])

    def action_next(self, step: int) -> None:
        """A recording: search for the next or previous finding or test."""
        if self.nictop.replay is not None:
            self.nictop.replay.search(step)

    @property
    def pause_action(self) -> str:
        """What the key does now, one of `PAUSE_ACTIONS`."""
        if self.nictop.replay is not None:
            return "pause" if self.nictop.replay.is_playing else "play"
        return "resume" if self.nictop.display.paused else "pause"

    def action_resume(self) -> None:
        self.action_pause()

    def action_play(self) -> None:
        self.action_pause()

    def action_pause(self) -> None:
        """Pause the display, or resume it; of a recording, the playback."""
        if self.nictop.replay is not None:
            self.nictop.replay.play()
        else:
            self.nictop.display.toggle()

    async def action_speed(self, step: int) -> None:
        """Of the playback; of live hosts, the interval between two readings."""
        from nictop.probe.records import Request

        hosts = self.nictop.hosts
        if self.nictop.replay is not None:
            self.nictop.replay.change_speed(step)
            return
        nearest = min(INTERVALS, key=lambda seconds: abs(seconds - hosts.interval))
        place = INTERVALS.index(nearest) - step
        interval = INTERVALS[max(0, min(len(INTERVALS) - 1, place))]
        if interval == hosts.interval:
            self.nictop.notify(f"{interval:g} s: there is no further step.", "Interval")
        await hosts.request(Request(interval=interval))
        if hosts.session.in_run:
            text = f"Read every {interval:g} s after the test; during it as the test needs it."
            self.nictop.notify(text, "Interval")
        self._update_status()

    async def action_back(self) -> None:
        """Long work ends; else one step back, from the top of a view to Devices."""
        if self.nictop.replay is not None and self.nictop.replay.searches:
            self.nictop.replay.stop_search()
        elif len(self.app.screen_stack) > 1:
            self.dismiss()
        else:
            await self.opener.action_view("devices")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "filter":  # has priority: where text is typed, its key is a character
                return not self.types
            case "host":
                return self.nictop.hosts.several
            case "next":
                return self.nictop.replay is not None
            case "now":
                return self.shows_past
            case "go_back":
                return self.query_one(ReplayLine).can_focus and not self.shows_past
            case "pause" | "resume" | "play":
                return action == self.pause_action
        return True
