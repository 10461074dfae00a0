"""The connections of one NIC: text and JSON of ``nictop show --connections``, and the JSON schema.

Reads nothing; takes the answers of `nictop.hosts.observe`. The JSON is ASCII with escapes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from nictop import __version__
from nictop.hosts.observe import Answer, Unreachable
from nictop.model.columns.column import fit_columns
from nictop.model.columns.connections import COLUMNS, OTHER_PARTS, nic_texts, number_text
from nictop.model.connections.table import ConnectionTable, connection_table
from nictop.model.facts import clean, wrap
from nictop.model.snapshot import Snapshot
from nictop.model.text import units
from nictop.model.text.words import recorded_text
from nictop.report.facts.hosts import SECTION_RULE, UnreachableHost, unreachable_text
from nictop.report.text_table import aligned_table, layout_width

MAX_USERS = 10
"""Processes in the text."""
NOT_RECORDED = "no connections recorded at this time: they are recorded while they are shown"


@dataclass(frozen=True)
class HostConnections:
    """One host that answered."""

    host: str
    connections: ConnectionTable | None
    """None: a recording without connections at this time."""
    recorded_at: float | None = None
    """The time of this state in a recording, seconds since the epoch; null: of a live host."""


@dataclass(frozen=True)
class ConnectionsDocument:
    """What ``nictop show --connections --format json`` prints."""

    nictop: str
    """Version of the program that wrote it."""
    hosts: tuple[Any, ...]
    """In the order of the command line: a `HostConnections` or an `UnreachableHost` of each."""


def host_connections(snapshot: Snapshot, nic: str = "") -> HostConnections:
    """Of the NIC of the newest reading, if that is `nic` ("": any)."""
    links = snapshot.connections.links if snapshot.connections is not None else ()
    table = connection_table(links[0], snapshot) if links else None
    wanted = table if table is None or nic in ("", table.nic) else None
    return HostConnections(snapshot.host, wanted, snapshot.recorded_at)


def connections_json(answers: Sequence[Answer], nic: str = "") -> str:
    """The document as indented ASCII JSON with a final newline."""
    hosts = tuple(
        UnreachableHost(one.host, one.sentence) if isinstance(one, Unreachable) else host_connections(one[0], nic)
        for one in answers
    )
    return json.dumps(msgspec.to_builtins(ConnectionsDocument(__version__, hosts), str_keys=True), indent=2) + "\n"


def connections_schema() -> str:
    """JSON schema (draft 2020-12) of that document, made from the record types, with a final newline."""
    (document, known, unreachable), parts = msgspec.json.schema_components(
        (ConnectionsDocument, HostConnections, UnreachableHost), ref_template="#/$defs/{name}"
    )
    parts["ConnectionsDocument"]["properties"]["hosts"]["items"] = {"anyOf": [known, unreachable]}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **document, "$defs": parts}
    return json.dumps(schema, indent=2) + "\n"


def connections_text(answers: Sequence[Answer], width: int, nic: str = "") -> str:
    """Each host: its NIC, the processes with their share, and the connections; at most `width` cells (40 to 200) per
    line, with a final newline."""
    width = layout_width(width)
    sections = [
        unreachable_text(one, width) if isinstance(one, Unreachable) else _host_text(one[0], width, nic)
        for one in answers
    ]
    return f"\n{SECTION_RULE * width}\n".join(sections)


def _host_text(snapshot: Snapshot, width: int, nic: str) -> str:
    table = host_connections(snapshot, nic).connections
    recorded = (recorded_text(snapshot.recorded_at),) if snapshot.recorded_at is not None else ()
    name = " · ".join((clean(snapshot.host), *recorded))
    if table is None:
        return "\n".join(wrap(f"{name}: {NOT_RECORDED}", width)) + "\n"
    lines = [*wrap(" · ".join((name, clean(table.nic), *nic_texts(table))), width), "", *table_lines(table, width)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def table_lines(table: ConnectionTable, width: int) -> list[str]:
    """The processes with their share, the connections, and what is not in the table."""
    lines = users_lines(table)
    columns = fit_columns(COLUMNS, width)
    if table.rows:
        lines.append(" ".join(column.heading for column in columns))
        lines += [" ".join(column.text(row) for column in columns) for row in table.rows]
        lines.append("")
    for note in (number_text(table), *table.notes):
        lines += wrap(note, width)
    return lines


def users_lines(table: ConnectionTable) -> list[str]:
    """The busiest processes and the rest of the NIC's bytes, with an empty line below them."""
    cells = [
        (user.name, units.percentage(user.share), units.scaled(user.rx_bits), units.scaled(user.tx_bits))
        for user in table.users[:MAX_USERS]
        if user.rx_bits or user.tx_bits
    ]
    if table.share is not None:
        rest = (units.percentage(1 - table.share), units.scaled(table.other_rx_bits), units.scaled(table.other_tx_bits))
        cells.append(("other", *rest))
    if not cells:
        return []
    lines = aligned_table([("WHO", "SHARE", "RX b/s", "TX b/s"), *cells])
    return [*lines, *((f"other: {OTHER_PARTS}",) if table.share is not None else ()), ""]
