"""The last minutes of hosts in memory, as the recording that was not made.

Segments as those of a directory (`nictop.recording.keep`), in files without a name (memfd_create,
Linux 3.17), whose memory is freed with the program. Each begins with the whole state of every host.
`open_recent` reads what is there as one recording, which does not grow; `write_recent` makes a file
of it.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing, suppress
from time import monotonic

from nictop.probe.light_dataclasses import dataclass
from nictop.recording.file.frame_file import FrameFile
from nictop.recording.file.frames import (
    INDEX_FRAME,
    EmptyRecording,
    RecordingError,
    encode_trailer,
    pack_frame,
)
from nictop.recording.file.header import read_recording_header
from nictop.recording.file.index import Index, encode_index, scan
from nictop.recording.file.open import create_file, delete_created
from nictop.recording.host_writer import KEY_FRAME_SECONDS
from nictop.recording.segments import OpenSegment, SegmentRecording
from nictop.wire.errors import sanitize

RECENT_SECONDS = 600.0
"""What is always there, once hosts were watched for so long; as much as charts show."""
SEGMENT_SECONDS = KEY_FRAME_SECONDS
"""A new segment when the whole state is written anyway: it costs nothing more."""
MAX_SEGMENTS = 4
"""The one that is being written, those of the time that is kept, and one that is partly too old."""
MAX_HOST_BYTES = 64 * 1024 * 1024
"""Of each host in all segments; a usual host takes 0.2 MB, one with 200 NICs 5 MB."""
COPY_BYTES = 1 << 20
NAME = "the last minutes"
"""Of the recording, where others have the name of a file."""


@dataclass(frozen=True)
class _Segment:
    """`descriptor` is the reader's own."""

    name: str
    descriptor: int
    began: float
    """Seconds, CLOCK_MONOTONIC."""


class RecentSegments:
    """`nictop.recording.writer.Segments` in memory: the recorder writes them in its thread, and
    `open_segments` may be called in any."""

    path = NAME
    host_bytes = MAX_HOST_BYTES // MAX_SEGMENTS

    def __init__(self, seconds: float = RECENT_SECONDS) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._segments: list[_Segment] = []
        self._made = 0

    def new_path(self) -> str:
        self._made += 1
        return f"{NAME}, part {self._made}"

    def create(self, path: str) -> int:
        try:
            descriptor = os.memfd_create("nictop", os.MFD_CLOEXEC)
            copy = os.dup(descriptor)
        except (AttributeError, OSError) as error:
            raise RecordingError(f"{NAME} are not kept: {error}") from None
        with self._lock:
            self._segments.append(_Segment(path, copy, monotonic()))
        return descriptor

    def is_full(self, seconds: float, size: int) -> bool:
        return seconds >= min(SEGMENT_SECONDS, self.seconds / 2)

    def is_removed(self, descriptor: int) -> bool:
        """It never had a name."""
        return False

    def delete_old(self, newest: str) -> None:
        """A segment ends where the next one begins."""
        oldest = monotonic() - self.seconds
        with self._lock:
            while len(self._segments) > 1 and self._segments[1].began <= oldest:
                os.close(self._segments.pop(0).descriptor)

    @property
    def began(self) -> float | None:
        """When the first segment was begun that is still there; None: nothing was deleted yet."""
        with self._lock:
            is_whole = len(self._segments) == self._made
            return None if is_whole else self._segments[0].began

    @property
    def size(self) -> int:
        """Bytes of memory."""
        with self._lock:
            return sum(os.fstat(segment.descriptor).st_size for segment in self._segments)

    def close(self) -> None:
        """What is being read stays readable."""
        with self._lock:
            while self._segments:
                os.close(self._segments.pop().descriptor)

    def open_segments(self) -> list[OpenSegment]:
        """With files of their own. Raises OSError, RecordingError."""
        found: list[OpenSegment] = []
        with self._lock:
            for segment in self._segments:
                file = FrameFile(os.dup(segment.descriptor))
                header, first = read_recording_header(NAME, file)
                found.append(OpenSegment(segment.name, segment.name, file, header, first))
        return found


class RecentRecording(SegmentRecording):
    """What was there when it was opened."""

    @property
    def is_being_written(self) -> bool:
        return False

    @property
    def goes_on(self) -> bool:
        return True

    @property
    def memory_share(self) -> float:
        """As of live hosts: their limits were in force when it was received."""
        return 1.0


def open_recent(segments: RecentSegments) -> RecentRecording:
    """Raises RecordingError."""
    try:
        found = segments.open_segments()
    except OSError as error:
        raise RecordingError(f"{NAME} cannot be read: {error.strerror}") from None
    if not found:
        raise EmptyRecording(f"{NAME}: nothing was received yet")
    recording = RecentRecording(NAME, found, ())
    if not recording.hosts:
        recording.close()
        raise EmptyRecording(f"{NAME}: nothing was received yet")
    return recording


def write_recent(segments: RecentSegments, path: str) -> int:
    """Write them to a new file; the result is its size in bytes. Raises RecordingError; nothing is
    left of a file that cannot be written."""
    with closing(open_recent(segments)) as recording:
        descriptor = create_file(path)
        try:
            return _write(descriptor, recording)
        except OSError as error:
            with suppress(OSError):
                delete_created(path, descriptor)
            name, why = sanitize(path), error.strerror or error
            raise RecordingError(f"cannot write {name}: {why}") from None
        finally:
            os.close(descriptor)


def _write(descriptor: int, recording: RecentRecording) -> int:
    """The header of the first segment, the frames of all of them, and an index. The hosts have the
    same numbers in each, and their frames one sequence: one recorder has written them."""
    first = recording.parts[0].segment
    size = 0
    for number, part in enumerate(recording.parts):
        begin = 0 if number == 0 else part.segment.first
        end = part.segment.first + part.end - part.begin
        for place in range(begin, end, COPY_BYTES):
            data = part.segment.file.read(min(COPY_BYTES, end - place), place)
            size += _write_all(descriptor, data)
    index, file = Index(first.first), FrameFile(descriptor)
    scan(index, file, size)
    frame = pack_frame(INDEX_FRAME, encode_index(index))
    return size + _write_all(descriptor, frame + encode_trailer(size))


def _write_all(descriptor: int, data: bytes) -> int:
    """Its length. Raises OSError."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
    return len(data)
