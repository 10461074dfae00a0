"""Where in a recording is what: key frames, hosts and marks.

`read_index` takes it from the end of a file that was closed; `scan` makes it again from the headers of the frames, for
one that was cut or is still being written, and goes on where an earlier scan ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from nictop.recording.file.entries import parse_table
from nictop.recording.file.frames import (
    HEADER,
    HEADER_SIZE,
    INDEX,
    KEY,
    SYNC,
    TRAILER_SIZE,
    Damaged,
    FrameHeader,
    parse_header,
    parse_trailer,
    unpack,
)
from nictop.wire.codec import LineError, decode

SEARCH = 1 << 20
"""Bytes that are looked through at once for the next frame behind damage."""
FARTHEST = 256 * 1024 * 1024
"""Bytes behind which no frame is looked for any more: a sparse file has no end."""
LARGEST_INDEX = 8 * 1024 * 1024
"""Bytes; sixteen hosts for two months. A file with more is scanned."""
MOST_MARKS = 20_000
LONGEST_NAME, LONGEST_ID = 4096, 200
"""Bytes of the name of a host, characters of the id of a mark."""
MARKED = ("started", "exit", "failed")
"""Kinds of `TrafficLine` that are marks."""


@dataclass(frozen=True)
class Mark:
    """Something about a traffic run happened at a host."""

    time: float
    """Seconds, CLOCK_MONOTONIC of the recording machine."""
    host: str
    id: str
    """Of the generator."""
    kind: str
    """One of `MARKED`."""


@dataclass(frozen=True)
class KeyFrame:
    """Where reading of a host may begin."""

    host: int
    time: float
    offset: int
    """Bytes from the start of the file."""


@dataclass
class Index:
    """What is known of a file. `offset`: where the next frame begins, after all that are counted here."""

    offset: int
    hosts: dict[int, str] = field(default_factory=dict)
    keys: list[KeyFrame] = field(default_factory=list)
    """In the order of the file, which is that of time for each host."""
    marks: list[Mark] = field(default_factory=list)
    begin: float | None = None
    end: float | None = None
    """Times of the first and the last item; None: there is none."""
    damages: int = 0
    """Places where something cannot be read."""
    closed: bool = False
    """The recorder has ended the file."""

    def extend(self, header: FrameHeader) -> None:
        """Its items are in the file."""
        self.begin = header.time if self.begin is None else min(self.begin, header.time)
        self.end = header.end if self.end is None else max(self.end, header.end)


class _Stored(msgspec.Struct):
    """An index as it stands in its frame."""

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
    """The index of a file of `size` bytes that was closed; None: it has none that is sound."""
    offset = parse_trailer(os.pread(descriptor, TRAILER_SIZE, max(0, size - TRAILER_SIZE)))
    header = None if offset is None or offset >= size else read_header(descriptor, offset)
    if offset is None or header is None or header.kind != INDEX or header.plain > LARGEST_INDEX:
        return None
    if offset + header.size + TRAILER_SIZE != size:
        return None
    try:
        stored = _decoder.decode(read_payload(descriptor, offset, header))
    except (Damaged, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if any(not 0 <= key[2] < offset for key in stored.keys) or len(stored.marks) > MOST_MARKS:
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
    """The header of the frame at `offset`; None: there is no whole, sound one."""
    return parse_header(os.pread(descriptor, HEADER_SIZE, offset))


def read_payload(descriptor: int, offset: int, header: FrameHeader) -> bytes:
    """What is in the frame at `offset`. Raises Damaged."""
    return unpack(header, os.pread(descriptor, header.length, offset + HEADER_SIZE))


def frames(
    descriptor: int, offset: int, size: int, header_at: Callable[[int], FrameHeader | None]
) -> Iterator[tuple[int, FrameHeader | None]]:
    """Every whole frame from `offset` on, with its offset; None for a header: from here to the next frame the file is
    damaged. Ends where no whole frame follows within `size` bytes."""
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
    """Where the next sound header is; None: not within reach."""
    size = min(size, offset + FARTHEST)
    while offset < size:
        part = os.pread(descriptor, SEARCH, offset)
        place = part.find(SYNC)
        while place >= 0:
            header = header_at(offset + place)
            if header is not None and offset + place + header.size <= size:
                return offset + place
            place = part.find(SYNC, place + 1)
        if len(part) < SEARCH:
            return None
        offset += len(part) - len(SYNC) + 1
    return None


def scan(index: Index, descriptor: int, size: int) -> None:
    """Add to `index` what stands behind `index.offset`, up to the last whole frame within `size` bytes."""
    for offset, header in frames(descriptor, index.offset, size, lambda place: read_header(descriptor, place)):
        if header is None:
            index.damages += 1
            continue
        index.offset = offset + header.size
        if header.kind in (HEADER, INDEX):
            index.closed = header.kind == INDEX
            if index.closed:
                index.offset = offset
                return
            continue
        _note(index, descriptor, offset, header)


def _note(index: Index, descriptor: int, offset: int, header: FrameHeader) -> None:
    """One frame of a host."""
    try:
        if header.kind == KEY:
            if header.host not in index.hosts:
                index.hosts[header.host] = _host_name(read_payload(descriptor, offset, header))
            index.keys.append(KeyFrame(header.host, header.time, offset))
        if header.has_marks and len(index.marks) < MOST_MARKS:
            name = index.hosts.get(header.host, "")
            index.marks += marks_of(read_payload(descriptor, offset, header), header.time, name)
    except Damaged:
        index.damages += 1
        return
    index.extend(header)


def _host_name(plain: bytes) -> str:
    for _, kind, text in _plain_texts(plain):
        if kind == "host" and len(text) <= LONGEST_NAME:
            return text.decode(errors="replace")
    raise Damaged("a key frame without a host")


def marks_of(plain: bytes, first: float, host: str) -> list[Mark]:
    """Marks in the payload of a frame that begins at `first`. Raises Damaged."""
    found = []
    for after, kind, text in _plain_texts(plain):
        mark = mark_of(text, first + after, host) if kind == "line" else None
        if mark is not None:
            found.append(mark)
    return found


def mark_of(text: bytes, time: float, host: str) -> Mark | None:
    """The mark that a line of the probe is; None: it is none."""
    if not text.startswith(b'{"traffic"'):
        return None
    try:
        traffic = decode(text).traffic
    except LineError:
        return None
    return (
        Mark(time, host, traffic.id[:LONGEST_ID], traffic.kind)
        if traffic is not None and traffic.kind in MARKED
        else None
    )


def _plain_texts(plain: bytes) -> Iterator[tuple[float, str, bytes]]:
    """Entries that no template tells: seconds after the first, kind, text."""
    table, offset = parse_table(plain)
    for row in table:
        if not row.told:
            yield row.after / 1e6, row.kind, plain[offset : offset + row.size]
            offset += row.size
