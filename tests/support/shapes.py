"""Blocks and lines of a terminal as rectangles: they fill their cell, whatever font a viewer has.

Unicode, Block Elements (U+2580 to U+259F), and those of Box Drawing (U+2500 to U+257F) that nictop
draws.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.support.outlines import CELL_WIDTH

WIDTH, HEIGHT = CELL_WIDTH, 24.0
MIDDLE_X, MIDDLE_Y = WIDTH / 2, HEIGHT / 2
LIGHT, HEAVY = 1.5, 3.5
"""Thickness of a line."""


class Rectangle(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float
    opacity: float = 1.0


QUADRANTS = {
    "▖": "c", "▗": "d", "▘": "a", "▙": "acd", "▚": "ad", "▛": "abc", "▜": "abd", "▝": "b",
    "▞": "bc", "▟": "bcd",
}  # fmt: skip
"""Which quarters are filled: a and b above, c and d below."""
CORNERS = {"a": (0, 0), "b": (1, 0), "c": (0, 1), "d": (1, 1)}
SHADES = {"░": 0.25, "▒": 0.5, "▓": 0.75}
ARMS = {
    "─": "0101", "━": "0202", "│": "1010", "┃": "2020", "┌": "0110", "┐": "0011", "└": "1100",
    "┘": "1001", "├": "1110", "┤": "1011", "┬": "0111", "┴": "1101", "┼": "1111", "╋": "2222",
    "╭": "0110", "╮": "0011", "╯": "1001", "╰": "1100", "┄": "0101",
}  # fmt: skip
"""Thickness of the lines from the middle upwards, to the right, downwards and to the left."""
DASHES = {"┄": 3}
"""Parts of a dashed line in a cell."""
THICKNESS = {"0": 0.0, "1": LIGHT, "2": HEAVY}


def shape(character: str, count: int) -> tuple[Rectangle, ...]:
    """The rectangles of `count` such characters side by side; (): it is drawn by its outline."""
    code = ord(character)
    if 0x2581 <= code <= 0x2588:  # lower eighths
        return (Rectangle(0, HEIGHT * (1 - (code - 0x2580) / 8), WIDTH * count, HEIGHT),)
    if character in SHADES:
        return (Rectangle(0, 0, WIDTH * count, HEIGHT, SHADES[character]),)
    if character == "▀":
        return (Rectangle(0, 0, WIDTH * count, MIDDLE_Y),)
    if character in "─━":
        return tuple(_lines(character, count))
    return tuple(one for index in range(count) for one in _single(character, index * WIDTH))


def _single(character: str, x: float) -> tuple[Rectangle, ...]:
    code = ord(character)
    if 0x2589 <= code <= 0x258F:  # left eighths
        return (Rectangle(x, 0, x + WIDTH * (0x2590 - code) / 8, HEIGHT),)
    if character == "▐":
        return (Rectangle(x + MIDDLE_X, 0, x + WIDTH, HEIGHT),)
    if character in QUADRANTS:
        return tuple(_quadrant(x, *CORNERS[corner]) for corner in QUADRANTS[character])
    if character in DASHES:
        return tuple(_dashes(x, DASHES[character]))
    return tuple(
        one._replace(left=one.left + x, right=one.right + x) for one in _lines(character, 1)
    )


def _quadrant(x: float, right: int, below: int) -> Rectangle:
    left, top = x + right * MIDDLE_X, below * MIDDLE_Y
    return Rectangle(left, top, left + MIDDLE_X, top + MIDDLE_Y)


def _dashes(x: float, parts: int) -> list[Rectangle]:
    step = WIDTH / parts
    top = MIDDLE_Y - LIGHT / 2
    return [Rectangle(x + step * n, top, x + step * (n + 0.6), top + LIGHT) for n in range(parts)]


def _lines(character: str, count: int) -> list[Rectangle]:
    """Arms from the middle; the corners of rounded boxes are square."""
    up, right, down, left = (THICKNESS[digit] for digit in ARMS.get(character, "0000"))
    found = []
    if up or down:
        half = max(up, down) / 2
        top, bottom = 0.0 if up else MIDDLE_Y - half, HEIGHT if down else MIDDLE_Y + half
        found.append(Rectangle(MIDDLE_X - half, top, MIDDLE_X + half, bottom))
    if left or right:
        half = max(left, right) / 2
        begin, end = 0.0 if left else MIDDLE_X - half, WIDTH * count if right else MIDDLE_X + half
        found.append(Rectangle(begin, MIDDLE_Y - half, end, MIDDLE_Y + half))
    return found
