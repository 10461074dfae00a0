"""CPU lists (``0-3,8``) and hexadecimal CPU masks (``00000001,00000000``) as the kernel prints
them.

Reads nothing. Both come from files with any content: for text that is not a list or mask the result
is None, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from nictop.limits import MAX_CPU_LIST_CHARS, MAX_CPUS

MASK_GROUP_DIGITS = 8
"""Hexadecimal digits between two commas of a mask: 32 CPUs."""


def parse_cpu_list(text: str | None) -> tuple[int, ...] | None:
    """The CPUs of a list, in ascending order: ``0-2,8`` → (0, 1, 2, 8). An empty list is (); None:
    no text, or not a valid list. The kernel's ranges are ordered and do not overlap, so a list with
    more than `MAX_CPUS` CPUs in total is invalid."""
    if text is None or len(text) > MAX_CPU_LIST_CHARS:
        return None
    text = text.strip()
    if not text:
        return ()
    cpus: set[int] = set()
    cpu_count = 0
    for part in text.split(","):
        numbers = _range(part)
        if numbers is None:
            return None
        cpu_count += len(numbers)
        if cpu_count > MAX_CPUS:
            return None
        cpus.update(numbers)
    return tuple(sorted(cpus))


def _range(part: str) -> range | None:
    """The CPUs of ``8`` or ``0-2``; None: malformed."""
    first, dash, last = part.strip().partition("-")
    if not dash:
        last = first
    low, high = _number(first), _number(last)
    if low is None or high is None or high < low:
        return None
    return range(low, high + 1)


def _number(text: str) -> int | None:
    if not text.isascii() or not text.isdecimal() or len(text) > 5:
        return None
    number = int(text)
    if number >= MAX_CPUS:
        return None
    return number


@lru_cache(maxsize=1024)  # of each queue, for each diagnosis
def parse_cpu_mask(text: str | None) -> tuple[int, ...] | None:
    """The CPUs of a mask, in ascending order. The last group is CPUs 0 to 31, with CPU 0 in the
    lowest bit (``%*pb``): ``1,00000000`` → (32,). None: no text, or not a valid mask."""
    if text is None:
        return None
    groups = text.strip().split(",")
    if len(groups) > MAX_CPUS // 32:
        return None
    bits = 0
    for number, group in enumerate(groups):
        if not _is_hexadecimal(group):
            return None
        # all but the first have leading zeros; a shorter one would shift the others
        if number > 0 and len(group) != MASK_GROUP_DIGITS:
            return None
        bits = bits << 32 | int(group, 16)
    return tuple(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def _is_hexadecimal(group: str) -> bool:
    """It has 1 to `MASK_GROUP_DIGITS` digits and nothing else."""
    if not 1 <= len(group) <= MASK_GROUP_DIGITS:
        return False
    return all(digit in "0123456789abcdefABCDEF" for digit in group)


def format_cpu_list(cpus: Iterable[int]) -> str:
    """``0-2,8``, as the kernel prints it (``%*pbl``); "" for none."""
    parts: list[str] = []
    first = last = -2
    for cpu in [*sorted(set(cpus)), -1]:
        if cpu == last + 1 and first >= 0:
            last = cpu
            continue
        if first >= 0:
            parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = cpu
    return ",".join(parts)


def short_cpu_list(cpus: Iterable[int], cells: int) -> str:
    """The same, or how many there are (``107 CPUs``) if the list does not fit into `cells`: its
    begin alone would be another list."""
    known = set(cpus)
    text = format_cpu_list(known)
    if len(text) > cells:
        return f"{len(known)} CPUs"
    return text
