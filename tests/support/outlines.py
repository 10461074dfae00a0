"""Outlines of the characters that pictures have, so that a picture needs no font: `outline` reads
them from a committed file, and characters that are not in it yet from DejaVu Sans Mono
(fonts-dejavu-core), whose licence allows that.

Reads the tables head, cmap (format 4), loca and glyf of a TrueType font (the OpenType
specification).
"""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path
from typing import NamedTuple

OUTLINES = Path(__file__).parent.parent / "data" / "outlines.json"
"""``{"regular": {"A": "M1 2…"}, "bold": {…}}``"""
FONTS = {
    "regular": Path("/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf"),
    "bold": Path("/usr/share/fonts/truetype/dejavu/DejaVuSansMono-Bold.ttf"),
}
CELL_WIDTH, BASELINE = 12.0, 18.0
"""Units of a picture."""
ADVANCE = 1233
"""Font units of every character of this font."""

ON_CURVE, X_SHORT, Y_SHORT, REPEAT, X_SAME, Y_SAME = 1, 2, 4, 8, 16, 32
"""Flags of a point."""
WORDS, OFFSETS, SCALE, MORE, TWO_SCALES, MATRIX = 1, 2, 8, 32, 64, 128
"""Flags of a component."""


class Point(NamedTuple):
    x: float
    y: float
    on_curve: bool


Contour = list[Point]


@cache
def _known() -> dict[str, dict[str, str]]:
    return json.loads(OUTLINES.read_text()) if OUTLINES.exists() else {style: {} for style in FONTS}


def outline(character: str, style: str) -> str:
    """The path of a character in its cell (x 0 to 12, y 0 to 24, downwards); "": it has no ink."""
    known = _known()[style]
    assert character in known, f"no outline of {character!r} ({style}): make screenshots adds it"
    return known[character]


def add_outlines(characters: set[tuple[str, str]]) -> None:
    """Add what the file does not have yet: (style, character)."""
    known = _known()
    missing = sorted(one for one in characters if one[1] not in known[one[0]])
    for style, character in missing:
        known[style][character] = Font(FONTS[style]).path(character)
    if missing:
        ordered = {style: dict(sorted(paths.items())) for style, paths in known.items()}
        OUTLINES.write_text(json.dumps(ordered, indent=0, ensure_ascii=False) + "\n")


