"""Writes the items of hosts to a file in a separate thread, so that a slow or full disk does not
block the program.

`Recorder.record` only encodes an item and puts it into a bounded queue. The thread compresses and
writes; items dropped because of a full queue or a full disk are counted, and their number is
written at that place of the file. `recorded_source` wraps a source so that it is recorded while it
is followed. Into `Segments` (`nictop.recording.keep`, `nictop.recording.recent`) one file is
written after the other.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, nullcontext, suppress
from typing import Protocol

import msgspec

from nictop import __version__
from nictop.model.snapshot import has_functions_only, watchable_links
from nictop.probe.light_dataclasses import replace
from nictop.probe.protocol.requests import MAX_WATCHED_LINKS
from nictop.probe.records import MAX_LINE_BYTES, PROTOCOL, Line, Request
from nictop.recording.file.entries import Kind
from nictop.recording.file.frames import (
    HEADER_FRAME,
    INDEX_FRAME,
    KEY_FRAME,
    RECORDING_PREFIX,
    RecordingError,
    encode_trailer,
    pack_frame,
)
from nictop.recording.file.header import RecordingHeader
from nictop.recording.file.index import MAX_INDEX_BYTES, MAX_MARKS, Index, encode_index
from nictop.recording.file.open import create_file, delete_created, is_deleted
from nictop.recording.host_writer import (
    MAX_FRAME_SECONDS,
    HostFrames,
    RecordableItem,
    WritableFrame,
    encode_item,
)
from nictop.wire.errors import internal_error_text, sanitize
from nictop.wire.source import Source, SourceState, program_output

MAX_QUEUE_BYTES = 32 * 1024 * 1024
"""Bytes of lines in the queue."""
QUEUE_POLL_SECONDS = 2.5
"""Most seconds between two checks of the queue by the thread: half of what it costs to record a few
hosts is waking up."""
MIN_WAIT_SECONDS = 0.05
TOGETHER_SECONDS = 1.0
"""Frames that are due so soon after another one are written with it: hosts are read once a second,
each at another time."""
DISK_RETRY_SECONDS = 5.0
"""Seconds until writing is retried after an error."""
EMPTY_LINE = Line()
CLOSE_TIMEOUT = 10.0
"""Seconds that `close` waits for the thread."""


class _QueuedItem(msgspec.Struct):
    host: str
    item: RecordableItem
    kind: Kind
    text: bytes
    time: float


class Segments(Protocol):
    """The files of a recording that never ends: the newest one is written, the oldest ones are
    deleted."""

    path: str
    """Of all of them, for a sentence."""

    @property
    def host_bytes(self) -> int | None:
        """Of each host in each of the files; None: they have no limit of their own."""

    def new_path(self) -> str:
        """Of the next file. Raises RecordingError."""

    def create(self, path: str) -> int:
        """Descriptor of that file, new and empty. Raises RecordingError."""

    def is_full(self, seconds: float, size: int) -> bool:
        """A file that was begun `seconds` ago and has `size` bytes is to be ended."""

    def is_removed(self, descriptor: int) -> bool:
        """Somebody else has deleted the file that is being written."""

    def delete_old(self, newest: str) -> None:
        """Delete what is not kept any more, but not the file `newest`. Raises OSError."""


class Recorder:
    """A recording that is being written, to a file, or to the newest one of several. Raises
    RecordingError when the file cannot be created (see `create_file`)."""

    def __init__(
        self,
        target: str | Segments,
        *,
        force: bool = False,
        boot_id: str = "",
        max_queue_bytes: int = MAX_QUEUE_BYTES,
        retry: float = DISK_RETRY_SECONDS,
    ) -> None:
        self._segments = None if isinstance(target, str) else target
        self.path = target if isinstance(target, str) else target.new_path()
        """Of the file that is being written."""
        self.trouble = ""
        """Why nothing is written at present, as a sentence; "" when there is no error."""
        self.dropped = 0
        """Number of items that are not in the file."""
        self.has_failed = False
        """Writing ended because of an error that is not retried."""
        self._max_queue_bytes, self._retry = max_queue_bytes, retry
        self._queue: deque[_QueuedItem] = deque()
        self._queued_bytes = 0
        self._unreported: dict[str, int] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._retry_at = 0.0
        self._hosts: dict[str, HostFrames] = {}
        self._boot_id = boot_id
        self._earlier_size = 0
        """Bytes in the files before."""
        self._host_sizes: dict[str, int] = {}
        """Bytes of each host in the present file."""
        self._flushes: list[threading.Event] = []
        """Calls of `flush` that wait."""
        self.begin = self._file_begin = time.monotonic()
        """Seconds, CLOCK_MONOTONIC."""
        self._rotate_at = 0.0
        """Before that no other file is begun: creating one has failed."""
        self._descriptor, self._index = self._create(self.path, force=force)
        if self._segments is not None:
            self._delete_old(self._segments)
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """`close` was not called yet."""
        return not self._closing

    @property
    def size(self) -> int:
        """Bytes that were written."""
        return self._earlier_size + self._index.offset

    def record(self, host: str, item: RecordableItem, now: float) -> None:
        """Add one item of a host; `now`: seconds, CLOCK_MONOTONIC. Never waits for the disk."""
        if self._closing:
            return
        try:
            made = encode_item(item)
        except ValueError:  # text that cannot be encoded
            with self._lock:
                self._count_dropped(host, 1)
            return
        if made is None:
            return
        kind, text = made
        with self._lock:
            if len(text) > MAX_LINE_BYTES:
                # with the defaults of all its fields; a reader would reject it
                self._count_dropped(host, 1)
                return
            is_full = self._queued_bytes + len(text) > self._max_queue_bytes
            if self.has_failed or (self._queue and is_full):
                self._count_dropped(host, 1)
                return
            if kind == "counters":  # eight times its text, of which nothing else is looked at
                item = EMPTY_LINE
            self._queue.append(_QueuedItem(host, item, kind, text, now))
            self._queued_bytes += len(text)
            is_rare = kind in ("state", "inventory")
            is_full = self._queued_bytes > self._max_queue_bytes // 4
        if is_rare or is_full:
            self._wake.set()

    async def flush(self) -> None:
        """Write everything that was recorded so far."""
        written = threading.Event()
        with self._lock:
            self._flushes.append(written)
        self._wake.set()
        await asyncio.to_thread(written.wait, CLOSE_TIMEOUT)

    def delete_file(self) -> None:
        """Of a recording that is not wanted; to be closed then."""
        with suppress(OSError):
            delete_created(self.path, self._descriptor)

    async def close(self) -> None:
        """Write the queue, the index and the trailer; may be called more than once."""
        self._closing = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join, CLOSE_TIMEOUT)
        if self._thread.is_alive():
            self.trouble = f"{sanitize(self.path)}: the last lines could not be written"

    # ----------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            while True:
                closing = self._closing
                with self._lock:
                    flushes, self._flushes = self._flushes, []
                self._write_queued(whole=closing or bool(flushes))
                for written in flushes:
                    written.set()
                if closing:
                    break
                if self._segments is not None:
                    self._limit_segments(self._segments)
                self._wake.wait(self._seconds_until_due())
                self._wake.clear()
            self._end()
        except Exception as error:  # only the recording ends
            self._give_up(f"recording stopped: {internal_error_text(error)}")
        finally:
            os.close(self._descriptor)

    def _write_queued(self, *, whole: bool) -> None:
        """Write what is due; with `whole` everything."""
        with self._lock:
            queue, self._queue = self._queue, deque()
            self._queued_bytes = 0
            unreported, self._unreported = self._unreported, {}
        for name, count in unreported.items():
            self._frames_of(name).unreported += count
        if self.has_failed:
            return
        if self._is_removed():
            self._give_up(f"recording stopped: {sanitize(self.path)} was removed")
        now = time.monotonic()
        for queued in queue:
            frames = self._frames_of(queued.host)
            if self._has_used_its_share(queued.host):
                frames.unreported += 1
                continue
            made = frames.add(queued.item, queued.kind, queued.text, queued.time)
            self._write(queued.host, frames, made)
        ended_since = math.inf if whole else self._ended_since(now)
        for name, frames in self._hosts.items():
            if frames.pending_since is not None and frames.pending_since <= ended_since:
                self._write(name, frames, frames.end_frame())

    def _ended_since(self, now: float) -> float:
        """Frames whose first item is of this time or before are to be ended: none before one is
        due, then all that are due soon."""
        oldest = min(self._pending_times(), default=math.inf)
        if now - oldest < MAX_FRAME_SECONDS:
            return -math.inf
        return now - MAX_FRAME_SECONDS + TOGETHER_SECONDS

    def _pending_times(self) -> Iterator[float]:
        for frames in self._hosts.values():
            if frames.pending_since is not None:
                yield frames.pending_since

    def _seconds_until_due(self) -> float:
        """How long the thread has nothing to write; it looks at the queue before if more is in it
        than counters."""
        oldest = min(self._pending_times(), default=math.inf)
        seconds = oldest + MAX_FRAME_SECONDS - time.monotonic()
        return max(MIN_WAIT_SECONDS, min(QUEUE_POLL_SECONDS, seconds))

    def _is_removed(self) -> bool:
        if self._segments is not None:
            return self._segments.is_removed(self._descriptor)
        return is_deleted(self._descriptor)

    def _has_used_its_share(self, host: str) -> bool:
        """Of the present file."""
        share = None if self._segments is None else self._segments.host_bytes
        return share is not None and self._host_sizes.get(host, 0) >= share

    # ----------------------------------------------------------------------------------- its files

    def _create(self, path: str, *, force: bool = False) -> tuple[int, Index]:
        """Descriptor and index of a new file with its header. Raises RecordingError."""
        if self._segments is not None:
            descriptor = self._segments.create(path)
        else:
            descriptor = create_file(path, force=force)
        header = RecordingHeader(
            __version__, PROTOCOL, time.monotonic(), time.time(), self._boot_id
        )
        first = RECORDING_PREFIX + pack_frame(
            HEADER_FRAME, msgspec.json.encode(header), time=header.monotonic
        )
        index = Index(0)
        try:
            _append_to(descriptor, index, first)
        except OSError as error:
            os.close(descriptor)
            raise RecordingError(
                f"cannot write {sanitize(path)}: {error.strerror or error}"
            ) from None
        return descriptor, index

    def _limit_segments(self, segments: Segments) -> None:
        """Begin the next file when this one is full, and delete what is not kept any more."""
        now = time.monotonic()
        is_full = segments.is_full(now - self._file_begin, self._index.offset)
        is_empty = not self._index.hosts
        if not is_full or is_empty or now < self._rotate_at or self.has_failed:
            return
        try:
            path = segments.new_path()
            descriptor, index = self._create(path)
        except RecordingError as error:
            self.trouble, self._rotate_at = str(error), now + self._retry
            return
        for name, frames in self._hosts.items():
            self._write(name, frames, frames.end_frame())
        self._end()
        os.close(self._descriptor)
        self._earlier_size += self._index.offset
        self.path, self._descriptor, self._index, self._file_begin = path, descriptor, index, now
        self._host_sizes = {}
        for name, frames in self._hosts.items():
            self._write(name, frames, frames.begin_file())
        self._delete_old(segments)

    def _delete_old(self, segments: Segments) -> None:
        try:
            segments.delete_old(self.path)
        except OSError as error:
            self.trouble = f"cannot delete in {sanitize(segments.path)}: {error.strerror}"

    def _frames_of(self, name: str) -> HostFrames:
        """The frames of a host; hosts are numbered in the order they were first recorded."""
        if name not in self._hosts:
            self._hosts[name] = HostFrames(len(self._hosts) + 1, name)
        return self._hosts[name]

    def _write(self, host: str, frames: HostFrames, made: list[WritableFrame]) -> None:
        """Write frames of one host, or count the items lost with them."""
        for place, frame in enumerate(made):
            if self.has_failed or not self._write_frame(host, frame):
                lost = sum(left.items for left in made[place:])
                with self._lock:
                    self._count_dropped(host, lost + frames.restart())
                return

    def _write_frame(self, host: str, frame: WritableFrame) -> bool:
        if time.monotonic() < self._retry_at and not self._closing:
            return False
        offset = self._index.offset
        try:
            self._append(frame.data)
        except OSError as error:
            why = error.strerror or str(error)
            self.trouble = f"cannot write {sanitize(self.path)}: {why}; retrying every few seconds"
            self._retry_at = time.monotonic() + self._retry
            return False
        self.trouble, self._retry_at = "", 0.0
        self._update_index(host, frame, offset)
        return True

    def _update_index(self, host: str, frame: WritableFrame, offset: int) -> None:
        index = self._index
        index.hosts[frame.host] = frame.name
        self._host_sizes[host] = self._host_sizes.get(host, 0) + len(frame.data)
        if frame.kind == KEY_FRAME:
            index.add_key(frame.host, frame.time, offset)
        index.marks += frame.marks[: max(0, MAX_MARKS - len(index.marks))]
        index.extend(frame.time, frame.time + frame.span)

    def _append(self, data: bytes) -> None:
        _append_to(self._descriptor, self._index, data)

    def _count_dropped(self, host: str, count: int) -> None:
        """Count dropped items. The lock must be held."""
        self.dropped += count
        self._unreported[host] = self._unreported.get(host, 0) + count

    def _give_up(self, sentence: str) -> None:
        with self._lock:
            self.trouble, self.has_failed = sentence, True
            self.dropped += len(self._queue)
            self._queue.clear()

    def _end(self) -> None:
        """Write the index; without it a file is complete, but slower to open."""
        plain_index = encode_index(self._index)
        if self.has_failed or len(plain_index) > MAX_INDEX_BYTES:
            return
        try:
            frame = pack_frame(INDEX_FRAME, plain_index)
            self._append(frame + encode_trailer(self._index.offset))
        except OSError as error:
            self.trouble = f"cannot write {sanitize(self.path)}: {error.strerror or error}"


def _append_to(descriptor: int, index: Index, data: bytes) -> None:
    """Append all of `data` to the file, or nothing. Raises OSError."""
    begin = index.offset
    try:
        written = 0
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], begin + written)
    except OSError:
        os.ftruncate(descriptor, begin)
        raise
    index.offset = begin + len(data)


class ItemRecorder(Protocol):
    """A `Recorder`, or an object that passes items to a recorder that may change."""

    @property
    def running(self) -> bool:
        """Items are recorded."""

    def record(self, host: str, item: RecordableItem, now: float) -> None:
        """See `Recorder.record`."""


class _RecordedSource:
    """A source that records each item before it returns it. While it is recorded, its probe reads
    the queue and driver counters of all devices, not only of those that are shown."""

    def __init__(self, source: Source, recorder: ItemRecorder) -> None:
        self._source, self._recorder = source, recorder
        self._requested: tuple[int, ...] = ()
        """ifindexes of the newest request, without those that only the recording needs."""
        self._devices: tuple[int, ...] = ()
        self._watched: tuple[int, ...] = ()
        """What the probe was sent."""

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def pids(self) -> tuple[int, ...]:
        return self._source.pids

    async def items(self) -> AsyncGenerator[Line | SourceState, None]:
        """See `Source.items`."""
        items = self._source.items()
        async with aclosing(items) if isinstance(items, AsyncGenerator) else nullcontext():
            async for item in items:
                self._recorder.record(self.name, item, time.monotonic())
                inventory = item.inventory if isinstance(item, Line) else None
                if inventory is not None and not has_functions_only(inventory):
                    self._devices = watchable_links(inventory.links)
                if self._links() != self._watched:
                    await self.request(Request(watch=self._requested))
                yield item

    def _links(self) -> tuple[int, ...]:
        """ifindexes to watch now."""
        devices = self._devices if self._recorder.running else ()
        return tuple(dict.fromkeys((*self._requested, *devices)))[:MAX_WATCHED_LINKS]

    async def request(self, request: Request) -> None:
        """See `Source.request`. Pings are not recorded: the clock estimates that result from them
        are. Nor are cookies, with which a reader of the file could take the place of an end of a
        test that runs."""
        if request.watch is not None:
            self._requested = request.watch
            self._watched = self._links()
            request = replace(request, watch=self._watched)
        if request.ping is None:
            self._recorder.record(self.name, _without_cookie(request), time.monotonic())
        await self._source.request(request)

    async def program_output(self, words: Sequence[str], timeout: float) -> str:
        """See `RunsPrograms`. It is not recorded."""
        return await program_output(self._source, words, timeout) or ""

    async def close(self) -> None:
        """See `Source.close`; the recorder stays open."""
        await self._source.close()


def recorded_source(source: Source, recorder: ItemRecorder) -> Source:
    """The same source; `recorder` stores its items and the requests to it until it is closed."""
    return _RecordedSource(source, recorder)


def _without_cookie(request: Request) -> Request:
    if request.traffic is None or not request.traffic.cookie:
        return request
    return replace(request, traffic=replace(request.traffic, cookie=""))
