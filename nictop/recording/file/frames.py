"""The bytes of a recording: prefix, frames and trailer.

Reads nothing; `pack_frame` encodes a frame, `parse_header` and `unpack_payload` decode it. A file
is `RECORDING_PREFIX`, a `HEADER_FRAME` frame, the frames of the hosts in the order they were
written, and, when the recorder was closed, an `INDEX_FRAME` frame and a trailer. Every frame has
its own lengths and checksums: a truncated file is read up to its last complete frame, and in a
damaged file reading continues at the next valid frame. Sizes in a file are limited by
`MAX_FRAME_BYTES`.
"""

from __future__ import annotations

import struct
import zlib

from nictop.errors import HostUnreachable, NictopError
from nictop.probe.light_dataclasses import dataclass

RECORDING_MAGIC = b"\x89nictop recording\r\n\x1a\n"
"""As in PNG: a transfer in text mode, or a tool that stops at end-of-file characters, damages it
detectably."""
FORMAT = 1
READABLE_FORMATS = (1,)
"""Format versions that this version reads. A changed format gets a new number; the reader of the
old one stays here."""
RECORDING_PREFIX = RECORDING_MAGIC + struct.pack("<H", FORMAT)

HEADER_FRAME, KEY_FRAME, ITEMS_FRAME, INDEX_FRAME = 1, 2, 3, 4
"""Kinds of frames. KEY: the complete known state of a host, so that reading can begin here; ITEMS:
the items that follow."""

SYNC_MARKER = b"\xa6nT\xf5"
MAX_TIME_SECONDS = 1e12
MAX_FRAME_BYTES = 13 * 1024 * 1024
"""Bytes of an unpacked frame: a megabyte of lines, or a key frame without link changes, and the
longest line; or a key frame with all of them."""

STORED, DEFLATED, LZMA = 0, 1, 2
_PACKED_AS = 0x0F
_MARKS = 0x10
_DICTIONARY = 1 << 20
"""Bytes that a reader of LZMA keeps: at least those of the writer."""
_MIN_DICTIONARY = 4096
"""Of liblzma."""

_FIELDS = struct.Struct("<4sBBHIdIIII")
_CHECK = struct.Struct("<I")
HEADER_SIZE = _FIELDS.size + _CHECK.size

TRAILER_MAGIC = b"nT index"
_TRAILER = struct.Struct("<8sQ")
TRAILER_SIZE = _TRAILER.size + _CHECK.size


class RecordingError(NictopError):
    """A recording cannot be written or read."""


class EmptyRecording(RecordingError):
    """A recording in which no host has sent anything."""

    exit_code = HostUnreachable.exit_code


class Damaged(Exception):
    """The content of a frame is not what was written; other frames may be valid."""


@dataclass(frozen=True)
class FrameHeader:
    """The fields before the payload of a frame."""

    kind: int
    host: int
    """Number of the host in this file; 0 in `HEADER_FRAME` and `INDEX_FRAME` frames."""
    sequence: int
    """Number of the frame within its host: a gap means that a frame is missing."""
    time: float
    """Time of the first item: seconds, CLOCK_MONOTONIC of the recording machine."""
    span: float
    """Seconds from the first to the last item."""
    has_marks: bool
    """It contains marks of a traffic run."""
    packed_as: int
    length: int
    """Bytes of the payload in the file."""
    plain: int
    """Bytes of the unpacked payload."""
    checksum: int
    """CRC-32 of the payload in the file."""

    @property
    def size(self) -> int:
        """Bytes of the frame including this header."""
        return HEADER_SIZE + self.length

    @property
    def end(self) -> float:
        """Time of the last item."""
        return self.time + self.span


