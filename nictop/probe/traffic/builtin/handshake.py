"""The handshake of the built-in generator before the traffic: greetings and their answers. Pure.

The client sends one greeting on each data socket; the server answers on all of them when all have
been received. A greeting has the cookie of the run and the number of the stream, and nothing else:
both ends know the run from their options. By datagram, the server first answers with a challenge,
which the client must repeat: the sender of a greeting may be forged, and only who receives packets
there can do that. A challenge is shorter than a greeting.

There is no control connection. Integers are in network byte order.
"""

from __future__ import annotations

import struct

from nictop.probe.traffic.greetings import COOKIE_BYTES

HANDSHAKE_MAGIC = b"nictop\x00\x03"
"""The last byte is the version; other versions are refused."""
ANSWER_GO = b"nictopGO"
"""Answer of the server: the traffic begins."""
CHALLENGE_MAGIC = b"nictopCH"
TOKEN_BYTES = 16
NO_TOKEN = bytes(TOKEN_BYTES)
GREETING = struct.Struct(f">8s{COOKIE_BYTES}s{TOKEN_BYTES}sB")
"""Magic, cookie of the run, token of the challenge, stream number."""
CHALLENGE = struct.Struct(f">8s{TOKEN_BYTES}s")
"""Magic, token."""


class Greeting:
    """`token`: of the challenge; `NO_TOKEN`: there was none yet."""

    def __init__(self, cookie: bytes, stream: int, token: bytes = NO_TOKEN) -> None:
        self.cookie, self.stream, self.token = cookie, stream, token

    def packed(self) -> bytes:
        """`GREETING.size` bytes."""
        return GREETING.pack(HANDSHAKE_MAGIC, self.cookie, self.token, self.stream)


def parse_greeting(data: bytes) -> Greeting | None:
    """A greeting; None for anything else: a port scan, another program."""
    if len(data) != GREETING.size:
        return None
    magic, cookie, token, stream = GREETING.unpack(data)
    return Greeting(cookie, stream, token) if magic == HANDSHAKE_MAGIC else None


def is_greeting(data: bytearray, size: int) -> bool:
    """Whether the first `size` bytes are a greeting, whatever its cookie."""
    return size == GREETING.size and data.startswith(HANDSHAKE_MAGIC)


def packed_challenge(token: bytes) -> bytes:
    return CHALLENGE.pack(CHALLENGE_MAGIC, token)


def parse_challenge(data: bytes) -> bytes:
    """The token; b"" for anything else."""
    if len(data) != CHALLENGE.size or not data.startswith(CHALLENGE_MAGIC):
        return b""
    return data[len(CHALLENGE_MAGIC) :]
