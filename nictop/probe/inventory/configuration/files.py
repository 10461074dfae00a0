"""Configuration files, read with bounds: number, bytes, and nothing but regular files. `Files` is one such reading."""

from __future__ import annotations

import os
import stat

from nictop.probe.kernel.sysfs import printable, why_unreadable
from nictop.probe.records import Unreadable

MOST_FILES = 1000
MOST_BYTES = 8 * 1024 * 1024
LARGEST = 256 * 1024
"""Bytes of one file; a longer one is read up to here."""
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Without waiting: a pipe in a configuration directory would never give an answer."""


class Files:
    """What is read through one of these counts together; `unreadable` names paths."""

    def __init__(self) -> None:
        self.unreadable: dict[str, Unreadable] = {}
        self._files = 0
        self._bytes = 0

    def listed(self, directory: str, *endings: str) -> list[str]:
        """Paths of the files in a directory, by name; with `endings` those only. Empty when there is no directory."""
        try:
            names = sorted(os.listdir(directory))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.unreadable[printable(directory)] = why_unreadable(error, printable(directory))
            return []
        kept = [name for name in names if not name.startswith(".") and (not endings or name.endswith(endings))]
        return [os.path.join(directory, name) for name in kept]

    def text(self, path: str) -> str | None:
        """Contents; None when there is no such file, when it is not a regular one, or could not be read."""
        shown = printable(path)
        if self._files >= MOST_FILES or self._bytes >= MOST_BYTES:
            limit = f"more than {MOST_FILES} files or {MOST_BYTES} bytes"
            self.unreadable[shown] = Unreadable("failed", f"{shown}: {limit}")
            return None
        try:
            descriptor = os.open(path, FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            number = error if isinstance(error, OSError) else OSError(2, "no path")
            self.unreadable[shown] = why_unreadable(number, shown)
            return None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = os.read(descriptor, LARGEST)
        except OSError as error:
            self.unreadable[shown] = why_unreadable(error, shown)
            return None
        finally:
            os.close(descriptor)
        self._files += 1
        self._bytes += len(data)
        return data.decode("utf-8", "replace")
