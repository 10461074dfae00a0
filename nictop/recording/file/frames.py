"""The bytes of a recording: what a file begins with, the frames it is made of, and how it ends.

Reads nothing; `pack` makes frames, `parse_header` and `unpack` take them apart. A file is `PREFIX`, a `HEADER` frame,
frames of hosts in the order they were written, and, when the recorder was closed, an `INDEX` frame and a trailer. Every
frame carries its own lengths and checksums, so that a file that was cut is read up to its last whole frame, and one
that is damaged goes on at the next frame that is sound. Nothing that a file declares is believed beyond `MOST_PLAIN`.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from nictop.errors import NictopError

MAGIC = b"\x89nictop recording\r\n\x1a\n"
"""As PNG does: a transfer as text, or a tool that stops at end-of-file characters, breaks it visibly."""
FORMAT = 1
FORMATS = (1,)
"""Formats that this version reads. One that changed gets a new number; its reader stays here."""
PREFIX = MAGIC + struct.pack("<H", FORMAT)

HEADER, KEY, ITEMS, INDEX = 1, 2, 3, 4
"""Kinds of frames. Key: all that is known of a host, so that reading may begin here; items: what was heard next."""

SYNC = b"\xa6nT\xf5"
LARGEST_TIME = 1e12
MOST_PLAIN = 48 * 1024 * 1024
"""Bytes of a frame, unpacked: two of the longest lines and some."""

STORED, DEFLATED, LZMA = 0, 1, 2
_PACKED_AS = 0x0F
_MARKS = 0x10
_DICTIONARY = 1 << 20

_FIELDS = struct.Struct("<4sBBHIdIIII")
_CHECK = struct.Struct("<I")
HEADER_SIZE = _FIELDS.size + _CHECK.size

TRAILER_MAGIC = b"nT index"
_TRAILER = struct.Struct("<8sQ")
TRAILER_SIZE = _TRAILER.size + _CHECK.size


class RecordingError(NictopError):
    """A recording cannot be written or read."""


class Damaged(Exception):
    """A frame does not say what was written; others may."""


@dataclass(frozen=True)
class FrameHeader:
    """What stands before the payload of a frame."""

    kind: int
    host: int
    """Number of the host in this file; 0 for `HEADER` and `INDEX`."""
    sequence: int
    """Counts the frames of a host: a gap means that one is lost."""
    time: float
    """Seconds, CLOCK_MONOTONIC of the recording machine: of the first item."""
    span: float
    """Seconds from there to the last item."""
    has_marks: bool
    """Something about a traffic run is in it."""
    packed_as: int
    length: int
    """Bytes of the payload in the file."""
    plain: int
    """Bytes of it, unpacked."""
    checksum: int
    """CRC-32 of the payload in the file."""

    @property
    def size(self) -> int:
        """Bytes of the whole frame."""
        return HEADER_SIZE + self.length

    @property
    def end(self) -> float:
        """Time of the last item."""
        return self.time + self.span


def pack(
    kind: int, plain: bytes, *, host: int = 0, sequence: int = 0, time: float = 0.0, span: float = 0.0, marks: int = 0
) -> bytes:
    """One frame, header included. Raises ValueError when `plain` is longer than `MOST_PLAIN`."""
    if len(plain) > MOST_PLAIN:
        raise ValueError(f"a frame of {len(plain)} bytes")
    packed_as, payload = _packed(plain)
    fields = _FIELDS.pack(
        SYNC,
        kind,
        packed_as | (_MARKS if marks else 0),
        host,
        sequence & 0xFFFFFFFF,
        time,
        min(max(round(span * 1e3), 0), 0xFFFFFFFF),
        len(payload),
        len(plain),
        zlib.crc32(payload),
    )
    return fields + _CHECK.pack(zlib.crc32(fields)) + payload


def parse_header(data: bytes) -> FrameHeader | None:
    """The first `HEADER_SIZE` bytes of a frame; None when they are none, or declare what no writer writes."""
    if len(data) < HEADER_SIZE or data[:4] != SYNC:
        return None
    if _CHECK.unpack_from(data, _FIELDS.size)[0] != zlib.crc32(data[: _FIELDS.size]):
        return None
    _, kind, flags, host, sequence, time, span, length, plain, checksum = _FIELDS.unpack_from(data)
    sound = plain <= MOST_PLAIN and length <= MOST_PLAIN + 1024 and -LARGEST_TIME < time < LARGEST_TIME
    if not sound:
        return None
    return FrameHeader(
        kind, host, sequence, time, span / 1e3, bool(flags & _MARKS), flags & _PACKED_AS, length, plain, checksum
    )


def unpack(header: FrameHeader, payload: bytes) -> bytes:
    """What was packed; never more bytes than the header says. Raises Damaged."""
    if len(payload) != header.length or zlib.crc32(payload) != header.checksum:
        raise Damaged("a checksum is wrong")
    plain = _unpacked(header.packed_as, payload, header.plain)
    if len(plain) != header.plain:
        raise Damaged("a length is wrong")
    return plain


def trailer(offset: int) -> bytes:
    """The last bytes of a file: where its index frame begins."""
    fields = _TRAILER.pack(TRAILER_MAGIC, offset)
    return fields + _CHECK.pack(zlib.crc32(fields))


def parse_trailer(data: bytes) -> int | None:
    """Offset of the index frame; None: these are not the last bytes of a recording that was closed."""
    if len(data) != TRAILER_SIZE or data[:8] != TRAILER_MAGIC:
        return None
    if _CHECK.unpack_from(data, _TRAILER.size)[0] != zlib.crc32(data[: _TRAILER.size]):
        return None
    offset: int = _TRAILER.unpack_from(data)[1]
    return offset


def _packed(plain: bytes) -> tuple[int, bytes]:
    """The first preset of LZMA: a tenth smaller than deflate at its best on columns of counters, at a third of its
    time."""
    try:
        import lzma
    except ModuleNotFoundError:  # a Python that was built without liblzma
        deflated = zlib.compress(plain, 6)
        return (DEFLATED, deflated) if len(deflated) < len(plain) else (STORED, plain)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": _DICTIONARY}]
    packed = lzma.compress(plain, format=lzma.FORMAT_RAW, filters=filters)
    return (LZMA, packed) if len(packed) < len(plain) else (STORED, plain)


def _unpacked(packed_as: int, payload: bytes, limit: int) -> bytes:
    """At most `limit` + 1 bytes of what is in `payload`."""
    if packed_as == STORED:
        return payload
    if packed_as == DEFLATED:
        try:
            return zlib.decompressobj().decompress(payload, limit + 1)
        except zlib.error as error:
            raise Damaged(str(error)) from None
    if packed_as != LZMA:
        raise Damaged(f"packed in an unknown way ({packed_as})")
    try:
        import lzma
    except ModuleNotFoundError:
        raise RecordingError("this Python was built without lzma", "install its lzma module, or use another") from None
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": _DICTIONARY}]
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters).decompress(payload, limit + 1)
    except (lzma.LZMAError, EOFError) as error:
        raise Damaged(str(error)) from None
