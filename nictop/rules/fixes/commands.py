"""Names in commands that can be pasted into a shell."""

from __future__ import annotations

import re
from shlex import quote

from nictop.model.text.terminal import is_clean

PLACEHOLDER = re.compile(r"<[A-Z][A-Z0-9_./-]*>")
"""What the user must fill in: ``<ADDRESS/PREFIX>``."""
QUOTED_OR_BARE = re.compile(
    r"""\$'(?:\\.|[^'\\])*(?:'|\\?\Z)|'[^']*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\\?\Z)|(?:[^\s'"$]|\$(?!'))+""", re.DOTALL
)
"""Parts of a shell line: in quotation marks, or a run without any. In ``'…'`` a backslash is itself. One that is not
closed goes on to the end of the line."""


def word(text: str) -> str:
    """`text` as one word of a POSIX shell: as it is, or in single quotes. A name with characters that a terminal obeys
    or an eye misses becomes ``$'…'`` (bash, zsh, ksh, busybox ash): the command stays on one line, and what is copied
    is what a screen shows of it."""
    if is_clean(text):
        return quote(text)
    return "$'" + "".join(_escaped(character) for character in text) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if is_clean(f"a{character}"):  # a mark stands on a letter
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def command(*words: str) -> str:
    """One shell line: every word quoted where it must be."""
    return " ".join(word(one) for one in words)


def pasteable(line: str) -> str:
    """A shell line whose placeholders are in single quotes: bare, a shell would take ``<`` and ``>`` for redirections,
    and a command that is pasted as it is would write to a file."""
    return QUOTED_OR_BARE.sub(
        lambda part: f"'{part[0]}'" if part[0][0] not in "'\"$" and PLACEHOLDER.search(part[0]) else part[0], line
    )
