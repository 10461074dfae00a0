"""All CPUs: a table with the last minute of each, or a heat map of it (more than `MAX_TABLE_CPUS` CPUs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nictop.model.columns.column import Column, fit_columns, no_value
from nictop.model.columns.cpus import COLUMNS, CpuRow, cpu_rows
from nictop.model.facts import fit
from nictop.model.queues.cpu_lists import parse_cpu_list
from nictop.model.queues.trends import Trends
from nictop.model.rates.links import Rates
from nictop.model.snapshot import Snapshot
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.tui.widgets.base.line_view import Span, SpanLine, cut_spans
from nictop.tui.widgets.base.table_line import cell_spans, headings
from nictop.tui.widgets.cpu.strip import SATURATED

MAX_TABLE_CPUS = 32
"""Up to so many CPUs each has a line of the table; beyond, the heat map shows all of them."""
WIDE_CELLS = 110
MIN_STRIP_CELLS, WIDE_STRIP_CELLS, MAX_STRIP_CELLS = 10, 40, 60
"""Cells of the last minute behind the table."""
HEAT: Column[CpuRow] = Column(
    "heat", "-60 s now", "%", 0, 1, "left", no_value, source="busy over the last 60 s (/proc/stat)"
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
    glyphs: Glyphs = UNICODE,
) -> CpuBlock:
    """The CPUs in at most `height` rows, the selected one among them: where the time of each goes (per cent), and the
    last minute."""
    if rates is None or not rates.cpus:
        return CpuBlock([((" no rates yet", "dim"),)], None, {})
    wide = width >= WIDE_CELLS
    reserved = (WIDE_STRIP_CELLS if wide else MIN_STRIP_CELLS) + 2
    columns = fit_columns(COLUMNS, max(min(width, 41) - 1, width - reserved - 1))
    used = 1 + sum(column.width + 1 for column in columns)
    strip = min(MAX_STRIP_CELLS, width - used - 2)
    strip = strip if strip >= MIN_STRIP_CELLS else 0
    rows = cpu_rows(rates, interrupts)
    cells = trends.cells([row.cpu for row in rows], strip)
    axis = f"  {'-60 s':<{max(0, strip - 3)}}now" if strip else ""
    lines: list[SpanLine] = [((" " + headings(columns) + axis, "dim"),)]
    index = next((number for number, row in enumerate(rows) if row.cpu == selected), 0)
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
    """The selected CPU in numbers, then all of them over the last minute in at most `height` rows: several columns of
    lines, in each cell two CPUs (or groups of them, of which it is the busiest) one above the other; without colours
    the busier of both. A line names each NUMA node."""
    assert snapshot.rates is not None, "without rates there are no CPUs to show"
    rows = {row.cpu: row for row in cpu_rows(snapshot.rates, interrupts)}
    chosen = rows.get(selected if selected is not None else -1) or next(iter(rows.values()))
    columns = fit_columns(COLUMNS, width - 1)
    hottest = max(rows.values(), key=lambda row: row.shares.busy)
    lines: list[SpanLine] = [
        ((" " + headings(columns), "dim"),),
        ((glyphs.cursor, "title"), *cell_spans(columns, chosen, glyphs)),
    ]
    room = max(2, height - len(lines) - 1)
    label = 2 * len(str(max(rows))) + 3
    most_columns = max(1, width // (label + MIN_MAP_CELLS + 1))
    nodes = _nodes(snapshot, sorted(rows))
    per_half = 1
    while True:
        entries = _map_entries(nodes, 2 * per_half)
        if -(-len(entries) // room) <= most_columns or per_half >= len(rows):
            break
        per_half *= 2
    map_columns = -(-len(entries) // room)
    tall = -(-len(entries) // map_columns)
    cells = min(MAX_STRIP_CELLS, width // map_columns - label - 1)
    shares = trends.cells(sorted(rows), cells)
    targets: dict[int, list[tuple[int, str]]] = {}
    block = label + cells + 1
    is_hot = hottest.shares.busy >= SATURATED
    busy = f"{100 * hottest.shares.busy:.0f} %", "bad" if is_hot else ""
    text = f"; last 60 s of {len(rows)} CPUs, {min(2 * per_half, len(rows))} in each line"
    lines.append(tuple(cut_spans([(f" busiest now: CPU {hottest.cpu} ", "dim"), busy, (text, "dim")], width)))
    top = len(lines)
    for number in range(tall):
        spans: list[Span] = []
        for place in range(map_columns):
            index = place * tall + number
            if index >= len(entries):
                continue
            entry = entries[index]
            if isinstance(entry, str):
                spans.append((fit(f" {entry}", block), "title"))
                continue
            mark = glyphs.cursor if chosen.cpu in entry else " "
            text = str(entry[0]) if len(entry) == 1 else f"{entry[0]}-{entry[-1]}"
            spans.append((f"{mark}{text:>{label - 2}} ", "title" if chosen.cpu in entry else "dim"))
            halves = (entry[:per_half], entry[per_half:])
            spans += _map_cells(halves, shares, cells, has_colors=has_colors, glyphs=glyphs)
            spans.append((" ", ""))
            targets.setdefault(top + number, []).append((place * block, str(entry[0])))
        lines.append(tuple(spans))
    return CpuBlock(lines, None, targets)


def _nodes(snapshot: Snapshot, cpus: Sequence[int]) -> list[tuple[str, list[int]]]:
    """(name, CPUs) of each NUMA node; a single one without a name."""
    known = snapshot.inventory.platform.node_cpus if snapshot.inventory is not None else {}
    found = []
    left = set(cpus)
    for node, text in sorted(known.items()):
        members = [cpu for cpu in parse_cpu_list(text) or () if cpu in left]
        left.difference_update(members)
        if members:
            found.append((f"node {node}", members))
    if len(found) < 2:
        return [("", list(cpus))]
    return [*found, ("no node", sorted(left))] if left else found


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
    upper, lower = (_highest([shares[cpu] for cpu in half], cells) for half in halves)
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
        found.append(max(known) if known else None)
    return found


def _heat_style(share: float | None) -> str:
    if share is None:
        return ""
    return HEAT_STYLES[sum(share >= limit for limit in HEAT_LIMITS)]
