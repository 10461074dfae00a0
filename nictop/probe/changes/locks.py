"""Locks of what is being changed: listening Unix sockets with abstract names, which disappear with
their last holder.

Takes names of subjects (``link 3``, ``irq 30``); each network namespace has its own. The kernel
reports the holder (SO_PEERCRED of a connection to the listener; for others than root the owner of
the socket, below /proc). A program that inherits the descriptors holds the locks until it ends. A
socket of another user is no lock: only root changes a host.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import time
from collections.abc import Sequence

LOCK_NAME_PREFIX = "\0nictop-change "
UCRED = struct.Struct("=iII")
"""struct ucred: pid, uid, gid."""
MAX_HOLDER_QUERIES = 128
"""Connections are never accepted: the backlog is the number of times that the holder can be looked
up."""
LOCK_POLL_SECONDS = 0.02
"""Seconds between attempts while waiting for a lock."""


class Locks:
    """Locks of some subjects; released by `close`, or when the process ends."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = sockets

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(lock.fileno() for lock in self._sockets)

    def close(self) -> None:
        for lock in self._sockets:
            lock.close()


def acquire(
    subjects: Sequence[str], timeout: float = 0.0, *, ignore_unknown: bool = False
) -> Locks:
    """All locks or none. Raises ValueError with the holder's process when a lock is still held
    after `timeout` seconds.

    Any user may create a socket with such a name: one of another user is passed over at once,
    without a lock. `ignore_unknown`: one whose holder is unknown, after the timeout.
    """
    end = time.monotonic() + timeout
    acquired: list[socket.socket] = []
    for subject in sorted(subjects):
        try:
            lock = _acquire_one(subject, end, ignore_unknown=ignore_unknown)
        except ValueError:
            Locks(acquired).close()
            raise
        if lock is not None:
            acquired.append(lock)
    return Locks(acquired)


def _acquire_one(subject: str, end: float, *, ignore_unknown: bool) -> socket.socket | None:
    """None: it is passed over. Raises ValueError as `acquire` does; `end`: CLOCK_MONOTONIC."""
    holder = None
    while True:
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            lock.bind(LOCK_NAME_PREFIX + subject)
            lock.listen(MAX_HOLDER_QUERIES)
        except OSError as error:
            lock.close()
            if error.errno != errno.EADDRINUSE:
                name = subject_name(subject)
                raise ValueError(f"cannot lock {name}: {error.strerror}") from None
        else:
            return lock
        holder = holder or lock_holder(subject)
        if holder is not None and holder[1] != os.geteuid():
            return None
        if time.monotonic() >= end:
            break
        select.select([], [], [], LOCK_POLL_SECONDS)
    if ignore_unknown and holder is None:
        return None
    name = subject_name(subject)
    raise ValueError(f"another change of {name} is in progress{holder_text(subject)}")


def lock_holder(subject: str) -> tuple[int, int] | None:
    """(process, user id of the creator) of a lock; None when it was just released."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as client:
        client.setblocking(False)
        try:
            client.connect(LOCK_NAME_PREFIX + subject)
            ucred = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size)
        except OSError:
            # it does not listen, or its backlog is full: of both, any user may be the reason
            return socket_owner(LOCK_NAME_PREFIX + subject)
    pid, uid, _ = UCRED.unpack(ucred)
    return pid, uid


def socket_owner(name: str, proc: str = "/proc") -> tuple[int, int] | None:
    """(process, user id of the creator) of a Unix socket with an abstract name; None when there is
    none.

    Reads the descriptors of all processes. A name may contain line feeds, and so forge lines: of
    several sockets, one of another user is preferred.
    """
    wanted, holder = "@" + name[1:], None
    with open(f"{proc}/net/unix", errors="surrogateescape") as file:
        fields = [line.rstrip("\n").split(None, 7) for line in file]
    links = {f"socket:[{found[6]}]" for found in fields if len(found) == 8 and found[7] == wanted}
    for pid in filter(str.isdecimal, os.listdir(proc) if links else ()):
        folder = f"{proc}/{pid}/fd"
        with contextlib.suppress(OSError):  # the process has ended, or is another user's
            for descriptor in os.listdir(folder):
                path = f"{folder}/{descriptor}"
                with contextlib.suppress(OSError):
                    if os.readlink(path) in links:
                        holder = int(pid), os.stat(path).st_uid
                        if holder[1] != os.geteuid():
                            return holder
    return holder


def holder_text(subject: str) -> str:
    """The holder of a lock, as the end of a sentence; "" when it is unknown."""
    holder = lock_holder(subject)
    if holder is None:
        return ""
    pid, uid = holder
    user = (
        "root" if uid == 0 else f"user {uid}"
    )  # no look-up of the name, which may hang while the network is changed
    return f": process {pid} of {user}" + (", this probe" if pid == os.getpid() else "")


def subject_name(subject: str) -> str:
    """A subject as text; links by their interface name."""
    kind, _, number = subject.partition(" ")
    if kind == "link" and number.isdecimal():
        with contextlib.suppress(OSError, OverflowError):
            return socket.if_indextoname(int(number))
    return subject
