"""A process of one's own that outlives the probe, its SSH session and its terminal, and talks to it by two pipes.

Forked twice, so that it belongs to init; in a session of its own; with none of the probe's descriptors, because one
that stayed open would keep the connection from ending; and, where that is allowed, outside the session's control group,
which a login manager may kill as a whole (cgroup.procs of the root takes a process of any group).
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CONTROL_GROUPS = ("", "unified", "systemd")
"""Below /sys/fs/cgroup: version 2, and what systemd has beside version 1."""


@dataclass
class Pipes:
    """The ends of the one that started it: `listen` is its voice, ends with it; `tell` tells it, and its end is told by
    closing."""

    listen: int
    tell: int

    def close(self) -> None:
        for descriptor in (self.listen, self.tell):
            if descriptor >= 0:
                os.close(descriptor)
        self.listen = self.tell = -1


def start(work: Callable[[int, int], None], *, detached: bool = True, sys: str = "/sys") -> tuple[Pipes, int]:
    """Run `work(voice, control)` in a process of its own: descriptors to write to and to read from. Returns the other
    ends and the process id; 0 for a detached one, which is nobody's child. Raises OSError."""
    voice = os.pipe()
    try:
        control = os.pipe()
    except OSError:
        for descriptor in voice:
            os.close(descriptor)
        raise
    parent = os.getpid()
    # what arrives before the child has dropped the probe's handlers would end the probe
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become(work, voice[1], control[0], parent, sys if detached else "")
    except OSError:
        for descriptor in (*voice, *control):
            os.close(descriptor)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(voice[1])
    os.close(control[0])
    if detached:
        os.waitpid(pid, 0)  # the first of the two ends at once
        pid = 0
    for descriptor in (voice[0], control[1]):
        os.set_blocking(descriptor, False)
    return Pipes(voice[0], control[1]), pid


def _become(work: Callable[[int, int], None], voice: int, control: int, parent: int, sys: str) -> None:
    """The child's side of the fork; never returns. `sys` "": it stays the probe's child and dies with it."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if sys:
            os.setsid()
            if os.fork():
                status = 0
                return
            leave_control_group(sys)
        else:
            from nictop.probe.kernel.pdeathsig import die_with

            with contextlib.suppress(OSError):  # the broken pipe ends it, later
                die_with(parent)
        keep_only(voice, control)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        work(voice, control)
        status = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(voice, f"{type(error).__name__}: {error}\n".replace("\n", " ").encode("utf-8", "replace")[:2000])
    finally:
        os._exit(status)


def keep_only(*kept: int) -> None:
    """Close every other descriptor, and put /dev/null in the place of the standard ones."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            with contextlib.suppress(OSError):  # the one that the listing itself had open
                os.close(int(name))


def leave_control_group(sys: str) -> None:
    """Into the root of the hierarchy that sessions are ended by, which only root may; elsewhere all stays as it is."""
    for hierarchy in CONTROL_GROUPS:
        with contextlib.suppress(OSError):
            path = os.path.join(sys, "fs/cgroup", hierarchy, "cgroup.procs")
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, b"0")
            finally:
                os.close(descriptor)
