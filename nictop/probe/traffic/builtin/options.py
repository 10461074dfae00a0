"""Options of the built-in traffic generator: words → `BuiltinOptions`, or ValueError with a
sentence. Pure.

Names are those of iperf3 where it has the same option. Both ends get the options of the run from
nictop: a server does nothing that its client asks for. ``--bind`` and ``--files`` are of a client
only, ``--accept`` of a server; ``--interval``, ``--affinity`` and ``--bind-dev`` of the end that
has them.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

MAX_STREAM_MESSAGE_BYTES = 8 * 1024 * 1024
MAX_DATAGRAM_BYTES = 65507
MIN_DATAGRAM_BYTES = 16
"""Size of `streams.DATAGRAM_HEADER`."""
MIN_REQUEST_DATAGRAM_BYTES = 8
"""Size of `transactions.REQUEST_HEADER`."""
DEFAULT_REQUEST_BYTES = 64
MAX_FILES = 1000000
MAX_REQUEST_RATE = 1000000
INTEGER_WITH_SUFFIX = re.compile(r"([0-9]{1,15})([KMGkmg]?)", re.ASCII)
SUFFIX_EXPONENTS = {"": 0, "k": 1, "m": 2, "g": 3}
DECIMAL_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?", re.ASCII)


class BuiltinOptions:
    """The parameters of a run."""

    def __init__(self) -> None:
        self.udp = False
        self.reverse = False
        self.no_delay = False
        self.length = 0
        """Bytes of each message, or of each datagram. 0: 128 KiB, or 1448."""
        self.streams = 1
        self.time = 10.0
        """Seconds, after `omit`."""
        self.omit = 0.0
        """Seconds at the start that are not counted."""
        self.interval = 1.0
        """Seconds between two reports."""
        self.mss = 0
        """Bytes, TCP_MAXSEG; 0: the kernel's default."""
        self.window = 0
        """Bytes of both socket buffers; 0: the kernel's default."""
        self.bitrate = 0
        """Bits per second of each stream; 0: unlimited."""
        self.congestion = ""
        self.tos = 0
        self.affinity: int | None = None
        """CPU for all processes of this end."""
        self.bind = ""
        """Source address of a client."""
        self.bind_device = ""
        self.accept = 30.0
        """Seconds that a server waits for its client."""
        self.test = ""
        """rr: requests and responses; crr: each on a connection of its own; "": bulk."""
        self.response = 0
        """Bytes of a response; those of a request are `length`."""
        self.files = 0
        """Transactions after which crr ends; 0: at the end of the time only."""
        self.rate = 0
        """Requests per second of all connections of rr, sent on schedule; 0: each is sent when the
        last one has been answered."""

    @property
    def seconds(self) -> float:
        """Of the whole run."""
        return self.omit + self.time

    @property
    def connections(self) -> int:
        """Data sockets with a greeting. crr has one, which only shows the server that its client
        lives."""
        return 1 if self.test == "crr" else self.streams


def parse_options(arguments: Sequence[str]) -> BuiltinOptions:
    """Raises ValueError with a sentence. ``--name=value`` may be one word or two."""
    options = BuiltinOptions()
    rest = iter(arguments)
    for word in rest:
        name, has_value, value = word, "", ""
        if word.startswith("--"):
            name, has_value, value = word.partition("=")
        if name in BUILTIN_FLAGS and not has_value:
            setattr(options, BUILTIN_FLAGS[name], True)
            continue
        if name not in BUILTIN_VALUES:
            raise ValueError(f"the built-in generator has no option {word[:40]!r}")
        field, parse = BUILTIN_VALUES[name]
        if not has_value:
            value = next(rest, "")
        try:
            setattr(options, field, parse(value))
        except ValueError as error:
            raise ValueError(f"invalid value of {name}: {value[:40]!r} is {error}") from None
    return _check_test(options) if options.test else _check_bulk(options)


def _check_bulk(options: BuiltinOptions) -> BuiltinOptions:
    """Options of a bulk flow, with their defaults. Raises ValueError."""
    if options.response or options.files or options.rate:
        raise ValueError("--response, --files and --rate need --test")
    if options.udp and options.length:
        _check_datagram(options.length, MIN_DATAGRAM_BYTES)
    default_length = 1448 if options.udp else 128 * 1024
    options.length = options.length or default_length
    return options


