"""A child process that generates traffic, with its own session and pipes, and its termination in
every case.

It is killed with the probe (PR_SET_PDEATHSIG, `kernel.pdeathsig`); otherwise SIGTERM and, after a
timeout, SIGKILL are sent to its process group. The group's number cannot be reused before its
leader has been reaped, and all processes that it starts belong to the group. Only `terminate_all`
blocks.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from nictop.probe.kernel.backports import exit_code
from nictop.probe.protocol.requests import take_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn, Union

    Program = Union[Sequence[str], Callable[[], Union[int, None]]]

TERMINATE_TIMEOUT = 0.3
"""Seconds from SIGTERM to SIGKILL; also from the end of the process to that of its pipes, and the
other way round."""
KILL_POLLS, KILL_POLL_SECONDS = 250, 0.002
"""How often, and how many seconds apart, `terminate_all` checks whether a process has ended after
SIGKILL. Not a time limit: a process ends only when it gets a CPU. One in uninterruptible sleep ends
later."""
STOPPED_SECONDS = 2.0
"""After a child should have begun to end itself, until it is killed if it is stopped."""
POLL_FAST_SECONDS, POLL_SLOW_SECONDS = 0.005, 0.5
"""Seconds between checks of a child that is about to end, and of one that runs."""
OUTPUT_READ_BYTES = 64 * 1024
MAX_OUTPUT_LINE_BYTES = 256 * 1024
"""Bytes; the rest of a longer line is dropped."""
PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_NUMERIC", "LD_LIBRARY_PATH", "TMPDIR", "TEMP", "TMP")
"""Variables that a program gets. Others may have secrets of root, and other processes of its user
can read them."""
START_MARK = b"+"
"""Sent by the child right before it runs the program."""


class TrafficChild:
    """A child made with `start`. `outputs`: descriptor → "stdout" or "stderr", to be polled and
    passed to `read`; before that, poll `start_pipe` until it is -1. Times are CLOCK_MONOTONIC."""

    def __init__(self, pid: int, start_pipe: int, outputs: dict[int, str], deadline: float) -> None:
        self.pid = pid
        self.start_pipe = start_pipe
        self.outputs = outputs
        self.deadline = deadline
        self.terminate_timeout = TERMINATE_TIMEOUT
        """Seconds from SIGTERM to SIGKILL."""
        self.terminated_at: float | None = None
        """When SIGTERM was sent."""
        self.ends_itself_at: float | None = None
        """When a child that supervises others begins to end them, which may stop it (SIGSTOP), if
        they have its user; None: it is not such a child."""
        self.before_kill: Callable[[], object] = int
        """Called before SIGKILL is sent: ends what it supervises."""
        self.was_stopped = False
        """It was killed because it was stopped when it should have ended."""
        self._exited = False
        self.was_killed = False
        """Whether SIGKILL was sent after SIGTERM."""
        self._half_ended_since: float | None = None
        self._partial_lines = {descriptor: bytearray() for descriptor in outputs}
        self._status = b""

    @classmethod
    def start(
        cls, program: Program, deadline: float, prepare: Callable[[], object] = int
    ) -> TrafficChild:
        """Run a command line, its first word a path, or a function; `prepare` is called in the
        child before. Raises OSError when no process or pipe can be made; later errors are returned
        by `start_result`."""
        pipes: list[int] = []
        try:
            for _ in range(3):
                pipes += os.pipe()
            parent = os.getpid()
            # until the child has reset the handlers, a signal to it would end the probe (wakeup
            # descriptor)
            blocked_before = signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
            try:
                pid = os.fork()
                if pid == 0:
                    _run_child(program, prepare, parent, pipes[1::2])
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
        except OSError:
            for descriptor in pipes:
                os.close(descriptor)
            raise
        for readable, writable in zip(pipes[::2], pipes[1::2]):
            os.close(writable)
            os.set_blocking(readable, False)
        return cls(pid, pipes[0], {pipes[2]: "stdout", pipes[4]: "stderr"}, deadline)

    def start_result(self) -> tuple[bool | None, str]:
        """(started, error): None while unknown, False with a sentence when it failed. Closes
        `start_pipe` when it is known."""
        while True:
            try:
                data = os.read(self.start_pipe, OUTPUT_READ_BYTES)
            except BlockingIOError:
                return None, ""
            if not data:
                break
            self._status += data
        os.close(self.start_pipe)
        self.start_pipe = -1
        if self._status == START_MARK:
            return True, ""
        return False, self._status.lstrip(START_MARK).decode(
            "utf-8", "replace"
        ) or "stopped before it started"

    def read(self, descriptor: int) -> list[str]:
        """Complete lines from one of `outputs`, without line ends; at its end the descriptor is
        closed and removed."""
        try:
            data = os.read(descriptor, OUTPUT_READ_BYTES)
        except BlockingIOError:
            return []
        rest = self._partial_lines[descriptor]
        lines = take_lines(rest, data)
        if not data:
            lines = [bytes(rest)] if rest else []
            rest.clear()
            self._close(descriptor)
        del rest[MAX_OUTPUT_LINE_BYTES:]
        return [
            line[:MAX_OUTPUT_LINE_BYTES].decode("utf-8", "replace").rstrip("\r") for line in lines
        ]

    def terminate(self, now: float) -> None:
        """Send SIGTERM once; `advance` does the rest."""
        if self.terminated_at is None:
            self.terminated_at = now
            self._signal(signal.SIGTERM)

    def advance(self, now: float) -> bool:
        """Do what is due. True: the process and its pipes have ended; call `reap`."""
        if not self._exited:
            self._exited = (
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            )
            if self._exited:
                self._signal(signal.SIGKILL)  # its own children in the group
        if not self._exited and not self.was_killed:
            self._end_in_time(now)
        is_half_ended = self._exited == self._has_open_pipes
        if not is_half_ended:
            self._half_ended_since = None
        elif self._half_ended_since is None:
            self._half_ended_since = now
        elif now >= self._half_ended_since + TERMINATE_TIMEOUT:
            self._end_other_half(now)
        return self._exited and not self._has_open_pipes

    @property
    def _has_open_pipes(self) -> bool:
        return bool(self.outputs) or self.start_pipe >= 0

    def _end_other_half(self, now: float) -> None:
        """Of the process and its pipes, one has ended some time ago."""
        if not self._exited:
            self.terminate(now)  # it runs without output, and cannot be observed
        elif now >= self.deadline or not self._has_output():
            self.close()  # a process outside the group has them open

    def _end_in_time(self, now: float) -> None:
        """SIGCONT for a supervisor that was stopped; SIGKILL for a child that does not end."""
        is_late = (
            self.terminated_at is not None and now >= self.terminated_at + self.terminate_timeout
        )
        if self.ends_itself_at is not None:
            due = min(self.ends_itself_at, self.terminated_at or self.ends_itself_at)
            is_late = is_late or now >= self.deadline
            if not is_late and _is_stopped(self.pid):
                self.was_stopped = is_late = now >= due + STOPPED_SECONDS
                if not is_late:
                    self._signal(signal.SIGCONT)
        if is_late:
            self.was_killed = True
            self.before_kill()
            self._signal(signal.SIGKILL)

    def next_deadline(self, now: float) -> float:
        """When to call `advance` again."""
        is_stuck = (
            self.terminated_at is not None and now > self.terminated_at + 2 * TERMINATE_TIMEOUT
        )
        if is_stuck:
            return now + POLL_SLOW_SECONDS
        if self._exited or self.terminated_at is not None or not self.outputs:
            return now + POLL_FAST_SECONDS
        return min(self.deadline, now + POLL_SLOW_SECONDS)

    def reap(self) -> int:
        """Exit status of an ended child, or the negative number of the signal that ended it."""
        return exit_code(os.waitpid(self.pid, 0)[1])

    def _has_output(self) -> bool:
        """Whether there is something to read, or the end of a pipe: a probe without CPU time reads
        it late."""
        pipes = select.poll()
        for descriptor in self.outputs:
            pipes.register(descriptor, select.POLLIN)
        if self.start_pipe >= 0:
            pipes.register(self.start_pipe, select.POLLIN)
        return bool(pipes.poll(0))

    def close(self) -> None:
        """Close its pipes."""
        for descriptor in list(self.outputs):
            self._close(descriptor)
        if self.start_pipe >= 0:
            os.close(self.start_pipe)
            self.start_pipe = -1

    def _close(self, descriptor: int) -> None:
        os.close(descriptor)
        del self.outputs[descriptor]

    def _signal(self, signal_number: int) -> None:
        try:
            os.killpg(self.pid, signal_number)
        except ProcessLookupError:
            os.kill(self.pid, signal_number)  # before its setsid()
        except PermissionError:
            # the whole group runs as another user: PR_SET_PDEATHSIG and the end of its pipes remain
            pass


def _is_stopped(pid: int) -> bool:
    """Now, by a signal."""
    try:
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # it has ended
        return False


def terminate_all(children: Sequence[TrafficChild]) -> None:
    """Terminate all and wait: SIGTERM, `TERMINATE_TIMEOUT`, SIGKILL, `KILL_POLLS`."""
    start, polls = time.monotonic(), 0
    for child in children:
        child.close()
        child.terminate(start)
    remaining = list(children)
    while remaining and polls < KILL_POLLS:
        now = time.monotonic()
        for child in list(remaining):
            if child.advance(now):
                child.reap()
                remaining.remove(child)
        polls += all(child.was_killed for child in remaining)
        if remaining:
            time.sleep(KILL_POLL_SECONDS)


def _run_child(
    program: Program, prepare: Callable[[], object], parent: int, pipes: Sequence[int]
) -> NoReturn:
    """The child after fork: default signals, own session and descriptors, then the program.
    `pipes`: to write the start result, standard output and errors to."""
    start_pipe, stdout, stderr = pipes
    status = 127
    try:
        signal.set_wakeup_fd(-1)
        for signal_number in (
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGINT,
            signal.SIGPIPE,
            signal.SIGXFSZ,
        ):
            signal.signal(signal_number, signal.SIG_DFL)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        prepare()
        from nictop.probe.kernel.pdeathsig import set_parent_death_signal

        set_parent_death_signal(parent)  # a change of the user would clear it
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.write(start_pipe, START_MARK)
        if not callable(program):
            os.execve(
                program[0],
                list(program),
                {name: os.environ[name] for name in PASSED_ON if name in os.environ},
            )
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                with contextlib.suppress(OSError):  # the descriptor of the listing itself
                    os.close(int(name))
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        status = 1
        status = int(program() or 0)
    except BaseException as error:
        name = "" if isinstance(error, OSError) else f"{type(error).__name__}: "
        text = f"{name}{getattr(error, 'strerror', None) or error}"
        descriptor = 2 if status == 1 else start_pipe
        os.write(descriptor, text.encode("utf-8", "replace")[:2000])
    finally:
        os._exit(status)
