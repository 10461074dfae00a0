"""Network work per CPU: NET_TX and NET_RX of /proc/softirqs, backlog counters of
/proc/net/softnet_stat.

/proc/softirqs has a column for each possible CPU, named in its header. softnet_stat has a row for
each online CPU; since Linux 5.10 column 13 (counted from one) is the CPU id, before that the rows
are the online CPUs in order. Older kernels have fewer columns. Both files are read through kept
descriptors into one buffer.
"""

from __future__ import annotations

import os
import struct

from nictop.probe.kernel.cpu_columns import parse_cpu_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Counts = dict[int, tuple[int, ...]]

SOFTIRQ_ROWS = (b"NET_TX:", b"NET_RX:")
"""`records.SOFTIRQS`, as spelled in the file."""
NET_PREFIX = b"NET_"
SOFTNET_COLUMNS = (0, 1, 2, 9, 10)
"""`records.SOFTNET_COUNTERS` counted from zero: processed, dropped, time_squeeze, received_rps,
flow_limit_count."""
SOFTNET_CPU_COLUMN = 12
MIN_SOFTNET_COLUMNS = 9
SOFTNET_WORD_BYTES = 9
"""``%08x`` and the separator after it."""

FIRST_SOFTIRQ_BYTES = 8 * 1024
MAX_SOFTIRQ_BYTES = 4 * 1024 * 1024
"""Larger than either file with 8192 CPUs."""


class SoftirqReader:
    """Reads both files in every pass. `proc`: root of procfs."""

    def __init__(self, proc: str = "/proc") -> None:
        self._softirqs = proc + "/softirqs"
        self._softnet = proc + "/net/softnet_stat"
        self._descriptors: dict[str, int] = {}
        self._buffer = bytearray(FIRST_SOFTIRQ_BYTES)
        self._last: dict[str, tuple[bytes, Collection[int], Counts]] = {}

    def read(self, online: Collection[int]) -> dict[int, tuple[int, ...]]:
        """CPU id → `records.SOFTIRQS`, for the CPUs in `online`; for all possible CPUs when it is
        empty.

        Raises OSError when the file cannot be read and ValueError when it is not as proc(5)
        documents.
        """
        text = self._read(self._softirqs, SOFTIRQ_ROWS[-1])
        return self._parsed(self._softirqs, text, online, parse_online_softirqs)

    def read_softnet(self, online: Collection[int]) -> dict[int, tuple[int, ...]]:
        """CPU id → `records.SOFTNET_COUNTERS`, fewer of them on old kernels. `online` is used for
        kernels whose rows have no CPU id. Raises OSError and ValueError, as `read`."""
        return self._parsed(self._softnet, self._read(self._softnet, b""), online, parse_softnet)

    def _parsed(
        self,
        path: str,
        text: bytes,
        online: Collection[int],
        parse: Callable[[bytes, Collection[int]], Counts],
    ) -> Counts:
        """`parse(text, online)`; when both are as in the last pass, the same dict, which must not
        be modified."""
        last = self._last.get(path)
        if last is not None and last[0] == text and last[1] == online:
            return last[2]
        found = parse(text, online)
        self._last[path] = (text, online, found)
        return found

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def _read(self, path: str, marker: bytes) -> bytes:
        """The file up to the end of the line that contains `marker`; the whole file for an empty
        marker."""
        descriptor = self._descriptors.get(path, -1)
        if descriptor < 0:
            descriptor = self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        buffer = self._buffer
        os.lseek(descriptor, 0, os.SEEK_SET)
        filled = 0
        while True:
            count = os.readv(descriptor, [memoryview(buffer)[filled:] if filled else buffer])
            filled += count
            mark = buffer.find(marker, 0, filled) if marker else -1
            end = buffer.find(b"\n", mark, filled) if mark >= 0 else -1
            if end >= 0 or count == 0:
                return bytes(buffer[: end + 1 if end >= 0 else filled])
            if filled == len(buffer):
                if filled >= MAX_SOFTIRQ_BYTES:
                    raise ValueError(f"more than {MAX_SOFTIRQ_BYTES} bytes")
                self._buffer = buffer = bytearray(4 * filled)
                os.lseek(descriptor, 0, os.SEEK_SET)
                filled = 0


def parse_online_softirqs(text: bytes, online: Collection[int]) -> dict[int, tuple[int, ...]]:
    """`parse_softirqs` for the CPUs in `online`; for all possible CPUs when it is empty."""
    found = parse_softirqs(text)
    return {cpu: counts for cpu, counts in found.items() if cpu in online} if online else found


def parse_softirqs(text: bytes) -> dict[int, tuple[int, ...]]:
    """Possible CPU id, from the header → the counts of `SOFTIRQ_ROWS`.

    Raises ValueError when a row is missing, garbled, or does not have one number for each CPU of
    the header.
    """
    head, *lines = text.split(b"\n")
    cpus = parse_cpu_header(head)
    if lines[-1:] != [b""]:
        raise ValueError("the last line has no end")
    rows: dict[bytes, list[bytes]] = {}
    for line in lines:
        if NET_PREFIX in line:
            name, *words = line.split()
            if name in rows or len(words) != len(cpus) or not b"".join(words).isdigit():
                raise ValueError(f"not one count for each of {len(cpus)} CPUs: {line[:80]!r}")
            rows[name] = words
    if len(rows) != len(SOFTIRQ_ROWS):
        raise ValueError("no NET_TX or no NET_RX")
    sent, received = (rows.get(name, ()) for name in SOFTIRQ_ROWS)
    return dict(zip(cpus, zip(map(int, sent), map(int, received))))


def parse_softnet(text: bytes, online: Collection[int]) -> dict[int, tuple[int, ...]]:
    """CPU id → the numbers of `SOFTNET_COLUMNS`, as many as this kernel has.

    Raises ValueError when rows differ in length or are truncated and, if they have no CPU id, when
    there is not one row for each CPU in `online`.
    """
    width = text.find(b"\n") + 1
    columns, rows = width // SOFTNET_WORD_BYTES, len(text) // width if width else 0
    separators = (b" " * (columns - 1) + b"\n") * rows
    if (
        columns < MIN_SOFTNET_COLUMNS
        or width % SOFTNET_WORD_BYTES
        or len(text) % width
        or text[SOFTNET_WORD_BYTES - 1 :: SOFTNET_WORD_BYTES] != separators
    ):
        raise ValueError(f"not rows of hexadecimal words: {text[:80]!r}")
    # twenty times faster than int(word, 16); with a space inside a word there are too few bytes
    # for unpack
    try:
        words = struct.unpack(f">{columns * rows}I", bytes.fromhex(text.decode("ascii")))
    except struct.error as error:
        raise ValueError(str(error)) from None
    cpus = (
        list(words[SOFTNET_CPU_COLUMN::columns]) if columns > SOFTNET_CPU_COLUMN else sorted(online)
    )
    if len(cpus) != rows or len(set(cpus)) != rows:
        raise ValueError(f"{rows} rows for {len(set(cpus))} CPUs")
    selected = [words[column::columns] for column in SOFTNET_COLUMNS if column < columns]
    return dict(zip(cpus, zip(*selected)))
