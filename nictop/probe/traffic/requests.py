"""What a probe is asked about traffic: the object in a request → `TrafficCommand`, or a sentence about what is wrong.

Strict, other than the rest of a request: what starts a process must be understood whole. Pure.
"""

from __future__ import annotations

import re
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = re.compile(r"[!-~]{1,64}", re.ASCII)
ZONE = re.compile(r"[^\s/%\x00-\x20]{1,15}")
LONGEST = 86400.0
"""Seconds that a child may live."""
FASTEST, SLOWEST = 0.1, 60.0
"""Seconds between two readings of its sockets."""
MOST_WORDS, LONGEST_WORD = 64, 128


class TrafficCommand:
    """A `records.TrafficRequest` that makes sense: fields of the same names."""

    def __init__(self, request: Mapping[str, object]) -> None:
        """Raises ValueError with a sentence."""
        self.id = request_id(request)
        self.action = _one_of(request, "action", ("check", "start", "stop", "path"))
        self.role = self.generator = ""
        self.arguments: list[str] = []
        self.port, self.address = 0, ""
        self.source, self.ifindex = "", 0
        self.deadline, self.interval, self.sockets, self.threads = 0.0, SLOWEST, False, False
        if self.action == "start":
            self._take_start(request)
        elif self.action == "path":
            self._take_path(request)

    def _take_path(self, request: Mapping[str, object]) -> None:
        address, source, ifindex = request.get("address"), request.get("source"), request.get("ifindex", 0)
        if not is_address(address) or not is_address(source) or (":" in str(address)) != (":" in str(source)):
            raise ValueError("address and source are not two numeric addresses of one IP version")
        if type(ifindex) is not int or not 0 <= ifindex < 1 << 31:
            raise ValueError("ifindex is not a number from 0 to 2147483647")
        self.address, self.source, self.ifindex = str(address), str(source), ifindex

    def _take_start(self, request: Mapping[str, object]) -> None:
        self.role = _one_of(request, "role", ("server", "client"))
        self.generator = _one_of(request, "generator", ("iperf3", "builtin"))
        words = request.get("arguments", [])
        if not isinstance(words, list) or len(words) > MOST_WORDS or not all(map(is_word, words)):
            raise ValueError(f"arguments is not a list of at most {MOST_WORDS} short words")
        self.arguments = words
        port = request.get("port")
        if type(port) is not int or not 0 < port < 65536:
            raise ValueError("port is not a number from 1 to 65535")
        self.port = port
        address = request.get("address")
        if address is None and self.role == "client":
            raise ValueError("a client needs the address of its server")
        if address is not None and not is_address(address):
            raise ValueError("address is not a numeric IPv4 or IPv6 address")
        self.address = str(address or "")
        self.deadline = _seconds(request, "deadline", LONGEST)
        sockets = request.get("sockets", False)
        if not isinstance(sockets, bool):
            raise ValueError("sockets is not true or false")
        self.sockets = sockets
        self.interval = max(FASTEST, _seconds(request, "interval", SLOWEST)) if sockets else SLOWEST
        threads = request.get("threads", False)
        if not isinstance(threads, bool):
            raise ValueError("threads is not true or false")
        self.threads = threads


def request_id(request: Mapping[str, object]) -> str:
    """Its id; ValueError when it has none that may be repeated in an answer."""
    name = request.get("id")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError("id is not a word of 1 to 64 printable ASCII characters")
    return name


def is_word(value: object) -> bool:
    """Whether a value can be an argument of a program."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_WORD and "\0" not in value and value.isprintable()


def is_address(value: object) -> bool:
    """A numeric address, IPv6 also with a zone."""
    if not isinstance(value, str) or not value.isprintable():
        return False
    number, percent, zone = value.partition("%")
    for family in (socket.AF_INET6,) if percent else (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, number)
        except (OSError, ValueError):
            continue
        return not percent or bool(ZONE.fullmatch(zone))
    return False


def _one_of(request: Mapping[str, object], field: str, words: tuple[str, ...]) -> str:
    value = request.get(field)
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{field} is not one of {', '.join(words)}")
    return value


def _seconds(request: Mapping[str, object], field: str, most: float) -> float:
    value = request.get(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise ValueError(f"{field} is not a number of seconds above 0 and up to {most:g}")
    return float(value)
