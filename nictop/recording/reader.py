"""Reads a recording: its hosts, its times, its marks, and the items of each host from any time on.

Opening reads the index at the end of the file, or the frame headers where there is no index. After
that the cost depends on the time range that is read, not on the size of the file. A file that is
still being written grows with `refresh`. A damaged place is reported as trouble of the host, and
reading continues at the next key frame.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterator
from enum import Enum
from time import monotonic, thread_time
from typing import Literal, TypeVar

import msgspec

from nictop.errors import NictopError
from nictop.limits import MAX_INVENTORY_VALUES, MAX_LINE_OBJECTS, MAX_LINE_VALUES
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Line, Request, Trouble
from nictop.recording.file.entries import EntryReader, FormatCache, RecordEntry, parse_table
from nictop.recording.file.frame_file import FrameFile, ReadingTime, Step
from nictop.recording.file.frames import (
    ITEMS_FRAME,
    KEY_FRAME,
    MAX_FRAME_BYTES,
    Damaged,
    EmptyRecording,
    FrameHeader,
    RecordingError,
)
from nictop.recording.file.header import RecordingHeader, read_recording_header
from nictop.recording.file.index import MAX_RECORDED_HOSTS, Index, KeyFrames, Mark, read_index, scan
from nictop.recording.file.open import open_for_reading
from nictop.recording.file.run_note import RunNote, decode_run_note
from nictop.recording.link_states import HISTORY_SECONDS, NewLinkStates
from nictop.recording.unrecorded import mark_unrecorded
from nictop.wire.codec import check_protocol, decode
from nictop.wire.errors import sanitize
from nictop.wire.record_limits import LimitError
from nictop.wire.source import SourceState

MAX_OPEN_SECONDS = 30.0
"""CPU seconds to open a file; one of a day without an index takes less than a second."""
SCAN_SECONDS, REFRESH_SECONDS = 1.0, 0.02
"""CPU seconds to look through a file without an index, at the beginning and at each refresh; after
one that took so long there is a pause of the same length."""
MAX_READ_SECONDS, HOST_READ_SECONDS = 30.0, 0.3
"""CPU seconds to read the state at one time, of all hosts, and in addition of each; usual are
0.1."""

HOST_FILE_BYTES = 128 * 1024
"""Bytes of a file for each host with which all of them may use the memory of a live host. A minute
of a host takes 30,000, of a large one ten times as much."""
MIN_INVENTORY_VALUES, MIN_INVENTORY_OBJECTS, MIN_COUNTER_VALUES = 4000, 1000, 1000
"""Of a host in a small file with many hosts."""
LINK_OBJECTS = 7
"""Objects with the memory of a link, about."""
SHARED_FRAME_BYTES, MIN_FRAME_BYTES = 16 * 1024 * 1024, 64 * 1024
"""Bytes of unpacked frames in such a file: of all hosts together, as each host has one, and of each
at least."""

_SHARED_LIMITS = {
    b'{"inventory"': (
        MIN_INVENTORY_VALUES,
        MAX_INVENTORY_VALUES,
        MIN_INVENTORY_OBJECTS,
        MAX_LINE_OBJECTS,
    ),
    b'{"counters"': (MIN_COUNTER_VALUES, MAX_LINE_VALUES, MIN_INVENTORY_OBJECTS, MAX_LINE_OBJECTS),
}
"""Beginning of a line → values at least and at most, objects at least and at most."""

MAX_COUNT_DIGITS = 18

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work in steps of some milliseconds, and its result."""


class FrameTooLarge(Damaged):
    """A frame takes more memory than the share of a host."""


class NotYet(Enum):
    """Of a reader: no item was found in this step; there may be more."""

    NOT_YET = 0


NOT_YET: Literal[NotYet.NOT_YET] = NotYet.NOT_YET

_state_decoder = msgspec.json.Decoder(SourceState)
_request_decoder = msgspec.json.Decoder(Request)


@dataclass(frozen=True)
class RecordedItem:
    """An item of a host and its time."""

    time: float
    """Seconds, CLOCK_MONOTONIC of the recording machine."""
    item: Line | SourceState | Request | RunNote

    @property
    def received(self) -> Line | SourceState | None:
        """What a live host would have sent; None: it is what nictop requested or noted."""
        return self.item if isinstance(self.item, Line | SourceState) else None


