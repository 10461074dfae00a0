"""A file that is written whole or not at all, and takes the place of nothing unless that is wanted.

`write_new_file` touches the file system, in the directory of the file alone.
"""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress

from nictop.errors import NictopError

NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What link(2) says on file systems that have none (FAT, some network file systems)."""


def write_new_file(path: str, text: str, *, replace: bool = False) -> None:
    """`text` as UTF-8, for its owner alone to read (mode 0600). NictopError when it cannot be written, or when there is
    something of that name and it is not to be replaced: nothing has changed then."""
    directory = os.path.dirname(path) or "."
    temporary = ""
    try:
        if not replace:
            refuse_taken(path)
        descriptor, temporary = tempfile.mkstemp(prefix=".nictop-", dir=directory)
        with open(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(temporary, path)
        else:
            _place(temporary, path)
    except FileExistsError:
        raise _taken(path) from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        said = error.strerror if isinstance(error, OSError) else str(error)
        raise NictopError(f"cannot write {path}: {said}") from None
    finally:
        if temporary:
            with suppress(FileNotFoundError):
                os.unlink(temporary)


def refuse_taken(path: str) -> None:
    """NictopError when there is something of that name."""
    if os.path.lexists(path):
        raise _taken(path)


def _taken(path: str) -> NictopError:
    return NictopError(f"{path} is there already", "--force replaces it; -o names another file")


def _place(temporary: str, path: str) -> None:
    """Give it its name unless that is taken, in one step. FileExistsError."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.close(descriptor)  # the name is ours now
        os.replace(temporary, path)
