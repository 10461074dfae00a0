"""Compression of lines that differ only in their numbers: a template of the texts, and differences of the numbers.

Reads nothing. One line of counters has some thousand numbers between the same texts every second, and most numbers do
not change. `Template` stores the texts; `encode_columns` stores only the differences, number by number, which gives the
compressor long runs of zeros. Measured at 1 Hz with 10 NICs, 8 queues each and 16 CPUs: a sixth of the size of the
deflated lines.

Works on the text of a line: fields added by a later version are stored too, and every line is restored byte for byte.
"""

from __future__ import annotations

import operator
import re
import sys
from array import array
from collections.abc import Sequence

from nictop.recording.file.frames import Damaged

MAX_TEMPLATE_BYTES = 2 * 1024 * 1024
"""Bytes of a line that a template may store; a longer line is stored unchanged."""

_WIDTH = 8
_DECIMAL_POINT = ord(".")
_NUMBER = re.compile(rb"(\.\d{1,17}|[1-9]\d{0,17}|0)")
"""The digits after a decimal point are one number; a leading 1 is added to preserve their zeros. All numbers, and the
difference of any two, fit into 64 bits."""

Numbers = Sequence[int]


class Template:
    """The texts of a line between its numbers. `last`: the numbers of the newest line of this template."""

    def __init__(self, line: bytes) -> None:
        pieces = _NUMBER.split(line)
        self._texts = pieces[::2]
        found = pieces[1::2]
        self._fractions = tuple(index for index, digits in enumerate(found) if digits[0] == _DECIMAL_POINT)
        for index in self._fractions:
            found[index] = b"1" + found[index][1:]
        self.last = list(map(int, found))
        gaps = [b"%d"] * len(found)
        for index in self._fractions:
            gaps[index] = b"%b"
        escaped = [text.replace(b"%", b"%%") for text in self._texts]
        self._format = b"".join(part for pair in zip(escaped, [*gaps, b""], strict=True) for part in pair)

    def numbers(self, line: bytes) -> list[int] | None:
        """The numbers of another line; None when its texts differ from the template."""
        pieces = _NUMBER.split(line)
        if pieces[::2] != self._texts:
            return None
        found = pieces[1::2]
        for index in self._fractions:
            if found[index][0] != _DECIMAL_POINT:
                return None
            found[index] = b"1" + found[index][1:]
        try:
            return list(map(int, found))
        except ValueError:  # a fraction where the template has none
            return None

    def line(self, numbers: Numbers) -> bytes:
        """The line with these numbers; `numbers` has the length of `last`."""
        filled: list[int | bytes] = list(numbers)
        for index in self._fractions:
            filled[index] = b".%b" % str(filled[index])[1:].encode()
        return self._format % tuple(filled)


def encode_columns(last: Numbers, rows: Sequence[Numbers]) -> bytes:
    """The differences from row to row, the first one to `last`: ordered by number, then by byte from the lowest, as
    64-bit two's complement. All rows have the same length."""
    differences = []
    for row in rows:
        differences.append(list(map(operator.sub, row, last)))
        last = row
    raw = _little_endian(array("q", [difference for column in zip(*differences, strict=True) for difference in column]))
    plain = raw.tobytes()
    return b"".join(plain[index::_WIDTH] for index in range(_WIDTH))


def encoded_columns_size(numbers: int, rows: int) -> int:
    """Length in bytes of what `encode_columns` returns."""
    return numbers * rows * _WIDTH


def decode_rows(last: Numbers, data: bytes, count: int) -> list[list[int]]:
    """The rows that were passed to `encode_columns`. Raises Damaged when `data` has the wrong size."""
    if len(data) != encoded_columns_size(len(last), count):
        raise Damaged("columns of different size")
    size = len(data) // _WIDTH
    plain = bytearray(len(data))
    for index in range(_WIDTH):
        plain[index::_WIDTH] = data[index * size : (index + 1) * size]
    differences = array("q")
    differences.frombytes(plain)
    differences = _little_endian(differences)
    found = []
    for number in range(count):
        row = list(map(operator.add, last, differences[number::count]))
        found.append(row)
        last = row
    return found


def _little_endian(values: array[int]) -> array[int]:
    """The values in the byte order of the file: swaps them on a big-endian machine."""
    if sys.byteorder != "little":
        values.byteswap()
    return values
