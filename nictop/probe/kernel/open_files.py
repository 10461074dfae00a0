"""Small kernel files that are read at every pass: through descriptors that stay open, as far as there is room for them.

Reading a sysfs file through a kept descriptor costs a tenth of opening it anew. A kept descriptor also never means
something else: when its interrupt or thread is gone it answers ENODEV or ESRCH, whatever has taken the number since.
"""

from __future__ import annotations

import errno
import os

VANISHED = (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ESRCH)
"""What the kernel answers when the thing behind a file is gone."""
PAGE = os.sysconf("SC_PAGE_SIZE")
"""Bytes: sysfs files are never longer."""


class OpenFileCache:
    """Reads files by path, and keeps at most `limit` of them open: default half of what the process may open."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = max(os.sysconf("SC_OPEN_MAX"), 0) // 2 if limit is None else limit
        self._descriptors: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._descriptors)

    def read(self, path: str) -> bytes:
        """The file from its beginning, at most `PAGE` bytes. Raises OSError; what has vanished is not kept."""
        descriptor = self._descriptors.get(path)
        if descriptor is not None:
            try:
                return os.pread(descriptor, PAGE, 0)
            except OSError:
                self.drop(path)
                raise
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        keep = False
        try:
            content = os.pread(descriptor, PAGE, 0)
            keep = len(self._descriptors) < self._limit
        finally:
            if keep:
                self._descriptors[path] = descriptor
            else:
                os.close(descriptor)
        return content

    def drop(self, path: str) -> None:
        """Close one file, if it is open."""
        descriptor = self._descriptors.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Close them all; the next `read` of each opens it anew."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])
