"""Every queue of the chosen NIC on one line, details of the selected one, and which CPU took its interrupts.

 ens256 ◂▸ virtio_net · 4 of 4 combined · ring rx 1024/1024 tx 1024/1024
 Q  RX pps share         60 s   TX pps share         60 s    IRQ/s CPU now drops/s
 0    445  █▏      10 %  ▂▁▂▂▁    730  █        8 %  ▁▁▂▁▁   685   3          0
 all …
 balance: fair, hottest queue 3: 39 % of packets (even would be 25 %)
── queue 3 ──
 IRQ 57 rx virtio2-input.3 → CPU 3 685/s · affinity 0,2
── interrupts/s of ens256: queue × CPU ──
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nictop.model.columns.column import Column, fit_columns
from nictop.model.columns.queues import COLUMNS, DROPS, NOT_OFFERED, moved_note
from nictop.model.facts import clean, driver_name, fit, wrap
from nictop.model.facts import width as cells_of
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.queues.heatmap import Heatmap
from nictop.model.queues.map import InterruptLoad, QueueMap, QueueRow, balance, queue_map
from nictop.model.queues.plan import queue_plan
from nictop.model.queues.trends import QueueKey, Trends, TrendSide, queue_rates
from nictop.model.rates.links import Rates
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.records import Link
from nictop.tui.widgets.base.line_view import TONES, Span, SpanLine, section_line
from nictop.tui.widgets.base.table_line import headings
from nictop.tui.widgets.charts.sparkline import nice_ceiling, spark
from nictop.tui.widgets.cpu.matrix import MatrixRow, draw_matrix
from nictop.tui.widgets.cpu.nic_view import (
    CHART_SCALE_CELLS,
    NO_LINK,
    NicView,
    bar,
    beside,
    driver_text,
    minute_chart,
    nic_line,
    settings_texts,
)

MAX_UNFOLDED_QUEUES = 8
"""Up to so many queues all are shown, idle or not; beyond, idle ones become one line."""
MAX_SINGLE_COLUMN_QUEUES = 16
"""Above this number of shown queues, two stand side by side where the view is wide."""
WIDE_CELLS = 110
MIN_BAR_CELLS, WIDE_BAR_CELLS, MAX_BAR_CELLS = 5, 12, 24
PERCENT_CELLS = 6
"""Cells of a share behind its bar: ``  39 %``."""
MIN_TREND_CELLS, MAX_TREND_CELLS = 5, 20
MIN_TABLE_ROWS = 4
MIN_CHART_ROWS, MAX_CHART_ROWS = 3, 30
RATES_CELLS = 76
"""Cells from which on the rates of both directions share a line."""
MAX_OTHER_LINES = 4
"""Interrupts that serve no queue are listed up to this number."""

STYLES: dict[TrendSide, str] = {"rx": "in", "tx": "out", "irq": "accent"}
RATE_TITLES = {
    "rx_packets": "RX pps",
    "rx_bits": "RX b/s",
    "rx_drops": "RX drops",
    "tx_packets": "TX pps",
    "tx_bits": "TX b/s",
    "tx_drops": "TX drops",
}


def _no_value(row: QueueRow) -> str:
    return ""


def _drawn(key: str, title: str, priority: int) -> Column[QueueRow]:
    """A column that is drawn, not written."""
    return Column(key, title, "", 0, priority, "left", _no_value)


_WRITTEN = {column.key: column for column in (*COLUMNS, DROPS)}
_PRIORITIES = {
    "queue": 1, "rx_packets": 2, "tx_packets": 2, "effective": 3, "interrupts": 5, "drops": 6, "rx_bits": 8,
    "tx_bits": 8, "xps": 9, "rps": 9, "napi": 10, "numa": 11, "allowed": 12, "irq": 13, "vector": 14,
}  # fmt: skip
_SHARE_PRIORITY, _TREND_PRIORITY = 4, 7
_STATIC = ("xps", "rps", "napi", "numa", "allowed", "irq", "vector")
"""Columns as wide as their texts, and left out when they have none."""


# ------------------------------------------------------------------------------------------------------- the table


def table_columns(plan: QueueMap, cells: int) -> tuple[Column[QueueRow], ...]:
    """The columns that fit into `cells`; bars and trends take what is left. Without packet counters of the driver, the
    interrupts have bar and trend."""
    counted = any(name in plan.total.offered for name in ("rx_packets", "rx_bits", "tx_packets", "tx_bits"))
    wide = cells >= WIDE_CELLS
    columns: list[Column[QueueRow]] = [_sized("queue", plan)]
    sides = [side for side, exists in (("rx", plan.total.has_rx), ("tx", plan.total.has_tx)) if exists and counted]
    for side in sides:
        columns += [_sized(f"{side}_packets", plan), _sized(f"{side}_bits", plan)]
        columns += [_drawn(f"{side}_share", "share", _SHARE_PRIORITY), _drawn(f"{side}_trend", "60 s", _TREND_PRIORITY)]
    columns.append(_sized("interrupts", plan))
    if not counted:
        columns += [_drawn("irq_share", "share", _SHARE_PRIORITY), _drawn("irq_trend", "60 s", _TREND_PRIORITY)]
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
        return replace(column, title="Q", width=max(cells_of(column.cell(row)[0]) for row in (*plan.rows, plan.total)))
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


# --------------------------------------------------------------------------------------------- the selected queue


def draw_detail(row: QueueRow, link: Link, width: int) -> list[SpanLine]:
    """Where its interrupts go, how packets are steered, its rates, and why values are missing."""
    lines = [_one_line(interrupt_text(load), width, "") for load in row.loads]
    if row.channel is not None:
        cpus = format_cpu_list(row.effective or ()) or units.UNKNOWN
        text = f"vmbus channel {row.channel} → CPU {cpus} {units.per_second(row.interrupts)}"
        lines.append(_one_line(text, width, ""))
    elif not row.loads:
        lines.append(_one_line("no dedicated interrupts", width, "dim"))
    sides = _rate_texts(row)
    lines += [_one_line(text, width, "") for text in ([" · ".join(sides)] if width >= RATES_CELLS else sides)]
    lines += _wrapped(_steering_text(row), width, "")
    missing = _missing_text(row, link)
    return lines + (_wrapped(missing, width, "dim") if missing else [])


def interrupt_text(load: InterruptLoad) -> str:
    """``IRQ 57 rx virtio2-input.3 · affinity 0,2 → CPU 3 685/s``: what changes is at the end."""
    one = load.interrupt
    side = f" {one.direction}" if one.direction in ("rx", "tx") else ""
    parts = [f"IRQ {one.number}{side}" + (f" {clean(one.name)}" if one.name else "")]
    if one.shared:
        parts.append("shared by all queues")
    if one.allowed is not None:
        parts.append(f"affinity {format_cpu_list(one.allowed)}")
        if one.effective is not None and one.effective != one.allowed:
            parts[-1] += f", effective {format_cpu_list(one.effective)}"
    busiest = sorted(load.cpus.items(), key=lambda item: (-item[1], item[0]))
    counted = ", ".join(f"CPU {cpu} {units.per_second(rate)}" for cpu, rate in busiest)
    return " · ".join(parts) + (f" → {counted}" if counted else f" · {units.per_second(load.per_second)}")


def _rate_texts(row: QueueRow) -> list[str]:
    """One for each direction."""
    sides = []
    for side, exists in (("rx", row.has_rx), ("tx", row.has_tx)):
        if exists:
            bits = _rate_text(row, f"{side}_bits", units.bits_per_second)
            packets = _rate_text(row, f"{side}_packets", units.packets_per_second)
            drops = _rate_text(row, f"{side}_drops", units.per_second)
            sides.append(f"{side.upper()} {bits} {packets} drops {drops}")
    return sides or ["disabled: only its interrupt exists (see ethtool -L)"]


def _rate_text(row: QueueRow, name: str, text: Callable[[float | None], str]) -> str:
    value: float | None = getattr(row, name)
    return NOT_OFFERED if value is None and name not in row.offered else text(value)


def _steering_text(row: QueueRow) -> str:
    parts = [f"XPS {_cpus_text(row.xps)}" if row.has_tx else "", f"RPS {_cpus_text(row.rps)}" if row.has_rx else ""]
    if row.rps_flow_count:
        parts[-1] += f", RFS {row.rps_flow_count} flows"
    napi = " ".join(map(str, row.napis)) or "–, not reported by this kernel or driver"
    threads = f" (thread {' '.join(map(str, row.napi_threads))})" if row.napi_threads else ""
    parts.append(f"NAPI {napi}{threads}")
    if row.local is not None:
        parts.append(f"NUMA {'near: CPUs are on the node of the NIC' if row.local else 'far: CPUs on another node'}")
    return " · ".join(part for part in parts if part)


def _cpus_text(cpus: tuple[int, ...] | None) -> str:
    if cpus is None:
        return "n/a (cannot be set for this queue)"
    return f"CPU {format_cpu_list(cpus)}" if cpus else "off"


def _missing_text(row: QueueRow, link: Link) -> str:
    """Why rates of this queue are ``n/a``."""
    exists = {"rx": row.has_rx, "tx": row.has_tx}
    names = [title for key, title in RATE_TITLES.items() if key not in row.offered and exists[key[:2]]]
    return f"n/a: {driver_name(link) or 'the driver'} does not report {', '.join(names)} per queue" if names else ""


def _one_line(text: str, width: int, style: str) -> SpanLine:
    return ((f" {fit(text, max(1, width - 2))}", style),)


def _wrapped(text: str, width: int, style: str) -> list[SpanLine]:
    return [((f" {part}", style),) for part in wrap(text, max(1, width - 2))]


# ------------------------------------------------------------------------------------------------------- the view


@dataclass(frozen=True, eq=False)
class QueuePage:
    """All lines of the view."""

    lines: list[SpanLine]
    cursor: int | None
    targets: dict[int, list[tuple[int, str]]]
    heat: Heatmap | None


def shown_rows(plan: QueueMap, trends: Trends[QueueKey], *, unfold: bool) -> tuple[QueueRow, ...]:
    """All queues, without those that were idle for the last minute where there are many."""
    if unfold or len(plan.rows) <= MAX_UNFOLDED_QUEUES:
        return plan.rows
    keys: list[QueueKey] = [(side, number) for number in plan.idle for side in ("rx", "tx", "irq")]
    minute = trends.cells(keys, 1)
    busy = {number for (_, number), values in minute.items() if any(values)}
    return tuple(row for row in plan.rows if row.queue not in plan.idle or row.queue in busy) or plan.rows[:1]


def draw_queues(
    link: Link,
    snapshot: Snapshot,
    width: int,
    height: int,
    trends: Trends[QueueKey],
    *,
    selected: int | None = None,
    unfold: bool = False,
    before: Heatmap | None = None,
    glyphs: Glyphs = UNICODE,
) -> QueuePage:
    """Table and details of the selected queue in `height` rows, only so many rows of the table as fit; the matrix
    below them may go beyond."""
    plan = queue_map(link, snapshot)
    lines = [nic_line(link, [driver_text(link), *settings_texts(link)], width, glyphs)]
    rows = shown_rows(plan, trends, unfold=unfold)
    if not rows:
        lines += _wrapped("no queues reported for this interface", width, "dim") + _others(plan, width)
        return QueuePage(lines, None, {}, None)
    index = next((number for number, row in enumerate(rows) if row.queue == selected), 0)
    chosen = rows[index]
    two = len(rows) > MAX_SINGLE_COLUMN_QUEUES and width >= WIDE_CELLS
    half = width // 2
    table = make_table(plan, trends, half - 1 if two else width, glyphs)
    matrix, heat = _matrix(link, rows, snapshot, width, before, glyphs=glyphs)
    others = _others(plan, width)
    has_both = width >= WIDE_CELLS and max(map(_line_cells, matrix[1:]), default=width) < half
    detail = draw_detail(chosen, link, half - 1 if has_both else width)
    table_rows = -(-len(rows) // 2) if two else len(rows)
    visible, below, detail, has_title = _fit_rows(
        height, table_rows, _below(table, rows, link, snapshot, width), detail
    )
    first = max(0, min((index % table_rows) - visible // 2, table_rows - visible))
    targets: dict[int, list[tuple[int, str]]] = {}
    head, style = table.head
    lines.append(((fit(head, half), style), (head, style)) if two else (table.head,))
    for number in range(first, first + visible):
        pair = [one for one in ((number, number + table_rows) if two else (number,)) if one < len(rows)]
        targets[len(lines)] = [(place * half, str(rows[one].queue)) for place, one in enumerate(pair)]
        blocks = [tuple(_marked(table.row(rows[one]), two and one == index, glyphs)) for one in pair]
        lines.append(beside(blocks[:1], blocks[1:], half)[0] if two else blocks[0])
    lines += below
    if has_title:
        part = f", rows {first + 1}-{first + visible} of {table_rows}" if visible < table_rows else ""
        title = section_line(f"queue {chosen.queue} (up/down selects{part})", half - 1 if has_both else width)
        detail = [title, *detail]
    if has_both:
        lines += beside(detail, [section_line(_matrix_title(link), width - half), *matrix[1:]], half)
        matrix = []
    else:
        lines += detail
    room = height - len(lines) - len(matrix) - len(others)
    lines += _charts(chosen, trends, width, room, glyphs=glyphs)
    return QueuePage([*lines, *matrix, *others], None if two else 2 + index - first, targets, heat)


def _line_cells(line: SpanLine) -> int:
    return sum(cells_of(text) for text, _ in line)


def _marked(spans: list[Span], is_chosen: bool, glyphs: Glyphs) -> list[Span]:
    """The selected one of two columns; in one column the whole line is marked."""
    if not is_chosen:
        return spans
    (first, _), *rest = spans
    return [(glyphs.cursor + first[1:], "cursor"), *((text, "cursor") for text, _ in rest)]


def _below(table: QueueTable, rows: Sequence[QueueRow], link: Link, snapshot: Snapshot, width: int) -> list[SpanLine]:
    """The sum of all queues, what is folded, the balance, and what a mark means; the most important first."""
    plan, glyphs = table.plan, table.glyphs
    lines: list[SpanLine] = [tuple(table.row(plan.total))]
    level, sentence = balance(plan)
    if sentence:
        is_uneven = level == "uneven"
        text = glyphs.encode(f"{glyphs.warning} {sentence}" if is_uneven else sentence)
        lines.append(_one_line(text, width, "warn" if is_uneven else ""))
    hidden = [row.queue for row in plan.rows if row not in rows and row.queue is not None]
    if hidden:
        text = f"{len(hidden)} idle queues: {format_cpu_list(hidden)} (o shows them)"
        lines.append(_one_line(text, width, "dim"))
    age = None
    if snapshot.inventory is not None and snapshot.counters is not None:
        age = max(0.0, snapshot.counters.time - snapshot.inventory.time)
    if any(row.has_moved for row in rows):
        lines.append(_one_line(moved_note(age), width, "warn"))
    elif any(row.busy_cpus for row in rows):
        read = f" read {units.duration(age)} ago" if age is not None else ""
        lines.append(_one_line(f"CPU now: where interrupts were counted; as the affinity{read}", width, "dim"))
    else:
        lines.append(_one_line("CPU now: the affinity, as no interrupts were counted", width, "dim"))
    if not plan.total.offered:
        text = f"packets and bytes per queue: n/a, {driver_name(link) or 'the driver'} does not report them"
        lines.append(_one_line(text, width, "dim"))
    return lines


def _fit_rows(
    height: int, rows: int, below: list[SpanLine], detail: list[SpanLine]
) -> tuple[int, list[SpanLine], list[SpanLine], bool]:
    """(rows of the table, lines below it, lines of details, whether these have a title) that fit into `height` with the
    first two lines: the table has at least `MIN_TABLE_ROWS`, and one line of details remains."""
    least = min(rows, MIN_TABLE_ROWS)
    room = height - 2 - least
    has_title = True
    while room < len(below) + len(detail) + has_title and len(detail) > 1:
        detail = detail[:-1]
    if room < len(below) + len(detail) + has_title:
        has_title = False
    while room < len(below) + len(detail) and below:
        below = below[:-1]
    visible = max(least, min(rows, height - 2 - len(below) - len(detail) - has_title))
    return visible, below, detail, has_title


def _others(plan: QueueMap, width: int) -> list[SpanLine]:
    """Interrupts of the NIC that are not in the table."""
    lines: list[SpanLine] = []
    for words, loads, style in (
        ("not a queue interrupt", plan.others, "dim"),
        ("not mapped to a queue", plan.unmapped, "warn"),
    ):
        for load in loads[:MAX_OTHER_LINES]:
            name = f" {clean(load.interrupt.name)}" if load.interrupt.name else ""
            rate = f", {units.per_second(load.per_second)}" if load.per_second else ""
            lines += _wrapped(f"IRQ {load.interrupt.number}{name}: {words}{rate}", width, style)
        if len(loads) > MAX_OTHER_LINES:
            lines += _wrapped(f"{len(loads) - MAX_OTHER_LINES} more: {words}", width, style)
    return lines


def _matrix(
    link: Link,
    rows: Sequence[QueueRow],
    snapshot: Snapshot,
    width: int,
    before: Heatmap | None,
    *,
    glyphs: Glyphs,
) -> tuple[list[SpanLine], Heatmap | None]:
    """Interrupts per second, queue × CPU; nothing without interrupts."""
    shared = {load.interrupt.number: load for row in rows for load in row.loads if load.interrupt.shared}
    found = []
    for row in rows:
        own = [load for load in row.loads if not load.interrupt.shared]
        if own:
            found.append(MatrixRow(f"queue {row.queue}", row.interrupts, _cpu_sums(own)))
    found += [MatrixRow("all queues", load.per_second, load.cpus) for load in shared.values()]
    if not found:
        return [], None
    cpus = sorted(snapshot.rates.cpus) if snapshot.rates is not None else []
    names = max(len(row.name) for row in found)
    return draw_matrix(_matrix_title(link), found, cpus, width, before, name_cells=names, glyphs=glyphs)


def _matrix_title(link: Link) -> str:
    return f"interrupts/s of {clean(link.name)}: queue × CPU"


def _cpu_sums(loads: Sequence[InterruptLoad]) -> dict[int, float]:
    sums: dict[int, float] = {}
    for load in loads:
        for cpu, rate in load.cpus.items():
            sums[cpu] = sums.get(cpu, 0.0) + rate
    return sums


def _charts(row: QueueRow, trends: Trends[QueueKey], width: int, room: int, glyphs: Glyphs) -> list[SpanLine]:
    """The last minute of the selected queue as a chart for each direction, in `room` rows; nothing when they are too
    few."""
    exists: dict[TrendSide, bool] = {"rx": row.has_rx, "tx": row.has_tx}
    sides = [side for side in exists if exists[side] and side_load(row, side) is not None]
    rows = min(room - 1, MAX_CHART_ROWS)
    if rows < MIN_CHART_ROWS or not sides or row.queue is None:
        return []
    half = width // len(sides)
    cells = half - CHART_SCALE_CELLS - 2
    if cells < MIN_TREND_CELLS:
        return []
    blocks = []
    series = trends.cells([(side, row.queue) for side in sides], cells)
    for side in sides:
        values = series[side, row.queue]
        unit = "pps" if getattr(row, f"{side}_packets") is not None else "b/s"
        top = nice_ceiling(max((value for value in values if value is not None), default=0.0))
        scale = top, units.quantity(top, "")
        blocks.append(
            minute_chart(values, rows, scale, label=f"{side.upper()} {unit}", style=STYLES[side], glyphs=glyphs)
        )
    lines = [section_line(f"queue {row.queue}: last 60 s", width)]
    return lines + (beside(blocks[0], blocks[1], half) if len(blocks) > 1 else blocks[0])


class QueueView(NicView):
    """`draw_queues` of the chosen link; up and down select a queue."""

    unfold = False
    """Whether idle queues are shown one by one."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[Link, Snapshot] | None = None
        self._heat: Heatmap | None = None
        self._trends: Trends[QueueKey] = Trends()
        self._busiest: int | None = None
        self._has_settled = False

    def show(self, link: Link | None, snapshot: Snapshot, parts: Sequence[Rates] = ()) -> None:
        """`parts`: the rates of the last minute, oldest first."""
        if link is None or self._link is None or link.ifindex != self._link.ifindex:
            self._heat, self._has_settled = None, False
            self.begin(None)
        self._link = link
        if link is None:
            self._shown, self._targets = None, {}
            self.show_lines([nic_line(None, (), self._cells, self.glyphs), ((f" {NO_LINK}", "dim"),)])
            return
        plan, found = queue_plan(link, snapshot.inventory), queue_map(link, snapshot)
        self._trends.update(parts, plan, partial(queue_rates, plan, link.ifindex))
        self._shown, self._busiest = (link, snapshot), found.busiest
        self.set_keys([str(row.queue) for row in shown_rows(found, self._trends, unfold=self.unfold)])
        self.redraw()

    @property
    def _cells(self) -> int:
        return self.scrollable_content_region.width

    def first_choice(self) -> int:
        """The busiest queue when that is known for the first time; then it stays."""
        if self._has_settled or self._busiest is None:
            return super().first_choice()
        self._has_settled = True
        return self._keys.index(str(self._busiest)) if str(self._busiest) in self._keys else 0

    def redraw(self) -> None:
        if self._shown is None:
            return
        link, snapshot = self._shown
        index = self.index
        page = draw_queues(
            link,
            snapshot,
            self._cells,
            self.size.height,
            self._trends,
            selected=int(self._keys[index]) if index is not None else None,
            unfold=self.unfold,
            before=self._heat,
            glyphs=self.glyphs,
        )
        self._heat, self._targets = page.heat, page.targets
        self.show_lines(page.lines, cursor=page.cursor)
