"""Every interrupt source of the machine: /proc/interrupts → its lines, with counts by CPU id.

The first pass learns where each line begins and what stands in it. After that a line whose bytes are the same is not
looked at, and of one that counted only the columns that changed; the kernel pads counts, so that lines stay where they
are. When lines come or go, or a CPU, everything is learned anew. The columns are the online CPUs, named in the header.
"""

from __future__ import annotations

import os

from nictop.probe.counters.interrupts import changed_span, with_changes
from nictop.probe.kernel.cpu_columns import parse_header, parse_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypedDict

    class Line(TypedDict):
        """`records.MachineInterrupt`"""

        label: str
        description: str
        counts: dict[int, int]


FIRST_BUFFER = 32 * 1024
LARGEST_BUFFER = 64 * 1024 * 1024
"""Bytes: 1024 CPUs × 5000 lines stay below it."""
SUMS = ("ERR", "MIS", "BAD")
"""Lines of one number that is not of a CPU (x86, arm, powerpc; arm64 spells the first Err)."""


class InterruptRow:
    """One line: where it stands in the buffer, its bytes with the line feed, and what they say."""

    __slots__ = ("begin", "cpus", "end", "first", "head", "hot", "last", "line", "tail", "text")

    def __init__(self, begin: int, text: bytes, cpus: tuple[int, ...]) -> None:
        self.begin, self.end, self.text = begin, begin + len(text), text
        self.line, self.cpus, self.first, self.last = parse_line(text[:-1], cpus)
        self.hot: int | None = None  # the CPU that counted last, whose number stands between head and tail
        self.head = self.tail = b""

    def change(self, text: bytes) -> bool:
        """The line says `text` now, as long as before; False when more than its counts has changed."""
        if self.hot is not None and text.startswith(self.head) and text.endswith(self.tail):
            return self._count((self.hot,), text[len(self.head) : -len(self.tail)].split(), text)
        first, last = changed_span(self.text, text)
        begin = text.rfind(b" ", 0, first) + 1
        end = text.find(b" ", last, self.last)
        if end < 0:
            end = self.last
        words = text[begin:end].split()
        if begin < self.first or last > self.last or len(words) != len(self.text[begin:end].split()):
            return False
        column = len(text[self.first : begin].split())
        self.hot = None
        if len(words) == 1:
            self.hot, self.head, self.tail = self.cpus[column], text[:begin], text[end:]
        return self._count(self.cpus[column : column + len(words)], words, text)

    def _count(self, cpus: tuple[int, ...], words: list[bytes], text: bytes) -> bool:
        if len(words) != len(cpus):
            return False
        counts = with_changes(self.line["counts"], cpus, words)
        self.line = {"label": self.line["label"], "description": self.line["description"], "counts": counts}
        self.text = text
        return True


class InterruptTable:
    """Reads /proc/interrupts again and again. `proc` is where procfs stands."""

    def __init__(self, proc: str = "/proc") -> None:
        self._path = proc + "/interrupts"
        self._descriptor = -1
        self._buffer = bytearray(FIRST_BUFFER)
        self._forget()

    def read(self) -> tuple[Line, ...]:
        """All lines in the kernel's order; do not change them, the next pass may hand them out again.

        Raises OSError when the file cannot be read and ValueError when it is not what proc(5) promises.
        """
        self._fill(None)
        return tuple(row.line for row in self._rows)

    def read_some(self, numbers: Iterable[int]) -> dict[int, Line]:
        """IRQ number → its line, for those of `numbers` that have one; the others are not even looked at."""
        self._fill(numbers)
        by_number = self._by_number
        return {number: by_number[number].line for number in numbers if number in by_number}

    def close(self) -> None:
        """Close the file and give the memory back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._buffer = bytearray(FIRST_BUFFER)
        self._forget()

    def _forget(self) -> None:
        self._filled = 0
        self._head = b""
        self._rows: list[InterruptRow] = []
        self._by_number: dict[int, InterruptRow] = {}

    def _fill(self, numbers: Iterable[int] | None) -> None:
        filled = self._read_all()
        try:
            known = self._head and filled == self._filled and self._buffer.startswith(self._head)
            if not known or not self._refresh(numbers):
                self._learn(filled)
        except ValueError:
            self._forget()
            raise

    def _refresh(self, numbers: Iterable[int] | None) -> bool:
        """Bring the rows up to date; False: they no longer stand where they stood."""
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
            if text.find(b"\n") != len(text) - 1 or buffer[row.begin - 1] != 10 or not row.change(text):
                return False
        return True

    def _learn(self, filled: int) -> None:
        buffer = self._buffer
        if filled == 0 or buffer[filled - 1] != 10:
            raise ValueError("the last line has no end")
        self._forget()
        begin = buffer.index(b"\n") + 1
        head = bytes(buffer[:begin])
        cpus = parse_header(head)
        while begin < filled:
            end = buffer.index(b"\n", begin) + 1
            row = InterruptRow(begin, bytes(buffer[begin:end]), cpus)
            self._rows.append(row)
            if is_number(row.line["label"]):
                self._by_number[int(row.line["label"])] = row
            begin = end
        self._head, self._filled = head, filled

    def _read_all(self) -> int:
        """The whole file into the buffer, which grows as needed; how many bytes. A seq_file gives a page at a time."""
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        filled = 0
        while True:
            if filled == len(self._buffer):
                if filled >= LARGEST_BUFFER:
                    raise ValueError(f"more than {LARGEST_BUFFER} bytes")
                self._buffer.extend(bytes(filled))
            with memoryview(self._buffer) as view, view[filled:] as room:
                count = os.preadv(self._descriptor, [room], filled)
            if count == 0:
                return filled
            filled += count


def parse_line(text: bytes, cpus: tuple[int, ...]) -> tuple[Line, tuple[int, ...], int, int]:
    """`records.MachineInterrupt` of one line without its end, the CPUs of its columns, and where these begin and end.

    Raises ValueError when it is garbled, or when there are fewer counts than CPUs: it was cut off.
    """
    label, colon, rest = text.partition(b":")
    name = label.strip().decode("utf-8", "replace")
    if not colon or not name:
        raise ValueError(f"not an interrupt line: {text[:80]!r}")
    parts = rest.split(None, len(cpus))
    if not is_number(name):
        if not parts or not parts[0].isdigit():
            cpus = ()  # arm: "FIQ:   usb_fiq" counts nothing
            parts = [rest.strip()]
        elif len(parts) == 1 and (len(cpus) > 1 or name.upper() in SUMS):
            cpus = (-1,)
    words = parts[: len(cpus)]
    if len(words) != len(cpus):
        raise ValueError(f"{len(words)} counts for {len(cpus)} CPUs: {text[:80]!r}")
    counts = {cpu: number for cpu, word in zip(cpus, words) if word != b"0" and (number := parse_number(word))}
    description = parts[len(cpus)] if len(parts) > len(cpus) else b""
    said = " ".join(description.decode("utf-8", "replace").split())
    first = len(label) + 1
    last = len(text) - len(description) if description else len(text.rstrip())
    return {"label": name, "description": said, "counts": counts}, cpus, first, last


def is_number(label: str) -> bool:
    """Whether the line is that of an IRQ number; others have names."""
    return label.isascii() and label.isdigit()
