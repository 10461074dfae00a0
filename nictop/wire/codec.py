"""Bytes ↔ records: one JSON line of the probe is decoded into a `Line`, type-checked against the
record classes.

Texts in a line are data and may contain control characters: the code that displays them removes
these. A line that does not match the record classes is rejected as a whole; the error has the path
of the invalid field.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

import msgspec

from nictop.errors import NictopError
from nictop.limits import MAX_SMALL_LINE_BYTES
from nictop.probe.kernel.patterns import pattern
from nictop.probe.light_dataclasses import field_mapping, field_values
from nictop.probe.records import MAX_LINE_BYTES, PROTOCOL, Hello, Line, Request
from nictop.wire.record_limits import LimitError, check_line, limit_record, mark_unreadable
from nictop.wire.record_types import evaluate_types

DIGITS_TO_ZEROS = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
"""Translation table: every digit becomes 0."""
LONG_NUMBER = b"0" * 19
"""As many digits as 2^63 has: a line without such a run of digits has no integer of more than 64
bits."""
EXPONENTS = tuple(pattern(letter + rb"\+?\d+(?:[,\]}\s]|$)") for letter in (b"e", b"E"))
"""The end of a number with an exponent that is not negative, and what JSON has after numbers:
addresses and hashes end otherwise. Two, as a search for one letter is faster."""

evaluate_types(Line)
_decoder = msgspec.json.Decoder(Line)
_encoder = msgspec.json.Encoder()


class LineError(NictopError):
    """A line is not a valid line of a probe: too long, not JSON, or a field has another type than
    in the record class."""


class ProtocolMismatch(NictopError):
    """The probe uses another version of the protocol."""


def decode(line: bytes | bytearray | memoryview) -> Line:
    """The record in one line, with or without its line feed; raises LineError. A collection or text
    above its limit (`nictop.limits`) is emptied and listed in `unreadable`, or the line is
    rejected.

    Fields and records that this version does not know are ignored: an unknown record gives an empty
    `Line`.
    """
    if len(line) > MAX_LINE_BYTES:
        raise LineError(f"line of {len(line)} bytes exceeds {MAX_LINE_BYTES}")
    try:
        line, left_out = check_line(line)
        record = _decoded(line)
    except LimitError as error:
        raise LineError(f"invalid line from the probe: {error.message}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LineError(f"invalid line from the probe: {error}") from None
    parts = [part for part in field_values(record) if part is not None]
    if len(parts) > 1:
        raise LineError("invalid line from the probe: more than one record")
    text = bytes(line) if isinstance(line, memoryview) else line
    _check_numbers(record, parts, text)
    try:
        for part in parts:
            limit_record(part)
        if record.inventory is not None:
            mark_unreadable(record.inventory, left_out)
    except LimitError as error:
        raise LineError(f"invalid line from the probe: {error.message}") from None
    return record


def _decoded(line: bytes | bytearray | memoryview) -> Line:
    """The record in a line. Of a large one the garbage collector would look at all that was decoded
    so far again and again, in vain: half of the time of decoding."""
    if len(line) <= MAX_SMALL_LINE_BYTES or not gc.isenabled():
        return _decoder.decode(line)
    gc.disable()
    try:
        return _decoder.decode(line)
    finally:
        gc.enable()


def _check_numbers(record: Line, parts: Sequence[object], text: bytes | bytearray) -> None:
    """Raises LineError if one of the numbers has more than 64 bits."""
    has_small_times = all(map(_times_fit_64_bits, parts))
    if not has_small_times or not fits_64_bits(record, text, floats=record.inventory is not None):
        raise LineError("invalid line from the probe: number of more than 64 bits")


def fits_64_bits(record: object, text: bytes | bytearray, *, floats: bool = True) -> bool:
    """Whether all numbers in `record`, decoded from `text`, fit into 64 bits, signed or unsigned.
    Python's integers are unbounded, but very long ones cannot be divided or converted to decimal;
    products of very large floats are infinite. `floats`: also if they are written with an
    exponent."""
    has_exponent = floats and any(exponent.search(text) for exponent in EXPONENTS)
    if not has_exponent and not _has_long_number(text):
        return True
    parts: list[object] = [record]
    while parts:
        part = parts.pop()
        if isinstance(part, (int, float)):
            if not -(1 << 63) <= part < 1 << 64:
                return False
        elif isinstance(part, (tuple, list)):
            parts += part
        elif isinstance(part, dict):
            parts += part.keys()
            parts += part.values()
        elif not isinstance(part, (str, type(None))):
            parts += field_values(part)
    return True


def _has_long_number(text: bytes | bytearray) -> bool:
    """Whether there is a run of digits as long as `LONG_NUMBER`. Looks at parts: a copy of a large
    line would be in memory together with all that was decoded of it."""
    overlap = len(LONG_NUMBER) - 1
    for begin in range(0, len(text), MAX_SMALL_LINE_BYTES):
        part = text[begin : begin + MAX_SMALL_LINE_BYTES + overlap]
        if LONG_NUMBER in part.translate(DIGITS_TO_ZEROS):
            return True
    return False


def _times_fit_64_bits(part: object) -> bool:
    """Whether the floats of a record itself do; those of the records within are looked at only in
    an inventory."""
    for value in field_values(part):
        if isinstance(value, float) and not -(1 << 63) <= value < 1 << 64:
            return False
    return True


def check_protocol(hello: Hello) -> None:
    """Raises ProtocolMismatch when the probe's protocol version differs from this one."""
    if hello.protocol != PROTOCOL:
        raise ProtocolMismatch(
            f"protocol version {hello.protocol} of the probe (nictop {hello.version}) is not "
            f"{PROTOCOL}",
            "install the same version of nictop on both sides",
        )


def encode_request(request: Request) -> bytes:
    """One line for the probe's stdin; fields that are None are left out."""
    fields = {name: value for name, value in field_mapping(request).items() if value is not None}
    return _encoder.encode(fields) + b"\n"
