"""Small kernel files that are read in every pass, through descriptors that stay open, up to a
limit.

Reading a sysfs file through an open descriptor costs a tenth of open, read and close. It also never
reads another object: when its interrupt or thread is gone the read fails with ENODEV or ESRCH, even
if the number is in use again.
"""

from __future__ import annotations

import errno
import os

VANISHED_ERRNOS = (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ESRCH)
"""errno of a read when the object behind the file is gone."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
"""Bytes: maximum length of a sysfs file."""


class OpenFileCache:
    """Reads files by path and leaves at most `limit` of them open; default: half of
    RLIMIT_NOFILE."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = max(os.sysconf("SC_OPEN_MAX"), 0) // 2 if limit is None else limit
        self._descriptors: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._descriptors)

    def make_room(self, files: int) -> None:
        """Leave as many files open, if the hard limit of RLIMIT_NOFILE allows it: the soft one is
        1024 in most sessions, and opening a file costs more than reading it."""
        if files <= self._limit:
            return
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 2 * files if hard == resource.RLIM_INFINITY else min(2 * files, hard)
        if wanted > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        self._limit = max(self._limit, max(soft, wanted) // 2)

    def read(self, path: str, size: int = PAGE_BYTES) -> bytes:
        """The file from its start, at most `size` bytes. Raises OSError, then the descriptor is
        closed."""
        descriptor = self._descriptors.get(path)
        if descriptor is not None:
            try:
                return os.pread(descriptor, size, 0)
            except OSError:
                self.drop(path)
                raise
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        keep = False
        try:
            content = os.pread(descriptor, size, 0)
            keep = len(self._descriptors) < self._limit
        finally:
            if keep:
                self._descriptors[path] = descriptor
            else:
                os.close(descriptor)
        return content

    def drop(self, path: str) -> None:
        """Close the file at `path`, if it is open."""
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Close all files; the next `read` of each opens it again."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])
