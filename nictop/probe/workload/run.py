"""Supervise the command: start it, read its output, count its connections, and end it with all its
children.

Runs in a child of the probe (`traffic.child`), as the user of the login. The command is executed by
``/bin/sh -c``, in a session of its own, with /dev/null as standard input and without a terminal.
Its output is read as fast as it comes, and its last bytes are kept. It is ended at its time limit,
with SIGTERM to this process, which the probe sends when it is told to stop and the kernel when the
probe has ended, and when this process is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import resource
import select
import signal
import time
from collections import deque

from nictop.probe.kernel.pdeathsig import set_parent_death_signal
from nictop.probe.light_dataclasses import field_mapping
from nictop.probe.workload.connections import WorkloadConnections
from nictop.probe.workload.processes import (
    MARK,
    become_subreaper,
    descendants,
    descendants_now,
    end_all,
    reap,
)
from nictop.probe.workload.storage import WorkloadStorage
from nictop.probe.workload.threads import WorkloadThreads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from nictop.probe.traffic.requests import TrafficCommand

    Write = Callable[[object], None]

SHELL = "/bin/sh"
READ_BYTES = 64 * 1024
MAX_OUTPUT_BYTES, MAX_ERROR_BYTES = 96 * 1024, 16 * 1024
"""The last bytes of standard output and standard error that are kept."""
MAX_REPORT_BYTES = 200 * 1024
"""Of a report as JSON (`traffic.child`: a longer line is cut)."""
PASSED_ON = (
    *("PATH", "LANG", "LC_ALL", "LC_NUMERIC", "LD_LIBRARY_PATH", "TMPDIR", "TZ"),
    *("XDG_RUNTIME_DIR", "SSH_AUTH_SOCK"),
)
"""Variables that the command gets; others may have secrets of root."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
POLL_SECONDS = 0.5
"""A child that ends without closing its output is noticed after that time at most; SIGCHLD is
noticed at once."""
READ_SECONDS, MAX_CPU_SHARE = 0.5, 0.02
"""Between two readings of its processes and connections, or more, so that they use at most that
share of a core."""
FIRST_READ_SECONDS = 0.02
"""Until the first of them: each comes after twice the time of the one before, so that what a short
command did is seen."""
STORAGE_SECONDS = 1.0
"""Between two readings of block devices and NFS."""
LEFT_SECONDS = 0.2
"""For children to end after the command itself, before they count as left running."""


class Tail:
    """The last bytes of a stream."""

    def __init__(self, most: int) -> None:
        self._most, self._chunks = most, deque()  # type: tuple[int, deque[bytes]]
        self._kept = self.total = 0

    def add(self, data: bytes) -> None:
        self._chunks.append(data)
        self._kept += len(data)
        self.total += len(data)
        while self._kept - len(self._chunks[0]) >= self._most:
            self._kept -= len(self._chunks.popleft())

    def text(self, most: int) -> str:
        """Its end; what is not UTF-8 is replaced."""
        return b"".join(self._chunks)[-min(most, self._most) :].decode("utf-8", "replace")


def run_workload(command: TrafficCommand, write: Write, proc: str = "/proc") -> None:
    """Until the command has ended, in whatever way. Raises OSError if it cannot be started."""
    Supervisor(command, write, proc).run()


