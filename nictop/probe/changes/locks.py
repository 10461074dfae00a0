"""Who may change a thing at this moment: listening sockets with abstract names, which vanish with their last holder.

Takes names of subjects (``link 3``, ``irq 30``); a network namespace has its own. Whoever comes second learns from the
kernel who was first (SO_PEERCRED of the listener). A program that is started with the descriptors holds the locks until
it has ended, whatever becomes of who started it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import select
import socket
import struct
import time
from collections.abc import Sequence

PREFIX = "\0nictop-change "
CREDENTIALS = struct.Struct("=iII")
"""struct ucred: pid, uid, gid."""
MOST_QUESTIONS = 128
"""Nobody accepts them: so often it is told who holds a lock."""
LOOK = 0.02
"""Seconds between two looks at locks that are waited for."""


class Locks:
    """Those of some subjects; free when closed, or when the process has gone."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = sockets

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(one.fileno() for one in self._sockets)

    def close(self) -> None:
        for one in self._sockets:
            one.close()


def take(subjects: Sequence[str], patience: float = 0.0, *, despite_strangers: bool = False) -> Locks:
    """All of them or none. Raises ValueError: another change is under way, and whose, after `patience` seconds.

    Anybody may give a socket such a name, but only root changes a host. `despite_strangers`: go on without a lock that
    somebody else has, at once, and without one of which nobody says whose it is, in the end.
    """
    end = time.monotonic() + patience
    taken: list[socket.socket] = []
    for subject in sorted(subjects):
        who = None
        while True:
            one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            try:
                one.bind(PREFIX + subject)
                one.listen(MOST_QUESTIONS)
                taken.append(one)
                break
            except OSError as error:
                one.close()
                is_held = error.errno == errno.EADDRINUSE
                who = who or (credentials(subject) if is_held and despite_strangers else None)
                if who is not None and who[1] != os.geteuid():
                    break
                if is_held and time.monotonic() < end:
                    select.select([], [], [], LOOK)
                    continue
                if is_held and despite_strangers and who is None:
                    break
                Locks(taken).close()
                if error.errno != errno.EADDRINUSE:
                    raise ValueError(f"{named(subject)} cannot be locked: {error.strerror}") from None
                raise ValueError(f"another change of {named(subject)} is under way{holder(subject)}") from None
    return Locks(taken)


def credentials(subject: str) -> tuple[int, int] | None:
    """(Process, user id) of whoever holds a lock; None when it has just gone, or does not take a question."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asking:
        asking.setblocking(False)
        try:
            asking.connect(PREFIX + subject)
            said = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        except OSError:
            return None
    pid, uid, _ = CREDENTIALS.unpack(said)
    return pid, uid


def holder(subject: str) -> str:
    """Who holds a lock, as the end of a sentence; "" when it has just gone."""
    found = credentials(subject)
    if found is None:
        return ""
    pid, uid = found
    user = str(uid)
    with contextlib.suppress(KeyError):
        user = pwd.getpwuid(uid).pw_name
    return f": process {pid} of {user}" + (", this one" if pid == os.getpid() else "")


def named(subject: str) -> str:
    """The subject, a link by its name."""
    kind, _, number = subject.partition(" ")
    if kind == "link" and number.isdecimal():
        with contextlib.suppress(OSError, OverflowError):
            return socket.if_indextoname(int(number))
    return subject
