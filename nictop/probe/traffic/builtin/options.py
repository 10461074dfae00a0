"""Options of the built-in generator of traffic: words → `BuiltinOptions`, or a sentence about what is wrong. Pure.

The names are those of iperf3 where it has the same. The client's say what the run is like; of a server's, those count
that a listening socket needs before anybody has come: ``--udp``, ``--mss``, ``--window``, ``--accept``, ``--interval``,
``--affinity`` and ``--bind-dev``.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

LONGEST_MESSAGE = 8 * 1024 * 1024
LONGEST_DATAGRAM = 65507
SHORTEST_DATAGRAM = 16
"""Bytes: what a datagram tells takes as many."""
AMOUNT = re.compile(r"([0-9]{1,15})([KMGkmg]?)", re.ASCII)
FACTORS = {"": 0, "k": 1, "m": 2, "g": 3}
SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?", re.ASCII)


class BuiltinOptions:
    """What a run is like."""

    def __init__(self) -> None:
        self.udp = False
        self.reverse = False
        self.no_delay = False
        self.length = 0
        """Bytes of each message; of a datagram with UDP. 0: 128 KiB, or 1448."""
        self.streams = 1
        self.time = 10.0
        """Seconds, after `omit`."""
        self.omit = 0.0
        """Seconds at the start that do not count."""
        self.interval = 1.0
        """Seconds between two reports."""
        self.mss = 0
        """Bytes, TCP_MAXSEG; 0: the kernel's."""
        self.window = 0
        """Bytes of both socket buffers; 0: the kernel's."""
        self.bitrate = 0
        """Bits per second of each stream; 0: as fast as it goes."""
        self.congestion = ""
        self.tos = 0
        self.affinity: int | None = None
        """CPU of all processes of this end."""
        self.bind = ""
        """Source address of a client."""
        self.bind_device = ""
        self.accept = 30.0
        """Seconds that a server waits for its client."""


def parse_options(words: Sequence[str]) -> BuiltinOptions:
    """Raises ValueError with a sentence. ``--name=value`` is one word or two."""
    options = BuiltinOptions()
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in FLAGS and not equals:
            setattr(options, FLAGS[name], True)
            continue
        if name not in VALUES:
            raise ValueError(f"the built-in generator has no option {word[:40]!r}")
        field, parse = VALUES[name]
        if not equals:
            value = next(rest, "")
        try:
            setattr(options, field, parse(value))
        except ValueError as error:
            raise ValueError(f"{value[:40]!r} is no value of {name}: {error}") from None
    if options.udp and options.length and not SHORTEST_DATAGRAM <= options.length <= LONGEST_DATAGRAM:
        raise ValueError(f"a datagram has {SHORTEST_DATAGRAM} to {LONGEST_DATAGRAM} bytes")
    options.length = options.length or (1448 if options.udp else 128 * 1024)
    return options


def whole(least: int, most: int, thousand: int = 1024) -> Callable[[str], int]:
    """Parser of a whole number, with a suffix K, M or G."""

    def parse(text: str) -> int:
        match = AMOUNT.fullmatch(text)
        number = int(match[1]) * thousand ** FACTORS[match[2].lower()] if match else -1
        if not least <= number <= most:
            raise ValueError(f"not a whole number from {least} to {most}")
        return number

    return parse


def seconds(least: float, most: float) -> Callable[[str], float]:
    """Parser of a number of seconds."""

    def parse(text: str) -> float:
        if not SECONDS.fullmatch(text) or not least <= float(text) <= most:
            raise ValueError(f"not a number of seconds from {least:g} to {most:g}")
        return float(text)

    return parse


def matching(pattern: str) -> Callable[[str], str]:
    """Parser of a word."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError("not a word of its kind")
        return text

    return parse


FLAGS = {
    "--udp": "udp", "-u": "udp", "--reverse": "reverse", "-R": "reverse", "--no-delay": "no_delay", "-N": "no_delay",
}  # fmt: skip
VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    name: (field, parse)
    for names, field, parse in (
        ("--bytes --length -l", "length", whole(1, LONGEST_MESSAGE)),
        ("--streams --parallel -P", "streams", whole(1, 128)),
        ("--time -t", "time", seconds(0.1, 86400)),
        ("--omit -O", "omit", seconds(0, 600)),
        ("--interval -i", "interval", seconds(0.1, 60)),
        ("--mss --set-mss -M", "mss", whole(88, 32767)),
        ("--window -w", "window", whole(1024, 1 << 30)),
        ("--bitrate -b", "bitrate", whole(0, 10**13, 1000)),
        ("--congestion -C", "congestion", matching(r"[A-Za-z0-9_]{1,15}")),
        ("--tos -S", "tos", whole(0, 255)),
        ("--affinity -A", "affinity", whole(0, 65535)),
        ("--bind -B", "bind", matching(r"[0-9A-Fa-f:.]{2,45}(%[^\s/%\x00-\x20]{1,15})?")),
        ("--bind-dev", "bind_device", matching(r"[^\s/:%\x00-\x20]{1,15}")),
        ("--accept", "accept", seconds(0.1, 600)),
    )
    for name in names.split()
}
"""Option → field of `BuiltinOptions`, and what makes its value of a word."""
