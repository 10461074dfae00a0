"""Where the metrics are offered: ``127.0.0.1:9807``, ``[::1]:9807``, ``localhost:0``. Reads nothing."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from nictop.errors import NictopError

DEFAULT = "127.0.0.1:9807"


@dataclass(frozen=True)
class ListenAddress:
    """An address of this machine, and a port; 0: any that is free."""

    address: str
    """Numeric."""
    port: int

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.address).is_loopback

    def __str__(self) -> str:
        return place(self.address, self.port)


def place(address: str, port: int) -> str:
    """As it stands in a URL."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def parse_listening(text: str) -> ListenAddress:
    """Raises NictopError for what is no numeric address (or localhost) and port."""
    address, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or len(port) > 5 or int(port) > 65535:
        raise _misspelt(text, f"{port if colon else text!r} is no port" if port else "the port is missing")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    elif ":" in address:
        raise _misspelt(text, "an IPv6 address stands in brackets")
    try:
        return ListenAddress(str(ipaddress.ip_address("127.0.0.1" if address == "localhost" else address)), int(port))
    except ValueError:
        raise _misspelt(text, f"{address!r} is no numeric address") from None


def _misspelt(text: str, why: str) -> NictopError:
    return NictopError(f"{text!r} cannot be listened at: {why}", f"as in --listen {DEFAULT}, or --listen [::1]:9807")
