"""CPU time per CPU: /proc/stat through a kept descriptor → CPU id to ticks.

The kernel generates the whole file at each read from offset 0 (mostly interrupt sums), so it is
read once per pass, and only up to the end of the ``cpuN`` lines.
"""

from __future__ import annotations

import os
from json import JSONDecoder

CPU_TIME_COLUMNS = 10
"""Length of `records.CPU_TIMES`; a later kernel may append columns."""

MIN_CPU_COLUMNS = 5
"""Numbers in a cpuN line: the CPU id and the columns of every Linux version (user, nice, system,
idle)."""

CPU_LINE_BYTES = b"cpu0123456789 \n"
"""All bytes that may occur in cpuN lines."""
decode_json = JSONDecoder().raw_decode
"""Parses integers almost twice as fast as split() and int(), and accepts plain decimal ones
only."""

FIRST_STAT_BYTES = 8 * 1024
MAX_STAT_BYTES = 4 * 1024 * 1024
"""Larger than the lines of 8192 CPUs, the maximum of Linux, with twenty digits per column."""


class CpuTimeReader:
    """Reads /proc/stat in every pass. `proc`: root of procfs."""

    def __init__(self, proc: str = "/proc") -> None:
        self._path = proc + "/stat"
        self._descriptor = -1
        self._read_bytes = FIRST_STAT_BYTES

    def read(self) -> dict[int, tuple[int, ...]]:
        """CPU id → USER_HZ ticks in the order of `records.CPU_TIMES`, online CPUs only.

        Raises OSError when the file cannot be read and ValueError when it is not as proc(5)
        documents.
        """
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        text = b""
        while True:
            part = os.pread(self._descriptor, self._read_bytes - len(text), len(text))
            text = text + part if text else part
            if not part or b"\nintr" in text:
                return parse_cpu_times(text)
            if len(text) == self._read_bytes:
                if self._read_bytes >= MAX_STAT_BYTES:
                    raise ValueError("the cpu lines have no end")
                # a seq_file returns as many lines as fit: enlarge the buffer and read this pass
                # again in one piece
                self._read_bytes *= 4
                text = b""

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def parse_cpu_times(text: bytes) -> dict[int, tuple[int, ...]]:
    """CPU id → ticks of each ``cpuN`` line at the start of /proc/stat; `text` may end anywhere
    after the ``intr`` word.

    Raises ValueError when there is no such line, or one is truncated or garbled: half a number
    would be a wrong number.
    """
    text = text.partition(b"\nintr")[0]
    unexpected = text.translate(None, CPU_LINE_BYTES)
    if unexpected:
        raise ValueError(f"{unexpected[:40]!r} in the cpu lines")
    total, _, lines = text.decode("ascii").partition("\ncpu")
    array = "[[" + lines.replace("\ncpu", "],[").replace(" ", ",") + "]]"
    cpus: dict[int, tuple[int, ...]] = {}
    try:
        for row in decode_json(array)[0]:
            if len(row) < MIN_CPU_COLUMNS:
                raise ValueError("too few columns")
            cpus[row[0]] = tuple(row[1 : CPU_TIME_COLUMNS + 1])
    except ValueError as error:
        raise ValueError(f"not cpu lines, {error}: {text[:80]!r}") from None
    if total[:4] != "cpu ":
        raise ValueError(f"not the sum of the cpu lines: {text[:80]!r}")
    return cpus
