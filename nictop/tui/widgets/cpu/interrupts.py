"""Interrupts on the view of the CPUs: those of the chosen NIC that go to one CPU, all of them as a
matrix, and every interrupt of the host. Pure.

── interrupts/s of ens256 on CPU 3 ──
 57: rx 3  virtio2-input.3    685   ██████
"""

from __future__ import annotations

from collections.abc import Sequence

from nictop.model.facts import clean
from nictop.model.queues.heatmap import Heatmap
from nictop.model.queues.map import InterruptLoad, QueueMap, QueueRow
from nictop.model.rates.load import MachineInterruptRate
from nictop.model.snapshot import Snapshot, is_unread_link
from nictop.model.text import units
from nictop.model.text.bars import bar
from nictop.model.text.glyphs import UNICODE, Glyphs
from nictop.model.text.terminal import fit_middle
from nictop.model.text.words import absence_reason
from nictop.probe.records import Link
from nictop.probe.records.unreadable import NOT_READ_YET
from nictop.tui.widgets.base.line_widget import SpanLine, section_line
from nictop.tui.widgets.cpu.matrix import MatrixRow, cpu_sums, draw_matrix, known_cpus, number_cells
from nictop.tui.widgets.cpu.nic_view import beside

NAME_CELLS = 30
MIN_TWO_COLUMN_CELLS = 76
"""From which on the interrupts of the selected CPU stand in two columns."""
MAX_VECTOR_ROWS = 8
"""Lines of interrupts of the selected CPU; the matrix has all."""


def link_interrupts(queue_map: QueueMap | None) -> list[tuple[str, InterruptLoad]]:
    """Each interrupt once, with its number and what it serves: queues by number, then the
    others. `queue_map`: None without a link."""
    named: dict[int, tuple[str, InterruptLoad]] = {}
    if queue_map is None:
        return []
    for row in queue_map.rows:
        for load in row.loads:
            name = f"{_served(load, row):<5} {clean(load.interrupt.name)}"
            named.setdefault(load.interrupt.number, (name, load))
    for load in (*queue_map.others, *queue_map.unmapped):
        named.setdefault(load.interrupt.number, (f"other {clean(load.interrupt.name)}", load))
    cells = max((len(str(number)) for number in named), default=0)
    return [(f"{number:>{cells}}: {name}", load) for number, (name, load) in named.items()]


def interrupts_by_cpu(loads: Sequence[tuple[str, InterruptLoad]]) -> dict[int, float] | None:
    """CPU id → interrupts per second; None without any known rate."""
    known = [load.cpus for _, load in loads if load.per_second is not None]
    if not known:
        return None
    return cpu_sums(known)


def no_interrupts_text(link: Link | None, snapshot: Snapshot) -> str:
    """Why a link has none: they were not read, or it has none of its own."""
    is_unread = link is not None and is_unread_link(link)
    if snapshot.inventory is None or is_unread:
        return f"interrupts {NOT_READ_YET}"
    why = snapshot.inventory.unreadable.get("interrupts")
    if why is not None:
        return f"interrupts {absence_reason(why, None)}"
    return "no dedicated interrupts"


def _served(load: InterruptLoad, row: QueueRow) -> str:
    """``rx 3``, ``q 3`` for both directions, ``all`` for all queues."""
    if load.interrupt.shared:
        return "all"
    direction = load.interrupt.direction
    side = direction if direction in ("rx", "tx") else "q"
    return f"{side} {row.queue}"


