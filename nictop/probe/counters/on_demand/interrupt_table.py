"""Every interrupt source of the machine: /proc/interrupts → its lines, with counts by CPU id.

The first pass parses all lines and records their position. After that, a line with the same bytes
is skipped, and of a changed line only the changed columns are parsed; the kernel pads counts, so
lines rarely move. When lines or CPUs are added or removed, everything is parsed again. The columns
are the online CPUs, named in the header.
"""

from __future__ import annotations

import os

from nictop.probe.counters.changed_counts import changed_span, with_counts
from nictop.probe.kernel.backports import is_ascii
from nictop.probe.kernel.cpu_columns import parse_count, parse_cpu_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypedDict

    class InterruptLine(TypedDict):
        """`records.MachineInterrupt`"""

        label: str
        description: str
        counts: dict[int, int]


FIRST_TABLE_BYTES = 32 * 1024
MAX_TABLE_BYTES = 64 * 1024 * 1024
"""Larger than 5000 lines with 1024 CPUs."""
SUM_LABELS = ("ERR", "MIS", "BAD")
"""Lines with a single number that is no CPU's (x86, arm, powerpc; arm64 spells the first Err)."""


class InterruptRow:
    """One line: its position in the buffer, its bytes with the line feed, and the values parsed
    from them."""

    __slots__ = (
        "begin",
        "cpus",
        "end",
        "first",
        "head",
        "last",
        "last_cpu",
        "line",
        "tail",
        "text",
    )

    def __init__(self, begin: int, text: bytes, cpus: tuple[int, ...]) -> None:
        self.begin, self.end, self.text = begin, begin + len(text), text
        self.line, self.cpus, self.first, self.last = parse_line(text[:-1], cpus)
        self.last_cpu: int | None = (
            None  # the only CPU that counted in the last pass, between head and tail
        )
        self.head = self.tail = b""

    def update(self, text: bytes) -> bool:
        """Parse the new `text`, of the same length; False when more than the counts has changed."""
        if self.last_cpu is not None and text.startswith(self.head) and text.endswith(self.tail):
            return self._count(
                (self.last_cpu,), text[len(self.head) : -len(self.tail)].split(), text
            )
        first, last = changed_span(self.text, text)
        begin = text.rfind(b" ", 0, first) + 1
        end = text.find(b" ", last, self.last)
        if end < 0:
            end = self.last
        words = text[begin:end].split()
        if (
            begin < self.first
            or last > self.last
            or len(words) != len(self.text[begin:end].split())
        ):
            return False
        column = len(text[self.first : begin].split())
        self.last_cpu = None
        if len(words) == 1:
            self.last_cpu, self.head, self.tail = self.cpus[column], text[:begin], text[end:]
        return self._count(self.cpus[column : column + len(words)], words, text)

    def _count(self, cpus: tuple[int, ...], words: list[bytes], text: bytes) -> bool:
        if len(words) != len(cpus):
            return False
        counts = with_counts(self.line["counts"], cpus, words)
        self.line = {
            "label": self.line["label"],
            "description": self.line["description"],
            "counts": counts,
        }
        self.text = text
        return True


