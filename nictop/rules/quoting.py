"""Names in commands that can be pasted into a shell."""

from __future__ import annotations

import re
from shlex import quote

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def word(text: str) -> str:
    """`text` as one word of a POSIX shell: as it is, or in single quotes. A name with control characters becomes
    ``$'…'`` (bash, zsh, ksh, busybox ash), so that the command stays on one line and shows what is in it."""
    if CONTROL.search(text) is None:
        return quote(text)
    return "$'" + "".join(_escaped(character) for character in text) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if CONTROL.fullmatch(character) is None:
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def command(*words: str) -> str:
    """One shell line: every word quoted where it must be."""
    return " ".join(word(one) for one in words)
