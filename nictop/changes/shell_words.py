"""A shell line that a rule printed → its words, without a shell. Pure.

Understood are the words that `nictop.rules.fixes.commands` writes (bare, in single quotes, in ``$'…'``), double quotes
and backslashes, places to fill in (``'<ADDRESS/PREFIX>'``), and one redirection at the end of an ``echo``. Whatever
else a shell would do something with (pipes, variables, wildcards, several commands) is refused: nothing is guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nictop.rules.fixes.commands import PLACEHOLDER

ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|([\\']))")
"""In ``$'…'``: what `nictop.rules.fixes.commands` writes, and nothing else."""
SPECIAL = frozenset("|&;<>()$`*?[]{}~#!\n\r")
"""Bare, they mean something to some shell."""
IN_DOUBLE_QUOTES = frozenset('$`"\\')
LONGEST_LINE = 65536


@dataclass(frozen=True)
class ShellLine:
    """One simple command."""

    words: tuple[str, ...]
    blanks: frozenset[int] = frozenset()
    """Which of the words are, as a whole, places to fill in."""
    written_to: str | None = None
    """File behind ``>``; None: there is none."""


def parse_line(line: str) -> ShellLine:
    """The words of a line. Raises ValueError with a sentence for what only a shell can do."""
    if len(line) > LONGEST_LINE:
        raise ValueError("the line is too long")
    words: list[str] = []
    blanks: set[int] = set()
    target: int | None = None
    position = 0
    while True:
        while line[position : position + 1] == " ":
            position += 1
        if position == len(line):
            break
        place = PLACEHOLDER.match(line, position)
        if line[position] == ">" and place is None:
            if target is not None or line[position : position + 2] == ">>":
                raise ValueError("it takes a shell: it redirects in another way than echo TEXT > FILE")
            target, position = len(words), position + 1
            continue
        word, position, whole = _word(line, position)
        if whole:
            blanks.add(len(words))
        words.append(word)
    if target is None:
        return ShellLine(tuple(words), frozenset(blanks))
    if target in (0, *blanks) or target != len(words) - 1:
        raise ValueError("it takes a shell: it redirects in another way than echo TEXT > FILE")
    return ShellLine(tuple(words[:-1]), frozenset(blanks), words[-1])


def _word(line: str, position: int) -> tuple[str, int, bool]:
    """(The word that begins at `position`, where it ends, whether it is a place to fill in as a whole)."""
    begin, text = position, ""
    place = None
    while position < len(line) and line[position] != " ":
        place = PLACEHOLDER.match(line, position)
        if place is not None:
            part, position = place[0], place.end()
        elif line.startswith("$'", position):
            part, position = _ansi_quoted(line, position + 2)
        elif line[position] == "'":
            part, position = _single_quoted(line, position + 1)
        elif line[position] == '"':
            part, position = _double_quoted(line, position + 1)
        elif line[position] == "\\" and position + 1 < len(line) and line[position + 1] not in "\r\n":
            part, position = line[position + 1], position + 2
        elif line[position] in SPECIAL or line[position].isspace() or line[position] == "\\":
            raise ValueError("it takes a shell: it is more than one simple command")
        else:
            part, position = line[position], position + 1
        text += part
    written = line[begin:position]
    return text, position, PLACEHOLDER.fullmatch(text) is not None and written in (text, f"'{text}'")


def _single_quoted(line: str, begin: int) -> tuple[str, int]:
    end = line.find("'", begin)
    if end < 0:
        raise ValueError("a quotation mark is not closed")
    return line[begin:end], end + 1


def _double_quoted(line: str, position: int) -> tuple[str, int]:
    text = ""
    while position < len(line) and line[position] != '"':
        character = line[position]
        if character == "\\" and line[position + 1 : position + 2] in IN_DOUBLE_QUOTES and position + 1 < len(line):
            position += 1
            character = line[position]
        elif character in "$`!":
            raise ValueError("it takes a shell: something is put in by it")
        text, position = text + character, position + 1
    if position >= len(line):
        raise ValueError("a quotation mark is not closed")
    return text, position + 1


def _ansi_quoted(line: str, position: int) -> tuple[str, int]:
    found = bytearray()
    while position < len(line) and line[position] != "'":
        if line[position] == "\\":
            escape = ESCAPE.match(line, position)
            if escape is None:
                raise ValueError("it takes a shell: an escape that nictop does not write")
            found += bytes.fromhex(escape[1]) if escape[1] is not None else escape[2].encode()
            position = escape.end()
        else:
            found += line[position].encode("utf-8", "surrogateescape")
            position += 1
    if position >= len(line):
        raise ValueError("a quotation mark is not closed")
    return found.decode("utf-8", "surrogateescape"), position + 1
