"""Reads a file whose directory others may write: regular files only, without waiting for them."""

from __future__ import annotations

import os
import stat

OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Non-blocking: opening a FIFO would block."""


def read_regular(path: str, limit: int) -> tuple[bytes, os.stat_result] | None:
    """The first `limit` bytes; None: it is not a regular file. Raises OSError and ValueError."""
    descriptor = os.open(path, OPEN_FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        return os.read(descriptor, limit), status
    finally:
        os.close(descriptor)


def regular_text(path: str, limit: int) -> str:
    """As text; "": it is not there, is no regular file, or may not be read."""
    try:
        found = read_regular(path, limit)
    except (OSError, ValueError):
        return ""
    return found[0].decode("utf-8", "replace") if found else ""
