"""The recording that is made while hosts are watched: everything that they send and that is
requested of them, runs included.

Every source of the application passes its items to `LiveRecording.record`. The `Recorder` writes
the file in its own thread: a disk that is slow, full or gone is reported, and does not stop the
watching of hosts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from nictop.errors import NictopError
from nictop.tui.controllers.signal import Signal

if TYPE_CHECKING:
    from nictop.hosts.session import HostSession
    from nictop.model.snapshot import Snapshot
    from nictop.probe.records import Line
    from nictop.recording.host_writer import RecordableItem
    from nictop.recording.writer import Recorder
    from nictop.tui.controllers.recent import RecentPast
    from nictop.tui.controllers.scheduler import Notify, Scheduler, Timer
    from nictop.wire.source import SourceState

RECORDING_STATUS_SECONDS = 0.5
"""Between two updates of size and trouble."""


class LiveRecording:
    """At most one at a time. `boot_id`: returns that of this machine. `recent`: is given every
    item, whether a recording is made or not."""

    def __init__(
        self,
        sessions: Mapping[str, HostSession],
        scheduler: Scheduler,
        notify: Notify,
        boot_id: Callable[[], str],
        recent: RecentPast | None = None,
    ) -> None:
        self._sessions, self._scheduler = sessions, scheduler
        self._notify, self._boot_id, self._recent = notify, boot_id, recent
        self.changed = Signal()
        """`status` is another one."""
        self._recorder: Recorder | None = None
        self._began = 0.0
        """Seconds of CLOCK_MONOTONIC."""
        self.known_notes: Callable[[], Iterable[tuple[str, RecordableItem]]] = tuple
        """Notes about a test that runs when a recording begins: host and note."""
        self._has_reading = False
        """A host has sent a reading since then, or had before."""
        self._opening: asyncio.Task[str] | None = None
        """Creates the file, as long as the disk takes for that."""
        self._unwanted = False
        """`start` was cancelled while the file is being created."""
        self._timer: Timer | None = None
        self._reported = ""
        """The trouble in the last notice."""

    @property
    def running(self) -> bool:
        return self._recorder is not None

    @property
    def status(self) -> str:
        """For the status line: ``● REC 01:05 3.2 MB``, the time since it began; "" when nothing is
        recorded."""
        if self._recorder is None:
            return ""
        from nictop.model.text import units

        trouble = " !" if self._recorder.trouble else ""
        minutes, seconds = divmod(int(monotonic() - self._began), 60)
        return f"● REC {minutes:02}:{seconds:02} {units.bytes_(self._recorder.size)}{trouble}"

    def record(self, host: str, item: RecordableItem, now: float) -> None:
        """One item of a host."""
        if self._recent is not None:
            self._recent.record(host, item, now)
        self._write(host, item, now)

    def _write(self, host: str, item: RecordableItem, now: float) -> None:
        """Into the file, if there is one."""
        if self._recorder is not None:
            self._has_reading = self._has_reading or is_reading(item)
            self._recorder.record(host, item, now)

    async def start(self, path: str) -> str:
        """Create a file and record to it. Returns why that is not possible, "" if it is. Cancelled:
        no file is left."""
        if self._recorder is not None or self._opening is not None:
            return "a recording is already running"
        self._unwanted = False
        self._opening = asyncio.create_task(self._open(path), name="begin recording")
        try:
            return await asyncio.shield(self._opening)
        except asyncio.CancelledError:
            self._unwanted = True
            raise

    async def _open(self, path: str) -> str:
        try:
            return await self._begin(path)
        finally:
            self._opening = None

    async def _begin(self, path: str) -> str:
        from nictop.recording.writer import Recorder

        try:
            recorder = await asyncio.to_thread(Recorder, path, boot_id=self._boot_id())
        except NictopError as error:
            return error.message
        if self._unwanted:
            recorder.delete_file()
            await recorder.close()
            return ""
        self._recorder, self._reported, self._has_reading = recorder, "", False
        # at one time: the first moment of the recording has all of it
        self._began = now = monotonic()
        for session in self._sessions.values():
            for item in known(session.snapshot):
                self._write(session.name, item, now)
        for name, note in self.known_notes():
            self._write(name, note, now)
        self._timer = self._scheduler.set_interval(
            RECORDING_STATUS_SECONDS, self._check, name="recording"
        )
        self.changed.publish()
        return ""

    async def end(self, *, notify: bool = True) -> None:
        """Write what waits, and show a notice where it is. A file that is being created is waited
        for."""
        from nictop.model.text import units
        from nictop.recording.writer import CLOSE_TIMEOUT

        if self._opening is not None:
            await asyncio.wait({self._opening}, timeout=CLOSE_TIMEOUT)
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        if self._timer is not None:
            self._timer.stop()
        await recorder.close()
        if not notify:
            return
        self.changed.publish()
        if recorder.trouble:
            self._notify(recorder.trouble, "Recording ended")
            return
        text = f"{recorder.path}\n{units.bytes_(recorder.size)}"
        if recorder.dropped:
            text += f", {recorder.dropped} lines lost"
        if not self._has_reading:
            text += "\nNo host has sent a reading: there is nothing to show in it."
        self._notify(text, "Recorded")

    def _check(self) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        if recorder.has_failed:
            self._scheduler.run_worker(self.end, "end recording", "recording")
        elif recorder.trouble != self._reported:
            self._reported = recorder.trouble
            self._notify(self._reported or f"{recorder.path} is written again", "Recording")
        self.changed.publish()


def is_reading(item: RecordableItem) -> bool:
    """Counters or inventory: what a host shows in a replay."""
    from nictop.probe.records import Line

    return isinstance(item, Line) and (item.counters is not None or item.inventory is not None)


def known(snapshot: Snapshot) -> Iterator[Line | SourceState]:
    """First items of a recording, so that it shows the host as it is shown now."""
    from nictop.probe.records import Line
    from nictop.wire.source import SourceState

    if snapshot.hello is not None:
        yield Line(hello=snapshot.hello)
    if snapshot.inventory is not None:
        yield Line(inventory=snapshot.inventory)
    for change in sorted(snapshot.changes.values(), key=lambda change: change.time):
        yield Line(link_change=change)
    if snapshot.clock is not None:
        yield Line(clock=snapshot.clock)
    for event in (snapshot.other_event, snapshot.event):
        if event is not None:
            yield Line(outdated=event)
    if snapshot.connections is not None:
        yield Line(connections=snapshot.connections)
    for trouble in snapshot.troubles:
        yield Line(trouble=trouble)
    for counters in (snapshot.before, snapshot.counters):
        if counters is not None:
            yield Line(counters=counters)
    yield SourceState(snapshot.state, snapshot.message)
