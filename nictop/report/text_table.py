"""Text layout of reports: widths, small tables, and paragraphs with a label.

Reads nothing. Widths are terminal cells; texts are cleaned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nictop.model.text.terminal import clean, fit, width, wrap

MIN_LAYOUT_CELLS, MAX_LAYOUT_CELLS = 40, 200
GAP = "  "
"""Between two columns."""


def layout_width(columns: int) -> int:
    """Cells to lay text out for on a terminal of `columns`."""
    return max(MIN_LAYOUT_CELLS, min(MAX_LAYOUT_CELLS, columns))


def aligned_table(rows: Sequence[Sequence[str]], left: int = 1) -> tuple[str, ...]:
    """The rows as lines; each column is as wide as its widest cell. The first `left` columns are
    flush left, the others flush right."""
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    return tuple(_table_line(row, widths, left) for row in cells)


def _table_line(row: Sequence[str], widths: Sequence[int], left: int) -> str:
    parts = []
    for number, (cell, room) in enumerate(zip(row, widths, strict=True)):
        parts.append(fit(cell, room, "left" if number < left else "right"))
    return GAP.join(parts).rstrip()


def max_line_width(lines: Sequence[str]) -> int:
    """Cells of the widest line; 0 if there is none."""
    return max(map(width, lines), default=0)


def labelled_lines(
    label: str, text: str, room: int, *, label_cells: int, indent: int = 0
) -> Iterator[str]:
    """A label in `label_cells` cells, and beside it the text, wrapped so that each line has at most
    `room` cells."""
    for part in wrap(text, room - indent - label_cells - 1):
        yield f"{' ' * indent}{fit(label, label_cells)} {part}"
        label = ""  # of the first line only
