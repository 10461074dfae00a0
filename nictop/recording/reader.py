"""Reads a recording: its hosts, its times, its marks, and the items of each host from any time on.

Opening reads the index at the end of the file, or the frame headers where there is no index. After that the cost
depends on the time range that is read, not on the size of the file. A file that is still being written grows with
`refresh`. A damaged place is reported as trouble of the host, and reading continues at the next key frame.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from nictop.errors import NictopError
from nictop.probe.records import Line, Request, Trouble
from nictop.recording.file.entries import EntryReader, RecordEntry, parse_table
from nictop.recording.file.frames import ITEMS_FRAME, KEY_FRAME, Damaged, EmptyRecording, FrameHeader, RecordingError
from nictop.recording.file.header import RecordingHeader, read_recording_header
from nictop.recording.file.index import Index, KeyFrame, Mark, iter_frames, read_header, read_index, read_payload, scan
from nictop.recording.file.open import open_for_reading
from nictop.recording.file.run_note import RunNote, decode_run_note
from nictop.wire.codec import check_protocol, decode
from nictop.wire.errors import sanitize
from nictop.wire.source import SourceState

HEADER_CACHE_SIZE = 8192
"""Number of cached frame headers: all hosts of a playback read the same ones."""

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
    """An open recording. Times are seconds, CLOCK_MONOTONIC of the recording machine; wall times are seconds since the
    epoch."""

    def __init__(self, path: str, descriptor: int, header: RecordingHeader, index: Index) -> None:
        self.path = path
        self.nictop, self.boot_id = header.nictop, header.boot_id
        """Version of nictop that recorded, and boot ID of the recording machine."""
        self._descriptor, self._header, self._index = descriptor, header, index
        self.header_at = lru_cache(maxsize=HEADER_CACHE_SIZE)(self._header_at)

    @classmethod
    def open(cls, path: str) -> Recording:
        """Raises RecordingError when the file contains nothing that this version can read."""
        descriptor = open_for_reading(path)
        try:
            header, offset = read_recording_header(path, descriptor)
            size = os.fstat(descriptor).st_size
            index = read_index(descriptor, size)
            if index is None:
                index = Index(offset)
                scan(index, descriptor, size)
            if not index.hosts and index.closed:
                raise EmptyRecording(f"{sanitize(path)}: no data of any host in this recording")
        except OSError as error:
            os.close(descriptor)
            raise RecordingError(f"cannot read {sanitize(path)}: {error.strerror or error}") from None
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, header, index)

    def close(self) -> None:
        """Close the file; may be called more than once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names in the order in which the hosts were first recorded."""
        return tuple(self._index.hosts.values())

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
    def damage_count(self) -> int:
        """Number of places that could not be read, as far as the file was scanned."""
        return self._index.damage_count

    def wall_time(self, time: float) -> float:
        """Wall time of `time`, by the recording machine's clock at the start of the recording."""
        return self._header.wall + time - self._header.monotonic

    def at_wall(self, wall: float) -> float:
        """Time of a wall time."""
        return self._header.monotonic + wall - self._header.wall

    def refresh(self) -> bool:
        """Scan what was written since the last call; True when there is something new."""
        if self._index.closed:
            return False
        before = self._index.offset
        try:
            scan(self._index, self._descriptor, os.fstat(self._descriptor).st_size)
        except OSError:
            return False
        return self._index.offset > before or self._index.closed

    def reader(self, host: str, since: float) -> HostReader:
        """Items of a host from `since` on. Raises KeyError for an unknown host."""
        keys, number = self._keys(host), self._number(host)
        offset = next((key.offset for key in reversed(keys) if key.time <= since), keys[0].offset if keys else 0)
        return HostReader(self, number, offset, since)

    def start_time(self, host: str, now: float, window: float) -> float:
        """The time at which to begin reading for a snapshot at `now` with `window` seconds of history. Earlier than
        that when the host sent nothing within the window, so that its last two counter records are included."""
        if len(self.counter_times(host, now - window, now)) >= 2:
            return now - window
        key = max((key.time for key in self._keys(host) if key.time <= now - window), default=now - window)
        return min([now - window, *self.counter_times(host, key, now)[-2:]])

    def iter_frames(self, offset: int) -> Iterator[tuple[int, FrameHeader | None]]:
        """Complete frames from `offset` on, up to those included in `begin` and `end`."""
        return iter_frames(self._descriptor, offset, self._index.offset, self.header_at)

    def payload(self, offset: int, header: FrameHeader) -> bytes:
        """The unpacked payload. Raises Damaged."""
        return read_payload(self._descriptor, offset, header)

    def counter_times(self, host: str, since: float, until: float) -> list[float]:
        """Times of the counter records of a host from `since` to `until`, both included."""
        reader = self.reader(host, since)
        times: list[float] = []
        for offset, header in self.iter_frames(reader.offset):
            if header is None or header.host != reader.number or header.kind != ITEMS_FRAME or header.end < since:
                continue
            if header.time > until:
                break
            try:
                table, _ = parse_table(self.payload(offset, header))
            except (Damaged, OSError):
                continue
            times_in_frame = (header.time + row.after / 1e6 for row in table if row.kind == "counters")
            times += [time for time in times_in_frame if since <= time <= until]
        return times

    def _number(self, host: str) -> int:
        for number, name in self._index.hosts.items():
            if name == host:
                return number
        raise KeyError(host)

    def _keys(self, host: str) -> list[KeyFrame]:
        number = self._number(host)
        return [key for key in self._index.keys if key.host == number]

    def _header_at(self, offset: int) -> FrameHeader | None:
        return read_header(self._descriptor, offset)


