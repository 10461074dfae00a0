"""All CPUs: a table with the last minute of each, or a heat map of it (more than `MAX_TABLE_CPUS`
CPUs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from nictop.model.columns.column import Column, fit_columns, no_value
from nictop.model.columns.cpus import COLUMNS, CpuRow, cpu_rows
from nictop.model.facts import fit
from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.model.queues.trends import Trends
from nictop.model.rates.links import Rates
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.light_dataclasses import dataclass
from nictop.tui.widgets.base.line_widget import Span, SpanLine, cut_spans
from nictop.tui.widgets.base.table_line import cell_spans, columns_cells, headings
from nictop.tui.widgets.charts.plot import HISTORY_SECONDS, NOW, time_axis
from nictop.tui.widgets.cpu.strip import SATURATED

MAX_TABLE_CPUS = 32
"""Up to so many CPUs each has a line of the table; beyond, the heat map shows all of them."""
WIDE_CELLS = 110
MIN_STRIP_CELLS, WIDE_STRIP_CELLS, MAX_STRIP_CELLS = 10, 40, 60
"""Cells of the last minute behind the table."""
HEAT: Column[CpuRow] = Column(
    "heat", "last 60 s", "%", 0, 1, "left", no_value, source="busy over the last 60 s (/proc/stat)"
)
"""Behind the columns, in the cells that are left."""
MIN_MAP_CELLS = 12
"""Cells of the last minute in one column of the heat map."""
MIN_TABLE_ROWS = 4
HEAT_LIMITS = (0.05, 0.25, 0.5, SATURATED)
"""Busy shares from which on a cell of the heat map has the next style of `HEAT_STYLES`."""
HEAT_STYLES = ("heat0", "heat1", "heat2", "heat3", "heat4")


@dataclass(frozen=True, eq=False)
class CpuBlock:
    """Lines of the CPUs."""

    lines: list[SpanLine]
    cursor: int | None
    """Line of the selected CPU; None: it is marked in its line."""
    targets: dict[int, list[tuple[int, str]]]
    """Line → (first cell, CPU)."""


def draw_cpu_table(
    rates: Rates | None,
    interrupts: Mapping[int, float] | None,
    trends: Trends[int],
    *,
    width: int,
    height: int,
    selected: int | None,
    end: str = NOW,
    glyphs: Glyphs = UNICODE,
) -> CpuBlock:
    """The CPUs in at most `height` rows, the selected one among them: where the time of each goes
    (per cent), and the last minute. `end`: of it, see `time_axis`."""
    if rates is None or not rates.cpus:
        return CpuBlock([((" no rates yet", "dim"),)], None, {})
    least_strip = WIDE_STRIP_CELLS if width >= WIDE_CELLS else MIN_STRIP_CELLS
    columns = fit_columns(COLUMNS, max(min(width, 41) - 1, width - least_strip - 3))
    strip = _strip_cells(columns, width)
    rows = cpu_rows(rates, interrupts)
    cpus = [row.cpu for row in rows]
    cells = trends.cells(cpus, strip)
    titles = " " + headings(columns)
    if strip:
        axis = time_axis(strip, HISTORY_SECONDS, end)
        has_begin = axis.startswith("-")
        titles += "  " + (axis if has_begin else HEAT.title)
    lines: list[SpanLine] = [((titles, "dim"),)]
    index = 0
    if selected in cpus:
        index = cpus.index(selected)
    visible = max(MIN_TABLE_ROWS, min(len(rows), height - 1))
    first = max(0, min(index - visible // 2, len(rows) - visible))
    targets: dict[int, list[tuple[int, str]]] = {}
    for row in rows[first : first + visible]:
        targets[len(lines)] = [(0, str(row.cpu))]
        spans: list[Span] = [(" ", ""), *cell_spans(columns, row, glyphs)]
        if strip:
            spans += [("  ", ""), *_strip_spans(cells[row.cpu], glyphs)]
        lines.append(tuple(spans))
    return CpuBlock(lines, 1 + index - first, targets)


def _strip_cells(columns: Sequence[Column[CpuRow]], width: int) -> int:
    """Of the last minute behind the columns; 0: there is no room for it."""
    strip = min(MAX_STRIP_CELLS, width - columns_cells(columns) - 3)
    if strip < MIN_STRIP_CELLS:
        return 0
    return strip


def _strip_spans(values: Sequence[float | None], glyphs: Glyphs) -> list[Span]:
    """One cell for each share: its height, and its style where the CPU is saturated."""
    levels = glyphs.levels
    marks = []
    for value in values:
        if value is None:
            marks.append((" ", ""))
        elif value < 0.005:
            marks.append((glyphs.zero, "dim"))
        else:
            level = max(1, min(len(levels) - 1, round(value * (len(levels) - 1))))
            marks.append((levels[level], "bad" if value >= SATURATED else "in"))
    return _merged(marks)


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Neighbours of the same style as one span."""
    found: list[Span] = []
    for text, style in spans:
        if found and found[-1][1] == style:
            found[-1] = (found[-1][0] + text, style)
        else:
            found.append((text, style))
    return found


