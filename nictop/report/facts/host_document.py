"""A host as a document: device tree with rates, CPUs, facts and queues of every device.

Reads nothing; takes a snapshot. Tree, facts and queues are those of the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from nictop.model.columns.column import Column
from nictop.model.columns.devices import COLUMNS as DEVICE_COLUMNS
from nictop.model.columns.devices import DeviceRow
from nictop.model.columns.queues import COLUMNS as QUEUE_COLUMNS
from nictop.model.columns.queues import MOVED_NOTE, NOT_OFFERED
from nictop.model.devices.lldp import neighbours
from nictop.model.devices.tree import Row, device_tree, guides
from nictop.model.facts import Section as FactSection
from nictop.model.facts import clean, is_virtual, platform_text, state_text
from nictop.model.facts.facts import link_facts
from nictop.model.place import has_place, place_of
from nictop.model.queues.map import InterruptLoad, QueueMap, QueueRow, queue_map
from nictop.model.rates.cpus import REPORTED_WITHOUT_SPLIT, CpuShares
from nictop.model.reboot import reboots_text
from nictop.model.snapshot import Snapshot, is_read_whole, outdated_text, recorded_age_text
from nictop.model.text import units
from nictop.model.text.words import count_noun, kernel_text, recorded_text
from nictop.model.virtual_chain import chain_kind, is_own_veth
from nictop.probe.records import Link
from nictop.report.chain import chain_block
from nictop.report.document import (
    Block,
    ColumnTable,
    Fact,
    Facts,
    Head,
    Items,
    Line,
    PlaceDrawing,
    Section,
    Toned,
    lines_of,
)
from nictop.report.facts.guest_document import guests_of_host
from nictop.report.facts.peers import Peers
from nictop.rules.by_device import DeviceFindings, findings_of
from nictop.rules.chain import ChainStep, Nic, has_chain, nic_chains

LABEL_CELLS, INDENT = 15, 2
"""Of facts."""
PLACE_TITLE = "Place in the machine (of devices beside it only network functions)"
PAGE_COLUMN_KEYS = (
    *("link", "profile", "driver", "rx", "tx", "rx_packets", "tx_packets"),
    *("drops", "drops_rate", "missed", "errors", "ip", "mtu", "master"),
)
"""Columns of the tree on a page; the other values are among the facts."""
LOSS_COLUMN_KEYS = ("drops_rate", "missed", "errors")
"""Left out of a page where all of them are 0."""
DEVICE_COLUMNS_BY_KEY = {column.key: column for column in DEVICE_COLUMNS}
NO_LOSSES = frozenset(("", "0", units.UNKNOWN))
KINDS_WITH_FACTS = ("aggregate", "bridge", "upper")
"""Of virtual links: a host has few of them; taps and veths, of which it may have hundreds, are
listed with their guests."""
CPU_KINDS = ("user", "system", "irq", "softirq", "steal", "guest", "iowait", "idle")


def host_blocks(
    snapshot: Snapshot, findings: DeviceFindings | None, peers: Peers | None = None
) -> tuple[Block, ...]:
    """A host, for a terminal. `findings`: None: the checks have not run. `peers`: of the hosts that
    are shown together."""
    rows = device_tree(snapshot)
    described = list(described_rows(rows, snapshot))
    chains = chains_by_row(described, snapshot, findings)
    queues = partial(queue_map, snapshot=snapshot)
    return (
        Line(headline_text(snapshot)),
        *not_live_lines(snapshot),
        Section((device_table(rows, snapshot),)),
        Section((cpu_line(snapshot),)),
        *guests_of_host(snapshot),
        *(
            device_section(row, snapshot, queues, chains.get(row.key, ()), peers=peers)
            for row in described
        ),
        *links_without_facts(rows, snapshot),
    )


def headline_text(snapshot: Snapshot) -> str:
    """``guest · VMware guest · 4 CPUs · Linux 6.12.0 · rates over 1.00 s``"""
    parts = [snapshot.host]
    if snapshot.recorded_at is not None:
        parts.append(recorded_text(snapshot.recorded_at, recorded_age_text(snapshot)))
    if snapshot.reboots:
        parts.append(reboots_text(snapshot.reboots))
    if snapshot.incomplete:
        parts.append(f"not complete: {snapshot.incomplete}")
    outdated = outdated_text(snapshot)
    if outdated:
        parts.append(outdated)
    if snapshot.inventory is not None:
        parts.append(platform_text(snapshot.inventory.platform))
    if snapshot.hello is not None:
        parts.append(kernel_text(clean(snapshot.hello.kernel)))
    if snapshot.rates is not None:
        parts.append(f"rates over {units.duration(snapshot.rates.elapsed)}")
    return " · ".join(parts)


def not_live_lines(snapshot: Snapshot) -> Iterator[Line]:
    """``failed: connection refused``: what is shown is not of now."""
    if snapshot.state != "live":
        text: str = snapshot.state
        if snapshot.message:
            text += f": {snapshot.message}"
        yield Line(text, "warn")


# ------------------------------------------------------------------------------------- devices


def device_table(rows: Sequence[Row], snapshot: Snapshot) -> ColumnTable:
    """The tree of the devices with their columns."""
    heads = tuple(Head(guides(row), row.title) for row in rows)
    drawn = [DeviceRow(row, snapshot) for row in rows]
    return ColumnTable(DEVICE_COLUMNS, drawn, partial(page_columns, drawn), heads=heads)


def page_columns(rows: Sequence[DeviceRow]) -> Sequence[Column[DeviceRow]]:
    """The columns of a page, without those of losses where there are none."""
    columns = []
    for key in PAGE_COLUMN_KEYS:
        column = DEVICE_COLUMNS_BY_KEY[key]
        if key not in LOSS_COLUMN_KEYS or _has_losses(column, rows):
            columns.append(column)
    return columns


def _has_losses(column: Column[DeviceRow], rows: Sequence[DeviceRow]) -> bool:
    texts = {column.cell(row)[0].strip() for row in rows}
    return not texts <= NO_LOSSES


def described_rows(rows: Sequence[Row], snapshot: Snapshot) -> Iterator[Row]:
    """Rows whose facts are listed: the host, VFs, links of devices, virtual links with facts of
    their own, and PCI functions without a link (the facts of others are listed with those of the
    link)."""
    for row in rows:
        if row.kind == "pci":
            is_described = not _is_described_by_its_link(row, snapshot)
        else:
            is_described = row.kind in ("host", "vf") or _has_facts(row, snapshot)
        if is_described:
            yield row


def rows_of_nics(snapshot: Snapshot) -> Iterator[Row]:
    """Of all links, and of functions and VFs without one."""
    rows = device_tree(snapshot)
    described = {row.key for row in described_rows(rows, snapshot)}
    for row in rows:
        if row.kind == "link" or row.key in described:
            yield row


def links_without_facts(rows: Sequence[Row], snapshot: Snapshot) -> Iterator[Section]:
    """``3 virtual interfaces``: those in the tree only."""
    number = sum(row.kind == "link" and not _has_facts(row, snapshot) for row in rows)
    if number:
        links = count_noun(number, "virtual interface")
        yield Section((Line(f"{links} in the table above; details: --format json", "dim"),))


def _has_facts(row: Row, snapshot: Snapshot) -> bool:
    if row.kind != "link" or row.link is None:
        return False
    if not is_virtual(row.link) or is_own_veth(row.link, snapshot):
        return True
    if chain_kind(row.link) in KINDS_WITH_FACTS:
        return True
    return row.link.ifindex in snapshot.listened or bool(neighbours(row.link, snapshot))


def _is_described_by_its_link(row: Row, snapshot: Snapshot) -> bool:
    """The facts of a PCI function are listed with those of its netdev, if it has one."""
    if row.pci is None:
        return False
    return row.pci.address in {link.pci_address for link in snapshot.links.values()}


def chains_of_rows(
    rows: Sequence[Row], snapshot: Snapshot, findings: DeviceFindings
) -> list[tuple[ChainStep, ...]]:
    """Of rows that have one."""
    nics = [Nic(row.link, row.pci, findings_of(row, findings)) for row in rows]
    return nic_chains(nics, snapshot, is_checked=is_read_whole(snapshot))


def chains_by_row(
    rows: Sequence[Row], snapshot: Snapshot, findings: DeviceFindings | None
) -> Mapping[str, Sequence[ChainStep]]:
    """By the keys of the rows; none if the checks have not run."""
    if findings is None:
        return {}
    rows = list(filter(has_chain, rows))
    chains = chains_of_rows(rows, snapshot, findings)
    return {row.key: chain for row, chain in zip(rows, chains, strict=True)}


def device_section(
    row: Row,
    snapshot: Snapshot,
    queues: Callable[[Link], QueueMap],
    chain: Sequence[ChainStep],
    *,
    peers: Peers | None = None,
    is_open: bool = False,
) -> Section:
    """The chain of a NIC, what is between it and those of other hosts, all facts of one device, its
    place, and the queues of a netdev."""
    blocks: list[Block] = []
    if chain:
        blocks.append(chain_block(chain))
    if peers is not None and row.link is not None:
        blocks += map(section_facts, peers.sections(snapshot.host, row.link.ifindex))
    blocks += map(section_facts, link_facts(row, snapshot))
    if has_place(row, snapshot):
        drawing = PlaceDrawing(
            f"{row.title}: place", partial(place_of, row, snapshot), PLACE_TITLE, INDENT
        )
        blocks.append(drawing)
    note = None
    if row.link is not None:
        note = Toned(*state_text(row.link))
        blocks += queue_blocks(queues(row.link))
    return Section(tuple(blocks), row.title, note=note, form="fold", is_open=is_open)


def section_facts(section: FactSection) -> Facts:
    facts = tuple(Fact(fact.label, fact.text, fact.tone) for fact in section.facts)
    return Facts(facts, LABEL_CELLS, section.title, INDENT)


# --------------------------------------------------------------------------------------- queues


def queue_blocks(found: QueueMap) -> tuple[Block, ...]:
    """Table of queue, interrupt and CPU of a netdev. Unused queues are in the JSON only."""
    if not found.rows and not found.unmapped:
        return ()
    rows = [*(row for row in found.rows if row.in_use or row.interrupts), found.total]
    columns = partial(used_columns, rows)
    table = ColumnTable(QUEUE_COLUMNS, rows, columns, title="queues", indent=INDENT)
    return (table, Items(lines_of(queue_notes(found, rows), "dim"), INDENT))


def used_columns(rows: Sequence[QueueRow]) -> Sequence[Column[QueueRow]]:
    """Those that have something in one of the rows."""
    return [column for column in QUEUE_COLUMNS if any(_texts_in(column, rows))]


def _texts_in(column: Column[QueueRow], rows: Sequence[QueueRow]) -> Iterator[str]:
    for row in rows:
        yield column.cell(row)[0].strip()


def queue_notes(found: QueueMap, shown: Sequence[QueueRow]) -> list[str]:
    """Sentences below the table of queues, of which the rows `shown` are in it."""
    queues = [row for row in shown if row.queue is not None]
    notes = []
    if _has_uncounted(shown):
        notes.append(f"{NOT_OFFERED}: not counted per queue by the driver")
    if any(load.interrupt.shared for load in found.total.loads):
        notes.append("*: serves several queues")
    if any(row.has_moved for row in queues):
        notes.append(MOVED_NOTE)
    if found.busiest_share is not None and len(queues) > 1:
        notes.append(busiest_queue_text(found))
    notes += [f"{_interrupt_text(load)}: not a queue interrupt" for load in found.others]
    return notes + [f"{_interrupt_text(load)}: not mapped to a queue" for load in found.unmapped]


def _has_uncounted(rows: Sequence[QueueRow]) -> bool:
    """A value is not counted by the driver."""
    for column in QUEUE_COLUMNS:
        for row in rows:
            if column.text(row).strip() == NOT_OFFERED:
                return True
    return False


def busiest_queue_text(found: QueueMap) -> str:
    """``busiest queue 0: 85 % of packets``; of interrupts where the driver does not count packets
    per queue."""
    share = units.percentage(found.busiest_share)
    counted = "packets" if any(map(_has_packets, found.rows)) else "interrupts"
    return f"busiest queue {found.busiest}: {share} of {counted}"


def _has_packets(row: QueueRow) -> bool:
    return row.rx_packets is not None or row.tx_packets is not None


def _interrupt_text(load: InterruptLoad) -> str:
    """``interrupt 40 (ens224)``"""
    text = f"interrupt {load.interrupt.number}"
    if load.interrupt.name:
        text += f" ({load.interrupt.name})"
    return text


# ----------------------------------------------------------------------------------------- CPUs


def cpu_line(snapshot: Snapshot) -> Line:
    return Line(f"CPU  {cpu_summary(snapshot)}")


def cpu_summary(snapshot: Snapshot) -> str:
    """Mean shares of CPU time over all CPUs, the busiest CPU, and over how long; ``no rates``."""
    rates = snapshot.rates
    if rates is None or not rates.cpus:
        return "no rates"
    cpus = rates.cpus
    is_split = all(shares.split for shares in cpus.values())
    kinds = CPU_KINDS if is_split else REPORTED_WITHOUT_SPLIT
    means = [f"{kind} {units.percentage(_mean_share(kind, cpus))}" for kind in kinds]
    busiest = max(cpus, key=lambda cpu: cpus[cpu].busy)
    busy = f"busiest CPU {busiest} {units.percentage(cpus[busiest].busy)}"
    return " · ".join((*means, busy, f"over {units.duration(rates.elapsed)}"))


def _mean_share(kind: str, cpus: Mapping[int, CpuShares]) -> float:
    """Of a kind of CPU time, over all CPUs."""
    total: float = sum(getattr(shares, kind) for shares in cpus.values())
    return total / len(cpus)
