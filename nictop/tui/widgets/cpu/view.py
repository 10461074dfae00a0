"""Which CPU carries the load: interrupts of the chosen NIC by queue and CPU, then every CPU, then who spends it.

Interrupts of ens224 per second: vector × CPU
                     0     1     2     3
 rx 0  ens224-rx-0   12 k  ·     ·     ·
CPU   busy   irq  softirq  steal  NET_RX  NET_TX  packets  dropped  squeezed  RPS  flow limit
  0   98 %   1 %   92 % ✖    0 %   12 k     3      12 k       0        4       0       0
Who spends it
 alma-load-001   vCPUs 95 %  rest 12 %  vhost 40 %
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.columns.column import fit_columns
from nictop.model.columns.cpus import COLUMNS, cpu_rows
from nictop.model.facts import clean, fit
from nictop.model.queues.cpu_consumers import CpuConsumer, cpu_consumers
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.queues.heatmap import Heatmap, fold_heatmap
from nictop.model.queues.map import InterruptLoad, QueueMap, queue_map
from nictop.model.rates.load import MachineInterruptRate
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.probe.records import Link
from nictop.tui.widgets.base.line_view import LineView, Span, SpanLine, section_line
from nictop.tui.widgets.base.table_line import cell_spans, headings

NAME_WIDTH = 30
LEAD_CELLS = 1 + NAME_WIDTH + 1 + units.SCALED_WIDTH + 1
"""Cells before the first CPU: what the interrupt serves, and its rate over all CPUs."""
NUMBER_WIDTH = 7
MARK_WIDTH = 4
"""Cells per CPU: with the number while all CPUs fit so, else with a mark."""
MAX_CONSUMER_ROWS = 12


def draw_cpu_table(snapshot: Snapshot, width: int) -> list[SpanLine]:
    """Every online CPU: where its time goes (per cent), and what its network softirqs do (per second)."""
    rates = snapshot.rates
    if rates is None or not rates.cpus:
        return [((" no rates yet", "dim"),)]
    columns = fit_columns(COLUMNS, width)
    lines: list[SpanLine] = [section_line("Processors", width), ((headings(columns), "dim"),)]
    return lines + [tuple(cell_spans(columns, row)) for row in cpu_rows(rates)]


# ---------------------------------------------------------------------------------------------- the heat picture


def draw_heat(
    link: Link | None, snapshot: Snapshot, width: int, before: Heatmap | None, *, glyphs: Glyphs = UNICODE
) -> tuple[list[SpanLine], Heatmap | None]:
    """Interrupts of the link per second, vector × CPU, and the heat map for the next call, which keeps its columns."""
    if link is None:
        return [], None
    plan = queue_map(link, snapshot)
    loads = _loads(plan)
    title = f"Interrupts of {clean(link.name)} per second: vector × CPU"
    if not loads:
        return [section_line(title, width), ((" no interrupts of its own", "dim"),)], None
    cpus = sorted(snapshot.rates.cpus) if snapshot.rates is not None else []
    rates = [load.cpus for _, load in loads]
    room = max(1, width - LEAD_CELLS)
    numbers = len(cpus) * NUMBER_WIDTH <= room
    heat = fold_heatmap(cpus, rates, room // (NUMBER_WIDTH if numbers else MARK_WIDTH), before)
    cells = NUMBER_WIDTH if numbers else MARK_WIDTH
    lines: list[SpanLine] = [section_line(title, width), *_heat_head(heat, cells, numbers)]
    for (name, load), row in zip(loads, heat.cells, strict=True):
        spans: list[Span] = [(f" {fit(name, NAME_WIDTH)} ", ""), (f"{units.scaled(load.per_second)} ", "title")]
        spans += [_heat_cell(value, heat.peak, cells, glyphs.heat, numbers) for value in row]
        lines.append(tuple(spans))
    return lines, heat


def _loads(plan: QueueMap) -> list[tuple[str, InterruptLoad]]:
    """Each interrupt once, with what it serves: queues by number, then the others."""
    seen: dict[int, tuple[str, InterruptLoad]] = {}
    for row in plan.rows:
        for load in row.loads:
            direction = {"rx": "rx ", "tx": "tx "}.get(load.interrupt.direction, "")
            lead = "all queues" if load.interrupt.shared else f"queue {direction}{row.queue}"
            seen.setdefault(load.interrupt.number, (f"{lead}  {clean(load.interrupt.name)}", load))
    for load in (*plan.others, *plan.unmapped):
        seen.setdefault(load.interrupt.number, (f"other  {clean(load.interrupt.name)}", load))
    return list(seen.values())


def _heat_head(heat: Heatmap, cells: int, numbers: bool) -> list[SpanLine]:
    """CPU ids over the columns, over the digits of numbers; a range has its first CPU above its last."""
    behind = "  " if numbers else ""
    cells -= len(behind)
    margin = (" " * LEAD_CELLS, "")
    first = "".join(f"{column.cpus[0]:>{cells}}{behind}" for column in heat.columns)
    if all(len(column.cpus) == 1 for column in heat.columns):
        return [(margin, (first, "title"))]
    last = "".join(
        f"-{column.cpus[-1]}".rjust(cells) if len(column.cpus) > 1 else " " * cells for column in heat.columns
    )
    return [(margin, (first, "title")), (margin, (last, "dim"))]


def _heat_cell(value: float, peak: float, cells: int, marks: str, numbers: bool) -> Span:
    share = value / peak if peak > 0 else 0.0
    style = "dim" if not value else "accent" if share > 0.8 else "warn" if share > 0.4 else "in"
    if numbers:
        return (units.scaled(value) if value else "·  ").rjust(cells), style
    level = 0 if not value else max(1, round(share * (len(marks) - 1)))
    return (marks[level] * (cells - 1)).rjust(cells), style


# ------------------------------------------------------------------------------------------------- who spends it


def draw_spenders(snapshot: Snapshot, width: int) -> list[SpanLine]:
    """Virtual machines and kernel threads that work on packets, the busiest first."""
    lines: list[SpanLine] = [section_line("Who spends it", width)]
    all_of_them = cpu_consumers(snapshot)
    busy = [one for one in all_of_them if one.total]
    if not busy:
        words = f"none of {len(all_of_them)} threads did anything" if all_of_them else "no packet threads seen"
        return [*lines, ((f" {words}", "dim"),)]
    lines += [_spender(one, snapshot) for one in busy[:MAX_CONSUMER_ROWS]]
    if len(busy) > MAX_CONSUMER_ROWS:
        lines.append(((f" and {len(busy) - MAX_CONSUMER_ROWS} more", "dim"),))
    return lines


def _spender(one: CpuConsumer, snapshot: Snapshot) -> SpanLine:
    spans: list[Span] = [(" " + fit(one.name, NAME_WIDTH), "title"), (f"{100 * (one.total or 0):5.0f} %  ", "")]
    if one.kind == "machine":
        parts = (("vCPUs", one.vcpu), ("rest", one.rest), ("vhost", one.vhost))
        spans.append(("  ".join(f"{name} {100 * share:.0f} %" for name, share in parts if share is not None), "dim"))
    else:
        spans.append((one.kind, "dim"))
    if one.cpus:
        spans.append((f"  on CPU {format_cpu_list(one.cpus)}", "dim"))
    names = [clean(snapshot.links[ifindex].name) for ifindex in one.links if ifindex in snapshot.links]
    if names:
        spans.append((f"  {', '.join(names)}", "accent"))
    return tuple(spans)


# --------------------------------------------------------------------------------------------- the whole machine


def draw_machine(rates: Sequence[MachineInterruptRate], width: int) -> list[SpanLine]:
    """Every line of /proc/interrupts that has counted, the busiest first."""
    lines: list[SpanLine] = [section_line("All interrupts of the machine", width)]
    moving = sorted((one for one in rates if one.total), key=lambda one: -one.total)
    if not moving:
        return [*lines, ((" none moved" if rates else " no rates yet", "dim"),)]
    for one in moving:
        busiest = max(one.cpus, key=lambda cpu: one.cpus[cpu])
        where = "" if busiest < 0 else f"CPU {busiest} {100 * one.cpus[busiest] / one.total:3.0f} %"
        spans = ((f" {one.label:>6} ", "title"), (units.scaled(one.total) + "  ", ""), (f"{where:<14}", "dim"))
        lines.append((*spans, (clean(one.description), "dim")))
    return lines


class ProcessorView(LineView):
    """Heat map of the chosen link, CPUs, CPU consumers and, on request, all interrupts of the machine."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._heat: Heatmap | None = None
        self._link: int | None = None
        self.machine = False
        """Whether all interrupts of the machine are listed too."""

    def show(self, link: Link | None, snapshot: Snapshot) -> None:
        width = self.scrollable_content_region.width
        ifindex = link.ifindex if link is not None else None
        before = self._heat if ifindex == self._link else None
        lines, self._heat = draw_heat(link, snapshot, width, before, glyphs=self.glyphs)
        self._link = ifindex
        lines += draw_cpu_table(snapshot, width) + draw_spenders(snapshot, width)
        if self.machine:
            lines += draw_machine(snapshot.rates.machine if snapshot.rates is not None else (), width)
        self.show_lines(lines)
