"""Parsers of sizes, rates and numbers as users type them; each raises NictopError if the text is
invalid.

Reads nothing. Sizes are binary (``128K`` is 131072 bytes), rates decimal (``1G`` is 10⁹ bits per
second), as in iperf3. `what` names the quantity in the error message.
"""

from __future__ import annotations

import re

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.traffic.plan.plan import DSCP, dscp_number

MAX_QUANTITY_CHARACTERS = 32
"""Longer text is rejected before it is matched."""
MAX_NAMES_IN_HINT = 8
LOW_BIT_RATE = 1_000_000
"""Bits per second below which a rate may lack its suffix."""

_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMG]?)(i?B)?", re.IGNORECASE | re.ASCII)
_RATE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMGT]?)(b/s|bit/s|bps)?", re.IGNORECASE | re.ASCII)
_WHOLE_NUMBER = re.compile(r"\d{1,15}", re.ASCII)
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,6})?", re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_byte_count(text: str, what: str = "size") -> int:
    """Bytes: ``128K``, ``1M``, ``1460``, ``0.5M``. Raises NictopError."""
    value = _scaled(_matched(_AMOUNT, text), 1024)
    if value is None:
        raise NictopError(f"{what}: {quoted(text)} is not a size", "e.g. 512, 128K or 4M")
    return value


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    if len(text) > MAX_QUANTITY_CHARACTERS:
        return None
    return pattern.fullmatch(text.strip())


def parse_sizes(text: str, what: str = "size") -> tuple[int, int | None]:
    """Bytes of request and response: ``4K`` both, ``64:4K`` each; the latter is None if it is the
    same. Raises NictopError."""
    request, colon, response = text.partition(":")
    return parse_byte_count(request, what), parse_byte_count(response, what) if colon else None


def parse_bit_rate(text: str, what: str = "bitrate") -> int:
    """Bits per second: ``1G``, ``500M``, ``2.5G``. Raises NictopError."""
    value = _scaled(_matched(_RATE, text), 1000)
    if value is None:
        raise NictopError(
            f"{what}: {quoted(text)} is not a rate", "e.g. 500M or 2.5G (bits per second)"
        )
    return value


def low_rate_question(rate: int | None) -> str:
    """``rate 30 b/s; did you mean 30M?``; "" for `LOW_BIT_RATE` and more, and for None (no
    limit)."""
    if not rate or rate >= LOW_BIT_RATE:
        return ""
    number, prefix = (rate / 1000, "k") if rate >= 1000 else (rate, "")
    return f"rate {number:g} {prefix}b/s; did you mean {number:g}M?"


def _scaled(match: re.Match[str] | None, factor: int) -> int | None:
    """The number times factor ** power of its suffix; None if there is none, or it is not
    whole."""
    if match is None:
        return None
    whole, _, fraction = match[1].partition(".")
    scale: int = factor ** _POWERS[match[2].lower()]
    value = int(whole) * scale
    if fraction:
        part, rest = divmod(int(fraction) * scale, 10 ** len(fraction))
        if rest:
            return None
        value += part
    return value


def parse_whole_number(text: str, what: str = "number") -> int:
    """``4`` → 4. Raises NictopError."""
    if _matched(_WHOLE_NUMBER, text) is None:
        raise NictopError(f"{what}: {quoted(text)} is not an integer")
    return int(text.strip())


def parse_seconds(text: str, what: str = "time") -> float:
    """``2``, ``0.5`` → seconds. Raises NictopError."""
    if _matched(_SECONDS, text) is None:
        raise NictopError(f"{what}: {quoted(text)} is not a number of seconds")
    return float(text.strip())


def parse_cpu(text: str, what: str = "CPU") -> int:
    """Number of a CPU. Raises NictopError."""
    return parse_whole_number(text, what)


def parse_dscp(text: str, what: str = "DSCP") -> int:
    """``ef``, ``AF41``, ``46``, ``0x2e`` → 0 to 63. Raises NictopError."""
    number = dscp_number(text.strip()) if len(text) <= MAX_QUANTITY_CHARACTERS else None
    if number is None:
        names = ", ".join(list(DSCP)[:MAX_NAMES_IN_HINT])
        raise NictopError(
            f"{what}: {quoted(text)} is not a DSCP", f"0 to 63 or a name: {names}, ef, af41, …"
        )
    return number


def parse_yes_or_no(text: str, what: str = "value") -> bool:
    """``yes``, ``on`` → True; ``no``, ``off`` → False. Raises NictopError."""
    value = {"yes": True, "on": True, "no": False, "off": False}.get(text.strip().lower())
    if value is None:
        raise NictopError(f"{what}: {quoted(text)} is not yes or no")
    return value


def quoted(text: str) -> str:
    """Quoted for a message: without control characters, cut off if it is long."""
    cut_mark = "…" if len(text) > MAX_QUANTITY_CHARACTERS else ""
    return f'"{clean(text[:MAX_QUANTITY_CHARACTERS])}{cut_mark}"'