class Supervisor:
    """Of one command. Times are CLOCK_MONOTONIC."""

    def __init__(self, command: TrafficCommand, write: Write, proc: str) -> None:
        self._command, self._write, self._proc = command, write, proc
        self._connections = WorkloadConnections(proc)
        self._tails = {"stdout": Tail(MAX_OUTPUT_BYTES), "stderr": Tail(MAX_ERROR_BYTES)}
        self._pipes: dict[int, str] = {}
        self._parent = os.getppid()
        self._stopped = False
        self._status: int | None = None
        """Of the command, as of waitpid(2)."""
        self._most_processes = 1
        self._pid = 0
        self._started = self._ended = 0.0
        self._next_read = 0.0
        """Of its processes and connections."""
        self._read_seconds = FIRST_READ_SECONDS
        """Between two of them."""
        self._storage = WorkloadStorage(proc)
        self._next_storage = 0.0

    def run(self) -> None:
        wakeup = self._install_handlers()
        become_subreaper()
        self._connections.read(())
        self._started = time.monotonic()
        self._storage.begin(self._started)
        self._next_storage = self._started + STORAGE_SECONDS
        self._pid = self._start()
        self._threads = WorkloadThreads(self._pid, self._proc)
        self._threads.begin()
        self._send({"state": "began", "pid": self._pid, "user": user_name(), "time": self._started})
        deadline = self._started + self._command.deadline
        self._watch(deadline, wakeup)
        self._ended = time.monotonic()
        reason = "itself"
        if self._status is None:
            reason = "stopped" if self._stopped else "deadline"
        ended, left = self._end_children()
        self._status = ended.get(self._pid, self._status)
        self._read_rest()
        self._send_end(reason, left)

    def _install_handlers(self) -> int:
        """Descriptor that is readable after a signal."""
        readable, writable = os.pipe()
        os.set_blocking(readable, False)
        os.set_blocking(writable, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._stop)
        signal.set_wakeup_fd(writable)
        return readable

    def _stop(self, *_: object) -> None:
        self._stopped = True

    def _start(self) -> int:
        pipes = [os.pipe(), os.pipe()]
        parent = os.getpid()
        # until the child has reset the handlers, a signal to it would be lost
        blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGCHLD))
        try:
            pid = os.fork()
            if pid == 0:
                run_command(self._command, parent, [writable for _, writable in pipes])
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
        for (readable, writable), name in zip(pipes, self._tails):
            os.close(writable)
            os.set_blocking(readable, False)
            self._pipes[readable] = name
        return pid

    # ---------------------------------------------------------------------------------------- watch

    def _watch(self, deadline: float, wakeup: int) -> None:
        """Until the command itself has ended, the time is over, or it is to be stopped."""
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        for descriptor in self._pipes:
            poll.register(descriptor, select.POLLIN)
        while self._status is None and not self._stopped:
            now = time.monotonic()
            if now >= deadline:
                return
            if now >= self._next_read:
                self._continue_parent()
                self._read_connections()
            if now >= self._threads.next_read:
                self._threads.read()
            if now >= self._next_storage:
                self._report_storage(now)
            due = min(self._next_read, self._threads.next_read, deadline, now + POLL_SECONDS)
            due = min(due, self._next_storage)
            timeout = due - time.monotonic()
            for descriptor, _ in poll.poll(max(0.0, timeout) * 1000):
                if descriptor == wakeup:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wakeup, READ_BYTES)
                elif not self._read_output(descriptor):
                    poll.unregister(descriptor)
            self._status = reap().get(self._pid)

    def _continue_parent(self) -> None:
        """The command may stop (SIGSTOP) who is to end it, if that has its user."""
        if os.getppid() == self._parent:
            with contextlib.suppress(OSError):
                os.kill(self._parent, signal.SIGCONT)

    def _read_connections(self) -> None:
        cpu_before = time.process_time()
        pids = descendants_now(os.getpid(), self._proc)
        self._most_processes = max(self._most_processes, len(pids))
        self._connections.read(pids)
        cost = time.process_time() - cpu_before
        self._next_read = time.monotonic() + max(self._read_seconds, cost / MAX_CPU_SHARE)
        self._read_seconds = min(READ_SECONDS, 2 * self._read_seconds)

    def _report_storage(self, now: float) -> None:
        self._next_storage = now + STORAGE_SECONDS
        activities = self._storage.interval(now)
        if activities:
            report = {"state": "running", "pid": self._pid, "time": now, "storage": activities}
            self._send(report)

    def _read_output(self, descriptor: int) -> bool:
        """False: it is at its end, and closed."""
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return True
        if data:
            self._tails[self._pipes[descriptor]].add(data)
            return True
        os.close(descriptor)
        del self._pipes[descriptor]
        return False

    # ------------------------------------------------------------------------------------------ end

    def _end_children(self) -> tuple[dict[int, int], int]:
        """(PID → status of children, number of processes that the command left running; -1: some
        could not be ended)"""
        self._read_connections()
        self._threads.read()
        ended: dict[int, int] = {}
        left = 0
        if self._status is not None:
            end = time.monotonic() + LEFT_SECONDS
            while descendants(os.getpid(), self._proc) and time.monotonic() < end:
                time.sleep(0.01)
                ended.update(reap())
            left = len(descendants(os.getpid(), self._proc))
        of_all, remaining = end_all(self._proc)
        ended.update(of_all)
        return ended, -1 if remaining else left

    def _read_rest(self) -> None:
        """What is in the pipes; one of them may be held open by a process that could not be
        ended."""
        for descriptor in list(self._pipes):
            before = -1
            name = self._pipes[descriptor]
            while descriptor in self._pipes and self._tails[name].total != before:
                before = self._tails[name].total
                self._read_output(descriptor)

    def _send_end(self, reason: str, left: int) -> None:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        report: dict[str, Any] = {
            "state": "ended",
            "pid": self._pid,
            "time": self._ended,
            "seconds": self._ended - self._started,
            "reason": reason,
            "user_seconds": usage.ru_utime,
            "system_seconds": usage.ru_stime,
            "processes": self._most_processes,
            "left": left,
            "connections": self._connections.report(),
            "unreadable": self._connections.unreadable,
            **self._threads.report(),
            "storage": self._storage.total(self._ended),
            "stdout_bytes": self._tails["stdout"].total,
            "stderr_bytes": self._tails["stderr"].total,
        }
        if self._status is not None:
            if os.WIFSIGNALED(self._status):
                report["signal"] = os.WTERMSIG(self._status)
            else:
                report["status"] = os.WEXITSTATUS(self._status)
        self._send(with_output(report, self._tails["stdout"], self._tails["stderr"]))

    def _send(self, report: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # the probe has ended
            self._write(report)


def with_output(report: dict[str, Any], stdout: Tail, stderr: Tail) -> dict[str, Any]:
    """As much of the output as fits into a line."""
    most = MAX_OUTPUT_BYTES
    while True:
        found = dict(report, stdout=stdout.text(most), stderr=stderr.text(most))
        if len(json.dumps(found, default=field_mapping)) <= MAX_REPORT_BYTES:
            return found
        most //= 2


def user_name() -> str:
    """Of this process; its number if it has no name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError):
        return str(os.getuid())


def command_environment(command: TrafficCommand) -> dict[str, str]:
    """Of the command, which has the home directory of its own user, not of who called sudo."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment.setdefault("PATH", DEFAULT_PATH)
    with contextlib.suppress(KeyError, OSError):
        entry = pwd.getpwuid(os.getuid())
        environment.update(HOME=entry.pw_dir, USER=entry.pw_name, LOGNAME=entry.pw_name)
    environment["SHELL"] = SHELL
    environment.update(command.variables)
    environment[MARK] = command.id
    return environment


def run_command(command: TrafficCommand, parent: int, outputs: list[int]) -> NoReturn:
    """The child after fork: default signals, a session of its own, its output, then the shell."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.setsid()
        set_parent_death_signal(parent)
        for descriptor, output in enumerate(outputs, 1):
            os.dup2(output, descriptor)
        os.execve(SHELL, [SHELL, "-c", command.workload], command_environment(command))
    except BaseException as error:
        text = getattr(error, "strerror", None) or str(error)
        os.write(2, f"{SHELL}: {text}\n".encode("utf-8", "replace"))
    finally:
        os._exit(127)
