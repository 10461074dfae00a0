"""Writes what is heard of hosts to a file, from a thread of its own, so that a slow or full disk stops nobody.

`Recorder.hear` only turns an item into text and puts it into a bounded queue. The thread packs and writes; what a full
queue or a full disk has swallowed is counted, and said in the file at its place. `recorded` makes of any source one
that is recorded while it is followed.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol

import msgspec

from nictop import __version__
from nictop.probe.records import PROTOCOL, Line, Request
from nictop.recording.file.entries import Kind
from nictop.recording.file.frames import HEADER, INDEX, KEY, PREFIX, RecordingError, pack, trailer
from nictop.recording.file.header import RecordingHeader
from nictop.recording.file.index import LARGEST_INDEX, MOST_MARKS, Index, KeyFrame, encode_index
from nictop.recording.file.open import create
from nictop.recording.host_writer import FRAME_SECONDS, HostFrames, WritableFrame, encoded
from nictop.wire.errors import plain
from nictop.wire.source import Source, SourceState

MOST_WAITING = 32 * 1024 * 1024
"""Bytes of lines that may wait for the disk."""
LOOK_EVERY = 0.5
"""Seconds between two looks of the thread at what waits."""
RETRY = 5.0
"""Seconds until a disk that was full is tried again."""
LAST_WORDS = 10.0
"""Seconds that closing waits for the disk."""


class _Waiting(msgspec.Struct):
    host: str
    item: Line | SourceState | Request
    kind: Kind
    text: bytes
    time: float


class Recorder:
    """A recording that is being written. Raises RecordingError when the file cannot be begun (see `create`)."""

    def __init__(
        self,
        path: str,
        *,
        force: bool = False,
        boot_id: str = "",
        most_waiting: int = MOST_WAITING,
        retry: float = RETRY,
    ) -> None:
        self.path = path
        self.trouble = ""
        """Why nothing is written at the moment, in a sentence; "" when all is well."""
        self.dropped = 0
        """Items that are not in the file."""
        self.given_up = False
        """Nothing more will be written."""
        self._most_waiting, self._retry = most_waiting, retry
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._missing: dict[str, int] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._retry_at = 0.0
        self._hosts: dict[str, HostFrames] = {}
        self._descriptor = create(path, force=force)
        header = RecordingHeader(__version__, PROTOCOL, time.monotonic(), time.time(), boot_id)
        self.begin = header.monotonic
        """Seconds, CLOCK_MONOTONIC."""
        first = PREFIX + pack(HEADER, msgspec.json.encode(header), time=header.monotonic)
        self._index = Index(0)
        try:
            self._write_soundly(first)
        except OSError as error:
            os.close(self._descriptor)
            raise RecordingError(f"{plain(path)} cannot be written: {error.strerror or error}") from None
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._index.offset

    def hear(self, host: str, item: Line | SourceState | Request, now: float) -> None:
        """Take one item of a host, or a request to it; `now`: seconds, CLOCK_MONOTONIC. Never waits for the disk."""
        if self._closing:
            return
        try:
            made = encoded(item)
        except ValueError:  # text that no encoding knows
            with self._lock:
                self._drop(host, 1)
            return
        if made is None:
            return
        kind, text = made
        with self._lock:
            if self.given_up or self._waiting_bytes + len(text) > self._most_waiting:
                self._drop(host, 1)
                return
            self._waiting.append(_Waiting(host, item, kind, text, now))
            self._waiting_bytes += len(text)
            urgent = self._waiting_bytes > self._most_waiting // 4
        if urgent:
            self._wake.set()

    async def close(self) -> None:
        """Write what waits, the index and the end of the file; may be called more than once."""
        self._closing = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join, LAST_WORDS)
        if self._thread.is_alive():
            self.trouble = f"{plain(self.path)}: the disk does not take the last lines"

    # ------------------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            while True:
                closing = self._closing
                self._look(closing)
                if closing:
                    break
                self._wake.wait(LOOK_EVERY)
                self._wake.clear()
            self._end()
        except Exception as error:  # the watch goes on
            self._give_up(f"the recording ended: nictop itself failed: {type(error).__name__}: {plain(str(error))}")
        finally:
            os.close(self._descriptor)

    def _look(self, closing: bool) -> None:
        """Write what is due; everything when it is the last time."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
            self._waiting_bytes = 0
            missing, self._missing = self._missing, {}
        for name, count in missing.items():
            self._frames_of(name).missing += count
        if self.given_up:
            return
        if os.fstat(self._descriptor).st_nlink == 0:
            self._give_up(f"{plain(self.path)} was removed while it was being written: nothing is recorded any more")
        now = time.monotonic()
        for one in waiting:
            frames = self._frames_of(one.host)
            self._write(one.host, frames, frames.take(one.item, one.kind, one.text, one.time))
        for name, frames in self._hosts.items():
            if closing or (frames.since is not None and now - frames.since >= FRAME_SECONDS):
                self._write(name, frames, frames.end())

    def _frames_of(self, name: str) -> HostFrames:
        """Numbered in the order they were heard."""
        if name not in self._hosts:
            self._hosts[name] = HostFrames(len(self._hosts) + 1, name)
        return self._hosts[name]

    def _write(self, host: str, frames: HostFrames, made: list[WritableFrame]) -> None:
        """Write the frames of one host, or count what is lost with them."""
        for place, frame in enumerate(made):
            if self.given_up or not self._written(frame):
                lost = sum(one.items for one in made[place:])
                with self._lock:
                    self._drop(host, lost + frames.begin_anew())
                return

    def _written(self, frame: WritableFrame) -> bool:
        if time.monotonic() < self._retry_at and not self._closing:
            return False
        offset = self._index.offset
        try:
            self._write_soundly(frame.data)
        except OSError as error:
            why = error.strerror or str(error)
            self.trouble = f"{plain(self.path)} cannot be written: {why}; tried again every few seconds"
            self._retry_at = time.monotonic() + self._retry
            return False
        self.trouble, self._retry_at = "", 0.0
        self._note(frame, offset)
        return True

    def _note(self, frame: WritableFrame, offset: int) -> None:
        index = self._index
        index.hosts[frame.host] = frame.name
        if frame.kind == KEY:
            index.keys.append(KeyFrame(frame.host, frame.time, offset))
        index.marks += frame.marks[: max(0, MOST_MARKS - len(index.marks))]
        index.begin = frame.time if index.begin is None else min(index.begin, frame.time)
        end = frame.time + frame.span
        index.end = end if index.end is None else max(index.end, end)

    def _write_soundly(self, data: bytes) -> None:
        """All of `data` at the end of the file, or nothing of it. Raises OSError."""
        begin = self._index.offset
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], begin + written)
        except OSError:
            os.ftruncate(self._descriptor, begin)
            raise
        self._index.offset = begin + len(data)

    def _drop(self, host: str, count: int) -> None:
        """With the lock held."""
        self.dropped += count
        self._missing[host] = self._missing.get(host, 0) + count

    def _give_up(self, sentence: str) -> None:
        with self._lock:
            self.trouble, self.given_up = sentence, True
            self.dropped += len(self._waiting)
            self._waiting.clear()

    def _end(self) -> None:
        """The index; without it a file is as good, but slower to open."""
        plain_index = encode_index(self._index)
        if self.given_up or len(plain_index) > LARGEST_INDEX:
            return
        try:
            self._write_soundly(pack(INDEX, plain_index) + trailer(self._index.offset))
        except OSError as error:
            self.trouble = f"{plain(self.path)} cannot be written: {error.strerror or error}"


