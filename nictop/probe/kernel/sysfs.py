"""Small kernel files (/sys, /proc), read so that what cannot be read is data.

Yields text and integers or `Unreadable`. `Folder` reads many files of one directory and remembers what failed, under
the field that wanted it; a file that is not there is None without complaint, because sysfs shows only what exists.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from nictop.probe.kernel import errno_reasons as reasons
from nictop.probe.records import Unreadable

LARGEST = 64 * 1024
"""Bytes: sysfs files end at one page, the files of /proc read here at a few."""


def why_unreadable(error: OSError, where: str = "") -> Unreadable:
    """The reason behind a failed system call, in the words of `Unreadable`; `where` names the file or request."""
    number = error.errno or 0
    detail = f"{where}: {reasons.name(number)}" if where else reasons.name(number)
    reason: Any = reasons.REASONS.get(number, "failed")
    return Unreadable(reason, detail)


def read_text(path: str, limit: int = LARGEST) -> str | Unreadable:
    """Contents of a small file without blanks at its end; bytes that are not UTF-8 become U+FFFD."""
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read(limit)
    except OSError as error:
        return why_unreadable(error, printable(path))
    return (data or b"").decode("utf-8", "replace").rstrip(" \t\r\n\0")


def parse_integer(text: str, base: int = 10) -> int | None:
    """``42``, ``-1`` or, with base 16, ``0x8086``; None when it is anything else."""
    try:
        return int(text, base) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def printable(path: str) -> str:
    """A path whose bytes are not UTF-8, as text that every encoder takes."""
    return os.fsencode(path).decode("utf-8", "replace")


class Folder:
    """Reads files of one sysfs directory; `unreadable` collects field → reason."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.unreadable: dict[str, Unreadable] = {}

    def text(self, field: str, name: str) -> str | None:
        """Contents of a file; None when there is no such file, when it is empty or when it could not be read."""
        content = read_text(os.path.join(self.path, name))
        if isinstance(content, str):
            return content or None
        if content.reason != "missing":
            self.unreadable[field] = content
        return None

    def integer(self, field: str, name: str, base: int = 10) -> int | None:
        """A number; text that is none is noted as malformed."""
        content = self.text(field, name)
        if content is None:
            return None
        value = parse_integer(content, base)
        if value is None:
            self.malformed(field, name, content)
        return value

    def link(self, field: str, name: str) -> str | None:
        """Last part of what a symbolic link points to; None when there is no such link."""
        try:
            return printable(os.path.basename(os.readlink(os.path.join(self.path, name)))) or None
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.unreadable[field] = why_unreadable(error, printable(os.path.join(self.path, name)))
            return None

    def names(self, field: str, name: str = "") -> tuple[str, ...]:
        """Sorted names in the directory or one below it; empty when there is none."""
        try:
            return tuple(sorted(os.listdir(os.path.join(self.path, name))))
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.unreadable[field] = why_unreadable(error, printable(os.path.join(self.path, name)))
            return ()

    def malformed(self, field: str, name: str, content: str) -> None:
        """Note that a file does not hold what the ABI promises."""
        self.unreadable[field] = Unreadable(
            "malformed", f"{printable(os.path.join(self.path, name))}: {content[:64]!r}"
        )
