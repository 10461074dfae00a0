"""The processes of a workload: all descendants of the process that supervises it, also those that
made a session of their own.

Reads /proc/PID/stat. The supervisor is a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER): a descendant
whose parent has ended becomes its child, so that none is lost. Only if the supervisor itself was
killed are they found by the mark in their environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from nictop.probe.kernel.backports import is_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MARK = "NICTOP_WORKLOAD"
"""Variable in the environment of the command with the id of the request."""
MAX_PROCESSES = 32768
"""Of the host, that are looked through."""
MAX_ENVIRONMENT_BYTES = 256 * 1024
MAX_CHILDREN_BYTES = 256 * 1024
TERMINATE_SECONDS = 1.0
"""From SIGTERM to SIGKILL."""
KILL_SECONDS = 2.0
"""Until the processes count as not ended: one in uninterruptible sleep ends later."""
POLL_SECONDS = 0.01
KILL_ROUNDS = 10
"""Searches for processes that were started since the last one, before their supervisor is
killed."""


def become_subreaper() -> None:
    """Orphaned descendants become children of this process, which gets SIGTERM, not SIGKILL, when
    its parent ends. Raises OSError."""
    import ctypes

    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER was refused")
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM):
        raise OSError(ctypes.get_errno(), "PR_SET_PDEATHSIG was refused")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def descendants(ancestor: int, proc: str = "/proc") -> list[int]:
    """PIDs of all that descend from a process; zombies too."""
    children: dict[int, list[int]] = {}
    for pid in all_pids(proc):
        parent = _parent(pid, proc)
        if parent:
            children.setdefault(parent, []).append(pid)
    found: list[int] = []
    waiting = [ancestor]
    while waiting:
        of_one = children.pop(waiting.pop(), [])
        found += of_one
        waiting += of_one
    return found


def descendants_now(ancestor: int, proc: str = "/proc") -> list[int]:
    """The same, quickly: by /proc/PID/task/TID/children, which may miss some whose siblings end at
    this moment (proc_pid_task(5)). Without CONFIG_PROC_CHILDREN by `descendants`."""
    if not os.path.exists(f"{proc}/{ancestor}/task/{ancestor}/children"):
        return descendants(ancestor, proc)
    found: list[int] = []
    waiting = [ancestor]
    while waiting and len(found) < MAX_PROCESSES:
        children = _children(waiting.pop(), proc)
        found += children
        waiting += children
    return found


def _children(pid: int, proc: str) -> list[int]:
    """Of all its threads; [] if it has ended."""
    found: list[int] = []
    try:
        for tid in os.listdir(f"{proc}/{pid}/task"):
            with open(f"{proc}/{pid}/task/{tid}/children", "rb") as file:
                found += [int(word) for word in file.read(MAX_CHILDREN_BYTES).split()]
    except (OSError, ValueError):
        pass
    return found


def all_pids(proc: str = "/proc") -> list[int]:
    """[] if procfs cannot be read."""
    try:
        names = os.listdir(proc)
    except OSError:
        return []
    return [int(name) for name in names if is_ascii(name) and name.isdigit()][:MAX_PROCESSES]


def parse_parent(text: bytes) -> int:
    """Field 4 of proc_pid_stat(5); 0 if it is malformed."""
    words = text.rpartition(b")")[2].split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _parent(pid: int, proc: str) -> int:
    """0: the process has ended."""
    try:
        with open(f"{proc}/{pid}/stat", "rb") as file:
            return parse_parent(file.read(4096))
    except OSError:
        return 0


def reap() -> dict[int, int]:
    """PID → status (as of waitpid(2)) of all children that have ended."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def end_all(proc: str = "/proc") -> tuple[dict[int, int], int]:
    """End all descendants of this process: SIGTERM, `TERMINATE_SECONDS`, SIGKILL. (PID → status of
    those that were children, number of those that are still there: they run as another user or
    sleep uninterruptibly)."""
    own, ended = os.getpid(), reap()
    started = time.monotonic()
    signalled: set[int] = set()
    while True:
        left = descendants(own, proc)
        elapsed = time.monotonic() - started
        if not left or elapsed > TERMINATE_SECONDS + KILL_SECONDS:
            return ended, len(left)
        if elapsed > TERMINATE_SECONDS:
            _signal(left, signal.SIGKILL)
        else:
            _signal([pid for pid in left if pid not in signalled], signal.SIGTERM)
            signalled.update(left)
        time.sleep(POLL_SECONDS)
        ended.update(reap())


def kill_descendants(ancestor: int, proc: str = "/proc") -> None:
    """Before their supervisor is killed: without it only those with the mark would be found."""
    killed: set[int] = set()
    for _ in range(KILL_ROUNDS):
        found = set(descendants(ancestor, proc)) - killed
        if not found:
            return
        _signal(found, signal.SIGKILL)
        killed |= found


def kill_marked(identity: str, user: int, proc: str = "/proc") -> int:
    """Kill the processes of a user that have the mark of a workload, after its supervisor was
    killed; their number."""
    wanted, killed = f"{MARK}={identity}".encode(), 0
    for pid in all_pids(proc):
        try:
            if os.stat(f"{proc}/{pid}").st_uid != user:
                continue
            with open(f"{proc}/{pid}/environ", "rb") as file:
                environment = file.read(MAX_ENVIRONMENT_BYTES)
        except OSError:
            continue
        if wanted in environment.split(b"\0"):
            killed += _signal([pid], signal.SIGKILL)
    return killed


def _signal(pids: Iterable[int], number: int) -> int:
    """Number of processes that got it."""
    sent = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)
            sent += 1
    return sent
