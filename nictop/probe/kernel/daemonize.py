"""Start a process that outlives the probe, its SSH session and its terminal, connected to it by two
pipes.

It is forked twice, so that init becomes its parent; has its own session; has none of the probe's
descriptors, which would keep the SSH connection open. As root it leaves the control group of the
session, which a login manager may kill as a whole, and whose limits of memory and processes may
forbid a rollback (by writing to cgroup.procs of the root group); and the kernel does not choose it
when memory is short (oom_score_adj).
"""

from __future__ import annotations

import contextlib
import os
import signal

from nictop.probe.kernel.own_process import close_others, set_process_name
from nictop.probe.light_dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CGROUP_HIERARCHIES = ("", "unified", "systemd", "memory", "pids", "freezer")
"""Below /sys/fs/cgroup: version 2; with version 1 the hierarchies that systemd uses, and those that
could end or stop the process, or forbid it to start programs."""
OOM_SCORE_ADJ_MIN = -1000

DETACHED_NAME = "nictop-detached"


@dataclass
class Pipes:
    """Descriptors of the process that started it: `reports` to read, `commands` to write. The other
    process sees the end of this one as the end of `commands`."""

    reports: int
    commands: int

    def close(self) -> None:
        for descriptor in (self.reports, self.commands):
            if descriptor >= 0:
                os.close(descriptor)
        self.reports = self.commands = -1


def start(
    work: Callable[[int, int], None], *, detached: bool = True, sys: str = "/sys"
) -> tuple[Pipes, int]:
    """Run `work(reports, commands)` in a new process: descriptors to write reports to and to read
    commands from. Returns the other ends and the process id, 0 for a detached process. Raises
    OSError."""
    reports = os.pipe()
    try:
        commands = os.pipe()
    except OSError:
        for descriptor in reports:
            os.close(descriptor)
        raise
    parent = os.getpid()
    # until the child has reset the probe's handlers, a signal to the child would end the probe
    # (wakeup descriptor)
    blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    try:
        pid = os.fork()
        if pid == 0:
            _run_child(work, reports[1], commands[0], parent, sys if detached else "")
    except OSError:
        for descriptor in (*reports, *commands):
            os.close(descriptor)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
    os.close(reports[1])
    os.close(commands[0])
    if detached:
        os.waitpid(pid, 0)  # the first child exits at once
        pid = 0
    for descriptor in (reports[0], commands[1]):
        os.set_blocking(descriptor, False)
    return Pipes(reports[0], commands[1]), pid


def _run_child(
    work: Callable[[int, int], None], reports: int, commands: int, parent: int, sys: str
) -> None:
    """The child after fork; never returns. `sys` "": it stays a child of the probe and is killed
    when the probe ends."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for signal_number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(signal_number, signal.SIG_DFL)
        if sys:
            os.setsid()
            if os.fork():
                status = 0
                return
            leave_cgroup(sys)
            refuse_oom_kill()
            set_process_name(DETACHED_NAME)
        else:
            from nictop.probe.kernel.pdeathsig import set_parent_death_signal

            with contextlib.suppress(OSError):  # no ctypes: the broken pipe ends it, later
                set_parent_death_signal(parent)
        close_others(reports, commands)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        work(reports, commands)
        status = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(
                reports,
                f"{type(error).__name__}: {error}\n".replace("\n", " ").encode("utf-8", "replace")[
                    :2000
                ],
            )
    finally:
        os._exit(status)


def leave_cgroup(sys: str) -> None:
    """Move this process into the root control group; only root may, errors are ignored."""
    for hierarchy in CGROUP_HIERARCHIES:
        with contextlib.suppress(OSError):
            path = os.path.join(sys, "fs/cgroup", hierarchy, "cgroup.procs")
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, b"0")
            finally:
                os.close(descriptor)


def refuse_oom_kill(proc: str = "/proc") -> None:
    """Only root may; errors are ignored. Programs that this process starts inherit it."""
    with contextlib.suppress(OSError), open(f"{proc}/self/oom_score_adj", "w") as file:
        file.write(str(OOM_SCORE_ADJ_MIN))
