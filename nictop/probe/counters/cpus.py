"""CPU time per processor: /proc/stat through a kept descriptor → CPU id to the ticks of each kind of work.

The kernel makes the whole file at each read from offset 0 (the interrupt sums cost most of it), so it is read once per
pass and only as far as the ``cpuN`` lines go.
"""

from __future__ import annotations

import os
from json import JSONDecoder

COLUMNS = 10
"""Length of `records.CPU_TIMES`; a later kernel may append columns."""

FEWEST = 5
"""Numbers in a cpu line: its own, and the columns that every Linux has (user, nice, system, idle)."""

LEGAL = b"cpu0123456789 \n"
scan = JSONDecoder().raw_decode
"""Makes integers of a text almost twice as fast as split() and int(), and takes nothing but plain decimal ones."""

FIRST_READ = 8 * 1024
LARGEST_READ = 4 * 1024 * 1024
"""Bytes. 8192 CPUs, the most that Linux can have, with twenty digits in each column stay below it."""


class ProcessorReader:
    """Reads /proc/stat again and again. `proc` is where procfs stands."""

    def __init__(self, proc: str = "/proc") -> None:
        self._path = proc + "/stat"
        self._descriptor = -1
        self._room = FIRST_READ

    def read(self) -> dict[int, tuple[int, ...]]:
        """CPU id → USER_HZ ticks in the order of `records.CPU_TIMES`, online CPUs only.

        Raises OSError when the file cannot be read and ValueError when it is not what proc(5) promises.
        """
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        text = b""
        while True:
            part = os.pread(self._descriptor, self._room - len(text), len(text))
            text = text + part if text else part
            if not part or b"\nintr" in text:
                return parse_processors(text)
            if len(text) == self._room:
                if self._room >= LARGEST_READ:
                    raise ValueError("the cpu lines have no end")
                # seq_file hands out what fits: more room from now on, and this pass again in one piece
                self._room *= 4
                text = b""

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
    if foreign:
        raise ValueError(f"{foreign[:40]!r} in the cpu lines")
    total, _, lines = text.decode("ascii").partition("\ncpu")
    array = "[[" + lines.replace("\ncpu", "],[").replace(" ", ",") + "]]"
    processors: dict[int, tuple[int, ...]] = {}
    try:
        for row in scan(array)[0]:
            if len(row) < FEWEST:
                raise ValueError("too few columns")
            processors[row[0]] = tuple(row[1 : COLUMNS + 1])
    except ValueError as error:
        raise ValueError(f"not cpu lines, {error}: {text[:80]!r}") from None
    if total[:4] != "cpu ":
        raise ValueError(f"not the sum of the cpu lines: {text[:80]!r}")
    return processors
