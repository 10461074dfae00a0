"""Every queue of the chosen NIC on one line, details of the selected one, and which CPU took its
interrupts.

 ens256 ◂▸ virtio_net · 4 of 4 combined · ring rx 1024/1024 tx 1024/1024
 Q  RX pps share         60 s   TX pps share         60 s    IRQ/s on CPU  drops/s
 0    445  █▏      10 %  ▂▁▂▂▁    730  █        8 %  ▁▁▂▁▁   685   3          0
 all …
 balance: fair, hottest queue 3: 39 % of RX+TX packets (even would be 25 %)
 what now: nothing to change: the load is spread over 4 queues
── queue 3 ──
 IRQ 57 rx virtio2-input.3 → CPU 3 685/s · affinity 0,2
── interrupts/s of ens256: queue × CPU ──
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from nictop.model.columns.queues import moved_note
from nictop.model.facts import absence_reason, clean, driver_name, fit, wrap
from nictop.model.facts import width as cells_of
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.queues.filters import QUEUE_FIELDS, NumberFilter, number_filter
from nictop.model.queues.heatmap import Heatmap
from nictop.model.queues.map import QueueMap, QueueRow, balance
from nictop.model.queues.plan import queue_plan
from nictop.model.queues.trends import QueueKey, Trends, TrendSide, queue_rates
from nictop.model.rates.links import Rates
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import dataclass
from nictop.probe.records import Link, Unreadable
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.rules.queue_advice import QueueAdvice
from nictop.rules.wording import command_lines, more_commands
from nictop.tui.keys import KeyLabels, default_label, pair_label
from nictop.tui.widgets.base.filter_line import no_matches
from nictop.tui.widgets.base.line_widget import Span, SpanLine, section_line, span_cells
from nictop.tui.widgets.charts.plot import NOW
from nictop.tui.widgets.charts.sparkline import nice_ceiling
from nictop.tui.widgets.cpu.matrix import MatrixRow, cpu_sums, draw_matrix, known_cpus
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

FIRST_TABLE_LINE = 2
"""Line of the first queue, below the NIC and the head of the table."""
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
ADVICE_LABEL, BALANCE_LABEL = "what now", "balance"


@dataclass(frozen=True)
class TableRange:
    """The lines of the table that are in sight."""

    first: int
    visible: int
    lines: int
    """Of the whole table."""
    columns: int
    """1; 2: the second half of the queues stands beside the first."""

    @property
    def is_cut(self) -> bool:
        return self.visible < self.lines

    def indexes(self, line: int, rows: int) -> list[int]:
        """Of the queues in one line; `rows`: number of all queues."""
        return list(range(line, rows, self.lines))[: self.columns]


def draw_queues(
    link: Link,
    snapshot: Snapshot,
    width: int,
    height: int,
    trends: Trends[QueueKey],
    *,
    queue_map: QueueMap,
    selected: int | None = None,
    unfold: bool = False,
    wanted: NumberFilter[QueueRow] = ALL_QUEUES,
    before: Heatmap | None = None,
    advice: QueueAdvice | None = None,
    labels: KeyLabels = default_label,
    end: str = NOW,
    age: str = "",
    glyphs: Glyphs = UNICODE,
) -> NicPage:
    """Table, what to do, and details of the selected queue, the table with only so many rows as fit
    into `height`; what is below it may go beyond. `queue_map`: of the link. `age`: ``values of 7 s
    ago``, of a host that sends nothing any more."""
    facts = [driver_text(link, snapshot), *settings_texts(link)]
    lines = [nic_line(link, facts, width, glyphs)]
    why = _why_unread(link, snapshot, queue_map)
    if why is not None:
        lines.append(one_line(f"queues {absence_reason(why, None)}", width, "dim"))
        return NicPage(lines, None, {}, None)
    rows = shown_rows(queue_map, trends, unfold=unfold, wanted=wanted)
    what_now = draw_advice(advice, width, glyphs, age)
    if not rows and queue_map.rows:
        lines += [one_line(no_matches(labels), width, "dim"), *what_now]
        return NicPage(lines, None, {}, None)
    if not rows:
        lines += [one_line("no queues reported for this interface", width, "dim"), *what_now]
        lines += _other_lines(queue_map, link, snapshot, width, glyphs)
        return NicPage(lines, None, {}, None)

    index = _index_of(rows, selected)
    chosen = rows[index]
    half = width // 2
    columns = _table_columns(len(rows), width)
    table = make_table(queue_map, trends, half - 1 if columns == 2 else width, glyphs)
    matrix, heat = _matrix(link, rows, snapshot, width, before, glyphs=glyphs)
    left = _cells_beside(matrix, width)
    detail_cells = width if left is None else left - 1
    detail = draw_detail(chosen, link, detail_cells)
    below = _below(
        table,
        rows,
        link,
        snapshot,
        width,
        folded=[] if wanted.tests else _hidden_queues(queue_map, rows),
        unfold_key=labels("options"),
        what_now=what_now,
        age=age,
    )
    part = _range_in_sight(index, len(rows), columns, height, len(below) + len(detail))
    targets = _targets(rows, part, half)
    lines += _table_lines(table, rows, index, part, half)
    title = _detail_title(chosen, part, pair_label(labels, "up"))
    detail = [section_line(glyphs.text(title), detail_cells), *detail]
    if left is not None:
        matrix_title = section_line(_matrix_title(link), width - left)
        detail = beside(detail, [matrix_title, *matrix[1:]], left)
        matrix = []
    lines += [*detail, *below] if height < MIN_ROWS else [*below, *detail]
    others = draw_others(queue_map, width)
    room = height - len(lines) - len(matrix) - len(others)
    lines += _charts(chosen, trends, width, room, end=end, glyphs=glyphs)
    cursor = None if columns == 2 else FIRST_TABLE_LINE + index - part.first
    return NicPage([*lines, *matrix, *others], cursor, targets, heat)


def _index_of(rows: Sequence[QueueRow], selected: int | None) -> int:
    """Of the selected queue; 0 if it is not among them."""
    for index, row in enumerate(rows):
        if row.queue == selected:
            return index
    return 0


def _table_columns(rows: int, width: int) -> int:
    """`TableRange.columns`."""
    if width >= WIDE_CELLS and rows > MAX_SINGLE_COLUMN_QUEUES:
        return 2
    return 1


def _cells_beside(matrix: Sequence[SpanLine], width: int) -> int | None:
    """Cells at the left of the matrix; None: it is below everything else."""
    widest = max(map(span_cells, matrix[1:]), default=width)
    left = min(width // 2, width - 1 - widest)
    if width < WIDE_CELLS or left < MIN_DETAIL_CELLS:
        return None
    return left


def _detail_title(row: QueueRow, part: TableRange, keys: str) -> str:
    """`keys`: they select another queue."""
    if not part.is_cut:
        return f"queue {row.queue} ({keys} selects)"
    rows = f"rows {part.first + 1}-{part.first + part.visible} of {part.lines}"
    return f"queue {row.queue} ({keys} selects, {rows})"


def _other_lines(
    queue_map: QueueMap, link: Link, snapshot: Snapshot, width: int, glyphs: Glyphs
) -> list[SpanLine]:
    """Of an interface without queues: its interrupts, and the other interfaces."""
    lines = draw_others(queue_map, width)
    others = interface_lines(snapshot, width, glyphs, without=link.ifindex)
    if others:
        lines += [section_line("other interfaces", width), *others]
    return lines


def _hidden_queues(queue_map: QueueMap, rows: Sequence[QueueRow]) -> list[int]:
    """Numbers of the queues that are not among `rows`."""
    shown = {row.queue for row in rows}
    hidden: list[int] = []
    for row in queue_map.rows:
        if row.queue is not None and row.queue not in shown:
            hidden.append(row.queue)
    return hidden


def _targets(
    rows: Sequence[QueueRow], part: TableRange, half: int
) -> dict[int, list[tuple[int, str]]]:
    """Line → (first cell, queue) of what a click chooses there, below the NIC and the head of
    the table."""
    targets: dict[int, list[tuple[int, str]]] = {}
    for place in range(part.visible):
        indexes = part.indexes(part.first + place, len(rows))
        targets[FIRST_TABLE_LINE + place] = [
            (column * half, str(rows[index].queue)) for column, index in enumerate(indexes)
        ]
    return targets


def _table_lines(
    table: QueueTable, rows: Sequence[QueueRow], chosen: int, part: TableRange, half: int
) -> list[SpanLine]:
    """The head, and the lines in sight; `chosen`: index of the selected queue."""
    head, style = table.head
    if part.columns == 1:
        visible = rows[part.first : part.first + part.visible]
        return [(table.head,), *(tuple(table.row(row)) for row in visible)]
    lines: list[SpanLine] = [((fit(head, half), style), (head, style))]
    for line in range(part.first, part.first + part.visible):
        blocks: list[SpanLine] = []
        for index in part.indexes(line, len(rows)):
            spans = table.row(rows[index])
            if index == chosen:
                spans = _marked(spans, table.glyphs)
            blocks.append(tuple(spans))
        lines += beside(blocks[:1], blocks[1:], half)
    return lines


def _marked(spans: list[Span], glyphs: Glyphs) -> list[Span]:
    """The selected one of two columns; in one column the whole line is marked."""
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
    unfold_key: str,
    what_now: Sequence[SpanLine],
    age: str,
) -> list[SpanLine]:
    """The sum of all queues, the balance, what to do, the `folded` ones, and what a mark means;
    the most important first."""
    queue_map = table.queue_map
    lines: list[SpanLine] = [tuple(table.row(queue_map.total))]
    lines += _balance_lines(queue_map, width, table.glyphs, age)
    lines += what_now
    if folded:
        text = f"{len(folded)} idle queues: {format_cpu_list(folded)} ({unfold_key} shows them)"
        lines.append(one_line(text, width, "dim"))
    lines += _cpu_notes(rows, snapshot, width)
    if not queue_map.total.offered:
        driver = driver_name(link) or "the driver"
        text = f"packets and bytes per queue: n/a, {driver} does not report them"
        lines.append(one_line(text, width, "dim"))
    return lines


def _without_remark(sentence: str, cells: int) -> str:
    """The sentence without what is in brackets at its end, if it does not fit with it."""
    if cells_of(sentence) <= cells:
        return sentence
    return sentence.partition(" (")[0]


def _dated(label: str, age: str) -> str:
    """``what now``; ``what now, by values of 7 s ago``"""
    return f"{label}, by {age}" if age else label


def draw_advice(
    advice: QueueAdvice | None, width: int, glyphs: Glyphs, age: str = ""
) -> list[SpanLine]:
    """The sentence, and the first of its commands."""
    if advice is None:
        return []
    text = f"{_dated(ADVICE_LABEL, age)}: {advice.text}"
    parts = wrap(glyphs.text(text), max(MIN_NAME_CELLS, width - 2))
    lines = [one_line(part, width, "") for part in parts]
    fix = advice.fix
    if fix is None:
        return lines
    first, *others = fix.commands
    cells = max(MIN_NAME_CELLS, width - 5)
    shown = command_lines(first, cells, where=fix.where, shown=glyphs.text)
    lines += [one_line(f"   {part}", width, "accent") for part in shown]
    if others:
        lines.append(one_line(f"   {more_commands(len(others))}", width, "dim"))
    return lines


def _why_unread(link: Link, snapshot: Snapshot, queue_map: QueueMap) -> Unreadable | None:
    """Why queues are not shown: before they are read, their settings would be shown as off."""
    if is_unread_link(link):
        return Unreadable("failed", NOT_READ_YET)
    why = unread_source(snapshot, "queues")
    if why is not None and queue_map.rows and why.detail != NOT_READ_YET:
        return None
    return why


def _range_in_sight(
    index: int, rows: int, columns: int, height: int, other_lines: int
) -> TableRange:
    """So many lines of the table as `height` and the other lines leave, around the selected one."""
    lines = -(-rows // columns)
    visible = _table_rows(height, lines, other_lines)
    centred = index % lines - visible // 2
    return TableRange(max(0, min(centred, lines - visible)), visible, lines, columns)


def _table_rows(height: int, rows: int, other_lines: int) -> int:
    """Rows of the table that fit into `height` with the first two lines, the others and a title,
    but at least `MIN_TABLE_ROWS`: what is below them is scrolled to."""
    least = min(rows, MIN_TABLE_ROWS, max(1, height - 4))
    return max(least, min(rows, height - 2 - other_lines - 1))


def _balance_lines(queue_map: QueueMap, width: int, glyphs: Glyphs, age: str) -> list[SpanLine]:
    level, sentence = balance(queue_map)
    if not sentence:
        return []
    sentence = sentence.replace(BALANCE_LABEL, _dated(BALANCE_LABEL, age), 1)
    if level != "uneven":
        return [one_line(_without_remark(glyphs.encode(sentence), width - 2), width, "")]
    text = glyphs.encode(f"{glyphs.warning} {sentence}")
    return [one_line(_without_remark(text, width - 2), width, "warn")]


def _cpu_notes(rows: Sequence[QueueRow], snapshot: Snapshot, width: int) -> list[SpanLine]:
    """What the column of the CPUs shows, and how old that is."""
    age = _inventory_age(snapshot)
    if any(row.has_moved for row in rows):
        return [one_line(moved_note(age), width, "warn")]
    if any(row.busy_cpus for row in rows):
        text = "on CPU: where interrupts were counted; else the affinity"
    elif any(row.loads for row in rows):
        text = "on CPU: no interrupts were counted, so the affinity"
    else:
        return []
    if age is not None:
        text += f", read {units.whole_seconds(age)} earlier"
    return [one_line(text, width, "dim")]


def _inventory_age(snapshot: Snapshot) -> float | None:
    """Seconds between the reading of the inventory and that of the counters; None: not both are
    known."""
    if snapshot.inventory is None or snapshot.counters is None:
        return None
    return max(0.0, snapshot.counters.time - snapshot.inventory.time)


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
    matrix_rows = [*_own_rows(rows), *_shared_rows(rows)]
    if not matrix_rows:
        return [], None
    longest = max(len(row.name) for row in matrix_rows)
    return draw_matrix(
        _matrix_title(link),
        matrix_rows,
        known_cpus(snapshot),
        width,
        before,
        name_cells=min(longest, max(MIN_NAME_CELLS, width // 3)),
        glyphs=glyphs,
    )


def _matrix_title(link: Link) -> str:
    return f"interrupts/s of {clean(link.name)}: queue × CPU"


def _own_rows(rows: Sequence[QueueRow]) -> Iterator[MatrixRow]:
    """Of each queue, the interrupts that serve only it; nothing of a queue without any."""
    for row in rows:
        own = [load for load in row.loads if not load.interrupt.shared]
        if own:
            numbers = " ".join(str(load.interrupt.number) for load in own)
            sums = cpu_sums(load.cpus for load in own)
            yield MatrixRow(f"queue {row.queue:<2} IRQ {numbers}", row.interrupts, sums)


def _shared_rows(rows: Sequence[QueueRow]) -> list[MatrixRow]:
    """Each interrupt that serves several queues, once."""
    shared: dict[int, MatrixRow] = {}
    for row in rows:
        for load in row.loads:
            if load.interrupt.shared:
                name = f"all queues IRQ {load.interrupt.number}"
                shared[load.interrupt.number] = MatrixRow(name, load.per_second, load.cpus)
    return list(shared.values())


def _charts(
    row: QueueRow, trends: Trends[QueueKey], width: int, room: int, *, end: str, glyphs: Glyphs
) -> list[SpanLine]:
    """The last minute of the selected queue as a chart for each direction, in `room` rows;
    nothing when they are too few."""
    sides = _counted_sides(row)
    rows = min(room - 1, MAX_CHART_ROWS)
    if rows < MIN_CHART_ROWS or not sides or row.queue is None:
        return []
    half = width // len(sides)
    cells = half - CHART_SCALE_CELLS - 2
    if cells < MIN_TREND_CELLS:
        return []
    series = trends.cells([(side, row.queue) for side in sides], cells)
    blocks: list[list[SpanLine]] = []
    peaks: list[str] = []
    for side in sides:
        counts_packets = getattr(row, f"{side}_packets") is not None
        unit = "pps" if counts_packets else "b/s"
        peak = max(trends.peak([(side, row.queue)]), side_load(row, side) or 0.0)
        peaks.append(f"{side.upper()} {units.quantity(peak, unit)}")
        top = nice_ceiling(peak)
        scale = top, units.quantity(top, "")
        label, values = f"{side.upper()} {unit}", series[side, row.queue]
        blocks.append(
            minute_chart(
                values, rows, scale, label=label, style=STYLES[side], end=end, glyphs=glyphs
            )
        )
    title = f"queue {row.queue}: last 60 s (means; peak {', '.join(peaks)})"
    charts = blocks[0]
    if len(blocks) == 2:
        charts = beside(blocks[0], blocks[1], half)
    return [section_line(title, width), *charts]


def _counted_sides(row: QueueRow) -> list[TrendSide]:
    """The directions whose packets or bytes are known."""
    sides: list[TrendSide] = []
    if row.has_rx and side_load(row, "rx") is not None:
        sides.append("rx")
    if row.has_tx and side_load(row, "tx") is not None:
        sides.append("tx")
    return sides


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
        self,
        link: Link | None,
        snapshot: Snapshot,
        queue_map: QueueMap | None,
        parts: Sequence[Rates] = (),
        advice: QueueAdvice | None = None,
    ) -> None:
        """`queue_map`: of the link; `parts`: the rates of the last minute, oldest first."""
        self.advice = advice
        if link is None or self._link is None or link.ifindex != self._link.ifindex:
            self._heat, self._has_settled = None, False
            self.begin(None)
        self._link, self._queue_map = link, queue_map
        if link is None or queue_map is None:
            self._snapshot, self._targets, self.count_text = None, {}, ""
            self.show_lines(self._lines_without_link(snapshot))
            return
        plan = queue_plan(link, snapshot.inventory)
        self._trends.update(parts, plan, partial(queue_rates, plan, link.ifindex))
        self._snapshot, self._busiest = snapshot, queue_map.busiest
        rows = shown_rows(queue_map, self._trends, unfold=self.unfold, wanted=self.filter)
        self.count_text = f"{len(rows)} of {len(queue_map.rows)}"
        self.set_keys([str(row.queue) for row in rows])
        self.redraw()

    def _lines_without_link(self, snapshot: Snapshot) -> list[SpanLine]:
        lines = self.waiting(self._cells)
        if not lines:
            lines = [((f" {self.glyphs.encode(no_link_text(snapshot, self.key_label))}", "dim"),)]
        return [
            nic_line(None, (), self._cells, self.glyphs),
            *lines,
            *interface_lines(snapshot, self._cells, self.glyphs),
        ]

    def first_choice(self) -> int:
        """The busiest queue when that is known for the first time; then it stays."""
        if self._has_settled or self._busiest is None:
            return super().first_choice()
        self._has_settled = True
        busiest = str(self._busiest)
        if busiest not in self._keys:
            return 0
        return self._keys.index(busiest)

    def draw_page(self, **common: Any) -> NicPage:
        assert self._link is not None
        return draw_queues(
            self._link,
            unfold=self.unfold,
            wanted=self.filter,
            advice=self.advice,
            age=self.age_text(),
            **common,
        )
