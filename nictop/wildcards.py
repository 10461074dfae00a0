"""Shell wildcards, matched in time linear in the length of the text: ``*``, ``?`` and sets in brackets.

Reads nothing. Patterns and texts come from configuration files of watched hosts, so that a pattern may be made to keep
a backtracking matcher busy: here all positions of the pattern that the text so far can have reached are the bits of one
integer (the "shift-and" algorithm), and each character of the text is one step.
"""

from __future__ import annotations

from collections.abc import Callable

MOST_CHARACTERS = 512
"""Of a pattern, and of a text; a longer one matches nothing. Names of links have 15, their altnames 127, host names
253, ID_PATH of a PCI device below 100."""

Test = Callable[[str], bool]


def matches(text: str, pattern: str, *, sets: bool = True) -> bool:
    """Whether `pattern` is the whole `text`. ``*``: any characters, ``?``: one; with `sets` also ``[ab-z]`` and
    ``[!ab-z]``, as in fnmatch(3) (``]`` as the first of a set is its member, a bracket that is not closed is itself);
    without it brackets are themselves. Upper and lower case differ; there is no escape character."""
    if len(text) > MOST_CHARACTERS or len(pattern) > MOST_CHARACTERS:
        return False
    plain: dict[str, int] = {}
    """Character → positions that are this very character."""
    anything = loops = length = index = 0
    tests: list[tuple[int, Test]] = []
    while index < len(pattern):
        one = pattern[index]
        index += 1
        if one == "*":
            loops |= 1 << length
            continue
        end = _end_of_set(pattern, index) if one == "[" and sets else -1
        if end >= 0:
            tests.append((1 << length, _member(pattern[index:end])))
            index = end + 1
        elif one == "?":
            anything |= 1 << length
        else:
            plain[one] = plain.get(one, 0) | 1 << length
        length += 1
    reached = 1
    for one in text:
        accepted = plain.get(one, 0) | anything
        for position, is_member in tests:
            if reached & position and is_member(one):
                accepted |= position
        reached = (reached & accepted) << 1 | reached & loops
        if not reached:
            return False
    return bool(reached >> length & 1)


def _end_of_set(pattern: str, begin: int) -> int:
    """Index of the bracket that closes a set whose members begin at `begin`; -1: there is none."""
    first = begin + 1 if pattern[begin : begin + 1] in ("!", "^") else begin
    return pattern.find("]", first + 1 if pattern[first : first + 1] == "]" else first)


def _member(members: str) -> Test:
    """Whether a character belongs to a set, given what stands between its brackets."""
    outside = members[:1] in ("!", "^")
    members = members[1:] if outside else members
    single, ranges, index = set(), [], 0
    while index < len(members):
        if members[index + 1 : index + 2] == "-" and index + 2 < len(members):
            ranges.append((members[index], members[index + 2]))
            index += 3
        else:
            single.add(members[index])
            index += 1
    return lambda one: (one in single or any(low <= one <= high for low, high in ranges)) != outside
