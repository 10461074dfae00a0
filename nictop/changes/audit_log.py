"""The log of changes: ``$XDG_STATE_HOME/nictop/changes.jsonl``, on the machine that nictop runs on.

One JSON object per line: the first before a change begins, the second with the same id when it has
ended, so that a change is logged even if nictop is killed in between. Lines are appended under a
lock (several nictops may write) and never rewritten; only the owner can read the file, as it names
hosts. `append_change` and `read_log` access the file system; `encode_change` and `parse_log` are
pure. Invalid lines are skipped and counted. Texts in the log are not trusted: they are escaped
where they are shown.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nictop import __version__
from nictop.errors import NictopError
from nictop.files import NotRegularFileError, open_regular_file, state_directory
from nictop.model.text.terminal import clean
from nictop.probe.light_dataclasses import dataclass

if TYPE_CHECKING:
    import msgspec

SCHEMA = 1
"""Increased when the meaning of a field changes."""
MAX_LOG_READ_BYTES = 64 << 20
"""Bytes that are read, at the end of the file."""
MAX_LOG_LINE_BYTES = 1 << 20
LOG_LOCK_TIMEOUT, LOG_LOCK_POLL_SECONDS = 2.0, 0.005
"""Seconds to wait for other writers, and between two attempts."""

State = Literal[
    "begun",
    "kept",
    "overridden",
    "undone",
    "restarted",
    "refused",
    "cancelled",
    "unreachable",
    "failed",
    "unknown",
]
"""begun, or how it ended (`nictop.changes.events.Outcome`)."""


@dataclass(frozen=True)
class LoggedAction:
    """One action of a change."""

    words: tuple[str, ...]
    """As requested from the probe: a program with its arguments, or ("write", PATH, TEXT)."""
    before: str = ""
    """Value read from the host before the change."""
    after: str = ""
    undo: tuple[tuple[str, ...], ...] = ()
    """Actions that restore `before`; empty if NetworkManager's checkpoint does."""
    subject: str = ""
    persistent: bool = False


@dataclass(frozen=True)
class LoggedChange:
    """One change."""

    id: str
    time: float
    """When it began. Seconds since the epoch."""
    host: str
    """Name of the host in nictop."""
    user: str
    """User who ran nictop."""
    state: State
    """begun: nictop ended before the change did; the host undoes by itself what is not kept."""
    title: str = ""
    """Title of the fix: ``set it now``."""
    rule: str = ""
    """Rule of the finding; "" if it was not made for a finding."""
    subject: str = ""
    """Subject of the finding."""
    actions: tuple[LoggedAction, ...] = ()
    undo: tuple[str, ...] = ()
    """Shell lines that restore the old state after the change was kept; empty if those of the
    actions do."""
    ended: float | None = None
    """Seconds since the epoch."""
    text: str = ""
    """How it ended, as a sentence."""
    version: str = __version__
    """Version of nictop."""
    schema: int = SCHEMA
    outside: str = ""
    """As `ChangeEnded.outside`."""


@dataclass(frozen=True)
class ChangeLog:
    """The changes read from the log."""

    changes: tuple[LoggedChange, ...] = ()
    """Oldest first, each as in its last line."""
    unreadable: int = 0
    """Number of invalid lines."""
    cut: bool = False
    """Older lines were not read."""


def log_path(environment: Mapping[str, str]) -> Path:
    """``$XDG_STATE_HOME/nictop/changes.jsonl``, else below ``~/.local/state``. Raises NictopError
    if there is no home directory."""
    state = state_directory(environment)
    if not state:
        raise NictopError("no directory for the log of changes", "set HOME or XDG_STATE_HOME")
    return Path(state, "changes.jsonl")


def user_name(environment: Mapping[str, str]) -> str:
    """The user who runs nictop, with the user who called sudo in parentheses."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = str(os.geteuid())
    caller = environment.get("SUDO_USER", "")
    if caller in ("", name):
        return name
    return f"{name} ({caller})"


def encode_change(change: LoggedChange) -> bytes:
    """One line, with its newline. Raises NictopError if it could not be decoded again or is too
    long."""
    import msgspec

    try:
        data = msgspec.json.encode(change)
        _decoder().decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise NictopError(f"the change cannot be logged: {clean(str(error))}") from None
    if len(data) >= MAX_LOG_LINE_BYTES:
        raise NictopError(f"the change cannot be logged: it has {len(data)} bytes")
    return data + b"\n"


def parse_log(data: bytes, *, cut: bool = False) -> ChangeLog:
    """Parse the changes in a part of a log. `cut`: it does not start at the beginning of the file,
    so that its first line may be incomplete."""
    import msgspec

    lines = data.split(b"\n")
    if cut:
        del lines[:1]
    changes: dict[str, LoggedChange] = {}
    unreadable = 0
    for line in lines:
        if not line.strip():
            continue
        try:
            change = _decoder().decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            unreadable += 1
            continue
        if change.schema > SCHEMA:
            unreadable += 1
        else:
            changes[change.id] = change
    return ChangeLog(tuple(sorted(changes.values(), key=lambda one: one.time)), unreadable, cut)


@lru_cache(maxsize=1)  # msgspec is imported only if a log is read or written
def _decoder() -> msgspec.json.Decoder[LoggedChange]:
    import msgspec

    return msgspec.json.Decoder(LoggedChange)


def append_change(change: LoggedChange, path: Path) -> None:
    """Append one line; it is on disk afterwards. Raises NictopError if that fails."""
    data = encode_change(change)
    try:
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = open_regular_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
        try:
            _lock(descriptor)
            if os.fstat(descriptor).st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
            _append(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except NotRegularFileError:
        raise NictopError(
            f"{clean(str(path))} is not a regular file: changes cannot be logged"
        ) from None
    except OSError as error:
        why = error.strerror or str(error)
        raise NictopError(f"the change cannot be logged in {clean(str(path))}: {why}") from None


def _lock(descriptor: int) -> None:
    """Raises OSError if another program holds the lock for much longer than writing a line takes:
    meanwhile the caller handles neither the host nor keys."""
    end = time.monotonic() + LOG_LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise BlockingIOError(errno.EAGAIN, "another program has locked it") from None
            time.sleep(LOG_LOCK_POLL_SECONDS)


def _append(descriptor: int, data: bytes) -> None:
    """An incomplete last line (disk full, process killed) is terminated first, so that the new one
    stays valid."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        data = b"\n" + data
    while data:
        data = data[os.write(descriptor, data) :]


def read_log(path: Path) -> ChangeLog:
    """The log, empty if the file does not exist. Raises NictopError if it cannot be read."""
    try:
        with open(open_regular_file(path), "rb") as file:
            begin = max(0, os.fstat(file.fileno()).st_size - MAX_LOG_READ_BYTES)
            file.seek(begin)
            return parse_log(file.read(MAX_LOG_READ_BYTES), cut=begin > 0)
    except FileNotFoundError:
        return ChangeLog()
    except NotRegularFileError:
        raise NictopError(f"{clean(str(path))} is not a log of changes") from None
    except OSError as error:
        raise NictopError(f"{clean(str(path))}: {error.strerror or error}") from None