class Recording:
    """An open recording. Times are seconds, CLOCK_MONOTONIC of the recording machine; wall times
    are seconds since the epoch."""

    def __init__(self, path: str, file: FrameFile, header: RecordingHeader, index: Index) -> None:
        self.path = path
        self.nictop, self.boot_id = header.nictop, header.boot_id
        """Version of nictop that recorded, and boot ID of the recording machine."""
        self.formats = FormatCache()
        """Of all readers."""
        self._refresh_at = 0.0
        """CLOCK_MONOTONIC."""
        self._file, self._header, self._index = file, header, index

    @classmethod
    def open(cls, path: str, *, whole: bool = True) -> Recording:
        """Raises RecordingError when the file contains nothing that this version can read. `whole`
        false: a file without an index is looked through for a second; the rest is found by
        `refresh`, like what is still written."""
        file = FrameFile(open_for_reading(path))
        file.reading_time = ReadingTime(MAX_OPEN_SECONDS)
        try:
            header, offset = read_recording_header(path, file)
            size = file.size
            index = read_index(file, size)
            if index is None:
                index = Index(offset)
                scan(index, file, size, math.inf if whole else SCAN_SECONDS)
            if not index.hosts and index.closed:
                raise EmptyRecording(f"{sanitize(path)}: no data of any host in this recording")
        except OSError as error:
            file.close()
            raise RecordingError(
                f"cannot read {sanitize(path)}: {error.strerror or error}"
            ) from None
        except BaseException:
            file.close()
            raise
        file.reading_time = ReadingTime()
        return cls(path, file, header, index)

    @property
    def memory_share(self) -> float:
        """Share of the memory of a live host that each host may use: in a small file with many of
        them, all together may use that of one."""
        count = max(1, len(self.hosts))
        return min(1.0, max(1.0, self._index.offset / HOST_FILE_BYTES) / count)

    def check_size(self, text: bytes) -> None:
        """Raises LimitError for a line with more than the share of a host."""
        share = self.memory_share
        if share >= 1:
            return
        for beginning, (min_values, values, min_objects, objects) in _SHARED_LIMITS.items():
            if not text.startswith(beginning):
                continue
            found = text.count(b"{") + (LINK_OBJECTS - 1) * text.count(b'"ifindex":')
            is_large = text.count(b",") > max(min_values, int(share * values))
            if is_large or found > max(min_objects, int(share * objects)):
                raise LimitError(self.too_large_text)

    @property
    def too_large_text(self) -> str:
        return f"too large for one of {len(self.hosts)} hosts in a recording of this size"

    def limit_reading_time(self) -> None:
        """From now on a RecordingError is raised when reading takes very long: for who does not
        read in steps."""
        self._file.reading_time = ReadingTime(
            MAX_READ_SECONDS + HOST_READ_SECONDS * len(self.hosts)
        )

    def check_reading_time(self) -> None:
        """Raises that error."""
        self._file.reading_time.check()

    def close(self) -> None:
        """Close the file; may be called more than once."""
        self._file.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names in the order in which the hosts were first recorded."""
        return tuple(self._index.hosts.values())

    def hosts_named(self, name: str) -> tuple[str, ...]:
        """The host of this name; else those that end with it: ``netns:b`` of ``local/netns:b``."""
        if name in self.hosts:
            return (name,)
        return tuple(host for host in self.hosts if host.endswith(f"/{name}"))

    @property
    def begin(self) -> float:
        """Time of the first item."""
        return self._header.monotonic if self._index.begin is None else self._index.begin

    @property
    def end(self) -> float:
        """Time of the last item."""
        return self.begin if self._index.end is None else self._index.end

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Start and end of traffic generators, in the order of the file."""
        return tuple(self._index.marks)

    @property
    def closed(self) -> bool:
        """The recorder ended the file; False: it is still being written, or was truncated."""
        return self._index.closed

    @property
    def goes_on(self) -> bool:
        """Its hosts are still watched: what comes after its end is known, only not in it."""
        return False

    @property
    def damage_count(self) -> int:
        """Number of places that could not be read, as far as the file was scanned."""
        return self._index.damage_count

    @property
    def left_out(self) -> str:
        """What of the file is not read, as a sentence; ""."""
        count = len(self._index.left_out)
        if not count:
            return ""
        return f"only the first {MAX_RECORDED_HOSTS} of {MAX_RECORDED_HOSTS + count} hosts are read"

    def wall_time(self, time: float) -> float:
        """Wall time of `time`, by the recording machine's clock at the start of the recording."""
        return self._header.wall + time - self._header.monotonic

    def at_wall(self, wall: float) -> float:
        """Time of a wall time."""
        return self._header.monotonic + wall - self._header.wall

    def refresh(self) -> bool:
        """Scan what was written since the last call; True when there is something new."""
        if self._index.closed or monotonic() < self._refresh_at:
            return False
        before, begin = self._index.offset, thread_time()
        try:
            scan(self._index, self._file, self._file.size, REFRESH_SECONDS)
        except OSError:
            return False
        if thread_time() - begin >= REFRESH_SECONDS:
            self._refresh_at = monotonic() + REFRESH_SECONDS
        return self._index.offset > before or self._index.closed

    def reader(self, host: str, since: float, *, with_history: bool = False) -> HostReader:
        """Items of a host from `since` on; `with_history`: before them those inventories of the
        hour before that say what happened to its links. Raises KeyError for an unknown host."""
        number = self._number(host)
        keys = self._index.keys.get(number, KeyFrames())
        if not keys.offsets:
            return HostReader(self, number, 0, since)
        first = keys.offsets[keys.newest(since) or 0]
        if not with_history:
            return HostReader(self, number, first, since)
        begin = keys.offsets[keys.newest(since - HISTORY_SECONDS) or 0]
        return HostReader(self, number, begin, since, whole_from=first)

    def key_times(self, host: str) -> tuple[float, ...]:
        """Those of the key frames of a host, at each of which its hello and its state are read
        without what was before."""
        return tuple(self._index.keys.get(self._number(host), KeyFrames()).times)

    def start_time(self, host: str, now: float, window: float) -> float:
        """The result of `start_time_steps`."""
        return _result(self.start_time_steps(host, now, window))

    def start_time_steps(self, host: str, now: float, window: float) -> Steps[float]:
        """The time at which to begin reading for a snapshot at `now` with `window` seconds of
        history. Earlier than that when the host sent nothing within the window, so that its last
        two counter records are included."""
        begin, readings = now - window, 0
        for time in self.counter_time_steps(host, begin, now):
            if time is None:
                yield
                continue
            readings += 1
            if readings == 2:
                return begin
        keys = self._index.keys.get(self._number(host), KeyFrames())
        key = max((time for time in keys.times if time <= begin), default=begin)
        newest: deque[float] = deque(maxlen=2)
        for time in self.counter_time_steps(host, key, now):
            if time is None:
                yield
            else:
                newest.append(time)
        return min([begin, *newest])

    def counter_time_steps(self, host: str, since: float, until: float) -> Iterator[float | None]:
        """Times of the counter records of a host from `since` to `until`, both included; None: a
        step without one."""
        reader = self.reader(host, since)
        for step in self.iter_frames(reader.offset):
            yield None
            if step is None:
                continue
            offset, header = step
            if header is None or header.kind != ITEMS_FRAME:
                continue
            if header.host != reader.number or header.end < since:
                continue
            if header.time > until:
                break
            for time in self._counter_times_in(offset, header):
                if since <= time <= until:
                    yield time

    def _counter_times_in(self, offset: int, header: FrameHeader) -> Iterator[float]:
        """Times of the counter records in a frame; none of a damaged one."""
        try:
            table, _ = parse_table(self.payload(offset, header))
        except (Damaged, OSError):
            return
        for row in table:
            if row.kind == "counters":
                yield header.time + row.after / 1e6

    def iter_frames(self, offset: int) -> Iterator[Step]:
        """Complete frames from `offset` on, up to those included in `begin` and `end`; None: none
        was found yet."""
        return self._file.frames(offset, self._index.offset)

    def payload(self, offset: int, header: FrameHeader) -> bytes:
        """The unpacked payload. Raises Damaged."""
        share, hosts = self.memory_share, max(1, len(self.hosts))
        if share < 1 and header.plain > max(
            MIN_FRAME_BYTES, SHARED_FRAME_BYTES / hosts, share * MAX_FRAME_BYTES
        ):
            raise FrameTooLarge
        return self._file.payload(offset, header)

    def _number(self, host: str) -> int:
        for number, name in self._index.hosts.items():
            if name == host:
                return number
        raise KeyError(host)


