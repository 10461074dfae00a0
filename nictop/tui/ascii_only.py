"""Of a console without other characters: ASCII also where Textual itself cuts or draws a text.

Texts are encoded before they are drawn (`nictop.model.text.glyphs`); what is cut after that, as a
title in a border, ends with the ellipsis of Textual.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from nictop.model.text.glyphs import ASCII


class AsciiOnly(LineFilter):
    """Other characters become as many of ASCII as they take cells."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [one if one.text.isascii() else _encoded(one) for one in segments]


def _encoded(segment: Segment) -> Segment:
    text = "".join(map(_same_width, segment.text))
    return Segment(text, segment.style, segment.control)


def _same_width(character: str) -> str:
    if character.isascii():
        return character
    encoded, cells = ASCII.encode(character), cell_len(character)
    return encoded if len(encoded) == cells else "?" * cells
