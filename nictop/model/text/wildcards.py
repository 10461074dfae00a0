"""Shell wildcards (``*``, ``?`` and bracket sets), matched in time linear in the length of the
text.

Reads nothing. Patterns and texts come from configuration files of watched hosts, where a hostile
pattern could keep a backtracking matcher busy. Here the positions of the pattern that the text so
far can have reached are the bits of one integer (the shift-and algorithm), and each character of
the text is one step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from nictop.probe.light_tuples import NamedTuple

MAX_PATTERN_CHARS = 512
"""Length of a pattern and of a text; a longer one never matches. Link names have 15 characters,
altnames 127, host names 253, ID_PATH of a PCI device less than 100."""

Test = Callable[[str], bool]


def matches(text: str, pattern: str, *, sets: bool = True) -> bool:
    """Whether `pattern` matches the whole `text`. ``*``: any characters, ``?``: one; with `sets`
    also ``[ab-z]`` and ``[!ab-z]``, as in fnmatch(3): ``]`` as the first member belongs to the set,
    and a bracket that is not closed is a literal character. Without `sets` brackets are literal
    characters. Case-sensitive; there is no escape character."""
    if len(text) > MAX_PATTERN_CHARS or len(pattern) > MAX_PATTERN_CHARS:
        return False
    literals, wildcards, tests, stars, length = _parsed(pattern, sets=sets)
    reached_positions = 1
    for character in text:
        accepted = literals.get(character, 0) | wildcards
        for position, is_member in tests:
            if reached_positions & position and is_member(character):
                accepted |= position
        reached_positions = (reached_positions & accepted) << 1 | reached_positions & stars
        if not reached_positions:
            return False
    return bool(reached_positions >> length & 1)


class _Pattern(NamedTuple):
    """Bit n stands for position n of a pattern; a star has none."""

    literals: dict[str, int]
    """Character → bits of the positions with this literal character."""
    wildcards: int
    """Positions with ``?``."""
    tests: tuple[tuple[int, Test], ...]
    """(position, test of its characters) of each set."""
    stars: int
    """Positions before which any characters are skipped."""
    length: int
    """Positions."""


@lru_cache(maxsize=256)  # the same patterns are compared with every link
def _parsed(pattern: str, *, sets: bool) -> _Pattern:
    literals: dict[str, int] = {}
    tests: list[tuple[int, Test]] = []
    wildcards = stars = length = index = 0
    while index < len(pattern):
        character = pattern[index]
        index += 1
        if character == "*":
            stars |= 1 << length
            continue
        end = _end_of_set(pattern, index) if character == "[" and sets else -1
        if end >= 0:
            tests.append((1 << length, _member(pattern[index:end])))
            index = end + 1
        elif character == "?":
            wildcards |= 1 << length
        else:
            literals[character] = literals.get(character, 0) | 1 << length
        length += 1
    return _Pattern(literals, wildcards, tuple(tests), stars, length)


def _end_of_set(pattern: str, begin: int) -> int:
    """Index of the bracket that closes a set whose members begin at `begin`; -1: it is not
    closed."""
    first = begin
    if pattern.startswith(("!", "^"), first):
        first += 1
    if pattern.startswith("]", first):  # a member
        first += 1
    return pattern.find("]", first)


def _member(members: str) -> Test:
    """Predicate: a character belongs to the set with these members (the text between the
    brackets)."""
    is_outside = members.startswith(("!", "^"))
    if is_outside:
        members = members[1:]
    single: set[str] = set()
    ranges: list[tuple[str, str]] = []
    index = 0
    while index < len(members):
        if members.startswith("-", index + 1) and index + 2 < len(members):
            ranges.append((members[index], members[index + 2]))
            index += 3
        else:
            single.add(members[index])
            index += 1

    def is_member(character: str) -> bool:
        is_listed = character in single or any(low <= character <= high for low, high in ranges)
        return is_listed != is_outside

    return is_member
