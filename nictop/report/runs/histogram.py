"""Latencies as bars of characters: the lowest latency of each range, a bar and the number of
transactions.

  20 µs ▏               3    47 µs ███████████ 61210    110 µs ▏             41
  22 µs █▏           6120    51 µs ███▌        20011    120 µs ▏              7

Pure; for the report and the screens. The ranges are log-spaced, and continue in the next column.
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.text import units
from nictop.model.text.bars import bar
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_tuples import NamedTuple
from nictop.traffic.generators.latency import LatencyBin, LatencyHistogram

LATENCY_CELLS = 7
"""Of a latency: ``1.5 ms``."""
MIN_COLUMN_CELLS = 30
"""Of a column of bars, with the gap after it."""
MAX_COLUMNS = 3
GAP_CELLS = 2
MAX_TEXT_ROWS = 8
"""Rows in a text."""
HISTOGRAM_TITLE = "Histogram: latency from, transactions"


class HistogramCell(NamedTuple):
    """One range, as text of fixed width."""

    latency: str
    bar: str
    samples: str


def latency_unit(seconds: float) -> tuple[str, float]:
    """The largest unit that is not above a latency, and its seconds."""
    for name, size in units.LATENCY_UNITS:
        if seconds >= size:
            return name, size
    return units.LATENCY_UNITS[-1]


def latency_text(seconds: float) -> str:
    """``47 µs``, ``1.5 ms``: a bound of a range, which has two digits."""
    unit, size = latency_unit(seconds)
    if seconds < 99.5 * size:
        return f"{seconds / size:.2g} {unit}"
    return f"{round(seconds / size, 6):g} {unit}"


def histogram_rows(
    histogram: LatencyHistogram, width: int, rows: int, *, glyphs: Glyphs = UNICODE
) -> Sequence[Sequence[HistogramCell]]:
    """At most `rows` rows of columns that are `width` cells wide together, with `GAP_CELLS` before
    each. () without samples."""
    columns = max(1, min(MAX_COLUMNS, width // MIN_COLUMN_CELLS))
    bins = histogram.bins(columns * rows)
    if not bins or rows < 1:
        return ()
    columns = min(columns, -(-len(bins) // min(rows, MAX_TEXT_ROWS)))
    height = -(-len(bins) // columns)
    most = max(bucket.count for bucket in bins)
    counts = max(len(units.count(bucket.count)) for bucket in bins)
    room = max(0, width // columns - GAP_CELLS - LATENCY_CELLS - counts - 2)

    def cell(one: LatencyBin) -> HistogramCell:
        label = glyphs.text(latency_text(one.low)).rjust(LATENCY_CELLS)
        return HistogramCell(
            label, bar(one.count / most, room, glyphs), units.count(one.count).rjust(counts)
        )

    return [[cell(bucket) for bucket in bins[row::height]] for row in range(height)]


def histogram_lines(
    histogram: LatencyHistogram, width: int, *, rows: int = MAX_TEXT_ROWS, glyphs: Glyphs = UNICODE
) -> list[str]:
    """The rows as text."""
    gap = " " * GAP_CELLS
    return [
        "".join(f"{gap}{cell.latency} {cell.bar} {cell.samples}" for cell in row).rstrip()
        for row in histogram_rows(histogram, width, rows, glyphs=glyphs)
    ]
