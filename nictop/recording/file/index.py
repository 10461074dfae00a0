"""The index of a recording: offsets of key frames, hosts and marks.

`read_index` reads it from the end of a file that was closed; `scan` rebuilds it from the frame headers of a file that
was truncated or is still being written, and continues where an earlier scan ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from nictop.probe.records import Line
from nictop.recording.file.entries import parse_table
from nictop.recording.file.frames import (
    HEADER_FRAME,
    HEADER_SIZE,
    INDEX_FRAME,
    KEY_FRAME,
    SYNC_MARKER,
    TRAILER_SIZE,
    Damaged,
    FrameHeader,
    parse_header,
    parse_trailer,
    unpack_payload,
)
from nictop.recording.file.run_note import MARKED_NOTES, RunNote, decode_run_note
from nictop.wire.codec import LineError, decode

SEARCH_BLOCK_BYTES = 1 << 20
"""Bytes that are searched at once for the next valid frame after damage."""
MAX_SEARCH_BYTES = 256 * 1024 * 1024
"""Bytes after which the search for a valid frame ends: a sparse file may be almost unlimited."""
MAX_INDEX_BYTES = 8 * 1024 * 1024
"""Bytes: enough for sixteen hosts and two months. A file with a larger index is scanned."""
MAX_MARKS = 20_000
MAX_HOST_NAME_BYTES, MAX_MARK_ID_CHARS = 4096, 200
"""Bytes of the name of a host; characters of the ID of a mark."""
MARK_KINDS = ("started", "exit", "failed")
"""Kinds of `TrafficLine` that are stored as marks."""


@dataclass(frozen=True)
class Mark:
    """An event of a traffic run on a host."""

    time: float
    """Seconds, CLOCK_MONOTONIC of the recording machine."""
    host: str
    id: str
    """ID of the generator, or of the test for a note."""
    kind: str
    """One of `MARK_KINDS`, or of the kinds of notes."""


@dataclass(frozen=True)
class KeyFrame:
    """A position at which reading of a host can begin."""

    host: int
    time: float
    offset: int
    """Bytes from the start of the file."""


@dataclass
class Index:
    """Contents of a file up to `offset`, where the next frame begins."""

    offset: int
    hosts: dict[int, str] = field(default_factory=dict)
    keys: list[KeyFrame] = field(default_factory=list)
    """In the order of the file, which is the order of time for each host."""
    marks: list[Mark] = field(default_factory=list)
    begin: float | None = None
    end: float | None = None
    """Times of the first and the last item; None: there is no item."""
    damage_count: int = 0
    """Number of places that cannot be read."""
    closed: bool = False
    """The recorder ended the file."""

    def extend(self, begin: float, end: float) -> None:
        """Extend `begin` and `end` by the times of a frame."""
        self.begin = begin if self.begin is None else min(self.begin, begin)
        self.end = end if self.end is None else max(self.end, end)


class _Stored(msgspec.Struct):
    """The index as stored in its frame (JSON)."""

    hosts: dict[int, str]
    keys: list[tuple[int, float, int]]
    marks: list[tuple[float, str, str, str]]
    begin: float | None
    end: float | None


_decoder = msgspec.json.Decoder(_Stored)


def encode_index(index: Index) -> bytes:
    """Payload of the index frame."""
    stored = _Stored(
        index.hosts,
        [(key.host, key.time, key.offset) for key in index.keys],
        [(mark.time, mark.host, mark.id, mark.kind) for mark in index.marks],
        index.begin,
        index.end,
    )
    return msgspec.json.encode(stored)


def read_index(descriptor: int, size: int) -> Index | None:
    """The index of a closed file of `size` bytes; None: there is no valid one."""
    offset = parse_trailer(os.pread(descriptor, TRAILER_SIZE, max(0, size - TRAILER_SIZE)))
    header = None if offset is None or offset >= size else read_header(descriptor, offset)
    if offset is None or header is None or header.kind != INDEX_FRAME or header.plain > MAX_INDEX_BYTES:
        return None
    if offset + header.size + TRAILER_SIZE != size:
        return None
    try:
        stored = _decoder.decode(read_payload(descriptor, offset, header))
    except (Damaged, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if any(not 0 <= key[2] < offset for key in stored.keys) or len(stored.marks) > MAX_MARKS:
        return None
    return Index(
        offset,
        stored.hosts,
        [KeyFrame(*key) for key in stored.keys],
        [Mark(*mark) for mark in stored.marks],
        stored.begin,
        stored.end,
        closed=True,
    )


def read_header(descriptor: int, offset: int) -> FrameHeader | None:
    """The header of the frame at `offset`; None: there is no complete and valid one."""
    return parse_header(os.pread(descriptor, HEADER_SIZE, offset))


def read_payload(descriptor: int, offset: int, header: FrameHeader) -> bytes:
    """The unpacked payload of the frame at `offset`. Raises Damaged."""
    return unpack_payload(header, os.pread(descriptor, header.length, offset + HEADER_SIZE))


def iter_frames(
    descriptor: int, offset: int, size: int, header_at: Callable[[int], FrameHeader | None]
) -> Iterator[tuple[int, FrameHeader | None]]:
    """(offset, header) of every complete frame from `offset` on; a header of None: the file is damaged from there to
    the next frame. Ends when no complete frame follows within `size` bytes."""
    while offset < size:
        header = header_at(offset)
        if header is None:
            if size - offset < HEADER_SIZE:
                return
            found = _next_frame(descriptor, offset + 1, size, header_at)
            if found is None:
                return
            yield offset, None
            offset = found
            continue
        if offset + header.size > size:
            return
        yield offset, header
        offset += header.size


def _next_frame(descriptor: int, offset: int, size: int, header_at: Callable[[int], FrameHeader | None]) -> int | None:
    """Offset of the next valid frame; None: there is none within `MAX_SEARCH_BYTES` bytes."""
    size = min(size, offset + MAX_SEARCH_BYTES)
    while offset < size:
        part = os.pread(descriptor, SEARCH_BLOCK_BYTES, offset)
        position = part.find(SYNC_MARKER)
        while position >= 0:
            header = header_at(offset + position)
            if header is not None and offset + position + header.size <= size:
                return offset + position
            position = part.find(SYNC_MARKER, position + 1)
        if len(part) < SEARCH_BLOCK_BYTES:
            return None
        offset += len(part) - len(SYNC_MARKER) + 1
    return None


def scan(index: Index, descriptor: int, size: int) -> None:
    """Add the frames after `index.offset` to `index`, up to the last complete frame within `size` bytes."""
    for offset, header in iter_frames(
        descriptor, index.offset, size, lambda position: read_header(descriptor, position)
    ):
        if header is None:
            index.damage_count += 1
            continue
        index.offset = offset + header.size
        if header.kind in (HEADER_FRAME, INDEX_FRAME):
            index.closed = header.kind == INDEX_FRAME
            if index.closed:
                index.offset = offset
                return
            continue
        _add_frame(index, descriptor, offset, header)


def _add_frame(index: Index, descriptor: int, offset: int, header: FrameHeader) -> None:
    """Add one frame of a host to the index."""
    try:
        if header.kind == KEY_FRAME:
            if header.host not in index.hosts:
                index.hosts[header.host] = _host_name(read_payload(descriptor, offset, header))
            index.keys.append(KeyFrame(header.host, header.time, offset))
        if header.has_marks and len(index.marks) < MAX_MARKS:
            name = index.hosts.get(header.host, "")
            index.marks += marks_of(read_payload(descriptor, offset, header), header.time, name)
    except Damaged:
        index.damage_count += 1
        return
    index.extend(header.time, header.end)


def _host_name(plain: bytes) -> str:
    for _, kind, text in _untemplated_entries(plain):
        if kind == "host" and len(text) <= MAX_HOST_NAME_BYTES:
            return text.decode(errors="replace")
    raise Damaged("key frame without a host")


def marks_of(plain: bytes, first: float, host: str) -> list[Mark]:
    """Marks in the payload of a frame that begins at `first`. Raises Damaged."""
    found = []
    for after, kind, text in _untemplated_entries(plain):
        mark = mark_of(kind, text, first + after, host)
        if mark is not None:
            found.append(mark)
    return found


def mark_of(kind: str, text: bytes, time: float, host: str) -> Mark | None:
    """The mark for an entry; None: it is not a mark."""
    try:
        if kind == "line" and text.startswith(b'{"traffic"'):
            return line_mark(decode(text), time, host)
        note = decode_run_note(text) if kind == "request" else None
    except (LineError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if note is None else note_mark(note, time, host)


def line_mark(line: Line, time: float, host: str) -> Mark | None:
    """The mark for a line of the probe; None: it is not one."""
    traffic = line.traffic
    if traffic is None or traffic.kind not in MARK_KINDS:
        return None
    return Mark(time, host, traffic.id[:MAX_MARK_ID_CHARS], traffic.kind)


def note_mark(note: RunNote, time: float, host: str) -> Mark | None:
    """The mark for a note about a test; None: it is not one."""
    return Mark(time, host, note.run[:MAX_MARK_ID_CHARS], note.kind) if note.kind in MARKED_NOTES else None


def _untemplated_entries(plain: bytes) -> Iterator[tuple[float, str, bytes]]:
    """(seconds after the first entry, kind, text) of the entries that are not stored by a template."""
    table, offset = parse_table(plain)
    for row in table:
        if not row.is_templated:
            yield row.after / 1e6, row.kind, plain[offset : offset + row.size]
            offset += row.size
