"""The table of queues: which columns fit, bars of shares, and trends of the last minute.

Q  RX pps share         60 s   TX pps share         60 s    IRQ/s on CPU  drops/s
0    445  █▏      10 %  ▂▁▂▂▁    730  █        8 %  ▁▁▂▁▁   685   3          0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from nictop.model.columns.column import Column, fit_columns, no_value
from nictop.model.columns.queues import COLUMNS, DROPS
from nictop.model.facts import clean, fit
from nictop.model.facts import width as cells_of
from nictop.model.queues.filters import NumberFilter
from nictop.model.queues.map import QueueMap, QueueRow
from nictop.model.queues.trends import QueueKey, Trends, TrendSide
from nictop.model.text import units
from nictop.model.text.bars import bar
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.tui.widgets.base.line_widget import TONES, Span
from nictop.tui.widgets.base.table_line import columns_cells, headings
from nictop.tui.widgets.charts.sparkline import spark

MAX_UNFOLDED_QUEUES = 8
"""Up to so many queues all are shown, idle or not; beyond, idle ones become one line."""
WIDE_CELLS = 110
MIN_BAR_CELLS, WIDE_BAR_CELLS, MAX_BAR_CELLS = 5, 12, 24
PERCENT_CELLS = 6
"""Cells of a share behind its bar: ``  39 %``."""
MIN_TREND_CELLS, MAX_TREND_CELLS = 5, 20

PACKET_RATES = ("rx_packets", "rx_bits", "tx_packets", "tx_bits")

ALL_QUEUES = NumberFilter[QueueRow]()
STYLES: Mapping[TrendSide, str] = {"rx": "in", "tx": "out", "irq": "accent"}


_WRITTEN = {column.key: column for column in (replace(COLUMNS[0], title="Q"), *COLUMNS[1:], DROPS)}
_PRIORITIES = {
    "queue": 1, "rx_packets": 2, "tx_packets": 2, "effective": 3, "interrupts": 5, "drops": 6,
    "rx_bits": 8, "tx_bits": 8, "xps": 9, "rps": 9, "napi": 10, "numa": 11, "allowed": 12,
    "irq": 13, "vector": 14,
}  # fmt: skip
_SHARE: Column[QueueRow] = Column(
    "share", "share", "%", 0, 4, "left", no_value,
    source="share in the packets of all queues, or in the interrupts where packets are not "
           "counted (as RX pps, IRQ/s)",
)  # fmt: skip
_TREND: Column[QueueRow] = Column(
    "trend", "60 s", "packets/s", 0, 7, "left", no_value,
    source="the last 60 s, all queues on one scale; interrupts where packets are not counted (as "
           "RX pps, IRQ/s)",
)  # fmt: skip
ALL_COLUMNS = (*(_WRITTEN[key] for key in _PRIORITIES), _SHARE, _TREND)
"""That the table can have."""
_STATIC = ("xps", "rps", "napi", "numa", "allowed", "irq", "vector")
"""Columns as wide as their texts, and left out when they have none."""


def shown_rows(
    queue_map: QueueMap,
    trends: Trends[QueueKey],
    *,
    unfold: bool,
    wanted: NumberFilter[QueueRow] = ALL_QUEUES,
) -> tuple[QueueRow, ...]:
    """Those that a filter accepts; without one all queues, but where there are many, not those that
    were idle for the last minute."""
    if wanted.tests:
        return tuple(row for row in queue_map.rows if wanted.accepts(row))
    if unfold or len(queue_map.rows) <= MAX_UNFOLDED_QUEUES:
        return queue_map.rows
    idle = set(queue_map.idle) - _busy_in_last_minute(queue_map.idle, trends)
    shown = tuple(row for row in queue_map.rows if row.queue not in idle)
    return shown or queue_map.rows[:1]


def _busy_in_last_minute(queues: Iterable[int], trends: Trends[QueueKey]) -> set[int]:
    """Those of some queues that had packets or interrupts."""
    minute = trends.cells(list(product(STYLES, queues)), 1)
    return {number for (_, number), values in minute.items() if any(values)}


def table_columns(queue_map: QueueMap, cells: int) -> tuple[Column[QueueRow], ...]:
    """The columns that fit into `cells`; bars and trends take what is left. Without packet
    counters of the driver, the interrupts have bar and trend."""
    is_wide = cells >= WIDE_CELLS
    bar_cells = WIDE_BAR_CELLS if is_wide else MIN_BAR_CELLS
    least = {"share": bar_cells + PERCENT_CELLS, "trend": MIN_TREND_CELLS + is_wide}
    columns = [
        _with_width(column, least.get(_kind(column), column.width))
        for column in _all_columns(queue_map)
    ]
    chosen = list(fit_columns(columns, cells - 1))
    _widen(chosen, "trend", MAX_TREND_CELLS, cells)
    _widen(chosen, "share", MAX_BAR_CELLS + PERCENT_CELLS, cells)
    return tuple(chosen)


def _widen(columns: list[Column[QueueRow]], kind: str, most: int, cells: int) -> None:
    """Divide what is left of `cells` among the columns of one kind, each at most `most` wide."""
    places = [place for place, column in enumerate(columns) if _kind(column) == kind]
    if not places:
        return
    spare = cells - 1 - columns_cells(columns)
    width = columns[places[0]].width
    more = max(0, min(most - width, spare // len(places)))
    for place in places:
        columns[place] = _with_width(columns[place], width + more)


def _all_columns(queue_map: QueueMap) -> list[Column[QueueRow]]:
    """Those that this NIC has, in their order."""
    is_counted = any(name in queue_map.total.offered for name in PACKET_RATES)
    columns = [_sized("queue", queue_map)]
    for side in ("rx", "tx"):
        if is_counted and getattr(queue_map.total, f"has_{side}"):
            columns += [_sized(f"{side}_packets", queue_map), _sized(f"{side}_bits", queue_map)]
            columns += [replace(_SHARE, key=f"{side}_share"), replace(_TREND, key=f"{side}_trend")]
    columns.append(_sized("interrupts", queue_map))
    if not is_counted:
        columns += [replace(_SHARE, key="irq_share"), replace(_TREND, key="irq_trend")]
    columns += [_sized("effective", queue_map), _sized("drops", queue_map)]
    static = [_sized(key, queue_map) for key in _STATIC]
    return columns + [column for column in static if column.width]


def _kind(column: Column[QueueRow]) -> str:
    return column.key.rpartition("_")[2]


def _side(column: Column[QueueRow]) -> TrendSide | None:
    return next((side for side in STYLES if column.key.startswith(f"{side}_")), None)


def _with_width(column: Column[QueueRow], width: int) -> Column[QueueRow]:
    if width == column.width:
        return column
    return replace(column, width=width)


def _sized(key: str, queue_map: QueueMap) -> Column[QueueRow]:
    """A written column with its priority here; the static ones, and the queue number, as wide as
    their texts."""
    column = replace(_WRITTEN[key], priority=_PRIORITIES[key])
    if key == "queue":
        rows = (*queue_map.rows, queue_map.total)
        return replace(column, width=max(cells_of(column.cell(row)[0]) for row in rows))
    if key not in _STATIC:
        return column
    texts = [clean(column.cell(row)[0]) for row in queue_map.rows]
    if set(texts) <= {"", units.UNKNOWN}:
        return replace(column, width=0)
    return replace(column, width=min(column.width, max(map(cells_of, (column.title, *texts)))))


@dataclass(frozen=True, eq=False)
class QueueTable:
    """What all rows of a table have in common."""

    columns: tuple[Column[QueueRow], ...]
    queue_map: QueueMap
    trends: Mapping[QueueKey, Sequence[float | None]]
    tops: Mapping[TrendSide, float]
    """rx, tx, irq → value that fills a cell of the trend: the same for all queues, so that they can
    be compared."""
    glyphs: Glyphs

    @property
    def width(self) -> int:
        return 1 + columns_cells(self.columns)

    @property
    def head(self) -> Span:
        return " " + headings(self.columns), "dim"

    def row(self, row: QueueRow) -> list[Span]:
        """One blank for the mark of the selected line, then the cells."""
        spans: list[Span] = [(" ", "")]
        for column in self.columns:
            spans += self._cell(column, row)
        return spans

    def _cell(self, column: Column[QueueRow], row: QueueRow) -> Sequence[Span]:
        """With a blank before it. The sum of all queues has neither shares nor trends."""
        side = _side(column)
        if side is None or row.queue is None:
            return (self._text(column, row),)
        kind = _kind(column)
        if kind == "share":
            return self._share(row, side, column.width)
        if kind == "trend":
            return (self._trend(row.queue, side, column.width),)
        return (self._text(column, row),)

    def _text(self, column: Column[QueueRow], row: QueueRow) -> Span:
        text, tone = column.cell(row)
        style = TONES[tone]
        is_queue = column.key == "queue" and row.queue is not None
        if is_queue and row.queue == self.queue_map.busiest:
            style = "accent"
        return " " + fit(self.glyphs.encode(text), column.width, column.align), style

    def _trend(self, queue: int, side: TrendSide, cells: int) -> Span:
        values = self.trends.get((side, queue), ())
        text = spark(values, cells, self.tops.get(side, 0.0), glyphs=self.glyphs)
        return " " + text, STYLES[side]

    def _share(self, row: QueueRow, side: TrendSide, cells: int) -> list[Span]:
        value, total = side_load(row, side), side_load(self.queue_map.total, side)
        if value is None or total is None:
            return [(" " * (cells + 1), "")]
        share = value / total if total > 0 else 0.0
        drawn = bar(share, cells - PERCENT_CELLS, self.glyphs)
        style = "" if share >= 0.005 else "dim"
        return [(" " + drawn, STYLES[side]), (f" {100 * share:3.0f} %", style)]


def side_load(row: QueueRow, side: TrendSide) -> float | None:
    """Packets per second of one direction, bits where packets are not counted; interrupts."""
    if side == "irq":
        return row.interrupts
    packets: float | None = getattr(row, f"{side}_packets")
    if packets is not None:
        return packets
    bits: float | None = getattr(row, f"{side}_bits")
    return bits


def make_table(
    queue_map: QueueMap, trends: Trends[QueueKey], cells: int, glyphs: Glyphs = UNICODE
) -> QueueTable:
    columns = table_columns(queue_map, cells)
    drawn = [column for column in columns if _kind(column) == "trend"]
    found: Mapping[QueueKey, Sequence[float | None]] = {}
    if drawn:
        numbers = [row.queue for row in queue_map.rows if row.queue is not None]
        sides: Iterable[TrendSide] = filter(None, map(_side, drawn))
        found = trends.cells(list(product(sides, numbers)), drawn[0].width)
    tops = {side: _highest(found, side) for side in STYLES}
    return QueueTable(columns, queue_map, found, tops, glyphs)


def _highest(trends: Mapping[QueueKey, Sequence[float | None]], side: TrendSide) -> float:
    """The highest value in the trends of one side."""
    highest = 0.0
    for (side_of_trend, _), values in trends.items():
        if side_of_trend == side:
            highest = max([highest, *filter(None, values)])
    return highest
