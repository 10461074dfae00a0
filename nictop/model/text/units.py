"""Numbers as text: three significant digits, an SI prefix, the unit.

Reads nothing; every function takes a number (``None``: not known) and returns text. Zero is ``0``,
unknown is ``–``; other values are never shown as zero.
"""

from __future__ import annotations

import math
from datetime import datetime, timezone

UNKNOWN = "–"

SI_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")

SCALED_WIDTH = 6
"""Cells of `scaled`: four for the digits, a blank, one for the prefix."""

SCALED_ZERO = "   0  "
"""What most cells of a table have."""

LATENCY_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
"""Name and seconds of the units of latencies."""

MIN_TWO_DECIMALS = 0.005
"""Smaller values would be 0.00 with two decimals."""

ROUNDING_SHARE = 1e-9
"""A share that is a difference of others may be as far from 0."""


def significant(value: float) -> str:
    """Three significant digits of a number of 0 to 999.5, at most two decimals: ``9.41``, ``21.3``,
    ``812``, ``0``."""
    if value == 0:
        return "0"
    if value < MIN_TWO_DECIMALS:
        return "<.01"
    if value < 10.0:
        text = f"{value:.2f}"
        if text != "10.00":
            return text
    if value < 100.0:
        text = f"{value:.1f}"
        if text != "100.0":
            return text
    return f"{value:.0f}"


def _scale(value: float) -> tuple[str, str]:
    """Digits with sign, and SI prefix, of any finite number."""
    sign, rest = _sign_and_size(value)
    for prefix in SI_PREFIXES:
        if rest >= 1000:
            rest /= 1000
            continue
        digits = significant(rest)
        if len(digits) < 4 or "." in digits:
            return sign + digits, prefix
        rest /= 1000
    return sign + f"{rest * 1000:.0f}", SI_PREFIXES[-1]


def _sign_and_size(value: float) -> tuple[str, float]:
    """("-" or "", absolute value)"""
    if value < 0:
        return "-", -value
    return "", value


def _known(value: float | None) -> float | None:
    """As a float; None for what is not a number, infinite for an integer that no float can hold."""
    if value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if math.isnan(number):
        return None
    return number


def scaled(value: float | None) -> str:
    """For a column: ``9.41 G``, `` 812 k``, ``   0  ``; `SCALED_WIDTH` cells for all that is not
                                                  negative, the decimal
    prefix always in the last one."""
    if value == 0:
        return SCALED_ZERO
    value = _known(value)
    if value is None:
        return f"{UNKNOWN:>4}  "
    if math.isinf(value):
        return f"{_infinite(value):>4}  "
    digits, prefix = _scale(value)
    return f"{digits:>4} {prefix or ' '}"


def quantity(value: float | None, unit: str) -> str:
    """For sentences: ``9.41 Gb/s``, ``0 b/s``, ``812 kpps``, ``–``."""
    value = _known(value)
    if value is None:
        return UNKNOWN
    if math.isinf(value):
        return f"{_infinite(value)} {unit}".rstrip()
    digits, prefix = _scale(value)
    return f"{digits} {prefix}{unit}".rstrip()


def _infinite(value: float) -> str:
    return "∞" if value > 0 else "-∞"


def bits_per_second(value: float | None) -> str:
    return quantity(value, "b/s")


def packets_per_second(value: float | None) -> str:
    """``812 kpps``"""
    return quantity(value, "pps")


def per_second(value: float | None) -> str:
    """Events of any kind: ``12.0/s``, ``1.20 k/s``."""
    text = quantity(value, "")
    if text == UNKNOWN:
        return text
    return f"{text}/s"


def count(value: int | None) -> str:
    """Exact up to six digits, because error counters are compared with those of other tools:
    ``123456``, ``1.23 M``."""
    if value is None:
        return UNKNOWN
    if abs(value) < 1_000_000:
        return str(value)
    return quantity(value, "")


