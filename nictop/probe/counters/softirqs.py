"""Network work per CPU: /proc/softirqs → NET_TX and NET_RX, /proc/net/softnet_stat → the backlog's counters.

/proc/softirqs has a column for each possible CPU, named in its header. softnet_stat has a row for each online CPU;
since Linux 5.10 the row names its CPU in column 13 (counted from one), before that rows are the online CPUs in order.
Kernels of long ago have fewer columns. Both files are read through kept descriptors into one buffer.
"""

from __future__ import annotations

import os
import struct

from nictop.probe.kernel.cpu_columns import parse_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Counts = dict[int, tuple[int, ...]]

ROWS = (b"NET_TX:", b"NET_RX:")
"""`records.SOFTIRQS`, as the file spells them."""
NET = b"NET_"
COLUMNS = (0, 1, 2, 9, 10)
"""`records.SOFTNET_COUNTERS` counted from zero: processed, dropped, time_squeeze, received_rps, flow_limit_count."""
CPU_COLUMN = 12
FEWEST_COLUMNS = 9
WORD = 9
"""Bytes: ``%08x`` and what stands behind it."""

FIRST_BUFFER = 8 * 1024
LARGEST_BUFFER = 4 * 1024 * 1024
"""Bytes. 8192 CPUs stay below it in either file."""


class SoftirqReader:
    """Reads both files again and again. `proc` is where procfs stands."""

    def __init__(self, proc: str = "/proc") -> None:
        self._softirqs = proc + "/softirqs"
        self._softnet = proc + "/net/softnet_stat"
        self._descriptors: dict[str, int] = {}
        self._buffer = bytearray(FIRST_BUFFER)
        self._known: dict[str, tuple[bytes, Collection[int], Counts]] = {}

    def read(self, online: Collection[int]) -> dict[int, tuple[int, ...]]:
        """CPU id → `records.SOFTIRQS`, for the CPUs of `online`; for all possible ones when it is empty.

        Raises OSError when the file cannot be read and ValueError when it is not what proc(5) promises.
        """
        return self._parsed(self._softirqs, self._read(self._softirqs, ROWS[-1]), online, parse_online_softirqs)

    def read_softnet(self, online: Collection[int]) -> dict[int, tuple[int, ...]]:
        """CPU id → `records.SOFTNET_COUNTERS`, a shorter prefix on old kernels. `online` is for those that do not
        name the CPU. Raises OSError and ValueError, as `read`."""
        return self._parsed(self._softnet, self._read(self._softnet, b""), online, parse_softnet)

    def _parsed(
        self, path: str, text: bytes, online: Collection[int], parse: Callable[[bytes, Collection[int]], Counts]
    ) -> Counts:
        """What `parse` makes of `text`; the same dict as last time, not to be written to, when nothing changed."""
        known = self._known.get(path)
        if known is not None and known[0] == text and known[1] == online:
            return known[2]
        found = parse(text, online)
        self._known[path] = (text, online, found)
        return found

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def _read(self, path: str, until: bytes) -> bytes:
        """The file, to its end or to the end of the line in which `until` stands."""
        descriptor = self._descriptors.get(path, -1)
        if descriptor < 0:
            descriptor = self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        buffer = self._buffer
        filled = 0
        while True:
            count = os.preadv(descriptor, [memoryview(buffer)[filled:] if filled else buffer], filled)
            filled += count
            mark = buffer.find(until, 0, filled) if until else -1
            end = buffer.find(b"\n", mark, filled) if mark >= 0 else -1
            if end >= 0 or count == 0:
                return bytes(buffer[: end + 1 if end >= 0 else filled])
            if filled == len(buffer):
                if filled >= LARGEST_BUFFER:
                    raise ValueError(f"more than {LARGEST_BUFFER} bytes")
                self._buffer = buffer = bytearray(4 * filled)
                filled = 0


def parse_online_softirqs(text: bytes, online: Collection[int]) -> dict[int, tuple[int, ...]]:
    """`parse_softirqs` for the CPUs of `online`, for all possible ones when it is empty."""
    found = parse_softirqs(text)
    return {cpu: counts for cpu, counts in found.items() if cpu in online} if online else found


def parse_softirqs(text: bytes) -> dict[int, tuple[int, ...]]:
    """Possible CPUs, by the header → the counts of `ROWS`.

    Raises ValueError when a row is missing, garbled, or has not one number for each CPU of the header.
    """
    head, *lines = text.split(b"\n")
    cpus = parse_header(head)
    if lines[-1:] != [b""]:
        raise ValueError("the last line has no end")
    rows: dict[bytes, list[bytes]] = {}
    for line in lines:
        if NET in line:
            name, *words = line.split()
            if name in rows or len(words) != len(cpus) or not b"".join(words).isdigit():
                raise ValueError(f"not one count for each of {len(cpus)} CPUs: {line[:80]!r}")
            rows[name] = words
    if len(rows) != len(ROWS):
        raise ValueError("no NET_TX or no NET_RX")
    sent, received = (rows.get(name, ()) for name in ROWS)
    return dict(zip(cpus, zip(map(int, sent), map(int, received))))


def parse_softnet(text: bytes, online: Collection[int]) -> dict[int, tuple[int, ...]]:
    """CPU id → the numbers of `COLUMNS`, as many of them as this kernel has.

    Raises ValueError when rows differ in length or are cut off, and, where they name no CPU, when there is not one for
    each CPU of `online`.
    """
    width = text.find(b"\n") + 1
    columns, rows = width // WORD, len(text) // width if width else 0
    blanks = (b" " * (columns - 1) + b"\n") * rows
    if columns < FEWEST_COLUMNS or width % WORD or len(text) % width or text[WORD - 1 :: WORD] != blanks:
        raise ValueError(f"not rows of hexadecimal words: {text[:80]!r}")
    try:  # twenty times faster than int(word, 16); a blank inside a word leaves too few bytes
        words = struct.unpack(f">{columns * rows}I", bytes.fromhex(text.decode("ascii")))
    except struct.error as error:
        raise ValueError(str(error)) from None
    cpus = list(words[CPU_COLUMN::columns]) if columns > CPU_COLUMN else sorted(online)
    if len(cpus) != rows or len(set(cpus)) != rows:
        raise ValueError(f"{rows} rows for {len(set(cpus))} CPUs")
    picked = [words[column::columns] for column in COLUMNS if column < columns]
    return dict(zip(cpus, zip(*picked)))
