"""Hosts in a page: the tree of their NICs with the live numbers, the facts and the queue map of each, and all of it as
data.

Reads nothing; takes a watched host and yields HTML. The tree, the facts and the queues are those of the screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from nictop.model.columns.column import Column
from nictop.model.columns.devices import COLUMNS, DeviceRow
from nictop.model.columns.queues import COLUMNS as QUEUE_COLUMNS
from nictop.model.columns.queues import MOVED_NOTE, NOT_OFFERED
from nictop.model.devices.tree import Row, device_tree, guides
from nictop.model.facts import Section, is_virtual, state_words
from nictop.model.facts.facts import link_facts
from nictop.model.text import units
from nictop.probe.records import Link
from nictop.report.facts.host import show_json
from nictop.report.findings.check import checked_host, checked_host_text
from nictop.report.html.elements import LINE_END, Html, details_element, element, join_html, table
from nictop.rules import HostFacts

TREE_COLUMN_KEYS = ("link", "profile", "driver", "in", "out", "drops", "ip", "mtu")
"""Columns of the tree; the facts below have the rest."""
LONG_TEXT_COLUMNS = ("profile", "ip")
"""Those with text of any length."""
TREE_COLUMNS = tuple(column for key in TREE_COLUMN_KEYS for column in COLUMNS if column.key == key)


def host_html(host: HostFacts, number: int, subjects: Set[int | None]) -> Html:
    """The chapter of one host. `subjects`: ifindexes of the NICs that findings are about, whose facts stand open."""
    snapshot = host.snapshot
    rows = device_tree(snapshot)
    return element(
        "section",
        element("h2", host.name),
        element("p", checked_host_text(checked_host(host)), class_="dim"),
        *_not_live(host),
        _tree(rows, host),
        element("p", *_processors(host)),
        *(_facts(row, host, open_=row.link is not None and row.link.ifindex in subjects) for row in _described(rows)),
        *_virtual_links(rows),
        details_element("All facts as data (JSON)", element("pre", Html(_escaped(show_json(snapshot))))),
        id_=f"host-{number}",
    )


def _escaped(ascii_json: str) -> str:
    """JSON that is printable ASCII and line ends already."""
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
    said, tone = column.cell(DeviceRow(row, host.snapshot))
    kind = "number" if column.align == "right" else "long" if column.key in LONG_TEXT_COLUMNS else ""
    classes = [name for name in (kind, tone) if name and name != "normal"]
    return element("td", said.strip(), class_=" ".join(classes))


def _processors(host: HostFacts) -> Iterator[str]:
    """The mean over all CPUs, and the busiest one."""
    cpus = host.snapshot.rates.cpus if host.snapshot.rates is not None else {}
    if not cpus:
        yield "CPU: no rates"
        return
    kinds = ("user", "system", "irq", "softirq", "steal", "guest", "iowait", "idle")
    means = ((kind, sum(getattr(shares, kind) for shares in cpus.values()) / len(cpus)) for kind in kinds)
    yield "CPU: " + " · ".join(f"{kind} {units.percentage(mean)}" for kind, mean in means)
    busiest = max(cpus, key=lambda cpu: cpus[cpu].busy)
    yield f" · busiest CPU{busiest} {units.percentage(cpus[busiest].busy)}"


def _described(rows: tuple[Row, ...]) -> Iterator[Row]:
    """The host, functions without a netdev, VFs, and netdevs of devices: the facts of a netdev end with those of its
    function."""
    carried = {row.link.pci_address for row in rows if row.link is not None}
    for row in rows:
        if row.kind == "link":
            told = row.link is not None and not is_virtual(row.link)
        else:
            told = row.kind in ("host", "vf") or (row.pci is not None and row.pci.address not in carried)
        if told:
            yield row


def _virtual_links(rows: tuple[Row, ...]) -> Iterator[Html]:
    number = sum(1 for row in rows if row.link is not None and is_virtual(row.link))
    if number:
        links = f"{number} virtual link{'' if number == 1 else 's'}"
        yield element("p", f"{links} in the tree; the data below tells all of them.", class_="dim")


def _facts(row: Row, host: HostFacts, *, open_: bool) -> Html:
    summary = [element("bdi", row.title)]
    if row.link is not None:
        said, tone = state_words(row.link)
        summary.append(element("span", f" · {said}", class_="" if tone == "normal" else tone))
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
    """Queue, interrupt and CPU of a netdev; queues that are out of use are left to the data."""
    found = host.queue_map(link)
    if not found.rows and not found.unmapped:
        return
    shown = [*(row for row in found.rows if row.in_use or row.interrupts), found.total]
    cells = [[column.cell(row)[0].strip() for column in QUEUE_COLUMNS] for row in shown]
    used = [number for number, column in enumerate(zip(*cells, strict=True)) if any(column)]
    yield element("h4", "Queues")
    yield table((QUEUE_COLUMNS[number].title for number in used), ([row[number] for number in used] for row in cells))
    notes = [f"interrupt {one.interrupt.number} ({one.interrupt.name}): no queue" for one in found.others]
    notes += [
        f"interrupt {one.interrupt.number} ({one.interrupt.name}): not mapped to a queue" for one in found.unmapped
    ]
    if found.busiest_share is not None and len(found.rows) > 1:
        notes.append(f"busiest queue {found.busiest}: {units.percentage(found.busiest_share)} of all")
    if any(NOT_OFFERED in row for row in cells):
        notes.append(f"{NOT_OFFERED}: not offered, the driver does not count it per queue")
    if any(one.interrupt.shared for one in found.total.loads):
        notes.append("*: serves several queues")
    if any(row.has_moved for row in shown if row.queue is not None):
        notes.append(MOVED_NOTE)
    if notes:
        yield element("ul", *(element("li", note) for note in notes), class_="dim")
