"""A program in a pseudo-terminal: wait for its output, type keys, wait for its end."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>])")
TERMINAL_TIMEOUT = 40.0
"""Seconds until text must appear, or until the program must end."""


class TerminalProgram:
    """The program; a context manager that kills it."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        size: tuple[int, int],
    ) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(cwd)
                os.execvpe(command[0], list(command), dict(environment))
            finally:
                os._exit(127)
        columns, rows = size
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._output = b""
        self._status: int | None = None

    def __enter__(self) -> TerminalProgram:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self._terminal >= 0:
            os.close(self._terminal)

    @property
    def text(self) -> str:
        """The output so far without escape sequences."""
        return ESCAPES.sub("", self._output.decode("utf-8", "replace"))

    def wait_for_text(self, words: str) -> None:
        """Wait until the output contains `words`."""
        end = time.monotonic() + TERMINAL_TIMEOUT
        while words not in self.text:
            assert self._read(end), f"{words!r} not in the output: {self.text[-3000:]}"

    def until_after(self, position: int, words: str) -> None:
        """Wait until it has drawn these words behind a position in `text`."""
        end = time.monotonic() + TERMINAL_TIMEOUT
        while words not in self.text[position:]:
            assert self._read(end), (
                f"{words!r} was not drawn again; this was: {self.text[position:][-3000:]}"
            )

    @property
    def output(self) -> bytes:
        """The output so far, raw."""
        return self._output

    @property
    def descriptor(self) -> int:
        return self._terminal

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def send(self, data: bytes) -> None:
        os.write(self._terminal, data)

    def wait_for_end(self, modes: list[object] | None = None) -> int:
        """Wait for the end of the program; its exit code. The final terminal modes are appended to
        `modes`."""
        end = time.monotonic() + TERMINAL_TIMEOUT
        while self._read(end):
            pass
        if modes is not None:
            modes += termios.tcgetattr(self._terminal)
        _, status = os.waitpid(self.pid, 0)
        self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def hang_up(self) -> None:
        """Close the terminal, as when its window is closed."""
        os.close(self._terminal)
        self._terminal = -1

    def has_ended(self) -> bool:
        """Whether the program has ended; reads and discards its output."""
        if self._status is None:
            while self._terminal >= 0 and select.select([self._terminal], [], [], 0)[0]:
                try:
                    if not os.read(self._terminal, 65536):
                        break
                except OSError:
                    break
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status is not None

    def _read(self, end: float) -> bool:
        """Read output; False when the program has closed its terminal. AssertionError when none
        comes until `end`."""
        ready, _, _ = select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise AssertionError(f"no more output: {self.text[-3000:]}")
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # EIO: the other side is closed
            return False
        self._output += data
        return bool(data)
