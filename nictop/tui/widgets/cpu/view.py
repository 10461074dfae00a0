"""Which CPU carries the load: every CPU with its last minute, its interrupts of the chosen NIC, and network threads.

 ens256 ◂▸ virtio_net · 9 interrupts · 8.12 k/s
  CPU busy user sys irq   soft steal  IRQ/s net pkt/s    sqz   drop -60 s    now
    3  50%    0   6   0     44     0 1.37 k    2.21 k   20.0      0 ▅▅▅▅▆▅▅▅▅▅▅▅
── interrupts/s of ens256 on CPU 3 ──
 57: rx 3  virtio2-input.3    685   ██████
── Top network threads ──
 ksoftirqd/3 10 %   ksoftirqd/1 10 %
── interrupts/s of ens256: interrupt × CPU ──

With more than `MAX_TABLE_CPUS` CPUs a heat map takes the place of the table: two CPUs for each of its lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.style import Style

from nictop.model.columns.cpus import CpuRow, cpu_rows
from nictop.model.facts import clean, fit
from nictop.model.facts.esxi import MAX_WAIT_SHARE
from nictop.model.queues.cpu_consumers import CpuConsumer, cpu_consumers
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.queues.filters import CPU_FIELDS, NumberFilter, number_filter
from nictop.model.queues.heatmap import Heatmap
from nictop.model.queues.map import InterruptLoad, QueueMap, queue_map
from nictop.model.queues.trends import Trends, cpu_busy
from nictop.model.rates.links import Rates
from nictop.model.rates.load import MachineInterruptRate
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.bars import bar
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import fit_middle
from nictop.model.text.words import NOT_READ_YET, absence_reason
from nictop.probe.records import Link
from nictop.tui.widgets.base.filter_line import NO_MATCHES
from nictop.tui.widgets.base.line_view import Span, SpanLine, section_line
from nictop.tui.widgets.cpu.cpu_block import (
    MAX_TABLE_CPUS,
    MIN_STRIP_CELLS,
    MIN_TABLE_ROWS,
    WIDE_CELLS,
    draw_cpu_map,
    draw_cpu_table,
)
from nictop.tui.widgets.cpu.matrix import MatrixRow, draw_matrix, number_cells
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

MIN_LEFT_CELLS = 44
"""Cells that interrupts of a CPU and threads need beside the matrix."""
MIN_CHART_CELLS, MIN_CHART_ROWS, MAX_CHART_ROWS = 28, 4, 30
NAME_CELLS = 30
MAX_VECTOR_ROWS = 8
"""Lines of interrupts of the selected CPU; the matrix has all."""
MAX_CONSUMER_ROWS, MAX_SHORT_CONSUMER_ROWS = 12, 2
CONSUMER_CELLS = 30
ALL_CPUS = NumberFilter[CpuRow]()


# ------------------------------------------------------------------------------------- interrupts of the chosen NIC


def link_interrupts(plan: QueueMap) -> list[tuple[str, InterruptLoad]]:
    """Each interrupt once, with its number and what it serves: queues by number, then the others."""
    seen: dict[int, tuple[str, InterruptLoad]] = {}
    for row in plan.rows:
        for load in row.loads:
            side = load.interrupt.direction if load.interrupt.direction in ("rx", "tx") else "q"
            lead = "all" if load.interrupt.shared else f"{side} {row.queue}"
            seen.setdefault(load.interrupt.number, (f"{lead:<5} {clean(load.interrupt.name)}", load))
    for load in (*plan.others, *plan.unmapped):
        seen.setdefault(load.interrupt.number, (f"other {clean(load.interrupt.name)}", load))
    cells = max((len(str(number)) for number in seen), default=0)
    return [(f"{number:>{cells}}: {name}", load) for number, (name, load) in seen.items()]


def interrupts_by_cpu(loads: Sequence[tuple[str, InterruptLoad]]) -> dict[int, float] | None:
    """CPU id → interrupts per second; None without any known rate."""
    known = [load for _, load in loads if load.per_second is not None]
    if not known:
        return None
    sums: dict[int, float] = {}
    for load in known:
        for cpu, rate in load.cpus.items():
            sums[cpu] = sums.get(cpu, 0.0) + rate
    return sums


def no_interrupts_text(snapshot: Snapshot) -> str:
    """Why a link has none: they were not read, or it has none of its own."""
    if snapshot.inventory is None:
        return f"interrupts {NOT_READ_YET}"
    why = snapshot.inventory.unreadable.get("interrupts")
    return "no dedicated interrupts" if why is None else f"interrupts {absence_reason(why, None)}"


def draw_vectors(
    link: Link | None,
    loads: Sequence[tuple[str, InterruptLoad]],
    cpu: int | None,
    width: int,
    *,
    absent: str = "no dedicated interrupts",
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The interrupts of the NIC that go to one CPU, with bars; two columns where they fit. `absent`: without any."""
    if link is None:
        return [((f" {absent}", "dim"),)]
    title = section_line(f"interrupts/s of {clean(link.name)} on CPU {units.UNKNOWN if cpu is None else cpu}", width)
    if not loads:
        return [title, ((f" {absent}", "dim"),)]
    taken = [
        (name, load.cpus.get(cpu, 0.0))
        for name, load in loads
        if cpu is not None and (cpu in load.cpus or cpu in (load.interrupt.effective or ()))
    ]
    if not taken:
        return [title, ((" none on this CPU", "dim"),)]
    top = max(rate for _, rate in taken)
    per_line = 2 if width >= 76 and len(taken) > 2 else 1
    number = len(taken)
    if number > MAX_VECTOR_ROWS * per_line:
        least = sorted((rate for _, rate in taken), reverse=True)[MAX_VECTOR_ROWS * per_line - 1]
        taken = [one for one in taken if one[1] >= least][: MAX_VECTOR_ROWS * per_line]
    cells = width // per_line
    names = min(NAME_CELLS, max(len(name) for name, _ in taken), max(8, cells - units.SCALED_WIDTH - 9))
    bars = max(0, min(24, cells - names - units.SCALED_WIDTH - 4))
    blocks: list[SpanLine] = [
        (
            (f" {fit_middle(name, names)} ", ""),
            (f"{units.scaled(rate)} ", "title"),
            (bar(rate / top if top else 0.0, bars, glyphs), "in"),
        )
        for name, rate in taken
    ]
    rows = -(-len(blocks) // per_line)
    lines = beside(blocks[:rows], blocks[rows:], cells) if per_line > 1 else blocks
    if number > len(blocks):
        lines.append(((f" {number - len(blocks)} more with lower rates", "dim"),))
    return [title, *lines]


def draw_heat(
    link: Link,
    loads: Sequence[tuple[str, InterruptLoad]],
    snapshot: Snapshot,
    width: int,
    before: Heatmap | None,
    *,
    glyphs: Glyphs = UNICODE,
) -> tuple[list[SpanLine], Heatmap | None]:
    """Interrupts of the link per second, interrupt × CPU, and the heat map for the next call, which keeps its
    columns."""
    if not loads:
        return [], None
    cpus = sorted(snapshot.rates.cpus) if snapshot.rates is not None else []
    rows = [MatrixRow(name, load.per_second, load.cpus) for name, load in loads]
    title = f"interrupts/s of {clean(link.name)}: interrupt × CPU"
    return draw_matrix(title, rows, cpus, width, before, name_cells=_name_cells(loads, width), glyphs=glyphs)


def _name_cells(loads: Sequence[tuple[str, InterruptLoad]], width: int) -> int:
    return min(NAME_CELLS, max((len(name) for name, _ in loads), default=0), max(8, 2 * width // 5))


# ------------------------------------------------------------------------------------------------------- threads


def draw_threads(snapshot: Snapshot, width: int, *, one_per_line: bool) -> list[SpanLine]:
    """Virtual machines and kernel threads that work on packets, the busiest first."""
    title = section_line("Top network threads", width)
    consumers = cpu_consumers(snapshot)
    if not consumers:
        return [title, ((f" {_no_threads_text(snapshot)}", "dim"),)]
    per_line = 1 if one_per_line else max(1, width // CONSUMER_CELLS)
    rows = min(-(-len(consumers) // per_line), MAX_CONSUMER_ROWS if one_per_line else MAX_SHORT_CONSUMER_ROWS)
    busy = [one for one in consumers if one.total]
    lines: list[SpanLine] = []
    if not busy:
        words = "1 thread, idle" if len(consumers) == 1 else f"{len(consumers)} threads, all idle"
        lines.append(((f" {words}", "dim"),))
    elif one_per_line:
        name_cells = min(NAME_CELLS, max(len(one.name) for one in busy[:rows]))
        lines += [_consumer(one, snapshot, name_cells) for one in busy[:rows]]
    else:
        for first in range(0, min(len(busy), rows * per_line), per_line):
            names = [_brief(one) for one in busy[first : first + per_line]]
            lines.append((("".join(fit(f" {name}", width // per_line) for name in names), ""),))
    return [title, *lines, *[((" ", ""),)] * (rows - len(lines))]  # the same height, whoever is busy


def _no_threads_text(snapshot: Snapshot) -> str:
    """They were not read, or there are none."""
    if snapshot.inventory is None:
        return f"threads {NOT_READ_YET}"
    why = snapshot.inventory.unreadable.get("threads")
    return "no network threads found" if why is None else f"threads {absence_reason(why, None)}"


def _brief(one: CpuConsumer) -> str:
    ready = "" if one.ready is None else f" ready {100 * one.ready:.1f} %"
    return f"{one.name} {100 * (one.total or 0):.0f} %{ready}"


def _consumer(one: CpuConsumer, snapshot: Snapshot, name_cells: int) -> SpanLine:
    spans: list[Span] = [(" " + fit(one.name, name_cells), "title"), (f"{100 * (one.total or 0):5.0f} %  ", "")]
    if one.kind == "machine":
        for name, share in (("ready", one.ready), ("co-stop", one.costop)):
            if share is not None:
                spans.append((f"{name} {100 * share:.1f} %  ", "warn" if share > MAX_WAIT_SHARE else "dim"))
        is_esxi = one.ready is not None
        parts = (("vCPUs", one.vcpu), ("rest", one.rest), ("vhost", None if is_esxi else one.vhost))
        spans.append(("  ".join(f"{name} {100 * share:.0f} %" for name, share in parts if share is not None), "dim"))
    else:
        spans.append((one.kind, "dim"))
    if one.cpus:
        spans.append((f"  on CPU {format_cpu_list(one.cpus)}", "dim"))
    names = [clean(snapshot.links[ifindex].name) for ifindex in one.links if ifindex in snapshot.links]
    if names:
        spans.append((f"  {', '.join(names)}", "accent"))
    return tuple(spans)


def draw_charts(
    rates: Rates, trends: Trends[int], selected: int | None, width: int, room: int, *, glyphs: Glyphs = UNICODE
) -> list[SpanLine]:
    """The busy share over the last minute as charts in `room` lines: of every CPU where they fit, else of the selected
    one; nothing when the lines are too few."""
    cpus = sorted(rates.cpus)
    per_line = max(1, min(len(cpus), width // MIN_CHART_CELLS))
    rows = min(MAX_CHART_ROWS, (room - 1) // -(-len(cpus) // per_line))
    if rows < MIN_CHART_ROWS:
        cpus, per_line, rows = [cpu for cpu in cpus if cpu == selected], 1, min(MAX_CHART_ROWS, room - 1)
    cells = width // per_line - CHART_SCALE_CELLS - 2
    if rows < MIN_CHART_ROWS or cells < MIN_STRIP_CELLS or not cpus:
        return []
    series = trends.cells(cpus, cells)
    lines: list[SpanLine] = [section_line("CPU busy: last 60 s", width)]
    for first in range(0, len(cpus), per_line):
        block: list[SpanLine] = []
        for place, cpu in enumerate(cpus[first : first + per_line]):
            chart = minute_chart(series[cpu], rows, (1.0, "100 %"), label=f"CPU {cpu}", style="in", glyphs=glyphs)
            block = beside(block, chart, place * (width // per_line)) if place else chart
        lines += block
    return lines


def draw_machine(rates: Sequence[MachineInterruptRate], width: int) -> list[SpanLine]:
    """Every line of /proc/interrupts that has counted, the busiest first."""
    lines: list[SpanLine] = [section_line("All interrupts of this host", width)]
    moving = sorted((one for one in rates if one.total), key=lambda one: -one.total)
    if not moving:
        return [*lines, ((" no interrupts" if rates else " no rates yet", "dim"),)]
    for one in moving:
        busiest = max(one.cpus, key=lambda cpu: one.cpus[cpu])
        where = "" if busiest < 0 else f"CPU {busiest} {100 * one.cpus[busiest] / one.total:3.0f} %"
        spans = ((f" {one.label:>6} ", "title"), (units.scaled(one.total) + "  ", ""), (f"{where:<14}", "dim"))
        lines.append((*spans, (clean(one.description), "dim")))
    return lines


# ------------------------------------------------------------------------------------------------------- the view


def draw_cpus(
    link: Link | None,
    snapshot: Snapshot,
    width: int,
    height: int,
    trends: Trends[int],
    *,
    selected: int | None = None,
    wanted: NumberFilter[CpuRow] = ALL_CPUS,
    before: Heatmap | None = None,
    has_machine: bool = False,
    has_colors: bool = True,
    glyphs: Glyphs = UNICODE,
) -> NicPage:
    """All CPUs and the details of the selected one; the matrix and the interrupts of the host may go beyond
    `height`."""
    rates = snapshot.rates
    loads = link_interrupts(queue_map(link, snapshot)) if link is not None else []
    by_cpu = interrupts_by_cpu(loads)
    lines: list[SpanLine] = [nic_line(link, _nic_facts(link, loads, by_cpu, snapshot), width, glyphs)]
    wide = width >= WIDE_CELLS
    left = min(width // 2, width - number_cells(_name_cells(loads, width), len(rates.cpus) if rates is not None else 0))
    is_beside = wide and bool(loads) and left >= MIN_LEFT_CELLS
    left = left if is_beside else width // 2
    absent = no_interrupts_text(snapshot) if link is not None else glyphs.encode(no_link_text(snapshot))
    vectors = draw_vectors(link, loads, selected, left - 1 if wide else width, absent=absent, glyphs=glyphs)
    threads = draw_threads(snapshot, left - 1 if wide else width, one_per_line=wide)
    matrix: list[SpanLine] = []
    heat: Heatmap | None = None
    if link is not None:
        matrix, heat = draw_heat(link, loads, snapshot, width - left if is_beside else width, before, glyphs=glyphs)
    room = height - 1 - (len(vectors) + len(threads) if height > 2 * MIN_TABLE_ROWS + 2 else 2)
    if rates is not None and wanted.tests:
        accepted = {row.cpu: row.shares for row in cpu_rows(rates, by_cpu) if wanted.accepts(row)}
        if rates.cpus and not accepted:
            return NicPage([*lines, ((NO_MATCHES, "dim"),)], None, {}, None)
        rates = replace(rates, cpus=accepted)
        snapshot = replace(snapshot, rates=rates)
    if rates is not None and len(rates.cpus) > MAX_TABLE_CPUS:
        block = draw_cpu_map(
            snapshot,
            by_cpu,
            trends,
            width=width,
            height=room,
            selected=selected,
            has_colors=has_colors,
            glyphs=glyphs,
        )
    else:
        block = draw_cpu_table(rates, by_cpu, trends, width=width, height=room, selected=selected, glyphs=glyphs)
    targets = {line + len(lines): found for line, found in block.targets.items()}
    cursor = None if block.cursor is None else block.cursor + len(lines)
    lines += block.lines
    if is_beside:
        lines += beside([*vectors, *threads], matrix, left)
        matrix = []
    elif wide:
        lines += beside(vectors, threads, left)
    else:
        lines += [*vectors, *threads]
    if rates is not None and rates.cpus and not has_machine:
        lines += draw_charts(rates, trends, selected, width, height - len(lines) - len(matrix), glyphs=glyphs)
    if has_machine:
        lines += draw_machine(rates.machine if rates is not None else (), width)
    return NicPage([*lines, *matrix], cursor, targets, heat)


def _nic_facts(
    link: Link | None,
    loads: Sequence[tuple[str, InterruptLoad]],
    by_cpu: Mapping[int, float] | None,
    snapshot: Snapshot,
) -> list[str]:
    if link is None:
        return []
    number, driver = len(loads), driver_text(link, snapshot)
    counted = f"{number} interrupt{'' if number == 1 else 's'}" if number else no_interrupts_text(snapshot)
    if by_cpu is None:
        return [driver, counted]
    cpus = f"on {len(by_cpu)} CPU{'' if len(by_cpu) == 1 else 's'}"
    return [driver, counted, f"{units.per_second(sum(by_cpu.values()))} {cpus}"]


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

    def show(self, link: Link | None, snapshot: Snapshot, parts: Sequence[Rates] = ()) -> None:
        """`parts`: the rates of the last minute, oldest first."""
        if (link and link.ifindex) != (self._link and self._link.ifindex):
            self._heat = None
        self._link, self._snapshot = link, snapshot
        self._trends.update(parts, None, cpu_busy)
        rows: Sequence[CpuRow] = ()
        if snapshot.rates is not None:
            loads = link_interrupts(queue_map(link, snapshot)) if link is not None and self.filter.tests else []
            rows = cpu_rows(snapshot.rates, interrupts_by_cpu(loads))
        accepted = [row for row in rows if self.filter.accepts(row)]
        self.count_text = f"{len(accepted)} of {len(rows)}"
        self.set_keys([str(row.cpu) for row in accepted])
        self.redraw()

    def first_choice(self) -> int:
        """The CPU that takes most interrupts of the NIC, when there are some for the first time; then it stays."""
        if self._has_settled or self._snapshot is None or self._link is None:
            return super().first_choice()
        by_cpu = interrupts_by_cpu(link_interrupts(queue_map(self._link, self._snapshot)))
        busiest = str(max(by_cpu, key=lambda cpu: by_cpu[cpu])) if by_cpu else ""
        if busiest not in self._keys:
            return super().first_choice()
        self._has_settled = True
        return self._keys.index(busiest)

    def draw_page(self, **common: Any) -> NicPage:
        snapshot = common["snapshot"]
        waiting = self.waiting(self._cells) if self._link is None and snapshot.rates is None else ()
        if waiting:
            return NicPage([nic_line(None, (), self._cells, self.glyphs), *waiting], None, {}, None)
        return draw_cpus(
            self._link,
            wanted=self.filter,
            has_machine=self.machine,
            has_colors=not self.app.no_color,
            **common,
        )

    def _look_up(self, name: str) -> Style:
        """Also two styles in one cell: ``heat3 heat1`` is a half block of the one above the other."""
        upper, blank, lower = name.partition(" ")
        if not blank:
            return super()._look_up(name)
        return Style(
            color=self._style(upper).color if upper else self.rich_style.bgcolor,
            bgcolor=self._style(lower).color if lower else self.rich_style.bgcolor,
        )
