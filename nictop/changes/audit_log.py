"""The log of changes: ``$XDG_STATE_HOME/nictop/changes.jsonl``, on the machine that nictop runs on.

A JSON object per line: one when a change begins, before anything is changed, and one with the same id when it has
ended, so that a nictop that was killed in the middle leaves its trace, too. Lines are appended under a lock (several
nictops may write) and never rewritten; the file is readable by its owner only, as it names hosts. `write` and `read`
touch the file system; `encoded` and `parse_log` are pure. A log that was cut or written into by somebody else is read
as far as it makes sense. What texts in it say is data: whoever shows it cleans it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nictop import __version__
from nictop.errors import NictopError
from nictop.files import NotRegularFileError, open_regular_file, state_directory
from nictop.model.text.terminal import clean

if TYPE_CHECKING:
    import msgspec

SCHEMA = 1
"""Raised when a field changes its meaning."""
MOST_BYTES = 64 << 20
"""That are read, from the end."""
LONGEST_LINE = 1 << 20
LONGEST_LOCK, LOCK_PAUSE = 2.0, 0.005
"""Seconds that other writers may take, and between two looks."""

State = Literal["begun", "kept", "undone", "refused", "cancelled", "unreachable", "failed", "unknown"]
"""begun, or how it ended (`nictop.changes.events.Outcome`)."""


@dataclass(frozen=True)
class LoggedAction:
    """One action of a change."""

    words: tuple[str, ...]
    """As the probe was asked: a program with its arguments, or ("write", PATH, TEXT)."""
    before: str = ""
    """As read from the host."""
    after: str = ""
    undo: tuple[tuple[str, ...], ...] = ()
    """Actions that bring back `before`; empty: NetworkManager's checkpoint did."""
    subject: str = ""
    persistent: bool = False


@dataclass(frozen=True)
class Logged:
    """One change, as far as the log knows it."""

    id: str
    time: float
    """When it began. Seconds since the epoch."""
    host: str
    """As it was watched."""
    user: str
    """Who ran nictop."""
    state: State
    """begun: nictop was ended before it heard of the end; what is not kept the host undoes by itself."""
    title: str = ""
    """What it was for: ``set it now``."""
    rule: str = ""
    """Of the finding; "": it came from no finding."""
    subject: str = ""
    """Of the finding."""
    actions: tuple[LoggedAction, ...] = ()
    undo: tuple[str, ...] = ()
    """Shell lines that bring the old state back when it was kept; empty: those of the actions do."""
    ended: float | None = None
    """Seconds since the epoch."""
    text: str = ""
    """A sentence on the end."""
    version: str = __version__
    """Of nictop."""
    schema: int = SCHEMA


@dataclass(frozen=True)
class Log:
    """What was read."""

    changes: tuple[Logged, ...] = ()
    """Oldest first, each once: as its last line says it."""
    unreadable: int = 0
    """Lines that are none of this log."""
    cut: bool = False
    """Older lines were not read."""


def log_path(environment: Mapping[str, str]) -> Path:
    """``$XDG_STATE_HOME/nictop/changes.jsonl``, else below ``~/.local/state``. NictopError when there is no home."""
    state = state_directory(environment)
    if not state:
        raise NictopError("there is no directory for the log of changes", "set HOME or XDG_STATE_HOME")
    return Path(state, "changes.jsonl")


def user_name(environment: Mapping[str, str]) -> str:
    """Who runs this nictop; behind sudo, who called that, too."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = str(os.geteuid())
    caller = environment.get("SUDO_USER", "")
    return f"{name} ({caller})" if caller and caller != name else name


def encoded(change: Logged) -> bytes:
    """One line with its end. NictopError for what could not be read back."""
    import msgspec

    try:
        data = msgspec.json.encode(change)
        _decoder().decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise NictopError(f"the change cannot be logged: {clean(str(error))}") from None
    if len(data) >= LONGEST_LINE:
        raise NictopError(f"the change cannot be logged: it has {len(data)} bytes")
    return data + b"\n"


def parse_log(data: bytes, *, cut: bool = False) -> Log:
    """The changes that some bytes of a log tell. `cut`: they do not begin at its begin, so that the first line may be
    half of one."""
    import msgspec

    lines = data.split(b"\n")
    if cut:
        del lines[:1]
    changes: dict[str, Logged] = {}
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
    return Log(tuple(sorted(changes.values(), key=lambda one: one.time)), unreadable, cut)


@lru_cache(maxsize=1)  # loads msgspec only where a log is read or written
def _decoder() -> msgspec.json.Decoder[Logged]:
    import msgspec

    return msgspec.json.Decoder(Logged)


def write(change: Logged, path: Path) -> None:
    """Append one line, on disk before it returns. NictopError when that cannot be done."""
    data = encoded(change)
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
        raise NictopError(f"{clean(str(path))} is no file: changes cannot be logged") from None
    except OSError as error:
        why = error.strerror or str(error)
        raise NictopError(f"the change cannot be logged in {clean(str(path))}: {why}") from None


def _lock(descriptor: int) -> None:
    """Raises OSError when another program holds it for longer than writing a line takes: whoever waits for a change to
    be logged hears neither the host nor a key."""
    end = time.monotonic() + LONGEST_LOCK
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise BlockingIOError(errno.EAGAIN, "another program keeps it locked") from None
            time.sleep(LOCK_PAUSE)


def _append(descriptor: int, data: bytes) -> None:
    """A line that a full disk or a kill has cut is ended first, so that it costs no other one."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        data = b"\n" + data
    while data:
        data = data[os.write(descriptor, data) :]


def read(path: Path) -> Log:
    """The log, or an empty one when there is none. NictopError when it cannot be read."""
    try:
        with open(open_regular_file(path), "rb") as file:
            begin = max(0, os.fstat(file.fileno()).st_size - MOST_BYTES)
            file.seek(begin)
            return parse_log(file.read(MOST_BYTES), cut=begin > 0)
    except FileNotFoundError:
        return Log()
    except NotRegularFileError:
        raise NictopError(f"{clean(str(path))} is no log of changes") from None
    except OSError as error:
        raise NictopError(f"{clean(str(path))}: {error.strerror or error}") from None