class InterruptTable:
    """Reads /proc/interrupts in every pass. `proc`: root of procfs."""

    def __init__(self, proc: str = "/proc") -> None:
        self._path = proc + "/interrupts"
        self._descriptor = -1
        self._buffer = bytearray(FIRST_TABLE_BYTES)
        self._reset()

    def read(self) -> tuple[InterruptLine, ...]:
        """All lines in the kernel's order. They must not be modified: the next pass may return the
        same objects.

        Raises OSError when the file cannot be read and ValueError when it is not as proc(5)
        documents.
        """
        self._fill(None)
        return tuple(row.line for row in self._rows)

    def read_some(self, numbers: Iterable[int]) -> dict[int, InterruptLine]:
        """IRQ number → its line, for those of `numbers` that have one; other lines are not parsed
        again."""
        self._fill(numbers)
        by_number = self._by_number
        return {number: by_number[number].line for number in numbers if number in by_number}

    def close(self) -> None:
        """Close the file and free the buffer."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._buffer = bytearray(FIRST_TABLE_BYTES)
        self._reset()

    def _reset(self) -> None:
        self._filled = 0
        self._head = b""
        self._rows: list[InterruptRow] = []
        self._by_number: dict[int, InterruptRow] = {}

    def _fill(self, numbers: Iterable[int] | None) -> None:
        filled = self._read_file()
        try:
            known = self._head and filled == self._filled and self._buffer.startswith(self._head)
            if not known or not self._update(numbers):
                self._parse(filled)
        except ValueError:
            self._reset()
            raise

    def _update(self, numbers: Iterable[int] | None) -> bool:
        """Update the rows of `numbers`, or all; False: lines have moved."""
        if numbers is None:
            rows = self._rows
        else:
            rows = [self._by_number[number] for number in numbers if number in self._by_number]
        buffer = self._buffer
        same = buffer.startswith
        for row in rows:
            if same(row.text, row.begin):
                continue
            text = bytes(buffer[row.begin : row.end])
            if (
                text.find(b"\n") != len(text) - 1
                or buffer[row.begin - 1] != 10
                or not row.update(text)
            ):
                return False
        return True

    def _parse(self, filled: int) -> None:
        buffer = self._buffer
        if filled == 0 or buffer[filled - 1] != 10:
            raise ValueError("the last line has no end")
        self._reset()
        begin = buffer.index(b"\n") + 1
        head = bytes(buffer[:begin])
        cpus = parse_cpu_header(head)
        while begin < filled:
            end = buffer.index(b"\n", begin) + 1
            row = InterruptRow(begin, bytes(buffer[begin:end]), cpus)
            self._rows.append(row)
            if is_number(row.line["label"]):
                self._by_number[int(row.line["label"])] = row
            begin = end
        self._head, self._filled = head, filled

    def _read_file(self) -> int:
        """Read the whole file into the buffer, a page at a time (seq_file); the number of bytes."""
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        filled = 0
        while True:
            if filled == len(self._buffer):
                if filled >= MAX_TABLE_BYTES:
                    raise ValueError(f"more than {MAX_TABLE_BYTES} bytes")
                self._buffer.extend(bytes(filled))
            with memoryview(self._buffer) as view, view[filled:] as free:
                count = os.readv(self._descriptor, [free])
            if count == 0:
                return filled
            filled += count


def parse_line(
    text: bytes, cpus: tuple[int, ...]
) -> tuple[InterruptLine, tuple[int, ...], int, int]:
    """`records.MachineInterrupt` of one line without line feed, the CPUs of its columns, and start
    and end of those.

    Raises ValueError when the line is garbled or truncated (fewer counts than CPUs).
    """
    label, colon, rest = text.partition(b":")
    name = label.strip().decode("utf-8", "replace")
    if not colon or not name:
        raise ValueError(f"not an interrupt line: {text[:80]!r}")
    parts = rest.split(None, len(cpus))
    if not is_number(name):
        if not parts or not parts[0].isdigit():
            cpus = ()  # arm: "FIQ:   usb_fiq" has no counts
            parts = [rest.strip()]
        elif len(parts) == 1 and (len(cpus) > 1 or name.upper() in SUM_LABELS):
            cpus = (-1,)
    words = parts[: len(cpus)]
    if len(words) != len(cpus):
        raise ValueError(f"{len(words)} counts for {len(cpus)} CPUs: {text[:80]!r}")
    counts = {
        cpu: number
        for cpu, word in zip(cpus, words)
        if word != b"0"
        for number in [parse_count(word)]
        if number
    }
    description = parts[len(cpus)] if len(parts) > len(cpus) else b""
    folded = " ".join(description.decode("utf-8", "replace").split())
    first = len(label) + 1
    last = len(text) - len(description) if description else len(text.rstrip())
    return {"label": name, "description": folded, "counts": counts}, cpus, first, last


def is_number(label: str) -> bool:
    """Whether a label is an IRQ number; other lines have names."""
    return is_ascii(label) and label.isdigit()
