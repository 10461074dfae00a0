"""Processes of one end of a run: started, waited for, and ended in every case.

Each dies with the process that started it. Their standard error is a pipe: its last line is why one
of them failed.
"""

from __future__ import annotations

import os
import select
import signal

from nictop.probe.kernel.pdeathsig import set_parent_death_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Workers:
    """The processes of this end. `pipe`: readable when all of them have ended, for poll."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.failed = False
        """One of them ended with an error."""
        self.pipe, self._writable = (
            os.pipe()
        )  # inherited by the processes: closed when the last one ends
        self._errors, error_writer = os.pipe()
        os.dup2(error_writer, 2)
        os.close(error_writer)

    def start(self, work: Callable[[], object]) -> None:
        """Run a function in a new process."""
        self.pids.append(fork_worker(work))

    def all_started(self) -> select.poll:
        """To be called after the last start; returns what to poll for their end."""
        os.close(self._writable)
        poll = select.poll()
        poll.register(self.pipe, 0)
        return poll

    def reap(self) -> dict[str, float]:
        """Wait for the ended processes; CPU seconds of all of them."""
        user = system = 0.0
        while self.pids:
            _, status, usage = os.wait4(self.pids[-1], 0)
            self.pids.pop()
            user, system = user + usage.ru_utime, system + usage.ru_stime
            self.failed = self.failed or status != 0
        return {"cpu_user": round(user, 6), "cpu_system": round(system, 6)}

    def kill(self) -> None:
        """End those that still run, and wait for them."""
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
        while self.pids:
            os.waitpid(self.pids.pop(), 0)

    @property
    def error(self) -> str:
        """The last line that one of them wrote to its standard error; "": none did."""
        os.set_blocking(self._errors, False)
        try:
            message = os.read(self._errors, 4096).decode("utf-8", "replace").strip().splitlines()
        except BlockingIOError:
            return ""
        return message[-1] if message else ""


def fork_worker(work: Callable[[], object]) -> int:
    """Process id of a new process that runs the function; its exit status is 1 if that raises."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        set_parent_death_signal(parent)
        work()
        status = 0
    except BaseException as error:
        message = getattr(error, "strerror", None) or f"{type(error).__name__} {error}"
        os.write(2, f"{message}\n".encode("utf-8", "replace"))
    finally:
        os._exit(status)