def _result(steps: Steps[T]) -> T:
    """Do all of the work."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class HostReader:
    """Items of one host in order: first the state at the key frame, then everything after it.
    Counters before `since` are skipped. `whole_from`: offset of the key frame from which on that is
    so; before it there are only hellos and inventories, as far as `NewLinkStates` needs them."""

    def __init__(
        self, recording: Recording, number: int, offset: int, since: float, whole_from: int = 0
    ) -> None:
        self._whole_from = whole_from
        self._states = NewLinkStates() if offset < whole_from else None
        """None: everything is an item."""
        self.number, self.offset = number, offset
        self._recording, self._since = recording, since
        self._frames: Iterator[Step] | None = None
        """The frames that follow; None: from `offset` on."""
        self._entries: Iterator[RecordEntry] = iter(())
        self._reader: EntryReader | None = None
        """None: nothing can be decoded before the next key frame."""
        self._sequence = -1
        self._time = since

    def next(self) -> RecordedItem | None:
        """The next item; None: there are no more at present."""
        while (found := self.step()) is NOT_YET:
            pass
        return found

    def step(self) -> RecordedItem | NotYet | None:
        """The same in steps of some milliseconds."""
        self._recording.check_reading_time()
        try:
            for entry in self._entries:
                item = self._decode(entry)
                if item is not None:
                    return item
            return self._next_frame()
        except FrameTooLarge:
            return self._report_damage(f"left out: {self._recording.too_large_text}")
        except (Damaged, OSError):
            return self._report_damage("the recording is damaged here: data is missing")

    def _next_frame(self) -> NotYet | None:
        """Begin the next frame of the host; None: there is none."""
        is_fresh = self._frames is None
        if self._frames is None:
            self._frames = self._recording.iter_frames(self.offset)
        for step in self._frames:
            if step is None:
                return NOT_YET
            offset, header = step
            if header is None:
                continue
            self.offset = offset + header.size
            if header.host != self.number or header.kind not in (KEY_FRAME, ITEMS_FRAME):
                continue
            is_next = self._sequence < 0 or header.sequence == (self._sequence + 1) & 0xFFFFFFFF
            self._sequence, self._time = header.sequence, header.time
            if header.kind == KEY_FRAME:
                self._begin_at_key_frame(offset, header, is_next=is_next)
                return NOT_YET
            if self._reader is None:
                continue
            if not is_next:
                raise Damaged("frame missing")
            self._entries = self._entries_of(self._reader, offset, header)
            return NOT_YET
        self._frames = None
        return None if is_fresh else NOT_YET  # the file may have grown since

    def _begin_at_key_frame(self, offset: int, header: FrameHeader, *, is_next: bool) -> None:
        is_known = self._reader is not None and is_next
        if self._states is not None and offset >= self._whole_from:
            self._states, is_known = None, False
        self._reader = EntryReader(self._recording.formats)
        # after the previous frames the key frame has no new state; it only resets the templates
        entries = self._entries_of(self._reader, offset, header)
        self._entries = iter(()) if is_known else entries

    def _entries_of(
        self, reader: EntryReader, offset: int, header: FrameHeader
    ) -> Iterator[RecordEntry]:
        payload = self._recording.payload(offset, header)
        return reader.entries(payload, header.time, self._since)

    def _report_damage(self, sentence: str) -> RecordedItem:
        self._entries, self._reader = iter(()), None
        return RecordedItem(self._time, Line(trouble=Trouble(self._time, sentence)))

    def _is_of_history(self, entry: RecordEntry) -> bool:
        if self._states is None or entry.kind not in ("line", "inventory"):
            return False
        self._recording.check_size(entry.text)
        return self._states.needs(entry.text, entry.time)

    def _decode(self, entry: RecordEntry) -> RecordedItem | None:
        """Decode an entry; None: it is not an item."""
        try:
            if self._states is not None and not self._is_of_history(entry):
                return None
            if entry.kind == "state":
                return RecordedItem(entry.time, _state_decoder.decode(entry.text))
            if entry.kind == "request":
                note = decode_run_note(entry.text)
                if note is not None:
                    return RecordedItem(entry.time, note)
                return RecordedItem(entry.time, _request_decoder.decode(entry.text))
            if entry.kind == "host":
                return None
            if entry.kind == "missing":
                return RecordedItem(
                    entry.time, Line(trouble=Trouble(entry.time, _missing_text(_count(entry.text))))
                )
            self._recording.check_size(entry.text)
            line = decode(entry.text)
            if line.hello is not None:
                check_protocol(line.hello)
            if line.inventory is not None:
                mark_unrecorded(line.inventory, entry.text)
            return RecordedItem(entry.time, line)
        except (
            NictopError,
            msgspec.DecodeError,
            UnicodeDecodeError,
            ValueError,
            RecursionError,
        ) as error:
            sentence = f"invalid line in the recording: {sanitize(str(error))}"
            return RecordedItem(entry.time, Line(trouble=Trouble(entry.time, sentence)))


def _count(text: bytes) -> int:
    """Raises ValueError."""
    if not text.isdigit() or len(text) > MAX_COUNT_DIGITS:
        raise ValueError("not a number of lines")
    return int(text)


def _missing_text(count: int) -> str:
    lines = "1 line is" if count == 1 else f"{count} lines are"
    return f"{lines} missing in the recording here: there was no time or no room for more"
