"""The beginning of a recording: format version, who recorded it, and the clock it uses.

Reads the first bytes of an open file; raises an error for a file that is not a recording or that
this version cannot read.
"""

from __future__ import annotations

import msgspec

from nictop.recording.file.frame_file import FrameFile
from nictop.recording.file.frames import (
    FORMAT,
    HEADER_FRAME,
    READABLE_FORMATS,
    RECORDING_MAGIC,
    RECORDING_PREFIX,
    Damaged,
    RecordingError,
)
from nictop.wire.errors import sanitize


class RecordingHeader(msgspec.Struct):
    """Payload of the first frame."""

    nictop: str
    protocol: int
    monotonic: float
    """Seconds, CLOCK_MONOTONIC of the recording machine."""
    wall: float
    """Seconds since the epoch at the time `monotonic`."""
    boot_id: str
    """Boot ID of the recording machine; "": not known."""


_decoder = msgspec.json.Decoder(RecordingHeader)


def read_recording_header(path: str, file: FrameFile) -> tuple[RecordingHeader, int]:
    """The header, and the offset of the next frame. Raises RecordingError."""
    name = sanitize(path)
    first = file.read(len(RECORDING_PREFIX), 0)
    if not first:
        raise RecordingError(f"{name} is empty")
    if not first.startswith(RECORDING_MAGIC):
        raise RecordingError(
            f"{name} is not a nictop recording", "nictop record FILE makes recordings"
        )
    if len(first) < len(RECORDING_PREFIX):
        raise RecordingError(f"{name} is truncated: it contains no data")
    written = int.from_bytes(first[len(RECORDING_MAGIC) :], "little")
    if written not in READABLE_FORMATS:
        message = f"{name} has the unknown format {written}; this nictop reads {FORMAT}"
        raise RecordingError(message, "it needs a newer nictop" if written > FORMAT else "")
    header = file.header(len(RECORDING_PREFIX))
    try:
        if header is None or header.kind != HEADER_FRAME:
            raise Damaged("header missing")
        found = _decoder.decode(file.payload(len(RECORDING_PREFIX), header))
        return found, len(RECORDING_PREFIX) + header.size
    except (Damaged, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RecordingError(f"{name} is damaged at the start: its time is unknown") from None
