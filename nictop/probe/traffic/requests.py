"""Validate a traffic request: the object in a `records.Request` → `TrafficCommand`, or ValueError
with a sentence. Pure.

Stricter than other requests: one that starts a process must be valid as a whole.
"""

from __future__ import annotations

import re
import socket

from nictop.probe.protocol.requests import is_ifindex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

REQUEST_ID = re.compile(r"[!-~]{1,64}", re.ASCII)
ZONE = re.compile(r"[^\s/%\x00-\x20]{1,15}")
ACTIONS = (
    "check",
    "start",
    "stop",
    "path",
    "path_listen",
    "path_test",
    "floor",
    "drops",
    "lldp",
    "losses",
    "work",
)
COOKIE = re.compile(r"[0-9a-f]{32}", re.ASCII)
MAX_PATH_TEST_SECONDS = 240.0
MAX_CHECK_SECONDS = 120.0
MAX_FLOOR_SECONDS = 60.0
MAX_DROPS_SECONDS = 60.0
MAX_LLDP_SECONDS = 35.0
"""LLDP is sent every 30 s."""
MAX_LLDP_LINKS = 64
MAX_DEADLINE_SECONDS = 86400.0
"""Seconds that a child may run."""
MIN_SOCKET_INTERVAL, MAX_SOCKET_INTERVAL = 0.1, 60.0
"""Seconds between two readings of its sockets."""
MAX_ARGUMENTS, MAX_ARGUMENT_CHARS = 64, 128
MAX_WORKLOAD_CHARS = 4096
VARIABLE = re.compile(r"NICTOP_[A-Z]{1,32}", re.ASCII)
MAX_VARIABLES, MAX_VARIABLE_CHARS = 16, 1024
"""Of the environment of a workload."""


class TrafficCommand:
    """A valid `records.TrafficRequest`, with the same fields."""

    def __init__(self, request: Mapping[str, object]) -> None:
        """Raises ValueError with a sentence."""
        self.id = request_id(request)
        self.action = _one_of(request, "action", ACTIONS)
        self.role = self.generator = ""
        self.arguments: list[str] = []
        self.port, self.address = 0, ""
        self.source, self.ifindex, self.cookie, self.short = "", 0, "", False
        self.peer = self.congestion = ""
        self.links: tuple[int, ...] = ()
        self.workload = ""
        self.variables: dict[str, str] = {}
        self.deadline, self.interval, self.sockets, self.threads = (
            0.0,
            MAX_SOCKET_INTERVAL,
            False,
            False,
        )
        if self.action == "start":
            self._check_start(request)
        elif self.action in ("path", "path_listen", "path_test"):
            self._check_path(request)
            if self.action != "path":
                self._check_path_test(request)
        elif self.action == "check" and request.get("deadline"):
            self.deadline = _seconds(request, "deadline", MAX_CHECK_SECONDS)
        elif self.action == "floor":
            self.arguments = _arguments(request)
            self.deadline = _seconds(request, "deadline", MAX_FLOOR_SECONDS)
        elif self.action == "drops":
            self.deadline = _seconds(request, "deadline", MAX_DROPS_SECONDS)
        elif self.action == "lldp":
            self._check_lldp(request)
        elif self.action == "losses":
            self.ifindex = _ifindex(request)
        elif self.action == "work":
            self._check_work(request)

    def _check_path(self, request: Mapping[str, object]) -> None:
        address, source = request.get("address"), request.get("source")
        if (
            not is_address(address)
            or not is_address(source)
            or (":" in str(address)) != (":" in str(source))
        ):
            raise ValueError("address and source are not two numeric addresses of one IP version")
        self.address, self.source, self.ifindex = str(address), str(source), _ifindex(request)

    def _check_path_test(self, request: Mapping[str, object]) -> None:
        port = request.get("port")
        lowest = 0 if self.action == "path_listen" else 1
        if type(port) is not int or not lowest <= port < 65536:
            raise ValueError(f"port is not a number from {lowest} to 65535")
        self.short = _flag(request, "short")
        self.cookie, self.port = _cookie(request), port
        self.deadline = _seconds(request, "deadline", MAX_PATH_TEST_SECONDS)

    def _check_peer(self, request: Mapping[str, object]) -> None:
        peer = request.get("peer", "")
        if peer and not is_address(peer):
            raise ValueError("peer is not a numeric IPv4 or IPv6 address")
        self.cookie, self.peer = _cookie(request), str(peer)

    def _check_lldp(self, request: Mapping[str, object]) -> None:
        links = request.get("links")
        if (
            not isinstance(links, list)
            or not 0 < len(links) <= MAX_LLDP_LINKS
            or not all(map(is_ifindex, links))
        ):
            raise ValueError(f"links is not a list of 1 to {MAX_LLDP_LINKS} ifindexes")
        self.links = tuple(dict.fromkeys(links))
        self.deadline = _seconds(request, "deadline", MAX_LLDP_SECONDS)

    def _check_work(self, request: Mapping[str, object]) -> None:
        workload = request.get("workload")
        if not isinstance(workload, str) or not is_command(workload):
            raise ValueError(f"workload is not one line of 1 to {MAX_WORKLOAD_CHARS} characters")
        variables = request.get("variables", {})
        if not isinstance(variables, dict) or not all(
            isinstance(name, str) and VARIABLE.fullmatch(name) and is_value(value)
            for name, value in variables.items()
        ):
            raise ValueError("variables are not texts named NICTOP_…")
        if len(variables) > MAX_VARIABLES:
            raise ValueError(f"more than {MAX_VARIABLES} variables")
        self.workload, self.variables = workload, variables
        self.deadline = _seconds(request, "deadline", MAX_DEADLINE_SECONDS)

    def _check_start(self, request: Mapping[str, object]) -> None:
        self.role = _one_of(request, "role", ("server", "client"))
        self.generator = _one_of(request, "generator", ("iperf3", "builtin", "ntttcp"))
        self.arguments = _arguments(request)
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
        if self.generator == "builtin":
            self._check_peer(request)
        congestion = request.get("congestion", "")
        if not isinstance(congestion, str):
            raise ValueError("congestion is not text")
        self.congestion = congestion
        self.deadline = _seconds(request, "deadline", MAX_DEADLINE_SECONDS)
        self.sockets = _flag(request, "sockets")
        interval = MAX_SOCKET_INTERVAL
        if self.sockets:
            interval = _seconds(request, "interval", MAX_SOCKET_INTERVAL)
        self.interval = max(MIN_SOCKET_INTERVAL, interval)
        self.threads = _flag(request, "threads")


