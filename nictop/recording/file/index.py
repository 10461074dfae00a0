"""The index of a recording: offsets of key frames, hosts and marks.

`read_index` reads it from the end of a file that was closed; `scan` rebuilds it from the frame
headers of a file that was truncated or is still being written, and continues where an earlier scan
ended.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from time import thread_time

import msgspec

from nictop.probe.light_dataclasses import dataclass, field
from nictop.probe.records import Line
from nictop.recording.file.entries import parse_table
from nictop.recording.file.frame_file import FrameFile
from nictop.recording.file.frames import (
    HEADER_FRAME,
    INDEX_FRAME,
    KEY_FRAME,
    MAX_TIME_SECONDS,
    TRAILER_SIZE,
    Damaged,
    FrameHeader,
    parse_trailer,
)
from nictop.recording.file.run_note import MARKED_NOTES, RunNote, decode_run_note
from nictop.wire.codec import LineError, decode

MAX_INDEX_BYTES = 8 * 1024 * 1024
"""Bytes: enough for sixteen hosts and two months. A file with a larger index is scanned."""
MAX_KEYS = 300_000
"""Key frames in an index: the same."""
KEYS_CHUNK_BYTES = 1 << 16
"""Bytes of key frames that are decoded at once: as objects they take ten times as much memory."""
MAX_RECORDED_HOSTS = 512
"""As many as can be watched; others in a recording are left out."""
MAX_MARKS = 20_000
MAX_MARK_BRACKETS = 2 * MAX_MARKS + 1
"""Opening brackets in them: names of hosts may have one, as IPv6 addresses."""
MAX_FALSE_FLAGS = 100
"""Frames without a mark that claim to have one, after which no such claim is believed."""
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


@dataclass
class KeyFrames:
    """The positions at which reading of a host can begin, in the order of the file."""

    times: array[float] = field(default_factory=lambda: array("d"))
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    """Bytes from the start of the file."""

    def newest(self, time: float) -> int | None:
        """Number of the last one up to `time`; None: all are later."""
        return next(
            (number for number in range(len(self.times) - 1, -1, -1) if self.times[number] <= time),
            None,
        )


@dataclass
class Index:
    """Contents of a file up to `offset`, where the next frame begins."""

    offset: int
    hosts: dict[int, str] = field(default_factory=dict)
    keys: dict[int, KeyFrames] = field(default_factory=dict)
    """Number of a host → its key frames."""
    marks: list[Mark] = field(default_factory=list)
    begin: float | None = None
    end: float | None = None
    """Times of the first and the last item; None: there is no item."""
    damage_count: int = 0
    """Number of places that cannot be read."""
    closed: bool = False
    """The recorder ended the file."""
    left_out: set[int] = field(default_factory=set)
    """Numbers of the hosts above `MAX_RECORDED_HOSTS`."""
    false_flags: int = 0
    """Frames without a mark that claim to have one."""

    @property
    def key_count(self) -> int:
        return sum(len(keys.times) for keys in self.keys.values())

    def add_key(self, host: int, time: float, offset: int) -> None:
        keys = self.keys.setdefault(host, KeyFrames())
        keys.times.append(time)
        keys.offsets.append(offset)

    def extend(self, begin: float, end: float) -> None:
        """Extend `begin` and `end` by the times of a frame."""
        self.begin = begin if self.begin is None else min(self.begin, begin)
        self.end = end if self.end is None else max(self.end, end)


_Key = tuple[int, float, int]
"""Number of the host, time, offset."""


class _Stored(msgspec.Struct):
    """The index as stored in its frame (JSON)."""

    hosts: dict[int, str]
    keys: msgspec.Raw
    marks: msgspec.Raw
    begin: float | None
    end: float | None


_decoder = msgspec.json.Decoder(_Stored)
_marks_decoder = msgspec.json.Decoder(list[tuple[float, str, str, str]])
_keys_decoder = msgspec.json.Decoder(list[_Key])


def encode_index(index: Index) -> bytes:
    """Payload of the index frame."""
    keys = [
        (host, time, offset)
        for host, known in index.keys.items()
        for time, offset in zip(known.times, known.offsets, strict=True)
    ]
    keys.sort(key=lambda key: key[2])
    stored = _Stored(
        index.hosts,
        msgspec.Raw(msgspec.json.encode(keys)),
        msgspec.Raw(
            msgspec.json.encode(
                [(mark.time, mark.host, mark.id, mark.kind) for mark in index.marks]
            )
        ),
        index.begin,
        index.end,
    )
    return msgspec.json.encode(stored)


def read_index(file: FrameFile, size: int) -> Index | None:
    """The index of a closed file of `size` bytes; None: there is no valid one."""
    offset = parse_trailer(file.read(TRAILER_SIZE, max(0, size - TRAILER_SIZE)))
    if offset is None or offset >= size:
        return None
    header = file.header(offset)
    if header is None or header.kind != INDEX_FRAME or header.plain > MAX_INDEX_BYTES:
        return None
    if offset + header.size + TRAILER_SIZE != size:
        return None
    try:
        return _decoded(file.payload(offset, header), offset)
    except (Damaged, msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError):
        return None


def _decoded(plain: bytes, offset: int) -> Index:
    """The index before `offset`. Raises Damaged, and errors of msgspec."""
    if plain.count(b'":"') > MAX_RECORDED_HOSTS:  # before each of them takes memory
        raise Damaged("too many hosts")
    stored = _decoder.decode(plain)
    if bytes(stored.marks).count(b"[") > MAX_MARK_BRACKETS:
        raise Damaged("too many marks")
    hosts, marks = stored.hosts, [Mark(*mark) for mark in _marks_decoder.decode(stored.marks)]
    if not all(map(_is_valid_host, hosts.items())):
        raise Damaged("invalid hosts")
    if not all(map(_is_valid_mark, marks)):
        raise Damaged("invalid marks")
    if not all(map(_is_valid_edge, (stored.begin, stored.end))):
        raise Damaged("invalid times")
    index = Index(offset, hosts, marks=marks, begin=stored.begin, end=stored.end, closed=True)
    for host, time, place in _decoded_keys(stored.keys):
        if not 0 <= place < offset or host not in hosts:
            raise Damaged("invalid key frames")
        index.add_key(host, time, place)
    return index


def _is_valid_host(host: tuple[int, str]) -> bool:
    number, name = host
    return 0 <= number < 1 << 16 and _is_name(name)


def _is_valid_edge(time: float | None) -> bool:
    """None: the file has no items."""
    return time is None or abs(time) < MAX_TIME_SECONDS


def _decoded_keys(raw: msgspec.Raw) -> Iterator[_Key]:
    """The key frames, decoded in parts."""
    text = bytes(raw)
    if text.count(b"[") > MAX_KEYS + 1:
        raise Damaged("too many key frames")
    begin = text.find(b"[") + 1
    while 0 < begin < len(text):
        end = text.find(b"],[", begin + KEYS_CHUNK_BYTES)
        if end < 0:
            yield from _keys_decoder.decode(b"[" + text[begin:])
            return
        yield from _keys_decoder.decode(b"[" + text[begin : end + 1] + b"]")
        begin = end + 2


def _is_name(name: str) -> bool:
    return len(name) <= MAX_HOST_NAME_BYTES


def _is_valid_mark(mark: Mark) -> bool:
    is_short = len(mark.id) <= MAX_MARK_ID_CHARS and _is_name(mark.host)
    return (
        is_short and mark.kind in (*MARK_KINDS, *MARKED_NOTES) and abs(mark.time) < MAX_TIME_SECONDS
    )


def scan(index: Index, file: FrameFile, size: int, seconds: float = math.inf) -> None:
    """Add the frames after `index.offset` to `index`, up to the last complete frame within `size`
    bytes, or until that took so many CPU seconds of this thread and a host is known."""
    end = thread_time() + seconds
    for step in file.frames(index.offset, size):
        if thread_time() > end and index.hosts:
            return
        if step is None:
            continue
        offset, header = step
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
        _add_frame(index, file, offset, header)


def _add_frame(index: Index, file: FrameFile, offset: int, header: FrameHeader) -> None:
    """Add one frame of a host to the index."""
    try:
        if header.kind == KEY_FRAME and not _add_key_frame(index, file, offset, header):
            return
        if (
            header.has_marks
            and len(index.marks) < MAX_MARKS
            and index.false_flags < MAX_FALSE_FLAGS
        ):
            name = index.hosts.get(header.host, "")
            marks = marks_of(file.payload(offset, header), header.time, name)
            index.false_flags += not marks
            index.marks += marks[: MAX_MARKS - len(index.marks)]
    except Damaged:
        index.damage_count += 1
        return
    index.extend(header.time, header.end)


def _add_key_frame(index: Index, file: FrameFile, offset: int, header: FrameHeader) -> bool:
    """False: its host is one too many. Raises Damaged."""
    if header.host not in index.hosts:
        if len(index.hosts) >= MAX_RECORDED_HOSTS:
            index.left_out.add(header.host)
            return False
        index.hosts[header.host] = _host_name(file.payload(offset, header))
    index.add_key(header.host, header.time, offset)
    return True


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
    """The mark for a note about a test, at the time that it is about; None: it is not one."""
    if note.kind not in MARKED_NOTES:
        return None
    if note.began is not None:
        time = min(time, note.began)
    return Mark(time, host, note.run[:MAX_MARK_ID_CHARS], note.kind)


def _untemplated_entries(plain: bytes) -> Iterator[tuple[float, str, bytes]]:
    """(seconds after the first entry, kind, text) of the entries that are not stored by a
    template."""
    table, offset = parse_table(plain)
    for row in table:
        if not row.is_templated:
            yield row.after / 1e6, row.kind, plain[offset : offset + row.size]
            offset += row.size