class RecorderHolder(Protocol):
    """A `Recorder`, or whoever has one at times."""

    def hear(self, host: str, item: Line | SourceState | Request, now: float) -> None:
        """See `Recorder.hear`."""


class _Recorded:
    """A source whose every item is recorded before anybody else hears it."""

    def __init__(self, source: Source, recorder: RecorderHolder) -> None:
        self._source, self._recorder = source, recorder

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def pids(self) -> tuple[int, ...]:
        return self._source.pids

    async def items(self) -> AsyncGenerator[Line | SourceState, None]:
        """See `Source.items`."""
        items = self._source.items()
        if isinstance(items, AsyncGenerator):
            async with aclosing(items):
                async for item in items:
                    self._recorder.hear(self.name, item, time.monotonic())
                    yield item
            return
        async for item in items:
            self._recorder.hear(self.name, item, time.monotonic())
            yield item

    async def request(self, request: Request) -> None:
        """See `Source.request`. Pings are not worth a line: the clock that comes of them is."""
        if request.ping is None:
            self._recorder.hear(self.name, request, time.monotonic())
        await self._source.request(request)

    async def close(self) -> None:
        """See `Source.close`; the recorder goes on."""
        await self._source.close()


def recorded(source: Source, recorder: RecorderHolder) -> Source:
    """The same source; `recorder` keeps what it says and what it is asked, until it is closed."""
    return _Recorded(source, recorder)
