"""Output lines of the probe, written without blocking its loop.

When the reader is slow, only counters are dropped, because the next ones supersede them. Other
lines are dropped only when more than `MAX_BACKLOG_BYTES` bytes are waiting; `dropped` is set then,
because the whole state must be sent again.
"""

from __future__ import annotations

import errno
import os

MAX_BACKLOG_BYTES = 4 * 1024 * 1024
"""Bytes that may wait, besides the line being written."""


class LineWriter:
    """Writes lines to `descriptor`, which is set non-blocking unless it is a terminal."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.dropped = False
        self._waiting: list[bytes | bytearray] = []
        self._size = 0
        self._written = 0
        if not os.isatty(descriptor):  # the shell shares the flags of a terminal
            os.set_blocking(descriptor, False)

    @property
    def backlogged(self) -> bool:
        """Whether lines are waiting."""
        return bool(self._waiting)

    def write(self, line: bytes | bytearray, *, dispensable: bool = False) -> bool:
        """Write `line`, or queue it for `flush`; False: it was dropped. Raises BrokenPipeError when
        the reader has closed."""
        if self._waiting:
            if dispensable:
                return False
            if self._size + len(line) > MAX_BACKLOG_BYTES:
                self.dropped = True
                return False
        self._waiting.append(line)
        self._size += len(line)
        self.flush()
        return True

    def flush(self) -> None:
        """Write as much as possible without blocking. Raises BrokenPipeError when the reader has
        closed."""
        while self._waiting:
            line = self._waiting[0]
            try:
                count = os.write(self.descriptor, memoryview(line)[self._written :])
            except BlockingIOError:
                return
            except OSError as error:  # also EIO of a closed terminal, ECONNRESET of a socket
                raise BrokenPipeError(
                    error.errno or errno.EPIPE, os.strerror(error.errno or errno.EPIPE)
                ) from error
            self._written += count
            if self._written == len(line):
                self._size -= len(line)
                self._written = 0
                del self._waiting[0]
