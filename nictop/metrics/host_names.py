"""What clients may call the metrics server in their Host header.

A browser sends the name in the address of the page: a page of another site whose name was made to
mean this address (DNS rebinding) has a name with a dot that is not one of this machine. Addresses
are not names, and a name without a dot belongs to this machine or its network.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable

from nictop.errors import NictopError
from nictop.wire.errors import sanitize

HOST_HEADER = re.compile(r"(?:\[([^\[\]]*)\]|([^\[\]:]*))(?::[0-9]{0,5})?", re.ASCII)
"""Address in brackets, or name; port."""
NAME = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63}){0,126}", re.ASCII)
MAX_REPORTED_NAMES = 8
"""Names that are not accepted are reported once each, and so many at most."""


class HostNames:
    """`names`: those given by the user, besides the host name of this machine. `report` is called
    with a sentence for a name that is not accepted."""

    def __init__(
        self, names: Iterable[str] = (), report: Callable[[str], None] | None = None
    ) -> None:
        self._names = {checked_name(name) for name in names} | {_plain(socket.gethostname())}
        self._report = report
        self._reported: set[str] = set()

    def accepts(self, header: str) -> bool:
        """Whether a Host header is an address or a name of this server."""
        parts = HOST_HEADER.fullmatch(header)
        if parts is not None and self._is_own(parts[1], parts[2]):
            return True
        self._report_once(header)
        return False

    def _is_own(self, in_brackets: str | None, plain: str | None) -> bool:
        """An address, a name without a domain, or one of the names of this server."""
        if in_brackets is not None and _is_address(in_brackets):
            return True
        name = _plain(plain or "")
        if not NAME.fullmatch(name):
            return False
        return "." not in name or _is_address(name) or name in self._names

    def _report_once(self, header: str) -> None:
        is_known = header in self._reported or len(self._reported) >= MAX_REPORTED_NAMES
        if self._report is None or is_known:
            return
        self._reported.add(header)
        shown = sanitize(header[:100])
        self._report(f"refused a request to {shown!r}: not a name of this server (--server-name)")


def checked_name(text: str) -> str:
    """A name that the user gives, in lower case. Raises NictopError."""
    name = _plain(text)
    if not NAME.fullmatch(name):
        raise NictopError(
            f"{text!r} is not a host name",
            "e.g. --server-name monitor.example.org (without a port)",
        )
    return name


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
