"""Hosts as HTML: the device tree with rates, facts and queue map of each device, and all data as JSON.

Reads nothing; takes a watched host. Tree, facts and queues are those of the screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from nictop.model.columns.column import Column
from nictop.model.columns.connections import COLUMNS as CONNECTION_COLUMNS
from nictop.model.columns.connections import nic_texts, number_text
from nictop.model.columns.devices import COLUMNS, DeviceRow
from nictop.model.columns.queues import COLUMNS as QUEUE_COLUMNS
from nictop.model.columns.queues import MOVED_NOTE, NOT_OFFERED
from nictop.model.devices.bonds import is_aggregate
from nictop.model.devices.tree import Row, device_tree, guides
from nictop.model.facts import Section, is_virtual, state_text
from nictop.model.facts.facts import link_facts
from nictop.model.snapshot import Snapshot
from nictop.probe.records import Link
from nictop.report.facts.connections import host_connections, users_lines
from nictop.report.facts.host import busiest_queue_text, cpu_summary, show_json
from nictop.report.findings.check import checked_host, checked_host_text
from nictop.report.html.elements import LINE_END, Html, details_element, element, join_html, table
from nictop.rules import HostFacts

TREE_COLUMN_KEYS = ("link", "profile", "driver", "in", "out", "drops", "ip", "mtu")
"""Columns of the tree; the other values are among the facts."""
LONG_TEXT_COLUMNS = ("profile", "ip")
"""Columns whose text may be of any length."""
TREE_COLUMNS = tuple(column for key in TREE_COLUMN_KEYS for column in COLUMNS if column.key == key)


def host_html(host: HostFacts, number: int, subjects: Set[int | None]) -> Html:
    """The section of one host. `subjects`: ifindexes of the NICs with findings; their facts are open."""
    snapshot = host.snapshot
    rows = device_tree(snapshot)
    return element(
        "section",
        element("h2", host.name),
        element("p", checked_host_text(checked_host(host)), class_="dim"),
        *_not_live(host),
        _tree(rows, host),
        element("p", f"CPU: {cpu_summary(snapshot)}"),
        *(_facts(row, host, open_=row.link is not None and row.link.ifindex in subjects) for row in _described(rows)),
        *_virtual_links(rows),
        *_connections(snapshot),
        details_element("All data (JSON)", element("pre", Html(_escaped(show_json(snapshot))))),
        id_=f"host-{number}",
    )


def _escaped(ascii_json: str) -> str:
    """JSON as HTML; it consists of printable ASCII and line ends."""
    return ascii_json.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _not_live(host: HostFacts) -> Iterator[Html]:
    if host.snapshot.state != "live":
        yield element("p", f"{host.snapshot.state}: {host.snapshot.message}", class_="warn")


def _tree(rows: tuple[Row, ...], host: HostFacts) -> Html:
    titles = [
        "device",
        *(column.title if column.unit != "b/s" else f"{column.title} {column.unit}" for column in TREE_COLUMNS),
    ]
    return table(
        titles, ((_device(row), *(_cell(one, row, host) for one in TREE_COLUMNS)) for row in rows), class_="tree"
    )


def _device(row: Row) -> Html:
    guide = (element("span", guides(row), class_="guide"),) if row.prefix else ()
    return element("td", *guide, element("bdi", row.title))


def _cell(column: Column[DeviceRow], row: Row, host: HostFacts) -> Html:
    content, tone = column.cell(DeviceRow(row, host.snapshot))
    kind = "number" if column.align == "right" else "long" if column.key in LONG_TEXT_COLUMNS else ""
    classes = [name for name in (kind, tone) if name and name != "normal"]
    return element("td", content.strip(), class_=" ".join(classes))


def _described(rows: tuple[Row, ...]) -> Iterator[Row]:
    """Rows whose facts are listed: the host, VFs, netdevs of devices, and PCI functions without a netdev (the facts of
    others are listed with those of the netdev)."""
    carried = {row.link.pci_address for row in rows if row.link is not None}
    for row in rows:
        if row.kind == "link":
            has_facts = row.link is not None and (not is_virtual(row.link) or is_aggregate(row.link))
        else:
            has_facts = row.kind in ("host", "vf") or (row.pci is not None and row.pci.address not in carried)
        if has_facts:
            yield row


def _virtual_links(rows: tuple[Row, ...]) -> Iterator[Html]:
    links = [row.link for row in rows if row.link is not None]
    number = sum(1 for link in links if is_virtual(link) and not is_aggregate(link))
    if number:
        text = f"{number} virtual interface{'' if number == 1 else 's'}"
        yield element("p", f"{text} in the table above; details are in the JSON data below.", class_="dim")


def _connections(snapshot: Snapshot) -> Iterator[Html]:
    """Who used the NIC whose connections were shown."""
    found = host_connections(snapshot).connections
    if found is None:
        return
    yield element("h3", f"Connections of {found.nic}")
    yield element("p", " · ".join((*nic_texts(found), number_text(found), *found.notes)), class_="dim")
    lines = users_lines(found)
    if lines:
        yield element("pre", "\n".join(lines).rstrip())
    if found.rows:
        cells = [[column.cell(row)[0].strip() for column in CONNECTION_COLUMNS] for row in found.rows]
        yield table([column.title for column in CONNECTION_COLUMNS], cells)


def _facts(row: Row, host: HostFacts, *, open_: bool) -> Html:
    summary = [element("bdi", row.title)]
    if row.link is not None:
        state, tone = state_text(row.link)
        summary.append(element("span", f" · {state}", class_="" if tone == "normal" else tone))
    parts = [_section(one) for one in link_facts(row, host.snapshot)]
    if row.link is not None:
        parts += _queues(row.link, host)
    return details_element(join_html(summary), join_html(parts, LINE_END), open_=open_)


def _section(section: Section) -> Html:
    facts = (
        join_html((element("dt", one.label), element("dd", one.text, class_="" if one.tone == "normal" else one.tone)))
        for one in section.facts
    )
    return join_html((element("h4", section.title), element("dl", join_html(facts, LINE_END))))


def _queues(link: Link, host: HostFacts) -> Iterator[Html]:
    """Queue, interrupt and CPU of a netdev. Unused queues are in the JSON only."""
    found = host.queue_map(link)
    if not found.rows and not found.unmapped:
        return
    shown = [*(row for row in found.rows if row.in_use or row.interrupts), found.total]
    cells = [[column.cell(row)[0].strip() for column in QUEUE_COLUMNS] for row in shown]
    used = [number for number, column in enumerate(zip(*cells, strict=True)) if any(column)]
    yield element("h4", "Queues")
    yield table((QUEUE_COLUMNS[number].title for number in used), ([row[number] for number in used] for row in cells))
    notes = [f"interrupt {one.interrupt.number} ({one.interrupt.name}): not a queue interrupt" for one in found.others]
    notes += [
        f"interrupt {one.interrupt.number} ({one.interrupt.name}): not mapped to a queue" for one in found.unmapped
    ]
    if found.busiest_share is not None and len(found.rows) > 1:
        notes.append(busiest_queue_text(found))
    if any(NOT_OFFERED in row for row in cells):
        notes.append(f"{NOT_OFFERED}: not counted per queue by the driver")
    if any(one.interrupt.shared for one in found.total.loads):
        notes.append("*: serves several queues")
    if any(row.has_moved for row in shown if row.queue is not None):
        notes.append(MOVED_NOTE)
    if notes:
        yield element("ul", *(element("li", note) for note in notes), class_="dim")
