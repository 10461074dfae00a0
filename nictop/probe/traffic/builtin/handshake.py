"""What the two ends of the built-in generator say to each other before the traffic: a greeting and its answer. Pure.

The client sends one greeting on each data socket, and the server answers on all of them when all have come. There is no
other connection. All integers are in network order.
"""

from __future__ import annotations

import re
import struct

MAGIC = b"nictop\x00\x01"
"""The last byte is a version: another one is not understood."""
GO, BUSY = b"nictopGO", b"nictopNO"
"""Answers of the server."""
GREETING = struct.Struct(">8s16sBBBBIIIQ16s")
"""Magic, cookie of the run, flags, number of the stream, number of streams less one, type of service, bytes of a
message, milliseconds of the whole run and of its beginning that does not count, bits per second of each stream, name
of the congestion control."""
REVERSE, NO_DELAY = 1, 2
WORD = re.compile(rb"[A-Za-z0-9_]{1,15}")


class Greeting:
    """What a server must know of a run."""

    def __init__(
        self,
        cookie: bytes,
        stream: int,
        streams: int,
        length: int,
        seconds: float,
        *,
        omit: float = 0.0,
        reverse: bool = False,
        no_delay: bool = False,
        bitrate: int = 0,
        tos: int = 0,
        congestion: str = "",
    ) -> None:
        self.cookie, self.stream, self.streams = cookie, stream, streams
        self.length, self.seconds, self.omit, self.bitrate = length, seconds, omit, bitrate
        self.reverse, self.no_delay, self.tos, self.congestion = reverse, no_delay, tos, congestion

    def packed(self) -> bytes:
        """`GREETING.size` bytes."""
        flags = REVERSE * self.reverse | NO_DELAY * self.no_delay
        times = int(self.seconds * 1000), int(self.omit * 1000)
        name = self.congestion.encode("ascii")
        return GREETING.pack(
            MAGIC, self.cookie, flags, self.stream, self.streams - 1, self.tos,
            self.length, *times, self.bitrate, name,
        )  # fmt: skip


def parse_greeting(data: bytes, longest: int) -> Greeting | None:
    """A greeting, or None for anything else: a port scan, another program, a message longer than `longest`."""
    if len(data) != GREETING.size:
        return None
    magic, cookie, flags, stream, others, tos, length, milliseconds, omitted, bitrate, name = GREETING.unpack(data)
    congestion = name.rstrip(b"\0")
    if magic != MAGIC or not 0 < length <= longest or stream > others or others > 127 or milliseconds <= omitted:
        return None
    if congestion and not WORD.fullmatch(congestion):
        return None
    return Greeting(
        cookie,
        stream,
        others + 1,
        length,
        milliseconds / 1000,
        omit=omitted / 1000,
        reverse=bool(flags & REVERSE),
        no_delay=bool(flags & NO_DELAY),
        bitrate=bitrate,
        tos=tos,
        congestion=congestion.decode(),
    )
