"""``__main__.py`` of the offline file: unpacks it into a cache directory at the first start, and
runs it from there.

It stays plain enough for Python 2.7 to compile: then another Python is looked for.
`release.offline` sets the first four values.
"""

import os
import stat
import sys

VERSION = ""
DIGEST = ""
"""SHA-256 of the archive of packages in the file, shortened: the name of the directory."""
MACHINE = ""
"""Processor that the file has compiled modules for, as in uname(2)."""
PYTHONS = ()  # type: tuple[tuple[int, int], ...]
"""Versions that the file has compiled modules for, newest first."""
ARCHIVE = "packages.zip"
UNUSED_SECONDS = 30 * 86400
"""After this time without a start, the directory of another version is removed."""

UNMAPPED_USER = 65534
"""Owner of what belongs to users outside of a user namespace, such as the root directory of some
containers."""


def main():  # type: () -> int
    if sys.version_info[:2] not in PYTHONS:
        _run_another_python()
    elif os.uname()[4] != MACHINE:
        raise _failure("this file is for " + MACHINE + ", this machine is " + os.uname()[4])
    elif not sys.flags.isolated and sys.executable:
        os.execv(sys.executable, [sys.executable, "-I"] + sys.orig_argv[1:])  # noqa: RUF005
    folder = _unpacked()
    sys.path[0] = folder
    from nictop.__main__ import main as nictop

    return nictop()


def _run_another_python():  # type: () -> None
    """Replace this process by a Python that fits; does not return."""
    for major, minor in PYTHONS:
        name = "python%d.%d" % (major, minor)
        for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
            path = os.path.join(place, name)
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                os.execv(path, [path, "-I"] + sys.argv)  # noqa: RUF005
    newest, oldest = ["%d.%d" % version for version in (PYTHONS[0], PYTHONS[-1])]
    found = ".".join([str(part) for part in sys.version_info[:3]])
    raise _failure("needs Python " + oldest + " to " + newest + ", this is Python " + found)


def _unpacked():  # type: () -> str
    """The directory with the packages; its lock is held until this process ends."""
    import fcntl
    import time

    reasons = []
    for parent in _cache_directories():
        folder = os.path.join(parent, VERSION + "-" + DIGEST)
        try:
            _make_private(parent)
            if not os.path.isdir(folder):
                _unpack(parent, folder)
                _remove_unused(parent, folder)
            _check_private(folder)
            lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except EnvironmentError as error:
            reasons.append("%s: %s" % (parent, error.strerror or error))
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.utime(folder, (time.time(), time.time()))
        except EnvironmentError:
            pass  # a file system without locks: `_remove_unused` then keeps the directory
        return folder
    raise _failure("no directory to unpack into (set XDG_CACHE_HOME to one): " + "; ".join(reasons))


def _cache_directories():  # type: () -> list[str]
    """Where the packages may be, the best place first."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    home = cache if os.path.isabs(cache) else os.path.join(os.path.expanduser("~"), ".cache")
    others = [os.environ.get("TMPDIR", ""), "/tmp", "/var/tmp", "/dev/shm"]
    found = [os.path.join(home, "nictop")] + [
        os.path.join(one, "nictop-%d" % os.geteuid()) for one in others
    ]
    return [path for path in found if os.path.isabs(path)]


def _make_private(path):  # type: (str) -> None
    """Make a directory that only this user can read and write. Raises EnvironmentError."""
    mask = os.umask(0o077)
    try:
        os.makedirs(path)
    except EnvironmentError:
        if not os.path.isdir(path):
            raise
    finally:
        os.umask(mask)
    _check_private(path)
    _check_parents(path)


def _check_private(path):  # type: (str) -> None
    """Raises EnvironmentError if another user could replace the code in it, or if programs cannot
    be loaded from it."""
    status = os.lstat(path)
    if status.st_uid != os.geteuid() or status.st_mode & 0o170022 != 0o040000:
        raise EnvironmentError("not a directory that only this user can write to")
    if status.st_mode & 0o7777 != 0o700:
        os.chmod(path, 0o700)
    if os.statvfs(path).f_flag & os.ST_NOEXEC:
        raise EnvironmentError("mounted with noexec")


def _check_parents(path):  # type: (str) -> None
    """Raises EnvironmentError if another user could put another directory in its place."""
    parent = os.path.realpath(path)
    while parent != "/":
        parent = os.path.dirname(parent)
        status = os.stat(parent)
        is_foreign = status.st_uid not in (0, os.geteuid(), UNMAPPED_USER)
        writers = status.st_mode & 0o022
        if status.st_gid == os.getegid():
            writers &= 0o002  # the group of this user alone, as most systems make one
        if is_foreign or (writers and not status.st_mode & stat.S_ISVTX):
            raise EnvironmentError("other users can write to " + parent)


def _unpack(parent, folder):  # type: (str, str) -> None
    """Unpack beside `folder` and rename: it is there completely or not at all. Raises
    EnvironmentError."""
    import shutil
    import tempfile
    import zipfile

    _check_libc()
    temporary = tempfile.mkdtemp(prefix=".unpack-", dir=parent)
    try:
        with zipfile.ZipFile(sys.path[0]) as outer, outer.open(ARCHIVE) as inner:  # noqa: SIM117
            with zipfile.ZipFile(inner) as packages:
                packages.extractall(temporary)
        os.sync()  # after a power failure, no file is empty
        try:
            os.rename(temporary, folder)
        except EnvironmentError:
            if not os.path.isdir(folder):
                raise
            # another start was faster
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_unused(parent, folder):  # type: (str, str) -> None
    """Remove the directories of other versions that were not started for a long time and are not
    running."""
    import fcntl
    import shutil
    import time

    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        try:
            if path == folder or time.time() - os.stat(path).st_mtime < UNUSED_SECONDS:
                continue
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
        except EnvironmentError:
            continue


def _check_libc():  # type: () -> None
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, EnvironmentError):
        libc = ""
    version = tuple(
        int(part) for part in libc.replace("glibc ", "").split(".")[:2] if part.isdigit()
    )
    if version < (2, 28):
        raise _failure(
            "needs glibc 2.28 or newer, this system has " + (libc or "another C library")
        )


def _failure(reason):  # type: (str) -> SystemExit
    sys.stderr.write("nictop: " + reason + "\n")
    return SystemExit(2)


sys.exit(main())
