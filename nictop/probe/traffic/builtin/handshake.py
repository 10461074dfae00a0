"""The handshake of the built-in generator before the traffic: a greeting and its answer. Pure.

The client sends one greeting on each data socket; the server answers on all of them when all have been received. There
is no control connection. Integers are in network byte order.
"""

from __future__ import annotations

import re
import struct

HANDSHAKE_MAGIC = b"nictop\x00\x02"
"""The last byte is the version; other versions are refused."""
ANSWER_GO, ANSWER_BUSY = b"nictopGO", b"nictopNO"
"""Answers of the server."""
GREETING = struct.Struct(">8s16sBBBBIIIQ16sIB")
"""Magic, cookie of the run, flags, stream number, number of streams minus one, type of service, bytes of a message,
milliseconds of the whole run and of its omitted beginning, bits per second of each stream, name of the congestion
control, bytes of a response, connections at once."""
FLAG_REVERSE, FLAG_NO_DELAY, FLAG_RR, FLAG_CRR = 1, 2, 4, 8
CONGESTION_NAME = re.compile(rb"[A-Za-z0-9_]{1,15}")


class Greeting:
    """The parameters of a run that the server needs."""

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
        test: str = "",
        response: int = 0,
        workers: int = 1,
    ) -> None:
        self.cookie, self.stream, self.streams = cookie, stream, streams
        self.length, self.seconds, self.omit, self.bitrate = length, seconds, omit, bitrate
        self.reverse, self.no_delay, self.tos, self.congestion = reverse, no_delay, tos, congestion
        self.test, self.response, self.workers = test, response, workers
        """"": bulk; "rr" and "crr": `length` bytes of a request are answered by `response` bytes. With crr the one
        stream is the control connection, and `workers` other connections are open at once."""

    def packed(self) -> bytes:
        """`GREETING.size` bytes."""
        flags = FLAG_REVERSE * self.reverse | FLAG_NO_DELAY * self.no_delay
        flags |= FLAG_RR * (self.test == "rr") | FLAG_CRR * (self.test == "crr")
        times = int(self.seconds * 1000), int(self.omit * 1000)
        name = self.congestion.encode("ascii")
        return GREETING.pack(
            HANDSHAKE_MAGIC, self.cookie, flags, self.stream, self.streams - 1, self.tos,
            self.length, *times, self.bitrate, name, self.response, self.workers,
        )  # fmt: skip


def parse_greeting(data: bytes, max_length: int) -> Greeting | None:
    """A greeting; None for anything else: a port scan, another program, a message length above `max_length`."""
    if len(data) != GREETING.size:
        return None
    magic, cookie, flags, stream, last, tos, length, total_ms, omit_ms, bitrate, name, response, workers = (
        GREETING.unpack(data)
    )
    congestion = name.rstrip(b"\0")
    test = {0: "", FLAG_RR: "rr", FLAG_CRR: "crr"}.get(flags & (FLAG_RR | FLAG_CRR))
    if magic != HANDSHAKE_MAGIC or not 0 < length <= max_length or stream > last or last > 127 or total_ms <= omit_ms:
        return None
    if test is None or (test and not 0 < response <= max_length) or not 0 < workers <= 128 or (test == "crr" and last):
        return None
    if congestion and not CONGESTION_NAME.fullmatch(congestion):
        return None
    return Greeting(
        cookie,
        stream,
        last + 1,
        length,
        total_ms / 1000,
        omit=omit_ms / 1000,
        reverse=bool(flags & FLAG_REVERSE),
        no_delay=bool(flags & FLAG_NO_DELAY),
        bitrate=bitrate,
        tos=tos,
        congestion=congestion.decode(),
        test=test,
        response=response,
        workers=workers,
    )
