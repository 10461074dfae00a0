"""Opens the file of a recording: readable by its owner only, never overwritten by default, never
through a symbolic link.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat

from nictop.files import NotRegularFileError, open_regular_file
from nictop.recording.file.frames import RECORDING_MAGIC, RecordingError
from nictop.wire.errors import sanitize

FILE_MODE = 0o600


def create_file(path: str, *, force: bool = False, directory: int | None = None) -> int:
    """Descriptor of a new, empty file at `path`, locked against a second writer; with `force` also
    of an existing file, which is truncated. `directory`: a descriptor of that which has the file,
    whatever `path` leads to by now. Raises RecordingError."""
    name = path if directory is None else os.path.basename(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK if force else os.O_EXCL
    try:
        descriptor = os.open(name, flags, FILE_MODE, dir_fd=directory)
    except ValueError:  # a null byte
        raise RecordingError(f"{sanitize(path)} is not a valid file name") from None
    except OSError as error:
        raise _open_error(path, error) from None
    try:
        _lock_and_truncate(path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_deleted(descriptor: int) -> bool:
    """No directory has the file any more."""
    return os.fstat(descriptor).st_nlink == 0


def delete_created(path: str, descriptor: int) -> None:
    """Delete the file of the descriptor, but nothing else that `path` may lead to by now. Raises
    OSError."""
    if os.path.samestat(os.lstat(path), os.fstat(descriptor)):
        os.unlink(path)


def _lock_and_truncate(path: str, descriptor: int) -> None:
    found, name = os.fstat(descriptor), sanitize(path)
    if not stat.S_ISREG(found.st_mode):
        raise RecordingError(f"{name} is not a regular file", "choose another file name")
    if found.st_nlink > 1:
        raise RecordingError(f"{name} has more than one hard link", "choose another file name")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.fchmod(descriptor, FILE_MODE)
        os.ftruncate(descriptor, 0)
    except BlockingIOError:
        raise RecordingError(
            f"{name} is being written by another nictop", "choose another file name"
        ) from None
    except OSError as error:
        raise RecordingError(f"cannot write {name}: {error.strerror}") from None


def _open_error(path: str, error: OSError) -> RecordingError:
    name = sanitize(path)
    if error.errno == errno.ELOOP or (error.errno == errno.EEXIST and os.path.islink(path)):
        return RecordingError(f"{name} is a symbolic link", "choose another file name")
    if error.errno == errno.EEXIST:
        return RecordingError(
            f"{name} already exists", "choose another file name, or overwrite it with --force"
        )
    return RecordingError(f"cannot write {name}: {error.strerror}")


def open_for_reading(path: str) -> int:
    """Descriptor of a file. Raises RecordingError when it is not a readable regular file."""
    name = sanitize(path)
    try:
        return open_regular_file(path)
    except ValueError:
        raise RecordingError(f"{name} is not a valid file name") from None
    except NotRegularFileError:
        raise RecordingError(f"{name} is not a regular file") from None
    except OSError as error:
        raise RecordingError(f"cannot read {name}: {error.strerror}") from None


def is_recording_file(path: str) -> bool:
    """Whether `path` is a regular file that begins like a recording, whatever follows."""
    try:
        descriptor = open_for_reading(path)
    except RecordingError:
        return False
    try:
        return os.pread(descriptor, len(RECORDING_MAGIC), 0) == RECORDING_MAGIC
    except OSError:
        return False
    finally:
        os.close(descriptor)
