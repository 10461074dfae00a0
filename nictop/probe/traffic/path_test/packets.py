"""The packets of a path test: ICMP echo requests, UDP datagrams with the cookie of the test, and
their answers. Pure.

UDP: a request is `REQUEST`, the cookie, a sequence number, and padding; the answer is `ANSWER` with
the same cookie and number, and never longer than the request.
"""

from __future__ import annotations

import array
import socket
import struct
import sys

from nictop.probe.traffic.greetings import COOKIE_BYTES, is_equal

REQUEST, ANSWER = b"q", b"a"
DATAGRAM = struct.Struct(f"!c{COOKIE_BYTES}sI")
"""Kind, cookie, sequence number."""
ICMP_HEADER = struct.Struct("!BBHHH")
"""Type, code, checksum, identifier, sequence number."""
UDP_HEADER_BYTES = 8
IP_HEADER_BYTES: dict[int, int] = {socket.AF_INET: 20, socket.AF_INET6: 40}
ECHO_TYPES: dict[int, tuple[int, int]] = {socket.AF_INET: (8, 0), socket.AF_INET6: (128, 129)}
"""ICMP types of an echo request and its reply."""
MAX_SEQUENCE = 0xFFFF
"""Of an ICMP echo; datagrams have the same."""


def echo_request(family: int, cookie: bytes, identifier: int, sequence: int, size: int) -> bytes:
    """An ICMP message of `size` bytes at least as long as header and cookie. The checksum of ICMPv6
    is left to the kernel."""
    padding = bytes(max(0, size - ICMP_HEADER.size - len(cookie)))
    kind = ECHO_TYPES[family][0]
    message = ICMP_HEADER.pack(kind, 0, 0, identifier, sequence) + cookie + padding
    if family == socket.AF_INET6:
        return message
    return ICMP_HEADER.pack(kind, 0, checksum(message), identifier, sequence) + cookie + padding


def parse_echo_reply(family: int, message: bytes, cookie: bytes) -> int | None:
    """Sequence number of the reply to a request with that cookie; None: any other message. A raw
    IPv4 socket adds the IP header."""
    if message[:1] and message[0] >> 4 == 4 and family == socket.AF_INET:
        message = message[(message[0] & 0xF) * 4 :]
    if family not in ECHO_TYPES or len(message) < ICMP_HEADER.size:
        return None
    kind, _, _, _, sequence = ICMP_HEADER.unpack_from(message)
    is_own = kind == ECHO_TYPES[family][1] and message[ICMP_HEADER.size :].startswith(cookie)
    return int(sequence) if is_own else None


def datagram(kind: bytes, cookie: bytes, sequence: int, size: int = 0) -> bytes:
    """A payload of `size` bytes, at least as long as its fields."""
    return DATAGRAM.pack(kind, cookie, sequence).ljust(size, b"\0")


def parse_datagram(payload: bytes, kind: bytes, cookie: bytes) -> int | None:
    """Sequence number of a datagram of that kind and test; None: any other."""
    if len(payload) < DATAGRAM.size:
        return None
    found, found_cookie, sequence = DATAGRAM.unpack_from(payload)
    return int(sequence) if found == kind and is_equal(found_cookie, cookie) else None


def checksum(message: bytes) -> int:
    """Internet checksum (RFC 1071), to be packed in network byte order."""
    words = array.array("H", message + bytes(len(message) & 1))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    result = ~total & 0xFFFF
    return result if sys.byteorder == "big" else (result & 0xFF) << 8 | result >> 8
