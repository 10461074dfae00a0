"""The last minutes of the watched hosts, recorded in memory all the time: to look back at them, or
to save them when something has just happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from nictop.errors import NictopError

if TYPE_CHECKING:
    from nictop.recording.host_writer import RecordableItem
    from nictop.recording.recent import RecentRecording, RecentSegments
    from nictop.recording.writer import Recorder

MAX_QUEUE_BYTES = 4 * 1024 * 1024
"""Of lines that are not written yet, and take up to eight times as much while they wait: writing to
memory does not wait for a disk."""


class RecentPast:
    """`boot_id`: returns that of this machine."""

    def __init__(self, boot_id: Callable[[], str]) -> None:
        self._boot_id = boot_id
        self._segments: RecentSegments | None = None
        self._recorder: Recorder | None = None
        self.trouble = ""
        """Why nothing is recorded; "": it is."""
        self._began: float | None = None
        """When the first item was received: seconds, CLOCK_MONOTONIC."""

    def record(self, host: str, item: RecordableItem, now: float) -> None:
        """One item of a host."""
        if self._recorder is None and not self.trouble:
            self._start()
        if self._recorder is not None:
            self._began = now if self._began is None else self._began
            self._recorder.record(host, item, now)

    def _start(self) -> None:
        from nictop.recording.recent import RecentSegments
        from nictop.recording.writer import Recorder

        segments = RecentSegments()
        try:
            self._recorder = Recorder(
                segments, boot_id=self._boot_id(), max_queue_bytes=MAX_QUEUE_BYTES
            )
        except NictopError as error:
            self.trouble = error.message
            return
        self._segments = segments

    @property
    def begin(self) -> float | None:
        """Of what is there: seconds, CLOCK_MONOTONIC; None: nothing is."""
        if self._segments is None or self._began is None:
            return None
        began = self._segments.began
        return self._began if began is None else began

    @property
    def seconds(self) -> float:
        """How much is there."""
        begin = self.begin
        return 0.0 if begin is None else max(0.0, monotonic() - begin)

    @property
    def sure_seconds(self) -> float:
        """How far one can always go back: there may be more, until that is dropped at once."""
        from nictop.recording.recent import RECENT_SECONDS

        return min(self.seconds, RECENT_SECONDS)

    @property
    def size(self) -> int:
        """Bytes of memory, which are not in that of the process."""
        return 0 if self._segments is None else self._segments.size

    async def open(self) -> RecentRecording:
        """What was received until now. Raises NictopError."""
        from nictop.recording.recent import open_recent

        return await asyncio.to_thread(open_recent, await self._written())

    async def save(self, path: str) -> int:
        """Write it to a new file; the result is its size in bytes. Raises NictopError."""
        from nictop.recording.recent import write_recent

        return await asyncio.to_thread(write_recent, await self._written(), path)

    async def _written(self) -> RecentSegments:
        """With everything that was received."""
        if self._recorder is None or self._segments is None:
            raise NictopError(self.trouble or "nothing was received yet")
        await self._recorder.flush()
        return self._segments

    async def close(self) -> None:
        """Its memory is freed."""
        if self._recorder is not None:
            await self._recorder.close()
        if self._segments is not None:
            self._segments.close()
