"""Small graphs made of characters: pure functions from numbers to rows of text.

Values are drawn newest last, right-aligned. Zero is a dot on the base line; ``None`` (a gap in the
history) leaves its column empty, so that an unknown moment never looks like an idle one. Block
characters divide a cell into eighths, the ASCII set into four.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence

from nictop.model.text.glyphs import UNICODE, Glyphs


def highest(values: Iterable[float | None]) -> float:
    """The highest of the known values; 0 without any."""
    known = [value for value in values if value is not None]
    return max(known, default=0.0)


def nice_ceiling(value: float) -> float:
    """The next of 1, 1.5, 2, 3, 5, 7.5, 10 × 10ⁿ at or above `value`: an axis that does not jitter.
    1 for nothing."""
    if value < sys.float_info.min:  # below it, ten to the power of it is 0
        return 1.0
    if not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0):
        if value <= step * power * (1 + 1e-9):
            return step * power
    return 10.0 * power


def spark(
    values: Sequence[float | None], width: int, top: float, *, glyphs: Glyphs = UNICODE
) -> str:
    """One row of `width` cells; `top` fills a cell, anything above zero shows at least the lowest
    mark."""
    marks = glyphs.levels
    full = len(marks) - 1
    scale = full / top if top > 0 else 0.0
    newest = values[-width:] if width else ()
    cells = []
    for value in newest:
        if value is None:
            cells.append(marks[0])
            continue
        exact = value * scale
        if exact <= 0:
            cells.append(glyphs.zero)
        elif exact < 1:
            cells.append(marks[1])
        elif exact >= full:
            cells.append(marks[full])
        else:
            cells.append(marks[round(exact)])
    return " " * (width - len(cells)) + "".join(cells)


def area(
    values: Sequence[float | None], width: int, height: int, top: float, *, glyphs: Glyphs = UNICODE
) -> list[str]:
    """`height` rows of `width` cells, top row first: the newest `width` values as columns that
    reach up to `top`."""
    marks = glyphs.levels
    steps = len(marks) - 1
    full = steps * height
    scale = full / top if top > 0 else 0.0
    newest = values[-width:] if width else ()
    levels = [None if value is None else _level(value * scale, full) for value in newest]
    margin = " " * (width - len(levels))
    rows = []
    for base in range(full - steps, -1, -steps):
        by_level = marks[0] * base + marks + marks[-1] * (full - base - steps)
        if base == 0:
            by_level = glyphs.zero + by_level[1:]
        cells = (marks[0] if level is None else by_level[level] for level in levels)
        rows.append(margin + "".join(cells))
    return rows


def _level(exact: float, full: int) -> int:
    if exact <= 0:
        return 0
    return max(1, min(full, round(exact)))


def stacked(shares: Sequence[float], width: int) -> list[int]:
    """Divide `width` cells among `shares` (0…1 each, at most 1 together): cells per share, largest
    remainders first.

    The sum is the rounded total, so that a bar is never longer than what it stands for.
    """
    exact = [max(0.0, share) * width for share in shares]
    cells = [int(value) for value in exact]
    total = min(width, round(sum(exact)))
    remainders = [value - whole for value, whole in zip(exact, cells, strict=True)]
    by_remainder = sorted(range(len(exact)), key=remainders.__getitem__, reverse=True)
    for index in by_remainder[: max(0, total - sum(cells))]:
        cells[index] += 1
    return cells
