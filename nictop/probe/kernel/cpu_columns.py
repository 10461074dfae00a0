"""Parsers for kernel tables with one column per CPU (/proc/interrupts, /proc/softirqs): header and
numbers. Pure.

A module of its own, because the first counters need this but not the interrupt readers (see
`wire.ssh.bundle`).
"""

from __future__ import annotations

MAX_COUNT_DIGITS = 19
"""Decimal digits of one count. The kernel counts interrupts in 32 bits."""


def parse_count(word: bytes) -> int:
    """The value of decimal digits. ValueError for anything else, also what int() accepts: ``1_0``,
    ``+1``."""
    if not word.isdigit() or len(word) > MAX_COUNT_DIGITS:
        raise ValueError(f"not a count: {word[:40]!r}")
    return int(word)


def parse_cpu_header(text: bytes) -> tuple[int, ...]:
    """CPU ids in the first line of /proc/interrupts or /proc/softirqs: ``CPU0 CPU2`` → (0, 2).
    ValueError: garbled."""
    words = text.split()
    if (
        not words
        or not all(word.startswith(b"CPU") for word in words)
        or len(set(words)) != len(words)
    ):
        raise ValueError(f"not a header of CPUs: {text[:80]!r}")
    return tuple(parse_count(word[3:]) for word in words)
