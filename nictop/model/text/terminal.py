"""Text of hosts, made safe for a terminal: no control characters, known width.

Reads nothing. Interface names, aliases and firmware strings are arbitrary bytes; none of them may
move the cursor, hide text or reverse it.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_HARMLESS = frozenset(("L", "M", "N", "P", "S"))
"""First letters of the Unicode categories that are shown as they are: letters, marks, numbers,
punctuation, symbols."""

MAX_COMBINING_MARKS = 2
"""Combining marks on one character; more would be drawn over the lines above."""

_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Letters, marks and symbols that are drawn as blank: fillers, joiners, variation selectors, the
empty braille pattern."""


def clean(text: str) -> str:
    r"""`text` without control characters and invisible characters.

    C0 and C1 controls become ``\x1b``-like escapes (so no ANSI sequence survives), bidirectional
    overrides, zero-width characters, lone surrogates, private and unassigned characters become
    ``\u202e``-like ones; every blank that is not U+0020 is escaped too. Backslashes are not
    escaped: the result is for reading, not for decoding.
    """
    if text.isascii() and text.isprintable():
        return text
    result: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category[0] == "M" else 0
        if character == " " or (
            category[0] in _HARMLESS
            and marks <= MAX_COMBINING_MARKS
            and not _is_invisible(character)
            and (marks == 0 or result)
        ):
            result.append(character)
        else:
            result.append(escape(character))
    return "".join(result)


def is_clean(text: str) -> bool:
    """Nothing in the text has to be escaped: a terminal shows all of it unchanged."""
    return clean(text) == text


def _is_invisible(character: str) -> bool:
    if character in _INVISIBLE:
        return True
    number = ord(character)
    return 0xFE00 <= number <= 0xFE0F or 0xE0100 <= number <= 0xE01EF


def escape(character: str) -> str:
    r"""Escape of a character: ``\x1b``, ``\u202e``, ``\U000e0100``."""
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    if number < 0x10000:
        return f"\\u{number:04x}"
    return f"\\U{number:08x}"


def width(text: str) -> int:
    """Terminal cells of clean text: 2 for East Asian wide and full-width characters, 0 for
    combining marks."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


@lru_cache(maxsize=1024)  # charts are made of a few characters
def _cells(character: str) -> int:
    if unicodedata.east_asian_width(character) in ("W", "F"):
        return 2
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 1


def fit(text: str, cells: int, align: str = "left") -> str:
    """`text`, cleaned, in exactly `cells` cells: padded on the side that `align` ("left", "right")
    leaves free, or cut with ``…`` at the end."""
    if text.isascii() and text.isprintable() and len(text) <= cells:
        return text.rjust(cells) if align == "right" else text.ljust(cells)
    return _fit(text, cells, align)


@lru_cache(maxsize=1024)  # tables have the same marks and names in every update
def _fit(text: str, cells: int, align: str) -> str:
    text = clean(text)
    free = cells - width(text)
    if free >= 0:
        return " " * free + text if align == "right" else text + " " * free
    if cells <= 0:
        return ""
    characters: list[str] = []
    used = 0
    for character in text:
        wide = _cells(character)
        if used + wide > cells - 1:
            break
        characters.append(character)
        used += wide
    return "".join(characters) + "…" + " " * (cells - 1 - used)


@lru_cache(maxsize=1024)  # as `_fit`
def fit_middle(text: str, cells: int, align: str = "left") -> str:
    """The same, cut in its middle: what tells addresses and paths apart is at their end."""
    text = clean(text)
    room = cells - 1
    if width(text) <= cells or room < 2:
        return fit(text, cells, align)
    end = _end_of(text, room // 2)
    begin = fit(text, cells - width(end))  # its ellipsis stands for the middle
    return begin.rstrip(" ") + end + " " * (width(begin) - width(begin.rstrip(" ")))


def fit_end(text: str, cells: int) -> str:
    """The same, cut at its begin: of a text that is being typed."""
    text = clean(text)
    if width(text) <= cells or cells <= 0:
        return fit(text, cells)
    return fit("…" + _end_of(text, cells - 1), cells)


def _end_of(text: str, cells: int) -> str:
    """As many of the last characters as fit."""
    used, start = 0, len(text)
    while start and used + _cells(text[start - 1]) <= cells:
        start -= 1
        used += _cells(text[start])
    return text[start:].lstrip(" ")


SEPARATORS = ":-,;=_"
"""In long words: addresses, UUIDs, lists; a slash is another one, and a blank in a quoted word is
better than any."""


@lru_cache(maxsize=1024)  # the same facts are shown in every update
@lru_cache(maxsize=1024)  # what is said of a device is the same in nearly every update
def wrap(text: str, cells: int) -> tuple[str, ...]:
    """Clean text in lines of at most `cells` cells, broken at blanks; a word that is wider than a
    line at the last separator that fits, and anywhere only where there is none."""
    cells = max(2, cells)
    lines: list[str] = []
    line = ""
    for word in clean(text).split(" "):
        candidate = f"{line} {word}" if line else word
        if width(candidate) <= cells:
            line = candidate
            continue
        if line:
            lines.append(line)
        *full, line = cut_word(word, cells)
        lines += full
    lines.append(line)
    return tuple(lines)


def cut_word(word: str, cells: int) -> list[str]:
    """Parts of at most `cells` cells (2 or more), cut at separators where there are some."""
    parts, part = [], ""
    for character in word:
        while part and width(part + character) > cells:
            end = _break_index(part + character)
            parts.append(part[:end])
            part = part[end:]
        part += character
    return [*parts, part]


def _break_index(text: str) -> int:
    """Where to break a part of a word that is one character too long: behind its last blank;
    without one, before its last slash, or behind its last other separator; without one, before its
    last character."""
    blank = text.rfind(" ", 0, -1) + 1
    if blank:
        return blank
    behind = max(text.rfind(separator, 0, -1) for separator in SEPARATORS) + 1
    return max(behind, text.rfind("/")) or len(text) - 1
