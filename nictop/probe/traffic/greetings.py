"""Who may use a listening socket of a test: the other end, which has the cookie of the test. All
others are counted.

nictop makes the cookie and gives it to both ends over its own connections to their probes. Nothing
is sent to a sender whose cookie is wrong, or whose address is not that of the other end.
"""

from __future__ import annotations

import socket
from _operator import _compare_digest  # that of hmac, which takes 5 ms to import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COOKIE_BYTES = 16
WRONG_COOKIE, WRONG_ADDRESS, NO_GREETING = "cookie", "address", "silent"
"""Why a sender is refused: a greeting without the cookie; with it, but from another address; a
connection that sends no greeting."""
MAX_REFUSED_ADDRESSES = 8
"""Refused senders with counts of their own; those of all others are added up, with the address
""."""
MAPPED_PREFIX = bytes(10) + b"\xff\xff"
"""Of an IPv4 address as IPv6 (RFC 4291)."""


class ExpectedPeer:
    """The other end: the cookie of the test, and its address. `address` "": it may be translated on
    the way."""

    def __init__(self, cookie: bytes, address: str = "") -> None:
        self.cookie = cookie
        self._address = packed_address(address) if address else b""
        self.refused = RefusedSenders()

    def is_address(self, address: str) -> bool:
        return not self._address or packed_address(address) == self._address

    def accepts(self, cookie: bytes, address: str) -> bool:
        """Whether this is the other end; counted if it is not. The time does not depend on the
        cookie."""
        if not is_equal(cookie, self.cookie):
            self.refused.add(WRONG_COOKIE, address)
            return False
        if not self.is_address(address):
            self.refused.add(WRONG_ADDRESS, address)
            return False
        return True


class RefusedSenders:
    """Refused greetings and connections by reason and address of their sender."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, reason: str, address: str, count: int = 1) -> None:
        key = reason, text_address(address)
        if key not in self._counts and len(self._counts) >= MAX_REFUSED_ADDRESSES:
            key = reason, ""
        self._counts[key] = self._counts.get(key, 0) + count

    def fields(self) -> list[dict[str, Any]]:
        """Each with the fields of a `records.RefusedSender`."""
        return [
            {"reason": reason, "address": address, "count": count}
            for (reason, address), count in self._counts.items()
        ]


def is_equal(one: bytes, other: bytes) -> bool:
    """The time does not depend on where they differ."""
    return bool(_compare_digest(one, other))


def packed_address(address: str) -> bytes:
    """An address without its zone, in network byte order; an IPv4-mapped one as IPv4."""
    number = address.partition("%")[0]
    packed = socket.inet_pton(socket.AF_INET6 if ":" in number else socket.AF_INET, number)
    return packed[len(MAPPED_PREFIX) :] if packed.startswith(MAPPED_PREFIX) else packed


def text_address(address: str) -> str:
    """An IPv4-mapped address as IPv4."""
    return (
        address[len("::ffff:") :] if address.startswith("::ffff:") and "." in address else address
    )
