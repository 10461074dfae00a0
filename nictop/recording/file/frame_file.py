"""The frames of an open file, one after the other, also behind damage; how much CPU time reading
them may take.

Every step of a search is short: a file of a few bytes on the disk may have holes of terabytes, or a
million frames.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import lru_cache

from nictop.recording.file.frames import (
    HEADER_SIZE,
    SYNC_MARKER,
    FrameHeader,
    RecordingError,
    parse_header,
    unpack_payload,
)

HEADER_CACHE_SIZE = 8192
"""Number of cached frame headers: all hosts of a playback read the same ones."""
SEARCH_BLOCK_BYTES = 1 << 20
"""Bytes that are searched at once for the next valid frame after damage."""
MAX_SEARCH_BYTES = 256 * 1024 * 1024
"""Bytes after which the search for a valid frame ends: a sparse file may be almost unlimited."""
MAX_FALSE_MARKERS = 1000
"""Beginnings of frames that are none, in one search; in other bytes there is one in 4 GiB."""
STEP_HEADERS = 256
"""Frames after which a caller may do something else."""

Step = tuple[int, FrameHeader | None] | None
"""(offset, header) of a frame; a header of None: the file is damaged from there to the next frame.
None: nothing was found yet."""


class ReadingTime:
    """CPU seconds that may still be spent on a recording; without a limit where reading is done in
    slices."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.thread_time() + seconds

    def check(self) -> None:
        """Raises RecordingError when they are spent."""
        if self._end is not None and time.thread_time() > self._end:
            raise RecordingError(
                f"reading the recording takes more than {self._seconds:g} s of CPU time",
                "it is damaged, or was made for that; --at TIME reads another part of it",
            )


class FrameFile:
    """An open file; `close` closes it."""

    def __init__(self, descriptor: int) -> None:
        self.reading_time = ReadingTime()
        self._descriptor = descriptor
        self._header_at = lru_cache(maxsize=HEADER_CACHE_SIZE)(self._read_header)
        self._searched = (0, 0)
        """From where to where there is no frame, as far as it was searched last."""

    @property
    def size(self) -> int:
        """Bytes. Raises OSError."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """May be called more than once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, size: int, offset: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def header(self, offset: int) -> FrameHeader | None:
        """The header of the frame at `offset`; None: there is no complete and valid one."""
        return self._header_at(offset)

    def _read_header(self, offset: int) -> FrameHeader | None:
        return parse_header(self.read(HEADER_SIZE, offset))

    def payload(self, offset: int, header: FrameHeader) -> bytes:
        """The unpacked payload of the frame at `offset`. Raises Damaged, and RecordingError when it
        takes too long."""
        self.reading_time.check()
        return unpack_payload(header, self.read(header.length, offset + HEADER_SIZE))

    def frames(self, offset: int, size: int) -> Iterator[Step]:
        """Every complete frame from `offset` on, up to the last one within `size` bytes."""
        count = 0
        while offset < size:
            count += 1
            if count % STEP_HEADERS == 0:
                self.reading_time.check()
                yield None
            header = self.header(offset)
            if header is not None:
                if offset + header.size > size:
                    return
                yield offset, header
                offset += header.size
                continue
            if size - offset < HEADER_SIZE:
                return
            damaged = offset
            for found in self._search(offset + 1, size):
                offset = found
                yield None
            if offset == damaged:
                return
            yield damaged, None

    def _search(self, offset: int, size: int) -> Iterator[int]:
        """The offset of the next valid frame, once; before that that of the damage, again and
        again."""
        begin, end = offset, min(size, offset + MAX_SEARCH_BYTES)
        if self._searched[0] == begin:
            offset = max(offset, self._searched[1] - HEADER_SIZE)
        self._searched = begin, offset
        false_markers = 0
        while offset < end and false_markers < MAX_FALSE_MARKERS:
            self.reading_time.check()
            part = self.read(SEARCH_BLOCK_BYTES, offset)
            position = part.find(SYNC_MARKER)
            while position >= 0 and false_markers < MAX_FALSE_MARKERS:
                header = self._read_header(offset + position)
                if header is not None and offset + position + header.size <= size:
                    yield offset + position
                    return
                false_markers += 1
                position = part.find(SYNC_MARKER, position + 1)
            if len(part) < SEARCH_BLOCK_BYTES:
                break
            offset += len(part) - len(SYNC_MARKER) + 1
            self._searched = begin, offset
            yield begin - 1
        self._searched = begin, end
