"""A host as a section of a page: also who uses its NIC, and all of its data.

Reads nothing; takes a watched host.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from functools import partial

from nictop.model.devices.tree import device_tree
from nictop.report.document import Block, Data, Line, Section
from nictop.report.facts.connection_document import connection_sections
from nictop.report.facts.guest_document import guests_of_host
from nictop.report.facts.host import show_json
from nictop.report.facts.host_document import (
    chains_by_row,
    cpu_line,
    described_rows,
    device_section,
    device_table,
    headline_text,
    links_without_facts,
    not_live_lines,
)
from nictop.report.facts.peers import Peers
from nictop.rules import HostFacts
from nictop.rules.by_device import DeviceFindings


def host_section(
    host: HostFacts,
    number: int,
    open_links: AbstractSet[int | None],
    findings: DeviceFindings,
    peers: Peers,
) -> Section:
    """A host, for a page. `open_links`: ifindexes of the NICs with findings, whose facts are
    open."""
    snapshot = host.snapshot
    rows = device_tree(snapshot)
    blocks: list[Block] = [Line(headline_text(snapshot), "dim"), *not_live_lines(snapshot)]
    blocks.append(Section((device_table(rows, snapshot),)))
    blocks.append(Section((cpu_line(snapshot),)))
    described = list(described_rows(rows, snapshot))
    chains = chains_by_row(described, snapshot, findings)
    for row in described:
        is_open = row.link is not None and row.link.ifindex in open_links
        blocks.append(
            device_section(
                row,
                snapshot,
                host.queue_map,
                chains.get(row.key, ()),
                peers=peers,
                is_open=is_open,
            )
        )
    blocks += links_without_facts(rows, snapshot)
    blocks += guests_of_host(snapshot)
    blocks += connection_sections(snapshot)
    blocks.append(Data("All data (JSON)", partial(show_json, snapshot, findings)))
    return Section(
        tuple(blocks), host.name, form="reference", anchor=f"host-{number}", entry=host.name
    )