def draw_vectors(
    link: Link | None,
    loads: Sequence[tuple[str, InterruptLoad]],
    cpu: int | None,
    width: int,
    *,
    absent: str = "no dedicated interrupts",
    glyphs: Glyphs = UNICODE,
) -> list[SpanLine]:
    """The interrupts of the NIC that go to one CPU, with bars; two columns where they fit.
    `absent`: without any."""
    if link is None:
        return [((f" {absent}", "dim"),)]
    cpu_text = units.UNKNOWN if cpu is None else str(cpu)
    title = section_line(f"interrupts/s of {clean(link.name)} on CPU {cpu_text}", width)
    if not loads:
        return [title, ((f" {absent}", "dim"),)]
    rates = _rates_on_cpu(loads, cpu)
    if not rates:
        return [title, ((" none on this CPU", "dim"),)]
    columns = 1
    if width >= MIN_TWO_COLUMN_CELLS and len(rates) > 2:
        columns = 2
    shown = _highest_rates(rates, MAX_VECTOR_ROWS * columns)
    cells = width // columns
    lines = _vector_lines(shown, cells, glyphs)
    if columns == 2:
        rows = -(-len(lines) // 2)
        lines = beside(lines[:rows], lines[rows:], cells)
    if len(rates) > len(shown):
        lines.append(((f" {len(rates) - len(shown)} more with lower rates", "dim"),))
    return [title, *lines]


def _rates_on_cpu(
    loads: Sequence[tuple[str, InterruptLoad]], cpu: int | None
) -> list[tuple[str, float]]:
    """Name and rate of the interrupts that were counted on a CPU, or are delivered to it."""
    found: list[tuple[str, float]] = []
    if cpu is None:
        return found
    for name, load in loads:
        is_delivered = cpu in (load.interrupt.effective or ())
        if is_delivered or cpu in load.cpus:
            found.append((name, load.cpus.get(cpu, 0.0)))
    return found


def _highest_rates(rates: list[tuple[str, float]], most: int) -> list[tuple[str, float]]:
    """At most `most` of them, those with the highest rates, in their order."""
    if len(rates) <= most:
        return rates
    least = sorted((rate for _, rate in rates), reverse=True)[most - 1]
    return [(name, rate) for name, rate in rates if rate >= least][:most]


def _vector_lines(rates: Sequence[tuple[str, float]], cells: int, glyphs: Glyphs) -> list[SpanLine]:
    """Name, rate, and a bar relative to the highest rate."""
    top = max(rate for _, rate in rates)
    longest = max(len(name) for name, _ in rates)
    name_cells = min(NAME_CELLS, longest, max(8, cells - units.SCALED_WIDTH - 9))
    bar_cells = max(0, min(24, cells - name_cells - units.SCALED_WIDTH - 4))
    lines: list[SpanLine] = []
    for name, rate in rates:
        share = rate / top if top else 0.0
        lines.append(
            (
                (f" {fit_middle(name, name_cells)} ", ""),
                (f"{units.scaled(rate)} ", "title"),
                (bar(share, bar_cells, glyphs), "in"),
            )
        )
    return lines


def draw_heat(
    link: Link | None,
    loads: Sequence[tuple[str, InterruptLoad]],
    snapshot: Snapshot,
    width: int,
    before: Heatmap | None,
    *,
    glyphs: Glyphs = UNICODE,
) -> tuple[list[SpanLine], Heatmap | None]:
    """Interrupts of the link per second, interrupt × CPU, and the heat map for the next call, which
    keeps its columns."""
    if link is None or not loads:
        return [], None
    rows = [MatrixRow(name, load.per_second, load.cpus) for name, load in loads]
    return draw_matrix(
        f"interrupts/s of {clean(link.name)}: interrupt × CPU",
        rows,
        known_cpus(snapshot),
        width,
        before,
        name_cells=_name_cells(loads, width),
        glyphs=glyphs,
    )


def heat_cells(loads: Sequence[tuple[str, InterruptLoad]], cpus: int, width: int) -> int:
    """Cells of the matrix with all its numbers."""
    return number_cells(_name_cells(loads, width), cpus)


def _name_cells(loads: Sequence[tuple[str, InterruptLoad]], width: int) -> int:
    return min(NAME_CELLS, max((len(name) for name, _ in loads), default=0), max(8, 2 * width // 5))


def draw_machine(rates: Sequence[MachineInterruptRate], width: int) -> list[SpanLine]:
    """Every line of /proc/interrupts that has counted, the busiest first."""
    title = section_line("All interrupts of this host", width)
    moving = sorted((rate for rate in rates if rate.total), key=lambda rate: -rate.total)
    if not rates:
        return [title, ((" no rates yet", "dim"),)]
    if not moving:
        return [title, ((" no interrupts", "dim"),)]
    return [title, *map(_machine_line, moving)]


def _machine_line(rate: MachineInterruptRate) -> SpanLine:
    """Number, rate, busiest CPU and description of an interrupt."""
    busiest = max(rate.cpus, key=lambda cpu: rate.cpus[cpu])
    share_text = ""
    if busiest >= 0:
        share_text = f"CPU {busiest} {100 * rate.cpus[busiest] / rate.total:3.0f} %"
    return (
        (f" {rate.label:>6} ", "title"),
        (units.scaled(rate.total) + "  ", ""),
        (f"{share_text:<14}", "dim"),
        (clean(rate.description), "dim"),
    )
