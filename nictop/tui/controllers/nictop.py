"""The program without its screens: the controllers, and what several of them and all screens
share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING

from nictop.hosts.specification import Host
from nictop.probe.light_dataclasses import replace
from nictop.tui.controllers.changes import Changes
from nictop.tui.controllers.diagnosis import DiagnosisScheduler
from nictop.tui.controllers.display import Display
from nictop.tui.controllers.hosts import WatchedHosts
from nictop.tui.controllers.marks import Marks
from nictop.tui.controllers.recording import LiveRecording
from nictop.tui.controllers.traffic import TrafficController

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.time_axis import LocalClock
    from nictop.recording.playback import Playback
    from nictop.rules import Fix
    from nictop.rules.finding import WhereToType
    from nictop.rules.fixes.commands import Step
    from nictop.tui.clipboard import CopyRequest
    from nictop.tui.controllers.recent import RecentPast
    from nictop.tui.controllers.replay import Replay
    from nictop.tui.controllers.scheduler import Notify, Scheduler
    from nictop.wire.source import Source
    from nictop.wire.ssh.authentication import Ask

    Connect = Callable[[Host, Ask], Source]
    Copy = Callable[[CopyRequest], None]
    """Copies the lines, and says where they are."""

HOST_COUNTDOWN_SECONDS = 1.0
"""Between two redraws while a host is not live: its age and the next attempt are counted in
seconds."""


class Nictop:
    """`connect` makes the source of a host; it is given `ask`, which asks the user. `keeps_past`:
    the last minutes of the hosts are recorded in memory."""

    def __init__(
        self,
        connect: Connect,
        ask: Ask,
        scheduler: Scheduler,
        notify: Notify,
        copy: Copy,
        *,
        interval: float,
        allow_changes: bool,
        keeps_past: bool = False,
    ) -> None:
        self._scheduler, self.notify = scheduler, notify
        self._copy = copy
        self.replay: Replay | None = None
        """None: the hosts are live."""
        sessions: dict[str, HostSession] = {}
        self.recent: RecentPast | None = None
        """The last minutes; None: they are not recorded."""
        if keeps_past:
            from nictop.tui.controllers.recent import RecentPast

            self.recent = RecentPast(lambda: self.here().boot_id)
        self.recording = LiveRecording(
            sessions, scheduler, notify, lambda: self.here().boot_id, self.recent
        )
        self.diagnosis = DiagnosisScheduler(sessions, scheduler)

        def source_of(host: Host) -> Source:
            """Every source is recorded while a recording is made."""
            from nictop.recording.writer import recorded_source

            return recorded_source(connect(host, ask), self.recording)

        self.hosts = WatchedHosts(
            sessions, scheduler, source_of, self.now, self.diagnosis, interval=interval
        )
        self._drawn_at: float | None = None
        self._drawn_jumps = 0
        """Of the playback, as of `_drawn_at`."""
        self.hosts.changed.subscribe(self._begin_drawing)  # before all that draw
        self.display = Display(self.hosts, self.diagnosis)
        self.traffic = TrafficController(self.hosts, scheduler, self.recording.record)
        self.recording.known_notes = self.traffic.known_notes
        self.marks = Marks()
        self.changes = Changes(self.hosts, scheduler, allowed=allow_changes)

    def show_recording(
        self,
        playback: Playback,
        *,
        start: float,
        loop: bool = False,
        nic: str = "",
        notice: str = "",
        notice_title: str = "Demo",
    ) -> None:
        """Show a recording instead of live hosts; to be called before `start`. The rest as in
        `Replay`."""
        from nictop.tui.controllers.replay import Replay

        given = (self.hosts, self.diagnosis, self._scheduler, self.notify)
        self.replay = Replay(
            playback,
            *given,
            start=start,
            loop=loop,
            nic=nic,
            notice=notice,
            notice_title=notice_title,
        )
        self.replay.changed.subscribe(self._follow_jump)

    def start(self, hosts: Sequence[Host]) -> None:
        """Watch these hosts, or those of the recording."""
        if self.replay is not None:
            self.replay.begin()
        for host in hosts:
            self.hosts.follow(host)
        self._scheduler.set_interval(
            HOST_COUNTDOWN_SECONDS, self.hosts.count_down, name="countdown"
        )

    async def close(self) -> None:
        """End the run, the change that is not kept, every source and the recording."""
        await self.traffic.stop()
        await self.changes.stop()
        await self.hosts.close()
        await self.recording.end(notify=False)
        if self.recent is not None:
            await self.recent.close()

    # ------------------------------------------------------------------------------------ the clock

    def now(self) -> float:
        """The clock of everything that is shown: seconds, CLOCK_MONOTONIC of the machine that
        receives the data."""
        if self.replay is None:
            return monotonic()
        return self.replay.playback.now()

    def drawn_at(self) -> float:
        """The clock of ages and of seconds that are waited for: the time at which the hosts were
        last published, so that all lines of one screen, drawn one after the other, tell the
        same."""
        return self.now() if self._drawn_at is None else self._drawn_at

    def drawn_here(self) -> LocalClock:
        """`here` at that time."""
        clocks = self.here()
        late = clocks.monotonic - self.drawn_at()
        return replace(clocks, monotonic=clocks.monotonic - late, wall=clocks.wall - late)

    def _begin_drawing(self) -> None:
        self._drawn_at = self.now()

    def _follow_jump(self) -> None:
        """The position of a recording is another one."""
        assert self.replay is not None
        jumps = self.replay.playback.jumps
        if jumps != self._drawn_jumps:
            self._drawn_jumps = jumps
            self._begin_drawing()

    def moment_text(self, age: float | None = None) -> str:
        """What moment a chart that is drawn now ends at: ``now``; ``32 s ago`` where its newest
        reading is of `age` seconds before; ``14:03:20`` in a recording, in the past, and while the
        display is paused, as it is not drawn again then."""
        from nictop.model.text import units
        from nictop.replay.position import wall_clock_text

        if self.replay is not None:
            playback = self.replay.playback
            return wall_clock_text(playback.recording.wall_time(playback.now() - (age or 0.0)))
        if self.display.paused:
            return wall_clock_text(time() - (age or 0.0))
        return "now" if age is None else f"{units.whole_seconds(age)} ago"

    def here(self) -> LocalClock:
        """The clocks of that machine, read together."""
        from nictop.hosts.session import read_local_clock
        from nictop.model.time_axis import LocalClock

        if self.replay is None:
            return read_local_clock(monotonic(), time())
        playback = self.replay.playback
        return LocalClock(playback.now(), playback.wall_now(), playback.recording.boot_id)

    # -------------------------------------------------------------------------------- the clipboard

    def copy_command(self, host: str, fix: Fix) -> None:
        """Copy the commands of `fix`, which is of this host."""
        from nictop.rules.wording import place_text, placeholders

        notes = [f"to be typed {place_text(host, fix).partition(',')[0]}"]
        fill_in = placeholders(fix.commands)
        if fill_in:
            notes.append(f"fill in {', '.join(fill_in)}")
        self.copy_lines(fix.commands, notes, summary=_summary(fix.commands), where=fix.where)

    def copy_commands(self, host: str, commands: Sequence[Step]) -> None:
        """Copy commands of a plan."""
        self.copy_lines(commands, [f"Run on {host}"], summary=_summary(commands))

    def copy_lines(
        self,
        lines: Sequence[Step | str],
        notes: Sequence[str],
        *,
        summary: str = "",
        where: WhereToType = "here",
    ) -> None:
        """The same with any lines. `notes`: remarks on them. `summary`: of the lines, for a
        notice."""
        from nictop.tui.clipboard import CopyRequest

        self._copy(CopyRequest(lines, notes, summary, where))


def _summary(commands: Sequence[Step]) -> str:
    """The first one, for a notice."""
    first, *others = map(str, commands)
    return f"{first} …" if others else first
