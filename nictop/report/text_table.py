"""Small tables of text: columns as wide as what stands in them, and only where there is room for all of them.

Reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.text.terminal import clean, fit, width

GAP = "  "


def aligned_table(rows: Sequence[Sequence[str]], left: int = 1) -> tuple[str, ...]:
    """Lines of equal columns; the first `left` ones are flush left, the others right. Cells are cleaned."""
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        parts = (
            fit(cell, room, "left" if number < left else "right")
            for number, (cell, room) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(GAP.join(parts).rstrip())
    return tuple(lines)


def max_line_width(lines: Sequence[str]) -> int:
    """Cells of the longest one."""
    return max(map(width, lines), default=0)