@dataclass(frozen=True)
class MapShape:
    """How the CPUs are divided over the heat map."""

    entries: list[str | list[int]]
    """Lines: names of nodes, and the CPUs of a line."""
    per_half: int
    """CPUs in the upper half of a cell, and in the lower one."""
    columns: int
    label: int
    """Cells before the last minute: the mark, the CPUs, a blank."""
    cells: int
    """Of the last minute."""

    @property
    def rows(self) -> int:
        return -(-len(self.entries) // self.columns)

    @property
    def block(self) -> int:
        """Cells of a column."""
        return self.label + self.cells + 1


def _map_shape(nodes: Sequence[tuple[str, list[int]]], width: int, rows: int) -> MapShape:
    """So many CPUs in a cell that all of them fit into `rows` rows."""
    cpus = list(chain.from_iterable(members for _, members in nodes))
    label = 2 * len(str(max(cpus))) + 3
    most_columns = max(1, width // (label + MIN_MAP_CELLS + 1))
    per_half = 1
    entries = _map_entries(nodes, 2)
    while -(-len(entries) // rows) > most_columns and per_half < len(cpus):
        per_half *= 2
        entries = _map_entries(nodes, 2 * per_half)
    columns = -(-len(entries) // rows)
    cells = min(MAX_STRIP_CELLS, width // columns - label - 1)
    return MapShape(entries, per_half, columns, label, cells)


def draw_cpu_map(
    snapshot: Snapshot,
    interrupts: Mapping[int, float] | None,
    trends: Trends[int],
    *,
    width: int,
    height: int,
    selected: int | None,
    has_colors: bool = True,
    glyphs: Glyphs = UNICODE,
) -> CpuBlock:
    """The selected CPU in numbers, then all of them over the last minute in at most `height` rows:
    several columns of lines, in each cell two CPUs (or groups of them, of which it is the busiest)
    one above the other; without colours the busier of both. A line names each NUMA node."""
    assert snapshot.rates is not None, "without rates there are no CPUs to show"
    rows = {row.cpu: row for row in cpu_rows(snapshot.rates, interrupts)}
    chosen = next(iter(rows.values()))
    if selected in rows:
        chosen = rows[selected]
    columns = fit_columns(COLUMNS, width - 1)
    lines: list[SpanLine] = [
        ((" " + headings(columns), "dim"),),
        ((glyphs.cursor, "title"), *cell_spans(columns, chosen, glyphs)),
    ]
    shape = _map_shape(_nodes(snapshot, sorted(rows)), width, max(2, height - len(lines) - 1))
    shares = trends.cells(sorted(rows), shape.cells)
    per_line = min(2 * shape.per_half, len(rows))
    lines.append(_busiest_line(rows, per_line, width))
    top = len(lines)
    targets: dict[int, list[tuple[int, str]]] = {}
    for number in range(shape.rows):
        spans: list[Span] = []
        for place, entry in enumerate(shape.entries[number :: shape.rows]):
            if isinstance(entry, str):
                spans.append((fit(f" {entry}", shape.block), "title"))
                continue
            spans.append(_map_label(entry, chosen.cpu, shape.label, glyphs))
            halves = (entry[: shape.per_half], entry[shape.per_half :])
            spans += _map_cells(halves, shares, shape.cells, has_colors=has_colors, glyphs=glyphs)
            spans.append((" ", ""))
            targets.setdefault(top + number, []).append((place * shape.block, str(entry[0])))
        lines.append(tuple(spans))
    return CpuBlock(lines, None, targets)


def _busiest_line(rows: Mapping[int, CpuRow], per_line: int, width: int) -> SpanLine:
    """Which CPU is the busiest, and what is drawn below."""
    hottest = max(rows.values(), key=lambda row: row.shares.busy)
    style = "bad" if hottest.shares.busy >= SATURATED else ""
    spans: list[Span] = [
        (f" busiest: CPU {hottest.cpu} ", "dim"),
        (f"{100 * hottest.shares.busy:.0f} %", style),
        (f"; last 60 s of {len(rows)} CPUs, {per_line} in each line", "dim"),
    ]
    return tuple(cut_spans(spans, width))


def _map_label(cpus: Sequence[int], chosen: int, cells: int, glyphs: Glyphs) -> Span:
    """The CPUs of a line, with a mark before those of which one is selected."""
    text = str(cpus[0])
    if len(cpus) > 1:
        text += f"-{cpus[-1]}"
    if chosen in cpus:
        return f"{glyphs.cursor}{text:>{cells - 2}} ", "title"
    return f" {text:>{cells - 2}} ", "dim"


def _nodes(snapshot: Snapshot, cpus: Sequence[int]) -> list[tuple[str, list[int]]]:
    """(name, CPUs) of each NUMA node; a single one without a name."""
    known: Mapping[int, str] = {}
    if snapshot.inventory is not None:
        known = snapshot.inventory.platform.node_cpus
    found = []
    left = set(cpus)
    for node, text in sorted(known.items()):
        members = [cpu for cpu in parse_cpu_list(text) or () if cpu in left]
        left.difference_update(members)
        if members:
            found.append((f"node {node}", members))
    if len(found) < 2:
        return [("", list(cpus))]
    if left:
        found.append(("no node", sorted(left)))
    return found


def _map_entries(nodes: Sequence[tuple[str, list[int]]], size: int) -> list[str | list[int]]:
    """Lines of the heat map: names of nodes, and the CPUs of a line."""
    entries: list[str | list[int]] = []
    for name, cpus in nodes:
        if name:
            entries.append(name)
        entries += [cpus[first : first + size] for first in range(0, len(cpus), size)]
    return entries


def _map_cells(
    halves: tuple[list[int], list[int]],
    shares: Mapping[int, Sequence[float | None]],
    cells: int,
    *,
    has_colors: bool,
    glyphs: Glyphs,
) -> list[Span]:
    upper = _highest([shares[cpu] for cpu in halves[0]], cells)
    lower = _highest([shares[cpu] for cpu in halves[1]], cells)
    if glyphs.is_ascii or not has_colors:
        return _strip_spans(_highest([upper, lower], cells), glyphs)
    spans = []
    for above, below in zip(upper, lower, strict=True):
        if above is None and below is None:
            spans.append((" ", ""))
        else:
            spans.append((glyphs.upper_flow, f"{_heat_style(above)} {_heat_style(below)}"))
    return _merged(spans)


def _highest(series: Sequence[Sequence[float | None]], cells: int) -> Sequence[float | None]:
    if len(series) == 1:
        return series[0]
    found: list[float | None] = []
    for number in range(cells):
        known = [value for values in series if (value := values[number]) is not None]
        found.append(max(known, default=None))
    return found


def _heat_style(share: float | None) -> str:
    if share is None:
        return ""
    return HEAT_STYLES[sum(share >= limit for limit in HEAT_LIMITS)]
