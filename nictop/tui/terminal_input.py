"""What a terminal sends, before Textual's parser reads it: escape sequences whole, pastes as text,
and nothing of any length.

Pure. Textual takes a sequence that it does not know as keys, one for each character: the answer of
a terminal to a question of another program would choose views, and one of a megabyte takes minutes.
Sequences are those of ECMA-48 (5.4, 5.6, 8.3) and of xterm's ctlseqs (bracketed paste, focus).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from nictop.probe.kernel.patterns import pattern

MAX_SEQUENCE_CHARS = 64
"""Of one that a key or a mouse sends; longer ones are left out."""
MAX_PASTE_CHARS = 65_536
"""Of a pasted text; the rest is left out."""
MAX_COLUMNS, MAX_ROWS = 1000, 500
"""Of a screen: 300 MB are taken by one of 9000 × 9000."""
ESCAPE = "\x1b"
STRING_BEGINNINGS = "]PX^_"
"""OSC, DCS, SOS, PM, APC: never a key, and ended by ST or BEL."""
PASTE_BEGIN, PASTE_END = "\x1b[200~", "\x1b[201~"
FOCUS = ("\x1b[I", "\x1b[O")
OLD_MOUSE = "\x1b[M"
"""Followed by three characters: button, column, row."""
MAX_PASTE_PAUSE = 1.0
"""Seconds, after which a paste that is not ended has ended."""
_SIZE = pattern(r"\x1b\[48;(\d+)((?::\d+)*);(\d+)((?::\d+)*);(.*)t", re.DOTALL)
_NOT_IN_PASTE = pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")

State = Literal["text", "escape", "sequence", "string", "string escape", "paste"]


class TerminalInput:
    """One terminal. `take` returns parts for the parser: a character, a whole sequence, or a whole
    paste; `pause` ends what a terminal has begun and not ended, as an Escape key does."""

    def __init__(self) -> None:
        self._state: State = "text"
        self._held = ""
        """The beginning of a sequence, or of the end of a paste."""
        self._paste: list[str] = []
        self._paste_chars = 0
        self._focus = ""
        """The last change of the focus in this text: only that matters."""

    def take(self, text: str) -> Iterator[str]:
        for character in text:
            yield from self._take_character(character)
        if self._focus:
            yield self._focus
            self._focus = ""

    def pause(self, seconds: float) -> Iterator[str]:
        """Nothing has come for so long."""
        state, held = self._state, self._held
        if state == "paste":
            if seconds >= MAX_PASTE_PAUSE:
                yield self._pasted()
            return
        self._state, self._held = "text", ""
        if state == "escape":
            yield held

    def _take_character(self, character: str) -> Iterator[str]:
        if self._state == "paste":
            yield from self._take_pasted(character)
        elif self._state in ("string", "string escape"):
            self._take_string(character)
        elif character == ESCAPE:
            if self._state == "escape":
                yield ESCAPE
            self._state, self._held = "escape", ESCAPE
        elif self._state == "escape":
            yield from self._take_first(character)
        elif self._state == "sequence":
            yield from self._take_sequence(character)
        else:
            yield character

    def _take_first(self, character: str) -> Iterator[str]:
        """What follows an Escape."""
        self._held += character
        if character in "[O":
            self._state = "sequence"
        elif character in STRING_BEGINNINGS:
            self._state = "string"
        elif character.isprintable():
            # Alt and a key, which means nothing here, or an Escape key and one right behind it
            self._held, self._state = "", "text"
            yield from (ESCAPE, character)
        else:
            yield from self._whole()

    def _take_sequence(self, character: str) -> Iterator[str]:
        if len(self._held) <= MAX_SEQUENCE_CHARS:
            self._held += character
        is_final = "@" <= character <= "~" and character != "["
        if self._held.startswith(OLD_MOUSE):
            is_final = len(self._held) == len(OLD_MOUSE) + 3
        if is_final:
            yield from self._whole()

    def _take_string(self, character: str) -> None:
        """Left out up to its end. What follows an Escape at once may be Alt and a key; a pause
        ends it, too."""
        if character == "\x07" or (self._state == "string escape" and character == "\\"):
            self._state, self._held = "text", ""
        else:
            self._state = "string escape" if character == ESCAPE else "string"

    def _whole(self) -> Iterator[str]:
        held, self._held, self._state = self._held, "", "text"
        if len(held) > MAX_SEQUENCE_CHARS:
            return
        if held == PASTE_BEGIN:
            self._state, self._paste, self._paste_chars = "paste", [], 0
        elif held in FOCUS:
            self._focus = held
        elif held != PASTE_END:
            yield _limited_size(held)

    def _take_pasted(self, character: str) -> Iterator[str]:
        self._held += character
        if self._held == PASTE_END:
            yield self._pasted()
        elif not PASTE_END.startswith(self._held):
            if self._paste_chars < MAX_PASTE_CHARS:
                self._paste.append(self._held)
                self._paste_chars += len(self._held)
            self._held = ""

    def _pasted(self) -> str:
        pasted = _NOT_IN_PASTE.sub("", "".join(self._paste))
        self._state, self._held, self._paste = "text", "", []
        return f"{PASTE_BEGIN}{pasted}{PASTE_END}"


def _limited_size(sequence: str) -> str:
    """A report of the size of the screen (mode 2048 of terminals), not larger than can be drawn."""
    found = _SIZE.fullmatch(sequence)
    if found is None:
        return sequence
    rows, columns = min(int(found[1]), MAX_ROWS), min(int(found[3]), MAX_COLUMNS)
    return f"\x1b[48;{rows}{found[2]};{columns}{found[4]};{found[5]}t"
