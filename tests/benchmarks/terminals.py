"""A program in a pseudo-terminal: its output, the time of it, and the CPU time of the program and
its children."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its live descendants, and children they have waited for.
    /proc/PID/stat."""
    total, waiting = 0.0, [pid]
    while waiting:
        current = waiting.pop()
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{current}/stat").read_text().rsplit(")", 1)[1].split()
            total += sum(int(value) for value in fields[11:15]) / TICKS
            for task in Path(f"/proc/{current}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
    return total


class Terminal:
    """`argv` in a pty of `columns` × `rows`; a context manager that ends the program by its pid."""

    def __init__(
        self, argv: Sequence[str], *, columns: int = 120, rows: int = 36, **environment: str
    ) -> None:
        self.started = time.monotonic()
        self.output = b""
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(
                {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
                | environment
            )
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            try:
                os.execvp(argv[0], list(argv))
            finally:
                os._exit(127)

    def read(self, seconds: float, until: Callable[[bytes], bool] | None = None) -> float | None:
        """Read for `seconds` or until `until(all output)`; seconds since the start at that time,
        None: never true."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._fd], [], [], left)[0]:
                try:
                    data = os.read(self._fd, 65536)
                except OSError:  # EIO: the program ended
                    return None
                now = time.monotonic()
                if until is not None:
                    self.output += data
                    if until(self.output):
                        return now - self.started
        return None

    def type(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
            for _attempt in range(100):
                done, _status = os.waitpid(self.pid, os.WNOHANG)
                if done:
                    os.close(self._fd)
                    return
                self.read(0.02)
        os.close(self._fd)
