"""Words that people type for sizes, rates and numbers of a run → values; what makes no sense is a NictopError.

Reads nothing. Sizes are binary (``128K`` is 131072 bytes), rates decimal (``1G`` is 10⁹ bits per second), as iperf3 has
them. Every function takes the word and, where it helps the sentence, what it is for.
"""

from __future__ import annotations

import re

from nictop.errors import NictopError
from nictop.model.text.terminal import clean
from nictop.traffic.plan.plan import DSCP, dscp_number

LONGEST_WORD = 32
"""Characters: no number is longer, and a longer word is not worked on."""

_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMG]?)(i?B)?", re.IGNORECASE | re.ASCII)
_RATE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?) ?([KMGT]?)(b/s|bit/s|bps)?", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def amount(word: str, what: str = "size") -> int:
    """Bytes: ``128K``, ``1M``, ``1460``, ``0.5M``."""
    found = _AMOUNT.fullmatch(word.strip()) if len(word) <= LONGEST_WORD else None
    value = _scaled(found, 1024) if found is not None else None
    if value is None:
        raise NictopError(f"{what}: {shown(word)} is no number of bytes", "write it like 512, 128K or 4M")
    return value


def bit_rate(word: str, what: str = "bitrate") -> int:
    """Bits per second: ``1G``, ``500M``, ``2.5G``."""
    found = _RATE.fullmatch(word.strip()) if len(word) <= LONGEST_WORD else None
    value = _scaled(found, 1000) if found is not None else None
    if value is None:
        raise NictopError(f"{what}: {shown(word)} is no bitrate", "write it like 500M or 2.5G (bits per second)")
    return value


def _scaled(found: re.Match[str], factor: int) -> int | None:
    """None: not a whole number of bytes or bits."""
    whole, _, fraction = found[1].partition(".")
    scale: int = factor ** _POWERS[found[2].lower()]
    value = int(whole) * scale
    if fraction:
        part, rest = divmod(int(fraction) * scale, 10 ** len(fraction))
        if rest:
            return None
        value += part
    return value


def whole_number(word: str, what: str = "number") -> int:
    """``4``"""
    if len(word) > LONGEST_WORD or re.fullmatch(r"\d{1,15}", word.strip(), re.ASCII) is None:
        raise NictopError(f"{what}: {shown(word)} is no whole number")
    return int(word.strip())


def seconds(word: str, what: str = "time") -> float:
    """``2``, ``0.5``"""
    if len(word) > LONGEST_WORD or re.fullmatch(r"\d{1,9}(\.\d{1,6})?", word.strip(), re.ASCII) is None:
        raise NictopError(f"{what}: {shown(word)} is no number of seconds")
    return float(word.strip())


def cpu(word: str, what: str = "CPU") -> int:
    """Id of a CPU."""
    return whole_number(word, what)


def dscp(word: str, what: str = "DSCP") -> int:
    """``ef``, ``AF41``, ``46``, ``0x2e`` → 0 to 63."""
    number = dscp_number(word.strip()) if len(word) <= LONGEST_WORD else None
    if number is None:
        names = ", ".join(list(DSCP)[:8])
        raise NictopError(
            f"{what}: {shown(word)} is none", f"write a number from 0 to 63 or a name: {names}, ef, af41, …"
        )
    return number


def yes_or_no(word: str, what: str = "value") -> bool:
    """``yes``, ``no``, ``on``, ``off``"""
    value = {"yes": True, "on": True, "no": False, "off": False}.get(word.strip().lower())
    if value is None:
        raise NictopError(f"{what}: {shown(word)} is neither yes nor no")
    return value


def shown(word: str) -> str:
    """In a sentence: short and clean."""
    return f"'{clean(word[:LONGEST_WORD])}{'…' if len(word) > LONGEST_WORD else ''}'"
