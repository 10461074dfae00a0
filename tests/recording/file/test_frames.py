"""Frames are restored exactly or reported as damaged; sizes declared in a file are checked."""

from __future__ import annotations

import lzma
import os
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nictop.recording.file import frames as recording_format
from nictop.recording.file.frames import (
    HEADER_SIZE,
    ITEMS_FRAME,
    MAX_FRAME_BYTES,
    SYNC_MARKER,
    TRAILER_SIZE,
    Damaged,
    encode_trailer,
    pack_frame,
    parse_header,
    parse_trailer,
    unpack_payload,
)


def unpacked_frame(frame: bytes) -> bytes:
    header = parse_header(frame[:HEADER_SIZE])
    assert header is not None and header.size == len(frame)
    return unpack_payload(header, frame[HEADER_SIZE:])


@given(st.binary(max_size=2000), st.floats(0, 1e9), st.floats(0, 1e6))
def test_a_frame_is_restored(plain: bytes, time: float, span: float) -> None:
    frame = pack_frame(
        ITEMS_FRAME, plain, host=7, sequence=2**32 + 3, time=time, span=span, marks=1
    )
    header = parse_header(frame[:HEADER_SIZE])
    assert header is not None
    assert (header.kind, header.host, header.sequence, header.time, header.has_marks) == (
        ITEMS_FRAME,
        7,
        3,
        time,
        True,
    )
    assert header.span == pytest.approx(span, abs=1e-3)
    assert unpacked_frame(frame) == plain


@given(st.binary(max_size=300), st.integers(0, 10**6), st.integers(1, 255))
def test_a_wrong_byte_is_detected(plain: bytes, place: int, bits: int) -> None:
    frame = bytearray(pack_frame(ITEMS_FRAME, plain, time=1.0))
    frame[place % len(frame)] ^= bits
    header = parse_header(bytes(frame[:HEADER_SIZE]))
    if header is not None:
        with pytest.raises(Damaged):
            unpack_payload(header, bytes(frame[HEADER_SIZE:]))


@given(st.binary(max_size=100))
def test_any_bytes_are_parsed_without_error(data: bytes) -> None:
    assert parse_header(SYNC_MARKER + data) is None
    assert parse_trailer(data) is None


def test_the_trailer_has_the_offset_of_the_index() -> None:
    assert parse_trailer(encode_trailer(123_456_789_012)) == 123_456_789_012
    assert len(encode_trailer(0)) == TRAILER_SIZE


def forged_frame(packed_as: int, payload: bytes, plain: int) -> bytes:
    """A frame with valid checksums and false sizes."""
    fields = struct.pack(
        "<4sBBHIdIIII",
        SYNC_MARKER,
        ITEMS_FRAME,
        packed_as,
        1,
        1,
        1.0,
        0,
        len(payload),
        plain,
        zlib.crc32(payload),
    )
    return fields + struct.pack("<I", zlib.crc32(fields)) + payload


def test_sizes_above_the_limits_are_not_a_header() -> None:
    frame = forged_frame(recording_format.STORED, b"x", MAX_FRAME_BYTES + 1)
    assert parse_header(frame[:HEADER_SIZE]) is None
    with pytest.raises(ValueError, match="frame of"):
        pack_frame(ITEMS_FRAME, b"x" * (MAX_FRAME_BYTES + 1))


@pytest.mark.parametrize("packed_as", [recording_format.DEFLATED, recording_format.LZMA])
def test_a_decompression_bomb_is_limited(packed_as: int) -> None:
    """300 MB of zeros, declared as 1000 bytes."""
    zeros = b"\0" * (300 * 1024 * 1024)
    if packed_as == recording_format.LZMA:
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
        bomb = lzma.compress(zeros, format=lzma.FORMAT_RAW, filters=filters)
    else:
        bomb = zlib.compress(zeros, 1)
    del zeros
    frame = forged_frame(packed_as, bomb, 1000)
    header = parse_header(frame[:HEADER_SIZE])
    assert header is not None
    tracemalloc.start()
    with pytest.raises(Damaged, match="length"):
        unpack_payload(header, frame[HEADER_SIZE:])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000


@pytest.mark.parametrize("packed_as", range(4))
@given(payload=st.binary(max_size=100))
def test_any_payload_is_unpacked_or_damaged(packed_as: int, payload: bytes) -> None:
    frame = forged_frame(packed_as, payload, 50)
    header = parse_header(frame[:HEADER_SIZE])
    assert header is not None
    try:
        assert len(unpack_payload(header, payload)) == 50
    except Damaged as error:
        assert str(error)


def test_deflate_is_used_without_lzma(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = os.urandom(50) * 40
    monkeypatch.setitem(__import__("sys").modules, "lzma", None)
    frame = pack_frame(ITEMS_FRAME, plain)
    header = parse_header(frame[:HEADER_SIZE])
    assert header is not None and header.packed_as == recording_format.DEFLATED
    assert unpacked_frame(frame) == plain
    assert unpacked_frame(pack_frame(ITEMS_FRAME, plain[:20])) == plain[:20]