class Font:
    """A TrueType font."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        (tables,) = struct.unpack_from(">H", self._data, 4)
        self._tables: dict[bytes, int] = {}
        for index in range(tables):
            name, _, offset, _ = struct.unpack_from(">4sIII", self._data, 12 + 16 * index)
            self._tables[name] = offset
        (self._long_offsets,) = struct.unpack_from(">h", self._data, self._tables[b"head"] + 50)

    def path(self, character: str) -> str:
        """SVG path data."""
        scale = CELL_WIDTH / ADVANCE
        contours = self._contours(self._glyph(ord(character)))
        moved = [
            [Point(x * scale, BASELINE - y * scale, on) for x, y, on in one] for one in contours
        ]
        return "".join(map(_contour_path, moved))

    def _glyph(self, code: int) -> int:
        start = self._tables[b"cmap"]
        (count,) = struct.unpack_from(">H", self._data, start + 2)
        for index in range(count):
            _, _, offset = struct.unpack_from(">HHI", self._data, start + 4 + 8 * index)
            if struct.unpack_from(">H", self._data, start + offset) == (4,):
                return self._glyph_of_segments(start + offset, code)
        raise ValueError("the font has no cmap of format 4")

    def _glyph_of_segments(self, table: int, code: int) -> int:
        (double,) = struct.unpack_from(">H", self._data, table + 6)
        for segment in range(0, double, 2):
            (end,) = struct.unpack_from(">H", self._data, table + 14 + segment)
            if code > end:
                continue
            starts = table + 16 + double
            (start,) = struct.unpack_from(">H", self._data, starts + segment)
            (delta,) = struct.unpack_from(">h", self._data, starts + double + segment)
            at = starts + 2 * double + segment
            (indirect,) = struct.unpack_from(">H", self._data, at)
            if code < start:
                break
            if not indirect:
                return int(code + delta) & 0xFFFF
            (glyph,) = struct.unpack_from(">H", self._data, at + indirect + 2 * (code - start))
            return int(glyph + delta) & 0xFFFF if glyph else 0
        raise ValueError(f"the font has no character {chr(code)!r} (U+{code:04X})")

    def _contours(self, glyph: int) -> list[Contour]:
        layout, size, factor = (">I", 4, 1) if self._long_offsets else (">H", 2, 2)
        place = self._tables[b"loca"] + size * glyph
        begin, end = (
            struct.unpack_from(layout, self._data, place + step)[0] * factor for step in (0, size)
        )
        if begin == end:
            return []
        at = self._tables[b"glyf"] + begin
        (count,) = struct.unpack_from(">h", self._data, at)
        return self._simple(at + 10, count) if count >= 0 else self._composite(at + 10)

    def _simple(self, at: int, count: int) -> list[Contour]:
        ends = struct.unpack_from(f">{count}H", self._data, at)
        (instructions,) = struct.unpack_from(">H", self._data, at + 2 * count)
        at += 2 * count + 2 + instructions
        flags: list[int] = []
        while len(flags) <= ends[-1]:
            flag = self._data[at]
            repeats = self._data[at + 1] if flag & REPEAT else 0
            at += 2 if flag & REPEAT else 1
            flags += [flag] * (1 + repeats)
        xs, at = self._coordinates(flags, at, X_SHORT, X_SAME)
        ys, at = self._coordinates(flags, at, Y_SHORT, Y_SAME)
        points = [
            Point(x, y, bool(flag & ON_CURVE)) for x, y, flag in zip(xs, ys, flags, strict=True)
        ]
        begins = (0, *(end + 1 for end in ends[:-1]))
        return [points[begin : end + 1] for begin, end in zip(begins, ends, strict=True)]

    def _coordinates(
        self, flags: list[int], at: int, short: int, same: int
    ) -> tuple[list[int], int]:
        value, found = 0, []
        for flag in flags:
            if flag & short:
                value += self._data[at] if flag & same else -self._data[at]
                at += 1
            elif not flag & same:
                value += struct.unpack_from(">h", self._data, at)[0]
                at += 2
            found.append(value)
        return found, at

    def _composite(self, at: int) -> list[Contour]:
        found: list[Contour] = []
        flags = MORE
        while flags & MORE:
            flags, glyph = struct.unpack_from(">HH", self._data, at)
            dx, dy = struct.unpack_from(">hh" if flags & WORDS else ">bb", self._data, at + 4)
            at += 8 if flags & WORDS else 6
            if not flags & OFFSETS or flags & (SCALE | TWO_SCALES | MATRIX):
                raise ValueError("components that are scaled or aligned by points are not read")
            moved = (
                [Point(x + dx, y + dy, on) for x, y, on in contour]
                for contour in self._contours(glyph)
            )
            found += moved
        return found


def _contour_path(points: Contour) -> str:
    """Quadratic curves: between two points off the curve lies one on it."""
    full: Contour = []
    for number, point in enumerate(points):
        before = points[number - 1]
        if not point.on_curve and not before.on_curve:
            full.append(Point((point.x + before.x) / 2, (point.y + before.y) / 2, True))
        full.append(point)
    first = next(number for number, point in enumerate(full) if point.on_curve)
    full = full[first:] + full[:first]
    path, control = f"M{_place(full[0])}", ""
    for point in (*full[1:], full[0]):
        if not point.on_curve:
            control = _place(point)
        elif control:
            path, control = f"{path}Q{control} {_place(point)}", ""
        else:
            path += f"L{_place(point)}"
    return f"{path}Z"


def _place(point: Point) -> str:
    return f"{round(point.x, 1):g} {round(point.y, 1):g}"
