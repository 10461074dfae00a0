"""Details of one queue: where its interrupts go, how packets are steered, its rates, and why values are missing."""

from __future__ import annotations

from collections.abc import Callable

from nictop.model.columns.queues import NOT_OFFERED
from nictop.model.facts import clean, driver_name, fit, width, wrap
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.queues.map import InterruptLoad, QueueMap, QueueRow
from nictop.model.text import units
from nictop.probe.records import Link
from nictop.tui.widgets.base.line_view import SpanLine

RATES_CELLS = 76
"""Cells from which on the rates of both directions share a line."""
COUNTED_CELLS = 19
"""Cells of `` → CPU 127 1.00 k/s``."""
MAX_OTHER_LINES = 4
"""Interrupts that serve no queue are listed up to this number."""
RATE_TITLES = {
    "rx_packets": "RX pps",
    "rx_bits": "RX b/s",
    "rx_drops": "RX drops",
    "tx_packets": "TX pps",
    "tx_bits": "TX b/s",
    "tx_drops": "TX drops",
}


def draw_detail(row: QueueRow, link: Link, cells: int) -> list[SpanLine]:
    """Where its interrupts go, how packets are steered, its rates, and why values are missing."""
    lines = [one_line(interrupt_text(load, cells - 2), cells, "") for load in row.loads]
    if row.channel is not None:
        cpus = format_cpu_list(row.effective or ()) or units.UNKNOWN
        text = f"vmbus channel {row.channel} → CPU {cpus} {units.per_second(row.interrupts)}"
        lines.append(one_line(text, cells, ""))
    elif not row.loads:
        lines.append(one_line("no dedicated interrupts", cells, "dim"))
    sides = _rate_texts(row)
    lines += [one_line(text, cells, "") for text in ([" · ".join(sides)] if cells >= RATES_CELLS else sides)]
    lines += _wrapped(_steering_text(row), cells, "")
    missing = _missing_text(row, link)
    return lines + (_wrapped(missing, cells, "dim") if missing else [])


def interrupt_text(load: InterruptLoad, cells: int) -> str:
    """``IRQ 57 rx virtio2-input.3 · affinity 0,2 → CPU 3 685/s``: what changes is at the end. Without the name where
    `cells` are too few for CPU and rate behind it."""
    one = load.interrupt
    side = f" {one.direction}" if one.direction in ("rx", "tx") else ""
    parts = [f"IRQ {one.number}{side}"]
    if one.shared:
        parts.append("shared by all queues")
    if one.allowed is not None:
        parts.append(f"affinity {format_cpu_list(one.allowed)}")
        if one.effective is not None and one.effective != one.allowed:
            parts[-1] += f", effective {format_cpu_list(one.effective)}"
    if one.name and width(f"{' · '.join(parts)} {clean(one.name)}") + COUNTED_CELLS <= cells:
        parts[0] += f" {clean(one.name)}"
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


def one_line(text: str, width: int, style: str) -> SpanLine:
    return ((f" {fit(text, max(1, width - 2))}", style),)


def _wrapped(text: str, width: int, style: str) -> list[SpanLine]:
    return [((f" {part}", style),) for part in wrap(text, max(1, width - 2))]


def draw_others(plan: QueueMap, width: int) -> list[SpanLine]:
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