def pack_frame(
    kind: int,
    plain: bytes,
    *,
    host: int = 0,
    sequence: int = 0,
    time: float = 0.0,
    span: float = 0.0,
    marks: int = 0,
) -> bytes:
    """One frame including its header. Raises ValueError when `plain` is longer than
    `MAX_FRAME_BYTES`."""
    if len(plain) > MAX_FRAME_BYTES:
        raise ValueError(f"frame of {len(plain)} bytes")
    packed_as, payload = _packed(plain)
    fields = _FIELDS.pack(
        SYNC_MARKER,
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
    """Decode the first `HEADER_SIZE` bytes of a frame; None when they are not a header or its
    values are out of range."""
    if len(data) < HEADER_SIZE or data[:4] != SYNC_MARKER:
        return None
    if _CHECK.unpack_from(data, _FIELDS.size)[0] != zlib.crc32(data[: _FIELDS.size]):
        return None
    _, kind, flags, host, sequence, time, span, length, plain, checksum = _FIELDS.unpack_from(data)
    if (
        plain > MAX_FRAME_BYTES
        or length > MAX_FRAME_BYTES + 1024
        or not -MAX_TIME_SECONDS < time < MAX_TIME_SECONDS
    ):
        return None
    return FrameHeader(
        kind,
        host,
        sequence,
        time,
        span / 1e3,
        bool(flags & _MARKS),
        flags & _PACKED_AS,
        length,
        plain,
        checksum,
    )


def unpack_payload(header: FrameHeader, payload: bytes) -> bytes:
    """The unpacked payload, never longer than the header says. Raises Damaged."""
    if len(payload) != header.length or zlib.crc32(payload) != header.checksum:
        raise Damaged("wrong checksum")
    plain = _unpacked(header.packed_as, payload, header.plain)
    if len(plain) != header.plain:
        raise Damaged("wrong length")
    return plain


def encode_trailer(offset: int) -> bytes:
    """The last bytes of a file: the offset of its index frame."""
    fields = _TRAILER.pack(TRAILER_MAGIC, offset)
    return fields + _CHECK.pack(zlib.crc32(fields))


def parse_trailer(data: bytes) -> int | None:
    """Offset of the index frame; None: these are not the last bytes of a recording that was
    closed."""
    if len(data) != TRAILER_SIZE or data[:8] != TRAILER_MAGIC:
        return None
    if _CHECK.unpack_from(data, _TRAILER.size)[0] != zlib.crc32(data[: _TRAILER.size]):
        return None
    offset: int = _TRAILER.unpack_from(data)[1]
    return offset


def _packed(plain: bytes) -> tuple[int, bytes]:
    """LZMA with its fastest preset: a tenth smaller than the best deflate on columns of counters,
    in a third of the time, and as small as with the next preset."""
    try:
        import lzma
    except ModuleNotFoundError:  # a Python that was built without liblzma
        deflated = zlib.compress(plain, 6)
        return (DEFLATED, deflated) if len(deflated) < len(plain) else (STORED, plain)
    # no larger than what is packed: making a dictionary of 1 MiB takes longer than packing a frame
    dictionary = min(_DICTIONARY, max(_MIN_DICTIONARY, len(plain)))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": dictionary}]
    packed = lzma.compress(plain, format=lzma.FORMAT_RAW, filters=filters)
    return (LZMA, packed) if len(packed) < len(plain) else (STORED, plain)


def _unpacked(packed_as: int, payload: bytes, limit: int) -> bytes:
    """At most `limit` + 1 bytes of the unpacked payload."""
    if packed_as == STORED:
        return payload
    if packed_as == DEFLATED:
        try:
            return zlib.decompressobj().decompress(payload, limit + 1)
        except zlib.error as error:
            raise Damaged(str(error)) from None
    if packed_as != LZMA:
        raise Damaged(f"unknown compression ({packed_as})")
    try:
        import lzma
    except ModuleNotFoundError:
        raise RecordingError(
            "Python was built without lzma",
            "install the lzma module of Python, or use another Python",
        ) from None
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": _DICTIONARY}]
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters).decompress(
            payload, limit + 1
        )
    except (lzma.LZMAError, EOFError) as error:
        raise Damaged(str(error)) from None
