"""The facts of one host: text and JSON of ``nictop show``, and the JSON schema.

Reads nothing; takes a snapshot. The JSON is ASCII with escapes: no name can reach a terminal
as a control sequence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from nictop import __version__
from nictop.model.columns.column import fit_columns
from nictop.model.columns.devices import DeviceRow, visible_columns
from nictop.model.columns.queues import COLUMNS as QUEUE_COLUMNS
from nictop.model.columns.queues import MOVED_NOTE, NOT_OFFERED
from nictop.model.devices.bonds import is_aggregate
from nictop.model.devices.lldp import neighbours
from nictop.model.devices.tree import Row, device_tree, guides
from nictop.model.facts import Section, clean, fit, is_virtual, platform_text, width, wrap
from nictop.model.facts.facts import link_facts
from nictop.model.queues.map import InterruptLoad, QueueMap, QueueRow, queue_map
from nictop.model.rates.cpus import REPORTED_WITHOUT_SPLIT
from nictop.model.rates.links import Rates
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import count_noun, kernel_text, recorded_text
from nictop.probe.records import (
    CHANNEL_COUNTERS,
    CPU_TIMES,
    LINK_COUNTERS,
    QUEUE_COUNTERS,
    SOFTIRQS,
    SOFTNET_COUNTERS,
    THREAD_TIMES,
    VCPU_WAITS,
    VF_COUNTERS,
    Counters,
    Hello,
    Inventory,
    Link,
    LldpNeighbour,
    Trouble,
)
from nictop.report.facts.names import add_names, add_names_to_schema
from nictop.report.text_table import layout_width

SHOW_LABEL_CELLS = 15
SINGLE_QUEUE_PAIR = 2
"""Number of queues of a link with one receive and one transmit queue."""
MIN_TREE_NAME_CELLS = 30
"""Cells of the names in the tree, beside the columns."""


@dataclass(frozen=True)
class CounterNames:
    """What the numbers of `Counters` are, by position."""

    links: tuple[str, ...] = LINK_COUNTERS
    cpus: tuple[str, ...] = CPU_TIMES
    queues: tuple[str, ...] = QUEUE_COUNTERS
    vfs: tuple[str, ...] = VF_COUNTERS
    softirqs: tuple[str, ...] = SOFTIRQS
    softnet: tuple[str, ...] = SOFTNET_COUNTERS
    threads: tuple[str, ...] = (*THREAD_TIMES, "cpu")
    channels: tuple[str, ...] = CHANNEL_COUNTERS
    waits: tuple[str, ...] = VCPU_WAITS


@dataclass(frozen=True)
class ShowDocument:
    """What ``nictop show --format json`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    host: str
    hello: Hello | None
    inventory: Inventory | None
    counters: Counters | None
    """The newest record."""
    rates: Rates | None
    """Per second, over `Rates.elapsed`."""
    queue_maps: dict[int, QueueMap] = field(default_factory=dict)
    """ifindex → queue, NAPI, interrupt and CPU of every link that a device carries or that has several queues."""
    counter_names: CounterNames = field(default_factory=CounterNames)
    troubles: tuple[Trouble, ...] = ()
    """What the probe could not do, in sentences."""
    lldp: dict[int, tuple[LldpNeighbour, ...]] = field(default_factory=dict)
    """ifindex → what the other end announces by LLDP or CDP, of all services and by listening (--lldp)."""
    recorded_at: float | None = None
    """The time of this state in a recording, seconds since the epoch; null: of a live host."""


def show_document(snapshot: Snapshot) -> ShowDocument:
    """The snapshot as a record of the schema."""
    return ShowDocument(
        nictop=__version__,
        host=snapshot.host,
        recorded_at=snapshot.recorded_at,
        hello=snapshot.hello,
        inventory=snapshot.inventory,
        counters=snapshot.counters,
        rates=snapshot.rates,
        queue_maps={
            ifindex: queue_map(link, snapshot)
            for ifindex, link in snapshot.links.items()
            if not is_virtual(link) or len(link.queues) > SINGLE_QUEUE_PAIR
        },
        troubles=snapshot.troubles,
        lldp={ifindex: found for ifindex, link in snapshot.links.items() if (found := neighbours(link, snapshot))},
    )


def show_values(snapshot: Snapshot) -> dict[str, Any]:
    """The document as JSON values, with names beside the numbers (`report.facts.names`); keys of mappings by number are
    strings."""
    return add_names(msgspec.to_builtins(show_document(snapshot), str_keys=True), snapshot)


def show_json(snapshot: Snapshot) -> str:
    """The document as indented ASCII JSON with a final newline."""
    return json.dumps(show_values(snapshot), indent=2) + "\n"


def show_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final newline."""
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema.update(add_names_to_schema(msgspec.json.schema(ShowDocument)))
    return json.dumps(schema, indent=2) + "\n"


# ------------------------------------------------------------------------------------------------------------- text


def show_text(snapshot: Snapshot, width: int) -> str:
    """Headline, device tree with rates, CPUs, facts of every device; at most `width` cells (40 to 200) per line, with a
    final newline. Virtual links are in the tree only, except bonds, teams and those with a known switch port."""
    width = layout_width(width)
    rows = device_tree(snapshot)
    lines = [
        *wrap(_headline(snapshot), width),
        *(wrap(state, width) if (state := not_live_text(snapshot)) else ()),
        "",
        *_tree_lines(rows, snapshot, width),
        "",
        *wrap(f"CPU  {cpu_summary(snapshot)}", width),
    ]
    for row in described_rows(rows, snapshot):
        lines += ["", *_fact_lines(row, snapshot, width)]
    if virtual := links_in_the_tree_only(rows, snapshot):
        lines += ["", *wrap(f"{virtual} in the table above; details: --format json", width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def described_rows(rows: Sequence[Row], snapshot: Snapshot) -> Iterator[Row]:
    """Rows whose facts are listed: the host, VFs, links of devices, virtual links with facts of their own, and PCI
    functions without a link (the facts of others are listed with those of the link)."""
    for row in rows:
        if row.kind == "pci":
            is_described = not _is_described_by_its_link(row, snapshot)
        else:
            is_described = row.kind in ("host", "vf") or _has_facts(row, snapshot)
        if is_described:
            yield row


def links_in_the_tree_only(rows: Sequence[Row], snapshot: Snapshot) -> str:
    """``3 virtual interfaces``: those without facts; "": there are none."""
    number = sum(row.kind == "link" and not _has_facts(row, snapshot) for row in rows)
    return count_noun(number, "virtual interface") if number else ""


def not_live_text(snapshot: Snapshot) -> str:
    """``failed: connection refused``: what is shown is not of now; "": it is."""
    if snapshot.state == "live":
        return ""
    return clean(f"{snapshot.state}: {snapshot.message}") if snapshot.message else snapshot.state


def _headline(snapshot: Snapshot) -> str:
    parts = [clean(snapshot.host)]
    if snapshot.recorded_at is not None:
        parts.append(recorded_text(snapshot.recorded_at))
    if snapshot.inventory is not None:
        parts.append(clean(platform_text(snapshot.inventory.platform)))
    if snapshot.hello is not None:
        parts.append(kernel_text(clean(snapshot.hello.kernel)))
    if snapshot.rates is not None:
        parts.append(f"rates over {units.duration(snapshot.rates.elapsed)}")
    return " · ".join(parts)


def _tree_lines(rows: tuple[Row, ...], snapshot: Snapshot, room: int) -> list[str]:
    widest = max(width(guides(row)) + width(clean(row.title)) for row in rows)
    name = min(max(widest, 12), max(MIN_TREE_NAME_CELLS, room // 3))
    columns = visible_columns(room - name)
    lines = [" ".join([fit("DEVICE", name), *(column.heading for column in columns)])]
    for row in rows:
        cells = [column.text(DeviceRow(row, snapshot)) for column in columns]
        line = guides(row) + clean(row.title)
        if any(cell.strip() for cell in cells):
            line = " ".join([fit(line, name), *cells])
        lines.append(fit(line, room))
    return lines


def cpu_summary(snapshot: Snapshot) -> str:
    """Mean shares of CPU time over all CPUs, the busiest CPU, and over how long; ``no rates``."""
    rates = snapshot.rates
    if rates is None or not rates.cpus:
        return "no rates"
    cpus = rates.cpus
    kinds: tuple[str, ...] = ("user", "system", "irq", "softirq", "steal", "guest", "iowait", "idle")
    if not all(shares.split for shares in cpus.values()):
        kinds = REPORTED_WITHOUT_SPLIT
    mean = " · ".join(
        f"{kind} {units.percentage(sum(getattr(shares, kind) for shares in cpus.values()) / len(cpus))}"
        for kind in kinds
    )
    busiest = max(cpus, key=lambda cpu: cpus[cpu].busy)
    busy = f"busiest CPU {busiest} {units.percentage(cpus[busiest].busy)}"
    return f"{mean} · {busy} · over {units.duration(rates.elapsed)}"


def _has_facts(row: Row, snapshot: Snapshot) -> bool:
    if row.kind != "link" or row.link is None:
        return False
    is_switched = row.link.ifindex in snapshot.listened or bool(neighbours(row.link, snapshot))
    return not is_virtual(row.link) or is_aggregate(row.link) or is_switched


def _is_described_by_its_link(row: Row, snapshot: Snapshot) -> bool:
    """The facts of a PCI function are listed with those of its netdev, if it has one."""
    return row.pci is not None and any(link.pci_address == row.pci.address for link in snapshot.links.values())


def _fact_lines(row: Row, snapshot: Snapshot, room: int) -> list[str]:
    title = clean(row.title)
    lines = [title, "=" * min(room, width(title))]
    for section in link_facts(row, snapshot):
        lines += _section_lines(section, room)
    if row.link is not None:
        lines += _queue_lines(row.link, snapshot, room)
    return lines


def _queue_lines(link: Link, snapshot: Snapshot, room: int) -> list[str]:
    """Table of queue, interrupt and CPU of a netdev. Unused queues are in the JSON only."""
    found = queue_map(link, snapshot)
    if not found.rows and not found.unmapped:
        return []
    columns = fit_columns(QUEUE_COLUMNS, room - 2)
    rows = [*(row for row in found.rows if row.in_use or row.interrupts), found.total]
    table = [[column.text(row) for column in columns] for row in rows]
    lines = ["queues", *(f"  {' '.join(cells)}" for cells in ([column.heading for column in columns], *table))]
    for note in queue_notes(found, rows):
        lines += [f"  {part}" for part in wrap(note, room - 2)]
    return lines


def queue_notes(found: QueueMap, shown: Sequence[QueueRow]) -> list[str]:
    """Sentences below the table of queues, of which the rows `shown` are in it."""
    notes = []
    if any(column.text(row).strip() == NOT_OFFERED for column in QUEUE_COLUMNS for row in shown):
        notes.append(f"{NOT_OFFERED}: not counted per queue by the driver")
    if any(one.interrupt.shared for one in found.total.loads):
        notes.append("*: serves several queues")
    if any(row.has_moved for row in shown if row.queue is not None):
        notes.append(MOVED_NOTE)
    if found.busiest_share is not None and sum(row.queue is not None for row in shown) > 1:
        notes.append(busiest_queue_text(found))
    notes += [f"{_interrupt_text(one)}: not a queue interrupt" for one in found.others]
    return notes + [f"{_interrupt_text(one)}: not mapped to a queue" for one in found.unmapped]


def busiest_queue_text(found: QueueMap) -> str:
    """``busiest queue 0: 85 % of packets``; of interrupts where the driver does not count packets per queue."""
    packets = any(row.rx_packets is not None or row.tx_packets is not None for row in found.rows)
    share = units.percentage(found.busiest_share)
    return f"busiest queue {found.busiest}: {share} of {'packets' if packets else 'interrupts'}"


def _interrupt_text(load: InterruptLoad) -> str:
    """``interrupt 40 (ens224)``"""
    name = f" ({load.interrupt.name})" if load.interrupt.name else ""
    return f"interrupt {load.interrupt.number}{name}"


def _section_lines(section: Section, room: int) -> list[str]:
    lines = [section.title]
    for fact in section.facts:
        for number, part in enumerate(wrap(fact.text, room - SHOW_LABEL_CELLS - 3)):
            label = fit(fact.label, SHOW_LABEL_CELLS) if number == 0 else " " * SHOW_LABEL_CELLS
            lines.append(f"  {label} {part}")
    return lines
