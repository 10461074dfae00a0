"""Readers for small kernel files (/sys, /proc) that return failures as data: text and integers, or
`Unreadable`.

`SysfsDirectory` reads many files of one directory and collects the failures by record field. A
missing file is None and no failure, because sysfs has only the files that apply to a device.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Any

from nictop.probe.kernel import errno_reasons as reasons
from nictop.probe.kernel.backports import is_ascii
from nictop.probe.records import Unreadable

MAX_SYSFS_BYTES = 64 * 1024
"""Bytes: sysfs files have at most one page, the /proc files read here a few pages."""


def unreadable_from_error(error: OSError, where: str = "") -> Unreadable:
    """`Unreadable` for a failed system call; `where` names the file or the request in its
    detail."""
    number = error.errno or 0
    detail = f"{where}: {reasons.name(number)}" if where else reasons.name(number)
    reason: Any = reasons.REASONS.get(number, "failed")
    return Unreadable(reason, detail)


def read_text(path: str, limit: int = MAX_SYSFS_BYTES) -> str | Unreadable:
    """Contents of a small file without trailing whitespace and NULs; invalid UTF-8 becomes
    U+FFFD."""
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read(limit)
    except OSError as error:
        return unreadable_from_error(error, printable_path(path))
    return (data or b"").decode("utf-8", "replace").rstrip(" \t\r\n\0")


def parse_integer(text: str, base: int = 10) -> int | None:
    """``42``, ``-1`` or, with base 16, ``0x8086`` → the integer; None for any other text."""
    try:
        return int(text, base) if is_ascii(text) and "_" not in text else None
    except ValueError:
        return None


def printable_path(path: str) -> str:
    """A path as text without surrogates: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(path).decode("utf-8", "replace")


class SysfsDirectory:
    """Reads files of one sysfs directory; failures are collected in `unreadable`, field →
    reason."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.unreadable: dict[str, Unreadable] = {}

    def text(self, field: str, name: str) -> str | None:
        """Contents of a file; None when it is missing, empty or could not be read."""
        content = read_text(os.path.join(self.path, name))
        if isinstance(content, str):
            return content or None
        if content.reason != "missing":
            self.unreadable[field] = content
        return None

    def integer(self, field: str, name: str, base: int = 10) -> int | None:
        """Contents as an integer; other text is recorded as malformed."""
        content = self.text(field, name)
        if content is None:
            return None
        value = parse_integer(content, base)
        if value is None:
            self.add_malformed(field, name, content)
        return value

    def mode(self, field: str, name: str) -> int | None:
        """Permission bits of a file (``0o644``); None when it is missing or could not be
        examined."""
        path = os.path.join(self.path, name)
        try:
            return stat.S_IMODE(os.stat(path).st_mode)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.unreadable[field] = unreadable_from_error(error, printable_path(path))
            return None

    def link(self, field: str, name: str) -> str | None:
        """Last component of a symbolic link's target; None when there is no such link."""
        try:
            return (
                printable_path(os.path.basename(os.readlink(os.path.join(self.path, name)))) or None
            )
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.unreadable[field] = unreadable_from_error(
                    error, printable_path(os.path.join(self.path, name))
                )
            return None

    def names(self, field: str, name: str = "") -> tuple[str, ...]:
        """Sorted entries of the directory or of a subdirectory; empty when it is missing."""
        try:
            return tuple(sorted(os.listdir(os.path.join(self.path, name))))
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.unreadable[field] = unreadable_from_error(
                    error, printable_path(os.path.join(self.path, name))
                )
            return ()

    def add_malformed(self, field: str, name: str, content: str) -> None:
        """Record that a file's contents are not what the kernel ABI documents."""
        self.unreadable[field] = Unreadable(
            "malformed", f"{printable_path(os.path.join(self.path, name))}: {content[:64]!r}"
        )
