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
from nictop.model.devices.tree import Row, device_tree, guides
from nictop.model.facts import Section, state_text
from nictop.model.facts.facts import link_facts
from nictop.model.snapshot import Snapshot
from nictop.model.text.units import UNKNOWN
from nictop.probe.records import Link
from nictop.report.facts.connections import host_connections, users_lines
from nictop.report.facts.host import (
    cpu_summary,
    described_rows,
    links_in_the_tree_only,
    not_live_text,
    queue_notes,
    show_json,
)
from nictop.report.findings.check import checked_host, checked_host_text
from nictop.report.html.elements import LINE_END, Html, details_element, element, html_lines, join_html, table
from nictop.rules import HostFacts

TREE_COLUMN_KEYS = (
    *("link", "profile", "driver", "rx", "tx", "rx_packets", "tx_packets", "drops", "drops_rate", "missed", "errors"),
    *("ip", "mtu", "master"),
)
"""Columns of the tree; the other values are among the facts."""
LOSS_COLUMN_KEYS = ("drops_rate", "missed", "errors")
"""Left out where all of them are 0."""
LONG_TEXT_COLUMNS = ("profile", "ip")
"""Columns whose text may be of any length."""
COLUMNS_BY_KEY = {column.key: column for column in COLUMNS}
TREE_COLUMNS = tuple(COLUMNS_BY_KEY[key] for key in TREE_COLUMN_KEYS)


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
        *(
            _facts(row, host, open_=row.link is not None and row.link.ifindex in subjects)
            for row in described_rows(rows, snapshot)
        ),
        *_virtual_links(rows, snapshot),
        *_connections(snapshot),
        details_element("All data (JSON)", element("pre", Html(_escaped(show_json(snapshot))))),
        id_=f"host-{number}",
    )


def _escaped(ascii_json: str) -> str:
    """JSON as HTML; it consists of printable ASCII and line ends."""
    return ascii_json.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _not_live(host: HostFacts) -> Iterator[Html]:
    if state := not_live_text(host.snapshot):
        yield element("p", state, class_="warn")


def _tree(rows: tuple[Row, ...], host: HostFacts) -> Html:
    columns = [one for one in TREE_COLUMNS if one.key not in LOSS_COLUMN_KEYS or _has_losses(one, rows, host)]
    titles = ["device", *(column.title for column in columns)]
    return table(titles, ((_device(row), *(_cell(one, row, host) for one in columns)) for row in rows), class_="tree")


def _has_losses(column: Column[DeviceRow], rows: tuple[Row, ...], host: HostFacts) -> bool:
    texts = {column.cell(DeviceRow(row, host.snapshot))[0].strip() for row in rows}
    return not texts <= {"", "0", UNKNOWN}


def _device(row: Row) -> Html:
    guide = (element("span", guides(row), class_="guide"),) if row.prefix else ()
    return element("td", *guide, element("bdi", row.title))


def _cell(column: Column[DeviceRow], row: Row, host: HostFacts) -> Html:
    content, tone = column.cell(DeviceRow(row, host.snapshot))
    kind = "number" if column.align == "right" else "long" if column.key in LONG_TEXT_COLUMNS else ""
    classes = [name for name in (kind, tone) if name and name != "normal"]
    return element("td", content.strip(), class_=" ".join(classes))


def _virtual_links(rows: tuple[Row, ...], snapshot: Snapshot) -> Iterator[Html]:
    if links := links_in_the_tree_only(rows, snapshot):
        yield element("p", f"{links} in the table above; details are in the JSON data below.", class_="dim")


def _connections(snapshot: Snapshot) -> Iterator[Html]:
    """Who used the NIC whose connections were shown."""
    found = host_connections(snapshot).connections
    if found is None:
        return
    yield element("h3", f"Connections of {found.nic}")
    yield element("p", " · ".join((*nic_texts(found), number_text(found), *found.notes)), class_="dim")
    lines = users_lines(found)
    if lines:
        yield element("pre", html_lines(lines[:-1]))
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
    notes = queue_notes(found, shown)
    if notes:
        yield element("ul", *(element("li", note) for note in notes), class_="dim")
