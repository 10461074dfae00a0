"""Bytes ↔ records: one JSON line of the probe becomes a `Line`, type-checked against the record classes.

What a line says is data, also when it holds control characters: whoever shows it cleans it. A line that does not fit
the vocabulary is refused as a whole, with the path of the field that is wrong.
"""

from __future__ import annotations

import msgspec

from nictop.errors import NictopError
from nictop.probe.records import MAX_LINE, PROTOCOL, Hello, Line, Request
from nictop.wire.record_limits import LimitError, check_line, limit_record

ZEROS = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
"""Translation table: every digit becomes 0."""
SUSPECT = b"0" * 19
"""Digits of 2^63: a line without as many in a row has no number of more than 64 bits."""

_decoder = msgspec.json.Decoder(Line)
_encoder = msgspec.json.Encoder()


class LineError(NictopError):
    """A line is not one of the probe's: too long, no JSON, or another type than the record promises."""


class ProtocolMismatch(NictopError):
    """The probe speaks another version of the protocol."""


def decode(line: bytes | bytearray | memoryview) -> Line:
    """The record in one line, with or without its line feed; raises LineError. What holds more than any host has is
    refused, or emptied and named in `unreadable` (`nictop.limits`).

    Fields and records that this version does not know are left out, so that an unknown record gives an empty `Line`.
    """
    if len(line) > MAX_LINE:
        raise LineError(f"a line of {len(line)} bytes is longer than {MAX_LINE}")
    try:
        check_line(line)
        record = _decoder.decode(line)
    except LimitError as error:
        raise LineError(f"not a line of the probe: {error.message}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LineError(f"not a line of the probe: {error}") from None
    if sum(part is not None for part in vars(record).values()) > 1:
        raise LineError("not a line of the probe: more than one record in it")
    if SUSPECT in (bytes(line) if isinstance(line, memoryview) else line).translate(ZEROS) and not _fits_64_bits(
        record
    ):
        raise LineError("not a line of the probe: a number in it has more than 64 bits")
    part = record.counters or record.inventory
    if part is not None:
        try:
            limit_record(part)
        except LimitError as error:
            raise LineError(f"not a line of the probe: {error.message}") from None
    return record


def _fits_64_bits(record: Line) -> bool:
    """All integers in it are ones that the kernel's 64-bit types hold, signed or not: Python's are unbounded, but
    cannot be divided, or written in decimal, when they are too long."""
    parts: list[object] = [record]
    while parts:
        part = parts.pop()
        if isinstance(part, int):
            if not -(1 << 63) <= part < 1 << 64:
                return False
        elif isinstance(part, (tuple, list)):
            parts += part
        elif isinstance(part, dict):
            parts += part.keys()
            parts += part.values()
        elif not isinstance(part, (str, float, type(None))):
            parts += vars(part).values()
    return True


def check_protocol(hello: Hello) -> None:
    """Raises ProtocolMismatch when the numbers of this probe may mean something else here."""
    if hello.protocol != PROTOCOL:
        raise ProtocolMismatch(
            f"the probe (nictop {hello.version}) speaks protocol {hello.protocol}, this nictop speaks {PROTOCOL}",
            "install the same nictop on both sides",
        )


def encode_request(request: Request) -> bytes:
    """One line for the probe's stdin, with the fields that are set."""
    return _encoder.encode({name: value for name, value in vars(request).items() if value is not None}) + b"\n"