class HostReader:
    """Items of one host in order: first the state at the key frame, then everything after it. Counters before `since`
    are skipped."""

    def __init__(self, recording: Recording, number: int, offset: int, since: float) -> None:
        self.number, self.offset = number, offset
        self._recording, self._since = recording, since
        self._entries: Iterator[RecordEntry] = iter(())
        self._reader: EntryReader | None = None
        """None: nothing can be decoded before the next key frame."""
        self._sequence = -1
        self._time = since

    def next(self) -> RecordedItem | None:
        """The next item; None: there are no more at present."""
        while True:
            try:
                for entry in self._entries:
                    item = self._decode(entry)
                    if item is not None:
                        return item
                if not self._next_frame():
                    return None
            except (Damaged, OSError):
                return self._report_damage()

    def _next_frame(self) -> bool:
        for offset, header in self._recording.iter_frames(self.offset):
            if header is None:
                continue
            self.offset = offset + header.size
            if header.host != self.number or header.kind not in (KEY_FRAME, ITEMS_FRAME):
                continue
            is_next = header.sequence == (self._sequence + 1) & 0xFFFFFFFF or self._sequence < 0
            self._sequence = header.sequence
            self._time = header.time
            if header.kind == KEY_FRAME:
                known = self._reader is not None and is_next
                self._reader = EntryReader()
                # after the previous frames the key frame has no new state; it only resets the templates
                entries = self._reader.entries(self._recording.payload(offset, header), header.time, self._since)
                self._entries = iter(()) if known else entries
                return True
            if self._reader is None:
                continue
            if not is_next:
                raise Damaged("frame missing")
            self._entries = self._reader.entries(self._recording.payload(offset, header), header.time, self._since)
            return True
        return False

    def _report_damage(self) -> RecordedItem:
        self._entries, self._reader = iter(()), None
        return RecordedItem(
            self._time, Line(trouble=Trouble(self._time, "the recording is damaged here: data is missing"))
        )

    def _decode(self, entry: RecordEntry) -> RecordedItem | None:
        """Decode an entry; None: it is not an item."""
        try:
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
                return RecordedItem(entry.time, Line(trouble=Trouble(entry.time, _missing_text(int(entry.text)))))
            line = decode(entry.text)
            if line.hello is not None:
                check_protocol(line.hello)
            return RecordedItem(entry.time, line)
        except (NictopError, msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
            sentence = f"invalid line in the recording: {sanitize(str(error))}"
            return RecordedItem(entry.time, Line(trouble=Trouble(entry.time, sentence)))


def _missing_text(count: int) -> str:
    lines = "1 line is" if count == 1 else f"{count} lines are"
    return f"{lines} missing in the recording here: the disk was too slow or full"
