"""Which CPU carries the load: every CPU with its last minute, its interrupts of the chosen NIC,
network threads, and virtual machines.

 ens256 ◂▸ virtio_net · 9 interrupts · 8.12 k/s
  CPU busy user sys irq   soft steal  IRQ/s net pkt/s    sqz   drop -60 s    now
    3  50%    0   6   0     44     0 1.37 k    2.21 k   20.0      0 ▅▅▅▅▆▅▅▅▅▅▅▅
── interrupts/s of ens256 on CPU 3 ──
 57: rx 3  virtio2-input.3    685   ██████
── Top network threads ──
 ksoftirqd/3 10 %   ksoftirqd/1 10 %
── interrupts/s of ens256: interrupt × CPU ──

With more than `MAX_TABLE_CPUS` CPUs a heat map takes the place of the table: two CPUs for each of
its lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.color import Color
from rich.style import Style

from nictop.model.columns.cpus import CpuRow, cpu_rows
from nictop.model.queues.filters import CPU_FIELDS, NumberFilter, number_filter
from nictop.model.queues.heatmap import Heatmap
from nictop.model.queues.map import InterruptLoad, QueueMap
from nictop.model.queues.trends import Trends, cpu_busy
from nictop.model.rates.links import Rates
from nictop.model.rates.load import MachineInterruptRate
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.words import count_noun
from nictop.probe.light_dataclasses import dataclass, replace
from nictop.probe.records import Link
from nictop.tui.keys import KeyLabels, default_label
from nictop.tui.widgets.base.filter_line import no_matches
from nictop.tui.widgets.base.line_widget import SpanLine, section_line
from nictop.tui.widgets.charts.plot import NOW
from nictop.tui.widgets.cpu.cpu_block import (
    MAX_TABLE_CPUS,
    MIN_STRIP_CELLS,
    MIN_TABLE_ROWS,
    WIDE_CELLS,
    CpuBlock,
    draw_cpu_map,
    draw_cpu_table,
)
from nictop.tui.widgets.cpu.interrupts import (
    draw_heat,
    draw_machine,
    draw_vectors,
    heat_cells,
    interrupts_by_cpu,
    link_interrupts,
    no_interrupts_text,
)
from nictop.tui.widgets.cpu.matrix import known_cpus
from nictop.tui.widgets.cpu.nic_view import (
    CHART_SCALE_CELLS,
    NicPage,
    NicView,
    beside,
    driver_text,
    minute_chart,
    nic_line,
    no_link_text,
)
from nictop.tui.widgets.cpu.threads import draw_threads

MIN_LEFT_CELLS = 44
"""Cells that interrupts of a CPU and threads need beside the matrix."""
MIN_CHART_CELLS, MIN_CHART_ROWS, MAX_CHART_ROWS = 28, 4, 30
MIN_BELOW_ROWS = 2
"""Of the interrupts of a CPU and the threads, in a pane that is too low for all of them."""
ALL_CPUS = NumberFilter[CpuRow]()


def draw_charts(
    rates: Rates,
    trends: Trends[int],
    selected: int | None,
    width: int,
    room: int,
    *,
    end: str = NOW,
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The busy share over the last minute as charts in `room` lines: of every CPU where they fit,
    else of the selected one; nothing when the lines are too few."""
    cpus = sorted(rates.cpus)
    if not cpus:
        return []
    per_line = max(1, min(len(cpus), width // MIN_CHART_CELLS))
    rows = min(MAX_CHART_ROWS, (room - 1) // -(-len(cpus) // per_line))
    if rows < MIN_CHART_ROWS:
        cpus = [cpu for cpu in cpus if cpu == selected]
        per_line, rows = 1, min(MAX_CHART_ROWS, room - 1)
    chart_cells = width // per_line
    cells = chart_cells - CHART_SCALE_CELLS - 2
    if rows < MIN_CHART_ROWS or cells < MIN_STRIP_CELLS or not cpus:
        return []
    series = trends.cells(cpus, cells)
    lines: list[SpanLine] = [section_line("CPU busy: last 60 s (means)", width)]
    for first in range(0, len(cpus), per_line):
        block: list[SpanLine] = []
        for place, cpu in enumerate(cpus[first : first + per_line]):
            label = f"CPU {cpu}"
            chart = minute_chart(
                *(series[cpu], rows, (1.0, "100 %")),
                label=label,
                style="in",
                end=end,
                glyphs=glyphs,
            )
            block = beside(block, chart, place * chart_cells) if place else chart
        lines += block
    return lines


@dataclass(frozen=True)
class CpuLayout:
    """How the blocks below the table share the cells."""

    width: int
    is_wide: bool
    """Interrupts and threads stand beside each other, or beside the matrix."""
    has_matrix_beside: bool
    left: int
    """Cells of the left column."""

    @property
    def text_cells(self) -> int:
        """Of interrupts and threads."""
        return self.left - 1 if self.is_wide else self.width

    @property
    def matrix_cells(self) -> int:
        return self.width - self.left if self.has_matrix_beside else self.width


def _layout(loads: Sequence[tuple[str, InterruptLoad]], cpus: int, width: int) -> CpuLayout:
    """The matrix is at the right where it fits there with all its numbers."""
    is_wide = width >= WIDE_CELLS
    half = width // 2
    left = min(half, width - heat_cells(loads, cpus, width))
    if is_wide and loads and left >= MIN_LEFT_CELLS:
        return CpuLayout(width, is_wide, has_matrix_beside=True, left=left)
    return CpuLayout(width, is_wide, has_matrix_beside=False, left=half)


def _with_cpus_of(
    wanted: NumberFilter[CpuRow], snapshot: Snapshot, by_cpu: Mapping[int, float] | None
) -> Snapshot:
    """The snapshot with only those CPUs that the filter accepts."""
    rates = snapshot.rates
    if rates is None or not wanted.tests:
        return snapshot
    accepted = {row.cpu: row.shares for row in cpu_rows(rates, by_cpu) if wanted.accepts(row)}
    return replace(snapshot, rates=replace(rates, cpus=accepted))


def _number_of_cpus(snapshot: Snapshot) -> int:
    return len(known_cpus(snapshot))


def draw_cpus(
    link: Link | None,
    snapshot: Snapshot,
    width: int,
    height: int,
    trends: Trends[int],
    *,
    queue_map: QueueMap | None,
    selected: int | None = None,
    wanted: NumberFilter[CpuRow] = ALL_CPUS,
    before: Heatmap | None = None,
    has_machine: bool = False,
    has_colors: bool = True,
    labels: KeyLabels = default_label,
    end: str = NOW,
    glyphs: Glyphs = UNICODE,
) -> NicPage:
    """All CPUs and the details of the selected one; the matrix and the interrupts of the host
    may go beyond `height`. `queue_map`: of the link."""
    loads = link_interrupts(queue_map)
    by_cpu = interrupts_by_cpu(loads)
    head = nic_line(link, _nic_facts(link, loads, by_cpu, snapshot), width, glyphs)
    filtered = _with_cpus_of(wanted, snapshot, by_cpu)
    if _number_of_cpus(snapshot) and not _number_of_cpus(filtered):
        return NicPage([head, ((f" {no_matches(labels)}", "dim"),)], None, {}, None)
    layout = _layout(loads, _number_of_cpus(snapshot), width)
    absent = no_interrupts_text(link, snapshot)
    if link is None:
        absent = glyphs.encode(no_link_text(snapshot, labels))
    vectors = draw_vectors(link, loads, selected, layout.text_cells, absent=absent, glyphs=glyphs)
    threads = draw_threads(snapshot, layout.text_cells, one_per_line=layout.is_wide)
    matrix, heat = draw_heat(link, loads, snapshot, layout.matrix_cells, before, glyphs=glyphs)
    below = MIN_BELOW_ROWS
    if height > 2 * MIN_TABLE_ROWS + 2:
        below = len(vectors) + len(threads)
    block = _cpu_block(
        filtered,
        by_cpu,
        trends,
        width=width,
        height=height - 1 - below,
        selected=selected,
        has_colors=has_colors,
        end=end,
        glyphs=glyphs,
    )
    lines = [head, *block.lines, *_arranged(vectors, threads, matrix, layout)]
    if layout.has_matrix_beside:
        matrix = []
    if has_machine:
        lines += draw_machine(_machine_rates(filtered), width)
    elif filtered.rates is not None:
        free = height - len(lines) - len(matrix)
        lines += draw_charts(filtered.rates, trends, selected, width, free, end=end, glyphs=glyphs)
    targets = {line + 1: columns for line, columns in block.targets.items()}
    cursor = None if block.cursor is None else block.cursor + 1
    return NicPage([*lines, *matrix], cursor, targets, heat)


def _arranged(
    vectors: Sequence[SpanLine],
    threads: Sequence[SpanLine],
    matrix: Sequence[SpanLine],
    layout: CpuLayout,
) -> list[SpanLine]:
    """Interrupts of the selected CPU and threads, and the matrix where it is beside them."""
    if layout.has_matrix_beside:
        return beside([*vectors, *threads], matrix, layout.left)
    if layout.is_wide:
        return beside(vectors, threads, layout.left)
    return [*vectors, *threads]


def _machine_rates(snapshot: Snapshot) -> Sequence[MachineInterruptRate]:
    return () if snapshot.rates is None else snapshot.rates.machine


def _cpu_block(
    snapshot: Snapshot,
    by_cpu: Mapping[int, float] | None,
    trends: Trends[int],
    *,
    width: int,
    height: int,
    selected: int | None,
    has_colors: bool,
    end: str,
    glyphs: Glyphs,
) -> CpuBlock:
    """A table; a heat map where that would be too long."""
    if _number_of_cpus(snapshot) > MAX_TABLE_CPUS:
        return draw_cpu_map(
            snapshot,
            by_cpu,
            trends,
            width=width,
            height=height,
            selected=selected,
            has_colors=has_colors,
            glyphs=glyphs,
        )
    return draw_cpu_table(
        snapshot.rates,
        by_cpu,
        trends,
        width=width,
        height=height,
        selected=selected,
        end=end,
        glyphs=glyphs,
    )


def _nic_facts(
    link: Link | None,
    loads: Sequence[tuple[str, InterruptLoad]],
    by_cpu: Mapping[int, float] | None,
    snapshot: Snapshot,
) -> list[str]:
    """Driver, number of interrupts, their rate and the CPUs that they go to."""
    if link is None:
        return []
    driver = driver_text(link, snapshot)
    if not loads:
        return [driver, no_interrupts_text(link, snapshot)]
    facts = [driver, count_noun(len(loads), "interrupt")]
    if by_cpu is not None:
        rate = units.per_second(sum(by_cpu.values()))
        facts.append(f"{rate} on {count_noun(len(by_cpu), 'CPU')}")
    return facts


class CpuView(NicView[int]):
    """`draw_cpus`; up and down select a CPU."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.machine = False
        """Whether all interrupts of the host are listed too."""
        self.filter = ALL_CPUS
        self.count_text = ""
        """``3 of 128``: CPUs that the filter accepts."""

    def set_filter(self, text: str) -> None:
        """Takes effect at the next `show`."""
        self.filter = number_filter(text, CPU_FIELDS)

    def show(
        self,
        link: Link | None,
        snapshot: Snapshot,
        queue_map: QueueMap | None,
        parts: Sequence[Rates] = (),
    ) -> None:
        """`queue_map`: of the link; `parts`: the rates of the last minute, oldest first."""
        if _ifindex(link) != _ifindex(self._link):
            self._heat = None
        self._link, self._snapshot, self._queue_map = link, snapshot, queue_map
        self._trends.update(parts, None, cpu_busy)
        rows = self._rows(snapshot.rates)
        accepted = [row for row in rows if self.filter.accepts(row)]
        self.count_text = f"{len(accepted)} of {len(rows)}"
        self.set_keys([str(row.cpu) for row in accepted])
        self.redraw()

    def _rows(self, rates: Rates | None) -> Sequence[CpuRow]:
        """All CPUs; with their interrupts of the link, where a filter asks for them."""
        if rates is None:
            return ()
        by_cpu = None
        if self.filter.tests:
            by_cpu = self._interrupts_by_cpu()
        return cpu_rows(rates, by_cpu)

    def _interrupts_by_cpu(self) -> Mapping[int, float] | None:
        """Those of the link."""
        return interrupts_by_cpu(link_interrupts(self._queue_map))

    def first_choice(self) -> int:
        """The CPU that takes most interrupts of the NIC, when there are some for the first time;
        then it stays."""
        if self._has_settled:
            return super().first_choice()
        by_cpu = self._interrupts_by_cpu()
        if not by_cpu:
            return super().first_choice()
        busiest = str(max(by_cpu, key=lambda cpu: by_cpu[cpu]))
        if busiest not in self._keys:
            return super().first_choice()
        self._has_settled = True
        return self._keys.index(busiest)

    def draw_page(self, **common: Any) -> NicPage:
        if self._link is None and common["snapshot"].rates is None:
            waiting = self.waiting(self._cells)
            if waiting:
                head = nic_line(None, (), self._cells, self.glyphs)
                return NicPage([head, *waiting], None, {}, None)
        return draw_cpus(
            self._link,
            wanted=self.filter,
            has_machine=self.machine,
            has_colors=not self.app.no_color,
            **common,
        )

    def _look_up(self, name: str) -> Style:
        """Also two styles in one cell: ``heat3 heat1`` is a half block of the one above the
        other."""
        upper, blank, lower = name.partition(" ")
        if not blank:
            return super()._look_up(name)
        return Style(color=self._half_color(upper), bgcolor=self._half_color(lower))

    def _half_color(self, name: str) -> Color | None:
        """That of one half of a cell; "": as what is behind it."""
        if not name:
            return self.rich_style.bgcolor
        return self._style(name).color


def _ifindex(link: Link | None) -> int | None:
    return None if link is None else link.ifindex