def bytes_(value: float | None) -> str:
    """Binary multiples: ``812 B``, ``1.20 MiB``."""
    value = _known(value)
    if value is None:
        return UNKNOWN
    if math.isinf(value):
        return f"{_infinite(value)} B"
    sign, rest = _sign_and_size(value)
    if rest < 1023.5:
        digits = f"{rest:.0f}" if rest.is_integer() else significant(rest)
        return f"{sign}{digits} B"
    for unit in BINARY_UNITS[1:]:
        rest /= 1024
        if rest < 1023.5:
            return f"{sign}{significant(rest)} {unit}"
    return f"{sign}{rest:.0f} {BINARY_UNITS[-1]}"


def duration(seconds: float | None) -> str:
    """The two largest units: ``31.0 µs``, ``312 ms``, ``12.3 s``, ``3 min 5 s``, ``2 h 5 min``, ``3
    d 4 h``."""
    seconds = _known(seconds)
    if seconds is None:
        return UNKNOWN
    if math.isinf(seconds):
        return f"{_infinite(seconds)} s"
    if seconds < 0:
        return "-" + duration(-seconds)
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        if 0 < seconds * factor < 999.5:
            return f"{significant(seconds * factor)} {unit}"
    if seconds < 59.95:
        return f"{significant(seconds)} s"
    whole = round(seconds)
    if whole < 3600:
        size, big, part, small = 60, "min", 1, "s"
    elif whole < 86400:
        size, big, part, small = 3600, "h", 60, "min"
    else:
        size, big, part, small = 86400, "d", 3600, "h"
    text = f"{whole // size} {big}"
    rest = whole % size // part
    if rest:
        text += f" {rest} {small}"
    return text


def of_limit_text(seconds: float, limit: float) -> str:
    """``31 s in all (limit 90 s)``. The limit of a slow host grows while it is waited for."""
    if math.isinf(limit):
        return f"{seconds:.0f} s in all"
    return f"{seconds:.0f} s in all (limit {limit:.0f} s)"


def whole_seconds(seconds: float) -> str:
    """A duration without fractions below a minute: ``0 s``, ``39 s``, ``2 min 5 s``."""
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    return duration(round(seconds))


def link_speed(megabits: int | None) -> str:
    """Speed of a link: ``10G``, ``2.5G``, ``100M``, ``1.2T``; the argument is Mb/s."""
    if megabits is None:
        return UNKNOWN
    for factor, letter in ((1_000_000, "T"), (1000, "G")):
        if megabits >= 999.5 * factor:
            return f"{megabits // factor}{letter}"
        if megabits >= factor:
            return f"{megabits / factor:.3g}{letter}"
    return f"{megabits}M"


def percentage(share: float | None) -> str:
    """A share of 1: ``0 %``, ``1.8 %``, ``55 %``; above 0 and below 0.05 % it is ``<0.1 %``."""
    share = _known(share)
    if share is None or math.isinf(share):
        return UNKNOWN
    value = share * 100
    if value == 0:
        return "0 %"
    if 0 < value < 0.05:
        return "<0.1 %"
    if abs(value) < 9.95:
        return f"{value:.1f} %"
    return f"{value:.0f} %"


def whole_percentage(share: float) -> str:
    """A share of 1 without decimals: ``0 %``, ``55 %``; above 0, up to 0.5 %, it is ``<1 %``."""
    if ROUNDING_SHARE < share <= 0.005:
        return "<1 %"
    return f"{100 * share:.0f} %"


def local_time_text(wall: float, *, date: bool = False) -> str:
    """``14:03:20`` in the time zone of this machine; with `date` ``2026-11-21 14:03:20``. `wall`:
    seconds since the epoch; ``–`` if that is not in the years 1 to 9999."""
    try:
        moment = datetime.fromtimestamp(wall)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
    return moment.strftime("%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S")


def wall_time_text(wall: float) -> str:
    """``2026-11-21 08:01:40 UTC``. `wall`: seconds since the epoch."""
    try:
        return datetime.fromtimestamp(wall, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):  # a stored file may contain any number
        return UNKNOWN