def _check_datagram(size: int, smallest: int) -> None:
    if not smallest <= size <= MAX_DATAGRAM_BYTES:
        raise ValueError(f"datagram size must be {smallest} to {MAX_DATAGRAM_BYTES} bytes")


def _check_test(options: BuiltinOptions) -> BuiltinOptions:
    """Options of rr and crr, with their defaults. Raises ValueError."""
    options.no_delay = True
    options.length = options.length or DEFAULT_REQUEST_BYTES
    options.response = options.response or options.length
    if options.udp:
        if options.test == "crr":
            raise ValueError("--test crr needs TCP")
        for size in (options.length, options.response):
            _check_datagram(size, MIN_REQUEST_DATAGRAM_BYTES)
    if options.reverse or options.bitrate:
        raise ValueError("--reverse and --bitrate are options of bulk tests")
    if options.files and options.test != "crr":
        raise ValueError("--files needs --test crr")
    can_be_sent = options.test == "rr" and options.rate >= options.streams
    if options.rate and not can_be_sent:
        raise ValueError("--rate needs --test rr, and at least one request per second and stream")
    return options


def whole_number(minimum: int, maximum: int, base: int = 1024) -> Callable[[str], int]:
    """Parser of an integer with an optional suffix K, M or G (powers of `base`)."""

    def parse(text: str) -> int:
        match = INTEGER_WITH_SUFFIX.fullmatch(text)
        number = int(match[1]) * base ** SUFFIX_EXPONENTS[match[2].lower()] if match else -1
        if not minimum <= number <= maximum:
            raise ValueError(f"not an integer from {minimum} to {maximum}")
        return number

    return parse


def seconds(minimum: float, maximum: float) -> Callable[[str], float]:
    """Parser of a number of seconds."""

    def parse(text: str) -> float:
        if not DECIMAL_SECONDS.fullmatch(text) or not minimum <= float(text) <= maximum:
            raise ValueError(f"not a number of seconds from {minimum:g} to {maximum:g}")
        return float(text)

    return parse


def matching(pattern: str) -> Callable[[str], str]:
    """Parser of a word that matches the pattern."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError("not valid")
        return text

    return parse


BUILTIN_FLAGS = {
    "--udp": "udp", "-u": "udp", "--reverse": "reverse", "-R": "reverse", "--no-delay": "no_delay",
    "-N": "no_delay",
}  # fmt: skip
BUILTIN_VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    name: (field, parse)
    for names, field, parse in (
        ("--bytes --length -l", "length", whole_number(1, MAX_STREAM_MESSAGE_BYTES)),
        ("--streams --parallel -P", "streams", whole_number(1, 128)),
        ("--time -t", "time", seconds(0.1, 86400)),
        ("--omit -O", "omit", seconds(0, 600)),
        ("--interval -i", "interval", seconds(0.1, 60)),
        ("--mss --set-mss -M", "mss", whole_number(88, 32767)),
        ("--window -w", "window", whole_number(1024, 1 << 30)),
        ("--bitrate -b", "bitrate", whole_number(0, 10**13, 1000)),
        ("--congestion -C", "congestion", matching(r"[A-Za-z0-9_]{1,15}")),
        ("--tos -S", "tos", whole_number(0, 255)),
        ("--affinity -A", "affinity", whole_number(0, 65535)),
        ("--bind -B", "bind", matching(r"[0-9A-Fa-f:.]{2,45}(%[^\s/%\x00-\x20]{1,15})?")),
        ("--bind-dev", "bind_device", matching(r"[^\s/:%\x00-\x20]{1,15}")),
        ("--accept", "accept", seconds(0.1, 86400)),
        ("--test", "test", matching(r"rr|crr")),
        ("--response", "response", whole_number(1, MAX_STREAM_MESSAGE_BYTES)),
        ("--files", "files", whole_number(1, MAX_FILES)),
        ("--rate", "rate", whole_number(1, MAX_REQUEST_RATE)),
    )
    for name in names.split()
}
"""Option → (field of `BuiltinOptions`, parser of its value)."""
