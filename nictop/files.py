"""Files of the user: the XDG directories, regular files opened without blocking, and files written
atomically.

`platformdirs` is not used: it adds 8 ms to the start of each command.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress

from nictop.errors import NictopError

NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of link(2) on file systems without hard links (FAT, some network file systems)."""


class NotRegularFileError(OSError):
    """The path is a directory, a FIFO, a socket or a device."""


def state_directory(environment: Mapping[str, str]) -> str:
    """``$XDG_STATE_HOME/nictop``, else ``~/.local/state/nictop``; "" if there is no home directory.
    A relative path is ignored (XDG Base Directory Specification)."""
    for variable, below in (("XDG_STATE_HOME", ""), ("HOME", ".local/state")):
        if os.path.isabs(environment.get(variable, "")):
            return os.path.join(environment[variable], below, "nictop")
    return ""


def open_regular_file(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """The descriptor of a regular file, with mode 0600 if it is created. Raises OSError, which is
    NotRegularFileError for anything else; a FIFO is not waited for."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise NotRegularFileError(errno.EINVAL, "not a regular file", path)


def write_new_file(path: str, text: str, *, replace: bool = False) -> None:
    """Write `text` as UTF-8, readable by its owner only. Raises NictopError if that fails, or if
    `path` exists and `replace` is false; nothing has changed then."""
    try:
        if not replace and os.path.lexists(path):
            raise _exists_error(path)
        write_atomically(path, text.encode("utf-8", "backslashreplace"), replace=replace)
    except FileExistsError:
        raise _exists_error(path) from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NictopError(f"cannot write {path}: {reason}") from None


def check_new_file(path: str, *, replace: bool = False) -> None:
    """Raise NictopError if `write_new_file` could not write `path` now: before something that takes
    long."""
    if not replace and os.path.lexists(path):
        raise _exists_error(path)
    if os.path.isdir(path):
        raise NictopError(f"cannot write {path}: it is a directory", "-o names a file")
    directory = os.path.dirname(path) or "."
    if not os.path.isdir(directory):
        raise NictopError(f"cannot write {path}: there is no directory {directory}")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise NictopError(f"cannot write {path}: no permission to write in {directory}")


def _exists_error(path: str) -> NictopError:
    return NictopError(f"{path} is there already", "--force replaces it; -o names another file")


def write_atomically(path: str, data: bytes, *, replace: bool) -> None:
    """Write a file of mode 0600 completely or not at all; it is on disk afterwards. Raises OSError,
    which is FileExistsError if `path` exists and `replace` is false.

    All is done in the directory that `path` leads to at the beginning, also if another user puts a
    different one there."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC  # O_PATH: it need not be readable
    directory = os.open(os.path.dirname(path) or ".", flags)
    try:
        _write_in(directory, os.path.basename(path), data, replace=replace)
        with suppress(OSError):  # the file is there, its name may not survive a power failure
            _sync_directory(directory)
    finally:
        os.close(directory)


def _sync_directory(directory: int) -> None:
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_in(directory: int, name: str, data: bytes, *, replace: bool) -> None:
    temporary = f".nictop-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, 0o600, dir_fd=directory)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        else:
            _rename_to_new(temporary, name, directory)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)


def _rename_to_new(temporary: str, name: str, directory: int) -> None:
    """Raises FileExistsError if there is a file of the name: checked and renamed in one step."""
    try:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = os.open(name, flags, 0o600, dir_fd=directory)
        os.close(descriptor)  # the name is reserved now
        os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
