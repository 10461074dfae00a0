"""Which part of a line of counts has changed since the last reading, so that only that part is
parsed again. Pure."""

from __future__ import annotations

from nictop.probe.kernel.cpu_columns import parse_count


def with_counts(
    counts: dict[int, int], cpus: tuple[int, ...], words: list[bytes]
) -> dict[int, int]:
    """A copy of `counts` with the numbers in `words` for `cpus`. ValueError: not a number."""
    changed = dict(counts)
    for cpu, word in zip(cpus, words):
        number = parse_count(word)
        if number:
            changed[cpu] = number
        else:
            changed.pop(cpu, None)
    return changed


def changed_span(old: bytes, new: bytes) -> tuple[int, int]:
    """Index of the first and end of the last byte in which two different texts of the same length
    differ."""
    difference = int.from_bytes(old, "big") ^ int.from_bytes(new, "big")
    size = len(new)
    return size - (difference.bit_length() + 7) // 8, size - (
        (difference & -difference).bit_length() - 1
    ) // 8
