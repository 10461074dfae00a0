"""The probe's way out: lines to a descriptor that never holds up the loop.

A reader that is behind loses counters (the next ones say the same, and more), never anything else; only when it has not
read for so long that `LIMIT` bytes wait, other lines are lost too, and `lost` says that the picture must be sent anew.
"""

from __future__ import annotations

import errno
import os

LIMIT = 4 * 1024 * 1024
"""Bytes that may wait besides the line that is being written."""


class LineWriter:
    """Writes lines to `descriptor`, which becomes non-blocking unless it is a terminal."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.lost = False
        self._waiting: list[bytes | bytearray] = []
        self._size = 0
        self._written = 0
        if not os.isatty(descriptor):  # a terminal's flags belong to the shell as well
            os.set_blocking(descriptor, False)

    @property
    def behind(self) -> bool:
        """Whether something is still to be written."""
        return bool(self._waiting)

    def offer(self, line: bytes | bytearray, *, dispensable: bool = False) -> bool:
        """Write `line`, or keep it until `drain`; False: it was dropped. Raises BrokenPipeError: nobody reads."""
        if self._waiting:
            if dispensable:
                return False
            if self._size + len(line) > LIMIT:
                self.lost = True
                return False
        self._waiting.append(line)
        self._size += len(line)
        self.drain()
        return True

    def drain(self) -> None:
        """Write as much as goes without waiting. Raises BrokenPipeError: nobody reads."""
        while self._waiting:
            line = self._waiting[0]
            try:
                count = os.write(self.descriptor, memoryview(line)[self._written :])
            except BlockingIOError:
                return
            except OSError as error:  # EIO of a terminal that went away, ECONNRESET of a socket: all the same here
                raise BrokenPipeError(error.errno or errno.EPIPE, os.strerror(error.errno or errno.EPIPE)) from error
            self._written += count
            if self._written == len(line):
                self._size -= len(line)
                self._written = 0
                del self._waiting[0]
