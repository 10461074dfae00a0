"""A directory of segments (`nictop.recording.keep`), read as one recording.

The segments that were written since one start of the recording machine have one clock, and make up
one recording: their frames follow each other in a file that exists here only. A directory that is
still being written grows with `refresh`, as a file does.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from time import monotonic, thread_time

from nictop.probe.light_dataclasses import dataclass, field, replace
from nictop.recording.file.frame_file import FrameFile, ReadingTime
from nictop.recording.file.frames import (
    HEADER_SIZE,
    EmptyRecording,
    FrameHeader,
    RecordingError,
    parse_header,
)
from nictop.recording.file.header import RecordingHeader, read_recording_header
from nictop.recording.file.index import (
    MAX_KEYS,
    MAX_MARKS,
    MAX_RECORDED_HOSTS,
    Index,
    read_index,
    scan,
)
from nictop.recording.file.open import open_for_reading
from nictop.recording.keep import is_being_written, segments_in
from nictop.recording.reader import MAX_OPEN_SECONDS, REFRESH_SECONDS, Recording
from nictop.recording.time_spec import local_text, resolve_time
from nictop.wire.errors import sanitize

MAX_SEGMENTS = 400
"""The newest ones; of a day there are 24, of a large size 16."""
MAX_NAMED_STARTS = 3
"""Other starts of the recording machine that are named."""
NO_HOST = -1
"""Number of a host that is left out."""


@dataclass(frozen=True)
class OpenSegment:
    """One file and its header."""

    name: str
    path: str
    file: FrameFile
    header: RecordingHeader
    first: int
    """Offset of its first frame of a host."""


@dataclass
class Unread:
    """Segments of a directory that are not read."""

    reasons: list[str] = field(default_factory=list)
    """Why, of each that cannot be."""
    older: int = 0
    """More than `MAX_SEGMENTS` ago."""

    def add(self, other: Unread) -> None:
        self.reasons += other.reasons
        self.older += other.older

    @property
    def sentences(self) -> Iterator[str]:
        number = len(self.reasons)
        if number:
            files = "a file" if number == 1 else f"{number} files"
            yield f"{files} cannot be read: {self.reasons[0]}"
        if self.older:
            yield f"only the newest {MAX_SEGMENTS} of {MAX_SEGMENTS + self.older} files are read"


@dataclass
class Part:
    """The frames of one segment in the file that they make up."""

    segment: OpenSegment
    begin: int
    """Where they begin in that file."""
    index: Index
    """Of the segment, as far as it was read; of one that is complete only its end."""
    numbers: dict[int, int]
    """Number of a host in the segment → in the file."""
    key_counts: dict[int, int]
    """Number of a host in the segment → key frames that are in the index of the file."""
    mark_count: int = 0

    @property
    def end(self) -> int:
        return self.begin + self.index.offset - self.segment.first


class SegmentFile(FrameFile):
    """The frames of many segments, one segment after the other; none is cut at its end."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.parts: list[Part] = []
        self._begins: list[int] = []

    def add(self, part: Part) -> None:
        self.parts.append(part)
        self._begins.append(part.begin)

    @property
    def size(self) -> int:
        return self.parts[-1].end if self.parts else 0

    def close(self) -> None:
        for part in self.parts:
            part.segment.file.close()

    def read(self, size: int, offset: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._part_at(offset + len(data))
            if part is None:
                break
            place = offset + len(data) - part.begin
            most = min(size - len(data), part.end - part.begin - place)
            found = part.segment.file.read(most, part.segment.first + place)
            if not found:
                break
            data += found
        return data

    def _part_at(self, offset: int) -> Part | None:
        part = self.parts[bisect_right(self._begins, offset) - 1] if self.parts else None
        return part if part is not None and part.begin <= offset < part.end else None

    def _read_header(self, offset: int) -> FrameHeader | None:
        """Its host has the number that it has in all segments."""
        header, part = parse_header(self.read(HEADER_SIZE, offset)), self._part_at(offset)
        if header is None or part is None:
            return None
        return replace(header, host=part.numbers.get(header.host, NO_HOST))


class SegmentRecording(Recording):
    """The segments of a directory since one start of the recording machine."""

    def __init__(
        self,
        path: str,
        segments: Sequence[OpenSegment],
        others: Sequence[str],
        unread: Unread | None = None,
    ) -> None:
        """`others`: the other starts, for a sentence."""
        self._segments_file = SegmentFile()
        super().__init__(path, self._segments_file, segments[0].header, Index(0))
        self._others, self._unread = others, unread or Unread()
        for segment in segments:
            self._add(segment)
        self._index.closed = not self.is_being_written

    @property
    def parts(self) -> Sequence[Part]:
        """In the order of their times."""
        return self._segments_file.parts

    @property
    def is_being_written(self) -> bool:
        """There may be more in a moment."""
        return is_being_written(self.path)

    @property
    def left_out(self) -> str:
        sentences = [super().left_out, *self._unread.sentences]
        if self._others:
            starts = ", ".join(self._others[:MAX_NAMED_STARTS])
            sentences.append(
                f"there are other recordings, of before a restart: {starts} (--at TIME)"
            )
        return "; ".join(sentence for sentence in sentences if sentence)

    def refresh(self) -> bool:
        """Reads what was added to the newest segment, and the segments after it."""
        if self._index.closed or monotonic() < self._refresh_at:
            return False
        before, begin = self._file.size, thread_time()
        try:
            self._grow()
        except OSError:
            return False
        if thread_time() - begin >= REFRESH_SECONDS:
            self._refresh_at = monotonic() + REFRESH_SECONDS
        return self._file.size > before or self._index.closed

    def _grow(self) -> None:
        newest = self._segments_file.parts[-1]
        if not newest.index.closed:
            file = newest.segment.file
            scan(newest.index, file, file.size, REFRESH_SECONDS)
            self._join(newest)
        if newest.index.closed or not self.is_being_written:
            names = {part.segment.name for part in self._segments_file.parts}
            opening = ReadingTime(MAX_OPEN_SECONDS)
            found, unread = open_segments(self.path, opening, after=max(names))
            self._unread.add(unread)
            for segment in found:
                if segment.header.boot_id == self.boot_id:
                    self._add(segment)
                else:
                    segment.file.close()
            self._index.closed = not self.is_being_written

    def _add(self, segment: OpenSegment) -> None:
        """Add the frames of a segment after those that are known."""
        file = segment.file
        index = read_index(file, file.size)
        if index is None:
            index = Index(segment.first)
            scan(index, file, file.size)
        file.reading_time = ReadingTime()
        part = Part(segment, self._segments_file.size, index, {}, {})
        self._segments_file.add(part)
        self._index.damage_count += index.damage_count
        self._header = with_clock_of(segment.header, self._header)
        self._join(part)

    def _join(self, part: Part) -> None:
        """Add what is new in the index of a segment to that of the whole."""
        index, found = self._index, part.index
        shift = part.begin - part.segment.first
        for number, keys in found.keys.items():
            name = found.hosts.get(number)
            whole = self._number_of(name) if name is not None else NO_HOST
            part.numbers[number] = whole
            begin = part.key_counts.get(number, 0)
            part.key_counts[number] = len(keys.times)
            if whole == NO_HOST or index.key_count + len(keys.times) - begin > MAX_KEYS:
                index.left_out.add(number)
                continue
            for place in range(begin, len(keys.times)):
                index.add_key(whole, keys.times[place], keys.offsets[place] + shift)
        new_marks = found.marks[part.mark_count :]
        part.mark_count = len(found.marks)
        index.marks += new_marks[: max(0, MAX_MARKS - len(index.marks))]
        if found.begin is not None and found.end is not None:
            index.extend(found.begin, found.end)
        index.offset = part.end
        if found.closed:
            part.index = Index(found.offset, closed=True)

    def _number_of(self, name: str) -> int:
        """Number of a host in the whole."""
        for number, known in self._index.hosts.items():
            if known == name:
                return number
        if len(self._index.hosts) >= MAX_RECORDED_HOSTS:
            return NO_HOST
        number = len(self._index.hosts) + 1
        self._index.hosts[number] = name
        return number


def with_clock_of(newer: RecordingHeader, header: RecordingHeader) -> RecordingHeader:
    """The header with a newer time of day: right after a start the clock of a machine may be
    wrong."""
    wall = newer.wall + header.monotonic - newer.monotonic
    return RecordingHeader(header.nictop, header.protocol, header.monotonic, wall, header.boot_id)


def open_segments(
    path: str, opening: ReadingTime, after: str = ""
) -> tuple[list[OpenSegment], Unread]:
    """The segments whose names come after this one, the oldest first, without those that cannot be
    read. Raises OSError. `opening`: limits all of them together."""
    names = sorted(segment.name for segment in segments_in(path) if segment.name > after)
    found: list[OpenSegment] = []
    unread = Unread(older=max(0, len(names) - MAX_SEGMENTS))
    for name in names[-MAX_SEGMENTS:]:
        place = os.path.join(path, name)
        try:
            segment = _open_segment(name, place, opening)
        except RecordingError as error:
            if os.path.lexists(place):  # else it was deleted meanwhile
                unread.reasons.append(error.message)
            continue
        if segment is not None:
            found.append(segment)
    return found, unread


def _open_segment(name: str, place: str, opening: ReadingTime) -> OpenSegment | None:
    """None: nothing was written to it. Raises RecordingError."""
    file = FrameFile(open_for_reading(place))
    if not file.size:
        file.close()
        return None
    file.reading_time = opening
    try:
        header, first = read_recording_header(place, file)
    except RecordingError:
        file.close()
        raise
    return OpenSegment(name, place, file, header, first)


def open_recording(path: str, *, whole: bool = True, time_text: str | None = None) -> Recording:
    """A file or a directory; of a directory with several recordings that which has this time.
    `whole`: see `Recording.open`. Raises RecordingError."""
    if os.path.isdir(path):
        return open_directory(path, time_text)
    return Recording.open(path, whole=whole)


def open_directory(path: str, time_text: str | None = None) -> SegmentRecording:
    """The newest recording of a directory that has this time (`resolve_time`). Raises
    RecordingError."""
    try:
        segments, unread = open_segments(path, ReadingTime(MAX_OPEN_SECONDS))
    except OSError as error:
        raise RecordingError(f"cannot read {sanitize(path)}: {error.strerror}") from None
    starts = list(_starts(segments))
    if not starts:
        raise RecordingError(
            "; ".join((f"{sanitize(path)} is a directory without a recording", *unread.sentences)),
            "nictop record --keep 24h DIRECTORY makes one",
        )
    try:
        chosen = _chosen(path, starts, time_text, unread)
    except BaseException:
        for segment in segments:
            segment.file.close()
        raise
    used = {part.segment.name for part in chosen.parts}
    for segment in segments:
        if segment.name not in used:
            segment.file.close()
    if not chosen.hosts and chosen.closed:
        chosen.close()
        raise EmptyRecording(f"{sanitize(path)}: no data of any host in this recording")
    return chosen


def _chosen(
    path: str,
    starts: Sequence[Sequence[OpenSegment]],
    time_text: str | None,
    unread: Unread,
) -> SegmentRecording:
    names = [_start_text(segments) for segments in starts]
    first_error: RecordingError | None = None
    for number, segments in enumerate(starts):
        others = [name for place, name in enumerate(names) if place != number]
        recording = SegmentRecording(path, segments, others, unread)
        if time_text is None:
            return recording
        try:
            resolve_time(time_text, recording)
        except RecordingError as error:
            first_error = first_error or error
            continue
        return recording
    assert first_error is not None
    raise first_error


def _starts(segments: Sequence[OpenSegment]) -> Iterator[Sequence[OpenSegment]]:
    """The segments of each start of the recording machine, the newest start first, each in the
    order of its clock."""
    by_boot: dict[str, list[OpenSegment]] = {}
    for segment in segments:
        boot = segment.header.boot_id or segment.name
        by_boot.setdefault(boot, []).append(segment)
    for found in reversed(by_boot.values()):
        yield sorted(found, key=lambda segment: segment.header.monotonic)


def _start_text(segments: Sequence[OpenSegment]) -> str:
    begin = local_text(segments[0].header.wall)
    return begin or segments[0].name
