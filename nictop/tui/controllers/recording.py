"""The recording that is made while hosts are watched: everything that they say and are asked, runs included.

Every source of the application passes its items by here (`hear`); they are kept while a recording goes on. The file is
written by the `Recorder`, in its own thread: a slow, full or vanished disk is said, and the watch goes on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from nictop.errors import NictopError

if TYPE_CHECKING:
    from textual.timer import Timer

    from nictop.model.snapshot import Snapshot
    from nictop.probe.records import Line, Request
    from nictop.recording.writer import Recorder
    from nictop.tui.app import NictopApp
    from nictop.wire.source import SourceState

LOOK_EVERY = 0.5
"""Seconds between two looks at how it goes."""


class LiveRecording:
    """At most one at a time. The screens are told through the application's `recording_news`."""

    def __init__(self, app: NictopApp) -> None:
        self._app = app
        self._recorder: Recorder | None = None
        self._opening: asyncio.Task[str] | None = None
        """Begins a file, as long as the disk takes for that."""
        self._unwanted = False
        """Whoever asked for the file that is being begun has left."""
        self._timer: Timer | None = None
        self._said = ""
        """The trouble that was told last."""

    @property
    def going(self) -> bool:
        return self._recorder is not None

    @property
    def words(self) -> str:
        """For the status line: ``● REC 3.2 MB``; "" when nothing is recorded."""
        if self._recorder is None:
            return ""
        from nictop.model.text import units

        trouble = " !" if self._recorder.trouble else ""
        return f"● REC {units.bytes_(self._recorder.size)}{trouble}"

    def hear(self, host: str, item: Line | SourceState | Request, now: float) -> None:
        """One item of a host, or a request to it."""
        if self._recorder is not None:
            self._recorder.hear(host, item, now)

    async def start(self, path: str) -> str:
        """Begin a file. Why that cannot be, in a sentence; "" when it goes on now. Cancelled: there is no file."""
        if self._recorder is not None or self._opening is not None:
            return "a recording goes on already"
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
            recorder = await asyncio.to_thread(Recorder, path, boot_id=self._app.here().boot_id)
        except NictopError as error:
            return error.message
        if self._unwanted:
            await recorder.close()
            with suppress(OSError):
                os.unlink(path)
            return ""
        self._recorder, self._said = recorder, ""
        for one in self._app.hosts.by_name.values():
            for item in known(one.snapshot):
                recorder.hear(one.name, item, monotonic())
        self._timer = self._app.set_interval(LOOK_EVERY, self._look, name="recording")
        self._tell()
        return ""

    async def end(self, *, says: bool = True) -> None:
        """Write what waits, and say where it is. A file that is just being begun is waited for."""
        from nictop.model.text import units
        from nictop.recording.writer import LAST_WORDS

        if self._opening is not None:
            await asyncio.wait({self._opening}, timeout=LAST_WORDS)
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        if self._timer is not None:
            self._timer.stop()
        await recorder.close()
        if not says:
            return
        self._tell()
        if recorder.trouble:
            self._app.say(recorder.trouble, "Recording ended")
        else:
            lost = f", {recorder.dropped} lines lost" if recorder.dropped else ""
            self._app.say(f"{recorder.path}\n{units.bytes_(recorder.size)}{lost}", "Recorded")

    def _look(self) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        if recorder.given_up:
            self._app.run_worker(self.end(), name="end recording", group="recording")
        elif recorder.trouble != self._said:
            self._said = recorder.trouble
            self._app.say(self._said or f"{recorder.path} is written again", "Recording")
        self._tell()

    def _tell(self) -> None:
        self._app.recording_news += 1


def known(snapshot: Snapshot) -> Iterator[Line | SourceState]:
    """What a recording has to begin with, so that it shows the host as it is shown now."""
    from nictop.probe.records import Line
    from nictop.wire.source import SourceState

    if snapshot.hello is not None:
        yield Line(hello=snapshot.hello)
    if snapshot.inventory is not None:
        yield Line(inventory=snapshot.inventory)
    for change in sorted(snapshot.changes.values(), key=lambda one: one.time):
        yield Line(link_change=change)
    if snapshot.clock is not None:
        yield Line(clock=snapshot.clock)
    for trouble in snapshot.troubles:
        yield Line(trouble=trouble)
    for counters in (snapshot.before, snapshot.counters):
        if counters is not None:
            yield Line(counters=counters)
    yield SourceState(snapshot.state, snapshot.message)
