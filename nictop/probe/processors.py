"""CPU time per processor: /proc/stat through a kept descriptor → CPU id to the ticks of each kind of work.

The kernel makes the whole file at each read from offset 0 (the interrupt sums cost most of it), so it is read once per
pass, into a buffer that is kept, and only as far as the ``cpuN`` lines go.
"""

from __future__ import annotations

import os

COLUMNS = 10
"""Length of `records.CPU_TIMES`; a later kernel may append columns."""

LEGAL = b"cpu0123456789 \n"

FIRST_BUFFER = 8 * 1024
LARGEST_BUFFER = 4 * 1024 * 1024
"""Bytes. 8192 CPUs, the most that Linux can have, with twenty digits in each column stay below it."""


class ProcessorReader:
    """Reads /proc/stat again and again. `proc` is where procfs stands."""

    def __init__(self, proc: str = "/proc") -> None:
        self._path = proc + "/stat"
        self._descriptor = -1
        self._buffer = bytearray(FIRST_BUFFER)

    def read(self) -> dict[int, tuple[int, ...]]:
        """CPU id → USER_HZ ticks in the order of `records.CPU_TIMES`, online CPUs only.

        Raises OSError when the file cannot be read and ValueError when it is not what proc(5) promises.
        """
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        buffer = self._buffer
        filled = 0
        while True:
            count = os.preadv(self._descriptor, [memoryview(buffer)[filled:] if filled else buffer], filled)
            filled += count
            end = filled if count == 0 else buffer.find(b"\nintr", 0, filled)
            if end >= 0:
                return parse_processors(bytes(buffer[:end]))
            if filled == len(buffer):
                if filled >= LARGEST_BUFFER:
                    raise ValueError("the cpu lines have no end")
                # seq_file hands out what fits: a larger buffer from now on, and this pass again in one piece
                self._buffer = buffer = bytearray(4 * filled)
                filled = 0

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def parse_processors(text: bytes) -> dict[int, tuple[int, ...]]:
    """The ``cpuN`` lines at the head of /proc/stat; the sum line ``cpu`` and all from ``intr`` on are left out.

    Raises ValueError when a line is cut off or garbled, or when there is none: half a number would be a wrong number.
    """
    text = text.partition(b"\nintr")[0]
    foreign = text.translate(None, LEGAL)
    if foreign:  # int() would take 1_0 and +1
        raise ValueError(f"{foreign[:40]!r} in the cpu lines")
    processors: dict[int, tuple[int, ...]] = {}
    for line in text.split(b"\n"):
        words = line.split()
        if not words or words[0] == b"cpu":
            continue
        try:
            processors[int(words[0][3:])] = tuple(map(int, words[1 : COLUMNS + 1]))
        except ValueError:
            words = []
        if len(words) < 5 or line[:3] != b"cpu":
            raise ValueError(f"not a cpu line: {line[:80]!r}")
    if not processors:
        raise ValueError("no cpu lines")
    return processors
