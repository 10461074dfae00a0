"""Details of one queue: where its interrupts go, how packets are steered, its rates, and why values
are missing."""

from __future__ import annotations

from collections.abc import Callable

from nictop.model.columns.queues import NOT_OFFERED
from nictop.model.facts import clean, driver_name, fit, width
from nictop.model.queues.cpu_lists import format_cpu_list
from nictop.model.queues.map import InterruptLoad, QueueMap, QueueRow
from nictop.model.queues.plan import QueueInterrupt
from nictop.model.text import units
from nictop.probe.records import Link
from nictop.tui.widgets.base.line_widget import SpanLine, wrapped_lines

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
    rates = _rate_texts(row)
    if cells >= RATES_CELLS:
        rates = [" · ".join(rates)]
    lines += [one_line(text, cells, "") for text in rates]
    lines += _wrapped(_steering_text(row), cells, "")
    missing = _missing_text(row, link)
    if missing:
        lines += _wrapped(missing, cells, "dim")
    return lines


def interrupt_text(load: InterruptLoad, cells: int) -> str:
    """``IRQ 57 rx virtio2-input.3 · affinity 0,2 → CPU 3 685/s``: what changes is at the end.
    Without the name where `cells` are too few for CPU and rate behind it."""
    interrupt = load.interrupt
    head = f"IRQ {interrupt.number}"
    if interrupt.direction in ("rx", "tx"):
        head += f" {interrupt.direction}"
    facts = _interrupt_facts(interrupt)
    named_head = f"{head} {clean(interrupt.name)}"
    if interrupt.name and width(" · ".join((named_head, *facts))) + COUNTED_CELLS <= cells:
        head = named_head
    text = " · ".join((head, *facts))
    if not load.cpus:
        return f"{text} · {units.per_second(load.per_second)}"
    busiest = sorted(load.cpus.items(), key=lambda item: (-item[1], item[0]))
    counted = ", ".join(f"CPU {cpu} {units.per_second(rate)}" for cpu, rate in busiest)
    return f"{text} → {counted}"


def _interrupt_facts(interrupt: QueueInterrupt) -> list[str]:
    """What it serves besides one queue, and the CPUs that it may go to."""
    facts = []
    if interrupt.shared:
        facts.append("shared by all queues")
    if interrupt.allowed is not None:
        affinity = f"affinity {format_cpu_list(interrupt.allowed)}"
        if interrupt.effective is not None and interrupt.effective != interrupt.allowed:
            affinity += f", effective {format_cpu_list(interrupt.effective)}"
        facts.append(affinity)
    return facts


def _rate_texts(row: QueueRow) -> list[str]:
    """One for each direction."""
    texts = []
    if row.has_rx:
        texts.append(_side_text(row, "rx"))
    if row.has_tx:
        texts.append(_side_text(row, "tx"))
    if not texts:
        texts.append("disabled: only its interrupt exists (see ethtool -L)")
    return texts


def _side_text(row: QueueRow, side: str) -> str:
    """``RX 9.41 Gb/s 812 kpps drops 0/s``"""
    bits = _rate_text(row, f"{side}_bits", units.bits_per_second)
    packets = _rate_text(row, f"{side}_packets", units.packets_per_second)
    drops = _rate_text(row, f"{side}_drops", units.per_second)
    return f"{side.upper()} {bits} {packets} drops {drops}"


def _rate_text(row: QueueRow, name: str, text: Callable[[float | None], str]) -> str:
    value: float | None = getattr(row, name)
    if value is None and name not in row.offered:
        return NOT_OFFERED
    return text(value)


def _steering_text(row: QueueRow) -> str:
    parts = []
    if row.has_tx:
        parts.append(f"XPS {_cpus_text(row.xps)}")
    if row.has_rx:
        rps = f"RPS {_cpus_text(row.rps)}"
        if row.rps_flow_count:
            rps += f", RFS {row.rps_flow_count} flows"
        parts.append(rps)
    parts.append(f"NAPI {_napi_text(row)}")
    if row.local is not None:
        near, far = "near: CPUs are on the node of the NIC", "far: CPUs on another node"
        parts.append(f"NUMA {near if row.local else far}")
    return " · ".join(parts)


def _napi_text(row: QueueRow) -> str:
    """``8193 (thread 1234)``"""
    text = " ".join(map(str, row.napis)) or "–, not reported by this kernel or driver"
    if row.napi_threads:
        text += f" (thread {' '.join(map(str, row.napi_threads))})"
    return text


def _cpus_text(cpus: tuple[int, ...] | None) -> str:
    if cpus is None:
        return "n/a (cannot be set for this queue)"
    if not cpus:
        return "off"
    return f"CPU {format_cpu_list(cpus)}"


def _missing_text(row: QueueRow, link: Link) -> str:
    """Why rates of this queue are ``n/a``; "": none is."""
    exists = {"rx": row.has_rx, "tx": row.has_tx}
    names = [
        title for key, title in RATE_TITLES.items() if key not in row.offered and exists[key[:2]]
    ]
    if not names:
        return ""
    driver = driver_name(link) or "the driver"
    return f"n/a: {driver} does not report {', '.join(names)} per queue"


def one_line(text: str, width: int, style: str) -> SpanLine:
    return ((f" {fit(text, max(1, width - 2))}", style),)


def _wrapped(text: str, width: int, style: str) -> list[SpanLine]:
    return wrapped_lines(text, max(1, width - 2), style)


def draw_others(queue_map: QueueMap, width: int) -> list[SpanLine]:
    """Interrupts of the NIC that are not in the table."""
    lines: list[SpanLine] = []
    for words, loads, style in (
        ("not a queue interrupt", queue_map.others, "dim"),
        ("not mapped to a queue", queue_map.unmapped, "warn"),
    ):
        for load in loads[:MAX_OTHER_LINES]:
            lines += _wrapped(_other_text(load, words), width, style)
        if len(loads) > MAX_OTHER_LINES:
            lines += _wrapped(f"{len(loads) - MAX_OTHER_LINES} more: {words}", width, style)
    return lines


def _other_text(load: InterruptLoad, words: str) -> str:
    """``IRQ 58 virtio2-config: not a queue interrupt, 1.00/s``"""
    text = f"IRQ {load.interrupt.number}"
    if load.interrupt.name:
        text += f" {clean(load.interrupt.name)}"
    text += f": {words}"
    if load.per_second:
        text += f", {units.per_second(load.per_second)}"
    return text
