"""What the kernel's tables with one column per CPU have in common: their header and their numbers. Pure.

Here and not with the interrupts, because the first counters need nothing else of those (see `wire.bundle`).
"""

from __future__ import annotations

LONGEST_NUMBER = 19
"""Digits; the kernel counts interrupts in 32 bits."""


def parse_number(word: bytes) -> int:
    """Decimal digits and nothing else (int() would take 1_0 and +1); ValueError otherwise."""
    if not word.isdigit() or len(word) > LONGEST_NUMBER:
        raise ValueError(f"not a count: {word[:40]!r}")
    return int(word)


def parse_header(text: bytes) -> tuple[int, ...]:
    """First line of /proc/interrupts and /proc/softirqs, ``CPU0 CPU2`` → (0, 2). ValueError when it is not that."""
    words = text.split()
    if not words or not all(word.startswith(b"CPU") for word in words) or len(set(words)) != len(words):
        raise ValueError(f"not a header of CPUs: {text[:80]!r}")
    return tuple(parse_number(word[3:]) for word in words)
