"""A directory with the newest part of a recording that never ends: segments, of which the oldest
are deleted.

Each segment is a whole recording (`nictop.recording.writer`); `nictop.recording.segments` reads
them as one. Only files whose names `segment_name` makes are ever deleted, and only in the directory
that was opened at the start: its path may lead somewhere else later, if another user may write in a
directory above it.
"""

from __future__ import annotations

import calendar
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import suppress

from nictop.probe.light_dataclasses import dataclass
from nictop.recording.file.frames import RecordingError
from nictop.recording.file.open import create_file, is_deleted
from nictop.wire.errors import sanitize

DIRECTORY_MODE = 0o700
OWN_DIRECTORY_HINT = "choose a directory of your own; --keep makes one that does not exist"
ROOT = 0
"""User number of root, who can replace any file."""
SEGMENTS_OF_TIME, SEGMENTS_OF_SIZE = 24, 16
"""Into so many parts the time and the size that are kept are divided: so much more is kept, or so
much less."""
MIN_SEGMENT_SECONDS, MAX_SEGMENT_SECONDS = 60.0, 3600.0
MIN_SEGMENT_BYTES = 256 * 1024
STAMP_FORMAT = "%Y%m%dT%H%M%SZ"
MAX_SEGMENT_NUMBER = 9999
SEGMENT_NAME = re.compile(r"nictop-([0-9]{8}T[0-9]{6}Z)-([0-9]{4})\.nictop")


