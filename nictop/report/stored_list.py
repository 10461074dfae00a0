"""The list of stored results as a document, for ``--list`` of traffic and path tests. Reads
nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from nictop.model.text.words import count_noun
from nictop.report.document import Block, Line, Table
from nictop.report.text_table import aligned_table, max_line_width

Row = tuple[str, ...]
TEXT_COLUMNS = 4
"""All but the result itself."""


def list_blocks(
    titles: Row,
    rows: Sequence[Row],
    narrow: Callable[[Row, int], Iterable[str]],
    left_out: int,
    unreadable: Sequence[tuple[Path, str]],
) -> Iterator[Block]:
    """A row per result, then what is not listed. `narrow`: the lines of a row where the table does
    not fit in so many cells."""
    if rows:
        layout = partial(_list_lines, titles, rows, narrow)
        yield Table(titles, tuple(rows), left=TEXT_COLUMNS, layout=layout)
    if left_out:
        yield Line(f"not listed: {count_noun(left_out, 'older result')}")
    for path, sentence in unreadable:
        yield Line(f"{path.name}: {sentence}")


def _list_lines(
    titles: Row, rows: Sequence[Row], narrow: Callable[[Row, int], Iterable[str]], room: int
) -> Iterator[str]:
    table = aligned_table([titles, *rows], left=TEXT_COLUMNS)
    if max_line_width(table) <= room:
        yield from table
        return
    for row in rows:
        yield from narrow(row, room)