def request_id(request: Mapping[str, object]) -> str:
    """The id of a request. Raises ValueError unless it can be repeated in a reply."""
    name = request.get("id")
    if not isinstance(name, str) or not REQUEST_ID.fullmatch(name):
        raise ValueError("id is not a word of 1 to 64 printable ASCII characters")
    return name


def is_argument(value: object) -> bool:
    """Whether a value can be an argument of a program."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= MAX_ARGUMENT_CHARS
        and "\0" not in value
        and value.isprintable()
    )


def is_command(text: str) -> bool:
    """Whether a text can be the command of a workload: one line."""
    return 0 < len(text) <= MAX_WORKLOAD_CHARS and text.isprintable() and bool(text.strip())


def is_value(value: object) -> bool:
    """Whether it can be the value of a variable of a workload."""
    return isinstance(value, str) and len(value) <= MAX_VARIABLE_CHARS and "\0" not in value


def is_address(value: object) -> bool:
    """Whether a value is a numeric address; IPv6 may have a zone."""
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


def _cookie(request: Mapping[str, object]) -> str:
    cookie = request.get("cookie")
    if not isinstance(cookie, str) or not COOKIE.fullmatch(cookie):
        raise ValueError("cookie is not 32 hexadecimal digits")
    return cookie


def _ifindex(request: Mapping[str, object]) -> int:
    ifindex = request.get("ifindex", 0)
    if type(ifindex) is not int or not 0 <= ifindex < 1 << 31:
        raise ValueError("ifindex is not a number from 0 to 2147483647")
    return ifindex


def _arguments(request: Mapping[str, object]) -> list[str]:
    arguments = request.get("arguments", [])
    if (
        not isinstance(arguments, list)
        or len(arguments) > MAX_ARGUMENTS
        or not all(map(is_argument, arguments))
    ):
        raise ValueError(f"arguments is not a list of at most {MAX_ARGUMENTS} short words")
    return arguments


def _one_of(request: Mapping[str, object], field: str, choices: tuple[str, ...]) -> str:
    value = request.get(field)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{field} is not one of {', '.join(choices)}")
    return value


def _seconds(request: Mapping[str, object], field: str, maximum: float) -> float:
    value = request.get(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= maximum:
        raise ValueError(f"{field} is not a number of seconds above 0 and up to {maximum:g}")
    return float(value)


def _flag(request: Mapping[str, object], field: str) -> bool:
    value = request.get(field, False)
    if not isinstance(value, bool):
        raise ValueError(f"{field} is not true or false")
    return value
