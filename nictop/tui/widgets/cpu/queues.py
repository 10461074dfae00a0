"""Every queue of the chosen NIC on one line, details of the selected one, and which CPU took its interrupts.

 ens256 ◂▸ virtio_net · 4 of 4 combined · ring rx 1024/1024 tx 1024/1024
 Q  RX pps share         60 s   TX pps share         60 s    IRQ/s CPU now drops/s
 0    445  █▏      10 %  ▂▁▂▂▁    730  █        8 %  ▁▁▂▁▁   685   3          0
 all …
 balance: fair, hottest queue 3: 39 % of RX+TX packets (even would be 25 %)
 what now: nothing to change: the load is spread over 4 queues
── queue 3 ──
 IRQ 57 rx virtio2-input.3 → CPU 3 685/s · affinity 0,2
── interrupts/s of ens256: queue × CPU ──
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from nictop.model.columns.queues import moved_note
from nictop.model.facts import absence_reason, clean, driver_name, fit, wrap
from nictop.model.facts import width as cells_of
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.queues.filters import QUEUE_FIELDS, NumberFilter, number_filter
from nictop.model.queues.heatmap import Heatmap
from nictop.model.queues.map import InterruptLoad, QueueRow, balance, queue_map
from nictop.model.queues.plan import queue_plan
from nictop.model.queues.trends import QueueKey, Trends, TrendSide, queue_rates
from nictop.model.rates.links import Rates
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.words import NOT_READ_YET
from nictop.probe.records import Link
from nictop.rules.queue_advice import QueueAdvice
from nictop.rules.wording import command_lines, more_commands
from nictop.tui.widgets.base.filter_line import NO_MATCHES
from nictop.tui.widgets.base.line_view import Span, SpanLine, section_line
from nictop.tui.widgets.charts.sparkline import nice_ceiling
from nictop.tui.widgets.cpu.matrix import MatrixRow, draw_matrix
from nictop.tui.widgets.cpu.nic_view import (
    CHART_SCALE_CELLS,
    NicPage,
    NicView,
    beside,
    driver_text,
    interface_lines,
    minute_chart,
    nic_line,
    no_link_text,
    settings_texts,
    unread_source,
)
from nictop.tui.widgets.cpu.queue_detail import draw_detail, draw_others, one_line
from nictop.tui.widgets.cpu.queue_table import (
    ALL_QUEUES,
    MIN_TREND_CELLS,
    STYLES,
    WIDE_CELLS,
    QueueTable,
    make_table,
    shown_rows,
    side_load,
)

MIN_NAME_CELLS = 10
"""Of a queue in the matrix."""
MAX_SINGLE_COLUMN_QUEUES = 16
"""Above this number of shown queues, two stand side by side where the view is wide."""
MIN_TABLE_ROWS = 4
MIN_ROWS = 12
"""Of the view: with fewer, the details of the selected queue come before the sum and what to do."""
MIN_DETAIL_CELLS = 44
"""Of the selected queue, beside the matrix."""
MIN_CHART_ROWS, MAX_CHART_ROWS = 3, 30
ADVICE_LABEL = "what now: "


def draw_queues(
    link: Link,
    snapshot: Snapshot,
    width: int,
    height: int,
    trends: Trends[QueueKey],
    *,
    selected: int | None = None,
    unfold: bool = False,
    wanted: NumberFilter[QueueRow] = ALL_QUEUES,
    before: Heatmap | None = None,
    advice: QueueAdvice | None = None,
    glyphs: Glyphs = UNICODE,
) -> NicPage:
    """Table, what to do, and details of the selected queue, the table with only so many rows as fit into `height`; what
    is below it may go beyond."""
    plan = queue_map(link, snapshot)
    lines = [nic_line(link, [driver_text(link, snapshot), *settings_texts(link)], width, glyphs)]
    rows = shown_rows(plan, trends, unfold=unfold, wanted=wanted)
    why = unread_source(snapshot, "queues")
    if why is not None and (not plan.rows or why.detail == NOT_READ_YET):  # their settings would be shown as off
        return NicPage([*lines, one_line(f"queues {absence_reason(why, None)}", width, "dim")], None, {}, None)
    what_now = draw_advice(advice, width, glyphs)
    if not rows and plan.rows:
        return NicPage([*lines, one_line(NO_MATCHES.strip(), width, "dim"), *what_now], None, {}, None)
    if not rows:
        lines.append(one_line("no queues reported for this interface", width, "dim"))
        instead = interface_lines(snapshot, width, glyphs, without=link.ifindex)
        if instead:
            instead = [section_line("other interfaces", width), *instead]
        return NicPage([*lines, *what_now, *draw_others(plan, width), *instead], None, {}, None)
    index = next((number for number, row in enumerate(rows) if row.queue == selected), 0)
    chosen = rows[index]
    two = len(rows) > MAX_SINGLE_COLUMN_QUEUES and width >= WIDE_CELLS
    half = width // 2
    table = make_table(plan, trends, half - 1 if two else width, glyphs)
    matrix, heat = _matrix(link, rows, snapshot, width, before, glyphs=glyphs)
    others = draw_others(plan, width)
    left = min(half, width - 1 - max(map(_line_cells, matrix[1:]), default=width))
    has_both = width >= WIDE_CELLS and left >= MIN_DETAIL_CELLS
    detail = draw_detail(chosen, link, left - 1 if has_both else width)
    table_rows = -(-len(rows) // 2) if two else len(rows)
    folded = [row.queue for row in plan.rows if row not in rows and row.queue is not None and not wanted.tests]
    below = _below(table, rows, link, snapshot, width, folded=folded, what_now=what_now)
    visible = _table_rows(height, table_rows, len(below), len(detail))
    first = max(0, min((index % table_rows) - visible // 2, table_rows - visible))
    targets: dict[int, list[tuple[int, str]]] = {}
    head, style = table.head
    lines.append(((fit(head, half), style), (head, style)) if two else (table.head,))
    for number in range(first, first + visible):
        pair = [one for one in ((number, number + table_rows) if two else (number,)) if one < len(rows)]
        targets[len(lines)] = [(place * half, str(rows[one].queue)) for place, one in enumerate(pair)]
        blocks = [tuple(_marked(table.row(rows[one]), two and one == index, glyphs)) for one in pair]
        lines.append(beside(blocks[:1], blocks[1:], half)[0] if two else blocks[0])
    part = f", rows {first + 1}-{first + visible} of {table_rows}" if visible < table_rows else ""
    title = section_line(f"queue {chosen.queue} (up/down selects{part})", left - 1 if has_both else width)
    detail = [title, *detail]
    is_low = height < MIN_ROWS
    if not is_low:
        lines += below
    if has_both:
        lines += beside(detail, [section_line(_matrix_title(link), width - left), *matrix[1:]], left)
        matrix = []
    else:
        lines += detail
    if is_low:
        lines += below
    room = height - len(lines) - len(matrix) - len(others)
    lines += _charts(chosen, trends, width, room, glyphs=glyphs)
    return NicPage([*lines, *matrix, *others], None if two else 2 + index - first, targets, heat)


def _line_cells(line: SpanLine) -> int:
    return sum(cells_of(text) for text, _ in line)


def _marked(spans: list[Span], is_chosen: bool, glyphs: Glyphs) -> list[Span]:
    """The selected one of two columns; in one column the whole line is marked."""
    if not is_chosen:
        return spans
    (first, _), *rest = spans
    return [(glyphs.cursor + first[1:], "cursor"), *((text, "cursor") for text, _ in rest)]


def _below(
    table: QueueTable,
    rows: Sequence[QueueRow],
    link: Link,
    snapshot: Snapshot,
    width: int,
    *,
    folded: Sequence[int],
    what_now: Sequence[SpanLine],
) -> list[SpanLine]:
    """The sum of all queues, the balance, what to do, the `folded` ones, and what a mark means; the most important
    first."""
    plan, glyphs = table.plan, table.glyphs
    lines: list[SpanLine] = [tuple(table.row(plan.total))]
    level, sentence = balance(plan)
    if sentence:
        is_uneven = level == "uneven"
        text = glyphs.encode(f"{glyphs.warning} {sentence}" if is_uneven else sentence)
        lines.append(one_line(_without_remark(text, width - 2), width, "warn" if is_uneven else ""))
    lines += what_now
    if folded:
        text = f"{len(folded)} idle queues: {format_cpu_list(folded)} (o shows them)"
        lines.append(one_line(text, width, "dim"))
    age = None
    if snapshot.inventory is not None and snapshot.counters is not None:
        age = max(0.0, snapshot.counters.time - snapshot.inventory.time)
    if any(row.has_moved for row in rows):
        lines.append(one_line(moved_note(age), width, "warn"))
    elif any(row.busy_cpus for row in rows):
        read = f", read {units.whole_seconds(age)} ago" if age is not None else ""
        text = f"CPU now: where interrupts were counted; elsewhere the affinity{read}"
        lines.append(one_line(text, width, "dim"))
    elif any(row.loads for row in rows):
        lines.append(one_line("CPU now: the affinity, as no interrupts were counted", width, "dim"))
    if not plan.total.offered:
        text = f"packets and bytes per queue: n/a, {driver_name(link) or 'the driver'} does not report them"
        lines.append(one_line(text, width, "dim"))
    return lines


def _without_remark(sentence: str, cells: int) -> str:
    """The sentence without what is in brackets at its end, if it does not fit with it."""
    return sentence if cells_of(sentence) <= cells else sentence.partition(" (")[0]


def draw_advice(advice: QueueAdvice | None, width: int, glyphs: Glyphs) -> list[SpanLine]:
    """The sentence, and the first of its commands."""
    if advice is None:
        return []
    parts = wrap(glyphs.text(f"{ADVICE_LABEL}{advice.text}"), max(MIN_NAME_CELLS, width - 2))
    lines = [one_line(part, width, "") for part in parts]
    fix = advice.fix
    if fix is not None:
        first, *others = fix.commands
        shown = command_lines(first, max(MIN_NAME_CELLS, width - 5), where=fix.where, shown=glyphs.text)
        lines += [one_line(f"   {part}", width, "accent") for part in shown]
        if others:
            lines.append(one_line(f"   {more_commands(len(others))}", width, "dim"))
    return lines


def _table_rows(height: int, rows: int, below: int, detail: int) -> int:
    """Rows of the table that fit into `height` with the first two lines, `below` lines and the details with their
    title, but at least `MIN_TABLE_ROWS`: what is below them is scrolled to."""
    least = min(rows, MIN_TABLE_ROWS, max(1, height - 4))
    return max(least, min(rows, height - 2 - below - detail - 1))


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
            numbers = " ".join(str(load.interrupt.number) for load in own)
            found.append(MatrixRow(f"queue {row.queue:<2} IRQ {numbers}", row.interrupts, _cpu_sums(own)))
    found += [MatrixRow(f"all queues IRQ {number}", load.per_second, load.cpus) for number, load in shared.items()]
    if not found:
        return [], None
    cpus = sorted(snapshot.rates.cpus) if snapshot.rates is not None else []
    names = min(max(len(row.name) for row in found), max(MIN_NAME_CELLS, width // 3))
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
    blocks, peaks = [], list[str]()
    series = trends.cells([(side, row.queue) for side in sides], cells)
    for side in sides:
        values = series[side, row.queue]
        unit = "pps" if getattr(row, f"{side}_packets") is not None else "b/s"
        peak = max(trends.peak([(side, row.queue)]), side_load(row, side) or 0.0)
        peaks.append(f"{side.upper()} {units.quantity(peak, unit)}")
        top = nice_ceiling(peak)
        scale = top, units.quantity(top, "")
        blocks.append(
            minute_chart(values, rows, scale, label=f"{side.upper()} {unit}", style=STYLES[side], glyphs=glyphs)
        )
    lines = [section_line(f"queue {row.queue}: last 60 s (means; peak {', '.join(peaks)})", width)]
    return lines + (beside(blocks[0], blocks[1], half) if len(blocks) > 1 else blocks[0])


class QueueView(NicView[QueueKey]):
    """`draw_queues` of the chosen link; up and down select a queue."""

    unfold = False
    """Whether idle queues are shown one by one."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._busiest: int | None = None
        self.filter = ALL_QUEUES
        self.count_text = ""
        """``3 of 64``: queues that the filter accepts."""
        self.advice: QueueAdvice | None = None
        """What is said about the queues of the link that is shown."""

    def set_filter(self, text: str) -> None:
        """Takes effect at the next `show`."""
        self.filter = number_filter(text, QUEUE_FIELDS)

    def show(
        self, link: Link | None, snapshot: Snapshot, parts: Sequence[Rates] = (), advice: QueueAdvice | None = None
    ) -> None:
        """`parts`: the rates of the last minute, oldest first."""
        self.advice = advice
        if link is None or self._link is None or link.ifindex != self._link.ifindex:
            self._heat, self._has_settled = None, False
            self.begin(None)
        self._link = link
        if link is None:
            self._snapshot, self._targets, self.count_text = None, {}, ""
            self.show_lines(self._lines_without_link(snapshot))
            return
        plan, found = queue_plan(link, snapshot.inventory), queue_map(link, snapshot)
        self._trends.update(parts, plan, partial(queue_rates, plan, link.ifindex))
        self._snapshot, self._busiest = snapshot, found.busiest
        rows = shown_rows(found, self._trends, unfold=self.unfold, wanted=self.filter)
        self.count_text = f"{len(rows)} of {len(found.rows)}"
        self.set_keys([str(row.queue) for row in rows])
        self.redraw()

    def _lines_without_link(self, snapshot: Snapshot) -> list[SpanLine]:
        waiting = self.waiting(self._cells)
        return [
            nic_line(None, (), self._cells, self.glyphs),
            *(waiting or [((f" {self.glyphs.encode(no_link_text(snapshot))}", "dim"),)]),
            *interface_lines(snapshot, self._cells, self.glyphs),
        ]

    def first_choice(self) -> int:
        """The busiest queue when that is known for the first time; then it stays."""
        if self._has_settled or self._busiest is None:
            return super().first_choice()
        self._has_settled = True
        return self._keys.index(str(self._busiest)) if str(self._busiest) in self._keys else 0

    def draw_page(self, **common: Any) -> NicPage:
        assert self._link is not None
        return draw_queues(self._link, unfold=self.unfold, wanted=self.filter, advice=self.advice, **common)