@dataclass(frozen=True)
class Keep:
    """How much is kept; one of both is not None."""

    seconds: float | None = None
    bytes: int | None = None
    """Of all segments together, about: what a segment is larger than its share is not foreseen."""

    @property
    def segment_seconds(self) -> float:
        if self.seconds is None:
            return MAX_SEGMENT_SECONDS
        part = self.seconds / SEGMENTS_OF_TIME
        return min(max(part, MIN_SEGMENT_SECONDS), MAX_SEGMENT_SECONDS)

    @property
    def segment_bytes(self) -> int | None:
        if self.bytes is None:
            return None
        return max(self.bytes // SEGMENTS_OF_SIZE, MIN_SEGMENT_BYTES)


@dataclass(frozen=True)
class Segment:
    """A file of the directory."""

    name: str
    size: int
    changed: float
    """When something was written to it: seconds since the epoch."""


def segment_name(stamp: str, number: int) -> str:
    """``nictop-20261129T031200Z-0000.nictop``: sorted by name they are sorted by time."""
    return f"nictop-{stamp}-{number:04}.nictop"


def _stamp(wall: float) -> str:
    """``20261129T031200Z``"""
    try:
        return time.strftime(STAMP_FORMAT, time.gmtime(wall))
    except (ValueError, OverflowError, OSError):  # a clock that is far beyond any date
        return "00000000T000000Z"


def _following_stamp(stamp: str) -> str:
    """That of one second later."""
    try:
        return _stamp(calendar.timegm(time.strptime(stamp, STAMP_FORMAT)) + 1)
    except ValueError:
        return _stamp(time.time())


def segments_in(path: str | int) -> Iterator[Segment]:
    """The segments of a directory (its path or descriptor), in any order. Raises OSError."""
    with os.scandir(path) as entries:
        for entry in entries:
            if SEGMENT_NAME.fullmatch(entry.name) is None:
                continue
            with suppress(FileNotFoundError):  # deleted meanwhile
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    yield Segment(entry.name, found.st_size, found.st_mtime)


def has_segments(path: str) -> bool:
    """It is a directory with at least one."""
    try:
        return any(segments_in(path))
    except OSError:
        return False


class KeptDirectory:
    """The directory of one recorder (`nictop.recording.writer.Segments`); locked against a second
    one until `close`."""

    host_bytes: int | None = None

    def __init__(self, path: str, keep: Keep) -> None:
        """Makes the directory if there is none. Raises RecordingError."""
        self.path, self.keep = path, keep
        self._newest = ""
        """Name of the newest segment."""
        self._written: dict[str, float] = {}
        """Name of a segment → CLOCK_BOOTTIME at which it was last written to."""
        self._descriptor = _open_directory(path)

    def close(self) -> None:
        """May be called more than once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def new_path(self) -> str:
        """Of the next segment. A name that was deleted is not used again within its second: the
        order of names is that of times, also after the time of day was set back. Raises
        RecordingError."""
        used = [self._newest]
        try:
            used += [segment.name for segment in segments_in(self._descriptor)]
        except OSError as error:
            raise RecordingError(f"cannot read {sanitize(self.path)}: {error.strerror}") from None
        matches = [match for name in used if (match := SEGMENT_NAME.fullmatch(name)) is not None]
        stamp = max([_stamp(time.time()), *(match[1] for match in matches)])
        number = max([int(match[2]) for match in matches if match[1] == stamp], default=-1) + 1
        if number > MAX_SEGMENT_NUMBER:
            stamp, number = _following_stamp(stamp), 0
        self._newest = segment_name(stamp, number)
        return os.path.join(self.path, self._newest)

    def create(self, path: str) -> int:
        return create_file(path, directory=self._descriptor)

    def is_removed(self, descriptor: int) -> bool:
        return is_deleted(descriptor)

    def is_full(self, seconds: float, size: int) -> bool:
        limit = self.keep.segment_bytes
        return seconds >= self.keep.segment_seconds or (limit is not None and size >= limit)

    def delete_old(self, newest: str) -> None:
        found = [
            one for one in segments_in(self._descriptor) if one.name != os.path.basename(newest)
        ]
        found.sort(key=lambda segment: segment.name)
        for segment in (*self._too_old(found), *self._too_many(found)):
            with suppress(FileNotFoundError):
                os.unlink(segment.name, dir_fd=self._descriptor)

    def _too_old(self, segments: list[Segment]) -> list[Segment]:
        if self.keep.seconds is None:
            return []
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        # The time of day may be set forwards: the files are not older for it.
        wall = time.time()
        self._written = {
            one.name: self._written.get(one.name, now - (wall - one.changed)) for one in segments
        }
        oldest = now - self.keep.seconds
        return [segment for segment in segments if self._written[segment.name] < oldest]

    def _too_many(self, segments: list[Segment]) -> list[Segment]:
        """The oldest ones, so that the newest and the one that is being written are not larger
        together than what is kept."""
        if self.keep.bytes is None:
            return []
        left = self.keep.bytes - (self.keep.segment_bytes or 0)
        for number in range(len(segments) - 1, -1, -1):
            left -= segments[number].size
            if left < 0:
                return segments[: number + 1]
        return []


def is_being_written(path: str) -> bool:
    """A recorder writes to this directory."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def _open_directory(path: str) -> int:
    name = sanitize(path)
    try:
        with suppress(FileExistsError):
            os.mkdir(path, DIRECTORY_MODE)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except ValueError:  # a null byte
        raise RecordingError(f"{name} is not a valid name of a directory") from None
    except NotADirectoryError:
        raise RecordingError(
            f"{name} is not a directory", "--keep records to a directory; without it: to a file"
        ) from None
    except OSError as error:
        raise RecordingError(f"cannot use {name}: {error.strerror}") from None
    try:
        _check_owner(name, os.fstat(descriptor))
    except RecordingError:
        os.close(descriptor)
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RecordingError(
            f"another nictop records to {name}", "choose another directory"
        ) from None
    except OSError:  # a file system without locks: two recorders do no harm but to the limit
        pass
    return descriptor


def _check_owner(name: str, found: os.stat_result) -> None:
    """Raises RecordingError for a directory in which another user may replace the files."""
    if found.st_uid not in (os.geteuid(), ROOT):
        raise RecordingError(
            f"{name} belongs to another user, who could replace what is recorded",
            OWN_DIRECTORY_HINT,
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise RecordingError(
            f"other users may write in {name}, and could replace what is recorded",
            OWN_DIRECTORY_HINT,
        )
