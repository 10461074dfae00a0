"""The table of queues: which columns fit, bars of shares, and trends of the last minute.

Q  RX pps share         60 s   TX pps share         60 s    IRQ/s CPU now drops/s
0    445  █▏      10 %  ▂▁▂▂▁    730  █        8 %  ▁▁▂▁▁   685   3          0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from nictop.tui.widgets.base.line_view import TONES, Span
from nictop.tui.widgets.base.table_line import headings
from nictop.tui.widgets.charts.sparkline import spark

MAX_UNFOLDED_QUEUES = 8
"""Up to so many queues all are shown, idle or not; beyond, idle ones become one line."""
WIDE_CELLS = 110
MIN_BAR_CELLS, WIDE_BAR_CELLS, MAX_BAR_CELLS = 5, 12, 24
PERCENT_CELLS = 6
"""Cells of a share behind its bar: ``  39 %``."""
MIN_TREND_CELLS, MAX_TREND_CELLS = 5, 20

ALL_QUEUES = NumberFilter[QueueRow]()
STYLES: dict[TrendSide, str] = {"rx": "in", "tx": "out", "irq": "accent"}


_WRITTEN = {column.key: column for column in (replace(COLUMNS[0], title="Q"), *COLUMNS[1:], DROPS)}
_PRIORITIES = {
    "queue": 1, "rx_packets": 2, "tx_packets": 2, "effective": 3, "interrupts": 5, "drops": 6, "rx_bits": 8,
    "tx_bits": 8, "xps": 9, "rps": 9, "napi": 10, "numa": 11, "allowed": 12, "irq": 13, "vector": 14,
}  # fmt: skip
_SHARE: Column[QueueRow] = Column(
    "share", "share", "%", 0, 4, "left", no_value,
    source="share in the packets of all queues, or in the interrupts where packets are not counted (as RX pps, IRQ/s)",
)  # fmt: skip
_TREND: Column[QueueRow] = Column(
    "trend", "60 s", "packets/s", 0, 7, "left", no_value,
    source="the last 60 s, all queues on one scale; interrupts where packets are not counted (as RX pps, IRQ/s)",
)  # fmt: skip
ALL_COLUMNS = (*(_WRITTEN[key] for key in _PRIORITIES), _SHARE, _TREND)
"""That the table can have."""
_STATIC = ("xps", "rps", "napi", "numa", "allowed", "irq", "vector")
"""Columns as wide as their texts, and left out when they have none."""


def shown_rows(
    plan: QueueMap, trends: Trends[QueueKey], *, unfold: bool, wanted: NumberFilter[QueueRow] = ALL_QUEUES
) -> tuple[QueueRow, ...]:
    """Those that a filter accepts; without one all queues, but where there are many, not those that were idle for the
    last minute."""
    if wanted.tests:
        return tuple(row for row in plan.rows if wanted.accepts(row))
    if unfold or len(plan.rows) <= MAX_UNFOLDED_QUEUES:
        return plan.rows
    keys: list[QueueKey] = [(side, number) for number in plan.idle for side in ("rx", "tx", "irq")]
    minute = trends.cells(keys, 1)
    busy = {number for (_, number), values in minute.items() if any(values)}
    return tuple(row for row in plan.rows if row.queue not in plan.idle or row.queue in busy) or plan.rows[:1]


def table_columns(plan: QueueMap, cells: int) -> tuple[Column[QueueRow], ...]:
    """The columns that fit into `cells`; bars and trends take what is left. Without packet counters of the driver, the
    interrupts have bar and trend."""
    counted = any(name in plan.total.offered for name in ("rx_packets", "rx_bits", "tx_packets", "tx_bits"))
    wide = cells >= WIDE_CELLS
    columns: list[Column[QueueRow]] = [_sized("queue", plan)]
    sides = [side for side, exists in (("rx", plan.total.has_rx), ("tx", plan.total.has_tx)) if exists and counted]
    for side in sides:
        columns += [_sized(f"{side}_packets", plan), _sized(f"{side}_bits", plan)]
        columns += [replace(_SHARE, key=f"{side}_share"), replace(_TREND, key=f"{side}_trend")]
    columns.append(_sized("interrupts", plan))
    if not counted:
        columns += [replace(_SHARE, key="irq_share"), replace(_TREND, key="irq_trend")]
    columns += [_sized("effective", plan), _sized("drops", plan)]
    columns += [column for column in (_sized(key, plan) for key in _STATIC) if column.width]
    least = {"share": (WIDE_BAR_CELLS if wide else MIN_BAR_CELLS) + PERCENT_CELLS, "trend": MIN_TREND_CELLS + wide}
    columns = [_with_width(column, least.get(_kind(column), column.width)) for column in columns]
    chosen = list(fit_columns(columns, cells - 1))
    spare = cells - 1 - sum(column.width + 1 for column in chosen)
    for kind, most in (("trend", MAX_TREND_CELLS), ("share", MAX_BAR_CELLS + PERCENT_CELLS)):
        flexible = [column for column in chosen if _kind(column) == kind]
        if flexible:
            more = max(0, min(most - flexible[0].width, spare // len(flexible)))
            spare -= more * len(flexible)
            chosen = [_with_width(column, column.width + more) if column in flexible else column for column in chosen]
    return tuple(chosen)


def _kind(column: Column[QueueRow]) -> str:
    return column.key.rpartition("_")[2]


def _side(column: Column[QueueRow]) -> TrendSide | None:
    return next((side for side in STYLES if column.key.startswith(f"{side}_")), None)


def _with_width(column: Column[QueueRow], width: int) -> Column[QueueRow]:
    return column if width == column.width else replace(column, width=width)


def _sized(key: str, plan: QueueMap) -> Column[QueueRow]:
    """A written column with its priority here; the static ones, and the queue number, as wide as their texts."""
    column = replace(_WRITTEN[key], priority=_PRIORITIES[key])
    if key == "queue":
        return replace(column, width=max(cells_of(column.cell(row)[0]) for row in (*plan.rows, plan.total)))
    if key not in _STATIC:
        return column
    texts = [clean(column.cell(row)[0]) for row in plan.rows]
    if not any(text and text != units.UNKNOWN for text in texts):
        return replace(column, width=0)
    return replace(column, width=min(column.width, max(map(cells_of, (column.title, *texts)))))


@dataclass(frozen=True, eq=False)
class QueueTable:
    """What all rows of a table have in common."""

    columns: tuple[Column[QueueRow], ...]
    plan: QueueMap
    trends: Mapping[QueueKey, Sequence[float | None]]
    tops: Mapping[TrendSide, float]
    """rx, tx, irq → value that fills a cell of the trend: the same for all queues, so that they can be compared."""
    glyphs: Glyphs

    @property
    def width(self) -> int:
        return 1 + sum(column.width + 1 for column in self.columns)

    @property
    def head(self) -> Span:
        return " " + headings(self.columns), "dim"

    def row(self, row: QueueRow) -> list[Span]:
        """One blank for the mark of the selected line, then the cells."""
        spans: list[Span] = [(" ", "")]
        for column in self.columns:
            side, kind = _side(column), _kind(column)
            if side is not None and kind == "share" and row.queue is not None:
                spans += self._share(row, side, column.width)
            elif side is not None and kind == "trend" and row.queue is not None:
                values = self.trends.get((side, row.queue), ())
                text = spark(values, column.width, self.tops.get(side, 0.0), glyphs=self.glyphs)
                spans.append((" " + text, STYLES[side]))
            else:
                text, tone = column.cell(row)
                shown = fit(self.glyphs.encode(text), column.width, column.align)
                is_busiest = column.key == "queue" and row.queue is not None and row.queue == self.plan.busiest
                spans.append((" " + shown, "accent" if is_busiest else TONES[tone]))
        return spans

    def _share(self, row: QueueRow, side: TrendSide, cells: int) -> list[Span]:
        value, total = side_load(row, side), side_load(self.plan.total, side)
        if value is None or total is None:
            return [(" " * (cells + 1), "")]
        share = value / total if total > 0 else 0.0
        drawn = bar(share, cells - PERCENT_CELLS, self.glyphs)
        return [(" " + drawn, STYLES[side]), (f" {100 * share:3.0f} %", "" if share >= 0.005 else "dim")]


def side_load(row: QueueRow, side: TrendSide) -> float | None:
    """Packets per second of one direction, bits where packets are not counted; interrupts."""
    if side == "irq":
        return row.interrupts
    packets: float | None = getattr(row, f"{side}_packets")
    bits: float | None = getattr(row, f"{side}_bits")
    return packets if packets is not None else bits


def make_table(plan: QueueMap, trends: Trends[QueueKey], cells: int, glyphs: Glyphs = UNICODE) -> QueueTable:
    columns = table_columns(plan, cells)
    drawn = [column for column in columns if _kind(column) == "trend"]
    found: Mapping[QueueKey, Sequence[float | None]] = {}
    if drawn:
        numbers = [row.queue for row in plan.rows if row.queue is not None]
        sides = [side for column in drawn if (side := _side(column)) is not None]
        found = trends.cells([(side, number) for side in sides for number in numbers], drawn[0].width)
    tops = {
        side: max((value for key, values in found.items() if key[0] == side for value in values if value), default=0.0)
        for side in STYLES
    }
    return QueueTable(columns, plan, found, tops, glyphs)
