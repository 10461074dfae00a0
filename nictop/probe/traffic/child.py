"""One process that makes traffic, and what ends it: a session of its own, pipes for its words, no way to stay behind.

It dies with the probe (PR_SET_PDEATHSIG, see `parent_death`); otherwise SIGTERM, a moment, SIGKILL, always to its own
process group, whose number cannot belong to others as long as its leader has not been waited for. Whatever it starts
belongs to the same group. Nothing here ever waits but `end_now`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn, Union

    Program = Union[Sequence[str], Callable[[], Union[int, None]]]

PATIENCE = 0.3
"""Seconds from SIGTERM to SIGKILL, and from the end of one of pipes and process to the end of the other."""
LAST_PATIENCE = 0.2
"""Seconds that `end_now` waits after SIGKILL: a process that the kernel holds longer ends when it lets go."""
SOON, LATER = 0.005, 0.5
"""Seconds until the next look at a child that is about to end, and at one that works."""
READ = 64 * 1024
LONGEST_LINE = 256 * 1024
"""Bytes; the rest of a longer one is left out."""
STARTING = b"+"
"""What the child says right before it becomes what it is to be."""


class TrafficChild:
    """A child made with `start`. `outputs`: descriptor → stream name, to be polled for reading and given to `read`;
    until `starting` is -1 that is the only one. Times are CLOCK_MONOTONIC."""

    def __init__(self, pid: int, starting: int, outputs: dict[int, str], deadline: float) -> None:
        self.pid = pid
        self.starting = starting
        self.outputs = outputs
        self.deadline = deadline
        self.terminated: float | None = None
        """When it was sent SIGTERM."""
        self._killed = self._exited = False
        self._silent_since: float | None = None
        self._rest = dict.fromkeys(outputs, b"")
        self._said = b""

    @classmethod
    def start(cls, program: Program, deadline: float) -> TrafficChild:
        """Run a command line, its first word a path, or a function of ours. Raises OSError when there is no process or
        descriptor left for it; what fails later is told by `has_started`."""
        pipes: list[int] = []
        try:
            for _ in range(3):
                pipes += os.pipe()
            parent = os.getpid()
            # what arrives before the child has dropped the probe's handlers would end the probe
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                pid = os.fork()
                if pid == 0:
                    _become(program, parent, pipes[1], pipes[3], pipes[5])
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except OSError:
            for descriptor in pipes:
                os.close(descriptor)
            raise
        for readable, writable in zip(pipes[::2], pipes[1::2]):
            os.close(writable)
            os.set_blocking(readable, False)
        return cls(pid, pipes[0], {pipes[2]: "stdout", pipes[4]: "stderr"}, deadline)

    def has_started(self) -> tuple[bool | None, str]:
        """What the start has come to: None: not yet known; False: why it failed, in a sentence. Closes `starting` when
        it is known."""
        while True:
            try:
                part = os.read(self.starting, READ)
            except BlockingIOError:
                return None, ""
            if not part:
                break
            self._said += part
        os.close(self.starting)
        self.starting = -1
        if self._said == STARTING:
            return True, ""
        return False, self._said.lstrip(STARTING).decode("utf-8", "replace") or "it was ended before it had started"

    def read(self, descriptor: int) -> list[str]:
        """The lines that have come on one of `outputs`, without their ends; closed and removed there at its end."""
        try:
            part = os.read(descriptor, READ)
        except BlockingIOError:
            return []
        *lines, rest = (self._rest[descriptor] + part).split(b"\n")
        if not part:
            lines, rest = [rest] if rest else [], b""
            self._close(descriptor)
        self._rest[descriptor] = rest[:LONGEST_LINE]
        return [line[:LONGEST_LINE].decode("utf-8", "replace").rstrip("\r") for line in lines]

    def terminate(self, now: float) -> None:
        """SIGTERM, once; `advance` does the rest."""
        if self.terminated is None:
            self.terminated = now
            self._signal(signal.SIGTERM)

    def advance(self, now: float) -> bool:
        """Do what is due; True: it has ended and its pipes have: `reap` it."""
        if not self._exited:
            self._exited = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            if self._exited:
                self._signal(signal.SIGKILL)  # to those it has left behind
        if self.terminated is not None and not self._killed and now >= self.terminated + PATIENCE:
            self._killed = True
            self._signal(signal.SIGKILL)
        open_pipes = bool(self.outputs) or self.starting >= 0
        if self._exited != open_pipes:
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        elif now >= self._silent_since + PATIENCE:
            if self._exited:
                self.close()  # somebody outside the group holds them
            else:
                self.terminate(now)  # works on without words: nobody could tell what it does
        return self._exited and not (self.outputs or self.starting >= 0)

    def next_moment(self, now: float) -> float:
        """When `advance` should be called again."""
        held = self.terminated is not None and now > self.terminated + 2 * PATIENCE
        if not held and (self._exited or self.terminated is not None or not self.outputs):
            return now + SOON
        return now + LATER if held else min(self.deadline, now + LATER)

    def reap(self) -> tuple[int | None, int | None]:
        """(exit status, signal) of a child that has ended; one of them is None."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return (code, None) if code >= 0 else (None, -code)

    def close(self) -> None:
        """Its pipes."""
        for descriptor in list(self.outputs):
            self._close(descriptor)
        if self.starting >= 0:
            os.close(self.starting)
            self.starting = -1

    def _close(self, descriptor: int) -> None:
        os.close(descriptor)
        del self.outputs[descriptor]

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            os.kill(self.pid, number)  # has not made its session yet
        except PermissionError:
            pass  # none of them is ours any more: PR_SET_PDEATHSIG and the end of its pipes are left


def end_now(children: Sequence[TrafficChild]) -> None:
    """End them all and wait for them: SIGTERM, `PATIENCE`, SIGKILL, `LAST_PATIENCE`."""
    start = time.monotonic()
    for child in children:
        child.close()
        child.terminate(start)
    left = list(children)
    while left and time.monotonic() < start + PATIENCE + LAST_PATIENCE:
        for child in list(left):
            if child.advance(time.monotonic()):
                child.reap()
                left.remove(child)
        if left:
            time.sleep(0.002)


def _become(program: Program, parent: int, starting: int, stdout: int, stderr: int) -> NoReturn:
    """The child's side of the fork: signals, session and descriptors of its own, then the program."""
    status = 127
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        from nictop.probe.kernel.pdeathsig import die_with

        die_with(parent)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.write(starting, STARTING)
        if not callable(program):
            os.execv(program[0], list(program))
        for name in os.listdir("/proc/self/fd"):
            if int(name) > 2:
                with contextlib.suppress(OSError):  # the one that the listing itself had open
                    os.close(int(name))
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        status = 1
        status = int(program() or 0)
    except BaseException as error:
        name = "" if isinstance(error, OSError) else f"{type(error).__name__}: "
        text = f"{name}{getattr(error, 'strerror', None) or error}"
        place = 2 if status == 1 else starting
        os.write(place, text.encode("utf-8", "replace")[:2000])
    finally:
        os._exit(status)
