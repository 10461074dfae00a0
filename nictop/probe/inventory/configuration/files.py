"""Reads configuration files with limits: their number, their bytes, and regular files only."""

from __future__ import annotations

import os

from nictop.probe.kernel.regular_files import read_regular
from nictop.probe.kernel.sysfs import printable_path, unreadable_from_error
from nictop.probe.records import Unreadable

MAX_CONFIGURATION_FILES = 1000
MAX_CONFIGURATION_BYTES = 8 * 1024 * 1024
MAX_CONFIGURATION_FILE_BYTES = 256 * 1024
"""Bytes of one file; a longer one is truncated."""


class Files:
    """The limits apply to all files that are read by one object; `unreadable` has failures by
    path."""

    def __init__(self) -> None:
        self.unreadable: dict[str, Unreadable] = {}
        self.modified: dict[str, float] = {}
        """Path as printed → time of the last change, seconds since the epoch."""
        self._files = 0
        self._bytes = 0

    def listed(self, directory: str, *suffixes: str) -> list[str]:
        """Paths of the files in a directory, sorted, with one of `suffixes` if given; empty without
        the directory."""
        try:
            names = sorted(os.listdir(directory))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.unreadable[printable_path(directory)] = unreadable_from_error(
                error, printable_path(directory)
            )
            return []
        selected = [
            name
            for name in names
            if not name.startswith(".") and (not suffixes or name.endswith(suffixes))
        ]
        return [os.path.join(directory, name) for name in selected]

    def text(self, path: str) -> str | None:
        """Contents; None when there is no such file, when it is not a regular file or could not be
        read."""
        shown = printable_path(path)
        if self._files >= MAX_CONFIGURATION_FILES or self._bytes >= MAX_CONFIGURATION_BYTES:
            limit = f"more than {MAX_CONFIGURATION_FILES} files or {MAX_CONFIGURATION_BYTES} bytes"
            self.unreadable[shown] = Unreadable("failed", f"{shown}: {limit}")
            return None
        try:
            found = read_regular(path, MAX_CONFIGURATION_FILE_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            failure = error if isinstance(error, OSError) else OSError(2, "no path")
            self.unreadable[shown] = unreadable_from_error(failure, shown)
            return None
        if found is None:
            return None
        data, status = found
        self.modified[shown] = status.st_mtime
        self._files += 1
        self._bytes += len(data)
        return data.decode("utf-8", "replace")
